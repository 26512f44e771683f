"""Tensors of values: constants, ranges, copies."""

import builtins
import typing

import _tandem
from tandem import dtypes
from tandem._names.lazy import np
from tandem._ops.base import _code, _describe, _is_described, _is_string_tensor, _texts, op
from tandem._tensors.shape import DynamicSize, TensorShape
from tandem._tensors.tensor import Tensor, to_tensor


def _text_constant(value, dtype, shape):
    from tandem.strings import StringTensor

    dtype = dtypes.string if dtype is None else dtypes.as_dtype(dtype)
    if dtype != dtypes.string or isinstance(value, (bool, int, float)):
        name = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
        raise TypeError(f"Cannot convert {value!r} to EagerTensor of dtype {name}")
    texts = StringTensor(value)
    if shape is None:
        return texts
    shape = tuple(TensorShape(shape).as_list())
    array = texts._array
    return StringTensor(np.broadcast_to(array.reshape(()), shape) if array.size == 1 else array.reshape(shape))


def constant(value, dtype=None, shape=None, name="Const") -> typing.Any:
    """A tensor of a number, list, array or tensor; arrays are copied."""
    if _is_text(value) or (dtype is not None and dtypes.as_dtype(dtype) == dtypes.string):
        return _text_constant(value, dtype, shape)
    if _is_complex(value, dtype):
        from tandem._tensors.complex import as_complex

        return as_complex(value, dtype=dtype)
    code = None if dtype is None else _code(dtype)
    if isinstance(value, Tensor) and code is not None and value._code != code:
        tensor = _tandem.cast(value, code)
    else:
        tensor = _tandem.convert(value, code)
    if shape is not None:
        shape = TensorShape(shape).as_list() if not isinstance(shape, int) else [shape]
        count = int(np.prod(shape)) if shape else 1
        have = tensor.shape.num_elements()
        if have == 1 and count != 1:
            tensor = _tandem.broadcast_to(_tandem.reshape(tensor, ()), shape)
        elif have != count:
            raise TypeError(f"Eager execution of tf.constant with unsupported shape. Tensor has {have} elements, but got `shape` {shape}.")
        else:
            tensor = _tandem.reshape(tensor, shape)
    return tensor


def _is_text(value):
    while isinstance(value, (list, tuple)) and len(value):
        value = value[0]
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "US" or (value.dtype.kind == "O" and value.size and isinstance(value.flat[0], (str, bytes)))
    return isinstance(value, (str, bytes))


def _is_complex(value, dtype):
    """Whether a complex value is given or asked for."""
    if dtype is not None:
        return dtypes.as_dtype(dtype).is_complex
    while isinstance(value, (list, tuple)) and len(value):
        value = value[0]
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind == "c" or isinstance(value, complex) or getattr(value, "_is_complex", False)


def convert_to_tensor(value, dtype=None, dtype_hint=None, name=None) -> typing.Any:
    """A tensor of whatever can become one; a tensor stays itself."""
    if _is_text(value) or _is_complex(value, dtype):
        return constant(value, dtype)
    if dtype is None and dtype_hint is not None and not isinstance(value, (Tensor, _tandem.Variable)):
        try:
            return _tandem.convert(value, _code(dtype_hint))
        except (TypeError, ValueError):
            pass
    if getattr(value, "_is_text_tensor", False):
        return value
    return to_tensor(value, dtype)


def zeros(shape, dtype=dtypes.float32, name=None):
    """A tensor of zeros."""
    if dtypes.as_dtype(dtype) == dtypes.string:
        return _texts(np.full(tuple(int(s) for s in shape), b"", dtype=object))
    return _tandem.fill(shape, 0.0, _code(dtype))


def ones(shape, dtype=dtypes.float32, name=None):
    """A tensor of ones."""
    return _tandem.fill(shape, 1.0, _code(dtype))


@op
def fill(dims, value, name=None):
    """A tensor of one value."""
    value = _tandem.convert(value)
    if value._is_symbolic or value.dtype.is_integer and builtins.abs(int(value)) > 2**50:
        return _tandem.broadcast_to(value, dims)
    return _tandem.fill(dims, float(value), value._code)


