"""Writes keras_optimizers/: checkpoints of two variables and each optimizer of Keras after 3 steps, and the variables
after 4 steps more, in expected.npz. tests/checkpoint/optimizer_test.cpp goes on from them.

    python make_keras_optimizer_checkpoints.py
"""

import os
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers import SGD, Adagrad, Adam, AdamW, RMSprop
from keras.optimizers.schedules import ExponentialDecay

KINDS = {
    "sgd": SGD(0.1),
    "momentum": SGD(0.1, momentum=0.5, nesterov=True),
    "rmsprop": RMSprop(0.1, momentum=0.5, centered=True),
    "adagrad": Adagrad(0.1),
    "amsgrad": Adam(0.1, amsgrad=True),
    "accumulation": AdamW(0.1, gradient_accumulation_steps=2),
    "schedule": Adam(ExponentialDecay(0.1, 2, 0.5)),
}

folder = Path(__file__).with_name("keras_optimizers")
folder.mkdir(exist_ok=True)
expected = {}
for name, optimizer in KINDS.items():
    a = keras.Variable(np.array([1, 2, 3], "float32"))
    b = keras.Variable(np.array([4, 5], "float32"))

    def train(steps):
        for _ in range(steps):
            optimizer.apply([a.value * 0.5, b.value + 1.0], [a, b])

    train(3)
    tf.train.Checkpoint(a=a, b=b, optimizer=optimizer).save(str(folder / name))
    train(4)
    expected[name + "/a"], expected[name + "/b"] = a.numpy(), b.numpy()
np.savez(folder / "expected.npz", **expected)
(folder / "checkpoint").unlink()  # Names the last one only.
