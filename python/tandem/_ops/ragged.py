"""Ops that are given ragged tensors: `_ops.base.op` asks here what they mean."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._tensors.ragged import RaggedTensor, _as_ragged, _at, _depth, _each, _fetched, _is_ragged, _length, _numbers, _paths, _tensor


def _depth_of_all(values):
    return max((each.ragged_rank if _is_ragged(each) else 0) for each in values)


def _together(values, rank):
    """The lists of places of several tensors in one tensor of all their innermost values, which comes first."""
    parts = [_as_ragged(each, rank) for each in values]
    flats = [part.flat_values if _is_ragged(part) else part for part in parts]
    from tandem._ops import concat as dense

    starts, lists = 0, []
    for part, flat in zip(parts, flats):
        own = part._places() if _is_ragged(part) else list(range(_length(part)))
        lists.append(_each(own, lambda place, start=starts: place + start))
        starts += _length(flat)
    return dense(flats, 0), lists


def concat(values, axis, name=None):
    """Ragged tensors one after another along an axis."""
    values = list(values)
    rank = values[0]._rank if _is_ragged(values[0]) else len(_tensor(values[0]).shape)
    axis = axis + rank if axis < 0 else axis
    depth = max(_depth_of_all(values), min(axis, rank - 1))
    flat, lists = _together(values, depth)

    def joined(parts, axis):
        return [each for part in parts for each in part] if axis == 0 else [joined(rows, axis - 1) for rows in zip(*parts)]

    if axis > 0 and len({len(part) for part in lists}) > 1:
        raise ValueError(f"tf.concat: {[len(part) for part in lists]} rows along axis {axis}")
    return _at(flat, joined(lists, axis), depth)


def stack(values, axis=0, name=None):
    """Ragged tensors side by side along a new axis."""
    values = [_tensor(each) for each in values]
    rank = values[0]._rank if _is_ragged(values[0]) else len(values[0].shape)
    axis = axis + rank + 1 if axis < 0 else axis
    if rank == 0:
        from tandem._ops import stack as dense

        return dense(values, axis)
    depth = max(_depth_of_all(values), min(axis, rank - 1))
    flat, lists = _together(values, depth)

    def beside(parts, axis):
        return list(parts) if axis == 0 else [beside(rows, axis - 1) for rows in zip(*parts)]

    return _at(flat, beside(lists, axis), depth + 1)


def _grouped(lists, axis, depth):
    """Lists of the groups of places that meet where an axis is reduced."""
    if axis > 0:
        return [_grouped(each, axis - 1, depth - 1) for each in lists]
    if depth == 1:
        return tuple(lists)
    longest = max((len(each) for each in lists), default=0)
    return [_grouped([each[i] for each in lists if i < len(each)], 0, depth - 1) for i in range(longest)]


_SEGMENTS = {
    "reduce_sum": "unsorted_segment_sum", "reduce_max": "unsorted_segment_max", "reduce_min": "unsorted_segment_min",
    "reduce_prod": "unsorted_segment_prod",
}


def _reduced(f, x, axis=None, keepdims=False, name=None):
    kind = f.__name__
    if axis is None:
        return f(x.flat_values)
    axes = [int(a) for a in (axis if isinstance(axis, (list, tuple)) else [axis])]
    axes = sorted(a + x._rank if a < 0 else a for a in axes)
    if kind in ("reduce_variance", "reduce_std"):
        from tandem import math as tf_math

        mean = _reduced(tf_math.reduce_mean, x, axes, True)
        spread = _reduced(tf_math.reduce_mean, x * x, axes, keepdims) - (mean * mean if keepdims else _reduced(tf_math.reduce_sum, mean * mean, axes, False))
        return spread if kind == "reduce_variance" else _flat(tf_math.sqrt, spread)
    if kind == "reduce_mean" and axes[0] <= x.ragged_rank:
        from tandem import math as tf_math

        ones = x.with_flat_values(_tandem.ones_like(x.flat_values))
        return _reduced(tf_math.reduce_sum, x, axes, keepdims) / _reduced(tf_math.reduce_sum, ones, axes, keepdims)
    if len(axes) > 1:
        for each in reversed(axes):
            x = _reduced(f, x, each, keepdims) if _is_ragged(x) else f(x, each, keepdims)
        return x
    axis = axes[0]
    if axis > x.ragged_rank:
        return x.with_flat_values(f(x.flat_values, axis - x.ragged_rank, keepdims))
    groups = _grouped(x._places(), axis, x.ragged_rank + 1)
    found = []

    def number(group):
        found.append(group)
        return len(found) - 1

    lists = _each(groups, number) if isinstance(groups, list) else number(groups)
    places = [place for group in found for place in group]
    ids = np.repeat(np.arange(len(found)), [len(group) for group in found]).astype(np.int32)
    values = _fetched(x.flat_values, places)
    if kind in ("reduce_any", "reduce_all"):
        whole = _tandem.cast(values, 5)
        joined = _segments("unsorted_segment_max" if kind == "reduce_any" else "unsorted_segment_min")(whole, ids, len(found))
        joined = _tandem.greater(joined, 0)
    else:
        joined = _segments(_SEGMENTS[kind])(values, ids, len(found))
    if not isinstance(lists, list):
        result = joined[0]
    else:
        result = _at(joined, lists, x.ragged_rank - 1)
    return expand_dims(result, axis) if keepdims else result


def _segments(name):
    from tandem import math as tf_math

    return getattr(tf_math, name)


def expand_dims(input, axis, name=None):  # noqa: A002
    """A ragged tensor with a new axis of size 1."""
    from tandem._ops import expand_dims as dense

    if not _is_ragged(input):
        return dense(input, axis)
    axis = axis + input._rank + 1 if axis < 0 else axis
    if axis == 0:
        return RaggedTensor(input, [0, len(input)], len(input))
    if axis == 1:
        return RaggedTensor(input, np.arange(len(input) + 1), 1)
    return input.with_values(expand_dims(input.values, axis - 1))


def _gathered(params, indices, validate_indices=None, axis=None, batch_dims=0, name=None):
    from tandem._ops import gather as dense

    axis = 0 if axis is None else axis
    if batch_dims == 1 and axis in (0, 1) and _is_ragged(params):
        rows = indices.to_list() if _is_ragged(indices) else np.asarray(_tensor(indices).numpy()).tolist()
        places = [_each(row, each.__getitem__) for each, row in zip(params._places(), rows)]
        return _at(params.flat_values, places, _depth(rows) - 1 + params.ragged_rank - 1)
    if batch_dims or axis:
        raise NotImplementedError(f"tf.gather of ragged tensors: axis {axis}, batch_dims {batch_dims}; axis 0 is accepted, and batch_dims 1")
    if not _is_ragged(params):
        return indices.with_flat_values(dense(params, indices.flat_values))
    rows = indices.to_list() if _is_ragged(indices) else np.asarray(_tensor(indices).numpy()).tolist()
    lists = params._places()
    picked = _each(rows, lists.__getitem__) if isinstance(rows, list) else lists[rows]
    return _at(params.flat_values, picked, params.ragged_rank + _depth(rows) - 1)


def _tiled(input, multiples, name=None):  # noqa: A002
    times = _numbers(multiples).tolist()

    def repeated(lists, times):
        if not times:
            return lists
        return [repeated(each, times[1:]) if isinstance(each, list) else each for each in lists] * times[0]

    depth = input.ragged_rank + 1
    result = _at(input.flat_values, repeated(input._places(), times[:depth]), input.ragged_rank)
    if any(t != 1 for t in times[depth:]):
        from tandem._ops import tile

        result = result.with_flat_values(tile(result.flat_values, [1, *times[depth:]]))
    return result


def _reversed(tensor, axis, name=None):
    axes = [a + tensor._rank if a < 0 else a for a in _numbers(axis).tolist()]

    def turned(lists, at):
        rows = [turned(each, at + 1) if isinstance(each, list) else each for each in lists]
        return rows[::-1] if at in axes else rows

    result = _at(tensor.flat_values, turned(tensor._places(), 0), tensor.ragged_rank)
    inner = [a - tensor.ragged_rank for a in axes if a > tensor.ragged_rank]
    if inner:
        from tandem._ops import reverse

        result = result.with_flat_values(reverse(result.flat_values, inner))
    return result


def _where(condition, x=None, y=None, name=None):
    from tandem._ops import where as dense

    if x is None:
        places = [path for path, kept in zip(_paths(condition._places()), np.asarray(condition.flat_values.numpy())) if kept]
        return _tandem.convert(np.asarray(places, np.int64).reshape(-1, condition.ragged_rank + 1))
    like = next(each for each in (condition, x, y) if _is_ragged(each))
    beside = lambda each: each.flat_values if each is like else like._beside(each) if _is_ragged(each) else each  # noqa: E731
    return like.with_flat_values(dense(beside(condition), beside(x), beside(y)))


def _flat(f, first, *args, **kwargs):
    """An op of each element, one of whose operands at least is ragged."""
    like = next((each for each in (first, *args, *kwargs.values()) if _is_ragged(each)), None)
    if like is None:
        return f(first, *args, **kwargs)
    beside = lambda each: each.flat_values if each is like else like._beside(each) if _is_ragged(each) else each  # noqa: E731
    return like.with_flat_values(f(*[beside(each) for each in (first, *args)], **{k: beside(v) for k, v in kwargs.items()}))


_ELEMENTWISE = set(
    "abs acos acosh add asin asinh atan atan2 atanh cast ceil clip_by_value cos cosh digamma divide divide_no_nan equal erf erfc exp expm1 "
    "floor floordiv floormod greater greater_equal identity is_finite is_inf is_nan less less_equal lgamma log log1p log_sigmoid logical_and "
    "logical_not logical_or logical_xor maximum minimum mod multiply negative not_equal ones_like one_hot pow reciprocal relu relu6 rint round "
    "rsqrt sigmoid sign sin sinh softplus softsign sqrt square squared_difference stop_gradient subtract tan tanh truediv zeros_like "
    "elu gelu leaky_relu selu silu swish dropout realdiv".split()
)

_RULES = {
    "concat": lambda f, values, axis, name=None: concat(values, axis), "stack": lambda f, values, axis=0, name=None: stack(values, axis),
    "gather": lambda f, *args, **kwargs: _gathered(*args, **kwargs), "embedding_lookup": lambda f, params, ids, *args, **kwargs: _gathered(params, ids),
    "expand_dims": lambda f, input, axis=None, name=None: expand_dims(input, axis), "tile": lambda f, *args, **kwargs: _tiled(*args, **kwargs),
    "reverse": lambda f, *args, **kwargs: _reversed(*args, **kwargs), "where": lambda f, *args, **kwargs: _where(*args, **kwargs),
    "boolean_mask": lambda f, tensor, mask, *args, **kwargs: _masked(tensor, mask),
    "size": lambda f, input, out_type=dtypes.int32, name=None: f(input.flat_values, out_type), "rank": lambda f, input, name=None: _tandem.convert(input._rank),
    "add_n": lambda f, inputs, name=None: sum(inputs[1:], inputs[0]), "matmul": lambda f, a, b, **kwargs: a.with_flat_values(f(a.flat_values, b, **kwargs)),
    "softmax": lambda f, logits, axis=None, name=None: _softmax(logits, -1 if axis is None else axis),
}
for _name in (*_SEGMENTS, "reduce_mean", "reduce_any", "reduce_all", "reduce_variance", "reduce_std"):
    _RULES[_name] = _reduced


def _masked(tensor, mask):
    from tandem.ragged import boolean_mask

    return boolean_mask(tensor, mask)


def _softmax(x, axis):
    from tandem import math as tf_math

    if (axis + x._rank if axis < 0 else axis) != x.ragged_rank or len(x.flat_values.shape) != 1:
        raise NotImplementedError(f"tf.nn.softmax of a ragged tensor: axis {axis}; the last ragged one is accepted")
    ids = np.asarray(x._innermost_rows(), np.int32)
    rows = int(ids.max()) + 1 if len(ids) else 0
    largest = _tandem.stop_gradient(tf_math.unsorted_segment_max(x.flat_values, ids, rows))
    e = _tandem.exp(x.flat_values - _fetched(largest, ids))
    return x.with_flat_values(e / _fetched(tf_math.unsorted_segment_sum(e, ids, rows), ids))


def meets_ragged(args, kwargs):
    """True if any argument is ragged, or a list with one in it."""
    return any(_is_ragged(each) or isinstance(each, (list, tuple)) and any(_is_ragged(e) for e in each) for each in (*args, *kwargs.values()))


def call(f, args, kwargs):
    """An op of ragged tensors."""
    name = f.__name__
    if name in _RULES:
        return _RULES[name](f, *args, **kwargs)
    if name in _ELEMENTWISE:
        return _flat(f, *args, **kwargs)
    known = ", ".join(sorted(set(_RULES) | _ELEMENTWISE))
    raise TypeError(f"{name}: it is given a ragged tensor; of such tandem has {known}; to_tensor() makes a dense one")
