"""The work of bench/checkpoint.cpp in TensorFlow, by name. TensorFlow renames its files into place but never syncs them:
its save ends when the page cache has the bytes. In the place of a loss stands the sum of what was saved or restored."""

import atexit
import os
import shutil
import tempfile

import numpy as np

from data import uniform

NAMES = ("ckpt_save", "ckpt_restore")
VARIABLES = 64
SIDE = 1024


def ways(name: str) -> dict:
    import tensorflow as tf  # after the command line is read, which sets the number of threads

    values = uniform(7, SIDE * SIDE).astype(np.float32).reshape(SIDE, SIDE)
    variables = [tf.Variable(values) for _ in range(VARIABLES)]
    checkpoint = tf.train.Checkpoint(model=variables)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "ckpt")

    def total() -> float:
        return float(sum(np.sum(v.numpy(), dtype=np.float64) for v in variables))

    def save(steps):
        for _ in range(steps):
            checkpoint.write(path)

    def restore(steps):
        for _ in range(steps):
            checkpoint.read(path)

    def timed(run):
        """The sum is not part of the work: it is made once, beforehand."""
        run(1)
        result = total()
        return lambda steps: (run(steps), result)[1]

    if name == "ckpt_save":
        return {"Checkpoint.write": lambda: timed(save)}
    checkpoint.write(path)
    for variable in variables:
        variable.assign(tf.zeros_like(variable))
    return {"Checkpoint.read": lambda: timed(restore)}
