"""Keras's settings and old functions, keras.backend."""

import builtins

import numpy as np

import _tandem
from tandem import _ops
from tandem._names import missing as _missing
from tandem._ops import *  # noqa: F401, F403
from tandem._ops import abs, cast as _cast, clip_by_value, concat, equal, exp, greater, less, log, maximum, minimum, ones_like, pow, reduce_max as max, reduce_mean as mean, reduce_min as min, reduce_std as std, reduce_sum as sum, reduce_variance as var, reshape, round, shape, sigmoid, sign, sqrt, square, squeeze, stack, tanh, tile, transpose, zeros_like  # noqa: E501, F401
from tandem.keras import activations as _activations
from tandem.keras._objects import reset_uids  # noqa: F401
from tandem.keras._promotion import result_type  # noqa: F401
from tandem.keras.losses import binary_crossentropy, categorical_crossentropy, sparse_categorical_crossentropy  # noqa: F401
from tandem.keras.random import SeedGenerator  # noqa: F401

_settings = {"floatx": "float32", "epsilon": 1e-7, "image_data_format": "channels_last"}


def backend():
    """The name of the backend, which Keras programs ask for."""
    return "tensorflow"


def floatx():
    """The dtype of weights and of arrays that are given to models."""
    return _settings["floatx"]


def set_floatx(value):
    """Sets the dtype of weights and of arrays that are given to models."""
    from tandem.keras._calls import set_dtype_policy

    _settings["floatx"] = value
    set_dtype_policy(value)


def epsilon():
    """The small number that keeps divisions and logarithms finite."""
    return _settings["epsilon"]


def set_epsilon(value):
    """Sets the small number that keeps divisions and logarithms finite."""
    _settings["epsilon"] = value


def image_data_format():
    """"channels_last" or "channels_first": the order of axes of images."""
    return _settings["image_data_format"]


def set_image_data_format(data_format):
    """Sets the order of axes that layers take images to have."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"The `data_format` argument must be one of ('channels_first', 'channels_last'). Received: data_format={data_format}")
    _settings["image_data_format"] = data_format


def argmax(x, axis=-1):
    """The index of the largest element along an axis."""
    return _ops.argmax(x, axis)


def argmin(x, axis=-1):
    """The index of the smallest element along an axis."""
    return _ops.argmin(x, axis)


def expand_dims(x, axis=-1):
    """The tensor with an axis of size 1 inserted."""
    return _ops.expand_dims(x, axis)


def clear_session(free_memory=True):
    """Lets automatic names begin at the beginning."""
    reset_uids()


def standardize_dtype(dtype):
    """The name of a dtype."""
    from tandem import dtypes

    return dtypes.as_dtype(dtype or "float32").name


def is_float_dtype(dtype):
    """True for floating dtypes."""
    return str(standardize_dtype(dtype)).startswith(("float", "bfloat"))


def is_int_dtype(dtype):
    """True for dtypes of integers."""
    return "int" in str(standardize_dtype(dtype))


def is_keras_tensor(x):
    """True for what stands for a tensor of a described model."""
    from tandem.keras._symbolic import KerasTensor

    return isinstance(x, KerasTensor)


def learning_phase():
    """1 while a model trains, else 0."""
    from tandem.keras._calls import call_context

    return bool(call_context.training)


def set_learning_phase(value):
    """Sets whether layers train that are not told."""
    from tandem.keras._calls import call_context

    call_context.training = bool(value)


def int_shape(x):
    """The sizes of a tensor's axes as a tuple, None where they are not known."""
    return tuple(x.shape)


def ndim(x):
    """The number of axes."""
    return len(x.shape)


def cast(x, dtype):
    """The elements as another dtype."""
    return _cast(x, dtype)


def clip(x, min_value, max_value):
    """Each element, moved into a range."""
    return clip_by_value(x, min_value, max_value)


def concatenate(tensors, axis=-1):
    """Tensors one after another along an axis."""
    return concat(tensors, axis)


def dot(x, y):
    """The product of tensors as Keras 2 has it: over the last axis of x and the last but one of y."""
    return _ops.matmul(x, y)


def batch_dot(x, y, axes=None):
    """The products of the rows of a batch over the given axes."""
    from tandem.keras.layers import Dot

    if axes is None:
        axes = (x.ndim - 1, y.ndim - 2 if y.ndim > 2 else y.ndim - 1)
    return Dot(axes)([x, y])


def flatten(x):
    """All elements in one axis."""
    return reshape(x, (-1,))


def batch_flatten(x):
    """The elements of each row in one axis."""
    x = _tandem.convert(x)
    return reshape(x, (x._sizes[0], -1))


