"""Small integers and halves: casts, arithmetic that wraps round or is rounded, ops of all families, eager and traced."""

import numpy as np
import tensorflow as tf

WHOLE = ["int8", "int16", "uint8", "uint16", "uint32", "uint64"]
HALVES = ["float16", "bfloat16"]
NAMES = [*WHOLE, *HALVES, "int32", "int64", "float32", "float64", "bool"]
result = {}


def given(dtype, numbers):
    return tf.cast(tf.constant(numbers, tf.float64), dtype)


def keep(key, value):
    """The values, and of which dtype they are."""
    for i, each in enumerate(value if isinstance(value, (list, tuple)) else [value]):
        assert each.dtype.name in NAMES, each.dtype
        result[f"{key} {i}"] = tf.concat([[NAMES.index(each.dtype.name)], tf.reshape(tf.cast(each, tf.float64), (-1,))], 0)


a, b = [[100.0, 3, 7], [5, 2, 120]], [[100.0, 2, 5], [3, 7, 11]]
MOVING = {
    "reshape": lambda x, y: tf.reshape(x, (3, 2)), "transpose": lambda x, y: tf.transpose(x), "concat": lambda x, y: tf.concat([x, y], 1),
    "stack": lambda x, y: tf.stack([x, y], 1), "slice": lambda x, y: x[:, 1:], "steps": lambda x, y: x[..., ::-2],
    "gather": lambda x, y: tf.gather(x, [2, 0], axis=1), "tile": lambda x, y: tf.tile(x, [1, 2]), "expand_dims": lambda x, y: tf.expand_dims(x, 1),
    "broadcast_to": lambda x, y: tf.broadcast_to(x[:1], (2, 3)), "where": lambda x, y: tf.where([True, False, True], x, y),
    "zeros_like": lambda x, y: tf.zeros_like(x), "ones_like": lambda x, y: tf.ones_like(x), "zeros": lambda x, y: tf.zeros((2,), x.dtype),
    "ones": lambda x, y: tf.ones((2,), x.dtype), "fill": lambda x, y: tf.fill((2,), x[0, 0]), "split": lambda x, y: tf.split(x, 3, axis=1),
    "unstack": lambda x, y: tf.unstack(x), "reverse": lambda x, y: tf.reverse(x, [1]), "pad": lambda x, y: tf.pad(x, [[0, 0], [1, 0]]),
    "one_hot": lambda x, y: tf.one_hot([1, 0], 3, dtype=x.dtype), "constant": lambda x, y: tf.constant([1, 2, 3], x.dtype),
    "boolean_mask": lambda x, y: tf.boolean_mask(x, [True, False]), "gather_nd": lambda x, y: tf.gather_nd(x, [[0, 1], [1, 2]]),
    "roll": lambda x, y: tf.roll(x, 1, 1), "squeeze": lambda x, y: tf.squeeze(x[:1]), "identity": lambda x, y: tf.identity(x),
    "eye": lambda x, y: tf.eye(2, dtype=x.dtype), "repeat": lambda x, y: tf.repeat(x, 2, axis=0),
}
ARITHMETIC = {
    "add": lambda x, y: x + y, "sub": lambda x, y: y - x, "mul": lambda x, y: x * y, "truediv": lambda x, y: x / y,
    "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "maximum": tf.maximum, "minimum": tf.minimum,
    "plus number": lambda x, y: x + 1, "number times": lambda x, y: 2 * x, "compare": lambda x, y: [x < y, x <= y, x > y, x >= y, x == y, x != y],
    "reduce_sum": lambda x, y: [tf.reduce_sum(x), tf.reduce_sum(x, 0), tf.reduce_sum(x, 1, keepdims=True)], "reduce_max": lambda x, y: tf.reduce_max(x, 1),
    "reduce_min": lambda x, y: tf.reduce_min(x, 0), "reduce_prod": lambda x, y: tf.reduce_prod(x, 1), "reduce_mean": lambda x, y: tf.reduce_mean(x, 1),
    "argmax": lambda x, y: [tf.argmax(x, 1), tf.argmin(x, 0)], "cumsum": lambda x, y: tf.cumsum(x, 1), "square": lambda x, y: tf.square(x),
    "clip": lambda x, y: tf.clip_by_value(x, 3, 50), "add_n": lambda x, y: tf.add_n([x, y, y]), "matmul": lambda x, y: tf.matmul(x, y, transpose_b=True),
    "top_k": lambda x, y: tf.math.top_k(x, 2), "sort": lambda x, y: tf.sort(x, 1),
    "pow": lambda x, y: tf.pow(x, tf.ones_like(x) * 2), "abs": lambda x, y: tf.abs(x), "neg": lambda x, y: -x, "sign": lambda x, y: tf.sign(x),
    "squared_difference": lambda x, y: tf.math.squared_difference(x, y), "unique": lambda x, y: tf.unique(tf.reshape(x, (-1,)))[0],
    "segment_sum": lambda x, y: tf.math.unsorted_segment_sum(x, [0, 0], 2), "count_nonzero": lambda x, y: tf.math.count_nonzero(x),
    "bitwise": lambda x, y: [tf.bitwise.bitwise_and(x, y), tf.bitwise.bitwise_or(x, y), tf.bitwise.bitwise_xor(x, y)],
    "scatter": lambda x, y: tf.tensor_scatter_nd_update(x, [[0, 1]], [y[1, 1]]),
}
FLOATING = {
    "exp": lambda x, y: tf.exp(y / 8), "log": lambda x, y: tf.math.log(x), "sqrt": lambda x, y: tf.sqrt(x), "rsqrt": lambda x, y: tf.math.rsqrt(x), "tanh": lambda x, y: tf.tanh(y / 4),
    "sigmoid": lambda x, y: tf.sigmoid(y / 4), "relu": lambda x, y: tf.nn.relu(x - y), "softmax": lambda x, y: tf.nn.softmax(y / 4),
    "log_softmax": lambda x, y: tf.nn.log_softmax(y / 4), "gelu": lambda x, y: tf.nn.gelu(y / 4), "leaky_relu": lambda x, y: tf.nn.leaky_relu(x - y),
    "floor": lambda x, y: [tf.floor(x / y), tf.math.ceil(x / y), tf.round(x / y)], "is_nan": lambda x, y: tf.math.is_nan(x), "reduce_logsumexp": lambda x, y: tf.reduce_logsumexp(y, 1),
    "reduce_variance": lambda x, y: tf.math.reduce_variance(y, 1), "sin": lambda x, y: [tf.sin(y), tf.cos(y)], "divide_no_nan": lambda x, y: tf.math.divide_no_nan(x, y - y),
    "plus fraction": lambda x, y: x + 0.3, "number times fraction": lambda x, y: 0.1 * x, "einsum": lambda x, y: tf.einsum("ij,kj->ik", x, y),
    "sparse": lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 2], y / 4), "xent": lambda x, y: tf.nn.softmax_cross_entropy_with_logits(tf.one_hot([0, 2], 3, dtype=y.dtype), y / 4),
    "conv2d": lambda x, y: tf.nn.conv2d(tf.reshape(y, (1, 2, 3, 1)), tf.ones((2, 2, 1, 2), y.dtype), 1, "SAME"), "norm": lambda x, y: tf.norm(y, axis=1), "l2_normalize": lambda x, y: tf.nn.l2_normalize(y, 1),
    "max_pool": lambda x, y: tf.nn.max_pool2d(tf.reshape(y, (1, 2, 3, 1)), 2, 1, "VALID"), "linspace": lambda x, y: tf.linspace(y[0, 0], y[0, 1], 3), "cumprod": lambda x, y: tf.math.cumprod(y / 8, 1),
}


