"""TensorFlow's functions of tensors, over the library's ops.

What the library has no op for is composed of those it has; what cannot be (sorting, decompositions, parts whose size
depends on values) is computed by NumPy where values exist, and makes a function that is being traced run op by op.
"""

import builtins
import functools

import _tandem
from tandem import dtypes, nest
from tandem._lazy import np
from tandem._shape import DynamicShape, DynamicSize, TensorShape, _is_size
from tandem._state import state
from tandem._tensor import Tensor, _no_value, to_tensor
from tandem.errors import OperatorNotAllowedInGraphError

# ---- Symbolic tensors of Keras: a call with one of them becomes a step of the model that is being described ----

_describe = None  # Set by tandem.keras when it is imported.


def _is_described(value):
    if isinstance(value, (list, tuple)):
        return builtins.any(_is_described(each) for each in value)
    return hasattr(type(value), "_tandem_symbolic")


def op(f):
    @functools.wraps(f)
    def call(*args, **kwargs):
        if _describe is not None:
            for each in args:
                if not isinstance(each, Tensor) and _is_described(each):
                    return _describe(f, args, kwargs)
            for each in kwargs.values():
                if not isinstance(each, Tensor) and _is_described(each):
                    return _describe(f, args, kwargs)
        return f(*args, **kwargs)

    call._raw = f
    return call


def _is_string_tensor(value):
    return getattr(value, "_is_text_tensor", False)


def _texts(array):
    from tandem.strings import StringTensor

    return StringTensor(array)


def host(f, *tensors):
    """`f` of NumPy arrays, where values exist."""
    arrays = []
    for each in tensors:
        if isinstance(each, (Tensor, _tandem.Variable)):
            each = to_tensor(each)
            if each._is_symbolic:
                raise _no_value("NumPy array")
            each = np.asarray(each)
        arrays.append(each)
    return f(*arrays)


def host_with_gradient(f, gradient, *inputs):
    """`f` of NumPy arrays as an op with a gradient: gradient(output_gradients, inputs, outputs) in tensors."""

    def call(tensors):
        result = host(f, *tensors)
        results = result if isinstance(result, tuple) else (result,)
        outputs = [to_tensor(np.ascontiguousarray(each)) for each in results]

        def backward(output_gradients):
            g = [o if o is not None else zeros_like(v) for o, v in zip(output_gradients, outputs)]
            return gradient(g, tensors, outputs)

        return outputs, backward

    results = _tandem.call_with_gradient(call, [to_tensor(i) for i in inputs])
    return results[0] if len(results) == 1 else results


def _code(dtype):
    return dtypes.code_of(dtype)


def _floating(x):
    return x if x.dtype.is_floating else _tandem.cast(x, 0)


# ---- Creation ----


def constant(value, dtype=None, shape=None, name="Const"):
    if _is_text(value) or (dtype is not None and dtypes.as_dtype(dtype) == dtypes.string):
        from tandem.strings import StringTensor

        return StringTensor(value)
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


def convert_to_tensor(value, dtype=None, dtype_hint=None, name=None):
    if _is_text(value):
        return constant(value)
    if dtype is None and dtype_hint is not None and not isinstance(value, (Tensor, _tandem.Variable)):
        try:
            return _tandem.convert(value, _code(dtype_hint))
        except (TypeError, ValueError):
            pass
    if getattr(value, "_is_text_tensor", False):
        return value
    return to_tensor(value, dtype)


def zeros(shape, dtype=dtypes.float32, name=None):
    return _tandem.fill(shape, 0.0, _code(dtype))


def ones(shape, dtype=dtypes.float32, name=None):
    return _tandem.fill(shape, 1.0, _code(dtype))


@op
def fill(dims, value, name=None):
    value = _tandem.convert(value)
    if value._is_symbolic or value.dtype.is_integer and builtins.abs(int(value)) > 2**50:
        return _tandem.broadcast_to(value, dims)
    return _tandem.fill(dims, float(value), value._code)


@op
def zeros_like(input, dtype=None, name=None):
    x = _tandem.convert(input)
    result = _tandem.zeros_like(x)
    return result if dtype is None else _tandem.cast(result, _code(dtype))


@op
def ones_like(input, dtype=None, name=None):
    x = _tandem.convert(input)
    result = _tandem.ones_like(x)
    return result if dtype is None else _tandem.cast(result, _code(dtype))


def eye(num_rows, num_columns=None, batch_shape=None, dtype=dtypes.float32, name=None):
    result = _tandem.eye(int(num_rows), -1 if num_columns is None else int(num_columns), _code(dtype))
    if batch_shape is None:
        return result
    return _tandem.broadcast_to(result, list(batch_shape) + list(result._sizes))


def range(start, limit=None, delta=1, dtype=None, name="range"):
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
    start, stop = _tandem.convert(start), _tandem.convert(stop)
    start, stop = _floating(start), _floating(stop)
    if start._rank == 0 and not start._is_symbolic and not stop._is_symbolic:
        return _tandem.convert(np.linspace(start.numpy(), stop.numpy(), int(num)), start._code)
    num = int(num)
    steps = _tandem.cast(_tandem.range(0, num, 1, 5), start._code) * (1.0 / builtins.max(num - 1, 1))
    steps = _tandem.reshape(steps, (num,) + (1,) * start._rank)
    return start + (stop - start) * steps


lin_space = linspace


def meshgrid(*args, indexing="xy", name=None):
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
    if _describe is not None and _is_described(input):
        return _describe(identity, (input,), {})
    return _tandem.identity(input)


def identity_n(input, name=None):
    return [_tandem.identity(x) for x in input]


@op
def stop_gradient(input, name=None):
    return _tandem.stop_gradient(input)


grad_pass_through = lambda f: f  # noqa: E731


# ---- Shapes ----


@op
def shape(input, out_type=dtypes.int32, name=None):
    if getattr(input, "_is_text_tensor", False):
        return _tandem.convert(np.array(input.shape.as_list(), np.int32))
    x = _tandem.convert(input)
    if x._is_symbolic:
        return DynamicShape(x._sizes, lambda: _tandem.shape(x, _code(out_type)))
    return _tandem.convert(np.array(x._sizes, np.int32), _code(out_type))


def shape_n(input, out_type=dtypes.int32, name=None):
    return [shape(x, out_type) for x in input]


@op
def size(input, out_type=dtypes.int32, name=None):
    return _tandem.size(input, _code(out_type))


@op
def rank(input, name=None):
    return _tandem.convert(_tandem.convert(input)._rank, 5)


def broadcast_static_shape(shape_x, shape_y):
    return TensorShape(np.broadcast_shapes(tuple(shape_x), tuple(shape_y)))


def broadcast_dynamic_shape(shape_x, shape_y):
    return constant(list(np.broadcast_shapes(tuple(int(s) for s in shape_x), tuple(int(s) for s in shape_y))))


def ensure_shape(x, shape, name=None):
    x.shape.assert_is_compatible_with(shape)
    return x


def _reshape_sizes(x, sizes):
    """The sizes, with -1 filled in where another of them depends on the rows: the library takes one or the other."""
    if isinstance(sizes, (int, _tandem.Size, DynamicSize)):
        return (sizes,)
    if isinstance(sizes, (Tensor, _tandem.Variable, np.ndarray)):
        return sizes
    entries = [getattr(s, "_size", s) for s in getattr(sizes, "_sizes", sizes)]
    open_ = [i for i, s in enumerate(entries) if s is None or (not _is_size(s) and int(s) == -1)]
    sized = [s for s in entries if _is_size(s)]
    if len(open_) != 1 or len(sized) != 1:
        return entries
    total = _product(x._sizes)
    if not _is_size(total):
        return entries
    known = -sized[0].extent
    for i, s in enumerate(entries):
        if i != open_[0] and not _is_size(s):
            known *= int(s)
    entries[open_[0]] = -total.extent // known
    return entries


@op
def reshape(tensor, shape, name=None):
    if _is_string_tensor(tensor):
        return _texts(tensor._array.reshape([int(s) for s in np.atleast_1d(np.asarray(shape))]))
    x = _tandem.convert(tensor)
    return _tandem.reshape(x, _reshape_sizes(x, shape))


