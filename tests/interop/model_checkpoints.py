#!/usr/bin/env python3
"""Trains models of every kind by turns: here with Keras, then in tandem-interop from the checkpoint of that, then here
again from Tandem's. Right after each restore the predictions must be those of the program that saved, and in the end
those of training here alone.

Run by the TensorFlow virtualenv of `make peers`. Exit status 1 if a case fails.
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
from keras import Input, Model, Sequential, layers, optimizers

STEPS = 2  # of each turn
ROWS = 8
RESTORED = 2e-6  # predictions right after a restore
TRAINED = 2e-4  # and after steps that each program computed for itself


class Residual(layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.width, self.dense = width, layers.Dense(width, activation="tanh")

    def build(self, shape):
        self.scale = self.add_weight(shape=(self.width,), initializer="ones", name="scale")

    def call(self, x):
        return x + self.dense(x) * self.scale


class Subclassed(Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(5, activation="relu")
        self.norm = layers.BatchNormalization()
        self.drop = layers.Dropout(0.0, seed=1)
        self.tail = Sequential([layers.Dense(4, activation="tanh"), layers.LayerNormalization()])
        self.head = layers.Dense(3)

    def build(self, shape):
        self.shift = self.add_weight(shape=(5,), initializer="zeros", name="shift")

    def call(self, x, training=False):
        x = self.norm(self.hidden(x), training=training) + self.shift
        return self.head(self.tail(self.drop(x, training=training)))


def relu_dense(units):
    return layers.Dense(units, activation="relu")


def images():
    x = Input((8, 8, 2))
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same", activation="relu")(x))
    y = layers.DepthwiseConv2D(3, depth_multiplier=2, activation="tanh")(y)
    y = layers.Activation("relu")(layers.MaxPooling2D()(y))
    return Model(x, layers.Dense(3)(layers.Flatten()(y)))


def tokens():
    x = Input((4,), dtype="int32")
    embedded = layers.Embedding(40, 8)(x)
    seen = layers.MultiHeadAttention(2, 4)(embedded, embedded)
    return Model(x, layers.Dense(3)(layers.LayerNormalization()(layers.Add()([embedded, seen]))))


def attention_dropout():
    x = Input((4,), dtype="int32")
    embedded = layers.Embedding(40, 8)(x)
    seen = layers.MultiHeadAttention(2, 4, value_dim=3, dropout=0.2, use_bias=False)(embedded, embedded)
    return Model(x, layers.Dense(3)(layers.Flatten()(layers.Dropout(0.3)(seen))))


def branches():
    a, b = Input((4,)), Input((4,))
    shared = relu_dense(5)
    left, right = shared(a), layers.BatchNormalization()(shared(b))
    joined = layers.Concatenate()([left, right, layers.Multiply()([left, right])])
    return Model([a, b], [layers.Dense(3)(joined), layers.Dense(3)(layers.Add()([left, right]))])


def sequential_in_functional():
    x = Input((6,))
    return Model(x, layers.Dense(3)(Sequential([relu_dense(5), layers.BatchNormalization()])(x)))


def functional():
    x = Input((6,))
    return Model(x, layers.BatchNormalization()(relu_dense(5)(x)))


def deeply_nested():
    x = Input((6,))
    middle = Sequential([Input((6,)), functional(), relu_dense(4)])
    return Model(x, layers.Dense(3)(middle(x)))


MODELS = {  # The same as in models.cpp.
    "sequential": lambda: Sequential([Input((6,)), relu_dense(5), layers.BatchNormalization(), layers.Dense(3)]),
    "sequential_shape": lambda: Sequential(
        [
            layers.Dense(5, activation="relu", input_shape=(6,)),
            layers.LayerNormalization(),
            layers.Flatten(),
            layers.Dense(3),
        ]
    ),
    "sequential_deferred": lambda: Sequential([relu_dense(5), layers.BatchNormalization(), layers.Dense(3)]),
    "frozen": lambda: Sequential(
        [Input((6,)), layers.Dense(5, activation="relu", trainable=False), layers.BatchNormalization(), layers.Dense(3)]
    ),
    "dropout": lambda: Sequential([Input((6,)), relu_dense(5), layers.Dropout(0.4, seed=7), layers.Dense(3)]),
    "images": images,
    "tokens": tokens,
    "attention_dropout": attention_dropout,
    "branches": branches,
    "sequential_in_functional": sequential_in_functional,
    "functional_in_sequential": lambda: Sequential([functional(), layers.Dense(3)]),
    "sequential_in_sequential": lambda: Sequential(
        [Input((6,)), Sequential([relu_dense(5), layers.LayerNormalization()]), Residual(5), layers.Dense(3)]
    ),
    "deeply_nested": deeply_nested,
    "subclassed": Subclassed,
}
RANDOM = ("dropout", "attention_dropout")  # Their steps cannot be compared.
RATE = 0.013
OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(RATE),
    "momentum": lambda: optimizers.SGD(RATE, momentum=0.5, nesterov=True),
    "rmsprop": lambda: optimizers.RMSprop(RATE),
    "rmsprop_centered": lambda: optimizers.RMSprop(RATE, momentum=0.5, centered=True),
    "adagrad": lambda: optimizers.Adagrad(RATE),
    "adam": lambda: optimizers.Adam(RATE),
    "amsgrad": lambda: optimizers.Adam(RATE, amsgrad=True, clipnorm=1.0),
    "adamw": lambda: optimizers.AdamW(RATE, weight_decay=0.1),
    "accumulation": lambda: optimizers.Adam(RATE, gradient_accumulation_steps=2),
    "schedule": lambda: optimizers.Adam(optimizers.schedules.ExponentialDecay(RATE, 2, 0.5)),
}
CASES = [
    *((model, "adam", "both") for model in MODELS),
    *((model, "adam", "model") for model in MODELS),
    *((model, "adam", form) for model in ("sequential", "branches", "subclassed") for form in ("compiled", "root")),
    *(("sequential", optimizer, "both") for optimizer in OPTIMIZERS if optimizer != "adam"),
]


def rows_of(kind: str) -> tuple[list, list]:
    random = np.random.default_rng(5)
    if kind in ("tokens", "attention_dropout"):
        # No token twice: Keras squares the parts of a row's gradient, not their sum.
        x = [random.permutation(40)[: ROWS * 4].reshape(ROWS, 4).astype(np.int32)]
    elif kind == "images":
        x = [random.standard_normal((ROWS, 8, 8, 2)).astype(np.float32)]
    elif kind == "branches":
        x = [random.standard_normal((ROWS, 4)).astype(np.float32) for _ in range(2)]
    else:
        x = [random.standard_normal((ROWS, 6)).astype(np.float32)]
    shape = (ROWS, 4, 3) if kind == "tokens" else (ROWS, 3)
    return x, [random.standard_normal(shape).astype(np.float32) for _ in range(2 if kind == "branches" else 1)]


def alone(tensors: list):
    return tensors if len(tensors) > 1 else tensors[0]


class Training:
    """A model of Keras. In the form "both" a checkpoint is of the model and its optimizer; "model" is the model alone,
    not compiled while it is saved or restored, "compiled" the same compiled, and "root" the model without a name."""

    def __init__(self, model: str, optimizer: str, form: str):
        self.form = form
        self.x, self.y = rows_of(model)
        self.model, self.optimizer = MODELS[model](), OPTIMIZERS[optimizer]()
        self.checkpoint = {
            "both": lambda: tf.train.Checkpoint(model=self.model, optimizer=self.optimizer),
            "root": lambda: tf.train.Checkpoint(self.model),
        }.get(form, lambda: tf.train.Checkpoint(model=self.model))

    def predict(self) -> list:
        outputs = self.model(alone(self.x), training=False)
        return [np.asarray(one) for one in (outputs if isinstance(outputs, list) else [outputs])]

    def start(self) -> None:
        """With weights that no initializer gives."""
        self.predict()
        random = np.random.default_rng(1)
        for weight in self.model.weights:
            least = 0.2 if weight.name == "moving_variance" else -0.8
            weight.assign(random.uniform(least, 0.8, weight.shape))

    def train(self, steps: int) -> None:
        if self.form != "model":
            self.compile()
        for _ in range(steps if self.form != "model" else 0):
            self.model.train_on_batch(alone(self.x), alone(self.y))

    def compile(self) -> None:
        if not self.model.compiled:
            self.model.compile(self.optimizer, ["mse"] * len(self.y), run_eagerly=True)

    def loss(self) -> float:
        return sum(float(np.mean((p - y) ** 2)) for p, y in zip(self.predict(), self.y))

    def restore(self, path: str) -> None:
        """Raises unless each value of the checkpoint has found its object and each object its value."""
        status = self.checkpoint().restore(path)
        self.predict()
        if self.form == "both":
            self.optimizer.build(self.model.trainable_variables)
        status.assert_consumed()


def apart(a: list, b: list) -> float:
    assert len(a) == len(b), f"{len(a)} and {len(b)} outputs"
    return max(float(np.max(np.abs(x - y) / (1 + np.abs(y)))) for x, y in zip(a, b))


def run_tandem(program: str, folder: str, cases: list, first: list) -> dict:
    entries = {}
    for i, ((model, optimizer, form), training) in enumerate(zip(cases, first)):
        description = {
            "model": model,
            "optimizer": optimizer,
            "form": form,
            "restore": tf.train.latest_checkpoint(f"{folder}/keras{i}"),
            "steps": STEPS,
            "save": f"{folder}/tandem{i}/ckpt",
        }
        entries[f"{i}/case"] = np.frombuffer(json.dumps(description).encode(), np.uint8)
        entries |= {f"{i}/x{n}": x for n, x in enumerate(training.x)}
        entries |= {f"{i}/y{n}": y for n, y in enumerate(training.y)}
    np.savez(f"{folder}/cases.npz", **entries)
    subprocess.run([program, "--models", f"{folder}/cases.npz", f"{folder}/results.npz"], check=True, timeout=600)
    return dict(np.load(f"{folder}/results.npz"))


def check(case: tuple, first: Training, number: int, results: dict, folder: str) -> list[str]:
    """What is wrong with a case."""
    if f"{number}/error" in results:
        return [results[f"{number}/error"].tobytes().decode()]
    model, optimizer, form = case
    output = lambda name: [results[f"{number}/{name}{i}"] for i in range(len(first.y))]
    errors = []

    def compare(what: str, distance: float, most: float) -> None:
        if not distance <= most:
            errors.append(f"{what}: apart by {distance:.2g}")

    compare("Tandem's predictions after its restore", apart(output("restored"), first.predict()), RESTORED)
    compare("Tandem's loss after its restore", apart([results[f"{number}/loss"]], [first.loss()]), RESTORED)
    # What Tandem saves of a model alone is without its optimizer.
    second = Training(model, optimizer, "model" if form == "compiled" else form)
    try:
        second.restore(tf.train.latest_checkpoint(f"{folder}/tandem{number}"))
    except AssertionError as error:
        return [*errors, f"Keras's restore: {str(error)[:300]}"]
    compare("Keras's predictions after its restore", apart(second.predict(), output("trained")), RESTORED)
    if model in RANDOM or form == "model":
        return errors
    first.train(STEPS)
    compare("Tandem's steps", apart(first.predict(), output("trained")), TRAINED)
    if form == "both":
        first.train(STEPS)
        second.train(STEPS)
        compare("Keras's steps", apart(first.predict(), second.predict()), TRAINED)
    return errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="tandem-interop")
    parser.add_argument("kinds", nargs="*", help="models; all unless given")
    arguments = parser.parse_args()
    cases = [case for case in CASES if not arguments.kinds or case[0] in arguments.kinds]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        first = []
        for i, case in enumerate(cases):
            training = Training(*case)
            training.start()
            training.train(STEPS)
            training.checkpoint().save(f"{folder}/keras{i}/ckpt")
            first.append(training)
        results = run_tandem(arguments.program, folder, cases, first)
        for i, case in enumerate(cases):
            errors = check(case, first[i], i, results, folder)
            failed += bool(errors)
            for error in errors:
                print(f"{' '.join(case)}: {error}")
    verdict = "agree" if failed == 0 else f"{failed} DIFFER"
    print(f"model checkpoints {verdict} with Keras {keras.__version__}: {len(cases)} cases, both ways")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
