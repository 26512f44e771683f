"""Models: layers made of layers, described by their inputs and outputs, one after the other, or by a class."""

import copy
import pickle
import warnings

import _tandem
from tandem import _ops, nest
from tandem._tensors.tensor import Tensor
from tandem.keras import _objects
from tandem.keras._layer import InputLayer, Layer
from tandem.keras._symbolic import KerasTensor, Node, _filled, _leaves, any_symbolic, describe
from tandem.keras._calls import _shape_of, call_context
from tandem.keras._trainer import Trainer


class _Graph:
    """The calls between inputs and outputs, in an order in which they can be made."""

    def __init__(self, inputs, outputs):
        self.inputs, self.outputs = inputs, outputs
        self.flat_inputs = [t for t in nest.flatten(inputs)]
        known = {id(t) for t in self.flat_inputs}
        order, seen = [], set()
        self.missing = None  # The name of an input that the outputs depend on and the model does not have; as in Keras it cannot be called.
        met = {}  # Operations by the order in which a walk from the outputs meets them.

        def visit(tensor):
            stack = [(tensor, False)]
            while stack:
                current, done = stack.pop()
                node = current._node
                if done:
                    if id(node) not in seen:
                        seen.add(id(node))
                        order.append(node)
                    continue
                if node is not None and id(node) not in seen:
                    met.setdefault(id(node.operation), len(met))
                if id(current) in known or node is None or id(node) in seen:
                    continue
                if isinstance(node.operation, InputLayer):
                    self.missing = self.missing or current.name
                    continue
                stack.append((current, True))
                for source in reversed(node.inputs):
                    stack.append((source, False))

        for t in nest.flatten(outputs):
            if isinstance(t, KerasTensor):
                visit(t)
        self.nodes = order
        self.operations = self._by_depth(met)

    def _by_depth(self, met):
        """Operations as Keras lists them: by their distance from the outputs, those far away first."""
        starts = [t._node for t in self.flat_inputs if t._node is not None]
        depths, operations = {}, {}
        for node in self.nodes[::-1] + starts:
            operation = node.operation
            own = max(depths.get(id(node), 0), operations.get(id(operation), (0, None))[0])
            operations[id(operation)] = (own, operation)
            if node not in starts:
                for source in node.inputs:
                    if source._node is not None:
                        depths[id(source._node)] = max(depths.get(id(source._node), 0), own + 1)
        # Inputs that lead nowhere come first among those at the end.
        return [o for _, o in sorted(operations.values(), key=lambda d: (-d[0], met.get(id(d[1]), -1)))]

    def run(self, given, training=None):
        """The outputs. A `training` that is given goes before what the layers were described with, as in Keras."""
        if self.missing is not None:
            raise ValueError(f"Graph disconnected: the output depends on the input {self.missing!r}, which is not among the model's inputs")
        values = {id(t): v for t, v in zip(self.flat_inputs, given)}
        for node in self.nodes:
            kwargs = _filled(node.kwargs, values)
            if training is not None and kwargs.get("training") is not None and isinstance(node.operation, Layer):
                kwargs["training"] = training
            result = node.operation(*_filled(node.args, values), **kwargs)
            for output, value in zip(_leaves(node.outputs), nest.flatten(result)):
                if isinstance(output, KerasTensor):
                    values[id(output)] = value
        return _filled(self.outputs, values)


def _alone(outputs):
    """A list of one output as that output, which Keras's models give where they are computed."""
    return outputs[0] if isinstance(outputs, (list, tuple)) and len(outputs) == 1 else outputs


def _begun_at_inputs(graph):
    """The graph, where it begins with inputs; one that begins between layers gets inputs of its own there, as in Keras."""
    is_input = [t._node is None or isinstance(t._node.operation, InputLayer) for t in graph.flat_inputs]
    if all(is_input) or graph.missing is not None:
        return graph
    given = [t if keeps else InputLayer(batch_shape=t.shape, dtype=t.dtype, name=f"{t.name}CLONE")._tandem_inbound[0].outputs for t, keeps in zip(graph.flat_inputs, is_input)]
    inputs = nest.pack_sequence_as(graph.inputs, given) if nest.is_nested(graph.inputs) else given[0]
    return _Graph(inputs, graph.run(given))


