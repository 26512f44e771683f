"""What public guides and tutorials do: the values are those of TensorFlow and Keras."""

import numpy as np
import pytest

import tandem as tf
from tandem import keras
from tandem.distribute._values import PerReplica, marked


class OwnSteps(keras.Model):
    """The steps of Keras's guide to fit: they update what `metrics` lists."""

    def train_step(self, data):
        x, y, weight = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred, sample_weight=weight)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(y, y_pred, sample_weight=weight)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        y_pred = self(x, training=False)
        loss = self.compute_loss(y=y, y_pred=y_pred)
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


def test_metrics_that_were_compiled_are_one_metric_of_a_model():
    inputs = keras.Input((4,))
    model = OwnSteps(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], weighted_metrics=["mse"])
    assert [m.name for m in model.metrics] == model.metrics_names == ["loss", "compile_metrics"]
    r = np.random.RandomState(0)
    x, y, weight = (v.astype("float32") for v in (r.normal(size=(40, 4)), r.normal(size=(40, 1)), r.uniform(size=40)))
    logs = model.fit(x, y, sample_weight=weight, epochs=2, verbose=0, shuffle=False, batch_size=16).history
    assert list(logs) == ["mae", "mse", "loss"]  # In the order of the names that the step gave.
    np.testing.assert_allclose(list(logs.values()), [[1.8759167, 1.3146988], [7.3495464, 3.4870658], [3.4210923, 1.6709933]], rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(x, y, verbose=0), [1.8729296, 1.0875541, 1.8907144], rtol=1e-5)
    assert set(model.metrics[1].result()) == {"mae", "mse"} and len(model.metrics[1].variables) == 4


def texts():
    return tf.constant(["x" * n + str(n) for n in (0, 1, 5, 9, 15, 20, 40, 62, 63, 64, 70, 100, 129, 200)])


def test_texts_of_any_length_have_tensorflows_bins():
    bins = [252572735, 35714659, 948185228, 293681774, 227031762, 86899231, 853260429, 190974791, 885940720, 630955799, 275328826, 295744000, 902607881, 213328665]
    assert keras.layers.Hashing(10**9)(texts()).numpy().tolist() == bins
    salted = [141297369, 477156798, 996279438, 735945862, 308388981, 642047277, 944746113, 304635632, 715303622, 435699118, 483987756, 173360694, 384704789, 381274075]
    assert keras.layers.Hashing(10**9, salt=[133, 137])(texts()).numpy().tolist() == salted
    assert keras.layers.Hashing(10**9, salt=7)(tf.constant([1, -5, 10**6])).numpy().tolist() == [854389559, 667990405, 565740677]
    assert keras.layers.Hashing(100, salt=7, mask_value="")(tf.constant(["", "a"])).numpy().tolist() == [0, 64]
    assert tf.strings.to_hash_bucket_strong(texts()[:2], 2**62, [5, 6]).numpy().tolist() == [1819471997160236934, 2216708347785590787]
    with pytest.raises(ValueError, match="salt"):
        keras.layers.Hashing(3, salt=[1, 2, 3])


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
def test_encoded_categories_are_counted_in_integers(mode):
    words = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode=mode)(tf.constant([["a"], ["b"], ["z"]]))
    assert words.dtype == "int64" and words.numpy().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    bins = keras.layers.Discretization([0.0, 1.0], output_mode=mode)(tf.constant([[3.0], [0.2], [-1.0]]))
    assert bins.dtype == "float32" and bins.numpy().tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    if mode != "one_hot":
        vectors = keras.layers.TextVectorization(vocabulary=["a", "b"], output_mode=mode)(tf.constant(["a b z a", "b"]))
        assert vectors.dtype == "int64" and vectors.numpy().tolist() == [[1, 2 if mode == "count" else 1, 1], [0, 0, 1]]
        with pytest.raises(ValueError, match="int, one_hot are accepted"):
            keras.layers.HashedCrossing(4, output_mode=mode)


def logits():
    r = np.random.RandomState(0)
    return r.normal(size=(6, 3, 5)).astype("float32") * 2, np.array([6, 4, 5], "int32")


