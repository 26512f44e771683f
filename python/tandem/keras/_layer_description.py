"""Layers as others see them: places in a described model, configurations, copies and files."""

import inspect

import numpy as np

from tandem.keras._calls import _shape_of


def _plain_layer():
    from tandem.keras._layer import Layer

    return Layer


def _described(name, value):
    """An argument of a layer as it stands in its configuration. Objects of the user's classes stand for themselves."""
    from tandem.keras import activations, saving

    if name.endswith("activation"):
        value = activations.get(value)
        return value.__name__ if getattr(activations, getattr(value, "__name__", ""), None) is value else value
    is_ours = type(value).__module__.startswith("tandem.keras.")
    return saving.serialize_keras_object(value) if is_ours and hasattr(value, "get_config") else value


class LayerDescription:
    """What a layer says of itself."""

    # ---- As part of a described model ----

    def _only_node(self, what):
        if not self._inbound_nodes:
            raise AttributeError(f"The layer {self.name} has never been called and thus has no defined {what}.")
        return self._inbound_nodes[0]

    @property
    def input(self):
        """What stands for the layer's input in the described model it was first used in."""
        node = self._only_node("input")
        first = node.args[0] if node.args else node.inputs
        return first

    @property
    def output(self):
        """What stands for the layer's output in the described model it was first used in."""
        return self._only_node("output").outputs

    def get_input_at(self, node_index):
        """The input of one of its uses."""
        node = self._inbound_nodes[node_index]
        return node.args[0] if node.args else node.inputs

    def get_output_at(self, node_index):
        """The output of one of its uses."""
        return self._inbound_nodes[node_index].outputs

    @property
    def input_shape(self):
        """The shape of its input."""
        return _shape_of(self.input)

    @property
    def output_shape(self):
        """The shape of its output."""
        return _shape_of(self.output)

    # ---- Configurations ----

    def get_config(self):
        """The arguments of which from_config makes the layer again."""
        config = {"name": self.name, "trainable": self._trainable, "dtype": self._dtype_policy.described()}
        ours = next(c for c in type(self).__mro__ if c.__module__.startswith("tandem") and "__init__" in vars(c))
        if type(self).__init__ is not ours.__init__ and type(self).get_config is LayerDescription.get_config:
            config.update(self._given_arguments())
        elif ours is not _plain_layer():
            given = self._given_arguments() if type(self).__init__ is ours.__init__ else {}
            config.update(self._described_arguments(ours, given))
        if self._tandem_batch_input_shape is not None:
            config["batch_input_shape"] = self._tandem_batch_input_shape
        return config

    def _given_arguments(self):
        """What the constructor was called with, by name."""
        args, kwargs = self._init_args
        try:
            bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
        except TypeError:
            return {}
        given = {}
        for name, value in list(bound.arguments.items())[1:]:
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                given.update({k: v for k, v in value.items() if k not in ("weights", "input_shape", "input_dim", "batch_input_shape", "dtype")})
            elif kind is not inspect.Parameter.VAR_POSITIONAL and name != "dtype":
                given[name] = value
        return given

    def _described_arguments(self, ours, given):
        return {name: _described(name, value) for name, value in self._arguments_of(ours, given)}

    def _arguments_of(self, ours, given):
        """The arguments of the constructor of a class of ours with what has become of them: names and values. Where it takes
        any keywords, those of the class that it derives from follow."""
        seen = {"self", "name", "trainable", "dtype", "weights", "lora_rank", "lora_alpha", *ours._fixed_arguments}
        for each in ours.__mro__[: ours.__mro__.index(_plain_layer())]:
            if "__init__" not in vars(each):
                continue
            parameters = inspect.signature(each.__init__).parameters
            for name, parameter in parameters.items():
                if name in seen or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                    continue
                seen.add(name)
                value = given.get(name, parameter.default)
                own = self.__dict__.get(name)
                if isinstance(own, (bool, int, float, str, tuple)) or own is not None and (value is parameter.empty or isinstance(value, str) or callable(own)):
                    value = own
                if value is not parameter.empty and (each is ours or name in self.__dict__):
                    yield name, value
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                break
        yield from ((name, value) for name, value in given.items() if name not in seen)

    @classmethod
    def from_config(cls, config):
        """The layer of its configuration."""
        from tandem.keras import saving

        is_layer = lambda v: isinstance(v, dict) and v.get("module") == "keras.layers" and "config" in v  # noqa: E731
        return cls(**{k: saving.deserialize_keras_object(v) if is_layer(v) else v for k, v in config.items()})

    def get_build_config(self):
        """What build_from_config needs to make its weights again."""
        return None

    def build_from_config(self, config):
        """Makes its weights as they were made."""

    def save_own_variables(self, store):
        """Puts its own weights into a store."""
        for i, v in enumerate(self._own_saved()):
            store[str(i)] = v

    def load_own_variables(self, store):
        """Takes its own weights from a store."""
        own = self._own_saved()
        if len(store.keys()) != len(own):
            raise ValueError(f"Layer '{self.name}' expected {len(own)} variables, but received {len(store.keys())} variables during loading.")
        for i, v in enumerate(own):
            v.assign(np.asarray(store[str(i)]))

    def _own_saved(self):
        own = self._own_variables()
        return [v for v in own if v.trainable] + [v for v in own if not v.trainable]

    def _trackable_children(self):
        from tandem._tensors.tracking import is_trackable

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
        other._has_just_been_copied()
        return other

    def _has_just_been_copied(self):
        """What belongs to the original alone begins anew."""
        self.__dict__["_tandem_inbound"] = []
        self.__dict__["_tandem_strategy"] = None
        if hasattr(self, "train_step"):
            self.__dict__["_tandem_functions"] = {}

    def __getstate__(self):
        left_out = ("_tandem_inbound", "_tandem_node", "_tandem_strategy", "_tandem_functions", "_tandem_graph")
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __setstate__(self, values):
        self.__dict__.update(values)
        self._has_just_been_copied()

    def __repr__(self):
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"

    def quantize(self, mode, **kwargs):
        """There is no quantization here: says so."""
        raise NotImplementedError("quantize: tandem has no quantised layers")

    def stateless_call(self, trainable_variables, non_trainable_variables, *args, return_losses=False, **kwargs):
        """Calls the layer with other values of its variables, which are as they were afterwards."""
        variables = list(self.trainable_variables) + list(self.non_trainable_variables)
        given = list(trainable_variables) + list(non_trainable_variables)
        kept = [v.read_value() for v in variables]
        for v, value in zip(variables, given):
            v.assign(value)
        outputs = self(*args, **kwargs)
        changed = [v.read_value() for v in self.non_trainable_variables]
        losses = list(self.losses) if return_losses else None
        for v, value in zip(variables, kept):
            v.assign(value)
        return (outputs, changed, losses) if return_losses else (outputs, changed)
