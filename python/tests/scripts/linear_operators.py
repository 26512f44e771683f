"""Operators, factors and bands of tf.linalg."""

import numpy as np
import tensorflow as tf

source = np.random.default_rng(2)
L = tf.linalg
result = {}
matrix = source.normal(size=(4, 4)).astype("float32") + 4 * np.eye(4, dtype="float32")
x = source.normal(size=(4, 2)).astype("float32")
spd = (matrix @ matrix.T).astype("float32")
u = source.normal(size=(4, 2)).astype("float32")
small = L.LinearOperatorFullMatrix(np.array([[2.0, 0.5], [1.0, 3.0]], "float32"))
operators = {
    "full": L.LinearOperatorFullMatrix(matrix), "tril": L.LinearOperatorLowerTriangular(matrix), "diag": L.LinearOperatorDiag(tf.constant([1.0, 2.0, 3.0, -4.0])),
    "scaled": L.LinearOperatorScaledIdentity(4, tf.constant(2.5)), "identity": L.LinearOperatorIdentity(4), "tridiag": L.LinearOperatorTridiag(tf.constant([[1.0, 2, 3, 0], [5, 6, 7, 8], [0, 1, 2, 3]])),
    "permutation": L.LinearOperatorPermutation(tf.constant([2, 0, 3, 1])), "householder": L.LinearOperatorHouseholder(tf.constant([1.0, 2.0, 0.5, -1.0])),
    "toeplitz": L.LinearOperatorToeplitz(tf.constant([4.0, 1, 2, 3]), tf.constant([4.0, 0.5, 0.2, 0.1])), "kronecker": L.LinearOperatorKronecker([small, small]),
    "block": L.LinearOperatorBlockDiag([small, small]), "composition": L.LinearOperatorComposition([L.LinearOperatorFullMatrix(matrix), L.LinearOperatorDiag(tf.constant([1.0, 2, 3, 4]))]),
    "low_rank": L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(tf.constant([1.0, 2, 3, 4]), is_positive_definite=True), u, tf.constant([1.0, 2.0])),
    "adjoint": L.LinearOperatorFullMatrix(matrix).adjoint(), "inverse": L.LinearOperatorFullMatrix(matrix).inverse(),
    "lower_blocks": L.LinearOperatorBlockLowerTriangular([[small], [small, small]]),
}
for name, operator in operators.items():
    result[f"{name}_dense"], result[f"{name}_matmul"], result[f"{name}_solve"] = operator.to_dense(), operator.matmul(x), operator.solve(x)
    result[f"{name}_adjoint"], result[f"{name}_matvec"] = operator.matmul(x, adjoint=True), operator.matvec(x[:, 0])
    result[f"{name}_trace"], result[f"{name}_logdet"] = operator.trace(), operator.log_abs_determinant()
    result[f"{name}_shape"] = operator.shape.as_list()
result["cholesky"] = L.LinearOperatorFullMatrix(spd, is_self_adjoint=True, is_positive_definite=True).cholesky().to_dense()
factors, order = L.lu(tf.constant(np.stack([matrix, spd])))
result["lu"], result["order"], result["lu_back"] = factors, order, L.lu_reconstruct(factors, order)
result["lu_solve"], result["lu_inverse"] = L.lu_solve(factors, order, np.stack([x, x])), L.lu_matrix_inverse(factors, order)
result["sqrtm"], result["logm"] = L.sqrtm(spd), tf.math.real(L.logm(tf.cast(spd, tf.complex64)))
three = tf.constant([[1.0, 2, 3, 0], [5, 6, 7, 8], [0, 1, 2, 3]])
result["tridiagonal_matmul"], result["tridiagonal_solve"] = L.tridiagonal_matmul(three, x), L.tridiagonal_solve(three, tf.constant(x))
result["banded"] = L.banded_triangular_solve(tf.constant([[5.0, 6, 7, 8], [0, 1, 2, 3]]), x)
result["eigh_tridiagonal"] = L.eigh_tridiagonal(tf.constant([1.0, 2, 3]), tf.constant([0.5, 0.2]))
result["conjugate"] = L.experimental.conjugate_gradient(L.LinearOperatorFullMatrix(spd, is_self_adjoint=True, is_positive_definite=True), tf.constant(x[:, 0]), tol=1e-7, max_iter=10).x
diagonal = tf.Variable([1.0, 2.0, 3.0, 4.0])
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(L.LinearOperatorDiag(diagonal).solve(x) ** 2)
result["gradient"] = tape.gradient(loss, diagonal)
