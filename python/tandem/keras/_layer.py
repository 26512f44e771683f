"""Layers: functions of tensors with weights of their own. A call is described, traced or run."""

import contextlib
import functools

import numpy as np

import _tandem
from tandem import _ops, dtypes, nest
from tandem._tracing import recognition
from tandem._tensors.tensor import Tensor
from tandem._tracing.state import init_scope, state
from tandem.errors import OperatorNotAllowedInGraphError
from tandem.keras import _objects, _parts, regularizers
from tandem.keras._calls import DTypePolicy, _mask_of, _parameters, _shape_of, call_context, dtype_policy
from tandem.keras._layer_description import LayerDescription
from tandem.keras._layer_state import LayerState
from tandem.keras._symbolic import KerasTensor, Node, any_symbolic, output_spec


_NO_CAST = contextlib.nullcontext()


class Layer(LayerState, LayerDescription):
    """A function of tensors with weights of its own."""

    _is_built_at_once = False  # Whether layers of a class have nothing to make when they are first called.
    _takes_parts = False  # Whether it knows what to do with this device's part of a value, in the place of the whole.

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
        kwargs.pop("dynamic", None)  # What cannot be traced runs op by op, whatever is said.
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
        self.built = self._is_built_at_once
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
        """The layer's name."""
        return self._name

    @name.setter
    def name(self, value):
        self._name = value

    @property
    def dtype_policy(self):
        """The policy that says in which dtypes it computes and keeps weights."""
        return self._dtype_policy

    @property
    def dtype(self):
        """The dtype of its weights."""
        return self._dtype_policy.variable_dtype

    @property
    def compute_dtype(self):
        """The dtype in which it computes."""
        return self._dtype_policy.compute_dtype

    @property
    def variable_dtype(self):
        """The dtype of its weights."""
        return self._dtype_policy.variable_dtype

    @property
    def input_dtype(self):
        """The dtype that floating inputs are given."""
        return self._dtype_policy.compute_dtype

    @property
    def path(self):
        """The names of the layers around it and its own."""
        return self.__dict__.get("_tandem_path", self._name)

    @property
    def trainable(self):
        """Whether its weights are trained."""
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        recognition.layer_is_trained(self, self._trainable, value)
        self._trainable = bool(value)
        for layer in self._own_layers():
            layer.trainable = value

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        node = self.__dict__.get("_tandem_node")
        if node is not None and not name.startswith("_tandem_"):
            from tandem._tensors import tracking as _tracking

            if _tracking.is_trackable(value):
                _tracking.track(node, name, value)

    # ---- Building and calling ----

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__ and not getattr(cls.build, "_is_default", False):
            cls.build = _names_weights(cls.build)

    def build(self, *args, **kwargs):
        """Makes the weights for inputs of a shape; may be overridden, and is called before the first call."""
        self.built = True

    build._is_default = True

    def _build_for(self, args, kwargs):
        with self._strategy_scope(), init_scope():
            above = call_context.entered(self)
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
                call_context.path = above
        self.built = True
        self.__dict__["_tandem_built_for"] = call_context.built_for(args[0]) if args else None
        initial = self.__dict__.get("_tandem_initial_weights")
        if initial is not None:
            self.set_weights(initial)
            self._tandem_initial_weights = None
        if self.__dict__.get("_tandem_node") is not None:
            from tandem._tensors import tracking as _tracking

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
            if self.autocast and value.dtype.is_floating and value.dtype.name != self.compute_dtype and dtypes.as_dtype(self.compute_dtype).is_floating:
                mask = _mask_of(value)
                value = _tandem.cast(value, dtypes.code_of(self.compute_dtype))
                if mask is not None:
                    value._keras_mask = mask
            return value
        if isinstance(value, np.ndarray) or isinstance(value, np.generic):
            if value.dtype.kind in "USO":
                return _ops.constant(value)
            return self._convert_input(_tandem.convert(value))
        if type(value).__module__.startswith("pandas"):
            return self._convert_input(np.asarray(value))
        return value

    def call(self, *args, **kwargs):
        """What the layer computes; a layer of one's own overrides it."""
        raise NotImplementedError(f"Layer {type(self).__name__} does not have a `call()` method implemented.")

    def __call__(self, *args, **kwargs):
        if "_ready" not in self.__dict__:
            raise RuntimeError(
                f"In layer {type(self).__name__!r}, you forgot to call `super().__init__()` as the first statement in the `__init__()` method."
            )
        if any_symbolic(args, kwargs):
            return self._describe_call(args, kwargs)
        return self._run_call(args, kwargs)

    def _check_inputs(self, inputs):
        """Raises ValueError unless the inputs are as the layer's input_spec says."""
        specs = self.input_spec if isinstance(self.input_spec, (list, tuple)) else [self.input_spec]
        given = nest.flatten(inputs)
        if len(given) != len(specs):
            raise ValueError(f'Layer "{self.name}" expects {len(specs)} input(s), but it received {len(given)} input tensors. Inputs received: {inputs}')
        for i, (x, spec) in enumerate(zip(given, specs)):
            wrong = spec.mismatch(x) if spec is not None and hasattr(x, "shape") else None
            if wrong is not None:
                raise ValueError(f"Input {i} with name '{getattr(x, 'name', None) if isinstance(x, KerasTensor) else None}' of layer '{self.name}' is incompatible with the layer: {wrong}")

    def symbolic_call(self, *args, **kwargs):
        """A call with what stands for tensors, as a step of the model that is being described."""
        return self._describe_call(args, kwargs)

    def _describe_call(self, args, kwargs):
        if self.input_spec is not None and args:
            self._check_inputs(args[0])
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
        if _parts.in_use and not self._takes_parts:
            args, kwargs = _parts.joined((args, kwargs))
        if self.input_spec is not None and args and not (_parts.in_use and self._takes_parts):
            self._check_inputs(args[0])
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
        if training is None and "training" in names:
            training = defaults.get("training", False)
        if "training" in names:
            if kwargs.get("training") is None and len(args) <= names.index("training"):
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
        above = context.entered(self)
        try:
            with self._casting_variables():
                outputs = self._call_to_run()(*args, **kwargs)
        finally:
            context.depth -= 1
            context.training = before
            context.path = above
        if outermost and _parts.in_use:
            outputs = _parts.joined(outputs)
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

    def _casting_variables(self):
        """A scope in which weights are to ops what a mixed policy says."""
        policy = self._dtype_policy
        if policy.compute_dtype != policy.variable_dtype:
            return _tandem.Autocast(dtypes.code_of(policy.compute_dtype) if self.autocast else -1)
        return _NO_CAST if call_context.depth == 1 else _tandem.Autocast(-1)

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
        """The mask of the output for that of the input."""
        return previous_mask if self.supports_masking else None

    def compute_output_spec(self, *args, **kwargs):
        """What stands for its output, for inputs of the given kinds."""
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
        """A call whose losses do not count, and that prints nothing."""
        depth, call_context.depth = call_context.depth, call_context.depth + 1
        was, state.is_rehearsal = state.is_rehearsal, True
        try:
            result = self(*args, **kwargs)
        finally:
            call_context.depth, state.is_rehearsal = depth, was
        for layer in self._flatten_layers():
            layer.__dict__.get("_tandem_losses", []).clear()
        return result

    def compute_output_shape(self, *args, **kwargs):
        """The shape of the output for that of the input."""
        shape, *others = (*args, *kwargs.values())
        make = lambda s: KerasTensor(s, self.compute_dtype)  # noqa: E731
        if shape and isinstance(shape, (list, tuple)) and isinstance(shape[0], (list, tuple)):
            given = [make(s) for s in shape]
        elif isinstance(shape, dict):
            given = {k: make(s) for k, s in shape.items()}
        else:
            given = make(shape)
        given = (given, *(make(s) for s in others if s is not None))
        if not self.built:
            self._build_for(given, {})
        result = Layer.compute_output_spec(self, *given)
        return nest.map_structure(lambda t: t.shape, result) if nest.is_nested(result) else result.shape


