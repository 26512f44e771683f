"""Optimizers that are written in ops, with slots of their own."""

import _tandem
from tandem.keras import _objects
from tandem.keras.optimizers.base import Optimizer


class _ByOps(Optimizer):
    """An optimizer written in ops: slots by name for each variable."""

    _slot_names = ()
    _slot_start = {}

    def __init__(self, learning_rate, name, **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)

    def build(self, variables):
        if self.built and self._native is None:
            return
        super().build(variables)
        if self._native is not None:
            return
        names = list(self._slot_names)
        made = self.add_optimizer_variables(variables, names, [self._slot_start.get(n, "zeros") for n in names])
        self._own = dict(zip(names, made))

    def _slot(self, name, variable):
        return self._own[name][self._places[id(variable)]]

    def _step(self, variable):
        return _tandem.cast(self._iterations.read_value() + 1, variable._code)


class Adadelta(_ByOps):
    """Steps by the ratio of the running means of squared updates and squared gradients."""

    _slot_names = ("accumulated_grad", "accumulated_delta_var")

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-7, name=None, **kwargs):
        self.rho, self.epsilon = rho, epsilon
        super().__init__(learning_rate, name, **kwargs)

    def update_step(self, gradient, variable, learning_rate):
        seen, moved = self._slot("accumulated_grad", variable), self._slot("accumulated_delta_var", variable)
        seen.assign(self.rho * seen.read_value() + (1 - self.rho) * _tandem.square(gradient))
        delta = -_tandem.sqrt(moved.read_value() + self.epsilon) * gradient / _tandem.sqrt(seen.read_value() + self.epsilon)
        moved.assign(self.rho * moved.read_value() + (1 - self.rho) * _tandem.square(delta))
        variable.assign_add(learning_rate * delta)

    def get_config(self):
        return {**super().get_config(), "rho": self.rho, "epsilon": self.epsilon}


class Adamax(_ByOps):
    """Adam with the largest gradient in the place of the mean of squares."""

    _slot_names = ("momentum", "norm")

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, name=None, **kwargs):
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        super().__init__(learning_rate, name, **kwargs)

    def update_step(self, gradient, variable, learning_rate):
        m, u = self._slot("momentum", variable), self._slot("norm", variable)
        power = _tandem.pow(_tandem.fill((), self.beta_1, variable._code), self._step(variable))
        m.assign_add((gradient - m.read_value()) * (1 - self.beta_1))
        u.assign(_tandem.maximum(self.beta_2 * u.read_value(), _tandem.abs(gradient)))
        variable.assign_sub(learning_rate * m.read_value() / ((1 - power) * (u.read_value() + self.epsilon)))

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}


class Nadam(_ByOps):
    """Adam with Nesterov's momentum."""

    _slot_names = ("momentum", "velocity")

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, name=None, **kwargs):
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        super().__init__(learning_rate, name, **kwargs)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._u_product = self.add_variable((), "ones", name="variable")

    def _apply_by_ops(self, grads, variables):
        step = _tandem.cast(self._iterations.read_value() + 1, 0)
        decay = _tandem.fill((), 0.96, 0)
        self._u_now = self.beta_1 * (1.0 - 0.5 * _tandem.pow(decay, step))
        self._u_next = self.beta_1 * (1.0 - 0.5 * _tandem.pow(decay, step + 1))
        self._u_product.assign(self._u_product.read_value() * self._u_now)
        super()._apply_by_ops(grads, variables)

    def update_step(self, gradient, variable, learning_rate):
        m, v = self._slot("momentum", variable), self._slot("velocity", variable)
        code = variable._code
        product = _tandem.cast(self._u_product.read_value(), code)
        now, following = _tandem.cast(self._u_now, code), _tandem.cast(self._u_next, code)
        power = _tandem.pow(_tandem.fill((), self.beta_2, code), self._step(variable))
        m.assign_add((gradient - m.read_value()) * (1 - self.beta_1))
        v.assign_add((_tandem.square(gradient) - v.read_value()) * (1 - self.beta_2))
        m_hat = following * m.read_value() / (1 - product * following) + (1 - now) * gradient / (1 - product)
        v_hat = v.read_value() / (1 - power)
        variable.assign_sub(m_hat * learning_rate / (_tandem.sqrt(v_hat) + self.epsilon))

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}


