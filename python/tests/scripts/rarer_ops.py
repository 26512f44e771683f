"""Functions of tf.nn, tf.quantization and keras.ops.image that few programs have."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

source = np.random.default_rng(4)
result = {}
volume, filters = source.normal(size=(2, 3, 4, 3, 2)).astype("float32"), source.normal(size=(2, 3, 3, 4, 2)).astype("float32")
result["conv3d_transpose"] = tf.nn.conv3d_transpose(volume, filters, [2, 6, 8, 6, 4], 2, "SAME")
image, disk = source.normal(size=(2, 6, 5, 3)).astype("float32"), source.normal(size=(3, 2, 3)).astype("float32")
for padding in ("SAME", "VALID"):
    result[f"dilation_{padding}"] = tf.nn.dilation2d(image, disk, [1, 1, 1, 1], padding, "NHWC", [1, 1, 1, 1])
    result[f"erosion_{padding}"] = tf.nn.erosion2d(image, disk, [1, 2, 2, 1], padding, "NHWC", [1, 1, 1, 1])
weights, biases = tf.Variable(source.normal(size=(10, 4)).astype("float32")), tf.Variable(source.normal(size=10).astype("float32"))
drawn = (tf.constant([1, 5, 7], tf.int64), tf.constant([[0.5], [0.2]]), tf.constant([0.3, 0.4, 0.1]))
x = source.normal(size=(2, 4)).astype("float32")
with tf.GradientTape() as tape:
    loss = tf.nn.sampled_softmax_loss(weights, biases, tf.constant([[5], [2]], tf.int64), x, 3, 10, sampled_values=drawn)
result["sampled"] = loss
result["sampled_gradient"] = tf.convert_to_tensor(tape.gradient(loss, weights))
ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, 7], tf.int64), [3, 2])
importance = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([0.5, 2.0, 1.5]), [3, 2])
for combiner in ("sum", "mean", "sqrtn"):
    result[f"lookup_{combiner}"] = tf.nn.embedding_lookup_sparse(weights, ids, importance, combiner=combiner)[:1]
    result[f"lookup_plain_{combiner}"] = tf.nn.embedding_lookup_sparse(weights, ids, None, combiner=combiner)[2:]
for decreasing in (True, False):
    result[f"isotonic_{decreasing}"], result[f"segments_{decreasing}"] = tf.nn.isotonic_regression(tf.constant([[3.0, 1, 2, 4, 0], [1, 2, 3, 4, 5]]), decreasing=decreasing)
values = tf.constant(np.linspace(-8, 8, 21, dtype="float32"))
result["fake_args"] = tf.quantization.fake_quant_with_min_max_args(values)
low, high = tf.Variable(-3.1), tf.Variable(4.2)
with tf.GradientTape() as tape:
    tape.watch(values)
    y = tf.reduce_sum(tf.quantization.fake_quant_with_min_max_vars(values, low, high, num_bits=4, narrow_range=True) * values)
result["fake_sum"] = y
result["fake_gradient"] = tape.gradient(y, values)
result["fake_channels"] = tf.quantization.fake_quant_with_min_max_vars_per_channel(image, [-1.0, -0.5, -2.0], [1.0, 2.0, 0.5])

picture = source.uniform(0, 1, (2, 6, 7, 3)).astype("float32")
K = keras.ops.image
turn = np.array([[1.0, 0.2, -0.5, -0.1, 0.9, 0.3, 0.0, 0.0], [0.8, 0.0, 1.2, 0.3, 1.1, -1.0, 0.01, 0.0]], "float32")
for fill in ("constant", "nearest", "reflect"):
    for way in ("bilinear", "nearest"):
        result[f"affine_{fill}_{way}"] = K.affine_transform(picture, turn, way, fill, 0.25)
start, end = np.array([[0, 0], [6, 0], [0, 5], [6, 5]], "float32"), np.array([[0.5, 0.2], [6, 1], [1, 5], [5, 4.5]], "float32")
result["perspective"] = K.perspective_transform(picture, np.stack([start] * 2), np.stack([end, start]), fill_value=0.5)
result["perspective_traced"] = tf.function(lambda v: K.perspective_transform(v, np.stack([start] * 2), np.stack([end, start])))(tf.constant(picture))
result["blur"] = K.gaussian_blur(picture, (3, 3), (0.7, 1.3))
places = source.uniform(-1, 6, (2, 9)).astype("float32")
for fill in ("constant", "nearest", "mirror", "reflect"):
    for order in (0, 1):
        result[f"map_{fill}_{order}"] = K.map_coordinates(picture[0, :, :, 0], places if fill in ("constant", "nearest") else np.clip(places, 0, 4), order, fill)
result["hsv"], result["rgb"] = K.rgb_to_hsv(picture), K.hsv_to_rgb(K.rgb_to_hsv(picture))
result["adaptive"] = keras.ops.adaptive_average_pool(tf.constant(picture), (2, 3))

scattered = tf.sparse.SparseTensor([[0, 1], [2, 0], [2, 3]], [1.0, 2.0, 3.0], [4, 5])
other = tf.sparse.SparseTensor([[0, 1], [1, 0]], [5.0, -2.0], [4, 5])
S = tf.sparse
filled, were_empty = S.fill_empty_rows(scattered, 9.0)
sparse = {
    "reshaped": S.reshape(scattered, [2, -1]), "expanded": S.expand_dims(scattered, 0), "filled": filled, "maximum": S.maximum(scattered, other),
    "minimum": S.minimum(scattered, other), "softmax": S.softmax(scattered), "part": S.split(scattered, 3, 0)[1], "smaller": S.reset_shape(scattered),
}
for name, each in sparse.items():
    result[f"sparse {name}"], result[f"sparse {name} places"], result[f"sparse {name} shape"] = each.values, each.indices, each.dense_shape
result["were_empty"] = were_empty
rows = tf.constant([[1.0, 2], [3, 4], [5, 6]])
result["sparse_segments"] = np.stack([S.segment_sum(rows, [0, 1], [0, 2]), S.segment_mean(rows, [0, 1], [0, 2]), S.segment_sqrt_n(rows, [0, 1], [0, 2])])
result["linspace"] = tf.linspace([0.0, 5.0], [10.0, 40.0], 5, axis=-1)
result["einsum_stretched"] = tf.einsum("...ij,...jk->...ik", picture[:1], picture.transpose(0, 1, 3, 2)[:, :1])
result["matvec"] = tf.linalg.matvec([[1, 2], [3, 4]], [5, 6])
result["tensor_diagonals"] = tf.linalg.tensor_diag_part(tf.linalg.tensor_diag([[1, 2], [3, 4]]) + 1)
result["bits"] = np.concatenate([tf.bitcast(tf.constant([1.0]), tf.uint8)[0], tf.bitcast(tf.constant(0xFFFFFFFF, tf.uint32), tf.uint8)])
result["image_integers"] = tf.image.convert_image_dtype(tf.constant([[1], [127]], tf.int8), tf.int16)
result["decoded"] = tf.io.decode_raw(tf.constant([["1"], ["23"]]), tf.uint8, fixed_length=4)
result["decoded_big"] = tf.io.decode_raw(tf.constant("\x0a\x0b"), tf.int16, little_endian=False)
result["serialized"] = np.frombuffer(tf.io.serialize_tensor(tf.constant([[1, 2], [3, 4]])).numpy() + tf.io.serialize_tensor(["a", "bc"]).numpy(), np.uint8)
result["mapped_rows"] = tf.map_fn(tf.reduce_sum, tf.ragged.constant([[3, 1], [], [5]]), fn_output_signature=tf.int32)
result["mapped_to_rows"] = tf.map_fn(tf.range, tf.constant([3, 1]), fn_output_signature=tf.RaggedTensorSpec([None], tf.int32)).to_tensor()
