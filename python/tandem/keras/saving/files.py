"""Whole models in files: .keras archives, folders, and older .h5 files."""

import contextlib
import io
import json
import os
import pickle
import warnings
import zipfile

import numpy as np

import _tandem
from tandem.keras.saving.objects import CustomObjectScope, check_code_is_trusted, deserialize_keras_object, kept_objects, own_objects, reading, serialize_keras_object
from tandem.keras.layers._vocabulary import vocabularies_are_written
from tandem.keras.saving.weights import _h5py, _load_assets, _named_layers, _read_legacy, _read_weights, _replaced_at_once, _save_assets, _write_weights, whole_slots


def _compiles_itself(model):
    from tandem.keras._trainer import Trainer

    return type(model).compile_from_config is not Trainer.compile_from_config


def _compile_config(model):
    if _compiles_itself(model):
        return serialize_keras_object(model.get_compile_config())
    if not getattr(model, "_compile_config", None):
        return None
    try:
        result = model.get_compile_config()
        json.dumps(result)
        return result
    except (TypeError, ValueError):
        return None


def save_model(model, filepath, overwrite=True, include_optimizer=True, save_format=None, **kwargs):
    """Writes a model to a .keras or .h5 file, or to a folder."""
    filepath = os.fspath(filepath)
    if filepath.endswith((".h5", ".hdf5")):
        _save_h5(model, filepath, include_optimizer)
        return
    if not overwrite and os.path.exists(filepath):
        raise FileExistsError(filepath)
    folder = None if filepath.endswith(".keras") else filepath
    if folder is not None:
        filepath = _file_in(folder)
    with whole_slots(model, include_optimizer) as is_writer, own_objects() as own:
        if is_writer:
            _save_keras(model, filepath, include_optimizer)
            if folder is not None:
                _save_own_objects(folder, own)


_FOLDER_FILE = "model.keras"  # What a folder has in it where TensorFlow writes a SavedModel.
_FOLDER_OBJECTS = "objects.pickle"  # The program's own classes and functions, which a SavedModel does without.
_written_here = {}  # By folder, those that this process has written, which need not be read.


def _save_own_objects(folder, own):
    from tandem._tracing import portable

    path = os.path.join(folder, _FOLDER_OBJECTS)
    if os.path.exists(path):
        os.remove(path)
    _written_here[os.path.realpath(folder)] = own
    if own:
        try:
            portable.write(path, own)
        except (TypeError, ValueError, AttributeError, pickle.PicklingError):  # Who reads the folder gives them as custom_objects then.
            return


def _own_objects_of(folder):
    from tandem._tracing import portable

    path = os.path.join(folder, _FOLDER_OBJECTS)
    own = _written_here.get(os.path.realpath(folder))
    if own is not None or not os.path.exists(path):
        return own or {}
    check_code_is_trusted(path)
    return portable.read(path)


def _file_in(folder):
    warnings.warn(f"{folder} becomes a folder with {_FOLDER_FILE} in it, which tandem and Keras read; TensorFlow's SavedModels are not written", stacklevel=4)
    return os.path.join(folder, _FOLDER_FILE)


def is_folder_of_model(path):
    """True for a folder that save_model wrote."""
    return os.path.isfile(os.path.join(path, _FOLDER_FILE))


def described(model, include_optimizer=True):
    """A model's configuration, with those of how it was built and compiled."""
    with vocabularies_are_written():
        config = serialize_keras_object(model)
    config["build_config"] = model.get_build_config() or {"input_shape": None}
    config["compile_config"] = (_compile_config(model) if include_optimizer else None) or {}
    return config


def _write_optimizer(file, path, optimizer):
    """The variables of an optimizer; Keras has those of the optimizers within it in places of their own once more."""
    group = file.require_group(f"{path}/vars")
    for i, v in enumerate(optimizer.variables):
        group[str(i)] = np.asarray(v.numpy())
    if hasattr(optimizer, "inner_optimizer"):
        _write_optimizer(file, f"{path}/inner_optimizer", optimizer.inner_optimizer)


def _save_keras(model, filepath, include_optimizer):
    config = described(model, include_optimizer)
    weights = io.BytesIO()
    with _h5py().File(weights, "w") as file:
        _write_weights(file, model)
        if include_optimizer and getattr(model, "optimizer", None) is not None and hasattr(model.optimizer, "variables"):
            _write_optimizer(file, "optimizer", model.optimizer)
    with _replaced_at_once(filepath) as path, zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.0", "date_saved": _now()}))
        archive.writestr("config.json", json.dumps(config, default=str))
        archive.writestr("model.weights.h5", weights.getvalue())
        _save_assets(archive, model)


def _now():
    import datetime

    return datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S")


