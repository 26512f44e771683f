"""Random numbers, tf.random."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._tracing.state import state
from tandem._tensors.tensor import Tensor, _no_value


def _seed(seed):
    return None if seed is None else int(seed) % 2**63


def set_seed(seed):
    """Seeds the random numbers of all ops without a seed of their own."""
    _tandem.set_seed(int(seed) % 2**63)


def _is_number(value):
    return isinstance(value, (int, float, np.floating, np.integer))


def normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normally distributed values."""
    code = dtypes.code_of(dtype)
    if _is_number(mean) and _is_number(stddev):
        return _tandem.random_normal(shape, float(mean), float(stddev), code, _seed(seed))
    return _tandem.random_normal(shape, 0.0, 1.0, code, _seed(seed)) * stddev + mean


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normally distributed values within two standard deviations."""
    return _tandem.random_truncated_normal(shape, float(mean), float(stddev), dtypes.code_of(dtype), _seed(seed))


def uniform(shape, minval=0, maxval=None, dtype=dtypes.float32, seed=None, name=None):
    """Uniformly distributed values from minval up to but without maxval."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.is_integer:
        if maxval is None:
            raise ValueError("Must specify maxval for integer dtype")
        return _tandem.random_integers(shape, int(minval), int(maxval), dtype._code, _seed(seed))
    maxval = 1 if maxval is None else maxval
    if _is_number(minval) and _is_number(maxval):
        return _tandem.random_uniform(shape, float(minval), float(maxval), dtype._code, _seed(seed))
    return _tandem.random_uniform(shape, 0.0, 1.0, dtype._code, _seed(seed)) * (maxval - _tandem.convert(minval, dtype._code)) + minval


def shuffle(value, seed=None, name=None):
    """The rows in a random order."""
    return _tandem.random_shuffle(value, _seed(seed))


def categorical(logits, num_samples, dtype=dtypes.int64, seed=None, name=None):
    """Classes drawn by their unnormalized logarithmic probabilities."""
    logits = _tandem.convert(logits)
    rows, classes = logits._sizes
    drawn = _tandem.random_uniform((rows, int(num_samples), classes), 1e-20, 1.0, 0, _seed(seed))
    scores = _tandem.expand_dims(_tandem.cast(logits, 0), 1) - _tandem.log(-_tandem.log(drawn))
    return _tandem.cast(_tandem.argmax(scores, -1), dtypes.code_of(dtype))


def _numpy_source(seed):
    if seed is None:
        drawn = _tandem.random_integers((2,), 0, 2**31 - 1, 6, None)
        if drawn._is_symbolic:
            raise _no_value("random number")
        return np.random.default_rng([int(v) for v in drawn])
    if isinstance(seed, (Tensor, list, tuple, np.ndarray)):
        if isinstance(seed, Tensor) and seed._is_symbolic:
            raise _no_value("seed")
        return np.random.default_rng([int(v) & 0xFFFFFFFF for v in np.asarray(seed).ravel()])
    return np.random.default_rng(int(seed) & 0xFFFFFFFFFFFF)


def _drawn(f, dtype):
    return _tandem.convert(np.asarray(f), dtypes.code_of(dtype))


def _sizes(shape):
    return tuple(int(s) for s in (shape if not isinstance(shape, int) else (shape,)))


def gamma(shape, alpha, beta=None, dtype=dtypes.float32, seed=None, name=None):
    """Values of the gamma distribution."""
    alpha, beta = np.asarray(alpha), np.asarray(1.0 if beta is None else beta)
    return _drawn(_numpy_source(seed).gamma(alpha, 1 / beta, _sizes(shape) + np.broadcast_shapes(alpha.shape, beta.shape)), dtype)


def poisson(shape, lam, dtype=dtypes.float32, seed=None, name=None):
    """Values of the Poisson distribution."""
    lam = np.asarray(lam)
    return _drawn(_numpy_source(seed).poisson(lam, _sizes(shape) + lam.shape).astype(np.float64), dtype)


def stateless_uniform(shape, seed, minval=0, maxval=None, dtype=dtypes.float32, name=None, alg="auto_select"):
    """Uniformly distributed values that the seed decides."""
    dtype = dtypes.as_dtype(dtype)
    source = _numpy_source(seed)
    if dtype.is_integer:
        return _drawn(source.integers(int(minval), int(maxval), _sizes(shape)), dtype)
    low, high = float(minval), 1.0 if maxval is None else float(maxval)
    return _drawn(source.random(_sizes(shape)) * (high - low) + low, dtype)


def stateless_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None, alg="auto_select"):
    """Normally distributed values that the seed decides."""
    return _drawn(_numpy_source(seed).normal(float(mean), float(stddev), _sizes(shape)), dtype)


