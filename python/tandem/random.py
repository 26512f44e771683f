"""Random numbers, tf.random."""

import enum
import os

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._ops import philox
from tandem._tensors.tensor import Tensor, _no_value
from tandem._tensors.tracking import AutoTrackable
from tandem._tensors.variable import Variable
from tandem._tracing.state import state
from tandem.errors import InvalidArgumentError


def _seed(seed):
    return None if seed is None else int(seed) % 2**63


def set_seed(seed):
    """Seeds the random numbers of all ops without a seed of their own."""
    seed = int(seed)
    philox.seeds.set(seed)
    _tandem.set_seed(seed % 2**63)


def _is_number(value):
    return isinstance(value, (int, float, np.floating, np.integer))


def _drawn_at_once(name, shape, seed, draw, blocks_of=None):
    """The numbers that TensorFlow's op of this name draws, where a seed decides them and ops run at once. Else None: the library
    draws, in programs and for replicas other numbers at each run."""
    if state.tracing or state.in_replica or state.in_data or philox.seeds.seed is None and seed is None:
        return None
    sizes = _sizes(shape)
    count = int(np.prod(sizes, dtype=np.int64)) if blocks_of is None else blocks_of
    sequence = philox.of_op(name, seed, 256 * count if blocks_of is None else blocks_of)
    return draw(sequence, sizes)


def _normal_numbers(name, draw, of_library, shape, mean, stddev, dtype, seed):
    dtype = dtypes.as_dtype(dtype)
    found = _drawn_at_once(f"{name} {dtype.name}", shape, seed, lambda sequence, sizes: philox.tensor(draw(sequence, sizes, dtype), dtype))
    plain = _is_number(mean) and _is_number(stddev)
    if found is None:
        code = dtypes.code_of(dtype)
        if plain:
            return of_library(shape, float(mean), float(stddev), code, _seed(seed))
        found = of_library(shape, 0.0, 1.0, code, _seed(seed))
    return found if plain and mean == 0 and stddev == 1 else found * stddev + mean


def normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normally distributed values."""
    return _normal_numbers("normal", philox.normal, _tandem.random_normal, shape, mean, stddev, dtype, seed)


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normally distributed values within two standard deviations."""
    return _normal_numbers("truncated_normal", philox.truncated_normal, _tandem.random_truncated_normal, shape, mean, stddev, dtype, seed)


