"""Values that will be there: what steps of parameter servers return before they are done."""

import numpy as np

import _tandem
from tandem import nest


class Later:
    """A value that is fetched when somebody looks. It stands where a tensor is wanted."""

    def __init__(self, fetch):
        self._fetch, self._value = fetch, None

    def get(self):
        """The value, after waiting for it."""
        if self._fetch is not None:
            self._value = self._fetch()
            self._fetch = None
        return self._value

    def map(self, f):
        return Later(lambda: f(self.get()))

    __tandem_tensor__ = get

    def numpy(self):
        return self.get().numpy()

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def __float__(self):
        return float(self.get())

    def __int__(self):
        return int(self.get())

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.get(), name)


def _operator(name):
    setattr(Later, name, lambda self, *others: getattr(_tandem.convert(self.get()), name)(*others))


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "lt", "le", "gt", "ge", "neg", "getitem"):
    _operator(f"__{_name}__")


def fetched(structure):
    """A structure with the values instead of what will be there."""
    one = lambda v: v.get() if isinstance(v, Later) else v  # noqa: E731
    return nest.map_structure(one, structure) if nest.is_nested(structure) else one(structure)
