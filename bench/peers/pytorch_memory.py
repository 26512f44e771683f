"""The memory that training the transformer of bench/transformer.cpp takes in PyTorch, each way in a process of its own:
how much the most that the process ever held grows from before the model is made."""

import subprocess
import sys

NAMES = ("peak_memory",)
WAYS = ("eager", "compiled")


def peak_resident() -> float:
    """Megabytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def measure(way: str, threads: int) -> None:
    """Prints megabytes and loss."""
    import pytorch_transformer
    import torch
    from data import LOSS_STEP, TRANSFORMERS

    torch.set_num_threads(threads)
    before = peak_resident()
    run = pytorch_transformer.stepwise(TRANSFORMERS["gpt_block"], compiled=way == "compiled")
    loss = run(LOSS_STEP)
    print(peak_resident() - before, loss)


def report_peak(name: str, threads: int) -> None:
    results = []
    for way in WAYS:
        command = [sys.executable, __file__, way, str(threads)]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        megabytes, loss = map(float, output.split())
        print(f"{name}: {way}: {megabytes:.1f} MB, loss {loss:.9g}", file=sys.stderr, flush=True)
        results.append((megabytes, loss))
    megabytes, loss = min(results)
    print(f"{name}\t{megabytes:.9g}\tMB")
    print(f"{name}.loss\t{loss:.9g}\tloss", flush=True)


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]))
