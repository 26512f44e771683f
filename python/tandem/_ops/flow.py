"""Branches, loops and functions over elements."""

import builtins
import itertools

import _tandem
from tandem import dtypes, nest
from tandem import errors as _errors
from tandem._ops.base import _is_string_tensor, _texts
from tandem._ops.creation import convert_to_tensor, zeros
from tandem._tensors.shape import TensorShape
from tandem._tensors.tensor import Tensor, _no_value, to_tensor
from tandem._tracing.state import happens_after_each_run, inside_flow, state


def _own(f):
    """A function of the user's, converted by AutoGraph where what a trace calls is."""
    if not state.converts_calls or f is None:
        return f
    from tandem import autograph

    return autograph.called(f)


def _flat_results(result):
    return [_tandem.convert(r) for r in nest.flatten(result) if r is not None]


def cond(pred, true_fn=None, false_fn=None, name=None):
    """true_fn() or false_fn(); inside a traced function both become parts of the program, and a run decides."""
    return branch(pred, _own(true_fn), _own(false_fn))


def branch(pred, then, otherwise):
    """cond of functions that are as they should be already."""
    if not isinstance(pred, (Tensor, _tandem.Variable)):
        return then() if pred else otherwise()
    pred = to_tensor(pred)
    if not pred._is_symbolic:
        return then() if bool_(pred) else otherwise()
    results, effects = [], []

    def first():
        with _Collected() as collected:
            results.append(then())
        effects.extend(collected.effects)
        tensors = [t for _, own in effects for t in own]
        return _flat_results(results[0]) + ([_tandem.fill((), True, 7)] if effects else []) + tensors

    def second():
        with _Collected() as collected:
            results.append(otherwise())
        if collected.effects:
            raise _no_value("text")
        empty = [_tandem.fill(t._sizes, 0, t._code) for _, own in effects for t in own]
        return _flat_results(results[1]) + ([_tandem.fill((), False, 7)] if effects else []) + empty

    if pred._rank:
        pred = _tandem.reshape(pred, ())
    if pred._code != 7:
        pred = _tandem.not_equal(pred, 0)
    tensors = _tandem.cond(pred, first, second)
    if effects:
        tensors = _leave_effects(tensors, effects)
    return _packed_results(results[-1], tensors)


class _Collected:
    """What happens after each run and belongs to a branch: the function around it hears of it where the branch is taken."""

    def __enter__(self):
        self._before = state.effects
        self.effects = state.effects = None if self._before is None else []
        return self

    def __exit__(self, *exception):
        state.effects, self.effects = self._before, self.effects or []


def _leave_effects(tensors, effects):
    """Leaves the effects of the first branch to what is around it. Returns the tensors of the result."""
    count = sum(len(own) for _, own in effects)
    first = len(tensors) - count - 1

    def happen(is_taken, *values):
        place = 0
        for f, own in effects:
            if builtins.bool(is_taken):
                f(*values[place : place + len(own)])
            place += len(own)

    if not happens_after_each_run(happen, *tensors[first:]):
        raise _no_value("text")
    return tensors[:first]


def bool_(pred):
    """A predicate as a Python bool."""
    return builtins.bool(pred)


def _packed_results(like, results):
    results = iter(results)
    leaves = [None if leaf is None else next(results) for leaf in nest.flatten(like)]
    return nest.pack_sequence_as(like, leaves) if nest.is_nested(like) else (leaves[0] if leaves else None)


def while_loop(cond, body, loop_vars, shape_invariants=None, parallel_iterations=10, back_prop=True, swap_memory=False, maximum_iterations=None, name=None):
    """Calls body on the loop variables as long as cond holds; inside a traced function the loop is part of the program."""
    is_sequence = isinstance(loop_vars, (list, tuple))
    loop_vars = loop_vars if is_sequence else (loop_vars,)
    cond, body = _own(cond), _own(body)
    most = 2**62 if maximum_iterations is None else int(maximum_iterations)
    kept = {}

    def rebuilt(tensors):
        return nest.pack_sequence_as(loop_vars, tensors)

    def test(tensors):
        with inside_flow():
            return [_tandem.convert(cond(*rebuilt(tensors)))]

    def step(tensors):
        with inside_flow():
            result = body(*rebuilt(tensors))
        if not isinstance(result, (list, tuple)) or (len(loop_vars) == 1 and not is_sequence):
            result = (result,)
        if len(result) != len(loop_vars) and len(loop_vars) == 1:
            result = (result,)
        kept["result"] = result
        return [_tandem.convert(r) for r in nest.flatten(result)]

    start = [_tandem.convert(v) for v in nest.flatten(loop_vars)]
    if state.tracing:
        try:
            results = _tandem.while_loop(test, step, start, most)
        except _errors.InvalidArgumentError as error:
            if state.is_first_try or not str(error).startswith("while_loop:"):
                raise
            raise _errors.OperatorNotAllowedInGraphError(str(error)) from error  # Op by op a variable's shape may change.
    else:
        results, count = start, 0
        while count < most and builtins.bool(test(results)[0]):
            results = step(results)
            count += 1
    packed = rebuilt(results)
    return packed if is_sequence else packed[0]


