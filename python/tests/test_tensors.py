import copy
import decimal
import pickle

import numpy as np
import pytest

import tandem as tf


def test_python_values_become_what_tensorflow_makes_of_them():
    assert tf.constant(1).dtype == tf.int32
    assert tf.constant(1.5).dtype == tf.float32
    assert tf.constant([1, 2]).dtype == "int32"
    assert tf.constant(np.array([1.0])).dtype == tf.float64
    assert tf.constant(2**40).dtype == tf.int64
    assert tf.constant(True).dtype == tf.bool
    assert tf.constant([[1, 2.5]]).dtype == tf.float32
    assert tf.constant(3, dtype=tf.float32).numpy() == np.float32(3)
    assert tf.constant(7, shape=(2, 3)).numpy().tolist() == [[7] * 3] * 2
    with pytest.raises(TypeError):
        tf.constant(1.5, dtype=tf.int32)
    with pytest.raises(ValueError):
        tf.constant([[1], [1, 2]])


def test_arrays_beside_tensors_take_their_dtype():
    x = tf.constant([1.0, 2.0])
    assert (x + np.array([1.0, 1.0])).dtype == tf.float32
    assert (np.array([2.0, 3.0]) * x).numpy().tolist() == [2.0, 6.0]
    assert (1 - x).numpy().tolist() == [0.0, -1.0]
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
        x + tf.constant([1, 2])


def test_arrays_share_memory_that_cannot_be_written():
    x = tf.constant([[1.0, 2.0]]) * 2
    a, b = np.asarray(memoryview(x)), np.asarray(x)
    assert np.shares_memory(a, b) and not a.flags.writeable and not b.flags.writeable
    own = x.numpy()  # As in TensorFlow, the caller's own.
    own /= 2
    own[0, 0] = 7
    assert own.tolist() == [[7.0, 2.0]] and x.numpy().tolist() == [[2.0, 4.0]]
    del x
    assert a.tolist() == [[2.0, 4.0]]


def test_a_read_of_a_variable_stays_as_it_was():
    v = tf.Variable([1.0, 2.0])
    before = v.numpy()
    v.assign([5.0, 6.0])
    assert before.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "key",
    [0, -1, slice(1, None), slice(None, None, -1), (slice(None), 1), (Ellipsis, 0), (0, slice(0, 2), None), (None, 1), (slice(None, None, 2), slice(2, 0, -1)), (-1, -2)],
)
def test_slices_are_numpys(key):
    a = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(tf.constant(a)[key].numpy(), a[key])


def test_masks_and_tensors_name_parts():
    x = tf.constant([[1.0, 5.0], [7.0, 2.0]])
    assert x[x > 2].numpy().tolist() == [5.0, 7.0]
    assert x[tf.constant(1)].numpy().tolist() == [7.0, 2.0]
    assert x[:, tf.constant(0)].numpy().tolist() == [1.0, 7.0]
    with pytest.raises(IndexError):
        x[2]


def test_text():
    x = tf.constant([1.0, 2.0])
    assert str(x) == "tf.Tensor([1. 2.], shape=(2,), dtype=float32)"
    assert repr(x) == "<tf.Tensor: shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    assert f"{tf.constant(0.125):.2f} {tf.constant(3)}" == "0.12 3"
    assert "tf.Variable 'w:0' shape=()" in repr(tf.Variable(1.0, name="w"))


def test_copies_and_pickles():
    x = tf.constant([1.0, 2.0])
    assert pickle.loads(pickle.dumps(x)).numpy().tolist() == [1.0, 2.0]
    v = tf.Variable([1.0], name="w")
    w = copy.deepcopy(v)
    v.assign([3.0])
    assert w.numpy().tolist() == [1.0] and pickle.loads(pickle.dumps(v)).numpy().tolist() == [3.0]


