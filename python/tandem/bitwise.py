"""Bits of whole numbers, tf.bitwise: computed by the host, where values exist."""

import numpy as np

import _tandem
from tandem._names import missing as _missing
from tandem._ops.base import host
from tandem.errors import InvalidArgumentError


def _of(f):
    def call(x, y, name=None):
        is_left = isinstance(x, (_tandem.Tensor, _tandem.Variable)) or not isinstance(y, (_tandem.Tensor, _tandem.Variable))
        x, y = (_tandem.convert(x), y) if is_left else (x, _tandem.convert(y))
        code = (x if is_left else y)._code
        x, y = _tandem.convert(x, code), _tandem.convert(y, code)
        if x._code != y._code or x.dtype.is_floating or x._code == 7:
            raise InvalidArgumentError(f"{f.__name__}: integers of one dtype are wanted, got {x.dtype.name} and {y.dtype.name}")
        return _tandem.convert(host(f, x, y))

    call.__doc__ = f"{f.__name__} of each pair of elements."
    return call


bitwise_and = _of(np.bitwise_and)
bitwise_or = _of(np.bitwise_or)
bitwise_xor = _of(np.bitwise_xor)
left_shift = _of(np.left_shift)
right_shift = _of(np.right_shift)


_operators = {
    "__and__": bitwise_and, "__or__": bitwise_or, "__xor__": bitwise_xor, "__rand__": lambda x, y: bitwise_and(y, x),
    "__ror__": lambda x, y: bitwise_or(y, x), "__rxor__": lambda x, y: bitwise_xor(y, x),
}


def invert(x, name=None):
    """Each bit of integers inverted."""
    x = _tandem.convert(x)
    if x.dtype.is_floating:
        raise InvalidArgumentError(f"invert: integers are wanted, got {x.dtype.name}")
    return _tandem.convert(host(np.invert, x))


_missing.install(__name__, globals())
