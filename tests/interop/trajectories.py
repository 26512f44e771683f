#!/usr/bin/env python3
"""Trains models here with Keras and in tandem-interop, from the same weights on the same batches, and compares the losses.

Three models: a classifier of dense layers (mlp), convolutions with batch normalisation and pooling (convnet), a
transformer block with causal attention (transformer); seven optimizers for each. All in float64: in float32 the order of
a sum moves a loss by more than an error in an optimizer may. Keras rounds constants to float32 even then, so they are
chosen to have few digits. It also squares the gradient of an embedding before it adds up the parts of a row that occurs
twice, which makes RMSprop, Adagrad and Adam something else (losses apart by up to 0.3); here it gets the sums. Compared is the loss of each of the first 50 steps, before
its update, as |ours - theirs| / max(1, |theirs|); the last step's loss is printed so that one sees that they train.

Run by the TensorFlow virtualenv of `make peers`. Exit status 1 if a row is further apart than 1e-4.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf
from keras import layers, optimizers

STEPS = 50
BATCH = 32
BATCHES = 10  # taken in turn
TOLERANCE = 1e-4
SMALL_RATE = 1 / 256
BETA_2 = 1 - 1 / 1024


def mlp():
    x = keras.Input((20,))
    h = layers.Dense(32, activation="relu")(x)
    h = layers.Dense(32, activation="tanh")(h)
    return keras.Model(x, layers.Dense(10)(h))


def convnet():
    x = keras.Input((12, 12, 1))
    h = layers.Conv2D(8, 3)(x)
    h = layers.Activation("relu")(layers.BatchNormalization()(h))
    h = layers.MaxPooling2D(2)(h)
    h = layers.Conv2D(16, 3, padding="same", use_bias=False)(h)
    h = layers.Activation("relu")(layers.BatchNormalization()(h))
    h = layers.Flatten()(layers.MaxPooling2D(2)(h))
    return keras.Model(x, layers.Dense(10)(h))


def transformer():
    x = keras.Input((12,), dtype="int32")
    h = layers.Embedding(10, 16)(x)
    normed = layers.LayerNormalization()(h)
    seen = layers.MultiHeadAttention(4, 4)(normed, normed, use_causal_mask=True)
    h = layers.Add()([h, seen])
    wide = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(h))
    h = layers.Add()([h, layers.Dense(16)(wide)])
    return keras.Model(x, layers.Dense(10)(layers.LayerNormalization()(h)))


MODELS = {"mlp": mlp, "convnet": convnet, "transformer": transformer}
OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.0625),
    "sgd_momentum": lambda: optimizers.SGD(0.03125, momentum=0.875),
    "sgd_nesterov": lambda: optimizers.SGD(0.03125, momentum=0.875, nesterov=True),
    "rmsprop": lambda: optimizers.RMSprop(SMALL_RATE, rho=0.875),
    "adagrad": lambda: optimizers.Adagrad(0.0625, initial_accumulator_value=0.125),
    "adam": lambda: optimizers.Adam(SMALL_RATE, beta_1=0.875, beta_2=BETA_2),
    "adamw": lambda: optimizers.AdamW(SMALL_RATE, weight_decay=0.0625, beta_1=0.875, beta_2=BETA_2),
}


def batches(model: str):
    """x and y of BATCHES batches, with something to learn: classes are noisy prototypes, texts count on by their step."""
    random = np.random.default_rng(7)
    if model == "transformer":
        start = random.integers(0, 10, (BATCHES, BATCH, 1))
        step = random.integers(1, 4, (BATCHES, BATCH, 1))
        text = ((start + step * np.arange(13)) % 10).astype(np.int32)
        return text[..., :-1], text[..., 1:]
    y = random.integers(0, 10, (BATCHES, BATCH)).astype(np.int32)
    shape = (20,) if model == "mlp" else (12, 12, 1)
    prototypes = random.normal(size=(10, *shape))
    return prototypes[y] + random.normal(size=(BATCHES, BATCH, *shape)), y


def with_summed_gradients(optimizer):
    apply = optimizer.apply

    def apply_sums(gradients, variables=None):
        return apply([tf.convert_to_tensor(gradient) for gradient in gradients], variables)

    optimizer.apply = apply_sums
    return optimizer


def keras_losses(model, optimizer, x, y):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=with_summed_gradients(optimizer), loss=loss)
    losses = []
    for step in range(STEPS):
        model.reset_metrics()
        losses.append(float(model.train_on_batch(x[step], y[step], return_dict=True)["loss"]))
    return np.array(losses)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="tandem-interop")
    program = parser.parse_args().program

    keras.config.set_floatx("float64")
    turns = np.arange(STEPS) % BATCHES
    names, entries, theirs = [], {}, []
    for model_name, make_model in MODELS.items():
        x, y = (values[turns] for values in batches(model_name))
        for optimizer_name, make_optimizer in OPTIMIZERS.items():
            keras.utils.set_random_seed(11)
            model = make_model()
            number = len(names)
            row = json.dumps({"model": model_name, "optimizer": optimizer_name})
            entries[f"{number}/row"] = np.frombuffer(row.encode(), np.uint8)
            entries[f"{number}/x"], entries[f"{number}/y"] = x, y
            for i, weight in enumerate(model.get_weights()):
                entries[f"{number}/weight{i}"] = weight
            names.append(f"{model_name} {optimizer_name}")
            theirs.append(keras_losses(model, make_optimizer(), x, y))

    with tempfile.TemporaryDirectory() as folder:
        rows, results = os.path.join(folder, "rows.npz"), os.path.join(folder, "results.npz")
        np.savez(rows, **entries)
        subprocess.run([program, "--trajectories", rows, results], check=True, timeout=600)
        ours = dict(np.load(results))

    failures = 0
    for number, (name, wanted) in enumerate(zip(names, theirs)):
        if f"{number}/error" in ours:
            print(f"{name:<26} FAILED {ours[f'{number}/error'].tobytes().decode()}")
            failures += 1
            continue
        got = ours[f"{number}/losses"]
        apart = np.max(np.abs(got - wanted) / np.maximum(1, np.abs(wanted)))
        agrees = bool(apart <= TOLERANCE) and got.shape == wanted.shape
        failures += not agrees
        verdict = "ok    " if agrees else "FAILED"
        print(f"{name:<26} {verdict} {STEPS} losses, {wanted[0]:.4f} to {wanted[-1]:.4f}, apart by at most {apart:.2g}")
    print(f"{len(names) - failures} of {len(names)} trajectories agree with Keras {keras.__version__} to {TOLERANCE}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