def test_errors_are_built_in_ones_too():
    with pytest.raises(ValueError, match="matmul"):
        tf.matmul(tf.ones((2, 3)), tf.ones((2, 3)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.reshape(tf.ones(3), (2, 2))
    with pytest.raises(KeyError):
        with tf.device("/gpu:7"):
            tf.config.set_soft_device_placement(False)
            try:
                tf.ones(2)
            finally:
                tf.config.set_soft_device_placement(True)


def test_names_that_are_missing_say_so():
    with pytest.raises(AttributeError, match="tandem does not.*reduce_sum"):
        tf.reduce_summ
    with pytest.raises(AttributeError, match="keras.layers"):
        tf.keras.layers.Densee


def test_dtypes_and_shapes():
    assert tf.float32 == "float32" == tf.as_dtype(np.float32) and tf.int32 != tf.int64
    s = tf.TensorShape([None, 3])
    assert s.as_list() == [None, 3] and s.is_compatible_with([5, 3]) and s == (None, 3)
    assert tf.zeros((2, 3)).shape == (2, 3) and tuple(tf.zeros((2, 3)).shape) == (2, 3)


def test_dlpack_and_buffers():
    x = tf.constant([1.0, 2.0])
    assert np.from_dlpack(x).tolist() == [1.0, 2.0]
    assert memoryview(x).tolist() == [1.0, 2.0]


def test_rows_of_different_lengths():
    letters = tf.strings.unicode_split(["abc", "xy"], "UTF-8")
    assert letters.to_list() == [[b"a", b"b", b"c"], [b"x", b"y"]] and letters.shape.as_list() == [2, None]
    lookup = tf.keras.layers.StringLookup(vocabulary=list("abcxy"), mask_token=None)
    assert lookup(letters).to_list() == [[1, 2, 3], [4, 5]] and lookup(letters).to_tensor().numpy().tolist() == [[1, 2, 3], [4, 5, 0]]
    back = tf.keras.layers.StringLookup(vocabulary=list("abcxy"), mask_token=None, invert=True)
    assert tf.strings.reduce_join(back(lookup(letters)), axis=-1).numpy().tolist() == [b"abc", b"xy"]
    rows = tf.ragged.constant([[1, 2], [], [3]])
    assert rows.row_lengths().numpy().tolist() == [2, 0, 1] and rows[2].numpy().tolist() == [3] and rows.values.dtype == tf.int32
    assert tf.RaggedTensor.from_row_lengths([5.0, 6.0, 7.0], [1, 2]).to_tensor(default_value=-1.0).numpy().tolist() == [[5.0, -1.0], [6.0, 7.0]]
    assert [row.numpy().tolist() for row in tf.data.Dataset.from_tensor_slices(rows)] == [[1, 2], [], [3]]
    assert (rows * 2 - rows + [[10], [20], [30]]).to_list() == [[11, 12], [], [33]] and (3 - rows)[:, :1].to_list() == [[2], [], [0]]
    with pytest.raises(ValueError, match="do not fit"):
        rows + tf.ragged.constant([[1], [2], [3]])


def test_tables():
    lookup = tf.lookup
    table = lookup.StaticHashTable(lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=-1)
    assert table.lookup(tf.constant([["b", "z"]])).numpy().tolist() == [[2, -1]]
    words = lookup.StaticVocabularyTable(lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64)), num_oov_buckets=2)
    assert words.lookup(tf.constant(["b", "a"])).numpy().tolist() == [1, 0] and int(words.lookup(tf.constant("zzz"))) in (2, 3)
    table = lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    table.insert(tf.constant([5, 6], tf.int64), tf.constant([1.5, 2.5]))
    assert tf.function(lambda k: k)(table[tf.constant([6, 7], tf.int64)]).numpy().tolist() == [2.5, 0.0] and int(table.size()) == 2


def test_parts_of_variables_are_assigned():
    v = tf.Variable(tf.zeros((2, 3)))
    v[0, 1].assign(5.0)
    v[:, 2].assign([1.0, 2.0])
    v[1].assign_add(tf.ones(3))
    assert v.numpy().tolist() == [[0.0, 5.0, 1.0], [1.0, 1.0, 3.0]]

    @tf.function
    def step(x):
        v[1, 0].assign_sub(x)
        return v[1]

    assert step(tf.constant(3.0)).numpy().tolist() == [-2.0, 1.0, 3.0]
    with pytest.raises(AttributeError, match="only variables"):
        tf.ones(3).assign(2.0)


