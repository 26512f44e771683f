"""The articles' programs, with the import line changed and under `python -m tandem run` as they are."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT

EXAMPLES = os.path.join(ROOT, "examples", "python")


@pytest.fixture(scope="module")
def keras_home(tmp_path_factory):
    """Keras's cache folder with Fashion-MNIST in the place of MNIST."""
    from tandem.keras import datasets

    folder = tmp_path_factory.mktemp("keras")
    os.makedirs(folder / "datasets")
    (x, y), (xt, yt) = datasets.fashion_mnist.load_data()
    np.savez(folder / "datasets" / "mnist.npz", x_train=x[:6000], y_train=y[:6000], x_test=xt[:100], y_test=yt[:100])
    return str(folder)


@pytest.mark.parametrize("name", ["mirrored_fit", "custom_training_loop", "checkpointing", "mirrored_regression"])
def test_trains(name, run, keras_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run(os.path.join(EXAMPLES, f"{name}.py"), KERAS_HOME=keras_home)
    losses = [float(v) for v in re.findall(r"[lL]oss: ([0-9.]+)", text)]
    assert losses[-1] < losses[0]


def unchanged(name, folder, shorter=()):
    """The example as it was before its import line was changed."""
    with open(os.path.join(EXAMPLES, f"{name}.py")) as file:
        text = file.read().replace("import tandem as tf", "import tensorflow as tf\nfrom tensorflow.keras.layers import Dense\nimport keras")
    for long, short in shorter:
        assert long in text
        text = text.replace(long, short)
    (folder / "program.py").write_text(text)
    return str(folder / "program.py")


@pytest.mark.parametrize("name", ["mirrored_fit", "custom_training_loop", "checkpointing", "mirrored_regression"])
def test_runs_unchanged(name, run, keras_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = run("-m", "tandem", "run", "--logical-cpus", "2", unchanged(name, tmp_path), KERAS_HOME=keras_home)
    assert printed.count("tandem stands in") == 1
    assert ("PerReplica" in printed) == (name in ("custom_training_loop", "checkpointing"))


@pytest.mark.parametrize("name, size", [("one_device", "10000"), ("two_devices", "5000")])
def test_products_on_devices_that_may_not_exist(name, size, run, tmp_path):
    printed = run("-m", "tandem", "run", unchanged(name, tmp_path, [(size, "300")]))
    assert "tandem stands in" in printed and "/device:GPU:0 does not exist" in printed


def test_placement(run):
    assert "/device:GPU:1 does not exist" in run(os.path.join(EXAMPLES, "manual_placement.py"))
    text = run(os.path.join(EXAMPLES, "soft_placement.py"))
    assert "without soft placement" in text and "device:CPU:0" in text


def test_import_touches_no_device(run):
    code = "import tandem as tf; tf.config.set_logical_device_configuration(tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 3); print(len(tf.config.list_logical_devices('CPU')))"
    assert run("-c", code).strip() == "3"


def test_a_forked_child_is_told(run):
    code = """
import os, tandem as tf
tf.ones(2) + 1
pid = os.fork()
if pid == 0:
    try:
        tf.ones(2) + 1
        os._exit(1)
    except RuntimeError as error:
        os._exit(0 if "fork" in str(error) else 2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    run("-c", code)


INTERRUPTED = """
import os, signal, threading, time, numpy as np, tandem as tf

class Count(tf.keras.callbacks.Callback):
    begun = 0
    def on_train_batch_begin(self, batch, logs=None): self.begun += 1
    on_test_batch_begin = on_predict_batch_begin = on_train_batch_begin

def interrupted(what, count, f):
    asked = []
    def ask():
        while count.begun < 5:
            time.sleep(0.001)
        asked.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        asked.append(count.begun)
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        f()
        print(what, "was not interrupted")
    except KeyboardInterrupt:
        seconds = time.monotonic() - asked[0]
        asking.join()
        # A step may have begun, and another thread may be ahead by what is prefetched.
        assert count.begun - asked[1] <= 4 and seconds < 5, (what, count.begun, asked, seconds)
        print(what, "ends")

x, y = np.zeros((64, 4), "float32"), np.zeros((64, 2), "float32")
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
model.compile("sgd", "mse")
endless = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(4)
steps = Count()
interrupted("fit", steps, lambda: model.fit(x, y, epochs=10**7, verbose=0, callbacks=[steps]))
assert steps.begun - 1 <= int(model.optimizer.iterations) <= steps.begun, (steps.begun, model.optimizer.iterations)
batches = Count()
interrupted("evaluate", batches, lambda: model.evaluate(endless, verbose=0, callbacks=[batches]))
parts = Count()
interrupted("predict", parts, lambda: model.predict(endless.map(lambda a, b: a), verbose=0, callbacks=[parts]))

@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    model.optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss

turns = Count()
def loop():
    for a, b in endless:
        turns.begun += 1
        float(step(a, b))
interrupted("a loop", turns, loop)

calls = Count()
def mapped(a, b):
    calls.begun += 1
    return tf.py_function(lambda v: v, [a], tf.float32), b
interrupted("a map", calls, lambda: [None for _ in endless.map(mapped)])
ahead = Count()
def slow(a, b):
    ahead.begun += 1
    time.sleep(0.01)
    return a, b
interrupted("fit of a map", ahead, lambda: model.fit(endless.map(slow).prefetch(2), verbose=0))

stuck = Count()
def elements():
    yield 1.0
    stuck.begun = 5
    time.sleep(60)
waiting = iter(tf.data.Dataset.from_generator(elements, output_signature=tf.TensorSpec((), tf.float32)).prefetch(2))
next(waiting)
interrupted("a wait for data", stuck, lambda: next(waiting))
print("and goes on:", len(model.fit(x, y, verbose=0).epoch))
os._exit(0)  # Not after what the generator waits for.
"""


def test_ctrl_c_ends_what_takes_long_at_a_whole_step():
    done = subprocess.run([sys.executable, "-u", "-c", INTERRUPTED], capture_output=True, text=True, timeout=150)
    expected = [f"{what} ends" for what in ("fit", "evaluate", "predict", "a loop", "a map", "fit of a map", "a wait for data")]
    assert done.stdout.splitlines() == expected + ["and goes on: 1"], done.stdout + done.stderr


def test_idioms_of_public_programs(run):
    assert "failed: []" in run("-W", "ignore", "-m", "tandem", "run", os.path.join(os.path.dirname(__file__), "programs", "idioms.py"))


def test_nothing_is_left_of_models_and_functions(run):
    code = """
import gc, numpy as np, tandem as tf
def memory(): return int(open("/proc/self/statm").read().split()[1]) * 4
x, y = np.zeros((32, 4), "float32"), np.zeros((32, 1), "float32")
def once():
    m = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
    m.compile("adam", "mse")
    m.fit(x, y, verbose=0)
    tf.function(lambda a: a * 2)(tf.ones(3))
for _ in range(30): once()
gc.collect(); before = memory()
for _ in range(60): once()
gc.collect(); after = memory()
print("grew", (after - before) / 60, "KB a round")
assert after - before < 60 * 100
"""
    run("-c", code)


def test_an_open_iterator_does_not_keep_the_interpreter(run):
    code = "import tandem as tf; it = iter(tf.data.Dataset.range(100).map(lambda v: v + 1).prefetch(4)); print(int(next(it)))"
    assert run("-c", code).strip() == "1"
