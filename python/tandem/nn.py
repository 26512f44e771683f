"""Neural networks' functions, tf.nn."""

import numpy as np

import _tandem
from tandem import _ops
from tandem._names import words as _words
from tandem._names import missing as _missing
from tandem._ops import philox
from tandem._tracing.state import state
from tandem._ops import (  # noqa: F401
    bincount, in_top_k, op, sigmoid, softplus, space_to_depth, depth_to_space, tanh, top_k,
)
from tandem._ops.rarer import (  # noqa: F401
    avg_pool3d, collapse_repeated, conv1d_transpose, conv3d, ctc_greedy_decoder, ctc_loss, max_pool3d, max_pool_with_argmax, space_to_batch,
    sufficient_statistics, weighted_moments,
)
from tandem.keras.activations import elu, leaky_relu as _leaky_relu, log_softmax as _log_softmax, selu, silu, softsign  # noqa: F401

swish = silu


@op
def relu(features, name=None):
    """max(features, 0)."""
    return _tandem.relu(features)


@op
def relu6(features, name=None):
    """features, moved into the range from 0 to 6."""
    return _tandem.relu6(features)


def crelu(features, axis=-1, name=None):
    """relu of features and of -features along an axis."""
    x = _tandem.convert(features)
    return _tandem.concat([_tandem.relu(x), _tandem.relu(-x)], axis)


@op
def leaky_relu(features, alpha=0.2, name=None):
    """features where they are positive, alpha * features elsewhere."""
    return _tandem.leaky_relu(features, float(alpha))


@op
def gelu(features, approximate=False, name=None):
    """features times the probability that a normal value is below them."""
    return _tandem.gelu(features, bool(approximate))


@op
def softmax(logits, axis=-1, name=None):
    """exp(logits), divided by its sum over an axis."""
    logits, axis = _tandem.convert(logits), -1 if axis is None else int(axis)
    y = _tandem.softmax(logits, axis)
    return _ops.arithmetic._knows_its_logits(y, logits) if axis in (-1, logits._rank - 1) else y


@op
def log_softmax(logits, axis=-1, name=None):
    """The logarithm of softmax."""
    return _tandem.log_softmax(logits, -1 if axis is None else int(axis))


def log_sigmoid(x, name=None):
    """The logarithm of sigmoid."""
    return -_tandem.softplus(-_tandem.convert(x))


@op
def dropout(x, rate, noise_shape=None, seed=None, name=None):
    """Zeros in the place of a part of the elements, the others scaled up."""
    x = _tandem.convert(x)
    if rate and not state.tracing and not state.in_replica and not state.in_data and (seed is not None or philox.seeds.seed is not None):
        from tandem import random

        sizes = x._sizes if noise_shape is None else [have if wanted is None else wanted for wanted, have in zip(noise_shape, x._sizes)]
        return _tandem.where(random.uniform(sizes, dtype=x.dtype, seed=seed) >= rate, x * (1.0 / (1.0 - rate)), _tandem.zeros_like(x))
    if noise_shape is None:
        return _tandem.dropout(x, float(rate), None if seed is None else int(seed) % 2**63) if rate else x
    keep = _tandem.cast(_tandem.random_uniform(tuple(noise_shape), 0.0, 1.0, x._code, seed) >= float(rate), x._code)
    return x * keep / (1 - float(rate))


def _pair(value):
    if value is None:
        return [1, 1]
    if isinstance(value, int):
        return [value, value]
    value = [int(v) for v in value]
    if len(value) == 1:
        return value * 2
    if len(value) == 4 and not value[0] == value[3] == 1:
        raise NotImplementedError(f"tf.nn: {value} has windows or steps over the rows of a batch or over channels; 1 is accepted there")
    return value[1:3] if len(value) == 4 else value


_FIRST = ("NCHW", "NCW")


