import numpy as np
import tensorflow as tf
x = tf.constant([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
result = {
    "einsum": tf.einsum("ij,kj->ik", x, x), "topk": tf.math.top_k(x, 2).values, "sort": tf.sort(x, direction="DESCENDING"), "argsort": tf.argsort(x),
    "gather": tf.gather(x, [2, 0], axis=1), "gather_nd": tf.gather_nd(x, [[0, 1], [1, 2]]), "batched": tf.gather(x, [[0], [2]], batch_dims=1),
    "scatter": tf.scatter_nd([[1], [3]], [5.0, 6.0], [4]), "update": tf.tensor_scatter_nd_update(x, [[0, 0]], [9.0]), "where": tf.where(x > 2, x, 0.0),
    "indices": tf.where(x > 3), "mask": tf.boolean_mask(x, x > 2), "onehot": tf.one_hot([0, 2], 3), "cumsum": tf.cumsum(x, axis=1, exclusive=True),
    "cumprod": tf.math.cumprod(x, axis=1), "segment": tf.math.segment_sum(x, [0, 0]), "unsorted": tf.math.unsorted_segment_mean(tf.constant([1.0, 2.0, 3.0]), [1, 0, 1], 2),
    "norm": tf.norm(x, axis=1), "l2": tf.nn.l2_normalize(x, axis=1), "moments": tf.stack(tf.nn.moments(x, axes=[0])), "pad": tf.pad(x, [[1, 0], [0, 2]]), "reflect": tf.pad(x, [[0, 0], [1, 1]], "REFLECT"),
    "tile": tf.tile(x, [2, 1]), "repeat": tf.repeat(x, 2, axis=0), "roll": tf.roll(x, 1, axis=1), "reverse": tf.reverse(x, [1]), "slices": x[:, ::-1][..., tf.newaxis][1:],
    "band": tf.linalg.band_part(tf.ones((3, 3)), -1, 0), "diag": tf.linalg.diag([1.0, 2.0]), "inv": tf.linalg.inv([[2.0, 1.0], [1.0, 3.0]]), "det": tf.linalg.det([[2.0, 1.0], [1.0, 3.0]]),
    "solve": tf.linalg.solve([[2.0, 1.0], [1.0, 3.0]], [[1.0], [2.0]]), "chol": tf.linalg.cholesky([[4.0, 2.0], [2.0, 3.0]]), "softmax": tf.nn.softmax(x), "lse": tf.reduce_logsumexp(x, axis=1),
    "std": tf.math.reduce_std(x), "intmean": tf.reduce_mean(tf.constant([1, 2, 4])), "div": tf.constant(7) / tf.constant(2), "floordiv": tf.constant(-7) // tf.constant(2), "mod": tf.constant(-7) % tf.constant(3),
    "cast": tf.cast(tf.constant([1.7, -1.7]), tf.int32), "clip": tf.clip_by_value(x, 2.0, 5.0), "clipn": tf.clip_by_norm(x, 1.0), "argmax": tf.argmax(x, axis=1), "stack": tf.stack([x, x], axis=1).shape.as_list(),
    "concat": tf.concat([x, x], axis=1), "split": tf.split(x, 3, axis=1)[1], "meshgrid": tf.meshgrid([1, 2], [3, 4])[0], "linspace": tf.linspace(0.0, 1.0, 5), "range": tf.range(2, 10, 3), "eye": tf.eye(2, 3),
    "tensordot": tf.tensordot(x, x, axes=[[1], [1]]), "unique": tf.unique([3, 1, 3])[0], "seqmask": tf.cast(tf.sequence_mask([1, 3], 4), tf.int32), "map": tf.map_fn(lambda r: r * 2, x), "scan": tf.scan(lambda a, b: a + b, x),
    "resize": tf.image.resize(tf.reshape(tf.range(16.0), (1, 4, 4, 1)), (6, 3)), "conv_t": tf.nn.conv2d_transpose(tf.reshape(tf.range(4.0), (1, 2, 2, 1)), tf.reshape(tf.range(9.0), (3, 3, 1, 1)), [1, 4, 4, 1], 2, "SAME"),
    "gray": tf.image.rgb_to_grayscale(tf.ones((2, 2, 3))), "bincount": tf.math.bincount([1, 1, 3]), "confusion": tf.math.confusion_matrix([0, 1, 1], [0, 1, 0]), "erfinv": tf.math.erfinv([0.1, 0.5, 0.9]), "atan2": tf.atan2([1.0, -1.0], [-1.0, 2.0]),
    "invert": tf.math.invert_permutation([1, 0]) if False else 0, "patches": tf.image.extract_patches(tf.reshape(tf.range(16.0), (1, 4, 4, 1)), [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
}
