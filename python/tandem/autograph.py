"""Branches and loops on tensors, converted from source, tf.autograph.

`if`, `while` and `for` of a function become calls that decide when they run: on Python's values they do what Python
does, on tensors of a trace they become cond and while_loop. What is assigned inside of a branch or loop is carried
over the border by functions that get and set the variables around it. A branch that returns is converted where nothing
but a return follows it; what cannot be converted stays as it is.

A function is converted by itself at first. Where its trace still meets a branch on a tensor, it is traced once more with
`state.converts_calls`: then what it calls is converted, too, and the `call` of layers and the steps of models.
"""

import ast
import inspect
import sys
import textwrap
import types

import _tandem
from tandem import _ops, nest
from tandem._tensors.shape import DynamicSize, _Computed
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
    return isinstance(value, Tensor) and value._is_symbolic


def not_(value):
    return _tandem.logical_not(_boolean(value)) if is_staged(value) else not value


def _boolean(value):
    value = _tandem.convert(value)
    return value if value._code == 7 else _tandem.not_equal(value, 0)


def and_(*parts):
    value = parts[0]()
    for part in parts[1:]:
        if is_staged(value):
            value = _tandem.logical_and(_boolean(value), _boolean(part()))
        elif not value:
            return value
        else:
            value = part()
    return value


def or_(*parts):
    value = parts[0]()
    for part in parts[1:]:
        if is_staged(value):
            value = _tandem.logical_or(_boolean(value), _boolean(part()))
        elif value:
            return value
        else:
            value = part()
    return value


def if_expression(test, then, otherwise):
    return _ops.cond(test, then, otherwise) if is_staged(test) else then() if test else otherwise()


def if_return(test, then, otherwise):
    if not is_staged(test):
        return then() if test else otherwise()
    with _conversion("if"):
        return _ops.cond(test, then, otherwise)


class _conversion:
    """What does not fit cond or while_loop makes the function run op by op."""

    def __init__(self, what):
        self._what = what

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, (InvalidArgumentError, ValueError)) and not isinstance(error, OperatorNotAllowedInGraphError):
            raise OperatorNotAllowedInGraphError(f"an `{self._what}` on a tensor: {error}") from error


def _is_carried(value):
    return isinstance(value, (Tensor, _tandem.Variable, bool, int, float, _Computed)) or (
        isinstance(value, (list, tuple, dict)) and bool(nest.flatten(value)) and all(_is_carried(v) for v in nest.flatten(value)) and any(isinstance(v, Tensor) for v in nest.flatten(value))
    )


def if_(test, then, otherwise, get, set_, in_both):
    """`in_both` says of each variable whether both branches assign it."""
    if not is_staged(test):
        then() if test else otherwise()
        return
    before = get()
    kept = [both or not isinstance(value, Undefined) for both, value in zip(in_both, before)]
    seen = []

    def branch(f):
        def run():
            set_(before)
            f()
            after = get()
            seen.append(after)
            return [value for value, keep in zip(after, kept) if keep and _is_carried(value)]

        return run

    with _conversion("if"):
        results = _ops.cond(test, branch(then), branch(otherwise))
        first, second = seen[0], seen[1]
        results = iter(results)
        final = []
        for a, b, was, keep in zip(first, second, before, kept):
            if keep and _is_carried(a) and _is_carried(b):
                final.append(next(results))
            elif not keep:
                final.append(was)
            elif a is b:
                final.append(a)
            else:
                raise ValueError("a variable is a tensor in one branch and something else in the other")
        set_(tuple(final))


def while_(test, body, get, set_):
    value = test()
    while not is_staged(value):
        if not value:
            return
        body()
        value = test()
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
        set_(filled(_ops.while_loop(run_test, run_body, start)))


