"""First values of weights, keras.initializers."""

import copy
import math

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import words as _words
from tandem._names import missing as _missing
from tandem._ops import philox
from tandem.keras import _objects


def _code(dtype):
    return 0 if dtype is None else dtypes.code_of(dtype)


class Initializer(_objects.Configured):
    """What an initializer of one's own derives from: a function of a shape and a dtype."""

    def __call__(self, shape, dtype=None):
        raise NotImplementedError("an initializer has a method __call__(shape, dtype)")

    def clone(self):
        return type(self).from_config(self.get_config())


class _Seeded(Initializer):
    """An initializer that draws the same numbers each time, those of Keras on TensorFlow. Where no seed was ever set, the library draws."""

    def __init__(self, seed=None):
        from tandem.keras.random import make_default_seed

        self._given_seed = seed
        self.seed = make_default_seed() if seed is None else seed

    _draws_anew = False  # Whether each call draws other numbers, unless a seed is given.

    @classmethod
    def drawing_anew(cls, *args, seed=None):
        """An initializer of TensorFlow, which draws other numbers at each call."""
        made = cls(*args, seed=0 if seed is None else seed)
        made._given_seed, made._draws_anew = seed, True
        return made

    def _draw(self, f, shape, dtype, *args):
        from tandem import random
        from tandem._tracing.state import init_scope
        from tandem.keras.random import stateless_seed

        with init_scope():
            if self._draws_anew and self._given_seed is None:
                return (random.uniform if f is _tandem.random_uniform else random.normal)(tuple(shape), *args, dtype=dtype or "float32")
            pair = None if self._given_seed is None and philox.seeds.seed is None else stateless_seed(self.seed)
            if pair is not None:
                draws = {_tandem.random_uniform: random.stateless_uniform, _tandem.random_normal: random.stateless_normal}
                return draws.get(f, random.stateless_truncated_normal)(shape, pair, *args, dtype=dtype or "float32")
        return f(tuple(shape), *args, _code(dtype), None)


class Zeros(Initializer):
    """All zeros."""

    def __call__(self, shape, dtype=None):
        return _tandem.fill(tuple(shape), 0.0, _code(dtype))


class Ones(Initializer):
    """All ones."""

    def __call__(self, shape, dtype=None):
        return _tandem.fill(tuple(shape), 1.0, _code(dtype))


class Constant(Initializer):
    """All of one value."""

    def __init__(self, value=0.0):
        self.value = value

    def __call__(self, shape, dtype=None):
        value = _tandem.convert(self.value, _code(dtype))
        if value._rank and value.shape.num_elements() == math.prod(int(s) for s in shape):
            return _tandem.reshape(value, tuple(shape))
        return _tandem.broadcast_to(value, tuple(shape))

    def get_config(self):
        return {"value": self.value if isinstance(self.value, (int, float)) else np.asarray(self.value).tolist()}


class RandomUniform(_Seeded):
    """Uniformly distributed values."""

    def __init__(self, minval=-0.05, maxval=0.05, seed=None):
        super().__init__(seed)
        self.minval, self.maxval = minval, maxval

    def __call__(self, shape, dtype=None):
        return self._draw(_tandem.random_uniform, shape, dtype, float(self.minval), float(self.maxval))

    def get_config(self):
        return {"seed": self._given_seed, "minval": self.minval, "maxval": self.maxval}


class RandomNormal(_Seeded):
    """Normally distributed values."""

    def __init__(self, mean=0.0, stddev=0.05, seed=None):
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def __call__(self, shape, dtype=None):
        return self._draw(_tandem.random_normal, shape, dtype, float(self.mean), float(self.stddev))

    def get_config(self):
        return {"seed": self._given_seed, "mean": self.mean, "stddev": self.stddev}


class TruncatedNormal(RandomNormal):
    """Normally distributed values within two standard deviations."""

    def __call__(self, shape, dtype=None):
        return self._draw(_tandem.random_truncated_normal, shape, dtype, float(self.mean), float(self.stddev))


def compute_fans(shape, input_axes=None, output_axes=None):
    """The numbers of inputs and outputs of a weight of this shape, whose axes may be named; else it is taken for one of a convolution."""
    shape = [int(s) for s in shape]
    if input_axes is not None and output_axes is not None:
        return math.prod(shape[axis] for axis in input_axes), math.prod(shape[axis] for axis in output_axes)
    if len(shape) < 1:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


