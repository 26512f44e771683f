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
    looser: float = 1  # times the usual tolerance

    def differentiable(self, case: Case) -> list[int]:
        return [i for i, x in enumerate(case.inputs) if x.dtype.kind == "f"]


def shape_of(rng, least=0, most=4, largest=6) -> list[int]:
    return [int(n) for n in rng.integers(1, largest + 1, rng.integers(least, most + 1))]


def values(rng, shape, dtype, low=-2.0, high=2.0) -> np.ndarray:
    return rng.uniform(low, high, shape).astype(dtype)


def within(low: float, high: float):
    """One tensor with values between the two."""
    return lambda rng, dtype: Case([values(rng, shape_of(rng), dtype, low, high)])


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


def two_apart_from_zero(rng, dtype) -> Case:
    a, b = broadcast_shapes(rng)
    sign = rng.choice([-1, 1], b)
    return Case([values(rng, a, dtype, -4, 4), (sign * rng.uniform(0.5, 2, b)).astype(dtype)])


def power(rng, dtype) -> Case:
    a, b = broadcast_shapes(rng)
    return Case([values(rng, a, dtype, 0.2, 2), values(rng, b, dtype)])


def truths(count: int):
    def draw(rng, dtype) -> Case:
        return Case([rng.random(shape) < 0.5 for shape in broadcast_shapes(rng)][:count])

    return draw


def chosen(rng, dtype) -> Case:
    a, b = broadcast_shapes(rng)
    return Case([rng.random(a) < 0.5, values(rng, a, dtype), values(rng, b, dtype)])


def reduced(rng, dtype) -> Case:
    shape = shape_of(rng)
    axes = None
    if rng.random() < 0.8 and shape:
        count = rng.integers(1, len(shape) + 1)
        axes = [int(a) for a in rng.permutation(len(shape))[:count]]
        axes = [a - len(shape) if rng.random() < 0.3 else a for a in axes]
    return Case([values(rng, shape, dtype)], {"axes": axes, "keepdims": bool(rng.random() < 0.5)})


def reduced_truths(rng, dtype) -> Case:
    case = reduced(rng, dtype)
    return Case([case.inputs[0] > rng.uniform(-2, 2)], case.attributes)


def along_axis(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Case([values(rng, shape, dtype)], {"axis": axis})


def product(rng, dtype) -> Case:
    rows, inner, columns = (int(n) for n in rng.integers(1, 20, 3))
    a, b = (bool(rng.random() < 0.5) for _ in range(2))
    batch = shape_of(rng, most=2, largest=3)
    first = [*batch, inner, rows] if a else [*batch, rows, inner]
    second = [*batch, columns, inner] if b else [*batch, inner, columns]
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


def classified(rng, dtype) -> Case:
    rows, classes = (int(n) for n in rng.integers(1, 9, 2))
    return Case([rng.integers(0, classes, rows), values(rng, (rows, classes), dtype) * 5])


def probable(rng, dtype) -> Case:
    shape = shape_of(rng)
    return Case([values(rng, shape, dtype, 0, 1), values(rng, shape, dtype) * 5])


def summed(rng, dtype) -> Case:
    case = along_axis(rng, dtype)
    exclusive, reverse = (bool(rng.random() < 0.5) for _ in range(2))
    return Case(case.inputs, {**case.attributes, "exclusive": exclusive, "reverse": reverse})


def expanded(rng, dtype) -> Case:
    shape = shape_of(rng)
    return Case([values(rng, shape, dtype)], {"axis": int(rng.integers(-len(shape) - 1, len(shape) + 1))})


def squeezed(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    axes = sorted(int(i) for i in rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)])
    for axis in axes:
        shape[axis] = 1
    return Case([values(rng, shape, dtype)], {"axes": axes})


def divided(rng, dtype) -> Case:
    """One of the equal parts that an axis is cut into."""
    shape = shape_of(rng, least=1)
    axis, parts = int(rng.integers(0, len(shape))), int(rng.integers(1, 4))
    shape[axis] *= parts
    return Case([values(rng, shape, dtype)], {"axis": axis, "parts": parts, "part": int(rng.integers(0, parts))})


