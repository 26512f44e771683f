"""Sums, means and their kin over axes."""

import builtins

import _tandem
from tandem import dtypes
from tandem._names import words as _words
from tandem._names.lazy import np
from tandem._ops.base import _code, _has_texts, host, op
from tandem._tensors.tensor import Tensor


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
    """The square root of the sum of squares over axes."""
    x = _tandem.convert(input_tensor)
    if not x.dtype.is_floating:
        return _tandem.cast(reduce_euclidean_norm._raw(_tandem.cast(x, 1), axis, keepdims), x._code)
    return _tandem.sqrt(_tandem.reduce_sum(x * x, _axes(axis), builtins.bool(keepdims)))


@op
def count_nonzero(input, axis=None, keepdims=None, dtype=dtypes.int64, name=None):
    """How many elements are not zero, over axes; of texts, how many are not empty."""
    if _has_texts([input]):
        from tandem.strings import StringTensor

        input = StringTensor(input) != ""
    x = _tandem.convert(input)
    mask = x if x._code == 7 else _tandem.not_equal(x, 0)
    return _tandem.reduce_sum(_tandem.cast(mask, _code(dtype)), _axes(axis), builtins.bool(keepdims))


def _ordered(value):
    """False comes before True."""
    value = _tandem.convert(value)
    return _tandem.cast(value, 5) if value.dtype == dtypes.bool else value


@op
def argmax(input, axis=None, output_type=dtypes.int64, name=None):
    """The index of the largest element along an axis; the first of equals."""
    result = _tandem.argmax(_ordered(input), 0 if axis is None else int(axis))
    return result if _code(output_type) == 6 else _tandem.cast(result, _code(output_type))


@op
def argmin(input, axis=None, output_type=dtypes.int64, name=None):
    """The index of the smallest element along an axis; the first of equals."""
    result = _tandem.argmin(_ordered(input), 0 if axis is None else int(axis))
    return result if _code(output_type) == 6 else _tandem.cast(result, _code(output_type))


@op
def cumsum(x, axis=0, exclusive=False, reverse=False, name=None):
    """The sums of all elements up to each one along an axis."""
    return _tandem.cumsum(x, int(axis), exclusive, reverse)


@op
def cumprod(x, axis=0, exclusive=False, reverse=False, name=None):
    """The products of all elements up to each one along an axis."""
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
    """How often each integer occurs, or the sum of its weights."""
    def count(a, w):
        if axis is not None and a.ndim > 1:  # Each row by itself.
            size = builtins.max([int(a.max()) + 1 if a.size else 0, int(minlength or 0)])
            size = size if maxlength is None else builtins.min(size, int(maxlength))
            rows = [np.bincount(row.ravel(), None if w is None else w[i].ravel(), size)[:size] for i, row in enumerate(a)]
            result = np.stack(rows)
        else:
            result = np.bincount(a.ravel(), None if w is None else w.ravel(), int(minlength or 0))
            result = result[: int(maxlength)] if maxlength is not None else result
        return (result > 0).astype(result.dtype) if binary_output else result

    w = None if weights is None else host(lambda v: v, _tandem.convert(weights))
    return _tandem.convert(host(lambda a: count(a, w), _tandem.convert(arr)), _code(dtype) if weights is None else weights._code)


@op
def confusion_matrix(labels, predictions, num_classes=None, weights=None, dtype=dtypes.int32, name=None):
    """How often each label (row) was predicted as each class (column)."""
    labels, predictions = _tandem.cast(labels, 5), _tandem.cast(predictions, 5)
    if num_classes is None:
        num_classes = int(builtins.max(int(_tandem.reduce_max(labels, None, False)), int(_tandem.reduce_max(predictions, None, False)))) + 1
    one = _tandem.one_hot(_tandem.reshape(labels, (-1,)), int(num_classes), 1.0, 0.0, 0)
    if weights is not None:
        one = one * _tandem.expand_dims(_tandem.cast(weights, 0), -1)
    two = _tandem.one_hot(_tandem.reshape(predictions, (-1,)), int(num_classes), 1.0, 0.0, 0)
    return _tandem.cast(_tandem.matmul(one, two, True, False), _code(dtype))

_words.describe(__name__, globals())