def _channels_anywhere(f):
    """The function of tensors whose channels come last, for those too where they come first."""
    import functools
    import inspect

    signature = inspect.signature(f)

    @functools.wraps(f)
    def call(*args, **kwargs):
        if not any(each in _FIRST for each in (*args, *kwargs.values()) if isinstance(each, str)):
            return f(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        given["data_format"] = "NHWC" if given["data_format"] == "NCHW" else "NWC"
        name, x = next(iter(given.items()))
        rank = _tandem.convert(x)._rank
        order = [0, *range(2, rank), 1]
        for key, value in given.items():  # Strides and the like have an entry for each axis.
            if key in ("strides", "ksize", "dilations", "stride", "output_shape") and isinstance(value, (list, tuple)) and len(value) == rank:
                given[key] = [value[i] for i in order]
            elif key == "padding" and not isinstance(value, str):
                given[key] = [value[i] for i in order]
        given[name] = _tandem.transpose(x, order)
        return _tandem.transpose(f(*bound.args, **bound.kwargs), [0, rank - 1, *range(1, rank - 1)])

    return call


def _pooled(pool, x, *sizes):
    """Poolings of floats, and so of integers."""
    x = _tandem.convert(x)
    return pool(x, *sizes) if x.dtype.is_floating else _tandem.cast(pool(_tandem.cast(x, 1), *sizes), x._code)


def _padding(padding):
    if isinstance(padding, str):
        return padding.lower()
    return [int(n) for pair in padding[1:3] for n in pair]


@op
@_channels_anywhere
def conv2d(input, filters, strides=1, padding="VALID", data_format="NHWC", dilations=None, name=None):
    """Convolves images with filters."""
    x, w = _ops.alike(input, filters)
    groups = int(x._sizes[-1]) // int(w._sizes[2])
    return _tandem.conv2d(x, w, _pair(strides), _padding(padding), _pair(dilations), groups)


@op
@_channels_anywhere
def conv1d(input, filters, stride=1, padding="VALID", data_format="NWC", dilations=None, name=None):
    """Convolves sequences with filters."""
    stride = stride if isinstance(stride, int) else stride[-1] if len(stride) == 1 else stride[1]
    dilation = 1 if dilations is None else dilations if isinstance(dilations, int) else dilations[0]
    input, filters = _ops.alike(input, filters)
    y = _tandem.conv2d(_tandem.expand_dims(input, 1), _tandem.expand_dims(filters, 0), [1, int(stride)], _padding(padding), [1, int(dilation)], 1)
    return _tandem.squeeze(y, [1])


@op
@_channels_anywhere
def depthwise_conv2d(input, filter, strides, padding, data_format=None, dilations=None, name=None):
    """Convolves each channel of images with filters of its own."""
    return _tandem.depthwise_conv2d(input, filter, _pair(strides), _padding(padding), _pair(dilations))


def separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, data_format=None, dilations=None, name=None):
    """A depthwise convolution of images, then one of single pixels over channels."""
    y = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(y, pointwise_filter, 1, "VALID", data_format or "NHWC")


@op
@_channels_anywhere
def conv2d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NHWC", dilations=None, name=None):
    """The gradient of a convolution with respect to its images."""
    from tandem.keras._convolution import transposed

    input, w = _ops.alike(input, filters)
    sizes = [None if hasattr(s, "_size") else int(s) for s in output_shape]
    return transposed(input, w, _pair(strides), padding.lower(), sizes[1:3])


def _for_rank(input, line, image, volume):
    """The function for inputs with one, two or three axes of space."""
    rank = len(input.shape) if hasattr(input, "shape") else _tandem.convert(input)._rank
    if rank not in (3, 4, 5):
        raise ValueError(f"tf.nn: an input of {rank} axes; rows and channels with one, two or three axes between are accepted")
    return (line, image, volume)[rank - 3]


def _of_space(value, input):
    """An entry for each axis of space, as an entry for each axis where volumes want those."""
    value = [value] if isinstance(value, int) else list(value)
    return [1, *(value * 3 if len(value) == 1 else value), 1] if len(input.shape) == 5 and len(value) != 5 else value


def convolution(input, filters, strides=None, padding="VALID", data_format=None, dilations=None, name=None):
    """Convolves sequences, images or volumes with filters."""
    f = _for_rank(input, conv1d, conv2d, conv3d)
    given = {} if data_format is None else {"data_format": data_format}
    return f(input, filters, _of_space(strides or 1, input), padding, dilations=None if dilations is None else _of_space(dilations, input), **given)


