"""Fourier transforms and what is made of them, tf.signal.

Transforms are products with matrices of sines and cosines, taken apart by the factors of their length (Cooley and Tukey,
1965), so they are traced and differentiated as other products are.
"""

import math as _math

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._names import words as _words
from tandem._names import missing as _missing
from tandem._tensors.complex import ComplexTensor, as_complex

_MOST = 64  # Rows of a matrix, unless the length has a larger prime in it.


def _constant(array, like):
    return _tandem.convert(array.astype(np.float64 if like._code == 1 else np.float32))


def _factor(n):
    """The largest factor of n up to _MOST; n where it has none but 1."""
    return next((f for f in range(_MOST, 1, -1) if n % f == 0), n)


def _wave(a, b, n, sign):
    """cos and sin of sign 2 pi a b / n for all of a and b."""
    angle = sign * 2 * np.pi * (np.outer(a, b) % n) / n
    return np.cos(angle), np.sin(angle)


def _times(x, matrix):
    """The product of rows, or of one row, with a matrix."""
    if x._rank > 1:
        return _tandem.matmul(x, matrix, False, False)
    return _tandem.squeeze(_tandem.matmul(_tandem.expand_dims(x, 0), matrix, False, False), [0])


def _product(x, cos, sin):
    """A complex value times the matrix cos + i sin."""
    c, s = _constant(cos, x.real), _constant(sin, x.real)
    return ComplexTensor(_times(x.real, c) - _times(x.imag, s), _times(x.real, s) + _times(x.imag, c))


def _both(x, f):
    return ComplexTensor(f(x.real), f(x.imag))


def _swapped(x):
    """The last two axes change places."""
    rank = x.real._rank
    order = list(range(rank - 2)) + [rank - 1, rank - 2]
    return _both(x, lambda v: _tandem.transpose(v, order))


def _transformed(x, sign):
    """The transform of a complex value along its last axis, without a factor."""
    n = int(x.real._sizes[-1])
    first = n if n <= _MOST else _factor(n)
    if first == n:
        return _product(x, *_wave(np.arange(n), np.arange(n), n, sign))
    second = n // first
    lead = list(x.real._sizes[:-1])
    # Element i1 second + i2 of the sum goes to k1 + first k2 of the result.
    x = _swapped(_both(x, lambda v: _tandem.reshape(v, lead + [first, second])))
    x = _swapped(_transformed(x, sign))
    cos, sin = _wave(np.arange(first), np.arange(second), n, sign)
    x = x * ComplexTensor(_constant(cos, x.real), _constant(sin, x.real))
    x = _swapped(_transformed(x, sign))
    return _both(x, lambda v: _tandem.reshape(v, lead + [n]))


def _along(x, axis, f):
    """`f` of the last axis, applied to another one."""
    if axis in (-1, x.real._rank - 1):
        return f(x)
    rank = x.real._rank
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moved = _both(x, lambda v: _tandem.transpose(v, order))
    return _both(f(moved), lambda v: _tandem.transpose(v, order))


def _forward(axes):
    def transform(input, name=None):
        x = as_complex(input)
        for axis in axes:
            x = _along(x, axis, lambda v: _transformed(v, -1))
        return x

    return transform


def _inverse(axes):
    def transform(input, name=None):
        x = as_complex(input)
        for axis in axes:
            x = _along(x, axis, lambda v: _transformed(v, 1))
        scale = 1.0 / _math.prod(int(x.real._sizes[a]) for a in axes)
        return _both(x, lambda v: v * scale)

    return transform


fft, fft2d, fft3d = _forward([-1]), _forward([-1, -2]), _forward([-1, -2, -3])
ifft, ifft2d, ifft3d = _inverse([-1]), _inverse([-1, -2]), _inverse([-1, -2, -3])


def _length(fft_length, given):
    if fft_length is None:
        return given
    flat = np.asarray(fft_length).ravel()
    return int(flat[-1])


def _fitted(x, n):
    """The last axis cut or filled with zeros to n elements."""
    have = int(x._sizes[-1])
    if have >= n:
        return x[..., :n]
    return _tandem.pad(x, [(0, 0)] * (x._rank - 1) + [(0, n - have)], 0.0)


