"""Numbers that a seed decides are TensorFlow's own: what ops draw, generators, first weights, and so what training comes to."""

import random

import numpy as np
import tensorflow as tf

result = {}
tf.random.set_seed(7)
result["ops"] = np.concatenate(
    [
        tf.random.uniform([3]), tf.random.normal([3], 1.0, 2.0), tf.random.truncated_normal([50]), tf.random.uniform([3], 0, 10, tf.int32),
        tf.random.shuffle(tf.range(9)), tf.random.categorical([[0.1, 0.2, 0.7]], 5)[0], tf.random.normal([3], dtype=tf.float64),
    ]
)
result["ops with a seed of their own"] = np.stack([tf.random.uniform([2], seed=1), tf.random.uniform([2], seed=1), tf.random.normal([2], seed=1)])
result["stateless"] = np.concatenate(
    [
        tf.random.stateless_uniform([2], [1, 2]), tf.random.stateless_normal([3], (5, 6)), tf.random.stateless_uniform([3], [1, 2], -5, 5, tf.int64),
        tf.random.experimental.stateless_shuffle(tf.range(6), [1, 2]), tf.random.stateless_categorical([[1.0, 2.0]], 4, [3, 4])[0],
        tf.random.split([1, 2], 3)[1], tf.random.fold_in([1, 2], 3), tf.nn.experimental.stateless_dropout(tf.ones(6), 0.5, seed=[1, 0]),
    ]
)
generator = tf.random.Generator.from_seed(1)
result["generator"] = np.concatenate([generator.normal([3]), generator.uniform([3]), generator.state, generator.split(2)[1].normal([2])])
images = np.arange(96, dtype=np.float32).reshape(2, 4, 4, 3)
tf.random.set_seed(3)
result["flipped"], result["cropped"] = tf.image.random_flip_left_right(images), tf.image.random_crop(images[0], (2, 2, 3))

tf.keras.utils.set_random_seed(42)
x = np.random.rand(100, 8).astype(np.float32)
y = (x.sum(1) > 4).astype(np.int32)
layers = tf.keras.layers
model = tf.keras.Sequential([layers.Dense(16, "relu"), layers.BatchNormalization(), layers.Dense(1, "sigmoid", kernel_initializer="he_normal")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
result["history"] = list(model.fit(x, y, epochs=3, batch_size=16, verbose=0, validation_split=0.2).history.values())


def first_weights(layer, *shapes):
    layer.build(*shapes)
    return np.concatenate([weight.numpy().ravel()[:3] for weight in layer.weights])


result["layers"] = np.concatenate(
    [
        first_weights(layers.LSTM(6), (None, 5, 4)), first_weights(layers.Bidirectional(layers.GRU(6)), (None, 5, 4)), first_weights(layers.SimpleRNN(3), (None, 5, 4)),
        first_weights(layers.MultiHeadAttention(2, 4), (None, 5, 8), (None, 5, 8)), first_weights(layers.EinsumDense("abc,cde->abde", (None, 2, 4)), (None, 5, 8)),
        first_weights(layers.Embedding(20, 4), (None, 5)), first_weights(layers.Conv2D(2, 3, kernel_initializer="orthogonal"), (None, 8, 8, 3)),
    ]
)
anew = tf.random_normal_initializer(0.0, 0.02)
result["anew at each call"] = np.stack([anew([3]), anew([3]), tf.random_uniform_initializer(seed=4)([3])])
tf.data.Dataset.range(3).shuffle(3)
result["after a shuffle"] = tf.random.normal([2])
dropout = layers.Dropout(0.5)
result["dropped"] = np.stack([dropout(np.ones(12, np.float32), training=True) for _ in range(2)])
result["after all layers"] = random.random()
result["keras"] = np.concatenate(
    [tf.keras.random.normal((3,)), tf.keras.random.uniform((3,)), tf.keras.random.randint((3,), 0, 10), tf.keras.random.shuffle(np.arange(5.0)), tf.keras.random.truncated_normal((2,), seed=4)]
)

tf.keras.utils.set_random_seed(5)
model = tf.keras.Sequential([layers.Dense(16, "relu"), layers.Dropout(0.3), layers.Reshape((4, 4)), layers.SpatialDropout1D(0.2, seed=4), layers.Flatten(), layers.Dense(1)])
model.compile("sgd", "mse")
result["history with dropout"] = model.fit(x, y, epochs=3, verbose=0).history["loss"]


@tf.function
def dropped_twice(x):
    return dropout(x, training=True), dropout(x, training=True)


result["dropped in a function"] = np.concatenate([*dropped_twice(tf.ones(12)), *dropped_twice(tf.ones(12)), dropout(tf.ones(12), training=True)])
