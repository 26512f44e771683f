import sys

import numpy as np
import pytest

import tandem as tf


def test_records_go_through_files(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(5):
            feature = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([i] * 4)])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[-i])),
                "weights": tf.train.Feature(float_list=tf.train.FloatList(value=[i, 0.5])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    kinds = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64), "weights": tf.io.FixedLenFeature([2], tf.float32)}

    def parse(record):
        found = tf.io.parse_single_example(record, kinds)
        return tf.io.decode_raw(found["image"], tf.uint8), found["label"], found["weights"]

    batches = list(tf.data.TFRecordDataset(path).map(parse).batch(3))
    assert batches[0][0].numpy().tolist() == [[0] * 4, [1] * 4, [2] * 4]
    assert batches[1][1].numpy().tolist() == [-3, -4] and batches[1][2].numpy().tolist() == [[3.0, 0.5], [4.0, 0.5]]
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[20] ^= 1
    (tmp_path / "b.tfrecord").write_bytes(data)
    with pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset(str(tmp_path / "b.tfrecord")))


def test_texts(tmp_path):
    (tmp_path / "lines.txt").write_text("b a\na\n")
    lines = tf.data.TextLineDataset(str(tmp_path / "lines.txt"))
    assert [v.numpy() for v in lines] == [b"b a", b"a"]
    layer = tf.keras.layers.TextVectorization(output_sequence_length=3)
    layer.adapt(lines.batch(2))
    assert layer.get_vocabulary() == ["", "[UNK]", "a", "b"]
    assert layer(np.array(["a b c"])).numpy().tolist() == [[2, 3, 1]]
    assert tf.keras.layers.StringLookup(vocabulary=["x", "y"])(tf.constant(["y", "z"])).numpy().tolist() == [2, 0]


def test_a_data_set_is_read_again_and_again():
    dataset = tf.data.Dataset.range(4).shuffle(4, seed=1, reshuffle_each_iteration=False)
    assert [int(v) for v in dataset] == [int(v) for v in dataset]
    assert dataset.element_spec.dtype == tf.int64 and len(dataset) == 4
    with pytest.raises(TypeError, match="pickled"):
        import pickle

        pickle.dumps(dataset)


def test_rows_of_tables_in_text_files(tmp_path):
    import gzip

    lines = ['name,count,share', '"a, b",3,0.5', 'c,,0.25', 'd,7,']
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    defaults = [tf.constant("none"), 9, tf.constant([0.125], tf.float32)]
    rows = list(tf.data.experimental.CsvDataset(str(tmp_path / "t.csv"), defaults, header=True))
    assert [row[0].numpy() for row in rows] == [b"a, b", b"c", b"d"]
    assert [int(row[1]) for row in rows] == [3, 9, 7] and rows[0][1].dtype == tf.int32
    assert [float(row[2]) for row in rows] == [0.5, 0.25, 0.125]
    with pytest.raises(tf.errors.InvalidArgumentError, match="required"):
        tf.data.experimental.CsvDataset([str(tmp_path / "t.csv.gz")], [tf.float32], compression_type="GZIP", header=True, select_cols=[2])
    name, count = tf.io.decode_csv(['"x, y",1', "z,2"], [[""], tf.int32])
    assert name.numpy().tolist() == [b"x, y", b"z"] and count.numpy().tolist() == [1, 2]
    assert [v.dtype.name for v in tf.io.decode_csv("4;5.5", [0, 0.0], field_delim=";")] == ["int32", "float32"]


def test_specs_of_batches_say_that_the_last_may_be_smaller():
    rows = tf.data.Dataset.from_tensor_slices((np.ones((5, 3), "float32"), np.ones(5)))
    specs = rows.batch(2).map(lambda x, y: (x * 2, y)).shuffle(2).prefetch(1).element_spec
    assert [s.shape.as_list() for s in specs] == [[None, 3], [None]]
    assert rows.batch(2, drop_remainder=True).element_spec[0].shape.as_list() == [2, 3]
    assert rows.batch(2).unbatch().element_spec[0].shape.as_list() == [3]
    numbers = tf.data.Dataset.range(3).batch(2)
    assert tf.data.Dataset.zip((numbers, numbers)).element_spec[1].shape.as_list() == [None]
    total = tf.function(tf.reduce_sum, input_signature=[numbers.element_spec])
    assert [int(total(b)) for b in numbers] == [1, 2] and total.experimental_get_tracing_count() == 1


