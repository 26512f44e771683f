"""Ten thousand models and functions come and go, and nothing is left of them. In soaks only."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc
import numpy as np
import tandem as tf

def memory():  # KB in use, once garbage is gone.
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4

x, y = np.zeros((32, 4), "float32"), np.zeros((32, 1), "float32")

def once():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y, verbose=0)
    model.predict(x, verbose=0)
    tf.function(lambda a: a * 2)(tf.ones(3))
    del model

for n in range(10000):
    once()
    if n % 50 == 0:
        gc.collect()
    if n == 2000:
        before = memory()
grown = memory() - before
print("grew by", grown, "KB in 8000 rounds")
assert grown < 8000, grown
"""


@pytest.mark.skipif("TANDEM_SOAK" not in os.environ, reason="takes minutes: in soaks")
def test_nothing_grows(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
