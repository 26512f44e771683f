"""Matrices, tf.linalg."""

import numpy as np

import _tandem
from tandem import _ops
from tandem import errors as _errors
from tandem._names import missing as _missing
from tandem._ops import (  # noqa: F401
    band_part, diag, diag_part, einsum, eye, global_norm, host, host_with_gradient, matmul, matvec, norm, set_diag,
    tensordot, trace,
)
from tandem.nn import l2_normalize  # noqa: F401



def tensor_diag(diagonal, name=None):
    """The tensor of twice the rank that has the elements where its indices repeat, and zeros elsewhere."""
    x = _tandem.convert(diagonal)
    sizes = [int(s) for s in x._sizes]
    return _tandem.reshape(diag(_tandem.reshape(x, [-1])), sizes + sizes)


def tensor_diag_part(input, name=None):
    """The elements of a tensor of even rank where the second half of the indices repeats the first."""
    x = _tandem.convert(input)
    sizes = [int(s) for s in x._sizes]
    half = len(sizes) // 2
    if len(sizes) % 2 or sizes[:half] != sizes[half:]:
        raise _errors.InvalidArgumentError(f"tensor_diag_part: the sizes {sizes} are not those of one half, twice")
    count = int(np.prod(sizes[:half]))
    return _tandem.reshape(diag_part(_tandem.reshape(x, [count, count])), sizes[:half])


def _t(x):
    order = list(range(x._rank))
    order[-1], order[-2] = order[-2], order[-1]
    return _tandem.transpose(x, order)


def matrix_transpose(a, name=None, conjugate=False):
    """Matrices with rows and columns exchanged."""
    if getattr(a, "_is_complex", False):
        from tandem._ops import transpose
        from tandem.math import conj

        order = [*range(len(a.shape) - 2), len(a.shape) - 1, len(a.shape) - 2]
        turned = transpose(a, order)
        return conj(turned) if conjugate else turned
    return _t(_tandem.convert(a))


def adjoint(matrix, name=None):
    """Matrices with rows and columns exchanged, and the conjugates of their elements."""
    return matrix_transpose(matrix, conjugate=True)


def _of_host(f, reason):
    """NumPy's function, whose error is the library's."""

    def call(*arrays):
        try:
            return f(*arrays)
        except np.linalg.LinAlgError:
            raise _errors.InvalidArgumentError(reason) from None

    return call


_inv, _solve = (_of_host(f, "Input matrix is not invertible.") for f in (np.linalg.inv, np.linalg.solve))
_cholesky = _of_host(np.linalg.cholesky, "Cholesky decomposition was not successful: the matrix is not positive definite.")


def inv(input, adjoint=False, name=None):
    """The inverse of matrices."""
    def gradient(g, inputs, outputs):
        t = _t(outputs[0])
        return [-_tandem.matmul(_tandem.matmul(t, g[0], False, False), t, False, False)]

    result = host_with_gradient(_inv, gradient, input)
    return _t(result) if adjoint else result


def det(input, name=None):
    """The determinant of matrices."""
    def gradient(g, inputs, outputs):
        wide = _tandem.expand_dims(_tandem.expand_dims(g[0] * outputs[0], -1), -1)
        return [wide * _t(inv(inputs[0]))]

    return host_with_gradient(np.linalg.det, gradient, input)


def slogdet(input, name=None):
    """The sign and the logarithm of the absolute value of the determinant."""
    sign, value = host(np.linalg.slogdet, _tandem.convert(input))
    return _tandem.convert(sign), _tandem.convert(value)


def logdet(matrix, name=None):
    """The logarithm of the determinant of positive definite matrices."""
    return _tandem.log(det(matrix))


def solve(matrix, rhs, adjoint=False, name=None):
    """The solutions x of matrix @ x = rhs."""
    def gradient(g, inputs, outputs):
        a, b = inputs
        gb = solve(_t(a), g[0])
        return [-_tandem.matmul(gb, outputs[0], False, True), gb]

    a, rhs = _ops.alike(matrix, rhs)
    return host_with_gradient(_solve, gradient, _t(a) if adjoint else a, rhs)


def lstsq(matrix, rhs, l2_regularizer=0.0, fast=True, name=None):
    """The x with the smallest |matrix @ x - rhs|."""
    a = _tandem.convert(matrix)
    n = int(a._sizes[-1])
    left = _tandem.matmul(a, a, True, False) + l2_regularizer * _tandem.eye(n, -1, a._code)
    return solve(left, _tandem.matmul(a, rhs, True, False))


def cholesky(input, name=None):
    """The lower triangular matrices whose product with their transpose is the input."""
    def gradient(g, inputs, outputs):
        low = outputs[0]
        inverse = inv(low)
        middle = _tandem.matmul(low, g[0], True, False)
        n = int(low._sizes[-1])
        phi = np.tril(np.ones((n, n)), -1) + 0.5 * np.eye(n)
        middle = middle * _tandem.convert(phi, low._code)
        s = _tandem.matmul(_tandem.matmul(inverse, middle, True, False), inverse, False, False)
        return [0.5 * (s + _t(s))]

    return host_with_gradient(_cholesky, gradient, input)


def cholesky_solve(chol, rhs, name=None):
    """The solutions of a system whose Cholesky factor is known."""
    return solve(_tandem.matmul(chol, chol, False, True), rhs)


