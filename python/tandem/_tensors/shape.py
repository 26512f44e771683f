"""Shapes as TensorFlow has them, and sizes that are not known before a function runs."""

import operator

import _tandem
from tandem._tracing.state import state


def _is_size(value):
    return type(value) is _tandem.Size


def _dimension(value):
    """A size as given: a number, None, or a size that depends on the rows."""
    if value is None or _is_size(value):
        return value
    if hasattr(value, "_size"):
        return value._size
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"Dimension value must be integer or None, got {value!r} of {type(value).__name__}") from None
    if number < -1:
        raise ValueError(f"Dimension {number} must be >= 0")
    return None if number == -1 else number


def resolve(size):
    """A size for Python code: where it depends on the rows of a batch, that makes the trace hold for this number."""
    if not _is_size(size):
        return size
    return None if state.open_rows else int(size)


class TensorShape:
    """The sizes of a tensor's axes; None where one is not known."""

    __slots__ = ("_sizes",)

    def __init__(self, dims):
        if dims is None:
            self._sizes = None
        elif isinstance(dims, TensorShape):
            self._sizes = dims._sizes
        elif isinstance(dims, int) or _is_size(dims):
            self._sizes = (_dimension(dims),)
        else:
            self._sizes = tuple(_dimension(d) for d in dims)

    @classmethod
    def _of(cls, sizes):
        shape = cls.__new__(cls)
        shape._sizes = sizes
        return shape

    def _known(self):
        if self._sizes is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return self._sizes

    @property
    def rank(self):
        """The number of axes, or None."""
        return None if self._sizes is None else len(self._sizes)

    ndims = rank

    @property
    def dims(self):
        """The sizes as a list, or None."""
        return None if self._sizes is None else list(self)

    def as_list(self):
        """The sizes as a list, None where they are not known."""
        if self._sizes is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self)

    def is_fully_defined(self):
        """True if all sizes are known."""
        return self._sizes is not None and all(s is not None for s in self)

    def num_elements(self):
        """The number of elements, or None."""
        if not self.is_fully_defined():
            return None
        count = 1
        for size in self:
            count *= size
        return count

    def is_compatible_with(self, other):
        """True if some shape is both."""
        other = TensorShape(other)
        if self._sizes is None or other._sizes is None:
            return True
        return len(self) == len(other) and all(
            a is None or b is None or a == b for a, b in zip(self, other)
        )

    def assert_is_compatible_with(self, other):
        """Raises ValueError unless some shape is both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def assert_has_rank(self, rank):
        """Raises ValueError unless there are so many axes."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank):
        """The shape; raises ValueError unless there are so many axes."""
        self.assert_has_rank(rank)
        return self

    def concatenate(self, other):
        """The axes of both shapes."""
        return TensorShape._of(self._known() + TensorShape(other)._known())

    def merge_with(self, other):
        """What is known of a size in either shape."""
        other = TensorShape(other)
        self.assert_is_compatible_with(other)
        if self._sizes is None:
            return other
        if other._sizes is None:
            return self
        return TensorShape._of(tuple(b if a is None else a for a, b in zip(self._sizes, other._sizes)))

    def __len__(self):
        return len(self._known())

    def __bool__(self):
        return self._sizes is not None

    def __iter__(self):
        return (resolve(s) for s in self._known())

    def __getitem__(self, key):
        if isinstance(key, slice):
            return TensorShape._of(self._known()[key])
        return resolve(self._known()[key])

    def __add__(self, other):
        return self.concatenate(other)

    def __radd__(self, other):
        return TensorShape(other).concatenate(self)

    def __eq__(self, other):
        if isinstance(other, TensorShape):
            other = other._sizes
        if other is None or self._sizes is None:
            return other is None and self._sizes is None
        try:
            return tuple(self) == tuple(TensorShape(other))
        except (TypeError, ValueError):
            return NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(None if self._sizes is None else tuple(self))

    def __repr__(self):
        return f"TensorShape({'None' if self._sizes is None else [None if _is_size(s) else s for s in self._sizes]})"

    def __str__(self):
        if self._sizes is None:
            return "<unknown>"
        texts = ["None" if s is None or _is_size(s) else str(s) for s in self._sizes]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def __reduce__(self):
        return TensorShape, (None if self._sizes is None else tuple(self),)


class _Computed:
    """What becomes a tensor as soon as anything but a size is made of it."""

    __slots__ = ()
    __array_priority__ = 200

    def __add__(self, other):
        return self.tensor() + other

    def __radd__(self, other):
        return other + self.tensor()

    def __sub__(self, other):
        return self.tensor() - other

    def __rsub__(self, other):
        return other - self.tensor()

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return self.tensor() / other

    def __rtruediv__(self, other):
        return other / self.tensor()

    def __floordiv__(self, other):
        return self.tensor() // other

    def __mod__(self, other):
        return self.tensor() % other

    def __pow__(self, other):
        return self.tensor() ** other

    def __lt__(self, other):
        return self.tensor() < other

    def __le__(self, other):
        return self.tensor() <= other

    def __gt__(self, other):
        return self.tensor() > other

    def __ge__(self, other):
        return self.tensor() >= other

    @property
    def dtype(self):
        return self.tensor().dtype


class DynamicSize(_Computed):
    """An entry of tf.shape(x) while a function is traced: a number of rows that each call has its own of."""

    __slots__ = ("_size", "_make")

    def __init__(self, size, make):
        self._size = size
        self._make = make

    def tensor(self):
        return self._make()

    @property
    def shape(self):
        return TensorShape(())

    def __mul__(self, other):
        if isinstance(other, int):
            return DynamicSize(self._size.times(other), lambda: self._make() * other)
        return self.tensor() * other

    def __int__(self):
        return int(self._size)

    __index__ = __int__

    def __eq__(self, other):
        return int(self) == other

    def __ne__(self, other):
        return int(self) != other

    def __hash__(self):
        return id(self)

    def __float__(self):
        return float(int(self))


class DynamicShape(_Computed):
    """tf.shape(x) while a function is traced: a vector some of whose entries each call has its own of."""

    __slots__ = ("_sizes", "_make")

    def __init__(self, sizes, make=None):
        self._sizes = tuple(sizes)
        self._make = make

    def _entry(self, axis):
        size = self._sizes[axis]
        if not _is_size(size):
            return size
        return DynamicSize(size, lambda: self.tensor()[axis])

    def tensor(self):
        return self._make()

    @property
    def shape(self):
        return TensorShape((len(self._sizes),))

    def __len__(self):
        return len(self._sizes)

    def __iter__(self):
        return (self._entry(axis) for axis in range(len(self._sizes)))

    def __getitem__(self, key):
        if isinstance(key, slice):
            return DynamicShape(self._sizes[key], lambda: self.tensor()[key])
        return self._entry(int(key))

    def __mul__(self, other):
        return self.tensor() * other
