"""Functions of tensors by Keras's names, keras.ops: NumPy's semantics over the same ops."""

import builtins
import sys
import typing

import numpy as np

import _tandem
from tandem import _ops, dtypes, nest, nn as _nn
from tandem._names import words as _words
from tandem._names import missing as _missing
from tandem._ops import base as _base, op
from tandem.keras.activations import (  # noqa: F401, so that type checkers see them given.
    celu as celu, elu as elu, glu as glu, hard_shrink as hard_shrink, hard_sigmoid as hard_sigmoid, hard_silu as hard_silu,
    hard_swish as hard_swish, hard_tanh as hard_tanh, leaky_relu as leaky_relu, log_sigmoid as log_sigmoid, log_softmax as log_softmax,
    mish as mish, relu as relu, relu6 as relu6, selu as selu, sigmoid as sigmoid, silu as silu, soft_shrink as soft_shrink,
    softmax as softmax, softplus as softplus, softsign as softsign, sparse_plus as sparse_plus, squareplus as squareplus, swish as swish,
    tanh as tanh, tanh_shrink as tanh_shrink, threshold as threshold,
)
from tandem.keras.losses import binary_crossentropy as _bce, categorical_crossentropy as _cce, sparse_categorical_crossentropy as _scce

if typing.TYPE_CHECKING:  # Many names are made in loops.

    def __getattr__(name: str) -> typing.Any: ...


_c = _tandem.convert


def _float(x):
    x = _c(x)
    return x if x.dtype.is_floating else _tandem.cast(x, 0)


def _matched(a, b):
    """Two operands in one dtype, the wider of them."""
    plain = (int, float, builtins.bool)
    if isinstance(a, plain) or isinstance(b, plain):
        if isinstance(a, plain) and isinstance(b, plain):
            return _c(a), _c(b)
        if isinstance(a, float) or isinstance(b, float):
            return (a, _float(b)) if isinstance(a, plain) else (_float(a), b)
        if isinstance(a, plain):
            return a, _c(b)
        return _c(a), b
    a = _c(a, None, b._code if hasattr(b, "_code") else None)
    b = _c(b, None, a._code)
    if a._code == b._code:
        return a, b
    order = [7, 4, 5, 6, 2, 3, 0, 1]
    code = a._code if order.index(a._code) > order.index(b._code) else b._code
    return _tandem.cast(a, code), _tandem.cast(b, code)


def _binary(name, f):
    def call(x1, x2):
        a, b = _matched(x1, x2)
        return f(a, b)

    call.__name__ = call.__qualname__ = name
    return op(call)


def _unary(name, f, to_float=True):
    def call(x):
        return f(_float(x) if to_float else _c(x))

    call.__name__ = call.__qualname__ = name
    return op(call)


@op
def gelu(x, approximate=True):
    """x times the probability that a normal variable is below it; by default with tanh in the place of erf."""
    from tandem.keras.activations import gelu as own

    return own(x, approximate)


_this = sys.modules[__name__]
for _name, _f in {
    "add": _tandem.add, "subtract": _tandem.sub, "multiply": _tandem.mul, "floor_divide": _tandem.floor_div, "mod": _tandem.mod,
    "power": _tandem.pow, "maximum": _tandem.maximum, "minimum": _tandem.minimum, "equal": _tandem.equal,
    "not_equal": _tandem.not_equal, "less": _tandem.less, "less_equal": _tandem.less_equal, "greater": _tandem.greater,
    "greater_equal": _tandem.greater_equal, "divide": lambda a, b: _ops.arithmetic._true_divide(a, b), "true_divide": lambda a, b: _ops.arithmetic._true_divide(a, b),
    "divide_no_nan": lambda a, b: _ops.divide_no_nan(a, b), "arctan2": lambda a, b: _ops.atan2(a, b),
}.items():
    setattr(_this, _name, _binary(_name, _f))
remainder = mod  # noqa: F821
for _name, _f in {
    "exp": _tandem.exp, "expm1": _tandem.expm1, "log": _tandem.log, "log1p": _tandem.log1p, "sqrt": _tandem.sqrt, "rsqrt": _tandem.rsqrt,
    "sin": _tandem.sin, "cos": _tandem.cos, "tan": _tandem.tan, "arcsin": _tandem.asin, "arccos": _tandem.acos, "arctan": _tandem.atan,
    "sinh": _tandem.sinh, "cosh": _tandem.cosh, "arcsinh": lambda x: _ops.asinh(x), "arccosh": lambda x: _ops.acosh(x),
    "arctanh": lambda x: _ops.atanh(x), "erf": _tandem.erf, "erfinv": lambda x: _ops.erfinv(x), "floor": _tandem.floor,
    "ceil": _tandem.ceil, "reciprocal": _tandem.reciprocal, "isnan": _tandem.is_nan, "isinf": _tandem.is_inf,
    "isfinite": _tandem.is_finite, "log10": lambda x: _tandem.log(x) / float(np.log(10)), "log2": lambda x: _tandem.log(x) / float(np.log(2)),
    "exp2": lambda x: _tandem.exp(x * float(np.log(2))), "deg2rad": lambda x: x * float(np.pi / 180), "rad2deg": lambda x: x * float(180 / np.pi),
}.items():
    setattr(_this, _name, _unary(_name, _f))
