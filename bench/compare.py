#!/usr/bin/env python3
"""Runs tandem-bench, the Python module and the same work in other frameworks in turns, and holds the results against the
targets.

Exit status: 0 all targets met; 1 something failed, or losses disagree, so that the work was not the same; 2 a target
was missed. `make peers PEERS=dir` installs the other frameworks.
"""

import argparse
import itertools
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PEERS = ("tensorflow", "pytorch", "jax")
# PyTorch's C++ library is compiled against, from the headers and libraries of PyTorch's own environment.
COLUMNS = (*PEERS, "libtorch")


class Target(NamedTuple):
    """One figure of tandem-bench. With peers, `limit` bounds it over the best of the peers in `against` (all that run
    it, if empty), measured in `measure`; without, it bounds the figure itself, in `unit`. A figure that is the quotient
    of two of our own times, `name.a` over `name.b`, names them in `quotient`."""

    name: str
    limit: float
    unit: str = "x"
    peers: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    peer_name: str = ""  # what the peers call this work, if not `name`
    benchmark: str = ""  # the benchmark of tandem-bench that prints it, if not `name`
    figure: str = ""  # what tandem-bench calls it, if not `name`
    measure: str = "time"  # of what is compared with peers; or "MB"
    at_least: bool = False  # the limit is a lower one
    quotient: tuple[str, str] | tuple[()] = ()
    may_skip: bool = False  # tandem-bench says so, on its other output, where the machine does not allow it


# Eager calls on 64K and 16M elements.
ELEMENTWISE = tuple(
    Target(f"elementwise_{name}_{size}", 1.0, peers=("pytorch",), benchmark=f"elementwise_{name}")
    for name in ("add", "broadcast_add", "where", "exp", "tanh", "gelu")
    for size in ("64K", "16M")
)

# Layers, forward and in training.
LAYERS = tuple(
    Target(f"{name}{suffix}", 1.0, peers=("pytorch",), benchmark=name)
    for name in (
        *("conv_3x3_32_64", "conv_first", "conv_1x1_256", "conv_depthwise"),
        *("pool_max", "pool_avg", "norm_batch", "norm_layer", "softmax_1024", "softmax_10"),
    )
    for suffix in ("", "_train")
)

# Training while another process spins, held on one core or free to move: against the undisturbed step, and against the
# peers in the same trouble.
BUSY = tuple(
    Target(f"busy_{work}_{how}", limit, benchmark=f"busy_{work}", quotient=("busy", "alone"))
    for work, limit in (("mlp10", 3.0), ("seed_fit", 3.0), ("gpt", 2.0))
    for how in ("pinned", "free")
) + tuple(
    Target(
        f"busy_{work}_{how}_peers",
        0.5,
        peers=PEERS,
        peer_name=f"busy_{work}_{how}",
        benchmark=f"busy_{work}",
        figure=f"busy_{work}_{how}.busy",
    )
    for work in ("mlp10", "seed_fit")
    for how in ("pinned", "free")
)

# Two processes of one thread: training against PyTorch's DistributedDataParallel over gloo, against one process and with
# sums behind the backward pass against sums after it; and sums alone, against Open MPI over the same.
MULTI_WORKER = (
    Target("mw_mlp10", 0.06, peers=("pytorch",)),
    *(
        Target(f"mw_mlp1024_{transport}", limit, peers=("pytorch",), peer_name="mw_mlp1024", benchmark="mw_mlp1024")
        for transport, limit in (("tcp", 0.65), ("shm", 0.5))
    ),
    Target("mw_convnet", 1.7, at_least=True, quotient=("one", "two")),
    Target("zero1_memory", 0.27),
    Target("pp_torch", 0.7, peers=("pytorch",)),  # torch.distributed.pipelining
    Target("mw_overlap", 0.85, quotient=("overlapped", "apart"), may_skip=True),
    *(
        Target(f"mw_allreduce_{size}_{transport}", limit, benchmark="mw_allreduce", quotient=("tandem", "openmpi"))
        for size, limit in (("10KB", 1.3), ("33MB", 1.1))
        for transport in ("tcp", "shm")
    ),
)

