"""Matrices that are factorised, bands of matrices and functions of matrices, tf.linalg; by NumPy, on the host, unless said otherwise."""

import collections

import numpy as np

import _tandem
from tandem import _ops
from tandem._ops import host

ConjugateGradientResult = collections.namedtuple("ConjugateGradientResult", "i x r p gamma")


def _batched(f, a):
    """f of each matrix, whose results are stacked."""
    flat = a.reshape(-1, *a.shape[-2:])
    results = [f(m) for m in flat]
    if isinstance(results[0], tuple):
        return tuple(np.stack(r).reshape(*a.shape[:-2], *r[0].shape) for r in zip(*results))
    return np.stack(results).reshape(*a.shape[:-2], *results[0].shape)


def _factored(m):
    a, order = m.astype(np.float64), np.arange(len(m))
    for i in range(len(m)):
        pivot = i + int(np.argmax(np.abs(a[i:, i])))
        if pivot != i:
            a[[i, pivot]], order[[i, pivot]] = a[[pivot, i]], order[[pivot, i]]
        if a[i, i] != 0:
            a[i + 1 :, i] /= a[i, i]
            a[i + 1 :, i + 1 :] -= np.outer(a[i + 1 :, i], a[i, i + 1 :])
    return a.astype(m.dtype), order.astype(np.int32)


def lu(input, output_idx_type="int32", name=None):
    """The triangular factors of matrices in one, and the order of the rows."""
    factors, order = host(lambda a: _batched(_factored, a), _tandem.convert(input))
    return _tandem.convert(factors), _ops.cast(_tandem.convert(order), output_idx_type)


def _parts(lower_upper, perm):
    """L and U, and the rows' inverse order."""
    from tandem import linalg

    both = _tandem.convert(lower_upper)
    n = int(both._sizes[-1])
    upper = linalg.band_part(both, 0, -1)
    lower = both - upper + _tandem.eye(n, -1, both._code)
    return lower, upper, _ops.argsort(_tandem.convert(perm), -1)


def _rows(x, order):
    return _ops.gather(x, order) if order._rank == 1 else _ops.gather(x, order, batch_dims=order._rank - 1)


def lu_reconstruct(lower_upper, perm, validate_args=False, name=None):
    """The matrices of their triangular factors."""
    lower, upper, order = _parts(lower_upper, perm)
    return _rows(_tandem.matmul(lower, upper, False, False), order)


def lu_solve(lower_upper, perm, rhs, validate_args=False, name=None):
    """The solutions of systems whose triangular factors are known."""
    from tandem import linalg

    return linalg.solve(lu_reconstruct(lower_upper, perm), rhs)


def lu_matrix_inverse(lower_upper, perm, validate_args=False, name=None):
    """The inverses of matrices whose triangular factors are known."""
    from tandem import linalg

    return linalg.inv(lu_reconstruct(lower_upper, perm))


def _by_eigenvalues(name, f):
    def each(m):
        values, vectors = np.linalg.eig(m)
        return (vectors * f(values.astype(np.complex128))) @ np.linalg.inv(vectors)

    def call(input):
        from tandem._tensors.complex import ComplexTensor

        if isinstance(input, ComplexTensor):
            found = host(lambda a, b: _batched(each, a + 1j * b), input.real, input.imag)
            return ComplexTensor(*(_tandem.convert(np.ascontiguousarray(p), input.real._code) for p in (found.real, found.imag)))
        x = _tandem.convert(input)
        found = host(lambda a: _batched(each, a.astype(np.float64)), x)
        if np.abs(found.imag).max() > 1e-6 * max(1.0, np.abs(found.real).max()):
            raise ValueError(f"tf.linalg.{name}: the result is complex; give the matrix as a complex one (tf.cast)")
        return _tandem.convert(np.ascontiguousarray(found.real), x._code)

    return call


_root, _logarithm = _by_eigenvalues("sqrtm", np.sqrt), _by_eigenvalues("logm", np.log)


def sqrtm(input, name=None):
    """The matrices whose squares the given ones are; complex ones for complex matrices."""
    return _root(input)


def logm(input, name=None):
    """The matrices whose exponentials the given ones are; complex ones for complex matrices."""
    return _logarithm(input)


def eig(tensor, name=None):
    """Eigenvalues and eigenvectors of matrices, which are complex."""
    from tandem._tensors.complex import ComplexTensor

    values, vectors = host(np.linalg.eig, _tandem.convert(tensor))
    pair = lambda z: ComplexTensor(*(_tandem.convert(np.ascontiguousarray(p)) for p in (z.real, z.imag)))  # noqa: E731
    return pair(values), pair(vectors)


def eigvals(tensor, name=None):
    """Eigenvalues of matrices, which are complex."""
    return eig(tensor)[0]


# ---- Bands ----


