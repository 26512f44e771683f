"""The trainings of bench/fit.cpp in TensorFlow: Keras's `fit` on arrays.

Imported once the command line is read, which sets the number of threads."""

import contextlib

import keras
import tensorflow as tf
from data import BATCH, FITS, LOSS_STEP, REPLICAS, Runner, epochs_of, fit_data, fit_weights


def fitted(name: str, make_model, **options) -> Runner:
    """Its loss is the mean over the first batches in order."""
    x, y = fit_data(name)
    rows, learning_rate = FITS[name]
    one_hot = y.ndim == 2
    losses = keras.losses
    loss = (losses.CategoricalCrossentropy if one_hot else losses.SparseCategoricalCrossentropy)(from_logits=True)
    with scope(name):
        model = make_model()
        model.set_weights(fit_weights(name))
        model.compile(keras.optimizers.Adam(learning_rate), loss, metrics=["accuracy"], **options)
    first = slice(LOSS_STEP * BATCH)
    history = model.fit(x[first], y[first], batch_size=BATCH, shuffle=False, verbose=0)

    def run(steps):
        model.fit(x, y, batch_size=BATCH, epochs=epochs_of(steps, rows), verbose=0)
        return history.history["loss"][0]

    return run


def scope(name: str):
    if name != "mirrored_fit":
        return contextlib.nullcontext()
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(REPLICAS)]).scope()


def ways(name: str, make_model) -> dict:
    all_ways = {
        "fit": lambda: fitted(name, make_model, jit_compile=False),
        "fit, XLA": lambda: fitted(name, make_model, jit_compile=True),
    }
    if name == "mirrored_fit":
        del all_ways["fit, XLA"]  # Replicas cannot meet inside of XLA's programs.
    return all_ways
