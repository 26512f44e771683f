"""What programs in books and courses do besides training, with what TensorFlow gives."""

import copy
import pickle
import threading

import numpy as np
import pytest

import tandem as tf


def test_arrays_of_tensors_outside_of_functions_change_and_are_read_once():
    array = tf.TensorArray(dtype=tf.float32, size=3)
    array.write(0, tf.constant([1.0, 2.0]))  # What it gives need not be kept.
    array = array.write(1, tf.constant([3.0, 10.0])).write(2, [5.0, 7.0])
    assert array.read(1).numpy().tolist() == [3.0, 10.0]
    assert array.stack().numpy().tolist() == [[1.0, 2.0], [0.0, 0.0], [5.0, 7.0]]
    array.read(0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not read index 0 twice"):
        array.read(0)
    with pytest.raises(tf.errors.OutOfRangeError, match="Tried to write to index 7 but array is not resizeable and size is: 3"):
        array.write(7, [1.0, 1.0])
    with pytest.raises(tf.errors.OutOfRangeError, match="Tried to read from index 9 but array size is: 3"):
        array.read(9)
    many = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False).write(3, 1.0)
    assert [float(many.read(i)) for i in (3, 3, 1)] == [1.0, 1.0, 0.0] and int(many.size()) == 4 and many.read(3).dtype == tf.float32
    assert tf.TensorArray(tf.float32, 2).split([1.0, 2.0, 3.0], [1, 2]).read(1).numpy().tolist() == [2.0, 3.0]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.filterwarnings("ignore:.*runs op by op")
def test_arrays_of_tensors_in_functions_keep_their_values(traced):
    @tf.function
    def f(n):
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        for i in range(3):
            array = array.write(i, float(i) * n)
        first = array.read(1)
        if not traced:
            first = first.numpy()
        return array.stack(), first + array.read(1)

    values, twice = f(tf.constant(2.0))
    assert values.numpy().tolist() == [0.0, 2.0, 4.0] and float(twice) == 4.0


