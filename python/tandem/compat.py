"""tf.compat: version 2 is this module; version 1 exists in the names that programs of version 2 still use."""

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


def dimension_value(dimension):
    """A size of a shape: a number, or None."""
    return getattr(dimension, "value", dimension)


def dimension_at_index(shape, index):
    """A size of a shape, None where the number of axes is not known."""
    return None if shape.rank is None else shape[index]


def path_to_str(path):
    """A path as a text."""
    return path.__fspath__() if hasattr(path, "__fspath__") else as_str_any(path)


def _noop(*args, **kwargs):
    pass


def _no_graphs(name):
    def call(*args, **kwargs):
        raise NotImplementedError(f"tf.compat.v1.{name}: there are no sessions and graphs here; functions of tensors run at once, or under tf.function")

    call.__name__ = name
    return call


class _Options:
    """Settings of sessions, which programs of version 2 make only to say how a GPU's memory grows. They mean nothing here."""

    def __init__(self, **settings):
        self.__dict__.update(settings)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = self.__dict__[name] = _Options()
        return value


class Session:
    """What programs of version 2 make to hand over settings. It runs nothing."""

    def __init__(self, target="", graph=None, config=None):
        self.graph, self.config = graph, config

    run = _no_graphs("Session.run")

    def as_default(self):
        return self

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def _stays_eager(*args, **kwargs):
    import warnings

    warnings.warn("tf.compat.v1: there are no graphs to build here; ops run at once, and Keras's models train compiled as ever", stacklevel=2)


_GRAPHS = ("disable_v2_behavior", "placeholder", "global_variables_initializer", "local_variables_initializer", "get_default_graph", "get_variable", "variable_scope")
_MOVED = {  # Where version 2 has what version 1 had elsewhere.
    "assign": lambda ref, value, **_: ref.assign(value), "assign_add": lambda ref, value, **_: ref.assign_add(value),
    "assign_sub": lambda ref, value, **_: ref.assign_sub(value), "random_normal": "random.normal", "random_uniform": "random.uniform",
    "truncated_normal": "random.truncated_normal", "random_shuffle": "random.shuffle", "log": "math.log", "div": "math.divide",
    "is_nan": "math.is_nan", "is_inf": "math.is_inf", "lgamma": "math.lgamma", "digamma": "math.digamma", "erf": "math.erf",
    "matrix_inverse": "linalg.inv", "matrix_determinant": "linalg.det", "cross": "linalg.cross", "diag": "linalg.diag", "svd": "linalg.svd",
    "to_float": lambda x, name=None: _tf.cast(x, _tf.float32), "to_int32": lambda x, name=None: _tf.cast(x, _tf.int32),
    "to_int64": lambda x, name=None: _tf.cast(x, _tf.int64), "get_session": lambda: Session(), "arg_max": lambda x, axis, *_, **__: _tf.argmax(x, axis),
    "arg_min": lambda x, axis, *_, **__: _tf.argmin(x, axis), "matrix_set_diag": "linalg.set_diag", "matrix_diag": "linalg.diag", "rint": "math.rint",
    "py_func": lambda func, inp, Tout, stateful=True, name=None: _tf.numpy_function(func, inp, Tout), "FixedLenFeature": "io.FixedLenFeature",
    "VarLenFeature": "io.VarLenFeature", "parse_single_example": "io.parse_single_example", "parse_example": "io.parse_example",
    "decode_raw": "io.decode_raw", "read_file": "io.read_file", "python_io": "io",
}


class _V1(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name not in ("__version__", "__git_version__"):
            raise AttributeError(name)
        if name in _GRAPHS:
            return _no_graphs(name)
        if name in ("gfile", "image", "nn", "train"):
            from tandem._names import version1

            return getattr(version1, name)
        found = _MOVED.get(name)
        if found is None:
            return getattr(_tf, name)
        if not isinstance(found, str):
            return found
        module, _, inner = found.partition(".")
        return getattr(getattr(_tf, module), inner)


v1 = sys.modules["tandem.compat.v1"] = _V1("tandem.compat.v1")
v1.enable_eager_execution = v1.enable_v2_behavior = v1.enable_tensor_equality = v1.enable_v2_tensorshape = v1.enable_resource_variables = _noop
v1.reset_default_graph = _noop
v1.disable_eager_execution = _stays_eager
v1.set_random_seed = lambda seed: _tf.random.set_seed(seed)
v1.executing_eagerly = _tf.executing_eagerly
v1.executing_eagerly_outside_functions = lambda: True
v1.Session = v1.InteractiveSession = Session
v1.ConfigProto = v1.GPUOptions = _Options
v1.logging = types.SimpleNamespace(set_verbosity=_noop, ERROR=40, INFO=20, WARN=30, DEBUG=10, FATAL=50, info=_noop, warning=_noop, error=_noop)
