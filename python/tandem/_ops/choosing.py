"""Elements by conditions and places: where, gather, scatter, one_hot."""

import builtins

import _tandem
from tandem import dtypes
from tandem._names.lazy import np
from tandem._ops.base import _code, _has_texts, host, op
from tandem._ops.shaping import _product
from tandem._tensors.shape import DynamicSize, _is_size


@op
def where(condition, x=None, y=None, name=None):
    """x where the condition holds and y elsewhere; with the condition alone, the places where it holds."""
    condition = _tandem.convert(condition)
    if condition._code != 7:
        condition = _tandem.not_equal(condition, 0)
    if x is None and y is None:
        return _tandem.convert(host(lambda c: np.argwhere(c).astype(np.int64), condition))
    return _tandem.where(condition, x, y)


@op
def boolean_mask(tensor, mask, axis=None, name="boolean_mask"):
    """The elements along `axis` at which the mask is True."""
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
    """The slices of params along `axis` that the indices name."""
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
    """The parts of params whose leading indices are the rows of `indices`."""
    if _has_texts([params]):
        return _texts_at(params, indices, batch_dims)
    x, indices = _tandem.convert(params), _tandem.convert(indices)
    depth = int(indices._sizes[-1])
    if batch_dims:
        return _tandem.stack([gather_nd._raw(p, i, batch_dims - 1) for p, i in zip(x, indices)], 0)
    lead, rest = list(x._sizes[:depth]), list(x._sizes[depth:])
    flat = _flat_places(indices, lead)
    return _tandem.gather(_tandem.reshape(x, [_product(lead)] + rest), flat, 0)


def _texts_at(params, indices, batch_dims):
    """gather_nd of texts."""
    from tandem.strings import StringTensor

    array, places = StringTensor(params)._array, np.asarray(_tandem.convert(indices))
    if batch_dims:
        return StringTensor(np.stack([_texts_at(p, i, batch_dims - 1)._array for p, i in zip(array, places)]))
    return StringTensor(array[tuple(np.moveaxis(places, -1, 0))])


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
    """Zeros of a shape, to which the updates are added at their indices."""
    indices, updates = _tandem.convert(indices), _tandem.convert(updates)
    sizes = [int(s) if not isinstance(s, DynamicSize) else s._size for s in shape]
    depth = int(indices._sizes[-1])
    lead, rest = sizes[:depth], sizes[depth:]
    return _tandem.reshape(_scatter_add(_flat_places(indices, lead), updates, _product(lead), rest), sizes)


@op
def tensor_scatter_nd_add(tensor, indices, updates, name=None):
    """The tensor with the updates added at their indices."""
    x = _tandem.convert(tensor)
    return x + scatter_nd._raw(indices, _tandem.convert(updates, None, x._code), list(x._sizes))


@op
def tensor_scatter_nd_sub(tensor, indices, updates, name=None):
    """The tensor with the updates subtracted at their indices."""
    x = _tandem.convert(tensor)
    return x - scatter_nd._raw(indices, _tandem.convert(updates, None, x._code), list(x._sizes))


@op
def tensor_scatter_nd_update(tensor, indices, updates, name=None):
    """The tensor with the updates in the place of its elements at their indices."""
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
    """The tensor with the larger of its elements and the updates at their indices."""
    def scatter(t, i, u):
        result = t.copy()
        np.maximum.at(result, tuple(np.moveaxis(i, -1, 0)), u)
        return result

    return _tandem.convert(host(scatter, _tandem.convert(tensor), _tandem.convert(indices), _tandem.convert(updates)))


@op
def one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    """on_value at the index of each element along a new axis of size `depth`, off_value elsewhere."""
    if isinstance(on_value, (str, bytes)) or isinstance(off_value, (str, bytes)):
        raise TypeError("texts are chosen on the host")
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
