"""The rarer of NumPy's functions by Keras's names, composed of the others; keras.ops takes them all."""

import builtins

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._ops import op
from tandem.keras import ops as o

_c = _tandem.convert


def _sized(x, axis):
    return int(x._sizes[axis])


# ---- Elements ----


@op
def allclose(x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False):
    """True if all elements are close."""
    return o.all(o.isclose(x1, x2, rtol, atol, equal_nan))


@op
def cbrt(x):
    """The cube root of each element."""
    x = o._float(x)
    return _tandem.sign(x) * _tandem.pow(_tandem.abs(x), 1.0 / 3.0)


@op
def erfc(x):
    """1 - erf(x)."""
    return 1.0 - _tandem.erf(o._float(x))


@op
def fabs(x):
    """The absolute value of each element, as a float."""
    return _tandem.abs(o._float(x))


@op
def fmin(x1, x2):
    """The smaller of two elements; a NaN only if both are."""
    a, b = o._matched(o._float(x1), o._float(x2))
    return _tandem.where(_tandem.is_nan(a), b, _tandem.where(_tandem.is_nan(b), a, _tandem.minimum(a, b)))


@op
def fmax(x1, x2):
    """The larger of two elements; a NaN only if both are."""
    a, b = o._matched(o._float(x1), o._float(x2))
    return _tandem.where(_tandem.is_nan(a), b, _tandem.where(_tandem.is_nan(b), a, _tandem.maximum(a, b)))


@op
def fmod(x1, x2):
    """The remainder of a division that has the sign of x1."""
    a, b = o._matched(x1, x2)
    a, b = _c(a), _c(b)
    q = a / b
    return a - b * _tandem.cast(trunc(q), a._code)


@op
def trunc(x):
    """Each element without its fraction."""
    x = _c(x)
    return _tandem.sign(x) * _tandem.floor(_tandem.abs(x)) if x.dtype.is_floating else x


@op
def heaviside(x1, x2):
    """0 for negative x1, 1 for positive, x2 for 0."""
    a, b = o._matched(o._float(x1), x2)
    return _tandem.where(_tandem.equal(a, 0.0), _tandem.broadcast_to(_c(b, a._code), a._sizes), _tandem.cast(a > 0.0, a._code))


@op
def hypot(x1, x2):
    """sqrt(x1 * x1 + x2 * x2)."""
    a, b = o._matched(o._float(x1), o._float(x2))
    return _tandem.sqrt(a * a + b * b)


@op
def isneginf(x):
    """True for minus infinity."""
    x = o._float(x)
    return _tandem.logical_and(_tandem.is_inf(x), x < 0.0)


@op
def isposinf(x):
    """True for infinity."""
    x = o._float(x)
    return _tandem.logical_and(_tandem.is_inf(x), x > 0.0)


@op
def isreal(x):
    """True for elements without an imaginary part."""
    return _tandem.cast(_ops.ones_like(x), 7)


@op
def ldexp(x1, x2):
    """x1 * 2 ** x2."""
    return o._float(x1) * _tandem.pow(_tandem.fill((), 2.0, 0), o._float(x2))


@op
def logaddexp(x1, x2):
    """log(exp(x1) + exp(x2))."""
    a, b = o._matched(o._float(x1), o._float(x2))
    return _tandem.maximum(a, b) + _tandem.log1p(_tandem.exp(-_tandem.abs(a - b)))


@op
def logaddexp2(x1, x2):
    """log2(2 ** x1 + 2 ** x2)."""
    scale = float(np.log(2.0))
    a, b = o._matched(o._float(x1), o._float(x2))
    return logaddexp(a * scale, b * scale) / scale


@op
def real(x):
    """The real part."""
    return _c(x)


conj = conjugate = real


@op
def imag(x):
    """The imaginary part."""
    return _ops.zeros_like(x)


@op
def angle(x):
    """The angle of complex values."""
    x = o._float(x)
    return _tandem.cast(x < 0.0, x._code) * float(np.pi)


@op
def signbit(x):
    """True for negative elements, minus zero included."""
    return _c(x) < 0


@op
def sinc(x):
    """sin(pi * x) / (pi * x)."""
    y = o._float(x) * float(np.pi)
    safe = _tandem.where(_tandem.equal(y, 0.0), _ops.ones_like(y), y)
    return _tandem.where(_tandem.equal(y, 0.0), _ops.ones_like(y), _tandem.sin(safe) / safe)


