"""Optimizers of the last years, written in ops."""

import re

import _tandem
from tandem import _ops
from tandem.keras import _objects
from tandem.keras.optimizers.composed import _COMMON, _ByOps


def _rms(x):
    return _tandem.sqrt(_tandem.reduce_mean(_tandem.square(x), None, False))


class Adafactor(_ByOps):
    """Adam with the means of squares of rows and columns only (Shazeer and Stern 2018, arXiv:1804.04235)."""

    def __init__(self, learning_rate=0.001, beta_2_decay=-0.8, epsilon_1=1e-30, epsilon_2=1e-3, clip_threshold=1.0, relative_step=True, name=None, **kwargs):
        self.beta_2_decay, self.epsilon_1, self.epsilon_2 = beta_2_decay, epsilon_1, epsilon_2
        self.clip_threshold, self.relative_step = clip_threshold, relative_step
        super().__init__(learning_rate, name, **kwargs)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._means = []
        for v in variables:
            shape = tuple(int(s) for s in v.shape)
            kinds = {"r": shape[:-1], "c": shape[:-2] + shape[-1:]} if len(shape) >= 2 else {"v": shape}
            self._means.append({kind: self.add_variable(shape=s, dtype=v.dtype, name=f"{v.name}_{kind}") for kind, s in kinds.items()})

    def update_step(self, gradient, variable, learning_rate):
        means = self._means[self._places[id(variable)]]
        step = self._step(variable)
        slow = 1.0 / _tandem.sqrt(step)
        rate = _tandem.minimum(_tandem.cast(_tandem.convert(learning_rate), variable._code), slow)
        seen = 1.0 - _tandem.pow(step, float(self.beta_2_decay))
        squares = _tandem.square(gradient) + self.epsilon_1
        rate = _tandem.maximum(_rms(variable.read_value()), float(self.epsilon_2)) * rate

        def moved(mean, now):
            mean.assign(seen * mean.read_value() + (1.0 - seen) * now)
            return mean.read_value()

        if "r" in means:
            r, c = moved(means["r"], _tandem.reduce_mean(squares, -1, False)), moved(means["c"], _tandem.reduce_mean(squares, -2, False))
            v = _tandem.expand_dims(r / _tandem.reduce_mean(r, -1, True), -1) * _tandem.expand_dims(c, -2)
        else:
            v = moved(means["v"], squares)
        update = gradient / _tandem.sqrt(v)
        update = update / _tandem.maximum(_rms(update) / float(self.clip_threshold), 1.0)
        variable.assign_sub(rate * update)

    def get_config(self):
        return {**super().get_config(), "beta_2_decay": self.beta_2_decay, "epsilon_1": self.epsilon_1, "epsilon_2": self.epsilon_2, "clip_threshold": self.clip_threshold, "relative_step": self.relative_step}