for _name, _f in {
    "negative": _tandem.neg, "abs": _tandem.abs, "absolute": _tandem.abs, "square": _tandem.square, "sign": _tandem.sign,
    "copy": _tandem.identity,
}.items():
    setattr(_this, _name, _unary(_name, _f, False))


@op
def stop_gradient(variable):
    """The same values, through which no gradient goes."""
    return _tandem.stop_gradient(_c(variable))


def _logical(name, f):
    def call(x1, x2):
        return f(_tandem.cast(x1, 7), _tandem.cast(x2, 7))

    call.__name__ = name
    return op(call)


logical_and, logical_or, logical_xor = _logical("logical_and", _tandem.logical_and), _logical("logical_or", _tandem.logical_or), _logical("logical_xor", _tandem.logical_xor)


@op
def logical_not(x):
    """`not` of each element."""
    return _tandem.logical_not(_tandem.cast(x, 7))


def _reduction(name, f, kind="float"):
    def call(x, axis=None, keepdims=False):
        x = _c(x)
        axis = list(axis) if isinstance(axis, tuple) else axis
        if kind == "float" and not x.dtype.is_floating:
            x = _tandem.cast(x, 0)
        elif kind == "bool":
            x = _tandem.cast(x, 7)
        elif kind == "number" and x._code in (4, 7):
            x = _tandem.cast(x, 5)
        return f(x, axis, builtins.bool(keepdims))

    call.__name__ = call.__qualname__ = name
    return op(call)


for _name, _f, _k in (
    ("sum", _tandem.reduce_sum, "number"), ("mean", _tandem.reduce_mean, "float"),
    ("amax", _tandem.reduce_max, "any"), ("amin", _tandem.reduce_min, "any"),
    ("var", _tandem.reduce_variance, "float"), ("std", _tandem.reduce_std, "float"), ("logsumexp", _tandem.reduce_logsumexp, "float"),
    ("any", _tandem.reduce_any, "bool"), ("all", _tandem.reduce_all, "bool"),
):
    setattr(_this, _name, _reduction(_name, _f, _k))


def _extreme(name, reduce, pair):
    plain = _reduction(name, reduce, "any")

    def call(x, axis=None, keepdims=False, initial=None):
        y = plain._raw(x, axis, keepdims)
        return y if initial is None else pair(y, _c(initial, y._code))

    call.__name__ = call.__qualname__ = name
    return op(call)


max, min = _extreme("max", _tandem.reduce_max, _tandem.maximum), _extreme("min", _tandem.reduce_min, _tandem.minimum)  # noqa: A001


@op
def prod(x, axis=None, keepdims=False, dtype=None):
    """The product over axes."""
    y = _reduction("prod", _tandem.reduce_prod, "number")._raw(x, axis, keepdims)
    return y if dtype is None else _tandem.cast(y, dtypes.code_of(dtype))


def _place_of(f, x, axis, keepdims):
    x = _c(x)
    y = _tandem.cast(f(_tandem.reshape(x, (-1,)) if axis is None else x, 0 if axis is None else axis), 5)
    if not keepdims:
        return y
    return _tandem.reshape(y, [1] * x._rank) if axis is None else _tandem.expand_dims(y, axis)


@op
def argmax(x, axis=None, keepdims=False):
    """The index of the largest element along an axis, or of all."""
    return _place_of(_ops.argmax, x, axis, keepdims)


@op
def argmin(x, axis=None, keepdims=False):
    """The index of the smallest element along an axis, or of all."""
    return _place_of(_ops.argmin, x, axis, keepdims)


@op
def argsort(x, axis=-1):
    """The indices that would sort the values along an axis, or all of them."""
    return _ops.argsort(_tandem.reshape(x, (-1,)) if axis is None else x, -1 if axis is None else axis)


@op
def sort(x, axis=-1):
    """The values in ascending order along an axis, or all of them."""
    return _ops.sort(_tandem.reshape(x, (-1,)) if axis is None else x, -1 if axis is None else axis)


@op
def top_k(x, k, sorted=True):
    """The k largest values along the last axis, and their indices."""
    return tuple(_ops.top_k(x, k, sorted))


in_top_k = op(lambda targets, predictions, k: _ops.in_top_k(targets, predictions, k))


def _running(f, x, axis, dtype):
    x = _c(x)
    x = x if dtype is None else _tandem.cast(x, dtypes.code_of(dtype))
    return f(_tandem.reshape(x, (-1,)) if axis is None else x, 0 if axis is None else axis)


@op
def cumsum(x, axis=None, dtype=None):
    """The sums of all elements up to each one along an axis."""
    return _running(lambda t, a: _tandem.cumsum(t, a, False, False), x, axis, dtype)


