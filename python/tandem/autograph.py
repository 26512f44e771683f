"""Branches and loops on tensors, converted from source, tf.autograph.

`if`, `while` and `for` of a function become calls that decide when they run: on Python's values they do what Python
does, on tensors of a trace they become cond and while_loop. What is assigned inside of a branch or loop is carried
over the border by functions that get and set it: variables, attributes and items. What cannot be converted stays as it
is, and runs op by op.

How the source is written anew is in _tracing/conversion.py. A function is converted by itself at first. Where its trace still meets a branch on a tensor, it is traced once more with
`state.converts_calls`: then what it calls is converted, too, and the `call` of layers and the steps of models.
"""

import inspect
import sys
import types

import _tandem
from tandem import nest
from tandem._ops import flow as _flow
from tandem._tensors.shape import DynamicSize, _Computed
from tandem._tracing.conversion import RUNTIME, Unconvertible, converted_code
from tandem._tracing.state import state
from tandem._tensors.tensor import Tensor
from tandem.errors import InvalidArgumentError, OperatorNotAllowedInGraphError

_MOST_UNROLLED = 256

# ---- While a converted function runs ----


class Undefined:
    """A variable that has not been assigned yet."""

    def __init__(self, name):
        self.name = name

    def _fail(self, *args, **kwargs):
        raise UnboundLocalError(f"cannot access local variable {self.name!r} where it is not associated with a value")

    __call__ = __add__ = __radd__ = __sub__ = __mul__ = __getitem__ = __iter__ = __bool__ = __len__ = _fail

    def __getattr__(self, attribute):
        if attribute.startswith("__") or attribute == "name":
            raise AttributeError(attribute)
        self._fail()


def is_staged(value):
    """True for tensors of a trace, whose values only a run knows."""
    return isinstance(value, Tensor) and value._is_symbolic


def not_(value):
    """`not` on a Python value or on a tensor."""
    return _tandem.logical_not(_boolean(value)) if is_staged(value) else not value


def _boolean(value):
    value = _tandem.convert(value)
    return value if value._code == 7 else _tandem.not_equal(value, 0)


def and_(*parts, late=()):
    """`and` on Python values or tensors; each part is a function. Those at the places in `late` are computed only where they count."""
    value = parts[0]()
    for place, part in enumerate(parts[1:], 1):
        if is_staged(value):
            value = _where(value, part, _never, place in late)
        elif not value:
            return value
        else:
            value = part()
    return value


def or_(*parts, late=()):
    """`or` on Python values or tensors; each part is a function. Those at the places in `late` are computed only where they count."""
    value = parts[0]()
    for place, part in enumerate(parts[1:], 1):
        if is_staged(value):
            value = _where(value, _always, part, place in late)
        elif value:
            return value
        else:
            value = part()
    return value


def _never():
    return _tandem.fill((), False, 7)


def _always():
    return _tandem.fill((), True, 7)


def _where(test, then, otherwise, late):
    """`then` where the test holds, else `otherwise`; one of them is a constant."""
    test = _boolean(test)
    if late and not test._rank:
        return _flow.branch(test, lambda: _boolean(then()), lambda: _boolean(otherwise()))
    return _tandem.logical_and(test, _boolean(then())) if otherwise is _never else _tandem.logical_or(test, _boolean(otherwise()))


def if_expression(test, then, otherwise):
    """`a if test else b` on a Python value or a tensor."""
    return _flow.branch(test, then, otherwise) if is_staged(test) else then() if test else otherwise()


def if_return(test, then, otherwise):
    """An `if` whose branches return."""
    if not is_staged(test):
        return then() if test else otherwise()
    with _conversion("if"):
        return _flow.branch(test, then, otherwise)


class _conversion:
    """What does not fit cond or while_loop makes the function run op by op."""

    def __init__(self, what):
        self._what = what

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, InvalidArgumentError) and state.is_first_try:
            return
        if isinstance(error, (InvalidArgumentError, ValueError)) and not isinstance(error, OperatorNotAllowedInGraphError):
            raise OperatorNotAllowedInGraphError(f"an `{self._what}` on a tensor: {error}") from error