@op
def expand_dims(input, axis, name=None):
    if _is_string_tensor(input):
        return _texts(np.expand_dims(input._array, int(axis)))
    x = _tandem.convert(input)
    return _tandem.expand_dims(x, int(axis))


@op
def squeeze(input, axis=None, name=None):
    if _is_string_tensor(input):
        return _texts(np.squeeze(input._array, axis if axis is None or not isinstance(axis, list) else tuple(axis)))
    x = _tandem.convert(input)
    if axis is None:
        axes = [i for i, s in enumerate(x._sizes) if not _is_size(s) and s == 1]
        return _tandem.squeeze(x, axes) if axes else x
    axes = [int(axis)] if not isinstance(axis, (list, tuple)) else [int(a) for a in axis]
    return _tandem.squeeze(x, axes) if axes else x


@op
def transpose(a, perm=None, conjugate=False, name=None):
    x = _tandem.convert(a)
    if perm is None:
        return _tandem.transpose(x, [])
    return _tandem.transpose(x, [int(p) % builtins.max(x._rank, 1) for p in perm])


@op
def broadcast_to(input, shape, name=None):
    return _tandem.broadcast_to(input, shape)


@op
def tile(input, multiples, name=None):
    x = _tandem.convert(input)
    entries = list(multiples)
    if builtins.any(isinstance(m, DynamicSize) for m in entries):
        # As many copies as there are rows: new axes of that size, then folded into their neighbours.
        ones_first, target, final = [], [], []
        for size_, m in zip(x._sizes, entries):
            if isinstance(m, DynamicSize):
                if size_ != 1:
                    ones_first += [1, size_]
                    target += [m._size, size_]
                    final.append(m._size.times(size_))
                else:
                    ones_first.append(1)
                    target.append(m._size)
                    final.append(m._size)
            else:
                ones_first += [1, size_]
                target += [int(m), size_]
                final.append(size_.times(int(m)) if _is_size(size_) else size_ * int(m))
        return _tandem.reshape(_tandem.broadcast_to(_tandem.reshape(x, ones_first), target), final)
    return _tandem.tile(x, entries)


@op
def repeat(input, repeats, axis=None, name=None):
    x = _tandem.convert(input)
    if axis is None:
        x, axis = _tandem.reshape(x, (-1,)), 0
    axis = axis % x._rank
    if isinstance(repeats, int):
        sizes = list(x._sizes)
        wide = sizes[: axis + 1] + [repeats] + sizes[axis + 1 :]
        expanded = _tandem.broadcast_to(_tandem.expand_dims(x, axis + 1), wide)
        own = sizes[axis]
        sizes[axis] = own.times(repeats) if _is_size(own) else own * repeats
        return _tandem.reshape(expanded, sizes)
    counts = np.broadcast_to(host(lambda r: r, _tandem.convert(repeats)), (int(x._sizes[axis]),))
    places = np.repeat(np.arange(len(counts)), counts)
    return _tandem.gather(x, places.astype(np.int32), axis)


@op
def concat(values, axis, name="concat"):
    if isinstance(values, (Tensor, _tandem.Variable)):
        return _tandem.identity(values)
    values = list(values)
    if values and builtins.all(_is_string_tensor(v) for v in values):
        return _texts(np.concatenate([v._array for v in values], int(axis)))
    if builtins.any(isinstance(v, DynamicShape) for v in values) or (
        builtins.any(isinstance(each, DynamicSize) for v in values if isinstance(v, (list, tuple)) for each in v)
    ):
        sizes = []
        for v in values:
            sizes += [e._size if isinstance(e, DynamicSize) else int(e) for e in v]
        parts = list(values)
        return DynamicShape(sizes, lambda: _tandem.concat([_tandem.convert(p) for p in parts], 0))
    first = next((v for v in values if isinstance(v, (Tensor, _tandem.Variable))), None)
    code = None if first is None else first._code
    return _tandem.concat([v if isinstance(v, Tensor) else _tandem.convert(v, None, code) for v in values], int(axis))


@op
def stack(values, axis=0, name="stack"):
    if isinstance(values, (Tensor, _tandem.Variable)):
        values = list(values) if axis == 0 else values
        if axis == 0:
            return _tandem.stack(values, 0)
    values = list(values)
    if values and builtins.all(_is_string_tensor(v) for v in values):
        return _texts(np.stack([v._array for v in values], int(axis)))
    if builtins.any(isinstance(v, DynamicSize) for v in values):
        sizes = [v._size if isinstance(v, DynamicSize) else int(v) for v in values]
        return DynamicShape(sizes, lambda: _tandem.stack([_tandem.convert(v) for v in values], 0))
    first = next((v for v in values if isinstance(v, (Tensor, _tandem.Variable))), None)
    code = None if first is None else first._code
    return _tandem.stack(
        [v if isinstance(v, Tensor) else _tandem.convert(v, code if isinstance(v, (int, float)) else None, code) for v in values],
        int(axis),
    )


@op
def unstack(value, num=None, axis=0, name="unstack"):
    return _tandem.unstack(value, int(axis))


@op
def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    x = _tandem.convert(value)
    if isinstance(num_or_size_splits, (list, tuple, np.ndarray, Tensor)) and not (
        isinstance(num_or_size_splits, Tensor) and num_or_size_splits._rank == 0
    ):
        return _tandem.split_sizes(x, num_or_size_splits, int(axis))
    return _tandem.split(x, int(num_or_size_splits), int(axis))


@op
def slice(input_, begin, size, name=None):
    x = _tandem.convert(input_)
    key = []
    for b, s in zip(begin, size):
        b = int(b)
        s = s if isinstance(s, DynamicSize) else int(s)
        key.append(builtins.slice(b, None if isinstance(s, int) and s == -1 else b + s))
        if isinstance(s, DynamicSize) and b == 0:
            key[-1] = builtins.slice(None)
    return x[tuple(key)]


@op
def strided_slice(input_, begin, end, strides=None, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0, var=None, name=None):
    strides = strides or [1] * len(begin)
    key = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides)):
        if shrink_axis_mask >> i & 1:
            key.append(int(b))
        elif new_axis_mask >> i & 1:
            key.append(None)
        elif ellipsis_mask >> i & 1:
            key.append(Ellipsis)
        else:
            key.append(builtins.slice(None if begin_mask >> i & 1 else int(b), None if end_mask >> i & 1 else int(e), int(s)))
    return _tandem.convert(input_)[tuple(key)]


@op
def pad(tensor, paddings, mode="CONSTANT", constant_values=0, name=None):
    x = _tandem.convert(tensor)
    paddings = [[int(a), int(b)] for a, b in (paddings.numpy() if isinstance(paddings, Tensor) else paddings)]
    mode = mode.upper()
    if mode == "CONSTANT":
        if isinstance(constant_values, Tensor):
            constant_values = float(constant_values)
        return _tandem.pad(x, paddings, float(constant_values))
    for axis, (before, after) in enumerate(paddings):
        if not before and not after:
            continue
        n = int(x._sizes[axis])
        places = np.pad(np.arange(n), (before, after), mode="reflect" if mode == "REFLECT" else "symmetric")
        x = _tandem.gather(x, places.astype(np.int32), axis)
    return x


@op
def reverse(tensor, axis, name=None):
    x = _tandem.convert(tensor)
    axes = [int(a) for a in ([axis] if isinstance(axis, int) else list(axis))]
    for a in axes:
        key = [builtins.slice(None)] * x._rank
        if _is_size(x._sizes[a]):
            n = int(x._sizes[a])
            x = _tandem.gather(x, np.arange(n - 1, -1, -1).astype(np.int32), a % x._rank)
            continue
        key[a] = builtins.slice(None, None, -1)
        x = x[tuple(key)]
    return x


