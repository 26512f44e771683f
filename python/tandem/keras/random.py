"""Random numbers, keras.random."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem import random as _random
from tandem._tracing.state import state
from tandem.keras import _objects


class SeedGenerator:
    """A sequence of seeds."""

    def __init__(self, seed=None, name=None, **kwargs):
        self._initial_seed = seed
        self._source = np.random.default_rng(seed)
        self.seed, self.name = seed, name or _objects.auto_name("seed_generator")

    def next(self, ordered=True):
        """The next seed."""
        return _tandem.convert(np.asarray(self._source.integers(0, 2**31 - 1, 2), np.int32))

    def next_int(self):
        return int(self._source.integers(0, 2**31 - 1))

    def get_config(self):
        return {"seed": self._initial_seed, "name": self.name}


def _seed(seed):
    if seed is None:
        return None
    if isinstance(seed, SeedGenerator):
        # A program that is traced draws other numbers at each run by itself.
        return seed._initial_seed if state.tracing else seed.next_int()
    return int(seed) % 2**63


def _shape(shape):
    return shape


def normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Normally distributed values."""
    return _random.normal(shape, mean, stddev, dtype or "float32", _seed(seed))


def uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    """Uniformly distributed values."""
    return _random.uniform(shape, minval, maxval, dtype or "float32", _seed(seed))


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Normally distributed values within two standard deviations."""
    return _random.truncated_normal(shape, mean, stddev, dtype or "float32", _seed(seed))


def randint(shape, minval, maxval, dtype="int32", seed=None):
    """Uniformly distributed integers from minval up to but without maxval."""
    return _tandem.random_integers(shape, int(minval), int(maxval), dtypes.code_of(dtype), _seed(seed))


def categorical(logits, num_samples, dtype="int32", seed=None):
    """Classes drawn by their unnormalized logarithmic probabilities."""
    return _random.categorical(logits, num_samples, dtype, _seed(seed))


def dropout(inputs, rate, noise_shape=None, seed=None):
    """Zeros in the place of a part of the elements, the others scaled up."""
    from tandem import nn

    return nn.dropout(inputs, rate, noise_shape, _seed(seed))


def shuffle(x, axis=0, seed=None):
    """The slices along an axis in a random order."""
    x = _tandem.convert(x)
    if axis % x._rank == 0:
        return _tandem.random_shuffle(x, _seed(seed))
    order = list(range(x._rank))
    order[0], order[axis] = order[axis], order[0]
    return _tandem.transpose(_tandem.random_shuffle(_tandem.transpose(x, order), _seed(seed)), order)


def gamma(shape, alpha, dtype=None, seed=None):
    """Values of the gamma distribution."""
    return _random.gamma(shape, alpha, None, dtype or "float32", _seed(seed))


def binomial(shape, counts, probabilities, dtype=None, seed=None):
    """How many of `counts` trials succeed."""
    return _random.stateless_binomial(shape, _seed(seed), counts, probabilities, dtype or "float32")


def beta(shape, alpha, beta, dtype=None, seed=None):
    """Values of the beta distribution."""
    a, b = gamma(shape, alpha, dtype, seed), gamma(shape, beta, dtype, None if seed is None else _seed(seed) + 1)
    return a / (a + b)


_missing.install(__name__, globals())
