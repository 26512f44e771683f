"""Steps while another process spins, held on one core or free to move, as in bench/busy.cpp."""

import contextlib
import os
import statistics
import subprocess
import sys
import time
from typing import Callable

from data import LOSS_STEP, Runner

# What is trained, and how the spinning process is placed.
NAMES = {f"busy_{work}_{how}": (work, how) for work in ("mlp10", "seed_fit") for how in ("pinned", "free")}

SETTLE_SECONDS = 0.5
SECONDS = 2


@contextlib.contextmanager
def spinner(how: str):
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        if how == "pinned":
            os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        yield
    finally:
        process.kill()
        process.wait()


def median_seconds(run: Runner, steps: int) -> float:
    """Of a step: the median over calls that make so many at once."""
    start = time.perf_counter()
    while time.perf_counter() - start < SETTLE_SECONDS:
        run(steps)
    times = []
    start = time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        begin = time.perf_counter()
        run(steps)
        times.append((time.perf_counter() - begin) / steps)
    return statistics.median(times)


def report(name: str, ways: dict[str, Callable[[], Runner]], steps: int = 1) -> None:
    """Prints the best of all ways of doing the same work."""
    results = []
    for way, make in ways.items():
        run = make()
        loss = run(LOSS_STEP)
        with spinner(NAMES[name][1]):
            seconds = median_seconds(run, steps)
        print(f"{name}: {way}: {seconds * 1e6:.1f} us, loss {loss:.9g}", file=sys.stderr, flush=True)
        results.append((seconds, loss))
    seconds, loss = min(results)
    print(f"{name}\t{seconds * 1e6:.9g}\tus")
    print(f"{name}.loss\t{loss:.9g}\tloss", flush=True)
