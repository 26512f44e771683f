"""How AutoGraph writes a function anew: the source before, the source after.

Each `if`, `while` and `for` becomes a call of tandem.autograph, which decides when it runs. What is inside becomes
functions, and so do a getter and a setter of what is assigned there: local names, attributes and items.

    while n > 1:                 def body(): nonlocal n; n = n - self.step
        n = n - self.step        def get(): return (n,)
                                 def set(values): nonlocal n; (n,) = values
                                 autograph.while_(lambda: n > 1, body, get, set, [True])

`break`, `continue` and a `return` inside of a loop are flags; what follows them runs where none is set.
"""

import ast
import copy
import inspect
import linecache
import textwrap
import types

RUNTIME = "__tandem_autograph"
_ASK_THEIR_CALLER = ("super", "locals", "globals", "vars", "dir", "eval", "exec")
_LOOPS = (ast.For, ast.While)


class Unconvertible(Exception):
    """The function stays as it is."""


# ---- What statements assign ----


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


def _root(node):
    """The name that an attribute or item is reached from, or None where the way is not a plain one."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return None
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _assigned_parts(nodes):
    """The attributes and items that statements assign, as text: "self.total", "state['a']"."""
    names, found = _assigned(nodes), []

    class Visitor(ast.NodeVisitor):
        def visit_Attribute(self, node):
            if isinstance(node.ctx, ast.Store):
                root = _root(node)
                text = ast.unparse(node)
                if root is not None and root not in names and text not in found:
                    found.append(text)
            self.generic_visit(node)

        visit_Subscript = visit_Attribute

        def visit_FunctionDef(self, node):
            pass

        visit_Lambda = visit_ClassDef = visit_FunctionDef

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


def _span(node):
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


# ---- Statements ----


class _Converter:
    def __init__(self, function, class_name=None):
        self.count = 0
        positional = function.args.posonlyargs + function.args.args
        self.expressions = _Expressions(class_name, positional[0].arg if positional else None)
        self.globals = {n for node in ast.walk(function) if isinstance(node, ast.Global) for n in node.names}
        self.outer = {n for node in ast.walk(function) if isinstance(node, ast.Nonlocal) for n in node.names}
        self.locals = set(_assigned(function.body)) - self.globals
        self.arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        self.reads = {}  # The places at which each name is read.
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.reads.setdefault(node.id, []).append((node.lineno, node.col_offset))
        self.around = []  # The spans of the loops around the present statement.
        self.read_later = set()  # Names of the converter's own that are read after their loop.
        self.values_of_returns = set()

    def fresh(self, stem):
        self.count += 1
        return f"__tandem_{stem}_{self.count}"

    def block(self, statements, is_tail):
        """Converted statements. `is_tail`: nothing of the function follows them."""
        result = []
        for i, statement in enumerate(statements):
            rest = statements[i + 1 :]
            if is_tail and isinstance(statement, ast.If) and _contains([statement], ast.Return) and not _contains([statement], (ast.Break, ast.Continue), _LOOPS):
                converted = self.returning_if(statement, rest)
                if converted is not None:
                    return result + converted
            if is_tail and isinstance(statement, _LOOPS) and _contains([statement], ast.Return):
                lowered = self.returning_loop(statement)
                if lowered is not None:
                    return result + self.block(lowered + rest, True)
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
        otherwise = node.orelse if ends(node.orelse) else node.orelse + copy.deepcopy(rest)
        names = [n for n in _assigned(then + otherwise) if n in self.locals]
        a, b = self.fresh("then"), self.fresh("else")
        scope = [ast.Nonlocal(names)] if names else []
        made = [self.function(a, scope + self.block(then, True)), self.function(b, scope + self.block(otherwise, True))]
        call = _parse(f"return {RUNTIME}.if_return(0, {a}, {b})")[0]
        call.value.args[0] = self.expression(node.test)
        return made + [ast.copy_location(call, node)]

    def returning_loop(self, node):
        """A loop that returns: it breaks, and what follows returns the value. None where a `with` or `try` is between."""
        value, returned = self.fresh("value"), self.fresh("returned")
        body = self.without_returns(copy.deepcopy(node.body), value, returned)
        if body is None or _contains(node.orelse, ast.Return):
            return None
        self.locals |= {value, returned}
        self.read_later |= {value, returned}
        self.values_of_returns.add(value)
        loop = copy.copy(node)
        loop.body = body
        first, last = _parse(f"{returned} = False\nif {returned}:\n    return {value}")
        return [first, loop, last]

    def without_returns(self, statements, value, returned):
        result = []
        for node in statements:
            if isinstance(node, ast.Return):
                keep = _parse(f"{value} = None\n{returned} = True\nbreak")
                keep[0].value = node.value or ast.Constant(None)
                return result + keep
            if not _contains([node], ast.Return):
                result.append(node)
                continue
            if not isinstance(node, (ast.If,) + _LOOPS):
                return None
            for field in ("body", "orelse"):
                inner = self.without_returns(getattr(node, field), value, returned)
                if inner is None:
                    return None
                setattr(node, field, inner)
            result.append(node)
            if isinstance(node, _LOOPS):
                result += _parse(f"if {returned}: break")
        return result

    def function(self, name, body, parameters=""):
        made = _parse(f"def {name}({parameters}): pass")[0]
        written = [n for n in _assigned(body) if n in self.globals]
        made.body = ([ast.Global(written)] if written else []) + (body or [ast.Pass()])
        return made

    def parts(self, statements):
        """The attributes, items and globals that statements assign."""
        return _assigned_parts(statements) + [n for n in _assigned(statements) if n in self.globals]

    def statement(self, node, is_tail=False):
        if isinstance(node, ast.If):
            return self.if_(node)
        if isinstance(node, _LOOPS):
            return self.loop(node)
        if isinstance(node, ast.Assert) and __debug__:
            call = _parse(f"{RUNTIME}.assert_(0, lambda: 0)")[0]
            call.value.args[0] = self.expression(node.test)
            call.value.args[1].body = self.expression(node.msg) if node.msg is not None else ast.Constant(None)
            return [ast.copy_location(call, node)]
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
        inside = node.body + node.orelse
        if _contains(inside, (ast.Return, ast.Yield, ast.YieldFrom, ast.Delete)) or _contains(inside, (ast.Break, ast.Continue), _LOOPS):
            node.test = self.expression(node.test)
            node.body, node.orelse = self.block(node.body, False), self.block(node.orelse, False)
            return [node]
        first, second = _assigned(node.body), _assigned(node.orelse)
        names = [n for n in dict.fromkeys(first + second) if n in self.locals]
        parts = self.parts(inside)
        in_both = [self.assigned_in(n, first, second) for n in names] + [False] * len(parts)
        a, b, getter, setter = (self.fresh(s) for s in ("then", "else", "get", "set"))
        scope = [ast.Nonlocal(names)] if names else []
        made = [self.function(a, scope + self.block(node.body, False)), self.function(b, scope + self.block(node.orelse, False))]
        made += self.accessors(names, parts, getter, setter)
        call = _parse(f"{RUNTIME}.if_(0, {a}, {b}, {getter}, {setter}, {in_both})")[0]
        call.value.args[0] = self.expression(node.test)
        return made + [ast.copy_location(call, node)]

    def assigned_in(self, name, first, second):
        """Whether both branches assign a name. Of what a loop returns it says which one does: the other has no value yet."""
        if name in first and name in second:
            return True
        return False if name not in self.values_of_returns else "then" if name in first else "else"

    def accessors(self, names, parts, getter, setter):
        """The functions that read and assign what a branch or loop assigns. A part may not exist yet."""
        scope = [ast.Nonlocal(list(names))] if names else []
        read = "".join(f"{n}, " for n in names) + "".join(f"{RUNTIME}.part(lambda: {p}, {p!r}), " for p in parts)
        get = self.function(getter, [self.expression(s) for s in _parse(f"return ({read})")])
        taken = [f"__tandem_part_{i}" for i in range(len(parts))]
        assign = _parse(f"({''.join(f'{n}, ' for n in [*names, *taken])}) = __tandem_values") if names or parts else []
        for part, value in zip(parts, taken):
            assign += [self.expression(s) for s in _parse(f"if {RUNTIME}.is_value({value}): {part} = {value}")]
        return [get, self.function(setter, scope + assign, "__tandem_values")]

    def loop(self, node):
        if _contains(node.body, (ast.Return, ast.Yield, ast.YieldFrom, ast.Delete)):
            node.body, node.orelse = self.block(node.body, False), self.block(node.orelse, False)
            return [node]
        over = skip = None
        body = node.body
        if _contains(body, ast.Break, _LOOPS):
            over = self.fresh("break")
        if _contains(body, ast.Continue, _LOOPS):
            skip = self.fresh("continue")
        body = self.guarded(body, over, skip)
        start, follows = [], []
        if over:
            self.locals.add(over)
            start += _parse(f"{over} = False")
            if isinstance(node, ast.For):
                body = [self.guard([over], body)]
        if skip:
            self.locals.add(skip)
            body = _parse(f"{skip} = False") + body
            start += _parse(f"{skip} = False")
        if node.orelse:
            follows = self.block([self.guard([over], node.orelse)] if over else node.orelse, False)
        targets = _assigned([node.target]) if isinstance(node, ast.For) else []
        names = [n for n in dict.fromkeys(targets + _assigned(body)) if n in self.locals]
        parts = self.parts(body)
        later = [self.is_read_later(n, node) for n in names] + [False] * len(parts)
        run, getter, setter = (self.fresh(s) for s in ("body", "get", "set"))
        scope = [ast.Nonlocal(names)] if names else []
        self.around.append(_span(node))
        if isinstance(node, ast.While):
            made = [self.function(run, scope + self.block(body, False))] + self.accessors(names, parts, getter, setter)
            condition = self.expression(node.test)
            if over:
                both = _parse(f"{RUNTIME}.and_(lambda: {RUNTIME}.not_({over}), lambda: 0)")[0].value
                both.args[1].body = condition
                condition = both
            call = _parse(f"{RUNTIME}.while_(lambda: 0, {run}, {getter}, {setter}, {later})")[0]
            call.value.args[0].body = condition
        else:
            take = _parse("x = __tandem_item")[0]
            take.targets = [node.target]
            made = [self.function(run, scope + [take] + self.block(body, False), "__tandem_item")] + self.accessors(names, parts, getter, setter)
            call = _parse(f"{RUNTIME}.for_(0, {run}, {getter}, {setter}, lambda: {over or False}, {later})")[0]
            call.value.args[0] = self.values(node.iter)
        self.around.pop()
        return start + made + [ast.copy_location(call, node)] + follows

    def is_read_later(self, name, loop):
        """Whether what a loop assigned to a name is read after it: behind it, or before it in a loop around it."""
        if name in self.read_later:
            return True
        begin, end = _span(loop)
        return any(
            place >= end or (not begin <= place < end and any(a <= place < b for a, b in self.around)) for place in self.reads.get(name, ())
        )

    def values(self, node):
        is_range = (
            isinstance(node, ast.Call)
            and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)) == "range"
            and not any(isinstance(a, ast.Starred) for a in node.args)
        )
        if not is_range:
            return self.expression(node)
        made = _parse(f"{RUNTIME}.Range(0, (), {{}})")[0].value
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
            if _contains([node], (ast.Break, ast.Continue), _LOOPS) and not isinstance(node, _LOOPS):
                if not isinstance(node, ast.If):
                    raise Unconvertible
                node.body, node.orelse = self.guarded(node.body, over, skip), self.guarded(node.orelse, over, skip)
                rest = self.guarded(statements[i + 1 :], over, skip)
                flags = [f for f in (over, skip) if f]
                return result + [node] + ([self.guard(flags, rest)] if rest else [])
            result.append(node)
        return result

    def expression(self, node):
        return self.expressions.visit(node)


# ---- Expressions ----


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
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == RUNTIME:
            return node
        made = _parse(f"{RUNTIME}.called(0)")[0].value
        made.args[0] = node.func
        node.func = ast.copy_location(made, node)
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield)) for n in ast.walk(node)):
            return node
        return ast.copy_location(self._junction("and_" if isinstance(node.op, ast.And) else "or_", node.values), node)

    def _junction(self, name, values):
        made = _parse(f"{RUNTIME}.{name}()")[0].value
        for value in values:
            part = _parse("lambda: 0")[0].value
            part.body = value
            made.args.append(part)
        late = [i for i, value in enumerate(values) if i and any(isinstance(n, (ast.Call, ast.Subscript)) for n in ast.walk(value))]
        if late:  # They may fail, or change something, where they do not count.
            made.keywords.append(ast.keyword("late", ast.Tuple([ast.Constant(i) for i in late], ast.Load())))
        return made

    def visit_Compare(self, node):
        """`a < b < c` is `a < b and b < c`, where b may be read twice."""
        self.generic_visit(node)
        if len(node.ops) == 1 or not all(isinstance(n, (ast.Name, ast.Constant)) for n in node.comparators[:-1]):
            return node
        sides = [node.left, *node.comparators]
        pairs = [ast.Compare(sides[i], [op], [copy.deepcopy(sides[i + 1])]) for i, op in enumerate(node.ops)]
        return ast.copy_location(self._junction("and_", pairs), node)

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        made = _parse(f"{RUNTIME}.not_(0)")[0].value
        made.args[0] = node.operand
        return ast.copy_location(made, node)

    def visit_IfExp(self, node):
        self.generic_visit(node)
        made = _parse(f"{RUNTIME}.if_expression(0, lambda: 0, lambda: 0)")[0].value
        made.args[0], made.args[1].body, made.args[2].body = node.test, node.body, node.orelse
        return ast.copy_location(made, node)


# ---- Functions ----


def _source_of_lambda(code):
    """The lambda of a code object as a function that returns, with the lines of its file."""
    text = "".join(linecache.getlines(code.co_filename))
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    if len(found) > 1 and hasattr(code, "co_positions"):
        columns = [p[2] for p in code.co_positions() if p[0] == code.co_firstlineno and p[2] is not None]
        found = [n for n in found if columns and n.body.col_offset <= max(columns) < n.body.end_col_offset and n.body.lineno == code.co_firstlineno]
        found = sorted(found, key=lambda n: n.body.end_col_offset - n.body.col_offset)[:1]
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if len(found) != 1 or tuple(a.arg for a in found[0].args.posonlyargs + found[0].args.args + found[0].args.kwonlyargs) != names:
        raise Unconvertible
    made = _parse("def __tandem_lambda(): return 0")[0]
    made.args, made.body[0].value = found[0].args, found[0].body
    return made, 0


def _source_of_function(code):
    functions = [n for n in ast.parse(textwrap.dedent(inspect.getsource(code))).body if isinstance(n, ast.FunctionDef)]
    if len(functions) != 1:
        raise Unconvertible
    return functions[0], code.co_firstlineno - 1


def converted_code(f, converts_calls):
    """The code of a function with its branches and loops converted, or None where it has none. It has one free
    variable more, which is tandem.autograph."""
    function, lines_before = (_source_of_lambda if f.__name__ == "<lambda>" else _source_of_function)(f.__code__)
    if not _contains(function.body, (ast.If, ast.While, ast.For, ast.IfExp, ast.Assert) + ((ast.Call,) if converts_calls else ())):
        return None
    if _contains(function.body, (ast.Yield, ast.YieldFrom, ast.Await)):
        raise Unconvertible
    owner = f.__qualname__.split(".")[-2:-1]
    converter = _Converter(function, owner[0] if owner and owner[0] != "<locals>" else None)
    function.decorator_list = []
    function.returns = None
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    function.args.defaults = [ast.Constant(None)] * len(function.args.defaults)
    function.args.kw_defaults = [None if d is None else ast.Constant(None) for d in function.args.kw_defaults]
    has_doc = bool(function.body) and isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant)
    body = converter.block(function.body[has_doc:], True)
    unset = [n for n in sorted(converter.locals) if n not in converter.arguments and n not in converter.outer]
    function.body = [s for n in unset for s in _parse(f"{n} = {RUNTIME}.Undefined({n!r})")] + body
    free = list(f.__code__.co_freevars)
    outer = _parse(f"def __tandem_outer({', '.join(free + [RUNTIME])}): pass")[0]
    outer.body = [function, ast.Return(ast.Name(function.name, ast.Load()))]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    ast.increment_lineno(module, lines_before)
    code = compile(module, f.__code__.co_filename, "exec")
    code = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == function.name)
