"""Models in folders, tf.saved_model. What is in them is Keras's file of the model, not a SavedModel of TensorFlow."""

import os

from tandem import nest

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"


def save(obj, export_dir, signatures=None, options=None):
    """Saves a Keras model. Functions and modules have no file format here."""
    from tandem.keras import saving
    from tandem.keras._model import Model

    if not isinstance(obj, Model):
        raise NotImplementedError(f"tf.saved_model.save of {type(obj).__name__}: tandem saves Keras models, and the variables of other objects by tf.train.Checkpoint")
    if signatures is not None:
        raise NotImplementedError("tf.saved_model.save: signatures; a model that is loaded has the signature 'serving_default', which calls it")
    if os.fspath(export_dir).endswith((".keras", ".h5")):
        raise ValueError(f"tf.saved_model.save: {export_dir} is a folder")
    saving.save_model(obj, export_dir)


class _Loaded:
    """A model that was loaded: called as it is, or by its signature, whose results have names."""

    def __init__(self, model):
        self._model = model
        self.signatures = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: self._serve_by_name}

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
        flat = nest.flatten(result)
        return dict(zip(self._model._output_names(result), flat))

    def _input_names(self, inputs):
        names = [n for n in getattr(self._model, "input_names", ()) if n in inputs]
        return names if len(names) == len(inputs) else list(inputs)

    def __getattr__(self, name):
        return getattr(self.__dict__["_model"], name)


def load(export_dir, tags=None, options=None):
    """What was saved in a folder, with its signatures."""
    from tandem.keras import saving

    if not saving.is_folder_of_model(os.fspath(export_dir)):
        raise NotImplementedError(f"tf.saved_model.load: {export_dir} has no model that tandem saved; it reads no SavedModels of TensorFlow")
    return _Loaded(saving.load_model(export_dir, compile=False))


def contains_saved_model(export_dir):
    """True for a folder that has a saved model."""
    from tandem.keras import saving

    return saving.is_folder_of_model(os.fspath(export_dir))


class SaveOptions:
    """How a model is saved; accepted for programs that set it."""

    def __init__(self, *args, **kwargs):
        pass


LoadOptions = SaveOptions
