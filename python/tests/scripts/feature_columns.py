"""Columns of features as tables: TensorFlow's own input layer of its first version, and DenseFeatures, which TensorFlow has no more."""

import numpy as np
import tensorflow as tf

fc = tf.feature_column
result = {}
features = {
    "age": np.float32([[23], [61], [45], [10]]), "pair": np.float32([[1, 5], [2, 6], [3, 7], [4, 8]]), "kind": np.array([["dog"], ["cat"], ["mouse"], ["dog"]]),
    "level": np.array([[0], [3], [1], [2]]), "tags": np.array([["a", "b"], ["b", ""], ["c", "c"], ["", ""]]), "codes": np.array([[7, 8], [9, -1], [7, 7], [-1, -1]]),
    "full": np.array([["a", "b"], ["b", "a"], ["c", "c"], ["b", "c"]]), "weights": np.float32([[1, 2], [3, 1], [0.5, 0.25], [1, 1]]),
}


def table(*columns):
    if hasattr(tf.keras.layers, "DenseFeatures"):
        return tf.keras.layers.DenseFeatures(list(columns))(features).numpy()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensor = tf.compat.v1.feature_column.input_layer({k: tf.constant(v) for k, v in features.items()}, list(columns))
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        return session.run(tensor)


def spread(*sizes):
    return tf.compat.v1.constant_initializer(np.arange(np.prod(sizes), dtype="float32").reshape(sizes) / 10)


age, pair = fc.numeric_column("age"), fc.numeric_column("pair", shape=2)
buckets, pairs = fc.bucketized_column(age, [18, 30, 60]), fc.bucketized_column(pair, [2.5, 6])
kind = fc.categorical_column_with_vocabulary_list("kind", ["cat", "dog"])
open_kind = fc.categorical_column_with_vocabulary_list("kind", ["cat", "dog"], num_oov_buckets=3)
default_kind = fc.categorical_column_with_vocabulary_list("kind", ["cat", "dog"], default_value=0)
level = fc.categorical_column_with_identity("level", 4)
low_level = fc.categorical_column_with_identity("level", 2, default_value=0)
tags = fc.categorical_column_with_vocabulary_list("tags", ["a", "b", "c"])
codes = fc.categorical_column_with_vocabulary_list("codes", [7, 8, 9])
hashed, hashed_codes = fc.categorical_column_with_hash_bucket("tags", 5), fc.categorical_column_with_hash_bucket("codes", 6, dtype=tf.int64)
crossed, crossed_tags = fc.crossed_column([buckets, "kind"], 10), fc.crossed_column(["tags", kind, level], 7)
weighted = fc.weighted_categorical_column(fc.categorical_column_with_vocabulary_list("full", ["a", "b", "c"]), "weights")

for i, column in enumerate([
    age, pair, fc.numeric_column("age", normalizer_fn=lambda x: (x - 40.0) / 10.0), buckets, pairs, *(fc.indicator_column(c) for c in (
        kind, open_kind, default_kind, level, low_level, tags, codes, hashed, hashed_codes, crossed, crossed_tags, weighted, pairs,
    )),
]):
    result[f"column {i}"] = table(column)
for combiner in ("mean", "sqrtn", "sum"):
    for name, column, count in (("tags", tags, 3), ("kind", kind, 2), ("crossed", crossed, 10), ("weighted", weighted, 3)):
        result[f"{combiner} of {name}"] = table(fc.embedding_column(column, 2, combiner=combiner, initializer=spread(count, 2)))
result["short vectors"] = table(fc.embedding_column(tags, 2, initializer=spread(3, 2), max_norm=0.3))
result["side by side"] = table(fc.indicator_column(kind), age, fc.embedding_column(level, 3, initializer=spread(4, 3)), buckets, fc.indicator_column(crossed))
result["names"] = [
    c.name == name for c, name in (
        (buckets, "age_bucketized"), (crossed, "age_bucketized_X_kind"), (fc.indicator_column(kind), "kind_indicator"), (fc.embedding_column(kind, 2), "kind_embedding"),
        (weighted, "full_weighted_by_weights"), (crossed_tags, "kind_X_level_X_tags"),
    )
]
result["sizes"] = [c.num_buckets for c in (kind, open_kind, level, hashed, crossed, weighted)]
spec = fc.make_parse_example_spec([age, pair, kind, crossed, weighted])
result["features in files"] = [sorted(spec) == ["age", "full", "kind", "pair", "weights"], *spec["pair"].shape, spec["kind"].dtype == tf.string, spec["weights"].dtype == tf.float32]