def test_the_gradient_of_a_determinant():
    a = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        value = tf.linalg.det(a)
    np.testing.assert_allclose(tape.gradient(value, a), [[4, -3], [-2, 1]], rtol=1e-5)


def test_numpy_names(run):
    code = """
import numpy as np, tandem as tf
import tandem.experimental.numpy as tnp
assert [v.dtype.name for v in (tnp.ones((2, 2)), tnp.asarray([1, 2]), tnp.arange(3.0), tnp.zeros(3, dtype=tnp.float32))] == ["float64", "int64", "float64", "float32"]
assert isinstance(tnp.matmul(tnp.ones((2, 3)), tnp.ones((3, 1))), tnp.ndarray) and tnp.random.randn(2, 3).shape == (2, 3)
tnp.experimental_enable_numpy_behavior(prefer_float32=True)
x = tnp.arange(6).reshape((2, 3))
assert x.T.shape == (3, 2) and int(x.sum()) == 15 and x.astype(tnp.float64).dtype == tf.float64 and tnp.asarray(1.5).dtype == tf.float32
assert tnp.maximum(x, 2)[:, tnp.newaxis].shape == (2, 1, 3) and x.ravel().tolist() == list(range(6))
try: tnp.flor
except AttributeError as error: assert "numpy.floor" in str(error)
print("done")
"""
    assert "done" in run("-c", code)


def test_files_and_indices_that_are_not_there(tmp_path):
    missing = str(tmp_path / "none")
    for read in (lambda: tf.io.read_file(missing), lambda: next(iter(tf.data.TFRecordDataset(missing))), lambda: next(iter(tf.data.TextLineDataset(missing)))):
        for kind in (tf.errors.NotFoundError, FileNotFoundError):
            with pytest.raises(kind, match="none"):
                read()
    for kind in (IndexError, tf.errors.InvalidArgumentError):
        with pytest.raises(kind, match="slice index 7"):
            tf.constant([1, 2, 3])[7]
    with pytest.raises(TypeError, match="int32"):
        tf.Variable([1.5], dtype=tf.int32)
    assert tf.Variable([1, 2], dtype=tf.float32).dtype == tf.float32


def test_scalars_are_numpys_usual_ones():
    kinds = [type(tf.constant(1, dtype).numpy()) for dtype in (tf.int64, tf.int32, tf.float32, tf.float64, tf.bool, tf.uint8)]
    assert kinds == [np.int64, np.int32, np.float32, np.float64, np.bool_, np.uint8]
    assert next(tf.data.Dataset.range(1).as_numpy_iterator()).dtype.char == np.dtype("int64").char


def test_bytes_and_capsules():
    assert bytes(tf.constant([1, 2], tf.uint8)) == b"\x01\x02"
    capsule = tf.experimental.dlpack.to_dlpack(tf.constant([1.0, 2.0]))
    assert tf.experimental.dlpack.from_dlpack(capsule).numpy().tolist() == [1.0, 2.0]


def test_functions_take_and_give_ragged_tensors():
    sums = tf.function(lambda rows: tf.reduce_sum(rows, axis=1))
    assert [sums(tf.ragged.constant(rows)).numpy().tolist() for rows in ([[1, 2], [3]], [[4], [5, 6, 7]])] == [[3, 3], [4, 18]]
    doubled = tf.function(lambda x: {"rows": tf.RaggedTensor.from_row_lengths(x, [1, 2]) * 2, "sum": tf.reduce_sum(x)})
    for values in ([1, 2, 3], [4, 5, 6]):
        result = doubled(tf.constant(values))
        assert result["rows"].to_list() == [[2 * values[0]], [2 * values[1], 2 * values[2]]] and int(result["sum"]) == sum(values)


