"""Lookups of texts and integers: several numbers for unknown values, weights of rare ones, sizes that are filled up."""

import keras
import numpy as np
import tensorflow as tf

L = keras.layers
words, texts = ["a", "b", "c"], np.array([["a", "c", "d"], ["e", "zz", "b"]])
numbers = np.array([[7, 9, 11], [8, 12, -3]])
rare = {"idf_weights": [0.5, 1.0, 2.0], "output_mode": "tf_idf"}
padded = {"max_tokens": 6, "pad_to_max_tokens": True}
result = {
    "texts, two for unknown ones": L.StringLookup(vocabulary=words, num_oov_indices=2)(texts),
    "texts, three and a mask": L.StringLookup(vocabulary=words, num_oov_indices=3, mask_token="")(np.array([["", "q", "a"]])),
    "integers, two for unknown ones": L.IntegerLookup(vocabulary=[7, 8, 9], num_oov_indices=2)(numbers),
    "integers, three and a mask": L.IntegerLookup(vocabulary=[7, 8, 9], num_oov_indices=3, mask_token=0)(np.array([[0, 7, 100, -5]])),
    "which": L.StringLookup(vocabulary=words, output_mode="multi_hot")(texts),
    "which, filled up": L.StringLookup(vocabulary=words, output_mode="multi_hot", **padded)(texts),
    "how many, filled up": L.IntegerLookup(vocabulary=[7, 8], output_mode="count", **padded)(numbers),
    "one, filled up": L.StringLookup(vocabulary=words, output_mode="one_hot", **padded)(np.array(["a", "q"])),
    "weighed": L.StringLookup(vocabulary=words, **rare)(texts),
    "weighed, filled up": L.StringLookup(vocabulary=words, **rare, **padded)(texts),
    "weighed integers": L.IntegerLookup(vocabulary=[7, 8, 9], **rare)(numbers),
}
learnt = L.StringLookup(output_mode="tf_idf")
learnt.adapt(np.array([["a", "b"], ["a", "c"], ["a", "a"]]))
result["learnt weights"] = learnt(np.array([["a", "b", "q"]]))
inputs = keras.Input((3,), dtype="int64")
model = keras.Model(inputs, L.IntegerLookup(vocabulary=[7, 8, 9], num_oov_indices=2, mask_token=11)(inputs))
result["in a model"] = model.predict(numbers, verbose=0)
for name, wrong in {"no weights": {"output_mode": "tf_idf"}, "weights": {"idf_weights": [1.0, 2.0, 3.0]}, "no size": {"pad_to_max_tokens": True, "output_mode": "count"}}.items():
    try:
        L.StringLookup(vocabulary=words, **wrong)
        result[name] = 0
    except ValueError:
        result[name] = 1
keras.utils.clear_session()

outside = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(["e", "p"], tf.constant([0, 1], tf.int64)), 5)
result["buckets of texts"] = outside[tf.constant(["e", "x", "why", "king", "p"])]
outside = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(tf.constant([4, 9], tf.int64), tf.constant([0, 1], tf.int64)), 5)
result["buckets of numbers"] = outside[tf.constant([4, 5, 6, 7, 9], tf.int64)]
for i, (keys, values) in enumerate(((tf.constant(["a", "b"]), tf.constant([7, 8])), (["a", "b"], [7, 8]), (np.array(["a", "b"]), np.array([7, 8])))):
    found = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1).lookup(tf.constant(["b", "z"]))
    result[f"table {i}"] = [*found.numpy(), found.dtype.size]
rows = tf.ragged.constant([["Who", "is", "Dan"], ["Pause"], ["Will", "it"]])
result["buckets of rows"] = tf.strings.to_hash_bucket_fast(rows, 1024).to_tensor()
