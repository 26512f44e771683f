"""tf.experimental, as far as it exists here."""

from tandem._names import missing as _missing
from tandem.errors import InvalidArgumentError


class Optional:
    """A value, or none."""

    def __init__(self, value=None, has=False):
        self._value, self._has = value, has

    @classmethod
    def from_value(cls, value):
        from tandem import nest
        from tandem._ops import convert_to_tensor

        is_made = lambda v: hasattr(v, "dtype") and hasattr(v, "shape")  # noqa: E731
        made = lambda v: v if is_made(v) else convert_to_tensor(v)  # noqa: E731
        return cls(nest.map_structure(made, value) if nest.is_nested(value) else made(value), True)

    @classmethod
    def empty(cls, element_spec=None):
        return cls()

    def has_value(self, name=None):
        import _tandem

        return _tandem.convert(self._has)

    def get_value(self, name=None):
        if not self._has:
            raise InvalidArgumentError("The given optional does not have a value.")
        return self._value

    @property
    def element_spec(self):
        """The kind of the value."""
        from tandem import nest
        from tandem._tensors.specs import spec_of

        return nest.map_structure(spec_of, self._value) if nest.is_nested(self._value) else spec_of(self._value)


def __getattr__(name):
    if name in ("numpy", "dlpack"):
        import importlib

        return importlib.import_module(f"tandem.experimental.{name}")
    import sys

    raise _missing.missing("tandem.experimental", name, sys.modules[__name__])

__all__ = [  # Written by scripts/exported-names.py.
    "InvalidArgumentError", "Optional",
]
