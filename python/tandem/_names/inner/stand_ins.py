"""Modules that stand for TensorFlow's inner modules, whose names are those of its public ones."""

import sys
import types

import tandem as _tf


class StandIn(types.ModuleType):
    """A module whose names are looked for in the public modules; those of version 1 are there, too, and `_v2` behind a name says nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        plain = name.removesuffix("_v2")
        for place in (_tf, _tf.math, _tf.nn, _tf.linalg, _tf.lookup, _tf.initializers, _tf.compat.v1):
            found = getattr(place, plain, None)
            if found is not None:
                return found
        raise AttributeError(f"{self.__name__.replace('tandem._names.inner', 'tensorflow.python')} has no {name} here: use TensorFlow's public names")


def add_stand_ins(parent, names):
    """Makes modules of these names inside of a package."""
    for name in names.split():
        module = sys.modules[f"{parent.__name__}.{name}"] = StandIn(f"{parent.__name__}.{name}")
        setattr(parent, name, module)
