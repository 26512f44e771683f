"""Ragged and sparse tensors as elements of data sets, and models that are trained with them."""

import keras
import numpy as np
import tensorflow as tf

Dataset = tf.data.Dataset
result = {}


def note(name, dataset):
    """All elements: what a ragged tensor's values and rows are, a sparse one's places, values and shape, or the array."""
    found = []
    for element in dataset:
        for each in tf.nest.flatten(element):
            if isinstance(each, tf.RaggedTensor):
                found += [*each.flat_values.numpy().ravel(), *(n for splits in each.nested_row_splits for n in splits.numpy())]
            elif isinstance(each, tf.SparseTensor):
                found += [*each.indices.numpy().ravel(), *each.values.numpy(), *each.dense_shape.numpy()]
            else:
                found += [*each.shape, *each.numpy().ravel()]
    result[name] = np.asarray(found, np.float64)


rows = tf.ragged.constant([[1, 2], [3], [4, 5, 6], []])
deep = tf.ragged.constant([[[1, 2], [3]], [], [[4]]])
ragged = Dataset.from_tensor_slices(rows)
note("rows", ragged)
note("batches", ragged.batch(3))
note("full batches", ragged.batch(3, drop_remainder=True))
note("deep rows", Dataset.from_tensor_slices(deep))
note("deep batches", Dataset.from_tensor_slices(deep).batch(2))
note("one element", Dataset.from_tensors(rows))
note("mapped", ragged.map(lambda x: x * 2))
note("sums", ragged.batch(2).map(lambda r: tf.reduce_sum(r, axis=1)))
note("dense", ragged.batch(2).map(lambda r: r.to_tensor()))
note("rows again", ragged.batch(2).unbatch())
note("made by a function", Dataset.range(3).map(lambda x: tf.RaggedTensor.from_row_lengths(tf.range(x * 2), [x, x])))
note("beside others", Dataset.zip((ragged, Dataset.range(4))).batch(2))
note("in a dictionary", Dataset.from_tensor_slices({"a": rows, "b": [1, 2, 3, 4]}).batch(4))
note("stages", ragged.repeat(2).skip(1).take(3).cache().prefetch(1))
note("filtered", ragged.filter(lambda x: tf.size(x) > 1))
note("from a generator", Dataset.from_generator(lambda: iter([rows]), output_signature=tf.RaggedTensorSpec(shape=(4, None), dtype=tf.int32)))
result["reduced"] = ragged.reduce(0, lambda a, x: a + tf.reduce_sum(x))
result["shuffled"] = sorted(len(x) for x in ragged.shuffle(4))

lengths = Dataset.range(5).map(lambda x: tf.range(x))
note("ragged batches", lengths.ragged_batch(2))
note("old ragged batches", lengths.apply(tf.data.experimental.dense_to_ragged_batch(2)))
note("of one shape", Dataset.from_tensor_slices([[1, 2], [3, 4]]).ragged_batch(2))
note("padded", lengths.padded_batch(3))
note("sparse batches", lengths.apply(tf.data.experimental.dense_to_sparse_batch(2, [6])))
note("buckets", lengths.bucket_by_sequence_length(lambda e: tf.size(e), [2, 4], [2, 2, 2]))

places = tf.SparseTensor([[0, 0], [1, 2], [2, 1]], [1.0, 2.0, 3.0], [3, 4])
sparse = Dataset.from_tensor_slices(places)
note("sparse rows", sparse)
note("batches of sparse", sparse.batch(2))
note("dense rows", sparse.map(tf.sparse.to_dense))
note("dense batches", sparse.batch(2).map(tf.sparse.to_dense))
note("sparse from a generator", Dataset.from_generator(lambda: iter([places]), output_signature=tf.SparseTensorSpec(shape=(3, 4), dtype=tf.float32)))
result["sparse arrays"] = np.stack(list(sparse.as_numpy_iterator()))


@tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
def sums(r):
    return tf.reduce_sum(r, axis=1)


result["in a function"] = sums(rows)


def trained(x, y, *layers):
    model = keras.Sequential(list(layers))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    found = model.fit(Dataset.from_tensor_slices((x, y)).batch(2), epochs=2, verbose=0).history["loss"]
    return [*found, *model.predict(x, verbose=0).ravel()]


full = tf.ragged.constant([[1, 2], [3], [4, 5, 6], [1]])
result["trained"] = trained(places, [1.0, 2.0, 3.0], keras.Input((4,), sparse=True), keras.layers.Dense(1, kernel_initializer="ones"))
embedded = keras.layers.Embedding(10, 2, embeddings_initializer="ones")
result["embedded"] = keras.layers.GlobalAveragePooling1D()(embedded(full))
result["trained on ragged"] = trained(full, [1.0, 2.0, 3.0, 4.0], embedded, keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1, kernel_initializer="ones"))
numbers = keras.layers.TextVectorization(ragged=True, vocabulary=["a", "b"])(tf.constant(["a b", "b"]))
result["texts"] = [*numbers.flat_values.numpy(), *numbers.row_splits.numpy()]
keras.utils.clear_session()  # Other programs of this process count their names from the beginning.