def uniform(shape, minval=0, maxval=None, dtype=dtypes.float32, seed=None, name=None):
    """Uniformly distributed values from minval up to but without maxval."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.is_integer:
        if maxval is None:
            raise ValueError("Must specify maxval for integer dtype")
        found = _drawn_at_once(
            f"integers {dtype.name}", shape, seed, lambda sequence, sizes: philox.tensor(philox.integers(sequence, sizes, int(minval), int(maxval), dtype), dtype)
        )
        return _tandem.random_integers(shape, int(minval), int(maxval), dtype._code, _seed(seed)) if found is None else found
    maxval = 1 if maxval is None else maxval
    found = _drawn_at_once(f"uniform {dtype.name}", shape, seed, lambda sequence, sizes: philox.tensor(philox.uniform(sequence, sizes, dtype), dtype))
    plain = _is_number(minval) and _is_number(maxval)
    if found is None:
        if plain:
            return _tandem.random_uniform(shape, float(minval), float(maxval), dtypes.code_of(dtype), _seed(seed))
        found = _tandem.random_uniform(shape, 0.0, 1.0, dtypes.code_of(dtype), _seed(seed))
    return _between(found, minval, maxval, dtype)


def _between(drawn, minval, maxval, dtype):
    """Numbers in [0, 1) as numbers from minval to maxval."""
    if _is_number(minval) and _is_number(maxval):
        return drawn if minval == 0 and maxval == 1 else drawn * (maxval - minval) + minval
    low = _tandem.convert(minval, dtype._code)
    return drawn * (_tandem.convert(maxval, dtype._code) - low) + low


def shuffle(value, seed=None, name=None):
    """The rows in a random order."""
    value = value if getattr(value, "_is_text_tensor", False) else _tandem.convert(value)
    if not value.shape.rank or value.shape[0] is None:
        return _tandem.random_shuffle(value, _seed(seed))
    count = int(value.shape[0]) if not state.tracing else 0
    order = _drawn_at_once(f"shuffle {value.dtype.name}", (count,), seed, lambda sequence, sizes: philox.permutation(sequence, count), -(-count // 4))
    if order is None:
        return _tandem.random_shuffle(value, _seed(seed))
    return value[order] if getattr(value, "_is_text_tensor", False) else _tandem.gather(value, order, 0)


def categorical(logits, num_samples, dtype=dtypes.int64, seed=None, name=None):
    """Classes drawn by their unnormalized logarithmic probabilities."""
    logits = _tandem.convert(logits)
    rows, classes = logits._sizes
    count = int(num_samples)
    if not logits._is_symbolic:
        found = _drawn_at_once(
            "categorical", (rows, count), seed, lambda sequence, sizes: philox.classes(sequence, np.asarray(logits, np.float64), count), 512 * rows * (-(-count // 4) * 4)
        )
        if found is not None:
            return _drawn(found, dtype)
    drawn = _tandem.random_uniform((rows, count, classes), 1e-20, 1.0, 0, _seed(seed))
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


def _stateless(seed):
    """The sequence of a seed of two numbers."""
    if isinstance(seed, Tensor) and seed._is_symbolic:
        raise _no_value("seed")
    if np.size(seed) != 2:
        raise InvalidArgumentError(f"seed must have shape [2], not {list(np.shape(seed))}")
    return philox.Sequence.of_stateless(seed)


def stateless_uniform(shape, seed, minval=0, maxval=None, dtype=dtypes.float32, name=None, alg="auto_select"):
    """Uniformly distributed values that the seed decides."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.is_integer:
        if (minval is None) != (maxval is None):
            raise ValueError(f"For integer dtype {dtype!r}, argument `minval` and `maxval` must be both None or both non-None. Got `minval`={minval} and `maxval`={maxval}.")
        low, high = (None, None) if minval is None else (int(minval), int(maxval))
        return philox.tensor(philox.integers(_stateless(seed), _sizes(shape), low, high, dtype), dtype)
    drawn = philox.tensor(philox.uniform(_stateless(seed), _sizes(shape), dtype), dtype)
    return _between(drawn, minval, 1 if maxval is None else maxval, dtype)


def _stateless_normal(draw, shape, seed, mean, stddev, dtype):
    dtype = dtypes.as_dtype(dtype)
    found = philox.tensor(draw(_stateless(seed), _sizes(shape), dtype), dtype)
    return found if _is_number(mean) and _is_number(stddev) and mean == 0 and stddev == 1 else found * stddev + mean


def stateless_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None, alg="auto_select"):
    """Normally distributed values that the seed decides."""
    return _stateless_normal(philox.normal, shape, seed, mean, stddev, dtype)


def stateless_truncated_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None, alg="auto_select"):
    """Normally distributed values within two standard deviations that the seed decides."""
    return _stateless_normal(philox.truncated_normal, shape, seed, mean, stddev, dtype)


def stateless_categorical(logits, num_samples, seed, dtype=dtypes.int64, name=None):
    """Classes drawn by their logarithmic probabilities, as the seed decides."""
    return _drawn(philox.classes(_stateless(seed), np.asarray(logits, np.float64), int(num_samples)), dtype)


def stateless_binomial(shape, seed, counts, probs, output_dtype=dtypes.int32, name=None):
    """How many of `counts` trials succeed, as the seed decides."""
    return _drawn(_numpy_source(seed).binomial(np.asarray(counts, np.int64), np.asarray(probs), _sizes(shape)), output_dtype)