@op
def roll(input, shift, axis, name=None):
    x = _tandem.convert(input)
    shifts = [shift] if isinstance(shift, int) else list(shift)
    axes = [axis] if isinstance(axis, int) else list(axis)
    for s, a in zip(shifts, axes):
        a = a % x._rank
        n = int(x._sizes[a])
        s = int(s) % n if n else 0
        if s:
            key = [builtins.slice(None)] * x._rank
            low, high = list(key), list(key)
            low[a], high[a] = builtins.slice(None, n - s), builtins.slice(n - s, None)
            x = _tandem.concat([x[tuple(high)], x[tuple(low)]], a)
    return x


@op
def cast(x, dtype, name=None):
    if getattr(x, "_is_text_tensor", False):
        raise TypeError("strings cannot be cast; see tf.strings.to_number")
    return _tandem.cast(x, _code(dtype))


def to_float(x):
    return cast(x, dtypes.float32)


@op
def bitcast(input, type, name=None):
    return _tandem.convert(host(lambda a: a.view(dtypes.as_dtype(type).as_numpy_dtype), input))


# ---- Arithmetic ----


def _unary(name, f):
    def call(x, name=None):
        return f(x)

    call.__name__ = call.__qualname__ = name
    return op(call)


def _binary(name, f):
    def call(x, y, name=None):
        return f(x, y)

    call.__name__ = call.__qualname__ = name
    return op(call)


add = _binary("add", _tandem.add)
subtract = _binary("subtract", _tandem.sub)
multiply = _binary("multiply", _tandem.mul)
floordiv = _binary("floordiv", _tandem.floor_div)
mod = floormod = _binary("mod", _tandem.mod)
pow = _binary("pow", _tandem.pow)
maximum = _binary("maximum", _tandem.maximum)
minimum = _binary("minimum", _tandem.minimum)
squared_difference = _binary("squared_difference", _tandem.squared_difference)
equal = _binary("equal", _tandem.equal)
not_equal = _binary("not_equal", _tandem.not_equal)
less = _binary("less", _tandem.less)
less_equal = _binary("less_equal", _tandem.less_equal)
greater = _binary("greater", _tandem.greater)
greater_equal = _binary("greater_equal", _tandem.greater_equal)
logical_and = _binary("logical_and", _tandem.logical_and)
logical_or = _binary("logical_or", _tandem.logical_or)
logical_xor = _binary("logical_xor", _tandem.logical_xor)

negative = _unary("negative", _tandem.neg)
abs = _unary("abs", _tandem.abs)
square = _unary("square", _tandem.square)
reciprocal = _unary("reciprocal", _tandem.reciprocal)
sqrt = _unary("sqrt", _tandem.sqrt)
rsqrt = _unary("rsqrt", _tandem.rsqrt)
exp = _unary("exp", _tandem.exp)
expm1 = _unary("expm1", _tandem.expm1)
log = _unary("log", _tandem.log)
log1p = _unary("log1p", _tandem.log1p)
sin = _unary("sin", _tandem.sin)
cos = _unary("cos", _tandem.cos)
tan = _unary("tan", _tandem.tan)
asin = _unary("asin", _tandem.asin)
acos = _unary("acos", _tandem.acos)
atan = _unary("atan", _tandem.atan)
sinh = _unary("sinh", _tandem.sinh)
cosh = _unary("cosh", _tandem.cosh)
tanh = _unary("tanh", _tandem.tanh)
erf = _unary("erf", _tandem.erf)
sigmoid = _unary("sigmoid", _tandem.sigmoid)
softplus = _unary("softplus", _tandem.softplus)
logical_not = _unary("logical_not", _tandem.logical_not)
is_nan = _unary("is_nan", _tandem.is_nan)
is_inf = _unary("is_inf", _tandem.is_inf)
is_finite = _unary("is_finite", _tandem.is_finite)


@op
def sign(x, name=None):
    return _tandem.sign(x)


def _rounding(name, f):
    def call(x, name=None):
        x = _tandem.convert(x)
        return f(x) if x.dtype.is_floating else x

    call.__name__ = name
    return op(call)


floor = _rounding("floor", _tandem.floor)
ceil = _rounding("ceil", _tandem.ceil)
round = _rounding("round", _tandem.round)
rint = round


@op
def asinh(x, name=None):
    x = _tandem.convert(x)
    return _tandem.log(x + _tandem.sqrt(x * x + 1))


@op
def acosh(x, name=None):
    x = _tandem.convert(x)
    return _tandem.log(x + _tandem.sqrt(x * x - 1))


@op
def atanh(x, name=None):
    x = _tandem.convert(x)
    return 0.5 * (_tandem.log1p(x) - _tandem.log1p(-x))


@op
def atan2(y, x, name=None):
    y, x = _tandem.convert(y), _tandem.convert(x)
    ratio = _tandem.atan(divide_no_nan._raw(y, x))
    low = _tandem.where(y >= 0, ratio + np.pi, ratio - np.pi)
    upright = _tandem.sign(y) * (np.pi / 2)
    return _tandem.where(x > 0, ratio, _tandem.where(x < 0, low, upright))


@op
def erfc(x, name=None):
    return 1 - _tandem.erf(x)


@op
def erfinv(x, name=None):
    x = _tandem.convert(x)
    # Giles's single-precision approximation, then one step of Newton's method.
    w = -_tandem.log((1 - x) * (1 + x))
    small = w - 2.5
    a = 2.81022636e-08
    for c in (3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941):
        a = a * small + c
    large = _tandem.sqrt(_tandem.maximum(w, 5.0)) - 3
    b = -0.000200214257
    for c in (0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682):
        b = b * large + c
    y = _tandem.where(w < 5, a, b) * x
    return y - (_tandem.erf(y) - x) / (2 / np.sqrt(np.pi) * _tandem.exp(-y * y))


@op
def lgamma(x, name=None):
    import math

    return host_with_gradient(
        lambda a: np.vectorize(math.lgamma, otypes=[a.dtype])(a), lambda g, i, o: [g[0] * digamma(i[0])], x
    )


@op
def digamma(x, name=None):
    def psi(a):
        a = a.astype(np.float64)
        result = np.zeros_like(a)
        while np.any(a < 6):
            small = a < 6
            result[small] -= 1 / a[small]
            a = np.where(small, a + 1, a)
        f = 1 / (a * a)
        return result + np.log(a) - 0.5 / a - f * (1 / 12 - f * (1 / 120 - f / 252))

    x = _tandem.convert(x)
    return _tandem.convert(host(lambda a: psi(np.atleast_1d(a)).reshape(a.shape), x), x._code)


@op
def divide(x, y, name=None):
    return _true_divide(x, y)


def _true_divide(x, y):
    if not isinstance(x, (Tensor, _tandem.Variable)):
        x = _tandem.convert(x, None, y._code if isinstance(y, (Tensor, _tandem.Variable)) else None)
        if x._rank == 0 and isinstance(y, (Tensor, _tandem.Variable)):
            return (y * 0 + x) / y if not y.dtype.is_floating else _tandem.div(x, y)
    return x / y


truediv = realdiv = divide


@op
def divide_no_nan(x, y, name=None):
    x = _tandem.convert(x)
    y = _tandem.convert(y, None, x._code)
    zero = _tandem.equal(y, 0.0)
    safe = _tandem.where(zero, _tandem.ones_like(y), y)
    return _tandem.where(zero, _tandem.zeros_like(x / safe), x / safe)


@op
def multiply_no_nan(x, y, name=None):
    x, y = _tandem.convert(x), _tandem.convert(y)
    return _tandem.where(_tandem.equal(y, 0.0), _tandem.zeros_like(x * y), x * y)


@op
def xlogy(x, y, name=None):
    x, y = _tandem.convert(x), _tandem.convert(y)
    zero = _tandem.equal(x, 0.0)
    return _tandem.where(zero, _tandem.zeros_like(x), x * _tandem.log(_tandem.where(zero, _tandem.ones_like(y), y)))


@op
def add_n(inputs, name=None):
    inputs = list(inputs)
    total = _tandem.convert(inputs[0])
    for each in inputs[1:]:
        total = total + each
    return total


accumulate_n = add_n