def _save_h5(model, filepath, include_optimizer):
    with _replaced_at_once(filepath) as path, _h5py().File(path, "w") as file:
        file.attrs["tandem_config"] = json.dumps(serialize_keras_object(model), default=str)
        file.attrs["tandem_compile"] = json.dumps(_compile_config(model) if include_optimizer else None, default=str)
        _write_weights(file, model)


def load_model(filepath, custom_objects=None, compile=True, safe_mode=True, **kwargs):
    """The model of a file or folder, compiled as it was. Code in it is read only with safe_mode=False."""
    with reading(safe_mode):
        return _load_model(os.fspath(filepath), custom_objects, compile)


def _load_model(filepath, custom_objects, compile):
    if not os.path.exists(filepath):
        raise ValueError(f"File not found: filepath={filepath}. Please ensure the file is an accessible `.keras` zip file.")
    if is_folder_of_model(filepath):
        is_own = os.path.realpath(filepath) in _written_here
        with reading(safe_mode=False) if is_own else contextlib.nullcontext(), kept_objects(lambda: _own_objects_of(filepath)):
            return _load_model(os.path.join(filepath, _FOLDER_FILE), custom_objects, compile)
    if os.path.isdir(filepath):
        raise ValueError(f"File format not supported: filepath={filepath}. tandem reads no SavedModels of TensorFlow; save the model as a `.keras` file.")
    with CustomObjectScope(custom_objects or {}):
        if not zipfile.is_zipfile(filepath):
            if not _h5py().is_hdf5(filepath):  # As FeatureSpace.save writes.
                check_code_is_trusted(f"{filepath} is neither a `.keras` file nor one of HDF5. What FeatureSpace.save wrote")
                from tandem._tracing import portable

                return portable.read(filepath)
            with _h5py().File(filepath, "r") as file:
                if "tandem_config" not in file.attrs:
                    return _load_legacy(file, filepath, compile)
                model = deserialize_keras_object(json.loads(file.attrs["tandem_config"]))
                _read_weights(file, model)
                settings = json.loads(file.attrs["tandem_compile"])
            _compile_again(model, settings if compile else None)
            return model
        with zipfile.ZipFile(filepath) as archive:
            config = json.loads(archive.read("config.json"))
            model = deserialize_keras_object({k: v for k, v in config.items() if k not in ("build_config", "compile_config")})
            shape = (config.get("build_config") or {}).get("input_shape")
            if shape and not model.built:
                shape = _built(model, shape)
            with _h5py().File(io.BytesIO(archive.read("model.weights.h5")), "r") as file:
                if not _named_layers(model) and shape is None and len(file.keys()):
                    model._weights_to_read = archive.read("model.weights.h5")
                else:
                    _read_weights(file, model)
                _load_assets(archive, model)
                _compile_again(model, config.get("compile_config") if compile else None)
                if compile and "optimizer/vars" in file and getattr(model, "optimizer", None) is not None and model.trainable_variables:
                    _restore_optimizer(model, file["optimizer/vars"])
    return model


def _built(model, shape):
    """The shape, where the model makes its weights for it. One of one's own may want other inputs than floating ones; it reads its weights later."""
    if getattr(model, "_tandem_graph", None) is None and not hasattr(model, "_stack"):
        model.__dict__["_tandem_is_made_alone"] = 0
    try:
        model.build(shape)
    except Exception:  # noqa: BLE001
        if getattr(model, "_tandem_graph", None) is not None or hasattr(model, "_stack"):
            raise
        model.built = False
        return None
    return shape


def _load_legacy(file, filepath, compile):
    """A whole model in Keras's own .h5 format."""
    if "model_config" not in file.attrs:
        raise ValueError(f"No model config found in the file at {filepath}.")
    model = deserialize_keras_object(json.loads(file.attrs["model_config"]))
    _read_legacy(file["model_weights"], model, False)
    settings = json.loads(file.attrs["training_config"]) if compile and "training_config" in file.attrs else None
    if settings:
        settings = {k: settings.get(k) for k in ("loss", "loss_weights", "metrics", "weighted_metrics")} | {"optimizer": settings.get("optimizer_config")}
    _compile_again(model, settings)
    return model


def _compile_again(model, settings):
    if settings and _compiles_itself(model):
        model.compile_from_config(settings)
    elif settings:
        model.compile(**{k: deserialize_keras_object(v) if k != "optimizer" else v for k, v in settings.items()})


def _restore_optimizer(model, group):
    model.optimizer.build(model.trainable_variables)
    variables = model.optimizer.variables
    if len(variables) != len(group.keys()):
        return
    for i, v in enumerate(variables):
        value = np.asarray(group[str(i)])
        if tuple(value.shape) == tuple(v.shape):
            v.assign(_tandem.convert(value, v._code))


def model_from_json(json_string, custom_objects=None):
    """The model of a configuration as JSON, with new weights. A lambda in it is refused."""
    with reading(safe_mode=True):
        return deserialize_keras_object(json.loads(json_string), custom_objects)