def relu(x, negative_slope=0.0, max_value=None, threshold=0.0, alpha=None):
    """max(x, 0), with a slope, a largest value and a threshold."""
    return _activations.relu(x, alpha or negative_slope, max_value, threshold)


softmax = _activations.softmax


def l2_normalize(x, axis=None):
    """x, divided by its L2 norm over an axis."""
    from tandem import nn

    return nn.l2_normalize(x, axis)


def get_value(x):
    """The value of a variable as an array."""
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x, value):
    """Assigns a variable."""
    x.assign(value)


def eval(x):
    """The value of a tensor as an array."""
    return get_value(x)


def variable(value, dtype=None, name=None, constraint=None):
    """A variable of a value."""
    from tandem import Variable

    return Variable(value, dtype=dtype or floatx(), name=name)


def constant(value, dtype=None, shape=None, name=None):
    """A tensor of a value."""
    return _ops.constant(value, dtype, shape)


def placeholder(*args, **kwargs):
    """What stands for an input of a described model."""
    raise NotImplementedError("there are no placeholders; keras.Input describes a model's input")


def random_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Normally distributed values."""
    from tandem import random

    return random.normal(shape, mean, stddev, dtype or "float32", seed)


def random_uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    """Uniformly distributed values."""
    from tandem import random

    return random.uniform(shape, minval, maxval, dtype or "float32", seed)


def update(x, new):
    """Assigns a variable."""
    return x.assign(new)


def update_add(x, increment):
    """Adds to a variable."""
    return x.assign_add(increment)


def any(x, axis=None, keepdims=False):
    """True if any element is, over an axis."""
    return _ops.reduce_any(_cast(x, "bool"), axis, keepdims)


def all(x, axis=None, keepdims=False):
    """True if all elements are, over an axis."""
    return _ops.reduce_all(_cast(x, "bool"), axis, keepdims)


def in_train_phase(x, alt, training=None):
    """x while training, else alt."""
    return x if (learning_phase() if training is None else training) else alt


def gradients(loss, variables):
    """The gradients of a loss by variables."""
    raise RuntimeError("keras.backend.gradients needs a graph; use tf.GradientTape")


def function(inputs, outputs, updates=None, **kwargs):
    """A function from the inputs of a described model to its outputs."""
    from tandem.keras import Model

    model = Model(inputs, outputs)
    return lambda given: [get_value(o) for o in (lambda r: r if isinstance(r, (list, tuple)) else [r])(model(given))]


def arange(start, stop=None, step=1, dtype="int32"):
    """The numbers from start up to but without stop, in steps."""
    return _ops.range(start, stop, step, dtype)


def batch_get_value(tensors):
    """The values of variables as arrays."""
    return [get_value(t) for t in tensors]


def batch_set_value(tuples):
    """Assigns variables, given as pairs with their values."""
    for variable_, value in tuples:
        set_value(variable_, value)


def bias_add(x, bias, data_format=None):
    """Adds a bias to the channels."""
    return _tandem.convert(x) + bias


def cast_to_floatx(x):
    """An array or tensor of the dtype that floatx names."""
    return _cast(x, floatx()) if hasattr(x, "_code") else np.asarray(x, dtype=floatx())


def count_params(x):
    """The number of elements."""
    return int(np.prod(tuple(x.shape)))


def dropout(x, level, noise_shape=None, seed=None):
    """Zeros in the place of a part of the elements, the others scaled up."""
    from tandem import nn

    return nn.dropout(x, level, noise_shape, seed)


def dtype(x):
    """The name of a tensor's dtype."""
    return x.dtype if isinstance(x.dtype, str) else x.dtype.name


def elu(x, alpha=1.0):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return _activations.elu(x, alpha)


hard_sigmoid, softsign, softplus = _activations.hard_sigmoid, _activations.softsign, _activations.softplus


def is_sparse(tensor):
    """True for sparse tensors."""
    return False


def moving_average_update(x, value, momentum):
    """Moves a variable towards a value by 1 - momentum."""
    return x.assign(x * momentum + value * (1.0 - momentum))


def permute_dimensions(x, pattern):
    """The tensor with its axes in another order."""
    return transpose(x, pattern)


def prod(x, axis=None, keepdims=False):
    """The product of the elements over an axis."""
    return _ops.reduce_prod(x, axis, keepdims)


def random_bernoulli(shape, p=0.0, dtype=None, seed=None):
    """Ones with a probability, zeros else."""
    return _cast(random_uniform(shape, seed=seed) <= p, dtype or floatx())


def random_normal_variable(shape, mean, scale, dtype=None, name=None, seed=None):
    """A variable of normally distributed values."""
    return variable(random_normal(shape, mean, scale, dtype, seed), dtype, name)