def test_functions_of_a_data_set_print_once_for_each_element(capsys):
    def shown(x):
        tf.print("element", x, output_stream=sys.stdout)
        return x + 1

    numbers = tf.data.Dataset.range(2).map(shown)
    assert numbers.element_spec.dtype == tf.int64 and [int(x) for x in numbers.batch(2).unbatch()] == [1, 2]
    assert capsys.readouterr().out.splitlines() == ["element 0", "element 1"]


def test_kinds_of_ragged_and_sparse_elements_read_as_in_tensorflow():
    rows = tf.ragged.constant([[1, 2], [3], [4, 5, 6], []])
    ragged = tf.data.Dataset.from_tensor_slices(rows)
    assert str(ragged) == "<_TensorSliceDataset element_spec=RaggedTensorSpec(TensorShape([None]), tf.int32, 0, tf.int64)>"
    assert str(ragged.batch(2)) == "<_BatchDataset element_spec=RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64)>"
    assert repr(ragged.batch(2, drop_remainder=True).element_spec) == "RaggedTensorSpec(TensorShape([2, None]), tf.int32, 1, tf.int64)"
    assert repr(ragged.batch(2).unbatch().element_spec) == "RaggedTensorSpec(TensorShape([None]), tf.int32, 0, tf.int64)"
    lengths = tf.data.Dataset.range(5).map(lambda x: tf.range(x))
    assert lengths.element_spec.dtype == tf.int64  # What is seen of the first element does not bind the others.
    assert repr(lengths.ragged_batch(2).element_spec) == "RaggedTensorSpec(TensorShape([None, None]), tf.int64, 1, tf.int64)"
    assert tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).ragged_batch(2).element_spec == tf.TensorSpec((None, 2), tf.int32)
    places = tf.SparseTensor([[0, 0], [1, 2], [2, 1]], [1.0, 2.0, 3.0], [3, 4])
    sparse = tf.data.Dataset.from_tensor_slices(places)
    assert repr(sparse.element_spec) == "SparseTensorSpec(TensorShape([4]), tf.float32)"
    assert repr(sparse.batch(2).element_spec) == "SparseTensorSpec(TensorShape([None, 4]), tf.float32)"
    kind = tf.RaggedTensorSpec([None, None], tf.int32)
    assert kind.is_compatible_with(rows) and kind == tf.RaggedTensorSpec([None, None], tf.int32) and kind.ragged_rank == 1
    assert tf.type_spec_from_value(rows).shape.as_list() == [4, None] and tf.SparseTensorSpec([3, 4]).is_compatible_with(places)
    with pytest.raises(ValueError, match="must be less than rank"):
        tf.RaggedTensorSpec([None], tf.int32, ragged_rank=1)
    with pytest.raises(TypeError, match="ragged_batch and batch take such elements"):
        list(tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[[1, 2], [3]], [], [[4]]])).padded_batch(2))


def test_ragged_batches_train_alone_not_under_strategies():
    rows = tf.ragged.constant([[1, 2], [3], [4, 5, 6], [1]])
    with tf.distribute.MirroredStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Embedding(10, 2), tf.keras.layers.GlobalAveragePooling1D()])
        model.compile("sgd", "mse")
    with pytest.raises(NotImplementedError, match="to_tensor"):
        model.fit(tf.data.Dataset.from_tensor_slices((rows, np.ones((4, 2)))).batch(2), verbose=0)


def test_elements_that_raise_are_left_out_where_asked_for():
    def invert(x):
        if float(x) == 0.0:
            raise KeyError("zero")
        return 1.0 / x

    for data in (tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0]), tf.data.Dataset.from_generator(lambda: iter([1.0, 0.0, 2.0]), output_signature=tf.TensorSpec(()))):
        assert [float(v) for v in data.map(invert).ignore_errors()] == [1.0, 0.5]
        assert [float(v) for v in data.map(invert).apply(tf.data.experimental.ignore_errors())] == [1.0, 0.5]
        with pytest.raises(KeyError, match="zero"):
            list(data.map(invert))


def test_elements_are_of_the_kind_that_was_said():
    spec = tf.TensorSpec([2], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \(1,\) where an element of shape \(2,\)"):
        list(tf.data.Dataset.from_generator(lambda: iter([[1, 2], [3]]), output_signature=spec))
    with pytest.raises(TypeError, match="2 parts"):
        list(tf.data.Dataset.from_generator(lambda: iter([([1, 2], 1, 1)]), output_signature=(spec, tf.TensorSpec(()))))
    with pytest.raises(TypeError, match="int64.*float32"):
        list(tf.data.Dataset.range(2).concatenate(tf.data.Dataset.from_tensor_slices([1.0])))
    with pytest.raises(ValueError, match="tf.bool"):
        list(tf.data.Dataset.range(2).filter(lambda x: x))