def test_sparse_tensors_out_of_order_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = \[0,1\] is out of order. Many sparse ops require sorted indices"):
        tf.sparse.to_dense(tf.SparseTensor([[0, 2], [0, 1]], [1.0, 2.0], [3, 4]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = \[0,2\] is repeated"):
        tf.sparse.to_dense(tf.SparseTensor([[0, 2], [0, 2]], [1.0, 2.0], [3, 4]))
    unordered = tf.SparseTensor([[0, 2], [0, 1]], [1.0, 2.0], [1, 3])
    assert tf.sparse.to_dense(tf.sparse.reorder(unordered)).numpy().tolist() == [[0.0, 2.0, 1.0]]


def test_queues():
    queue = tf.queue.FIFOQueue(3, [tf.int32, tf.string], shapes=[(), ()])
    queue.enqueue([10, b"windy"])
    queue.enqueue([15, b"sunny"])
    assert int(queue.size()) == 2
    assert [each.numpy() for each in queue.dequeue()] == [10, b"windy"]
    queue.enqueue_many([[13, 16], [b"cloudy", b"rainy"]])
    numbers, words = queue.dequeue_many(3)
    assert numbers.numpy().tolist() == [15, 13, 16] and words.numpy().tolist() == [b"sunny", b"cloudy", b"rainy"]
    queue.close()
    assert bool(queue.is_closed())
    with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient elements"):
        queue.dequeue()
    with pytest.raises(tf.errors.CancelledError, match="is closed"):
        queue.enqueue([1, b"late"])


def test_queues_of_other_kinds():
    padded = tf.queue.PaddingFIFOQueue(5, [tf.float32], shapes=[(None,)])
    for each in ([1.0, 2.0], [3.0], [4.0, 5.0, 6.0]):
        padded.enqueue([each])
    assert padded.dequeue_many(3).numpy().tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    urgent = tf.queue.PriorityQueue(5, [tf.string], shapes=[()])
    for each in ([3, "c"], [1, "a"], [2, "b"]):
        urgent.enqueue(each)
    assert [int(urgent.dequeue()[0]) for _ in range(3)] == [1, 2, 3]
    mixed = tf.queue.RandomShuffleQueue(5, 1, tf.float32, shapes=(), seed=1)
    mixed.enqueue_many([[1.0, 2.0, 3.0]])
    mixed.close()
    assert sorted(mixed.dequeue_many(3).numpy().tolist()) == [1, 2, 3]
    named = tf.queue.FIFOQueue(3, [tf.int32, tf.float32], names=["a", "b"], shapes=[(), ()])
    named.enqueue({"b": 2.0, "a": 1})
    assert {k: float(v) for k, v in named.dequeue().items()} == {"a": 1, "b": 2}
    plain = tf.queue.FIFOQueue(3, tf.float32)
    with pytest.raises(TypeError, match="Cannot convert 'x' to EagerTensor of dtype float"):
        plain.enqueue("x")
    with pytest.raises(ValueError, match="shape"):
        named.enqueue({"a": [1, 2], "b": 2.0})


@pytest.mark.filterwarnings("ignore:.*runs op by op")
def test_queues_between_threads_and_in_functions():
    queue = tf.queue.FIFOQueue(1, tf.int64, shapes=())
    maker = threading.Thread(target=lambda: [queue.enqueue(i) for i in range(5)])
    maker.start()
    assert [int(queue.dequeue()) for _ in range(5)] == list(range(5))
    maker.join()

    @tf.function
    def f(x):
        queue.enqueue(x)
        return queue.dequeue() + 1

    assert [int(f(tf.constant(i, tf.int64))) for i in (1, 2)] == [2, 3]


def test_what_an_assignment_gives_shows_itself_as_unread():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="v")
    shown = "<tf.Variable 'UnreadVariable' shape=(2, 2) dtype=float32, numpy=\narray([[2., 4.],\n       [6., 8.]], dtype=float32)>"
    assert repr(v.assign(2 * v)) == shown
    assert "UnreadVariable" in repr(v[0, 1].assign(4.0)) and "'v:0'" in repr(v)
    w = v.assign_add(tf.ones((2, 2))).assign_sub([[1.0, 1.0], [1.0, 1.0]])
    assert isinstance(w, tf.Variable) and w.name == "UnreadVariable" and v.name == "v:0"
    v.assign(tf.zeros((2, 2)))
    assert float(tf.reduce_sum(w)) == 0 and w.trainable
    for same in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        same.assign_add(np.ones((2, 2), "float32"))
        assert same.name == "v:0" and float(tf.reduce_sum(w)) == 0


def test_texts_have_shapes_and_are_no_numbers():
    assert str(tf.constant([[b"x"], ["y"]])) == "tf.Tensor(\n[[b'x']\n [b'y']], shape=(2, 1), dtype=string)"
    assert tf.constant([b"x", "y"], shape=(2, 1)).shape == (2, 1)
    for f in (lambda: tf.constant("x", tf.float32), lambda: tf.convert_to_tensor("x", tf.float64), lambda: tf.constant(5, tf.string)):
        with pytest.raises(TypeError, match="Cannot convert .* to EagerTensor of dtype (float|double|string)"):
            f()


class _TwoHeads(tf.keras.Model):
    def __init__(self, by_name):
        super().__init__()
        self.by_name = by_name
        self.a, self.b = (tf.keras.layers.Dense(units, kernel_initializer="ones") for units in (1, 3))

    def call(self, x):
        return {"p": self.a(x), "c": self.b(x)} if self.by_name else (self.a(x), self.b(x))


def _numbers_of_two_heads(loss, metrics, y, by_name=False, **kwargs):
    model = _TwoHeads(by_name)
    model.compile("sgd", loss=loss, metrics=metrics, **kwargs)
    x = np.arange(8, dtype="float32").reshape(4, 2) / 8
    history = model.fit(x, y, verbose=0).history
    return {name: round(values[0], 5) for name, values in history.items()}, [round(v, 5) for v in model.evaluate(x, y, verbose=0)], model.metrics_names


def test_losses_of_outputs_without_names_go_by_their_own_names():
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x = np.arange(8, dtype="float32").reshape(4, 2) / 8
    y = (x[:, :1], np.array([0, 1, 2, 0]))
    assert _numbers_of_two_heads(["mse", cross_entropy], [["mae"], ["accuracy"]], y) == (
        {"accuracy": 0.5, "loss": 1.42674, "mae": 0.5, "mse_loss": 0.32812, "sparse_categorical_crossentropy_loss": 1.09861},
        [1.40924, 0.48473, 0.5, 0.31124, 1.098], ["loss", "compile_metrics", "mse_loss", "sparse_categorical_crossentropy_loss"],
    )
    assert _numbers_of_two_heads("mse", [["mae"], ["mae"]], (np.ones((4, 1), "f"), np.ones((4, 3), "f"))) == (
        {"loss": 0.65625, "mae": 0.5, "mae_1": 0.5, "mse_loss": 0.32812},
        [0.65431, 0.49898, 0.49898, 0.32764, 0.32764, 0.49966], ["loss", "compile_metrics", "mse_loss", "mse_loss"],
    )
    history, listed, names = _numbers_of_two_heads([lambda a, b: tf.reduce_mean(a - b), cross_entropy], None, y)
    assert history == {"lambda_loss": -0.5, "loss": 0.59861, "sparse_categorical_crossentropy_loss": 1.09861} and names[1] == "lambda_loss"
    assert listed == [0.58409, -0.51391, 1.098]


def test_losses_of_outputs_by_name_are_listed_as_they_were_given():
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x = np.arange(8, dtype="float32").reshape(4, 2) / 8
    y = {"p": x[:, :1], "c": np.array([0, 1, 2, 0])}
    assert _numbers_of_two_heads({"p": "mse", "c": cross_entropy}, {"p": ["mae"], "c": ["accuracy"]}, y, by_name=True) == (
        {"c_accuracy": 0.5, "c_loss": 1.09861, "loss": 1.42674, "p_loss": 0.32812, "p_mae": 0.5},
        [1.40924, 0.31124, 1.098, 0.5, 0.48473], ["loss", "compile_metrics", "p_loss", "c_loss"],
    )


def test_functions_as_metrics_go_by_their_names_in_small_letters():
    def rootMSE(y_true, y_pred):
        return tf.sqrt(tf.reduce_mean(tf.square(y_true - y_pred)))

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[rootMSE])
    assert list(model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0).history) == ["loss", "root_mse"]


