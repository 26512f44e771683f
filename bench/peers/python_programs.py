"""Small programs that measure a module's own overhead: the same lines for Tandem's module and for TensorFlow's."""

import os
import subprocess
import sys
import time
from typing import Callable

MAP_ELEMENTS = 10_000


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def import_seconds(module: str, repetitions: int = 5) -> float:
    """What an import costs beyond the interpreter itself, once the module's bytecode was written."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)

    def best(code: str) -> float:
        return min(seconds_of(lambda: run(code)) for _ in range(repetitions))

    run(f"import {module}")
    return best(f"import {module}") - best("pass")


def eager_add(tf):
    """A step is one addition of eight numbers."""
    a, b = tf.constant([float(i) for i in range(8)]), tf.constant([1.0] * 8)

    def run(steps):
        for _ in range(steps):
            c = a + b
        return float(c[0])

    return run


def mapped(tf):
    """A step is one element of a data set that a function of ops makes."""

    def run(steps):
        elements = iter(tf.data.Dataset.range(max(steps, MAP_ELEMENTS)).map(lambda v: v * 2 + 1))
        for _ in range(steps):
            value = next(elements)
        return float(value)

    return run


PROGRAMS = {"py_eager": eager_add, "py_map": mapped}
