"""Functions that are made anew for each call, as a step inside of another function or a lambda is: they are recognised by
their code and by what they hold, so that they are traced once.

What a function holds is what its closure, its defaults and the globals it names refer to: plain values count by their
value, functions by their code, others by themselves. What a trace reads of layers, modules, metrics and optimizers counts,
too: attributes with plain values that the functions it goes through name, and which layers are trained."""

import collections
import functools
import types

_PLAIN = (int, float, bool, complex, str, bytes, type(None))
_MOST = 32  # Elements of a list that are looked at, and functions that are kept by one object.

_frozen = [0]  # The sum of the numbers of all layers that are not trained.


def layer_is_trained(layer, was, is_now):
    """Hears of a layer that is frozen or trained again."""
    if bool(was) != bool(is_now):
        _frozen[0] += -id(layer) if is_now else id(layer)


def frozen_key():
    """A number that says which layers are trained."""
    return _frozen[0]


def _owner_types():
    """Those whose life a traced function may share."""
    import _tandem
    from tandem._tensors.tracking import Module
    from tandem.distribute._strategy import Strategy
    from tandem.keras._layer import Layer
    from tandem.keras.metrics import Metric
    from tandem.keras.optimizers import Optimizer

    return (Layer, Optimizer, Metric, Module, Strategy), (_tandem.Variable, _tandem.Tensor)


class _Unknown(Exception):
    """A function holds something whose changes nobody would hear of."""


class _Contents:
    """What a function is recognised by, and the objects that it holds."""

    def __init__(self, f, is_strict=True):
        """What is not known raises _Unknown, or counts by itself and by its attributes where it need not be strict."""
        self.owners = []
        self._seen = set()
        self._names = _names_of(f.__code__)
        self._is_strict = is_strict
        self._owner_types, self._value_types = _owner_types()
        self.key = (self._of_function(f), frozen_key())

    def _of_function(self, f):
        if id(f) in self._seen:
            return "itself"
        self._seen.add(id(f))
        values = [c.cell_contents for c in f.__closure__ or () if not _is_empty(c)] + list(f.__defaults__ or ()) + list((f.__kwdefaults__ or {}).values())
        names = sorted(n for n in _names_of(f.__code__) if n in f.__globals__)
        return f.__code__, id(f.__globals__), tuple(self._of(v) for v in values), tuple((n, self._of(f.__globals__[n])) for n in names)

    def _of(self, value):
        if isinstance(value, _PLAIN):
            return type(value), value
        if isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)):
            return id(value)
        if isinstance(value, types.FunctionType):
            return id(value) if (value.__module__ or "").split(".")[0] == "tandem" else self._of_function(value)
        if isinstance(value, self._owner_types):
            if id(value) in self._seen:
                return id(value)
            self.owners.append(value)
            layers = value._flatten_layers() if hasattr(value, "_flatten_layers") else (value,)
            return id(value), tuple(self.of_attributes(each) for each in layers)
        if isinstance(value, self._value_types):
            return id(value)
        if isinstance(value, (tuple, list)) and len(value) <= _MOST:
            return type(value), tuple(self._of(v) for v in value)
        if isinstance(value, dict) and len(value) <= _MOST:
            return tuple((self._of(k), self._of(v)) for k, v in value.items())
        inner = getattr(value, "python_function", None)
        if isinstance(inner, types.FunctionType):
            return self._of_function(inner)
        if self._is_strict:
            raise _Unknown
        return self.of_attributes(value)

    def of_attributes(self, owner):
        """The attributes of an object that a trace may read, where they are plain values or hold some."""
        if id(owner) in self._seen:
            return id(owner)
        self._seen.add(id(owner))
        held = getattr(owner, "__dict__", {})
        is_rule = hasattr(owner, "update_step")
        names = [n for n in held if not n.startswith("_")] if is_rule else _reached_names(type(owner), self._names)
        found = []
        for name in names:
            if name in held and name not in _OF_THE_LIBRARY and not name.startswith("_tandem_"):
                try:
                    found.append((name, self._of(held[name])))
                except _Unknown:
                    found.append((name, id(held[name])))
        return id(owner), tuple(found)


_OF_THE_LIBRARY = frozenset(("built", "compiled", "stop_training", "history", "losses"))


@functools.lru_cache(maxsize=1024)
def _reached_names(kind, names):
    """The names that a function with these names may read of an object: its own, and those of the methods that they and
    calls of the object lead to."""
    found = {*names, "call", "__call__"}
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        method = next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__), None)
        method = getattr(method, "fget", None) or getattr(method, "__func__", None) or getattr(method, "python_function", None) or method
        code = getattr(method, "__code__", None)
        if code is None or name != "call" and (getattr(method, "__module__", None) or "").split(".")[0] == "tandem":
            continue
        new = _names_of(code) - found
        found |= new
        waiting += new
    return tuple(sorted(found))


def present_contents(f):
    """A key for what a function reads at present: globals, closure, and attributes of the object whose method it is."""
    bound = getattr(f, "__self__", None)
    f = getattr(f, "__func__", f)
    if type(f) is not types.FunctionType:
        return None
    contents = _Contents(f, is_strict=False)
    return contents.key, None if bound is None else contents.of_attributes(bound)


def _is_empty(cell):
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False


@functools.lru_cache(maxsize=1024)
def _names_of(code):
    """The names of globals that a function and those inside of it may read."""
    inner = [_names_of(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


class Functions(collections.OrderedDict):
    """The functions that were traced and hold an object, which keeps the last of them here. They do not go along with its
    copies."""

    def first(self, key, function):
        """The function that is known by a key, or this one from now on."""
        found = self.setdefault(key, function)
        self.move_to_end(key)
        if len(self) > _MOST:
            self.popitem(last=False)
        return found

    def __reduce__(self):
        return Functions, ()

    def __deepcopy__(self, memo):
        return Functions()


_plain_functions = Functions()  # They hold plain values only, and so belong to nobody.


def first_of(function, options):
    """The function that was traced first among those with the same code, contents and options; `function` itself where
    it is the first, or where it cannot be known."""
    f = function.python_function
    if type(f) is not types.FunctionType:
        return function
    try:
        contents = _Contents(f)
    except _Unknown:
        return function
    key = contents.key, options
    held = [o for o in contents.owners if hasattr(o, "__dict__")]
    if held:
        known = held[0].__dict__.setdefault("_tandem_recognised", Functions())
        return known.first(key, function)
    if any(isinstance(c.cell_contents, contents._value_types) for c in f.__closure__ or () if not _is_empty(c)):
        return function  # Nobody would let go of the tensor.
    return _plain_functions.first(key, function)
