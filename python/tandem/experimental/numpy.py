"""NumPy's names and dtypes over tensors, tf.experimental.numpy: the functions of keras.ops, which have NumPy's meanings."""

import sys

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._tensors.tensor import Tensor, to_tensor
from tandem.dtypes import bool as bool_, float32, float64, int32, int64, uint8  # noqa: F401
from tandem.keras import ops as _keras

ndarray = Tensor
newaxis, pi, e, inf, nan = None, np.pi, np.e, np.inf, np.nan
_wide = [True]  # Whether Python's numbers are of 64 bits, as NumPy's are.


def array(val, dtype=None, copy=True, ndmin=0):
    """A tensor; numbers of Python are of 64 bits, as NumPy has them."""
    if isinstance(val, (Tensor, _tandem.Variable)):
        tensor = to_tensor(val)
    else:
        given = np.asarray(val)
        narrow = {"float64": np.float32, "int64": np.int32}.get(given.dtype.name) if not _wide[0] and not isinstance(val, np.ndarray) else None
        tensor = _tandem.convert(given if narrow is None else given.astype(narrow))
    if dtype is not None:
        tensor = _tandem.cast(tensor, dtypes.code_of(dtype))
    while tensor._rank < ndmin:
        tensor = _tandem.expand_dims(tensor, 0)
    return tensor


asarray = array


def _filled(name):
    make = getattr(_keras, name)

    places = {"ones": 1, "zeros": 1, "eye": 3, "identity": 1}[name]

    def call(*args, dtype=float, **kwargs):
        if len(args) > places:
            args, dtype = args[:places], args[places]
        return make(*args, dtype=_dtype(dtype), **kwargs)

    return call


def _dtype(dtype):
    if dtype is float or dtype is None:
        return float64 if _wide[0] else float32
    return (int64 if _wide[0] else int32) if dtype is int else dtypes.as_dtype(dtype)


ones, zeros, eye, identity = _filled("ones"), _filled("zeros"), _filled("eye"), _filled("identity")


def arange(start, stop=None, step=1, dtype=None):
    """The numbers from start up to but without stop, in steps."""
    return array(np.arange(*((start,) if stop is None else (start, stop, step))), dtype)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=float, axis=0):
    """`num` evenly spaced values from start to stop."""
    return array(np.linspace(start, stop, num, endpoint, retstep, axis=axis), _dtype(dtype))


def copy(a):
    """A tensor of the same value."""
    return array(a)


def shape(a):
    """The sizes of an array's axes as a tuple."""
    return tuple(array(a).shape)


class random:
    """Numbers by chance, tf.experimental.numpy.random."""

    @staticmethod
    def seed(s):
        from tandem import random as _random

        _random.set_seed(int(s))

    @staticmethod
    def _drawn(draw, size, *args):
        shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        return draw(shape, *args, _dtype(None)._code, None)

    @staticmethod
    def randn(*size):
        return random._drawn(_tandem.random_normal, size, 0.0, 1.0)

    @staticmethod
    def standard_normal(size=None):
        return random._drawn(_tandem.random_normal, size, 0.0, 1.0)

    @staticmethod
    def normal(loc=0.0, scale=1.0, size=None):
        return random._drawn(_tandem.random_normal, size, float(loc), float(scale))

    @staticmethod
    def uniform(low=0.0, high=1.0, size=None):
        return random._drawn(_tandem.random_uniform, size, float(low), float(high))

    @staticmethod
    def rand(*size):
        return random._drawn(_tandem.random_uniform, size, 0.0, 1.0)

    random = rand

    @staticmethod
    def randint(low, high=None, size=None, dtype=None):
        from tandem import random as _random

        low, high = (0, low) if high is None else (low, high)
        shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        return _tandem.cast(_random.uniform(shape, int(low), int(high), dtypes.int32), (dtypes.as_dtype(dtype) if dtype is not None else _dtype(int))._code)


def _flat_sizes(args):
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


def experimental_enable_numpy_behavior(prefer_float32=False, dtype_conversion_mode="legacy"):
    """Gives tensors the attributes and methods of NumPy's arrays."""
    _wide[0] = not prefer_float32
    named = {
        "T": property(lambda self: _keras.transpose(self)), "size": property(lambda self: int(np.prod(self.shape.as_list() or [1]))),
        "astype": lambda self, dtype: _tandem.cast(self, dtypes.code_of(_dtype(dtype))), "tolist": lambda self: self.numpy().tolist(),
        "reshape": lambda self, *sizes, **kwargs: _keras.reshape(self, _flat_sizes(sizes)),
        "transpose": lambda self, *axes: _keras.transpose(self, _flat_sizes(axes) or None),
        "flatten": lambda self: _tandem.reshape(self, (-1,)), "ravel": lambda self: _tandem.reshape(self, (-1,)),
        "clip": lambda self, low=None, high=None: _keras.clip(self, low, high), "dot": lambda self, other: _keras.dot(self, other),
    }
    for name in ("sum", "mean", "max", "min", "prod", "std", "var", "any", "all", "argmax", "argmin", "cumsum"):
        named[name] = lambda self, *args, _f=getattr(_keras, name), **kwargs: _f(self, *args, **kwargs)
    for name, value in named.items():
        for cls in (Tensor, _tandem.Variable):
            setattr(cls, name, value)


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    found = getattr(dtypes, name, None)
    if isinstance(found, dtypes.DType):
        return found
    try:
        return getattr(_keras, name)
    except AttributeError:
        raise _missing.missing("tandem.experimental.numpy", name, sys.modules[__name__], dir(_keras)) from None

__all__ = [  # Written by scripts/exported-names.py.
    "Tensor", "arange", "array", "asarray", "bool_", "copy", "dtypes", "e", "experimental_enable_numpy_behavior", "eye", "float32",
    "float64", "identity", "inf", "int32", "int64", "linspace", "nan", "ndarray", "newaxis", "ones", "pi", "random", "shape", "to_tensor",
    "uint8", "zeros",
]