def _is_carried(value):
    return isinstance(value, (Tensor, _tandem.Variable, bool, int, float, _Computed)) or (
        isinstance(value, (list, tuple, dict)) and bool(nest.flatten(value)) and all(_is_carried(v) for v in nest.flatten(value)) and any(isinstance(v, Tensor) for v in nest.flatten(value))
    )


class _Held:
    """A variable of the library that an attribute or item holds: it stays what it is."""

    def __init__(self, variable):
        self.variable = variable


def part(read, name):
    """The value of an attribute or item, which may not exist yet."""
    try:
        value = read()
    except (LookupError, AttributeError, NameError, TypeError):
        return Undefined(name)
    return _Held(value) if isinstance(value, _tandem.Variable) else value


def is_value(value):
    """Whether a part is to be assigned."""
    return not isinstance(value, (Undefined, _Held))


def _is_same(a, b):
    return a is b or (isinstance(a, _Held) and isinstance(b, _Held) and a.variable is b.variable) or (isinstance(a, Undefined) and isinstance(b, Undefined))


def _empty_like(value):
    """Zeros of the kind of a value of another branch."""
    return nest.map_structure(lambda v: _tandem.fill(v._sizes, 0, v._code) if isinstance(v, Tensor) else type(v)(0), value)


def if_(test, then, otherwise, get, set_, in_both):
    """`in_both` says of each variable whether both branches assign it. "then" or "else" is the one that does, where the
    other gives zeros: nobody reads them."""
    if not is_staged(test):
        then() if test else otherwise()
        return
    if "else" in in_both:
        return if_(not_(test), otherwise, then, get, set_, [{"then": "else", "else": "then"}.get(both, both) for both in in_both])
    before = get()
    kept = [both is not False or not isinstance(value, Undefined) for both, value in zip(in_both, before)]
    seen = []

    def branch(f):
        def run():
            set_(before)
            f()
            after = list(get())
            if seen:
                for i, both in enumerate(in_both):
                    if both == "then" and isinstance(after[i], Undefined) and _is_carried(seen[0][i]):
                        after[i] = _empty_like(seen[0][i])
            seen.append(after)
            return [value for value, keep in zip(after, kept) if keep and _is_carried(value)]

        return run

    with _conversion("if"):
        results = _flow.branch(test, branch(then), branch(otherwise))
        first, second = seen[0], seen[1]
        results = iter(results)
        final = []
        for a, b, was, keep in zip(first, second, before, kept):
            if keep and _is_carried(a) and _is_carried(b):
                final.append(next(results))
            elif not keep:
                final.append(was)
            elif _is_same(a, b):
                final.append(a)
            else:
                raise ValueError("a variable is a tensor in one branch and something else in the other")
        set_(tuple(final))


def while_(test, body, get, set_, read_later=()):
    """`read_later` says of each variable whether something after the loop reads it."""
    value = test()
    while not is_staged(value):
        if not value:
            return
        body()
        value = test()
    before = get()
    unset = [later and isinstance(v, Undefined) for later, v in zip(read_later, before)]
    if any(unset):  # The first round gives them a value that the loop can carry.
        if_(value, body, lambda: None, get, set_, ["then" if u else False for u in unset])
        before = get()
    carried = [_is_carried(v) for v in before]

    def filled(tensors):
        tensors = iter(tensors)
        return tuple(next(tensors) if c else b for c, b in zip(carried, before))

    def run_test(*now):
        set_(filled(now))
        return _boolean(test())

    def run_body(*now):
        set_(filled(now))
        body()
        return [v for v, c in zip(get(), carried) if c]

    with _conversion("while"):
        start = [nest.map_structure(_tandem.convert, v) if nest.is_nested(v) else _tandem.convert(v) for v, c in zip(before, carried) if c]
        set_(filled(_flow.while_loop(run_test, run_body, start)))


