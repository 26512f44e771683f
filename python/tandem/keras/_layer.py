"""Layers: functions of tensors with weights of their own, and the symbolic tensors that models are described with."""

import contextlib
import functools
import inspect
import threading

import numpy as np

import _tandem
from tandem import _ops, dtypes, nest
from tandem._function import GiveUpTrace
from tandem._shape import TensorShape, _Computed, _is_size
from tandem._state import init_scope, state
from tandem._tensor import Tensor
from tandem.errors import OperatorNotAllowedInGraphError
from tandem.keras import _objects, initializers, regularizers
from tandem.keras._variable import KerasVariable

# ---- Symbolic tensors ----


class KerasTensor:
    """A tensor of a model that is being described: a shape, a dtype, and the call that gives it."""

    _tandem_symbolic = True
    __array_priority__ = 1000

    def __init__(self, shape, dtype="float32", sparse=False, record_history=True, name=None):
        self._dims = tuple(None if s is None else int(s) for s in shape)
        self.dtype = dtypes.as_dtype(dtype).name
        self.name = name or _objects.auto_name("keras_tensor")
        self._node = None
        self._index = 0
        self._keras_mask = None

    @property
    def shape(self):
        return self._dims

    @property
    def ndim(self):
        return len(self._dims)

    rank = ndim
    sparse = False

    def get_shape(self):
        return TensorShape(self._dims)

    @property
    def _keras_history(self):
        return self._node.operation, 0, self._index

    def __tandem_tensor__(self):
        raise ValueError(
            "A KerasTensor cannot be used as input to a TensorFlow function. A KerasTensor is a symbolic placeholder for a "
            "shape and dtype, used when constructing Keras Functional models or Keras Functions."
        )

    def __array__(self, *args, **kwargs):
        raise ValueError("A KerasTensor is symbolic: it's a placeholder for a shape an a dtype. It doesn't have any actual numerical value.")

    def __bool__(self):
        raise TypeError("A symbolic KerasTensor cannot be used as a boolean.")

    def __len__(self):
        if not self._dims or self._dims[0] is None:
            raise TypeError("the length of a symbolic KerasTensor is not known")
        return self._dims[0]

    def __iter__(self):
        raise NotImplementedError("Iterating over a symbolic KerasTensor is not supported.")

    def reshape(self, newshape):
        return _ops.reshape(self, newshape)

    def squeeze(self, axis=None):
        return _ops.squeeze(self, axis)

    def __repr__(self):
        return f"<KerasTensor shape={self._dims}, dtype={self.dtype}, sparse=False, ragged=False, name={self.name}>"

    def __hash__(self):
        return id(self)

    def __getitem__(self, key):
        return describe(_get_item, (self, key), {})

    def __eq__(self, other):
        return self is other

    def __ne__(self, other):
        return self is not other


def _get_item(x, key):
    return x[key]


def _operator(name, f):
    def call(self, other):
        return describe(f, (self, other), {})

    def reflected(self, other):
        return describe(f, (other, self), {})

    setattr(KerasTensor, f"__{name}__", call)
    setattr(KerasTensor, f"__r{name}__", reflected)


for _name, _f in (
    ("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b),
    ("truediv", lambda a, b: a / b), ("floordiv", lambda a, b: a // b), ("mod", lambda a, b: a % b),
    ("pow", lambda a, b: a**b), ("matmul", lambda a, b: a @ b), ("and", lambda a, b: a & b), ("or", lambda a, b: a | b),
    ("xor", lambda a, b: a ^ b),
):
    _operator(_name, _f)
for _name, _f in (
    ("lt", lambda a, b: a < b), ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b), ("ge", lambda a, b: a >= b),
):
    setattr(KerasTensor, f"__{_name}__", functools.partialmethod(lambda self, f, other: describe(f, (self, other), {}), _f))


def _partial(name, f):
    setattr(KerasTensor, name, lambda self, *args: describe(f, (self, *args), {}))


for _name, _f in (("lt", lambda a, b: a < b), ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b), ("ge", lambda a, b: a >= b)):
    _partial(f"__{_name}__", _f)
_partial("__neg__", lambda a: -a)
_partial("__abs__", lambda a: abs(a))
_partial("__invert__", lambda a: ~a)


class Node:
    """A call of a layer or function with symbolic tensors."""

    def __init__(self, operation, args, kwargs, outputs):
        self.operation, self.args, self.kwargs, self.outputs = operation, args, kwargs, outputs
        self.inputs = [a for a in _leaves((args, kwargs)) if isinstance(a, KerasTensor)]
        for i, output in enumerate(_leaves(outputs)):
            if isinstance(output, KerasTensor):
                output._node, output._index = self, i

    @property
    def parent_nodes(self):
        return [t._node for t in self.inputs]

    @property
    def output_tensors(self):
        return [o for o in _leaves(self.outputs) if isinstance(o, KerasTensor)]

    input_tensors = property(lambda self: self.inputs)


