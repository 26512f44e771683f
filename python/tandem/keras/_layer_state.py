"""What layers hold: other layers, variables, losses and metrics."""

import contextlib

import numpy as np

import _tandem
from tandem import dtypes, nest
from tandem._tensors.tensor import Tensor
from tandem._tracing.state import init_scope, state
from tandem.keras import _objects, initializers, regularizers
from tandem.keras._calls import call_context
from tandem.keras._variable import KerasVariable


class LayerState:
    """What a layer holds, and what it can be asked about that."""

    def _walk(self):
        """The variables and layers among the attributes, in the order they were set, also in lists and dictionaries."""
        seen = set()

        def walk(value):
            if isinstance(value, (LayerState, _tandem.Variable)):
                if id(value) not in seen:
                    seen.add(id(value))
                    yield value
            elif isinstance(value, (list, tuple)):
                for each in value:
                    if isinstance(each, (LayerState, _tandem.Variable, list, tuple, dict)):
                        yield from walk(each)
            elif isinstance(value, dict):
                for each in value.values():
                    if isinstance(each, (LayerState, _tandem.Variable, list, tuple, dict)):
                        yield from walk(each)

        for weight in self.__dict__.get("_tandem_own_weights", ()):
            yield from walk(weight)
        for name, value in list(self.__dict__.items()):
            if not name.startswith("_tandem_") and name != "_init_args":
                yield from walk(value)

    def _own_layers(self):
        return [v for v in self._walk() if isinstance(v, LayerState)]

    def _own_variables(self):
        return [v for v in self._walk() if isinstance(v, _tandem.Variable)]

    @property
    def submodules(self):
        """The layers within this one."""
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
        """The weights of this layer and of those within it."""
        return [v for v in self._collect() if not getattr(v, "_is_seed", False)]

    @property
    def variables(self):
        """The weights, and the states of metrics and random generators."""
        return self._collect()

    @property
    def trainable_variables(self):
        """Those of the variables that are trained."""
        return self._collect(True) if self._trainable else []

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self):
        """Those of the variables that are not trained."""
        return self._collect(False) if self._trainable else self.weights

    non_trainable_weights = non_trainable_variables

    @property
    def metrics(self):
        """The metrics of this layer and of those within it, but for models, whose metrics are those of their own training."""
        from tandem.keras._trainer import Trainer

        found = []
        for layer in self._flatten_layers():
            if layer is not self and isinstance(layer, Trainer):
                continue
            found += [each for each in layer._own_metrics() if not any(each is f for f in found)]
        return found

    def _own_metrics(self):
        """The metrics that are attributes of this layer itself."""
        from tandem.keras.metrics import Metric

        values = [value for held in vars(self).values() for value in (held if isinstance(held, (list, tuple)) else held.values() if isinstance(held, dict) else (held,))]
        return [value for i, value in enumerate(values) if isinstance(value, Metric) and not any(value is v for v in values[:i])]

    metrics_variables = property(lambda self: [v for m in self.metrics for v in m.variables], doc="The variables of the metrics.")

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
        name = name or _objects.auto_name("variable")
        with self._strategy_scope(), init_scope() if state.tracing else contextlib.nullcontext():
            variable = KerasVariable(
                initializers.get(initializer),
                shape=shape,
                dtype=dtype,
                trainable=trainable,
                aggregation=aggregation if aggregation not in (None, "none") or trainable else "mean",
                name=name.rsplit("/", 1)[-1],
                path=f"{'/'.join(self._path_in_call())}/{name}",
                regularizer=regularizers.get(regularizer),
                constraint=constraints.get(constraint),
            )
        self._tandem_own_weights.append(variable)
        if self.__dict__.get("_tandem_node") is not None:
            from tandem._tensors import tracking as _tracking

            _tracking.sync(self)
        return variable

    add_variable = add_weight

    def _path_in_call(self):
        """The layers within whose calls this one makes its weights, and this one."""
        path = call_context.path
        return path if path[-1:] == [self._name] else path + [self._name]

    def _strategy_scope(self):
        strategy = self.__dict__.get("_tandem_strategy")
        if strategy is None or state.in_replica:
            return contextlib.nullcontext()
        from tandem import distribute

        if distribute.has_strategy():
            return contextlib.nullcontext()
        return strategy.scope()

    def add_loss(self, loss):
        """Adds a term to the loss of the model that calls this layer."""
        for each in nest.flatten(loss):
            self._tandem_losses.append(each)

    def add_metric(self, *args, **kwargs):
        """Keras 3 has no such method; says what to do instead."""
        raise NotImplementedError("Layer `add_metric()` method is deprecated. Add your metric in `Model.compile(metrics=[...])`.")

    def _clear_losses(self):
        for layer in self._flatten_layers():
            layer.__dict__.get("_tandem_losses", []).clear()

    @property
    def losses(self):
        """The terms that were added to the loss in the last call, with those of regularizers."""
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
        """The values of the weights as a list of arrays."""
        return [np.array(w.numpy()) for w in self.weights]

    def set_weights(self, weights):
        """Assigns the weights."""
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
        """The number of elements of all weights."""
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on layer '{self.name}', but the layer isn't built.")
        return sum(int(np.prod(w.shape.as_list())) if w.shape.rank else 1 for w in self.weights)
