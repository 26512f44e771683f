"""Matrices by Keras's names, keras.ops.linalg, and what NumPy does with diagonals, products and views of vectors."""

import builtins

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._ops import op
from tandem.keras import ops as o

_c = _tandem.convert


def _tf():
    from tandem import linalg

    return linalg


def _complex(real, imag):
    from tandem._ops import rarer

    return rarer.complex(real, imag)


def _turned(x):
    x = _c(x)
    return _tandem.transpose(x, [*range(x._rank - 2), x._rank - 1, x._rank - 2])


@op
def cholesky(x, upper=False):
    """The triangular factor of positive definite matrices: lower, or where asked for upper."""
    factor = _tf().cholesky(o._float(x))
    return _turned(factor) if upper else factor


@op
def det(x):
    """The determinants of matrices."""
    return _tf().det(o._float(x))


@op
def eigh(x):
    """The eigenvalues and eigenvectors of symmetric matrices."""
    return tuple(_tf().eigh(o._float(x)))


@op
def eig(x):
    """The eigenvalues and eigenvectors of matrices, as complex values."""
    return tuple(_tf().eig(o._float(x)))


@op
def inv(x):
    """The inverses of matrices."""
    return _tf().inv(o._float(x))


@op
def solve(a, b):
    """The x with a x = b, for a vector or the columns of a matrix."""
    a, b = o._float(a), o._float(b)
    if b._rank == a._rank - 1:
        return _tandem.squeeze(_tf().solve(a, _tandem.expand_dims(b, -1)), [-1])
    return _tf().solve(a, b)


