"""Tensors from and for other libraries over the same memory, tf.experimental.dlpack."""

import _tandem


def to_dlpack(tf_tensor):
    """A capsule of DLPack with the tensor's value, which other libraries take. It may be written, so it is a copy."""
    return _tandem.convert(tf_tensor).__dlpack__()


class _Given:
    """A capsule as an object that gives it away once."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **kwargs):
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)


def from_dlpack(dlcapsule):
    """A tensor of a capsule of DLPack, or of an array of another library."""
    import numpy as np

    given = dlcapsule if hasattr(dlcapsule, "__dlpack__") else _Given(dlcapsule)
    return _tandem.convert(np.from_dlpack(given))
