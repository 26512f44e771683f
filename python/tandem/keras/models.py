"""Models, keras.models."""

from tandem._names import missing as _missing
from tandem.keras._model import Functional, Model, Sequential, clone_model  # noqa: F401
from tandem.keras.saving import deserialize_keras_object as model_from_config, load_model, model_from_json, save_model  # noqa: F401

_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "Functional", "Model", "Sequential", "clone_model", "load_model", "model_from_config", "model_from_json", "save_model",
]
