"""Settings, keras.config."""

from tandem._names import missing as _missing
from tandem.keras._calls import dtype_policy, set_dtype_policy  # noqa: F401
from tandem.keras.backend import backend, epsilon, floatx, image_data_format, set_epsilon, set_floatx, set_image_data_format  # noqa: F401


def enable_unsafe_deserialization():
    """Accepted."""


def disable_traceback_filtering():
    """Accepted: tracebacks are whole."""


def enable_traceback_filtering():
    """Accepted: tracebacks are whole."""


def is_traceback_filtering_enabled():
    """False: tracebacks are whole."""
    return False


def disable_interactive_logging():
    """Lets fit print plain lines instead of a bar."""


def enable_interactive_logging():
    """Lets fit show a bar."""


def is_flash_attention_enabled():
    """True: attention is computed in blocks."""
    return True


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "backend", "disable_interactive_logging", "disable_traceback_filtering", "dtype_policy", "enable_interactive_logging",
    "enable_traceback_filtering", "enable_unsafe_deserialization", "epsilon", "floatx", "image_data_format", "is_flash_attention_enabled",
    "is_traceback_filtering_enabled", "set_dtype_policy", "set_epsilon", "set_floatx", "set_image_data_format",
]
