"""Models and modules in folders, tf.saved_model. What is in them is Keras's file of a model, or the Python object; not a SavedModel of TensorFlow."""

import os

from tandem import nest
from tandem._tensors.tensor import TensorSpec
from tandem._tracing.function import ConcreteFunction, Function

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
_FUNCTIONS = "functions.pickle"


def save(obj, export_dir, signatures=None, options=None):
    """Saves a Keras model, or another object with its variables and functions."""
    from tandem._tensors.tracking import AutoTrackable
    from tandem._tracing import portable
    from tandem.keras import saving
    from tandem.keras._layer import Layer
    from tandem.keras._model import Model

    if not isinstance(obj, (AutoTrackable, Layer, Model)):
        raise ValueError(f"Expected an object of type `Trackable`, such as `tf.Module` or a subclass of the `Trackable` class, for export. Got {obj} with type {type(obj)}.")
    folder = os.fspath(export_dir)
    if folder.endswith((".keras", ".h5")):
        raise ValueError(f"tf.saved_model.save: {export_dir} is a folder")
    functions = _signatures_of(signatures)
    is_model = isinstance(obj, Model)
    if is_model:
        saving.save_model(obj, folder)
    if not is_model or functions:
        os.makedirs(folder, exist_ok=True)
        portable.write(os.path.join(folder, _FUNCTIONS), (None if is_model else obj, functions), {"model": obj} if is_model else None)


def _signatures_of(given):
    """Functions for one kind of arguments, by their names."""
    if given is None:
        return {}
    named = given if isinstance(given, dict) else {DEFAULT_SERVING_SIGNATURE_DEF_KEY: given}
    result = {}
    for name, function in named.items():
        if isinstance(function, Function):
            if function.input_signature is None:
                raise ValueError(f"tf.saved_model.save: the signature {name!r} is a function without an input_signature; give function.get_concrete_function(tf.TensorSpec(..))")
            function = function.get_concrete_function()
        if not isinstance(function, ConcreteFunction):
            raise ValueError(f"Expected a TensorFlow function for which to generate a signature, but got {function}. Python functions may be decorated with `@tf.function` to be exported.")
        result[name] = function
    return result


class _Signature:
    """A function whose inputs and results have names."""

    def __init__(self, function):
        self._function = function
        self.structured_input_signature = ((), dict(self._specs()))

    def _specs(self):
        positions = self._function._function._bind_names(len(self._function._args))
        named = [*zip(positions, self._function._args), *self._function._kwargs.items()]
        return [(getattr(spec, "name", None) or name, spec) for name, spec in named if isinstance(spec, TensorSpec)]

    def __call__(self, *args, **inputs):
        names = [name for name, _ in self._specs()]
        if inputs and sorted(inputs) != sorted(names):
            raise TypeError(f"the signature takes the inputs {names}, {sorted(inputs)} were given")
        result = self._function(*([inputs[name] for name in names] if inputs else args))
        return result if isinstance(result, dict) else {f"output_{i}": each for i, each in enumerate(nest.flatten(result))}

    @property
    def structured_outputs(self):
        return self._function.structured_outputs


class _ServedModel:
    """The signature of a Keras model: the inputs and outputs have the names that the model has for them."""

    def __init__(self, loaded):
        self._loaded = loaded

    def __call__(self, *args, **inputs):
        return self._loaded._serve_by_name(*args, **inputs)

    @property
    def structured_input_signature(self):
        """The kinds of the inputs, by name."""
        model = self._loaded._model
        flat = nest.flatten(model.inputs)
        return (), {name: TensorSpec([None, *each.shape[1:]], each.dtype, name) for name, each in zip(model.input_names, flat)}

    @property
    def structured_outputs(self):
        """The kinds of the results, by name."""
        model = self._loaded._model
        names = {f"output_{i}": each for i, each in enumerate(nest.flatten(model.outputs))}
        return {name: TensorSpec([None, *each.shape[1:]], each.dtype, name) for name, each in names.items()}


class _Loaded:
    """A model that was loaded: called as it is, or by its signature, whose results have names."""

    def __init__(self, model, functions=None):
        self._model = model
        self.signatures = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: _ServedModel(self), **(functions or {})}

    def __call__(self, *args, **kwargs):
        return self._model(*args, **kwargs)

    def serve(self, *args):
        return self._model(args[0] if len(args) == 1 else list(args), training=False)

    def _serve_by_name(self, *args, **inputs):
        if args and inputs:
            raise TypeError("a signature takes its inputs by place or by name")
        result = self.serve(*(args or [inputs[n] for n in self._input_names(inputs)]))
        if isinstance(result, dict):
            return result
        return {f"output_{i}": each for i, each in enumerate(nest.flatten(result))}

    def _input_names(self, inputs):
        names = [n for n in getattr(self._model, "input_names", ()) if n in inputs]
        return names if len(names) == len(inputs) else list(inputs)

    def __getattr__(self, name):
        return getattr(self.__dict__["_model"], name)


def load(export_dir, tags=None, options=None):
    """What `save` wrote. As with all of Python's pickles, folders of others are read only where one trusts them."""
    from tandem._tracing import portable
    from tandem.keras import saving

    folder = os.fspath(export_dir)
    path = os.path.join(folder, _FUNCTIONS)
    model = saving.load_model(folder, compile=False, safe_mode=False) if saving.is_folder_of_model(folder) else None
    if model is None and not os.path.exists(path):
        raise NotImplementedError(f"tf.saved_model.load: {export_dir} has no model that tandem saved; it reads no SavedModels of TensorFlow")
    found, functions = portable.read(path, {"model": model}) if os.path.exists(path) else (None, {})
    functions = {name: _Signature(function) for name, function in functions.items()}
    if model is not None:
        return _Loaded(model, functions)
    found.signatures = functions
    return found


def contains_saved_model(export_dir):
    """True for a folder that has a saved model."""
    from tandem.keras import saving

    folder = os.fspath(export_dir)
    return saving.is_folder_of_model(folder) or os.path.exists(os.path.join(folder, _FUNCTIONS))


class SaveOptions:
    """How a model is saved; accepted for programs that set it."""

    def __init__(self, *args, **kwargs):
        pass


LoadOptions = SaveOptions