@op
def saturate_cast(x, dtype):
    """The elements as another dtype, moved into its range first."""
    return dtypes.saturate_cast(x, dtype)


@op
def select(condlist, choicelist, default=0):
    """The choice of the first condition that holds for each element."""
    result = _c(default, _c(choicelist[0])._code)
    for condition, choice in list(zip(condlist, choicelist))[::-1]:
        choice = _c(choice)
        result = _tandem.where(_tandem.cast(condition, 7), choice, result)
    return result


@op
def isin(x1, x2, assume_unique=False, invert=False):
    """True for elements of x1 that are among those of x2."""
    found = _tandem.reduce_any(_tandem.equal(_tandem.expand_dims(_c(x1), -1), _tandem.reshape(_c(x2, None, _c(x1)._code), (-1,))), -1, False)
    return _tandem.logical_not(found) if invert else found


def _bits(f, *given):
    """Of whole numbers, by NumPy where values exist."""
    first = _c(given[0])
    return _c(_ops.host(f, first, *(_c(each, None, first._code) for each in given[1:])))


def _bitwise(f):
    return op(lambda x, y: _bits(f, x, y))


bitwise_and, bitwise_or, bitwise_xor = _bitwise(np.bitwise_and), _bitwise(np.bitwise_or), _bitwise(np.bitwise_xor)
bitwise_not = bitwise_invert = op(lambda x: _bits(np.bitwise_not, x))
bitwise_left_shift = left_shift = _bitwise(np.left_shift)
bitwise_right_shift = right_shift = _bitwise(np.right_shift)
gcd, lcm = op(lambda x1, x2: _bits(np.gcd, x1, x2)), op(lambda x1, x2: _bits(np.lcm, x1, x2))
i0 = op(lambda x: _c(_ops.host(np.i0, o._float(x)).astype(np.float32)))
nextafter = op(lambda x1, x2: _c(_ops.host(np.nextafter, o._float(x1), o._float(x2))))


# ---- Parts and shapes ----


@op
def diff(a, n=1, axis=-1):
    """The differences of neighbours along an axis, n times."""
    x = _c(a)
    axis = axis % x._rank
    for _ in range(n):
        size = _sized(x, axis)
        cut = lambda low, high: x[(slice(None),) * axis + (slice(low, high),)]  # noqa: E731, B023
        x = cut(1, size) - cut(0, size - 1)
    return x


@op
def digitize(x, bins):
    """The index of the bin of each element."""
    x = o._float(x)
    edges = _tandem.reshape(_c(bins, x._code), (-1,))
    return _tandem.reduce_sum(_tandem.cast(_tandem.expand_dims(x, -1) >= edges, 5), -1, False)


