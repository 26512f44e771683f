"""Files of models, between Keras and tandem: keras_files.py write|read folder, with an interpreter of either.

Each writes a described model as `.keras` and `.h5`, one with functions for steps, and the weights of one of its own class as `.weights.h5`,
with what they predict; the other one reads them and predicts the same. `make interop` does it live; python/tests/fixtures has what Keras wrote.
"""

import os
import sys

import numpy as np

try:
    import tensorflow as tf
except ImportError:
    import tandem as tf

layers = tf.keras.layers


class Own(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Dense(4)
        self.blocks = [layers.Dense(4, activation="relu"), layers.Dense(4)]
        self.attention = layers.MultiHeadAttention(2, 3)
        self.tail = tf.keras.Sequential([layers.Dense(4), layers.LayerNormalization()])

    def call(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.tail(self.attention(x, x))


def described():
    images, words = tf.keras.Input((6, 6, 1), name="images"), tf.keras.Input((5,), dtype="int32", name="words")
    x = layers.Conv2D(3, 3, activation="relu", padding="same", kernel_regularizer="l2")(images)
    x = layers.BatchNormalization()(x)
    x = layers.Add()([x, layers.DepthwiseConv2D(3, padding="same")(x)])
    x = layers.GlobalAveragePooling2D()(layers.MaxPooling2D(2)(x))
    w = layers.Bidirectional(layers.GRU(2))(layers.LSTM(3, return_sequences=True)(layers.Embedding(7, 4)(words)))
    joined = layers.Dropout(0.2)(layers.Concatenate()([x, layers.LeakyReLU(negative_slope=0.2)(w)]))
    return tf.keras.Model([images, words], layers.Dense(3, activation="softmax", name="kind")(joined))


def stepped():
    """A model with functions for steps."""
    ops = tf.keras.ops
    a = tf.keras.Input((4, 6), name="a")
    x = ops.relu((1.0 - (layers.Dense(6, name="d")(a) + a) * 2.0) / 3.0)
    z = ops.concatenate([x, ops.tile(ops.mean(x, axis=1, keepdims=True), [1, 4, 1])], axis=-1)
    o = ops.transpose(ops.matmul(ops.expand_dims(z[:, 0], 1), np.ones((12, 3), "float32")), (0, 2, 1))
    p = ops.softmax(layers.Dense(5)(ops.squeeze(-o, axis=-1)), axis=-1)
    q = ops.where(p > 0.2, p, 0.0)
    return tf.keras.Model(a, [ops.stack([q, q**2], axis=1), ops.sum(ops.square(ops.reshape(z[:, 1:3, ::2], (-1, 12))), axis=1)])


def inputs():
    r = np.random.RandomState(3)
    return [r.rand(8, 6, 6, 1).astype("float32"), r.randint(0, 7, (8, 5)).astype("int32")], r.rand(2, 3, 4).astype("float32")


def joined(steps):
    made = steps.predict(np.random.RandomState(9).normal(size=(3, 4, 6)).astype("float32"), verbose=0)
    return np.concatenate([np.ravel(each) for each in made])


def write(folder):
    x, sequence = inputs()
    model = described()
    model.compile(tf.keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, np.arange(8) % 3, epochs=2, verbose=0)
    own = Own()
    own(sequence)
    model.save(os.path.join(folder, "described.keras"))
    if tf.__name__ == "tensorflow":  # Of Keras's older format, whole models are read only.
        model.save(os.path.join(folder, "described.h5"))
    own.save_weights(os.path.join(folder, "own.weights.h5"))
    steps = stepped()
    steps.save(os.path.join(folder, "steps.keras"))
    np.savez(
        os.path.join(folder, "predictions.npz"), described=model.predict(x, verbose=0), own=np.asarray(own(sequence)), steps=joined(steps)
    )


def read(folder):
    """The largest difference to what the one who wrote the files has predicted, by file."""
    x, sequence = inputs()
    own = Own()
    own(sequence)
    own.load_weights(os.path.join(folder, "own.weights.h5"))
    off = {}
    with np.load(os.path.join(folder, "predictions.npz")) as expected:
        off["own.weights.h5"] = np.abs(np.asarray(own(sequence)) - expected["own"]).max()
        off["steps.keras"] = np.abs(joined(tf.keras.models.load_model(os.path.join(folder, "steps.keras"))) - expected["steps"]).max()
        for name in ("described.keras", "described.h5"):
            if os.path.exists(os.path.join(folder, name)):
                model = tf.keras.models.load_model(os.path.join(folder, name))
                off[name] = np.abs(model.predict(x, verbose=0) - expected["described"]).max()
    return off


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        found = read(sys.argv[2])
        print(f"{tf.__name__} reads", *[f"{name} (off by {off:.1e})" for name, off in found.items()])
        assert max(found.values()) < 1e-5, found
