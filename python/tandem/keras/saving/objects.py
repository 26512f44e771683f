"""Objects as configurations, and the names of users' own classes."""

import contextlib
import functools
import inspect
import threading

import numpy as np

import _tandem


_registered = {}
_scopes = []


def custom_object(name):
    """An object that users have registered, or named in a custom_object_scope."""
    for scope in reversed(_scopes):
        if name in scope:
            return scope[name]
    return _registered.get(name) or next((v for k, v in _registered.items() if k.split(">")[-1] == name), None)


class _Reading(threading.local):
    refuses_code = False  # What is read may be a stranger's.


_reading = _Reading()
_everybody_is_trusted = [False]  # As enable_unsafe_deserialization says.


def trust_everybody():
    """Code in files is read from now on, whoever wrote it."""
    _everybody_is_trusted[0] = True


@contextlib.contextmanager
def reading(safe_mode):
    """A scope in which code that would run when it is read is refused in safe mode."""
    before, _reading.refuses_code = _reading.refuses_code, bool(safe_mode) and not _everybody_is_trusted[0]
    try:
        yield
    finally:
        _reading.refuses_code = before


def check_code_is_trusted(what):
    """Raises where what is read may be a stranger's."""
    if _reading.refuses_code:
        raise ValueError(f"{what} holds code, which would run when it is read: safe_mode=False reads it, where you trust who wrote it.")


_kept = []  # Functions that read the objects which were written beside a model; they are asked for names that nobody else knows.


@contextlib.contextmanager
def kept_objects(read):
    """A scope in which names that are not known otherwise are those of the dictionary that `read` gives."""
    _kept.append(functools.cache(read))
    try:
        yield
    finally:
        _kept.pop()


def _kept_object(name):
    return next((found[name] for found in (read() for read in reversed(_kept)) if name in found), None)


def register_keras_serializable(package="Custom", name=None):
    """A decorator for classes and functions that load_model finds by name."""
    def decorate(obj):
        _registered[f"{package}>{name or obj.__name__}"] = obj
        _registered.setdefault(name or obj.__name__, obj)
        return obj

    return decorate


class CustomObjectScope:
    """A scope in which names stand for the given classes and functions."""

    def __init__(self, custom_objects):
        self._objects = custom_objects or {}

    def __enter__(self):
        _scopes.append(self._objects)
        return self

    def __exit__(self, *exception):
        _scopes.remove(self._objects)


custom_object_scope = CustomObjectScope


def get_custom_objects():
    """The classes and functions that names stand for, which may be changed."""
    return _registered


def get_registered_name(obj):
    """The name under which a class or function was registered."""
    return next((k for k, v in _registered.items() if v is obj), obj.__name__)


def get_registered_object(name, custom_objects=None, module_objects=None):
    """The class or function that was registered under a name."""
    return (custom_objects or {}).get(name) or custom_object(name)


# ---- Objects as dictionaries ----

_met = []  # Dictionaries that take the program's own classes and functions while a configuration is made.


@contextlib.contextmanager
def own_objects():
    """The classes and functions of the program itself, by their names, that the configurations made in this scope speak of."""
    found = {}
    _met.append(found)
    try:
        yield found
    finally:
        _met.remove(found)


def _meet(name, obj):
    if not obj.__module__.startswith("tandem"):
        for found in _met:
            found[name] = obj


def serialize_keras_object(obj):
    """The configuration of an object, of which it can be made again."""
    if obj is None or isinstance(obj, (bool, int, float, str)):
        return obj
    if isinstance(obj, (list, tuple)):
        parts = [serialize_keras_object(o) for o in obj]
        return tuple(parts) if isinstance(obj, tuple) else parts
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
        name = obj._class_name() if hasattr(obj, "_class_name") else type(obj).__name__
        _meet(name, type(obj))
        return {
            "module": _module_of(type(obj)) if name != "Functional" else "keras.src.models.functional", "class_name": name, "config": serialize_keras_object(dict(config)),
            "registered_name": _registered_name(type(obj)) if name != "Functional" else name, **({"build_config": serialize_keras_object(build)} if build is not None else {}),
        }
    if callable(obj):
        if getattr(obj, "__name__", "") == "<lambda>":
            import base64
            import marshal

            return {"class_name": "__lambda__", "config": {"value": base64.b64encode(marshal.dumps(obj.__code__)).decode()}}
        _meet(obj.__name__, obj)
        return {"module": "builtins", "class_name": "function", "config": get_registered_name(obj), "registered_name": "function"}
    raise TypeError(f"{obj!r} cannot be saved: it has no get_config()")


