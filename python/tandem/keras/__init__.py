"""Keras's names."""

import importlib as _importlib
import sys as _sys
import typing as _typing

from tandem.keras._calls import DTypePolicy, InputSpec
from tandem.keras._layer import Input, Layer
from tandem.keras._symbolic import KerasTensor, Operation
from tandem.keras._model import Function, Functional, Model, Sequential
from tandem.keras._variable import KerasVariable as Variable
from tandem.keras.initializers import Initializer
from tandem.keras.losses import Loss
from tandem.keras.metrics import Metric
from tandem.keras.optimizers import Optimizer
from tandem.keras.regularizers import Regularizer

__version__ = "3.15.0"

if _typing.TYPE_CHECKING:  # Imported when they are first named.
    from tandem.keras import (
        activations, applications, backend, callbacks, config, constraints, datasets, distillation, distribution, dtype_policies,
        initializers, layers, losses, metrics, mixed_precision, models, ops, optimizers, preprocessing, quantizers, random, regularizers,
        saving, tree, utils, wrappers,
    )

_SUBMODULES = {
    "activations", "applications", "backend", "callbacks", "config", "constraints", "datasets", "distillation", "distribution", "dtype_policies",
    "initializers", "layers", "losses", "metrics", "mixed_precision", "models", "ops", "optimizers", "preprocessing", "quantizers", "random", "regularizers",
    "saving", "tree", "utils", "wrappers",
}


__all__ = [
    "DTypePolicy", "Functional", "Initializer", "Input", "InputSpec", "KerasTensor", "Layer", "Loss", "Metric", "Model", "Optimizer",
    "Operation", "Quantizer", "Regularizer", "Sequential", "StatelessScope", "Variable", "device", "name_scope", "version", *sorted(_SUBMODULES),
]


def version():
    """The version of Keras whose names these are."""
    return __version__


def device(device_name):
    """A scope in which ops run on the named device."""
    from tandem import device as scope

    return scope(device_name)


class name_scope:
    """A scope for names; they mean nothing to what is computed."""

    def __init__(self, name, **kwargs):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class RematScope(name_scope):
    """A scope that changes nothing: values are kept for gradients."""

    def __init__(self, mode="full", output_size_threshold=1024, layer_names=None):
        if mode not in ("full", "activations", "larger_than", "list_of_layers", None):
            raise ValueError(f"Invalid mode '{mode}'. Supported modes are: 'full', 'activations', 'larger_than', 'list_of_layers', or None.")
        super().__init__("remat")
        self.mode, self.output_size_threshold, self.layer_names = mode, output_size_threshold, layer_names or []


def remat(f):
    """The function itself."""
    return f


class StatelessScope:
    """There is none here: variables are changed where they are. Says so."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("keras.StatelessScope: variables of tandem are changed where they are")


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    if name in _SUBMODULES:
        return _importlib.import_module(f"tandem.keras.{name}")
    if name == "Quantizer":
        from tandem.keras.quantizers import Quantizer

        return Quantizer
    if name == "FloatDTypePolicy":
        return DTypePolicy
    from tandem._names import missing as _missing

    raise _missing.missing("keras", name, _sys.modules[__name__], _SUBMODULES)

__all__ = [  # Written by scripts/exported-names.py.
    "DTypePolicy", "Function", "Functional", "Initializer", "Input", "InputSpec", "KerasTensor", "Layer", "Loss", "Metric", "Model",
    "Operation", "Optimizer", "Regularizer", "RematScope", "Sequential", "StatelessScope", "Variable", "activations", "applications",
    "backend", "callbacks", "config", "constraints", "datasets", "device", "distillation", "distribution", "dtype_policies", "initializers",
    "layers", "losses", "metrics", "mixed_precision", "models", "name_scope", "ops", "optimizers", "preprocessing", "quantizers", "random",
    "regularizers", "remat", "saving", "tree", "utils", "version", "wrappers",
]