def case(pred_fn_pairs, default=None, exclusive=False, strict=False, name="case"):
    """The first function whose predicate holds, called; else the default."""
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    if not pairs:
        return default()
    pred, f = pairs[0]
    if len(pairs) == 1 and default is None:
        return cond(pred, f, f)
    return cond(pred, f, lambda: case(pairs[1:], default))


def switch_case(branch_index, branch_fns, default=None, name="switch_case"):
    """The function at branch_index, called; the last or the default for an index outside."""
    fns = dict(enumerate(branch_fns)) if not isinstance(branch_fns, dict) and not isinstance(branch_fns[0], tuple) else dict(branch_fns)
    default = default or fns[builtins.max(fns)]
    index = _tandem.convert(branch_index)
    if not index._is_symbolic:
        return fns.get(int(index), default)()
    return case([(_tandem.equal(index, i), f) for i, f in fns.items()], default)


def _elements(elems):
    as_it_is = lambda e: _is_string_tensor(e) or hasattr(e, "_ragged_rows")  # noqa: E731
    flat = [e.rows() if hasattr(e, "_is_sparse") else e if as_it_is(e) else _tandem.convert(e) for e in nest.flatten(elems)]
    count = int(flat[0]._sizes[0]) if isinstance(flat[0], Tensor) else len(flat[0])
    return [nest.pack_sequence_as(elems, [f[i] for f in flat]) if nest.is_nested(elems) else flat[0][i] for i in builtins.range(count)]


def _stack(values, spec=None):
    if hasattr(values[0], "_is_sparse"):
        from tandem import sparse

        return sparse.stacked(values)
    if hasattr(spec, "ragged_rank") or hasattr(values[0], "_ragged_rows"):
        from tandem import ragged

        return ragged.stack(values)
    return _texts(list(values)) if _is_string_tensor(values[0]) else _tandem.stack([_tandem.convert(v) for v in values], 0)


def _stacked(results, spec=None):
    """The results side by side; where a spec says so, or where one of them is, as ragged or sparse tensors."""
    if not nest.is_nested(results[0]):
        return _stack(results, spec)
    specs = nest.flatten(spec) if spec is not None else [None] * len(nest.flatten(results[0]))
    return nest.pack_sequence_as(results[0], [_stack(each, kind) for each, kind in zip(zip(*[nest.flatten(r) for r in results]), specs)])


def map_fn(fn, elems, dtype=None, parallel_iterations=None, back_prop=True, swap_memory=False, infer_shape=True, name=None, fn_output_signature=None):
    """fn of each slice along the first axis, stacked."""
    fn = _own(fn)
    spec = fn_output_signature if fn_output_signature is not None else dtype
    if spec is None:  # Results are as the elements are.
        from tandem._tensors.specs import spec_of

        spec = spec_of(elems) if hasattr(elems, "_ragged_rows") else None
    return _stacked([fn(e) for e in _elements(elems)], spec)


def vectorized_map(fn, elems, fallback_to_while_loop=True, warn=True):
    """fn of each slice along the first axis, stacked, as map_fn computes it."""
    return map_fn(fn, elems)


def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, infer_shape=True, reverse=False, name=None):
    """The values that fn takes when it is applied to one slice after another, stacked."""
    items, fn = _elements(elems), _own(fn)
    if reverse:
        items = items[::-1]
    if initializer is None:
        total, items, results = items[0], items[1:], [items[0]]
    else:
        total, results = initializer, []
    for each in items:
        total = fn(total, each)
        results.append(total)
    return _stacked(results[::-1] if reverse else results)