def _names_weights(build):
    """A layer's build(), whoever calls it: its weights are named after the layer, and there is nothing more to build then."""

    @functools.wraps(build)
    def named(self, *args, **kwargs):
        with call_context.within(self._name):
            self.__dict__.setdefault("_tandem_path", "/".join(call_context.path))
            result = build(self, *args, **kwargs)
        self.built = True
        return result

    return named


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
        self.sparse, self.ragged, self.optional = bool(sparse), bool(ragged), bool(optional)
        self.built = True
        if input_tensor is not None:
            tensor = input_tensor
        else:
            tensor = KerasTensor(self.batch_shape, self._input_dtype, sparse, ragged, name=name)
        Node_ = Node(self, (), {}, tensor)
        self._tandem_inbound.append(Node_)
        self._tandem_batch_input_shape = self.batch_shape

    @property
    def dtype(self):
        return self._input_dtype

    def call(self, *args):
        raise NotImplementedError

    def get_config(self):
        return {"batch_shape": self.batch_shape, "dtype": self._input_dtype, "sparse": self.sparse, "ragged": self.ragged, "name": self.name, "optional": self.optional}


def Input(shape=None, batch_size=None, dtype=None, sparse=None, ragged=None, batch_shape=None, name=None, tensor=None, optional=False):
    """The input of a model that is described from here on."""
    layer = InputLayer(shape, batch_size, dtype, sparse, ragged, batch_shape, tensor, optional, name)
    return layer.output
