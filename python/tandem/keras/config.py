"""Settings, keras.config."""

from tandem._names import missing as _missing
from tandem.keras._calls import dtype_policy, set_dtype_policy  # noqa: F401
from tandem.keras.backend import backend, epsilon, floatx, image_data_format, set_epsilon, set_floatx, set_image_data_format  # noqa: F401


def enable_unsafe_deserialization():
    pass


def disable_traceback_filtering():
    pass


def enable_traceback_filtering():
    pass


def is_traceback_filtering_enabled():
    return False


def disable_interactive_logging():
    pass


def enable_interactive_logging():
    pass


def is_flash_attention_enabled():
    return True


_missing.install(__name__, globals())