@op
def zeros_like(input, dtype=None, name=None):
    """Zeros of the shape and, if none is given, of the dtype of another tensor."""
    x = _tandem.convert(input)
    result = _tandem.zeros_like(x)
    return result if dtype is None else _tandem.cast(result, _code(dtype))


@op
def ones_like(input, dtype=None, name=None):
    """Ones of the shape and, if none is given, of the dtype of another tensor."""
    x = _tandem.convert(input)
    result = _tandem.ones_like(x)
    return result if dtype is None else _tandem.cast(result, _code(dtype))


def eye(num_rows, num_columns=None, batch_shape=None, dtype=dtypes.float32, name=None):
    """Ones on the main diagonal of a matrix, or of a batch of them."""
    result = _tandem.eye(int(num_rows), -1 if num_columns is None else int(num_columns), _code(dtype))
    if batch_shape is None:
        return result
    return _tandem.broadcast_to(result, list(batch_shape) + list(result._sizes))


def range(start, limit=None, delta=1, dtype=None, name="range"):
    """The numbers from start up to but without limit, in steps of delta."""
    if limit is None:
        start, limit = 0, start
    given = [start, limit, delta]
    if dtype is None:
        found = dtypes.int32
        for each in given:
            own = each.dtype if hasattr(each, "dtype") else dtypes.float32 if isinstance(each, float) else dtypes.int32
            own = dtypes.as_dtype(own)
            rank = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            if own in rank and rank.index(own) > rank.index(found):
                found = own
        dtype = found
    code = _code(dtype)
    if isinstance(limit, DynamicSize) and isinstance(start, int) and start == 0 and delta == 1:
        return _tandem.cumsum(_tandem.fill((limit._size,), 1.0, code), 0, True, False)
    numbers = [float(each) for each in given]
    return _tandem.range(*numbers, code)


def linspace(start, stop, num, name=None, axis=0):
    """`num` evenly spaced values from start to stop, both included."""
    start, stop = _tandem.convert(start), _tandem.convert(stop)
    kinds = [t._code for t in (start, stop) if t.dtype.is_floating] or [dtypes.float64._code]  # What TensorFlow makes of integers here.
    start, stop = [_tandem.cast(t, kinds[0]) if t._code != kinds[0] else t for t in (start, stop)]
    if axis and start._rank:
        rows = linspace(start, stop, num)
        order = list(builtins.range(1, rows._rank))
        order.insert(int(axis) % rows._rank, 0)
        return _tandem.transpose(rows, order)
    if start._rank == 0 and not start._is_symbolic and not stop._is_symbolic:
        return _tandem.convert(np.linspace(start.numpy(), stop.numpy(), int(num)), start._code)
    num = int(num)
    steps = _tandem.cast(_tandem.range(0, num, 1, 5), start._code) * (1.0 / builtins.max(num - 1, 1))
    steps = _tandem.reshape(steps, (num,) + (1,) * start._rank)
    return start + (stop - start) * steps


lin_space = linspace


def meshgrid(*args, indexing="xy", name=None):
    """The coordinates of a grid, one tensor for each axis."""
    tensors = [_tandem.convert(a) for a in (args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)]
    sizes = [t._sizes[0] for t in tensors]
    order = list(builtins.range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[0], order[1] = 1, 0
    shape = [sizes[i] for i in order]
    result = []
    for i, t in enumerate(tensors):
        own = [1] * len(tensors)
        own[order.index(i)] = sizes[i]
        result.append(_tandem.broadcast_to(_tandem.reshape(t, own), shape))
    return result


def identity(input, name=None):
    """A tensor of the same value."""
    if _describe is not None and _is_described(input):
        return _describe(identity, (input,), {})
    if _is_string_tensor(input):
        return input.read_value() if hasattr(input, "_is_other_variable") else input
    return _tandem.identity(input)


def identity_n(input, name=None):
    """Tensors of the same values."""
    return [_tandem.identity(x) for x in input]


@op
def stop_gradient(input, name=None):
    """The same value, through which no gradient passes."""
    return _tandem.stop_gradient(input)
