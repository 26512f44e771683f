"""Models and weights in files, keras.saving: .keras archives, .weights.h5, and older .h5 files of weights.

HDF5 is read and written by h5py, which is needed for these functions only.
"""

import contextlib
import functools
import inspect
import io
import json
import os
import warnings
import zipfile

import numpy as np

import _tandem
from tandem._names import missing as _missing

_registered = {}
_scopes = []


def custom_object(name):
    """An object that users have registered, or named in a custom_object_scope."""
    for scope in reversed(_scopes):
        if name in scope:
            return scope[name]
    return _registered.get(name) or next((v for k, v in _registered.items() if k.split(">")[-1] == name), None)


def register_keras_serializable(package="Custom", name=None):
    def decorate(obj):
        _registered[f"{package}>{name or obj.__name__}"] = obj
        _registered.setdefault(name or obj.__name__, obj)
        return obj

    return decorate


class CustomObjectScope:
    def __init__(self, custom_objects):
        self._objects = custom_objects or {}

    def __enter__(self):
        _scopes.append(self._objects)
        return self

    def __exit__(self, *exception):
        _scopes.remove(self._objects)


custom_object_scope = CustomObjectScope


def get_custom_objects():
    return _registered


def get_registered_name(obj):
    return next((k for k, v in _registered.items() if v is obj), obj.__name__)


def get_registered_object(name, custom_objects=None, module_objects=None):
    return (custom_objects or {}).get(name) or custom_object(name)


# ---- Objects as dictionaries ----


def serialize_keras_object(obj):
    if obj is None or isinstance(obj, (bool, int, float, str)):
        return obj
    if isinstance(obj, (list, tuple)):
        return [serialize_keras_object(o) for o in obj]
    if isinstance(obj, dict):
        return {k: serialize_keras_object(v) for k, v in obj.items()}
    if isinstance(obj, np.generic):
        return obj.item()
    if isinstance(obj, np.ndarray):
        return {"class_name": "__numpy__", "config": {"value": obj.tolist(), "dtype": obj.dtype.name}}
    if hasattr(obj, "_numpy") and hasattr(obj, "name"):  # A dtype.
        return obj.name
    if isinstance(obj, _tandem.Tensor):
        return {"class_name": "__tensor__", "config": {"value": np.asarray(obj).tolist(), "dtype": obj.dtype.name}}
    if hasattr(obj, "get_config"):
        config = obj.get_config()
        build = obj.get_build_config() if hasattr(obj, "get_build_config") else None
        return {
            **({"build_config": serialize_keras_object(build)} if build is not None else {}),
            "module": _module_of(type(obj)), "class_name": type(obj).__name__, "config": serialize_keras_object(dict(config)),
            "registered_name": _registered_name(type(obj)),
        }
    if callable(obj):
        if getattr(obj, "__name__", "") == "<lambda>":
            import base64
            import marshal

            return {"class_name": "__lambda__", "config": {"value": base64.b64encode(marshal.dumps(obj.__code__)).decode()}}
        return {"class_name": "function", "config": obj.__name__, "module": _module_of(obj), "registered_name": obj.__name__}
    raise TypeError(f"{obj!r} cannot be saved: it has no get_config()")


def _registered_name(cls):
    if cls.__module__.startswith("tandem"):
        return None
    return next((k for k, v in _registered.items() if v is cls and ">" in k), f"Custom>{cls.__name__}")


def _module_of(cls):
    name = cls.__module__
    if not name.startswith("tandem"):
        return name
    for part in ("layers", "initializers", "regularizers", "constraints", "losses", "metrics", "optimizers.schedules", "optimizers", "activations"):
        if f"keras.{part}" in name:
            return f"keras.{part}"
    return "keras.src.models.functional" if cls.__name__ in ("Functional",) else "keras.models" if "_model" in name else "keras.layers"


