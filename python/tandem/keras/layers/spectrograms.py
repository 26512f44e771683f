"""Layers that show sounds as the strength of their frequencies over time."""

import math
import warnings

import numpy as np

import _tandem
from tandem import _ops
from tandem.keras import initializers
from tandem.keras._layer import Layer
from tandem.keras.layers._formats import format_of
from tandem.keras.layers.core import floating


class MelSpectrogram(Layer):
    """Sounds [.., samples] as the strength of frequencies that lie as ears hear them, [.., bins, time]."""

    def __init__(self, fft_length=2048, sequence_stride=512, sequence_length=None, window="hann", sampling_rate=16000, num_mel_bins=128, min_freq=20.0, max_freq=None, power_to_db=True, top_db=80.0, mag_exp=2.0, min_power=1e-10, ref_power=1.0, **kwargs):
        self.fft_length, self.sequence_stride, self.sequence_length = fft_length, sequence_stride, sequence_length or fft_length
        if self.fft_length < self.sequence_length:
            raise ValueError(f"`fft_length` must be greater than or equal to `sequence_length`. Received: `sequence_length`={self.sequence_length}, `fft_length`={self.fft_length}.")
        super().__init__(**kwargs)
        self.window, self.sampling_rate, self.num_mel_bins = window, sampling_rate, num_mel_bins
        self.min_freq, self.max_freq = min_freq, max_freq or int(sampling_rate / 2)
        self.power_to_db, self.top_db, self.mag_exp, self.min_power, self.ref_power = power_to_db, top_db, mag_exp, min_power, ref_power

    def call(self, inputs):
        from tandem import signal
        from tandem.keras.ops import _signal

        x = floating(_tandem.convert(inputs))
        single = x._rank == 1
        real, imag = _signal.stft(_tandem.expand_dims(x, 0) if single else x, self.sequence_length, self.sequence_stride, self.fft_length, self.window, True)
        strength = _tandem.pow(_tandem.sqrt(real * real + imag * imag), float(self.mag_exp))
        matrix = signal.linear_to_mel_weight_matrix(self.num_mel_bins, int(strength._sizes[-1]), self.sampling_rate, self.min_freq, self.max_freq)
        y = _ops.matmul(strength, _tandem.cast(_tandem.convert(matrix), strength._code))
        if self.power_to_db:
            y = _tandem.log(_tandem.maximum(y, float(self.min_power))) * (10.0 / math.log(10.0))
            y = y - 10.0 * math.log10(max(abs(self.ref_power), self.min_power))
            y = _tandem.maximum(y, _tandem.reduce_max(y, None, False) - float(self.top_db))
        y = _tandem.transpose(y, [*range(y._rank - 2), y._rank - 1, y._rank - 2])
        return _tandem.squeeze(y, [0]) if single else y


_MODES = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")


class STFTSpectrogram(Layer):
    """Sounds [batch, samples, channels] as the strength of frequencies in frames, by convolutions whose kernels can be trained."""

    def __init__(self, mode="log", frame_length=256, frame_step=None, fft_length=None, window="hann", periodic=False, scaling="density", padding="valid", expand_dims=False, data_format=None, **kwargs):
        if mode not in _MODES:
            raise ValueError(f"Output mode is invalid, it must be one of {', '.join(_MODES)}. Received: mode={mode}")
        if frame_step is not None and not 1 <= frame_step <= frame_length:
            raise ValueError(f"`frame_step` should be a positive integer not greater than `frame_length`. Received frame_step={frame_step}, frame_length={frame_length}")
        if fft_length is not None and fft_length < frame_length:
            raise ValueError(f"`fft_length` should be not less than `frame_length`. Received fft_length={fft_length}, frame_length={frame_length}")
        if fft_length is not None and fft_length & -fft_length != fft_length:
            warnings.warn(f"`fft_length` is recommended to be a power of two. Received fft_length={fft_length}")
        super().__init__(**kwargs)
        self.mode, self.frame_length, self.frame_step, self.fft_length = mode, frame_length, frame_step, fft_length
        self.window, self.periodic, self.scaling, self.padding, self.expand_dims = window, periodic, scaling, padding, expand_dims
        self.data_format = format_of(data_format)

    def build(self, input_shape=None):
        shape = (self.frame_length, 1, (self.fft_length or 2 ** math.ceil(math.log2(self.frame_length))) // 2 + 1)
        for side, other in (("real", "imag"), ("imag", "real")):
            if self.mode != other:
                setattr(self, f"{side}_kernel", self.add_weight(shape, initializers.STFT(side, self.window, self.scaling, self.periodic), name=f"{side}_kernel"))
        self.built = True

    def _framed(self, x, kernel):
        """[batch, channels, frequencies, time] of [batch, channels, samples]."""
        n, channels, samples = x._sizes
        flat = _tandem.reshape(x, (-1, 1, int(samples), 1))
        y = _tandem.conv2d(flat, _tandem.expand_dims(kernel, 0), (1, self.frame_step or self.frame_length // 2), self.padding, (1, 1), 1)
        _, _, time, frequencies = y._sizes
        return _tandem.transpose(_tandem.reshape(y, [n, channels, time, frequencies]), [0, 1, 3, 2])

    def _arranged(self, y):
        n, channels, frequencies, time = y._sizes
        last = self.data_format == "channels_last"
        if self.expand_dims:
            return _tandem.transpose(y, [0, 3, 2, 1] if last else [0, 1, 3, 2])
        y = _tandem.reshape(y, [n, int(channels) * int(frequencies), time])
        return _tandem.transpose(y, [0, 2, 1]) if last else y

    def call(self, inputs):
        x = floating(_tandem.convert(inputs))
        x = _tandem.transpose(x, [0, 2, 1]) if self.data_format == "channels_last" else x
        real = self._framed(x, self.real_kernel) if self.mode != "imag" else None
        imag = self._framed(x, self.imag_kernel) if self.mode != "real" else None
        if self.mode in ("real", "imag"):
            return self._arranged(real if imag is None else imag)
        if self.mode == "angle":
            return self._arranged(_ops.atan2(imag, real))
        if self.mode == "stft":
            return self._arranged(_tandem.concat([real, imag], 2))
        power = real * real + imag * imag
        if self.mode == "psd":
            twice = np.full((1, 1, int(power._sizes[2]), 1), 2.0, np.float32)
            twice[:, :, [0, -1]] = 1.0  # All frequencies but the first and the last stand for a negative one, too.
            return self._arranged(power * _tandem.convert(twice, power._code))
        y = self._arranged(_tandem.sqrt(_tandem.maximum(power, 1e-7)))
        return y if self.mode == "magnitude" else _tandem.log(_tandem.maximum(y, 1e-7))