class Range:
    """tf.range in a loop: a tensor, or a counter where only a run knows its limit."""

    def __init__(self, f, args, kwargs):
        self.given = args
        parts = list(args)
        self.is_staged = not kwargs and any(is_staged(p) or isinstance(p, DynamicSize) for p in parts)
        if self.is_staged:
            start, limit, delta = ([0] + parts if len(parts) == 1 else parts) + ([1] if len(parts) < 3 else [])
            code = next(_tandem.convert(p)._code for p in parts if is_staged(p) or isinstance(p, DynamicSize))
            self.start, self.limit, self.delta = (_tandem.convert(p, code) if isinstance(p, (int, float)) else _tandem.convert(p) for p in (start, limit, delta))
        else:
            self.tensor = f(*args, **kwargs)


def for_(values, body, get, set_, is_over):
    """`is_over` tells whether a break was reached."""
    if isinstance(values, Range):
        if values.is_staged:
            place = [values.start]
            while_(
                lambda: and_(lambda: _tandem.less(place[0], values.limit), lambda: not_(is_over())),
                lambda: (body(place[0]), place.__setitem__(0, place[0] + values.delta)),
                lambda: (place[0],) + get(),
                lambda v: (place.__setitem__(0, v[0]), set_(v[1:])),
            )
            return
        values = values.tensor
    if is_staged(values):
        if int(values._sizes[0]) > _MOST_UNROLLED:
            _staged_for(values, body, get, set_, is_over)
            return
        values = _tandem.unstack(values, 0)
    for value in values:
        over = is_over()
        if not is_staged(over) and over:
            return
        body(value)


def _staged_for(values, body, get, set_, is_over):
    place = [_tandem.convert(0, 5)]
    count = int(values._sizes[0])
    while_(
        lambda: and_(lambda: _tandem.less(place[0], count), lambda: not_(is_over())),
        lambda: (body(_tandem.gather(values, place[0], 0)), place.__setitem__(0, place[0] + 1)),
        lambda: (place[0],) + get(),
        lambda v: (place.__setitem__(0, v[0]), set_(v[1:])),
    )


# ---- Conversion ----

_RUNTIME = "__tandem_autograph"
_ASK_THEIR_CALLER = ("super", "locals", "globals", "vars", "dir", "eval", "exec")


class _Unconvertible(Exception):
    pass


def _assigned(nodes):
    """The names that statements assign, those of inner functions left out."""
    found = []

    class Visitor(ast.NodeVisitor):
        def visit_Name(self, node):
            if isinstance(node.ctx, ast.Store) and node.id not in found:
                found.append(node.id)

        def visit_FunctionDef(self, node):
            if node.name not in found and not node.name.startswith("__tandem"):
                found.append(node.name)

        def visit_ClassDef(self, node):
            if node.name not in found:
                found.append(node.name)

        def visit_alias(self, node):
            name = (node.asname or node.name).split(".")[0]
            if name not in found:
                found.append(name)

        def visit_ExceptHandler(self, node):
            if node.name and node.name not in found:
                found.append(node.name)
            self.generic_visit(node)

        def visit_Lambda(self, node):
            pass

        def visit_ListComp(self, node):
            pass

        visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    for node in nodes:
        Visitor().visit(node)
    return found


def _contains(nodes, kinds, stop=()):
    for node in nodes:
        if isinstance(node, kinds):
            return True
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef) + tuple(stop)):
            continue
        if _contains(list(ast.iter_child_nodes(node)), kinds, stop):
            return True
    return False


def _parse(text):
    return ast.parse(text).body


