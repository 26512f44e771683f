"""Batch sizes that are written into a model, layers whose states go on from batch to batch, and data without rows."""

import warnings

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
result = {}
ones = {"kernel_initializer": "ones", "recurrent_initializer": "ones"}


def shape(x):
    return [-1 if s is None else s for s in x.shape]


images, sequences = keras.Input((8, 8, 3), batch_size=2), keras.Input(batch_shape=(2, 6, 5))
for i, layer in enumerate([
    layers.Conv2D(4, 3), layers.Flatten(), layers.Reshape((-1, 3)), layers.MaxPooling2D(), layers.GlobalAveragePooling2D(), layers.BatchNormalization(),
]):
    result[f"image {i}"] = shape(layer(images))
for i, layer in enumerate([
    layers.LSTM(3), layers.TimeDistributed(layers.Dense(2)), layers.Conv1D(3, 2), layers.Lambda(lambda x: tf.reshape(x, [-1, 5])),
    lambda x: layers.Concatenate(0)([x, x]), lambda x: keras.ops.reshape(x, (x.shape[0], -1)), lambda x: keras.ops.sum(x, 0), lambda x: x[0],
]):
    result[f"sequence {i}"] = shape(layer(sequences))

x = keras.Input((5,), batch_size=2)
model = keras.Model(x, layers.Dense(4)(x))
result["fitting sizes"] = [*model.input_shape, *model.output_shape, *model.predict(np.ones((4, 5)), batch_size=2, verbose=0).shape]
result["other sizes"] = [*model(np.ones((3, 5))).shape, *model.predict(np.ones((5, 5)), verbose=0).shape]

# What comes next goes on where the last batch ended; describing and compiling a model does not count.
model = keras.Sequential([keras.Input(batch_shape=(2, 5, 1)), layers.LSTM(3, stateful=True, **ones), layers.Dense(1, kernel_initializer="ones")])
model.compile(keras.optimizers.SGD(0.1), "mse")
x = np.linspace(0, 1, 20, dtype="float32").reshape(4, 5, 1)
result["loss of states"] = model.fit(x, x[:, 0], batch_size=2, epochs=3, shuffle=False, verbose=0).history["loss"]
result["predicted"] = model.predict(x, batch_size=2, verbose=0)
model.layers[0].reset_states()
result["predicted anew"] = model.predict(x, batch_size=2, verbose=0)
result["states"] = [s.numpy() for s in model.layers[0].states]
result["weights"] = len(model.weights)

steps = keras.Sequential([keras.Input(batch_shape=(1, None, 2)), layers.GRU(3, stateful=True, return_sequences=True, **ones), layers.Dense(1, kernel_initializer="ones")])
result["step by step"] = np.concatenate([steps.predict(np.full((1, 1, 2), 0.1 * i), verbose=0).ravel() for i in range(3)])
steps.layers[0].reset_states()
result["two steps"] = steps.predict(np.full((1, 2, 2), 0.1), verbose=0).ravel()
both = layers.Bidirectional(layers.LSTM(2, stateful=True, **ones))
model = keras.Model(sequences, both(sequences))
x = np.full((2, 6, 5), 0.1)
result["both directions"] = [model(x).numpy(), model(x).numpy()]
both.reset_states()
result["both anew"] = model(x)
result["kinds"] = [isinstance(layer(np.ones((2, 3, 4), "float32")), tuple) for layer in (layers.LSTM(2, return_state=True), layers.Bidirectional(layers.LSTM(2), merge_mode=None))]

# No rows: there is nothing to compute, which is no error.
model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae"])
none = np.zeros((0, 4)), np.zeros((0, 1))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    history = model.fit(*none, epochs=2, verbose=0)
    result["epochs without rows"] = [len(history.history), *history.epoch]
    result["no batch"] = len(model.fit(tf.data.Dataset.from_tensor_slices(none).batch(2), verbose=0).history)
result["nothing to evaluate"] = len(model.evaluate(*none, verbose=0))
result["a step without rows"] = model.train_on_batch(*none)
result["a call without rows"] = model(none[0]).shape
result["nothing to validate on"] = len(model.fit(np.ones((4, 4)), np.ones((4, 1)), validation_data=none, verbose=0).history)
keras.utils.clear_session()  # Other programs of this process count their names from the beginning.
