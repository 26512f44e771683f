"""Tandem: training neural networks on all the devices you have, by TensorFlow's names.

    import tandem as tf

Submodules are imported when they are first named; no device is touched before the first tensor.
"""

import atexit as _atexit
import importlib as _importlib
import typing as _typing

import _tandem
from tandem import dtypes, errors, nest
from tandem._tracing.state import init_scope
from tandem._tensors.tensor import IndexedSlices, Tensor, TensorSpec
from tandem._tensors.shape import TensorShape
from tandem._ops import (
    TensorArray, abs, accumulate_n, acos, acosh, add, add_n, argmax, argmin, argsort, asin, asinh, atan, atan2, atanh,
    bitcast, boolean_mask, broadcast_dynamic_shape, broadcast_static_shape, broadcast_to, case, cast, clip_by_global_norm,
    clip_by_norm, clip_by_value, concat, cond, constant, convert_to_tensor, cos, cosh, cumsum, divide, dynamic_partition,
    dynamic_stitch, einsum, ensure_shape, equal, exp, expand_dims, eye, fill, floor, foldl, foldr, gather, gather_nd,
    greater, greater_equal, group, identity, identity_n, less, less_equal, linspace, logical_and, logical_not, logical_or,
    map_fn, matmul, maximum, meshgrid, minimum, multiply, negative, no_op, norm, not_equal, numpy_function, one_hot, ones,
    ones_like, pad, pow, py_function, range, rank, realdiv, reduce_all, reduce_any, reduce_logsumexp, reduce_max,
    reduce_mean, reduce_min, reduce_prod, reduce_sum, repeat, reshape, reverse, reverse_sequence, roll, round, scan,
    scatter_nd, searchsorted, sequence_mask, shape, shape_n, sigmoid, sign, sin, sinh, size, slice, sort, split, sqrt,
    square, squeeze, stack, stop_gradient, strided_slice, subtract, switch_case, tan, tanh, tensor_scatter_nd_add,
    tensor_scatter_nd_max, tensor_scatter_nd_sub, tensor_scatter_nd_update, tensordot, tile, transpose, truediv, unique,
    unique_with_counts, unstack, vectorized_map, where, while_loop, zeros, zeros_like,
)
from tandem._ops import floordiv as floordiv
from tandem._ops import mod as math_mod
from tandem._ops import print_ as print  # noqa: A001
from tandem._ops import space_to_depth, depth_to_space
from tandem._ops.rarer import (
    Assert, as_string, complex, batch_to_space, get_static_value, grad_pass_through, hessians, histogram_fixed_width, parallel_stack, scalar_mul,
    space_to_batch, space_to_batch as space_to_batch_nd, tensor_scatter_nd_min, truncatediv, truncatemod, tuple, unravel_index,  # noqa: A004
)
from tandem._tensors.variable import Variable, VariableAggregation, VariableSynchronization
from tandem._tracing.tape import GradientTape, UnconnectedGradients, custom_gradient, gradients, recompute_grad
from tandem._tracing.function import function
from tandem._tensors.tracking import Module
from tandem.dtypes import (
    DType, as_dtype, bfloat16, bool, complex64, complex128, double, float16, float32, float64, half, int8, int16, int32,  # noqa: A004
    int64, resource, saturate_cast, string, uint8, uint16, uint32, uint64, variant,
)

# As in TensorFlow, an op whose device does not exist runs on the CPU; the library says so once.
_tandem.set_soft_device_placement(True)

__version__ = "2.21.0"  # The TensorFlow whose names these are; tandem's own is tandem_version.
tandem_version = "0.1.0"

_atexit.register(_tandem.interpreter_ends)
_atexit.register(_tandem.close_iterators)  # Their threads may want to call Python.

if _typing.TYPE_CHECKING:  # Imported when they are first named.
    from tandem import (
        audio, autodiff, autograph, bitwise, compat, config, data, debugging, distribute, experimental, feature_column, image, io, keras, linalg, lookup,
        math, nn, profiler, quantization, queue, ragged, random, saved_model, sets, signal, sparse, strings, summary, sysconfig, test, train, version,
    )
    from tandem._ops.decoding import edit_distance
    from tandem._tensors.specs import RaggedTensorSpec, SparseTensorSpec, type_spec_from_value
    from tandem.debugging import assert_equal, assert_greater, assert_less, assert_rank
    from tandem.keras import initializers, losses, metrics, optimizers
    from tandem.keras.initializers import (
        Constant as constant_initializer, Ones as ones_initializer, RandomNormal as random_normal_initializer,
        RandomUniform as random_uniform_initializer, Zeros as zeros_initializer,
    )
    from tandem.ragged import RaggedTensor
    from tandem.sparse import SparseTensor

newaxis = None
mod = math_mod
del math_mod

