"""Bits of whole numbers, tf.bitwise: computed by the host, where values exist."""

import numpy as np

import _tandem
from tandem._names import missing as _missing
from tandem._ops.base import host


def _of(f):
    def call(x, y, name=None):
        x = _tandem.convert(x)
        return _tandem.convert(host(f, x, _tandem.convert(y, None, x._code)))

    call.__doc__ = f"{f.__name__} of each pair of elements."
    return call


bitwise_and = _of(np.bitwise_and)
bitwise_or = _of(np.bitwise_or)
bitwise_xor = _of(np.bitwise_xor)
left_shift = _of(np.left_shift)
right_shift = _of(np.right_shift)


def invert(x, name=None):
    """Each bit of integers inverted."""
    return _tandem.convert(host(np.invert, _tandem.convert(x)))


_missing.install(__name__, globals())