def test_what_a_model_within_another_was_compiled_with_does_not_count():
    layers = tf.keras.layers
    generator = tf.keras.Sequential([layers.Dense(3, kernel_initializer="ones")])
    discriminator = tf.keras.Sequential([layers.Dense(1, activation="sigmoid", kernel_initializer=tf.keras.initializers.Constant(0.1))])
    discriminator.compile(loss="binary_crossentropy", optimizer="rmsprop", metrics=["accuracy"])
    discriminator.trainable = False
    gan = tf.keras.Sequential([generator, discriminator])
    gan.compile(loss="binary_crossentropy", optimizer="rmsprop")
    x, z = np.linspace(0, 1, 12).reshape(4, 3).astype("float32"), np.linspace(-1, 1, 8).reshape(4, 2).astype("float32")
    losses = []
    for _ in range(3):
        both = tf.concat([generator(z), x], 0)
        discriminator.trainable = True
        losses += discriminator.train_on_batch(both, tf.constant([[0.0]] * 4 + [[1.0]] * 4))
        discriminator.trainable = False
        losses.append(gan.train_on_batch(z, tf.constant([[1.0]] * 4)))
    recorded = [0.6666649, 0.75, 0.7140692, 0.6664160, 0.75, 0.7154078, 0.6662714, 0.75, 0.7165728]
    np.testing.assert_allclose(losses, recorded, rtol=1e-6)
    assert [m.name for m in gan.metrics] == ["loss"] and gan.evaluate(z, np.ones((4, 1)), verbose=0) == pytest.approx(0.7161685)


def test_models_whose_only_output_is_in_a_list_give_it_alone():
    x = np.ones((4, 3), "float32")
    a = tf.keras.Input((3,))
    d = tf.keras.layers.Dense(2)(a)
    for outputs in ([d], (d,), d):
        model = tf.keras.Model([a], outputs)
        assert model(x).shape == (4, 2) and model.predict(x, verbose=0).shape == (4, 2)
        assert type(model.output) is type(outputs) and type(model(a)) is type(outputs)  # What describes it keeps its list.
    inner = tf.keras.Model([a], [d])
    outer = tf.keras.Model(a, [inner(a)])
    assert isinstance(outer(x), list) and outer(x)[0].shape == (4, 2) and isinstance(outer.predict(x, verbose=0), list)
    assert tf.keras.layers.TimeDistributed(inner)(np.ones((2, 5, 3), "float32")).shape == (2, 5, 2)
    assert tf.keras.Sequential([inner])(x).shape == (4, 2) and tf.keras.models.clone_model(inner)(x).shape == (4, 2)


def _paths_of_variables(optimizer):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, name="d")], name="s")
    model.compile(optimizer, "mse")
    model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
    assert all(v.value.shape == v.shape for v in model.optimizer.variables)
    return [v.path.split("/", 1)[1] for v in model.optimizer.variables]


