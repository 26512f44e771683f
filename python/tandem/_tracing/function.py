"""Functions that are traced once for each kind of arguments, tf.function."""

import contextlib
import functools
import sys
import types
import warnings
import weakref

import _tandem
from tandem import nest
from tandem._tensors.tensor import Tensor, TensorSpec
from tandem._tracing.concrete_function import ConcreteFunction
from tandem._tracing.state import collecting_effects, converting_calls, probe_tracing, running_op_by_op, state, tracing
from tandem._tracing.structures import (
    _MARK, _as_results, _is_leaf_tensor, _is_object, _key_of, _map_up_to, _Rows, _WithEffects, _without_values, flatten_results, rebuild_results,
)
from tandem.errors import OperatorNotAllowedInGraphError, UnimplementedError

_settings = {"eager": False}
_MANY = 16  # Kinds of arguments of one function, after which a warning says that it is traced again and again.


def run_functions_eagerly(run_eagerly):
    """Makes all tf.functions run as plain Python, for debugging."""
    _settings["eager"] = bool(run_eagerly)


def functions_run_eagerly():
    """True if tf.functions run as plain Python."""
    return _settings["eager"]


class GiveUpTrace(OperatorNotAllowedInGraphError):
    """The function does what a trace cannot hold, as taking a step of a data set; it runs as Python, silently."""


def place_of(error):
    """The user's line at which an error was raised."""
    import os
    import traceback

    here = os.path.dirname(os.path.dirname(__file__))

    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(here):
            return f"{frame.filename}:{frame.lineno}"
    return "an unknown line"