# Parameter servers as processes: training against TensorFlow's, a push and a pull against a bare stream of the same
# bytes, and what workers that do not wait for a slow one gain.
PARAMETER_SERVERS = (
    Target("ps_mlp10", 0.1, peers=("tensorflow",)),
    Target("ps_mlp1024", 0.5, peers=("tensorflow",)),
    *(
        Target(f"ps_roundtrip_{size}", 1.3, benchmark="ps_roundtrip", quotient=("tandem", "stream"))
        for size in ("40KB", "4MB")
    ),
    Target("ps_embedding", 1.1),  # bytes moved over bytes of the rows touched
    Target("ps_straggler", 2.0, at_least=True, quotient=("in_step", "unbounded")),
)

# OpenCL devices, PoCL's where the machine has no GPU: against the same step written by hand, CLBlast as it comes, and our
# own CPU.
GPU = (
    Target("gpu_mlp10", 1.3, quotient=("tandem", "handwritten")),
    Target("gpu_mlp1024", 1.15, quotient=("tandem", "handwritten")),
    Target("gpu_matmul1024", 0.35, quotient=("tandem", "clblast")),
    Target("gpu_convnet", 4.0, quotient=("gpu", "cpu")),
    Target("gpu_gpt_block", 4.0, quotient=("gpu", "cpu")),
    Target("gpu_issue", 3, "us"),
    Target("gpu_first_step", 400, "ms"),
    Target("gpu_overlap", 60, "%", at_least=True),
)

# The Python module: against the same work in C++, and against the peers' modules. bench/python_face.py times it.
PYTHON = (
    Target("py_import", 150, "ms"),
    Target("py_import_peers", 0.1, peers=("tensorflow",), peer_name="py_import", benchmark="py_import", figure="py_import"),
    Target("py_seed_fit", 1.15, quotient=("python", "cpp")),
    Target("py_seed_loop", 1.5, quotient=("python", "cpp")),
    Target(
        "py_seed_loop_peers",
        0.05,
        peers=("tensorflow",),
        peer_name="seed_mirrored",
        benchmark="py_seed_loop",
        figure="py_seed_loop.python",
    ),
    Target("py_eager", 0.2, peers=("tensorflow",)),
    Target("py_eager_pytorch", 0.7, peers=("pytorch",), peer_name="py_eager", benchmark="py_eager", figure="py_eager"),
    Target("py_map", 0.5, peers=("tensorflow",)),  # tf.data
)