REFUSED = {  # What TensorFlow has no kernel for.
    "matmul": WHOLE, "pow": WHOLE[2:], "abs": WHOLE[2:], "neg": WHOLE[2:], "sign": WHOLE[2:], "squared_difference": WHOLE,
    "bitwise": HALVES, "tile": ["uint16"], "repeat": ["uint16"],
}

for group, dtypes in ((MOVING, WHOLE + HALVES), (ARITHMETIC, WHOLE + HALVES), (FLOATING, HALVES)):
    for name, f in group.items():
        for dtype in dtypes:
            if dtype in REFUSED.get(name, ()):
                continue
            x, y = given(dtype, a), given(dtype, b)
            values = f(x, y)
            if group is FLOATING and dtype == "bfloat16":  # Its last bit depends on what is rounded in between.
                for own, exact in zip(tf.nest.flatten(values), tf.nest.flatten(f(tf.cast(x, tf.float32), tf.cast(y, tf.float32)))):
                    np.testing.assert_allclose(tf.cast(own, tf.float64), tf.cast(exact, tf.float64), rtol=0.03, atol=0.02, err_msg=name)
            else:
                keep(f"{name} {dtype}", values)
            for eager, traced in zip(tf.nest.flatten(values), tf.nest.flatten(tf.function(f)(x, y))):
                assert eager.dtype == traced.dtype, (name, dtype)
                np.testing.assert_allclose(tf.cast(eager, tf.float64), tf.cast(traced, tf.float64), rtol=0.02, atol=1e-3, err_msg=f"{name} {dtype}")