def test_lists_become_what_tensorflow_makes_of_them():
    f16, f32, f64, i64 = np.float16, np.float32, np.float64, np.int64
    for value, dtype in (
        ([f32(1), 2.0], "float32"), ([f64(1), 2.0], "float64"), ([2.0, f64(1)], "float32"), ([f64(1), f32(2)], "float64"), ([f16(1)], "float16"),
        ([i64(1), 2], "int32"), ([1, i64(2**40)], "int64"), ([np.uint8(1)], "int32"), ([np.array([1, 2]), [3, 4]], "int32"), ([1, f32(1)], "float32"),
        ([np.array([1.0]), [2.0]], "float64"), ([[1.0], np.array([2.0])], "float32"), ([np.bool_(True)], "bool"),
    ):
        assert tf.constant(value).dtype == dtype, value
    assert [int(tf.constant(300, d)) for d in ("int8", "uint8")] == [44, 44] and int(tf.constant(0xFFFFFFFF, tf.int32)) == -1
    for value in (1e40, [1e40], 2**63, [2**63], [1, None], [1, "a"], [[1], ["a"]], decimal.Decimal(1), [object()], None):
        with pytest.raises(ValueError):
            tf.constant(value)
    assert float(tf.constant(1e40, tf.float64)) == 1e40 and np.isinf(tf.constant(float("inf")))


def test_sizes_and_dtypes_are_such():
    for wrong in (lambda: tf.zeros([2.5]), lambda: tf.zeros("a"), lambda: tf.TensorShape([1.5]), lambda: tf.cast(1, None), lambda: tf.reshape([1, 2], [2.0])):
        with pytest.raises(TypeError):
            wrong()
    for wrong in (lambda: tf.TensorShape([-2]), lambda: tf.Variable(1.0, shape=[2]), lambda: tf.add(None, 1), lambda: tf.reduce_sum(None)):
        with pytest.raises(ValueError):
            wrong()
    x = tf.zeros((2, 2))
    for index in ("a", 1.0, True, {}, object()):
        with pytest.raises(TypeError, match="valid indices"):
            x[index]


def test_other_dtypes_do_not_compare():
    x, i = tf.constant([1.0, 2.0]), tf.constant([1, 2])
    for wrong in (lambda: x == i, lambda: i != tf.constant([1, 2], tf.int64), lambda: i == 0.5, lambda: tf.Variable(1) == tf.constant(1.0), lambda: i == np.array([1.5, 2])):
        with pytest.raises(tf.errors.InvalidArgumentError):
            wrong()
    assert (i == np.array([1.0, 3.0])).numpy().tolist() == [True, False] and (i + np.array([1.0, 3.0])).numpy().tolist() == [2, 5]
    assert (x == [1, 2]).numpy().all() and (i == np.array([1, 2])).numpy().all()
    assert (x == tf.constant([1.0, 2.0, 3.0])) is False and (x != tf.zeros(3)) is True and (x == None) is False and x != "a"  # noqa: E711


def test_operators_of_bits():
    i, flags = tf.constant([5, 6]), tf.constant([True, False])
    assert [(v).numpy().tolist() for v in (i & 3, 3 | i, i ^ 3, ~i, i & [1, 2])] == [[1, 2], [7, 7], [6, 5], [-6, -7], [1, 2]]
    assert (~tf.constant([5], tf.uint8)).numpy().tolist() == [250] and int(tf.Variable(6) & 3) == 2
    assert [(v).numpy().tolist() for v in (flags & True, flags | flags, True ^ flags, ~flags)] == [[True, False], [True, False], [False, True], [False, True]]
    for wrong in (lambda: tf.constant(1.0) & tf.constant(1.0), lambda: i & flags, lambda: ~tf.constant(1.0)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="integers"):
            wrong()


