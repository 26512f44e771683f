"""What stands for a value while a model is described: symbolic tensors, and the steps between them."""

import math
import operator
import re
from typing import Any, NamedTuple

import numpy as np

import _tandem
from tandem import _ops, dtypes, nest
from tandem._tensors.shape import TensorShape, _Computed, _is_size
from tandem._tensors.tensor import Tensor
from tandem._tracing.state import init_scope, state
from tandem.errors import InvalidArgumentError, OperatorNotAllowedInGraphError
from tandem.keras import _objects


class KerasHistory(NamedTuple):
    """Where a symbolic tensor comes from: an operation, which of its uses, and which of the outputs."""

    operation: Any
    node_index: int
    tensor_index: int


class KerasTensor:
    """A tensor of a model that is being described: a shape, a dtype, and the call that gives it."""

    _tandem_symbolic = True
    __array_priority__ = 1000

    def __init__(self, shape, dtype="float32", sparse=False, ragged=False, record_history=True, name=None):
        self.sparse, self.ragged = bool(sparse), bool(ragged)
        self._dims = tuple(None if s is None else int(s) for s in shape)
        self.dtype = dtypes.as_dtype(dtype).name
        self.name = name or _objects.auto_name("keras_tensor")
        self._node = None
        self._index = 0
        self._keras_mask = None

    @property
    def shape(self):
        """The shape, None where a size is not known yet."""
        return self._dims

    @property
    def ndim(self):
        """The number of axes."""
        return len(self._dims)

    rank = ndim

    def get_shape(self):
        """The shape as a TensorShape."""
        return TensorShape(self._dims)

    @property
    def _keras_history(self):
        uses = self._node.operation._inbound_nodes
        return KerasHistory(self._node.operation, next((i for i, node in enumerate(uses) if node is self._node), 0), self._index)

    def __tandem_tensor__(self):
        raise ValueError(
            "A KerasTensor cannot be used as input to a TensorFlow function. A KerasTensor is a symbolic placeholder for a "
            "shape and dtype, used when constructing Keras Functional models or Keras Functions."
        )

    def __array__(self, *args, **kwargs):
        raise ValueError("A KerasTensor is symbolic: it's a placeholder for a shape an a dtype. It doesn't have any actual numerical value.")

    def __bool__(self):
        raise TypeError("A symbolic KerasTensor cannot be used as a boolean.")

    def __len__(self):
        if not self._dims or self._dims[0] is None:
            raise TypeError("the length of a symbolic KerasTensor is not known")
        return self._dims[0]

    def __iter__(self):
        raise NotImplementedError("Iterating over a symbolic KerasTensor is not supported.")

    def reshape(self, newshape):
        """The same elements in another shape."""
        return _ops.reshape(self, newshape)

    def squeeze(self, axis=None):
        """Without axes of size 1."""
        return _ops.squeeze(self, axis)

    def __repr__(self):
        return f"<KerasTensor shape={self._dims}, dtype={self.dtype}, sparse={self.sparse}, ragged={self.ragged}, name={self.name}>"

    def __hash__(self):
        return id(self)

    def __getitem__(self, key):
        return describe(_get_item, (self, key), {})

    def __eq__(self, other):
        return self is other

    def __ne__(self, other):
        return self is not other


def _get_item(x, key):
    return x[key]


def _operator(name, f):
    def call(self, other):
        return describe(f, (self, other), {})

    def reflected(self, other):
        return describe(f, (other, self), {})

    setattr(KerasTensor, f"__{name}__", call)
    setattr(KerasTensor, f"__r{name}__", reflected)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"):
    _operator(_name.strip("_"), getattr(operator, _name))


def _partial(name, f):
    setattr(KerasTensor, name, lambda self, *args: describe(f, (self, *args), {}))


for _name in ("lt", "le", "gt", "ge", "neg", "abs", "invert"):
    _partial(f"__{_name}__", getattr(operator, _name))


