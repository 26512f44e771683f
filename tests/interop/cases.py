"""The ops that are compared: how a random case of each is drawn, and what TensorFlow calls it. ops.cpp has the other
side of the table."""

from typing import Callable, NamedTuple

import numpy as np
import tensorflow as tf


class Case(NamedTuple):
    inputs: list[np.ndarray]
    attributes: dict = {}


class Op(NamedTuple):
    draw: Callable[[np.random.Generator, str], Case]
    reference: Callable[[list[tf.Tensor], dict], tf.Tensor]
    gradients: tuple[int, ...] | None = None  # inputs whose gradients are compared; all floating ones if not given

    def differentiable(self, case: Case) -> list[int]:
        chosen = range(len(case.inputs)) if self.gradients is None else self.gradients
        return [i for i in chosen if case.inputs[i].dtype.kind == "f"]


def shape_of(rng, least=0, most=4, largest=6) -> list[int]:
    return [int(n) for n in rng.integers(1, largest + 1, rng.integers(least, most + 1))]


def values(rng, shape, dtype) -> np.ndarray:
    return rng.uniform(-2, 2, shape).astype(dtype)


def one(rng, dtype) -> Case:
    return Case([values(rng, shape_of(rng), dtype)])


def broadcast_shapes(rng) -> tuple[list[int], list[int]]:
    """Two shapes that broadcast: some sizes are 1, one side may lack leading axes."""
    full = shape_of(rng)
    sides = [[1 if rng.random() < 0.25 else n for n in full] for _ in range(2)]
    shorter = rng.integers(0, 2)
    sides[shorter] = sides[shorter][rng.integers(0, len(full) + 1) :]
    return sides[0], sides[1]


def two(rng, dtype) -> Case:
    a, b = broadcast_shapes(rng)
    return Case([values(rng, a, dtype), values(rng, b, dtype)])


def two_small_wholes(rng, dtype) -> Case:
    """So that some are equal."""
    a, b = broadcast_shapes(rng)
    return Case([rng.integers(0, 3, shape).astype(dtype) for shape in (a, b)])


def reduced(rng, dtype) -> Case:
    shape = shape_of(rng)
    axes = None
    if rng.random() < 0.8 and shape:
        count = rng.integers(1, len(shape) + 1)
        axes = [int(a) for a in rng.permutation(len(shape))[:count]]
        axes = [a - len(shape) if rng.random() < 0.3 else a for a in axes]
    return Case([values(rng, shape, dtype)], {"axes": axes, "keepdims": bool(rng.random() < 0.5)})


def along_axis(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Case([values(rng, shape, dtype)], {"axis": axis})


def product(rng, dtype) -> Case:
    rows, inner, columns = (int(n) for n in rng.integers(1, 20, 3))
    a, b = (bool(rng.random() < 0.5) for _ in range(2))
    first = [inner, rows] if a else [rows, inner]
    second = [columns, inner] if b else [inner, columns]
    return Case([values(rng, first, dtype), values(rng, second, dtype)], {"transpose_a": a, "transpose_b": b})


def reshaped(rng, dtype) -> Case:
    shape = shape_of(rng)
    target = [int(n) for n in rng.permutation(shape)]
    if len(target) > 1 and rng.random() < 0.5:
        target = [target[0] * target[1], *target[2:]]
    if target and rng.random() < 0.5:
        target[rng.integers(len(target))] = -1
    return Case([values(rng, shape, dtype)], {"shape": target})


def repeated(rng, dtype) -> Case:
    target = shape_of(rng)
    source = [1 if rng.random() < 0.4 else n for n in target][rng.integers(0, len(target) + 1) :]
    return Case([values(rng, source, dtype)], {"shape": target})


def converted(rng, dtype) -> Case:
    to = str(rng.choice(["float32", "float64", "int32", "int64", "bool"]))
    return Case([values(rng, shape_of(rng), dtype) * 10], {"dtype": to})


def labelled(rng, dtype) -> Case:
    rows, classes = (int(n) for n in rng.integers(1, 9, 2))
    labels = rng.uniform(0.1, 1, (rows, classes))
    return Case([(labels / labels.sum(1, keepdims=True)).astype(dtype), values(rng, (rows, classes), dtype) * 5])


def unary(f, draw=one) -> Op:
    return Op(draw, lambda x, _: f(x[0]))


def binary(f, draw=two, gradients=None) -> Op:
    return Op(draw, lambda x, _: f(x[0], x[1]), gradients)


def reduction(f) -> Op:
    return Op(reduced, lambda x, a: f(x[0], a["axes"], a["keepdims"]))


OPS = {
    "add": binary(tf.add),
    "sub": binary(tf.subtract),
    "mul": binary(tf.multiply),
    "equal": binary(tf.equal, two_small_wholes),
    "relu": unary(tf.nn.relu),
    "reduce_sum": reduction(tf.reduce_sum),
    "reduce_mean": reduction(tf.reduce_mean),
    # Labels have a gradient in TensorFlow only.
    "softmax_cross_entropy_with_logits": binary(tf.nn.softmax_cross_entropy_with_logits, labelled, (1,)),
    "argmax": Op(along_axis, lambda x, a: tf.argmax(x[0], a["axis"])),
    "matmul": Op(product, lambda x, a: tf.matmul(x[0], x[1], a["transpose_a"], a["transpose_b"])),
    "reshape": Op(reshaped, lambda x, a: tf.reshape(x[0], a["shape"])),
    "broadcast_to": Op(repeated, lambda x, a: tf.broadcast_to(x[0], a["shape"])),
    "cast": Op(converted, lambda x, a: tf.cast(x[0], a["dtype"])),
}