def test_results_and_errors_are_tensorflows():
    assert tf.unique([3, 1, 3]).idx.numpy().tolist() == [0, 1, 0] and tf.unique_with_counts([3, 1, 3], tf.int64).count.dtype == tf.int64
    assert float(tf.math.divide_no_nan(1.0, 0.0)) == 0 and float(tf.math.divide_no_nan(1.0, tf.constant(2.0, tf.float64))) == 0.5
    for wrong in (lambda: tf.linalg.inv(tf.zeros((2, 2))), lambda: tf.linalg.cholesky([[-1.0]]), lambda: tf.linalg.solve(tf.zeros((2, 2)), tf.ones((2, 1)))):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not"):
            wrong()
    with pytest.raises(TypeError, match="sequence type"):
        tf.nest.assert_same_structure([1], (1,))
    assert tf.nest.map_structure(lambda a, b: a + b, {"a": [1]}, {"a": (2,)}) == {"a": [3]}


def test_dtypes_that_tensorflow_has_not_are_no_dtypes():
    assert tf.float32 != np.dtype("datetime64[s]") and tf.float32 != "none of them"
    with pytest.raises(TypeError, match="M8"):
        tf.as_dtype(np.dtype("datetime64[s]"))


def test_what_is_printed_reads_as_in_tensorflow():
    rows = tf.ragged.constant([["#+Who", "Who+is", "is+Dan", "Dan+Smith", "Smith+#"], ["#+Pause", "Pause+#"], [], ["#+Will", "Will+it"]])
    assert repr(rows) == (
        "<tf.RaggedTensor [[b'#+Who', b'Who+is', b'is+Dan', b'Dan+Smith', b'Smith+#'],\n [b'#+Pause', b'Pause+#'], [], [b'#+Will', b'Will+it']]>"
    )
    feature = tf.train.Feature
    texts, numbers = tf.train.BytesList(value=[b"h\xc3\xa9\n\""]), tf.train.FloatList(value=[1.0, 0.1, 1e-7])
    example = tf.train.Example(features=tf.train.Features(feature={"b": feature(bytes_list=texts), "f": feature(float_list=numbers)}))
    assert str(example) == (
        'features {\n  feature {\n    key: "b"\n    value {\n      bytes_list {\n        value: "h\\303\\251\\n\\""\n      }\n    }\n  }\n'
        '  feature {\n    key: "f"\n    value {\n      float_list {\n        value: 1\n        value: 0.1\n        value: 1e-07\n      }\n    }\n  }\n}\n'
    )
    assert repr(tf.train.Int64List(value=[1, -2])) == "value: 1\nvalue: -2\n"
    scaled = tf.function(lambda x, b=2: {"y": x * b}).get_concrete_function(tf.TensorSpec([None, 3]))
    spec = "TensorSpec(shape=(None, 3), dtype=tf.float32, name=None)"
    assert str(scaled) == f"ConcreteFunction Input Parameters:\n  x (POSITIONAL_OR_KEYWORD): {spec}\n  b (POSITIONAL_OR_KEYWORD): Literal[2]\nOutput Type:\n  Dict[['y', {spec}]]\nCaptures:\n  None"
    add = tf.function(lambda a, b: a + b)
    outer, variable = tf.function(lambda x, w: add(tf.matmul(x, w), w)), tf.Variable([1.0, 2.0])
    assert outer(tf.ones([2, 2]), tf.ones([2, 2])).numpy().tolist() == [[3, 3], [3, 3]]
    assert [add(*pair).numpy().tolist() for pair in ((tf.ones([2]), variable), (variable, tf.ones([2])), (variable, variable))] == [[2, 3], [2, 3], [2, 4]]
    assert add.pretty_printed_concrete_signatures().count("Output Type:") >= 3
    assert repr(tf.data.Dataset.range(7).window(3)) == "<_WindowDataset element_spec=DatasetSpec(TensorSpec(shape=(), dtype=tf.int64, name=None), TensorShape([]))>"
    assert repr(tf.constant(5).ref()) == "<Reference wrapping <tf.Tensor: shape=(), dtype=int32, numpy=5>>"