@op
def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    t = _tandem.convert(t)
    if isinstance(clip_value_min, (int, float, np.floating)) and isinstance(clip_value_max, (int, float, np.floating)):
        if t.dtype.is_floating or not np.isinf(clip_value_max):
            return _tandem.clip(t, float(clip_value_min), float(clip_value_max))
    return _tandem.minimum(_tandem.maximum(t, clip_value_min), clip_value_max)


@op
def clip_by_norm(t, clip_norm, axes=None, name=None):
    t = _tandem.convert(t)
    norm = _tandem.sqrt(_tandem.reduce_sum(t * t, axes, True))
    return t * clip_norm / _tandem.maximum(norm, clip_norm)


def global_norm(t_list, name=None):
    squares = [_tandem.reduce_sum(_tandem.square(t), None, False) for t in t_list if t is not None]
    return _tandem.sqrt(add_n(squares))


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    norm = global_norm(t_list) if use_norm is None else use_norm
    factor = clip_norm / _tandem.maximum(norm, clip_norm)
    return [None if t is None else t * factor for t in t_list], norm


@op
def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False, a_is_sparse=False, b_is_sparse=False, output_type=None, grad_a=False, grad_b=False, name=None):
    a = _tandem.convert(a, None, b._code if isinstance(b, (Tensor, _tandem.Variable)) else None)
    b = _tandem.convert(b, None, a._code)
    if not a.dtype.is_floating:
        result = _tandem.matmul(_tandem.cast(a, 1), _tandem.cast(b, 1), transpose_a or adjoint_a, transpose_b or adjoint_b)
        return _tandem.cast(result, a._code)
    return _tandem.matmul(a, b, transpose_a or adjoint_a, transpose_b or adjoint_b)


def _matmul_operator(native, mirrored):
    def product(self, other):
        if self._code <= 1:
            return native(self, other)
        return matmul(other, self) if mirrored else matmul(self, other)

    return product


Tensor.__matmul__ = _matmul_operator(Tensor.__matmul__, False)  # Products of integers, too.
Tensor.__rmatmul__ = _matmul_operator(Tensor.__rmatmul__, True)


@op
def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False, name=None):
    return _tandem.squeeze(_tandem.matmul(a, _tandem.expand_dims(b, -1), transpose_a, False), [-1])


@op
def tensordot(a, b, axes, name=None):
    a = _tandem.convert(a, None, b._code if isinstance(b, Tensor) else None)
    b = _tandem.convert(b, None, a._code)
    if isinstance(axes, (Tensor, np.ndarray)):
        axes = np.asarray(axes).tolist()
    if isinstance(axes, int):
        first = list(builtins.range(a._rank - axes, a._rank))
        second = list(builtins.range(axes))
    else:
        first, second = ([x] if isinstance(x, int) else list(x) for x in axes)
    letters = "abcdefghijklmnopqrstuvwxyz"
    names_a = list(letters[: a._rank])
    names_b = list(letters[a._rank : a._rank + b._rank])
    for i, j in zip(first, second):
        names_b[j] = names_a[i]
    summed = {names_a[i] for i in first}
    out = [n for n in names_a if n not in summed] + [n for n in names_b if n not in summed]
    return einsum._raw(f"{''.join(names_a)},{''.join(names_b)}->{''.join(out)}", a, b)


def _product(sizes):
    count = 1
    open_size = None
    for s in sizes:
        if _is_size(s):
            if open_size is not None:
                return -1
            open_size = s
        else:
            count *= s
    return count if open_size is None else open_size.times(count)


def _sum_out(x, labels, keep):
    gone = [i for i, l in enumerate(labels) if l not in keep]
    if gone:
        x = _tandem.reduce_sum(x, gone, False)
    return x, [l for l in labels if l in keep]


def _permuted(x, labels, order):
    if labels == order:
        return x
    return _tandem.transpose(x, [labels.index(l) for l in order])


def _contract(a, la, b, lb, keep):
    """The product of two tensors, summed over the labels of both that nobody needs any more."""
    a, la = _sum_out(a, la, set(lb) | set(keep))
    b, lb = _sum_out(b, lb, set(la) | set(keep))
    batch = [l for l in la if l in lb and l in keep]
    summed = [l for l in la if l in lb and l not in keep]
    free_a = [l for l in la if l not in lb]
    free_b = [l for l in lb if l not in la]
    size = {l: s for l, s in zip(lb, b._sizes)}
    for l, s in zip(la, a._sizes):
        if l not in size or _is_size(s) or size[l] == 1:
            size[l] = s
    lead = [size[l] for l in batch]
    left = _tandem.reshape(_permuted(a, la, batch + free_a + summed), lead + [_product(size[l] for l in free_a), _product(size[l] for l in summed)])
    right = _tandem.reshape(_permuted(b, lb, batch + summed + free_b), lead + [_product(size[l] for l in summed), _product(size[l] for l in free_b)])
    out = batch + free_a + free_b
    product = matmul._raw(left, right)
    return _tandem.reshape(product, [size[l] for l in out]), out