@op
def array_split(x, indices_or_sections, axis=0):
    """Parts along an axis, as equal as they can be."""
    x = _c(x)
    if not isinstance(indices_or_sections, int):
        return o._split(x, indices_or_sections, axis)
    size, count = _sized(x, axis), indices_or_sections
    return _tandem.split_sizes(x, [size // count + (i < size % count) for i in range(count)], axis)


hsplit = op(lambda x, indices_or_sections: o._split(_c(x), indices_or_sections, 0 if _c(x)._rank == 1 else 1))
vsplit = op(lambda x, indices_or_sections: o._split(_c(x), indices_or_sections, 0))
dsplit = op(lambda x, indices_or_sections: o._split(_c(x), indices_or_sections, 2))


@op
def dstack(xs):
    """Tensors one after another along the third axis."""
    def deep(x):
        x = _c(x)
        if x._rank == 1:
            x = _tandem.expand_dims(x, 0)
        return _tandem.expand_dims(x, -1) if x._rank == 2 else x

    return _ops.concat([deep(x) for x in xs], 2)


@op
def diagflat(x, k=0):
    """A matrix with the elements on its diagonal."""
    flat = _tandem.reshape(_c(x), (-1,))
    size = _sized(flat, 0) + builtins.abs(k)
    places = np.zeros((_sized(flat, 0), size * size), np.float32)
    for i in range(_sized(flat, 0)):
        places[i, (i + builtins.max(-k, 0)) * size + i + builtins.max(k, 0)] = 1.0
    spread = _ops.matmul(_tandem.expand_dims(_tandem.cast(flat, 0), 0), _c(places))
    return _tandem.cast(_tandem.reshape(spread, (size, size)), flat._code)


empty_like = op(lambda x, dtype=None: _ops.zeros_like(x, dtype))
fliplr, flipud = op(lambda x: _ops.reverse(x, [1])), op(lambda x: _ops.reverse(x, [0]))


@op
def rot90(array, k=1, axes=(0, 1)):
    """The tensor turned by k quarters in the plane of two axes."""
    x = _c(array)
    a, b = (i % x._rank for i in axes)
    order = list(range(x._rank))
    order[a], order[b] = order[b], order[a]
    k = k % 4
    if k == 0:
        return x
    if k == 2:
        return _ops.reverse(x, [a, b])
    return _ops.reverse(_tandem.transpose(x, order), [a]) if k == 1 else _tandem.transpose(_ops.reverse(x, [a]), order)


@op
def inner(x1, x2):
    """The sums of products over the last axes."""
    a, b = o._matched(x1, x2)
    a, b = _c(a), _c(b)
    return a * b if not a._rank or not b._rank else _ops.tensordot(a, b, [[-1], [-1]])


@op
def kron(x1, x2):
    """The Kronecker product."""
    a, b = o._matched(x1, x2)
    rank = builtins.max(a._rank, b._rank)
    a = _tandem.reshape(a, [1] * (rank - a._rank) + list(a._sizes))
    b = _tandem.reshape(b, [1] * (rank - b._rank) + list(b._sizes))
    wide = _tandem.reshape(a, [s for n in a._sizes for s in (n, 1)]) * _tandem.reshape(b, [s for n in b._sizes for s in (1, n)])
    return _tandem.reshape(wide, [int(m) * int(n) for m, n in zip(a._sizes, b._sizes)])


@op
def vander(x, N=None, increasing=False):
    """The matrix of the powers of a vector."""
    x = _c(x)
    count = _sized(x, 0) if N is None else int(N)
    powers = [_tandem.pow(x, float(p) if x.dtype.is_floating else p) for p in range(count)]
    return _ops.stack(powers if increasing else powers[::-1], -1)


def tri(N, M=None, k=0, dtype=None):
    """Ones at and below a diagonal."""
    return _c(np.tri(int(N), None if M is None else int(M), k, np.float32), dtypes.code_of(dtype or "float32"))


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """`num` values from start to stop with equal ratios."""
    return _c(np.geomspace(start, stop, num, endpoint, axis=axis), dtypes.code_of(dtype or "float32"))


def logspace(start, stop, num=50, endpoint=True, base=10, dtype=None, axis=0):
    """base to the power of evenly spaced values."""
    return _c(np.logspace(start, stop, num, endpoint, base, axis=axis), dtypes.code_of(dtype or "float32"))


def _window(f):
    return lambda x, *more: _c(f(int(x), *more).astype(np.float32))


bartlett, blackman, hamming, hanning = (_window(f) for f in (np.bartlett, np.blackman, np.hamming, np.hanning))


def kaiser(x, beta):
    """The Kaiser window."""
    return _window(np.kaiser)(x, float(beta))


# ---- Statistics ----


@op
def ptp(x, axis=None, keepdims=False):
    """The difference of the largest and the smallest element."""
    return o.max(x, axis, keepdims) - o.min(x, axis, keepdims)


@op
def quantile(x, q, axis=None, method="linear", keepdims=False):
    """The values below which the parts q of the elements lie."""
    x = o._float(x)
    axes = list(range(x._rank)) if axis is None else [a % x._rank for a in ([axis] if isinstance(axis, int) else axis)]
    rest = [i for i in range(x._rank) if i not in axes]
    flat = _tandem.reshape(_tandem.transpose(x, rest + axes), [_sized(x, i) for i in rest] + [-1])
    ordered = _ops.sort(flat, -1)
    last = _sized(ordered, -1) - 1
    wanted = np.asarray(q, np.float64)

    def one(fraction):
        place = float(fraction) * last
        low, high = int(np.floor(place)), int(np.ceil(place))
        at = lambda i: _tandem.gather(ordered, np.int32(i), ordered._rank - 1)  # noqa: E731
        part = {"linear": place - low, "lower": 0.0, "higher": 1.0, "midpoint": 0.5 if high > low else 0.0, "nearest": float(np.round(place) - low)}[method]
        y = at(low) * (1.0 - part) + at(high) * part
        return _tandem.reshape(y, [1 if i in axes else _sized(x, i) for i in range(x._rank)]) if keepdims else y

    return one(wanted) if wanted.ndim == 0 else _ops.stack([one(f) for f in wanted.reshape(-1)], 0)


@op
def percentile(x, q, axis=None, method="linear", keepdims=False):
    """The values below which q percent of the elements lie."""
    return quantile(x, np.asarray(q) / 100.0, axis, method, keepdims)


@op
def corrcoef(x):
    """The correlations of the rows."""
    x = o._float(x)
    x = x - _tandem.reduce_mean(x, -1, True)
    covariance = _ops.matmul(x, _tandem.transpose(x, [1, 0]))
    scale = _tandem.sqrt(_ops.diag_part(covariance))
    return covariance / (_tandem.expand_dims(scale, 0) * _tandem.expand_dims(scale, 1))


@op
def correlate(x1, x2, mode="valid"):
    """The cross-correlation of two vectors."""
    a, b = o._matched(o._float(x1), o._float(x2))
    size = _sized(b, 0)
    before = {"valid": (0, 0), "same": (size // 2, (size - 1) // 2), "full": (size - 1, size - 1)}[mode]
    padded = _tandem.pad(a, [before], 0.0)
    return _ops.stack([_tandem.reduce_sum(padded[i : i + size] * b, None, False) for i in range(_sized(padded, 0) - size + 1)], 0)


@op
def histogram(x, bins=10, range=None):
    """How many elements lie in each of a number of bins, and their edges."""
    x = _tandem.reshape(o._float(x), (-1,))
    counts, edges = np.histogram(_ops.host(np.asarray, x), bins, range)
    return _tandem.convert(counts, x._code), _tandem.convert(edges, x._code)


@op
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral by the trapezoidal rule."""
    y = o._float(y)
    axis = axis % y._rank
    cut = lambda t, low, high: t[(slice(None),) * (axis if t._rank > 1 else 0) + (slice(low, high),)]  # noqa: E731
    step = dx if x is None else diff(x, axis=axis if len(x.shape) > 1 else 0)
    if x is not None and len(x.shape) == 1:
        step = _tandem.reshape(step, [-1] + [1] * (y._rank - 1 - axis))
    return _tandem.reduce_sum((cut(y, 1, None) + cut(y, 0, -1)) * step / 2.0, axis, False)


@op
def unique(x, sorted=True, return_index=False, return_inverse=False, return_counts=False, axis=None, size=None, fill_value=None):
    """The different elements, and on request indices, inverse and counts; `size` cuts them or fills them up."""
    found = np.unique(_ops.host(np.asarray, _c(x)), return_index, return_inverse, return_counts, axis)
    values, *others = found if isinstance(found, tuple) else (found,)
    if size is not None:
        along = 0 if axis is None else axis
        missing = [(0, max(0, size - values.shape[along]) if a == along % values.ndim else 0) for a in range(values.ndim)]
        values = np.pad(np.take(values, range(min(size, values.shape[along])), along), missing, constant_values=fill_value or 0)
        fills = {"index": 1, "counts": 0}
        names = [n for n, wanted in (("index", return_index), ("inverse", return_inverse), ("counts", return_counts)) if wanted]
        others = [a if n == "inverse" else np.pad(a[:size], (0, max(0, size - len(a))), constant_values=fills[n]) for n, a in zip(names, others)]
    values, others = _c(values), [_c(a.astype(np.int32)) for a in others]
    return (values, *others) if others else values


def _without_nan(f, empty):
    """A reduction in which NaN does not count."""

    @op
    def call(x, axis=None, keepdims=False):
        x = o._float(x)
        return f(_tandem.where(_tandem.is_nan(x), _tandem.fill(x._sizes, empty, x._code), x), axis, keepdims)

    return call


nansum = _without_nan(lambda x, a, k: o.sum(x, a, k), 0.0)
nanprod = _without_nan(lambda x, a, k: o.prod(x, a, k), 1.0)
nanmax = _without_nan(lambda x, a, k: o.max(x, a, k), float("-inf"))
nanmin = _without_nan(lambda x, a, k: o.min(x, a, k), float("inf"))
nanargmax = _without_nan(lambda x, a, k: o.argmax(x, a, k), float("-inf"))
nanargmin = _without_nan(lambda x, a, k: o.argmin(x, a, k), float("inf"))
nancumsum = op(lambda x, axis=None, dtype=None: o.cumsum(o.nan_to_num(x), axis))
nancumprod = op(lambda x, axis=None, dtype=None: o.cumprod(o.nan_to_num(x, nan=1.0), axis))


@op
def nanmean(x, axis=None, keepdims=False):
    """The mean of the elements that are not NaN."""
    return nansum(x, axis, keepdims) / o.sum(_tandem.cast(_tandem.logical_not(_tandem.is_nan(o._float(x))), o._float(x)._code), axis, keepdims)


@op
def nanvar(x, axis=None, keepdims=False):
    """The variance of the elements that are not NaN."""
    return nanmean(_tandem.square(o._float(x) - nanmean(x, axis, True)), axis, keepdims)


@op
def nanstd(x, axis=None, keepdims=False):
    """The standard deviation of the elements that are not NaN."""
    return _tandem.sqrt(nanvar(x, axis, keepdims))


def _of_numbers_alone(f):
    """A function of each row's elements that are not NaN, by NumPy."""

    @op
    def call(x, q, axis=None, method="linear", keepdims=False):
        x = o._float(x)
        axis = tuple(axis) if isinstance(axis, (list, tuple)) else axis
        return _c(_ops.host(lambda a: np.asarray(f(a, np.asarray(q, np.float64), axis=axis, method=method, keepdims=keepdims), a.dtype), x))

    return call


nanquantile, nanpercentile = _of_numbers_alone(np.nanquantile), _of_numbers_alone(np.nanpercentile)


@op
def nanmedian(x, axis=None, keepdims=False):
    """The median of the elements that are not NaN."""
    return nanquantile(x, 0.5, axis, "linear", keepdims)


@op
def argpartition(x, kth, axis=-1):
    """Indices that put the kth smallest element at its place, smaller ones before it."""
    return _ops.argsort(x, axis)


# ---- Networks ----


@op
def layer_normalization(x, gamma=None, beta=None, axis=-1, epsilon=None, **kwargs):
    """x with mean 0 and variance 1 over an axis, scaled and shifted."""
    x = o._float(x)
    mean, variance = _tandem.reduce_mean(x, axis, True), _tandem.reduce_variance(x, axis, True)
    y = (x - mean) * _tandem.rsqrt(variance + (1e-7 if epsilon is None else float(epsilon)))
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


@op
def rms_normalization(x, scale=None, axis=-1, epsilon=None):
    """x divided by the root of the mean of its squares, scaled."""
    x = o._float(x)
    y = x * _tandem.rsqrt(_tandem.reduce_mean(x * x, axis, True) + (1e-7 if epsilon is None else float(epsilon)))
    return y if scale is None else y * scale


@op
def batch_normalization(x, mean, variance, axis, offset=None, scale=None, epsilon=1e-3):
    """x with the given mean and variance taken out, scaled and shifted."""
    x = o._float(x)
    along = lambda v: None if v is None else _tandem.reshape(v, [-1 if i == axis % x._rank else 1 for i in range(x._rank)])  # noqa: E731
    y = (x - along(mean)) * _tandem.rsqrt(along(variance) + float(epsilon))
    y = y if scale is None else y * along(scale)
    return y if offset is None else y + along(offset)


@op
def dot_product_attention(query, key, value, bias=None, mask=None, scale=None, is_causal=False, flash_attention=None, attn_logits_soft_cap=None):
    """Attention of queries over keys and values."""
    q, k, v = (o._float(t) for t in (query, key, value))
    scale = float(scale) if scale is not None else 1.0 / float(np.sqrt(_sized(q, -1)))
    logits = _ops.einsum("bqhd,bkhd->bhqk", q * scale, k)
    if bias is not None:
        logits = logits + bias
    if attn_logits_soft_cap is not None:
        logits = _tandem.tanh(logits / float(attn_logits_soft_cap)) * float(attn_logits_soft_cap)
    if is_causal:
        causal = np.tril(np.ones((_sized(q, 1), _sized(k, 1)), bool))
        mask = causal if mask is None else _tandem.logical_and(_tandem.cast(mask, 7), causal)
    if mask is not None:
        logits = _tandem.where(_tandem.cast(mask, 7), logits, _tandem.fill((), -1e9, logits._code))
    return _ops.einsum("bhqk,bkhd->bqhd", _tandem.softmax(logits, -1), v)


def _blocks(f):
    """The op, whichever axis channels are."""
    from tandem.keras.layers._formats import from_last, to_last

    return op(lambda x, block_size, data_format="channels_last": from_last(f(to_last(x, data_format), block_size), data_format))


space_to_depth, depth_to_space = _blocks(_ops.space_to_depth), _blocks(_ops.depth_to_space)


@op
def psnr(x1, x2, max_val):
    """The peak signal-to-noise ratio in decibels."""
    return 20.0 * float(np.log10(max_val)) - 10.0 * o.log10(o.mean(o.square(_c(x1) - x2)))


@op
def sparsemax(x, axis=-1):
    """The nearest distribution to x, with zeros where x is small."""
    x = o._float(x)
    order = [i for i in range(x._rank) if i != axis % x._rank] + [axis % x._rank]
    z = _tandem.transpose(x, order)
    ordered = _ops.sort(z, -1, "DESCENDING")
    count = _tandem.convert(np.arange(1, _sized(z, -1) + 1, dtype=np.float32), z._code)
    total = _tandem.cumsum(ordered, -1, False, False)
    inside = _tandem.cast(1.0 + count * ordered > total, z._code)
    k = _tandem.reduce_sum(inside, -1, True)
    level = (_tandem.reduce_sum(ordered * inside, -1, True) - 1.0) / k
    return _tandem.transpose(_tandem.relu(z - level), [int(i) for i in np.argsort(order)])


# ---- Segments, sequences, functions ----


segment_min = op(lambda data, segment_ids, num_segments=None, sorted=False: _ops.unsorted_segment_min(data, segment_ids, o._segments(segment_ids, num_segments)))
segment_prod = op(lambda data, segment_ids, num_segments=None, sorted=False: _ops.unsorted_segment_prod(data, segment_ids, o._segments(segment_ids, num_segments)))
segment_mean = op(lambda data, segment_ids, num_segments=None, sorted=False: _ops.unsorted_segment_mean(data, segment_ids, o._segments(segment_ids, num_segments)))


@op
def extract_sequences(x, sequence_length, sequence_stride):
    """Windows of the last axis."""
    x = _c(x)
    starts = np.arange(0, _sized(x, -1) - sequence_length + 1, sequence_stride)
    return _ops.gather(x, (starts[:, None] + np.arange(sequence_length)).astype(np.int32), axis=-1)


def switch(index, branches, *operands):
    """The function at an index, called."""
    return _ops.switch_case(index, [lambda b=b: b(*operands) for b in branches])


def associative_scan(f, elems, reverse=False, axis=0):
    """The results of an associative function of all elements up to each one."""
    from tandem import nest

    leaves = [_tandem.unstack(_c(each), axis) for each in nest.flatten(elems)]
    parts = [nest.pack_sequence_as(elems, part) for part in zip(*leaves)]
    parts = parts[::-1] if reverse else parts
    results = parts[:1]
    for part in parts[1:]:
        results.append(f(results[-1], part))
    return nest.map_structure(lambda *each: _ops.stack(each, axis), *(results[::-1] if reverse else results))


def vectorize(pyfunc, *, excluded=None, signature=None):
    """A function of single elements as one of arrays."""
    return lambda *args: o.vectorized_map(lambda each: pyfunc(*each) if isinstance(each, (tuple, list)) else pyfunc(each), args if len(args) > 1 else args[0])


def dtype(x):
    """The name of a dtype."""
    return _c(x).dtype.name


# ---- Matrices ----


def _linalg(name):
    def call(*args, **kwargs):
        from tandem import linalg

        return getattr(linalg, name)(*args, **kwargs)

    call.__name__ = name
    return op(call)


lstsq = op(lambda a, b, rcond=None: _linalg("lstsq")(a, b if len(b.shape) > 1 else _tandem.expand_dims(b, -1)) if len(b.shape) > 1 else _tandem.squeeze(_linalg("lstsq")(a, _tandem.expand_dims(b, -1)), [-1]))
solve_triangular = op(lambda a, b, lower=False: _linalg("triangular_solve")(a, b, lower=lower))
_matrix_transpose = _linalg("matrix_transpose")
cholesky_inverse = op(lambda x, upper=False: _linalg("inv")(_ops.matmul(x, _matrix_transpose(x)) if not upper else _ops.matmul(_matrix_transpose(x), x)))


@op
def cdist(x, y):
    """The distances between all pairs of rows."""
    a, b = o._matched(o._float(x), o._float(y))
    d = _tandem.expand_dims(a, -2) - _tandem.expand_dims(b, -3)
    return _tandem.sqrt(_tandem.reduce_sum(d * d, -1, False))