_SUBMODULES = {
    "audio", "autodiff", "autograph", "bitwise", "compat", "config", "data", "debugging", "distribute", "experimental", "feature_column", "image", "io", "keras", "linalg", "lookup",
    "math", "nn", "profiler", "quantization", "queue", "ragged", "random", "saved_model", "sets", "signal", "sparse", "strings", "summary", "sysconfig", "test", "train", "version",
}


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    if name in ("initializers", "losses", "metrics", "optimizers"):
        return _importlib.import_module(f"tandem.keras.{name}")
    if name == "AggregationMethod":
        import enum

        return enum.Enum("AggregationMethod", "ADD_N DEFAULT EXPERIMENTAL_TREE EXPERIMENTAL_ACCUMULATE_N")
    if name == "SparseTensor":
        from tandem.sparse import SparseTensor

        return SparseTensor
    if name == "RaggedTensor":
        from tandem.ragged import RaggedTensor

        return RaggedTensor
    if name in ("SparseTensorSpec", "RaggedTensorSpec", "type_spec_from_value"):
        from tandem._tensors import specs as _specs

        return getattr(_specs, name)
    if name == "random_normal_initializer":
        from tandem.keras.initializers import RandomNormal

        return lambda mean=0.0, stddev=0.05, seed=None: RandomNormal.drawing_anew(mean, stddev, seed=seed)
    if name == "random_uniform_initializer":
        from tandem.keras.initializers import RandomUniform

        return lambda minval=-0.05, maxval=0.05, seed=None: RandomUniform.drawing_anew(minval, maxval, seed=seed)
    if name in ("constant_initializer", "zeros_initializer", "ones_initializer"):
        from tandem.keras import initializers

        return {"constant": initializers.Constant, "zeros": initializers.Zeros, "ones": initializers.Ones}[name.split("_")[0]]
    if name == "get_current_name_scope":
        from tandem._tracing.state import state

        return lambda: "/".join(state.name_scopes)
    if name == "edit_distance":
        from tandem._ops import decoding

        return decoding.edit_distance
    if name in ("assert_equal", "assert_greater", "assert_less", "assert_rank"):
        from tandem import debugging

        return getattr(debugging, name)
    if name in _SUBMODULES:
        return _importlib.import_module(f"tandem.{name}")
    from tandem._names import missing as _missing

    raise _missing.missing("tandem", name, _importlib.import_module("tandem"), _SUBMODULES)


def __dir__():
    return sorted(set(globals()) | _SUBMODULES)


class device:
    """A scope in which operations run on the named device."""

    def __init__(self, device_name):
        if hasattr(device_name, "name"):
            device_name = device_name.name
        if hasattr(device_name, "to_string"):
            device_name = device_name.to_string()
        self._scope = _tandem.DeviceScope(_local(device_name))

    def __enter__(self):
        self._scope.enter()
        return self

    def __exit__(self, *exception):
        self._scope.exit()


def _local(name):
    if name is None:
        return None
    return name.replace("/physical_device:", "/device:")


class DeviceSpec:
    """A full or partial device name."""

    def __init__(self, job=None, replica=None, task=None, device_type=None, device_index=None):
        self.job, self.replica, self.task, self.device_type, self.device_index = job, replica, task, device_type, device_index

    def replace(self, **parts):
        """A name with other parts."""
        own = {"job": self.job, "replica": self.replica, "task": self.task, "device_type": self.device_type, "device_index": self.device_index}
        return DeviceSpec(**{**own, **parts})

    def parse_from_string(self, spec):
        """The name that a text says."""
        return DeviceSpec.from_string(spec)

    def make_merged_spec(self, dev):
        """A name with the parts of another, and where that has none with those of this one."""
        names = ("job", "replica", "task", "device_type", "device_index")
        return DeviceSpec(**{name: getattr(self if getattr(dev, name) is None else dev, name) for name in names})

    def __eq__(self, other):
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self):
        return hash(self.to_string())

    def __repr__(self):
        parts = ", ".join(f"{name}={getattr(self, name)}" for name in ("job", "replica", "task", "device_type", "device_index"))
        return f"<DeviceSpec({parts})>"

    def to_string(self):
        """The name of the device, as in "/job:worker/task:1/device:GPU:0"."""
        text = "".join(f"/{key}:{value}" for key, value in (("job", self.job), ("replica", self.replica), ("task", self.task)) if value is not None)
        if self.device_type is not None:
            text += f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}"
        return text

    @classmethod
    def from_string(cls, spec):
        """The parts of a device's name."""
        parts = dict(p.split(":", 1) for p in spec.strip("/").split("/") if p)
        kind, _, index = parts.get("device", "").partition(":")
        for name in ("CPU", "GPU", "cpu", "gpu"):  # As in "/GPU:0".
            kind, index = (name.upper(), parts[name]) if name in parts else (kind, index)
        number = lambda name: int(parts[name]) if name in parts else None  # noqa: E731
        return cls(parts.get("job"), number("replica"), number("task"), kind or None, int(index) if index.isdigit() else None)


class name_scope:
    """A scope before whose name those of variables stand that are made in it; names mean nothing to what is computed."""

    def __init__(self, name, *args, **kwargs):
        self.name = name

    def __enter__(self):
        from tandem._tracing.state import state

        state.name_scopes.append(str(self.name).strip("/"))
        return "/".join(state.name_scopes) + "/"

    def __exit__(self, *exception):
        from tandem._tracing.state import state

        state.name_scopes.pop()