@op
def einsum(equation, *inputs, **kwargs):
    inputs = list(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else list(inputs)
    equation = equation.replace(" ", "")
    code = next((i._code for i in inputs if isinstance(i, (Tensor, _tandem.Variable))), None)
    tensors = [_tandem.convert(i, None, code) for i in inputs]
    terms, _, output = equation.partition("->")
    terms = terms.split(",")
    if len(terms) != len(tensors):
        raise ValueError(f"einsum: {len(terms)} terms in {equation!r} and {len(tensors)} inputs")
    if "..." in equation:
        spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
        most = 0
        for term, t in zip(terms, tensors):
            if "..." in term:
                most = builtins.max(most, t._rank - len(term) + 3)
        for i, (term, t) in enumerate(zip(terms, tensors)):
            if "..." in term:
                count = t._rank - len(term) + 3
                terms[i] = term.replace("...", "".join(spare[most - count : most]))
        output = output.replace("...", "".join(spare[:most])) if "->" in equation else None
    elif "->" not in equation:
        output = None
    if output is None:
        letters = "".join(terms)
        output = "".join(sorted(l for l in set(letters) if letters.count(l) == 1))
    for i, (term, t) in enumerate(zip(terms, tensors)):
        for label in set(term):
            while terms[i].count(label) > 1:  # A diagonal.
                first = terms[i].index(label)
                second = terms[i].index(label, first + 1)
                n = int(tensors[i]._sizes[first])
                sizes = [1] * tensors[i]._rank
                sizes[first] = sizes[second] = n
                mask = _tandem.reshape(_tandem.eye(n, -1, tensors[i]._code), sizes)
                tensors[i] = _tandem.reduce_sum(tensors[i] * mask, second, False)
                terms[i] = terms[i][:second] + terms[i][second + 1 :]
    x, labels = tensors[0], list(terms[0])
    if len(tensors) == 1:
        x, labels = _sum_out(x, labels, set(output))
    for i in builtins.range(1, len(tensors)):
        keep = set(output).union(*[set(t) for t in terms[i + 1 :]])
        x, labels = _contract(x, labels, tensors[i], list(terms[i]), keep)
    return _permuted(x, labels, list(output))


# ---- Reductions ----


def _axes(axis):
    if axis is None or isinstance(axis, int):
        return axis
    if isinstance(axis, (Tensor, np.ndarray, np.generic)):
        return np.asarray(axis).tolist()
    return [int(a) for a in axis]


def _reduction(name, f, whole=None):
    def call(input_tensor, axis=None, keepdims=False, name=None):
        x = _tandem.convert(input_tensor)
        if whole is not None and not x.dtype.is_floating:
            return whole(x, _axes(axis), builtins.bool(keepdims))
        return f(x, _axes(axis), builtins.bool(keepdims))

    call.__name__ = call.__qualname__ = name
    return op(call)


def _through_float(f):
    def call(x, axis, keepdims):
        return _tandem.cast(_tandem.floor(f(_tandem.cast(x, 1), axis, keepdims)), x._code)

    return call


def _wide(f, code):
    def call(x, axis, keepdims):
        if x._code in (5, 6):
            return f(x, axis, keepdims)
        return _tandem.cast(f(_tandem.cast(x, 5), axis, keepdims), code or x._code)

    return call


reduce_sum = _reduction("reduce_sum", _tandem.reduce_sum, _wide(_tandem.reduce_sum, None))
reduce_mean = _reduction("reduce_mean", _tandem.reduce_mean, _through_float(_tandem.reduce_mean))
reduce_max = _reduction("reduce_max", _tandem.reduce_max)
reduce_min = _reduction("reduce_min", _tandem.reduce_min)
reduce_prod = _reduction("reduce_prod", _tandem.reduce_prod, _wide(_tandem.reduce_prod, None))
reduce_any = _reduction("reduce_any", _tandem.reduce_any)
reduce_all = _reduction("reduce_all", _tandem.reduce_all)
reduce_variance = _reduction("reduce_variance", _tandem.reduce_variance)
reduce_std = _reduction("reduce_std", _tandem.reduce_std)
reduce_logsumexp = _reduction("reduce_logsumexp", _tandem.reduce_logsumexp)


@op
def reduce_euclidean_norm(input_tensor, axis=None, keepdims=False, name=None):
    x = _tandem.convert(input_tensor)
    return _tandem.sqrt(_tandem.reduce_sum(x * x, _axes(axis), keepdims))


@op
def count_nonzero(input, axis=None, keepdims=None, dtype=dtypes.int64, name=None):
    x = _tandem.convert(input)
    mask = x if x._code == 7 else _tandem.not_equal(x, 0)
    return _tandem.reduce_sum(_tandem.cast(mask, _code(dtype)), _axes(axis), builtins.bool(keepdims))


def _ordered(value):
    """False comes before True."""
    value = _tandem.convert(value)
    return _tandem.cast(value, 5) if value.dtype == dtypes.bool else value


@op
def argmax(input, axis=None, output_type=dtypes.int64, name=None):
    result = _tandem.argmax(_ordered(input), 0 if axis is None else int(axis))
    return result if _code(output_type) == 6 else _tandem.cast(result, _code(output_type))


@op
def argmin(input, axis=None, output_type=dtypes.int64, name=None):
    result = _tandem.argmin(_ordered(input), 0 if axis is None else int(axis))
    return result if _code(output_type) == 6 else _tandem.cast(result, _code(output_type))


@op
def cumsum(x, axis=0, exclusive=False, reverse=False, name=None):
    return _tandem.cumsum(x, int(axis), exclusive, reverse)


@op
def cumprod(x, axis=0, exclusive=False, reverse=False, name=None):
    x = _tandem.convert(x)
    parts = _tandem.unstack(x, axis)
    if reverse:
        parts = parts[::-1]
    total, result = _tandem.ones_like(parts[0]), []
    for part in parts:
        if exclusive:
            result.append(total)
            total = total * part
        else:
            total = total * part
            result.append(total)
    return _tandem.stack(result[::-1] if reverse else result, axis)


@op
def bincount(arr, weights=None, minlength=None, maxlength=None, dtype=dtypes.int32, name=None, axis=None, binary_output=False):
    def count(a, w):
        result = np.bincount(a.ravel(), None if w is None else w.ravel(), minlength or 0)
        return result[:maxlength] if maxlength is not None else result

    w = None if weights is None else host(lambda v: v, _tandem.convert(weights))
    return _tandem.convert(host(lambda a: count(a, w), _tandem.convert(arr)), _code(dtype) if weights is None else weights._code)


@op
def confusion_matrix(labels, predictions, num_classes=None, weights=None, dtype=dtypes.int32, name=None):
    labels, predictions = _tandem.cast(labels, 5), _tandem.cast(predictions, 5)
    if num_classes is None:
        num_classes = int(builtins.max(int(_tandem.reduce_max(labels, None, False)), int(_tandem.reduce_max(predictions, None, False)))) + 1
    one = _tandem.one_hot(_tandem.reshape(labels, (-1,)), int(num_classes), 1.0, 0.0, 0)
    if weights is not None:
        one = one * _tandem.expand_dims(_tandem.cast(weights, 0), -1)
    two = _tandem.one_hot(_tandem.reshape(predictions, (-1,)), int(num_classes), 1.0, 0.0, 0)
    return _tandem.cast(_tandem.matmul(one, two, True, False), _code(dtype))


# ---- Choices and places ----


@op
def where(condition, x=None, y=None, name=None):
    condition = _tandem.convert(condition)
    if condition._code != 7:
        condition = _tandem.not_equal(condition, 0)
    if x is None and y is None:
        return _tandem.convert(host(lambda c: np.argwhere(c).astype(np.int64), condition))
    return _tandem.where(condition, x, y)


@op
def boolean_mask(tensor, mask, axis=None, name="boolean_mask"):
    x = _tandem.convert(tensor)
    m = host(lambda a: a, _tandem.convert(mask))
    axis = 0 if axis is None else int(axis)
    sizes = x.shape.as_list()
    flat = _tandem.reshape(x, sizes[:axis] + [int(np.prod(m.shape))] + sizes[axis + m.ndim :])
    return _tandem.gather(flat, np.flatnonzero(m).astype(np.int32), axis)


def _batch_positions(sizes, count, code):
    """0, count, 2 count, .. for each of the entries that the sizes make."""
    total = _product(sizes)
    return _tandem.cumsum(_tandem.fill((total,), float(count), code), 0, True, False)


def _batched_gather(x, indices, batch_dims, axis):
    """Each batch entry's own places along an axis."""
    axis = axis % x._rank
    if axis != batch_dims:
        order = list(builtins.range(batch_dims)) + [axis] + [i for i in builtins.range(batch_dims, x._rank) if i != axis]
        x = _tandem.transpose(x, order)
    lead, n, rest = list(x._sizes[:batch_dims]), int(x._sizes[batch_dims]), list(x._sizes[batch_dims + 1 :])
    inner = list(indices._sizes[batch_dims:])
    total = _product(lead)
    rows = total.times(n) if _is_size(total) else total * n
    offsets = _tandem.reshape(_batch_positions(lead, n, indices._code), [total] + [1] * len(inner))
    flat = _tandem.reshape(indices, [total] + inner) + offsets
    result = _tandem.gather(_tandem.reshape(x, [rows] + rest), flat, 0)
    result = _tandem.reshape(result, lead + inner + rest)
    if axis != batch_dims:
        moved = axis - batch_dims
        order = list(builtins.range(batch_dims))
        order += [batch_dims + len(inner) + i for i in builtins.range(moved)]
        order += [batch_dims + i for i in builtins.range(len(inner))]
        order += [i for i in builtins.range(batch_dims + len(inner) + moved, result._rank)]
        result = _tandem.transpose(result, order)
    return result


@op
def gather(params, indices, validate_indices=None, axis=None, batch_dims=0, name=None):
    if getattr(params, "_is_text_tensor", False):
        return params._gather(indices)
    x = _tandem.convert(params)
    indices = _tandem.convert(indices)
    if indices._code not in (5, 6):
        indices = _tandem.cast(indices, 5)
    if batch_dims:
        batch_dims = batch_dims % indices._rank if batch_dims < 0 else batch_dims
        return _batched_gather(x, indices, batch_dims, batch_dims if axis is None else axis)
    axis = 0 if axis is None else int(axis)
    return _tandem.gather(x, indices, axis % x._rank if axis < 0 else axis)


@op
def gather_nd(params, indices, batch_dims=0, name=None):
    x, indices = _tandem.convert(params), _tandem.convert(indices)
    depth = int(indices._sizes[-1])
    if batch_dims:
        return _tandem.stack([gather_nd._raw(p, i, batch_dims - 1) for p, i in zip(x, indices)], 0)
    lead, rest = list(x._sizes[:depth]), list(x._sizes[depth:])
    flat = _flat_places(indices, lead)
    return _tandem.gather(_tandem.reshape(x, [_product(lead)] + rest), flat, 0)


def _flat_places(indices, sizes):
    """The number of each place among all places that the sizes make."""
    flat = None
    for axis in builtins.range(len(sizes)):
        own = indices[..., axis]
        if flat is None:
            flat = own
        else:
            flat = flat * int(sizes[axis]) + own
    return flat


def _scatter_add(flat, updates, rows, rest):
    """Rows of updates summed at their places: what the gradient of gather is."""
    code = updates._code
    values = updates if updates.dtype.is_floating else _tandem.cast(updates, 1)
    base = _tandem.fill([rows] + rest, 0.0, values._code)
    tape = _tandem.Tape(True, False)
    tape.watch(base)
    tape.resume()
    gathered = _tandem.gather(base, flat, 0)
    tape.pause()
    total = tape.gradient_of_tensors([gathered], [base], True, [_tandem.reshape(values, list(gathered._sizes))])[0]
    total = _tandem.identity(total)
    return total if total._code == code else _tandem.cast(total, code)


@op
def scatter_nd(indices, updates, shape, name=None):
    indices, updates = _tandem.convert(indices), _tandem.convert(updates)
    sizes = [int(s) if not isinstance(s, DynamicSize) else s._size for s in shape]
    depth = int(indices._sizes[-1])
    lead, rest = sizes[:depth], sizes[depth:]
    return _tandem.reshape(_scatter_add(_flat_places(indices, lead), updates, _product(lead), rest), sizes)


@op
def tensor_scatter_nd_add(tensor, indices, updates, name=None):
    x = _tandem.convert(tensor)
    return x + scatter_nd._raw(indices, _tandem.convert(updates, None, x._code), list(x._sizes))


@op
def tensor_scatter_nd_sub(tensor, indices, updates, name=None):
    x = _tandem.convert(tensor)
    return x - scatter_nd._raw(indices, _tandem.convert(updates, None, x._code), list(x._sizes))


@op
def tensor_scatter_nd_update(tensor, indices, updates, name=None):
    x = _tandem.convert(tensor)
    indices = _tandem.convert(indices)
    updates = _tandem.convert(updates, None, x._code)
    as_bool = x._code == 7
    if as_bool:
        x, updates = _tandem.cast(x, 5), _tandem.cast(updates, 5)
    sizes = [int(s) for s in x._sizes]
    count = scatter_nd._raw(indices, _tandem.ones_like(updates), sizes)
    total = scatter_nd._raw(indices, updates, sizes)
    touched = _tandem.greater(count, 0)
    if count.dtype.is_floating:  # A place that is named twice gets the mean, which is one of equals.
        total = total / _tandem.maximum(count, 1.0)
    result = _tandem.where(touched, total, x)
    return _tandem.cast(result, 7) if as_bool else result


def tensor_scatter_nd_max(tensor, indices, updates, name=None):
    def scatter(t, i, u):
        result = t.copy()
        np.maximum.at(result, tuple(np.moveaxis(i, -1, 0)), u)
        return result

    return _tandem.convert(host(scatter, _tandem.convert(tensor), _tandem.convert(indices), _tandem.convert(updates)))


@op
def one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    if dtype is None:
        dtype = dtypes.float32
        for v in (on_value, off_value):
            if hasattr(v, "dtype"):
                dtype = v.dtype
            elif isinstance(v, builtins.bool):
                dtype = dtypes.bool
            elif isinstance(v, int):
                dtype = dtypes.int32
    on = 1.0 if on_value is None else float(on_value)
    off = 0.0 if off_value is None else float(off_value)
    indices = _tandem.convert(indices)
    if indices._code not in (5, 6):
        indices = _tandem.cast(indices, 5)
    result = _tandem.one_hot(indices, int(depth), on, off, _code(dtype))
    if axis is None or axis in (-1, result._rank - 1):
        return result
    order = list(builtins.range(result._rank - 1))
    order.insert(axis, result._rank - 1)
    return _tandem.transpose(result, order)


def _host_sorted(x, axis, direction, stable):
    def places(a):
        if direction == "DESCENDING":
            order = np.argsort(-a if a.dtype.kind == "f" else -a.astype(np.int64), axis=axis, kind="stable")
        else:
            order = np.argsort(a, axis=axis, kind="stable")
        return order.astype(np.int32)

    return _tandem.convert(host(places, x))


def _traced_order(x, direction):
    """The places of the last axis in order, by counting who comes before whom."""
    n = int(x._sizes[-1])
    mine, other = _tandem.expand_dims(x, -1), _tandem.expand_dims(x, -2)
    before = _tandem.greater(other, mine) if direction == "DESCENDING" else _tandem.less(other, mine)
    earlier = _tandem.convert(np.tril(np.ones((n, n), bool), -1))
    tie = _tandem.logical_and(_tandem.equal(other, mine), earlier)
    rank_of = _tandem.reduce_sum(_tandem.cast(_tandem.logical_or(before, tie), 5), -1, False)
    at = _tandem.one_hot(rank_of, n, 1.0, 0.0, 0)
    positions = _tandem.convert(np.arange(n, dtype=np.float32))
    return _tandem.cast(_tandem.reduce_sum(at * _tandem.expand_dims(positions, -1), -2, False), 5)


@op
def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    x = _tandem.convert(values)
    axis = axis % x._rank
    if not x._is_symbolic:
        return _host_sorted(x, axis, direction, stable)
    moved = axis != x._rank - 1
    if moved:
        order = [i for i in builtins.range(x._rank) if i != axis] + [axis]
        x = _tandem.transpose(x, order)
    result = _traced_order(_tandem.stop_gradient(x) if x.dtype.is_floating else x, direction)
    if moved:
        result = _tandem.transpose(result, list(np.argsort(order)))
    return result


def take_along_last(x, indices):
    return _batched_gather(x, indices, x._rank - 1, x._rank - 1) if x._rank > 1 else _tandem.gather(x, indices, 0)


@op
def sort(values, axis=-1, direction="ASCENDING", name=None):
    x = _tandem.convert(values)
    order = argsort._raw(x, axis, direction)
    axis = axis % x._rank
    if axis == x._rank - 1:
        return take_along_last(x, order)
    swap = [i for i in builtins.range(x._rank) if i != axis] + [axis]
    result = take_along_last(_tandem.transpose(x, swap), _tandem.transpose(order, swap))
    return _tandem.transpose(result, [int(i) for i in np.argsort(swap)])


class TopKV2(tuple):
    """The values and the places of top_k."""

    def __new__(cls, values, indices):
        return tuple.__new__(cls, (values, indices))

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


@op
def top_k(input, k=1, sorted=True, index_type=dtypes.int32, name=None):
    x = _tandem.convert(input)
    k = int(k)
    if not x._is_symbolic:
        order = _host_sorted(x, x._rank - 1, "DESCENDING", True)
    elif k <= 8 and x.dtype.is_floating:
        rest, places, n = _tandem.stop_gradient(x), [], int(x._sizes[-1])
        for _ in builtins.range(k):
            place = _tandem.argmax(rest, -1)
            places.append(_tandem.cast(place, 5))
            taken = _tandem.one_hot(place, n, 1.0, 0.0, 7)
            rest = _tandem.where(taken, _tandem.fill((), float("-inf"), x._code), rest)
        order = _tandem.stack(places, -1)
    else:
        order = _traced_order(x, "DESCENDING")
    order = order[..., :k]
    return TopKV2(take_along_last(x, order), _tandem.cast(order, _code(index_type)))


@op
def in_top_k(targets, predictions, k, name=None):
    predictions = _tandem.convert(predictions)
    targets = _tandem.cast(targets, 5)
    own = _tandem.reduce_sum(predictions * _tandem.one_hot(targets, int(predictions._sizes[-1]), 1.0, 0.0, predictions._code), -1, True)
    ahead = _tandem.reduce_sum(_tandem.cast(_tandem.greater(predictions, own), 5), -1, False)
    return _tandem.less(ahead, int(k))


def unique(x, out_idx=dtypes.int32, name=None):
    def find(a):
        values, first, inverse = np.unique(a, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return values[order], place[inverse].astype(np.int32)

    values, places = host(find, _tandem.convert(x))
    return _tandem.convert(values), _tandem.convert(places)


def unique_with_counts(x, out_idx=dtypes.int32, name=None):
    values, places = unique(x)
    return values, places, bincount(places)


def searchsorted(sorted_sequence, values, side="left", out_type=dtypes.int32, name=None):
    s, v = _tandem.convert(sorted_sequence), _tandem.convert(values)
    s1, v1 = _tandem.expand_dims(s, -2), _tandem.expand_dims(v, -1)
    before = _tandem.less(s1, v1) if side == "left" else _tandem.less_equal(s1, v1)
    return _tandem.reduce_sum(_tandem.cast(before, _code(out_type)), -1, False)


def sequence_mask(lengths, maxlen=None, dtype=dtypes.bool, name=None):
    lengths = _tandem.convert(lengths)
    maxlen = int(_tandem.reduce_max(lengths, None, False)) if maxlen is None else int(maxlen)
    mask = _tandem.less(_tandem.range(0, maxlen, 1, lengths._code), _tandem.expand_dims(lengths, -1))
    return _tandem.cast(mask, _code(dtype))


# ---- Segments ----


def _segment(reduce, start):
    def segment(data, segment_ids, num_segments=None, name=None):
        x, ids = _tandem.convert(data), _tandem.convert(segment_ids)
        if num_segments is None:
            num_segments = int(_tandem.reduce_max(ids, None, False)) + 1
        n = int(num_segments)
        if reduce == "sum":
            return _scatter_add(ids, x, n, list(x._sizes[ids._rank :]))
        if reduce == "mean":
            total = _scatter_add(ids, x, n, list(x._sizes[ids._rank :]))
            count = _scatter_add(ids, _tandem.fill(list(ids._sizes), 1.0, x._code), n, [])
            count = _tandem.maximum(count, 1.0)
            return total / _tandem.reshape(count, [n] + [1] * (total._rank - 1))
        member = _tandem.one_hot(ids, n, 1.0, 0.0, 7)  # [rows, segments]
        member = _tandem.reshape(_tandem.transpose(member, [1, 0]), [n, ids._sizes[0]] + [1] * (x._rank - 1))
        info = x.dtype
        low = float(info.min) if reduce == "max" else float(info.max)
        if reduce == "prod":
            low = 1.0
        spread = _tandem.where(member, _tandem.expand_dims(x, 0), _tandem.fill((), low, x._code))
        f = {"max": _tandem.reduce_max, "min": _tandem.reduce_min, "prod": _tandem.reduce_prod}[reduce]
        return f(spread, 1, False)

    return op(segment)


segment_sum = unsorted_segment_sum = _segment("sum", 0)
segment_mean = unsorted_segment_mean = _segment("mean", 0)
segment_max = unsorted_segment_max = _segment("max", 0)
segment_min = unsorted_segment_min = _segment("min", 0)
segment_prod = unsorted_segment_prod = _segment("prod", 1)


# ---- Matrices ----


@op
def band_part(input, num_lower, num_upper, name=None):
    x = _tandem.convert(input)
    rows, columns = int(x._sizes[-2]), int(x._sizes[-1])
    distance = np.arange(rows)[:, None] - np.arange(columns)[None, :]
    keep = np.ones((rows, columns), bool)
    if int(num_lower) >= 0:
        keep &= distance <= int(num_lower)
    if int(num_upper) >= 0:
        keep &= -distance <= int(num_upper)
    return _tandem.where(keep, x, _tandem.zeros_like(x))


@op
def diag(diagonal, name="diag", k=0, num_rows=-1, num_cols=-1, padding_value=0, align="RIGHT_LEFT"):
    x = _tandem.convert(diagonal)
    n = int(x._sizes[-1])
    return _tandem.expand_dims(x, -1) * _tandem.eye(n, -1, x._code)


@op
def diag_part(input, name="diag_part", k=0, padding_value=0, align="RIGHT_LEFT"):
    x = _tandem.convert(input)
    rows, columns = int(x._sizes[-2]), int(x._sizes[-1])
    n = builtins.min(rows, columns)
    return _tandem.reduce_sum(x[..., :n, :n] * _tandem.eye(n, -1, x._code), -1, False)


@op
def set_diag(input, diagonal, name="set_diag", k=0, align="RIGHT_LEFT"):
    x, d = _tandem.convert(input), _tandem.convert(diagonal)
    rows, columns = int(x._sizes[-2]), int(x._sizes[-1])
    mask = np.eye(rows, columns, dtype=bool)
    wide = _tandem.expand_dims(d, -1) if rows <= columns else _tandem.expand_dims(d, -2)
    return _tandem.where(mask, _tandem.broadcast_to(wide, list(x._sizes)), x)


@op
def trace(x, name=None):
    return _tandem.reduce_sum(diag_part._raw(x), -1, False)


@op
def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None):
    x = _tandem.convert(tensor)
    axis, keep = _axes(axis), builtins.bool(keepdims)
    if ord in ("euclidean", "fro", 2):
        return _tandem.sqrt(_tandem.reduce_sum(x * x, axis, keep))
    if ord == 1:
        return _tandem.reduce_sum(_tandem.abs(x), axis, keep)
    if ord in (np.inf, "inf"):
        return _tandem.reduce_max(_tandem.abs(x), axis, keep)
    return _tandem.pow(_tandem.reduce_sum(_tandem.pow(_tandem.abs(x), float(ord)), axis, keep), 1.0 / ord)


# ---- Flow ----


def _flat_results(result):
    return [_tandem.convert(r) for r in nest.flatten(result) if r is not None]


def cond(pred, true_fn=None, false_fn=None, name=None):
    if not isinstance(pred, (Tensor, _tandem.Variable)):
        return true_fn() if pred else false_fn()
    pred = to_tensor(pred)
    if not pred._is_symbolic:
        return true_fn() if bool_(pred) else false_fn()
    kept = {}

    def branch(f):
        def call():
            kept["result"] = f()
            return _flat_results(kept["result"])

        return call

    if pred._rank:
        pred = _tandem.reshape(pred, ())
    if pred._code != 7:
        pred = _tandem.not_equal(pred, 0)
    results = _tandem.cond(pred, branch(true_fn), branch(false_fn))
    return _packed_results(kept["result"], results)


def bool_(pred):
    return builtins.bool(pred)


def _packed_results(like, results):
    results = iter(results)
    leaves = [None if leaf is None else next(results) for leaf in nest.flatten(like)]
    return nest.pack_sequence_as(like, leaves) if nest.is_nested(like) else (leaves[0] if leaves else None)


def while_loop(cond, body, loop_vars, shape_invariants=None, parallel_iterations=10, back_prop=True, swap_memory=False, maximum_iterations=None, name=None):
    is_sequence = isinstance(loop_vars, (list, tuple))
    loop_vars = loop_vars if is_sequence else (loop_vars,)
    most = 2**62 if maximum_iterations is None else int(maximum_iterations)
    kept = {}

    def rebuilt(tensors):
        return nest.pack_sequence_as(loop_vars, tensors)

    def test(tensors):
        return [_tandem.convert(cond(*rebuilt(tensors)))]

    def step(tensors):
        result = body(*rebuilt(tensors))
        if not isinstance(result, (list, tuple)) or (len(loop_vars) == 1 and not is_sequence):
            result = (result,)
        if len(result) != len(loop_vars) and len(loop_vars) == 1:
            result = (result,)
        kept["result"] = result
        return [_tandem.convert(r) for r in nest.flatten(result)]

    start = [_tandem.convert(v) for v in nest.flatten(loop_vars)]
    if state.tracing:
        results = _tandem.while_loop(test, step, start, most)
    else:
        results, count = start, 0
        while count < most and builtins.bool(test(results)[0]):
            results = step(results)
            count += 1
    packed = rebuilt(results)
    return packed if is_sequence else packed[0]


def case(pred_fn_pairs, default=None, exclusive=False, strict=False, name="case"):
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    if not pairs:
        return default()
    pred, f = pairs[0]
    if len(pairs) == 1 and default is None:
        return cond(pred, f, f)
    return cond(pred, f, lambda: case(pairs[1:], default))


def switch_case(branch_index, branch_fns, default=None, name="switch_case"):
    fns = dict(enumerate(branch_fns)) if not isinstance(branch_fns, dict) and not isinstance(branch_fns[0], tuple) else dict(branch_fns)
    default = default or fns[builtins.max(fns)]
    index = _tandem.convert(branch_index)
    if not index._is_symbolic:
        return fns.get(int(index), default)()
    return case([(_tandem.equal(index, i), f) for i, f in fns.items()], default)


def _elements(elems):
    flat = [_tandem.convert(e) for e in nest.flatten(elems)]
    count = int(flat[0]._sizes[0])
    return [nest.pack_sequence_as(elems, [f[i] for f in flat]) if nest.is_nested(elems) else flat[0][i] for i in builtins.range(count)]


def _stacked(results):
    if not nest.is_nested(results[0]):
        return _tandem.stack([_tandem.convert(r) for r in results], 0)
    flat = zip(*[nest.flatten(r) for r in results])
    return nest.pack_sequence_as(results[0], [_tandem.stack([_tandem.convert(e) for e in each], 0) for each in flat])


def map_fn(fn, elems, dtype=None, parallel_iterations=None, back_prop=True, swap_memory=False, infer_shape=True, name=None, fn_output_signature=None):
    return _stacked([fn(e) for e in _elements(elems)])


def vectorized_map(fn, elems, fallback_to_while_loop=True, warn=True):
    return map_fn(fn, elems)


def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, infer_shape=True, reverse=False, name=None):
    items = _elements(elems)
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
    items = _elements(elems)
    total, items = (items[0], items[1:]) if initializer is None else (initializer, items)
    for each in items:
        total = fn(total, each)
    return total


