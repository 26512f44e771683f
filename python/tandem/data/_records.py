"""TFRecord files and the messages in them, tf.train.Example, written and read by hand: there is no protobuf here."""

import gzip
import struct
from typing import Any, NamedTuple

import numpy as np

import _tandem
from tandem import dtypes
from tandem.data import Dataset
from tandem.data._dataset import opened
from tandem.strings import StringTensor
from tandem.summary import _crc, _field, _varint


def _plain(value):
    if hasattr(value, "numpy"):
        value = value.numpy()
    return value.encode() if isinstance(value, str) else value


class BytesList:
    """The bytes of a feature."""

    def __init__(self, value=()):
        self.value = [_plain(v) for v in value]

    def _encoded(self):
        return _field(1, b"".join(_field(1, v) for v in self.value))


class FloatList:
    """The floats of a feature."""

    def __init__(self, value=()):
        self.value = [float(v) for v in np.ravel(value)]

    def _encoded(self):
        return _field(2, _field(1, struct.pack(f"<{len(self.value)}f", *self.value)))


class Int64List:
    """The integers of a feature."""

    def __init__(self, value=()):
        self.value = [int(v) for v in np.ravel(value)]

    def _encoded(self):
        return _field(3, _field(1, b"".join(_varint(v & 0xFFFFFFFFFFFFFFFF) for v in self.value)))


class Feature:
    """One feature of an example: bytes, floats or integers."""

    def __init__(self, bytes_list=None, float_list=None, int64_list=None):
        self.bytes_list, self.float_list, self.int64_list = bytes_list, float_list, int64_list

    @property
    def _list(self):
        return next((l for l in (self.bytes_list, self.float_list, self.int64_list) if l is not None), BytesList())

    def WhichOneof(self, group):
        """The name of the list that is there."""
        return next((name for name in ("bytes_list", "float_list", "int64_list") if getattr(self, name) is not None), None)

    def HasField(self, name):
        return getattr(self, name) is not None

    def SerializeToString(self):
        return self._list._encoded()


class Features:
    """The features of an example by name."""

    def __init__(self, feature=None):
        self.feature = dict(feature or {})


class Example:
    """Lists of bytes, floats or integers by name."""

    def __init__(self, features=None):
        self.features = features or Features()

    def SerializeToString(self):
        entries = b"".join(_field(1, _field(1, name.encode()) + _field(2, feature._list._encoded())) for name, feature in sorted(self.features.feature.items()))
        return _field(1, entries)

    def ParseFromString(self, data):
        self.features = Example.FromString(data).features

    @staticmethod
    def FromString(data):
        features = {}
        for _, part in _fields(_plain(data)):
            for _, entry in _fields(part):
                parts = dict(_fields(entry))
                features[parts[1].decode()] = _feature(parts.get(2, b""))
        return Example(Features(features))


def _read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data):
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == 2:
            size, at = _read_varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        elif kind == 0:
            value, at = _read_varint(data, at)
            yield key >> 3, value
        else:
            size = 8 if kind == 1 else 4
            yield key >> 3, data[at : at + size]
            at += size


def _feature(data):
    for number, part in _fields(data):
        values = [v for _, v in _fields(part)]
        if number == 1:
            return Feature(bytes_list=BytesList(values))
        if number == 2:
            packed = b"".join(values)
            return Feature(float_list=FloatList(np.frombuffer(packed, "<f4")))
        numbers = []
        for v in values:
            if isinstance(v, int):
                numbers.append(v)
                continue
            at = 0
            while at < len(v):
                value, at = _read_varint(v, at)
                numbers.append(value)
        return Feature(int64_list=Int64List([n - 2**64 if n >= 2**63 else n for n in numbers]))
    return Feature()


class FixedLenFeature(NamedTuple):
    """A feature of a known shape, for parse_example."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature of any length, for parse_example."""

    dtype: Any


