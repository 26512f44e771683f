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


def _one_diagonal(k, name):
    """The number of a diagonal; bands of several are given as two numbers."""
    numbers = np.ravel(np.asarray(k.numpy() if hasattr(k, "numpy") else k))
    if len(set(numbers.tolist())) != 1:
        raise NotImplementedError(f"tf.linalg.{name}: k={k!r}; one diagonal is accepted, as band_part is for several")
    return int(numbers[0])


def _places(k, count):
    """The rows and the columns of the elements of a diagonal."""
    return np.arange(count) + builtins.max(-k, 0), np.arange(count) + builtins.max(k, 0)


@op
def diag(diagonal, name="diag", k=0, num_rows=-1, num_cols=-1, padding_value=0, align="RIGHT_LEFT"):
    """Matrices with the given k-th diagonals, and the padding value elsewhere."""
    x, k = _tandem.convert(diagonal), _one_diagonal(k, "diag")
    n = int(x._sizes[-1])
    least = n + builtins.max(-k, 0), n + builtins.max(k, 0)
    if int(num_rows) <= 0 and int(num_cols) <= 0:
        least = (builtins.max(least),) * 2
    rows, columns = (int(given) if int(given) > 0 else own for given, own in zip((num_rows, num_cols), least))
    if k == 0 and rows == columns == n and not padding_value:
        return _tandem.expand_dims(x, -1) * _tandem.eye(n, -1, x._code)
    i, j = _places(k, n)
    if n == 0 or i[-1] >= rows or j[-1] >= columns:
        raise ValueError(f"tf.linalg.diag: a diagonal {k} of {n} elements does not fit into matrices of {rows} rows and {columns} columns")
    flat, inside = np.zeros(rows * columns, np.int32), np.zeros(rows * columns, bool)
    flat[i * columns + j], inside[i * columns + j] = np.arange(n), True
    spread = _tandem.gather(x, flat, x._rank - 1)
    filler = _tandem.fill((), 0.0, x._code) if not padding_value else _tandem.convert(padding_value, x._code)
    return _tandem.reshape(_tandem.where(inside, spread, filler), [*x._sizes[:-1], rows, columns])


@op
def diag_part(input, name="diag_part", k=0, padding_value=0, align="RIGHT_LEFT"):
    """The k-th diagonals of matrices."""
    x, k = _tandem.convert(input), _one_diagonal(k, "diag_part")
    rows, columns = int(x._sizes[-2]), int(x._sizes[-1])
    n = builtins.min(rows + builtins.min(k, 0), columns - builtins.max(k, 0))
    if n <= 0:
        raise ValueError(f"tf.linalg.diag_part: matrices of {rows} rows and {columns} columns have no diagonal {k}")
    low, right = builtins.max(-k, 0), builtins.max(k, 0)
    return _tandem.reduce_sum(x[..., low : low + n, right : right + n] * _tandem.eye(n, -1, x._code), -1, False)


@op
def set_diag(input, diagonal, name="set_diag", k=0, align="RIGHT_LEFT"):
    """The matrices with other k-th diagonals."""
    x, k = _tandem.convert(input), _one_diagonal(k, "set_diag")
    rows, columns = int(x._sizes[-2]), int(x._sizes[-1])
    wide = diag._raw(_tandem.convert(diagonal, None, x._code), k=k, num_rows=rows, num_cols=columns)
    return _tandem.where(np.eye(rows, columns, k, dtype=bool), wide, x)


@op
def trace(x, name=None):
    """The sum of the main diagonal of each matrix."""
    return _tandem.reduce_sum(diag_part._raw(x), -1, False)


@op
def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None):
    """The norm of vectors: "euclidean", 1, 2, inf or another order; over two axes that of matrices: "euclidean", "fro", 1, 2 or inf."""
    x = _tandem.convert(tensor)
    axis, keep = _axes(axis), builtins.bool(keepdims)
    if isinstance(axis, (list, tuple)) and len(axis) == 2 and ord not in ("euclidean", "fro"):
        if ord not in (1, 2, np.inf, "inf"):
            raise ValueError(f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {ord}")
        from tandem.keras.ops._matrices import _matrix_norm

        return _matrix_norm(x, np.inf if ord == "inf" else ord, [a % x._rank for a in axis], keep)
    if ord in ("euclidean", "fro", 2):
        return _tandem.sqrt(_tandem.reduce_sum(x * x, axis, keep))
    if ord == 1:
        return _tandem.reduce_sum(_tandem.abs(x), axis, keep)
    if ord in (np.inf, "inf"):
        return _tandem.reduce_max(_tandem.abs(x), axis, keep)
    return _tandem.pow(_tandem.reduce_sum(_tandem.pow(_tandem.abs(x), float(ord)), axis, keep), 1.0 / ord)
