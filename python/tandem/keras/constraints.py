"""What weights are brought to after each update, keras.constraints."""

import _tandem
from tandem._names import missing as _missing
from tandem.keras import _objects


class Constraint(_objects.Configured):
    """What a constraint of one's own derives from: a function of a weight, applied after each update."""

    def __call__(self, w):
        return w


def _norm(w, axis):
    return _tandem.sqrt(_tandem.reduce_sum(w * w, axis, True))


class MaxNorm(Constraint):
    """Scales weights down whose norm is above max_value."""

    def __init__(self, max_value=2, axis=0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w):
        w = _tandem.convert(w)
        norms = _norm(w, self.axis)
        return w * (_tandem.clip(norms, 0.0, float(self.max_value)) / (1e-7 + norms))

    def get_config(self):
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """Sets negative weights to 0."""

    def __call__(self, w):
        return _tandem.maximum(w, 0.0)


class UnitNorm(Constraint):
    """Scales weights to norm 1."""

    def __init__(self, axis=0):
        self.axis = axis

    def __call__(self, w):
        w = _tandem.convert(w)
        return w / (1e-7 + _norm(w, self.axis))

    def get_config(self):
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Scales weights whose norm is outside of a range towards it."""

    def __init__(self, min_value=0.0, max_value=1.0, rate=1.0, axis=0):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w):
        w = _tandem.convert(w)
        norms = _norm(w, self.axis)
        desired = self.rate * _tandem.clip(norms, float(self.min_value), float(self.max_value)) + (1 - self.rate) * norms
        return w * (desired / (1e-7 + norms))

    def get_config(self):
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate, "axis": self.axis}


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm
_NAMES = _objects.table(MaxNorm, NonNeg, UnitNorm, MinMaxNorm)


def get(identifier):
    """The constraint of a name, configuration or function."""
    return _objects.lookup("constraint", identifier, _NAMES, Constraint)


def serialize(constraint):
    """What `deserialize` makes the constraint of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(constraint)


def deserialize(config, custom_objects=None):
    """The constraint of a name or configuration."""
    return get(config)


_missing.install(__name__, globals())