class _Experimental:
    """Names that are experimental in tf.random."""

    class Algorithm(enum.Enum):
        """How random numbers are computed. Here that is Philox."""

        PHILOX = 1
        THREEFRY = 2
        AUTO_SELECT = 3

    @staticmethod
    def stateless_split(seed, num=2, alg="auto_select"):
        """So many seeds of one."""
        kind = _seed_dtype(seed)
        shape = [*(int(n) for n in num), 2] if isinstance(num, (list, tuple)) else [int(num), 2]
        return stateless_uniform(shape, seed, None, None, kind)

    @staticmethod
    def stateless_fold_in(seed, data, alg="auto_select"):
        """A seed of a seed and a number."""
        data = _tandem.convert(data)
        return _tandem.stack([stateless_uniform((), seed, None, None, data.dtype), data], 0)

    @staticmethod
    def stateless_shuffle(value, seed, alg="auto_select", name=None):
        """The rows in an order that the seed decides."""
        value = _tandem.convert(value)
        return _tandem.gather(value, philox.permutation(_stateless(seed), int(value._sizes[0])), 0)


def _seed_dtype(seed):
    return dtypes.int64 if getattr(seed, "dtype", None) is not None and dtypes.as_dtype(seed.dtype) == dtypes.int64 else dtypes.int32


split, fold_in = _Experimental.stateless_split, _Experimental.stateless_fold_in
Algorithm = _Experimental.Algorithm


def create_rng_state(seed, alg):
    """The state with which a generator begins at a seed: a counter of two numbers and a key."""
    if isinstance(seed, (int, np.integer)):
        numbers = [(int(seed) + 2**63) % 2**64 - 2**63]
    else:
        numbers = [int(each) for each in np.asarray(seed).ravel()]
    return _tandem.convert(np.asarray((numbers + [0, 0, 0])[:3], np.int64))