class Node:
    """A call of a layer or function with symbolic tensors."""

    def __init__(self, operation, args, kwargs, outputs):
        self.operation, self.args, self.kwargs, self.outputs = operation, args, kwargs, outputs
        self.inputs = [a for a in _leaves((args, kwargs)) if isinstance(a, KerasTensor)]
        for i, output in enumerate(_leaves(outputs)):
            if isinstance(output, KerasTensor):
                output._node, output._index = self, i

    @property
    def parent_nodes(self):
        return [t._node for t in self.inputs]

    @property
    def output_tensors(self):
        return [o for o in _leaves(self.outputs) if isinstance(o, KerasTensor)]

    input_tensors = property(lambda self: self.inputs)


def _leaves(structure):
    """The leaves also of slices, which keys of parts may be made of."""
    result = []

    def walk(part):
        if isinstance(part, (list, tuple)):
            for each in part:
                walk(each)
        elif isinstance(part, dict):
            for key in part:
                walk(part[key])
        elif isinstance(part, slice):
            for each in (part.start, part.stop, part.step):
                walk(each)
        else:
            result.append(part)

    walk(structure)
    return result


def _filled(structure, values):
    """The structure with KerasTensors replaced by what `values` has for them."""
    if isinstance(structure, KerasTensor):
        return values[id(structure)]
    if isinstance(structure, (list, tuple)):
        parts = [_filled(each, values) for each in structure]
        if hasattr(structure, "_fields"):
            return type(structure)(*parts)
        return tuple(parts) if isinstance(structure, tuple) else parts
    if isinstance(structure, dict):
        return {key: _filled(each, values) for key, each in structure.items()}
    if isinstance(structure, slice):
        return slice(*[_filled(p, values) for p in (structure.start, structure.stop, structure.step)])
    return structure


# Python's names of operators, and those that Keras's steps have.
_STEPS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide", "pow": "power", "neg": "negative",
    "abs": "absolute", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "and": "logical_and", "or": "logical_or",
    "xor": "logical_xor", "invert": "logical_not", "reduce_mean": "mean", "reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min",
}


class OpCall:
    """A function of tensors as a step of a described model."""

    def __init__(self, f, name=None):
        self.function = f
        kind = getattr(f, "__name__", "op").strip("_<>")
        kind = _STEPS.get(kind, kind)
        self.class_name = "".join(part.capitalize() for part in kind.split("_"))
        self.name = name or _objects.auto_name(kind)
        self._inbound_nodes = []

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __repr__(self):
        return f"<Operation name={self.name}>"

    trainable_variables = non_trainable_variables = variables = weights = ()


class Operation(OpCall):
    """A step of a described model that a class computes: one's own has call(), and weights where it is a Layer."""

    def __init__(self, name=None, dtype=None):
        if not isinstance(name, (str, type(None))):
            raise ValueError(f"Argument `name` must be a string. Received: name={name!r}")
        super().__init__(self.call, name or _objects.auto_name(_objects.snake_case(type(self).__name__)))
        self.class_name = type(self).__name__

    def __call__(self, *args, **kwargs):
        return describe(self, args, kwargs) if any_symbolic(args, kwargs) else self.call(*args, **kwargs)

    def call(self, *args, **kwargs):
        """What the operation computes; one's own overrides it."""
        raise NotImplementedError(f"{type(self).__name__} has no method call()")

    def compute_output_spec(self, *args, **kwargs):
        """What stands for its output, for inputs of the given kinds."""
        return output_spec(self.call, args, kwargs)

    def get_config(self):
        """The arguments of which from_config makes the operation again."""
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        """The operation of its configuration."""
        return cls(**config)

    @property
    def input(self):
        """What stands for the input of its first use."""
        return self._inbound_nodes[0].args[0]

    @property
    def output(self):
        """What stands for the output of its first use."""
        return self._inbound_nodes[0].outputs


