"""Diagonals, bands and norms of matrices."""

import builtins

import _tandem
from tandem._names.lazy import np
from tandem._ops.base import op
from tandem._ops.reduction import _axes


@op
def band_part(input, num_lower, num_upper, name=None):
    """The matrix with zeros outside of num_lower and num_upper diagonals around the main one; -1 keeps all."""
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
    """Matrices with the given diagonals, zeros elsewhere."""
    x = _tandem.convert(diagonal)
    n = int(x._sizes[-1])
    return _tandem.expand_dims(x, -1) * _tandem.eye(n, -1, x._code)


@op
def diag_part(input, name="diag_part", k=0, padding_value=0, align="RIGHT_LEFT"):
    """The diagonals of matrices."""
    x = _tandem.convert(input)
    rows, columns = int(x._sizes[-2]), int(x._sizes[-1])
    n = builtins.min(rows, columns)
    return _tandem.reduce_sum(x[..., :n, :n] * _tandem.eye(n, -1, x._code), -1, False)


@op
def set_diag(input, diagonal, name="set_diag", k=0, align="RIGHT_LEFT"):
    """The matrices with other diagonals."""
    x, d = _tandem.convert(input), _tandem.convert(diagonal)
    rows, columns = int(x._sizes[-2]), int(x._sizes[-1])
    mask = np.eye(rows, columns, dtype=bool)
    wide = _tandem.expand_dims(d, -1) if rows <= columns else _tandem.expand_dims(d, -2)
    return _tandem.where(mask, _tandem.broadcast_to(wide, list(x._sizes)), x)


@op
def trace(x, name=None):
    """The sum of the main diagonal of each matrix."""
    return _tandem.reduce_sum(diag_part._raw(x), -1, False)


@op
def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None):
    """The norm of vectors or matrices: "euclidean", "fro", 1, 2, inf or another order."""
    x = _tandem.convert(tensor)
    axis, keep = _axes(axis), builtins.bool(keepdims)
    if ord in ("euclidean", "fro", 2):
        return _tandem.sqrt(_tandem.reduce_sum(x * x, axis, keep))
    if ord == 1:
        return _tandem.reduce_sum(_tandem.abs(x), axis, keep)
    if ord in (np.inf, "inf"):
        return _tandem.reduce_max(_tandem.abs(x), axis, keep)
    return _tandem.pow(_tandem.reduce_sum(_tandem.pow(_tandem.abs(x), float(ord)), axis, keep), 1.0 / ord)
