"""Tensors whose rows have different lengths: RaggedTensor.

A ragged tensor is its values, a tensor or again a ragged one, and where each row of them ends. Where rows end is on the host; the values of
the innermost are a tensor like any other, with gradients. What only moves elements is computed with their places, and one gather then fetches
them (`_places`, `_at`); what is computed of each element is computed of the innermost values.
"""

import operator

import numpy as np

import _tandem
from tandem import dtypes
from tandem._tensors.shape import TensorShape
from tandem.errors import InvalidArgumentError


def _is_ragged(value):
    return isinstance(value, RaggedTensor)


def _tensor(value, dtype=None):
    from tandem._ops import convert_to_tensor

    return value if _is_ragged(value) else convert_to_tensor(value, dtype)


def _numbers(value):
    """Whole numbers that stand in a list, an array or a tensor."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value, np.int64).reshape(-1)


class RaggedTensor:
    """Rows of different lengths."""

    _ragged_rows = True
    __array_priority__ = 200

    def __init__(self, values, row_splits, uniform_row_length=None):
        self.values = values
        self._splits = _numbers(row_splits)
        self._row_length = uniform_row_length
        if not len(self._splits) or self._splits[0] != 0 or (np.diff(self._splits) < 0).any() or self._splits[-1] != _length(values):
            raise ValueError(f"row_splits {self._splits.tolist()}: they begin with 0, do not decrease and end with the number of values, {_length(values)}")

    # ---- Made of values and of what says where rows end ----

    @classmethod
    def from_row_splits(cls, values, row_splits, name=None, validate=True):
        return cls(_tensor(values), row_splits)

    @classmethod
    def from_row_lengths(cls, values, row_lengths, name=None, validate=True):
        return cls(_tensor(values), np.concatenate([[0], np.cumsum(_numbers(row_lengths))]))

    @classmethod
    def from_value_rowids(cls, values, value_rowids, nrows=None, name=None, validate=True):
        ids = _numbers(value_rowids)
        count = int(nrows) if nrows is not None else int(ids.max()) + 1 if ids.size else 0
        return cls.from_row_lengths(values, np.bincount(ids, minlength=count))

    @classmethod
    def from_row_starts(cls, values, row_starts, name=None, validate=True):
        values = _tensor(values)
        return cls(values, np.concatenate([_numbers(row_starts), [_length(values)]]))

    @classmethod
    def from_row_limits(cls, values, row_limits, name=None, validate=True):
        return cls(_tensor(values), np.concatenate([[0], _numbers(row_limits)]))

    @classmethod
    def from_uniform_row_length(cls, values, uniform_row_length, nrows=None, validate=True, name=None):
        values, each = _tensor(values), int(uniform_row_length)
        rows = int(nrows) if nrows is not None else _length(values) // each if each else 0
        return cls(values, np.arange(rows + 1) * each, each)

    @classmethod
    def from_nested_row_splits(cls, flat_values, nested_row_splits, name=None, validate=True):
        return cls._nested(flat_values, nested_row_splits, cls.from_row_splits)

    @classmethod
    def from_nested_row_lengths(cls, flat_values, nested_row_lengths, name=None, validate=True):
        return cls._nested(flat_values, nested_row_lengths, cls.from_row_lengths)

    @classmethod
    def from_nested_value_rowids(cls, flat_values, nested_value_rowids, nested_nrows=None, name=None, validate=True):
        if nested_nrows is None:
            return cls._nested(flat_values, nested_value_rowids, cls.from_value_rowids)
        return cls._nested(flat_values, list(zip(nested_value_rowids, nested_nrows)), lambda values, each: cls.from_value_rowids(values, *each))

    @staticmethod
    def _nested(values, partitions, make):
        values = _tensor(values)
        for each in reversed(list(partitions)):
            values = make(values, each)
        return values

    @classmethod
    def from_tensor(cls, tensor, lengths=None, padding=None, ragged_rank=1, name=None, row_splits_dtype=None):
        x = _tensor(tensor)
        array = np.asarray(x.numpy())
        if isinstance(lengths, (list, tuple)) and lengths and np.ndim(lengths[0]) > 0:  # One list for each ragged axis.
            ragged_rank, inner = len(lengths), None
            sizes = [_numbers(each) for each in lengths]
        else:
            sizes = None
            inner = None if lengths is None else _numbers(lengths)
        if padding is not None:
            if ragged_rank != 1:
                raise NotImplementedError("RaggedTensor.from_tensor: padding of more than one ragged axis")
            kept = (array != padding).reshape(*array.shape[:2], -1).any(-1)
            inner = np.array([int(np.max(np.nonzero(row)[0])) + 1 if row.any() else 0 for row in kept], np.int64)
        places = np.arange(int(np.prod(array.shape[: ragged_rank + 1]))).reshape(array.shape[: ragged_rank + 1])
        rows = [places[i] for i in range(len(places))] if ragged_rank else []
        taken = iter(sizes[0]) if sizes is not None else iter(inner) if inner is not None else None
        rows = [row[: int(next(taken))] if taken is not None else row for row in rows]
        splits = [np.cumsum([0] + [len(row) for row in rows])]
        for depth in range(1, ragged_rank):
            rows = [part for row in rows for part in row]
            if sizes is not None:
                rows = [row[: int(n)] for row, n in zip(rows, sizes[depth])]
            splits.append(np.cumsum([0] + [len(row) for row in rows]))
        from tandem._ops import reshape

        flat = np.concatenate([np.asarray(row).reshape(-1) for row in rows]) if rows else np.zeros(0, np.int64)
        result = cls.from_nested_row_splits(_fetched(reshape(x, [-1, *array.shape[ragged_rank + 1 :]]), flat), splits)
        if sizes is None and inner is None:  # All rows are whole.
            at = result
            for each in array.shape[1 : ragged_rank + 1]:
                at._row_length, at = each, at.values
        return result

    # ---- What it is made of ----

    @property
    def flat_values(self):
        """The innermost values, a tensor."""
        return self.values.flat_values if _is_ragged(self.values) else self.values

    @property
    def ragged_rank(self):
        """How many axes are ragged."""
        return 1 + (self.values.ragged_rank if _is_ragged(self.values) else 0)

    @property
    def nested_row_splits(self):
        """The row_splits of all ragged axes."""
        return (self.row_splits, *(self.values.nested_row_splits if _is_ragged(self.values) else ()))

    row_splits = property(lambda self: _tandem.convert(self._splits))
    dtype = property(lambda self: self.flat_values.dtype)
    shape = property(lambda self: TensorShape([len(self), self._row_length, *self.values.shape[1:]]))

    def get_shape(self):
        return self.shape

    def nested_row_lengths(self, name=None):
        return (_tandem.convert(np.diff(self._splits)), *(self.values.nested_row_lengths() if _is_ragged(self.values) else ()))

    def nested_value_rowids(self, name=None):
        return (self.value_rowids(), *(self.values.nested_value_rowids() if _is_ragged(self.values) else ()))

    def value_rowids(self, name=None):
        return _tandem.convert(np.repeat(np.arange(len(self)), np.diff(self._splits)))

    def nrows(self, out_type=None, name=None):
        return _tandem.convert(np.int64(len(self)))

    def row_starts(self, name=None):
        return _tandem.convert(self._splits[:-1].copy())

    def row_limits(self, name=None):
        return _tandem.convert(self._splits[1:].copy())

    def row_lengths(self, axis=1, name=None):
        axis = axis + self._rank if axis < 0 else axis
        if axis == 1:
            return _tandem.convert(np.diff(self._splits))
        if _is_ragged(self.values):
            return self.with_values(self.values.row_lengths(axis - 1))
        sizes = np.full(_length(self.values), self.values.shape[axis - 1], np.int64)
        return self.with_values(_tandem.convert(sizes))

    def bounding_shape(self, axis=None, name=None, out_type=None):
        sizes, at = [len(self)], self
        while _is_ragged(at):
            sizes.append(int(np.diff(at._splits).max()) if len(at) else 0)
            at = at.values
        sizes = np.asarray(sizes + list(at.shape[1:]), np.int64)
        return _tandem.convert(sizes if axis is None else sizes[np.asarray(axis)])

    _rank = property(lambda self: 1 + (self.values._rank if _is_ragged(self.values) else len(self.values.shape)))
    ndim = property(lambda self: self._rank)

    @property
    def uniform_row_length(self):
        """The length of all rows, where they were made with one; else None."""
        return None if self._row_length is None else _tandem.convert(np.int64(self._row_length))

    def with_values(self, new_values):
        return RaggedTensor(_tensor(new_values), self._splits, self._row_length)

    def with_flat_values(self, new_values):
        return self.with_values(self.values.with_flat_values(new_values) if _is_ragged(self.values) else new_values)

    def outline(self):
        """A function that makes ragged tensors of these rows of innermost values; it does not hold the present ones."""
        splits = [each.numpy() for each in self.nested_row_splits]
        return lambda values: RaggedTensor.from_nested_row_splits(values, splits)

    def with_row_splits_dtype(self, dtype):
        return self

    def merge_dims(self, outer_axis, inner_axis):
        """All axes from one to another as one."""
        outer, inner = (axis + self._rank if axis < 0 else axis for axis in (outer_axis, inner_axis))
        if outer == inner:
            return self
        if outer > self.ragged_rank:
            from tandem._ops import reshape

            sizes = list(self.flat_values.shape)
            outer, inner = outer - self.ragged_rank, inner - self.ragged_rank
            return self.with_flat_values(reshape(self.flat_values, [-1, *sizes[1:outer], int(np.prod(sizes[outer : inner + 1])), *sizes[inner + 1 :]]))
        whole = _as_ragged(self, inner)

        def joined(lists, axis, levels):
            if axis > 0:
                return [joined(each, axis - 1, levels) for each in lists]
            for _ in range(levels):
                lists = [each for part in lists for each in part]
            return lists

        return _at(whole.flat_values, joined(whole._places(), outer, inner - outer), whole.ragged_rank - (inner - outer))

    def _innermost_rows(self):
        """The row among all innermost ones that each value is in."""
        return self.values._innermost_rows() if _is_ragged(self.values) else self.value_rowids().numpy()

    def __len__(self):
        return len(self._splits) - 1

    # ---- Places ----

    def _places(self):
        """For each element the place that it has in the innermost values, in lists."""
        lengths, at = [], self
        while _is_ragged(at):
            lengths.append(at._splits)
            at = at.values
        lists = list(range(_length(at)))
        for splits in reversed(lengths):
            lists = [lists[a:b] for a, b in zip(splits[:-1], splits[1:])]
        return lists

    def __getitem__(self, key):
        keys = list(key) if isinstance(key, tuple) else [key]
        keys = [int(k) if not isinstance(k, slice) and k is not None and k is not Ellipsis else _slice_of_numbers(k) for k in keys]
        named = sum(1 for k in keys if k is not None and k is not Ellipsis)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (self._rank - named)
        inner = keys
        outer = []
        while inner and sum(1 for k in outer if k is not None) <= self.ragged_rank:
            outer.append(inner[0])
            inner = inner[1:]
        result = _at(self.flat_values, *_taken(self._places(), outer, self.ragged_rank))
        if any(k != slice(None) for k in inner):
            kept = sum(1 for k in outer if not isinstance(k, int))
            flat = result.flat_values if _is_ragged(result) else result
            depth = result.ragged_rank + 1 if _is_ragged(result) else kept
            part = flat[(slice(None),) * (1 if _is_ragged(result) else depth) + tuple(inner)]
            return result.with_flat_values(part) if _is_ragged(result) else part
        return result

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # ---- As something else ----

    def to_list(self):
        flat = np.asarray(self.flat_values.numpy()).tolist()
        return _each(self._places(), flat.__getitem__)

    def numpy(self):
        values = np.asarray(self.values.numpy())
        rows = np.split(values, self._splits[1:-1]) if len(self) else []
        if not rows:
            return np.array([], dtype=values.dtype)
        if len({len(row) for row in rows}) == 1:
            return np.array(rows)
        array = np.empty(len(rows), dtype=object)
        array[:] = rows
        return array

    def to_tensor(self, default_value=None, name=None, shape=None):
        """The rows in one tensor, short ones filled up."""
        sizes = self.bounding_shape().numpy().tolist()
        inner = list(self.flat_values.shape[1:])
        wanted = list(TensorShape(shape).as_list()) if shape is not None and TensorShape(shape).rank is not None else [None] * len(sizes)
        depth = self.ragged_rank + 1
        sizes = [size if given is None else int(given) for size, given in zip(sizes, wanted)][:depth]
        places = np.full(sizes, -1, np.int64)
        _fill(places, self._places())
        flat, is_text = self.flat_values, self.dtype == dtypes.string
        if is_text:
            from tandem._ops import constant as dense

            array = np.concatenate([np.asarray(flat.numpy(), object).reshape(-1), [b"" if default_value is None else default_value]])
            return dense(array[places])
        from tandem._ops import reshape, zeros

        filler = zeros([1, *inner], flat.dtype) if default_value is None else _tandem.broadcast_to(_tandem.convert(default_value, flat._code), [1, *inner])
        every = _tandem.concat([flat, filler], 0)
        return reshape(_fetched(every, np.where(places < 0, _length(flat), places).reshape(-1)), [*sizes, *inner])

    @classmethod
    def from_sparse(cls, st_input, name=None, row_splits_dtype=None):
        places = np.asarray(st_input.indices.numpy())
        return cls.from_value_rowids(st_input.values, places[:, 0], nrows=st_input.shape[0])

    def to_sparse(self, name=None):
        from tandem.sparse import SparseTensor

        if len(self.flat_values.shape) > 1:
            raise NotImplementedError("RaggedTensor.to_sparse: values of more than one axis")
        places = list(_paths(self._places()))
        return SparseTensor(np.asarray(places, np.int64).reshape(-1, self.ragged_rank + 1), self.flat_values, self.bounding_shape().numpy().tolist())

    def __repr__(self):
        with np.printoptions(formatter={"all": _shown}):
            return f"<tf.RaggedTensor {_shown(self.numpy())}>"

    # ---- Operators ----

    def _beside(self, other):
        """What stands beside each of the values: a number, the values of rows of the same lengths, or what is repeated along them."""
        flat = self.flat_values
        if _is_ragged(other):
            mine, theirs = [s.numpy() for s in self.nested_row_splits], [s.numpy() for s in other.nested_row_splits]
            if len(mine) == len(theirs) and all(np.array_equal(a, b) for a, b in zip(mine, theirs)):
                return other.flat_values
            lengths = [[np.diff(s).tolist() for s in splits] for splits in (mine, theirs)]
            raise InvalidArgumentError(f"rows of the lengths {lengths[0]} and {lengths[1]} do not fit each other")
        tensor = _tandem.convert(other, None, flat._code)
        inner = flat._rank - 1
        outer = tensor._rank - inner
        if outer <= 0:
            return tensor
        # The first axes of the tensor, counted from the last ragged one, are those of the rows.
        paths = np.asarray(list(_paths(self._places())), np.int64).reshape(-1, self.ragged_rank + 1)[:, self.ragged_rank + 1 - outer :]
        sizes = tensor._sizes[:outer]
        for axis, size in enumerate(sizes):
            if size != 1 and len(paths) and (paths[:, axis].max() >= size or axis + self.ragged_rank + 1 - outer > 0 and not self._all_rows_have(size)):
                raise InvalidArgumentError(f"a tensor of the shape {tuple(tensor.shape)} beside rows of the shape {self.shape}; sizes of 1, of the rows, and those that all rows have are accepted")
        flat_places = np.zeros(len(paths), np.int64)
        for axis, size in enumerate(sizes):
            flat_places = flat_places * size + (paths[:, axis] if size != 1 else 0)
        return _fetched(_tandem.reshape(tensor, [-1, *tensor._sizes[outer:]]), flat_places)

    def _all_rows_have(self, size):
        return any(_is_ragged(at) and (np.diff(at._splits) == size).all() for at in (self, self.values))

    def __bool__(self):
        raise TypeError("RaggedTensor may not be used as a boolean.")

    def __neg__(self):
        return self.with_flat_values(-self.flat_values)

    def __abs__(self):
        return self.with_flat_values(abs(self.flat_values))

    def __invert__(self):
        return self.with_flat_values(~self.flat_values)

    def __eq__(self, other):
        try:
            return self.with_flat_values(_tandem.equal(self.flat_values, self._beside(other)))
        except InvalidArgumentError:
            return False

    def __ne__(self, other):
        try:
            return self.with_flat_values(_tandem.not_equal(self.flat_values, self._beside(other)))
        except InvalidArgumentError:
            return True

    __hash__ = object.__hash__


def _shown(value):
    """An array, whose parts may be arrays themselves, as text with commas."""
    if not isinstance(value, np.ndarray):
        return str(value)
    return np.array2string(value, separator=", ") if value.size else repr(value.tolist())


def _operator(name, f):
    setattr(RaggedTensor, f"__{name}__", lambda self, other: self.with_flat_values(f(self.flat_values, self._beside(other))))
    setattr(RaggedTensor, f"__r{name}__", lambda self, other: self.with_flat_values(f(self._beside(other), self.flat_values)))


for _name, _sign in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "truediv", "floordiv": "floordiv", "mod": "mod", "pow": "pow", "and": "and_", "or": "or_", "xor": "xor"}.items():
    _operator(_name, getattr(operator, _sign))
for _name in ("lt", "le", "gt", "ge"):
    setattr(RaggedTensor, f"__{_name}__", lambda self, other, _f=getattr(operator, _name): self.with_flat_values(_f(self.flat_values, self._beside(other))))


# ---- Lists of places ----


def _length(values):
    return len(values) if _is_ragged(values) or getattr(values, "_is_text_tensor", False) else int(values._sizes[0])


def _slice_of_numbers(key):
    number = lambda v: v if v is None else int(v)  # noqa: E731
    return slice(number(key.start), number(key.stop), number(key.step)) if isinstance(key, slice) else key


def _each(lists, f):
    return [_each(each, f) for each in lists] if isinstance(lists, list) else f(lists)


def _paths(lists, before=()):
    for i, each in enumerate(lists):
        if isinstance(each, list):
            yield from _paths(each, (*before, i))
        else:
            yield (*before, i)


def _fill(array, lists):
    for i, each in enumerate(lists[: len(array)]):
        if isinstance(each, list):
            _fill(array[i], each)
        else:
            array[i] = each


def _fetched(flat, places):
    if getattr(flat, "_is_text_tensor", False):
        return flat._gather(np.asarray(places, np.int64))
    return _tandem.gather(flat, np.asarray(places, np.int64), 0)


def _taken(lists, keys, depth):
    """The part of lists that indices and slices name, and how deep it is ragged."""
    if not keys:
        return lists, depth
    key, rest = keys[0], keys[1:]
    if key is None:
        inner, rank = _taken(lists, rest, depth)
        return [inner], rank + 1
    if isinstance(key, int):
        if not -len(lists) <= key < len(lists):
            raise IndexError(f"row {key} of {len(lists)}")
        return _taken(lists[key], rest, depth - 1) if isinstance(lists[key], list) else (lists[key], -1)
    rows = lists[key]
    if not rest:
        return rows, depth
    parts = [_taken(row, rest, depth - 1) for row in rows]
    return [part for part, _ in parts], parts[0][1] + 1 if parts else depth


def _at(flat, lists, depth):
    """The values at the places that lists hold; `depth` axes are ragged."""
    if depth < 0:
        return flat[lists]
    splits, rows = [], lists
    for _ in range(depth):
        splits.append(np.cumsum([0] + [len(row) for row in rows]))
        rows = [each for row in rows for each in row]
    values = _fetched(flat, rows)
    return RaggedTensor.from_nested_row_splits(values, splits) if splits else values


def _as_ragged(value, rank):
    """A tensor as a ragged one of so many ragged axes, where it is none."""
    if _is_ragged(value):
        missing = rank - value.ragged_rank
        return value.with_flat_values(_as_ragged(value.flat_values, missing)) if missing > 0 else value
    tensor = _tensor(value)
    if rank == 0:
        return tensor
    return RaggedTensor.from_tensor(tensor, ragged_rank=rank)


def _depth(lists):
    if hasattr(lists, "shape"):
        return len(lists.shape)
    return 1 + max((_depth(each) for each in lists), default=0) if isinstance(lists, (list, tuple)) else 0


def constant(pylist, dtype=None, ragged_rank=None, inner_shape=None, name=None, row_splits_dtype=None):
    """A ragged tensor of lists, and lists of lists, of different lengths."""
    from tandem._ops import constant as dense

    lists = pylist.tolist() if hasattr(pylist, "tolist") else pylist
    if not isinstance(lists, (list, tuple)):
        return dense(lists, dtype)
    if inner_shape is not None:
        inner_shape = tuple(inner_shape) if isinstance(inner_shape, (list, tuple)) else (int(inner_shape),)
    depth = _depth(lists)
    if ragged_rank is None:
        ragged_rank = max(0, depth - 1 - len(inner_shape or ()))
        if inner_shape is not None and ragged_rank == 0 and depth - 1 < len(inner_shape):
            raise ValueError(f"pylist has {depth} nested lists, which inner_shape {inner_shape} does not fit")
    elif ragged_rank >= max(depth, ragged_rank + 1):
        raise ValueError(f"ragged_rank must be less than the depth of the lists, {depth}")
    splits, rows = [], list(lists)
    for _ in range(ragged_rank):
        splits.append(np.cumsum([0] + [len(row) for row in rows]))
        rows = [each for row in rows for each in row]
    shape = (len(rows), *inner_shape) if inner_shape is not None else None
    kind = dtypes.as_dtype(dtype) if dtype is not None else None
    if rows:
        values = dense(rows, kind) if shape is None else dense(rows, kind, shape=shape)
    else:
        values = dense(np.zeros(shape or (0,), object if kind == dtypes.string else np.float32), kind or dtypes.float32)
    return RaggedTensor.from_nested_row_splits(values, splits) if splits else values
