"""Sparse tensors, tf.sparse: the places and values of a few elements, for what makes dense tensors of them."""

import numpy as np

import _tandem
from tandem import _ops, dtypes, errors
from tandem._names import missing as _missing
from tandem._tensors.shape import TensorShape


def _values_of(values):
    """A tensor, or one of texts."""
    is_text = getattr(values, "_is_text_tensor", False) or any(isinstance(v, (str, bytes)) for v in (values if isinstance(values, (list, tuple)) else values.ravel()[:1] if isinstance(values, np.ndarray) else ()))
    if not is_text:
        return _tandem.convert(values)
    from tandem.strings import StringTensor

    return StringTensor(np.array([*values, None], dtype=object)[:-1])


class SparseTensor:
    """The values at some places of a tensor that is 0 elsewhere. Ops take dense tensors: see to_dense."""

    _is_sparse = True

    def __init__(self, indices, values, dense_shape):
        self.indices = _tandem.cast(_tandem.convert(indices), 6)
        self.values = _values_of(values)
        self.dense_shape = _tandem.cast(_tandem.convert(dense_shape), 6)
        self.shape = TensorShape([int(s) for s in np.asarray(self.dense_shape.numpy())])
        if not len(self.indices):
            self.indices = _ops.reshape(self.indices, [0, len(self.shape)])
        if self.indices._rank != 2 or self.indices._sizes[1] != len(self.shape):
            raise ValueError(f"SparseTensor: indices have the shape {tuple(self.indices.shape)}; [n, {len(self.shape)}] is accepted for a tensor of the shape {tuple(self.shape)}")

    @property
    def dtype(self):
        return self.values.dtype

    def get_shape(self):
        return self.shape

    def __tandem_tensor__(self):
        return to_dense(self)  # Layers and ops take the whole tensor.

    def with_values(self, new_values):
        return SparseTensor(self.indices, new_values, self.dense_shape)

    def rows(self):
        """Its rows along the first axis, as sparse tensors."""
        places, values = np.asarray(self.indices.numpy()), self.values.numpy()
        shape = list(self.shape)
        own = [np.flatnonzero(places[:, 0] == i) for i in range(shape[0])]
        return [SparseTensor(places[which, 1:], values[which], shape[1:]) for which in own]

    def set_shape(self, shape):
        """Raises ValueError unless the shape is compatible."""
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"Shapes {self.shape} and {TensorShape(shape)} are not compatible")

    def __mul__(self, other):
        return SparseTensor(self.indices, self.values * other, self.dense_shape)

    def __repr__(self):
        return f"SparseTensor(indices={self.indices!s}, values={self.values!s}, dense_shape={self.dense_shape!s})"


def _check_order(places):
    """Throws InvalidArgumentError unless each place comes after the one before it, row by row."""
    for i in range(1, len(places)):
        before, here = places[i - 1].tolist(), places[i].tolist()
        if before < here:
            continue
        shown = f"indices[{i}] = [{','.join(map(str, here))}] is"
        if before == here:
            raise errors.InvalidArgumentError(None, None, f"{shown} repeated")
        raise errors.InvalidArgumentError(
            None, None, f"{shown} out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to create a correctly ordered copy.\n"
        )


def stacked(tensors):
    """Sparse tensors side by side along a new first axis, which is as large as the largest of them."""
    hosts = [_host(each) for each in tensors]
    places = [np.concatenate([np.full((len(own), 1), i), own], axis=1) for i, (own, _) in enumerate(hosts)]
    shape = np.max([list(each.shape) for each in tensors], axis=0).astype(np.int64)
    return SparseTensor(np.concatenate(places), np.concatenate([values for _, values in hosts]), [len(tensors), *shape])


def of_rows(tensors, shape):
    """A sparse tensor of dense ones of different sizes, which have a value at each of their places; None in the shape is the largest."""
    arrays = [np.asarray(each.numpy()) for each in tensors]
    largest = np.max([each.shape for each in arrays], axis=0)
    shape = [int(most) if size is None else size for size, most in zip(shape, largest)]
    for each in arrays:
        if any(have > most for have, most in zip(each.shape, shape)):
            raise ValueError(f"an element of the shape {each.shape} does not fit into rows of the shape {tuple(shape)}")
    places = [np.concatenate([np.full((each.size, 1), i), np.argwhere(np.ones(each.shape, bool)).reshape(each.size, each.ndim)], axis=1) for i, each in enumerate(arrays)]
    return SparseTensor(np.concatenate(places), np.concatenate([each.reshape(-1) for each in arrays]), [len(arrays), *shape])