def _leaves(structure):
    """The leaves also of slices, which keys of parts may be made of."""
    result = []

    def walk(part):
        if isinstance(part, (list, tuple)):
            for each in part:
                walk(each)
        elif isinstance(part, dict):
            for key in part:
                walk(part[key])
        elif isinstance(part, slice):
            for each in (part.start, part.stop, part.step):
                walk(each)
        else:
            result.append(part)

    walk(structure)
    return result


def _filled(structure, values):
    """The structure with KerasTensors replaced by what `values` has for them."""
    if isinstance(structure, KerasTensor):
        return values[id(structure)]
    if isinstance(structure, (list, tuple)):
        parts = [_filled(each, values) for each in structure]
        if hasattr(structure, "_fields"):
            return type(structure)(*parts)
        return tuple(parts) if isinstance(structure, tuple) else parts
    if isinstance(structure, dict):
        return {key: _filled(each, values) for key, each in structure.items()}
    if isinstance(structure, slice):
        return slice(*[_filled(p, values) for p in (structure.start, structure.stop, structure.step)])
    return structure


class OpCall:
    """A function of tensors as a step of a described model."""

    def __init__(self, f, name=None):
        self.function = f
        self.name = name or _objects.auto_name(getattr(f, "__name__", "op").strip("_<>"))
        self._inbound_nodes = []

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    trainable_variables = non_trainable_variables = variables = weights = ()


_ROWS = 7  # The number of rows that stands for any number where a call is described.
_OPEN = (64, 96)  # Numbers that stand for other sizes that are not known; what follows from both is what is known.


class _Described(Exception):
    def __init__(self, result):
        self.result = result


def _probe(f, args, kwargs, open_size):
    """The outputs of a call as symbolic tensors of a trace that is then thrown away."""
    symbolic = []
    for leaf in _leaves((args, kwargs)):
        if isinstance(leaf, KerasTensor) and not any(leaf is s for s in symbolic):
            symbolic.append(leaf)
    first_open = any(s._dims and s._dims[0] is None for s in symbolic)
    samples = []
    for s in symbolic:
        sizes = [(_ROWS if i == 0 else open_size) if d is None else d for i, d in enumerate(s._dims)]
        code = dtypes.code_of(s.dtype)
        with init_scope():
            samples.append(_tandem.fill(tuple(sizes), 0.0 if s.dtype != "float32" else 0.5, code))
    order = sorted(range(len(samples)), key=lambda i: 0 if symbolic[i]._dims and symbolic[i]._dims[0] is None else 1)

    def traced(given):
        by_place = dict(zip(order, given))
        values = {}
        for i, s in enumerate(symbolic):
            values[id(s)] = by_place[i]
            if s._keras_mask is not None:
                by_place[i]._keras_mask = None
        before = state.tracing, state.open_rows
        state.tracing, state.open_rows = state.tracing + 1, True
        try:
            result = f(*_filled(args, values), **_filled(kwargs, values))
        finally:
            state.tracing, state.open_rows = before
        raise _Described(_outlined(result, first_open))

    try:
        with init_scope():
            _tandem.Function(traced, "described").trace([samples[i] for i in order])
    except _Described as described:
        return described.result
    except (OperatorNotAllowedInGraphError, NotImplementedError):
        if isinstance(f, Layer) or not samples:
            pass
    with init_scope():
        values = {id(s): t for s, t in zip(symbolic, samples)}
        return _outlined(f(*_filled(args, values), **_filled(kwargs, values)), first_open)


class _Outline:
    __slots__ = ("dims", "dtype")

    def __init__(self, dims, dtype):
        self.dims, self.dtype = dims, dtype


def _outlined(result, first_open):
    def outline(leaf):
        if isinstance(leaf, (_Computed,)):
            leaf = leaf.tensor()
        if not isinstance(leaf, Tensor):
            return leaf
        dims = [None if _is_size(s) else s for s in leaf._sizes]
        if first_open and dims and dims[0] is not None and dims[0] % _ROWS == 0 and dims[0] > 0 and not any(d is None for d in dims):
            dims[0] = None
        return _Outline(tuple(dims), leaf.dtype.name)

    return nest.map_structure(outline, result) if nest.is_nested(result) else outline(result)


def _merged(a, b):
    if not isinstance(a, _Outline):
        return a
    return _Outline(tuple(x if x == y else None for x, y in zip(a.dims, b.dims)), a.dtype)