_ROWS = 7  # The number of rows that stands for any number where a call is described.
# Pairs of numbers that stand for other sizes that are not known; what follows from both is what is known. Windows may want larger ones.
_OPEN = ((64, 96), (1024, 1536), (16384, 24576))


class _Described(Exception):
    def __init__(self, result):
        self.result = result


def _probe(f, args, kwargs, open_size, count=_ROWS):
    """The outputs of a call as symbolic tensors of a trace that is then thrown away."""
    symbolic = []
    for leaf in _leaves((args, kwargs)):
        if isinstance(leaf, KerasTensor) and not any(leaf is s for s in symbolic):
            symbolic.append(leaf)
    first_open = any(s._dims and s._dims[0] is None for s in symbolic)
    if any(s.dtype == "string" for s in symbolic):
        return _probe_texts(f, args, kwargs, symbolic, open_size, first_open, count)
    samples = []
    for s in symbolic:
        sizes = [(count if i == 0 else open_size) if d is None else d for i, d in enumerate(s._dims)]
        code = dtypes.code_of(s.dtype)
        with init_scope():
            samples.append(_tandem.fill(tuple(sizes), 0.0 if s.dtype != "float32" else 0.5, code))
    rows = next((s._dims[0] for s in symbolic if s._dims), None)
    order = sorted(range(len(samples)), key=lambda i: 0 if symbolic[i]._dims and symbolic[i]._dims[0] is None else 1)

    def traced(given):
        by_place = dict(zip(order, given))
        values = {}
        for i, s in enumerate(symbolic):
            values[id(s)] = by_place[i]
            if s._keras_mask is not None:
                by_place[i]._keras_mask = None
        before = state.tracing, state.open_rows
        state.tracing, state.open_rows = state.tracing + 1, True
        try:
            result = f(*_filled(args, values), **_filled(kwargs, values))
        finally:
            state.tracing, state.open_rows = before
        raise _Described(_outlined(result, first_open and count, None if first_open else rows))

    try:
        with init_scope():
            _tandem.Function(traced, "described").trace([samples[i] for i in order])
    except _Described as described:
        return described.result
    except (OperatorNotAllowedInGraphError, NotImplementedError):
        from tandem.keras._layer import Layer

        if isinstance(f, Layer) or not samples:
            pass
    with init_scope():
        values = {id(s): t for s, t in zip(symbolic, samples)}
        return _outlined(f(*_filled(args, values), **_filled(kwargs, values)), first_open and count)


text_probes = []  # Not empty while a call is described by texts that mean nothing.


def _probe_texts(f, args, kwargs, symbolic, open_size, first_open, count):
    """The outputs of a call that texts are given to, which only the host has."""
    from tandem.strings import StringTensor

    values = {}
    with init_scope():
        for s in symbolic:
            sizes = tuple((count if i == 0 else open_size) if d is None else d for i, d in enumerate(s._dims))
            values[id(s)] = StringTensor(np.full(sizes, "", object)) if s.dtype == "string" else _tandem.fill(sizes, 0.0, dtypes.code_of(s.dtype))
        text_probes.append(f)
        try:
            return _outlined(f(*_filled(args, values), **_filled(kwargs, values)), first_open and count)
        finally:
            text_probes.pop()


class _Outline:
    __slots__ = ("dims", "dtype")

    def __init__(self, dims, dtype):
        self.dims, self.dtype = dims, dtype


