"""Tensors whose rows have different lengths, tf.ragged: on the host, for making dense ones of. Operators compute with their elements."""

import operator

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._tensors.shape import TensorShape


def _values_of(rows):
    """The elements of all rows, one after another, as a tensor."""
    from tandem._ops import constant

    flat = [value for row in rows for value in row]
    return constant(flat) if flat else constant([], dtypes.float32)


class RaggedTensor:
    """Rows of different lengths: values, and where each row of them ends."""

    _ragged_rows = True

    def __init__(self, values, row_splits):
        self.values = values
        self._splits = np.asarray(row_splits, np.int64)

    @classmethod
    def from_row_splits(cls, values, row_splits, name=None, validate=True):
        from tandem._ops import convert_to_tensor

        return cls(convert_to_tensor(values), row_splits)

    @classmethod
    def from_row_lengths(cls, values, row_lengths, name=None, validate=True):
        return cls.from_row_splits(values, np.concatenate([[0], np.cumsum(np.asarray(row_lengths))]))

    @classmethod
    def from_value_rowids(cls, values, value_rowids, nrows=None, name=None, validate=True):
        ids = np.asarray(value_rowids)
        count = int(nrows) if nrows is not None else int(ids.max()) + 1 if ids.size else 0
        return cls.from_row_lengths(values, np.bincount(ids, minlength=count))

    @classmethod
    def from_tensor(cls, tensor, lengths=None, padding=None, **kwargs):
        array = np.asarray(tensor)
        if lengths is None:
            kept = array != padding if padding is not None else np.ones(array.shape[:2], bool)
            lengths = [int(np.max(np.nonzero(row)[0])) + 1 if row.any() else 0 for row in kept]
        return constant([array[i][: int(n)].tolist() for i, n in enumerate(np.asarray(lengths))], dtype=dtypes.as_dtype(array.dtype))

    flat_values = property(lambda self: self.values)
    row_splits = property(lambda self: _tandem.convert(self._splits))
    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: TensorShape([len(self), None, *self.values.shape[1:]]))
    ragged_rank = 1

    def get_shape(self):
        return self.shape

    def nrows(self, out_type=None, name=None):
        return _tandem.convert(np.int64(len(self)))

    def row_lengths(self, axis=1, name=None):
        return _tandem.convert(np.diff(self._splits))

    def bounding_shape(self, axis=None, name=None, out_type=None):
        longest = int(np.diff(self._splits).max()) if len(self) else 0
        return _tandem.convert(np.asarray([len(self), longest, *self.values.shape[1:]], np.int64))

    def with_values(self, values):
        return RaggedTensor(values, self._splits)

    def merge_dims(self, outer_axis, inner_axis):
        return self.values

    def __len__(self):
        return len(self._splits) - 1

    def __getitem__(self, key):
        if isinstance(key, slice):
            return constant([np.asarray(self[i].numpy()).tolist() for i in range(*key.indices(len(self)))], dtype=self.dtype)
        if isinstance(key, tuple):
            if isinstance(key[0], slice):  # A part of each row.
                return constant([np.asarray(self[i][key[1:]].numpy()).tolist() for i in range(*key[0].indices(len(self)))], dtype=self.dtype)
            return self[key[0]][key[1:]]
        key = int(key)
        key = key + len(self) if key < 0 else key
        if not 0 <= key < len(self):
            raise IndexError(f"row {key} of {len(self)}")
        return self.values[int(self._splits[key]) : int(self._splits[key + 1])]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def to_list(self):
        return [np.asarray(row.numpy()).tolist() for row in self]

    def numpy(self):
        rows = np.empty(len(self), dtype=object)
        rows[:] = [np.asarray(row.numpy()) for row in self]
        return rows

    def to_tensor(self, default_value=None, name=None, shape=None):
        """The rows in one tensor, short ones filled up."""
        from tandem._ops import constant as dense

        is_text = self.dtype == dtypes.string
        rows = [np.asarray(row.numpy()) for row in self]
        width = max((len(row) for row in rows), default=0)
        if shape is not None and len(shape) > 1 and shape[1] is not None:
            width = int(shape[1])
        default = default_value if default_value is not None else b"" if is_text else 0
        array = np.full((len(rows), width, *self.values.shape[1:]), default, dtype=object if is_text else rows[0].dtype if rows else np.float32)
        for i, row in enumerate(rows):
            array[i, : len(row)] = row[:width]
        return dense(array)

    def _beside(self, other):
        """What stands beside each of the values: a number, the values of rows of the same lengths, a row's own number."""
        if isinstance(other, RaggedTensor):
            if not np.array_equal(self._splits, other._splits):
                raise ValueError(f"rows of the lengths {np.diff(self._splits).tolist()} and {np.diff(other._splits).tolist()} do not fit each other")
            return other.values
        tensor = _tandem.convert(other, None, self.values._code)
        if tensor._rank < 2:
            return tensor
        if tensor._sizes[0] not in (1, len(self)) or tensor._sizes[1] != 1:
            raise ValueError(f"a tensor of the shape {tuple(tensor.shape)} beside {len(self)} rows; a number, [{len(self)}, 1] and rows of the same lengths are accepted")
        rows = np.repeat(np.arange(len(self)) if tensor._sizes[0] > 1 else np.zeros(len(self), int), np.diff(self._splits))
        return _tandem.gather(tensor[:, 0], rows.astype(np.int32), 0)

    @classmethod
    def from_sparse(cls, st_input, name=None, row_splits_dtype=None):
        places = np.asarray(st_input.indices.numpy())
        return cls.from_value_rowids(st_input.values, places[:, 0], nrows=st_input.shape[0])

    def to_sparse(self, name=None):
        from tandem.sparse import SparseTensor

        lengths = np.diff(self._splits)
        places = [(i, j) for i, n in enumerate(lengths) for j in range(n)]
        return SparseTensor(np.asarray(places, np.int64).reshape(-1, 2), self.values, [len(self), int(lengths.max()) if len(lengths) else 0])

    def __neg__(self):
        return self.with_values(-self.values)

    def __repr__(self):
        return f"<tf.RaggedTensor {self.to_list()}>"


