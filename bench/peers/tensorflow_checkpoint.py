"""The work of bench/checkpoint.cpp in TensorFlow, by name. TensorFlow renames its files into place but never syncs them:
its save ends when the page cache has the bytes. In the place of a loss stands the sum of what was saved or restored."""

import os
import shutil
import tempfile
import time

import numpy as np

from data import uniform

NAMES = ("ckpt_save", "ckpt_restore")
VARIABLES = 64
SIDE = 1024
REPETITIONS = 10


def report(name: str) -> None:
    import tensorflow as tf  # after the command line is read, which sets the number of threads

    values = uniform(7, SIDE * SIDE).astype(np.float32).reshape(SIDE, SIDE)
    variables = [tf.Variable(values) for _ in range(VARIABLES)]
    checkpoint = tf.train.Checkpoint(model=variables)
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "ckpt")

    def save() -> float:
        """From an idle disk without such files."""
        shutil.rmtree(folder)
        os.mkdir(folder)
        os.sync()
        start = time.perf_counter()
        checkpoint.write(path)
        return time.perf_counter() - start

    def restore() -> float:
        start = time.perf_counter()
        checkpoint.read(path)
        return time.perf_counter() - start

    try:
        save()
        if name == "ckpt_restore":
            for variable in variables:
                variable.assign(tf.zeros_like(variable))
        run = save if name == "ckpt_save" else restore
        run()
        seconds = min(run() for _ in range(REPETITIONS))
    finally:
        shutil.rmtree(folder)
    total = sum(np.sum(variable.numpy(), dtype=np.float64) for variable in variables)
    print(f"{name}\t{seconds * 1e6:.9g}\tus")
    print(f"{name}.loss\t{total:.9g}\tloss", flush=True)
