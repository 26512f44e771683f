"""Fourier transforms of keras.ops, whose complex values are pairs: (real part, imaginary part)."""

import _tandem
from tandem import signal
from tandem._ops import op
from tandem._tensors.complex import ComplexTensor


def _complex(x):
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise ValueError(f"Input `x` should be a tuple of two tensors - real and imaginary. Received: x={x}")
    real, imag = _tandem.convert(x[0]), _tandem.convert(x[1])
    if tuple(real.shape) != tuple(imag.shape):
        raise ValueError(f"Both the real and imaginary parts should have the same shape. Received: x[0].shape = {real.shape}, x[1].shape = {imag.shape}")
    return ComplexTensor(real, imag)


def _pair(value):
    return value.real, value.imag


@op
def fft(x):
    """The Fourier transform along the last axis of a pair of real and imaginary parts."""
    return _pair(signal.fft(_complex(x)))


@op
def fft2(x):
    """The Fourier transform along the last two axes of a pair of real and imaginary parts."""
    return _pair(signal.fft2d(_complex(x)))


@op
def ifft2(x):
    """The inverse Fourier transform along the last two axes."""
    return _pair(signal.ifft2d(_complex(x)))


@op
def rfft(x, fft_length=None):
    """The Fourier transform of real values along the last axis."""
    return _pair(signal.rfft(x, fft_length))


@op
def irfft(x, fft_length=None):
    """The inverse of rfft."""
    return signal.irfft(_complex(x), fft_length)


@op
def extract_sequences(x, sequence_length, sequence_stride):
    """Windows of the last axis."""
    return signal.frame(x, sequence_length, sequence_stride)


def _window(window, sequence_length, fft_length, dtype):
    """The window in the middle of as many elements as a transform has; None without one."""
    if window is None:
        return None
    if isinstance(window, str):
        if window not in ("hann", "hamming"):
            raise ValueError(f"If a string is passed to `window`, it must be one of `\"hann\"`, `\"hamming\"`. Received: window={window}")
        window = getattr(signal, f"{window}_window")(sequence_length, dtype=dtype)
    window = _tandem.convert(window)
    if window._sizes != (sequence_length,):
        raise ValueError(f"The shape of `window` must be equal to [sequence_length]. Received: window shape={window.shape}")
    before = (fft_length - sequence_length) // 2
    return _tandem.pad(window, [(before, fft_length - sequence_length - before)], 0.0)


@op
def stft(x, sequence_length, sequence_stride, fft_length, window="hann", center=True):
    """The Fourier transforms of windows of the last axis."""
    from tandem import _ops

    if fft_length < sequence_length:
        raise ValueError(f"`fft_length` must equal or larger than `sequence_length`. Received: sequence_length={sequence_length}, fft_length={fft_length}")
    x = _tandem.convert(x)
    if center:
        x = _ops.pad(x, [[0, 0]] * (x._rank - 1) + [[fft_length // 2] * 2], mode="REFLECT")
    window = _window(window, sequence_length, fft_length, x.dtype)
    made = None if window is None else lambda length, dtype: window
    return _pair(signal.stft(x, fft_length, sequence_stride, fft_length, made))


@op
def istft(x, sequence_length, sequence_stride, fft_length, length=None, window="hann", center=True):
    """The inverse of stft."""
    x = _complex(x)
    window = _window(window, sequence_length, fft_length, x.real.dtype)
    made = None if window is None else signal.inverse_stft_window_fn(sequence_stride, lambda length, dtype: window)
    y = signal.inverse_stft(x, fft_length, sequence_stride, fft_length, made)
    start = fft_length // 2 if center else 0
    end = start + length if length is not None else -(fft_length // 2) if center else None
    return y[..., start:end]