TARGETS = (
    Target("mlp10", 0.20, peers=PEERS, against=("jax",)),
    Target("mlp1024", 0.85, peers=PEERS),
    Target("convnet", 0.55, peers=PEERS),
    Target("gpt_block", 0.8, peers=PEERS),
    Target("peak_memory", 0.7, peers=("pytorch",), measure="MB"),
    Target("seed_mirrored", 0.02, peers=("tensorflow",)),  # a call per step on both sides, as in a loop of one's own
    # The same figure against TensorFlow with the loop over the steps moved into one tf.function.
    Target("seed_mirrored_loop", 0.02, peers=("tensorflow",), benchmark="seed_mirrored", figure="seed_mirrored"),
    Target("mirrored_mlp1024", 0.9, peers=PEERS, peer_name="mlp1024"),
    Target("mirrored_gain", 0.65, quotient=("two", "one")),
    Target("mirrored_scaling", 1.85, at_least=True, quotient=("one", "two")),
    Target("central_overhead", 1.1, quotient=("central", "mirrored")),
    Target("pp_gpt", 1.4, quotient=("one", "two"), at_least=True),
    Target("plan_error", 0.3),
    Target("tp_gpt", 1.6, quotient=("one", "two"), at_least=True),
    Target("micro_overhead", 1.1, quotient=("parts", "whole")),
    Target("micro_overhead.memory", 0.4, benchmark="micro_overhead"),
    Target("eager_add", 1.5, "us"),
    Target("local_allreduce_10KB", 2, "us", benchmark="local_allreduce"),
    Target("local_allreduce_33MB", 1.3, benchmark="local_allreduce"),  # times a memory triad of the same bytes
    Target("first_step_mlp10", 20, "ms", benchmark="first_step"),
    Target("first_step_convnet", 150, "ms", benchmark="first_step"),
    Target("first_step_gpt", 600, "ms", benchmark="first_step"),
    Target("startup", 50, "ms"),
    Target("oversubscribed", 1.3, quotient=("four", "two")),  # four logical CPUs over two
    *ELEMENTWISE,
    Target("reduce_sum_16M", 1.0, peers=("pytorch",)),
    Target("reduce_rows_4096x4096", 1.0, peers=("pytorch",)),
    Target("transpose_4096", 1.0, peers=("pytorch",)),
    Target("gather_rows", 1.0, peers=("pytorch",)),
    Target("matmul4096", 1.03, peers=("pytorch", "jax")),
    *LAYERS,
    Target("random_normal_16M", 1.0, peers=("pytorch",)),
    Target("random_uniform_16M", 1.0, peers=("pytorch",)),
    Target("dropout_16M", 1.0, peers=("pytorch",)),
    # 256 MB. Our save ends when the disk has it, TensorFlow's when the page cache has it.
    Target("ckpt_save", 0.7, peers=("tensorflow",)),
    Target("ckpt_restore", 0.7, peers=("tensorflow",)),
    Target("input", 0.25, peers=("tensorflow",)),  # tf.data
    Target("mirrored_fit", 0.04, peers=("tensorflow",)),
    Target("seed_fit", 0.08, peers=PEERS, against=("tensorflow",)),  # only TensorFlow has a `fit`
    Target("convnet_fit", 0.5, peers=PEERS),
    Target("inception", 0.8, peers=("tensorflow", "pytorch")),
    *BUSY,
    *MULTI_WORKER,
    *PARAMETER_SERVERS,
    # One row: calls per second of two threads of an application over those of one.
    Target("infer_threads_function", 1.8, at_least=True, benchmark="infer_threads", quotient=("one", "two")),
    Target("infer_threads_predict", 1.8, at_least=True, benchmark="infer_threads", quotient=("one", "two")),
    Target("infer_eager", 0.7, peers=("libtorch",)),
    *GPU,
    *PYTHON,
)

MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
LOSS_TOLERANCE = 1e-3
TIMEOUT_SECONDS = 1800


class Figure(NamedTuple):
    """One line of output: a time in us, or a ratio ("x"), loss or memory ("MB") as it is."""

    value: float
    kind: str


# What one process printed, by name.
Figures = dict[str, Figure]
# One round: the figures of "tandem" and of each peer.
Round = dict[str, Figures]


def fail(message: str):
    sys.exit(f"compare: {message}")


def kind_of(unit: str) -> str:
    """What is measured in this unit."""
    return "time" if unit in MICROSECONDS else unit


def tandem_kind(target: Target) -> str:
    return target.measure if target.peers else kind_of(target.unit)


def peer_name(target: Target) -> str:
    return target.peer_name or target.name


def own_name(target: Target) -> str:
    return target.figure or target.name


