"""Models and weights in files, keras.saving: .keras archives, .weights.h5, and older .h5 files.

HDF5 is read and written by h5py, which is needed for these functions only.
"""

from tandem._names import missing as _missing
from tandem.keras.saving.files import described, is_folder_of_model, load_model, model_from_json, save_model
from tandem.keras.saving.graphs import cloned, functional_config, functional_from_config
from tandem.keras.saving.objects import (
    CustomObjectScope, custom_object, custom_object_scope, deserialize_keras_object, from_config, get_custom_objects, get_registered_name, get_registered_object,
    register_keras_serializable, serialize_keras_object,
)
from tandem.keras.saving.weights import load_weights, save_weights, whole_slots

_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "CustomObjectScope", "cloned", "custom_object", "custom_object_scope", "described", "deserialize_keras_object", "from_config",
    "functional_config", "functional_from_config", "get_custom_objects", "get_registered_name", "get_registered_object",
    "is_folder_of_model", "load_model", "load_weights", "model_from_json", "register_keras_serializable", "save_model", "save_weights",
    "serialize_keras_object", "whole_slots",
]
