"""Ragged tensors of one and two ragged axes: how they are made, indexed, joined, reduced; data sets of them."""

import numpy as np
import tensorflow as tf

result = {}


def keep(key, value):
    """Values and where rows end, or how far an axis goes."""
    if isinstance(value, tf.RaggedTensor):
        result[f"{key} values"] = tf.cast(value.flat_values, tf.float64)
        for i, splits in enumerate(value.nested_row_splits):
            result[f"{key} splits {i}"] = splits
        result[f"{key} rank"] = value.ragged_rank
        result[f"{key} shape"] = [-1 if s is None else s for s in value.shape.as_list()]
    else:
        result[key] = tf.cast(value, tf.float64)


one = tf.ragged.constant([[3, 1, 4], [], [1, 5], [9]])
two = tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6]], [[], [7]]], dtype=tf.float32)
pairs = tf.RaggedTensor.from_row_splits(tf.reshape(tf.range(12.0), (6, 2)), [0, 2, 2, 6])
dense = tf.constant([[1, 2, 3], [4, 5, 6]])

keep("one", one)
keep("two", two)
keep("pairs", pairs)
keep("inner", tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], inner_shape=(2,)))
keep("rank 1", tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1))
keep("empty", tf.ragged.constant([[], []], dtype=tf.int32))
keep("lengths", tf.RaggedTensor.from_row_lengths(tf.range(6), [2, 0, 4]))
keep("rowids", tf.RaggedTensor.from_value_rowids(tf.range(5), [0, 0, 2, 2, 3], nrows=5))
keep("starts", tf.RaggedTensor.from_row_starts(tf.range(5), [0, 2, 2]))
keep("limits", tf.RaggedTensor.from_row_limits(tf.range(5), [2, 2, 5]))
keep("uniform", tf.RaggedTensor.from_uniform_row_length(tf.range(6), 2))
keep("nested splits", tf.RaggedTensor.from_nested_row_splits(tf.range(6), [[0, 2, 3], [0, 2, 2, 6]]))
keep("nested lengths", tf.RaggedTensor.from_nested_row_lengths(tf.range(6), [[2, 1], [2, 0, 4]]))
keep("nested rowids", tf.RaggedTensor.from_nested_value_rowids(tf.range(6), [[0, 0, 1], [0, 0, 2, 2, 2, 2]]))
keep("from tensor", tf.RaggedTensor.from_tensor(dense))
keep("from lengths", tf.RaggedTensor.from_tensor(dense, lengths=[1, 3]))
keep("from padding", tf.RaggedTensor.from_tensor(tf.constant([[1, 0, 0], [2, 3, 0], [0, 4, 0]]), padding=0))
keep("from rank 2", tf.RaggedTensor.from_tensor(tf.reshape(tf.range(8), (2, 2, 2)), ragged_rank=2))
keep("with values", one.with_values(tf.range(6)))
keep("with flat values", two.with_flat_values(tf.range(7)))
keep("merged", two.merge_dims(0, 1))
keep("merged inner", two.merge_dims(1, 2))