def test_labels_are_decoded_by_beams():
    x, lengths = logits()
    expected = {  # The rows of each path, and the logarithms of their probabilities.
        10: ([[3, 1, 2], [1, 1], [1, 3, 2]], [[3, 1, 0, 2], [1, 2, 1], [1, 3, 0, 2]], [[-2.4992, -3.1804], [-1.476, -1.7389], [-1.741, -1.9866]]),
        3: ([[3, 1, 2], [1, 1], [1, 3, 0, 2]], [[3, 1, 2, 3], [1, 2, 1], [1, 3, 2]], [[-2.5827, -3.3516], [-1.476, -1.8758], [-1.9881, -2.0337]]),
    }
    for width, (best, second, chances) in expected.items():
        paths, logs = tf.nn.ctc_beam_search_decoder(x, lengths, beam_width=width, top_paths=2)
        for path, rows in zip(paths, (best, second)):
            assert [[v for v in row if v >= 0] for row in tf.sparse.to_dense(path, -1).numpy().tolist()] == rows
        np.testing.assert_allclose(logs, chances, atol=1e-4)
    merged, _ = tf.compat.v1.nn.ctc_beam_search_decoder(x, lengths, beam_width=10)
    assert tf.sparse.to_dense(merged[0], -1).numpy().tolist() == [[3, 1, 2], [1, -1, -1], [1, 3, 2]]
    rows, chances = keras.ops.ctc_decode(np.transpose(x, (1, 0, 2)), lengths, strategy="beam_search", beam_width=8, top_paths=2, mask_index=2)
    assert rows.dtype == "int32" and rows.numpy()[1].tolist() == [[3, 1, 0, 4, -1, -1], [4, 1, -1, -1, -1, -1], [1, 4, 3, 0, -1, -1]]
    np.testing.assert_allclose(chances, [[-2.452, -2.736], [-1.1, -1.839], [-1.955, -2.174]], atol=1e-3)
    with pytest.raises(ValueError, match="top_paths=3 is more than beam_width=2"):
        tf.nn.ctc_beam_search_decoder(x, lengths, beam_width=2, top_paths=3)


def test_distances_between_texts_of_labels():
    ours = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0]], ["a", "b", "c", "d"], [3, 2])
    truth = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "x", "c"], [3, 2])
    assert tf.edit_distance(ours, truth).numpy().tolist() == [1.0, 0.5, np.inf]
    assert tf.edit_distance(ours, truth, normalize=False).numpy().tolist() == [1, 1, 1]
    numbers = tf.edit_distance(tf.sparse.from_dense([[[1, 2, 3], [4, 5, 0]]]), tf.sparse.from_dense([[[1, 3, 3], [5, 0, 0]]]))
    np.testing.assert_allclose(numbers, [[1 / 3, 1]], rtol=1e-6)


def test_functions_of_version_1_take_its_arguments():
    x, lengths = logits()
    labels = tf.cast(tf.sparse.from_dense([[1, 2, 2], [3, 1, 0], [2, 0, 0]]), tf.int32)
    losses = tf.compat.v1.nn.ctc_loss(labels=labels, inputs=x, sequence_length=lengths)
    np.testing.assert_allclose(losses, [4.7396, 3.4689, 9.418], atol=1e-4)
    np.testing.assert_allclose(tf.compat.v1.nn.softmax(x[0, :1], dim=-1), tf.nn.softmax(x[0, :1]))
    image = np.arange(12, dtype="float32").reshape(3, 4, 1)
    assert tf.compat.v1.image.resize(image, (2, 2))[..., 0].numpy().tolist() == [[0, 2], [6, 8]]
    assert tf.compat.v1.image.resize(image, (2, 2), align_corners=True)[..., 0].numpy().tolist() == [[0, 3], [8, 11]]
    assert tf.compat.v1.image.resize(image, (2, 3), "nearest", align_corners=True)[..., 0].numpy().tolist() == [[0, 2, 3], [8, 10, 11]]


def test_whole_numbers_beside_a_fraction():
    assert tf.maximum(0.0, [1, -1]).dtype == "float32" and tf.multiply(0.5, [1, 2]).numpy().tolist() == [0.5, 1.0]
    with pytest.raises(TypeError, match="Cannot convert 0.5 to EagerTensor of dtype int32"):
        tf.clip_by_value(tf.constant([1, 2]), 0.5, 1.5)
    with pytest.raises(TypeError, match=r"Cannot convert \[1.5, 2\] to EagerTensor of dtype int32"):
        tf.Variable([1, 2]).assign_add([1.5, 2])


