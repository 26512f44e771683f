"""Linear operators, tf.linalg.LinearOperator: matrices that are known by less than all their elements."""

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._tensors.shape import TensorShape


def _linalg():
    from tandem import linalg

    return linalg


def _t(x):
    return _linalg().matrix_transpose(x)


class LinearOperator:
    """What operators have in common: products, solutions and numbers, of a dense matrix unless a class knows a shorter way."""

    def __init__(self, dtype=None, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name=None, parameters=None, graph_parents=None):
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self.is_non_singular, self.is_self_adjoint, self.is_positive_definite = is_non_singular, is_self_adjoint, is_positive_definite
        self._is_square, self.name = is_square, name or type(self).__name__

    # ---- What a class may know better ----

    def _dense(self):
        raise NotImplementedError(f"{type(self).__name__}: a class of operators has a method _matmul or _to_dense")

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        x = _t(x) if adjoint_arg else x
        dense = self.to_dense()
        return _ops.matmul(_t(dense) if adjoint else dense, x)

    def _solve(self, rhs, adjoint=False):
        dense = self.to_dense()
        dense = _t(dense) if adjoint else dense
        lead = list(rhs._sizes[:-2])
        if len(lead) > dense._rank - 2:
            dense = _tandem.broadcast_to(dense, [*lead, *dense._sizes[-2:]])
        elif len(lead) < dense._rank - 2:
            rhs = _tandem.broadcast_to(rhs, [*dense._sizes[:-2], *rhs._sizes[-2:]])
        return _linalg().solve(dense, rhs)

    def _diag_part(self):
        return _linalg().diag_part(self.to_dense())

    def _determinant(self):
        return _linalg().det(self.to_dense())

    # ---- What all have ----

    @property
    def shape(self):
        """The shape of the dense matrix."""
        return TensorShape(self.to_dense().shape)

    @property
    def dtype(self):
        """The type of its elements."""
        return self._dtype or self.to_dense().dtype

    @property
    def is_square(self):
        """Whether rows and columns are as many."""
        return self.shape[-1] == self.shape[-2] if self._is_square is None else self._is_square

    batch_shape = property(lambda self: self.shape[:-2], doc="The shape without rows and columns.")
    domain_dimension = property(lambda self: self.shape[-1], doc="The number of columns.")
    range_dimension = property(lambda self: self.shape[-2], doc="The number of rows.")
    tensor_rank = property(lambda self: len(self.shape), doc="The rank of the dense matrix.")
    H = property(lambda self: self.adjoint(), doc="The adjoint operator.")

    def shape_tensor(self, name="shape_tensor"):
        """The shape as a tensor."""
        return _tandem.convert(np.array(self.shape.as_list(), np.int32))

    def batch_shape_tensor(self, name="batch_shape_tensor"):
        """The shape without rows and columns, as a tensor."""
        return self.shape_tensor()[:-2]

    def domain_dimension_tensor(self, name="domain_dimension_tensor"):
        """The number of columns as a tensor."""
        return self.shape_tensor()[-1]

    def range_dimension_tensor(self, name="range_dimension_tensor"):
        """The number of rows as a tensor."""
        return self.shape_tensor()[-2]

    def to_dense(self, name="to_dense"):
        """The matrix."""
        return self._to_dense() if hasattr(self, "_to_dense") else self._dense()

    def diag_part(self, name="diag_part"):
        """The diagonal."""
        return self._diag_part()

    def trace(self, name="trace"):
        """The sum of the diagonal."""
        return _tandem.reduce_sum(self.diag_part(), -1, False)

    def matmul(self, x, adjoint=False, adjoint_arg=False, name="matmul"):
        """The product with a matrix, or with another operator."""
        if isinstance(x, LinearOperator):
            left, right = self.adjoint() if adjoint else self, x.adjoint() if adjoint_arg else x
            return LinearOperatorComposition([left, right])
        return self._matmul(_tandem.convert(x), adjoint=adjoint, adjoint_arg=adjoint_arg)

    def __matmul__(self, other):
        return self.matmul(other)

    def matvec(self, x, adjoint=False, name="matvec"):
        """The product with a vector."""
        return _tandem.squeeze(self.matmul(_tandem.expand_dims(_tandem.convert(x), -1), adjoint), [-1])

    def solve(self, rhs, adjoint=False, adjoint_arg=False, name="solve"):
        """What the operator makes a matrix of."""
        if isinstance(rhs, LinearOperator):
            inverse = (self.adjoint() if adjoint else self).inverse()
            return LinearOperatorComposition([inverse, rhs.adjoint() if adjoint_arg else rhs])
        rhs = _tandem.convert(rhs)
        return self._solve(_t(rhs) if adjoint_arg else rhs, adjoint=adjoint)

    def solvevec(self, rhs, adjoint=False, name="solve"):
        """What the operator makes a vector of."""
        return _tandem.squeeze(self.solve(_tandem.expand_dims(_tandem.convert(rhs), -1), adjoint), [-1])

    def determinant(self, name="det"):
        """The determinant."""
        return self._determinant()

    def log_abs_determinant(self, name="log_abs_det"):
        """The logarithm of the absolute value of the determinant."""
        return _tandem.log(_tandem.abs(self._determinant()))

    def inverse(self, name="inverse"):
        """The inverse operator."""
        return LinearOperatorInversion(self)

    def adjoint(self, name="adjoint"):
        """The adjoint operator."""
        return self if self.is_self_adjoint else LinearOperatorAdjoint(self)

    def cholesky(self, name="cholesky"):
        """The operator of the Cholesky factor."""
        return LinearOperatorLowerTriangular(_linalg().cholesky(self.to_dense()), is_non_singular=True)

    def eigvals(self, name="eigvals"):
        """The eigenvalues, of a self-adjoint operator."""
        return _linalg().eigvalsh(self.to_dense())

    def cond(self, name="cond"):
        """The largest singular value, divided by the smallest."""
        values = _linalg().svd(self.to_dense(), compute_uv=False)
        return _tandem.reduce_max(values, -1, False) / _tandem.reduce_min(values, -1, False)

    def add_to_tensor(self, x, name="add_to_tensor"):
        """The matrix plus a tensor."""
        return self.to_dense() + x

    def _checked(self, what, holds):
        if not bool(holds):
            raise ValueError(f"{self.name} is not {what}")

    def assert_non_singular(self, name="assert_non_singular"):
        """Raises if it is singular."""
        self._checked("non-singular", _tandem.reduce_all(_tandem.abs(self._determinant()) > 0.0, None, False))

    def assert_self_adjoint(self, name="assert_self_adjoint"):
        """Raises if it is not its own adjoint."""
        self._checked("self-adjoint", np.allclose(np.asarray(self.to_dense()), np.asarray(_t(self.to_dense())), atol=1e-6))

    def assert_positive_definite(self, name="assert_positive_definite"):
        """Raises if an eigenvalue is not positive."""
        self._checked("positive definite", _tandem.reduce_all(_linalg().eigvalsh(self.to_dense()) > 0.0, None, False))