numbers = [-3.7, -1.0, 0.0, 0.5, 2.5, 100.0, 120.9]
for from_ in NAMES:
    for to in NAMES:
        if from_[0] == "u" or to[0] == "u" and from_ not in ("int8", "int16", "int32", "int64"):  # What is undefined in C++ is in TensorFlow.
            keep(f"cast {from_} {to}", tf.cast(given(from_, numbers[2:]), to))
        else:
            keep(f"cast {from_} {to}", tf.cast(given(from_, numbers), to))
for dtype in WHOLE:
    limits = [float(tf.as_dtype(dtype).min), float(tf.as_dtype(dtype).max)]
    result[f"limits {dtype}"] = limits
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = tf.constant(array)
    assert tensor.dtype == dtype and tensor.numpy().dtype == array.dtype and tf.convert_to_tensor(array).dtype == dtype
    keep(f"array {dtype}", tensor + array)
    keep(f"data set {dtype}", next(iter(tf.data.Dataset.from_tensor_slices(array).map(lambda v: v + v).batch(2))))
    variable = tf.Variable(tensor)
    variable.assign_add(tensor)
    variable.assign_sub(tf.ones_like(tensor))
    keep(f"variable {dtype}", variable.read_value())

for dtype in HALVES:
    x, w = given(dtype, a) / 100, tf.Variable(given(dtype, np.array(b).T))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.tanh(tf.matmul(x, w) / 10))
    gradients = tape.gradient(loss, [x, w])
    assert [g.dtype for g in gradients] == [dtype, dtype]
    if dtype == "float16":
        keep(f"gradients {dtype}", gradients)
    w.assign_add(w)
    keep(f"variable {dtype}", w.read_value())
    dense = tf.keras.layers.Dense(2, kernel_initializer="ones", dtype=dtype)
    keep(f"dense {dtype}", dense(x))
    keep(f"kernel {dtype}", dense.kernel.value if hasattr(dense.kernel, "value") and not callable(dense.kernel.value) else dense.kernel.value())

samples = tf.constant(np.array([0, 16384, -32768, 32767], "int16"))
keep("audio", tf.cast(samples, tf.float32) / 32768.0)
image = tf.constant(np.array([[0, 1000], [65535, 32768]], "uint16"))
keep("image", [tf.image.convert_image_dtype(image, tf.float32), tf.cast(image, tf.float32) / 65535])
keep("saturate", [tf.saturate_cast(tf.constant([-300.0, 5.5, 300.0]), t) for t in ("int8", "uint8", "int16", "uint16")])
