"""The articles' programs, as examples/python has them, from first weights and data that do not depend on who draws them."""

import contextlib
import io
import os
import tempfile
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "python")


def drawn(shape, scale):
    return (np.random.RandomState(sum(shape)).normal(size=shape) * scale).astype("float32")


def glorot(self, shape, dtype=None, **kwargs):
    return tf.constant(drawn(tuple(shape), 0.1))


def normal(shape, *args, **kwargs):
    return tf.constant(drawn(tuple(shape), 1.0))


def mnist():
    r = np.random.RandomState(0)
    return (r.randint(0, 255, (1000, 28, 28)).astype("uint8"), r.randint(0, 10, 1000)), (None, None)


histories = []
fit = keras.Model.fit


def fit_in_order(self, *args, **kwargs):
    histories.append(fit(self, *args, shuffle=False, verbose=0, **kwargs))
    return histories[-1]


def ran(name):
    """The names that the program leaves behind."""
    with open(os.path.join(EXAMPLES, f"{name}.py")) as file:
        text = file.read()
    assert "import tandem as tf" in text
    space = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text.replace("import tandem as tf", "import tensorflow as tf"), name, "exec"), space)
    return space


result = {}
folder = os.getcwd()
with contextlib.ExitStack() as stack:
    os.chdir(stack.enter_context(tempfile.TemporaryDirectory()))
    stack.callback(os.chdir, folder)
    stack.enter_context(mock.patch.object(keras.initializers.GlorotUniform, "__call__", glorot))
    stack.enter_context(mock.patch.object(tf.random, "normal", normal))
    stack.enter_context(mock.patch.object(keras.datasets.mnist, "load_data", mnist))
    stack.enter_context(mock.patch.object(tf.keras.datasets.mnist, "load_data", mnist))
    stack.enter_context(mock.patch.object(keras.Model, "fit", fit_in_order))
    for name in ("mirrored_fit", "mirrored_regression"):
        ran(name)
        result[f"{name}_loss"] = histories[-1].history["loss"]
    for name in ("custom_training_loop", "checkpointing"):
        space = ran(name)
        result[f"{name}_loss"] = space["loss"]
        result[f"{name}_bias"] = space["model"].layers[-1].bias
    result["checkpoints"] = int(tf.train.latest_checkpoint("training_checkpoints").split("-")[-1])
