"""What weights are brought to after each update, keras.constraints."""

import _tandem
from tandem._names import missing as _missing
from tandem.keras import _objects


class Constraint(_objects.Configured):
    def __call__(self, w):
        return w


def _norm(w, axis):
    return _tandem.sqrt(_tandem.reduce_sum(w * w, axis, True))


class MaxNorm(Constraint):
    def __init__(self, max_value=2, axis=0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w):
        w = _tandem.convert(w)
        norms = _norm(w, self.axis)
        return w * (_tandem.clip(norms, 0.0, float(self.max_value)) / (1e-7 + norms))

    def get_config(self):
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    def __call__(self, w):
        return _tandem.maximum(w, 0.0)


class UnitNorm(Constraint):
    def __init__(self, axis=0):
        self.axis = axis

    def __call__(self, w):
        w = _tandem.convert(w)
        return w / (1e-7 + _norm(w, self.axis))

    def get_config(self):
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
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
    return _objects.lookup("constraint", identifier, _NAMES, Constraint)


def serialize(constraint):
    from tandem.keras import saving

    return saving.serialize_keras_object(constraint)


def deserialize(config, custom_objects=None):
    return get(config)


_missing.install(__name__, globals())
