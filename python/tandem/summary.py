"""Scalars for TensorBoard, tf.summary: its event files."""

import contextlib
import os
import struct
import time

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
        summary = _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", float(value)))
        self._write(b"\x10" + _varint(int(step)) + _field(5, summary))

    @contextlib.contextmanager
    def as_default(self, step=None):
        _open.append(self)
        try:
            yield self
        finally:
            _open.pop()

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()

    def set_as_default(self, step=None):
        _open.append(self)


_open = []
_step = [0]


def create_file_writer(logdir, max_queue=None, flush_millis=None, filename_suffix=None, name=None):
    return SummaryWriter(os.fspath(logdir))


def scalar(name, data, step=None, description=None):
    if _open:
        _open[-1].scalar(name, float(np.asarray(data)), _step[0] if step is None else int(step))
    return bool(_open)


def _left_out(name, data, step=None, **kwargs):
    """Pictures, texts and histograms are not written; scalars are."""
    return False


image = text = histogram = audio = _left_out


def trace_on(*args, **kwargs):
    pass


def trace_export(*args, **kwargs):
    pass


def trace_off():
    pass


class experimental:
    @staticmethod
    def set_step(step):
        _step[0] = int(step)

    @staticmethod
    def get_step():
        return _step[0]


def record_if(condition):
    return contextlib.nullcontext()


def flush(writer=None, name=None):
    pass


_missing.install(__name__, globals())
