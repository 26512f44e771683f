"""Scalars, histograms, pictures and texts for TensorBoard, tf.summary: its event files."""

import contextlib
import os
import struct
import time
import zlib

import numpy as np

from tandem._names import missing as _missing

_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = (_n >> 1) ^ (0x82F63B78 if _n & 1 else 0)
    _TABLE.append(_n)


def _crc(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    value ^= 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(number):
    out = b""
    while True:
        byte, number = number & 0x7F, number >> 7
        out += bytes([byte | (0x80 if number else 0)])
        if not number:
            return out


def _field(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number, value):
    return _varint(number << 3) + _varint(int(value))


def _double(number, value):
    return _varint(number << 3 | 1) + struct.pack("<d", float(value))


def _histogram(values, buckets):
    """TensorBoard's HistogramProto."""
    values = np.asarray(values, np.float64).ravel()
    if not values.size:
        values = np.zeros(1)
    counts, edges = np.histogram(values, buckets)
    numbers = lambda array: np.asarray(array, "<f8").tobytes()  # noqa: E731
    return (
        _double(1, values.min()) + _double(2, values.max()) + _double(3, values.size) + _double(4, values.sum())
        + _double(5, (values**2).sum()) + _field(6, numbers(edges[1:])) + _field(7, numbers(counts))
    )


def _png(picture):
    """An array [height, width, 1, 3 or 4] of uint8 as a PNG file."""
    height, width, channels = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    kind = {1: 0, 3: 2, 4: 6}[channels]

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class SummaryWriter:
    """Writes events into a file of a folder."""

    def __init__(self, logdir):
        os.makedirs(logdir, exist_ok=True)
        self._file = open(os.path.join(logdir, f"events.out.tfevents.{int(time.time())}.{os.getpid()}.{id(self)}.v2"), "wb")
        self._write(_field(3, b"brain.Event:2"))

    def _write(self, event):
        event = struct.pack("<Bd", 0x09, time.time()) + event
        length = struct.pack("<Q", len(event))
        self._file.write(length + struct.pack("<I", _crc(length)) + event + struct.pack("<I", _crc(event)))
        self._file.flush()

    def scalar(self, tag, value, step):
        """Writes a number."""
        self._value(tag, b"\x15" + struct.pack("<f", float(value)), step)

    def _value(self, tag, value, step):
        self._write(b"\x10" + _varint(int(step)) + _field(5, _field(1, _field(1, tag.encode()) + value)))

    def histogram(self, tag, values, step, buckets):
        """Writes the distribution of values."""
        self._value(tag, _field(5, _histogram(values, buckets)), step)

    def image(self, tag, picture, step):
        """Writes images."""
        height, width, channels = picture.shape
        parts = _number(1, height) + _number(2, width) + _number(3, channels) + _field(4, _png(picture))
        self._value(tag, _field(4, parts), step)

    def text(self, tag, texts, step):
        """Writes an array of texts."""
        shape = b"".join(_field(2, _number(1, size)) for size in texts.shape)
        tensor = _number(1, 7) + _field(2, shape) + b"".join(_field(8, t if isinstance(t, bytes) else str(t).encode()) for t in texts.ravel())
        self._value(tag, _field(8, tensor) + _field(9, _field(1, _field(1, b"text"))), step)

    @contextlib.contextmanager
    def as_default(self, step=None):
        """A scope in which tf.summary writes to this."""
        _open.append(self)
        try:
            yield self
        finally:
            _open.pop()

    def flush(self):
        """Writes what is waiting to the file."""
        self._file.flush()

    def close(self):
        """Closes the file."""
        self._file.close()

    def set_as_default(self, step=None):
        """Makes tf.summary write to this from now on."""
        _open.append(self)


_open = []
_step = [0]


def create_file_writer(logdir, max_queue=None, flush_millis=None, filename_suffix=None, name=None):
    """A writer of event files, which TensorBoard reads."""
    return SummaryWriter(os.fspath(logdir))


def scalar(name, data, step=None, description=None):
    """Writes a number."""
    if _open:
        _open[-1].scalar(name, float(np.asarray(data)), _at(step))
    return bool(_open)


def _at(step):
    return _step[0] if step is None else int(step)


def histogram(name, data, step=None, buckets=None, description=None):
    """Writes the distribution of values."""
    if _open:
        _open[-1].histogram(name, data.numpy() if hasattr(data, "numpy") else data, _at(step), buckets or 30)
    return bool(_open)


def image(name, data, step=None, max_outputs=3, description=None):
    """Pictures [n, height, width, channels], of 0 to 255 or of 0 to 1; the first few are written."""
    pictures = np.asarray(data.numpy() if hasattr(data, "numpy") else data)
    if pictures.ndim != 4:
        raise ValueError(f"tf.summary.image: the data has shape {pictures.shape}, [n, height, width, channels] is wanted")
    if pictures.dtype != np.uint8:
        pictures = (np.clip(pictures, 0, 1) * 255 + 0.5).astype(np.uint8)
    for i, picture in enumerate(pictures[:max_outputs] if _open else ()):
        _open[-1].image(f"{name}/image/{i}" if len(pictures) > 1 else f"{name}/image", np.ascontiguousarray(picture), _at(step))
    return bool(_open)


def text(name, data, step=None, description=None):
    """Writes a text, or an array of them."""
    if _open:
        _open[-1].text(name, np.array(data.numpy() if hasattr(data, "numpy") else data, object), _at(step))
    return bool(_open)


def audio(name, data, sample_rate=None, step=None, **kwargs):
    """Writes sounds."""
    raise NotImplementedError("tf.summary.audio: tandem writes scalars, histograms, pictures and texts")


def trace_on(*args, **kwargs):
    """Accepted; profiles are made by tf.profiler."""


def trace_export(*args, **kwargs):
    """Accepted; profiles are made by tf.profiler."""


def trace_off():
    """Accepted; profiles are made by tf.profiler."""


class experimental(metaclass=_missing.Namespace):
    """Names that are experimental in tf.summary."""

    @staticmethod
    def set_step(step):
        _step[0] = int(step)

    @staticmethod
    def get_step():
        return _step[0]


def should_record_summaries():
    """True where summaries are written."""
    return True


def record_if(condition):
    """A scope in which summaries are written only if a condition holds."""
    return contextlib.nullcontext()


def flush(writer=None, name=None):
    """Writes what is waiting to the file."""


_missing.install(__name__, globals())