class _Converter:
    def __init__(self, function, class_name=None):
        self.count = 0
        positional = function.args.posonlyargs + function.args.args
        self.expressions = _Expressions(class_name, positional[0].arg if positional else None)
        self.locals = set(_assigned(function.body))
        self.arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}

    def fresh(self, stem):
        self.count += 1
        return f"__tandem_{stem}_{self.count}"

    # Statements.

    def block(self, statements, is_tail):
        """Converted statements. `is_tail`: nothing of the function follows them."""
        result = []
        for i, statement in enumerate(statements):
            rest = statements[i + 1 :]
            if isinstance(statement, ast.If) and is_tail and _contains([statement], ast.Return) and not _contains([statement], (ast.Break, ast.Continue), (ast.For, ast.While)):
                converted = self.returning_if(statement, rest)
                if converted is not None:
                    return result + converted
            result += self.statement(statement, is_tail and not rest)
        return result

    def returning_if(self, node, rest):
        """A branch that returns: what follows it belongs to the branches that do not."""

        def ends(body):
            if not body:
                return False
            last = body[-1]
            return isinstance(last, (ast.Return, ast.Raise)) or (isinstance(last, ast.If) and ends(last.body) and ends(last.orelse))

        then = node.body if ends(node.body) else node.body + rest
        otherwise = node.orelse if ends(node.orelse) else node.orelse + rest
        names = [n for n in _assigned(then + otherwise) if n in self.locals]
        a, b = self.fresh("then"), self.fresh("else")
        scope = [ast.Nonlocal(names)] if names else []
        made = [self.function(a, scope + self.block(then, True)), self.function(b, scope + self.block(otherwise, True))]
        call = _parse(f"return {_RUNTIME}.if_return(0, {a}, {b})")[0]
        call.value.args[0] = self.expression(node.test)
        return made + [ast.copy_location(call, node)]

    def function(self, name, body, parameters=""):
        made = _parse(f"def {name}({parameters}): pass")[0]
        made.body = body or [ast.Pass()]
        return made

    def statement(self, node, is_tail=False):
        if isinstance(node, ast.If):
            return self.if_(node)
        if isinstance(node, ast.While) and not node.orelse:
            return self.loop(node)
        if isinstance(node, ast.For) and not node.orelse:
            return self.loop(node)
        if isinstance(node, (ast.With, ast.Try)):
            for field in ("body", "orelse", "finalbody"):
                if getattr(node, field, None):
                    setattr(node, field, self.block(getattr(node, field), False))
            for handler in getattr(node, "handlers", ()):
                handler.body = self.block(handler.body, False)
            for item in getattr(node, "items", ()):
                item.context_expr = self.expression(item.context_expr)
            return [node]
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return [node]
        return [self.expression(node)]

    def if_(self, node):
        if _contains(node.body + node.orelse, (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Delete), ()):
            node.test = self.expression(node.test)
            node.body, node.orelse = self.block(node.body, False), self.block(node.orelse, False)
            return [node]
        first, second = _assigned(node.body), _assigned(node.orelse)
        names = [n for n in dict.fromkeys(first + second) if n in self.locals]
        in_both = [n in first and n in second for n in names]
        a, b, getter, setter = (self.fresh(s) for s in ("then", "else", "get", "set"))
        scope = [ast.Nonlocal(names)] if names else []
        made = [self.function(a, scope + self.block(node.body, False)), self.function(b, scope + self.block(node.orelse, False))]
        made += self.accessors(names, getter, setter)
        call = _parse(f"{_RUNTIME}.if_(0, {a}, {b}, {getter}, {setter}, {in_both})")[0]
        call.value.args[0] = self.expression(node.test)
        return made + [ast.copy_location(call, node)]

    def accessors(self, names, getter, setter):
        scope = [ast.Nonlocal(list(names))] if names else []
        listed = "".join(f"{n}, " for n in names)
        get = self.function(getter, _parse(f"return ({listed})"))
        set_ = self.function(setter, scope + (_parse(f"({listed}) = __tandem_values") if names else []), "__tandem_values")
        return [get, set_]

    def loop(self, node):
        if _contains(node.body, (ast.Return, ast.Yield, ast.YieldFrom, ast.Delete)):
            node.body = self.block(node.body, False)
            return [node]
        over = skip = None
        body = node.body
        if _contains(body, ast.Break, (ast.For, ast.While)):
            over = self.fresh("break")
        if _contains(body, ast.Continue, (ast.For, ast.While)):
            skip = self.fresh("continue")
        body = self.guarded(body, over, skip)
        start = []
        if over:
            self.locals.add(over)
            start += _parse(f"{over} = False")
            if isinstance(node, ast.For):
                body = [self.guard([over], body)]
        if skip:
            self.locals.add(skip)
            body = _parse(f"{skip} = False") + body
            start += _parse(f"{skip} = False")
        targets = _assigned([node.target]) if isinstance(node, ast.For) else []
        names = [n for n in dict.fromkeys(targets + _assigned(body)) if n in self.locals]
        run, getter, setter = (self.fresh(s) for s in ("body", "get", "set"))
        scope = [ast.Nonlocal(names)] if names else []
        if isinstance(node, ast.While):
            made = [self.function(run, scope + self.block(body, False))] + self.accessors(names, getter, setter)
            condition = self.expression(node.test)
            if over:
                both = _parse(f"{_RUNTIME}.and_(lambda: {_RUNTIME}.not_({over}), lambda: 0)")[0].value
                both.args[1].body = condition
                condition = both
            call = _parse(f"{_RUNTIME}.while_(lambda: 0, {run}, {getter}, {setter})")[0]
            call.value.args[0].body = condition
        else:
            take = _parse("x = __tandem_item")[0]
            take.targets = [node.target]
            made = [self.function(run, scope + [take] + self.block(body, False), "__tandem_item")] + self.accessors(names, getter, setter)
            call = _parse(f"{_RUNTIME}.for_(0, {run}, {getter}, {setter}, lambda: {over or False})")[0]
            call.value.args[0] = self.values(node.iter)
        return start + made + [ast.copy_location(call, node)]

    def values(self, node):
        is_range = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "range" and not any(isinstance(a, ast.Starred) for a in node.args)
        if not is_range:
            return self.expression(node)
        made = _parse(f"{_RUNTIME}.Range(0, (), {{}})")[0].value
        made.args[0] = node.func
        made.args[1] = ast.Tuple([self.expression(a) for a in node.args], ast.Load())
        made.args[2] = ast.Dict([ast.Constant(k.arg) for k in node.keywords], [self.expression(k.value) for k in node.keywords])
        return made

    def guard(self, flags, body):
        test = " or ".join(flags)
        made = _parse(f"if not ({test}): pass")[0]
        made.body = body
        return made

    def guarded(self, statements, over, skip):
        """`break` and `continue` as flags: what follows them runs where none is set."""
        result = []
        for i, node in enumerate(statements):
            if isinstance(node, ast.Break):
                return result + _parse(f"{over} = True")
            if isinstance(node, ast.Continue):
                return result + _parse(f"{skip} = True")
            if _contains([node], (ast.Break, ast.Continue), (ast.For, ast.While)) and not isinstance(node, (ast.For, ast.While)):
                if not isinstance(node, ast.If):
                    raise _Unconvertible
                node.body, node.orelse = self.guarded(node.body, over, skip), self.guarded(node.orelse, over, skip)
                rest = self.guarded(statements[i + 1 :], over, skip)
                flags = [f for f in (over, skip) if f]
                return result + [node] + ([self.guard(flags, rest)] if rest else [])
            result.append(node)
        return result

    # Expressions.

    def expression(self, node):
        return self.expressions.visit(node)