def triangular_solve(matrix, rhs, lower=True, adjoint=False, name=None):
    """The solutions of a triangular system."""
    a = band_part(matrix, -1 if lower else 0, 0 if lower else -1)
    return solve(a, rhs, adjoint)


def svd(tensor, full_matrices=False, compute_uv=True, name=None):
    """Singular values, and the matrices of left and right singular vectors."""
    x = _tandem.convert(tensor)
    if not compute_uv:
        return _tandem.convert(host(lambda a: np.linalg.svd(a, compute_uv=False), x))
    u, s, v = host(lambda a: np.linalg.svd(a, full_matrices=full_matrices), x)
    return _tandem.convert(s), _tandem.convert(u), _tandem.convert(np.ascontiguousarray(np.swapaxes(v, -1, -2)))


def qr(input, full_matrices=False, name=None):
    """An orthogonal and an upper triangular matrix whose product is the input."""
    q, r = host(lambda a: np.linalg.qr(a, mode="complete" if full_matrices else "reduced"), _tandem.convert(input))
    return _tandem.convert(q), _tandem.convert(r)


def eigh(tensor, name=None):
    """Eigenvalues and eigenvectors of symmetric matrices."""
    values, vectors = host(np.linalg.eigh, _tandem.convert(tensor))
    return _tandem.convert(values), _tandem.convert(vectors)


def eigvalsh(tensor, name=None):
    """Eigenvalues of symmetric matrices."""
    return eigh(tensor)[0]


def eig(tensor, name=None):
    """Eigenvalues and eigenvectors of any square matrices, which are complex."""
    value = _tandem.convert(tensor)
    exact = np.complex128 if value._code == 1 else np.complex64
    values, vectors = host(np.linalg.eig, value)
    return _ops.constant(values.astype(exact)), _ops.constant(vectors.astype(exact))


def eigvals(tensor, name=None):
    """Eigenvalues of any square matrices, which are complex."""
    return eig(tensor)[0]


def pinv(a, rcond=None, validate_args=False, name=None):
    """The pseudo-inverse of matrices."""
    x = _tandem.convert(a)
    # TensorFlow's cutoff is ten times the larger size times the smallest step of the dtype.
    cutoff = 10.0 * max(int(s) for s in x._sizes[-2:]) * float(np.finfo(x.dtype.as_numpy_dtype).eps) if rcond is None else np.asarray(rcond)
    return _tandem.convert(host(lambda m: np.linalg.pinv(m, cutoff).astype(m.dtype), x))


def matrix_rank(a, tol=None, validate_args=False, name=None):
    """The number of singular values that are not negligible."""
    return _tandem.convert(host(lambda m: np.asarray(np.linalg.matrix_rank(m, None if tol is None else np.asarray(tol))), _tandem.convert(a)), 5)


def expm(input, name=None):
    """The exponential of matrices."""
    x = _tandem.convert(input)
    scaled, n = x / 256.0, int(x._sizes[-1])
    total = term = _tandem.eye(n, -1, x._code)
    for k in range(1, 12):
        term = _tandem.matmul(term, scaled, False, False) / float(k)
        total = total + term
    for _ in range(8):
        total = _tandem.matmul(total, total, False, False)
    return total


def normalize(tensor, ord="euclidean", axis=None, name=None):
    """The tensor divided by its norm, and the norm."""
    tensor = _tandem.convert(tensor)
    length = _ops.norm(tensor, ord, axis, keepdims=True)
    return tensor / length, length


def cross(a, b, name=None):
    """The cross product of vectors of three elements."""
    a, b = _tandem.convert(a), _tandem.convert(b)
    roll = _ops.roll
    return roll(a, -1, -1) * roll(b, -2, -1) - roll(a, -2, -1) * roll(b, -1, -1)


_missing.install(__name__, globals(), {
    "tandem._ops.factorizations": "banded_triangular_solve eig eigh_tridiagonal eigvals experimental logm lu lu_matrix_inverse lu_reconstruct lu_solve"
    " sqrtm tridiagonal_matmul tridiagonal_solve",
    "tandem._ops.operators": "LinearOperator LinearOperatorAdjoint LinearOperatorBlockDiag LinearOperatorBlockLowerTriangular LinearOperatorCirculant"
    " LinearOperatorCirculant2D LinearOperatorCirculant3D LinearOperatorComposition LinearOperatorDiag LinearOperatorFullMatrix LinearOperatorHouseholder"
    " LinearOperatorIdentity LinearOperatorInversion LinearOperatorKronecker LinearOperatorLowRankUpdate LinearOperatorLowerTriangular"
    " LinearOperatorPermutation LinearOperatorScaledIdentity LinearOperatorToeplitz LinearOperatorTridiag LinearOperatorZeros",
})

__all__ = [  # Written by scripts/exported-names.py.
    "adjoint", "band_part", "cholesky", "cholesky_solve", "cross", "det", "diag", "diag_part", "eig", "eigh", "eigvals", "eigvalsh",
    "einsum", "expm", "eye", "global_norm", "host", "host_with_gradient", "inv", "l2_normalize", "logdet", "lstsq", "matmul", "matrix_rank",
    "matrix_transpose", "matvec", "norm", "normalize", "pinv", "qr", "set_diag", "slogdet", "solve", "svd", "tensor_diag",
    "tensor_diag_part", "tensordot", "trace", "triangular_solve",
]