def _diagonals(diagonals, form):
    """The upper, middle and lower diagonal, each as long as the middle one."""
    if form == "sequence":
        up, mid, low = (_tandem.convert(d) for d in diagonals)
        n = int(mid._sizes[-1])
        pad = lambda d, before: d if int(d._sizes[-1]) == n else _tandem.pad(d, [(0, 0)] * (d._rank - 1) + [(1, 0) if before else (0, 1)], 0.0)  # noqa: E731
        return pad(up, False), mid, pad(low, True)
    if form == "compact":
        d = _tandem.convert(diagonals)
        return d[..., 0, :], d[..., 1, :], d[..., 2, :]
    if form == "matrix":
        d = _tandem.convert(diagonals)
        n = int(d._sizes[-1])
        part = lambda k: _tandem.reduce_sum(d * _tandem.convert(np.eye(n, k=k), d._code), -1, False)  # noqa: E731
        return part(1), part(0), part(-1)
    raise ValueError(f"The diagonals_format is {form!r}; compact, sequence and matrix are accepted")


def _tridiagonal(diagonals, form):
    """The dense matrices."""
    up, mid, low = _diagonals(diagonals, form)
    n = int(mid._sizes[-1])
    at = lambda d, k: _tandem.expand_dims(d, -1) * _tandem.convert(np.eye(n, k=k), d._code)  # noqa: E731
    return at(up, 1) + at(mid, 0) + at(low, -1)


def tridiagonal_matmul(diagonals, rhs, diagonals_format="compact", name=None):
    """Products with matrices of three diagonals."""
    up, mid, low = (_tandem.expand_dims(d, -1) for d in _diagonals(diagonals, diagonals_format))
    x = _tandem.convert(rhs)
    none = [(0, 0)] * (x._rank - 2)
    below = _tandem.pad(x[..., 1:, :], [*none, (0, 1), (0, 0)], 0.0)
    above = _tandem.pad(x[..., :-1, :], [*none, (1, 0), (0, 0)], 0.0)
    return mid * x + up * below + low * above


def tridiagonal_solve(diagonals, rhs, diagonals_format="compact", transpose_rhs=False, conjugate_rhs=False, name=None, partial_pivoting=True, perturb_singular=False):
    """The solutions of systems of three diagonals."""
    from tandem import linalg

    x = _tandem.convert(rhs)
    matrix = _tridiagonal(diagonals, diagonals_format)
    is_vector = x._rank == matrix._rank - 1
    x = _tandem.expand_dims(x, -1) if is_vector else linalg.matrix_transpose(x) if transpose_rhs else x
    y = linalg.solve(matrix, x)
    return _tandem.squeeze(y, [-1]) if is_vector else linalg.matrix_transpose(y) if transpose_rhs else y


def banded_triangular_solve(bands, rhs, lower=True, adjoint=False, name=None):
    """The solutions of triangular systems of a few diagonals: `bands` has the main one first if they are lower, last else."""
    from tandem import linalg

    b = _tandem.convert(bands)
    count, n = int(b._sizes[-2]), int(b._sizes[-1])
    matrix = None
    for i in range(count):
        k = -i if lower else count - 1 - i
        part = _tandem.expand_dims(b[..., i, :], -1) * _tandem.convert(np.eye(n, k=k), b._code)
        matrix = part if matrix is None else matrix + part
    return linalg.solve(matrix, rhs, adjoint)


def eigh_tridiagonal(alpha, beta, eigvals_only=True, select="a", select_range=None, tol=None, name=None):
    """Eigenvalues of symmetric matrices of three diagonals, and eigenvectors if asked for."""
    if select not in ("a", "i", "v"):
        raise ValueError(f"'select must have a value in {{'a', 'v', 'i'}}'. Received: {select}")

    def found(a, b):
        values, vectors = np.linalg.eigh(np.diag(a) + np.diag(b, 1) + np.diag(b, -1))
        if select == "i":
            chosen = slice(select_range[0], select_range[1] + 1)
        else:
            chosen = slice(None) if select == "a" else (values > select_range[0]) & (values <= select_range[1])
        return values[chosen], vectors[:, chosen]

    values, vectors = host(found, _tandem.convert(alpha), _tandem.convert(beta))
    return _tandem.convert(values) if eigvals_only else (_tandem.convert(values), _tandem.convert(np.ascontiguousarray(vectors)))


def conjugate_gradient(operator, rhs, preconditioner=None, x=None, tol=1e-5, max_iter=20, name="conjugate_gradient"):
    """The solution of a symmetric positive definite system by conjugate gradients."""
    rhs = _tandem.convert(rhs)
    x = _tandem.zeros_like(rhs) if x is None else _tandem.convert(x)
    r = rhs - operator.matvec(x)
    z = r if preconditioner is None else preconditioner.matvec(r)
    p, gamma, i = z, _tandem.reduce_sum(r * z, -1, True), 0
    limit = tol * _tandem.sqrt(_tandem.reduce_sum(rhs * rhs, -1, False))
    while i < max_iter and bool(_tandem.reduce_any(_tandem.sqrt(_tandem.reduce_sum(r * r, -1, False)) > limit, None, False)):
        q = operator.matvec(p)
        alpha = _ops.divide_no_nan(gamma, _tandem.reduce_sum(p * q, -1, True))
        x, r = x + alpha * p, r - alpha * q
        z = r if preconditioner is None else preconditioner.matvec(r)
        before, gamma = gamma, _tandem.reduce_sum(r * z, -1, True)
        p, i = z + _ops.divide_no_nan(gamma, before) * p, i + 1
    return ConjugateGradientResult(_tandem.convert(i, 5), x, r, p, gamma)


class experimental:
    """The experimental functions of tf.linalg."""

    conjugate_gradient = staticmethod(conjugate_gradient)
