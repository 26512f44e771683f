"""The rarer functions of tf.nn, and what tf.quantization shows of rounding, composed of others."""

import numpy as np

import _tandem
from tandem import _ops
from tandem._ops import op

_c = _tandem.convert


def _three(value):
    return (int(value),) * 3 if isinstance(value, int) else tuple(int(v) for v in (value if len(value) == 3 else list(value)[1:4] if len(value) == 5 else list(value) * 3))


@op
def conv3d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NDHWC", dilations=None, name=None):
    """The gradient of a convolution of volumes with respect to its input."""
    from tandem.keras._convolution import transposed_volumes

    if data_format != "NDHWC":
        raise NotImplementedError(f"tf.nn.conv3d_transpose: data_format={data_format!r}; NDHWC is accepted")
    sizes = [None if hasattr(s, "_size") else int(s) for s in output_shape]
    return transposed_volumes(input, filters, _three(strides), padding.lower(), sizes[1:4], _three(dilations or 1))


def atrous_conv2d_transpose(value, filters, output_shape, rate, padding, name=None):
    """The gradient of a convolution with holes with respect to its images."""
    from tandem.keras._convolution import transposed

    return transposed(value, filters, (1, 1), padding.lower(), [int(s) for s in output_shape][1:3], (int(rate), int(rate)))


