"""What tf.data does to elements: window, interleave, padded batches, caches, generators, dictionaries."""

import numpy as np
import tensorflow as tf


def lists(dataset):
    return [e.numpy().tolist() for e in dataset]


series = tf.range(12)
window_size = 4
windows = tf.data.Dataset.from_tensor_slices(series)
windows = windows.window(window_size + 1, shift=1, drop_remainder=True)
windows = windows.flat_map(lambda w: w.batch(window_size + 1))
windows = windows.map(lambda w: (w[:-1], w[-1])).batch(3).prefetch(1)
inputs, targets = zip(*[(a.numpy().sum(), b.numpy().sum()) for a, b in windows])


def generate():
    for i in range(5):
        yield np.full((i + 1,), i, dtype="float32"), i % 2


generated = tf.data.Dataset.from_generator(generate, output_signature=(tf.TensorSpec(shape=(None,), dtype=tf.float32), tf.TensorSpec(shape=(), dtype=tf.int32)))
padded = generated.padded_batch(2, padded_shapes=([6], []), padding_values=(-1.0, 0))
numbers = tf.data.Dataset.range(10)
features = tf.data.Dataset.from_tensor_slices({"a": np.arange(6.0), "b": np.arange(12).reshape(6, 2)})
scaled = features.map(lambda f: {"c": f["a"] * 2.0 + tf.cast(tf.reduce_sum(f["b"]), tf.float64)})


@tf.function
def total(dataset):
    state = tf.constant(0, tf.int64)
    for element in dataset:
        state += element
    return state


def augment(value, label):
    value = tf.cond(tf.equal(label, 0), lambda: value * 10.0, lambda: value)
    return value, tf.one_hot(label, 3)


pairs = tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0]), tf.data.Dataset.from_tensor_slices([0, 1, 2]))).map(augment, num_parallel_calls=tf.data.AUTOTUNE)
images = tf.data.Dataset.from_tensors(tf.reshape(tf.range(16.0), (4, 4, 1))).repeat(3)
result = {
    "inputs": inputs, "targets": targets,
    "padded": [p.numpy().sum() for p, _ in padded], "padded_shape": [list(p.shape) for p, _ in padded],
    "filter": lists(numbers.filter(lambda v: v % 3 == 0)), "take_while": lists(numbers.take_while(lambda v: v < 4)), "skip": lists(numbers.skip(7)), "shard": lists(numbers.shard(3, 1)),
    "repeat": lists(numbers.take(2).repeat(2)), "concatenate": lists(numbers.take(2).concatenate(numbers.skip(8))), "enumerate": [int(i) * int(v) for i, v in numbers.enumerate(start=2)],
    "interleave": lists(tf.data.Dataset.range(1, 4).interleave(lambda v: tf.data.Dataset.from_tensors(v).repeat(3), cycle_length=2, block_length=2)),
    "flat": lists(tf.data.Dataset.range(3).flat_map(lambda v: tf.data.Dataset.range(v + 1))), "scan": lists(numbers.scan(np.int64(0), lambda s, v: (s + v, s + v))),
    "reduce": int(numbers.reduce(np.int64(0), lambda s, v: s + v)), "unbatch": lists(numbers.batch(4).unbatch().take(5)), "batches": [len(b) for b in numbers.batch(4)], "dropped": [len(b) for b in numbers.batch(4, drop_remainder=True)],
    "scaled": [float(f["c"]) for f in scaled], "cardinality": [int(numbers.batch(3).cardinality()), len(numbers), int(tf.data.experimental.cardinality(numbers.repeat()))],
    "total": total(numbers), "pairs": [v.numpy() for v, _ in pairs], "one_hot": [l.numpy().tolist() for _, l in pairs], "cached": [lists(c) for c in [numbers.map(lambda v: v * v).cache()] for _ in range(2)],
    "shuffled": sorted(lists(numbers.shuffle(5, seed=1))), "images": [float(tf.reduce_sum(tf.image.flip_left_right(i)[0])) for i in images], "numpy": sum(int(v) for v in numbers.as_numpy_iterator()),
    "group": [g.numpy().tolist() for g in numbers.group_by_window(key_func=lambda v: v % 2, reduce_func=lambda k, d: d.batch(2), window_size=2).take(2)],
    "sum_of_spec": len(features.element_spec), "choose": lists(tf.data.Dataset.choose_from_datasets([numbers.take(2), numbers.skip(8)], tf.data.Dataset.from_tensor_slices(np.array([0, 1, 1, 0], "int64")))),
    "apply": lists(numbers.apply(lambda d: d.filter(lambda v: v > 7))), "bounds": lists(tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).map(tf.reduce_max)),
}
