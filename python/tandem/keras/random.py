"""Random numbers, keras.random."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem import random as _random
from tandem._ops import philox
from tandem._tensors.variable import Variable
from tandem._tracing.state import init_scope, state
from tandem.keras import _objects


def make_default_seed():
    """A seed of chance, which Python's own seed decides."""
    import random

    return random.randint(1, int(1e9))


class SeedGenerator:
    """A sequence of seeds: a number, and how many seeds there were before."""

    def __init__(self, seed=None, name=None, **kwargs):
        self._initial_seed = seed
        self.seed, self.name = seed, name or _objects.auto_name("seed_generator")
        seed = make_default_seed() if seed is None else seed
        if not isinstance(seed, int):
            raise ValueError(f"Argument `seed` must be an integer. Received: seed={seed}")
        self._state = [seed, 0]
        self._variable = None  # The state, once a traced function takes seeds.

    @property
    def state(self):
        """The next seed."""
        return _tandem.convert(np.asarray(self._state if self._variable is None else self._variable.numpy(), np.int64))

    def next_pair(self, ordered=True):
        """The two numbers of the next seed: counted, or scattered below a million."""
        now = self._state if self._variable is None else self._variable.numpy().tolist()
        self._state = [now[0], now[1] + 1] if ordered else [(each + 1) * 5387 % 933199 for each in now]
        if self._variable is not None:
            self._variable.assign(np.asarray(self._state, np.int64))
        return now[0], now[1]

    def next_of_each_run(self):
        """The next seed as a tensor, int64[2]: a function that is being traced takes another one at each run."""
        if self._variable is None:
            with init_scope():
                self._variable = Variable(np.asarray([each % _LIMIT for each in self._state], np.int64), trainable=False, name=self.name)
        pair = self._variable.read_value()
        self._variable.assign_add(np.asarray([0, 1], np.int64))
        return pair

    def next(self, ordered=True):
        """The next seed."""
        return _tandem.convert(np.asarray(self.next_pair(ordered), np.int64))

    def next_int(self):
        first, second = self.next_pair()
        return (first * 1000003 + second) % (2**31 - 1)

    def get_config(self):
        return {"seed": self._initial_seed, "name": self.name}

    @classmethod
    def from_config(cls, config):
        """The generator of its configuration."""
        return cls(**config)


def _seed(seed):
    if seed is None:
        return None
    if isinstance(seed, SeedGenerator):
        # A program that is traced draws other numbers at each run by itself.
        return seed._initial_seed if state.tracing else seed.next_int()
    return int(seed) % 2**63


_LIMIT = 2**31 - 2  # Seeds of stateless ops are below.
_generator = [None]


def seeds_begin_anew():
    """What draws without a seed of its own begins anew, as Python's seed says."""
    _generator[0] = None


def stateless_seed(seed):
    """The two numbers of the seed of a stateless op, as Keras on TensorFlow has them. None in a traced function, on replicas,
    and where no seed was ever set: the library draws there."""
    if state.tracing or state.in_replica or state.in_data or seed is None and philox.seeds.seed is None:
        return None
    if seed is None:
        _generator[0] = _generator[0] or SeedGenerator()
        first, second = _generator[0].next_pair(ordered=False)
    else:
        first, second = seed.next_pair() if isinstance(seed, SeedGenerator) else (int(seed), 0)
    return first % _LIMIT, second % _LIMIT


def seed_of_each_run(seed):
    """The seed of a stateless op in a function that is being traced, as Keras on TensorFlow has it. None elsewhere, on replicas, in loops
    and where no seed was ever set: the library draws there."""
    if not state.tracing or state.in_replica or state.in_data or state.in_flow or not isinstance(seed, SeedGenerator):
        return None
    if seed._initial_seed is None and philox.seeds.seed is None:
        return None
    return seed.next_of_each_run()


def drop(x, rate, noise_sizes, generator, seed):
    """What dropout leaves of x, with one number for all elements along the axes where the noise has one: the next of the generator's, or
    where the library draws, those of a seed."""
    pair = seed_of_each_run(generator) if x._code == 0 else None
    if noise_sizes is not None:
        return x * _dropped(_tandem.fill(noise_sizes, 1.0, x._code), rate, pair, seed)
    return _dropped(x, rate, pair, seed)


def _dropped(x, rate, pair, seed):
    return _tandem.dropout(x, rate, seed) if pair is None else _tandem.stateless_dropout(x, rate, pair)


def normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Normally distributed values."""
    pair = stateless_seed(seed)
    if pair is not None:
        return _random.stateless_normal(shape, pair, mean, stddev, dtype or "float32")
    return _random.normal(shape, mean, stddev, dtype or "float32", _seed(seed))


def uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    """Uniformly distributed values."""
    pair = stateless_seed(seed)
    if pair is not None:
        return _random.stateless_uniform(shape, pair, minval, maxval, dtype or "float32")
    return _random.uniform(shape, minval, maxval, dtype or "float32", _seed(seed))


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    """Normally distributed values within two standard deviations."""
    pair = stateless_seed(seed)
    if pair is not None:
        return _random.stateless_truncated_normal(shape, pair, mean, stddev, dtype or "float32")
    return _random.truncated_normal(shape, mean, stddev, dtype or "float32", _seed(seed))


def randint(shape, minval, maxval, dtype="int32", seed=None):
    """Uniformly distributed integers from minval up to but without maxval."""
    pair = stateless_seed(seed)
    if pair is not None:
        kind = dtypes.as_dtype(dtype)
        drawn = _random.stateless_uniform(shape, pair, int(minval), int(maxval), kind if kind in ("int32", "int64") else "int64")
        return _tandem.cast(drawn, kind._code)
    return _tandem.random_integers(shape, int(minval), int(maxval), dtypes.code_of(dtype), _seed(seed))


def categorical(logits, num_samples, dtype="int32", seed=None):
    """Classes drawn by their unnormalized logarithmic probabilities."""
    pair = stateless_seed(seed)
    if pair is not None:
        return _tandem.cast(_random.stateless_categorical(logits, num_samples, pair), dtypes.code_of(dtype))
    return _random.categorical(logits, num_samples, dtype, _seed(seed))


def dropout(inputs, rate, noise_shape=None, seed=None):
    """Zeros in the place of a part of the elements, the others scaled up."""
    from tandem import nn

    inputs = _tandem.convert(inputs)
    sizes = None if noise_shape is None else [have if s is None else s for s, have in zip(noise_shape, inputs._sizes)]
    if state.tracing and isinstance(seed, SeedGenerator) and 0 < rate < 1:
        return drop(inputs, rate, sizes, seed, _seed(seed))
    pair = stateless_seed(seed) if 0 < rate < 1 else None
    if pair is not None:
        return nn.experimental.stateless_dropout(inputs, rate, pair, noise_shape=sizes)

    return nn.dropout(inputs, rate, noise_shape, _seed(seed))


def shuffle(x, axis=0, seed=None):
    """The slices along an axis in a random order."""
    x = _tandem.convert(x)
    pair = stateless_seed(seed)
    if pair is not None:
        return _tandem.gather(x, np.argsort(_random.stateless_uniform((int(x._sizes[axis]),), pair).numpy(), kind="stable"), axis)
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
