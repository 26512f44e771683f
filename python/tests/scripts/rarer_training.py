"""Optimizers, losses, metrics and activations that few programs have."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

source = np.random.default_rng(5)
result = {}
x, y = source.normal(size=(16, 4)).astype("float32"), source.normal(size=(16, 3)).astype("float32")
for optimizer in (
    keras.optimizers.Adafactor(0.1), keras.optimizers.Adafactor(0.01, relative_step=False), keras.optimizers.Muon(0.01), keras.optimizers.Muon(0.01, nesterov=False, rms_rate=None, exclude_layers=["last"]),
):
    model = keras.Sequential([keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(3, name="last")])
    model.build((None, 4))
    model.set_weights([np.random.default_rng(i).normal(0, 0.4, w.shape).astype("float32") for i, w in enumerate(model.get_weights())])
    model.compile(optimizer, "mse")
    losses = model.fit(x, y, epochs=4, batch_size=8, shuffle=False, verbose=0).history["loss"]
    key = f"{type(optimizer).__name__}_{len(result)}"
    result[key] = losses
    result[f"{key}_kernel"] = model.layers[0].kernel

probabilities = source.dirichlet(np.ones(4), 6).astype("float32")
classes = source.integers(0, 4, 6)
result["gce"] = keras.losses.CategoricalGeneralizedCrossEntropy(0.7)(classes, probabilities)
unit = source.normal(size=(6, 5)).astype("float32")
unit /= np.linalg.norm(unit, axis=1, keepdims=True)
result["circle"] = keras.losses.Circle(gamma=2.0)(np.array([0, 0, 1, 1, 2, 2]), unit)
for name in ("PearsonCorrelation", "ConcordanceCorrelation"):
    metric = getattr(keras.metrics, name)(axis=-1)
    metric.update_state(x, x * 0.7 + 0.3 * source.normal(size=x.shape).astype("float32"))
    metric.update_state(x, x[::-1].copy())
    result[name] = metric.result()
result["sparse_sigmoid"] = keras.activations.sparse_sigmoid(tf.constant(x))
for name in ("MSE", "MAE", "MAPE", "MSLE", "KLD"):
    result[name] = getattr(keras.metrics, name)(probabilities, probabilities[::-1].copy())
result["stft_initializer"] = keras.initializers.STFT("imag")((8, 1, 5))
