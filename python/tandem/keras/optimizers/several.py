"""Different optimizers for different variables of one model."""

import re
from collections.abc import MutableMapping

import numpy as np

import _tandem
from tandem._tracing.state import init_scope
from tandem.keras._variable import KerasVariable
from tandem.keras.optimizers.base import Optimizer
from tandem.keras.optimizers.loss_scale import LossScaleOptimizer


class OptimizerMap(MutableMapping):
    """Optimizers by paths of variables, or by patterns that match whole paths; the default for all others."""

    def __init__(self, default_optimizer, optimizer_map=None):
        if not isinstance(default_optimizer, Optimizer):
            raise TypeError(f"default_optimizer must be a Keras Optimizer instance. Received: {default_optimizer}")
        if optimizer_map is not None and not isinstance(optimizer_map, dict):
            raise TypeError(f"optimizer_map must be a dictionary. Received: {optimizer_map}")
        self._default, self._optimizers = default_optimizer, optimizer_map or {}

    @property
    def default_optimizer(self):
        """The optimizer of variables that no pattern matches."""
        return self._default

    def __getitem__(self, key):
        if key in self._optimizers:
            return self._optimizers[key]
        found = [optimizer for pattern, optimizer in self._optimizers.items() if re.fullmatch(pattern, key)]
        if len(found) > 1:
            raise ValueError(f"Multiple optimizers assigned to variable {key}.")
        return found[0] if found else self._default

    def __setitem__(self, key, optimizer):
        if key in self._optimizers:
            raise ValueError(f"'{key}' already exists in the OptimizerMap with value {self._optimizers[key]}. Please make sure to not use duplicated keys.")
        if not isinstance(key, str):
            raise ValueError(f"key must be a string. Received: {key}")
        _check_inner(optimizer)
        self._optimizers[key] = optimizer

    def __delitem__(self, key):
        del self._optimizers[key]

    def __len__(self):
        return len(self._optimizers)

    def __iter__(self):
        return iter(self._optimizers)

    def __call__(self, variable):
        return self[getattr(variable, "path", None) or variable.name]

    def get_config(self):
        """The arguments of which from_config makes the map again."""
        from tandem.keras import optimizers

        return {"default_optimizer": optimizers.serialize(self._default), "optimizer_map": {k: optimizers.serialize(v) for k, v in self._optimizers.items()}}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The map of its configuration."""
        from tandem.keras import optimizers

        return cls(optimizers.deserialize(config["default_optimizer"]), {k: optimizers.deserialize(v) for k, v in config["optimizer_map"].items()})


def _check_inner(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise ValueError(f"optimizer must be a Keras Optimizer instance. Received: {optimizer}")
    for cls in (LossScaleOptimizer, MultiOptimizer):
        if isinstance(optimizer, cls):
            raise ValueError(f"optimizer cannot be {cls.__name__}.")


class MultiOptimizer(Optimizer):
    """An optimizer that leaves each variable to the one that a map, or a function of the variable, names."""

    def __init__(self, optimizer_map, loss_scale_factor=None, name=None):
        self._inner = []
        super().__init__(learning_rate=0.0, name=name)
        self._map = optimizer_map
        given = list(optimizer_map.values()) if hasattr(optimizer_map, "values") else []
        for optimizer in [*given, getattr(optimizer_map, "default_optimizer", None)]:
            if optimizer is not None:
                self._place_of(optimizer)
        self.loss_scale_factor = loss_scale_factor

    def _place_of(self, optimizer):
        for place, known in enumerate(self._inner):
            if known is optimizer:
                return place
        self._inner.append(optimizer)
        optimizer.loss_scale_factor = None  # The factor is this optimizer's.
        return len(self._inner) - 1

    def _start(self):
        if self._iterations is None:
            with self._scope(), init_scope():
                self._iterations = KerasVariable(np.int64(0), dtype="int64", trainable=False, aggregation="only_first_replica", name="iteration", path=f"{self.name}/iteration")
                self._rate = KerasVariable(np.float32(0), trainable=False, name="learning_rate", path=f"{self.name}/learning_rate")

    def build(self, variables):
        """Makes the slots of each optimizer's variables."""
        if self.built:
            return
        self._start()
        self._owners, groups = {}, []
        for v in variables:
            optimizer = self._map(v)
            _check_inner(optimizer)
            place = self._owners[id(v)] = self._place_of(optimizer)
            groups += [[] for _ in range(place + 1 - len(groups))]
            groups[place].append(v)
        for optimizer, own in zip(self._inner, groups):
            if own:
                optimizer.build(own)
        self._trainable_variables = list(variables)
        self.built = True

    @property
    def optimizers(self):
        """The optimizers, those of the map first."""
        return self._inner

    def _all_variables(self):
        return [self._iterations, self._rate] + [v for optimizer in self._inner for v in optimizer.variables]

    @property
    def iterations(self):
        """How many steps were made, as a variable."""
        self._start()
        return self._iterations

    @property
    def learning_rate(self):
        """Each optimizer has a rate of its own: says so."""
        raise AttributeError("Learning rate cannot be accessed on a MultiOptimizer. Access the learning rate on the individual sub-optimizers instead.")

    @learning_rate.setter
    def learning_rate(self, value):
        raise AttributeError("Learning rate cannot be set on a MultiOptimizer. Set the learning rate on the individual sub-optimizers instead.")

    lr = learning_rate

    def _apply_where(self, condition, grads, variables):
        if not self.built:
            self.build(variables)
        self._take_kept_values()
        groups = [[] for _ in self._inner]
        for g, v in zip(grads, variables):
            if id(v) not in self._owners:
                raise KeyError(f"The optimizer cannot recognize variable {v.name}: it was built with other variables.")
            groups[self._owners[id(v)]].append((g, v))
        for optimizer, own in zip(self._inner, groups):
            if own:
                optimizer._apply_where(condition, [g for g, _ in own], [v for _, v in own])
        now = self._iterations.read_value()
        self._iterations.assign(now + 1 if condition is None else _tandem.where(condition, now + 1, now))

    def finalize_variable_values(self, var_list):
        """Writes the averages of weights over the weights, where the optimizers have some."""
        for place, optimizer in enumerate(self._inner):
            own = [v for v in var_list if self._owners.get(id(v)) == place]
            if own:
                optimizer.finalize_variable_values(own)

    def get_config(self):
        """The arguments of which from_config makes the optimizer again."""
        from tandem.keras import saving

        return {"optimizer_map": saving.serialize_keras_object(self._map), "loss_scale_factor": self.loss_scale_factor, "name": self.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The optimizer of its configuration."""
        from tandem.keras import saving

        config, given = dict(config), config["optimizer_map"]
        config["optimizer_map"] = OptimizerMap.from_config(given["config"]) if given.get("class_name") == "OptimizerMap" else saving.deserialize_keras_object(given)
        return cls(**config)

    def _own_node(self):
        return None

    def _trackable_children(self):
        self._start()
        return {"_iterations": self._iterations, **{f"optimizer_{i}": optimizer for i, optimizer in enumerate(self._inner)}}