def test_how_texts_and_values_of_replicas_are_written():
    assert f"{tf.constant('male')}" == "b'male'" and f"{tf.constant('male')!s}" == "tf.Tensor(b'male', shape=(), dtype=string)"
    value = marked(PerReplica([tf.constant([1.0]), tf.constant([2.0])]), 2)
    assert str(value) == "PerReplica:{\n  0: tf.Tensor([1.], shape=(1,), dtype=float32),\n  1: tf.Tensor([2.], shape=(1,), dtype=float32)\n}"
    assert "1: <tf.Tensor: shape=(1,), dtype=float32, numpy=array([2.], dtype=float32)>" in repr(value)


def test_options_of_tensorflows_graphs_are_remembered():
    tf.config.optimizer.set_experimental_options({"constant_folding": True})
    assert tf.config.optimizer.get_experimental_options() == {"constant_folding": True, "disable_model_pruning": False, "disable_meta_optimizer": False}


@tf.custom_gradient
def halved(x):
    return x, lambda dy: dy * 0.5


class Halving(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def call(self, x):
        return halved(x)


def test_gradients_of_ones_own_are_saved(tmp_path):
    tf.saved_model.save(Halving(), str(tmp_path / "model"), options=tf.saved_model.SaveOptions(experimental_custom_gradients=True))
    loaded, v = tf.saved_model.load(str(tmp_path / "model")), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        out = loaded.call(v * v)
    assert float(tape.gradient(out, v)) == 2.0


class Phase(keras.layers.Layer):
    """Tells in which phase it is called."""

    def call(self, x, training=None):
        return x + (10.0 if training else 1.0 if training is None else -7.0)


class Without(keras.Model):
    def __init__(self):
        super().__init__()
        self.phase = Phase()

    def call(self, x):
        return self.phase(x)


class With(Without):
    def call(self, x, training=None):
        return self.phase(x)


def phases(model):
    """What fit, evaluate, predict and three calls tell."""
    x = np.zeros((1, 1), "float32")
    model.compile("sgd", "mae")
    values = [model.fit(x, x, verbose=0).history["loss"][0], -model.evaluate(x, x, verbose=0), model.predict(x, verbose=0)]
    return [float(np.ravel(v)[0]) for v in (*values, model(x), model(x, training=True), model(x, training=False))]


def described(**recorded):
    inputs = keras.Input((1,))
    return keras.Model(inputs, Phase()(inputs, **recorded))


@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights")
def test_layers_are_told_their_phase_as_in_keras():
    assert phases(described()) == [10, -7, -7, 1, 10, -7]
    assert phases(described(training=True)) == [10, -7, -7, 10, 10, -7]  # What the model is told goes before what was described.
    assert phases(described(training=False)) == [10, -7, -7, -7, 10, -7]
    assert phases(With()) == [10, -7, -7, 1, 10, -7]
    assert phases(Without()) == [1, -1, 1, 1, 10, -7]  # A model that has no argument `training` is not told.
    assert phases(keras.Sequential([Phase()])) == [10, -7, -7, 1, 10, -7]


def test_what_is_compiled_again_keeps_the_loss_and_metrics_that_are_not_given():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    model.compile("adam")
    assert set(model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0).history) == {"loss", "mae"} and model.optimizer.name.startswith("adam")


def saturated(activation):
    inputs = keras.Input((1,))
    model = keras.Model(inputs, activation(inputs))
    model.compile("sgd", "binary_crossentropy")
    x = np.array([[-41.0], [-30.0], [-20.0], [-17.0], [-16.0], [-10.0], [5.0], [30.0]], "float32")
    return model.evaluate(x, np.array([1, 0, 1, 1, 1, 0, 0, 0.0])[:, None], verbose=0)


@pytest.mark.parametrize("activation", [keras.layers.Activation("sigmoid"), keras.ops.sigmoid, keras.layers.Lambda(tf.sigmoid)])
def test_losses_of_saturated_outputs_are_computed_from_logits(activation):
    np.testing.assert_allclose(saturated(activation), 16.125845, rtol=1e-6)
    np.testing.assert_allclose(saturated(lambda x: keras.layers.Flatten()(activation(x))), 10.66293, rtol=1e-6)  # Of which others know no longer.


@pytest.mark.parametrize("make", [lambda n: keras.layers.STFTSpectrogram(frame_length=640, frame_step=240), lambda n: keras.layers.Conv1D(2, 70), lambda n: keras.layers.AveragePooling1D(2000)])
def test_windows_that_are_longer_than_what_stands_for_open_sizes(make):
    inputs = keras.Input((None, 1))
    shape = make(0)(inputs).shape
    assert shape[:2] == (None, None) and len(shape) == 3


