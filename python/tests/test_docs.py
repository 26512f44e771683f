"""What help() says: every public name has a sentence."""

import importlib
import inspect
import types

import tandem as tf
from tandem import keras

MODULES = ["tandem", *(f"tandem.{m}" for m in sorted(tf._SUBMODULES)), *(f"tandem.keras.{m}" for m in sorted(keras._SUBMODULES))]


def own(value):
    return callable(value) and not isinstance(value, types.ModuleType) and str(getattr(value, "__module__", "")).startswith("tandem")


def test_public_names_have_a_sentence():
    missing, count = [], 0
    for name in MODULES:
        module = importlib.import_module(name)
        if not module.__doc__:
            missing.append(name)
        for each in dir(module):
            value = getattr(module, each, None) if not each.startswith("_") else None
            if value is None or not own(value):
                continue
            count += 1
            if not (value.__dict__.get("__doc__") if isinstance(value, type) else value.__doc__):
                missing.append(f"{name}.{each}")
    assert not missing and count > 1500, (count, missing)


def test_methods_of_the_main_classes_have_one_too():
    missing = []
    for cls in (tf.data.Dataset, tf.GradientTape, tf.Module, tf.train.Checkpoint, tf.TensorShape, keras.Model, keras.layers.Layer, keras.optimizers.Optimizer, keras.callbacks.Callback):
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            if not name.startswith("_") and isinstance(member, (types.FunctionType, classmethod, staticmethod, property)) and not inspect.getdoc(member):
                missing.append(f"{cls.__name__}.{name}")
    assert not missing, missing