def _only(shapes):
    return shapes[0] if len(shapes) == 1 else shapes


class Function:
    """What is computed between symbolic inputs and outputs, as a function of values or of other symbolic tensors."""

    def __init__(self, inputs, outputs, name=None):
        self.name = name or _objects.auto_name("function")
        self._graph = _Graph(inputs, outputs)
        if self._graph.missing is not None:
            raise ValueError(f"`inputs` not connected to `outputs`: the outputs depend on {self._graph.missing!r}, which is not among the inputs")

    @property
    def inputs(self):
        """What stands for the inputs, as a list."""
        return list(self._graph.flat_inputs)

    @property
    def outputs(self):
        """What stands for the outputs, as a list."""
        return nest.flatten(self._graph.outputs)

    @property
    def operations(self):
        """The layers and ops, in order."""
        return list(self._graph.operations)

    @property
    def variables(self):
        """The variables of the layers."""
        return [v for o in self.operations for v in o.variables]

    def __call__(self, inputs):
        if any_symbolic((inputs,), {}):
            return describe(self, (inputs,), {})
        given = nest.flatten(inputs)
        if len(given) != len(self._graph.flat_inputs):
            raise ValueError(f"Function {self.name!r} expected {len(self._graph.flat_inputs)} input(s). Received {len(given)} instead.")
        return self._graph.run([_tandem.convert(g) for g in given])

    def compute_output_spec(self, inputs):
        """What stands for the outputs, for inputs of the given kinds."""
        return self(inputs)

    def compute_output_shape(self, input_shape):
        """The shape of the outputs, for inputs of a shape."""
        is_one = isinstance(input_shape, (tuple, list)) and all(s is None or isinstance(s, int) for s in input_shape)
        shapes = [input_shape] if is_one else list(input_shape.values() if isinstance(input_shape, dict) else input_shape)
        result = self([KerasTensor(s, t.dtype) for s, t in zip(shapes, self._graph.flat_inputs)])
        return nest.map_structure(lambda t: t.shape, result) if nest.is_nested(result) else result.shape