class Function:
    """A Python function that runs as a program of the library."""

    def __init__(self, python_function, input_signature=None, name=None, autograph=True, open_rows=None, jit_compile=None, is_users=False):
        functools.update_wrapper(self, python_function)
        self.python_function = python_function
        self._python_function = python_function
        self._name = name or getattr(python_function, "__name__", "function")
        self.__name__ = self._name
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self._autograph = autograph
        self._open_rows = open_rows
        self._converted = {}
        self._programs = {}
        self._kept = []  # What keys name by its identity must live as long as they do.
        self._kinds = {}  # The kinds of arguments that there are programs for.
        self._op_by_op = False
        self._first = None if is_users else self  # The one of its code and contents that was traced first; None until a call asks.
        self._bound = weakref.WeakKeyDictionary()
        self._signature = None
        self._plain = None
        self._last_outputs = None
        self._traces = 0

    # ---- Methods ----

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        try:
            found = self._bound.get(instance)
            if found is None:
                reference = weakref.ref(instance)
                f = self.python_function

                @functools.wraps(f)
                def method(*args, **kwargs):
                    instance = reference()
                    if instance is None:
                        raise ReferenceError(f"{f.__qualname__}: the object whose method this is does not exist any more; keep it in a variable")
                    return f(instance, *args, **kwargs)

                method._tandem_bound = (f, reference)
                found = Function(method, self._method_signature(), self._name, self._autograph, self._open_rows)
                self._bound[instance] = found
            return found
        except TypeError:  # Cannot be referred to weakly.
            return self._method_that_keeps(instance)

    def _method_that_keeps(self, instance):
        return Function(types.MethodType(self.python_function, instance), self._method_signature(), self._name, self._autograph)

    def _method_signature(self):
        return self.input_signature

    # ---- Calls ----

    def _bind_signature(self):
        if self._signature is not None:
            return
        import inspect

        f = self.python_function
        bound = getattr(f, "_tandem_bound", None)
        try:
            self._signature = inspect.signature(bound[0] if bound else f)
            if bound:
                self._signature = self._signature.replace(parameters=list(self._signature.parameters.values())[1:])
        except (TypeError, ValueError):
            self._signature = False

    @property
    def __signature__(self):
        """What inspect.signature tells: of a method's function the parameters after `self`."""
        self._bind_signature()
        if not self._signature:
            raise AttributeError("__signature__")
        return self._signature

    def _bind(self, args, kwargs):
        """Keyword arguments in their places, and defaults."""
        self._bind_signature()
        if not self._signature:
            return args, kwargs
        try:
            filled = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}(): {error}") from None
        filled.apply_defaults()
        return filled.args, filled.kwargs

    def _bind_names(self, count):
        """The names of the first parameters."""
        if self._signature is None:
            self._bind_signature()
        return list(self._signature.parameters)[:count] if self._signature else []

    def _name_arguments(self, args, kwargs):
        """Tensors of a trace are named after the parameters that they are given as, for people who print them."""
        names = self._bind_names(len(args))
        for name, value in [*zip(names, args), *kwargs.items()]:
            for i, leaf in enumerate(nest.flatten(value)):
                if isinstance(leaf, Tensor) and leaf._is_symbolic:
                    leaf._given_name = f"{name}_{i}:0" if i else f"{name}:0"

    def _has_no_defaults(self):
        if self._plain is None:
            self._bind_signature()
            self._plain = not self._signature or all(p.default is p.empty for p in self._signature.parameters.values())
        return self._plain

    def __call__(self, *args, **kwargs):
        if self._first is None:
            self._find_first()
        if self._op_by_op or _settings["eager"]:
            return self._as_python(args, kwargs)
        if kwargs:
            args, kwargs = self._bind(args, kwargs)
        for each in args:
            if type(each) is not Tensor:
                break
        else:  # All tensors: the usual case.
            if not kwargs and self.input_signature is None and self._has_no_defaults():
                program = self._programs.get(len(args))
                if program is None:
                    program = self._new_program(len(args), args, {}, [_MARK] * len(args), args)
                return self._run(program, args, args, {})
        if len(args) == 1 and not kwargs and self._is_one_tuple(args[0]):  # A batch, as fit gives one to its steps.
            key = "tuple", len(args[0])
            program = self._programs.get(key)
            if program is None:
                program = self._new_program(key, args, {}, [_MARK] * len(args[0]), args[0])
            return self._run(program, args[0], args, {})
        if self.input_signature is not None:
            args, kwargs = self._bind(args, kwargs)
            args = self._as_signed(args)
        elif not self._has_no_defaults():
            args, kwargs = self._bind(args, kwargs)
        flat = nest.flatten((args, kwargs))
        tensors, key = [], []
        for leaf in flat:
            if isinstance(leaf, Tensor):
                tensors.append(leaf)
                key.append(_MARK)
            elif _is_leaf_tensor(leaf):
                tensors.append(_tandem.convert(leaf))
                key.append(_MARK)
            elif hasattr(leaf, "_ragged_rows") and isinstance(leaf.flat_values, Tensor):
                tensors.append(leaf.flat_values)
                key.append(("rows", *(splits.numpy().tobytes() for splits in leaf.nested_row_splits)))
            else:
                key.append(_key_of(leaf))
        full_key = (nest.signature((args, kwargs)), tuple(key))
        program = self._programs.get(full_key)
        if program is None:
            of_rows = lambda k, leaf: _Rows(leaf.outline()) if type(k) is tuple and k[0] == "rows" else leaf  # noqa: E731
            leaves = [_MARK if k is _MARK else of_rows(k, leaf) for k, leaf in zip(key, flat)]
            program = self._new_program(full_key, args, kwargs, leaves, tensors)
        return self._run(program, tensors, args, kwargs)

    def _is_one_tuple(self, value):
        if type(value) is not tuple or self.input_signature is not None or not self._has_no_defaults():
            return False
        for each in value:
            if type(each) is not Tensor:
                return False
        return True

    def _as_signed(self, args):
        """The arguments as tensors of the declared dtypes."""
        specs = self.input_signature
        if len(args) < len(specs):
            raise TypeError(f"{self._name}: {len(args)} arguments given, the input signature has {len(specs)}")

        def signed(value, spec):
            if not isinstance(spec, TensorSpec) or isinstance(value, _tandem.PerReplica):
                return value
            tensor = value if isinstance(value, Tensor) else _tandem.convert(value, spec.dtype._code)
            if tensor._code != spec.dtype._code or not spec.shape.is_compatible_with(tensor.shape):
                raise TypeError(
                    f"Binding inputs to tf.function failed: {self._name} was declared with {spec}, and got a tensor of "
                    f"shape {tensor.shape} and dtype {tensor.dtype.name}"
                )
            return tensor

        result = [_map_up_to(spec, value, lambda s, v: signed(v, s)) if not isinstance(value, _tandem.PerReplica) else value for value, spec in zip(args, specs)]
        return tuple(result) + tuple(args[len(specs) :])

    def _find_first(self):
        from tandem._tracing import recognition

        options = self.input_signature, self._autograph, self._name
        try:
            self._first = recognition.first_of(self, options)
        except TypeError:  # Something that cannot be a key.
            self._first = self
        self._op_by_op = self._first._op_by_op

    def _new_program(self, key, args, kwargs, leaves, tensors):
        """The program for a kind of arguments; `leaves` are the arguments with marks where tensors stand."""
        if self._first is not self and not any(_is_object(leaf) for leaf in leaves):  # What an object holds may be other than it was then.
            program = self._first._programs.get(key)
            if program is None:
                program = self._first._new_program(key, args, kwargs, leaves, tensors)
            self._programs[key] = program
            return program
        if len(self._programs) == _MANY:
            self._warn_of_traces()
        like = (args, kwargs)
        self._kept.append([leaf for leaf in leaves if leaf is not _MARK])
        outline = nest.pack_sequence_as(like, [None] * len(leaves)) if leaves else like
        open_rows = self._open_rows
        if self.input_signature is not None:
            declared = [s for s in nest.flatten(self.input_signature) if isinstance(s, TensorSpec)]
            open_rows = any(s.shape.rank and s.shape._sizes[0] is None for s in declared) or open_rows

        # The library holds this, and the function the library's program: a reference the other way round would be a
        # circle that Python's collector does not see.
        reference = weakref.ref(self)

        def traced(given):
            self, tensors_given = reference(), given
            given = iter(given)
            filled = [next(given) if leaf is _MARK else leaf.of(next(given)) if type(leaf) is _Rows else leaf for leaf in leaves]
            own_args, own_kwargs = nest.pack_sequence_as(outline, filled)
            self._name_arguments(own_args, own_kwargs)
            is_tracing = probe_tracing()
            self._traces += 1
            effects = ()
            if is_tracing:
                is_first_try = any(type(size) is not int for t in tensors_given for size in t._sizes)
                with tracing(open_rows, is_first_try), collecting_effects() as effects:
                    result = self._callable()(*own_args, **own_kwargs)
            else:
                result = self.python_function(*own_args, **own_kwargs)
            flat, structure = flatten_results(result)
            specs = iter([TensorSpec([s if type(s) is int else None for s in t._sizes], t.dtype) for t in tensors_given])
            kinds = [next(specs) if leaf is _MARK else leaf for leaf in leaves]
            seen = tuple(repr(each) if leaf is _MARK else id(each) for each, leaf in zip(kinds, leaves))
            self._kinds.setdefault(seen, nest.pack_sequence_as(outline, kinds))
            self._last_outputs = nest.map_structure(
                lambda t: TensorSpec(t.shape, t.dtype) if isinstance(t, Tensor) else t, result
            )
            if not is_tracing:
                return flat, structure
            structure = _without_values(structure)
            if not effects:
                return flat, structure
            return flat + [t for _, tensors in effects for t in tensors], _WithEffects(structure, effects)

        program = _tandem.Function(traced, self._name)
        self._programs[key] = program
        return program

    def _warn_of_traces(self):
        code = getattr(self.python_function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        warnings.warn(
            f"{self._name} is traced for the {_MANY + 1}th kind of arguments{place}. Tracing is slow: Python numbers that change "
            "from call to call are better given as tensors, and objects as arguments are better the same ones each time",
            stacklevel=5,
        )

    def _callable(self):
        if not self._autograph:
            return self.python_function
        found = self._converted.get(state.converts_calls)
        if found is None:
            from tandem import autograph

            found = self._converted[state.converts_calls] = autograph.converted(self.python_function)
        return found

    def _as_python(self, args, kwargs):
        with contextlib.nullcontext() if _settings["eager"] else running_op_by_op():
            return _as_results(self.python_function(*args, **kwargs))

    def _run(self, program, tensors, args, kwargs):
        try:
            try:
                results, structure = program.run(tensors)
            except GiveUpTrace:
                raise
            except OperatorNotAllowedInGraphError:
                if state.tracing or state.converts_calls:
                    raise
                with converting_calls():
                    results, structure = program.run(tensors)
        except GiveUpTrace:
            if state.tracing:
                raise
            self._op_by_op = self._first._op_by_op = True
            return self._as_python(args, kwargs)
        except (OperatorNotAllowedInGraphError, UnimplementedError) as error:
            if state.tracing:
                raise
            self._op_by_op = self._first._op_by_op = True
            warnings.warn(
                f"{self._name} runs op by op, since it cannot be traced: {str(error).splitlines()[0]} ({place_of(error)})",
                stacklevel=3,
            )
            return self._as_python(args, kwargs)
        if type(structure) is _WithEffects:
            results, structure = structure.happen(results), structure.structure
        return rebuild_results(results, structure)

    # ---- What can be asked ----

    def get_concrete_function(self, *args, **kwargs):
        """The function for one kind of arguments, which TensorSpecs may stand for."""
        if not args and not kwargs and self.input_signature is not None:
            args = self.input_signature
        from tandem._tensors.specs import spec_of

        def kind(value):
            if getattr(value, "_is_text_tensor", False) or hasattr(value, "_ragged_rows"):
                return spec_of(value)
            return TensorSpec.from_tensor(_tandem.convert(value)) if _is_leaf_tensor(value) else value

        return ConcreteFunction(self, *nest.map_structure(kind, (args, kwargs)))

    def experimental_get_tracing_count(self):
        """How many times the Python function was traced."""
        return (self._first or self)._traces

    def explain(self):
        """The programs that were made of the function, for people."""
        return "\n".join(program.explain() for program in self._programs.values())

    def pretty_printed_concrete_signatures(self, verbose=True):
        """The kinds of arguments it was traced for, as text."""
        return "\n\n".join(each.pretty_printed_signature() for each in self._concrete_functions())

    def _concrete_functions(self):
        """A function for each kind of arguments that this one was traced for."""
        return [ConcreteFunction(self, *kinds) for kinds in (self._first or self)._kinds.values()]

    @property
    def function_spec(self):
        """What is known of the Python function's signature."""
        return self

    def __repr__(self):
        return f"<tandem function {self._name}>"

    def __reduce__(self):
        if self._is_global():
            return self.__qualname__
        f, instance = self._method_and_instance()
        if f is not None and getattr(getattr(type(instance), f.__name__, None), "python_function", None) is f:
            return _method_again, (instance, f.__name__)
        return self._as_parts()

    def _method_and_instance(self):
        f = self.python_function
        if isinstance(f, types.MethodType):
            return f.__func__, f.__self__
        bound = getattr(f, "_tandem_bound", None)
        return (None, None) if bound is None else (bound[0], bound[1]())

    def _as_parts(self):
        """What pickle makes it again of where it has no name."""
        settings = (self.input_signature, self._name, self._autograph, self._open_rows)
        bound = getattr(self.python_function, "_tandem_bound", None)
        return (_again, (self.python_function, *settings)) if bound is None else (_again, (bound[0], *settings, bound[1]()))

    def _is_global(self):
        """Whether its module has it under its own name, where another process finds it."""
        found = sys.modules.get(getattr(self, "__module__", None))
        for name in getattr(self, "__qualname__", "<none>").split("."):
            found = getattr(found, name, None)
        return found is self

    def __deepcopy__(self, memo):
        return self


def _method_again(instance, name):
    return getattr(type(instance), name)._method_that_keeps(instance)  # Often nobody else has the instance then.


def _again(python_function, input_signature, name, autograph, open_rows, instance=None):
    made = Function(python_function, input_signature, name, autograph, open_rows)
    return made if instance is None else made.__get__(instance)


def function(
    func=None,
    input_signature=None,
    autograph=True,
    jit_compile=None,
    reduce_retracing=False,
    experimental_implements=None,
    experimental_autograph_options=None,
    experimental_attributes=None,
    experimental_relax_shapes=None,
    experimental_compile=None,
    experimental_follow_type_hints=None,
):
    """Makes a function run as a program, traced once for each kind of arguments."""

    def decorate(f):
        if isinstance(f, Function):
            return f
        if isinstance(f, types.MethodType):
            return Function(f.__func__, input_signature, f.__name__, autograph).__get__(f.__self__)
        return Function(f, input_signature, None, autograph, is_users=True)

    return decorate if func is None else decorate(func)