def _registered_name(cls):
    if cls.__module__.startswith("tandem"):
        return None
    return next((k for k, v in _registered.items() if v is cls and ">" in k), cls.__name__)


def _module_of(cls):
    name = cls.__module__
    if not name.startswith("tandem"):
        return None if name == "__main__" else name
    if name == "tandem.keras._rarer":
        from tandem.keras import initializers, losses

        return "keras.initializers" if issubclass(cls, initializers.Initializer) else "keras.losses" if issubclass(cls, losses.Loss) else "keras.metrics"
    for part in ("layers", "initializers", "regularizers", "constraints", "losses", "metrics", "optimizers.schedules", "optimizers", "activations"):
        if f"keras.{part}" in name:
            return f"keras.{part}"
    return "keras.src.models.functional" if cls.__name__ in ("Functional",) else "keras" if cls.__name__ == "Sequential" else "keras.models" if "_model" in name else "keras.layers"


def _class_named(name, custom_objects=None):
    from tandem.keras import _model, constraints, initializers, layers, losses, metrics, optimizers, regularizers
    from tandem.keras.optimizers import schedules

    found = (custom_objects or {}).get(name) or custom_object(name)
    if found is not None:
        return found
    if name == "Functional":
        return _model.Model
    for module in (layers, _model, initializers, regularizers, constraints, losses, metrics, optimizers, schedules):
        found = getattr(module, name, None)  # Also one that is imported late.
        if found is not None:
            return found
    found = _kept_object(name)
    if found is not None:
        return found
    raise TypeError(f"Could not locate class '{name}'. Make sure custom classes are decorated with `@keras.saving.register_keras_serializable()`, or given as custom_objects.")


def from_config(cls, config):
    """An object of a class and its configuration."""
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
    """The object of a configuration."""
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

        check_code_is_trusted("A lambda in a configuration")
        value = config["config"]["value"]
        code = value if isinstance(value, str) else value["code"]
        return types.FunctionType(marshal.loads(base64.b64decode(code)), globals())
    if name == "function":
        from tandem.keras import activations, losses, metrics

        label = config["config"]
        found = custom_object(label) or custom_object(config.get("registered_name") or label)
        for module in (activations, losses, metrics):
            found = found or vars(module).get(label)
        found = found or _kept_object(label)
        if found is None:
            raise TypeError(f"Could not locate function '{label}'. Make sure custom functions are decorated with `@keras.saving.register_keras_serializable()`, or given as custom_objects.")
        return found
    if name == "DTypePolicy":
        return config["config"]["name"]
    registered = config.get("registered_name")
    cls = (custom_object(registered) if registered else None) or _class_named(name)
    inner = config.get("config", {})
    if not hasattr(cls, "_tandem_keeps_config") and not _keeps_config(cls):
        inner = {k: deserialize_keras_object(v) if k not in ("layers",) else v for k, v in inner.items()} if isinstance(inner, dict) else inner
    made = from_config(cls, inner)
    build_config = config.get("build_config")
    if build_config and _builds_from_config(type(made)):
        made.build_from_config(deserialize_keras_object(build_config))
        made.built = True
    elif build_config and any(build_config.values()):
        # How much of its name a path begins with: Keras runs the call of a user's model once, without the model's name.
        if not getattr(type(made).build, "_is_default", False):
            made.__dict__["_tandem_is_made_alone"] = 1
        elif hasattr(made, "train_step") and getattr(made, "_tandem_graph", None) is None:
            made.__dict__["_tandem_is_made_alone"] = 0
    return made


def _builds_from_config(cls):
    """Whether a class says itself how it is built; ours are built by their first call."""
    from tandem.keras._layer_description import LayerDescription

    return getattr(cls, "build_from_config", LayerDescription.build_from_config) is not LayerDescription.build_from_config


def _keeps_config(cls):
    from tandem.keras._model import Model

    return isinstance(cls, type) and issubclass(cls, Model)
