"""tf.experimental, as far as it exists here."""

from tandem._names import missing as _missing


class Optional:
    """A value, or none."""

    def __init__(self, value=None, has=False):
        self._value, self._has = value, has

    @classmethod
    def from_value(cls, value):
        return cls(value, True)

    @classmethod
    def empty(cls, element_spec=None):
        return cls()

    def has_value(self, name=None):
        import _tandem

        return _tandem.convert(self._has)

    def get_value(self, name=None):
        if not self._has:
            raise ValueError("the optional has no value")
        return self._value


def __getattr__(name):
    if name in ("numpy", "dlpack"):
        import importlib

        return importlib.import_module(f"tandem.experimental.{name}")
    import sys

    raise _missing.missing("tandem.experimental", name, sys.modules[__name__])