def permuted(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    return Case([values(rng, shape, dtype)], {"permutation": [int(i) for i in rng.permutation(len(shape))]})


def tiled(rng, dtype) -> Case:
    shape = shape_of(rng, least=1, largest=3)
    return Case([values(rng, shape, dtype)], {"multiples": [int(n) for n in rng.integers(1, 4, len(shape))]})


def joined(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    axis = int(rng.integers(len(shape)))
    parts = [[*shape[:axis], int(n), *shape[axis + 1 :]] for n in rng.integers(1, 5, rng.integers(1, 5))]
    return Case([values(rng, part, dtype) for part in parts], {"axis": axis - rng.integers(2).item() * len(shape)})


def stacked(rng, dtype) -> Case:
    shape = shape_of(rng, most=3)
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    return Case([values(rng, shape, dtype) for _ in range(rng.integers(1, 5))], {"axis": axis})


def cut(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    begin = [int(rng.integers(0, n)) for n in shape]
    size = [-1 if rng.random() < 0.3 else int(rng.integers(1, n - b + 1)) for n, b in zip(shape, begin)]
    return Case([values(rng, shape, dtype)], {"begin": begin, "size": size})


def stepped(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    strides = []
    for n in shape[: rng.integers(1, len(shape) + 1)]:
        step = int(rng.choice([-2, -1, 1, 2, 3]))
        strides.append([int(rng.integers(-n, n)), int(rng.integers(-n, n + 1)), step])
    return Case([values(rng, shape, dtype)], {"strides": strides})


def padded(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    paddings = [[int(n) for n in rng.integers(0, 3, 2)] for _ in shape]
    return Case([values(rng, shape, dtype)], {"paddings": paddings, "value": float(rng.choice([0, 1.5]))})


def looked_up(rng, dtype) -> Case:
    shape = shape_of(rng, least=1)
    axis = int(rng.integers(len(shape)))
    indices = rng.integers(0, shape[axis], shape_of(rng, most=2)).astype(rng.choice(["int32", "int64"]))
    return Case([values(rng, shape, dtype), np.asarray(indices)], {"axis": axis})


def indexed(rng, dtype) -> Case:
    return Case([np.asarray(rng.integers(-1, 6, shape_of(rng, most=3)))], {"depth": 5, "dtype": dtype})


def image_attributes(rng, size=2) -> dict:
    stride = int(rng.integers(1, size + 1))
    return {"strides": [stride, stride], "padding": str(rng.choice(["SAME", "VALID"]))}


def image(rng, dtype, channels: int) -> np.ndarray:
    return values(rng, (int(rng.integers(1, 4)), *(int(n) for n in rng.integers(5, 10, 2)), channels), dtype)


def convolved(rng, dtype) -> Case:
    channels, out, *window = (int(n) for n in rng.integers(1, 5, 4))
    return Case([image(rng, dtype, channels), values(rng, (*window, channels, out), dtype)], image_attributes(rng))


def dilated(rng, dtype) -> Case:
    window, dilations = ([int(n) for n in rng.integers(1, most, 2)] for most in (4, 3))
    inputs = [image(rng, dtype, 2), values(rng, (*window, 2, 3), dtype)]
    return Case(inputs, {**image_attributes(rng), "strides": [1, 1], "dilations": dilations})


def dilated_reference(x, a):
    """With zeros in the filter: TensorFlow has no gradients of dilated convolutions on the CPU."""
    (height, width), (down, right) = x[1].shape[:2], a["dilations"]
    spread = tf.pad(x[1][:, None, :, None], [[0, 0], [0, down - 1], [0, 0], [0, right - 1], [0, 0], [0, 0]])
    filters = tf.reshape(spread, [height * down, width * right, *x[1].shape[2:]])
    filters = filters[: (height - 1) * down + 1, : (width - 1) * right + 1]
    return tf.nn.conv2d(x[0], filters, a["strides"], a["padding"])


def grouped(rng, dtype) -> Case:
    groups, channels, out, *window = (int(n) for n in rng.integers(1, 4, 5))
    inputs = [image(rng, dtype, groups * channels), values(rng, (*window, channels, groups * out), dtype)]
    return Case(inputs, {**image_attributes(rng), "groups": groups})


def grouped_reference(x, a):
    """By its definition: TensorFlow has no grouped convolution in float64 on the CPU."""
    images, filters = tf.split(x[0], a["groups"], 3), tf.split(x[1], a["groups"], 3)
    return tf.concat([tf.nn.conv2d(i, f, a["strides"], a["padding"]) for i, f in zip(images, filters)], 3)


def pooled(rng, dtype) -> Case:
    window = [int(n) for n in rng.integers(1, 4, 2)]
    return Case([image(rng, dtype, int(rng.integers(1, 5)))], {**image_attributes(rng, 3), "window": window})


def normalized(rng, dtype) -> Case:
    rows, channels = int(rng.integers(4, 12)), int(rng.integers(3, 9))
    inputs = [values(rng, (rows, channels), dtype), *(values(rng, (channels,), dtype) for _ in range(2))]
    return Case(inputs)


def normalization(axis: int) -> Op:
    def reference(x, _):
        mean, variance = tf.nn.moments(x[0], [axis], keepdims=True)
        return tf.nn.batch_normalization(x[0], mean, variance, x[2], x[1], 1e-3)

    return Op(normalized, reference, looser=10)


def unary(f, draw=one) -> Op:
    return Op(draw, lambda x, _: f(x[0]))


def binary(f, draw=two) -> Op:
    return Op(draw, lambda x, _: f(x[0], x[1]))


def reduction(f, draw=reduced) -> Op:
    return Op(draw, lambda x, a: f(x[0], a["axes"], a["keepdims"]))


def pool(f) -> Op:
    return Op(pooled, lambda x, a: f(x[0], a["window"], a["strides"], a["padding"]))


def gelu(x: tf.Tensor, approximate: bool) -> tf.Tensor:
    """tf.nn.gelu has its constants in float32, also for float64."""
    if approximate:
        return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi).item() * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + tf.math.erf(x * np.sqrt(0.5).item()))


def python_slices(x: tf.Tensor, strides: list) -> tf.Tensor:
    return x[tuple(slice(*stride) for stride in strides)]


def attended(rng, dtype) -> Case:
    """Query, key, value, and a mask that is added, [batch or 1, heads or 1, queries, keys]."""
    batch, queries, keys, heads, width, value_width = (int(n) for n in rng.integers(1, 7, 6))
    mask = [1 if rng.random() < 0.5 else batch, 1 if rng.random() < 0.5 else heads, queries, keys]
    shapes = [[batch, queries, heads, width], [batch, keys, heads, width], [batch, keys, heads, value_width], mask]
    return Case([values(rng, shape, dtype) for shape in shapes], {"causal": bool(rng.random() < 0.5)})


def attention_reference(x, a):
    query, key, value, mask = x
    scores = tf.einsum("bqhw,bkhw->bhqk", query, key) / tf.sqrt(tf.cast(query.shape[3], query.dtype)) + mask
    if a["causal"]:
        sees = tf.range(scores.shape[3])[None, :] <= tf.range(scores.shape[2])[:, None]
        scores = tf.where(sees, scores, tf.constant(-np.inf, scores.dtype))
    return tf.einsum("bhqk,bkhv->bqhv", tf.nn.softmax(scores), value)


OPS = {
    "add": binary(tf.add),
    "sub": binary(tf.subtract),
    "mul": binary(tf.multiply),
    "div": binary(tf.divide, two_apart_from_zero),
    "floor_div": binary(tf.math.floordiv, two_apart_from_zero),
    "mod": binary(tf.math.floormod, two_apart_from_zero),
    "pow": binary(tf.pow, power),
    "maximum": binary(tf.maximum),
    "minimum": binary(tf.minimum),
    "squared_difference": binary(tf.math.squared_difference),
    "neg": unary(tf.negative),
    "abs": unary(tf.abs),
    "sign": unary(tf.sign),
    "square": unary(tf.square),
    "reciprocal": unary(tf.math.reciprocal, within(0.5, 3)),
    "sqrt": unary(tf.sqrt, within(0.5, 3)),
    "rsqrt": unary(tf.math.rsqrt, within(0.5, 3)),
    "floor": unary(tf.floor),
    "ceil": unary(tf.math.ceil),
    "round": unary(tf.round),
    "exp": unary(tf.exp),
    "expm1": unary(tf.math.expm1),
    "log": unary(tf.math.log, within(0.2, 3)),
    "log1p": unary(tf.math.log1p, within(-0.5, 3)),
    "sin": unary(tf.sin),
    "cos": unary(tf.cos),
    "tan": unary(tf.tan, within(-1.2, 1.2)),
    "asin": unary(tf.asin, within(-0.9, 0.9)),
    "acos": unary(tf.acos, within(-0.9, 0.9)),
    "atan": unary(tf.atan),
    "sinh": unary(tf.sinh),
    "cosh": unary(tf.cosh),
    "tanh": unary(tf.tanh),
    "erf": unary(tf.math.erf),
    "equal": binary(tf.equal, two_small_wholes),
    "not_equal": binary(tf.not_equal, two_small_wholes),
    "less": binary(tf.less, two_small_wholes),
    "less_equal": binary(tf.less_equal, two_small_wholes),
    "greater": binary(tf.greater, two_small_wholes),
    "greater_equal": binary(tf.greater_equal, two_small_wholes),
    "logical_and": binary(tf.logical_and, truths(2)),
    "logical_or": binary(tf.logical_or, truths(2)),
    "logical_xor": binary(tf.math.logical_xor, truths(2)),
    "logical_not": unary(tf.logical_not, truths(1)),
    "where": Op(chosen, lambda x, _: tf.where(*x)),
    "clip": Op(
        lambda rng, dtype: one(rng, dtype)._replace(attributes={"low": -0.5, "high": 1.0}),
        lambda x, a: tf.clip_by_value(x[0], a["low"], a["high"]),
    ),
    "relu": unary(tf.nn.relu),
    "relu6": unary(tf.nn.relu6, within(-4, 9)),
    "sigmoid": unary(tf.sigmoid),
    "silu": unary(tf.nn.silu),
    "softplus": unary(tf.nn.softplus),
    "elu": unary(tf.nn.elu),
    "leaky_relu": Op(
        lambda rng, dtype: one(rng, dtype)._replace(attributes={"alpha": 0.25}),
        lambda x, a: tf.nn.leaky_relu(x[0], a["alpha"]),
    ),
    "gelu": Op(
        lambda rng, dtype: one(rng, dtype)._replace(attributes={"approximate": bool(rng.random() < 0.5)}),
        lambda x, a: gelu(x[0], a["approximate"]),
    ),
    "softmax": Op(along_axis, lambda x, a: tf.nn.softmax(x[0], a["axis"])),
    "log_softmax": Op(along_axis, lambda x, a: tf.nn.log_softmax(x[0], a["axis"])),
    "softmax_cross_entropy_with_logits": binary(tf.nn.softmax_cross_entropy_with_logits, labelled),
    "sparse_softmax_cross_entropy_with_logits": binary(
        tf.nn.sparse_softmax_cross_entropy_with_logits, classified
    ),
    "sigmoid_cross_entropy_with_logits": binary(tf.nn.sigmoid_cross_entropy_with_logits, probable),
    "reduce_sum": reduction(tf.reduce_sum),
    "reduce_mean": reduction(tf.reduce_mean),
    "reduce_max": reduction(tf.reduce_max),
    "reduce_min": reduction(tf.reduce_min),
    "reduce_prod": reduction(tf.reduce_prod),
    "reduce_any": reduction(tf.reduce_any, reduced_truths),
    "reduce_all": reduction(tf.reduce_all, reduced_truths),
    "reduce_variance": reduction(tf.math.reduce_variance),
    "reduce_std": reduction(tf.math.reduce_std),
    "reduce_logsumexp": reduction(tf.math.reduce_logsumexp),
    "argmax": Op(along_axis, lambda x, a: tf.argmax(x[0], a["axis"])),
    "argmin": Op(along_axis, lambda x, a: tf.argmin(x[0], a["axis"])),
    "cumsum": Op(summed, lambda x, a: tf.cumsum(x[0], a["axis"], a["exclusive"], a["reverse"])),
    "reshape": Op(reshaped, lambda x, a: tf.reshape(x[0], a["shape"])),
    "broadcast_to": Op(repeated, lambda x, a: tf.broadcast_to(x[0], a["shape"])),
    "cast": Op(converted, lambda x, a: tf.cast(x[0], a["dtype"])),
    "expand_dims": Op(expanded, lambda x, a: tf.expand_dims(x[0], a["axis"])),
    "transpose": Op(permuted, lambda x, a: tf.transpose(x[0], a["permutation"])),
    "tile": Op(tiled, lambda x, a: tf.tile(x[0], a["multiples"])),
    "concat": Op(joined, lambda x, a: tf.concat(x, a["axis"])),
    "squeeze": Op(squeezed, lambda x, a: tf.squeeze(x[0], a["axes"])),
    "split": Op(divided, lambda x, a: tf.split(x[0], a["parts"], a["axis"])[a["part"]]),
    "unstack": Op(divided, lambda x, a: tf.unstack(x[0], axis=a["axis"])[a["part"]]),
    "stack": Op(stacked, lambda x, a: tf.stack(x, a["axis"])),
    "slice": Op(cut, lambda x, a: tf.slice(x[0], a["begin"], a["size"])),
    "strided_slice": Op(stepped, lambda x, a: python_slices(x[0], a["strides"])),
    "pad": Op(padded, lambda x, a: tf.pad(x[0], a["paddings"], constant_values=a["value"])),
    "gather": Op(looked_up, lambda x, a: tf.gather(x[0], x[1], axis=a["axis"])),
    "one_hot": Op(indexed, lambda x, a: tf.one_hot(x[0], a["depth"], dtype=a["dtype"])),
    "matmul": Op(product, lambda x, a: tf.matmul(x[0], x[1], a["transpose_a"], a["transpose_b"])),
    "conv2d": Op(convolved, lambda x, a: tf.nn.conv2d(x[0], x[1], a["strides"], a["padding"])),
    "conv2d_dilated": Op(dilated, dilated_reference),
    "conv2d_grouped": Op(grouped, grouped_reference),
    "depthwise_conv2d": Op(
        convolved, lambda x, a: tf.nn.depthwise_conv2d(x[0], x[1], [1, *a["strides"], 1], a["padding"])
    ),
    "max_pool2d": pool(tf.nn.max_pool2d),
    "avg_pool2d": pool(tf.nn.avg_pool2d),
    "batch_norm": normalization(0),
    "layer_norm": normalization(1),
    "attention": Op(attended, attention_reference),
}
