"""Several processes train one model: python -m tandem run --workers."""

import re
import subprocess
import sys

import numpy as np

PROGRAM = """
import json, os, numpy as np, tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]) if "TF_CONFIG" in os.environ else 1
r = np.random.RandomState(0)
x = r.normal(size=(90, 8)).astype("float32")
y = (x @ r.normal(size=(8, 3))).argmax(1)
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(3)])
    model.set_weights([r.normal(size=w.shape).astype("float32") for w in model.get_weights()])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(batches, epochs=2, verbose=0).history
numbers = history["loss"] + history["accuracy"] + model.evaluate(x, y, verbose=0) + [float(model.predict(x[:5], verbose=0).sum())]
rank = strategy.cluster_resolver.task_id
print("workers", workers, "of", strategy.num_replicas_in_sync, "rank", rank, "numbers", *[f"{v:.4f}" for v in numbers])
"""


def test_workers_train_as_one_process_does(run, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    alone = run("-W", "ignore", "-m", "tandem", "run", str(tmp_path / "program.py"))
    expected = re.search("numbers (.*)", alone).group(1)
    printed = run("-W", "ignore", "-m", "tandem", "run", "--workers", "2", "--logical-cpus", "2", str(tmp_path / "program.py"))
    found = re.findall("workers 2 of 4 rank ([01]) numbers (.*)", printed)
    assert sorted(rank for rank, _ in found) == ["0", "1"]
    for _, numbers in found:
        np.testing.assert_allclose([float(v) for v in numbers.split()], [float(v) for v in expected.split()], atol=1e-3)


def test_a_worker_that_fails_ends_all(tmp_path):
    (tmp_path / "program.py").write_text("import os, tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()\nif os.environ['TANDEM_RANK'] == '1': raise SystemExit(7)\nimport time; time.sleep(60)\n")
    done = subprocess.run([sys.executable, "-m", "tandem", "run", "--workers", "2", str(tmp_path / "program.py")], capture_output=True, text=True, timeout=100)
    assert done.returncode == 7, done.stderr[-2000:]