def _class_named(name, custom_objects=None):
    from tandem.keras import _model, constraints, initializers, layers, losses, metrics, optimizers, regularizers
    from tandem.keras.optimizers import schedules

    found = (custom_objects or {}).get(name) or custom_object(name)
    if found is not None:
        return found
    if name == "Functional":
        return _model.Model
    for module in (layers, _model, initializers, regularizers, constraints, losses, metrics, optimizers, schedules):
        found = vars(module).get(name)
        if found is not None:
            return found
    raise TypeError(f"Could not locate class '{name}'. Make sure custom classes are decorated with `@keras.saving.register_keras_serializable()`, or given as custom_objects.")


def from_config(cls, config):
    config = _understood(cls, config)
    return cls.from_config(config) if hasattr(cls, "from_config") else cls(**config)


def _understood(cls, config):
    """A configuration of ours without settings of other versions of Keras that say nothing: those that are None."""
    if not cls.__module__.startswith("tandem") or not isinstance(config, dict) or None not in config.values():
        return config
    known = set()
    for each in cls.__mro__:
        if "__init__" in vars(each) and each is not object:
            known |= set(inspect.signature(each.__init__).parameters)
    is_unused = lambda k: k.startswith("renorm") and not config.get("renorm")  # noqa: E731
    return {k: v for k, v in config.items() if k in known or (v is not None and not is_unused(k))}


def deserialize_keras_object(config, custom_objects=None, safe_mode=True, **kwargs):
    if custom_objects:
        with CustomObjectScope(custom_objects):
            return deserialize_keras_object(config)
    if isinstance(config, (list, tuple)):
        return [deserialize_keras_object(c) for c in config]
    if not isinstance(config, dict):
        return config
    name = config.get("class_name")
    if name is None:
        return {k: deserialize_keras_object(v) for k, v in config.items()}
    if name == "__tuple__":
        return tuple(deserialize_keras_object(c) for c in config.get("items", config.get("config", {}).get("value", ())))
    if name in ("__numpy__", "__tensor__"):
        return np.array(config["config"]["value"], config["config"]["dtype"])
    if name == "__lambda__":
        import base64
        import marshal
        import types

        value = config["config"]["value"]
        code = value if isinstance(value, str) else value["code"]
        return types.FunctionType(marshal.loads(base64.b64decode(code)), globals())
    if name == "function":
        from tandem.keras import activations, losses, metrics

        label = config["config"]
        found = custom_object(label) or custom_object(config.get("registered_name") or label)
        for module in (activations, losses, metrics):
            found = found or vars(module).get(label)
        if found is None:
            raise TypeError(f"Could not locate function '{label}'; give it as custom_objects")
        return found
    if name == "DTypePolicy":
        return config["config"]["name"]
    registered = config.get("registered_name")
    cls = (custom_object(registered) if registered else None) or _class_named(name)
    inner = config.get("config", {})
    if not hasattr(cls, "_tandem_keeps_config") and not _keeps_config(cls):
        inner = {k: deserialize_keras_object(v) if k not in ("layers",) else v for k, v in inner.items()} if isinstance(inner, dict) else inner
    made = from_config(cls, inner)
    if config.get("build_config") and _builds_from_config(type(made)):
        made.build_from_config(deserialize_keras_object(config["build_config"]))
        made.built = True
    return made


def _builds_from_config(cls):
    """Whether a class says itself how it is built; ours are built by their first call."""
    from tandem.keras._layer_description import LayerDescription

    return getattr(cls, "build_from_config", LayerDescription.build_from_config) is not LayerDescription.build_from_config


def _keeps_config(cls):
    from tandem.keras._model import Model

    return isinstance(cls, type) and issubclass(cls, Model)