def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    items = _elements(elems)[::-1]
    total, items = (items[0], items[1:]) if initializer is None else (initializer, items)
    for each in items:
        total = fn(total, each)
    return total


class TensorArray:
    """A list of tensors that a loop writes."""

    def __init__(self, dtype, size=None, dynamic_size=None, clear_after_read=None, tensor_array_name=None, handle=None, flow=None, infer_shape=True, element_shape=None, colocate_with_first_write_call=True, name=None):
        self.dtype = dtypes.as_dtype(dtype)
        self.element_shape = TensorShape(element_shape)
        self._values = [None] * (0 if size is None else int(size))

    def _replaced(self, values):
        other = TensorArray(self.dtype, 0, element_shape=self.element_shape)
        other._values = values
        return other

    def write(self, index, value, name=None):
        values = list(self._values)
        index = int(index)
        while len(values) <= index:
            values.append(None)
        values[index] = _tandem.convert(value, None, self.dtype._code)
        return self._replaced(values)

    def read(self, index, name=None):
        return self._values[int(index)]

    def _filled(self):
        like = next((v for v in self._values if v is not None), None)
        if like is None:
            return []
        return [_tandem.zeros_like(like) if v is None else v for v in self._values]

    def stack(self, name=None):
        values = self._filled()
        return _tandem.stack(values, 0) if values else zeros([0], self.dtype)

    def concat(self, name=None):
        return _tandem.concat(self._filled(), 0)

    def gather(self, indices, name=None):
        return _tandem.stack([self._values[int(i)] for i in indices], 0)

    def unstack(self, value, name=None):
        return self._replaced(list(_tandem.unstack(value, 0)))

    def scatter(self, indices, value, name=None):
        result = self
        for i, v in zip(indices, _tandem.unstack(value, 0)):
            result = result.write(i, v)
        return result

    def size(self, name=None):
        return _tandem.convert(len(self._values))

    def mark_used(self):
        pass

    def close(self, name=None):
        pass

    def identity(self):
        return self


