"""Files, tf.io."""

import functools as _functools
import os as _os
import types as _types

import numpy as _np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem.image import decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png, encode_jpeg, encode_png  # noqa: F401
from tandem.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError, NoFileError
from tandem.strings import StringTensor, _each


def _text(path):
    path = path.numpy() if hasattr(path, "numpy") else path
    return (path.decode() if isinstance(path, bytes) else _os.fspath(path)).removeprefix("file://")


def _with_errors(f):
    """The function of files, whose errors are TensorFlow's."""

    @_functools.wraps(f)
    def call(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except FileNotFoundError as error:
            raise NoFileError(f"{error.filename}; No such file or directory") from error
        except FileExistsError as error:
            raise AlreadyExistsError(f"{error.filename}; File exists") from error
        except (IsADirectoryError, NotADirectoryError) as error:
            raise FailedPreconditionError(f"{error.filename}; {error.strerror}") from error

    return staticmethod(call)


def _make_room(path, overwrite):
    if not overwrite and _os.path.exists(path):
        raise AlreadyExistsError(f"file already exists; {path}")
    return path


def read_file(filename, name=None):
    """The bytes of a file, as a tensor of text."""
    try:
        with open(_text(filename), "rb") as file:
            return StringTensor(file.read())
    except FileNotFoundError as error:
        raise NoFileError(f"{_text(filename)}; No such file or directory") from error


def write_file(filename, contents, name=None):
    """Writes a text to a file, making its folder."""
    data = contents.numpy() if hasattr(contents, "numpy") else contents
    _os.makedirs(_os.path.dirname(_text(filename)) or ".", exist_ok=True)
    with open(_text(filename), "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def decode_raw(input_bytes, out_type, little_endian=True, fixed_length=None, name=None):
    """The numbers that bytes hold."""
    texts = StringTensor(input_bytes)._array
    kind = _np.dtype(dtypes.as_dtype(out_type).as_numpy_dtype)
    size = max((len(text) for text in texts.ravel()), default=0) if fixed_length is None else int(fixed_length)
    for text in texts.ravel() if fixed_length is None else ():
        if len(text) != size:
            raise InvalidArgumentError(f"DecodeRaw requires input strings to all be the same size, but element has size {len(text)} != {size}")
    if size % kind.itemsize:
        raise InvalidArgumentError(f"Input to DecodeRaw has length {size} that is not a multiple of {kind.itemsize}, the size of {dtypes.as_dtype(out_type).name}")
    data = b"".join(text[:size].ljust(size, b"\0") for text in texts.ravel())
    numbers = _np.frombuffer(data, kind.newbyteorder("<" if little_endian else ">")).astype(kind)
    return _tandem.convert(numbers.reshape(*texts.shape, size // kind.itemsize))


def decode_csv(records, record_defaults, field_delim=",", use_quote_delim=True, na_value="", select_cols=None, name=None):
    """The fields of lines, each column a tensor of its default's dtype."""
    import csv

    from tandem.data._csv import parsed_column

    lines = _np.asarray(records.numpy() if hasattr(records, "numpy") else records, dtype=object)
    texts = [line.decode() if isinstance(line, bytes) else str(line) for line in lines.ravel()]
    rows = list(csv.reader(texts, delimiter=field_delim, quoting=csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE))
    chosen = range(len(record_defaults)) if select_cols is None else select_cols
    result = []
    for column, default in zip(chosen, record_defaults):
        values = parsed_column(["" if row[column] == na_value else row[column] for row in rows], default).reshape(lines.shape)
        result.append(StringTensor(values if values.ndim else values.item()) if values.dtype == object else _tandem.convert(values))
    return result


class gfile(metaclass=_missing.Namespace):
    """Files by TensorFlow's names."""

    @staticmethod
    def exists(path):
        return _os.path.exists(_text(path))

    @staticmethod
    def join(path, *paths):
        return _os.path.join(_text(path), *[_text(p) for p in paths])

    @_with_errors
    def stat(path):
        found = _os.stat(_text(path))
        return _types.SimpleNamespace(length=found.st_size, mtime_nsec=found.st_mtime_ns, is_directory=_os.path.isdir(_text(path)))

    @staticmethod
    def isdir(path):
        return _os.path.isdir(_text(path))

    @_with_errors
    def listdir(path):
        return _os.listdir(_text(path))

    @_with_errors
    def makedirs(path):
        _os.makedirs(_text(path), exist_ok=True)

    mkdir = makedirs

    @_with_errors
    def remove(path):
        _os.remove(_text(path))

    @_with_errors
    def rmtree(path):
        import shutil

        shutil.rmtree(_text(path))

    @staticmethod
    def glob(pattern):
        """The names of the files that match a pattern, or one of several."""
        import glob as g

        several = not isinstance(pattern, (str, bytes)) and not hasattr(pattern, "__fspath__") and not hasattr(pattern, "numpy")
        return [name for each in (pattern if several else [pattern]) for name in sorted(g.glob(_text(each)))]

    @_with_errors
    def copy(src, dst, overwrite=False):
        import shutil

        shutil.copy(_text(src), _make_room(_text(dst), overwrite))

    @_with_errors
    def rename(src, dst, overwrite=False):
        _os.replace(_text(src), _make_room(_text(dst), overwrite))

    @staticmethod
    def walk(top):
        return _os.walk(_text(top))

    @_with_errors
    def GFile(name, mode="r"):
        return open(_text(name), mode)


matching_files = gfile.glob
_RECORDS = ("FixedLenFeature", "FixedLenSequenceFeature", "RaggedFeature", "VarLenFeature", "TFRecordWriter", "TFRecordOptions", "parse_single_example", "parse_example")


def encode_base64(input, pad=False, name=None):
    """Texts in the letters of base64 that addresses may have."""
    import base64

    def encoded(text):
        found = base64.urlsafe_b64encode(text)
        return found if pad else found.rstrip(b"=")

    return StringTensor(_each(encoded, input))


def decode_base64(input, name=None):
    """The texts that encode_base64 was given."""
    import base64

    return StringTensor(_each(lambda text: base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)), input))


def is_jpeg(contents, name=None):
    """Whether bytes are those of a JPEG file."""
    return _tandem.convert(_each(lambda data: data[:3] == b"\xff\xd8\xff", contents).astype(bool))


def serialize_tensor(tensor, name=None):
    """A tensor as the bytes of a TensorProto, for parse_tensor."""
    from tandem.data import _records

    return StringTensor(_records.tensor_message(tensor))


def parse_tensor(serialized, out_type, name=None):
    """The tensor of the bytes of a TensorProto."""
    from tandem.data import _records

    return _records.tensor_of_message(serialized, dtypes.as_dtype(out_type))


def __getattr__(name):
    import sys

    if name in _RECORDS:
        from tandem.data import _records

        return getattr(_records, name)
    raise _missing.missing("tandem.io", name, sys.modules[__name__], _RECORDS)

__all__ = [  # Written by scripts/exported-names.py.
    "AlreadyExistsError", "FailedPreconditionError", "InvalidArgumentError", "NoFileError", "StringTensor", "decode_base64", "decode_bmp",
    "decode_csv", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "decode_raw", "dtypes", "encode_base64", "encode_jpeg",
    "encode_png", "gfile", "is_jpeg", "matching_files", "parse_tensor", "read_file", "serialize_tensor", "write_file",
]
