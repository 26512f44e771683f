"""Functions as a strategy runs them: traced once, for all replicas."""

import contextlib
import functools
import types
import weakref

import _tandem
from tandem import nest
from tandem._tracing.function import _MARK, Function, GiveUpTrace, _key_of, flatten_results
from tandem._tracing.recognition import frozen_key
from tandem._tracing.state import converting_calls, state
from tandem.errors import OperatorNotAllowedInGraphError
from tandem.distribute._scope import open_scopes
from tandem.distribute._later import Later
from tandem.distribute._values import marked


def code_key(f, depth=0):
    """What a function is recognised by where it is made anew for each call: its code and what it holds."""
    bound = getattr(f, "__self__", None)
    while isinstance(f, Function):
        bound = getattr(f.python_function, "__self__", bound)
        f = f.python_function
    if isinstance(f, functools.partial):
        return ("partial", code_key(f.func), tuple(_key_of(a) for a in f.args), tuple((k, _key_of(v)) for k, v in f.keywords.items()))
    code = getattr(f, "__code__", None)
    if code is None:
        return id(f)
    cells = []
    for cell in f.__closure__ or ():
        try:
            content = cell.cell_contents
            is_function = isinstance(content, types.FunctionType) and content is not f
            cells.append(code_key(content, depth + 1) if is_function and depth < 4 else _key_of(content))
        except ValueError:
            cells.append(None)
    return code, tuple(cells), tuple(_key_of(d) for d in f.__defaults__ or ()), id(bound), frozen_key()


class ReplicaProgram:
    """A function that a strategy runs on all replicas, for one kind of arguments."""

    def __init__(self, strategy, fn, args, kwargs, leaves):
        self._strategy = strategy
        self._structure = None
        self._converts = False  # Whether what it calls is converted, too.
        self._kept = (fn, leaves)  # What keys name by its identity lives as long as they do.
        outline = nest.pack_sequence_as((args, kwargs), [None] * len(leaves)) if leaves else (args, kwargs)
        python = fn
        while isinstance(python, Function):
            python = python.python_function
        self._python = python
        # As in Function: the library holds this.
        reference = weakref.ref(self)
        strategy_reference = weakref.ref(strategy)
        del strategy, fn, python

        def traced(given):
            from tandem import autograph

            self, strategy = reference(), strategy_reference()
            python = self._python
            given = iter(given)
            filled = [next(given) if leaf is _MARK else leaf for leaf in leaves]
            own_args, own_kwargs = nest.pack_sequence_as(outline, filled)
            before = state.tracing, state.open_rows, state.in_replica
            state.tracing, state.open_rows, state.in_replica = state.tracing + 1, True, True
            open_scopes.strategies.append(strategy)
            try:
                with converting_calls() if self._converts else contextlib.nullcontext():
                    result = autograph.converted(python)(*own_args, **own_kwargs)
                flat, self._structure = flatten_results(result)
            finally:
                open_scopes.strategies.pop()
                state.tracing, state.open_rows, state.in_replica = before
            like, marks = self._structure
            self._structure = (nest.pack_sequence_as(like, [None] * len(marks)) if like is not None and marks else like, marks)
            return flat

        self._function = _tandem.ReplicaFunction(traced, getattr(self._python, "__name__", "replica_fn"))

    def run(self, tensors):
        """The results on all replicas."""
        count = self._strategy._local_replicas
        results = self._traced(lambda: self._strategy._native.run(self._function, tensors))
        return self._packed(value.value(0) if count == 1 else marked(value, count) for value in results)

    def schedule(self, coordinator, tensors):
        """The results that a worker of parameter servers will have had."""
        remote = self._traced(lambda: coordinator.schedule(self._function, tensors))
        fetched = Later(remote.fetch)
        return self._packed(Later(lambda i=i: fetched.get()[i]) for i in range(self._structure[1].count(_MARK)))

    def _traced(self, call):
        """What the call returns, which may trace the function, on other threads later, too."""
        try:
            return call()
        except GiveUpTrace:
            raise
        except OperatorNotAllowedInGraphError:
            if self._converts:
                raise
            self._converts = True
            return call()

    def _packed(self, values):
        like, leaves = self._structure
        values = iter(values)
        filled = [next(values) if leaf is _MARK else leaf for leaf in leaves]
        return filled[0] if like is None else nest.pack_sequence_as(like, filled)