class Muon(_ByOps):
    """Steps of matrices whose singular values are all near 1, by Newton and Schulz; AdamW for everything else (Jordan and others 2024)."""

    _slot_names = ("momentum",)

    def __init__(self, learning_rate=0.001, adam_beta_1=0.9, adam_beta_2=0.999, adam_weight_decay=0.004, epsilon=1e-7, weight_decay=0.004, exclude_layers=None, exclude_embeddings=True, muon_a=3.4445, muon_b=-4.7750, muon_c=2.0315, adam_lr_ratio=1, momentum=0.95, ns_steps=5, nesterov=True, rms_rate=0.2, name=None, **kwargs):
        self.adam_beta_1, self.adam_beta_2, self.adam_weight_decay, self.epsilon = adam_beta_1, adam_beta_2, adam_weight_decay, epsilon
        self.exclude_layers, self.exclude_embeddings = list(exclude_layers or []), exclude_embeddings
        self.muon_a, self.muon_b, self.muon_c, self.adam_lr_ratio = muon_a, muon_b, muon_c, adam_lr_ratio
        self.momentum, self.ns_steps, self.nesterov, self.rms_rate = momentum, ns_steps, nesterov, rms_rate
        super().__init__(learning_rate, name, weight_decay=weight_decay, **kwargs)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._velocities = [self.add_variable_from_reference(v, "velocity") if self._is_adams(v) else None for v in variables]

    def _is_adams(self, variable):
        path = getattr(variable, "path", variable.name)
        return len(variable.shape) != 2 or (self.exclude_embeddings and "embedding" in path.lower()) or any(re.search(k, path) for k in self.exclude_layers)

    def update_step(self, gradient, variable, learning_rate):
        m, v = self._slot("momentum", variable), self._velocities[self._places[id(variable)]]
        rate = _tandem.cast(_tandem.convert(learning_rate), variable._code)
        if v is None:
            m.assign(gradient + self.momentum * m.read_value())
            update = self._flattened(gradient + self.momentum * m.read_value() if self.nesterov else m.read_value())
            scale = 1.0 if self.rms_rate is None else float(max(int(s) for s in variable.shape)) ** 0.5 * self.rms_rate
            variable.assign_sub(rate * scale * update)
            return
        step = self._step(variable)
        power = lambda b: 1.0 - _tandem.pow(_tandem.fill((), float(b), variable._code), step)  # noqa: E731
        alpha = rate * float(self.adam_lr_ratio) * _tandem.sqrt(power(self.adam_beta_2)) / power(self.adam_beta_1)
        m.assign(m.read_value() + (gradient - m.read_value()) * (1.0 - self.adam_beta_1))
        v.assign(v.read_value() + (_tandem.square(gradient) - v.read_value()) * (1.0 - self.adam_beta_2))
        variable.assign_sub(m.read_value() * alpha / (_tandem.sqrt(v.read_value()) + self.epsilon))

    def _flattened(self, x):
        tall = int(x._sizes[-2]) > int(x._sizes[-1])
        x = x / (_tandem.sqrt(_tandem.reduce_sum(_tandem.square(x), None, False)) + 1e-7)
        x = _tandem.transpose(x, [1, 0]) if tall else x
        for _ in range(self.ns_steps):
            square = _tandem.matmul(x, x, False, True)
            x = self.muon_a * x + _tandem.matmul(self.muon_b * square + self.muon_c * _tandem.matmul(square, square, False, False), x, False, False)
        return _tandem.transpose(x, [1, 0]) if tall else x

    def get_config(self):
        names = ("adam_beta_1", "adam_beta_2", "adam_weight_decay", "epsilon", "exclude_layers", "exclude_embeddings", "muon_a", "muon_b", "muon_c", "adam_lr_ratio", "momentum", "ns_steps", "nesterov", "rms_rate")
        return {**super().get_config(), **{n: getattr(self, n) for n in names}}


class ScheduleFreeAdamW(_ByOps):
    """AdamW whose weights are means over the steps, in the place of a schedule (Defazio and others 2024, arXiv:2405.15682)."""

    _slot_names = ("momentum", "velocity")

    def __init__(self, learning_rate=0.0025, beta_1=0.9, beta_2=0.999, epsilon=1e-8, warmup_steps=0, name=None, **kwargs):
        self.beta_1, self.beta_2, self.epsilon, self.warmup_steps = beta_1, beta_2, epsilon, warmup_steps
        super().__init__(learning_rate, name, **kwargs)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        for v, z in zip(variables, self._own["momentum"]):
            z.assign(_ops.identity(v))

    def update_step(self, gradient, variable, learning_rate):
        z, v = self._slot("momentum", variable), self._slot("velocity", variable)
        step = self._step(variable)
        rate = _tandem.cast(_tandem.convert(learning_rate), variable._code)
        if self.warmup_steps > 0:
            rate = rate * _tandem.minimum(step / float(self.warmup_steps), 1.0)
        v.assign(v.read_value() + (_tandem.square(gradient) - v.read_value()) * (1.0 - self.beta_2))
        unbiased = v.read_value() / (1.0 - _tandem.pow(_tandem.fill((), float(self.beta_2), variable._code), step))
        before = z.read_value()
        after = before - rate * gradient / (_tandem.sqrt(unbiased) + self.epsilon)
        z.assign(after)
        mean = (variable.read_value() - (1.0 - self.beta_1) * before) / self.beta_1
        mean = mean + (after - mean) / step
        variable.assign((1.0 - self.beta_1) * after + self.beta_1 * mean)

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon, "warmup_steps": self.warmup_steps}


_objects.sign(globals(), {
    "Adafactor": "learning_rate=0.001, beta_2_decay=-0.8, epsilon_1=1e-30, epsilon_2=0.001, clip_threshold=1.0, relative_step=True, " + _COMMON,
    "Muon": "learning_rate=0.001, adam_beta_1=0.9, adam_beta_2=0.999, adam_weight_decay=0.004, epsilon=1e-07, weight_decay=0.004, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None, exclude_layers=None, exclude_embeddings=True, muon_a=3.4445, muon_b=-4.775, muon_c=2.0315, adam_lr_ratio=1, momentum=0.95, ns_steps=5, nesterov=True, rms_rate=0.2",
    "ScheduleFreeAdamW": "learning_rate=0.0025, beta_1=0.9, beta_2=0.999, epsilon=1e-08, warmup_steps=0, " + _COMMON,
})
