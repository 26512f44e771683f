"""The library's optimizers, whose update of all variables is one fused kernel.

Their update_step says the same in ops: for weights of float16 and bfloat16, which round after each op as Keras's do, and for
classes of users that call it.
"""

import _tandem
from tandem.keras.optimizers.composed import _ByOps


def _librarys(update_step):
    """Marks an update that the library makes by itself for weights of float32 and float64."""
    update_step._is_the_librarys = True
    return update_step


class SGD(_ByOps):
    """Gradient descent, with momentum where it is not 0."""

    def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None, **kwargs):
        self.momentum, self.nesterov = momentum, nesterov
        super().__init__(learning_rate, name, weight_decay=weight_decay, clipnorm=clipnorm, clipvalue=clipvalue, global_clipnorm=global_clipnorm, use_ema=use_ema, ema_momentum=ema_momentum, ema_overwrite_frequency=ema_overwrite_frequency, loss_scale_factor=loss_scale_factor, gradient_accumulation_steps=gradient_accumulation_steps, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.sgd(rate, float(self.momentum), bool(self.nesterov), options)

    @property
    def _slot_names(self):
        return ("momentum",) if self.momentum else ()

    @_librarys
    def update_step(self, gradient, variable, learning_rate):
        """Changes one variable by its gradient."""
        step = gradient * learning_rate
        if not self.momentum:
            variable.assign_sub(step)
            return
        m = self._slot("momentum", variable)
        m.assign(m.read_value() * self.momentum - step)
        variable.assign_add(m.read_value() * self.momentum - step if self.nesterov else m.read_value())

    def get_config(self):
        return {**super().get_config(), "momentum": self.momentum, "nesterov": self.nesterov}


class RMSprop(_ByOps):
    """RMSprop (Hinton, 2012)."""

    def __init__(self, learning_rate=0.001, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None, **kwargs):
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        super().__init__(learning_rate, name, weight_decay=weight_decay, clipnorm=clipnorm, clipvalue=clipvalue, global_clipnorm=global_clipnorm, use_ema=use_ema, ema_momentum=ema_momentum, ema_overwrite_frequency=ema_overwrite_frequency, loss_scale_factor=loss_scale_factor, gradient_accumulation_steps=gradient_accumulation_steps, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.rmsprop(rate, float(self.rho), float(self.momentum), float(self.epsilon), bool(self.centered), options)

    @property
    def _slot_names(self):
        return ("velocity", *(["momentum"] if self.momentum > 0 else []), *(["average_gradient"] if self.centered else []))

    @_librarys
    def update_step(self, gradient, variable, learning_rate):
        """Changes one variable by its gradient."""
        velocity = self._slot("velocity", variable)
        velocity.assign(self.rho * velocity.read_value() + (1 - self.rho) * _tandem.square(gradient))
        spread = velocity.read_value()
        if self.centered:
            mean = self._slot("average_gradient", variable)
            mean.assign(self.rho * mean.read_value() + (1 - self.rho) * gradient)
            spread = spread - _tandem.square(mean.read_value())
        step = learning_rate * gradient / _tandem.sqrt(spread + self.epsilon)
        if self.momentum > 0:
            m = self._slot("momentum", variable)
            m.assign(self.momentum * m.read_value() + step)
            step = m.read_value()
        variable.assign_sub(step)

    def get_config(self):
        return {**super().get_config(), "rho": self.rho, "momentum": self.momentum, "epsilon": self.epsilon, "centered": self.centered}


class Adagrad(_ByOps):
    """Adagrad (Duchi, Hazan and Singer, 2011)."""

    def __init__(self, learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-7, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None, **kwargs):
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon
        super().__init__(learning_rate, name, weight_decay=weight_decay, clipnorm=clipnorm, clipvalue=clipvalue, global_clipnorm=global_clipnorm, use_ema=use_ema, ema_momentum=ema_momentum, ema_overwrite_frequency=ema_overwrite_frequency, loss_scale_factor=loss_scale_factor, gradient_accumulation_steps=gradient_accumulation_steps, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.adagrad(rate, float(self.initial_accumulator_value), float(self.epsilon), options)

    _slot_names = ("accumulator",)

    @property
    def _slot_start(self):
        from tandem.keras.initializers import Constant

        return {"accumulator": Constant(self.initial_accumulator_value)}

    @_librarys
    def update_step(self, gradient, variable, learning_rate):
        """Changes one variable by its gradient."""
        seen = self._slot("accumulator", variable)
        seen.assign_add(_tandem.square(gradient))
        variable.assign_sub(learning_rate * gradient / _tandem.sqrt(seen.read_value() + self.epsilon))

    def get_config(self):
        return {**super().get_config(), "initial_accumulator_value": self.initial_accumulator_value, "epsilon": self.epsilon}


class Adam(_ByOps):
    """Adam (Kingma and Ba, 2014)."""

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None, **kwargs):
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        super().__init__(learning_rate, name, weight_decay=weight_decay, clipnorm=clipnorm, clipvalue=clipvalue, global_clipnorm=global_clipnorm, use_ema=use_ema, ema_momentum=ema_momentum, ema_overwrite_frequency=ema_overwrite_frequency, loss_scale_factor=loss_scale_factor, gradient_accumulation_steps=gradient_accumulation_steps, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.adam(rate, float(self.beta_1), float(self.beta_2), float(self.epsilon), bool(self.amsgrad), options)

    @property
    def _slot_names(self):
        return ("momentum", "velocity", *(["velocity_hat"] if self.amsgrad else []))

    @_librarys
    def update_step(self, gradient, variable, learning_rate):
        """Changes one variable by its gradient."""
        m, v, code = self._slot("momentum", variable), self._slot("velocity", variable), variable._code
        step = self._step(variable)
        beta_1_power, beta_2_power = (_tandem.pow(_tandem.fill((), float(b), code), step) for b in (self.beta_1, self.beta_2))
        alpha = learning_rate * _tandem.sqrt(1 - beta_2_power) / (1 - beta_1_power)
        m.assign_add((gradient - m.read_value()) * (1 - self.beta_1))
        v.assign_add((_tandem.square(gradient) - v.read_value()) * (1 - self.beta_2))
        if self.amsgrad:
            largest = self._slot("velocity_hat", variable)
            largest.assign(_tandem.maximum(largest.read_value(), v.read_value()))
            v = largest
        variable.assign_sub(m.read_value() * alpha / (_tandem.sqrt(v.read_value()) + self.epsilon))

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon, "amsgrad": self.amsgrad}


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2017)."""

    def __init__(self, learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None, **kwargs):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name, **kwargs)

    def _make_native(self, rate, options):
        if options["weight_decay"] is None:
            return super()._make_native(rate, options)
        return _tandem.adamw(rate, float(self.weight_decay), float(self.beta_1), float(self.beta_2), float(self.epsilon), bool(self.amsgrad), options)