def print_(*inputs, output_stream=None, summarize=3, sep=" ", end="\n", name=None):
    """Prints values when it runs: a function with it in runs op by op."""
    import sys

    for each in nest.flatten(list(inputs)):
        if isinstance(each, Tensor) and each._is_symbolic:
            raise _no_value("text")
    stream = {None: sys.stderr, "stderr": sys.stderr, "stdout": sys.stdout}.get(output_stream, output_stream)

    def text(value):
        if isinstance(value, (Tensor, _tandem.Variable)):
            return _summarized(np.asarray(value.numpy()), summarize)
        return str(value)

    print(*[nest.map_structure(text, i) if nest.is_nested(i) else text(i) for i in inputs], sep=sep, end=end, file=stream)


def _summarized(array, summarize):
    if array.ndim == 0:
        return str(array[()])
    if summarize == -1 or array.shape[0] <= 2 * summarize:
        parts = [_summarized(a, summarize) for a in array]
    else:
        parts = [_summarized(a, summarize) for a in array[:summarize]] + ["..."] + [_summarized(a, summarize) for a in array[-summarize:]]
    return "[" + " ".join(parts) + "]"


def py_function(func=None, inp=None, Tout=None, name=None):
    if func is None:  # As a decorator.
        return lambda f: functools.wraps(f)(lambda *args: py_function(f, args, Tout))
    for each in nest.flatten(inp):
        if isinstance(each, Tensor) and each._is_symbolic:
            raise _no_value("value of py_function")
    result = func(*[_tandem.convert(i) if not getattr(i, "_is_text_tensor", False) else i for i in inp])
    return _typed_results(result, Tout)