for name, rt in {"one": one, "two": two, "pairs": pairs}.items():
    keep(f"{name} nrows", rt.nrows())
    keep(f"{name} row_lengths", rt.row_lengths())
    keep(f"{name} starts", rt.row_starts())
    keep(f"{name} limits", rt.row_limits())
    keep(f"{name} rowids", rt.value_rowids())
    keep(f"{name} bounding", rt.bounding_shape())
    keep(f"{name} dense", rt.to_tensor())
    keep(f"{name} dense -1", rt.to_tensor(default_value=-1))
    keep(f"{name} first", rt[0])
    keep(f"{name} last", rt[-1])
    keep(f"{name} slice", rt[1:3])
    keep(f"{name} backward", rt[::-1])
    keep(f"{name} of rows", rt[:, :1])
    keep(f"{name} ends of rows", rt[:, -1:])
    keep(f"{name} sum", tf.reduce_sum(rt))
    for axis in range(len(rt.shape)):
        keep(f"{name} sum {axis}", tf.reduce_sum(rt, axis=axis))
        keep(f"{name} max {axis}", tf.reduce_max(tf.concat([rt, rt[:1], rt], axis=0)[:1], axis=axis))
        keep(f"{name} prod {axis}", tf.reduce_prod(rt, axis=axis))
    keep(f"{name} kept", tf.reduce_sum(rt, axis=1, keepdims=True))
    keep(f"{name} both", tf.reduce_sum(rt, axis=[0, 1]))
    keep(f"{name} concat 0", tf.concat([rt, rt], axis=0))
    keep(f"{name} concat 1", tf.concat([rt, rt], axis=1))
    keep(f"{name} stack 0", tf.stack([rt, rt]))
    keep(f"{name} stack 1", tf.stack([rt, rt], axis=1))
    keep(f"{name} expanded 0", tf.expand_dims(rt, 0))
    keep(f"{name} expanded 1", tf.expand_dims(rt, 1))
    keep(f"{name} gather", tf.gather(rt, [2, 0, 2]))
    keep(f"{name} reversed", tf.reverse(rt, [0, 1]))
    keep(f"{name} tiled", tf.tile(rt, [2, 2] + [1] * (len(rt.shape) - 2)))
    keep(f"{name} plus", rt + rt)
    keep(f"{name} number", 2 * rt + 1)
    keep(f"{name} map", tf.ragged.map_flat_values(tf.square, rt))
    keep(f"{name} cast", tf.cast(rt, tf.float64))
    keep(f"{name} abs", tf.abs(-rt))
    keep(f"{name} equal", rt == rt)
    keep(f"{name} less", tf.cast(rt < 4, tf.int32))
    keep(f"{name} where", tf.where(rt > 3, rt, -rt))
    keep(f"{name} size", tf.size(rt))
    keep(f"{name} mask", tf.ragged.boolean_mask(rt, rt > 3) if name != "pairs" else tf.ragged.boolean_mask(rt, [True, False, True]))

keep("two mean", tf.reduce_mean(two[2:], axis=2))
keep("one mean", tf.reduce_mean(tf.cast(one[2:], tf.float32), axis=1))
keep("any", tf.reduce_any(one > 3, axis=1))
keep("all", tf.reduce_all(one > 3, axis=1))
keep("two at", two[0, 1])
keep("two element", two[0, 0, 1])
keep("two of parts", two[:, :, :1])
keep("two of middle", two[0:1, 1:, 0:])
keep("pairs column", pairs[:, :, 1])
keep("pairs ellipsis", pairs[..., 0])
keep("two lengths", two.row_lengths(axis=2))
keep("two shaped", two.to_tensor(shape=[None, 3, 2]))
keep("beside rows", one + tf.constant([[10], [20], [30], [40]]))
keep("stack of vectors", tf.ragged.stack([[1, 2, 3], [4]]))
keep("stack of tensors", tf.ragged.stack([tf.constant([1, 2, 3]), tf.constant([4])]))
keep("range", tf.ragged.range([0, 5, 8], [3, 3, 12]))
keep("range of limits", tf.ragged.range([2, 0, 3]))
keep("looked up", tf.gather(tf.reshape(tf.range(20.0), (10, 2)), one))
keep("embedded", tf.nn.embedding_lookup(tf.reshape(tf.range(20.0), (10, 2)), one))
keep("with dense", tf.concat([tf.RaggedTensor.from_tensor(dense), one[:2]], axis=1))
keep("ids", tf.ragged.row_splits_to_segment_ids([0, 2, 2, 5]))
keep("splits of ids", tf.ragged.segment_ids_to_row_splits([0, 0, 2, 2, 2]))
keep("sparse", one.to_sparse().values)
result["lists"] = [sum(map(sum, row)) for row in two.to_list()]
assert two.to_list() == [[[1, 2], [3]], [], [[4, 5, 6]], [[], [7]]] and one[0].numpy().tolist() == [3, 1, 4]

x = tf.constant([1.0, 2, 3, 4])
with tf.GradientTape() as tape:
    tape.watch(x)
    rows = tf.RaggedTensor.from_row_lengths(x, [1, 3])
    loss = tf.reduce_sum(tf.reduce_sum(rows * rows, axis=1) * [1.0, 10.0]) + tf.reduce_sum(rows.to_tensor() ** 3)
keep("gradient", tape.gradient(loss, x))

data = tf.data.Dataset.range(1, 6).map(lambda n: tf.range(n)).ragged_batch(2)
for i, batch in enumerate(data):
    keep(f"batch {i}", batch)
for i, batch in enumerate(tf.data.Dataset.from_tensor_slices(one).batch(3)):
    keep(f"slices {i}", batch if isinstance(batch, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(batch))
for i, each in enumerate(tf.data.Dataset.from_tensor_slices((one, [1, 2, 3, 4])).map(lambda r, n: (tf.reduce_sum(r), n))):
    keep(f"mapped {i}", each[0] + each[1])
