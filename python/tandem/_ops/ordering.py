"""Sorted values, the largest ones, and which there are."""

import builtins

import collections

import _tandem
from tandem import dtypes
from tandem._names.lazy import np
from tandem._ops.base import _code, host, op
from tandem._ops.choosing import _batched_gather
from tandem._ops.reduction import bincount


def _host_sorted(x, axis, direction, stable):
    def places(a):
        if direction == "DESCENDING":
            order = np.argsort(-a if a.dtype.kind == "f" else -a.astype(np.int64), axis=axis, kind="stable")
        else:
            order = np.argsort(a, axis=axis, kind="stable")
        return order.astype(np.int32)

    return _tandem.convert(host(places, x))


def _traced_order(x, direction):
    """The places of the last axis in order, by counting who comes before whom."""
    n = int(x._sizes[-1])
    mine, other = _tandem.expand_dims(x, -1), _tandem.expand_dims(x, -2)
    before = _tandem.greater(other, mine) if direction == "DESCENDING" else _tandem.less(other, mine)
    earlier = _tandem.convert(np.tril(np.ones((n, n), bool), -1))
    tie = _tandem.logical_and(_tandem.equal(other, mine), earlier)
    rank_of = _tandem.reduce_sum(_tandem.cast(_tandem.logical_or(before, tie), 5), -1, False)
    at = _tandem.one_hot(rank_of, n, 1.0, 0.0, 0)
    positions = _tandem.convert(np.arange(n, dtype=np.float32))
    return _tandem.cast(_tandem.reduce_sum(at * _tandem.expand_dims(positions, -1), -2, False), 5)


@op
def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    """The indices that would sort the values along an axis."""
    x = _tandem.convert(values)
    axis = axis % x._rank
    if not x._is_symbolic:
        return _host_sorted(x, axis, direction, stable)
    moved = axis != x._rank - 1
    if moved:
        order = [i for i in builtins.range(x._rank) if i != axis] + [axis]
        x = _tandem.transpose(x, order)
    result = _traced_order(_tandem.stop_gradient(x) if x.dtype.is_floating else x, direction)
    if moved:
        result = _tandem.transpose(result, list(np.argsort(order)))
    return result


def take_along_last(x, indices):
    """The elements along the last axis at each row's own indices."""
    return _batched_gather(x, indices, x._rank - 1, x._rank - 1) if x._rank > 1 else _tandem.gather(x, indices, 0)


@op
def sort(values, axis=-1, direction="ASCENDING", name=None):
    """The values in ascending or descending order along an axis."""
    x = _tandem.convert(values)
    order = argsort._raw(x, axis, direction)
    axis = axis % x._rank
    if axis == x._rank - 1:
        return take_along_last(x, order)
    swap = [i for i in builtins.range(x._rank) if i != axis] + [axis]
    result = take_along_last(_tandem.transpose(x, swap), _tandem.transpose(order, swap))
    return _tandem.transpose(result, [int(i) for i in np.argsort(swap)])


class TopKV2(tuple):
    """The values and the places of top_k."""

    def __new__(cls, values, indices):
        return tuple.__new__(cls, (values, indices))

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


@op
def top_k(input, k=1, sorted=True, index_type=dtypes.int32, name=None):
    """The k largest values along the last axis, and their indices."""
    x = _tandem.convert(input)
    k = int(k)
    if not x._is_symbolic:
        order = _host_sorted(x, x._rank - 1, "DESCENDING", True)
    elif k <= 8 and x.dtype.is_floating:
        rest, places, n = _tandem.stop_gradient(x), [], int(x._sizes[-1])
        for _ in builtins.range(k):
            place = _tandem.argmax(rest, -1)
            places.append(_tandem.cast(place, 5))
            taken = _tandem.one_hot(place, n, 1.0, 0.0, 7)
            rest = _tandem.where(taken, _tandem.fill((), float("-inf"), x._code), rest)
        order = _tandem.stack(places, -1)
    else:
        order = _traced_order(x, "DESCENDING")
    order = order[..., :k]
    return TopKV2(take_along_last(x, order), _tandem.cast(order, _code(index_type)))


@op
def in_top_k(targets, predictions, k, name=None):
    """Whether each target is among the k largest predictions of its row."""
    predictions = _tandem.convert(predictions)
    targets = _tandem.cast(targets, 5)
    own = _tandem.reduce_sum(predictions * _tandem.one_hot(targets, int(predictions._sizes[-1]), 1.0, 0.0, predictions._code), -1, True)
    ahead = _tandem.reduce_sum(_tandem.cast(_tandem.greater(predictions, own), 5), -1, False)
    return _tandem.less(ahead, int(k))


Unique = collections.namedtuple("Unique", "y idx")
UniqueWithCounts = collections.namedtuple("UniqueWithCounts", "y idx count")


@op
def unique(x, out_idx=dtypes.int32, name=None):
    """The different values of a vector in the order of their first appearance, and each element's index among them."""
    def find(a):
        values, first, inverse = np.unique(a, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return values[order], place[inverse].reshape(-1).astype(np.int32)

    x = _tandem.convert(x)
    values, places = host(find, x)
    return Unique(_tandem.convert(values, x._code), _tandem.convert(places, _code(out_idx)))


@op
def unique_with_counts(x, out_idx=dtypes.int32, name=None):
    """The different values of a vector, each element's index among them, and how often each occurs."""
    values, places = unique(x, out_idx)
    return UniqueWithCounts(values, places, _tandem.cast(bincount(places), _code(out_idx)))


def searchsorted(sorted_sequence, values, side="left", out_type=dtypes.int32, name=None):
    """The places at which values would be inserted to keep a sorted sequence sorted."""
    s, v = _tandem.convert(sorted_sequence), _tandem.convert(values)
    s1, v1 = _tandem.expand_dims(s, -2), _tandem.expand_dims(v, -1)
    before = _tandem.less(s1, v1) if side == "left" else _tandem.less_equal(s1, v1)
    return _tandem.reduce_sum(_tandem.cast(before, _code(out_type)), -1, False)


def sequence_mask(lengths, maxlen=None, dtype=dtypes.bool, name=None):
    """True for the first `lengths` places of each row."""
    lengths = _tandem.convert(lengths)
    maxlen = int(_tandem.reduce_max(lengths, None, False)) if maxlen is None else int(maxlen)
    mask = _tandem.less(_tandem.range(0, maxlen, 1, lengths._code), _tandem.expand_dims(lengths, -1))
    return _tandem.cast(mask, _code(dtype))