@op
def cumprod(x, axis=None, dtype=None):
    """The products of all elements up to each one along an axis."""
    return _running(_ops.cumprod, x, axis, dtype)


def _reduced_last(x, axis):
    """The tensor with the axes that are reduced joined into the last one, and where they were."""
    axes = list(builtins.range(x._rank)) if axis is None else [a % x._rank for a in ([axis] if isinstance(axis, int) else axis)]
    rest = [i for i in builtins.range(x._rank) if i not in axes]
    joined = _tandem.reshape(_tandem.transpose(x, rest + axes), [x._sizes[i] for i in rest] + [-1])
    return joined, lambda y: _tandem.reshape(y, [1 if i in axes else x._sizes[i] for i in builtins.range(x._rank)])


@op
def median(x, axis=None, keepdims=False):
    """The median over axes."""
    joined, with_axes = _reduced_last(_float(x), axis)
    s = _ops.sort(joined, -1)
    n = int(s._sizes[-1])
    take = lambda i: _tandem.gather(s, np.int32(i), s._rank - 1)  # noqa: E731
    y = (take((n - 1) // 2) + take(n // 2)) / 2.0
    return with_axes(y) if keepdims else y


@op
def clip(x, x_min, x_max):
    """Each element, moved into a range."""
    return _ops.clip_by_value(x, x_min, x_max)


@op
def round(x, decimals=0):
    """Each element, rounded to so many decimals."""
    x = _c(x)
    if not x.dtype.is_floating:
        return x if decimals >= 0 else _tandem.cast(round(_tandem.cast(x, 1), decimals), x._code)
    return _tandem.round(x) if not decimals else _tandem.round(x * float(10**decimals)) / float(10**decimals)


@op
def matmul(x1, x2):
    """The product of matrices, or of batches of them, as NumPy has it."""
    a, b = _matched(x1, x2)
    if a._rank == 1 or b._rank == 1:
        left = _tandem.expand_dims(a, 0) if a._rank == 1 else a
        right = _tandem.expand_dims(b, -1) if b._rank == 1 else b
        y = _ops.matmul(left, right)
        if b._rank == 1:
            y = _tandem.squeeze(y, [-1])
        return _tandem.squeeze(y, [-2 if b._rank > 1 else -1]) if a._rank == 1 else y
    return _ops.matmul(a, b)


@op
def dot(x1, x2):
    """The product of arrays as NumPy's dot."""
    a, b = _matched(x1, x2)
    if a._rank == 0 or b._rank == 0:
        return a * b
    return matmul(a, b) if b._rank <= 2 else _ops.tensordot(a, b, [[-1], [-2]])


tensordot = op(lambda x1, x2, axes=2: _ops.tensordot(x1, x2, axes))
einsum = op(lambda subscripts, *operands, **kwargs: _ops.einsum(subscripts, *operands))


@op
def outer(x1, x2):
    """The products of all pairs of elements of two vectors."""
    return _tandem.expand_dims(_tandem.reshape(x1, (-1,)), -1) * _tandem.reshape(x2, (-1,))


@op
def vdot(x1, x2):
    """The sum of the products of all elements."""
    return _tandem.reduce_sum(_tandem.reshape(x1, (-1,)) * _tandem.reshape(x2, (-1,)), None, False)


# ---- Shapes ----


def shape(x):
    """The sizes of a tensor's axes as a tuple."""
    if hasattr(type(x), "_tandem_symbolic"):
        return x.shape
    x = _c(x)
    if not x._is_symbolic_shape:
        return tuple(x._sizes)
    return tuple(_ops.shape(x))


def size(x):
    """The number of elements."""
    return _ops.size(x)


def ndim(x):
    """The number of axes."""
    return len(x.shape)


reshape = op(lambda x, newshape: _ops.reshape(x, newshape))
transpose = op(lambda x, axes=None: _ops.transpose(x, axes))
expand_dims = op(lambda x, axis: _expanded(x, axis))
squeeze = op(lambda x, axis=None: _ops.squeeze(x, axis))
broadcast_to = op(lambda x, shape: _ops.broadcast_to(x, shape))
repeat = op(lambda x, repeats, axis=None: _ops.repeat(x, repeats, axis))
flip = op(lambda x, axis=None: _ops.reverse(x, list(builtins.range(len(x.shape))) if axis is None else [axis] if isinstance(axis, int) else list(axis)))
roll = op(lambda x, shift, axis=None: _ops.roll(x, shift, 0 if axis is None else axis) if axis is not None else _tandem.reshape(_ops.roll(_tandem.reshape(x, (-1,)), shift, 0), _c(x)._sizes))
split = op(lambda x, indices_or_sections, axis=0: _split(_c(x), indices_or_sections, axis))
stack = op(lambda x, axis=0: _ops.stack(x, axis))
unstack = op(lambda x, num=None, axis=0: _ops.unstack(x, num, axis))
concatenate = op(lambda xs, axis=0: _ops.concat(_one_dtype(xs), axis))
append = op(lambda x1, x2, axis=None: _ops.concat([x1, x2] if axis is not None else [_tandem.reshape(x1, (-1,)), _tandem.reshape(x2, (-1,))], axis or 0))
hstack = op(lambda xs: _ops.concat(xs, 0 if len(xs[0].shape) == 1 else 1))
vstack = op(lambda xs: _ops.concat([x if len(x.shape) > 1 else _tandem.expand_dims(x, 0) for x in xs], 0))


def _expanded(x, axis):
    for a in sorted(axis) if isinstance(axis, (list, tuple)) else [axis]:
        x = _ops.expand_dims(x, a)
    return x


def _one_dtype(xs):
    if builtins.any(getattr(x, "_is_text_tensor", False) for x in xs):
        return list(xs)
    xs = [_c(x) for x in xs]
    order = [7, 4, 5, 6, 2, 3, 0, 1]
    code = builtins.max((x._code for x in xs), key=order.index)
    return [x if x._code == code else _tandem.cast(x, code) for x in xs]


def _split(x, sections, axis):
    if isinstance(sections, int):
        return _tandem.split(x, sections, axis)
    edges = [0] + [int(s) for s in sections] + [int(x._sizes[axis])]
    return _tandem.split_sizes(x, [b - a for a, b in zip(edges, edges[1:])], axis)


@op
def tile(x, repeats):
    """The tensor repeated a number of times along each axis."""
    x = _c(x)
    repeats = [repeats] if isinstance(repeats, int) else list(repeats)
    while x._rank < len(repeats):
        x = _tandem.expand_dims(x, 0)
    return _ops.tile(x, [1] * (x._rank - len(repeats)) + repeats)


@op
def pad(x, pad_width, mode="constant", constant_values=None):
    """The tensor with constants or mirrored elements around it."""
    x = _c(x)
    pairs = [(pad_width, pad_width)] * x._rank if isinstance(pad_width, int) else list(pad_width)
    if len(pairs) == 1 and x._rank > 1:
        pairs = pairs * x._rank
    if len(pairs) == 2 and isinstance(pairs[0], int):
        pairs = [tuple(pairs)] * x._rank
    return _ops.pad(x, pairs, mode.upper(), constant_values or 0)


@op
def moveaxis(x, source, destination):
    """The tensor with axes moved to other places."""
    x = _c(x)
    source = [s % x._rank for s in ([source] if isinstance(source, int) else source)]
    destination = [d % x._rank for d in ([destination] if isinstance(destination, int) else destination)]
    order = [i for i in builtins.range(x._rank) if i not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return _tandem.transpose(x, order)


@op
def swapaxes(x, axis1, axis2):
    """The tensor with two axes exchanged."""
    x = _c(x)
    order = list(builtins.range(x._rank))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return _tandem.transpose(x, order)


@op
def ravel(x):
    """All elements in one axis."""
    return _tandem.reshape(x, (-1,))


@op
def cast(x, dtype):
    """The elements as another dtype."""
    return _tandem.cast(x, dtypes.code_of(dtype))


def convert_to_tensor(x, dtype=None, sparse=None, ragged=None):
    """A tensor of whatever can become one."""
    if _base._has_texts([x]) or isinstance(x, np.ndarray) and x.dtype.kind in "USO":
        return _ops.constant(x)
    if dtype is None:
        return _c(x)
    x = _c(x)
    return _tandem.cast(x, dtypes.code_of(dtype))


def convert_to_numpy(x):
    """A NumPy array of a tensor."""
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x)


def is_tensor(x):
    """True for tensors."""
    return isinstance(x, _tandem.Tensor)


def array(x, dtype=None):
    """A tensor of whatever can become one."""
    return convert_to_tensor(x, dtype)


def zeros(shape, dtype=None):
    """A tensor of zeros."""
    return _tandem.fill(shape, 0.0, dtypes.code_of(dtype or "float32"))


def ones(shape, dtype=None):
    """A tensor of ones."""
    return _tandem.fill(shape, 1.0, dtypes.code_of(dtype or "float32"))


def full(shape, fill_value, dtype=None):
    """A tensor of one value."""
    return _tandem.broadcast_to(_tandem.cast(_c(fill_value), dtypes.code_of(dtype or "float32")), shape)


def empty(shape, dtype=None):
    """A tensor of any values; zeros here."""
    return zeros(shape, dtype)


def eye(N, M=None, k=0, dtype=None):
    """Ones on a diagonal."""
    return _c(np.eye(int(N), None if M is None else int(M), k, np.float32), dtypes.code_of(dtype or "float32"))


def identity(n, dtype=None):
    """The identity matrix."""
    return eye(n, dtype=dtype)


zeros_like = op(lambda x, dtype=None: _ops.zeros_like(x, dtype))
ones_like = op(lambda x, dtype=None: _ops.ones_like(x, dtype))
full_like = op(lambda x, fill_value, dtype=None: _ops.zeros_like(x, dtype) + fill_value)


def arange(start, stop=None, step=None, dtype=None):
    """The numbers from start up to but without stop, in steps."""
    return _ops.range(start, stop, 1 if step is None else step, dtype)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    """`num` evenly spaced values from start to stop, and on request the step between them."""
    kind = lambda v: getattr(v, "dtype", None) if hasattr(v, "shape") else None  # noqa: E731
    if dtype is None:
        given = [dtypes.as_dtype(k).name for k in (kind(start), kind(stop)) if k is not None]
        dtype = "float64" if "float64" in given else "float32"
    values, step = np.linspace(np.asarray(start), np.asarray(stop), int(num), endpoint, True, axis=axis)
    made = _tandem.cast(_c(np.array(values, np.float64, order="C")), dtypes.code_of(dtype))
    return (made, _tandem.cast(_c(np.float64(step)), dtypes.code_of(dtype))) if retstep else made


def meshgrid(*x, indexing="xy"):
    """The coordinates of a grid, one tensor for each axis."""
    return _ops.meshgrid(*x, indexing=indexing)


@op
def where(condition, x1=None, x2=None):
    """x1 where the condition holds and x2 elsewhere; with the condition alone, the places where it holds."""
    if x1 is None:
        return _ops.where(condition)
    a, b = _matched(x1, x2)
    return _tandem.where(_tandem.cast(condition, 7), a, b)


@op
def take(x, indices, axis=None):
    """The slices along an axis that the indices name."""
    x, indices = _c(x), _c(indices)
    x = _tandem.reshape(x, (-1,)) if axis is None else x
    size = x._sizes[axis or 0]
    if not indices._is_symbolic and isinstance(size, int) and indices.dtype.is_integer and not indices.dtype.is_unsigned:
        indices = _tandem.where(indices < 0, indices + size, indices)  # Negative ones count from the end.
    return _ops.gather(x, indices, axis=axis or 0)


def _broadcast_but(x, other, axis):
    """x with the sizes of the other where it has 1, but along one axis."""
    sizes = [b if a == 1 and i != axis else a for i, (a, b) in enumerate(zip(x._sizes, other._sizes))]
    return _tandem.broadcast_to(x, sizes) if builtins.any(a is not b for a, b in zip(sizes, x._sizes)) else x


@op
def take_along_axis(x, indices, axis=None):
    """The elements along an axis at each row's own indices."""
    x, indices = _c(x), _c(indices)
    if axis is None:
        x, indices, axis = _tandem.reshape(x, (-1,)), _tandem.reshape(indices, (-1,)), 0
    axis = axis % x._rank
    x, indices = _broadcast_but(x, indices, axis), _broadcast_but(indices, x, axis)
    if axis == x._rank - 1:
        return _ops.take_along_last(x, indices)
    order = [i for i in builtins.range(x._rank) if i != axis] + [axis]
    y = _ops.take_along_last(_tandem.transpose(x, order), _tandem.transpose(indices, order))
    return _tandem.transpose(y, [int(i) for i in np.argsort(order)])


@op
def one_hot(x, num_classes, axis=-1, dtype=None, sparse=False):
    """Integers as vectors with a one at their place."""
    return _ops.one_hot(x, num_classes, axis=axis, dtype=dtype or "float32")


@op
def multi_hot(inputs, num_classes=None, axis=-1, dtype=None, sparse=False):
    """Rows of integers as vectors with ones at their places."""
    if num_classes is None:
        raise ValueError("Argument `num_classes` must be specified")
    hot = one_hot(inputs, num_classes, axis=axis, dtype=dtype)
    return _tandem.reduce_max(hot, 1 if len(inputs.shape) > 1 else 0, False)


def _triangle(f):
    def call(x, k=0):
        x = _c(x)
        return _tandem.where(f(np.ones([int(s) for s in x._sizes[-2:]], bool), k), x, _tandem.zeros_like(x))

    return op(call)


tril, triu = _triangle(np.tril), _triangle(np.triu)
scatter = op(lambda indices, values, shape: _ops.scatter_nd(indices, values, shape))


@op
def scatter_update(inputs, indices, updates, reduction=None):
    """The tensor with other values at places: in place of those there, added to them, or what is larger, smaller or the product."""
    kinds = {None: "update", "add": "add", "max": "max", "min": "min", "mul": None}
    if reduction not in kinds:
        raise ValueError(f"reduction must be one of {', '.join(repr(k) for k in kinds)}. Received: {reduction!r}")
    if reduction == "mul":
        x, indices, updates = _c(inputs), _c(indices), _c(updates)
        depth = int(indices._sizes[-1])
        flat, rows = _tandem.reshape(updates, [-1, *x._sizes[depth:]]), _tandem.reshape(indices, [-1, depth])
        for i in builtins.range(int(rows._sizes[0])):
            ones_with = _ops.tensor_scatter_nd_update(_ops.ones_like(x), rows[i : i + 1], flat[i : i + 1])
            x = x * ones_with
        return x
    from tandem._ops import rarer

    home = rarer if reduction == "min" else _ops
    return getattr(home, f"tensor_scatter_nd_{kinds[reduction]}")(inputs, indices, updates)


segment_sum = op(lambda data, segment_ids, num_segments=None, sorted=False: _ops.segment_sum(data, segment_ids, num_segments))
segment_max = op(lambda data, segment_ids, num_segments=None, sorted=False: _ops.segment_max(data, segment_ids, num_segments))
@op
def bincount(x, weights=None, minlength=0, sparse=False):
    """How often each integer occurs, or the sums of their weights; of each row by itself where there are several."""
    x = _c(x)
    weights = None if weights is None else _c(weights)
    if x._rank < 2:
        return _ops.bincount(x, weights, minlength)
    size = builtins.max(int(_ops.host(np.max, x)) + 1, int(minlength))
    return _ops.stack([_ops.bincount(x[i], None if weights is None else weights[i], size) for i in builtins.range(int(x._sizes[0]))], 0)


count_nonzero = op(lambda x, axis=None: _ops.count_nonzero(x, axis, dtype="int32"))
nonzero = lambda x: tuple(_tandem.unstack(_tandem.cast(_tandem.transpose(_ops.where(x), [1, 0]), 5), 0))  # noqa: E731
@op
def isclose(x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False):
    """True where elements are close."""
    a, b = _matched(x1, x2)
    a, b = _float(a), _float(b)
    close = _tandem.abs(a - b) <= atol + rtol * _tandem.abs(b)
    finite = _tandem.logical_and(_tandem.is_finite(a), _tandem.is_finite(b))
    close = _tandem.where(finite, close, _tandem.equal(a, b))
    return _tandem.logical_or(close, _tandem.logical_and(_tandem.is_nan(a), _tandem.is_nan(b))) if equal_nan else close


@op
def average(x, axis=None, weights=None):
    """The mean over axes, each element with its weight."""
    x = _float(x)
    if weights is None:
        return _tandem.reduce_mean(x, axis, False)
    x, w = _matched(x, _float(weights))
    if isinstance(axis, int) and w._rank == 1 and x._rank > 1:
        w = _tandem.reshape(w, [-1 if i == axis % x._rank else 1 for i in builtins.range(x._rank)])
    w = _tandem.broadcast_to(w, x._sizes)
    return _tandem.reduce_sum(x * w, axis, False) / _tandem.reduce_sum(w, axis, False)


@op
def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    """The elements with numbers in the place of NaN and infinities."""
    x = _c(x)
    if not x.dtype.is_floating:
        return x
    number = lambda v: _tandem.fill((), float(v), x._code)  # noqa: E731
    x = _tandem.where(_tandem.is_nan(x), number(nan), x)
    x = _tandem.where(_tandem.equal(x, float("inf")), number(x.dtype.max if posinf is None else posinf), x)
    return _tandem.where(_tandem.equal(x, float("-inf")), number(x.dtype.min if neginf is None else neginf), x)


@op
def normalize(x, axis=-1, order=2, epsilon=None):
    """x divided by its norm along an axis."""
    if not isinstance(order, int) or order < 1:
        raise ValueError(f"Argument `order` must be an int >= 1. Received: order={order}")
    x = _float(x)
    epsilon = 1e-7 if epsilon is None else float(epsilon)
    if order == 2:
        return _nn.l2_normalize(x, axis, epsilon * epsilon)
    return x / _tandem.maximum(_this.norm(x, ord=order, axis=axis, keepdims=True), epsilon)


moments = op(lambda x, axes, keepdims=False, synchronized=False: _nn.moments(x, axes, keepdims=keepdims))
searchsorted = _ops.searchsorted
unravel_index = lambda indices, shape: [_c(i.astype(np.asarray(indices).dtype)) for i in np.unravel_index(np.asarray(indices), shape)]  # noqa: E731


# ---- Networks ----


def categorical_crossentropy(target, output, from_logits=False, axis=-1):
    """The cross entropy of distributions over classes."""
    return _cce(target, output, from_logits, 0.0, axis)


def sparse_categorical_crossentropy(target, output, from_logits=False, axis=-1):
    """The cross entropy of classes that are given by number."""
    return _scce(target, output, from_logits, None, axis)


@op
def binary_crossentropy(target, output, from_logits=False):
    """The cross entropy of yes-or-no predictions, element by element."""
    from tandem.keras.losses import _binary_losses

    return _binary_losses(target, output, from_logits, 0.0)[2]


def _pair(v, n=2):
    v = [v] * n if isinstance(v, int) else list(v)
    return v[1:-1] if len(v) == n + 2 else v  # TensorFlow's lists name all axes.


def _segments(segment_ids, num_segments):
    return int(num_segments) if num_segments is not None else int(_ops.host(np.max, _c(segment_ids))) + 1


# ---- Flow ----


def cond(pred, true_fn, false_fn):
    """true_fn() or false_fn() by a predicate, which may be a tensor of a trace."""
    return _ops.cond(pred, true_fn, false_fn)


def while_loop(cond, body, loop_vars, maximum_iterations=None):
    """Calls body on the loop variables as long as cond holds."""
    return _ops.while_loop(cond, body, loop_vars, maximum_iterations=maximum_iterations)


def fori_loop(lower, upper, body_fun, init_val):
    """Calls body_fun(i, value) for each i from lower up to but without upper."""
    init_val = nest.map_structure(_tandem.convert, init_val) if nest.is_nested(init_val) else _tandem.convert(init_val)
    for i in builtins.range(int(lower), int(upper)):
        init_val = body_fun(i, init_val)
    return init_val


def map(f, xs):
    """f of each slice along the first axis, stacked."""
    return _ops.map_fn(f, xs)


def vectorized_map(function, elements):
    """A function of each slice along the first axis, stacked."""
    return map(function, elements)


def scan(f, init, xs=None, length=None, reverse=False, unroll=1):
    """Carries a value through f of each slice along the first axis, and stacks what f gives besides."""
    items = _ops.flow._elements(xs) if xs is not None else [None] * int(length)
    results = []
    for item in items[::-1] if reverse else items:
        init, out = f(init, item)
        results.append(out)
    return init, _ops.flow._stacked(results[::-1] if reverse else results)


def custom_gradient(f):
    """A function with a gradient of its own: f returns its value and the function of the gradient."""
    from tandem._tracing.tape import custom_gradient as decorate

    return decorate(f)


def slice(inputs, start_indices, shape):
    """The part that begins at start_indices and has a shape."""
    return _ops.slice(inputs, start_indices, shape)


def slice_update(inputs, start_indices, updates):
    """The tensor with other values in the part that begins at start_indices."""
    x = _c(inputs)
    places = np.stack(np.meshgrid(*[np.arange(int(s), int(s) + int(n)) for s, n in zip(start_indices, updates.shape)], indexing="ij"), -1)
    return _ops.tensor_scatter_nd_update(x, places.astype(np.int32), updates)


def get_item(x, key):
    """x[key]."""
    return x[key]


class image(metaclass=_missing.Namespace):
    """The functions of keras.ops.image."""

    @staticmethod
    def resize(images, size, interpolation="bilinear", antialias=False, crop_to_aspect_ratio=False, pad_to_aspect_ratio=False, fill_mode="constant", fill_value=0.0, data_format=None):
        from tandem.keras.ops import _image

        return _image.resize(images, size, interpolation, antialias, crop_to_aspect_ratio, pad_to_aspect_ratio, fill_mode, fill_value, data_format)

    @staticmethod
    def rgb_to_grayscale(images, data_format=None):
        from tandem import image as own
        from tandem.keras.ops import _image

        return _image.formatted(images, data_format, own.rgb_to_grayscale)

    @staticmethod
    def extract_patches(images, size, strides=None, dilation_rate=1, padding="valid", data_format=None):
        from tandem import image as own
        from tandem.keras.ops import _image

        if not isinstance(size, int) and len(size) == 3:
            return _image.extract_patches_3d(images, size, strides, dilation_rate, padding, data_format)
        size = _pair(size)
        strides = size if strides is None else _pair(strides)
        patches = lambda x: own.extract_patches(x, [1] + size + [1], [1] + strides + [1], [1] + _pair(dilation_rate) + [1], padding.upper())  # noqa: E731
        images = _tandem.convert(images)
        single = images._rank == 3
        found = _image.formatted(_tandem.expand_dims(images, 0) if single else images, data_format, patches)
        return _tandem.squeeze(found, [0]) if single else found

    @staticmethod
    def pad_images(images, top_padding=None, left_padding=None, bottom_padding=None, right_padding=None, target_height=None, target_width=None, data_format=None):
        from tandem.keras.ops import _image

        if _image.is_first(data_format):
            given = dict(top_padding=top_padding, left_padding=left_padding, bottom_padding=bottom_padding, right_padding=right_padding, target_height=target_height, target_width=target_width)
            return _image.formatted(images, data_format, lambda x: image.pad_images(x, **given, data_format="channels_last"))
        x = _c(images)
        h, w = int(x._sizes[-3]), int(x._sizes[-2])
        top_padding = target_height - h - bottom_padding if top_padding is None and target_height is not None and bottom_padding is not None else top_padding or 0
        left_padding = target_width - w - right_padding if left_padding is None and target_width is not None and right_padding is not None else left_padding or 0
        bottom = target_height - h - top_padding if bottom_padding is None else bottom_padding
        right = target_width - w - left_padding if right_padding is None else right_padding
        return _tandem.pad(x, [(0, 0)] * (x._rank - 3) + [(top_padding or 0, bottom), (left_padding or 0, right), (0, 0)], 0.0)

    @staticmethod
    def crop_images(images, top_cropping=None, left_cropping=None, bottom_cropping=None, right_cropping=None, target_height=None, target_width=None, data_format=None):
        from tandem.keras.ops import _image

        if _image.is_first(data_format):
            given = dict(top_cropping=top_cropping, left_cropping=left_cropping, bottom_cropping=bottom_cropping, right_cropping=right_cropping, target_height=target_height, target_width=target_width)
            return _image.formatted(images, data_format, lambda x: image.crop_images(x, **given, data_format="channels_last"))
        x = _c(images)
        h, w = int(x._sizes[-3]), int(x._sizes[-2])
        top = h - target_height - bottom_cropping if top_cropping is None and target_height is not None and bottom_cropping is not None else top_cropping or 0
        left = w - target_width - right_cropping if left_cropping is None and target_width is not None and right_cropping is not None else left_cropping or 0
        height = target_height if target_height is not None else h - top - (bottom_cropping or 0)
        width = target_width if target_width is not None else w - left - (right_cropping or 0)
        return x[..., top : top + height, left : left + width, :]


from tandem.keras.ops import _image  # noqa: E402

for _name in ("affine_transform", "elastic_transform", "gaussian_blur", "hsv_to_rgb", "map_coordinates", "perspective_transform", "rgb_to_hsv", "extract_patches_3d", "scale_and_translate", "sobel_edges", "ssim"):
    setattr(image, _name, staticmethod(getattr(_image, _name)))


class linalg(metaclass=_missing.Namespace):
    """The functions of keras.ops.linalg."""


from tandem.keras.ops import _matrices, _networks  # noqa: E402
from tandem.keras.ops import _numpy as _rarer  # noqa: E402

for _module in (_matrices, _networks, _rarer):
    for _name in vars(_module):
        if not _name.startswith("_") and _name not in ("builtins", "np", "dtypes", "op", "o", "format_of", "from_last", "to_last") and not hasattr(_this, _name):
            setattr(_this, _name, getattr(_module, _name))
for _name in ("inv", "det", "solve", "svd", "qr", "cholesky", "eigh", "eig", "norm", "pinv", "matrix_rank", "slogdet", "logdet", "lu_factor", "jvp"):
    setattr(linalg, _name, staticmethod(getattr(_matrices, _name)))
for _name in ("lstsq", "solve_triangular", "cholesky_inverse"):
    setattr(linalg, _name, staticmethod(getattr(_rarer, _name)))


def ctc_loss(target, output, target_length, output_length, mask_index=0):
    """The cost of writing the targets, of logits [batch, time, classes]; the class `mask_index` is the blank."""
    return _nn.ctc_loss(target, output, target_length, output_length, logits_time_major=False, blank_index=mask_index)


def ctc_decode(inputs, sequence_lengths, strategy="greedy", beam_width=100, top_paths=1, merge_repeated=True, mask_index=0):
    """The likeliest labels of [batch, time, classes], as [paths, batch, time] filled up with -1.

    Besides, minus the sums of their logits, or with strategy="beam_search" the logarithms of their probabilities.
    """
    from tandem._ops import decoding
    from tandem._ops.rarer import best_path

    if strategy not in ("greedy", "beam_search"):
        raise ValueError(f"Invalid strategy {strategy}. Supported values are 'greedy' and 'beam_search'.")
    x, lengths = _tandem.convert(inputs), _tandem.convert(sequence_lengths)
    blank = int(x._sizes[-1]) - 1 if mask_index is None else mask_index % int(x._sizes[-1])
    if strategy == "greedy":
        paths, scores = _ops.host(lambda x, n: best_path(x, n, blank, merge_repeated), x, lengths)
        return _tandem.convert(decoding.filled([paths], int(x._sizes[1]))), _tandem.convert(-scores[:, None])

    def decode(x, n):
        rotated = np.concatenate([np.delete(x, blank, -1), x[..., blank : blank + 1]], -1)
        return decoding.best_paths(rotated, n, beam_width, top_paths, False)

    paths, scores = _ops.host(decode, x, lengths)
    rows = decoding.filled([[row[k] for row in paths] for k in range(top_paths)], int(x._sizes[1]))
    return _tandem.convert(rows + (rows >= blank)), _tandem.convert(scores)


nn = _this
numpy = _this


for _name, _f in list(vars(_this).items()):  # Models that are saved name their steps.
    if getattr(getattr(_f, "_raw", None), "__name__", "") == "<lambda>":
        _f.__name__ = _f._raw.__name__ = _name

_SIGNAL = ("fft", "fft2", "ifft2", "rfft", "irfft", "stft", "istft", "extract_sequences")


def __getattr__(name):
    if name in _SIGNAL:
        from tandem.keras.ops import _signal as _found

        return getattr(_found, name)
    if name in ("sparsemax", "sparse_sigmoid"):
        from tandem.keras import activations as _found

        return getattr(_found, name)
    if name in ("adaptive_average_pool", "adaptive_max_pool"):
        from tandem.keras.layers import adaptive as _found

        return getattr(_found, name)
    raise _missing.missing("keras.ops", name, _this)

_words.describe(__name__, globals())
