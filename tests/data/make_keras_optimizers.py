"""Writes keras_optimizers.txt: the first 50 losses of a small problem under each optimizer of Keras.

A line is a name and the losses. The problem is the sum of c (w - t)^2 / 2 over the 13 elements of
two float64 variables. tests/keras/optimizer_trajectories_test.cpp has the same problem and names.
Rates are exact in float32, in which Keras keeps them.

  python make_keras_optimizers.py
"""
import math
import os
import pathlib

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
from keras.optimizers import SGD, Adagrad, Adam, AdamW, RMSprop
from keras.optimizers.schedules import (
    CosineDecay,
    ExponentialDecay,
    PiecewiseConstantDecay,
    PolynomialDecay,
)

STEPS = 50
SHAPES = [(7,), (2, 3)]

CASES = {
    "sgd": SGD(0.0625),
    "sgd_momentum": SGD(0.03125, momentum=0.9),
    "sgd_nesterov": SGD(0.03125, momentum=0.9, nesterov=True),
    "sgd_weight_decay": SGD(0.0625, weight_decay=0.25),
    "sgd_clipnorm": SGD(0.0625, clipnorm=0.75),
    "sgd_clipvalue": SGD(0.0625, clipvalue=0.5),
    "sgd_global_clipnorm": SGD(0.0625, momentum=0.5, global_clipnorm=1.5),
    "sgd_accumulation": SGD(0.125, momentum=0.5, gradient_accumulation_steps=4),
    "rmsprop": RMSprop(0.03125),
    "rmsprop_momentum": RMSprop(0.015625, rho=0.8, momentum=0.5, epsilon=1e-3),
    "rmsprop_centered": RMSprop(0.015625, centered=True, epsilon=1e-2),
    "rmsprop_all": RMSprop(
        0.015625, momentum=0.5, centered=True, epsilon=1e-2, weight_decay=0.125, clipvalue=1.0
    ),
    "adagrad": Adagrad(0.5),
    "adagrad_options": Adagrad(
        0.5, initial_accumulator_value=0.75, epsilon=1e-3, weight_decay=0.0625
    ),
    "adam": Adam(0.0625),
    "adam_options": Adam(0.0625, beta_1=0.8, beta_2=0.9, epsilon=1e-3, weight_decay=0.25),
    "adam_amsgrad": Adam(0.125, beta_1=0.5, beta_2=0.75, amsgrad=True),
    "adam_accumulation": Adam(0.125, gradient_accumulation_steps=3),
    "adam_accumulation_clipped": Adam(
        ExponentialDecay(0.25, 10, 0.5),
        epsilon=0.5,
        weight_decay=0.125,
        global_clipnorm=1.0,
        gradient_accumulation_steps=2,
    ),
    "adamw": AdamW(0.0625),
    "adamw_options": AdamW(0.0625, weight_decay=0.5, beta_1=0.75, clipnorm=0.5),
    "exponential": SGD(ExponentialDecay(0.125, 20, 0.25)),
    "exponential_staircase": SGD(ExponentialDecay(0.125, 20, 0.25, staircase=True)),
    "cosine": SGD(CosineDecay(0.125, 30, alpha=0.125)),
    "cosine_warmup": SGD(CosineDecay(0.0, 25, warmup_target=0.125, warmup_steps=10)),
    "piecewise": SGD(PiecewiseConstantDecay([5, 20], [0.125, 0.0625, 0.015625])),
    "polynomial": SGD(PolynomialDecay(0.125, 30, end_learning_rate=0.015625, power=2.0)),
    "polynomial_cycle": SGD(PolynomialDecay(0.125, 20, power=0.5, cycle=True)),
}


def over_elements(f):
    """Arrays of f(i), with i counting on from one variable to the next."""
    values = [f(i) for i in range(sum(math.prod(shape) for shape in SHAPES))]
    split = math.prod(SHAPES[0])
    return [np.array(v).reshape(s) for v, s in zip((values[:split], values[split:]), SHAPES)]


def losses(optimizer):
    targets = over_elements(lambda i: math.cos(5 * i))
    curvatures = over_elements(lambda i: 0.5 + 0.5 * (i % 5))
    weights = [
        keras.Variable(v, dtype="float64") for v in over_elements(lambda i: 2 * math.sin(3 * i + 1))
    ]
    result = []
    for _ in range(STEPS):
        gaps = [w.numpy() - t for w, t in zip(weights, targets)]
        result.append(sum((c * g * g).sum() / 2 for c, g in zip(curvatures, gaps)))
        optimizer.apply([keras.ops.convert_to_tensor(c * g) for c, g in zip(curvatures, gaps)], weights)
    return result


with open(pathlib.Path(__file__).with_name("keras_optimizers.txt"), "w") as out:
    for name, optimizer in CASES.items():
        print(name, *(f"{loss:.10g}" for loss in losses(optimizer)), file=out)
