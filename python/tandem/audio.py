"""Sounds, tf.audio: files of samples (.wav)."""

import collections
import struct

import numpy as np

import _tandem
from tandem._names import missing as _missing

DecodeWav = collections.namedtuple("DecodeWav", ("audio", "sample_rate"))


def _bytes_of(contents):
    contents = contents.numpy() if hasattr(contents, "numpy") else contents
    return contents if isinstance(contents, bytes) else bytes(contents)


def decode_wav(contents, desired_channels=-1, desired_samples=-1, name=None):
    """The samples of a file of 16 bits each, within -1 and 1, and how many there are in a second."""
    data = _bytes_of(contents)
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ValueError(f"decode_wav: Header mismatch: expected RIFF and WAVE, got {data[:4]!r} and {data[8:12]!r}")
    at, form, samples = 12, None, None
    while at + 8 <= len(data):
        kind, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if kind == b"fmt ":
            form = struct.unpack_from("<HHIIHH", data, at + 8)
        elif kind == b"data":
            samples = np.frombuffer(data[at + 8 : at + 8 + size - size % 2], "<i2")
        at += 8 + size + size % 2
    if form is None or samples is None:
        raise ValueError("decode_wav: the file has no format or no samples")
    coding, channels, rate, _, _, bits = form
    if coding not in (1, 0xFFFE) or bits != 16:
        raise ValueError(f"decode_wav: Can only read 16-bit WAV files, but received {bits} bits (coding {coding})")
    sound = samples[: len(samples) // channels * channels].reshape(-1, channels).astype(np.float32) / 32768.0
    if desired_channels != -1 and desired_channels != channels:  # The last one again, or as many as are wanted.
        sound = sound[:, [min(i, channels - 1) for i in range(desired_channels)]]
    if desired_samples != -1:
        sound = np.pad(sound[:desired_samples], ((0, max(desired_samples - len(sound), 0)), (0, 0)))
    return DecodeWav(_tandem.convert(np.ascontiguousarray(sound)), _tandem.convert(np.int32(rate)))


def encode_wav(audio, sample_rate, name=None):
    """A file of samples within -1 and 1, [samples, channels]."""
    from tandem.strings import StringTensor

    sound = np.asarray(audio, np.float32)
    if sound.ndim != 2:
        raise ValueError(f"encode_wav: the samples have the shape {sound.shape}; [samples, channels] is accepted")
    rate, channels = int(sample_rate), sound.shape[1]
    body = np.clip(np.trunc(sound * 32768.0 + np.copysign(np.float32(0.5), sound)), -32768, 32767).astype("<i2").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(body), b"WAVE", b"fmt ", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16, b"data", len(body))
    return StringTensor(head + body)


_missing.install(__name__, globals())