class Model(Trainer, Layer):
    """A layer that can be trained."""

    _tandem_graph_with_losses = None

    def __new__(cls, *args, **kwargs):
        if cls is Model and ("inputs" in kwargs or args and _has_symbolic(args[0])):
            cls = Functional
        return Layer.__new__(cls, *args, **kwargs)

    def __init__(self, *args, **kwargs):
        inputs, outputs = kwargs.pop("inputs", None), kwargs.pop("outputs", None)
        if args and inputs is None and outputs is None and _has_symbolic(args[0]):
            inputs = args[0]
            if len(args) > 1:
                outputs = args[1]
            if len(args) > 2:
                kwargs["name"] = args[2]
            args = ()
        if inputs is not None and outputs is None:
            raise ValueError("Model: `outputs` is missing")
        if inputs is not None and "name" not in kwargs and type(self) is Functional:
            kwargs["name"] = _objects.auto_name("functional")
        Layer.__init__(self, **kwargs)
        Trainer.__init__(self)
        self._tandem_graph = None
        if inputs is not None:
            self._set_graph(inputs, outputs)

    def _set_graph(self, inputs, outputs):
        self._tandem_graph = _begun_at_inputs(_Graph(inputs, outputs))
        self._graph_layers = [o for o in self._tandem_graph.operations if isinstance(o, Layer)]
        self.built = True

    # ---- What it is made of ----

    @property
    def layers(self):
        """The layers, in order."""
        if self._tandem_graph is not None:
            return list(self._graph_layers)
        return self._own_layers()

    @layers.setter
    def layers(self, value):
        raise AttributeError("`Model.layers` attribute is reserved and should not be used. Please use another name.")

    @property
    def operations(self):
        """The layers and ops, in order."""
        return list(self._tandem_graph.operations) if self._tandem_graph is not None else self.layers

    def get_layer(self, name=None, index=None):
        """The layer with a name or at an index."""
        if index is not None:
            if len(self.layers) <= index:
                raise ValueError(f"Was asked to retrieve layer at index {index} but model only has {len(self.layers)} layers.")
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name}. Existing layers are: {[l.name for l in self.layers]}.")

    def _graph_or_fail(self, what):
        if self._tandem_graph is None:
            raise AttributeError(f"The model {self.name} was not described by inputs and outputs and has no {what}.")
        return self._tandem_graph

    @property
    def inputs(self):
        """What stands for the inputs, as a list."""
        return list(self._graph_or_fail("inputs").flat_inputs) if self._tandem_graph is not None else None

    @property
    def outputs(self):
        """What stands for the outputs, as a list."""
        return nest.flatten(self._graph_or_fail("outputs").outputs) if self._tandem_graph is not None else None

    @property
    def input(self):
        """What stands for the input."""
        graph = self._graph_or_fail("input")
        return graph.inputs

    @property
    def output(self):
        """What stands for the output."""
        return self._graph_or_fail("output").outputs

    @property
    def input_shape(self):
        """The shape of the input."""
        return _only([t.shape for t in nest.flatten(self.input)])

    @property
    def output_shape(self):
        """The shape of the output."""
        return _only([t.shape for t in nest.flatten(self.output)])

    @property
    def input_names(self):
        """The names of the inputs."""
        return [t._node.operation.name if t._node is not None else t.name for t in self.inputs]

    @property
    def output_names(self):
        """The names of the outputs: those of their layers, as in Keras, so that outputs of one layer have one name."""
        return [t._node.operation.name for t in self.outputs]

    # ---- Running ----

    def call(self, inputs, training=None, mask=None):
        if self._tandem_graph is None:
            raise NotImplementedError(f"Model {type(self).__name__} does not have a `call()` method implemented.")
        if self._tandem_graph_with_losses is None:
            return _alone(self._tandem_graph.run(self._ordered(inputs), training))
        outputs, *losses = self._tandem_graph_with_losses.run(self._ordered(inputs), training)
        for each in losses:
            Layer.add_loss(self, _ops.reduce_mean(each))
        return _alone(outputs)

    def add_loss(self, loss):
        """Adds losses; those of described tensors are computed with each call, as the model's outputs are."""
        described = [each for each in nest.flatten(loss) if isinstance(each, KerasTensor)]
        Layer.add_loss(self, [each for each in nest.flatten(loss) if not isinstance(each, KerasTensor)])
        if not described:
            return
        graph = self._graph_or_fail("described losses")
        before = self._tandem_graph_with_losses.outputs[1:] if self._tandem_graph_with_losses is not None else []
        self._tandem_graph_with_losses = _Graph(graph.inputs, [graph.outputs, *before, *described])
        known = {id(layer) for layer in self._graph_layers}
        self._graph_layers += [o for o in self._tandem_graph_with_losses.operations if isinstance(o, Layer) and id(o) not in known]

    def _ordered(self, inputs):
        """The inputs in the order in which the model was described, by name where they are a dictionary."""
        graph = self._tandem_graph
        if isinstance(inputs, dict):
            if isinstance(graph.inputs, dict):
                given = nest.flatten([inputs[k] for k in sorted(graph.inputs)])
            else:
                names = self.input_names
                missing = [n for n in names if n not in inputs]
                if missing:
                    raise ValueError(f"Missing data for input {missing[0]!r}. You passed a data dictionary with keys {list(inputs)}. Expected the following keys: {names}")
                given = [inputs[n] for n in names]
        else:
            given = nest.flatten(inputs)
        if len(given) != len(graph.flat_inputs):
            raise ValueError(f"Layer {self.name!r} expected {len(graph.flat_inputs)} input(s). Received {len(given)} instead.")
        return [self._fitted(g, t) for g, t in zip(given, graph.flat_inputs)]

    def _numbers_of_texts(self, inputs):
        """The inputs with numbers in the place of texts, where a text layer is the only one to see them."""
        graph = self._tandem_graph
        if graph is None:
            return inputs
        layers = [self._text_layer_of(t) for t in graph.flat_inputs]

        def numbers(value, layer, declared):
            if layer is None or not getattr(value, "_is_text_tensor", False):
                return value
            return layer(self._fitted(value, declared))

        if isinstance(inputs, dict):
            names = sorted(graph.inputs) if isinstance(graph.inputs, dict) else self.input_names
            declared = dict(zip(names, graph.flat_inputs))
            return {**inputs, **{n: numbers(inputs[n], layer, declared[n]) for n, layer in zip(names, layers) if n in inputs}}
        if isinstance(inputs, (list, tuple)):
            return type(inputs)(map(numbers, inputs, layers, graph.flat_inputs)) if len(inputs) == len(layers) else inputs
        return numbers(inputs, layers[0], graph.flat_inputs[0])

    def _text_layer_of(self, tensor):
        users = [n.operation for n in self._tandem_graph.nodes if any(i is tensor for i in n.inputs)]
        return users[0] if len(users) == 1 and getattr(users[0], "_takes_texts", False) and not hasattr(users[0], "_looked_up") else None

    def _fitted(self, value, declared):
        if declared.dtype == "string":
            is_column = getattr(value, "_is_text_tensor", False) and value.ndim == len(declared.shape) - 1 and declared.shape[-1] == 1
            return _ops.expand_dims(value, -1) if is_column else value
        if not isinstance(value, Tensor):
            if getattr(value, "_is_text_tensor", False) or hasattr(value, "_ragged_rows"):
                return value
            value = _tandem.convert(value)
        rank = len(declared.shape)
        if value._rank == rank - 1 and declared.shape[-1] == 1:
            value = _tandem.expand_dims(value, -1)
        elif value._rank == rank + 1 and value._sizes[-1] == 1:
            value = _tandem.squeeze(value, [-1])
        if value._rank != rank or any(
            d is not None and not isinstance(s, _tandem.Size) and s != d for s, d in list(zip(value._sizes, declared.shape))[1:]
        ):
            raise ValueError(f"Input {declared.name!r} of model {self.name!r} is incompatible: expected shape={declared.shape}, found shape={tuple(_shape_of(value))}")
        if declared.dtype.startswith("float") and not value.dtype.is_floating:
            value = _tandem.cast(value, 0)
        elif not declared.dtype.startswith("float") and value.dtype.is_floating and declared.dtype.startswith(("int", "uint")):
            value = _tandem.cast(value, 6 if declared.dtype == "int64" else 5)
        return value

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def build(self, input_shape=None):
        if self.built or input_shape is None:
            self.built = True
            return
        shape = tuple(input_shape) if not isinstance(input_shape, (dict, list)) or (isinstance(input_shape, list) and not isinstance(input_shape[0], (list, tuple))) else input_shape
        if isinstance(shape, tuple) and shape and not isinstance(shape[0], (tuple, list)):
            given = KerasTensor(shape)
        elif isinstance(shape, dict):
            given = {k: KerasTensor(s) for k, s in shape.items()}
        else:
            given = [KerasTensor(s) for s in shape]
        self.built = True
        self.__dict__["_tandem_built_for"] = shape
        self.compute_output_spec(given)

    build._is_default = True  # A first call needs no shapes: it has the tensors.

    def _build_by_run(self, args, kwargs):
        self.built = True

    def _describe_call(self, args, kwargs):
        outputs = self.compute_output_spec(*args, **kwargs)
        self.built = True
        node = Node(self, args, kwargs, outputs)
        self._tandem_inbound.append(node)
        return outputs

    def reset_states(self):
        """Lets stateful layers begin anew, as models of Keras 2 do."""
        for layer in self._flatten_layers(include_self=False):
            if getattr(layer, "stateful", False) and hasattr(layer, "reset_states"):
                layer.reset_states()

    # ---- For people ----

    def summary(self, line_length=None, positions=None, print_fn=None, expand_nested=False, show_trainable=False, layer_range=None):
        """Prints a table of the layers, their output shapes and numbers of weights."""
        from tandem.keras.utils._summary import summary_text

        text = summary_text(self, line_length, expand_nested, show_trainable, positions, layer_range)
        if print_fn is None:
            print(text)
        else:
            print_fn(text + "\n")

    def _repr_html_(self):
        import html

        from tandem.keras.utils._summary import summary_text

        return f"<pre>{html.escape(summary_text(self))}</pre>"

    # ---- Files ----

    def save(self, filepath, overwrite=True, include_optimizer=True, save_format=None, **kwargs):
        """Writes the model to a .keras or .h5 file."""
        from tandem.keras import saving

        saving.save_model(self, filepath, overwrite=overwrite, include_optimizer=include_optimizer, save_format=save_format)

    def save_weights(self, filepath, overwrite=True, save_format=None, **kwargs):
        """Writes the weights to a .weights.h5 file."""
        from tandem.keras import saving

        saving.save_weights(self, filepath, overwrite)

    def load_weights(self, filepath, skip_mismatch=False, by_name=False, **kwargs):
        """Reads the weights from a file."""
        from tandem.keras import saving

        return saving.load_weights(self, filepath, skip_mismatch, by_name)

    def export(self, filepath, format="tf_saved_model", verbose=None, **kwargs):
        """The model for tf.saved_model.load: a folder with a `.keras` file in it."""
        from tandem.keras import saving

        saving.save_model(self, filepath, include_optimizer=False)

    def to_json(self, **kwargs):
        """The configuration as JSON."""
        import json

        from tandem.keras import saving

        return json.dumps(saving.described(self), **{"default": str, **kwargs})

    def get_build_config(self):
        graph = self._tandem_graph
        if graph is None:
            return super().get_build_config()
        return {"input_shape": tuple(graph.flat_inputs[0].shape) if isinstance(self, Sequential) else None}

    def get_config(self):
        if self._tandem_graph is not None and type(self).get_config is Model.get_config:
            from tandem.keras import saving

            return saving.functional_config(self)
        return Layer.get_config(self)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The model of its configuration, with new weights."""
        if "input_layers" in config and "layers" in config:
            from tandem.keras import saving

            return saving.functional_from_config(cls, config, custom_objects)
        try:
            return cls(**config)
        except TypeError:
            # A class of the user's that takes nothing of what all models have in their configurations is made without it.
            own = {key: value for key, value in config.items() if key not in ("name", "trainable", "dtype")}
            if own:
                raise
            return cls()

    def __getstate__(self):
        if self._tandem_graph is None:
            return Layer.__getstate__(self)
        values = self._described_state()
        try:
            pickle.dumps(values["compiled"])
        except Exception as error:  # As of a loss that is a lambda.
            warnings.warn(f"{self.name} is pickled without what compile() was given: {error}", stacklevel=2)
            values["compiled"] = None
        return values

    def _described_state(self):
        """What a described model is made of again: its configuration, its values, and how it was compiled."""
        own = {type(layer) for layer in self._flatten_layers() if not type(layer).__module__.startswith("tandem.")}
        compiled = None
        if self.compiled and self._compile_config is not None:
            compiled = {**self._compile_config, "optimizer": self.optimizer, "run_eagerly": self._run_eagerly, "steps_per_execution": self.steps_per_execution}
        return {"described": self.get_config(), "classes": {cls.__name__: cls for cls in own}, "weights": self.get_weights(), "compiled": compiled}

    def __setstate__(self, values):
        if "described" not in values:
            Layer.__setstate__(self, values)
            self.__dict__.setdefault("_tandem_graph", None)
            return
        from tandem.keras import saving

        with saving.CustomObjectScope(values["classes"]):
            other = type(self).from_config(values["described"])
        self.__dict__.update(other.__dict__)
        self.set_weights(values["weights"])
        if values["compiled"] is not None:
            self.compile(**values["compiled"])

    def __deepcopy__(self, memo):
        if self._tandem_graph is None:
            return Layer.__deepcopy__(self, memo)
        other = memo[id(self)] = type(self).__new__(type(self))
        other.__setstate__(copy.deepcopy(self._described_state(), memo))
        return other


def _has_symbolic(value):
    return any(isinstance(leaf, KerasTensor) for leaf in _leaves(value))


class Functional(Model):
    """A model that is described by its inputs and outputs: what Model(inputs, outputs) gives."""


class Sequential(Model):
    """Layers one after another."""

    def __init__(self, layers=None, trainable=True, name=None):
        Layer.__init__(self, name=name or _objects.auto_name("sequential"), trainable=trainable)
        Trainer.__init__(self)
        self._tandem_graph = None
        self._stack = []
        self._input_layer = None
        if layers is not None and not isinstance(layers, (list, tuple)):
            layers = [layers]
        for layer in layers or ():
            self.add(layer, False)
        self._try_graph()

    def add(self, layer, rebuild=True):
        """Adds a layer at the end."""
        if isinstance(layer, KerasTensor):
            layer = layer._node.operation
        if not isinstance(layer, Layer):
            if callable(layer):
                from tandem.keras.layers import Lambda

                layer = Lambda(layer)
            else:
                raise ValueError(f"Only instances of `keras.Layer` can be added to a Sequential model. Received: {layer} (of type {type(layer)})")
        if isinstance(layer, InputLayer):
            if self._stack:
                raise ValueError(f"Sequential model '{self.name}' has already been configured to use input shape. You cannot add a different Input layer to it.")
            self._input_layer = layer
        else:
            if any(l is not layer and l.name == layer.name for l in self._stack):
                raise ValueError(f"All layers added to a Sequential model should have unique names. Name '{layer.name}' is already the name of a layer in this model.")
            if not self._stack and self._input_layer is None:
                shape = layer._tandem_batch_input_shape
                if shape is None and isinstance(layer, Model) and layer._tandem_graph is not None and len(layer.inputs) == 1:
                    shape = layer.inputs[0].shape
                if shape is not None:
                    dtype = layer.__dict__.get("_tandem_input_dtype") or ("int32" if type(layer).__name__ == "Embedding" else None)
                    self._input_layer = InputLayer(batch_shape=shape, dtype=dtype)
            self._stack.append(layer)
        if rebuild:
            self._try_graph()

    def pop(self, rebuild=True):
        """Takes the last layer away and returns it."""
        layer = self._stack.pop()
        self._tandem_graph = None
        self.built = False
        self.__dict__.pop("_tandem_functions", None)
        self._try_graph()
        return layer

    def _try_graph(self):
        """Describes the model where its input is known."""
        self._tandem_functions = {}
        if self._input_layer is None or not self._stack:
            return
        x = start = self._input_layer._inbound_nodes[0].outputs
        with call_context.within(self._name):
            for layer in self._stack:
                x = layer(x)
        self._set_graph(start, x)
        _objects.auto_name("functional")  # The name that Keras gives to the graph within.

    @property
    def layers(self):
        """The layers, in order."""
        return list(self._stack)

    def _own_layers(self):
        return list(self._stack)

    def build(self, input_shape=None):
        if self.built and self._tandem_graph is not None:
            return
        if input_shape is None:
            return
        shape = tuple(input_shape)
        if self._input_layer is None:
            dtype = "int32" if self._stack and type(self._stack[0]).__name__ == "Embedding" else None
            self._input_layer = InputLayer(batch_shape=shape, dtype=dtype)
        self._try_graph()
        self.built = True

    def _build_for(self, args, kwargs):
        value = args[0] if args else None
        if isinstance(value, (Tensor, KerasTensor)) and self._stack:
            shape = _shape_of(value)
            if isinstance(value, Tensor) and shape:
                keeps_rows = any(getattr(layer, "stateful", False) for layer in self._stack)
                shape = ((call_context.rows or shape)[0] if keeps_rows else None,) + tuple(shape[1:])
            from tandem._tracing.state import init_scope

            with self._strategy_scope(), init_scope():
                self._input_layer = InputLayer(batch_shape=shape, dtype=value.dtype if isinstance(value, KerasTensor) else value.dtype.name)
                self.__dict__["_tandem_takes_any_shape"] = True  # Nobody said what it takes: that was the first input's.
                built_for = self.__dict__["_tandem_built_for"] = call_context.built_for(value)
                self.__dict__["_tandem_built_rows"] = built_for[0] if built_for else None
                self._try_graph()
        self.built = True

    def __call__(self, *args, **kwargs):
        if args and isinstance(args[0], (list, tuple)) and len(args[0]) == 1 and isinstance(args[0][0], (Tensor, KerasTensor)):
            args = (args[0][0],) + args[1:]  # A batch of x alone, as data sets have it.
        return super().__call__(*args, **kwargs)

    def call(self, inputs, training=None, mask=None):
        x = inputs
        if isinstance(x, Tensor) and self._tandem_graph is not None and x._rank:
            x = self._fitted_softly(x)
        for layer in self._stack:
            x = layer(x)
        return x

    def _numbers_of_texts(self, inputs):
        for layer in self._stack:
            if not getattr(layer, "_takes_texts", False):
                return inputs
            if hasattr(layer, "_looked_up"):
                return layer._looked_up(inputs) if isinstance(inputs, dict) else inputs
            inputs = layer(inputs)
        return inputs

    def _fitted_softly(self, x):
        declared = self._tandem_graph.flat_inputs[0]
        if declared.dtype == "string":
            return x
        if x._rank == len(declared.shape):
            mask = getattr(x, "_keras_mask", None)
            if declared.dtype.startswith("float") and not x.dtype.is_floating:
                x = _tandem.cast(x, 0)
                if mask is not None:
                    x._keras_mask = mask
            wrong = [(s, d) for s, d in list(zip(x._sizes, declared.shape))[1:] if d is not None and not isinstance(s, _tandem.Size) and s != d]
            if wrong and not self.__dict__.get("_tandem_takes_any_shape"):
                raise ValueError(f"Exception encountered when calling Sequential.call(): Input of model {self.name!r} is incompatible: expected shape={declared.shape}, found shape={_shape_of(x)}")
            return x
        return self._fitted(x, declared)

    def compute_output_shape(self, input_shape):
        return Layer.compute_output_shape(self, input_shape)

    def get_config(self):
        from tandem.keras import saving

        layers = ([self._input_layer] if self._input_layer is not None else []) + self._stack
        config = {"name": self.name, "trainable": self._trainable, "dtype": self._dtype_policy.as_config(), "layers": [saving.serialize_keras_object(l) for l in layers]}
        return config if self._input_layer is None else {**config, "build_input_shape": self._input_layer.batch_shape}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        from tandem.keras import saving

        model = cls(name=config.get("name"))
        for each in config["layers"]:
            model.add(saving.deserialize_keras_object(each, custom_objects), False)
        if model._input_layer is None and config.get("build_input_shape"):
            model._input_layer = InputLayer(batch_shape=tuple(config["build_input_shape"]))
        model._try_graph()
        return model


def clone_model(model, input_tensors=None, clone_function=None, call_function=None, recursive=False, **kwargs):
    """A model of the same layers with weights of its own."""
    from tandem.keras import saving

    if clone_function is None:
        own = {type(layer).__name__: type(layer) for layer in model._flatten_layers() if not type(layer).__module__.startswith("tandem")}
        with saving.CustomObjectScope(own):
            return _compiled_alike(type(model).from_config(model.get_config()), model)
    if isinstance(model, Sequential):
        other = Sequential(name=model.name)
        if model._input_layer is not None:
            other.add(InputLayer(batch_shape=model._input_layer.batch_shape, dtype=model._input_layer._input_dtype))
        for layer in model.layers:
            other.add(clone_function(layer))
        return _compiled_alike(other, model)
    return _compiled_alike(saving.cloned(model, clone_function), model)


def _compiled_alike(other, model):
    """A clone of a model, compiled as the model is, with an optimizer of its own."""
    if model.compiled and not other.compiled:
        settings = dict(model.get_compile_config() or {})
        if hasattr(model.optimizer, "get_config") and settings.get("optimizer") is not None:
            settings["optimizer"] = type(model.optimizer).from_config(model.optimizer.get_config())
        other.compile_from_config(settings)
    return other