class _Expressions(ast.NodeTransformer):
    """Expressions of a function, which may be a method: its class's name and its first argument are given."""

    def __init__(self, class_name, first_argument):
        self._class_name, self._first_argument = class_name, first_argument

    def visit_FunctionDef(self, node):
        return node

    def visit_Attribute(self, node):
        """The compiler gives private names their class's only where it sees the class."""
        self.generic_visit(node)
        if self._class_name and node.attr.startswith("__") and not node.attr.endswith("__"):
            node.attr = f"_{self._class_name.lstrip('_')}{node.attr}"
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self._first_argument:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self._first_argument, ast.Load())]
            return node
        if isinstance(node.func, ast.Name) and node.func.id in _ASK_THEIR_CALLER:
            return node
        made = _parse(f"{_RUNTIME}.called(0)")[0].value
        made.args[0] = node.func
        node.func = ast.copy_location(made, node)
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield)) for n in ast.walk(node)):
            return node
        made = _parse(f"{_RUNTIME}.{'and_' if isinstance(node.op, ast.And) else 'or_'}()")[0].value
        for value in node.values:
            part = _parse("lambda: 0")[0].value
            part.body = value
            made.args.append(part)
        return ast.copy_location(made, node)

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        made = _parse(f"{_RUNTIME}.not_(0)")[0].value
        made.args[0] = node.operand
        return ast.copy_location(made, node)

    def visit_IfExp(self, node):
        self.generic_visit(node)
        made = _parse(f"{_RUNTIME}.if_expression(0, lambda: 0, lambda: 0)")[0].value
        made.args[0], made.args[1].body, made.args[2].body = node.test, node.body, node.orelse
        return ast.copy_location(made, node)

    def visit_ListComp(self, node):
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp


def _converted_code(f, converts_calls):
    source = textwrap.dedent(inspect.getsource(f.__code__))
    tree = ast.parse(source)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    if len(functions) != 1:
        raise _Unconvertible
    function = functions[0]
    if not _contains(function.body, (ast.If, ast.While, ast.For, ast.IfExp) + ((ast.Call,) if converts_calls else ())):
        return None
    if _contains(function.body, (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await)):
        raise _Unconvertible
    owner = f.__qualname__.split(".")[-2:-1]
    converter = _Converter(function, owner[0] if owner and owner[0] != "<locals>" else None)
    function.decorator_list = []
    function.returns = None
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    count = len(function.args.defaults), len(function.args.kw_defaults)
    function.args.defaults = [ast.Constant(None)] * count[0]
    function.args.kw_defaults = [None if d is None else ast.Constant(None) for d in function.args.kw_defaults]
    has_doc = bool(function.body) and isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant)
    body = converter.block(function.body[has_doc:], True)
    unset = [n for n in sorted(converter.locals) if n not in converter.arguments]
    function.body = [s for n in unset for s in _parse(f"{n} = {_RUNTIME}.Undefined({n!r})")] + body
    free = list(f.__code__.co_freevars)
    outer = _parse(f"def __tandem_outer({', '.join(free + [_RUNTIME])}): pass")[0]
    outer.body = [function, ast.Return(ast.Name(function.name, ast.Load()))]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    ast.increment_lineno(module, f.__code__.co_firstlineno - 1)
    code = compile(module, f.__code__.co_filename, "exec")
    code = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == function.name)


_codes = {}


def _is_users(f):
    """Whether a function is of the program, and not of a library."""
    module = f.__module__ or ""
    path = f.__code__.co_filename
    root = module.split(".")[0]
    return root != "tandem" and root not in sys.stdlib_module_names - {"__main__"} and "site-packages" not in path and "dist-packages" not in path


def called(f):
    """What a converted function calls: converted, too, where that is asked for."""
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
    if not isinstance(f, types.FunctionType) or f.__name__ == "<lambda>" or getattr(f, "_tandem_do_not_convert", False) or not _is_users(f):
        return f
    key = f.__code__, state.converts_calls
    if key not in _codes:
        try:
            _codes[key] = _converted_code(f, state.converts_calls)
        except (OSError, TypeError, SyntaxError, _Unconvertible, IndentationError):
            _codes[key] = None
    code = _codes[key]
    if code is None:
        return f
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
    cells[_RUNTIME] = types.CellType(sys.modules[__name__])
    if f.__name__ in code.co_freevars and f.__name__ not in cells:  # It calls itself by its global name.
        cells[f.__name__] = types.CellType(f.__globals__.get(f.__name__, f))
    made = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, tuple(cells[n] for n in code.co_freevars))
    made.__kwdefaults__ = f.__kwdefaults__
    return made


# ---- Public names ----


def to_code(entity, recursive=True, experimental_optional_features=None):
    return inspect.getsource(getattr(entity, "python_function", entity))


def to_graph(entity, recursive=True, experimental_optional_features=None):
    return converted(entity)


def do_not_convert(func=None):
    if func is None:
        return do_not_convert
    func._tandem_do_not_convert = True
    return func


def set_verbosity(level, alsologtostdout=False):
    pass


def trace(*args):
    print(*args)


class experimental:
    do_not_convert = staticmethod(do_not_convert)

    @staticmethod
    def set_loop_options(**kwargs):
        pass
