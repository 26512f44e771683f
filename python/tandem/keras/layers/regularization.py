"""Layers that act in training only: noise and penalties."""

import numpy as np

import _tandem
from tandem.keras import random, regularizers
from tandem.keras._layer import Layer
from tandem.keras.layers._formats import format_of
from tandem.keras.random import SeedGenerator


class Dropout(Layer):
    """Sets a part of the elements to 0 while training and scales the others up."""

    _is_built_at_once = True

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError(f"Invalid value received for argument `rate`. Expected a scalar value between 0 and 1. Received: rate={rate}")
        self.rate, self.noise_shape, self.seed = float(rate), noise_shape, seed
        self.seed_generator = SeedGenerator(seed) if rate > 0 else None
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        return random.dropout(inputs, self.rate, self.noise_shape, self.seed_generator)


class _SpatialDropout(Dropout):
    def __init__(self, rate, data_format=None, seed=None, name=None, dtype=None, **kwargs):
        super().__init__(rate, seed=seed, name=name, dtype=dtype, **kwargs)
        self.data_format = format_of(data_format)

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        ones = [1] * (inputs._rank - 2)
        sizes = [inputs._sizes[0], inputs._sizes[1], *ones] if self.data_format == "channels_first" else [inputs._sizes[0], *ones, inputs._sizes[-1]]
        return random.dropout(inputs, self.rate, sizes, self.seed_generator)


class SpatialDropout1D(_SpatialDropout):
    """Sets whole channels of sequences to 0 while training."""

    def __init__(self, rate, seed=None, name=None, dtype=None, **kwargs):
        super().__init__(rate, "channels_last", seed, name, dtype, **kwargs)


class SpatialDropout2D(_SpatialDropout):
    """Sets whole channels of images to 0 while training."""


class SpatialDropout3D(_SpatialDropout):
    """Sets whole channels of volumes to 0 while training."""


class GaussianNoise(Layer):
    """Adds normally distributed noise while training."""

    _is_built_at_once = True

    def __init__(self, stddev, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.stddev, self.seed = stddev, seed
        self.seed_generator = SeedGenerator(seed) if stddev > 0 else None
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or not self.stddev:
            return inputs
        return inputs + random.normal(inputs._sizes, 0.0, float(self.stddev), inputs.dtype, self.seed_generator)


class GaussianDropout(Layer):
    """Multiplies by normally distributed noise of mean 1 while training."""

    _is_built_at_once = True

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate, self.seed = rate, seed
        self.seed_generator = SeedGenerator(seed) if rate > 0 else None
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return inputs * random.normal(inputs._sizes, 1.0, float(np.sqrt(self.rate / (1 - self.rate))), inputs.dtype, self.seed_generator)


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance, for selu."""

    _is_built_at_once = True

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate, self.seed, self.noise_shape = rate, seed, noise_shape
        self.seed_generator = SeedGenerator(seed) if rate > 0 else None
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        sizes = inputs._sizes if self.noise_shape is None else [s if n is None else n for n, s in zip(self.noise_shape, inputs._sizes)]
        alpha = -1.7580993408473766
        keep = random.uniform(sizes, 0.0, 1.0, inputs.dtype, self.seed_generator) >= float(self.rate)
        a = ((1 - self.rate) * (1 + self.rate * alpha**2)) ** -0.5
        return a * _tandem.where(keep, inputs, _tandem.fill((), alpha, inputs._code)) - a * alpha * self.rate


class ActivityRegularization(Layer):
    """Its input, whose size is added to the loss."""

    _is_built_at_once = True

    def __init__(self, l1=0.0, l2=0.0, **kwargs):
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **kwargs)
        self.l1, self.l2 = l1, l2
        self.supports_masking = True

    def get_config(self):
        return {k: v for k, v in super().get_config().items() if k != "activity_regularizer"}

    def call(self, inputs):
        return inputs