def _range_in_place(start=None, limit=None, delta=1, name=None):
    """The arguments of tf.range that were named, in their places."""
    return (start,) if limit is None and delta == 1 else (start, limit, delta) if limit is not None else (0, start, delta)


class Range:
    """tf.range in a loop: a tensor, or a counter where only a run knows its limit."""

    def __init__(self, f, args, kwargs):
        if kwargs and f is not range and set(kwargs) <= {"start", "limit", "delta", "name"}:
            args = _range_in_place(*args, **kwargs)
            kwargs = {}
        self.given = args
        parts = list(args)
        self.is_staged = not kwargs and any(is_staged(p) or isinstance(p, DynamicSize) for p in parts)
        if self.is_staged:
            start, limit, delta = ([0] + parts if len(parts) == 1 else parts) + ([1] if len(parts) < 3 else [])
            code = next(_tandem.convert(p)._code for p in parts if is_staged(p) or isinstance(p, DynamicSize))
            self.step = delta
            self.start, self.limit, self.delta = (_tandem.convert(p, code) if isinstance(p, (int, float)) else _tandem.convert(p) for p in (start, limit, delta))
        else:
            self.tensor = f(*args, **kwargs)
            self.numbers = range(*args) if not kwargs and f is not range and len(args) and all(type(a) is int for a in args) else None

    def goes_on(self, counter):
        """Whether a counter has not reached the limit yet."""
        if isinstance(self.step, (int, float)):
            return _tandem.less(counter, self.limit) if self.step > 0 else _tandem.greater(counter, self.limit)
        rises = _tandem.logical_and(_tandem.greater(self.delta, 0), _tandem.less(counter, self.limit))
        return _tandem.logical_or(rises, _tandem.logical_and(_tandem.less(self.delta, 0), _tandem.greater(counter, self.limit)))


def _known(number):
    """A tensor of a number that those who need it may ask for, as arrays of tensors do for their indices."""
    tensor = _tandem.convert(number, 5)
    tensor._known_number = number
    return tensor


def for_(values, body, get, set_, is_over, read_later=()):
    """`is_over` tells whether a break was reached."""
    if isinstance(values, Range):
        if values.is_staged:
            place = [values.start]
            while_(
                lambda: and_(lambda: values.goes_on(place[0]), lambda: not_(is_over())),
                lambda: (body(place[0]), place.__setitem__(0, place[0] + values.delta)),
                lambda: (place[0],) + get(),
                lambda v: (place.__setitem__(0, v[0]), set_(v[1:])),
                [False, *read_later],
            )
            return
        known, values = values.numbers, values.tensor
        if known is not None and is_staged(values) and len(known) <= _MOST_UNROLLED:
            values = [_known(number) for number in known]
    if is_staged(values):
        if int(values._sizes[0]) > _MOST_UNROLLED:
            _staged_for(values, body, get, set_, is_over, read_later)
            return
        values = _tandem.unstack(values, 0)
    for value in values:
        over = is_over()
        if not is_staged(over) and over:
            return
        body(value)


def _staged_for(values, body, get, set_, is_over, read_later):
    place = [_tandem.convert(0, 5)]
    count = int(values._sizes[0])
    while_(
        lambda: and_(lambda: _tandem.less(place[0], count), lambda: not_(is_over())),
        lambda: (body(_tandem.gather(values, place[0], 0)), place.__setitem__(0, place[0] + 1)),
        lambda: (place[0],) + get(),
        lambda v: (place.__setitem__(0, v[0]), set_(v[1:])),
        [False, *read_later],
    )


def assert_(test, message):
    """`assert`; on a tensor it is checked after each run."""
    if is_staged(test):
        from tandem import debugging

        debugging.Assert(test, [message()])
    elif not test:
        raise AssertionError(*[m for m in (message(),) if m is not None])


# ---- Python's own functions on tensors ----