def foldl(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    """The last value that fn takes when it is applied to the slices from the first to the last."""
    items, fn = _elements(elems), _own(fn)
    total, items = (items[0], items[1:]) if initializer is None else (initializer, items)
    for each in items:
        total = fn(total, each)
    return total


def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    """The last value that fn takes when it is applied to the slices from the last to the first."""
    items, fn = _elements(elems)[::-1], _own(fn)
    total, items = (items[0], items[1:]) if initializer is None else (initializer, items)
    for each in items:
        total = fn(total, each)
    return total


def _inside_function():
    return state.tracing or state.op_by_op


def known_index(index):
    """An index as a number: also a tensor that a loop over a range of known numbers was given."""
    found = getattr(index, "_known_number", None)
    return int(index) if found is None else found


class TensorArray:
    """A list of tensors that a loop writes.

    Outside of functions `write` changes the array itself, and `read` takes the value out of it unless clear_after_read is False.
    In a function an array keeps its values: `write` gives another one.
    """

    def __init__(self, dtype, size=None, dynamic_size=None, clear_after_read=None, tensor_array_name=None, handle=None, flow=None, infer_shape=True, element_shape=None, colocate_with_first_write_call=True, name=None):
        self.dtype = dtypes.as_dtype(dtype)
        self.element_shape = TensorShape(element_shape)
        self.dynamic_size = bool(dynamic_size)
        self._clears = clear_after_read is None or bool(clear_after_read)
        self._taken = set()  # Where values were that have been read.
        self._values = [None] * (0 if size is None else int(size))

    def _replaced(self, values):
        if not _inside_function():
            self._values = values
            return self
        other = TensorArray(self.dtype, 0, self.dynamic_size, self._clears, element_shape=self.element_shape)
        other._values = values
        return other

    def write(self, index, value, name=None):
        """The array with a value at an index."""
        values = list(self._values)
        index = known_index(index)
        if index < 0:
            raise _errors.OutOfRangeError(None, None, f"Writing to negative indices (index {index}) is not allowed.")
        if index >= len(values) and not self.dynamic_size and not _inside_function():
            raise _errors.OutOfRangeError(None, None, f"Tried to write to index {index} but array is not resizeable and size is: {len(values)} ")
        while len(values) <= index:
            values.append(None)
        values[index] = convert_to_tensor(value, dtype_hint=self.dtype)
        return self._replaced(values)

    def read(self, index, name=None):
        """The value at an index."""
        index = known_index(index)
        if not 0 <= index < len(self._values):
            raise _errors.OutOfRangeError(None, None, f"Tried to read from index {index} but array size is: {len(self._values)} ")
        value = self._values[index]
        if value is None and index in self._taken:
            raise _errors.InvalidArgumentError(
                None, None, f"Could not read index {index} twice because it was cleared after a previous read (perhaps try setting clear_after_read = false?)"
            )
        if value is None:
            value = self._filled()[index] if any(v is not None for v in self._values) else zeros(list(self.element_shape), self.dtype)
        if self._clears and not _inside_function():
            self._values[index] = None
            self._taken.add(index)
        return value

    def _filled(self):
        like = next((v for v in self._values if v is not None), None)
        if like is None:
            return []
        return [_tandem.zeros_like(like) if v is None else v for v in self._values]

    def stack(self, name=None):
        """The values along a new first axis."""
        values = self._filled()
        return _tandem.stack(values, 0) if values else zeros([0], self.dtype)

    def concat(self, name=None):
        """The values one after another along their first axis."""
        return _tandem.concat(self._filled(), 0)

    def gather(self, indices, name=None):
        """The values at indices, along a new first axis."""
        values = self._filled()
        return _tandem.stack([values[int(i)] for i in indices], 0)

    def unstack(self, value, name=None):
        """The array of the slices of a tensor."""
        return self._replaced(list(_tandem.unstack(value, 0)))

    def scatter(self, indices, value, name=None):
        """The array with the slices of a tensor at indices."""
        result = self
        for i, v in zip(indices, _tandem.unstack(value, 0)):
            result = result.write(i, v)
        return result

    def split(self, value, lengths, name=None):
        """The array of parts of a tensor that have the given numbers of rows."""
        ends = list(itertools.accumulate(int(n) for n in lengths))
        value = convert_to_tensor(value, dtype_hint=self.dtype)
        return self._replaced([value[end - int(n) : end] for n, end in zip(lengths, ends)])

    def size(self, name=None):
        """The number of values."""
        return _tandem.convert(len(self._values))

    def mark_used(self):
        """Accepted."""

    def close(self, name=None):
        """Accepted."""

    def identity(self):
        """The array itself."""
        return self