def output_spec(f, args, kwargs):
    """What a call gives, as KerasTensors."""
    symbolic = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, KerasTensor)]
    result = _probe(f, args, kwargs, _OPEN[0])
    if any(None in s._dims[1:] for s in symbolic):
        other = _probe(f, args, kwargs, _OPEN[1])
        result = nest.map_structure(_merged, result, other) if nest.is_nested(result) else _merged(result, other)
    make = lambda o: KerasTensor(o.dims, o.dtype) if isinstance(o, _Outline) else o  # noqa: E731
    return nest.map_structure(make, result) if nest.is_nested(result) else make(result)


def describe(f, args, kwargs):
    """A function of symbolic tensors as a step of the model that is being described."""
    operation = f if isinstance(f, OpCall) else OpCall(f)
    outputs = output_spec(f, args, kwargs)
    node = Node(operation, args, kwargs, outputs)
    operation._inbound_nodes.append(node)
    return outputs


_ops._describe = describe


def any_symbolic(args, kwargs):
    for leaf in _leaves((args, kwargs)):
        if isinstance(leaf, KerasTensor):
            return True
    return False


# ---- The present call ----


class _CallContext(threading.local):
    def __init__(self):
        self.depth = 0
        self.training = None
        self.path = []


call_context = _CallContext()


@contextlib.contextmanager
def learning_phase(training):
    before = call_context.training
    call_context.training = training
    try:
        yield
    finally:
        call_context.training = before


class DTypePolicy:
    """The dtypes that a layer computes and keeps its weights in."""

    def __init__(self, name="float32"):
        name = name if isinstance(name, str) else dtypes.as_dtype(name).name
        self.name = name
        if name.startswith("mixed_"):
            _warn_of_mixed(name)
            self.compute_dtype = self.variable_dtype = "float32"
        else:
            self.compute_dtype = self.variable_dtype = name

    def get_config(self):
        return {"name": self.name}

    def __repr__(self):
        return f'<DTypePolicy "{self.name}">'

    def __eq__(self, other):
        return isinstance(other, DTypePolicy) and other.name == self.name

    def __hash__(self):
        return hash(self.name)


@functools.lru_cache(None)
def _warn_of_mixed(name):
    import warnings

    warnings.warn(f"the dtype policy {name} computes in float32 here: no op computes in 16 bits yet", stacklevel=4)


_global_policy = [DTypePolicy("float32")]


def dtype_policy():
    return _global_policy[0]


def set_dtype_policy(policy):
    _global_policy[0] = policy if isinstance(policy, DTypePolicy) else DTypePolicy(policy)


def _mask_of(value):
    return getattr(value, "_keras_mask", None)


class InputSpec:
    def __init__(self, dtype=None, shape=None, ndim=None, max_ndim=None, min_ndim=None, axes=None, allow_last_axis_squeeze=False, name=None, optional=False):
        self.dtype, self.shape, self.ndim, self.max_ndim, self.min_ndim = dtype, shape, ndim, max_ndim, min_ndim
        self.axes, self.name = axes or {}, name


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