def to_dense(sp_input, default_value=None, validate_indices=True, name=None):
    """The whole tensor, with `default_value`, or 0, where the sparse one has none."""
    if validate_indices and not sp_input.indices._is_symbolic:
        _check_order(np.asarray(sp_input.indices.numpy()))
    values = sp_input.values
    if getattr(values, "_is_text_tensor", False):
        from tandem.strings import StringTensor

        dense = np.full(tuple(sp_input.shape), b"" if default_value is None else default_value, dtype=object)
        dense[tuple(np.asarray(sp_input.indices.numpy()).T)] = values.numpy()
        return StringTensor(dense)
    background = _ops.fill(list(sp_input.shape), _tandem.cast(_tandem.convert(0 if default_value is None else default_value), values._code))
    return _ops.tensor_scatter_nd_update(background, sp_input.indices, values)


def from_dense(tensor, name=None):
    """The sparse tensor of a dense one."""
    array = np.asarray(_tandem.convert(tensor).numpy())
    places = np.argwhere(array)
    return SparseTensor(places.reshape(-1, array.ndim), array[tuple(places.T)], list(array.shape))


def reorder(sp_input, name=None):
    """In the order of rows."""
    places = np.asarray(sp_input.indices.numpy())
    order = np.lexsort(places.T[::-1])
    return SparseTensor(places[order], np.asarray(sp_input.values.numpy())[order], sp_input.dense_shape)


def sparse_dense_matmul(sp_a, b, adjoint_a=False, adjoint_b=False, name=None):
    """The product of a sparse and a dense matrix."""
    a = to_dense(sp_a) if isinstance(sp_a, SparseTensor) else _tandem.convert(sp_a)
    b = to_dense(b) if isinstance(b, SparseTensor) else _tandem.convert(b)
    return _ops.matmul(a, b, transpose_a=adjoint_a, transpose_b=adjoint_b)


def reduce_sum(sp_input, axis=None, keepdims=None, output_is_sparse=False, name=None):
    """The sum of a sparse tensor over axes, dense."""
    return _ops.reduce_sum(to_dense(sp_input), axis=axis, keepdims=bool(keepdims))


def reduce_max(sp_input, axis=None, keepdims=None, output_is_sparse=False, name=None):
    """The largest of the values that are there: places without one do not count."""
    places, values = np.asarray(sp_input.indices.numpy()), np.asarray(sp_input.values.numpy())
    rank = len(sp_input.shape)
    axes = tuple(range(rank)) if axis is None else tuple(a % rank for a in np.ravel(axis))
    kept = [a for a in range(rank) if a not in axes]
    if not kept:
        most = np.max(values, initial=values.dtype.type(0) if not len(values) else values[0])
        return _tandem.convert(np.reshape(most, (1,) * rank) if keepdims else most)
    lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
    out = np.full([sp_input.shape[a] for a in kept], lowest, values.dtype)
    np.maximum.at(out, tuple(places[:, a] for a in kept), values)
    out = np.where(out == lowest, 0, out).astype(values.dtype)
    return _tandem.convert(np.expand_dims(out, axes) if keepdims else out)


def _host(sp_input):
    return np.asarray(sp_input.indices.numpy()), np.asarray(sp_input.values.numpy())


def add(a, b, threshold=0):
    """The sum, sparse where both are."""
    if not (isinstance(a, SparseTensor) and isinstance(b, SparseTensor)):
        return (to_dense(a) if isinstance(a, SparseTensor) else _tandem.convert(a)) + (to_dense(b) if isinstance(b, SparseTensor) else b)
    (places, values), (more_places, more_values) = _host(a), _host(b)
    rows, which = np.unique(np.concatenate([places, more_places]), axis=0, return_inverse=True)
    total = np.zeros(len(rows), values.dtype)
    np.add.at(total, which.ravel(), np.concatenate([values, more_values]))
    keep = np.abs(total) >= threshold if threshold else np.ones(len(rows), bool)
    return SparseTensor(rows[keep], total[keep], a.dense_shape)