def random_uniform_variable(shape, low, high, dtype=None, name=None, seed=None):
    """A variable of uniformly distributed values."""
    return variable(random_uniform(shape, low, high, dtype, seed), dtype, name)


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Normally distributed values within two standard deviations."""
    from tandem import random

    return random.truncated_normal(shape, mean, stddev, dtype or floatx(), seed)


def repeat_elements(x, rep, axis):
    """Each element repeated along an axis."""
    return _ops.repeat(x, rep, axis)


def resize_images(x, height_factor, width_factor, data_format=None, interpolation="nearest"):
    """Images with each pixel repeated or interpolated."""
    from tandem import image

    return image.resize(x, (int(x.shape[1]) * height_factor, int(x.shape[2]) * width_factor), interpolation)


def spatial_2d_padding(x, padding=((1, 1), (1, 1)), data_format=None):
    """Images with zeros around them."""
    return _ops.pad(x, [(0, 0), *padding, (0, 0)])


def spatial_3d_padding(x, padding=((1, 1), (1, 1), (1, 1)), data_format=None):
    """Volumes with zeros around them."""
    return _ops.pad(x, [(0, 0), *padding, (0, 0)])


def temporal_padding(x, padding=(1, 1)):
    """Sequences with zeros before and after them."""
    return _ops.pad(x, [(0, 0), padding, (0, 0)])


def switch(condition, then_expression, else_expression):
    """One of two expressions by a condition."""
    condition = _cast(condition, "bool")
    if len(condition.shape) == 0:
        as_function = lambda e: e if callable(e) else lambda: e  # noqa: E731
        return _ops.cond(condition, as_function(then_expression), as_function(else_expression))
    value = lambda e: e() if callable(e) else e  # noqa: E731
    return _ops.where(condition, value(then_expression), value(else_expression))


def to_dense(tensor):
    """The dense tensor of a sparse one."""
    return tensor


def update_sub(x, decrement):
    """Subtracts from a variable."""
    return x.assign_sub(decrement)


def conv1d(x, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    """Convolves sequences with a kernel."""
    from tandem.keras import ops

    return ops.conv(x, kernel, strides, padding, data_format, dilation_rate)


def conv2d(x, kernel, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1)):
    """Convolves images with a kernel."""
    from tandem.keras import ops

    return ops.conv(x, kernel, strides, padding, data_format, dilation_rate)


def depthwise_conv2d(x, depthwise_kernel, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1)):
    """Convolves each channel of images with kernels of its own."""
    from tandem.keras import ops

    return ops.depthwise_conv(x, depthwise_kernel, strides, padding, data_format, dilation_rate)


def pool2d(x, pool_size, strides=(1, 1), padding="valid", data_format=None, pool_mode="max"):
    """The maximum or mean of windows of images."""
    from tandem.keras import ops

    return (ops.max_pool if pool_mode == "max" else ops.average_pool)(x, pool_size, strides, padding, data_format)


def ctc_decode(y_pred, input_length, greedy=True, beam_width=100, top_paths=1):
    """The likeliest labels of [batch, time, classes], rows filled up with -1, in a list, and minus the logarithms of their likelihoods."""
    from tandem._ops import decoding
    from tandem._ops.rarer import best_path

    scores = log(_tandem.convert(y_pred) + epsilon())
    lengths, blank = _tandem.convert(input_length), int(scores._sizes[-1]) - 1
    if greedy:
        paths, sums = _ops.host(lambda x, n: best_path(x, n, blank), scores, lengths)
        paths, sums = [paths], -sums[:, None]
    else:
        found, sums = _ops.host(lambda x, n: decoding.best_paths(x, n, beam_width, top_paths, True), scores, lengths)
        paths = [[row[k] for row in found] for k in range(top_paths)]
    return [_tandem.convert(rows) for rows in decoding.filled(paths, int(scores._sizes[1])).astype(np.int64)], _tandem.convert(sums)


def ctc_batch_cost(y_true, y_pred, input_length, label_length):
    """The CTC loss of each sequence of a batch."""
    from tandem import nn

    lengths = [_ops.reshape(_cast(v, "int32"), (-1,)) for v in (label_length, input_length)]
    cost = nn.ctc_loss(y_true, log(_ops.maximum(y_pred, epsilon())), lengths[0], lengths[1], logits_time_major=False, blank_index=-1)
    return _ops.expand_dims(cost, 1)


def name_scope(name):
    """A scope for names; they mean nothing to what is computed."""
    import tandem

    return tandem.name_scope(name)


def get_uid(prefix=""):
    """The next number of a prefix."""
    from tandem.keras._objects import auto_name

    tail = auto_name(prefix).rsplit("_", 1)[-1]
    return int(tail) + 1 if tail.isdigit() else 1


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "DynamicShape", "DynamicSize", "InvalidArgumentError", "SeedGenerator", "Tensor", "TensorArray", "TensorShape", "TopKV2", "Unique",
    "UniqueWithCounts", "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "alike", "all", "any", "arange", "argmax", "argmin",
    "argsort", "asin", "asinh", "atan", "atan2", "atanh", "backend", "band_part", "batch_dot", "batch_flatten", "batch_get_value",
    "batch_set_value", "bias_add", "binary_crossentropy", "bincount", "bitcast", "bool_", "boolean_mask", "branch",
    "broadcast_dynamic_shape", "broadcast_static_shape", "broadcast_to", "case", "cast", "cast_to_floatx", "categorical_crossentropy",
    "ceil", "clear_session", "clip", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "concat", "concatenate", "cond",
    "confusion_matrix", "constant", "conv1d", "conv2d", "convert_to_tensor", "cos", "cosh", "count_nonzero", "count_params",
    "ctc_batch_cost", "ctc_decode", "cumprod", "cumsum", "depth_to_space", "depthwise_conv2d", "diag", "diag_part", "digamma", "divide",
    "divide_no_nan", "dot", "dropout", "dtype", "dtypes", "dynamic_partition", "dynamic_stitch", "einsum", "elu", "ensure_shape", "epsilon",
    "equal", "erf", "erfc", "erfinv", "eval", "exp", "expand_dims", "expm1", "eye", "fill", "flatten", "floatx", "floor", "floordiv",
    "floormod", "foldl", "foldr", "function", "gather", "gather_nd", "get_uid", "get_value", "global_norm", "gradients", "greater",
    "greater_equal", "group", "happens_after_each_run", "hard_sigmoid", "host", "host_with_gradient", "identity", "identity_n",
    "image_data_format", "in_top_k", "in_train_phase", "inside_flow", "int_shape", "is_finite", "is_float_dtype", "is_inf", "is_int_dtype",
    "is_keras_tensor", "is_nan", "is_sparse", "known_index", "l2_normalize", "learning_phase", "less", "less_equal", "lgamma", "lin_space",
    "linspace", "log", "log1p", "logical_and", "logical_not", "logical_or", "logical_xor", "map_fn", "matmul", "matvec", "max", "maximum",
    "mean", "meshgrid", "min", "minimum", "mod", "moving_average_update", "multiply", "multiply_no_nan", "name_scope", "ndim", "negative",
    "nest", "no_op", "norm", "not_equal", "np", "numpy_function", "one_hot", "ones", "ones_like", "op", "pad", "pair", "permute_dimensions",
    "placeholder", "pool2d", "pow", "print_", "prod", "py_function", "random_bernoulli", "random_normal", "random_normal_variable",
    "random_uniform", "random_uniform_variable", "range", "rank", "realdiv", "reciprocal", "reduce_all", "reduce_any",
    "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum",
    "reduce_variance", "relu", "repeat", "repeat_elements", "reset_uids", "reshape", "resize_images", "result_type", "reverse",
    "reverse_sequence", "rint", "roll", "round", "rsqrt", "scan", "scatter_nd", "searchsorted", "segment_max", "segment_mean",
    "segment_min", "segment_prod", "segment_sum", "sequence_mask", "set_diag", "set_epsilon", "set_floatx", "set_image_data_format",
    "set_learning_phase", "set_value", "shape", "shape_n", "sigmoid", "sign", "sin", "sinh", "size", "slice", "softmax", "softplus",
    "softsign", "sort", "space_to_depth", "sparse_categorical_crossentropy", "spatial_2d_padding", "spatial_3d_padding", "split", "sqrt",
    "square", "squared_difference", "squeeze", "stack", "standardize_dtype", "state", "std", "stop_gradient", "strided_slice", "subtract",
    "sum", "switch", "switch_case", "take_along_last", "tan", "tanh", "temporal_padding", "tensor_scatter_nd_add", "tensor_scatter_nd_max",
    "tensor_scatter_nd_sub", "tensor_scatter_nd_update", "tensordot", "tile", "to_dense", "to_float", "to_tensor", "top_k", "trace",
    "transpose", "truediv", "truncated_normal", "unique", "unique_with_counts", "unsorted_segment_max", "unsorted_segment_mean",
    "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sum", "unstack", "update", "update_add", "update_sub", "var",
    "variable", "vectorized_map", "where", "while_loop", "xlogy", "zeros", "zeros_like",
]
