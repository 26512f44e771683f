#!/usr/bin/env python3
"""Writes keras_models/: checkpoints of models with every kind of weight after two steps, made by Keras 3, and by Keras 2
where there is a tf_keras; and in expected.npz the rows, what each model computes then, and after two steps more.
tests/checkpoint/keras_models_test.cpp has the same models.

    python make_keras_models.py
"""

import os
import pathlib
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras as keras_3
import numpy as np
import tensorflow as tf

try:
    import tf_keras as keras_2
except ImportError:
    keras_2 = None

FOLDER = pathlib.Path(__file__).parent / "keras_models"


def sequential(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((3,)),
            layers.Dense(4, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.0, seed=3),
            layers.Dense(2),
        ]
    )


def attention(keras):
    layers = keras.layers
    x = keras.Input((3,), dtype="int32")
    embedded = layers.Embedding(5, 4)(x)
    seen = layers.MultiHeadAttention(2, 2)(embedded, embedded)
    normal = layers.LayerNormalization()(layers.Add()([embedded, seen]))
    return keras.Model(x, layers.Dense(2)(layers.Flatten()(normal)))


def nested(keras):
    layers = keras.layers
    image = keras.Input((4, 4, 1))
    filtered = layers.DepthwiseConv2D(2, activation="tanh")(layers.Conv2D(2, 2, activation="relu")(image))
    inner = keras.Model(image, layers.BatchNormalization()(filtered))
    x = keras.Input((4, 4, 1))
    return keras.Model(x, keras.Sequential([inner, layers.Flatten(), layers.Dense(2)])(x))


def subclassed(keras):
    layers = keras.layers

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = layers.Dense(4, activation="relu")
            self.norm = layers.BatchNormalization()
            self.tail = keras.Sequential([layers.Dense(2)])

        def build(self, shape):
            self.shift = self.add_weight(shape=(4,), initializer="zeros", name="shift")

        def call(self, x, training=False):
            return self.tail(self.norm(self.hidden(x), training=training) + self.shift)

    return Subclassed()


ROWS = {"attention": ((6, 3), "int32"), "nested": ((6, 4, 4, 1), "float32")}
random = np.random.default_rng(3)
expected = {}


def save(name, keras, make, form, optimizer):
    shape, dtype = ROWS.get(make.__name__, ((6, 3), "float32"))
    x = random.integers(0, 5, shape).astype(dtype)
    y = random.integers(-4, 5, (6, 2)).astype(np.float32) / 4
    model = make(keras)
    model(x)
    model.set_weights([random.integers(1, 8, w.shape) / np.float32(8) for w in model.get_weights()])
    if optimizer is not None:
        model.compile(optimizer, "mse", run_eagerly=True)

    def train():
        for _ in range(2 if optimizer is not None else 0):
            model.train_on_batch(x, y)

    train()
    objects = {"model": model, **({"optimizer": optimizer} if form == "both" else {})}
    tf.train.Checkpoint(**objects).save(str(FOLDER / name))
    expected[f"{name}/x"], expected[f"{name}/y"] = x, y
    expected[f"{name}/saved"] = np.asarray(model(x, training=False))
    train()
    expected[f"{name}/trained"] = np.asarray(model(x, training=False))


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    save("sequential", keras_3, sequential, "both", keras_3.optimizers.Adam(0.013))
    save("attention", keras_3, attention, "both", keras_3.optimizers.SGD(0.013, momentum=0.5))
    save("nested", keras_3, nested, "model", None)
    save("subclassed", keras_3, subclassed, "model", keras_3.optimizers.RMSprop(0.013))
    if keras_2 is not None:
        save("sequential_2", keras_2, sequential, "both", keras_2.optimizers.Adam(0.013))
        save("attention_2", keras_2, attention, "model", None)
        save("nested_2", keras_2, nested, "model", None)
    (FOLDER / "checkpoint").unlink()  # Names the last one only.
    np.savez_compressed(FOLDER / "expected.npz", **expected)