def numpy_function(func=None, inp=None, Tout=None, stateful=True, name=None):
    if func is None:  # As a decorator.
        return lambda f: functools.wraps(f)(lambda *args: numpy_function(f, args, Tout))
    arrays = []
    for each in inp:
        if isinstance(each, Tensor) and each._is_symbolic:
            raise _no_value("value of numpy_function")
        arrays.append(np.asarray(_tandem.convert(each)) if not getattr(each, "_is_text_tensor", False) else each.numpy())
    return _typed_results(func(*arrays), Tout)


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
    return None


def no_op(name=None):
    return None


def dynamic_partition(data, partitions, num_partitions, name=None):
    x, p = _tandem.convert(data), host(lambda a: a, _tandem.convert(partitions))
    return [_tandem.gather(x, np.flatnonzero(p == i).astype(np.int32), 0) for i in builtins.range(num_partitions)]


def dynamic_stitch(indices, data, name=None):
    places = np.concatenate([np.asarray(i).ravel() for i in indices])
    values = _tandem.concat([_tandem.convert(d) for d in data], 0)
    order = np.empty(places.max() + 1, np.int32)
    order[places] = np.arange(len(places), dtype=np.int32)
    return _tandem.gather(values, order, 0)


def space_to_depth(input, block_size, data_format="NHWC", name=None):
    x, b = _tandem.convert(input), int(block_size)
    n, h, w, c = x._sizes
    x = _tandem.reshape(x, [n, h // b, b, w // b, b, c])
    return _tandem.reshape(_tandem.transpose(x, [0, 1, 3, 2, 4, 5]), [n, h // b, w // b, b * b * c])


def depth_to_space(input, block_size, data_format="NHWC", name=None):
    x, b = _tandem.convert(input), int(block_size)
    n, h, w, c = x._sizes
    x = _tandem.reshape(x, [n, h, w, b, b, c // (b * b)])
    return _tandem.reshape(_tandem.transpose(x, [0, 1, 3, 2, 4, 5]), [n, h * b, w * b, c // (b * b)])


space_to_depth, depth_to_space = op(space_to_depth), op(depth_to_space)


def reverse_sequence(input, seq_lengths, seq_axis=None, batch_axis=None, name=None):
    def turn(a, lengths):
        a = np.moveaxis(a.copy(), (batch_axis or 0, seq_axis or 1), (0, 1))
        for i, n in enumerate(lengths):
            a[i, :n] = a[i, :n][::-1]
        return np.ascontiguousarray(np.moveaxis(a, (0, 1), (batch_axis or 0, seq_axis or 1)))

    return _tandem.convert(host(turn, _tandem.convert(input), _tandem.convert(seq_lengths)))