def rfft(input_tensor, fft_length=None, name=None):
    """The transform of real values: the half of it that says all."""
    x = _tandem.convert(input_tensor)
    x = x if x.dtype.is_floating else _tandem.cast(x, 0)
    n = _length(fft_length, int(x._sizes[-1]))
    x = _fitted(x, n)
    if n <= _MOST or _factor(n) == n:
        cos, sin = _wave(np.arange(n), np.arange(n // 2 + 1), n, -1)
        return ComplexTensor(_times(x, _constant(cos, x)), _times(x, _constant(sin, x)))
    return fft(x)[..., : n // 2 + 1]


def irfft(input_tensor, fft_length=None, name=None):
    """The real values whose transform's half this is."""
    x = as_complex(input_tensor)
    n = _length(fft_length, 2 * (int(x.real._sizes[-1]) - 1))
    x = _both(x, lambda v: _fitted(v, n // 2 + 1))
    rest = (n - 1) // 2  # The other half is the first one's, mirrored and conjugate.
    back = lambda v: _ops.reverse(v[..., 1 : rest + 1], [v._rank - 1])  # noqa: E731
    whole = ComplexTensor(_tandem.concat([x.real, back(x.real)], -1), _tandem.concat([x.imag, -back(x.imag)], -1)) if rest else x
    return ifft(whole).real


def rfft2d(input_tensor, fft_length=None, name=None):
    """The Fourier transform of real values along the last two axes."""
    x = _tandem.convert(input_tensor)
    if fft_length is not None:
        raise NotImplementedError("tf.signal.rfft2d: fft_length; pad or cut the input before")
    return _along(rfft(x), -2, lambda v: _transformed(v, -1))


def irfft2d(input_tensor, fft_length=None, name=None):
    """The inverse of rfft2d."""
    x = as_complex(input_tensor)
    rows = int(x.real._sizes[-2])
    x = _along(x, -2, lambda v: _transformed(v, 1))
    return irfft(_both(x, lambda v: v / float(rows)), fft_length)


def fftshift(x, axes=None, name=None):
    """The spectrum with its zero frequency in the middle."""
    return _shifted(x, axes, lambda n: n // 2)


def ifftshift(x, axes=None, name=None):
    """The inverse of fftshift."""
    return _shifted(x, axes, lambda n: -(n // 2))


def _shifted(x, axes, by):
    sizes = x.real._sizes if isinstance(x, ComplexTensor) else _tandem.convert(x)._sizes
    axes = range(len(sizes)) if axes is None else [axes] if isinstance(axes, int) else axes
    for axis in axes:
        x = _ops.roll(x, by(int(sizes[axis])), axis)
    return x


# ---- Frames and windows ----


def frame(signal, frame_length, frame_step, pad_end=False, pad_value=0, axis=-1, name=None):
    """Pieces of a signal, one for each step, as an axis of their own."""
    x = _tandem.convert(signal)
    axis = axis % x._rank
    n, length, step = int(x._sizes[axis]), int(frame_length), int(frame_step)
    if pad_end:
        count = -(-n // step)
        more = max(0, (count - 1) * step + length - n)
        x = _tandem.pad(x, [(0, more if i == axis else 0) for i in range(x._rank)], float(pad_value))
    else:
        count = max(0, 1 + (n - length) // step)
    places = np.arange(count)[:, None] * step + np.arange(length)
    return _tandem.gather(x, _tandem.convert(places.astype(np.int32)), axis)


def overlap_and_add(signal, frame_step, name=None):
    """Frames [.., frames, length] laid over each other at each step, and added."""
    x = _tandem.convert(signal)
    count, length, step = int(x._sizes[-2]), int(x._sizes[-1]), int(frame_step)
    total = (count - 1) * step + length
    rows = -(-length // step)
    lead = list(x._sizes[:-2])
    # Each frame is cut into pieces of one step; pieces j of all frames lie j steps behind their frames' beginnings.
    x = _tandem.reshape(_fitted(x, rows * step), lead + [count, rows, step])
    out = None
    for j in range(rows):
        piece = x[..., :, j, :]
        piece = _tandem.pad(piece, [(0, 0)] * len(lead) + [(j, rows - 1 - j), (0, 0)], 0.0)
        out = piece if out is None else out + piece
    return _tandem.reshape(out, lead + [(count + rows - 1) * step])[..., :total]


def _floats(array, dtype):
    return _tandem.convert(array.astype(dtypes.as_dtype(dtype or dtypes.float32).as_numpy_dtype))


def _window(a, b):
    def window(window_length, periodic=True, dtype=None, name=None):
        n = int(window_length)
        period = n if periodic and n % 2 == 0 else n - 1
        return _floats(a - b * np.cos(2 * np.pi * np.arange(n) / period) if n > 1 else np.ones(1), dtype)

    return window


hann_window, hamming_window = _window(0.5, 0.5), _window(0.54, 0.46)


def vorbis_window(window_length, dtype=None, name=None):
    """The window of the Vorbis codec."""
    n = int(window_length)
    return _floats(np.sin(np.pi / 2 * np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2), dtype)


def stft(signals, frame_length, frame_step, fft_length=None, window_fn=hann_window, pad_end=False, name=None):
    """The transforms of a signal's frames, [.., frames, bins]."""
    x = _tandem.convert(signals)
    length = int(frame_length)
    n = int(fft_length) if fft_length is not None else 1 << max(0, length - 1).bit_length()
    framed = frame(x, length, frame_step, pad_end)
    if window_fn is not None:
        framed = framed * window_fn(length, dtype=x.dtype)
    return rfft(framed, [n])


def inverse_stft_window_fn(frame_step, forward_window_fn=hann_window, name=None):
    """The window with which inverse_stft undoes what stft did with another one."""

    def window(frame_length, dtype):
        n, step = int(frame_length), int(frame_step)
        forward = np.asarray(forward_window_fn(n, dtype=dtype), np.float64)
        overlaps = -(-n // step)
        square = np.pad(forward**2, (0, overlaps * step - n)).reshape(overlaps, step).sum(0)
        total = np.tile(square, overlaps)[:n]
        return _floats(np.where(total == 0, 0.0, forward / np.where(total == 0, 1.0, total)), dtype)

    return window


def inverse_stft(stfts, frame_length, frame_step, fft_length=None, window_fn=hann_window, name=None):
    """The signal of its short-time Fourier transforms."""
    x = as_complex(stfts)
    length = int(frame_length)
    n = int(fft_length) if fft_length is not None else 1 << max(0, length - 1).bit_length()
    frames = _fitted(irfft(x, [n]), length)
    if window_fn is not None:
        frames = frames * window_fn(length, dtype=frames.dtype)
    return overlap_and_add(frames, frame_step)


# ---- Sound ----


def linear_to_mel_weight_matrix(num_mel_bins=20, num_spectrogram_bins=129, sample_rate=8000, lower_edge_hertz=125.0, upper_edge_hertz=3800.0, dtype=None, name=None):
    """Which frequencies make up which bin of the mel scale, [spectrogram bins, mel bins]."""
    to_mel = lambda f: 1127.0 * np.log1p(np.asarray(f, np.float64) / 700.0)  # noqa: E731
    frequencies = np.linspace(0.0, float(sample_rate) / 2.0, int(num_spectrogram_bins))[1:]
    spectrum = to_mel(frequencies)[:, None]
    edges = np.linspace(to_mel(lower_edge_hertz), to_mel(upper_edge_hertz), int(num_mel_bins) + 2)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    weights = np.maximum(0.0, np.minimum((spectrum - low) / (centre - low), (high - spectrum) / (high - centre)))
    return _floats(np.pad(weights, [[1, 0], [0, 0]]), dtype)


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms, name=None):
    """Mel frequency cepstral coefficients."""
    from tandem._ops.transforms import dct

    x = _tandem.convert(log_mel_spectrograms)
    return dct(x) * float(1 / np.sqrt(2.0 * int(x._sizes[-1])))

_words.describe(__name__, globals())
_missing.install(__name__, globals(), {"tandem._ops.transforms": "dct idct inverse_mdct kaiser_bessel_derived_window kaiser_window mdct"})
