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


# ---- Messages as text ----


def _quoted(value):
    """Bytes as protobuf writes them in text."""
    named = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return '"' + "".join(named.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value) + '"'


def _float_text(value):
    """The shortest digits that are the same float32."""
    text = str(np.float32(value))
    return text[:-2] if text.endswith(".0") and "e" not in text else text


def _list_text(name, values, depth):
    write = {"bytes_list": _quoted, "float_list": _float_text, "int64_list": str}[name]
    inner = "  " * (depth + 1)
    return "  " * depth + name + " {\n" + "".join(f"{inner}value: {write(v)}\n" for v in values) + "  " * depth + "}\n"


def _feature_text(feature, depth=0):
    name = feature.WhichOneof("kind")
    return "" if name is None else _list_text(name, feature._list.value, depth)


def _features_text(features, depth=0):
    outer, inner = "  " * depth, "  " * (depth + 1)
    return "".join(
        f"{outer}feature {{\n{inner}key: {_quoted(name.encode())}\n{inner}value {{\n{_feature_text(features.feature[name], depth + 2)}{inner}}}\n{outer}}}\n"
        for name in sorted(features.feature)
    )


def _value_text(values):
    name = {BytesList: "bytes_list", FloatList: "float_list", Int64List: "int64_list"}[type(values)]
    return "".join(line[2:] + "\n" for line in _list_text(name, values.value, 0).splitlines()[1:-1])


for _class in (BytesList, FloatList, Int64List):
    _class.__repr__ = _value_text
Feature.__repr__ = _feature_text
Features.__repr__ = _features_text
Example.__repr__ = lambda self: "features {\n" + _features_text(self.features, 1) + "}\n"


# ---- Tensors as messages ----


def tensor_message(tensor):
    """The bytes of a TensorProto: the dtype, the sizes, and the elements as they lie in memory or as texts."""
    from tandem._ops import constant

    tensor = tensor if hasattr(tensor, "dtype") and hasattr(tensor, "numpy") else constant(tensor)
    dtype = dtypes.as_dtype(tensor.dtype)
    sizes = b"".join(_field(2, _number(1, int(size))) for size in tensor.shape)
    head = _number(1, dtype.as_datatype_enum) + _field(2, sizes)
    array = np.asarray(tensor.numpy())
    if dtype == dtypes.string:
        return head + b"".join(_field(8, text) for text in array.ravel())
    return head + _field(4, _tandem.bits_of(tensor.read_value() if isinstance(tensor, _tandem.Variable) else tensor).numpy().tobytes() if dtype == dtypes.bfloat16 else array.tobytes())


def _number(number, value):
    return _varint(number << 3) + _varint(value)


def tensor_of_message(data, dtype):
    """The tensor of the bytes of a TensorProto, which may have its elements in memory's order or one by one."""
    from tandem._ops import constant
    from tandem.errors import InvalidArgumentError

    sizes, found, content, texts, singles = [], None, None, [], []
    try:
        for number, part in _fields(_plain(data)):
            if number == 1:
                found = part
            elif number == 2:
                sizes = [dict(_fields(size)).get(1, 0) for n, size in _fields(part) if n == 2]
            elif number == 4:
                content = part
            elif number == 8:
                texts.append(part)
            else:
                singles.append((number, part))
    except (IndexError, TypeError):
        raise InvalidArgumentError("Could not parse `serialized` as TensorProto") from None
    if found != dtype.as_datatype_enum:
        raise InvalidArgumentError(f"Type mismatch between parsed tensor (number {found}) and dtype ({dtype.name})")
    if dtype == dtypes.string:
        array = np.empty(len(texts), object)
        array[:] = texts
    elif content is not None:
        if dtype == dtypes.bfloat16:
            return _tandem.of_bits(np.frombuffer(content, np.uint16).reshape(sizes), dtype._code)
        array = np.frombuffer(content, np.dtype(dtype.as_numpy_dtype))
    else:
        array = _single_elements(singles, np.dtype(dtype.as_numpy_dtype))
    count = int(np.prod(sizes, dtype=np.int64))
    if len(array) < count:  # The last element stands for all after it.
        array = np.concatenate([array, np.full(count - len(array), array[-1] if len(array) else 0, array.dtype)])
    return constant(array[:count].reshape(sizes))


