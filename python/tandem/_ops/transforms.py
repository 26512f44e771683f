"""Cosine transforms and the windows of filter banks, tf.signal: products with matrices."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._ops import op


def _matrix(kind, n, size):
    """What a transform multiplies `n` values by to make `size` of them, without a norm."""
    i, k = np.arange(n)[:, None], np.arange(size)[None]
    if kind == 1:
        weights = np.where((i == 0) | (i == n - 1), 1.0, 2.0)
        return weights * np.cos(np.pi * i * k / (n - 1))
    if kind == 2:
        return 2 * np.cos(np.pi * (2 * i + 1) * k / (2 * n))
    if kind == 3:
        return np.where(i == 0, 1.0, 2.0) * np.cos(np.pi * i * (2 * k + 1) / (2 * n))
    if kind == 4:
        return 2 * np.cos(np.pi * (2 * i + 1) * (2 * k + 1) / (4 * n))
    raise ValueError(f"Types I, II, III and IV (I)DCT are supported. Received: type={kind}")


def _orthogonal(kind, n):
    if kind == 1:
        raise ValueError("Type I DCT: a norm is not possible; give norm=None")
    matrix = _matrix(kind, n, n) * np.sqrt(1 / (2 * n))
    if kind == 2:
        matrix[:, 0] *= np.sqrt(0.5)
    if kind == 3:
        matrix[0] *= np.sqrt(2.0)
    return matrix


def _transformed(x, kind, n, axis, norm):
    if axis not in (-1, None):
        raise NotImplementedError(f"tf.signal.dct: axis={axis}; the last axis (-1) is accepted, as in TensorFlow")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")
    x = _tandem.convert(x)
    x = x if x.dtype.is_floating else _tandem.cast(x, 0)
    size = int(x._sizes[-1])
    if n is not None and n < size:
        x = x[..., :n]
    elif n is not None and n > size:
        x = _tandem.pad(x, [(0, 0)] * (x._rank - 1) + [(0, n - size)], 0.0)
    n = int(x._sizes[-1])
    matrix = _matrix(kind, n, n) if norm is None else _orthogonal(kind, n)
    flat = _tandem.reshape(x, [1, n]) if x._rank == 1 else x
    y = _tandem.matmul(flat, _tandem.convert(np.ascontiguousarray(matrix), x._code), False, False)
    return _tandem.reshape(y, [n]) if x._rank == 1 else y


@op
def dct(input, type=2, n=None, axis=-1, norm=None, name=None):
    """The discrete cosine transform of the last axis, of kinds 1 to 4."""
    return _transformed(input, type, n, axis, norm)


@op
def idct(input, type=2, n=None, axis=-1, norm=None, name=None):
    """The inverse of dct; without a norm it is larger by twice the number of values."""
    return _transformed(input, {1: 1, 2: 3, 3: 2, 4: 4}.get(type, type), n, axis, norm)


def _windowed(window_fn, length, dtype):
    if window_fn is None:
        return None
    from tandem import signal

    made = (signal.vorbis_window if window_fn == "vorbis" else window_fn)(length, dtype=dtype)
    return _tandem.convert(made)


def _vorbis(length, dtype=None):
    from tandem import signal

    return signal.vorbis_window(length, dtype)


def _lapped(half):
    """The matrix [2 half, half] of a modified cosine transform."""
    i, k = np.arange(2 * half)[:, None], np.arange(half)[None]
    return np.cos(np.pi / half * (i + 0.5 + half / 2) * (k + 0.5))


@op
def mdct(signals, frame_length, window_fn=_vorbis, pad_end=False, norm=None, name=None):
    """The modified cosine transforms of frames that overlap by half."""
    from tandem import signal

    x = _tandem.convert(signals)
    half = int(frame_length) // 2
    frames = signal.frame(x, frame_length, half, pad_end=pad_end)
    window = _windowed(window_fn, frame_length, x.dtype)
    frames = frames if window is None else frames * window
    scale = np.sqrt(1 / (2 * half)) * 2 if norm == "ortho" else 2.0
    return _tandem.matmul(frames, _tandem.convert(_lapped(half) * scale, x._code), False, False)


@op
def inverse_mdct(mdcts, window_fn=_vorbis, norm=None, name=None):
    """The signal of modified cosine transforms."""
    from tandem import signal

    x = _tandem.convert(mdcts)
    half = int(x._sizes[-1])
    scale = np.sqrt(1 / (2 * half)) * 2 if norm == "ortho" else 1.0 / half
    frames = _tandem.matmul(x, _tandem.convert(np.ascontiguousarray(_lapped(half).T) * scale, x._code), False, False)
    window = _windowed(window_fn, 2 * half, x.dtype)
    return signal.overlap_and_add(frames if window is None else frames * window, half)


def _floats(array, dtype):
    return _tandem.convert(array.astype(dtypes.as_dtype(dtype or dtypes.float32).as_numpy_dtype))


def kaiser_window(window_length, beta=12.0, dtype=None, name=None):
    """Kaiser's window."""
    return _floats(np.kaiser(int(window_length), float(beta)), dtype)


def kaiser_bessel_derived_window(window_length, beta=12.0, dtype=None, name=None):
    """The window of Kaiser and Bessel that fits a modified cosine transform."""
    half = int(window_length) // 2
    sums = np.cumsum(np.kaiser(half + 1, float(beta)))
    side = np.sqrt(sums[:-1] / sums[-1])
    return _floats(np.concatenate([side, side[::-1]]), dtype)
