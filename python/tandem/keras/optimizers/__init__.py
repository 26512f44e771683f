"""Optimizers, keras.optimizers.

SGD, RMSprop, Adagrad, Adam and AdamW are the library's, whose update of all variables is one fused kernel; the others,
and those of users, are written in ops with slots of their own.
"""

from tandem._names import missing as _missing
from tandem.keras import _objects
from tandem.keras.optimizers import schedules
from tandem.keras.optimizers.base import Optimizer
from tandem.keras.optimizers.composed import Adadelta, Adamax, Ftrl, Lamb, Lion, Nadam
from tandem.keras.optimizers.fused import SGD, Adagrad, Adam, AdamW, RMSprop
from tandem.keras.optimizers.loss_scale import LossScaleOptimizer
from tandem.keras.optimizers.several import MultiOptimizer, OptimizerMap
from tandem.keras.optimizers.schedules import LearningRateSchedule


class legacy:
    """The optimizers by the names of Keras 2."""


for _cls in (SGD, RMSprop, Adagrad, Adam, Adadelta, Adamax, Nadam, Ftrl):
    setattr(legacy, _cls.__name__, _cls)
legacy.Optimizer = Optimizer


class experimental:
    """The optimizers by names that were experimental."""


for _cls in (SGD, RMSprop, Adagrad, Adam, AdamW, Adadelta, Adamax, Nadam, Ftrl):
    setattr(experimental, _cls.__name__, _cls)
experimental.Optimizer = Optimizer

_LATE = {"adafactor": "Adafactor", "muon": "Muon", "schedulefreeadamw": "ScheduleFreeAdamW"}
_NAMES = _objects.table(SGD, RMSprop, Adagrad, Adam, AdamW, Adadelta, Adamax, Nadam, Ftrl, Lion, Lamb, LossScaleOptimizer, MultiOptimizer, rmsprop=RMSprop, sgd=SGD, adamw=AdamW)


def get(identifier):
    """The optimizer of a name, configuration or optimizer."""
    name = identifier.get("class_name") if isinstance(identifier, dict) else identifier
    late = _LATE.get(name.lower()) if isinstance(name, str) else None
    if late is not None:
        from tandem.keras.optimizers import recent

        cls = getattr(recent, late)
        return cls.from_config(identifier.get("config", {})) if isinstance(identifier, dict) else cls()
    if isinstance(identifier, str) and identifier not in _NAMES:
        identifier = identifier.lower()
    if isinstance(identifier, dict) and "class_name" in identifier:
        cls = _NAMES.get(identifier["class_name"]) or _NAMES.get(identifier["class_name"].lower())
        if cls is not None:
            return cls.from_config(identifier.get("config", {}))
    return _objects.lookup("optimizer", identifier, _NAMES, Optimizer)


def serialize(optimizer):
    """What `deserialize` makes the optimizer of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(optimizer)


def deserialize(config, custom_objects=None):
    """The optimizer of a name or configuration."""
    return get(config)


_missing.install(__name__, globals(), {"tandem.keras.optimizers.recent": " ".join(_LATE.values())})

__all__ = [  # Written by scripts/exported-names.py.
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "LearningRateSchedule", "Lion", "LossScaleOptimizer",
    "MultiOptimizer", "Nadam", "Optimizer", "OptimizerMap", "RMSprop", "SGD", "deserialize", "experimental", "get", "legacy", "schedules",
    "serialize",
]