def test_parts_of_images_show_enough_of_what_boxes_mark():
    for seed in range(20):
        begin, size, box = tf.image.sample_distorted_bounding_box([60, 80, 3], [[[0.25, 0.25, 0.75, 0.75]]], seed=seed, min_object_covered=0.5, area_range=(0.3, 1.0))
        top, left, tall, wide = int(begin[0]), int(begin[1]), int(size[0]), int(size[1])
        inside = max(min(top + tall, 45) - max(top, 15), 0) * max(min(left + wide, 60) - max(left, 20), 0)
        assert inside >= 0.5 * 30 * 40 and tall * wide >= 0.3 * 60 * 80 and 0.74 <= wide / tall <= 1.34
        np.testing.assert_allclose(box[0, 0], [top / 60, left / 80, (top + tall) / 60, (left + wide) / 80], rtol=1e-5)
        assert begin[2] == 0 and size[2] == -1
    with pytest.raises(ValueError, match="no bounding boxes"):
        tf.image.sample_distorted_bounding_box([60, 80, 3], np.zeros((1, 0, 4)))


def test_parts_of_jpeg_files():
    image = pytest.importorskip("PIL.Image")
    import io

    file = io.BytesIO()
    image.fromarray(np.full((6, 8, 3), 100, np.uint8)).save(file, "JPEG")
    assert tf.image.extract_jpeg_shape(file.getvalue()).numpy().tolist() == [6, 8, 3]
    assert tf.image.decode_and_crop_jpeg(file.getvalue(), [1, 2, 3, 4]).shape == (3, 4, 3)


def test_what_tests_and_benchmarks_are_written_with(capsys, tmp_path):
    from tandem.keras import testing

    class Case(testing.TestCase):
        def runTest(self):
            self.assertAllClose([tf.ones(2), {"a": 1.0}], [np.ones(2), {"a": 1.0000005}])
            self.assertNotAllClose(tf.ones(2), np.ones(2) * 1.1)
            self.assertAllEqual({"a": [1, 2]}, {"a": np.array([1, 2])})
            self.assertAllInRange(tf.constant([1, 3]), 1, 3)
            self.assertDType(tf.ones(2), "float32")
            self.assertLen([1, 2], 2)
            self.folder = self.get_temp_dir()
            self.assertFileExists(self.folder)
            self.run_class_serialization_test(keras.layers.Dense(3))
            with self.assertRaises(AssertionError):
                self.assertAllClose(tf.ones(2), tf.ones(2) * 1.001)

    result, case = __import__("unittest").TestResult(), Case()
    case.run(result)
    assert result.wasSuccessful(), result.failures + result.errors
    assert not __import__("os").path.exists(case.folder)

    class Speed(tf.test.Benchmark):
        def benchmark_step(self):
            self.report_benchmark(iters=3, wall_time=0.5)

    Speed().benchmark_step()
    assert "{'name': 'Speed.benchmark_step', 'iters': 3, 'wall_time': 0.5}" in capsys.readouterr().out


def test_names_that_guides_use():
    assert keras.datasets.reuters.get_label_names()[3] == "earn" and len(keras.datasets.reuters.get_label_names()) == 46
    assert keras.dtype_policies.get("bfloat16").compute_dtype == "bfloat16" and keras.dtype_policies.get(None) is keras.dtype_policies.dtype_policy()
    assert keras.dtype_policies.get(keras.layers.Dense(1).dtype_policy.as_config()) == keras.layers.Dense(1).dtype_policy
    assert tf.dtypes.complex(1.0, 2.0).numpy() == 1 + 2j


def test_lists_of_tensors_and_numbers():
    angle = np.float64(0.5)  # Whose cosine is float64.
    matrix = tf.convert_to_tensor([[tf.cos(angle), 0, tf.constant(1.0)], [1, 2, 3]], dtype=tf.float32)
    assert matrix.dtype == "float32" and matrix.numpy()[1].tolist() == [1, 2, 3]
    assert tf.constant([[tf.constant(1.0), 2], [3, 4]]).dtype == "float32"
    assert keras.Variable(np.array([1, 2]), dtype="int").dtype == "int64"


class Logged(keras.utils.PyDataset):
    """Three batches, which tell when they are asked for."""

    def __init__(self):
        super().__init__()
        self.log, self.epoch = [], 0

    def __len__(self):
        return 3

    def __getitem__(self, index):
        self.log.append(index)
        return np.full((4, 2), self.epoch, "float32"), np.ones((4, 1), "float32")

    def on_epoch_begin(self):
        self.log.append("begin")

    def on_epoch_end(self):
        self.epoch += 1
        self.log.append("end")