def _patches(x, height, width, strides, padding, dilations, filling):
    """[batch, rows, columns, height * width, channels] of windows."""
    step, hole = ([int(v) for v in given[1:3]] for given in (strides, dilations))
    pads = [(0, 0)]
    for size, k, s, d in zip(x._sizes[1:3], (height, width), step, hole):
        span = (k - 1) * d + 1
        total = max((-(-int(size) // s) - 1) * s + span - int(size), 0) if padding.upper() == "SAME" else 0
        pads.append((total // 2, total - total // 2))
    x = _tandem.pad(x, [*pads, (0, 0)], filling)
    rows, columns = ((int(size) - (k - 1) * d - 1) // s + 1 for size, k, s, d in zip(x._sizes[1:3], (height, width), step, hole))
    parts = [
        x[:, i * hole[0] : i * hole[0] + (rows - 1) * step[0] + 1 : step[0], j * hole[1] : j * hole[1] + (columns - 1) * step[1] + 1 : step[1]]
        for i in range(height) for j in range(width)
    ]
    return _tandem.stack(parts, 3)


def _morphology(x, filters, strides, padding, dilations, sign):
    x, f = _c(x), _c(filters)
    height, width, channels = (int(s) for s in f._sizes)
    windows = _patches(x * sign, height, width, strides, padding, dilations, -1e30)
    flat = _tandem.reshape(f if sign > 0 else f[::-1, ::-1], [height * width, channels])
    return _tandem.reduce_max(windows + flat, 3, False) * sign


@op
def dilation2d(input, filters, strides, padding, data_format, dilations, name=None):
    """The maximum over windows of images plus a filter."""
    return _morphology(input, filters, strides, padding, dilations, 1.0)


@op
def erosion2d(value, filters, strides, padding, data_format, dilations, name=None):
    """The minimum over windows of images minus a filter that is turned round."""
    return _morphology(value, filters, strides, padding, dilations, -1.0)


# ---- Classes that are drawn ----


def uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """Classes that are drawn with equal chances, and how often each class is expected among them."""
    if unique and num_sampled > range_max:
        raise ValueError(f"num_sampled={num_sampled} different classes of range_max={range_max} are not there")
    draw = _tandem.random_uniform((range_max if unique else num_sampled,), 0.0, 1.0, 0, seed)
    drawn = _ops.argsort(draw)[:num_sampled] if unique else _tandem.cast(draw * float(range_max), 5)
    expected = num_sampled / range_max
    return _tandem.cast(drawn, 6), _tandem.zeros_like(_tandem.cast(_c(true_classes), 0)) + expected, _tandem.fill((num_sampled,), expected, 0)


def all_candidate_sampler(true_classes, num_true, num_sampled, unique, seed=None, name=None):
    """The classes from 0 up to but without num_sampled, each expected once."""
    return _tandem.range(0, int(num_sampled), 1, 6), _tandem.zeros_like(_tandem.cast(_c(true_classes), 0)) + 1.0, _tandem.fill((int(num_sampled),), 1.0, 0)


def fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, vocab_file="", distortion=1.0, num_reserved_ids=0, num_shards=1, shard=0, unigrams=(), seed=None, name=None):
    """Classes that are drawn with the chances of given counts."""
    if vocab_file:
        with open(vocab_file) as file:
            unigrams = [float(line.split(",")[-1]) for line in file if line.strip()]
    chances = np.concatenate([np.zeros(num_reserved_ids), np.asarray(unigrams, np.float64) ** distortion])[:range_max]
    return _drawn_by(chances / chances.sum(), true_classes, num_sampled, unique, seed)


def log_uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """Classes that are drawn with chances that fall with their number, as words do whose numbers go by frequency."""
    places = np.arange(range_max)
    return _drawn_by(np.log((places + 2) / (places + 1)) / np.log(range_max + 1), true_classes, num_sampled, unique, seed)


def _drawn_by(chances, true_classes, num_sampled, unique, seed):
    """Classes that are drawn with given chances, and how often the true and the drawn ones are expected."""
    size, num_sampled = len(chances), int(num_sampled)
    expected = chances * num_sampled
    if unique:
        low, high = 0.0, 1e9  # How many draws make so many different classes.
        for _ in range(200):
            tries = (low + high) / 2
            low, high = (tries, high) if (-np.expm1(tries * np.log1p(-np.minimum(chances, 1 - 1e-12)))).sum() < num_sampled else (low, tries)
        expected = -np.expm1(tries * np.log1p(-np.minimum(chances, 1 - 1e-12)))
    noise = -_tandem.log(-_tandem.log(_tandem.random_uniform((size,) if unique else (num_sampled, size), 1e-20, 1.0, 0, seed)))
    scores = _c(np.log(np.maximum(chances, 1e-30)).astype(np.float32)) + noise
    drawn = _ops.top_k(scores, num_sampled)[1] if unique else _tandem.argmax(scores, 1)
    expected = _c(expected.astype(np.float32))
    return _tandem.cast(drawn, 6), _tandem.gather(expected, _tandem.cast(_c(true_classes), 5), 0), _tandem.gather(expected, _tandem.cast(drawn, 5), 0)


def compute_accidental_hits(true_classes, sampled_candidates, num_true, seed=None, name=None):
    """Where drawn classes are true ones: rows, places among the drawn, and weights that take them out."""
    same = _tandem.equal(_tandem.expand_dims(_tandem.cast(_c(true_classes), 6), -1), _tandem.cast(_c(sampled_candidates), 6))
    places = _ops.where(same)
    return _tandem.cast(places[:, 0], 5), places[:, 2], _tandem.zeros_like(_tandem.cast(places[:, 0], 0)) - 3.4028235e38


@op
def sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None, remove_accidental_hits=True, seed=None, name="sampled_softmax_loss"):
    """The softmax loss of the true classes and some that are drawn."""
    from tandem import nn

    labels, x = _tandem.cast(_c(labels), 6), _c(inputs)
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes, seed)
    drawn, true_expected, drawn_expected = (_tandem.stop_gradient(_c(v)) for v in sampled_values)
    rows, columns = _tandem.cast(labels, 5), _tandem.cast(drawn, 5)
    w, b = _c(weights), _c(biases)
    own = _tandem.reduce_sum(_tandem.gather(w, rows, 0) * _tandem.expand_dims(x, 1), -1, False) + _tandem.gather(b, rows, 0) - _tandem.log(true_expected)
    other = _tandem.matmul(x, _tandem.gather(w, columns, 0), False, True) + _tandem.gather(b, columns, 0) - _tandem.log(drawn_expected)
    if remove_accidental_hits:
        same = _tandem.equal(_tandem.expand_dims(rows, -1), columns)
        other = _tandem.where(_tandem.reduce_any(same, 1, False), _tandem.fill((), -1e30, other._code), other)
    truth = _tandem.concat([_tandem.zeros_like(own) + 1.0 / num_true, _tandem.zeros_like(other)], 1)
    return nn.softmax_cross_entropy_with_logits(truth, _tandem.concat([own, other], 1))


def embedding_lookup_sparse(params, sp_ids, sp_weights, combiner=None, max_norm=None, name=None, allow_fast_lookup=False):
    """The sum, mean or mean by the root of squares of the embeddings of each row of ids."""
    combiner = combiner or "mean"
    if combiner not in ("mean", "sum", "sqrtn"):
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    params = params[0] if isinstance(params, (list, tuple)) else params
    rows = _tandem.cast(sp_ids.indices[:, 0], 5)
    count = int(sp_ids.shape[0])
    found = _ops.gather(params, _tandem.cast(sp_ids.values, 5))
    if max_norm is not None:
        size = _tandem.sqrt(_tandem.reduce_sum(found * found, -1, True))
        found = found * _tandem.minimum(float(max_norm) / _tandem.maximum(size, 1e-30), 1.0)
    weights = _tandem.ones_like(_tandem.cast(rows, found._code)) if sp_weights is None else _tandem.cast(sp_weights.values, found._code)
    total = _ops.unsorted_segment_sum(found * _tandem.expand_dims(weights, -1), rows, count)
    if combiner == "sum":
        return total
    scale = _ops.unsorted_segment_sum(weights if combiner == "mean" else weights * weights, rows, count)
    return _ops.divide_no_nan(total, _tandem.expand_dims(scale if combiner == "mean" else _tandem.sqrt(scale), -1))


def isotonic_regression(inputs, decreasing=True, axis=-1):
    """The nearest values that only fall, or only rise, along an axis, and which of them are pooled together."""
    def pooled(row):
        blocks = []
        for v in row if decreasing else -row:
            blocks.append([float(v), 1])
            while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] < blocks[-1][0] * blocks[-2][1]:
                total, count = blocks.pop()
                blocks[-1][0], blocks[-1][1] = blocks[-1][0] + total, blocks[-1][1] + count
        values = np.concatenate([np.full(c, t / c) for t, c in blocks])
        places = np.concatenate([np.full(c, i) for i, (_, c) in enumerate(blocks)])
        return values if decreasing else -values, places

    x = _c(inputs)
    a = np.moveaxis(np.asarray(x), axis, -1)
    found = [pooled(row) for row in a.reshape(-1, a.shape[-1])]
    back = lambda i, kind: _c(np.ascontiguousarray(np.moveaxis(np.stack([f[i] for f in found]).reshape(a.shape), -1, axis)).astype(kind))  # noqa: E731
    segments = back(1, np.int32)
    return back(0, a.dtype), segments


# ---- Rounding as quantized numbers would be rounded ----


def _nudged(low, high, bits, narrow):
    """A range in which zero is a whole step."""
    first, last = float(1 if narrow else 0), float(2**bits - 1)
    scale = (high - low) / (last - first)
    zero = first - low / scale
    zero = _tandem.clip(_tandem.floor(zero + 0.5), first, last)
    return (first - zero) * scale, (last - zero) * scale, scale


def _rounded(x, low, high, bits, narrow):
    """Values on the steps of a range; gradients pass where values lie within it."""
    x = _c(x)
    start, end, scale = _nudged(_c(low, x._code), _c(high, x._code), int(bits), narrow)
    inside = _tandem.minimum(_tandem.maximum(x, start), end)
    steps = _tandem.floor((inside - start) / scale + 0.5) * scale + start
    return inside + _tandem.stop_gradient(steps - inside)


@op
def fake_quant_with_min_max_args(inputs, min=-6, max=6, num_bits=8, narrow_range=False, name=None):
    """Values rounded to the steps of a range that numbers give."""
    return _rounded(inputs, float(min), float(max), num_bits, narrow_range)


@op
def fake_quant_with_min_max_vars(inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """Values rounded to the steps of a range that tensors give, which get the gradients of what lies outside."""
    return _rounded(inputs, min, max, num_bits, narrow_range)


@op
def fake_quant_with_min_max_vars_per_channel(inputs, min, max, num_bits=8, narrow_range=False, name=None):
    """Values rounded to the steps of a range for each channel."""
    return _rounded(inputs, min, max, num_bits, narrow_range)


@op
def general_dropout(x, rate, uniform_sampler, noise_shape=None, name=None):
    """Dropout with random numbers of one's own: uniform_sampler(shape=.., dtype=..)."""
    x = _c(x)
    drawn = _c(uniform_sampler(shape=tuple(x.shape) if noise_shape is None else noise_shape, dtype=x.dtype))
    return _tandem.where(drawn >= rate, x / (1.0 - rate), _tandem.zeros_like(x))


def stateless_dropout(x, rate, seed, rng_alg="auto_select", noise_shape=None, name=None):
    """Dropout whose choice a seed gives."""
    from tandem import random

    return general_dropout(x, rate, lambda shape, dtype: random.stateless_uniform(shape, seed, dtype=dtype), noise_shape)


class experimental:
    """The experimental functions of tf.nn."""

    general_dropout, stateless_dropout = staticmethod(general_dropout), staticmethod(stateless_dropout)
