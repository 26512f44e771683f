"""The articles' programs, with the import line changed and under `python -m tandem run` as they are."""

import os
import re

import numpy as np
import pytest
from conftest import HERE, ROOT

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
    assert run("-c", code).splitlines()[0] == "3"


def test_a_forked_child_is_told(run):
    code = """
import os, numpy as np, tandem as tf
variable, kept = tf.Variable(1.0), tf.ones(2) + 1
model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
for use in (lambda: tf.ones(2) + 1, variable.numpy, lambda: np.asarray(variable), model.get_weights, lambda: model.save("model.keras")):
    pid = os.fork()
    if pid == 0:
        try:
            use()
            os._exit(1)
        except tf.errors.FailedPreconditionError as error:
            os._exit(0 if "fork" in str(error) else 2)
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, use
"""
    run("-c", code)


def test_ctrl_c_ends_what_takes_long_at_a_whole_step(run):
    lines = run("-u", os.path.join(HERE, "programs", "interrupted.py")).splitlines()
    training = ["fit", "fit on replicas", "fit of a map", "evaluate", "predict", "a loop", "a map", "a compiled loop", "tf.while_loop"]
    waits = ["a wait in a generator", "a wait for data", "a wait for workers", "a wait for servers"]
    ended = [line.split(" ends: ")[0] for line in lines if " ends: " in line]
    assert ended == training + waits and "and goes on: 1" in lines, lines


def test_idioms_of_public_programs(run):
    assert "failed: []" in run("-W", "ignore", "-m", "tandem", "run", os.path.join(HERE, "programs", "idioms.py"))


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps what is given back for a while")
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
def grown(rounds):
    gc.collect(); before = memory()
    for _ in range(rounds): once()
    gc.collect(); return (memory() - before) / rounds
grown(30)  # What is made once.
most = [grown(20) for _ in range(3)]
print("grew by", most, "KB a round")
assert min(most) < 20, most  # What each round leaves behind shows in all of them.
"""
    run("-c", code)


def test_an_open_iterator_does_not_keep_the_interpreter(run):
    code = "import tandem as tf; it = iter(tf.data.Dataset.range(100).map(lambda v: v + 1).prefetch(4)); print(int(next(it)))"
    assert run("-c", code).splitlines()[0] == "1"