class Generator(AutoTrackable):
    """A source of random numbers with a state of its own: a variable with a counter of two numbers and a key."""

    def __init__(self, copy_from=None, state=None, alg=None):
        if copy_from is not None:
            state = copy_from.state
        if state is None:
            raise ValueError("Argument `state` or `copy_from` is needed; Generator.from_seed makes a generator of a seed")
        alg = getattr(alg, "value", alg)
        if alg not in (None, 1, "philox", 3, "auto_select"):
            raise ValueError(f"tf.random.Generator: the algorithm {alg!r} is not there; 'philox' is")
        self._state_var = Variable(np.array(state, np.int64), dtype=dtypes.int64, trainable=False, name="StateVar")

    @classmethod
    def from_seed(cls, seed, alg=None):
        """A generator that begins with a seed."""
        return cls(state=create_rng_state(seed, alg), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg=None):
        """A generator that begins with a seed of chance."""
        return cls(state=np.frombuffer(os.urandom(24), np.int64), alg=alg)

    @classmethod
    def from_state(cls, state, alg=None):
        """A generator that goes on from a state."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_key_counter(cls, key, counter, alg=None):
        """A generator of a key and a counter of two numbers."""
        return cls(state=[*(int(each) for each in np.asarray(counter).ravel()), int(np.asarray(key).ravel()[0])], alg=alg)

    @property
    def state(self):
        """The variable that holds the counter and the key."""
        return self._state_var

    @property
    def algorithm(self):
        """The number of the algorithm, Philox."""
        return 1

    @property
    def key(self):
        """The part of the state that never changes by itself."""
        return self._state_var[2]

    def _sequence(self, shape):
        """The sequence of the next numbers; the counter moves on. None in a traced function and on replicas."""
        if state.tracing or state.in_replica:
            return None
        sequence = self._present_sequence()
        self.skip(int(np.prod(_sizes(shape), dtype=np.int64)))
        return sequence

    def _present_sequence(self):
        low, high, key = (int(each) % 2**64 for each in self._state_var.numpy())
        return philox.Sequence(key, low | high << 64)

    def skip(self, delta):
        """Moves on as if so many numbers were drawn."""
        counter = (self._present_sequence().counter + 256 * int(delta)) % 2**128
        numbers = [(part + 2**63) % 2**64 - 2**63 for part in (counter % 2**64, counter >> 64)]
        self._state_var.assign(np.asarray([*numbers, int(self._state_var.numpy()[2])], np.int64))

    def _normal(self, draw, of_library, shape, mean, stddev, dtype):
        dtype, sequence = dtypes.as_dtype(dtype), self._sequence(shape)
        if sequence is None:
            return of_library(shape, mean, stddev, dtype)
        return philox.tensor(draw(sequence, _sizes(shape), dtype), dtype) * stddev + mean

    def normal(self, shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None):
        """Normally distributed values."""
        return self._normal(philox.normal, normal, shape, mean, stddev, dtype)

    def truncated_normal(self, shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None):
        """Normally distributed values within two standard deviations."""
        return self._normal(philox.truncated_normal, truncated_normal, shape, mean, stddev, dtype)

    def uniform(self, shape, minval=0, maxval=None, dtype=dtypes.float32, name=None):
        """Uniformly distributed values."""
        dtype = dtypes.as_dtype(dtype)
        if dtype.is_integer and maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        sequence = self._sequence(shape)
        if sequence is None:
            return uniform(shape, minval, maxval, dtype)
        if dtype.is_integer:
            return philox.tensor(philox.integers(sequence, _sizes(shape), int(minval), int(maxval), dtype), dtype)
        return _between(philox.tensor(philox.uniform(sequence, _sizes(shape), dtype), dtype), minval, 1 if maxval is None else maxval, dtype)

    def uniform_full_int(self, shape, dtype=dtypes.uint64, name=None):
        """Integers, uniformly distributed over all that the dtype has."""
        dtype, sequence = dtypes.as_dtype(dtype), self._sequence(shape)
        if sequence is None:
            return uniform(shape, 0, 2**31 - 1, dtype)
        return philox.tensor(philox.integers(sequence, _sizes(shape), None, None, dtype), dtype)

    def binomial(self, shape, counts, probs, dtype=dtypes.int32, name=None):
        """How many of `counts` trials succeed."""
        return stateless_binomial(shape, self.make_seeds(1)[:, 0], counts, probs, dtype)

    def make_seeds(self, count=1):
        """Seeds for stateless random ops, one in each column."""
        keys = self.uniform_full_int((int(count),), dtypes.int64)
        return _tandem.stack([keys, _tandem.zeros_like(keys)], 0)

    def split(self, count=1):
        """So many independent generators."""
        return [Generator(state=[0, 0, int(key)]) for key in self.uniform_full_int((int(count),), dtypes.int64).numpy()]

    def reset(self, state):
        """Begins anew with a state."""
        self._state_var.assign(np.asarray(state, np.int64))

    def reset_from_seed(self, seed):
        """Begins anew with a seed."""
        self._state_var.assign(create_rng_state(seed, None))

    def reset_from_key_counter(self, key, counter):
        """Begins anew with a key and a counter."""
        self._state_var.assign(np.asarray([*np.asarray(counter).ravel(), *np.asarray(key).ravel()[:1]], np.int64))


_global = [None]


def get_global_generator():
    """The generator that all of a program share."""
    if _global[0] is None:
        _global[0] = Generator.from_non_deterministic_state() if philox.seeds.seed is None else Generator.from_seed(philox.seeds.seed)
    return _global[0]


def set_global_generator(generator):
    """Sets the generator that all of a program share."""
    _global[0] = generator


experimental = _Experimental
experimental.create_rng_state = create_rng_state
experimental.Generator = Generator
experimental.get_global_generator = get_global_generator
experimental.set_global_generator = set_global_generator


_missing.install(__name__, globals(), {"tandem._ops.networks": "all_candidate_sampler fixed_unigram_candidate_sampler log_uniform_candidate_sampler uniform_candidate_sampler"})
