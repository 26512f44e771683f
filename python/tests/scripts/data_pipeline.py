import numpy as np
import tensorflow as tf
D = tf.data.Dataset
take = lambda ds: [np.asarray(v).tolist() if not isinstance(v, tuple) else [np.asarray(e).tolist() for e in v] for v in ds]
ds = D.range(10)
flat = lambda v: np.concatenate([np.ravel(e) for e in v]).tolist() if isinstance(v, (list, tuple)) else np.ravel(v).tolist()
result = {
    "map": take(ds.map(lambda x: x * 2).filter(lambda x: x % 4 == 0)), "batch": flat(take(ds.batch(3))), "take": take(ds.skip(2).take(3)), "zip": flat([flat(v) for v in take(D.zip((ds, ds.map(lambda x: x + 1))))]),
    "enumerate": flat([flat(v) for v in take(D.from_tensor_slices([5, 6]).enumerate())]), "concat": take(ds.take(2).concatenate(ds.skip(8))), "padded": flat([np.ravel(b).tolist() for b in D.range(1, 5).map(lambda x: tf.fill([x], x)).padded_batch(2)]),
    "interleave": take(D.range(3).interleave(lambda x: D.from_tensors(x).repeat(2), cycle_length=2)), "reduce": int(ds.reduce(np.int64(0), lambda a, b: a + b)), "window": flat([list(w.as_numpy_iterator()) for w in ds.window(3, shift=2, drop_remainder=True)]),
    "unbatch": take(ds.batch(4).unbatch()), "shard": take(ds.shard(3, 1)), "cardinality": [int(ds.batch(3).cardinality()), len(ds.repeat(2))], "shuffled": sorted(take(ds.shuffle(10))), "scan": take(ds.scan(np.int64(0), lambda s, x: (s + x, s + x))),
    "generator": take(D.from_generator(lambda: iter([1, 2, 3]), output_signature=tf.TensorSpec((), tf.int32))), "dict": [float(v["a"]) for v in D.from_tensor_slices({"a": [1.0, 2.0], "b": [3, 4]})], "group": flat([np.ravel(b).tolist() for b in ds.group_by_window(lambda x: x % 2, lambda k, d: d.batch(5), 5)]),
}
