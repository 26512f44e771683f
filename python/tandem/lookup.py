"""Tables from keys to values, tf.lookup: on the host, since keys are mostly texts."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._ops.base import host


def _plain(values):
    """A flat list of what tensors, arrays and lists of texts or numbers have in them."""
    array = values.numpy() if hasattr(values, "numpy") else np.asarray(values, dtype=object if not isinstance(values, np.ndarray) else None)
    return [v.encode() if isinstance(v, str) else v for v in np.asarray(array).ravel().tolist()]


def _as_tensor(values, shape, dtype):
    from tandem._ops import constant

    array = np.empty(len(values), dtype=object)
    array[:] = values
    return constant(array.reshape(shape) if dtype == dtypes.string else array.reshape(shape).astype(dtype.as_numpy_dtype))


class KeyValueTensorInitializer:
    """Keys and their values."""

    def __init__(self, keys, values, key_dtype=None, value_dtype=None, name=None):
        self._keys, self._values = _plain(keys), _plain(values)
        self.key_dtype = dtypes.as_dtype(key_dtype) if key_dtype is not None else _kind_of(keys)
        self.value_dtype = dtypes.as_dtype(value_dtype) if value_dtype is not None else _kind_of(values)

    def _items(self):
        return dict(zip(self._keys, self._values))


def _kind_of(values):
    """The dtype of the tensor that values make."""
    from tandem._ops import constant

    has_one = isinstance(values, _tandem.Tensor) or getattr(values, "_is_text_tensor", False)
    return values.dtype if has_one else constant(values).dtype


class TextFileIndex:
    """Which part of a line of a vocabulary file is the key or the value."""

    WHOLE_LINE, LINE_NUMBER = -2, -1


class TextFileInitializer(KeyValueTensorInitializer):
    """Keys and values in the lines of a file."""

    def __init__(self, filename, key_dtype, key_index, value_dtype, value_index, vocab_size=None, delimiter="\t", name=None, value_index_offset=0):
        key_dtype, value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        keys, values = [], []
        with open(filename, "rb") as file:
            for number, line in enumerate(file.read().splitlines()[:vocab_size]):
                parts = line.split(delimiter.encode())
                for index, dtype, found in ((key_index, key_dtype, keys), (value_index, value_dtype, values)):
                    part = number if index == TextFileIndex.LINE_NUMBER else line if index == TextFileIndex.WHOLE_LINE else parts[index]
                    found.append(part if dtype == dtypes.string or isinstance(part, int) else dtype.as_numpy_dtype(part.decode()).item())
        super().__init__(keys, values, key_dtype, value_dtype)


class _Table:
    def __init__(self, items, key_dtype, value_dtype):
        self._items, self.key_dtype, self.value_dtype = items, key_dtype, value_dtype

    def _found(self, key):
        return self._items.get(key, self._default)

    def lookup(self, keys, name=None):
        def find(array):
            return _as_tensor([self._found(k) for k in _plain(array)], np.shape(array), self.value_dtype)

        return host(find, keys if isinstance(keys, _tandem.Tensor) else keys.numpy() if hasattr(keys, "numpy") else np.asarray(keys, dtype=object))

    __getitem__ = lookup

    def size(self, name=None):
        return _tandem.convert(np.int64(len(self._items)))


class StaticHashTable(_Table):
    """A table that stays as it is; what it does not have is the default."""

    def __init__(self, initializer, default_value, name=None, experimental_is_anonymous=False):
        super().__init__(initializer._items(), initializer.key_dtype, initializer.value_dtype)
        self._default = _plain([default_value])[0]

    @property
    def default_value(self):
        return self._default


class StaticVocabularyTable(_Table):
    """Numbers of words; others get one of the numbers behind them."""

    def __init__(self, initializer, num_oov_buckets, lookup_key_dtype=None, name=None, experimental_is_anonymous=False):
        kind = initializer.key_dtype if lookup_key_dtype is None and initializer is not None else lookup_key_dtype or dtypes.string
        super().__init__(initializer._items() if initializer is not None else {}, dtypes.as_dtype(kind), dtypes.int64)
        self._buckets = int(num_oov_buckets)

    def _found(self, key):
        from tandem._ops.fingerprint import fingerprint

        found = self._items.get(key)
        return found if found is not None else len(self._items) + fingerprint(key if isinstance(key, bytes) else str(key).encode()) % self._buckets

    def size(self, name=None):
        return _tandem.convert(np.int64(len(self._items) + self._buckets))


class _MutableTable(_Table):
    """A table that may change."""

    def __init__(self, key_dtype, value_dtype, default_value, *args, **kwargs):
        super().__init__({}, dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype))
        self._default = _plain([default_value])[0]

    def insert(self, keys, values, name=None):
        self._items.update(zip(_plain(keys), _plain(values)))

    insert_or_assign = insert

    def remove(self, keys, name=None):
        for key in _plain(keys):
            self._items.pop(key, None)

    erase = remove

    def export(self, name=None):
        shape = (len(self._items),)
        return _as_tensor(list(self._items), shape, self.key_dtype), _as_tensor(list(self._items.values()), shape, self.value_dtype)


class experimental(metaclass=_missing.Namespace):
    """Names that are experimental in tf.lookup."""

    MutableHashTable = DenseHashTable = _MutableTable


_missing.install(__name__, globals())