def stateless_truncated_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None, alg="auto_select"):
    """Normally distributed values within two standard deviations that the seed decides."""
    source = _numpy_source(seed)
    numbers = source.normal(0, 1, _sizes(shape))
    while (np.abs(numbers) > 2).any():
        far = np.abs(numbers) > 2
        numbers[far] = source.normal(0, 1, int(far.sum()))
    return _drawn(float(mean) + float(stddev) * numbers, dtype)


def stateless_categorical(logits, num_samples, seed, dtype=dtypes.int64, name=None):
    """Classes drawn by their logarithmic probabilities, as the seed decides."""
    logits = np.asarray(logits, np.float64)
    noise = _numpy_source(seed).gumbel(size=(logits.shape[0], int(num_samples), logits.shape[1]))
    return _drawn((logits[:, None] + noise).argmax(-1), dtype)


def stateless_binomial(shape, seed, counts, probs, output_dtype=dtypes.int32, name=None):
    """How many of `counts` trials succeed, as the seed decides."""
    return _drawn(_numpy_source(seed).binomial(np.asarray(counts, np.int64), np.asarray(probs), _sizes(shape)), output_dtype)


class _Experimental:
    """Names that are experimental in tf.random."""

    @staticmethod
    def stateless_split(seed, num=2, alg="auto_select"):
        """So many seeds of one."""
        return _drawn(_numpy_source(seed).integers(0, 2**31 - 1, (int(num), 2)), dtypes.int32)

    @staticmethod
    def stateless_fold_in(seed, data, alg="auto_select"):
        """A seed of a seed and a number."""
        return _drawn(_numpy_source([int(s) for s in seed] + [int(data)]).integers(0, 2**31 - 1, (2,)), dtypes.int32)

    @staticmethod
    def stateless_shuffle(value, seed, alg="auto_select", name=None):
        """The rows in an order that the seed decides."""
        order = _numpy_source(seed).permutation(int(_tandem.convert(value)._sizes[0]))
        return _tandem.gather(value, order.astype(np.int32), 0)


split, fold_in = _Experimental.stateless_split, _Experimental.stateless_fold_in


class Generator:
    """A source of random numbers with a state of its own."""

    def __init__(self, copy_from=None, state=None, alg=None, seed=None):
        self._seed = seed
        self._calls = 0

    @classmethod
    def from_seed(cls, seed, alg=None):
        """A generator that begins with a seed."""
        return cls(seed=int(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg=None):
        """A generator that begins with a seed of chance."""
        return cls()

    @classmethod
    def from_state(cls, state, alg=None):
        """A generator that goes on from a state."""
        return cls(seed=int(np.asarray(state).ravel()[0]))

    @property
    def state(self):
        """The seed, and how often numbers were drawn."""
        return _tandem.convert(np.array([self._seed or 0, self._calls, 0], np.int64))

    def _next(self):
        if self._seed is None or state.tracing:
            return self._seed
        self._calls += 1
        return (self._seed * 1000003 + self._calls) % 2**63

    def normal(self, shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None):
        """Normally distributed values."""
        return normal(shape, mean, stddev, dtype, self._next()) if self._seed is None or state.tracing else stateless_normal(shape, self._next(), mean, stddev, dtype)

    def uniform(self, shape, minval=0, maxval=None, dtype=dtypes.float32, name=None):
        """Uniformly distributed values."""
        return uniform(shape, minval, maxval, dtype, self._next()) if self._seed is None or state.tracing else stateless_uniform(shape, self._next(), minval, maxval, dtype)

    def truncated_normal(self, shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None):
        """Normally distributed values within two standard deviations."""
        return truncated_normal(shape, mean, stddev, dtype, self._next())

    def uniform_full_int(self, shape, dtype=dtypes.int64, name=None):
        """Integers, uniformly distributed over all that the dtype has."""
        return uniform(shape, 0, 2**31 - 1, dtype, self._next())

    def make_seeds(self, count=1):
        """Seeds for stateless random ops."""
        return stateless_uniform((2, int(count)), self._next(), 0, 2**31 - 1, dtypes.int64)

    def split(self, count=1):
        """So many independent generators."""
        return [Generator.from_seed((self._next() or 0) + i) for i in range(int(count))]

    def reset_from_seed(self, seed):
        """Begins anew with a seed."""
        self._seed, self._calls = int(seed), 0


_global = [Generator()]


def get_global_generator():
    """The generator that all of a program share."""
    return _global[0]


def set_global_generator(generator):
    """Sets the generator that all of a program share."""
    _global[0] = generator


experimental = _Experimental
experimental.Generator = Generator
experimental.get_global_generator = get_global_generator
experimental.set_global_generator = set_global_generator


_missing.install(__name__, globals(), {"tandem._ops.networks": "all_candidate_sampler fixed_unigram_candidate_sampler log_uniform_candidate_sampler uniform_candidate_sampler"})
