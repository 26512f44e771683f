"""Keras 3 without TensorFlow's names: keras.ops, keras.random, a layer, a model and a loop by train_on_batch."""

import keras
import numpy as np
from keras import layers, ops

from common import data, fix

x, y = data(64)


class Mixer(layers.Layer):
    def __init__(self, patches, hidden, **kwargs):
        super().__init__(**kwargs)
        self.patches = patches
        self.mlp1 = keras.Sequential([layers.Dense(patches, activation="gelu"), layers.Dense(patches)])
        self.mlp2 = keras.Sequential([layers.Dense(hidden, activation="silu"), layers.Dense(hidden)])
        self.normalize = layers.LayerNormalization(epsilon=1e-6)

    def build(self, input_shape):
        return super().build(input_shape)

    def call(self, inputs):
        h = self.normalize(inputs)
        channels = ops.transpose(h, axes=(0, 2, 1))
        outputs = self.mlp1(channels)
        outputs = ops.transpose(outputs, axes=(0, 2, 1))
        h = outputs + inputs
        return h + self.mlp2(self.normalize(h))


class Patches(layers.Layer):
    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def call(self, vectors):
        batch_size = ops.shape(vectors)[0]
        return ops.reshape(vectors, (batch_size, vectors.shape[-1] // self.size, self.size))


inputs = keras.Input((8,))
h = Patches(2)(inputs)
h = Mixer(4, 2)(h)
h = ops.mean(h, axis=1)
h = ops.concatenate([h, ops.max(inputs, axis=1, keepdims=True)], axis=-1)
outputs = layers.Dense(3)(h)
model = fix(keras.Model(inputs, outputs))
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.AdamW(learning_rate=0.01, weight_decay=0.004), loss=loss_fn, metrics=["sparse_categorical_accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top-2")])
logs = [model.train_on_batch(x[i : i + 16], y[i : i + 16], return_dict=True)["loss"] for i in range(0, 64, 16)]
tested = model.test_on_batch(x[:16], y[:16], return_dict=True)
a, b = ops.convert_to_tensor(x[:4, :4]), ops.convert_to_tensor(x[4:8, :4])
seed = keras.random.SeedGenerator(1)
u = keras.random.uniform((200,), seed=seed)
result = {
    "losses": logs, "tested": [tested[k] for k in sorted(tested)],
    "matmul": ops.matmul(a, ops.transpose(b)), "einsum": ops.einsum("ij,kj->ik", a, b), "where": ops.where(a > 0, a, ops.zeros_like(a)), "softmax": ops.softmax(a), "logsumexp": ops.logsumexp(a, axis=-1), "norm": ops.norm(a, axis=-1),
    "take": ops.take(a, [0, 2], axis=1), "take_along": ops.take_along_axis(a, ops.argsort(a, axis=-1), axis=-1), "one_hot": ops.one_hot(ops.convert_to_tensor([0, 2]), 3), "stack": ops.stack([a, b], axis=1), "split": ops.split(a, 2, axis=1)[1],
    "cumsum": ops.cumsum(a, axis=0), "clip": ops.clip(a, -0.5, 0.5), "var": ops.var(a, axis=0), "std": ops.std(a), "median": ops.median(a), "top_k": ops.top_k(a, 2)[0], "in_top_k": ops.cast(ops.in_top_k(ops.convert_to_tensor([1, 2]), a[:2], 2), "int32"),
    "pad": ops.pad(a, ((0, 0), (1, 1))), "roll": ops.roll(a, 1, axis=0), "tril": ops.tril(a), "outer": ops.outer(a[0], b[0]), "linspace": ops.linspace(0.0, 1.0, 4), "expand": ops.shape(ops.expand_dims(a, (0, 2)))[0], "erf": ops.erf(a), "relu6": ops.relu6(a * 8),
    "gelu": ops.gelu(a), "silu": ops.silu(a), "log_softmax": ops.log_softmax(a), "sign": ops.sign(a), "floor": ops.floor(a), "logaddexp": ops.logaddexp(a, b), "flip": ops.flip(a, axis=1), "tile": ops.tile(a, (1, 2)), "repeat": ops.repeat(a, 2, axis=0),
    "scatter": ops.scatter(ops.convert_to_tensor([[0], [2]]), ops.convert_to_tensor([1.0, 3.0]), (4,)), "slice": ops.slice(a, (1, 1), (2, 2)), "update": ops.slice_update(a, (0, 0), ops.zeros((1, 2))), "segment": ops.segment_sum(a, ops.convert_to_tensor([0, 0, 1, 1])), "scan": ops.scan(lambda c, v: (c + v, c * v), ops.zeros((4,)), a)[1],
    "fori": ops.fori_loop(0, 5, lambda i, v: v + i, ops.convert_to_tensor(0)), "while": ops.while_loop(lambda i: i < 7, lambda i: (i + 2,), (ops.convert_to_tensor(0),))[0], "cond": ops.cond(ops.convert_to_tensor(True), lambda: a[0], lambda: b[0]), "map": ops.map(lambda v: v * 2, a),
    "conv": ops.conv(ops.reshape(a, (1, 4, 4, 1)), ops.ones((2, 2, 1, 1)), padding="same"), "pool": ops.max_pool(ops.reshape(a, (1, 4, 4, 1)), 2), "resize": ops.image.resize(ops.reshape(a, (4, 4, 1)), (2, 2)), "binary": ops.binary_crossentropy(ops.ones((4, 4)), ops.sigmoid(a)),
    "moments": ops.moments(a, axes=0)[1], "stop": ops.stop_gradient(a), "isnan": ops.cast(ops.any(ops.isnan(a)), "int32"), "arange": ops.arange(1, 7, 2), "searchsorted": ops.searchsorted(ops.convert_to_tensor([1.0, 3.0, 5.0]), ops.convert_to_tensor([2.0, 5.0])), "count": ops.count_nonzero(a > 0),
    "digitize": ops.digitize(a, [-0.5, 0.5]), "bincount": ops.bincount(ops.convert_to_tensor([0, 1, 1]), minlength=3), "vectorize": ops.vectorized_map(lambda v: ops.sum(v), a), "uniform": [float(ops.min(u) >= 0), float(ops.max(u) < 1), float(abs(ops.mean(u) - 0.5) < 0.1)], "unstack": ops.unstack(a, axis=1)[3],
}
