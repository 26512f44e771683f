"""Several processes train one model: python -m tandem run --workers."""

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import HERE, PATIENCE

import tandem as tf

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
with strategy.scope():
    seen = tf.keras.metrics.SparseCategoricalAccuracy()
for images, labels in strategy.experimental_distribute_dataset(batches):  # A loop of one's own: all workers count.
    strategy.run(lambda a, b: seen.update_state(b, model(a)), (images, labels))
    half = seen.result()
numbers = [float(seen.result()), float(seen.result()), float(half)] + history["loss"] + history["accuracy"] + model.evaluate(x, y, verbose=0) + [float(model.predict(x[:5], verbose=0).sum())]
rank = strategy.cluster_resolver.task_id
print("workers", workers, "of", strategy.num_replicas_in_sync, "rank", rank, "numbers", *[f"{v:.4f}" for v in numbers])
"""


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["--version"], 0, "tandem .* TensorFlow 2"),
        (["--help"], 0, "lists the devices"),
        (["run", "--help"], 0, "--logical-cpus N"),
        (["run", "--workers", "0", __file__], 2, "--workers 0: there is at least one"),
        (["run", "--ps", "-1", __file__], 2, "--ps -1: there are none or more"),
        (["run", "--logical-cpus", "-1", __file__], 2, "--logical-cpus -1: there is at least one"),
        (["run", "--workers", "2", "absent.py"], 2, "there is no absent.py in /"),
        (["run", "--workers", "2", "--hosts", "absent.invalid,localhost", __file__], 1, "the host 'absent.invalid' is not known"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_the_command_says_what_is_wrong(words, code, said):
    done = subprocess.run([sys.executable, "-m", "tandem", *words], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code and "Traceback" not in done.stderr and re.search(said, done.stdout + done.stderr), done


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
    done = subprocess.run([sys.executable, "-m", "tandem", "run", "--workers", "2", str(tmp_path / "program.py")], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 7, done.stderr[-2000:]


ENDLESS = """
import numpy as np, tensorflow as tf

class Steps(tf.keras.callbacks.Callback):
    begun = 0
    def on_train_batch_begin(self, batch, logs=None):
        self.begun += 1
        if self.begun == 5: print("trains", flush=True)

with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
steps = Steps()
try:
    model.fit(tf.data.Dataset.from_tensor_slices((np.zeros((64, 4)), np.zeros((64, 2)))).repeat().batch(8), verbose=0, callbacks=[steps])
except KeyboardInterrupt:
    print("was interrupted after a whole step:", 0 <= steps.begun - int(model.optimizer.iterations) <= 1)
"""


def test_ctrl_c_ends_all_workers(tmp_path):
    (tmp_path / "program.py").write_text(ENDLESS)
    command = [sys.executable, "-m", "tandem", "run", "--workers", "2", str(tmp_path / "program.py")]
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # What a shell starts in the background ignores it.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=heard) as launched:
        printed, trains = "", 0
        for line in launched.stdout:
            printed += line
            trains += line.endswith("trains\n")
            if line.endswith("trains\n") and trains == 2:
                launched.send_signal(signal.SIGINT)
    assert printed.count("was interrupted after a whole step: True") == 2, printed


PARAMETER_SERVERS = os.path.join(HERE, "programs", "parameter_servers.py")


def test_parameter_servers_in_processes(run):
    printed = run("-W", "ignore", "-m", "tandem", "run", "--workers", "2", "--ps", "2", PARAMETER_SERVERS)
    chief = re.findall("chief 0.*?(loop falls steps 30 and then True|fit falls evaluates True)", printed)
    assert len(chief) == 2, printed
    assert len({re.search("weights.*", line).group(0) for line in printed.splitlines() if "weights" in line}) == 1, printed  # All tasks have the same.


def test_parameter_servers_in_threads(run, tmp_path):
    # Servers that a process makes for itself, as the tutorial does to try a cluster out.
    program = open(PARAMETER_SERVERS).read()
    start = program.index("resolver = ")
    end = program.index("partitioner = ")
    cluster = """