def conv_transpose(input, filters, output_shape, strides, padding="SAME", data_format=None, dilations=None, name=None):
    """The gradient of a convolution of sequences, images or volumes with respect to them."""
    from tandem._ops.networks import conv3d_transpose

    given = {} if data_format is None else {"data_format": data_format}
    return _for_rank(input, conv1d_transpose, conv2d_transpose, conv3d_transpose)(input, filters, output_shape, _of_space(strides, input), padding, **given)


def zero_fraction(value, name=None):
    """The part of the elements that are zero."""
    from tandem import math

    return math.zero_fraction(value)


@op
@_channels_anywhere
def max_pool2d(input, ksize, strides, padding, data_format="NHWC", name=None):
    """The maximum of each window of images, or of each group of channels."""
    if not isinstance(ksize, int) and len(ksize) == 4 and ksize[3] != 1:
        return _max_of_channels(_tandem.convert(input), [int(k) for k in ksize], strides)
    return _pooled(_tandem.max_pool2d, input, _pair(ksize), _pair(strides), _padding(padding))


def _max_of_channels(x, ksize, strides):
    group, channels = ksize[3], int(x._sizes[3])
    steps = [strides] * 4 if isinstance(strides, int) else [int(s) for s in strides]
    if ksize[:3] != [1, 1, 1] or steps != ksize or channels % group:
        raise NotImplementedError(
            f"tf.nn.max_pool: ksize={ksize}, strides={steps} of {channels} channels; over channels windows of [1, 1, 1, n] are accepted, "
            "with strides that are the same and n that divides the channels"
        )
    return _tandem.reduce_max(_tandem.reshape(x, [*x._sizes[:3], channels // group, group]), 4, False)


def max_pool(input, ksize, strides, padding, data_format=None, name=None):
    """The maximum of each window of sequences, images or volumes."""
    given = {} if data_format is None else {"data_format": data_format}
    return _for_rank(input, max_pool1d, max_pool2d, max_pool3d)(input, ksize, strides, padding, **given)


@op
@_channels_anywhere
def avg_pool2d(input, ksize, strides, padding, data_format="NHWC", name=None):
    """The mean of each window of images."""
    return _tandem.avg_pool2d(input, _pair(ksize), _pair(strides), _padding(padding))


def avg_pool(input, ksize, strides, padding, data_format=None, name=None):
    """The mean of each window of sequences, images or volumes."""
    given = {} if data_format is None else {"data_format": data_format}
    return _for_rank(input, avg_pool1d, avg_pool2d, avg_pool3d)(input, ksize, strides, padding, **given)


def _pool1d(f):
    @op
    @_channels_anywhere
    def pool(input, ksize, strides, padding, data_format="NWC", name=None):
        one = lambda v: int(v if isinstance(v, int) else v[-1] if len(v) == 1 else v[1])  # noqa: E731
        return _tandem.squeeze(f(_tandem.expand_dims(input, 1), [1, one(ksize)], [1, one(strides)], _padding(padding)), [1])

    return pool


max_pool1d, avg_pool1d = _pool1d(_tandem.max_pool2d), _pool1d(_tandem.avg_pool2d)


@op
@_channels_anywhere
def bias_add(value, bias, data_format=None, name=None):
    """Adds a bias to the channels."""
    return _tandem.convert(value) + bias


@op
def l2_normalize(x, axis=None, epsilon=1e-12, name=None, dim=None):
    """x, divided by its L2 norm over axes."""
    x = _tandem.convert(x)
    total = _tandem.reduce_sum(x * x, _ops.reduction._axes(axis), True)
    return x * _tandem.rsqrt(_tandem.maximum(total, float(epsilon)))


@op
def l2_loss(t, name=None):
    """Half of the sum of squares."""
    return 0.5 * _tandem.reduce_sum(_tandem.square(t), None, False)


@op
def moments(x, axes, shift=None, keepdims=False, name=None):
    """The mean and the variance over axes."""
    x = _tandem.convert(x)
    axes = _ops.reduction._axes(axes)
    return _tandem.reduce_mean(x, axes, keepdims), _tandem.reduce_variance(x, axes, keepdims)


@op
def batch_normalization(x, mean, variance, offset, scale, variance_epsilon, name=None):
    """x with the given mean and variance taken out, scaled and shifted."""
    x, mean, variance = _ops.alike(x, mean, variance)
    inverse = _tandem.rsqrt(variance + variance_epsilon)
    if scale is not None:
        inverse = inverse * scale
    y = (x - mean) * inverse
    return y if offset is None else y + offset


def local_response_normalization(input, depth_radius=5, bias=1, alpha=1, beta=0.5, name=None):
    """Each value divided by a power of the squares of the channels around it."""
    x = _tandem.convert(input)
    channels = int(x._sizes[-1])
    band = np.abs(np.arange(channels)[:, None] - np.arange(channels)[None]) <= depth_radius
    total = _ops.matmul(x * x, band.astype(np.float32))
    return x / _tandem.pow(bias + alpha * total, float(beta))


lrn = local_response_normalization


@op
def softmax_cross_entropy_with_logits(labels, logits, axis=-1, name=None):
    """The cross entropy of distributions over classes and logits."""
    logits = _tandem.convert(logits)
    labels = _tandem.cast(_tandem.convert(labels, None, logits._code), logits._code)
    if axis not in (-1, logits._rank - 1):
        order = [i for i in range(logits._rank) if i != axis % logits._rank] + [axis % logits._rank]
        labels, logits = _tandem.transpose(labels, order), _tandem.transpose(logits, order)
    return _tandem.softmax_cross_entropy_with_logits(labels, logits)


@op
def sparse_softmax_cross_entropy_with_logits(labels, logits, name=None):
    """The cross entropy of classes that are given by number and logits."""
    labels = _tandem.convert(labels)
    if labels._code not in (5, 6):
        labels = _tandem.cast(labels, 5)
    return _tandem.sparse_softmax_cross_entropy_with_logits(labels, logits)


@op
def sigmoid_cross_entropy_with_logits(labels=None, logits=None, name=None):
    """The cross entropy of yes-or-no labels and logits."""
    logits = _tandem.convert(logits)
    labels = _tandem.cast(_tandem.convert(labels, None, logits._code), logits._code)
    return _tandem.sigmoid_cross_entropy_with_logits(labels, logits)


@op
def weighted_cross_entropy_with_logits(labels, logits, pos_weight, name=None):
    """The cross entropy of yes-or-no labels and logits, with a weight for yes."""
    logits = _tandem.convert(logits)
    labels = _tandem.cast(labels, logits._code)
    weight = 1 + (pos_weight - 1) * labels
    return (1 - labels) * logits + weight * (_tandem.softplus(-_tandem.abs(logits)) + _tandem.relu(-logits))


@op
def log_poisson_loss(targets, log_input, compute_full_loss=False, name=None):
    """The loss of a Poisson distribution whose logarithmic rate is given."""
    log_input = _tandem.convert(log_input)
    loss = _tandem.exp(log_input) - log_input * targets
    if not compute_full_loss:
        return loss
    targets = _tandem.cast(_tandem.convert(targets, None, log_input._code), log_input._code)
    stirling = targets * _tandem.log(targets) - targets + 0.5 * _tandem.log(targets * float(2 * np.pi))
    is_small = _tandem.logical_and(targets >= 0.0, targets <= 1.0)
    return loss + _tandem.where(is_small, _tandem.zeros_like(targets), stirling)


@op
def embedding_lookup(params, ids, max_norm=None, name=None):
    """The rows of a table that ids name, shortened to a norm where one is given."""
    rows = _ops.gather._raw(params, ids)
    if max_norm is None:
        return rows
    axes = list(range(len(ids.shape) if hasattr(ids, "shape") else np.ndim(ids), rows._rank))
    length = _tandem.sqrt(_tandem.reduce_sum(rows * rows, axes, True))
    return rows * _tandem.minimum(float(max_norm) / _tandem.maximum(length, 1e-30), 1.0)


def compute_average_loss(per_example_loss, sample_weight=None, global_batch_size=None):
    """The sum of the losses of examples, divided by the global batch size."""
    loss = _tandem.convert(per_example_loss)
    if sample_weight is not None:
        weight = _tandem.cast(sample_weight, loss._code)
        if weight._rank < loss._rank:
            weight = _tandem.reshape(weight, list(weight._sizes) + [1] * (loss._rank - weight._rank))
        loss = loss * weight
    if global_batch_size is None:
        return _tandem.compute_average_loss(loss)
    size = global_batch_size if isinstance(global_batch_size, (int, float)) else _tandem.cast(global_batch_size, loss._code)
    return _tandem.reduce_sum(loss, None, False) / size


def scale_regularization_loss(regularization_loss):
    """A regularization loss, divided by the number of replicas."""
    from tandem import distribute

    losses = regularization_loss if isinstance(regularization_loss, (list, tuple)) else [regularization_loss]
    total = _ops.add_n([_tandem.reduce_sum(_tandem.convert(r), None, False) for r in losses]) if losses else 0.0
    return total / float(distribute.get_strategy().num_replicas_in_sync)


def pool(input, window_shape, pooling_type, strides=None, padding="VALID", **kwargs):
    """The maximum or mean of each window."""
    f = max_pool if pooling_type == "MAX" else avg_pool
    return f(input, window_shape, strides or 1, padding)


@op
def normalize_moments(counts, mean_ss, variance_ss, shift, name=None):
    """The mean and variance of sufficient statistics."""
    mean = mean_ss / counts
    return mean, variance_ss / counts - _tandem.square(mean)


def atrous_conv2d(value, filters, rate, padding, name=None):
    """Convolves images with filters that have holes."""
    return conv2d(value, filters, 1, padding, dilations=rate)


def nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None, remove_accidental_hits=False, name="nce_loss"):
    """The noise-contrastive loss of each example."""
    labels = _tandem.reshape(_tandem.cast(labels, 5), (-1,))
    drawn = _tandem.cast(_tandem.random_uniform((num_sampled,), 0.0, 1.0, 0, None), 0)
    sampled = _tandem.cast(_tandem.exp(drawn * float(np.log(num_classes + 1))) - 1, 5)  # Log-uniform.
    sampled = _tandem.minimum(sampled, num_classes - 1)
    chance = lambda c: float(num_sampled) * (_tandem.log((_tandem.cast(c, 0) + 2) / (_tandem.cast(c, 0) + 1)) / float(np.log(num_classes + 1)))  # noqa: E731
    own = _tandem.reduce_sum(_tandem.gather(weights, labels, 0) * inputs, -1, False) + _tandem.gather(biases, labels, 0) - _tandem.log(chance(labels))
    other = _tandem.matmul(inputs, _tandem.gather(weights, sampled, 0), False, True) + _tandem.gather(biases, sampled, 0) - _tandem.log(chance(sampled))
    return _tandem.softplus(-own) + _tandem.reduce_sum(_tandem.softplus(other), -1, False)


del op

_words.describe(__name__, globals())
_missing.install(__name__, globals(), {
    "tandem._ops.networks": "all_candidate_sampler atrous_conv2d_transpose compute_accidental_hits conv3d_transpose dilation2d embedding_lookup_sparse erosion2d"
    " experimental fixed_unigram_candidate_sampler isotonic_regression sampled_softmax_loss",
    "tandem._ops.special": "approx_max_k approx_min_k",
    "tandem._ops.decoding": "ctc_beam_search_decoder",
})

__all__ = [  # Written by scripts/exported-names.py.
    "atrous_conv2d", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_normalization", "bias_add", "bincount",
    "collapse_repeated", "compute_average_loss", "conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv_transpose",
    "convolution", "crelu", "ctc_greedy_decoder", "ctc_loss", "depth_to_space", "depthwise_conv2d", "dropout", "elu", "embedding_lookup",
    "gelu", "in_top_k", "l2_loss", "l2_normalize", "leaky_relu", "local_response_normalization", "log_poisson_loss", "log_sigmoid",
    "log_softmax", "lrn", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool_with_argmax", "moments", "nce_loss",
    "normalize_moments", "philox", "pool", "relu", "relu6", "scale_regularization_loss", "selu", "separable_conv2d", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "silu", "softmax", "softmax_cross_entropy_with_logits", "softplus", "softsign", "space_to_batch",
    "space_to_depth", "sparse_softmax_cross_entropy_with_logits", "state", "sufficient_statistics", "swish", "tanh", "top_k",
    "weighted_cross_entropy_with_logits", "weighted_moments", "zero_fraction",
]
