"""Learning rates that change from step to step, keras.optimizers.schedules."""

import math

import _tandem
from tandem.keras import _objects


class LearningRateSchedule(_objects.Configured):
    """A rate as a function of the step."""

    def __call__(self, step):
        raise NotImplementedError(f"{type(self).__name__} has no method __call__(step)")


def _step(step):
    is_tensor = isinstance(step, (_tandem.Tensor, _tandem.Variable))
    step = _tandem.convert(step)
    return step if is_tensor and step.dtype.is_floating else _tandem.cast(step, 0)


def _typed(step, value):
    return _tandem.fill((), float(value), step._code)


class ExponentialDecay(LearningRateSchedule):
    """The rate times decay_rate to the power of step / decay_steps."""

    def __init__(self, initial_learning_rate, decay_steps, decay_rate, staircase=False, name="ExponentialDecay"):
        self.initial_learning_rate, self.decay_steps, self.decay_rate = initial_learning_rate, decay_steps, decay_rate
        self.staircase, self.name = staircase, name

    def __call__(self, step):
        step = _step(step)
        p = step / float(self.decay_steps)
        if self.staircase:
            p = _tandem.floor(p)
        return self.initial_learning_rate * _tandem.pow(_typed(step, self.decay_rate), p)

    def get_config(self):
        return {k: getattr(self, k) for k in ("initial_learning_rate", "decay_steps", "decay_rate", "staircase", "name")}


class InverseTimeDecay(ExponentialDecay):
    """The rate divided by 1 + decay_rate * step / decay_steps."""

    def __init__(self, initial_learning_rate, decay_steps, decay_rate, staircase=False, name="InverseTimeDecay"):
        super().__init__(initial_learning_rate, decay_steps, decay_rate, staircase, name)

    def __call__(self, step):
        p = _step(step) / float(self.decay_steps)
        if self.staircase:
            p = _tandem.floor(p)
        return self.initial_learning_rate / (1.0 + self.decay_rate * p)


class PiecewiseConstantDecay(LearningRateSchedule):
    """One rate up to each boundary."""

    def __init__(self, boundaries, values, name="PiecewiseConstant"):
        if len(boundaries) != len(values) - 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values.")
        self.boundaries, self.values, self.name = list(boundaries), list(values), name

    def __call__(self, step):
        step = _step(step)
        rate = _typed(step, self.values[-1])
        for boundary, value in reversed(list(zip(self.boundaries, self.values))):
            rate = _tandem.where(step <= float(boundary), _typed(step, value), rate)
        return rate

    def get_config(self):
        return {"boundaries": self.boundaries, "values": self.values, "name": self.name}


class PolynomialDecay(LearningRateSchedule):
    """From one rate to another along a power of the time."""

    def __init__(self, initial_learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False, name="PolynomialDecay"):
        self.initial_learning_rate, self.decay_steps, self.end_learning_rate = initial_learning_rate, decay_steps, end_learning_rate
        self.power, self.cycle, self.name = power, cycle, name

    def __call__(self, step):
        step = _step(step)
        total = _typed(step, self.decay_steps)
        if self.cycle:
            times = _tandem.where(_tandem.equal(step, 0.0), _typed(step, 1.0), _tandem.ceil(step / float(self.decay_steps)))
            total = total * times
        else:
            step = _tandem.minimum(step, float(self.decay_steps))
        p = 1.0 - step / total
        return (self.initial_learning_rate - self.end_learning_rate) * _tandem.pow(p, float(self.power)) + self.end_learning_rate

    def get_config(self):
        return {k: getattr(self, k) for k in ("initial_learning_rate", "decay_steps", "end_learning_rate", "power", "cycle", "name")}


class CosineDecay(LearningRateSchedule):
    """From one rate to another along half a cosine, after a warm-up if asked for."""

    def __init__(self, initial_learning_rate, decay_steps, alpha=0.0, name="CosineDecay", warmup_target=None, warmup_steps=0):
        self.initial_learning_rate, self.decay_steps, self.alpha, self.name = initial_learning_rate, decay_steps, alpha, name
        self.warmup_target, self.warmup_steps = warmup_target, warmup_steps

    def _decay(self, step, start):
        done = _tandem.minimum(step, float(self.decay_steps)) / float(self.decay_steps)
        cosine = 0.5 * (1.0 + _tandem.cos(math.pi * done))
        return start * ((1 - self.alpha) * cosine + self.alpha)

    def __call__(self, step):
        step = _step(step)
        if self.warmup_target is None:
            return self._decay(step, self.initial_learning_rate)
        rising = self.initial_learning_rate + (self.warmup_target - self.initial_learning_rate) * (step / float(max(self.warmup_steps, 1)))
        falling = self._decay(step - float(self.warmup_steps), self.warmup_target)
        return _tandem.where(step < float(self.warmup_steps), rising, falling)

    def get_config(self):
        return {k: getattr(self, k) for k in ("initial_learning_rate", "decay_steps", "alpha", "name", "warmup_target", "warmup_steps")}


class CosineDecayRestarts(LearningRateSchedule):
    """Cosine decays one after another."""

    def __init__(self, initial_learning_rate, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0, name="SGDRDecay"):
        self.initial_learning_rate, self.first_decay_steps = initial_learning_rate, first_decay_steps
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name

    def __call__(self, step):
        step = _step(step)
        done = step / float(self.first_decay_steps)
        if self.t_mul == 1.0:
            restarts = _tandem.floor(done)
            done = done - restarts
        else:
            restarts = _tandem.floor(_tandem.log(1.0 - done * (1.0 - self.t_mul)) / math.log(self.t_mul))
            power = _tandem.pow(_typed(step, self.t_mul), restarts)
            done = (done - (1.0 - power) / (1.0 - self.t_mul)) / power
        fraction = _tandem.pow(_typed(step, self.m_mul), restarts)
        cosine = 0.5 * fraction * (1.0 + _tandem.cos(math.pi * done))
        return self.initial_learning_rate * ((1 - self.alpha) * cosine + self.alpha)

    def get_config(self):
        return {k: getattr(self, k) for k in ("initial_learning_rate", "first_decay_steps", "t_mul", "m_mul", "alpha", "name")}


_NAMES = _objects.table(ExponentialDecay, InverseTimeDecay, PiecewiseConstantDecay, PolynomialDecay, CosineDecay, CosineDecayRestarts)


def serialize(schedule):
    """What `deserialize` makes the schedule of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(schedule)


def deserialize(config, custom_objects=None):
    """The schedule of a configuration."""
    return _objects.lookup("schedule", config, _NAMES, LearningRateSchedule)