def small():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=2)
    return model


def test_batches_by_number_are_asked_for_as_in_keras():
    first, epoch = [0, 1, "end"], ["begin", 0, 1, 2, "end"]
    data = Logged()
    small().fit(data, epochs=2, verbose=0, shuffle=False)
    assert data.log == first + epoch * 2
    data = Logged()
    small().evaluate(data, verbose=0)
    assert data.log == first + epoch
    data = Logged()
    small().predict(data, verbose=0)
    assert data.log == first[:2] + epoch
    data = Logged()
    small().fit(np.ones((4, 2)), np.ones((4, 1)), validation_data=data, epochs=2, verbose=0)
    assert data.log == first + epoch + ["end"] + epoch


def test_callbacks_hear_of_steps_that_are_executed_together():
    heard = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda step, logs: heard.append(step), on_train_batch_end=lambda step, logs: heard.append(-step))
    small().fit(np.ones((50, 2)), np.ones((50, 1)), batch_size=10, callbacks=[callback], verbose=0)
    assert heard == [0, -1, 2, -3, 4, -5]


def test_metrics_of_several_values_train_and_are_shown(capsys):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, activation="sigmoid", kernel_initializer="ones")])
    model.compile("sgd", "binary_crossentropy", metrics=[keras.metrics.F1Score(threshold=0.5)])
    x, y = np.array([[1, 0], [-1, 0], [2, 0], [0, 3]], "float32"), np.array([[1], [0], [0], [1]], "float32")
    logs = model.fit(x, y, verbose=2).history
    np.testing.assert_allclose(logs["f1_score"][0], [0.8], rtol=1e-6)
    assert "f1_score: 0.8000" in capsys.readouterr().out


def test_models_that_begin_between_layers(tmp_path):
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(4, name="hidden")(inputs)
    whole = keras.Model(inputs, keras.layers.Dense(2)(hidden))
    rest = keras.Model(whole.get_layer("hidden").output, whole.output)
    assert rest.count_params() == 10 and [type(layer).__name__ for layer in rest.layers] == ["InputLayer", "Dense"] and rest.layers[0].name.endswith("CLONE")
    x = np.random.RandomState(0).normal(size=(3, 6)).astype("float32")
    first = keras.Model(whole.input, hidden)
    np.testing.assert_allclose(rest(first(x)), whole(x), rtol=1e-5)
    rest.save(tmp_path / "rest.keras")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "rest.keras")(first(x)), whole(x), rtol=1e-5)


@keras.saving.register_keras_serializable(package="guides")
class OfOnesOwn(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner, self.outer = keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)

    def call(self, x):
        return self.outer(self.inner(x))


def test_models_of_ones_own_have_their_weights_as_soon_as_they_are_read(tmp_path):
    model, x, y = OfOnesOwn(), np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    model.compile("adam", "mse")
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    read = keras.models.load_model(tmp_path / "model.keras")
    assert read.built and read.count_params() == 21 and int(read.optimizer.iterations) == 1
    np.testing.assert_allclose(read.evaluate(x, y, verbose=0), model.evaluate(x, y, verbose=0), rtol=1e-5)


def test_clones_are_compiled_as_their_models():
    model = small()
    clone = keras.models.clone_model(model)
    assert clone.compiled and clone.optimizer is not model.optimizer and clone.loss == "mse"


def test_a_loss_that_was_compiled_wants_targets():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_regularizer="l2")])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="`y` is None"):
        model.fit(np.ones((4, 2)), verbose=0)


class Distilled(keras.Model):
    def __init__(self, teacher, student):
        super().__init__()
        self.teacher, self.student = teacher, student

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return keras.ops.mean(keras.ops.square(self.teacher(x, training=False) - y_pred))

    def call(self, x):
        return self.student(x)


def test_models_within_a_model_keep_their_metrics_to_themselves():
    teacher, student = small(), small()
    model = Distilled(teacher, student)
    model.compile("sgd", metrics=["mae"])
    x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    teacher.fit(x, y, verbose=0)
    wanted = float(np.mean((teacher.predict(x, verbose=0) - student.predict(x, verbose=0)) ** 2))
    loss, mae = model.evaluate(x, y, verbose=0)
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    assert model.metrics_names == ["loss", "compile_metrics"]
