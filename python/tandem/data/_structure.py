"""Elements of data sets as flat lists of tensors, and the other way round."""

import itertools

import numpy as np

import _tandem
from tandem import nest
from tandem._tensors.tensor import Tensor
from tandem._tracing.state import state
from tandem.data import _dataset
from tandem.strings import StringTensor

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2


class _Structure:
    """How the flat tensors of an element make a structure; known at the latest when the first element was made."""

    def __init__(self, like=None):
        self.like = like  # The structure with something at each leaf.
        self.known = like is not None
        self._flat = None

    def _is_flat(self):
        if self._flat is None:
            self._flat = not any(nest.is_nested(each) for each in self.like)
        return self._flat

    def pack(self, tensors):
        if type(self.like) is tuple and len(self.like) == len(tensors) and self._is_flat():
            return tuple(tensors)
        if not nest.is_nested(self.like):
            return tensors[0]
        return nest.pack_sequence_as(self.like, tensors)

    def learn(self, value):
        if not self.known:
            self.like = nest.map_structure(lambda leaf: 0, value) if nest.is_nested(value) else 0
            self.known, self._flat = True, None


def _untupled(value):
    """Lists in an element stand for tensors, as in tf.data; tuples and dictionaries are structure."""
    if isinstance(value, list):
        return _leaf(value)
    if isinstance(value, tuple):
        parts = [_untupled(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {k: _untupled(v) for k, v in value.items()}
    return _leaf(value)


def _is_not_dense(value):
    """Whether it is a ragged or a sparse tensor, which data sets hand on as it is."""
    return hasattr(value, "_ragged_rows") or hasattr(value, "_is_sparse")


def _row(value, i):
    """The i-th row of a tensor of any sort."""
    part = value[i]
    if hasattr(value, "_ragged_rows") and not hasattr(part, "_ragged_rows"):
        part._is_row = True  # Batches of such are ragged, see _stack.
    return part


def _leaf(value):
    if isinstance(value, (Tensor, StringTensor)) or _is_not_dense(value):
        return value
    if isinstance(value, _tandem.Variable):
        return value.read_value()
    from tandem._ops import constant

    if hasattr(value, "toarray"):
        value = value.toarray()
    return constant(value)


def _flat(value):
    return [_tandem.convert(v) for v in nest.flatten(value)]


def _wrapped(array):
    """An array's memory itself where a tensor can have it; else a copy."""
    if isinstance(array, np.ndarray) and array.flags.c_contiguous and array.dtype in (np.float32, np.float64, np.uint8, np.int32, np.int64, np.bool_):
        return _tandem.wrap(array)
    return _leaf(array)


def _call(f, value, unpack=True):
    before, state.in_data = state.in_data, True
    try:
        return f(*value) if unpack and isinstance(value, tuple) and not hasattr(value, "_fields") else f(value)
    finally:
        state.in_data = before


def _pack_values(like, values):
    """Values, which may be structures themselves, in the places of a structure's leaves."""
    values = iter(values)

    def fill(part):
        if isinstance(part, dict):
            return {k: fill(part[k]) for k in nest._sorted_keys(part)}
        if isinstance(part, (list, tuple)):
            return tuple(fill(p) for p in part)
        return next(values)

    return fill(like)


def _as_slices(value):
    if isinstance(value, tuple):
        parts = [_as_slices(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {k: _as_slices(v) for k, v in value.items()}
    if type(value).__module__.startswith("pandas"):
        if hasattr(value, "columns"):
            return _as_slices(np.asarray(value))
        value = np.asarray(value)
    return value if _is_not_dense(value) else _wrapped(value)


def _typed_part(value, kind, typed):
    if isinstance(kind, dict):
        return {k: _typed_part(value[k], kind[k], typed) for k in kind}
    if isinstance(kind, (tuple, list)):
        if not hasattr(value, "__len__") or len(value) != len(kind):
            raise TypeError(f"from_generator: the generator yielded {value!r} where {len(kind)} parts were expected")
        return tuple(_typed_part(v, k, typed) for v, k in zip(value, kind))
    return typed(value, kind)


def _leaves_for(given, like, count):
    if given is None:
        return [None] * count
    if not nest.is_nested(like):
        return [given]
    leaves = []

    def walk(part, shape):
        if isinstance(part, dict):
            for k in nest._sorted_keys(part):
                walk(part[k], shape[k])
        elif isinstance(part, (list, tuple)):
            for p, s in zip(part, shape):
                walk(p, s)
        else:
            leaves.append(shape)

    try:
        walk(like, given)
    except (TypeError, KeyError):
        return [given] * count
    return leaves


def _chunks(values, size):
    while True:
        chunk = list(itertools.islice(values, size))
        if not chunk:
            return
        yield chunk


def _stacked(values):
    first = values[0]
    if not nest.is_nested(first):
        return _stack(values)
    flat = zip(*[nest.flatten(v) for v in values])
    return nest.pack_sequence_as(first, [_stack(list(each)) for each in flat])


def _stack(leaves, ragged=False):
    if hasattr(leaves[0], "_is_sparse"):
        from tandem import sparse

        return sparse.stacked(leaves)
    if ragged or any(hasattr(leaf, "_ragged_rows") or hasattr(leaf, "_is_row") for leaf in leaves):
        from tandem import ragged as ragged_module

        return ragged_module.stack(leaves)
    if isinstance(leaves[0], StringTensor):
        return StringTensor(np.stack([leaf.numpy() if leaf.shape.rank else np.array(leaf.numpy(), object) for leaf in leaves]))
    return _tandem.stack([_tandem.convert(leaf) for leaf in leaves], 0)


def _of_values(values):
    return _dataset.Dataset(generate=lambda: iter(values), count=len(values))


def _windowed(values):
    first = values[0]
    if not nest.is_nested(first):
        window = _of_values(values)
        window._kind = "_VariantDataset"
        return window
    if isinstance(first, tuple):
        return tuple(_windowed([v[i] for v in values]) for i in range(len(first)))
    if isinstance(first, dict):
        return {k: _windowed([v[k] for v in values]) for k in first}
    return _of_values(values)
