"""Objects of a program in files, with the functions and classes that the program itself defines: another process can read them."""

import functools
import importlib
import io
import marshal
import os
import pickle
import sys
import types

from tandem._tracing.function import Function

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _is_installed(module):
    """Whether a module is Python's, this package's or one that was installed; others are parts of the program."""
    path = getattr(module, "__file__", None)
    if path is None:
        return module.__name__ not in ("__main__", "__mp_main__")
    return path.startswith((_HERE, os.path.dirname(os.__file__))) or "site-packages" in path or "dist-packages" in path


def _is_importable(value):
    """Whether another process finds it where its module is."""
    found = sys.modules.get(getattr(value, "__module__", None))
    if found is None or not _is_installed(found) or "<locals>" in getattr(value, "__qualname__", "<locals>"):
        return False
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _named_in(code):
    """The names that a function's code, and functions within it, may look for among its globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _named_in(constant)
    return names


def _empty_function(code, name, cells, module=None):
    globals_ = vars(importlib.import_module(module)) if module else {"__builtins__": __builtins__}
    return types.FunctionType(marshal.loads(code), globals_, name, None, tuple(types.CellType() for _ in range(cells)))


def _fill_function(function, state):
    attributes, names, cells = state
    function.__globals__.update(names)
    for cell, content in zip(function.__closure__ or (), cells):
        if content:
            cell.cell_contents = content[0]
    for name, value in attributes.items():
        setattr(function, name, value)


def _content(cell):
    try:
        return (cell.cell_contents,)
    except ValueError:  # Not yet filled.
        return ()


def _reduced_function(f):
    globals_ = f.__globals__
    home = globals_.get("__name__")
    is_library = isinstance(home, str) and home.split(".")[0] == "tandem"  # A function that one of this module made, such as custom_gradient.
    names = {} if is_library else {name: globals_[name] for name in sorted(_named_in(f.__code__)) if name in globals_}
    attributes = {"__defaults__": f.__defaults__, "__kwdefaults__": f.__kwdefaults__, "__qualname__": f.__qualname__, "__module__": f.__module__, "__doc__": f.__doc__}
    attributes["__dict__"] = dict(f.__dict__)
    state = (attributes, names, [_content(cell) for cell in f.__closure__ or ()])
    return _empty_function, (marshal.dumps(f.__code__), f.__name__, len(state[2]), home if is_library else None), state, None, None, _fill_function


def _empty_class(kind, name, bases, slots):
    return types.new_class(name, bases, {"metaclass": kind}, lambda body: body.update(slots))


def _fill_class(cls, state):
    for name, value in state.items():
        setattr(cls, name, value)


def _reduced_class(cls):
    dropped = ("__dict__", "__weakref__", "__module__", "__qualname__", "__abstractmethods__", "_abc_impl")
    state = {name: value for name, value in vars(cls).items() if name not in dropped}
    slots = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return _empty_class, (type(cls), cls.__name__, cls.__bases__, slots), state, None, None, _fill_class


def _of_library(name):
    import _tandem

    return functools.reduce(getattr, name.split("."), _tandem)


class _Writer(pickle.Pickler):
    def __init__(self, file, known):
        super().__init__(file, protocol=4)
        self._known = known

    def persistent_id(self, value):
        return next((name for name, each in self._known.items() if each is value), None)

    def reducer_override(self, value):
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if type(value).__module__ == "nanobind" and not isinstance(value, type):  # A function of the library.
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
            if name:
                return _of_library, (name,)
        if isinstance(value, types.FunctionType) and not _is_importable(value):
            return _reduced_function(value)
        if isinstance(value, Function) and not _is_importable(value):
            return value._as_parts()
        if isinstance(value, type) and value.__module__ != "builtins" and not _is_importable(value):
            return _reduced_class(value)
        if isinstance(value, (classmethod, staticmethod)):
            return type(value), (value.__func__,)
        if isinstance(value, property):
            return property, (value.fget, value.fset, value.fdel, value.__doc__)
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file, known):
        super().__init__(file)
        self._known = known

    def persistent_load(self, name):
        return self._known[name]


def write(path, value, known=None):
    """Writes an object; those that are `known` by a name are left to the reader."""
    buffer = io.BytesIO()
    pickle.dump(sys.version_info[:2], buffer, protocol=4)  # Code is that of one version of Python.
    _Writer(buffer, known or {}).dump(value)
    with open(path, "wb") as file:
        file.write(buffer.getvalue())


def read(path, known=None):
    with open(path, "rb") as file:
        version = pickle.load(file)
        if version != sys.version_info[:2]:
            raise ValueError(f"{path} has functions of Python {version[0]}.{version[1]}, which this one, {sys.version_info[0]}.{sys.version_info[1]}, cannot run")
        return _Reader(file, known or {}).load()
