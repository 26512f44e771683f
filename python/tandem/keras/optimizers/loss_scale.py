"""The optimizer that scales the loss, for gradients that are computed in float16."""

import numpy as np

import _tandem
from tandem._tracing.state import init_scope, state
from tandem.keras._variable import KerasVariable
from tandem.keras.optimizers.base import Optimizer

_OF_INNER = {
    "weight_decay": None, "clipnorm": None, "global_clipnorm": None, "clipvalue": None, "use_ema": False, "ema_momentum": 0.99,
    "ema_overwrite_frequency": None, "loss_scale_factor": None, "gradient_accumulation_steps": None,
}


class LossScaleOptimizer(Optimizer):
    """Another optimizer, whose loss is scaled so that small gradients are not lost in float16.

    A step whose gradients are not all finite is not made, and halves the scale; after `dynamic_growth_steps` steps one after
    another that were made it doubles.
    """

    def __init__(self, inner_optimizer, initial_scale=2.0**15, dynamic_growth_steps=2000, name=None, **kwargs):
        if not kwargs.pop("dynamic", True):
            raise ValueError("LossScaleOptimizer no longer supports `dynamic=False`. Instead, simply set `loss_scale_factor` directly on the `inner_optimizer`.")
        for key, default in _OF_INNER.items():
            if kwargs.pop(key, default) != default:
                raise ValueError(f"LossScaleOptimizer does not support `{key}`. Instead, set `{key}` on the `inner_optimizer`.")
        if kwargs:
            raise ValueError(f"LossScaleOptimizer does not support arguments: `{'`, `'.join(kwargs)}`.")
        super().__init__(learning_rate=0.0, name=name)
        self.inner_optimizer = inner_optimizer
        self.initial_scale, self.dynamic_growth_steps = initial_scale, dynamic_growth_steps
        inner_optimizer.loss_scale_factor = None  # Gradients are divided by one scale only.
        self._are_unscaled = False

    def _start(self):
        pass  # Steps and rate are the inner optimizer's.

    def build(self, variables):
        """Makes the scale, the count of steps since it changed, and the inner optimizer's slots."""
        if self.built:
            return
        with self._scope(), init_scope():
            # Keras's files have steps and a rate of this optimizer itself, too, which mean nothing.
            self._unused = [self._own("iteration", np.int64(0)), self._own("learning_rate", np.float32(0))]
            self.step_counter, self.dynamic_scale = self._own("step_counter", np.int32(0)), self._own("dynamic_scale", np.float32(self.initial_scale))
        self.inner_optimizer.build(variables)
        self._trainable_variables = list(variables)
        self.built = True

    def _own(self, name, value):
        return KerasVariable(value, dtype=value.dtype.name, trainable=False, aggregation="only_first_replica", name=name, path=f"{self.name}/{name}")

    def _all_variables(self):
        own = [*self._unused, self.step_counter, self.dynamic_scale] if self.built else []
        return own + list(self.inner_optimizer.variables)

    @property
    def iterations(self):
        """How many steps the inner optimizer made, as a variable."""
        return self.inner_optimizer.iterations

    def _rate_tensor(self):
        return self.inner_optimizer._rate_tensor()

    def _set_rate(self, value):
        self.inner_optimizer.learning_rate = value

    @property
    def learning_rate(self):
        """The inner optimizer's learning rate."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value):
        self.inner_optimizer.learning_rate = value

    lr = learning_rate

    def _scale(self):
        return self.dynamic_scale.read_value() if self.built else _tandem.fill((), float(self.initial_scale), 0)

    def scale_loss(self, loss):
        """The loss times the scale."""
        loss = _tandem.convert(loss)
        return loss * _tandem.cast(self._scale(), loss._code)

    get_scaled_loss = scale_loss

    def get_unscaled_gradients(self, gradients):
        """Gradients divided by the scale, as programs for Keras 2 do it before they apply them."""
        self._are_unscaled = True
        return [None if g is None else self._unscaled(_tandem.convert(g)) for g in gradients]

    def _unscaled(self, g):
        g = _tandem.cast(g, 0) if g._code in (2, 3) else g
        return g / _tandem.cast(self._scale(), g._code)

    def apply(self, grads, trainable_variables=None):
        """One step with scaled gradients, if they are finite."""
        grads, variables = self._paired(grads, trainable_variables)
        if state.in_replica and self._tandem_strategy is not None and self._tandem_strategy._has_servers:
            raise NotImplementedError("ParameterServerStrategy with a LossScaleOptimizer")
        if not self.built:
            self.build(variables)
        self._take_kept_values()
        are_unscaled, self._are_unscaled = self._are_unscaled, False
        given = [g for g in grads if g is not None]
        broken = _tandem.fill((), 0.0, 0)
        for g in given:
            broken = _tandem.maximum(broken, _tandem.cast(_tandem.logical_not(_tandem.reduce_all(_tandem.is_finite(g), None, False)), 0))
        if state.in_replica:
            broken = _tandem.all_reduce("SUM", broken)
        is_finite = _tandem.equal(broken, 0.0)
        unscaled = [g if g is None or are_unscaled else self._unscaled(g) for g in grads]
        self.inner_optimizer._apply_where(is_finite, unscaled, variables)
        steps, scale = self.step_counter.read_value(), self.dynamic_scale.read_value()
        grows = _tandem.equal(steps, int(self.dynamic_growth_steps) - 1)
        nothing = _tandem.zeros_like(steps)
        self.step_counter.assign(_tandem.where(is_finite, _tandem.where(grows, nothing, steps + 1), nothing))
        self.dynamic_scale.assign(_tandem.where(is_finite, _tandem.where(grows, scale * 2.0, scale), scale * 0.5))

    def finalize_variable_values(self, var_list):
        """Writes the averages of weights over the weights, where the inner optimizer has some."""
        self.inner_optimizer.finalize_variable_values(var_list)

    def get_config(self):
        """The arguments of which from_config makes the optimizer again."""
        from tandem.keras import optimizers

        return {"name": self.name, "inner_optimizer": optimizers.serialize(self.inner_optimizer), "initial_scale": self.initial_scale, "dynamic_growth_steps": self.dynamic_growth_steps}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The optimizer of its configuration."""
        from tandem.keras import optimizers

        config = dict(config)
        return cls(optimizers.deserialize(config.pop("inner_optimizer"), custom_objects), **config)

    def _own_node(self):
        return None

    def _trackable_children(self):
        own = {"step_counter": self.step_counter, "dynamic_scale": self.dynamic_scale} if self.built else {}
        return {"inner_optimizer": self.inner_optimizer, **own}
