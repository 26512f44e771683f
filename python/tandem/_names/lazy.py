"""NumPy, which is imported when something of it is first needed: it takes longer to import than all the rest."""


class _Lazy:
    def __getattr__(self, name):
        import numpy

        value = getattr(numpy, name)
        setattr(self, name, value)
        return value


np = _Lazy()