class LinearOperatorFullMatrix(LinearOperator):
    """A matrix as an operator."""

    def __init__(self, matrix, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorFullMatrix"):
        self._matrix = _tandem.convert(matrix)
        super().__init__(self._matrix.dtype, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)

    matrix = property(lambda self: self._matrix, doc="The matrix.")

    def _to_dense(self):
        return self._matrix


class LinearOperatorLowerTriangular(LinearOperator):
    """The lower triangle of a matrix."""

    def __init__(self, tril, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorLowerTriangular"):
        self._tril = _linalg().band_part(_tandem.convert(tril), -1, 0)
        super().__init__(self._tril.dtype, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    tril = property(lambda self: self._tril, doc="The triangle.")

    def _to_dense(self):
        return self._tril

    def _determinant(self):
        return _tandem.reduce_prod(self._diag_part(), -1, False)

    def log_abs_determinant(self, name="log_abs_det"):
        return _tandem.reduce_sum(_tandem.log(_tandem.abs(self._diag_part())), -1, False)


class LinearOperatorDiag(LinearOperator):
    """A diagonal."""

    def __init__(self, diag, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorDiag"):
        self._diag = _tandem.convert(diag)
        super().__init__(self._diag.dtype, is_non_singular, True, is_positive_definite, True, name)

    diag = property(lambda self: self._diag, doc="The diagonal.")

    def _to_dense(self):
        return _linalg().diag(self._diag)

    def _diag_part(self):
        return self._diag

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        return _tandem.expand_dims(self._diag, -1) * (_t(x) if adjoint_arg else x)

    def _solve(self, rhs, adjoint=False):
        return rhs / _tandem.expand_dims(self._diag, -1)

    def _determinant(self):
        return _tandem.reduce_prod(self._diag, -1, False)

    def log_abs_determinant(self, name="log_abs_det"):
        return _tandem.reduce_sum(_tandem.log(_tandem.abs(self._diag)), -1, False)

    def inverse(self, name="inverse"):
        return LinearOperatorDiag(1.0 / self._diag)

    def cholesky(self, name="cholesky"):
        return LinearOperatorDiag(_tandem.sqrt(self._diag))


class LinearOperatorScaledIdentity(LinearOperator):
    """A number, or one for each matrix of a batch, times the identity."""

    def __init__(self, num_rows, multiplier, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=True, assert_proper_shapes=False, name="LinearOperatorScaledIdentity"):
        self._rows, self._multiplier = int(num_rows), _tandem.convert(multiplier)
        super().__init__(self._multiplier.dtype, is_non_singular, True, is_positive_definite, True, name)

    multiplier = property(lambda self: self._multiplier, doc="The number.")

    def _scale(self):
        return _tandem.expand_dims(_tandem.expand_dims(self._multiplier, -1), -1)

    def _to_dense(self):
        return self._scale() * _tandem.eye(self._rows, -1, self._multiplier._code)

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        return self._scale() * (_t(x) if adjoint_arg else x)

    def _solve(self, rhs, adjoint=False):
        return rhs / self._scale()

    def _determinant(self):
        return _tandem.pow(self._multiplier, float(self._rows))

    def inverse(self, name="inverse"):
        return LinearOperatorScaledIdentity(self._rows, 1.0 / self._multiplier)


class LinearOperatorIdentity(LinearOperatorScaledIdentity):
    """The identity."""

    def __init__(self, num_rows, batch_shape=None, dtype=None, is_non_singular=True, is_self_adjoint=True, is_positive_definite=True, is_square=True, assert_proper_shapes=False, name="LinearOperatorIdentity"):
        shape = [] if batch_shape is None else [int(s) for s in np.asarray(batch_shape)]
        super().__init__(num_rows, _tandem.fill(tuple(shape), 1.0, dtypes.code_of(dtype or "float32")), True, True, True, name=name)


class LinearOperatorZeros(LinearOperator):
    """All zeros."""

    def __init__(self, num_rows, num_columns=None, batch_shape=None, dtype=None, is_non_singular=False, is_self_adjoint=True, is_positive_definite=False, is_square=True, assert_proper_shapes=False, name="LinearOperatorZeros"):
        shape = [] if batch_shape is None else [int(s) for s in np.asarray(batch_shape)]
        self._sizes = (*shape, int(num_rows), int(num_columns if num_columns is not None else num_rows))
        super().__init__(dtype or "float32", False, is_self_adjoint, False, self._sizes[-1] == self._sizes[-2], name)

    def _to_dense(self):
        return _tandem.fill(self._sizes, 0.0, dtypes.code_of(self._dtype))


class LinearOperatorTridiag(LinearOperator):
    """Three diagonals."""

    def __init__(self, diagonals, diagonals_format="compact", is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorTridiag"):
        self._diagonals, self.diagonals_format = diagonals, diagonals_format
        super().__init__(None, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    diagonals = property(lambda self: self._diagonals, doc="The diagonals.")

    def _to_dense(self):
        from tandem._ops.factorizations import _tridiagonal

        return _tridiagonal(self._diagonals, self.diagonals_format)


class LinearOperatorPermutation(LinearOperator):
    """An order of rows."""

    def __init__(self, perm, dtype="float32", is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorPermutation"):
        self._perm = _tandem.convert(perm)
        super().__init__(dtype, True, is_self_adjoint, is_positive_definite, True, name)

    perm = property(lambda self: self._perm, doc="The order.")

    def _to_dense(self):
        return _tandem.one_hot(self._perm, int(self._perm._sizes[-1]), 1.0, 0.0, dtypes.code_of(self._dtype))


class LinearOperatorHouseholder(LinearOperator):
    """A reflection: the identity minus twice the product of a unit vector with itself."""

    def __init__(self, reflection_axis, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorHouseholder"):
        self._axis = _tandem.convert(reflection_axis)
        super().__init__(self._axis.dtype, True, True, False, True, name)

    reflection_axis = property(lambda self: self._axis, doc="The axis.")

    def _to_dense(self):
        v = _tandem.expand_dims(_linalg().l2_normalize(self._axis, -1), -1)
        return _tandem.eye(int(self._axis._sizes[-1]), -1, self._axis._code) - 2.0 * _tandem.matmul(v, v, False, True)

    def _solve(self, rhs, adjoint=False):
        return self._matmul(rhs)


class LinearOperatorToeplitz(LinearOperator):
    """A matrix whose diagonals are constant, by its first column and first row."""

    def __init__(self, col, row, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorToeplitz"):
        self._col, self._row = _tandem.convert(col), _tandem.convert(row)
        super().__init__(self._col.dtype, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    col = property(lambda self: self._col, doc="The first column.")
    row = property(lambda self: self._row, doc="The first row.")

    def _to_dense(self):
        n = int(self._col._sizes[-1])
        values = _tandem.concat([self._row[..., :0:-1], self._col], -1)
        places = np.arange(n)[:, None] - np.arange(n)[None] + n - 1
        return _tandem.gather(values, _tandem.convert(places.astype(np.int32)), values._rank - 1)


class LinearOperatorCirculant(LinearOperator):
    """A matrix whose rows are one row, shifted, by the spectrum of its first column; the spectrum has to make real elements."""

    _block_rank = 1

    def __init__(self, spectrum, input_output_dtype="float32", is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=True, name="LinearOperatorCirculant"):
        self._spectrum = np.asarray(spectrum.numpy() if hasattr(spectrum, "numpy") else spectrum)
        super().__init__(input_output_dtype, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    spectrum = property(lambda self: _tandem.convert(self._spectrum), doc="The spectrum.")

    def _to_dense(self):
        inner = self._spectrum.shape[-self._block_rank :]
        kernel = np.fft.ifftn(self._spectrum, axes=range(-self._block_rank, 0))
        if np.abs(kernel.imag).max() > 1e-5 * max(1.0, np.abs(kernel.real).max()):
            raise NotImplementedError(f"{type(self).__name__}: the elements are complex; a spectrum that makes real ones is accepted")
        places = np.stack(np.unravel_index(np.arange(np.prod(inner)), inner), -1)
        apart = (places[:, None] - places[None]) % np.array(inner)
        dense = kernel.real[(..., *np.moveaxis(apart, -1, 0))]
        return _tandem.convert(np.ascontiguousarray(dense.astype(self._dtype.as_numpy_dtype)))


class LinearOperatorCirculant2D(LinearOperatorCirculant):
    """Blocks that are circulant in two directions."""

    _block_rank = 2


class LinearOperatorCirculant3D(LinearOperatorCirculant):
    """Blocks that are circulant in three directions."""

    _block_rank = 3


class LinearOperatorAdjoint(LinearOperator):
    """The adjoint of an operator."""

    def __init__(self, operator, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name=None):
        self.operator = operator
        super().__init__(operator._dtype, operator.is_non_singular, operator.is_self_adjoint, operator.is_positive_definite, operator._is_square, name)

    def _to_dense(self):
        return _t(self.operator.to_dense())

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        return self.operator.matmul(x, not adjoint, adjoint_arg)

    def _solve(self, rhs, adjoint=False):
        return self.operator.solve(rhs, not adjoint)

    def adjoint(self, name="adjoint"):
        return self.operator


class LinearOperatorInversion(LinearOperator):
    """The inverse of an operator."""

    def __init__(self, operator, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name=None):
        self.operator = operator
        super().__init__(operator._dtype, True, operator.is_self_adjoint, operator.is_positive_definite, True, name)

    def _to_dense(self):
        return _linalg().inv(self.operator.to_dense())

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        return self.operator.solve(x, adjoint, adjoint_arg)

    def _solve(self, rhs, adjoint=False):
        return self.operator.matmul(rhs, adjoint)

    def _determinant(self):
        return 1.0 / self.operator.determinant()

    def inverse(self, name="inverse"):
        return self.operator


class _Joined(LinearOperator):
    def __init__(self, operators, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name=None):
        self.operators = list(operators)
        super().__init__(self.operators[0]._dtype, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)

    def _product(self, numbers):
        total = None
        for each in numbers:
            total = each if total is None else total * each
        return total


class LinearOperatorComposition(_Joined):
    """The product of operators."""

    def _to_dense(self):
        x = self.operators[-1].to_dense()
        for operator in self.operators[-2::-1]:
            x = operator.matmul(x)
        return x

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        x = _t(x) if adjoint_arg else x
        for operator in self.operators if adjoint else self.operators[::-1]:
            x = operator.matmul(x, adjoint)
        return x

    def _solve(self, rhs, adjoint=False):
        for operator in self.operators[::-1] if adjoint else self.operators:
            rhs = operator.solve(rhs, adjoint)
        return rhs

    def _determinant(self):
        return self._product(o.determinant() for o in self.operators)


class LinearOperatorKronecker(_Joined):
    """The Kronecker product of operators."""

    def _to_dense(self):
        x = self.operators[0].to_dense()
        for operator in self.operators[1:]:
            y = operator.to_dense()
            (a, b), (c, d) = ([int(s) for s in v._sizes[-2:]] for v in (x, y))
            wide = _tandem.reshape(x, [*x._sizes[:-2], a, 1, b, 1]) * _tandem.reshape(y, [*y._sizes[:-2], 1, c, 1, d])
            x = _tandem.reshape(wide, [*wide._sizes[:-4], a * c, b * d])
        return x


class LinearOperatorBlockDiag(_Joined):
    """Operators along a diagonal."""

    def _to_dense(self):
        rows = [o.to_dense() for o in self.operators]
        total, before, padded = sum(int(r._sizes[-1]) for r in rows), 0, []
        for r in rows:
            width = int(r._sizes[-1])
            padded.append(_tandem.pad(r, [(0, 0)] * (r._rank - 1) + [(before, total - before - width)], 0.0))
            before += width
        return _tandem.concat(padded, -2)

    def _determinant(self):
        return self._product(o.determinant() for o in self.operators)


class LinearOperatorBlockLowerTriangular(LinearOperator):
    """Rows of operators, each with one more than the row above."""

    def __init__(self, operators, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorBlockLowerTriangular"):
        self.operators = [list(row) for row in operators]
        super().__init__(self.operators[0][0]._dtype, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    def _to_dense(self):
        total, rows = sum(int(row[-1].to_dense()._sizes[-1]) for row in self.operators), []
        for row in self.operators:
            joined = _tandem.concat([o.to_dense() for o in row], -1)
            rows.append(_tandem.pad(joined, [(0, 0)] * (joined._rank - 1) + [(0, total - int(joined._sizes[-1]))], 0.0))
        return _tandem.concat(rows, -2)


class LinearOperatorLowRankUpdate(LinearOperator):
    """An operator plus u @ diag(d) @ v.T."""

    def __init__(self, base_operator, u, diag_update=None, v=None, is_diag_update_positive=None, is_non_singular=None, is_self_adjoint=None, is_positive_definite=None, is_square=None, name="LinearOperatorLowRankUpdate"):
        self.base_operator, self.u = base_operator, _tandem.convert(u)
        self.v = self.u if v is None else _tandem.convert(v)
        self.diag_update = None if diag_update is None else _tandem.convert(diag_update)
        super().__init__(base_operator._dtype, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)

    def _left(self):
        return self.u if self.diag_update is None else self.u * _tandem.expand_dims(self.diag_update, -2)

    def _to_dense(self):
        return self.base_operator.to_dense() + _tandem.matmul(self._left(), self.v, False, True)

    def _matmul(self, x, adjoint=False, adjoint_arg=False):
        x = _t(x) if adjoint_arg else x
        left, right = (self.v, self._left()) if adjoint else (self._left(), self.v)
        return self.base_operator.matmul(x, adjoint) + _ops.matmul(left, _ops.matmul(right, x, transpose_a=True))
