#!/usr/bin/env python3
"""Compares ops and their gradients with TensorFlow's on random shapes and values.

Run by the TensorFlow virtualenv of `make peers`. Prints a line for each op; exit status 1 if any differs, or if
tandem-interop knows an op that has no row here, or the other way round.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

from cases import OPS, Case

TOLERANCE = {"float64": 1e-9, "float32": 1e-5}


def tensorflow_results(op: str, case: Case, weights: np.ndarray | None) -> tuple[np.ndarray, list]:
    """The output, and for each input its gradient or None."""
    inputs = [tf.constant(x) for x in case.inputs]
    with tf.GradientTape() as tape:
        for x in inputs:
            if x.dtype.is_floating:
                tape.watch(x)
        output = OPS[op].reference(inputs, case.attributes)
        loss = tf.reduce_sum(output * weights) if weights is not None else None
    if loss is None:
        return output.numpy(), [None] * len(inputs)
    gradients = tape.gradient(loss, inputs)
    return output.numpy(), [None if g is None else tf.convert_to_tensor(g).numpy() for g in gradients]


def weights_of(rng: np.random.Generator, op: str, case: Case) -> np.ndarray | None:
    output = OPS[op].reference([tf.constant(x) for x in case.inputs], case.attributes)
    if not output.dtype.is_floating:
        return None
    return rng.uniform(-1, 1, output.shape).astype(output.dtype.as_numpy_dtype)


def difference(got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest, relative to numbers above 1; infinite where the shapes or the places of NaN differ."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return np.inf
    if got.dtype.kind != "f":
        return 0.0 if np.array_equal(got, wanted) else np.inf
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0, np.abs(got - wanted) / np.maximum(1, np.abs(wanted)))
    return float(np.nan_to_num(distance, nan=np.inf).max(initial=0))


def run_program(program: str, entries: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        cases, results = pathlib.Path(folder, "cases.npz"), pathlib.Path(folder, "results.npz")
        np.savez(cases, **entries)
        subprocess.run([program, cases, results], check=True, timeout=600)
        with np.load(results) as archive:
            return dict(archive)


def check_op(program: str, op: str, count: int, seed: int) -> str | None:
    """Compares `count` cases of each dtype; what is wrong with the first that differs, if any."""
    rng = np.random.default_rng([seed, *op.encode()])
    drawn = [OPS[op].draw(rng, dtype) for dtype in TOLERANCE for _ in range(count)]
    tolerances = [tolerance * OPS[op].looser for tolerance in TOLERANCE.values() for _ in range(count)]
    entries, weights = {}, []
    for number, case in enumerate(drawn):
        gradients = OPS[op].differentiable(case)
        description = json.dumps({"op": op, "attributes": case.attributes, "gradients": gradients}).encode()
        entries[f"{number}/case"] = np.frombuffer(description, np.uint8)
        entries |= {f"{number}/input{i}": x for i, x in enumerate(case.inputs)}
        weights.append(weights_of(rng, op, case))
        if weights[-1] is not None:
            entries[f"{number}/weights"] = weights[-1]
    results = run_program(program, entries)

    worst = 0.0
    for number, (case, tolerance) in enumerate(zip(drawn, tolerances)):
        what = f"{op}({', '.join(f'{x.dtype}{list(x.shape)}' for x in case.inputs)}) {case.attributes}"
        if f"{number}/error" in results:
            return f"{what}: {bytes(results[f'{number}/error']).decode()}"
        output, gradients = tensorflow_results(op, case, weights[number])
        pairs = {"the result": (results[f"{number}/output"], output)}
        for i in OPS[op].differentiable(case):
            zero = np.zeros_like(case.inputs[i])
            wanted = zero if gradients[i] is None else gradients[i]
            pairs[f"gradient {i}"] = (results.get(f"{number}/gradient{i}", zero), wanted)
        for name, (got, wanted) in pairs.items():
            apart = difference(got, wanted)
            if apart > tolerance:
                return f"{what}: {name} differs by {apart:.3g}: {got.ravel()[:4]} and {wanted.ravel()[:4]}"
            worst = max(worst, apart / tolerance)
    print(f"{op:<36} ok    {len(drawn)} cases, at most {worst:.2g} of the tolerance", flush=True)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="tandem-interop")
    parser.add_argument("--cases", type=int, default=20, help="of each op and dtype")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", metavar="OP", nargs="*", help="ops to compare, by default all")
    arguments = parser.parse_args()

    known = subprocess.run([arguments.program, "--ops"], check=True, capture_output=True, text=True).stdout.split()
    one_sided = sorted(set(known) ^ set(OPS))
    unknown = sorted(set(arguments.names) - set(OPS))
    if one_sided or unknown:
        print(f"not on both sides of the table: {', '.join(one_sided + unknown)}")
        return 1

    names = arguments.names or sorted(OPS)
    failures = 0
    for op in names:
        problem = check_op(arguments.program, op, arguments.cases, arguments.seed)
        if problem:
            failures += 1
            print(f"{op:<36} FAILED {problem}", flush=True)
    print(f"{len(names) - failures} of {len(names)} ops agree with TensorFlow {tf.__version__}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
