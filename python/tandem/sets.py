"""Rows as sets, tf.sets: on the host, with sparse results."""

import numpy as np

import _tandem
from tandem._names import missing as _missing
from tandem.sparse import SparseTensor


def _rows(value):
    """The set of each row, with the shape of what is before the last axis."""
    if isinstance(value, SparseTensor):
        shape = tuple(value.shape)[:-1]
        rows = {place: set() for place in np.ndindex(shape)}
        for place, element in zip(np.asarray(value.indices.numpy()).tolist(), np.asarray(value.values.numpy()).tolist()):
            rows[tuple(place[:-1])].add(element)
        return rows, shape, value.values.numpy().dtype
    array = np.asarray(_tandem.convert(value).numpy())
    return {place: set(array[place].tolist()) for place in np.ndindex(array.shape[:-1])}, array.shape[:-1], array.dtype


def _combined(a, b, f):
    (first, shape, kind), (second, other_shape, _) = _rows(a), _rows(b)
    if shape != other_shape:
        raise ValueError(f"tf.sets: rows of the shapes {shape} and {other_shape} do not fit each other")
    places, values, widest = [], [], 0
    for place in np.ndindex(shape):
        found = sorted(f(first[place], second[place]))
        widest = max(widest, len(found))
        places += [[*place, i] for i in range(len(found))]
        values += found
    return SparseTensor(np.asarray(places, np.int64).reshape(-1, len(shape) + 1), np.asarray(values, kind), [*shape, widest])


def union(a, b, validate_indices=True):
    """What the rows of either set have."""
    return _combined(a, b, set.union)


def intersection(a, b, validate_indices=True):
    """What the rows of both sets have."""
    return _combined(a, b, set.intersection)


def difference(a, b, aminusb=True, validate_indices=True):
    """What the rows of one set have and those of the other have not."""
    return _combined(a, b, set.difference) if aminusb else _combined(b, a, set.difference)


def size(a, validate_indices=True):
    """How many different values each row has."""
    rows, shape, _ = _rows(a)
    return _tandem.convert(np.asarray([len(rows[place]) for place in np.ndindex(shape)], np.int32).reshape(shape))


_missing.install(__name__, globals())
