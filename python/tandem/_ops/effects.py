"""What happens beside the values: printing, calls of Python, and the rarer ways to move rows."""

import builtins
import functools

import _tandem
from tandem import dtypes, nest
from tandem._names.lazy import np
from tandem._ops.base import _code, _texts, host, op
from tandem._tensors.shape import _Computed
from tandem._tensors.tensor import Tensor, _no_value
from tandem._tracing.state import happens_after_each_run, state


def print_(*inputs, output_stream=None, summarize=3, sep=" ", end="\n", name=None):
    """Prints values, by default to the standard error stream. In a function that is traced it prints after each run; a
    function that prints inside of a loop runs op by op."""
    import sys

    if state.is_rehearsal:
        return
    if state.tracing:
        flat = [_tandem.convert(each) if isinstance(each, (_tandem.Variable, _Computed)) else each for each in nest.flatten(list(inputs))]
        staged = [isinstance(each, Tensor) and each._is_symbolic for each in flat]

        def print_later(*values):
            values = iter(values)
            known = nest.pack_sequence_as(list(inputs), [next(values) if s else each for each, s in zip(flat, staged)])
            print_(*known, output_stream=output_stream, summarize=summarize, sep=sep, end=end)

        if not happens_after_each_run(print_later, *[each for each, s in zip(flat, staged) if s]):
            raise _no_value("text")
        return
    stream = {None: sys.stderr, "stderr": sys.stderr, "stdout": sys.stdout}.get(output_stream, output_stream)

    def text(value):
        if isinstance(value, (Tensor, _tandem.Variable)):
            return _Shown(_summarized(np.asarray(value.numpy()), summarize))
        if getattr(value, "_is_text_tensor", False):
            return _Shown(value.decode() if not value.ndim else _summarized(np.vectorize(lambda s: f'"{s.decode()}"', otypes=[object])(value.numpy()), summarize))
        return value

    print(*[nest.map_structure(text, i) if nest.is_nested(i) else text(i) for i in inputs], sep=sep, end=end, file=stream)


class _Shown(str):
    """A text that stands in lists and dictionaries without quotation marks."""

    __repr__ = str.__str__


def _summarized(array, summarize):
    if array.ndim == 0:
        return str(array[()])
    if summarize == -1 or array.shape[0] <= 2 * summarize:
        parts = [_summarized(a, summarize) for a in array]
    else:
        parts = [_summarized(a, summarize) for a in array[:summarize]] + ["..."] + [_summarized(a, summarize) for a in array[-summarize:]]
    return "[" + " ".join(parts) + "]"


def py_function(func=None, inp=None, Tout=None, name=None):
    """Calls a Python function of tensors; gradients pass through what it computes with ops."""
    if func is None:  # As a decorator.
        return lambda f: functools.wraps(f)(lambda *args: py_function(f, args, Tout))
    for each in nest.flatten(inp):
        if isinstance(each, Tensor) and each._is_symbolic:
            raise _no_value("value of py_function")
    result = func(*[_given(i) for i in inp])
    return _typed_results(result, Tout)


def numpy_function(func=None, inp=None, Tout=None, stateful=True, name=None):
    """Calls a Python function of NumPy arrays; no gradient passes."""
    if func is None:  # As a decorator.
        return lambda f: functools.wraps(f)(lambda *args: numpy_function(f, args, Tout))
    arrays = []
    for each in inp:
        if isinstance(each, Tensor) and each._is_symbolic:
            raise _no_value("value of numpy_function")
        given = _given(each)
        arrays.append(given.numpy() if getattr(given, "_is_text_tensor", False) else np.asarray(given))
    return _typed_results(func(*arrays), Tout)


def _given(value):
    """An argument as a tensor, or a text."""
    if getattr(value, "_is_text_tensor", False):
        return value
    return _texts(value) if isinstance(value, (str, bytes)) else _tandem.convert(value)


def _typed_results(result, kinds):
    if isinstance(kinds, (list, tuple)):
        if not isinstance(result, (list, tuple)):
            result = [result]
        return [_typed_results(r, k) for r, k in zip(result, kinds)]
    if kinds is None:
        return result
    if dtypes.as_dtype(kinds) == dtypes.string:
        return _texts(result)
    return _tandem.cast(_tandem.convert(result), _code(kinds))


def group(*inputs, **kwargs):
    """Does nothing: ops run in the order they are written in."""
    return None


def no_op(name=None):
    """Does nothing."""
    return None


def dynamic_partition(data, partitions, num_partitions, name=None):
    """Splits the rows of data by the number of their part."""
    x, p = _tandem.convert(data), host(lambda a: a, _tandem.convert(partitions))
    return [_tandem.gather(x, np.flatnonzero(p == i).astype(np.int32), 0) for i in builtins.range(num_partitions)]


def dynamic_stitch(indices, data, name=None):
    """Puts rows together by the places that indices give them; the last one wins."""
    places = np.concatenate([np.asarray(i).ravel() for i in indices])
    values = _tandem.concat([_tandem.convert(d) for d in data], 0)
    order = np.empty(places.max() + 1, np.int32)
    order[places] = np.arange(len(places), dtype=np.int32)
    return _tandem.gather(values, order, 0)


def space_to_depth(input, block_size, data_format="NHWC", name=None):
    """Moves blocks of pixels into channels."""
    x, b = _tandem.convert(input), int(block_size)
    n, h, w, c = x._sizes
    x = _tandem.reshape(x, [n, h // b, b, w // b, b, c])
    return _tandem.reshape(_tandem.transpose(x, [0, 1, 3, 2, 4, 5]), [n, h // b, w // b, b * b * c])


def depth_to_space(input, block_size, data_format="NHWC", name=None):
    """Moves channels into blocks of pixels."""
    x, b = _tandem.convert(input), int(block_size)
    n, h, w, c = x._sizes
    x = _tandem.reshape(x, [n, h, w, b, b, c // (b * b)])
    return _tandem.reshape(_tandem.transpose(x, [0, 1, 3, 2, 4, 5]), [n, h * b, w * b, c // (b * b)])


space_to_depth, depth_to_space = op(space_to_depth), op(depth_to_space)


def reverse_sequence(input, seq_lengths, seq_axis=None, batch_axis=None, name=None):
    """Reverses the first seq_lengths[i] elements of sequence i and leaves the rest."""
    def turn(a, lengths):
        a = np.moveaxis(a.copy(), (batch_axis or 0, seq_axis or 1), (0, 1))
        for i, n in enumerate(lengths):
            a[i, :n] = a[i, :n][::-1]
        return np.ascontiguousarray(np.moveaxis(a, (0, 1), (batch_axis or 0, seq_axis or 1)))

    return _tandem.convert(host(turn, _tandem.convert(input), _tandem.convert(seq_lengths)))