spec = tf.train.ClusterSpec({"worker": ["localhost:1001", "localhost:1002"], "ps": ["localhost:1003"]})
for job in ("worker", "ps"):
    for i in range(spec.num_tasks(job)):
        tf.distribute.Server(spec, job_name=job, task_index=i, protocol="grpc")
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
"""
    (tmp_path / "program.py").write_text(program[:start] + cluster + program[end:] + "print(strategy.explain(), 'updates', sum(strategy.staleness_histogram().values()))\n")
    printed = run("-W", "ignore", "-m", "tandem", "run", "--logical-cpus", "2", str(tmp_path / "program.py"))
    assert "loop falls steps 30 and then True" in printed and "fit falls evaluates True" in printed, printed
    assert "2 workers and 1 servers on threads" in printed and "updates 43" in printed, printed


def test_workers_of_parameter_servers_may_share_batches():
    strategy = tf.distribute.ParameterServerStrategy(staleness=0, workers=2)
    x = np.arange(22, dtype="float32").reshape(11, 2) / 22
    y = x.sum(1, keepdims=True)

    def trained(scope):
        with scope:
            model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(tf.keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
        history = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history
        return [*history["loss"], *history["mae"], *model.evaluate(x, y, verbose=0), *model.get_weights()[0].ravel()]

    np.testing.assert_allclose(trained(strategy.scope()), trained(contextlib.nullcontext()), rtol=1e-4)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.Nadam(0.1), "mse")
    with pytest.raises(NotImplementedError, match="Nadam"):
        model.fit(x, y, verbose=0)


@pytest.mark.parametrize("sparse_update", [False, True])
def test_rows_that_no_batch_has_rest_where_servers_update_rows_alone(sparse_update):
    strategy = tf.distribute.ParameterServerStrategy(staleness=0, workers=1, sparse_update=sparse_update, bytes_in_files=1 << 30, patience=30)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((1,), dtype="int64"), tf.keras.layers.Embedding(4, 2), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    values = []
    for row in (1, 2):
        model.fit(np.full((4, 1), row), np.ones((4, 1)), batch_size=4, verbose=0)
        values.append(model.get_weights()[0][1])
    assert np.array_equal(values[0], values[1]) == sparse_update


SAVING = """
import os, sys, numpy as np, tensorflow as tf
folder = sys.argv[1]
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=tf.distribute.experimental.CommunicationOptions(bytes_per_pack=4096))
r = np.random.RandomState(0)
x, y = r.normal(size=(64, 8)).astype("float32"), r.normal(size=(64, 1)).astype("float32")
def made():
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(900, activation="relu"), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.Adam(0.001), "mse")
        return model
model = made()
backup = tf.keras.callbacks.ModelCheckpoint(os.path.join(folder, "each.weights.h5"), save_weights_only=True)
whole = tf.keras.callbacks.ModelCheckpoint(os.path.join(folder, "each.keras"))
model.fit(x, y, epochs=2, verbose=0, callbacks=[backup, whole])
model.save(os.path.join(folder, "model.keras"))
model.save_weights(os.path.join(folder, "own.weights.h5"))
checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
path = checkpoint.save(os.path.join(folder, "ckpt"))
def same(other): return all(np.array_equal(a, b) for a, b in zip(other.get_weights(), model.get_weights()))
loaded = made(); loaded.load_weights(os.path.join(folder, "each.weights.h5"))
restored = made(); tf.train.Checkpoint(model=restored, optimizer=restored.optimizer).restore(path)
with strategy.scope():
    again = tf.keras.models.load_model(os.path.join(folder, "model.keras"))
before = same(loaded), same(restored), same(again)
for each in (model, again): each.fit(x, y, epochs=2, shuffle=False, verbose=0)  # Goes on with the same slots.
off = max(np.abs(a - b).max() for a, b in zip(again.get_weights(), model.get_weights()))
import _tandem
parts = _tandem.GatheredSlots(model.optimizer.variables).has_parts  # Each has some of the slots, so that this is tried.
print("saved", *before, "and goes on", off < 1e-5, "in parts", parts, sorted(os.listdir(folder)))
"""


def test_workers_save_and_restore_one_model(run, tmp_path):
    (tmp_path / "program.py").write_text(SAVING)
    (tmp_path / "files").mkdir()
    printed = run("-W", "ignore", "-m", "tandem", "run", "--workers", "2", str(tmp_path / "program.py"), str(tmp_path / "files"))
    data = "'ckpt-1.data-00000-of-00002', 'ckpt-1.data-00001-of-00002'"  # Where slots are in parts both write.
    files = f"['checkpoint', {data}, 'ckpt-1.index', 'each.keras', 'each.weights.h5', 'model.keras', 'own.weights.h5']"
    assert printed.count(f"saved True True True and goes on True in parts True {files}") == 2, printed
