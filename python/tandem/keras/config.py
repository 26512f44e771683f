"""Settings, keras.config."""

from tandem._names import missing as _missing
from tandem.keras._calls import dtype_policy, set_dtype_policy  # noqa: F401
from tandem.keras.backend import backend, epsilon, floatx, image_data_format, set_epsilon, set_floatx, set_image_data_format  # noqa: F401


def enable_unsafe_deserialization():
    """Files are read with the code in them, as with safe_mode=False."""
    from tandem.keras.saving import objects

    objects.trust_everybody()


def disable_traceback_filtering():
    """Accepted: tracebacks are whole."""


def enable_traceback_filtering():
    """Accepted: tracebacks are whole."""


def is_traceback_filtering_enabled():
    """False: tracebacks are whole."""
    return False


_settings = {"interactive": True, "max_epochs": None, "max_steps_per_epoch": None, "flash": True}


def disable_interactive_logging():
    """Has fit and its kin tell the logger named absl what they would print."""
    _settings["interactive"] = False


def enable_interactive_logging():
    """Has fit and its kin print again."""
    _settings["interactive"] = True


def is_interactive_logging_enabled():
    """Whether fit and its kin print."""
    return _settings["interactive"]


def _limit(name, value):
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f"set_{name}: {value!r}; a whole number that is not negative is accepted, and None")
    _settings[name] = value or None


def set_max_epochs(max_epochs):
    """Lets fit make no more epochs than this, whatever it is told; None lifts the limit."""
    _limit("max_epochs", max_epochs)


def max_epochs():
    """The limit of epochs, or None."""
    return _settings["max_epochs"]


def set_max_steps_per_epoch(max_steps_per_epoch):
    """Lets fit, evaluate and predict make no more steps in an epoch than this; None lifts the limit."""
    _limit("max_steps_per_epoch", max_steps_per_epoch)


def max_steps_per_epoch():
    """The limit of steps in an epoch, or None."""
    return _settings["max_steps_per_epoch"]


def set_backend(backend):  # noqa: F811
    """Keras over this library has one backend, with TensorFlow's name; says so of others."""
    if backend != "tensorflow":
        raise ValueError(f"keras.config.set_backend: {backend!r}; 'tensorflow' is accepted, the name of the only backend here")


def enable_flash_attention():
    """Attention may be computed in blocks, which it is in any case."""
    _settings["flash"] = True


def disable_flash_attention():
    """Says that attention should not be computed in blocks; its values are the same."""
    _settings["flash"] = False


def is_flash_attention_enabled():
    """What was said last of attention in blocks."""
    return _settings["flash"]


def is_nnx_enabled():
    """False: there is no JAX here."""
    return False


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "backend", "disable_flash_attention", "disable_interactive_logging", "disable_traceback_filtering", "dtype_policy",
    "enable_flash_attention", "enable_interactive_logging", "enable_traceback_filtering", "enable_unsafe_deserialization", "epsilon",
    "floatx", "image_data_format", "is_flash_attention_enabled", "is_interactive_logging_enabled", "is_nnx_enabled",
    "is_traceback_filtering_enabled", "max_epochs", "max_steps_per_epoch", "set_backend", "set_dtype_policy", "set_epsilon", "set_floatx",
    "set_image_data_format", "set_max_epochs", "set_max_steps_per_epoch",
]