class control_dependencies:
    """Operations run in the order they are written in."""

    def __init__(self, control_inputs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def executing_eagerly():
    """True where ops run at once, False while a function is traced."""
    from tandem._tracing.state import state

    return not state.tracing


def inside_function():
    """True while a function is traced."""
    from tandem._tracing.state import state

    return state.tracing > 0


def is_tensor(x):
    """True for tensors, variables, what stands for one, and tensors of texts."""
    return isinstance(x, (Tensor, _tandem.Variable)) or getattr(x, "_is_text_tensor", False) or hasattr(type(x), "__tandem_tensor__")


def is_symbolic_tensor(x):
    """True for tensors of a trace, whose values only a run knows."""
    return isinstance(x, Tensor) and x._is_symbolic


def get_logger():
    """The logger that programs quieten; the library's own words go to its log (tf.config)."""
    import logging

    return logging.getLogger("tensorflow")


def timestamp(name=None):
    """The seconds since 1970 as a float64 tensor."""
    import time

    return convert_to_tensor(time.time(), dtype=float64)


def placement_report():
    """Where ops ran and why, since tf.debugging.set_log_device_placement(True)."""
    return _tandem.placement_report()


def as_tensorflow():
    """Puts this module in the place of `tensorflow` and `keras` for this process."""
    from tandem._names import substitute as _substitute

    _substitute.install()

__all__ = [  # Written by scripts/exported-names.py.
    "Assert", "DType", "DeviceSpec", "GradientTape", "IndexedSlices", "Module", "RaggedTensor", "RaggedTensorSpec", "SparseTensor",
    "SparseTensorSpec", "Tensor", "TensorArray", "TensorShape", "TensorSpec", "UnconnectedGradients", "Variable", "VariableAggregation",
    "VariableSynchronization", "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "argmax", "argmin", "argsort", "as_dtype",
    "as_string", "as_tensorflow", "asin", "asinh", "assert_equal", "assert_greater", "assert_less", "assert_rank", "atan", "atan2", "atanh",
    "audio", "autodiff", "autograph", "batch_to_space", "bfloat16", "bitcast", "bitwise", "bool", "boolean_mask", "broadcast_dynamic_shape",
    "broadcast_static_shape", "broadcast_to", "case", "cast", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "compat", "complex",
    "complex128", "complex64", "concat", "cond", "config", "constant", "constant_initializer", "control_dependencies", "convert_to_tensor",
    "cos", "cosh", "cumsum", "custom_gradient", "data", "debugging", "depth_to_space", "device", "distribute", "divide", "double", "dtypes",
    "dynamic_partition", "dynamic_stitch", "edit_distance", "einsum", "ensure_shape", "equal", "errors", "executing_eagerly", "exp",
    "expand_dims", "experimental", "eye", "feature_column", "fill", "float16", "float32", "float64", "floor", "floordiv", "foldl", "foldr",
    "function", "gather", "gather_nd", "get_logger", "get_static_value", "grad_pass_through", "gradients", "greater", "greater_equal",
    "group", "half", "hessians", "histogram_fixed_width", "identity", "identity_n", "image", "init_scope", "initializers",
    "inside_function", "int16", "int32", "int64", "int8", "io", "is_symbolic_tensor", "is_tensor", "keras", "less", "less_equal", "linalg",
    "linspace", "logical_and", "logical_not", "logical_or", "lookup", "losses", "map_fn", "math", "matmul", "maximum", "meshgrid",
    "metrics", "minimum", "mod", "multiply", "name_scope", "negative", "nest", "newaxis", "nn", "no_op", "norm", "not_equal",
    "numpy_function", "one_hot", "ones", "ones_initializer", "ones_like", "optimizers", "pad", "parallel_stack", "placement_report", "pow",
    "print", "profiler", "py_function", "quantization", "queue", "ragged", "random", "random_normal_initializer",
    "random_uniform_initializer", "range", "rank", "realdiv", "recompute_grad", "reduce_all", "reduce_any", "reduce_logsumexp",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "repeat", "reshape", "resource", "reverse", "reverse_sequence",
    "roll", "round", "saturate_cast", "saved_model", "scalar_mul", "scan", "scatter_nd", "searchsorted", "sequence_mask", "sets", "shape",
    "shape_n", "sigmoid", "sign", "signal", "sin", "sinh", "size", "slice", "sort", "space_to_batch", "space_to_batch_nd", "space_to_depth",
    "sparse", "split", "sqrt", "square", "squeeze", "stack", "stop_gradient", "strided_slice", "string", "strings", "subtract", "summary",
    "switch_case", "sysconfig", "tan", "tandem_version", "tanh", "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub", "tensor_scatter_nd_update", "tensordot", "test", "tile", "timestamp", "train", "transpose", "truediv",
    "truncatediv", "truncatemod", "tuple", "type_spec_from_value", "uint16", "uint32", "uint64", "uint8", "unique", "unique_with_counts",
    "unravel_index", "unstack", "variant", "vectorized_map", "version", "where", "while_loop", "zeros", "zeros_initializer", "zeros_like",
]