@pytest.mark.parametrize(
    "make, slots",
    [
        (tf.keras.optimizers.Adam, ["s_d_kernel_momentum", "s_d_kernel_velocity", "s_d_bias_momentum", "s_d_bias_velocity"]),
        (tf.keras.optimizers.SGD, []),
        (lambda: tf.keras.optimizers.RMSprop(momentum=0.5), ["s_d_kernel_velocity", "s_d_bias_velocity", "s_d_kernel_momentum", "s_d_bias_momentum"]),
        (tf.keras.optimizers.Adamax, ["s_d_kernel_momentum", "s_d_kernel_norm", "s_d_bias_momentum", "s_d_bias_norm"]),
        (tf.keras.optimizers.Nadam, ["s_d_kernel_momentum", "s_d_kernel_velocity", "s_d_bias_momentum", "s_d_bias_velocity", "variable"]),
    ],
)
def test_variables_of_optimizers_have_keras_names_and_order(make, slots):
    assert _paths_of_variables(make()) == ["iteration", "learning_rate", *slots]


def test_optimizers_are_numbered():
    first, second = tf.keras.optimizers.Adam(), tf.keras.optimizers.Adam()
    assert first.name != second.name and second.name.startswith("adam_")
    assert repr(second.iterations) == f"<Variable path={second.name}/iteration, shape=(), dtype=int64, value=0>"
    second.iterations.assign_add(3)
    assert int(second.iterations) == 3 and second.iterations is second.iterations and int(second.iterations.value) == 3


def test_outputs_of_one_layer_have_one_name():
    a = tf.keras.Input((2,))
    d = tf.keras.layers.Dense(1, kernel_initializer="ones")(a)
    two = tf.keras.Model(a, [d, tf.keras.layers.Dense(2, kernel_initializer="ones")(a)], name="two")
    model = tf.keras.Model(a, two(a))
    assert model.output_names == ["two", "two"]
    model.compile("sgd", ["mse", "mae"])
    x = np.ones((4, 2), "float32")
    losses = model.train_on_batch(x, [np.ones((4, 1)), np.ones((4, 2)) * 4])
    assert losses == [3.0, 2.0, 2.0]  # The later of two losses of one name is shown for both.


@pytest.mark.parametrize(
    "f, words",
    [
        (lambda: tf.keras.layers.Conv2D(2, 3, padding="x"), "padding"), (lambda: tf.keras.layers.Conv2D(2, 3, padding="causal"), "padding"),
        (lambda: tf.keras.layers.LSTM(2)(tf.ones((2, 3))), "expected ndim=3, found ndim=2"),
        (lambda: tf.keras.Sequential([tf.keras.layers.Dense(1)]).get_layer(index=5), "layer at index 5"),
    ],
)
def test_errors_of_layers(f, words):
    with pytest.raises(ValueError, match=words):
        f()
    assert tf.keras.layers.Conv1D(2, 3, padding="causal")(tf.ones((1, 5, 2))).shape == (1, 5, 2)


def _windows(**kwargs):
    series = np.arange(40.0).reshape(20, 2)
    return [(x.numpy()[..., 0].tolist(), y.numpy().tolist()) for x, y in tf.keras.utils.timeseries_dataset_from_array(series, np.arange(20.0) * 10, **kwargs)]


def test_windows_of_a_series_from_an_index_have_the_targets_from_there():
    assert _windows(sequence_length=2, sampling_rate=3, sequence_stride=2, batch_size=3, start_index=4, end_index=17) == [
        ([[8.0, 14.0], [12.0, 18.0], [16.0, 22.0]], [40.0, 60.0, 80.0]), ([[20.0, 26.0], [24.0, 30.0]], [100.0, 120.0]),
    ]


def test_shuffled_windows_use_the_random_numbers_of_numpy_and_another_order_each_time():
    series, targets = np.arange(20.0), np.arange(20.0)
    np.random.seed(1)
    windows = tf.keras.utils.timeseries_dataset_from_array(series, targets, 3, shuffle=True, batch_size=4)
    assert np.random.rand() == 0.9971848109388686
    passes = [[float(y) for _, batch in windows for y in batch] for _ in range(2)]
    assert passes[0] != passes[1] and sorted(passes[0]) == sorted(passes[1]) == list(range(18)) != passes[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.keras.layers.GRU(8, recurrent_dropout=0.5), lambda: tf.keras.layers.GRU(8, recurrent_dropout=0.5, reset_after=False, dropout=0.3),
        lambda: tf.keras.layers.LSTM(8, recurrent_dropout=0.5, dropout=0.3), lambda: tf.keras.layers.SimpleRNN(8, recurrent_dropout=0.5, dropout=0.2),
        lambda: tf.keras.layers.RNN([tf.keras.layers.GRUCell(8, recurrent_dropout=0.5), tf.keras.layers.LSTMCell(8, recurrent_dropout=0.5)]),
    ],
)
def test_states_do_not_grow_where_they_are_dropped_from(make):
    x = np.random.default_rng(0).standard_normal((4, 150, 3)).astype("float32")
    layer = make()
    y = layer(x, training=True).numpy()
    assert np.abs(y).max() <= 1 and not np.array_equal(y, layer(x, training=True)) and np.array_equal(layer(x), layer(x))