def _single_elements(parts, kind):
    numbers = []
    for _, part in parts:
        if isinstance(part, int):
            numbers.append(part)
        elif kind.kind == "f":
            numbers.extend(np.frombuffer(part, kind.newbyteorder("<")).tolist())
        else:
            at = 0
            while at < len(part):
                value, at = _read_varint(part, at)
                numbers.append(value)
    return np.asarray([n - 2**64 if kind.kind != "f" and n >= 2**63 else n for n in numbers], kind)


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


class FixedLenSequenceFeature(NamedTuple):
    """A feature of any length of parts of a known shape, which parse_example fills up, for parse_example."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class RaggedFeature(NamedTuple):
    """A feature of any length, which parse_example gives as rows, for parse_example."""

    dtype: Any
    value_key: Any = None
    partitions: Any = ()
    row_splits_dtype: Any = dtypes.int32
    validate: bool = False


def _dense(values, dtype, shape):
    if dtype == dtypes.string:
        array = np.empty(len(values), object)
        array[:] = values
        return StringTensor(array.reshape(shape) if shape else array[0])
    return _tandem.convert(np.asarray(values, dtype.as_numpy_dtype).reshape(shape), dtype._code)


def _check_missing(key, wanted):
    if not wanted.allow_missing:
        raise ValueError(f"Unsupported: FixedLenSequenceFeature requires allow_missing to be True. Feature: {key}")


def _of_any_length(key, values, wanted):
    """The value of a feature of any length, where it is one."""
    dtype = dtypes.as_dtype(wanted.dtype)
    if isinstance(wanted, VarLenFeature):
        return _sparse_row(values, dtype)
    if isinstance(wanted, RaggedFeature):
        if wanted.partitions:
            raise NotImplementedError(f"tf.io.RaggedFeature: partitions {wanted.partitions}; none are accepted")
        return _dense(values, dtype, (len(values),))
    _check_missing(key, wanted)
    return _dense(values, dtype, (-1, *wanted.shape))


def parse_single_example(serialized, features, example_names=None, name=None):
    """The features of one serialized tf.train.Example, as tensors by name."""
    found = Example.FromString(serialized).features.feature
    result = {}
    for key in _in_order(features):
        wanted = features[key]
        source = wanted.value_key or key if isinstance(wanted, RaggedFeature) else key
        values = found[source]._list.value if source in found else None
        if not isinstance(wanted, FixedLenFeature):
            result[key] = _of_any_length(key, values or [], wanted)
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
    dense = _stacked([{k: v for k, v in row.items() if isinstance(features[k], FixedLenFeature)} for row in rows]) if rows else {}
    for key, wanted in features.items():
        if isinstance(wanted, RaggedFeature):
            from tandem import ragged

            dense[key] = ragged.stack([row[key] for row in rows]).with_row_splits_dtype(wanted.row_splits_dtype)
        elif isinstance(wanted, FixedLenSequenceFeature):
            dense[key] = _filled_up([row[key] for row in rows], wanted)
    for key in [k for k, v in features.items() if isinstance(v, VarLenFeature)]:
        parts = [np.asarray(row[key].values.numpy()) for row in rows]
        places = [(i, j) for i, part in enumerate(parts) for j in range(len(part))]
        widest = max((len(part) for part in parts), default=0)
        dense[key] = SparseTensor(np.asarray(places, np.int64).reshape(-1, 2), np.concatenate(parts), [len(rows), widest])
    return {key: dense[key] for key in _in_order(features)}


def _in_order(features):
    """The names of features as TensorFlow orders them: those of any length, dense ones and ragged ones."""
    return sorted(features, key=lambda key: (isinstance(features[key], RaggedFeature) - isinstance(features[key], VarLenFeature), key))


def _filled_up(parts, wanted):
    """Parts of different lengths in one tensor, short ones with the default behind."""
    dtype = dtypes.as_dtype(wanted.dtype)
    arrays = [np.asarray(part.numpy()) for part in parts]
    longest = max(len(array) for array in arrays)
    fill = wanted.default_value if wanted.default_value is not None else b"" if dtype == dtypes.string else 0
    out = np.full((len(arrays), longest, *arrays[0].shape[1:]), _plain(fill), arrays[0].dtype)
    for row, array in zip(out, arrays):
        row[: len(array)] = array
    return StringTensor(out) if dtype == dtypes.string else _tandem.convert(out)


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