class Ftrl(_ByOps):
    """Follow the regularized leader."""

    _slot_names = ("accumulator", "linear")

    def __init__(self, learning_rate=0.001, learning_rate_power=-0.5, initial_accumulator_value=0.1, l1_regularization_strength=0.0, l2_regularization_strength=0.0, l2_shrinkage_regularization_strength=0.0, beta=0.0, name=None, **kwargs):
        from tandem.keras.initializers import Constant

        self.learning_rate_power, self.initial_accumulator_value = learning_rate_power, initial_accumulator_value
        self.l1, self.l2, self.shrinkage, self.beta = l1_regularization_strength, l2_regularization_strength, l2_shrinkage_regularization_strength, beta
        self._slot_start = {"accumulator": Constant(initial_accumulator_value)}
        super().__init__(learning_rate, name, **kwargs)

    def update_step(self, gradient, variable, learning_rate):
        seen, linear = self._slot("accumulator", variable), self._slot("linear", variable)
        shrunk = gradient + 2 * self.shrinkage * variable.read_value()
        total = seen.read_value() + _tandem.square(gradient)
        power = -self.learning_rate_power
        linear.assign_add(shrunk - (_tandem.pow(total, power) - _tandem.pow(seen.read_value(), power)) / learning_rate * variable.read_value())
        quadratic = _tandem.pow(total, power) / learning_rate + 2 * (self.l2 + self.beta / (2.0 * learning_rate))
        clipped = _tandem.clip(linear.read_value(), -float(self.l1), float(self.l1)) if self.l1 else 0.0
        variable.assign((clipped - linear.read_value()) / quadratic)
        seen.assign(total)

    def get_config(self):
        return {
            **super().get_config(), "learning_rate_power": self.learning_rate_power, "initial_accumulator_value": self.initial_accumulator_value,
            "l1_regularization_strength": self.l1, "l2_regularization_strength": self.l2,
            "l2_shrinkage_regularization_strength": self.shrinkage, "beta": self.beta,
        }


class Lion(_ByOps):
    """Steps of one size in the direction of the sign of a running mean."""

    _slot_names = ("momentum",)

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.99, name=None, **kwargs):
        self.beta_1, self.beta_2 = beta_1, beta_2
        super().__init__(learning_rate, name, **kwargs)

    def update_step(self, gradient, variable, learning_rate):
        m = self._slot("momentum", variable)
        variable.assign_sub(learning_rate * _tandem.sign(m.read_value() * self.beta_1 + gradient * (1 - self.beta_1)))
        m.assign(m.read_value() * self.beta_2 + gradient * (1 - self.beta_2))

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2}


class Lamb(_ByOps):
    """Adam whose steps are scaled to the norm of each weight."""

    _slot_names = ("momentum", "velocity")

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, name=None, **kwargs):
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        super().__init__(learning_rate, name, **kwargs)

    def update_step(self, gradient, variable, learning_rate):
        m, v, code = self._slot("momentum", variable), self._slot("velocity", variable), variable._code
        step = self._step(variable)
        m.assign_add((gradient - m.read_value()) * (1 - self.beta_1))
        v.assign_add((_tandem.square(gradient) - v.read_value()) * (1 - self.beta_2))
        m_hat = m.read_value() / (1 - _tandem.pow(_tandem.fill((), self.beta_1, code), step))
        v_hat = _tandem.sqrt(v.read_value() / (1 - _tandem.pow(_tandem.fill((), self.beta_2, code), step))) + self.epsilon
        update = m_hat / v_hat
        norm = lambda x: _tandem.sqrt(_tandem.reduce_sum(x * x, None, False))  # noqa: E731
        own, other = norm(variable.read_value()), norm(update)
        ratio = _tandem.where(own > 0, _tandem.where(other > 0, own / _tandem.maximum(other, 1e-30), _tandem.ones_like(own)), _tandem.ones_like(own))
        variable.assign_sub(ratio * learning_rate * update)

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}


_COMMON = "weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None"  # What all optimizers take.
_objects.sign(globals(), {
    "Adadelta": "learning_rate=0.001, rho=0.95, epsilon=1e-07, " + _COMMON,
    "Adamax": "learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, " + _COMMON,
    "Ftrl": "learning_rate=0.001, learning_rate_power=-0.5, initial_accumulator_value=0.1, l1_regularization_strength=0.0, l2_regularization_strength=0.0, l2_shrinkage_regularization_strength=0.0, beta=0.0, " + _COMMON,
    "Lamb": "learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, " + _COMMON,
    "Lion": "learning_rate=0.001, beta_1=0.9, beta_2=0.99, " + _COMMON,
    "Nadam": "learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, " + _COMMON,
})