def test_layers_after_attention_are_numbered_as_in_keras():
    layers = tf.keras.layers
    tf.keras.backend.clear_session()
    x = tf.keras.Input((4, 6))
    layers.MultiHeadAttention(2, 3)(x, x)
    assert layers.Dropout(0.1).name == "dropout_1"
    assert layers.Softmax().name == "softmax_1"
    assert [tf.keras.metrics.MeanIoU(2).name for _ in range(2)] == ["mean_io_u", "mean_io_u_1"]
    assert layers.TextVectorization(vocabulary=["a"]) is not None and layers.StringLookup(vocabulary=["a"]).name == "string_lookup_1"


def test_texts_are_not_looked_up_without_a_vocabulary():
    with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
        tf.keras.layers.TextVectorization()(["a b"])
    with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
        tf.keras.layers.StringLookup()(["a"])


def test_integers_that_are_as_frequent_are_numbered_from_the_largest_on():
    lookup = tf.keras.layers.IntegerLookup()
    lookup.adapt(np.array([5, 3, 9, 3]))
    assert lookup.get_vocabulary() == [-1, 3, 9, 5]


def test_folders_without_labels_have_no_classes(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.txt").write_text(f"{name} text")
    texts = tf.keras.utils.text_dataset_from_directory(tmp_path, label_mode=None, shuffle=False)
    assert capsys.readouterr().out == "Found 2 files.\n" and texts.class_names is None
    assert next(iter(texts)).numpy().tolist() == [b"a text", b"b text"]


def test_weights_of_classes_go_by_rounded_labels_also_negative_ones():
    x = np.linspace(-1, 1, 64).reshape(32, 2).astype("float32")
    y = x @ np.array([[1.0], [2.0]], "float32")

    def loss(targets, weights):
        model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(tf.keras.optimizers.SGD(0.05), "mse")
        return model.fit(x, targets, class_weight=weights, verbose=0).history["loss"][0]

    assert loss(y, {0: 1.0, 1: 2.0}) == pytest.approx(0.366, abs=1e-5)
    assert loss(np.sign(y), {-1: 0.5, 1: 2.0}) == pytest.approx(0.42863, abs=1e-5)


def test_cross_entropy_of_labels_that_do_not_sum_to_one_has_the_gradient_of_tensorflow():
    labels = np.array([[1, 1, 0], [0, 1, 1]], "float32")
    logits = tf.Variable([[0.5, -1.0, 2.0], [0.0, 1.0, -1.0]])
    cross_entropy = tf.keras.losses.CategoricalCrossentropy(reduction="none")
    for loss in (
        lambda: tf.nn.softmax_cross_entropy_with_logits(labels, logits), lambda: cross_entropy(labels, tf.keras.activations.softmax(logits)),
        lambda: tf.keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")(labels, logits),
        lambda: tf.nn.softmax_cross_entropy_with_logits(labels.T, tf.transpose(logits), axis=0),
    ):
        with tf.GradientTape() as tape:
            value = loss()
        np.testing.assert_allclose(value, [4.9826198, 2.8152101], rtol=1e-6)
        np.testing.assert_allclose(tape.gradient(value, logits), [[-0.82471, -0.96089, 0.7856], [0.24473, -0.33476, -0.90997]], atol=1e-5)
    with tf.GradientTape() as tape:
        value = cross_entropy(labels, tf.nn.softmax(logits))
    np.testing.assert_allclose(tape.gradient(value, logits), [[-0.64942, -0.92177, 1.57119], [0.48946, 0.33048, -0.81994]], atol=1e-5)


def test_configurations_keep_tuples():
    model = tf.keras.Sequential([tf.keras.Input((4, 2)), tf.keras.layers.Conv1D(1, 3)])
    first, second = model.get_config()["layers"]
    assert first["config"]["batch_shape"] == (None, 4, 2) and second["config"]["kernel_size"] == (3,)
    a = tf.keras.Input((2,))
    entry = tf.keras.Model(a, tf.keras.layers.Reshape((2, 1))(a)).get_config()["layers"][1]
    assert entry["config"]["target_shape"] == (2, 1) and entry["inbound_nodes"][0]["args"][0]["config"]["shape"] == (None, 2)
    again = tf.keras.models.model_from_json(model.to_json())
    assert again.get_config()["layers"][1]["config"]["kernel_size"] == (3,)
