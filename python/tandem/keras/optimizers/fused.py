"""The library's optimizers, whose update of all variables is one fused kernel."""

import _tandem
from tandem.keras.optimizers.base import Optimizer


class SGD(Optimizer):
    """Gradient descent, with momentum where it is not 0."""

    def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name="sgd", **kwargs):
        self.momentum, self.nesterov = momentum, nesterov
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.sgd(rate, float(self.momentum), bool(self.nesterov), options)

    def get_config(self):
        return {**super().get_config(), "momentum": self.momentum, "nesterov": self.nesterov}


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012)."""

    def __init__(self, learning_rate=0.001, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name="rm_sprop", **kwargs):
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.rmsprop(rate, float(self.rho), float(self.momentum), float(self.epsilon), bool(self.centered), options)

    def get_config(self):
        return {**super().get_config(), "rho": self.rho, "momentum": self.momentum, "epsilon": self.epsilon, "centered": self.centered}


class Adagrad(Optimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011)."""

    def __init__(self, learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-7, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name="adagrad", **kwargs):
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.adagrad(rate, float(self.initial_accumulator_value), float(self.epsilon), options)

    def get_config(self):
        return {**super().get_config(), "initial_accumulator_value": self.initial_accumulator_value, "epsilon": self.epsilon}


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014)."""

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name="adam", **kwargs):
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name, **kwargs)

    def _make_native(self, rate, options):
        return _tandem.adam(rate, float(self.beta_1), float(self.beta_2), float(self.epsilon), bool(self.amsgrad), options)

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon, "amsgrad": self.amsgrad}


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2017)."""

    def __init__(self, learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name="adam_w", **kwargs):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name, **kwargs)

    def _make_native(self, rate, options):
        if options["weight_decay"] is None:
            return super()._make_native(rate, options)
        return _tandem.adamw(rate, float(self.weight_decay), float(self.beta_1), float(self.beta_2), float(self.epsilon), bool(self.amsgrad), options)