class Layer:
    """A function of tensors with weights of its own."""

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        self.__dict__["_init_args"] = (args, kwargs)
        return self

    def __init__(self, *, activity_regularizer=None, trainable=True, dtype=None, autocast=True, name=None, **kwargs):
        self.__dict__["_ready"] = True
        self._tandem_inbound = []
        input_shape = kwargs.pop("input_shape", None)
        batch_shape = kwargs.pop("batch_input_shape", None) or kwargs.pop("batch_shape", None)
        input_dim = kwargs.pop("input_dim", None)
        self._tandem_initial_weights = kwargs.pop("weights", None)
        kwargs.pop("implementation", None)
        input_dtype = kwargs.pop("input_dtype", None)
        if input_dim is not None:
            input_shape = (input_dim,)
        if kwargs:
            raise ValueError(f"Unrecognized keyword arguments passed to {type(self).__name__}: {kwargs}")
        if name is None:
            name = _objects.auto_name(_objects.snake_case(type(self).__name__).lstrip("_"))
        if not isinstance(name, str):
            raise ValueError(f"Argument `name` must be a string. Received: name={name!r}")
        self._name = name
        self._trainable = bool(trainable)
        if isinstance(dtype, dict):
            dtype = dtype.get("config", {}).get("name", "float32")
        self._dtype_policy = dtype_policy() if dtype is None else dtype if isinstance(dtype, DTypePolicy) else DTypePolicy(dtype)
        self.autocast = autocast
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self._tandem_losses = []
        self._tandem_own_weights = []
        self.built = False
        self.supports_masking = False if not hasattr(type(self), "supports_masking") else type(self).supports_masking
        self.input_spec = None
        self._tandem_strategy = _current_strategy()
        self._tandem_batch_input_shape = None
        if batch_shape is not None:
            self._tandem_batch_input_shape = tuple(batch_shape)
        elif input_shape is not None:
            shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
            self._tandem_batch_input_shape = (None,) + shape
        self._tandem_input_dtype = input_dtype

    # ---- Names and settings ----

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, value):
        self._name = value

    @property
    def dtype_policy(self):
        return self._dtype_policy

    @property
    def dtype(self):
        return self._dtype_policy.variable_dtype

    @property
    def compute_dtype(self):
        return self._dtype_policy.compute_dtype

    @property
    def variable_dtype(self):
        return self._dtype_policy.variable_dtype

    @property
    def path(self):
        return self._name

    @property
    def trainable(self):
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        self._trainable = bool(value)
        for layer in self._own_layers():
            layer.trainable = value

    def __setattr__(self, name, value):
        if "_ready" not in self.__dict__:
            if not name.startswith("_") and isinstance(value, (Layer, KerasVariable)):
                raise RuntimeError(
                    f"In layer {type(self).__name__!r}, you forgot to call `super().__init__()` as the first statement in the "
                    "`__init__()` method. Go add it!"
                )
        object.__setattr__(self, name, value)
        node = self.__dict__.get("_tandem_node")
        if node is not None and not name.startswith("_tandem_"):
            from tandem import _tracking

            if _tracking.is_trackable(value):
                _tracking.track(node, name, value)

    # ---- What it holds ----

    def _walk(self):
        """The variables and layers among the attributes, in the order they were set, also in lists and dictionaries."""
        seen = set()

        def walk(value):
            if isinstance(value, (Layer, _tandem.Variable)):
                if id(value) not in seen:
                    seen.add(id(value))
                    yield value
            elif isinstance(value, (list, tuple)):
                for each in value:
                    if isinstance(each, (Layer, _tandem.Variable, list, tuple, dict)):
                        yield from walk(each)
            elif isinstance(value, dict):
                for each in value.values():
                    if isinstance(each, (Layer, _tandem.Variable, list, tuple, dict)):
                        yield from walk(each)

        for weight in self.__dict__.get("_tandem_own_weights", ()):
            yield from walk(weight)
        for name, value in list(self.__dict__.items()):
            if not name.startswith("_tandem_") and name != "_init_args":
                yield from walk(value)

    def _own_layers(self):
        return [v for v in self._walk() if isinstance(v, Layer)]

    def _own_variables(self):
        return [v for v in self._walk() if isinstance(v, _tandem.Variable)]

    @property
    def submodules(self):
        return tuple(self._flatten_layers(include_self=False))

    def _flatten_layers(self, include_self=True, recursive=True):
        seen = set()

        def walk(layer):
            if id(layer) in seen:
                return
            seen.add(id(layer))
            yield layer
            for each in layer._own_layers():
                yield from walk(each)

        layers = list(walk(self))
        return layers if include_self else layers[1:]

    def _collect(self, trainable=None):
        found, seen = [], set()
        for layer in self._flatten_layers():
            own = layer._own_variables()
            # Trained weights stand before the others of a layer.
            for wanted in (True, False):
                for v in own:
                    if bool(v.trainable) is wanted and id(v) not in seen:
                        seen.add(id(v))
                        is_trained = wanted and layer._trainable
                        if trainable is None or trainable is is_trained:
                            if not getattr(v, "_is_seed", False) or trainable is None:
                                found.append(v)
        return found

    @property
    def weights(self):
        return [v for v in self._collect() if not getattr(v, "_is_seed", False)]

    @property
    def variables(self):
        return self._collect()

    @property
    def trainable_variables(self):
        return self._collect(True) if self._trainable else []

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self):
        return self._collect(False) if self._trainable else self.weights

    non_trainable_weights = non_trainable_variables

    @property
    def metrics(self):
        from tandem.keras.metrics import Metric

        found = []
        for layer in self._flatten_layers():
            for value in vars(layer).values():
                for each in value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else (value,):
                    if isinstance(each, Metric) and not any(each is f for f in found):
                        found.append(each)
        return found

    metrics_variables = property(lambda self: [v for m in self.metrics for v in m.variables])

    def add_weight(self, *args, **kwargs):
        """A variable of this layer: shape, initializer, dtype, trainable, autocast, regularizer, constraint, aggregation, name."""
        if args and isinstance(args[0], str):  # Keras 2 had the name first.
            named = dict(zip(("name", "shape", "dtype", "initializer", "regularizer", "trainable", "constraint"), args))
            return self._add_weight(**named, **kwargs)
        return self._add_weight(*args, **kwargs)

    def _add_weight(self, shape=None, initializer=None, dtype=None, trainable=True, autocast=True, regularizer=None, constraint=None, aggregation="none", overwrite_with_gradient=False, name=None, **kwargs):
        from tandem.keras import constraints

        dtype = dtypes.as_dtype(dtype or self.variable_dtype)
        if initializer is None:
            initializer = "glorot_uniform" if dtype.is_floating else "zeros"
        shape = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        with self._strategy_scope(), init_scope() if state.tracing else contextlib.nullcontext():
            variable = KerasVariable(
                initializers.get(initializer),
                shape=shape,
                dtype=dtype,
                trainable=trainable,
                aggregation=aggregation if aggregation not in (None, "none") or trainable else "mean",
                name=name or _objects.auto_name("variable"),
                path=f"{'/'.join(call_context.path + [self._name])}/{name or 'variable'}",
                regularizer=regularizers.get(regularizer),
                constraint=constraints.get(constraint),
            )
        self._tandem_own_weights.append(variable)
        if self.__dict__.get("_tandem_node") is not None:
            from tandem import _tracking

            _tracking.sync(self)
        return variable

    add_variable = add_weight

    def _strategy_scope(self):
        strategy = self.__dict__.get("_tandem_strategy")
        if strategy is None or state.in_replica:
            return contextlib.nullcontext()
        from tandem import distribute

        if distribute.has_strategy():
            return contextlib.nullcontext()
        return strategy.scope()

    def add_loss(self, loss):
        for each in nest.flatten(loss):
            self._tandem_losses.append(each)

    def add_metric(self, *args, **kwargs):
        raise NotImplementedError("Layer `add_metric()` method is deprecated. Add your metric in `Model.compile(metrics=[...])`.")

    def _clear_losses(self):
        for layer in self._flatten_layers():
            layer.__dict__.get("_tandem_losses", []).clear()

    @property
    def losses(self):
        found = []
        for layer in self._flatten_layers():
            for each in layer.__dict__.get("_tandem_losses", ()):
                found.append(each() if callable(each) and not isinstance(each, Tensor) else each)
        for v in self.trainable_weights:
            regularizer = getattr(v, "regularizer", None)
            if regularizer is not None:
                found.append(regularizer(v))
        return found

    def get_weights(self):
        return [np.array(w.numpy()) for w in self.weights]

    def set_weights(self, weights):
        own = self.weights
        weights = list(weights)
        if len(own) != len(weights):
            raise ValueError(
                f"You called `set_weights(weights)` on layer '{self.name}' with a weight list of length {len(weights)}, but the "
                f"layer was expecting {len(own)} weights."
            )
        for variable, value in zip(own, weights):
            if tuple(variable.shape) != tuple(np.shape(value)):
                raise ValueError(f"Layer {self.name} weight shape {tuple(variable.shape)} is not compatible with provided weight shape {tuple(np.shape(value))}.")
            variable.assign(value)

    def count_params(self):
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on layer '{self.name}', but the layer isn't built.")
        return sum(int(np.prod(w.shape.as_list())) if w.shape.rank else 1 for w in self.weights)

    # ---- Building and calling ----

    def build(self, *args, **kwargs):
        self.built = True

    build._is_default = True

    def _build_for(self, args, kwargs):
        with self._strategy_scope(), init_scope():
            call_context.path.append(self._name)
            try:
                build = self.build
                names, _, _ = _parameters(build)
                if getattr(type(self).build, "_is_default", False):
                    self._build_by_run(args, kwargs)
                elif len(names) >= 2 and not (len(names) == 1):
                    shapes = self._named_shapes(args, kwargs)
                    wanted = {n: shapes[n] for n in names if n in shapes}
                    if wanted:
                        build(**wanted)
                    else:
                        build(_shape_of(args[0]))
                elif names:
                    value = args[0] if args else next(iter(kwargs.values()), None)
                    build(_build_shape(_shape_of(value)))
                else:
                    build()
            finally:
                call_context.path.pop()
        self.built = True
        initial = self.__dict__.get("_tandem_initial_weights")
        if initial is not None:
            self.set_weights(initial)
            self._tandem_initial_weights = None
        if self.__dict__.get("_tandem_node") is not None:
            from tandem import _tracking

            _tracking.sync(self)

    def _named_shapes(self, args, kwargs):
        names, _, _ = _parameters(self.call)
        shapes = {}
        for name, value in list(zip(names, args)) + list(kwargs.items()):
            shapes[f"{name}_shape"] = _shape_of(value)
        return shapes

    def _build_by_run(self, args, kwargs):
        """A layer without build() makes its weights, and those of its layers, when it is first called."""
        self.built = True

    def _convert_input(self, value):
        if isinstance(value, Tensor):
            if self.autocast and value.dtype.is_floating and value.dtype.name != self.compute_dtype and self.compute_dtype in ("float32", "float64"):
                mask = _mask_of(value)
                value = _tandem.cast(value, dtypes.code_of(self.compute_dtype))
                if mask is not None:
                    value._keras_mask = mask
            return value
        if isinstance(value, np.ndarray) or isinstance(value, np.generic):
            if value.dtype.kind in "USO":
                return _ops.constant(value)
            return self._convert_input(_tandem.convert(value))
        return value

    def call(self, *args, **kwargs):
        raise NotImplementedError(f"Layer {type(self).__name__} does not have a `call()` method implemented.")

    def __call__(self, *args, **kwargs):
        if "_ready" not in self.__dict__:
            raise RuntimeError(
                f"In layer {type(self).__name__!r}, you forgot to call `super().__init__()` as the first statement in the `__init__()` method."
            )
        if any_symbolic(args, kwargs):
            return self._describe_call(args, kwargs)
        return self._run_call(args, kwargs)

    def _describe_call(self, args, kwargs):
        if not self.built:
            self._build_for(args, kwargs)
        outputs = self.compute_output_spec(*args, **kwargs)
        node = Node(self, args, kwargs, outputs)
        self._tandem_inbound.append(node)
        return outputs

    @property
    def _inbound_nodes(self):
        return self._tandem_inbound

    def _converted_inputs(self, args, kwargs):
        def convert(value):
            if isinstance(value, (list, tuple)) and value and all(isinstance(v, (int, float)) for v in value):
                return self._convert_input(np.asarray(value, np.float32 if any(isinstance(v, float) for v in value) else np.int32))
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)) and not any(isinstance(v, (Tensor, np.ndarray)) for v in nest.flatten(value)) and all(isinstance(v, (int, float)) for v in nest.flatten(value)):
                return self._convert_input(_tandem.convert(value))
            if nest.is_nested(value):
                return nest.map_structure(self._convert_input, value)
            return self._convert_input(value)

        if args:
            args = (convert(args[0]),) + tuple(
                nest.map_structure(self._convert_input, a) if nest.is_nested(a) else self._convert_input(a) for a in args[1:]
            )
        kwargs = {k: self._convert_input(v) if isinstance(v, (Tensor, np.ndarray)) else v for k, v in kwargs.items()}
        return args, kwargs

    def _run_call(self, args, kwargs):
        args, kwargs = self._converted_inputs(args, kwargs)
        names, takes_any, defaults = _parameters(self.call)
        context = call_context
        outermost = context.depth == 0
        if outermost:
            self._clear_losses()
        # The phase: as given here, else that of the call around, else the default of the signature.
        training = kwargs.get("training")
        if training is None and "training" in names and len(args) > names.index("training"):
            training = args[names.index("training")]
        if training is None:
            training = context.training
        if "training" in names:
            if kwargs.get("training") is None and len(args) <= names.index("training"):
                if training is None:
                    default = defaults.get("training")
                    kwargs["training"] = default if default is not None else False
                else:
                    kwargs["training"] = training
        elif "training" in kwargs and not takes_any:
            kwargs.pop("training")
        inputs = args[0] if args else None
        mask = None
        if inputs is not None:
            mask = [_mask_of(v) for v in inputs] if isinstance(inputs, (list, tuple)) else _mask_of(inputs)
            has_mask = mask is not None and (not isinstance(mask, list) or any(m is not None for m in mask))
            if not has_mask:
                mask = None
            elif "mask" in names and kwargs.get("mask") is None and len(args) <= names.index("mask"):
                kwargs["mask"] = mask
            for i, name in enumerate(names[1:], 1):
                own = f"{name}_mask"
                if own in names and kwargs.get(own) is None:
                    value = args[i] if i < len(args) else kwargs.get(name)
                    if value is not None and _mask_of(value) is not None:
                        kwargs[own] = _mask_of(value)
            if names and f"{names[0]}_mask" in names and kwargs.get(f"{names[0]}_mask") is None and mask is not None:
                kwargs[f"{names[0]}_mask"] = mask
        if not self.built:
            self._build_for(args, {k: v for k, v in kwargs.items() if k not in ("training", "mask")})
        before = context.training
        context.depth += 1
        context.training = training
        context.path.append(self._name)
        try:
            outputs = self._call_to_run()(*args, **kwargs)
        finally:
            context.depth -= 1
            context.training = before
            context.path.pop()
        if self.activity_regularizer is not None:
            for each in nest.flatten(outputs):
                if isinstance(each, Tensor):
                    rows = _tandem.cast(_tandem.shape(each, 5)[0], each._code) if each._rank else 1.0
                    self._tandem_losses.append(self.activity_regularizer(each) / rows)
        if mask is not None:
            self._pass_mask(inputs, mask, outputs)
        elif type(self).compute_mask is not Layer.compute_mask:
            self._pass_mask(inputs, None, outputs)
        return outputs

    def _call_to_run(self):
        if not state.converts_calls:
            return self.call
        from tandem import autograph

        return autograph.converted(self.call)

    def _pass_mask(self, inputs, mask, outputs):
        passed = self.compute_mask(inputs, mask)
        if passed is None:
            return
        if isinstance(outputs, Tensor):
            if isinstance(passed, (list, tuple)):
                passed = next((p for p in passed if p is not None), None)
            if passed is not None and _mask_of(outputs) is None:
                outputs._keras_mask = passed
        elif isinstance(outputs, (list, tuple)) and isinstance(passed, (list, tuple)):
            for output, own in zip(outputs, passed):
                if own is not None and isinstance(output, Tensor):
                    output._keras_mask = own

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask if self.supports_masking else None

    def compute_output_spec(self, *args, **kwargs):
        own = type(self).compute_output_shape is not Layer.compute_output_shape
        try:
            return output_spec(self._quiet_call, args, kwargs)
        except (OperatorNotAllowedInGraphError, NotImplementedError):
            if not own:
                raise
        shape = self.compute_output_shape(_shape_of(args[0]))
        if isinstance(shape, list) or (isinstance(shape, tuple) and shape and isinstance(shape[0], (tuple, list))):
            return [KerasTensor(s, self.compute_dtype) for s in shape]
        return KerasTensor(shape, self.compute_dtype)

    def _quiet_call(self, *args, **kwargs):
        """A call whose losses do not count."""
        depth, call_context.depth = call_context.depth, call_context.depth + 1
        try:
            result = self(*args, **kwargs)
        finally:
            call_context.depth = depth
        for layer in self._flatten_layers():
            layer.__dict__.get("_tandem_losses", []).clear()
        return result

    def compute_output_shape(self, *args, **kwargs):
        shape = args[0] if args else next(iter(kwargs.values()))
        make = lambda s: KerasTensor(s, self.compute_dtype)  # noqa: E731
        if shape and isinstance(shape, (list, tuple)) and isinstance(shape[0], (list, tuple)):
            given = [make(s) for s in shape]
        elif isinstance(shape, dict):
            given = {k: make(s) for k, s in shape.items()}
        else:
            given = make(shape)
        if not self.built:
            self._build_for((given,), {})
        result = Layer.compute_output_spec(self, given)
        return nest.map_structure(lambda t: t.shape, result) if nest.is_nested(result) else result.shape

    # ---- As part of a described model ----

    def _only_node(self, what):
        if not self._inbound_nodes:
            raise AttributeError(f"The layer {self.name} has never been called and thus has no defined {what}.")
        return self._inbound_nodes[0]

    @property
    def input(self):
        node = self._only_node("input")
        first = node.args[0] if node.args else node.inputs
        return first

    @property
    def output(self):
        return self._only_node("output").outputs

    @property
    def input_shape(self):
        return _shape_of(self.input)

    @property
    def output_shape(self):
        return _shape_of(self.output)

    # ---- Configurations ----

    def get_config(self):
        args, kwargs = self._init_args
        config = {"name": self.name, "trainable": self._trainable, "dtype": self._dtype_policy.name}
        if type(self).get_config is not Layer.get_config and not type(self).__module__.startswith("tandem"):
            # The user's class adds its own arguments: here are those of the built-in class that it derives from.
            built_in = next(c for c in type(self).__mro__ if c.__module__.startswith("tandem"))
            for name in inspect.signature(built_in.__init__).parameters:
                if name not in ("self", "args", "kwargs") and name in self.__dict__:
                    config[name] = self.__dict__[name]
        elif type(self).__init__ is not Layer.__init__:
            try:
                bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
            except TypeError:
                bound = None
            if bound is not None:
                parameters = inspect.signature(type(self).__init__).parameters
                for name, value in list(bound.arguments.items())[1:]:
                    kind = parameters[name].kind
                    if kind is inspect.Parameter.VAR_KEYWORD:
                        for k, v in value.items():
                            if k not in ("weights", "input_shape", "input_dim", "batch_input_shape"):
                                config[k] = v
                    elif kind is not inspect.Parameter.VAR_POSITIONAL:
                        config[name] = value
        if self._tandem_batch_input_shape is not None:
            config["batch_input_shape"] = self._tandem_batch_input_shape
        return config

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def get_build_config(self):
        return None

    def build_from_config(self, config):
        pass

    def save_own_variables(self, store):
        for i, v in enumerate(self._own_saved()):
            store[str(i)] = v

    def load_own_variables(self, store):
        own = self._own_saved()
        if len(store.keys()) != len(own):
            raise ValueError(f"Layer '{self.name}' expected {len(own)} variables, but received {len(store.keys())} variables during loading.")
        for i, v in enumerate(own):
            v.assign(np.asarray(store[str(i)]))

    def _own_saved(self):
        own = self._own_variables()
        return [v for v in own if v.trainable] + [v for v in own if not v.trainable]

    def _trackable_children(self):
        from tandem._tracking import is_trackable

        children = {}
        for name, value in self.__dict__.items():
            if name.startswith("_tandem_") or name in ("_init_args", "optimizer", "_optimizer"):
                continue
            if is_trackable(value):
                children[name] = value
        named = {id(v) for v in children.values()}
        for i, v in enumerate(self._tandem_own_weights):
            if id(v) not in named:
                children.setdefault(f"_{v.name}", v)
        optimizer = self.__dict__.get("_optimizer") or self.__dict__.get("optimizer")
        if optimizer is not None:
            children["optimizer"] = optimizer
        return children

    def __deepcopy__(self, memo):
        import copy

        other = type(self).__new__(type(self))
        memo[id(self)] = other
        for name, value in self.__dict__.items():
            if name in ("_tandem_inbound", "_tandem_node", "_tandem_strategy", "_tandem_functions"):
                continue
            other.__dict__[name] = copy.deepcopy(value, memo)
        other.__dict__["_tandem_inbound"] = []
        other.__dict__["_tandem_strategy"] = None
        return other

    def __getstate__(self):
        left_out = ("_tandem_inbound", "_tandem_node", "_tandem_strategy", "_tandem_functions", "_tandem_graph")
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __setstate__(self, values):
        self.__dict__.update(values)
        self.__dict__["_tandem_inbound"] = []
        self.__dict__["_tandem_strategy"] = None

    def __repr__(self):
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"

    def quantize(self, mode, **kwargs):
        raise NotImplementedError("quantize: tandem has no quantised layers")

    def stateless_call(self, trainable_variables, non_trainable_variables, *args, return_losses=False, **kwargs):
        variables = list(self.trainable_variables) + list(self.non_trainable_variables)
        given = list(trainable_variables) + list(non_trainable_variables)
        kept = [v.read_value() for v in variables]
        for v, value in zip(variables, given):
            v.assign(value)
        outputs = self(*args, **kwargs)
        changed = [v.read_value() for v in self.non_trainable_variables]
        for v, value in zip(variables, kept):
            v.assign(value)
        return outputs, changed