def _outlined(result, open_rows, rows=None):
    """What stands for a result. Sizes that depend on the rows, and multiples of `open_rows`, are open, or multiples of `rows` where that is given."""

    def known(size):
        return None if rows is None else -size.extent * rows

    def outline(leaf):
        if isinstance(leaf, (_Computed,)):
            leaf = leaf.tensor()
        is_text = getattr(leaf, "_is_text_tensor", False)
        if not isinstance(leaf, Tensor) and not is_text:
            return leaf
        dims = [known(s) if _is_size(s) else s for s in (leaf.numpy().shape if is_text and leaf.ndim else () if is_text else leaf._sizes)]
        if open_rows and dims and dims[0] is not None and dims[0] % open_rows == 0 and dims[0] > 0 and not any(d is None for d in dims):
            dims[0] = None
        return _Outline(tuple(dims), leaf.dtype.name)

    return nest.map_structure(outline, result) if nest.is_nested(result) else outline(result)


def _merged(a, b):
    if not isinstance(a, _Outline):
        return a
    return _Outline(tuple(x if x == y else None for x, y in zip(a.dims, b.dims)), a.dtype)


def _filling_rows(error):
    """The number of rows with which a reshape that failed fills the shape that it was given."""
    found = re.search(r"reshape: (\d+) elements of \[[\d,]*\] do not fill \[([\d,]+)\]", error)
    if found is None:
        return []
    wanted, per_row = math.prod(map(int, found[2].split(","))), int(found[1]) // _ROWS
    return [wanted // per_row] if per_row and wanted % per_row == 0 else []


def _probe_wide_enough(f, args, kwargs, open_axes):
    """The outputs of a call, and another size to try: the smallest numbers for sizes that are not known with which it can be made."""
    choices = _OPEN[: {0: 1, 1: 3, 2: 2}.get(open_axes, 1)]
    failed = None
    for size, larger in choices:
        try:
            return _probe(f, args, kwargs, size), larger
        except InvalidArgumentError as error:
            failed = failed or error
    for count in dict.fromkeys((*_filling_rows(str(failed)), *(int(n) for n in re.findall(r"\[(\d+)", str(failed))))):  # A call may be made for batches of one number of rows.
        if count not in (0, 1, _ROWS):
            try:
                return _probe(f, args, kwargs, choices[0][0], count), choices[0][1]
            except InvalidArgumentError:
                continue
    raise failed


def output_spec(f, args, kwargs):
    """What a call gives, as KerasTensors."""
    symbolic = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, KerasTensor)]
    result, larger = _probe_wide_enough(f, args, kwargs, max((s._dims[1:].count(None) for s in symbolic), default=0))
    if any(None in s._dims[1:] for s in symbolic):
        others = [_probe(f, args, kwargs, larger)]
        is_one = max(s._dims[1:].count(None) for s in symbolic) == 1
        if is_one and any(1 in o.dims[1:-1] for o in nest.flatten(others[0]) if isinstance(o, _Outline)):  # One window may be all that small sizes have room for.
            others.append(_probe(f, args, kwargs, _OPEN[1][1]))
        for other in others:
            result = nest.map_structure(_merged, result, other) if nest.is_nested(result) else _merged(result, other)
    declared = getattr(getattr(getattr(f, "__self__", f), "_tandem_graph", None), "outputs", None)
    if isinstance(declared, (list, tuple)) and len(declared) == 1 and not (nest.is_nested(result) and not nest.is_nested(declared[0])):
        result = type(declared)([result])  # What describes the model's only output keeps its list; a computed one stands alone.
    make = lambda o: KerasTensor(o.dims, o.dtype) if isinstance(o, _Outline) else o  # noqa: E731
    return nest.map_structure(make, result) if nest.is_nested(result) else make(result)


def describe(f, args, kwargs):
    """A function of symbolic tensors as a step of the model that is being described."""
    operation = f if isinstance(f, OpCall) else OpCall(f)
    outputs = output_spec(f, args, kwargs)
    node = Node(operation, args, kwargs, outputs)
    operation._inbound_nodes.append(node)
    return outputs


_ops.base._describe = describe


def any_symbolic(args, kwargs):
    """True if any argument stands for a tensor of a described model."""
    for leaf in _leaves((args, kwargs)):
        if isinstance(leaf, KerasTensor):
            return True
    return False
