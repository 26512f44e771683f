"""tf.compat: version 2 is this module; version 1 exists in a few names that programs of version 2 still use."""

import sys
import types

import tandem as _tf

__path__: list = []  # Programs import tensorflow.compat.v2.
v2 = _tf


def as_bytes(value):
    """A text as bytes."""
    return value.encode() if isinstance(value, str) else value


def as_str(value):
    """Bytes as a text."""
    return value.decode() if isinstance(value, bytes) else str(value)


as_text = as_str_any = as_str


def _noop(*args, **kwargs):
    pass


class _V1(types.ModuleType):
    def __getattr__(self, name):
        if name in ("disable_eager_execution", "disable_v2_behavior", "Session", "InteractiveSession", "ConfigProto", "placeholder", "global_variables_initializer", "get_default_graph"):
            raise NotImplementedError(f"tf.compat.v1.{name}: there are no sessions and graphs here; functions of tensors run at once, or under tf.function")
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_tf, name)


v1 = sys.modules["tandem.compat.v1"] = _V1("tandem.compat.v1")
v1.enable_eager_execution = v1.enable_v2_behavior = v1.set_random_seed_ = _noop
v1.set_random_seed = lambda seed: _tf.random.set_seed(seed)
v1.executing_eagerly = _tf.executing_eagerly
v1.logging = types.SimpleNamespace(set_verbosity=_noop, ERROR=40, INFO=20, WARN=30, DEBUG=10, FATAL=50, info=_noop)
