"""The callbacks that Keras has, and one of one's own with every hook."""

import csv
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common import data, fix

folder = tempfile.mkdtemp()
x, y = data(80)
calls = {}


class Everything(keras.callbacks.Callback):
    def _count(self, name, logs):
        calls[name] = calls.get(name, 0) + 1
        calls[f"{name}_keys"] = len(logs or {})

    def on_train_begin(self, logs=None):
        self._count("train_begin", logs)
        calls["params"] = [self.params["epochs"], self.params["steps"]]

    def on_train_end(self, logs=None):
        self._count("train_end", logs)

    def on_epoch_begin(self, epoch, logs=None):
        self._count("epoch_begin", logs)

    def on_epoch_end(self, epoch, logs=None):
        self._count("epoch_end", logs)

    def on_train_batch_begin(self, batch, logs=None):
        self._count("train_batch_begin", logs)

    def on_train_batch_end(self, batch, logs=None):
        self._count("train_batch_end", logs)

    def on_test_begin(self, logs=None):
        self._count("test_begin", logs)

    def on_test_end(self, logs=None):
        self._count("test_end", logs)

    def on_test_batch_end(self, batch, logs=None):
        self._count("test_batch_end", logs)

    def on_predict_begin(self, logs=None):
        self._count("predict_begin", logs)

    def on_predict_batch_end(self, batch, logs=None):
        self._count("predict_batch_end", logs)


def scheduler(epoch, lr):
    return lr if epoch < 2 else lr * float(np.exp(-0.1))


def build():
    model = fix(keras.Sequential([keras.Input((8,)), keras.layers.Dense(10, activation="tanh"), keras.layers.Dense(3, activation="softmax")]))
    model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


model = build()
lines = []
history = model.fit(
    x[:64], y[:64], epochs=6, batch_size=16, shuffle=False, verbose=0, validation_data=(x[64:], y[64:]),
    callbacks=[
        keras.callbacks.ModelCheckpoint(os.path.join(folder, "weights.{epoch:02d}.weights.h5"), save_weights_only=True, monitor="val_loss"),
        keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.keras"), save_best_only=True, monitor="val_accuracy", mode="max"),
        keras.callbacks.LearningRateScheduler(scheduler),
        keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: lines.append(round(logs["loss"], 4))),
        keras.callbacks.BackupAndRestore(os.path.join(folder, "backup")),
        Everything(),
    ],
)
model.evaluate(x[64:], y[64:], verbose=0, callbacks=[Everything()])
model.predict(x[64:], verbose=0, callbacks=[Everything()], batch_size=8)
with open(os.path.join(folder, "log.csv")) as file:
    rows = list(csv.DictReader(file))
files = sorted(f for f in os.listdir(folder) if f.startswith("weights."))
other = build()
other.load_weights(os.path.join(folder, files[-1]))
best = keras.models.load_model(os.path.join(folder, "best.keras"))

stopping = keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, min_delta=0.3, restore_best_weights=True)
plateau = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.2, patience=1, min_lr=0.001, cooldown=1)
stopped = build()
early = stopped.fit(x[:64], y[:64], epochs=12, batch_size=16, shuffle=False, verbose=0, validation_data=(x[64:], y[64:]), callbacks=[plateau, stopping])
result = {
    "loss": history.history["loss"], "val_loss": history.history["val_loss"], "rates": history.history["learning_rate"], "lines": lines, "files": len(files), "rows": len(rows), "columns": len(rows[0]),
    "csv": [float(row["val_loss"]) for row in rows], "loaded": other.evaluate(x[64:], y[64:], verbose=0), "best": best.evaluate(x[64:], y[64:], verbose=0)[1],
    "stopped": stopping.stopped_epoch, "early": early.history["val_loss"], "early_rates": early.history["learning_rate"], "restored": stopped.evaluate(x[64:], y[64:], verbose=0),
    **{f"calls_{k}": v for k, v in calls.items()},
}