def concat(axis, sp_inputs, expand_nonconcat_dims=False, name=None):
    """Sparse tensors one behind the other along an axis."""
    sp_inputs = list(sp_inputs)
    rank = len(sp_inputs[0].shape)
    axis = axis % rank
    places, values, at = [], [], 0
    for each in sp_inputs:
        own, own_values = _host(each)
        moved = own.copy()
        moved[:, axis] += at
        at += each.shape[axis]
        places.append(moved)
        values.append(own_values)
    shape = [at if i == axis else max(each.shape[i] for each in sp_inputs) for i in range(rank)]
    return reorder(SparseTensor(np.concatenate(places), np.concatenate(values), shape))


def slice(sp_input, start, size, name=None):  # noqa: A001
    """A part of a sparse tensor."""
    places, values = _host(sp_input)
    start, size = np.asarray(start), np.asarray(size)
    end = np.minimum(start + size, list(sp_input.shape))
    inside = ((places >= start) & (places < end)).all(axis=1)
    return SparseTensor(places[inside] - start, values[inside], np.maximum(end - start, 0))


def transpose(sp_input, perm=None, name=None):
    """A sparse tensor with its axes in another order."""
    order = list(range(len(sp_input.shape)))[::-1] if perm is None else [int(p) for p in perm]
    places, values = _host(sp_input)
    return reorder(SparseTensor(places[:, order], values, [sp_input.shape[i] for i in order]))


def retain(sp_input, to_retain):
    """The entries that are asked for."""
    places, values = _host(sp_input)
    kept = np.asarray(to_retain, bool)
    return SparseTensor(places[kept], values[kept], sp_input.dense_shape)


def map_values(op, *args, **kwargs):
    """The op of the values of sparse tensors, which have them in the same places."""
    first = next(each for each in (*args, *kwargs.values()) if isinstance(each, SparseTensor))
    values = lambda each: each.values if isinstance(each, SparseTensor) else each  # noqa: E731
    return first.with_values(op(*[values(each) for each in args], **{k: values(v) for k, v in kwargs.items()}))


def eye(num_rows, num_columns=None, dtype=dtypes.float32, name=None):
    """A sparse identity matrix."""
    count = min(num_rows, num_rows if num_columns is None else num_columns)
    return SparseTensor([[i, i] for i in range(count)], _ops.ones([count], dtype), [num_rows, num_rows if num_columns is None else num_columns])


