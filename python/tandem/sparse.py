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


_missing.install(__name__, globals())
