"""The shapes of tensors, and tensors of other shapes."""

import builtins

import _tandem
from tandem import dtypes
from tandem._names.lazy import np
from tandem._ops.base import _code, _is_string_tensor, _texts, host, op
from tandem._ops.creation import constant
from tandem._tensors.shape import DynamicShape, DynamicSize, TensorShape, _is_size
from tandem._tensors.tensor import Tensor
from tandem.errors import InvalidArgumentError


@op
def shape(input, out_type=dtypes.int32, name=None):
    """The sizes of a tensor's axes, as a tensor."""
    if getattr(input, "_is_text_tensor", False):
        return _tandem.convert(np.array(input.shape.as_list(), np.int32))
    x = _tandem.convert(input)
    if x._is_symbolic:
        return DynamicShape(x._sizes, lambda: _tandem.shape(x, _code(out_type)))
    return _tandem.convert(np.array(x._sizes, np.int32), _code(out_type))


def shape_n(input, out_type=dtypes.int32, name=None):
    """The sizes of the axes of each tensor of a list."""
    return [shape(x, out_type) for x in input]


@op
def size(input, out_type=dtypes.int32, name=None):
    """The number of elements."""
    return _tandem.size(input, _code(out_type))


@op
def rank(input, name=None):
    """The number of axes."""
    return _tandem.convert(_tandem.convert(input)._rank, 5)


def broadcast_static_shape(shape_x, shape_y):
    """The TensorShape that two shapes broadcast to."""
    return TensorShape(np.broadcast_shapes(tuple(shape_x), tuple(shape_y)))


def broadcast_dynamic_shape(shape_x, shape_y):
    """The shape that two shapes broadcast to, as a tensor."""
    return constant(list(np.broadcast_shapes(tuple(int(s) for s in shape_x), tuple(int(s) for s in shape_y))))


def ensure_shape(x, shape, name=None):
    """The tensor itself; raises unless its shape is compatible."""
    x = x if hasattr(x, "shape") else _tandem.convert(x)
    if not x.shape.is_compatible_with(shape):
        wanted = ",".join("?" if s is None else str(s) for s in TensorShape(shape).as_list())
        raise InvalidArgumentError(f"Shape of tensor {x.name if isinstance(x, Tensor) and x._is_symbolic else 'input'} {list(x.shape)} is not compatible with expected shape [{wanted}].")
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
    """The same elements in another shape; one size may be -1."""
    if _is_string_tensor(tensor):
        return _texts(tensor._array.reshape([int(s) for s in np.atleast_1d(np.asarray(shape))]))
    x = _tandem.convert(tensor)
    return _tandem.reshape(x, _reshape_sizes(x, shape))


@op
def expand_dims(input, axis, name=None):
    """The tensor with an axis of size 1 inserted."""
    if _is_string_tensor(input):
        return _texts(np.expand_dims(input._array, int(axis)))
    x = _tandem.convert(input)
    return _tandem.expand_dims(x, int(axis))


@op
def squeeze(input, axis=None, name=None):
    """The tensor without the named axes of size 1, or without all of them."""
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
    """The tensor with its axes in another order; reversed without one."""
    x = _tandem.convert(a)
    if perm is None:
        return _tandem.transpose(x, [])
    return _tandem.transpose(x, [int(p) % builtins.max(x._rank, 1) for p in perm])


@op
def broadcast_to(input, shape, name=None):
    """The tensor repeated along axes of size 1 up to a shape."""
    return _tandem.broadcast_to(input, shape)


@op
def tile(input, multiples, name=None):
    """The tensor repeated a number of times along each axis."""
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
    """Each element repeated along an axis."""
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
    """Tensors one after another along an axis they have."""
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
    """Tensors of one shape along a new axis."""
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
    """The slices along an axis, as a list."""
    return _tandem.unstack(value, int(axis))


@op
def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    """Parts along an axis: so many equal ones, or of the given sizes."""
    x = _tandem.convert(value)
    if isinstance(num_or_size_splits, (list, tuple, np.ndarray, Tensor)) and not (
        isinstance(num_or_size_splits, Tensor) and num_or_size_splits._rank == 0
    ):
        return _tandem.split_sizes(x, num_or_size_splits, int(axis))
    return _tandem.split(x, int(num_or_size_splits), int(axis))


@op
def slice(input_, begin, size, name=None):
    """The part of a tensor that begins at `begin` and has `size`; -1 is all the rest."""
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
    """The part of a tensor from begin to end in strides, with TensorFlow's masks."""
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
    """The tensor with constants or mirrored elements around it."""
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
    """The elements in reversed order along axes."""
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
    """The elements shifted along axes; what leaves at one end comes in at the other."""
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
    """The elements as another dtype."""
    if getattr(x, "_is_text_tensor", False):
        raise TypeError("strings cannot be cast; see tf.strings.to_number")
    if dtypes.as_dtype(dtype).is_complex:
        from tandem._tensors.complex import as_complex

        return as_complex(x, dtype=dtype)
    if hasattr(x, "dense_shape"):
        return x.with_values(_tandem.cast(x.values, _code(dtype)))
    return _tandem.cast(x, _code(dtype))


def to_float(x):
    """The elements as float32."""
    return cast(x, dtypes.float32)


@op
def bitcast(input, type, name=None):
    """The same bytes as elements of another dtype."""
    x, kind = _tandem.convert(input), np.dtype(dtypes.as_dtype(type).as_numpy_dtype)

    def viewed(a):
        a = np.ascontiguousarray(a).reshape(a.shape)
        if kind.itemsize > a.dtype.itemsize:
            if not a.ndim or a.shape[-1] * a.dtype.itemsize != kind.itemsize:
                raise InvalidArgumentError(f"Cannot bitcast from {x.dtype.name} to {kind.name}: the last axis of {list(a.shape)} does not have the bytes of one element")
            return a.view(kind)[..., 0]
        return a.view(kind) if kind.itemsize == a.dtype.itemsize else a[..., None].view(kind)

    return _tandem.convert(host(viewed, x))


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