def _operator(name, f):
    setattr(RaggedTensor, f"__{name}__", lambda self, other: self.with_values(f(self.values, self._beside(other))))
    setattr(RaggedTensor, f"__r{name}__", lambda self, other: self.with_values(f(self._beside(other), self.values)))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _operator(_name, getattr(operator, _name))
for _name in ("lt", "le", "gt", "ge"):
    setattr(RaggedTensor, f"__{_name}__", lambda self, other, _f=getattr(operator, _name): self.with_values(_f(self.values, self._beside(other))))


def constant(pylist, dtype=None, ragged_rank=None, inner_shape=None, name=None, row_splits_dtype=None):
    """A ragged tensor of lists of different lengths."""
    from tandem._ops import cast

    rows = [list(row) for row in pylist]
    if any(isinstance(value, (list, tuple)) for row in rows for value in row) and len({np.shape(v) for row in rows for v in row}) > 1:
        raise NotImplementedError("tf.ragged.constant: rows within rows of different lengths; one ragged axis is accepted")
    values = _values_of(rows)
    if dtype is not None and dtypes.as_dtype(dtype) != values.dtype:
        values = cast(values, dtype)
    return RaggedTensor(values, np.cumsum([0] + [len(row) for row in rows]))


def map_flat_values(op, *args, **kwargs):
    """The op of the elements of ragged tensors, which have rows of the same lengths."""
    first = next(each for each in (*args, *kwargs.values()) if isinstance(each, RaggedTensor))
    values = lambda each: each.values if isinstance(each, RaggedTensor) else each  # noqa: E731
    return first.with_values(op(*[values(each) for each in args], **{k: values(v) for k, v in kwargs.items()}))


def stack(values, axis=0, name=None):
    """A ragged tensor of vectors of different lengths."""
    if axis != 0:
        raise NotImplementedError(f"tf.ragged.stack: axis {axis}; 0 is accepted")
    return constant([np.asarray(v.numpy() if hasattr(v, "numpy") else v).tolist() for v in values])


_missing.install(__name__, globals())