def functional_config(model):
    """A described model as a dictionary: its layers, and how they are called."""
    from tandem.keras._symbolic import KerasTensor
    from tandem.keras._layer import Layer

    graph = model._tandem_graph
    names = {}
    for operation in graph.operations:
        names[id(operation)] = operation.name
    places = {}
    calls = {}
    for t in graph.flat_inputs:
        places[id(t)] = (t._node.operation.name, 0, t._index)
    for node in graph.nodes:
        own = calls.setdefault(id(node.operation), [])
        number = len(own)
        own.append(node)
        for output in node.output_tensors:
            places[id(output)] = (node.operation.name, number, output._index)

    def encode(value):
        if isinstance(value, KerasTensor):
            return {"class_name": "__keras_tensor__", "config": {"shape": list(value.shape), "dtype": value.dtype, "keras_history": list(places[id(value)])}}
        if isinstance(value, list):
            return [encode(v) for v in value]
        if isinstance(value, tuple):
            return {"class_name": "__tuple__", "items": [encode(v) for v in value]}
        if isinstance(value, dict):
            return {k: encode(v) for k, v in value.items()}
        if isinstance(value, slice):
            return {"class_name": "__slice__", "items": [encode(p) for p in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"class_name": "__ellipsis__"}
        return serialize_keras_object(value)

    layers = []
    for operation in graph.operations:
        if not isinstance(operation, Layer):
            raise TypeError(f"the model {model.name} has a step {operation.name!r} that is a function, not a layer; wrap it in a layer to save it")
        entry = serialize_keras_object(operation)
        entry["name"] = operation.name
        entry["inbound_nodes"] = [{"args": [encode(a) for a in n.args], "kwargs": {k: encode(v) for k, v in n.kwargs.items()}} for n in calls.get(id(operation), [])]
        layers.append(entry)
    place = lambda value: list(places[id(value)]) if isinstance(value, KerasTensor) else {k: place(v) for k, v in value.items()} if isinstance(value, dict) else [place(v) for v in value]  # noqa: E731
    return {"name": model.name, "trainable": model._trainable, "layers": layers, "input_layers": place(graph.inputs), "output_layers": place(graph.outputs)}


def functional_from_config(cls, config, custom_objects=None, clone_function=None):
    layers, outputs = {}, {}
    pending = []
    for entry in config["layers"]:
        layer = deserialize_keras_object({k: v for k, v in entry.items() if k not in ("inbound_nodes", "name")}, custom_objects)
        if clone_function is not None:
            layer = clone_function(layer)
        layers[entry["name"]] = layer
        nodes = entry.get("inbound_nodes", [])
        if not nodes:
            outputs[(entry["name"], 0)] = [layer.output]
        for i, node in enumerate(nodes):
            pending.append((entry["name"], i, node))

    class _Later(Exception):
        pass

    def decode(value):
        if isinstance(value, list):
            return [decode(v) for v in value]
        if isinstance(value, dict):
            name = value.get("class_name")
            if name == "__keras_tensor__":
                label, number, index = value["config"]["keras_history"]
                if (label, number) not in outputs:
                    raise _Later
                return outputs[(label, number)][index]
            if name == "__tuple__":
                return tuple(decode(v) for v in value["items"])
            if name == "__slice__":
                return slice(*[decode(v) for v in value["items"]])
            if name == "__ellipsis__":
                return Ellipsis
            if name is None:
                return {k: decode(v) for k, v in value.items()}
            return deserialize_keras_object(value)
        return value

    from tandem import nest

    while pending:
        rest = []
        for name, number, node in pending:
            try:
                args, kwargs = decode(node["args"]), decode(node["kwargs"])
            except _Later:
                rest.append((name, number, node))
                continue
            outputs[(name, number)] = nest.flatten(layers[name](*args, **kwargs))
        if len(rest) == len(pending):
            raise ValueError("the model's layers are not connected")
        pending = rest

    def find(place):
        if isinstance(place, dict):
            return {k: find(v) for k, v in place.items()}
        if len(place) == 3 and isinstance(place[0], str):
            return outputs[(place[0], place[1])][place[2]]
        return [find(p) for p in place]

    return cls(inputs=find(config["input_layers"]), outputs=find(config["output_layers"]), name=config.get("name"))


def cloned(model, clone_function):
    return functional_from_config(type(model), functional_config(model), None, clone_function)


# ---- Files ----


def _h5py():
    try:
        import h5py
    except ImportError:
        raise ImportError("HDF5 files need h5py: pip install h5py") from None
    return h5py


class _Part:
    """Some of a layer's variables, which Keras keeps in a layer of its own."""

    def __init__(self, name, variables):
        self.name, self._variables = name, variables

    def _own_saved(self):
        return self._variables


def _named_layers(model):
    """The layers with weights of their own, each once, by paths as Keras has them."""
    found, seen = [], set()

    def once(layer, path):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        if hasattr(layer, "_saved_parts"):
            found.extend((f"{path}/{name}", _Part(f"{layer.name}/{name}", variables)) for name, variables in layer._saved_parts())
        elif layer._own_saved():
            found.append((path, layer))
        for name, child in _named_children(layer):
            once(child, f"{path}/{name}".strip("/"))

    once(model, "")
    return found


def _named_children(layer):
    """Layers within a layer: those of a described model by their kinds, those of attributes by the attributes' names."""
    from tandem.keras._layer import Layer

    has_graph = getattr(layer, "_tandem_graph", None) is not None or type(layer).__name__ == "Sequential"
    if has_graph:
        yield from _of_kinds("layers", layer.layers)
    held = {k: v for k, v in vars(layer).items() if not k.startswith("_tandem_") and k not in ("_init_args", "_stack", "_input_layer")}
    if hasattr(type(layer), "layers") and not has_graph:  # An attribute of models among the others.
        held["layers"] = layer.layers
    for name in sorted(held, key=lambda n: "~" + n if n.startswith("_") else n):
        value = held[name]
        if isinstance(value, Layer):
            yield name, value
        elif isinstance(value, (list, tuple, set, dict)):
            yield from _of_kinds(name, value.values() if isinstance(value, dict) else value)


def _of_kinds(name, container):
    """The layers of a container, numbered where several are of one kind. Names of layers are not the same in each program."""
    from tandem.keras._layer import Layer
    from tandem.keras._objects import snake_case

    used = {}
    for child in container:
        if not isinstance(child, Layer) or type(child).__name__ == "InputLayer":
            continue
        kind = snake_case(type(child).__name__)
        number = used[kind] = used.get(kind, -1) + 1
        yield f"{name}/{kind}_{number}" if number else f"{name}/{kind}", child


def _has_own(layer, method):
    """Whether the user's class says how its variables are stored."""
    from tandem.keras._layer import Layer

    return isinstance(layer, Layer) and getattr(type(layer), method) is not getattr(Layer, method)


def _save_assets(archive, model):
    """The files that layers keep besides their weights."""
    import tempfile

    for layer in model._flatten_layers():
        if not hasattr(layer, "save_assets"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            layer.save_assets(folder)
            for name in os.listdir(folder):
                archive.write(os.path.join(folder, name), f"assets/{layer.name}/{name}")


def _load_assets(archive, model):
    import tempfile

    for layer in model._flatten_layers():
        names = [n for n in archive.namelist() if n.startswith(f"assets/{layer.name}/")]
        if not names or not hasattr(layer, "load_assets"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                with open(os.path.join(folder, os.path.basename(name)), "wb") as file:
                    file.write(archive.read(name))
            layer.load_assets(folder)


def _write_weights(file, model):
    for path, layer in _named_layers(model):
        group = file.require_group(f"{path}/vars" if path else "vars")
        if _has_own(layer, "save_own_variables"):
            store = {}
            layer.save_own_variables(store)
            for key, value in store.items():
                group[key] = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
            continue
        for i, v in enumerate(layer._own_saved()):
            group[str(i)] = np.asarray(v.numpy())


def _read_weights(file, model, skip_mismatch=False):
    for path, layer in _named_layers(model):
        key = f"{path}/vars" if path else "vars"
        own = layer._own_saved()
        if key not in file:
            if skip_mismatch:
                continue
            raise ValueError(f"the file has no weights for the layer {layer.name!r} ({key}); it was saved from another model")
        group = file[key]
        if _has_own(layer, "load_own_variables"):
            layer.load_own_variables({k: np.asarray(v) for k, v in group.items()})
            continue
        for i, v in enumerate(own):
            value = np.asarray(group[str(i)])
            if tuple(value.shape) != tuple(v.shape):
                if skip_mismatch:
                    continue
                raise ValueError(f"layer {layer.name!r}: the weight {v.name!r} has shape {tuple(v.shape)}, the file's {tuple(value.shape)}")
            v.assign(value)


@contextlib.contextmanager
def _replaced_at_once(filepath):
    """A new file that takes the place of `filepath` when it is whole: several processes may write the same one."""
    folder, name = os.path.split(filepath)
    os.makedirs(folder or ".", exist_ok=True)
    path = os.path.join(folder, f".{os.urandom(6).hex()}.{name}")
    try:
        yield path
        os.replace(path, filepath)
    finally:
        if os.path.exists(path):
            os.remove(path)


@contextlib.contextmanager
def whole_slots(model, include_optimizer=True):
    """Whether this process can write the model and its optimizer: where processes keep parts of the slots the chief
    alone, which has them whole meanwhile. All of them call this then, and leave together."""
    strategy, optimizer = model.__dict__.get("_tandem_strategy"), getattr(model, "optimizer", None)
    if strategy is None or not include_optimizer or strategy.num_replicas_in_sync == strategy._local_replicas or not hasattr(optimizer, "variables"):
        yield True
        return
    gathered = _tandem.GatheredSlots(optimizer.variables)
    has_parts = gathered.has_parts
    try:
        yield strategy.is_chief or not has_parts
    finally:
        del gathered
        if has_parts:
            strategy.reduce("SUM", 0.0)


def save_weights(model, filepath, overwrite=True):
    filepath = os.fspath(filepath)
    if not overwrite and os.path.exists(filepath):
        raise FileExistsError(filepath)
    if not filepath.endswith((".h5", ".hdf5", ".keras")):
        from tandem.train import Checkpoint

        Checkpoint(model).write(filepath)
        return
    with _replaced_at_once(filepath) as path, _h5py().File(path, "w") as file:
        _write_weights(file, model)


def load_weights(model, filepath, skip_mismatch=False, by_name=False):
    filepath = os.fspath(filepath)
    if filepath.endswith(".keras"):
        with zipfile.ZipFile(filepath) as archive:
            with _h5py().File(io.BytesIO(archive.read("model.weights.h5")), "r") as file:
                _read_weights(file, model, skip_mismatch)
        return None
    if not filepath.endswith((".h5", ".hdf5")):
        from tandem.train import Checkpoint

        return Checkpoint(model).restore(filepath)
    with _h5py().File(filepath, "r") as file:
        if "layer_names" in file.attrs or "model_weights" in file:
            _read_legacy(file["model_weights"] if "model_weights" in file else file, model, by_name)
        else:
            _read_weights(file, model, skip_mismatch)
    return None


def _read_legacy(file, model, by_name):
    """Weights as Keras 2 wrote them: by the names of layers, in their order."""
    text = lambda v: v.decode() if isinstance(v, bytes) else v  # noqa: E731
    names = [text(n) for n in file.attrs["layer_names"]]
    stored = [(n, [np.asarray(file[n][text(w)]) for w in file[n].attrs["weight_names"]]) for n in names]
    stored = [(n, w) for n, w in stored if w]
    layers = [l for l in model.layers if l.weights]
    if by_name:
        by = dict(stored)
        pairs = [(l, by[l.name]) for l in layers if l.name in by]
    else:
        if len(layers) != len(stored):
            raise ValueError(f"the file has weights of {len(stored)} layers, the model {len(layers)}")
        pairs = [(l, w) for l, (_, w) in zip(layers, stored)]
    for layer, weights in pairs:
        layer.set_weights(weights)


def _compiles_itself(model):
    from tandem.keras._trainer import Trainer

    return type(model).compile_from_config is not Trainer.compile_from_config


def _compile_config(model):
    if _compiles_itself(model):
        return serialize_keras_object(model.get_compile_config())
    given = getattr(model, "_compile_config", None)
    if not given:
        return None
    try:
        result = {k: serialize_keras_object(v) for k, v in given.items()}
        from tandem.keras import optimizers

        if isinstance(model.optimizer, optimizers.Optimizer):
            result["optimizer"] = optimizers.serialize(model.optimizer)
        json.dumps(result)
        return result
    except (TypeError, ValueError):
        return None


def save_model(model, filepath, overwrite=True, include_optimizer=True, save_format=None, **kwargs):
    filepath = os.fspath(filepath)
    if filepath.endswith((".h5", ".hdf5")):
        _save_h5(model, filepath, include_optimizer)
        return
    if not overwrite and os.path.exists(filepath):
        raise FileExistsError(filepath)
    if not filepath.endswith(".keras"):
        filepath = _file_in(filepath)
    with whole_slots(model, include_optimizer) as is_writer:
        if is_writer:
            _save_keras(model, filepath, include_optimizer)


_FOLDER_FILE = "model.keras"  # What a folder has in it where TensorFlow writes a SavedModel.


def _file_in(folder):
    warnings.warn(f"{folder} becomes a folder with {_FOLDER_FILE} in it, which tandem and Keras read; TensorFlow's SavedModels are not written", stacklevel=4)
    return os.path.join(folder, _FOLDER_FILE)


def is_folder_of_model(path):
    return os.path.isfile(os.path.join(path, _FOLDER_FILE))


def _save_keras(model, filepath, include_optimizer):
    config = serialize_keras_object(model)
    if getattr(model, "_tandem_graph", None) is not None and type(model).__name__ == "Model":
        config["module"], config["class_name"] = "keras.src.models.functional", "Functional"
    config["build_config"] = {"input_shape": _input_shape(model)}
    config["compile_config"] = _compile_config(model) if include_optimizer else None
    weights = io.BytesIO()
    with _h5py().File(weights, "w") as file:
        _write_weights(file, model)
        if include_optimizer and getattr(model, "optimizer", None) is not None and hasattr(model.optimizer, "variables"):
            group = file.require_group("optimizer/vars")
            for i, v in enumerate(model.optimizer.variables):
                group[str(i)] = np.asarray(v.numpy())
    with _replaced_at_once(filepath) as path, zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.0", "date_saved": _now()}))
        archive.writestr("config.json", json.dumps(config, default=str))
        archive.writestr("model.weights.h5", weights.getvalue())
        _save_assets(archive, model)


def _now():
    import datetime

    return datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S")


def _input_shape(model):
    graph = getattr(model, "_tandem_graph", None)
    if graph is None:
        return None
    return [list(t.shape) for t in graph.flat_inputs] if len(graph.flat_inputs) > 1 else list(graph.flat_inputs[0].shape)


def _save_h5(model, filepath, include_optimizer):
    with _replaced_at_once(filepath) as path, _h5py().File(path, "w") as file:
        file.attrs["tandem_config"] = json.dumps(serialize_keras_object(model), default=str)
        file.attrs["tandem_compile"] = json.dumps(_compile_config(model) if include_optimizer else None, default=str)
        _write_weights(file, model)


def load_model(filepath, custom_objects=None, compile=True, safe_mode=True, **kwargs):
    filepath = os.fspath(filepath)
    if not os.path.exists(filepath):
        raise ValueError(f"File not found: filepath={filepath}. Please ensure the file is an accessible `.keras` zip file.")
    if is_folder_of_model(filepath):
        filepath = os.path.join(filepath, _FOLDER_FILE)
    if os.path.isdir(filepath):
        raise ValueError(f"File format not supported: filepath={filepath}. tandem reads no SavedModels of TensorFlow; save the model as a `.keras` file.")
    with CustomObjectScope(custom_objects or {}):
        if not zipfile.is_zipfile(filepath):
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
                model.build(shape)
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
    return deserialize_keras_object(json.loads(json_string), custom_objects)


_missing.install(__name__, globals())