def reshape(sp_input, shape, name=None):
    """The same elements in another shape; -1 stands for the size that is left."""
    places, values = _host(sp_input)
    old = [int(s) for s in sp_input.shape]
    new = [int(s) for s in np.ravel(np.asarray(shape))]
    if new.count(-1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {new}")
    total = int(np.prod(old, dtype=np.int64))
    if -1 in new:
        rest = int(np.prod([s for s in new if s != -1], dtype=np.int64))
        new[new.index(-1)] = total // rest if rest else 0
    if int(np.prod(new, dtype=np.int64)) != total:
        raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {new} ({int(np.prod(new))} elements).")
    flat = np.ravel_multi_index(places.T, old) if len(places) else np.zeros(0, np.int64)
    return SparseTensor(np.stack(np.unravel_index(flat, new), -1) if len(places) else np.zeros((0, len(new)), np.int64), values, new)


def expand_dims(sp_input, axis=None, name=None):
    """A sparse tensor with a new axis of size 1."""
    places, values = _host(sp_input)
    rank = len(sp_input.shape)
    axis = -1 if axis is None else int(axis)
    if not -rank - 1 <= axis <= rank:
        raise ValueError(f"axis should be in [{-rank - 1}, {rank}], got {axis}")
    axis = axis % (rank + 1)
    sizes = [int(s) for s in sp_input.shape]
    return SparseTensor(np.insert(places, axis, 0, axis=1), values, [*sizes[:axis], 1, *sizes[axis:]])


def fill_empty_rows(sp_input, default_value, name=None):
    """A sparse tensor with a value at the beginning of each row that has none, and which rows those were."""
    places, values = _host(sp_input)
    rows = int(sp_input.shape[0])
    is_empty = np.bincount(places[:, 0], minlength=rows) == 0
    added = np.zeros((int(is_empty.sum()), places.shape[1]), np.int64)
    added[:, 0] = np.flatnonzero(is_empty)
    fill = np.full(len(added), default_value.encode() if isinstance(default_value, str) else np.asarray(default_value), values.dtype)
    joined, order = np.concatenate([places, added]), None
    order = np.lexsort(joined.T[::-1])
    return SparseTensor(joined[order], np.concatenate([values, fill])[order], sp_input.dense_shape), _tandem.convert(is_empty)


def _with_both(f):
    """An op of two sparse tensors, where a missing value is 0."""

    def call(sp_a, sp_b, name=None):
        (places, values), (more_places, more_values) = _host(sp_a), _host(sp_b)
        rows, which = np.unique(np.concatenate([places, more_places]), axis=0, return_inverse=True)
        which = which.ravel()
        first, second = np.zeros(len(rows), values.dtype), np.zeros(len(rows), values.dtype)
        first[which[: len(places)]], second[which[len(places) :]] = values, more_values
        return SparseTensor(rows, f(first, second), sp_a.dense_shape)

    return call


maximum, minimum = _with_both(np.maximum), _with_both(np.minimum)
maximum.__doc__, minimum.__doc__ = "The larger of the elements of two sparse tensors.", "The smaller of the elements of two sparse tensors."


def softmax(sp_input, name=None):
    """The softmax of the values that each row has along the last axis; places without one stay so."""
    places, values = _host(sp_input)
    _, row = np.unique(places[:, :-1], axis=0, return_inverse=True)
    row = row.ravel()
    largest = np.full(row.max(initial=-1) + 1, -np.inf, values.dtype)
    np.maximum.at(largest, row, values)
    powers = np.exp(values - largest[row])
    return SparseTensor(places, powers / np.bincount(row, powers)[row].astype(values.dtype), sp_input.dense_shape)


def split(sp_input=None, num_split=None, axis=None, name=None):
    """Parts along an axis; the first ones are larger by one where sizes do not fit."""
    size = int(sp_input.shape[axis])
    each, more = divmod(size, num_split)
    starts = np.concatenate([[0], np.cumsum([each + (i < more) for i in range(num_split)])])
    whole = [int(s) for s in sp_input.shape]
    parts = []
    for low, high in zip(starts[:-1], starts[1:]):
        begin, sizes = [0] * len(whole), list(whole)
        begin[axis], sizes[axis] = int(low), int(high - low)
        parts.append(slice(sp_input, begin, sizes))
    return parts


def reset_shape(sp_input, new_shape=None):
    """The same elements in a larger shape, or in the smallest that has room for them."""
    places, values = _host(sp_input)
    wanted = (places.max(axis=0) + 1 if len(places) else np.zeros(len(sp_input.shape), np.int64)) if new_shape is None else np.asarray(new_shape)
    if new_shape is not None and (len(wanted) != len(sp_input.shape) or (wanted < np.asarray([int(s) for s in sp_input.shape])).any()):
        raise ValueError(f"the shape {wanted.tolist()} does not contain {tuple(sp_input.shape)}")
    return SparseTensor(places, values, wanted)


def to_indicator(sp_input, vocab_size, name=None):
    """True at the places of the last axis that values name."""
    places, values = _host(sp_input)
    out = np.zeros([*[int(s) for s in sp_input.shape[:-1]], int(vocab_size)], bool)
    out[tuple(places[:, :-1].T) + (values,)] = True
    return _tandem.convert(out)


def _segments(combine):
    def call(data, indices, segment_ids, num_segments=None, name=None):
        rows = _tandem.gather(_tandem.convert(data), indices, 0)
        ids = np.asarray(segment_ids.numpy() if hasattr(segment_ids, "numpy") else segment_ids, np.int32)
        return combine(rows, ids, int(num_segments) if num_segments is not None else int(ids.max(initial=-1)) + 1)

    return call


segment_sum = _segments(lambda *args: _ops.unsorted_segment_sum(*args))
segment_mean = _segments(lambda *args: _ops.unsorted_segment_mean(*args))
segment_sqrt_n = _segments(lambda *args: __import__("tandem").math.unsorted_segment_sqrt_n(*args))
segment_sum.__doc__, segment_mean.__doc__ = "The sums of chosen rows that have one number.", "The means of chosen rows that have one number."
segment_sqrt_n.__doc__ = "The sums of chosen rows that have one number, divided by the square root of how many they are."


_missing.install(__name__, globals())