def rivals(target: Target) -> tuple[str, ...]:
    return target.against or target.peers


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = fail  # argparse's own status, 2, means a missed target here
    parser.add_argument("--bench", required=True, help="the tandem-bench program")
    parser.add_argument("--peers", type=Path, default=Path("peers"), help="the directory of `make peers`")
    parser.add_argument("--python", type=Path, default=Path("build/venv/bin/python"), help="the one that has the module")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", metavar="NAME", nargs="*", help="benchmarks to run, by default all")
    arguments = parser.parse_args()
    known = [target.name for target in TARGETS]
    unknown = set(arguments.names) - set(known)
    if unknown:
        fail(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if arguments.rounds < 1:
        fail("--rounds must be at least 1")
    return arguments


def libtorch_peer(venv: Path) -> Path:
    """The program that times libtorch, compiled into the environment of PyTorch if it is not there yet."""
    source = Path(__file__).parent / "peers" / "libtorch_peer.cpp"
    program = venv / "libtorch_peer"
    if program.is_file() and program.stat().st_mtime >= source.stat().st_mtime:
        return program
    torch = next(venv.glob("lib/python3*/site-packages/torch"), None)
    if torch is None:
        fail(f"{venv} has no PyTorch: make peers PEERS={venv.parent}")
    print("compiling the libtorch peer", file=sys.stderr, flush=True)
    include = torch / "include"
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-w", str(source), "-o", str(program)]
    command += [f"-I{include}", f"-I{include}/torch/csrc/api/include", f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib"]
    command += ["-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    if subprocess.run(command).returncode != 0:
        fail(f"the libtorch peer does not compile: {' '.join(command)}")
    return program


def peer_command(peers: Path, peer: str) -> list[str]:
    venv = peers / ("pytorch" if peer == "libtorch" else peer)
    if not (venv / "complete").is_file():
        fail(f"{venv} is missing or not complete: make peers PEERS={peers}")
    if peer == "libtorch":
        return [str(libtorch_peer(venv.resolve()))]
    return [str(venv / "bin" / "python"), str(Path(__file__).parent / "peers" / f"{peer}_peer.py")]


def commands(bench: str, python: Path, peers: Path, targets: list[Target]) -> dict[str, list[str]]:
    """Who runs, in this order, and how, each with the names it is to run."""
    own = dict.fromkeys(target.benchmark or target.name for target in targets)
    in_python = [name for name in own if name.startswith("py_")]
    in_cpp = [name for name in own if name not in in_python]
    result = {}
    if in_cpp:
        result["tandem"] = [bench, *in_cpp]
    if in_python:
        face = Path(__file__).parent / "python_face.py"
        result["tandem in Python"] = [str(python), str(face), "--bench", bench, *in_python]
    for peer in COLUMNS:
        names = dict.fromkeys(peer_name(target) for target in targets if peer in target.peers)
        if names:
            result[peer] = [*peer_command(peers, peer), *names]
    return result


def parse_figure(who: str, line: str) -> tuple[str, Figure]:
    try:
        name, value, unit = line.split("\t")
        return name, Figure(float(value) * MICROSECONDS.get(unit, 1.0), kind_of(unit))
    except ValueError:
        fail(f"{who} printed {line!r} where name, value and unit, divided by tabs, were expected")


def run(who: str, command: list[str]) -> Figures:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except OSError as error:
        fail(f"{who}: {error}")
    except subprocess.TimeoutExpired:
        fail(f"{who} did not end within {TIMEOUT_SECONDS} s: {' '.join(command)}")
    if process.returncode != 0:
        fail(f"{who} ended with status {process.returncode}: {' '.join(command)}\n{process.stderr}")
    for line in process.stderr.splitlines():
        if ": skipped: " in line:
            print(line, file=sys.stderr, flush=True)
    return dict(parse_figure(who, line) for line in process.stdout.splitlines())


def figure(results: Round, who: str, name: str, kind: str = "time") -> float:
    if name not in results[who]:
        fail(f"{who} printed no line for {name}")
    found = results[who][name]
    if found.kind != kind:
        fail(f"{who} printed {name} as {found.kind} where {kind} was expected")
    return found.value


def own_figure(results: Round, target: Target) -> float:
    return figure(results, "tandem", own_name(target), tandem_kind(target))


def is_skipped(results: Round, target: Target) -> bool:
    return target.may_skip and own_name(target) not in results["tandem"]


def check_complete(results: Round, targets: list[Target]) -> None:
    """Every figure that the table needs was printed."""
    for target in targets:
        if is_skipped(results, target):
            continue
        own_figure(results, target)
        for peer in target.peers:
            figure(results, peer, peer_name(target), target.measure)


def check_losses(results: Round, targets: list[Target]) -> None:
    """The same work gives the same loss, up to rounding, whoever does it."""
    losses: dict[str, dict[str, float]] = {}
    for target in targets:
        if not target.peers:
            continue
        group = losses.setdefault(peer_name(target), {})
        own = own_name(target)
        group[f"tandem's {own}"] = figure(results, "tandem", f"{own}.loss", "loss")
        for peer in target.peers:
            group[f"{peer}'s {peer_name(target)}"] = figure(results, peer, f"{peer_name(target)}.loss", "loss")
    for name, group in losses.items():
        pairs = itertools.combinations(group.values(), 2)
        if not all(math.isclose(a, b, rel_tol=LOSS_TOLERANCE) for a, b in pairs):
            found = "".join(f"\n  {who}: {loss:.9g}" for who, loss in group.items())
            fail(f"the losses of {name} differ by more than {LOSS_TOLERANCE:g} of their size:{found}")


def run_round(label: str, to_run: dict[str, list[str]]) -> Round:
    results = {}
    for who, command in to_run.items():
        print(f"{label}: {who}", file=sys.stderr, flush=True)
        results[who] = run(who, command)
    results["tandem"] = results.get("tandem", {}) | results.pop("tandem in Python", {})
    return results


def rival_figure(results: Round, target: Target) -> float:
    return min(figure(results, peer, peer_name(target), target.measure) for peer in rivals(target))


def ratios(rounds: list[Round], target: Target) -> tuple[float, float]:
    """Tandem over its best rival: best of all rounds over best of all rounds, and the median of each round's ratio."""
    own = [own_figure(results, target) for results in rounds]
    others = [rival_figure(results, target) for results in rounds]
    return min(own) / min(others), statistics.median(a / b for a, b in zip(own, others))


def best_part(rounds: list[Round], name: str) -> float:
    return min(figure(results, "tandem", name) for results in rounds)


def judged_figure(rounds: list[Round], target: Target) -> float:
    """Times are judged by the best round, which other load disturbs least, a quotient of two times by the best round of
    each; any other ratio that tandem-bench printed by the median, because noise can make it better as well as worse."""
    if target.peers:
        return ratios(rounds, target)[0]
    if target.quotient:
        over, under = (best_part(rounds, f"{target.name}.{part}") for part in target.quotient)
        return over / under
    own = [own_figure(results, target) for results in rounds]
    if tandem_kind(target) == "time":
        return min(own) / MICROSECONDS[target.unit]
    return statistics.median(own)


def describe(value: float, kind: str) -> str:
    if kind != "time":
        return f"{value:.3g} {kind}"
    return f"{value:.4g} us" if value < 1e4 else f"{value / 1e3:.4g} ms"


def describe_limit(target: Target) -> str:
    if not target.peers:
        return f"{'>=' if target.at_least else '<='} {target.limit:g} {target.unit}"
    rival = rivals(target)[0] if len(rivals(target)) == 1 else "best peer"
    work = f"'s {target.peer_name}" if target.peer_name else ""
    return f"<= {target.limit:g} x {rival}{work}"


def table_row(rounds: list[Round], target: Target) -> list[str]:
    if any(is_skipped(results, target) for results in rounds):
        return [target.name, *["-"] * (len(COLUMNS) + 4), describe_limit(target), "skipped"]
    kind = tandem_kind(target)
    own = [own_figure(results, target) for results in rounds]
    best = max(own) if target.at_least else min(own)
    row = [target.name, describe(best, kind), describe(statistics.median(own), kind)]
    for peer in COLUMNS:
        if peer in target.peers:
            best = min(figure(results, peer, peer_name(target), target.measure) for results in rounds)
            row.append(describe(best, target.measure))
        else:
            row.append("-")
    judged = judged_figure(rounds, target)
    if target.peers:
        row += [f"{ratio:.3g}" for ratio in ratios(rounds, target)]
    else:
        row += [f"{judged:.3g}" if target.quotient else "-", "-"]
    met = judged >= target.limit if target.at_least else judged <= target.limit
    return [*row, describe_limit(target), "ok" if met else "MISS"]


def print_table(rows: list[list[str]]) -> None:
    header = ["name", "tandem best", "tandem median", *(f"{peer} best" for peer in COLUMNS)]
    header += ["ratio of bests", "median ratio", "target", ""]
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main() -> int:
    arguments = parse_arguments()
    targets = [target for target in TARGETS if not arguments.names or target.name in arguments.names]
    to_run = commands(arguments.bench, arguments.python, arguments.peers, targets)
    rounds = []
    for number in range(1, arguments.rounds + 1):
        rounds.append(run_round(f"round {number}/{arguments.rounds}", to_run))
        check_complete(rounds[-1], targets)
        check_losses(rounds[-1], targets)
    rows = [table_row(rounds, target) for target in targets]
    print_table(rows)
    return 2 if any(row[-1] == "MISS" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
