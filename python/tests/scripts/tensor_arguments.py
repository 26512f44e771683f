"""Arguments of tf.linalg, tf.nn, tf.math and tf.strings whose effect is seen in values."""

import keras
import numpy as np
import tensorflow as tf

random = np.random.RandomState(0)
x, rows = random.normal(size=(2, 3, 4)).astype("float32"), random.normal(size=(4, 3)).astype("float32")
result = {}

d = tf.constant([[1.0, 2.0], [3.0, 4.0]])
for k in (-1, 0, 1, 2):
    result[f"diagonal {k}"] = tf.linalg.diag(d, k=k)
    result[f"part {k}"] = tf.linalg.diag_part(x, k=k)
result["diagonal in a shape"] = tf.linalg.diag(d, k=1, num_rows=4, num_cols=3, padding_value=9.0)
result["set"] = tf.linalg.set_diag(x, tf.constant(np.arange(6, dtype="float32").reshape(2, 3)), k=1)
result["set main"] = tf.linalg.set_diag(x, tf.constant(np.arange(6, dtype="float32").reshape(2, 3)))
for i, order in enumerate(("euclidean", "fro", 1, 2, np.inf)):
    result[f"norm of matrices {i}"] = tf.norm(x, ord=order, axis=[-2, -1])
    result[f"norm of matrices, kept {i}"] = tf.norm(x, ord=order, axis=(1, 2), keepdims=True)
for i, order in enumerate(("euclidean", 1, 2, 3.0, np.inf)):
    result[f"norm of vectors {i}"] = tf.norm(x, ord=order, axis=1)
result["inverse with a cutoff"] = tf.linalg.pinv(rows, rcond=0.5)
result["rank with a tolerance"] = [int(tf.linalg.matrix_rank(rows)), int(tf.linalg.matrix_rank(rows, tol=100.0))]
result["adjoint"] = tf.linalg.matvec(rows, tf.constant([1.0, 2.0, 3.0, 4.0]), adjoint_a=True)

labels = np.abs(random.normal(size=(2, 3, 4)).astype("float32"))
result["classes along another axis"] = tf.nn.softmax_cross_entropy_with_logits(labels, x, axis=1)
result["whole loss of counts"] = tf.nn.log_poisson_loss(tf.constant([0.5, 1.0, 3.0, 7.0]), tf.constant([0.1, 0.2, 0.3, 0.4]), compute_full_loss=True)
result["short rows"] = tf.nn.embedding_lookup(rows, [0, 2], max_norm=0.7)
result["counts of rows"] = tf.math.bincount([[1, 1, 2], [0, 3, 3]], axis=-1)
result["counts of rows, as a choice"] = tf.math.bincount([[1, 1, 2], [0, 3, 3]], axis=-1, binary_output=True, minlength=6)
result["choice"] = tf.math.bincount([1, 1, 4], binary_output=True, maxlength=4)

texts = tf.constant(["häuser", "ab"])


def letters(value):
    return [b for text in np.ravel(np.asarray(value.numpy(), object)) for b in text]


result["parts of texts"] = [*letters(tf.strings.substr(texts, 1, 3)), *letters(tf.strings.substr(texts, 1, 3, unit="UTF8_CHAR")), *letters(tf.strings.substr(texts, [1, 0], [2, 1])), *letters(tf.strings.substr(texts, -2, 2))]
joined = tf.strings.reduce_join([["a", "b"], ["c", "d"]], axis=1, keepdims=True, separator="-")
result["joined"] = [*joined.shape, *letters(joined)]
result["written"] = letters(tf.strings.as_string(tf.constant([3, -12]), width=5, fill="0")) + letters(tf.strings.as_string(tf.constant([3.14159, 20.0]), precision=2, width=8)) + letters(
    tf.strings.as_string(tf.constant([1234.5]), precision=3, scientific=True)
) + letters(tf.strings.as_string(tf.constant([True, False])))

y, p = np.eye(3, 4, dtype="float32")[None] * np.ones((2, 1, 1), "float32"), np.abs(x) / 4
result["focal along another axis"] = keras.losses.categorical_focal_crossentropy(y, p, axis=1)
shuffled = keras.random.shuffle(x, axis=1, seed=1)
result["shuffled along another axis"] = np.sort(shuffled, axis=1)

images, filters, vector = (tf.constant(random.rand(2, 4, 4, 3), tf.float32), random.rand(2, 2, 3, 2), random.rand(3))
result["array as filters"] = tf.nn.conv2d(images, filters, 1, "SAME")
result["filters of an array of images"] = tf.nn.conv2d(images.numpy().astype("float64"), tf.constant(filters, tf.float32), 1, "SAME")
result["array as filters, transposed"] = tf.nn.conv2d_transpose(images, random.rand(2, 2, 2, 3), [2, 4, 4, 2], 1)
result["arrays as statistics"] = tf.nn.batch_normalization(images, vector, vector, vector, vector, 1e-3)
result["array as right side"] = tf.linalg.solve(tf.constant([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0], [2.0]]))
assert result["array as right side"].dtype == "float32"
deep, line, volume = tf.constant(random.rand(1, 4, 4, 6), tf.float32), tf.constant(random.rand(1, 8, 3), tf.float32), tf.constant(random.rand(1, 4, 4, 4, 3), tf.float32)
result["maximum of channels"] = tf.nn.max_pool(deep, (1, 1, 1, 3), (1, 1, 1, 3), "VALID")
result["windows of sequences"], result["windows of volumes"] = tf.nn.max_pool(line, 2, 2, "VALID"), tf.nn.avg_pool(volume, [2, 2, 2], [2, 2, 2], "VALID")
result["where maxima are"] = tf.nn.max_pool_with_argmax(deep, 2, 2, "VALID").argmax
result["filtered sequence"] = tf.nn.convolution(line, tf.constant(random.rand(2, 3, 2), tf.float32), strides=[2], padding="SAME")
result["filtered volume"] = tf.nn.convolution(volume, tf.constant(random.rand(2, 2, 2, 3, 2), tf.float32), strides=[2, 2, 2])
result["spread sequence"] = tf.nn.conv_transpose(line, tf.constant(random.rand(2, 4, 3), tf.float32), [1, 16, 4], 2)
result["spread volume"] = tf.nn.conv_transpose(volume, tf.constant(random.rand(2, 2, 2, 4, 3), tf.float32), [1, 8, 8, 8, 4], 2)
for wrong in ([1, 1, 1, 2], [2, 1, 1, 1]):
    try:
        tf.nn.conv2d(deep, tf.ones((1, 1, 6, 2)), wrong, "VALID")
        raise AssertionError("steps over rows or channels")
    except (NotImplementedError, tf.errors.UnimplementedError):
        pass