def _build_shape(shape):
    return shape


def _current_strategy():
    import sys

    module = sys.modules.get("tandem.distribute")
    return module.get_strategy() if module is not None and module.has_strategy() else None


class InputLayer(Layer):
    """Where a model's input comes in."""

    def __init__(self, shape=None, batch_size=None, dtype=None, sparse=None, ragged=None, batch_shape=None, input_tensor=None, optional=False, name=None, input_shape=None, batch_input_shape=None, **kwargs):
        super().__init__(name=name)
        shape = shape if shape is not None else input_shape
        batch_shape = batch_shape or batch_input_shape
        if batch_shape is not None:
            self.batch_shape = tuple(batch_shape)
        else:
            shape = (shape,) if isinstance(shape, int) else tuple(shape or ())
            self.batch_shape = (batch_size,) + shape
        self._input_dtype = dtypes.as_dtype(dtype or "float32").name
        self.built = True
        if input_tensor is not None:
            tensor = input_tensor
        else:
            tensor = KerasTensor(self.batch_shape, self._input_dtype, name=self.name)
        Node_ = Node(self, (), {}, tensor)
        self._tandem_inbound.append(Node_)
        self._tandem_batch_input_shape = self.batch_shape

    @property
    def dtype(self):
        return self._input_dtype

    def call(self, *args):
        raise NotImplementedError

    def get_config(self):
        return {"batch_shape": self.batch_shape, "dtype": self._input_dtype, "name": self.name}


def Input(shape=None, batch_size=None, dtype=None, sparse=None, ragged=None, batch_shape=None, name=None, tensor=None, optional=False):
    """The input of a model that is described from here on."""
    layer = InputLayer(shape, batch_size, dtype, sparse, ragged, batch_shape, tensor, optional, name)
    return layer.output
