"""The present call of a layer: its phase, its dtypes, what it is given."""

import contextlib
import inspect
import threading

from tandem import dtypes
from tandem._tensors.shape import _is_size
from tandem._tensors.tensor import Tensor
from tandem.keras._symbolic import KerasTensor


class _CallContext(threading.local):
    def __init__(self):
        self.depth = 0
        self.training = None
        self.path = []
        self.rows = None  # Where weights are made before a step, of a few rows of a batch: how many it has, and how many are remembered.

    def entered(self, layer):
        """Extends the path by a layer and returns the path around it. What was made of a configuration with its shapes begins a path, as in Keras, which builds it alone."""
        kept = self.path
        alone = layer.__dict__.get("_tandem_is_made_alone")
        self.path = [*kept, layer._name] if alone is None else [layer._name][:alone]
        return kept

    @contextlib.contextmanager
    def within(self, name):
        """A scope in which layers make their weights as parts of the layer with that name."""
        is_there = self.path[-1:] == [name]
        if not is_there:
            self.path.append(name)
        try:
            yield
        finally:
            if not is_there:
                self.path.pop()

    def built_for(self, value):
        """The shape of an input that weights are made for."""
        shape = _shape_of(value)
        if self.rows is None or not isinstance(shape, tuple) or not shape:
            return shape
        of_batch, remembered = self.rows
        return (remembered,) + shape[1:] if of_batch is not None and shape[0] == min(2, of_batch) else shape


call_context = _CallContext()


@contextlib.contextmanager
def learning_phase(training):
    """A scope in which layers are told whether they train."""
    before = call_context.training
    call_context.training = training
    try:
        yield
    finally:
        call_context.training = before


class DTypePolicy:
    """The dtypes that a layer computes and keeps its weights in."""

    def __init__(self, name=None):
        if name is None:
            from tandem.keras import backend

            name = backend.floatx()
        name = name if isinstance(name, str) else dtypes.as_dtype(name).name
        self.name = name
        if name in ("mixed_float16", "mixed_bfloat16"):
            self.compute_dtype, self.variable_dtype = name.removeprefix("mixed_"), "float32"
        elif name.startswith("mixed_"):
            raise ValueError(f"Cannot convert '{name}' to a mixed precision DTypePolicy. Valid policies include 'mixed_float16', 'mixed_bfloat16', and the name of any float dtype such as 'float32'.")
        else:
            self.compute_dtype = self.variable_dtype = name

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        """The policy of its configuration."""
        return cls(**config)

    def convert_input(self, x, autocast, dtype):
        """An input as a tensor, floating ones of a dtype where asked for."""
        from tandem.keras._symbolic import describe
        import _tandem

        kind = dtypes.as_dtype(dtype)
        if isinstance(x, KerasTensor):
            is_other = autocast and dtypes.as_dtype(x.dtype).is_floating and x.dtype != kind.name
            return describe(lambda t: _tandem.cast(t, kind._code), (x,), {}) if is_other else x
        if not hasattr(x, "__array__") and not isinstance(x, Tensor):
            return x
        x = _tandem.convert(x)
        return _tandem.cast(x, kind._code) if autocast and x.dtype.is_floating and x._code != kind._code else x

    def as_config(self):
        """The policy in the configuration of a layer."""
        return {"module": "keras", "class_name": "DTypePolicy", "config": {"name": self.name}, "registered_name": None}

    def __repr__(self):
        return f'<DTypePolicy "{self.name}">'

    def __eq__(self, other):
        return isinstance(other, DTypePolicy) and other.name == self.name

    def __hash__(self):
        return hash(self.name)


_global_policy = [DTypePolicy("float32")]


def dtype_policy():
    """The policy that layers without one of their own have."""
    return _global_policy[0]


def set_dtype_policy(policy):
    """Sets the policy of layers without one of their own."""
    _global_policy[0] = policy if isinstance(policy, DTypePolicy) else DTypePolicy(policy)


def _mask_of(value):
    return getattr(value, "_keras_mask", None)


class InputSpec:
    """What a layer says of its inputs: rank, shape, dtype."""

    def __init__(self, dtype=None, shape=None, ndim=None, max_ndim=None, min_ndim=None, axes=None, allow_last_axis_squeeze=False, name=None, optional=False):
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self.shape = None if shape is None else tuple(shape)
        self.ndim = len(self.shape) if self.shape is not None else ndim
        self.max_ndim, self.min_ndim, self.allow_last_axis_squeeze, self.optional = max_ndim, min_ndim, allow_last_axis_squeeze, optional
        self.axes, self.name = axes or {}, name

    def get_config(self):
        """The arguments of which from_config makes the spec again."""
        return {"dtype": self.dtype, "shape": self.shape, "ndim": self.ndim, "max_ndim": self.max_ndim, "min_ndim": self.min_ndim, "axes": self.axes, "optional": self.optional}

    @classmethod
    def from_config(cls, config):
        """The spec of its configuration."""
        return cls(**config)

    def __repr__(self):
        return f"InputSpec({', '.join(f'{k}={v}' for k, v in self.get_config().items() if v)})"

    def mismatch(self, x):
        """What of an input is not as the spec says, in words; None where all is."""
        shape = tuple(_shape_of(x))
        rank = len(shape)
        if self.ndim is not None and rank != self.ndim and not self.allow_last_axis_squeeze and self.shape is None:
            return f"expected ndim={self.ndim}, found ndim={rank}. Full shape received: {shape}"
        if self.max_ndim is not None and rank > self.max_ndim:
            return f"expected max_ndim={self.max_ndim}, found ndim={rank}"
        if self.min_ndim is not None and rank < self.min_ndim:
            return f"expected min_ndim={self.min_ndim}, found ndim={rank}. Full shape received: {shape}"
        kind = x.dtype if isinstance(x.dtype, str) else dtypes.as_dtype(x.dtype).name
        if self.dtype is not None and kind != self.dtype:
            return f"expected dtype={self.dtype}, found dtype={kind}"
        for axis, size in self.axes.items():
            if size is not None and shape[int(axis)] not in (size, None):
                return f"expected axis {axis} of input shape to have value {size}, but received input with shape {shape}"
        if self.shape is not None:
            wanted = self.shape
            if self.allow_last_axis_squeeze and rank != len(wanted):
                wanted = wanted[:-1] if wanted and wanted[-1] == 1 and rank == len(wanted) - 1 else (*wanted, 1)
            if rank != len(wanted) or any(w is not None and s is not None and w != s for w, s in zip(wanted, shape)):
                return f"expected shape={self.shape}, found shape={shape}"
        return None


_signatures = {}


def _parameters(f):
    """The names of a call's parameters, and whether it takes any."""
    key = getattr(f, "__func__", f)
    found = _signatures.get(key)
    if found is None:
        try:
            parameters = inspect.signature(f).parameters
        except (TypeError, ValueError):
            parameters = {}
        found = tuple(parameters), any(p.kind is p.VAR_KEYWORD for p in parameters.values()), {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        _signatures[key] = found
    return found


def _shape_of(value):
    if isinstance(value, (list, tuple)):
        return type(value)(_shape_of(v) for v in value) if isinstance(value, list) else tuple(_shape_of(v) for v in value)
    if isinstance(value, dict):
        return {k: _shape_of(v) for k, v in value.items()}
    if isinstance(value, KerasTensor):
        return value.shape
    if isinstance(value, Tensor):
        sizes = [None if _is_size(s) else s for s in value._sizes]
        return tuple(sizes)
    shape = getattr(value, "shape", None)
    return None if shape is None else tuple(shape)