class VarianceScaling(_Seeded):
    """Random values whose variance fits the number of inputs or outputs."""

    def __init__(self, scale=1.0, mode="fan_in", distribution="truncated_normal", seed=None, input_axes=None, output_axes=None):
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be positive float. Received: scale={scale}")
        super().__init__(seed)
        self.scale, self.mode, self.distribution = scale, mode, distribution
        self.input_axes, self.output_axes = input_axes, output_axes

    def for_axes(self, input_axes, output_axes):
        """The initializer for a weight with these axes of inputs and outputs, unless it has axes of its own."""
        if self.input_axes is not None and self.output_axes is not None:
            return self
        other = copy.copy(self)
        other.input_axes, other.output_axes = list(input_axes), list(output_axes)
        return other

    def __call__(self, shape, dtype=None):
        fan_in, fan_out = compute_fans(shape, self.input_axes, self.output_axes)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        scale = self.scale / max(1.0, count)
        if self.distribution in ("truncated_normal", "normal"):
            stddev = math.sqrt(scale) / 0.87962566103423978
            return self._draw(_tandem.random_truncated_normal, shape, dtype, 0.0, stddev)
        if self.distribution == "untruncated_normal":
            return self._draw(_tandem.random_normal, shape, dtype, 0.0, math.sqrt(scale))
        limit = math.sqrt(3.0 * scale)
        return self._draw(_tandem.random_uniform, shape, dtype, -limit, limit)

    def get_config(self):
        return {"seed": self._given_seed, "scale": self.scale, "mode": self.mode, "distribution": self.distribution, "input_axes": self.input_axes, "output_axes": self.output_axes}


def _scaling(name, scale, mode, distribution):
    def __init__(self, seed=None, input_axes=None, output_axes=None):
        VarianceScaling.__init__(self, scale, mode, distribution, seed, input_axes, output_axes)

    def get_config(self):
        return {"seed": self._given_seed, "input_axes": self.input_axes, "output_axes": self.output_axes}

    return type(name, (VarianceScaling,), {"__init__": __init__, "get_config": get_config, "__module__": __name__})


GlorotUniform = _scaling("GlorotUniform", 1.0, "fan_avg", "uniform")
GlorotNormal = _scaling("GlorotNormal", 1.0, "fan_avg", "truncated_normal")
HeUniform = _scaling("HeUniform", 2.0, "fan_in", "uniform")
HeNormal = _scaling("HeNormal", 2.0, "fan_in", "truncated_normal")
LecunUniform = _scaling("LecunUniform", 1.0, "fan_in", "uniform")
LecunNormal = _scaling("LecunNormal", 1.0, "fan_in", "truncated_normal")


class Orthogonal(_Seeded):
    """A random orthogonal matrix."""

    def __init__(self, gain=1.0, seed=None):
        super().__init__(seed)
        self.gain = gain

    def __call__(self, shape, dtype=None):
        shape = tuple(int(s) for s in shape)
        rows, columns = math.prod(shape[:-1]), shape[-1]
        flat = (max(rows, columns), min(rows, columns))
        numbers = np.asarray(self._draw(_tandem.random_normal, flat, dtype, 0.0, 1.0), np.float64)
        q, r = np.linalg.qr(numbers)
        q = q * np.sign(np.diag(r))
        if rows < columns:
            q = q.T
        return _tandem.convert((self.gain * q.reshape(shape)).astype(np.float32), _code(dtype))

    def get_config(self):
        return {"seed": self._given_seed, "gain": self.gain}


class Identity(Initializer):
    """The identity matrix, scaled."""

    def __init__(self, gain=1.0):
        self.gain = gain

    def __call__(self, shape, dtype=None):
        return self.gain * _tandem.eye(int(shape[0]), int(shape[1]), _code(dtype))

    def get_config(self):
        return {"gain": self.gain}


_NAMES = _objects.table(
    Zeros, Ones, Constant, RandomUniform, RandomNormal, TruncatedNormal, VarianceScaling, GlorotUniform, GlorotNormal,
    HeUniform, HeNormal, LecunUniform, LecunNormal, Orthogonal, Identity,
    uniform=RandomUniform, normal=RandomNormal, one=Ones, zero=Zeros, orthogonal=Orthogonal, IdentityInitializer=Identity,
    OrthogonalInitializer=Orthogonal,
)
zeros, ones, constant = Zeros, Ones, Constant
random_uniform, random_normal, truncated_normal = RandomUniform, RandomNormal, TruncatedNormal
glorot_uniform, glorot_normal, he_uniform, he_normal = GlorotUniform, GlorotNormal, HeUniform, HeNormal
lecun_uniform, lecun_normal, orthogonal, identity = LecunUniform, LecunNormal, Orthogonal, Identity
variance_scaling = VarianceScaling


def get(identifier):
    """The initializer of a name, configuration or function; a tensor gives its own elements."""
    if isinstance(identifier, _tandem.Tensor):
        return lambda shape, dtype=None: _tandem.reshape(identifier if dtype is None else _tandem.cast(identifier, _code(dtype)), tuple(shape))
    return _objects.lookup("initializer", identifier, _NAMES, Initializer)


def serialize(initializer):
    """What `deserialize` makes the initializer of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(initializer)


def deserialize(config, custom_objects=None):
    """The initializer of a name or configuration."""
    return get(config)

_words.describe(__name__, globals())
_missing.install(__name__, globals(), {"tandem.keras.initializers": "IdentityInitializer=Identity OrthogonalInitializer=Orthogonal", "tandem.keras._rarer": "STFT STFTInitializer=STFT stft=STFT"})
