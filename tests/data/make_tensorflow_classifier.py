"""Writes tensorflow_classifier.txt: what TensorFlow and Keras compute, in float64, when they train a small classifier
for 200 steps on batches of several sizes. Tandem's tests compare with it.

    python make_tensorflow_classifier.py > tensorflow_classifier.txt
"""

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench" / "peers"))

import keras
import numpy as np
import tensorflow as tf
from data import features, labels, weights

SIZES = (784, 10, 10)
STEPS = 200
POOL_ROWS = 512
BATCH_SIZES = (128, 96, 2, 1)
NAMES = ("kernel0", "bias0", "kernel1", "bias1")
SAMPLES = 10

HEADER = f"""\
# A 784-10-10 relu classifier trained with Adam(0.01) in float64.
# Written by make_tensorflow_classifier.py with TensorFlow {tf.__version__} and Keras {keras.__version__}.
# loss <step> <mean cross-entropy of the batch, before the update>
# After {STEPS} steps:
# weight <name> <flat index> <value>
# sum <name> <sum of all values>
# sumsq <name> <sum of the squares of all values>"""


def batch_rows(step: int) -> slice:
    start = step * 37 % (POOL_ROWS - max(BATCH_SIZES))
    return slice(start, start + BATCH_SIZES[step % len(BATCH_SIZES)])


def make_model() -> keras.Model:
    model = keras.Sequential(
        [keras.Input((SIZES[0],)), keras.layers.Dense(SIZES[1], activation="relu"), keras.layers.Dense(SIZES[2])]
    )
    model.set_weights(weights(SIZES, np.float64))
    return model


def train(model: keras.Model) -> list[float]:
    """The loss of each step."""
    x, y = features(POOL_ROWS, np.float64), labels(POOL_ROWS, np.float64)
    # Keras would round betas given as Python floats to float32 in the bias correction, whatever the variables' type.
    optimizer = keras.optimizers.Adam(0.01, beta_1=np.float64(0.9), beta_2=np.float64(0.999))
    mean_loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    losses = []
    for step in range(STEPS):
        rows = batch_rows(step)
        with tf.GradientTape() as tape:
            loss = mean_loss(y[rows], model(x[rows], training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        losses.append(float(loss))
    return losses


def sample_indices(size: int) -> list[int]:
    """At most SAMPLES flat indices, from the first to the last."""
    return [i * (size - 1) // (SAMPLES - 1) for i in range(SAMPLES)] if size > SAMPLES else list(range(size))


def print_weights(name: str, values: np.ndarray) -> None:
    for index in sample_indices(values.size):
        print(f"weight {name} {index} {values[index]:.17g}")
    print(f"sum {name} {values.sum():.17g}")
    print(f"sumsq {name} {np.square(values).sum():.17g}")


def main() -> None:
    keras.config.set_floatx("float64")
    model = make_model()
    losses = train(model)
    print(HEADER)
    for step, loss in enumerate(losses):
        print(f"loss {step} {loss:.17g}")
    for name, variable in zip(NAMES, model.trainable_variables, strict=True):
        assert variable.dtype == "float64"
        print_weights(name, variable.numpy().ravel())


main()