def _staged_or(f, staged):
    """`f`, or `staged` where an argument is a tensor of a trace."""

    def call(*args, **kwargs):
        return staged(*args, **kwargs) if any(is_staged(a) for a in args) else f(*args, **kwargs)

    return call


def _joined(f, op):
    def call(*args, **kwargs):
        values = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if kwargs or len(values) < 2 or not any(is_staged(v) for v in values):
            return f(*args, **kwargs)
        result = values[0]
        for value in values[1:]:
            result = op(result, value)
        return result

    return call


_BUILTINS = {
    int: _staged_or(int, lambda x: _tandem.cast(x, 5)),
    float: _staged_or(float, lambda x: _tandem.cast(x, 0)),
    bool: _staged_or(bool, lambda x: _boolean(x)),
    max: _joined(max, lambda a, b: _tandem.maximum(a, b)),
    min: _joined(min, lambda a, b: _tandem.minimum(a, b)),
    all: _staged_or(all, lambda x: _tandem.reduce_all(x, None, False)),
    any: _staged_or(any, lambda x: _tandem.reduce_any(x, None, False)),
}


# ---- Which functions are converted ----

_codes = {}


def _is_users(f):
    """Whether a function is of the program, and not of a library."""
    module = f.__module__ or ""
    path = f.__code__.co_filename
    root = module.split(".")[0]
    return root != "tandem" and root not in sys.stdlib_module_names - {"__main__"} and "site-packages" not in path and "dist-packages" not in path


def called(f):
    """What a converted function calls: converted, too, where that is asked for."""
    if isinstance(f, (types.BuiltinFunctionType, type)):
        return _BUILTINS.get(f, f)
    if not state.converts_calls or not isinstance(f, (types.FunctionType, types.MethodType)):
        return f
    return converted(f)


def converted(f):
    """The function with its branches and loops converted; the function itself where there is nothing to convert."""
    bound = getattr(f, "_tandem_bound", None)
    if bound is not None:
        inner = converted(bound[0])
        return f if inner is bound[0] else lambda *args, **kwargs: inner(bound[1](), *args, **kwargs)
    if isinstance(f, types.MethodType):
        inner = converted(f.__func__)
        return f if inner is f.__func__ else types.MethodType(inner, f.__self__)
    if not isinstance(f, types.FunctionType) or f.__name__.startswith("__tandem") or getattr(f, "_tandem_do_not_convert", False) or not _is_users(f):
        return f
    key = f.__code__, state.converts_calls
    if key not in _codes:
        try:
            _codes[key] = converted_code(f, state.converts_calls)
        except (OSError, TypeError, SyntaxError, Unconvertible, IndentationError):
            _codes[key] = None
    code = _codes[key]
    if code is None:
        return f
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
    cells[RUNTIME] = types.CellType(sys.modules[__name__])
    if f.__name__ in code.co_freevars and f.__name__ not in cells:  # It calls itself by its global name.
        cells[f.__name__] = types.CellType(f.__globals__.get(f.__name__, f))
    made = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, tuple(cells[n] for n in code.co_freevars))
    made.__kwdefaults__ = f.__kwdefaults__
    return made


# ---- Public names ----


def to_code(entity, recursive=True, experimental_optional_features=None):
    """The source of a function."""
    return inspect.getsource(getattr(entity, "python_function", entity))


def to_graph(entity, recursive=True, experimental_optional_features=None):
    """The function with its branches and loops converted."""
    return converted(entity)


def do_not_convert(func=None):
    """Keeps AutoGraph from converting a function."""
    if func is None:
        return do_not_convert
    func._tandem_do_not_convert = True
    return func


def set_verbosity(level, alsologtostdout=False):
    """Accepted; conversion says nothing."""


def trace(*args):
    """Prints its arguments when a function is traced."""
    print(*args)


class experimental:
    """Names that are experimental in tf.autograph."""

    do_not_convert = staticmethod(do_not_convert)

    @staticmethod
    def set_loop_options(**kwargs):
        pass
