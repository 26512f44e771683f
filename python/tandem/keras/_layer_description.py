"""Layers as others see them: places in a described model, configurations, copies and files."""

import functools
import inspect

import numpy as np

from tandem import nest
from tandem.keras import _config_keys, initializers
from tandem.keras._calls import _shape_of


def _plain_layer():
    from tandem.keras._layer import Layer

    return Layer


def _is_users(f):
    return not (getattr(f, "__module__", None) or "tandem").startswith("tandem")


_of_layer = ("self", "activity_regularizer", "trainable", "dtype", "autocast", "name", "kwargs", "args")


@functools.lru_cache(None)
def _arguments_of(cls):
    """The arguments of a built-in layer and their defaults, those of the classes that it derives from last."""
    found = {}
    for each in cls.__mro__:
        if each is _plain_layer():
            break
        if "__init__" not in vars(each):
            continue
        parameters = inspect.signature(each.__init__).parameters
        for name, parameter in parameters.items():
            if name not in _of_layer and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                found.setdefault(name, parameter.default)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            break
    return found


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
        config = {"name": self.name, "trainable": self._trainable, "dtype": self._dtype_policy.as_config()}
        if self.activity_regularizer is not None:
            config["activity_regularizer"] = self._as_configured("activity_regularizer", self.activity_regularizer)
        built_in = next(c for c in type(self).__mro__ if c.__module__.startswith("tandem"))
        if built_in is not type(self) and type(self).get_config.__qualname__ in ("LayerDescription.get_config", "Model.get_config"):
            named = {"name", "kwargs"} & set(inspect.signature(type(self).__init__).parameters)
            config = {**({"name": config["name"]} if named else {}), **self._users_arguments(), **{k: v for k, v in config.items() if k != "name"}}
        elif built_in is not _plain_layer():
            # A user's class that has a get_config of its own adds its arguments: here are those of the class that it derives from.
            given = self._bound_arguments(built_in) if built_in is type(self) else {}
            arguments = _arguments_of(built_in)
            keys = _config_keys.keys_of(built_in, arguments)
            if "name" in keys:  # Some classes of Keras have a configuration of their own.
                config = {**dict.fromkeys(keys), "name": self.name, "dtype": self.dtype}
            for name, beyond in keys.items():
                if name in ("name", "dtype"):
                    continue
                if name not in arguments and name != "activity_regularizer":
                    config[name] = beyond
                    continue
                value = getattr(self, name, None) if built_in is not type(self) else given.get(name, arguments.get(name))
                if value is not inspect.Parameter.empty:
                    config[name] = self._as_configured(name, value)
        if self.__dict__.get("lora_enabled"):
            config["lora_rank"], config["lora_alpha"] = self.lora_rank, self.lora_alpha
        if self._tandem_batch_input_shape is not None:
            config["batch_input_shape"] = self._tandem_batch_input_shape
        return config

    def _bound_arguments(self, cls, with_defaults=False):
        args, kwargs = self._init_args
        try:
            bound = inspect.signature(cls.__init__).bind(self, *args, **kwargs)
            if with_defaults:
                bound.apply_defaults()
        except TypeError:
            return {}
        found = {}
        for name, value in list(bound.arguments.items())[1:]:
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                found.update(value)
            elif kind is not inspect.Parameter.VAR_POSITIONAL:
                found[name] = value
        return found

    def _users_arguments(self):
        """What a class of a user was given, where it says nothing itself."""
        if type(self).__init__ is _plain_layer().__init__:
            return {}
        left_out = ("weights", "input_shape", "input_dim", "batch_input_shape", "name", "trainable", "dtype")
        return {k: v for k, v in self._bound_arguments(type(self), True).items() if k not in left_out}

    def _as_configured(self, name, value):
        """An argument as Keras shows it: objects as their configurations, sizes as they were understood."""
        from tandem.keras import saving

        own = self.__dict__.get(name, value)
        if name.endswith("_initializer") and isinstance(own, str):
            own = initializers.get(own)
        if name == "data_format" and own is None:
            from tandem.keras import config

            return config.image_data_format()
        if callable(own) and not isinstance(own, type) and not hasattr(own, "get_config"):
            return getattr(own, "__name__", None) if name.endswith("activation") and not _is_users(own) else saving.serialize_keras_object(own)
        if hasattr(own, "get_config") and not isinstance(own, _plain_layer()):
            return saving.serialize_keras_object(own)
        if own is None or isinstance(own, (bool, int, float, str, tuple, list)) and not any(isinstance(o, _plain_layer()) for o in nest.flatten(own)):
            return own
        if isinstance(value, (list, tuple)):
            return saving.serialize_keras_object(own if hasattr(own, "get_config") else value)
        return saving.serialize_keras_object(value) if hasattr(value, "get_config") else value

    @classmethod
    def from_config(cls, config):
        """The layer of its configuration."""
        from tandem.keras import saving

        is_layer = lambda k, v: k in ("layer", "backward_layer", "cell") and isinstance(v, dict) and "class_name" in v or k == "cells"  # noqa: E731
        known = {k: saving.deserialize_keras_object(v) if is_layer(k, v) else v for k, v in config.items() if not _config_keys.is_beyond(cls, k)}
        return cls(**known)

    def get_build_config(self):
        """What build_from_config needs to make its weights again."""
        shape = self.__dict__.get("_tandem_built_for")
        is_shape = lambda given: isinstance(given, tuple) and all(s is None or isinstance(s, int) for s in given)  # noqa: E731
        return {"input_shape": shape} if is_shape(shape) or isinstance(shape, list) and all(map(is_shape, shape)) else None

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
        return f"<{self._class_name()} name={self.name}, built={self.built}>"

    def _class_name(self):
        """The class as Keras calls it: a model that inputs and outputs describe is a Functional."""
        return "Functional" if type(self).__name__ == "Model" and self.__dict__.get("_tandem_graph") is not None else type(self).__name__

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