@op
def qr(x, mode="reduced"):
    """An orthogonal and an upper triangular factor; with the mode 'complete' the orthogonal one is square."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"`mode` argument value not supported. Expected one of {{'reduced', 'complete'}}. Received: mode={mode}")
    return tuple(_tf().qr(o._float(x), full_matrices=mode == "complete"))


@op
def svd(x, full_matrices=True, compute_uv=True):
    """u, the singular values and the transpose of v, as NumPy has them; or the singular values alone."""
    found = _tf().svd(o._float(x), full_matrices=full_matrices, compute_uv=compute_uv)
    if not compute_uv:
        return found
    s, u, v = found
    return u, s, _turned(v)


@op
def logdet(x):
    """The logarithm of the determinant of positive definite matrices."""
    return _tf().logdet(o._float(x))


@op
def slogdet(x):
    """The sign and the logarithm of the absolute value of determinants."""
    return tuple(_tf().slogdet(o._float(x)))


@op
def pinv(x, rcond=None):
    """The pseudoinverses of matrices."""
    return _tf().pinv(o._float(x), rcond)


@op
def matrix_rank(x, tol=None):
    """The number of singular values above a tolerance."""
    x = o._float(x)
    if tol is None:
        return _tf().matrix_rank(x)
    values = _tf().svd(x, compute_uv=False)
    return _tandem.reduce_sum(_tandem.cast(values > _c(tol, values._code), 5), -1, False)


@op
def lu_factor(x):
    """L and U in one matrix, and which row each was exchanged with."""
    import builtins as _builtins

    def factor(a):
        a = np.array(a, np.float64 if a.dtype == np.float64 else np.float32)
        flat = a.reshape(-1, *a.shape[-2:])
        pivots = np.zeros((len(flat), _builtins.min(a.shape[-2:])), np.int32)
        for m, pivot in zip(flat, pivots):
            for i in range(len(pivot)):
                best = i + int(np.argmax(np.abs(m[i:, i])))
                pivot[i] = best
                m[[i, best]] = m[[best, i]]
                m[i + 1 :, i] /= m[i, i]
                m[i + 1 :, i + 1 :] -= np.outer(m[i + 1 :, i], m[i, i + 1 :])
        return flat.reshape(a.shape), pivots.reshape(*a.shape[:-2], -1)

    lower_upper, pivots = _ops.host(factor, o._float(x))
    return _c(lower_upper), _c(pivots)


def _vector_norm(x, order, axis, keepdims):
    size = _tandem.abs(x)
    if order in (None, 2):
        return _tandem.sqrt(_tandem.reduce_sum(x * x, axis, keepdims))
    if order == np.inf:
        return _tandem.reduce_max(size, axis, keepdims)
    if order == -np.inf:
        return _tandem.reduce_min(size, axis, keepdims)
    if order == 0:
        return _tandem.reduce_sum(_tandem.cast(_tandem.not_equal(x, 0.0), x._code), axis, keepdims)
    if order == 1:
        return _tandem.reduce_sum(size, axis, keepdims)
    return _tandem.pow(_tandem.reduce_sum(_tandem.pow(size, float(order)), axis, keepdims), 1.0 / float(order))


def _matrix_norm(x, order, axes, keepdims):
    rows, columns = axes
    largest = _tandem.reduce_max if order in (1, 2, np.inf) else _tandem.reduce_min
    if order in (None, "fro"):
        return _tandem.sqrt(_tandem.reduce_sum(x * x, [rows, columns], keepdims))
    if order in (1, -1, np.inf, -np.inf):
        first, second = (rows, columns) if abs(order) == 1 else (columns, rows)
        return largest(_tandem.reduce_sum(_tandem.abs(x), first, True), [rows, columns], keepdims) if keepdims else _tandem.squeeze(largest(_tandem.reduce_sum(_tandem.abs(x), first, True), second, True), sorted([rows, columns]))
    if order in (2, -2, "nuc"):
        rest = [i for i in range(x._rank) if i not in axes]
        values = _tf().svd(_tandem.transpose(x, [*rest, rows, columns]), compute_uv=False)
        y = _tandem.reduce_sum(values, -1, False) if order == "nuc" else largest(values, -1, False)
        return o.expand_dims(y, sorted(axes)) if keepdims else y
    raise ValueError(f"Invalid `ord` argument for a matrix norm. Received: ord={order}; 'fro', 'nuc', 1, -1, 2, -2 and infinities are accepted")


@op
def norm(x, ord=None, axis=None, keepdims=False):  # noqa: A002
    """The norms of vectors or, over two axes, of matrices, as NumPy has them."""
    x = o._float(x)
    if axis is None and ord is None:
        flat = _vector_norm(_tandem.reshape(x, (-1,)), None, 0, False)
        return _tandem.reshape(flat, [1] * x._rank) if keepdims else flat
    axes = list(range(x._rank)) if axis is None else [a % x._rank for a in ([axis] if isinstance(axis, int) else axis)]
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid `ord` argument for a vector norm. Received: ord={ord}")
        return _vector_norm(x, ord, axes[0], builtins.bool(keepdims))
    if len(axes) != 2:
        raise ValueError(f"Invalid axis values. Received: axis={tuple(axes)}; one axis or two are accepted")
    return _matrix_norm(x, ord, axes, builtins.bool(keepdims))


def jvp(fun, primals, tangents, has_aux=False):
    """The value of a function, and its derivative in a direction."""
    from tandem.autodiff import ForwardAccumulator

    primals, tangents = [_c(p) for p in primals], [_c(t) for t in tangents]
    with ForwardAccumulator(primals, tangents) as forward:
        found = fun(*primals)
    value, aux = found if has_aux else (found, None)
    derivative = forward.jvp(value, unconnected_gradients="zero")
    return (value, derivative, aux) if has_aux else (value, derivative)


# ---- Products and diagonals ----


@op
def cross(x1, x2, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The cross products of vectors of three or two elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = o._matched(x1, x2)
    a, b = o.moveaxis(_c(a), axisa, -1), o.moveaxis(_c(b), axisb, -1)
    sizes = int(a._sizes[-1]), int(b._sizes[-1])
    if any(s not in (2, 3) for s in sizes):
        raise ValueError(f"`x1`'s and `x2`'s dim must be 2 or 3 along the axes of the vectors. Received: {sizes}")
    part = lambda v, i: v[..., i] if i < int(v._sizes[-1]) else _tandem.zeros_like(v[..., 0])  # noqa: E731
    at = [(part(a, (i + 1) % 3) * part(b, (i + 2) % 3)) - (part(a, (i + 2) % 3) * part(b, (i + 1) % 3)) for i in range(3)]
    if sizes == (2, 2):
        return at[2]
    y = _tandem.stack(at, at[0]._rank)
    return o.moveaxis(y, -1, axisc)


def _diagonal_places(rows, columns, offset):
    count = builtins.max(0, builtins.min(rows + builtins.min(offset, 0), columns - builtins.max(offset, 0)))
    return np.arange(count) + builtins.max(-offset, 0), np.arange(count) + builtins.max(offset, 0)


@op
def diagonal(x, offset=0, axis1=0, axis2=1):
    """The diagonals of the matrices along two axes."""
    x = _c(x)
    axis1, axis2 = axis1 % x._rank, axis2 % x._rank
    rest = [i for i in range(x._rank) if i not in (axis1, axis2)]
    rows, columns = int(x._sizes[axis1]), int(x._sizes[axis2])
    i, j = _diagonal_places(rows, columns, int(offset))
    moved = _tandem.transpose(x, [*rest, axis1, axis2])
    flat = _tandem.reshape(moved, [*(x._sizes[a] for a in rest), rows * columns])
    return _tandem.gather(flat, (i * columns + j).astype(np.int32), len(rest))


@op
def trace(x, offset=0, axis1=0, axis2=1):
    """The sums of diagonals."""
    y = diagonal(x, offset, axis1, axis2)
    y = _tandem.cast(y, 5) if y._code in (4, 7) else y
    return _tandem.reduce_sum(y, -1, False)


@op
def diag(x, k=0):
    """The k-th diagonal of a matrix, or a matrix with the given one."""
    x = _c(x)
    if x._rank == 2:
        return diagonal(x, k)
    if x._rank != 1:
        raise ValueError(f"`x` must be 1d or 2d. Received: x.shape={x.shape}")
    size = int(x._sizes[0]) + builtins.abs(int(k))
    i, j = _diagonal_places(size, size, int(k))
    return _ops.scatter_nd(np.stack([i, j], -1).astype(np.int32), x, (size, size))


# ---- The same bits ----


@op
def polar(abs_, angle):
    """Complex values of sizes and angles."""
    size, turn = o._matched(o._float(abs_), o._float(angle))
    return _complex(size * _tandem.cos(turn), size * _tandem.sin(turn))


@op
def view_as_complex(x):
    """Complex values of the pairs along the last axis."""
    x = _c(x)
    if not x._rank or x._sizes[-1] != 2:
        raise ValueError(f"Last dimension of input must be size 2 (real and imaginary). Received shape: {tuple(x.shape)}")
    return _complex(x[..., 0], x[..., 1])


@op
def view_as_real(x):
    """Real and imaginary parts along a new last axis."""
    from tandem._tensors.complex import as_complex

    x = as_complex(x)
    return _tandem.stack([x.real, x.imag], x.real._rank)


@op
def view(x, dtype=None):
    """The same bits as another dtype."""
    return _c(x) if dtype is None else _ops.bitcast(x, dtypes.as_dtype(dtype))