def parse_single_example(serialized, features, example_names=None, name=None):
    """The features of one serialized tf.train.Example, as tensors by name."""
    found = Example.FromString(serialized).features.feature
    result = {}
    for key, wanted in features.items():
        values = found[key]._list.value if key in found else None
        if isinstance(wanted, VarLenFeature):
            result[key] = _sparse_row(values or [], dtypes.as_dtype(wanted.dtype))
            continue
        if not values:
            if wanted.default_value is None:
                raise ValueError(f"Feature: {key} (data type: {dtypes.as_dtype(wanted.dtype).name}) is required but could not be found.")
            values = np.ravel(wanted.default_value).tolist()
        if dtypes.as_dtype(wanted.dtype) == dtypes.string:
            result[key] = StringTensor(values[0] if not wanted.shape else np.array(values, dtype=object).reshape(wanted.shape))
        else:
            result[key] = _tandem.convert(np.array(values).reshape(wanted.shape), dtypes.as_dtype(wanted.dtype)._code)
    return result


def _sparse_row(values, dtype):
    from tandem.sparse import SparseTensor

    row = values if dtype == dtypes.string else np.asarray(values, dtype.as_numpy_dtype)
    return SparseTensor(np.arange(len(values), dtype=np.int64).reshape(-1, 1), row, [len(values)])


def parse_example(serialized, features, example_names=None, name=None):
    """The features of a batch of serialized tf.train.Examples, as tensors by name."""
    from tandem.data._structure import _stacked
    from tandem.sparse import SparseTensor

    rows = [parse_single_example(s, features) for s in serialized]
    dense = _stacked([{k: v for k, v in row.items() if not isinstance(v, SparseTensor)} for row in rows])
    for key in [k for k, v in features.items() if isinstance(v, VarLenFeature)]:
        parts = [np.asarray(row[key].values.numpy()) for row in rows]
        places = [(i, j) for i, part in enumerate(parts) for j in range(len(part))]
        widest = max((len(part) for part in parts), default=0)
        dense[key] = SparseTensor(np.asarray(places, np.int64).reshape(-1, 2), np.concatenate(parts), [len(rows), widest])
    return dense


class TFRecordWriter:
    """Writes records into a file."""

    def __init__(self, path, options=None):
        kind = options if isinstance(options, str) else getattr(options, "compression_type", None)
        self._file = (gzip.open if kind == "GZIP" else open)(_text(path), "wb")

    def write(self, record):
        record = _plain(record)
        length = struct.pack("<Q", len(record))
        self._file.write(length + struct.pack("<I", _crc(length)) + record + struct.pack("<I", _crc(record)))

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class TFRecordOptions:
    """How a file of records is compressed."""

    def __init__(self, compression_type=None, **kwargs):
        self.compression_type = compression_type


def _text(path):
    path = _plain(path)
    return path.decode() if isinstance(path, bytes) else str(path)


class TFRecordDataset(Dataset):
    """The records of files."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None, name=None):
        if isinstance(filenames, Dataset):
            filenames = [f for f in filenames]
        if isinstance(filenames, (str, bytes)) or hasattr(filenames, "__fspath__") and not len(getattr(filenames, "shape", ())):
            filenames = [filenames]
        names = [_text(f) for f in filenames]

        def generate():
            from tandem.errors import DataLossError

            for each in names:
                with opened(each, compression_type) as file:
                    while True:
                        head = file.read(12)
                        if not head:
                            break
                        size = struct.unpack("<Q", head[:8])[0]
                        record = file.read(size)
                        if len(head) < 12 or len(record) < size or struct.unpack("<I", file.read(4) or b"\0\0\0\0")[0] != _crc(record):
                            raise DataLossError(f"{each}: a record is truncated or damaged")
                        yield StringTensor(record)

        from tandem._tensors.tensor import TensorSpec

        super().__init__(generate=generate, spec=TensorSpec((), dtypes.string))
        self._kind = "TFRecordDatasetV2"
