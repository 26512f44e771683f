"""Names and forms that public programs use, each by what it gives in TensorFlow."""

import json
import os
import zipfile

import numpy as np
import pytest

import tandem as tf
from tandem import keras


@pytest.mark.parametrize(
    "name, count, last",
    [
        ("DenseNet121", 8062504, "relu"), ("MobileNet", 4253864, "conv_pw_13_relu"), ("Xception", 22910480, "block14_sepconv2_act"),
        ("InceptionV3", 23851784, "mixed10"), ("EfficientNetB0", 5330571, "top_activation"),
    ],
)
def test_well_known_models_have_the_weights_of_keras(name, count, last):
    build = getattr(keras.applications, name)
    base = build(include_top=False, weights=None, input_shape=(96, 96, 3), pooling="avg")
    assert base.layers[-2].name == last
    top = 1001 * 1000 if name == "EfficientNetB0" else None
    features = base.output.shape[-1]
    assert base.count_params() + (features + 1) * 1000 == count and (top is None or features == 1280)
    assert base(np.zeros((2, 96, 96, 3), "float32")).shape == (2, features)


def _folder_of_images(root):
    from PIL import Image

    for label, name in enumerate(("cats", "dogs")):
        os.makedirs(root / name / "more")
        for i in range(5):
            Image.fromarray(np.full((4, 6, 3), 100 * label + i, "uint8")).save(root / name / ("more" if i == 4 else "") / f"{i}.png")
    return root


def test_images_in_folders(tmp_path):
    pytest.importorskip("PIL")
    root = _folder_of_images(tmp_path)
    training, validation = keras.utils.image_dataset_from_directory(root, validation_split=0.4, subset="both", seed=1, image_size=(8, 8), batch_size=4)
    assert training.class_names == ["cats", "dogs"] and len(training.file_paths) == 6 and len(validation.file_paths) == 4
    assert not set(training.file_paths) & set(validation.file_paths)
    values = {float(x[0, 0, 0]): int(y) for images, labels in training.concatenate(validation) for x, y in zip(images, labels)}
    assert values == {100.0 * label + i: label for label in (0, 1) for i in range(5)}
    orders = [[float(x[0, 0, 0]) for images, _ in training for x in images] for _ in range(4)]
    assert len({tuple(order) for order in orders}) > 1 and len({tuple(sorted(order)) for order in orders}) == 1
    plain = keras.utils.image_dataset_from_directory(root, labels=None, color_mode="grayscale", shuffle=False, batch_size=None, image_size=(4, 6))
    assert plain.element_spec.shape == (4, 6, 1) and [float(x[0, 0, 0]) for x in plain][:3] == [0.0, 1.0, 2.0]
    one_hot = next(iter(keras.utils.image_dataset_from_directory(root, label_mode="categorical", shuffle=False)))[1]
    np.testing.assert_array_equal(one_hot[4:6], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="provide a `seed`"):
        keras.utils.image_dataset_from_directory(root, validation_split=0.2, subset="training")


def test_texts_and_sounds_in_folders(tmp_path):
    for label, name in enumerate(("neg", "pos")):
        for kind in ("texts", "sounds"):
            os.makedirs(tmp_path / kind / name)
        for i in range(3):
            (tmp_path / "texts" / name / f"{i}.txt").write_text(f"{name} number {i}")
            samples = np.full((10, 1), (label + 1) / 4, "float32")
            (tmp_path / "sounds" / name / f"{i}.wav").write_bytes(tf.audio.encode_wav(samples, 8000).numpy())
    texts, labels = next(iter(keras.utils.text_dataset_from_directory(tmp_path / "texts", label_mode="binary", max_length=3, shuffle=False)))
    assert texts.numpy().tolist() == [b"neg"] * 3 + [b"pos"] * 3 and labels.shape == (6, 1) and labels.dtype == tf.float32
    sounds, labels = next(iter(keras.utils.audio_dataset_from_directory(tmp_path / "sounds", output_sequence_length=12, shuffle=False)))
    assert sounds.shape == (6, 12, 1) and labels.numpy().tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(sounds[:, 9:11, 0], [[0.25, 0]] * 3 + [[0.5, 0]] * 3)
    left_right, rate = tf.audio.decode_wav(tf.audio.encode_wav([[0.5, -1.0], [2.0, 0.0]], 44100), desired_channels=2)
    assert int(rate) == 44100
    np.testing.assert_allclose(left_right, [[0.5, -1.0], [32767 / 32768, 0.0]])
    with pytest.raises(ValueError, match="RIFF"):
        tf.audio.decode_wav(b"nothing of the kind")


def test_archives_in_the_cache_are_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "series.csv.zip", "w") as archive:
        archive.writestr("series.csv", "a,b\n1,2\n")
    got = keras.utils.get_file("series.csv.zip", (tmp_path / "series.csv.zip").as_uri(), extract=True)
    assert got == str(tmp_path / "datasets" / "series_extracted") and open(os.path.join(got, "series.csv")).read() == "a,b\n1,2\n"
    again = keras.utils.get_file("series", "https://nowhere.invalid/series.csv.zip", extract=True)
    assert again == str(tmp_path / "datasets" / "series") and os.listdir(again) == ["series.csv"]
    with pytest.raises(FileNotFoundError, match="downloads nothing"):
        keras.utils.get_file("other.zip", "https://nowhere.invalid/other.zip", extract=True)
    with pytest.warns(UserWarning, match="another file"):
        keras.utils.get_file("series.csv.zip", "https://nowhere.invalid/x", md5_hash="0" * 32)


def test_sets_of_rows():
    a, b = tf.constant([[2, 3, 5, 5], [7, 9, 7, 7]]), tf.constant([[5, 6], [9, 7]])
    assert tf.sparse.to_dense(tf.sets.union(a, b)).numpy().tolist() == [[2, 3, 5, 6], [7, 9, 0, 0]]
    assert tf.sparse.to_dense(tf.sets.intersection(a, b)).numpy().tolist() == [[5, 0], [7, 9]]
    assert tf.sets.difference(a, b).values.numpy().tolist() == [2, 3] and tf.sets.size(tf.sets.union(a, b)).numpy().tolist() == [4, 2]


def test_settings_of_sessions_are_accepted():
    v1 = tf.compat.v1
    settings = v1.ConfigProto(allow_soft_placement=True)
    settings.gpu_options.allow_growth = True
    settings.gpu_options.per_process_gpu_memory_fraction = 0.4
    with v1.Session(config=settings) as session, pytest.raises(NotImplementedError, match="tf.function"):
        session.run(1)
    v1.InteractiveSession(config=v1.ConfigProto(gpu_options=v1.GPUOptions(allow_growth=True)))
    v1.reset_default_graph()
    with pytest.warns(UserWarning, match="no graphs"):
        v1.disable_eager_execution()
    with pytest.raises(NotImplementedError, match="placeholder"):
        v1.placeholder(tf.float32)
    variable = tf.Variable(1.0)
    v1.assign(variable, 3.0)
    assert float(v1.log(variable)) == pytest.approx(np.log(3))


class _Layer(tf.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.w = tf.Variable(tf.ones([rows, columns]))

    def __call__(self, x):
        return x @ self.w


_SCALE = 2.0


class _Stack(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [_Layer(3, 4), _Layer(4, 2)]
        self.calls = tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="rows")])
    def __call__(self, x):
        self.calls.assign_add(1)
        for layer in self.layers:
            x = layer(x)
        return x * _SCALE


def test_modules_are_saved_with_their_functions(tmp_path, run):
    module = _Stack()
    module.twice = tf.function(lambda x: 2 * x + module.layers[0].w[0, 0])
    tf.saved_model.save(module, tmp_path / "module", signatures=module.__call__)
    module.layers[0].w.assign(tf.zeros([3, 4]))
    loaded = tf.saved_model.load(tmp_path / "module")
    x = tf.ones([2, 3])
    np.testing.assert_allclose(loaded(x), [[24.0, 24.0]] * 2)
    np.testing.assert_allclose(loaded.signatures["serving_default"](rows=x)["output_0"], [[24.0, 24.0]] * 2)
    assert int(loaded.calls) == 2 and int(module.calls) == 0 and float(loaded.twice(3.0)) == 7.0 and len(loaded.variables) == 3
    loaded.layers[0].w.assign(5 * tf.ones([3, 4]))
    assert float(loaded.twice(3.0)) == 11.0  # The function and the module have the same variables.
    assert tf.saved_model.contains_saved_model(tmp_path / "module")
    program = "import sys, tandem as tf; m = tf.saved_model.load(sys.argv[1]); print(m(tf.ones([1, 3])).numpy().tolist(), float(m.twice(1.0)))"
    assert "[[24.0, 24.0]] 3.0" in run("-c", program, str(tmp_path / "module"))
    with pytest.raises(ValueError, match="Trackable"):
        tf.saved_model.save(7, tmp_path / "number")


def test_models_are_saved_with_signatures(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="given")])
    def serve(x):
        return {"probabilities": tf.nn.softmax(model(x))}

    with pytest.warns(UserWarning, match="folder"):
        tf.saved_model.save(model, tmp_path / "model", signatures={"serving_default": serve})
    x = tf.random.normal([4, 3])
    found = tf.saved_model.load(tmp_path / "model").signatures["serving_default"](given=x)
    np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(model(x)), rtol=1e-6)


def test_losses_of_described_tensors():
    rng = np.random.RandomState(0)
    given = keras.Input((4,))
    hidden = keras.layers.Dense(3)(given)
    model = keras.Model(given, keras.layers.Dense(4)(hidden))
    model.add_loss(tf.reduce_mean(tf.square(model.output - given)))
    model.add_loss(0.5 * tf.reduce_mean(tf.abs(hidden), axis=-1))
    model.compile("sgd")
    x = rng.normal(size=(8, 4)).astype("float32")
    inner = keras.Model(given, hidden)
    wanted = np.mean((model.predict(x, verbose=0) - x) ** 2) + 0.5 * np.mean(np.abs(inner.predict(x, verbose=0)))
    assert model.evaluate(x, verbose=0) == pytest.approx(wanted, rel=1e-4)
    losses = model.fit(x, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < losses[0] and losses[0] == pytest.approx(wanted, rel=1e-4)


def test_small_integers_divide_to_float32():
    pixels = tf.constant([0, 51], tf.uint8)
    for result in (pixels / 255, tf.divide(pixels, 255), tf.function(lambda x: x / 255)(pixels), pixels / tf.constant([255], tf.uint8)):
        assert result.dtype == tf.float32
        np.testing.assert_allclose(result, [0, 0.2], rtol=1e-6)
    assert (tf.constant(3) / 2).dtype == tf.float64 and tf.cast(pixels, "float").dtype == tf.float32


def test_texts_are_moved_as_other_tensors():
    texts = tf.constant(["b", "a", "b"])
    values, places, counts = tf.unique_with_counts(texts)
    assert values.numpy().tolist() == [b"b", b"a"] and places.numpy().tolist() == [0, 1, 0] and counts.numpy().tolist() == [2, 1]
    assert int(tf.size(texts)) == 3 and int(tf.rank(texts)) == 1 and tf.equal(texts, "b").numpy().tolist() == [True, False, True]
    for result, wanted in (
        (tf.tile(texts[:1], [2]), [b"b", b"b"]), (tf.repeat(texts[:2], 2), [b"b", b"b", b"a", b"a"]), (tf.reverse(texts[:2], [0]), [b"a", b"b"]),
        (tf.roll(texts, 1, 0), [b"b", b"b", b"a"]), (tf.slice(texts, [1], [2]), [b"a", b"b"]), (tf.pad(texts[:1], [[1, 0]], constant_values="-"), [b"-", b"b"]),
        (tf.where([True, False], "x", "y"), [b"x", b"y"]), (tf.fill([2], "z"), [b"z", b"z"]), (tf.zeros([1], tf.string), [b""]),
        (tf.boolean_mask(texts, [False, True, True]), [b"a", b"b"]), (tf.split(texts, [1, 2])[1], [b"a", b"b"]), (tf.transpose(texts[None])[:2, 0], [b"b", b"a"]),
        (tf.one_hot([1], 2, on_value="on", off_value="off")[0], [b"off", b"on"]), (tf.broadcast_to(tf.constant("q"), [2]), [b"q", b"q"]),
        (tf.map_fn(tf.strings.upper, texts), [b"B", b"A", b"B"]), (tf.strings.ngrams(["u", "v", "w"], 2), [b"u v", b"v w"]),
        (tf.strings.unicode_encode([[72, 105]], "UTF-8"), [b"Hi"]), (tf.concat((tf.zeros([0, 1], tf.string), [["m"]]), axis=0)[0], [b"m"]),
    ):
        assert result.numpy().tolist() == wanted
    assert tf.map_fn(tf.strings.length, tf.constant(["a", "bcd"]), fn_output_signature=tf.int32).numpy().tolist() == [1, 3]
    assert tf.strings.unicode_decode(["ab", "c"], "UTF-8").to_list() == [[97, 98], [99]]


def test_texts_are_printed_in_each_run(capsys):
    @tf.function
    def hour(number):
        if tf.strings.length(tf.strings.format("{}", number)) == 1:
            return tf.strings.format("0{}", number)
        return tf.strings.format("{}", number)

    @tf.function
    def report(number):
        tf.print("hour", end=": ", output_stream="stdout")
        tf.print(hour(number), output_stream="stdout")

    for i in (7, 12):
        report(tf.constant(i))
    assert capsys.readouterr().out == "hour: 07\nhour: 12\n"


@pytest.mark.parametrize(
    "make, rank",
    [
        (lambda f: keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", data_format=f), 4),
        (lambda f: keras.layers.Conv1D(4, 3, data_format=f), 3),
        (lambda f: keras.layers.Conv3D(2, 2, data_format=f), 5),
        (lambda f: keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same", data_format=f), 4),
        (lambda f: keras.layers.DepthwiseConv2D(3, depth_multiplier=2, data_format=f), 4),
        (lambda f: keras.layers.SeparableConv2D(5, 3, data_format=f), 4),
        (lambda f: keras.layers.MaxPooling2D(2, data_format=f), 4),
        (lambda f: keras.layers.AveragePooling1D(2, data_format=f), 3),
        (lambda f: keras.layers.GlobalAveragePooling2D(keepdims=True, data_format=f), 4),
        (lambda f: keras.layers.ZeroPadding2D(((1, 0), (2, 3)), data_format=f), 4),
        (lambda f: keras.layers.Cropping2D(1, data_format=f), 4),
        (lambda f: keras.layers.UpSampling2D((2, 3), interpolation="bilinear", data_format=f), 4),
        (lambda f: keras.layers.UpSampling3D(2, data_format=f), 5),
    ],
)
def test_channels_may_come_first(make, rank):
    x = np.random.RandomState(0).normal(size=(2, 6, 5, 4)[: rank - 1] + (3,) if rank < 5 else (2, 6, 5, 4, 3)).astype("float32")
    last, first = make("channels_last"), make("channels_first")
    turned = np.moveaxis(x, -1, 1)
    wanted = np.moveaxis(last(x).numpy(), -1, 1)
    first.build(turned.shape)
    first.set_weights(last.get_weights())
    np.testing.assert_allclose(first(turned), wanted, rtol=1e-5, atol=1e-6)
    assert first(keras.Input(turned.shape[1:])).shape == (None, *wanted.shape[1:])
    assert type(first).from_config(first.get_config()).data_format == "channels_first"


def test_the_format_of_images_is_a_setting():
    x = np.arange(24.0, dtype="float32").reshape(1, 3, 2, 4)
    try:
        keras.backend.set_image_data_format("channels_first")
        assert keras.config.image_data_format() == "channels_first"
        assert keras.layers.GlobalMaxPooling2D()(x).numpy().tolist() == [[7, 15, 23]] and keras.layers.Conv2D(2, 1)(x).shape == (1, 2, 2, 4)
        np.testing.assert_array_equal(keras.layers.Flatten()(x), np.moveaxis(x, 1, -1).reshape(1, -1))
    finally:
        keras.backend.set_image_data_format("channels_last")
    with pytest.raises(ValueError, match="data_format"):
        keras.layers.MaxPooling2D(data_format="columns_first")


def test_functions_of_images_with_channels_first():
    rng = np.random.RandomState(0)
    x, w = rng.normal(size=(2, 6, 6, 3)).astype("float32"), rng.normal(size=(3, 3, 3, 4)).astype("float32")
    turn, back = lambda a: np.moveaxis(np.asarray(a), -1, 1), lambda a: np.moveaxis(np.asarray(a), 1, -1)  # noqa: E731
    y = tf.nn.conv2d(x, w, strides=[1, 2, 1, 1], padding="SAME")
    np.testing.assert_allclose(back(tf.nn.conv2d(turn(x), w, strides=[1, 1, 2, 1], padding="SAME", data_format="NCHW")), y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(back(tf.nn.max_pool2d(turn(x), 2, 2, "VALID", data_format="NCHW")), tf.nn.max_pool2d(x, 2, 2, "VALID"))
    np.testing.assert_allclose(back(tf.nn.bias_add(turn(x), [1.0, 2.0, 3.0], data_format="NCHW")), x + np.float32([1, 2, 3]), rtol=1e-6)
    whole = tf.reshape(tf.range(4), [1, 2, 2, 1])
    assert tf.nn.max_pool2d(whole, 2, 2, "VALID").numpy().tolist() == [[[[3]]]] and keras.layers.MaxPooling2D()(whole).dtype == tf.int32


def test_variables_take_names_of_initializers():
    variable = keras.Variable(shape=(2, 3), initializer="ones")
    assert variable.shape == (2, 3) and float(tf.reduce_sum(variable)) == 6


@pytest.mark.parametrize(
    "make",
    [
        tf.zeros, tf.ones, tf.random.normal, tf.random.uniform, tf.random.truncated_normal, keras.random.normal, keras.ops.zeros,
        lambda shape: tf.fill(shape, 1.0), lambda shape: tf.broadcast_to(1.0, shape), lambda shape: tf.reshape(tf.range(6), shape),
    ],
)
def test_shapes_are_tensors_too(make):
    x = tf.zeros([2, 3])
    for shape in (tf.shape(x), tf.constant([2, 3]), tf.concat([tf.shape(x), [4]], 0)[:2], tf.Variable([2, 3]), [tf.shape(x)[0], 3], x.shape, np.array([2, 3])):
        assert make(shape).shape == (2, 3)
    assert tf.function(lambda given: make(tf.shape(given)))(x).shape == (2, 3)


def test_tensors_are_shown_as_in_tensorflow():
    x = tf.constant([[1, 2], [3, 4]])
    assert str(x) == "tf.Tensor(\n[[1 2]\n [3 4]], shape=(2, 2), dtype=int32)" and str(x[0]) == "tf.Tensor([1 2], shape=(2,), dtype=int32)"
    assert repr(x) == "<tf.Tensor: shape=(2, 2), dtype=int32, numpy=\narray([[1, 2],\n       [3, 4]], dtype=int32)>"
    assert int(x[[1, 0]]) == 3
    for key in ((slice(None), [0, 1]), (slice(None), (True, False)), (0, "a")):
        with pytest.raises(TypeError, match="valid indices"):
            x[key]


def test_lists_that_a_map_gives_are_tuples():
    def halves(x, y):
        return tf.numpy_function(lambda a, b: (a / 2, b + 1), [x, y], [tf.float32, tf.int64])

    data = tf.data.Dataset.from_tensor_slices((np.float32([2, 4]), np.int64([1, 2]))).map(halves)
    assert [(float(x), int(y)) for x, y in data] == [(1.0, 2), (2.0, 3)]
    x, y = next(iter(data.batch(2)))
    assert x.dtype == tf.float32 and y.numpy().tolist() == [2, 3]
    lines = tf.data.Dataset.from_tensor_slices(["1,a", "2,b"]).map(lambda line: tf.io.decode_csv(line, [int(), str()]))
    assert [(int(a), b.numpy()) for a, b in lines] == [(1, b"a"), (2, b"b")]
    nested = next(iter(tf.data.Dataset.range(1).map(lambda i: ([i, i], i))))
    assert nested[0].shape == (2,)  # Within a result a list is a tensor.


def test_metrics_without_a_state_of_their_own():
    metric = keras.metrics.SparseCategoricalAccuracy()
    state = metric.stateless_reset_state()
    state = metric.stateless_update_state(state, [0, 1], [[0.9, 0.1], [0.8, 0.2]])
    state = metric.stateless_update_state(state, [1, 1], [[0.1, 0.9], [0.2, 0.8]])
    assert float(metric.stateless_result(state)) == 0.75 and float(metric.result()) == 0.0
    assert keras.ops.image.extract_patches(np.zeros((1, 12, 12, 3), "float32"), (6, 6), strides=[1, 6, 6, 1]).shape == (1, 2, 2, 108)
    assert tf.experimental.numpy.ones([2, 3], tf.float32).dtype == tf.float32


def test_frames_and_texts_as_programs_give_them(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0], "kind": ["x", "y", "x"]})

    class Stacked(keras.Model):
        def call(self, inputs):
            return keras.layers.Concatenate(axis=1)([inputs["a"], inputs["b"]])

    assert Stacked().predict(dict(frame[["a", "b"]]), verbose=0).tolist() == [[1, 4], [2, 5], [3, 6]]
    kind, a = keras.Input((1,), name="kind", dtype="string"), keras.Input((1,), name="a")
    encoded = keras.layers.StringLookup(vocabulary=["x", "y"], output_mode="one_hot")(kind)
    model = keras.Model([kind, a], keras.layers.Dense(1)(keras.layers.Concatenate()([encoded, a])))
    model.compile("sgd", "mse")
    model.fit(dict(frame[["kind", "a"]]), frame["b"], verbose=0)
    assert model.predict(dict(frame[["kind", "a"]]), verbose=0).shape == (3, 1)
    rows = tf.data.Dataset.from_tensor_slices(np.arange(3)).as_numpy_iterator()
    assert rows.next() == 0 and next(rows) == 1 and list(rows) == [2]

    @tf.py_function(Tout=tf.string)
    def shout(text, count):
        return text.numpy().upper() * int(count)

    assert shout(b"ab", 2).numpy() == b"ABAB"
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "datasets").mkdir()
    with zipfile.ZipFile(tmp_path / "datasets" / "photos.zip", "w") as archive:
        archive.writestr("photos/1.txt", "one")
    for _ in range(2):  # Where no name is given, the folder has that of the archive.
        assert os.listdir(keras.utils.get_file(origin="https://nowhere.invalid/photos.zip", extract=True)) == ["photos"]


def test_features_of_any_length_and_what_they_are():
    def example(numbers, words):
        feature = {"n": tf.train.Feature(int64_list=tf.train.Int64List(value=numbers)), "w": tf.train.Feature(bytes_list=tf.train.BytesList(value=words))}
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    kinds = {"n": tf.io.VarLenFeature(tf.int64), "w": tf.io.VarLenFeature(tf.string)}
    one = tf.io.parse_single_example(example([3, 4], [b"a"]), kinds)
    assert tf.sparse.to_dense(one["n"]).numpy().tolist() == [3, 4] and one["w"].values.numpy().tolist() == [b"a"]
    many = tf.io.parse_example([example([1], [b"x", b"y"]), example([2, 3], [])], kinds)
    assert tf.sparse.to_dense(many["n"]).numpy().tolist() == [[1, 0], [2, 3]] and tf.sparse.to_dense(many["w"]).numpy().tolist() == [[b"x", b"y"], [b"", b""]]
    assert tf.train.Example.FromString(example([1], [b"x"])).features.feature["w"].WhichOneof("kind") == "bytes_list"


def test_feature_spaces_are_saved(tmp_path):
    space = keras.utils.FeatureSpace(features={"a": "float_normalized", "s": "string_categorical"}, output_mode="concat")
    space.adapt(tf.data.Dataset.from_tensor_slices({"a": np.arange(8.0), "s": ["x", "y"] * 4}))
    row = {"a": [[1.0]], "s": [["y"]]}
    space.save(tmp_path / "space.keras")
    with pytest.raises(ValueError, match="safe_mode"):
        keras.models.load_model(tmp_path / "space.keras")
    np.testing.assert_allclose(keras.saving.load_model(tmp_path / "space.keras", safe_mode=False)(row), space(row), rtol=1e-6)
    words = keras.Input((), name="word", dtype="string")
    assert keras.ops.expand_dims(words, -1).shape == (None, 1)
    assert keras.ops.convert_to_tensor(["a", "b"]).numpy().tolist() == [b"a", b"b"]


def test_sparse_tensors_in_programs():
    a = tf.SparseTensor([[0, 2], [1, 0]], [3.0, 4.0], [2, 3])
    b = tf.SparseTensor([[0, 2], [1, 1]], [1.0, 5.0], [2, 3])
    dense = lambda sparse: tf.sparse.to_dense(sparse).numpy().tolist()  # noqa: E731
    assert dense(tf.sparse.add(a, b)) == [[0, 0, 4], [4, 5, 0]] and dense(tf.sparse.transpose(a)) == [[0, 4], [0, 0], [3, 0]]
    assert dense(tf.sparse.concat(axis=1, sp_inputs=[a, b])) == [[0, 0, 3, 0, 0, 1], [4, 0, 0, 0, 5, 0]]
    assert dense(tf.sparse.slice(a, [0, 1], [2, 2])) == [[0, 3], [0, 0]] and dense(tf.sparse.map_values(tf.add, a, 5)) == [[0, 0, 8], [9, 0, 0]]
    assert dense(tf.sparse.retain(a, [False, True])) == [[0, 0, 0], [4, 0, 0]]
    assert tf.sparse.reduce_max(tf.sparse.from_dense([[-5, 0, -3], [0, 0, 2]]), axis=1).numpy().tolist() == [-3, 2]
    assert int(tf.sparse.reduce_max(tf.sparse.from_dense([-5, 0, -3]))) == -3
    assert keras.layers.Dense(2, kernel_initializer="ones")(a).numpy().tolist() == [[3, 3], [4, 4]]
    rows = tf.ragged.constant([[1, 2], [], [3]])
    assert tf.ragged.map_flat_values(lambda x: 2 * x, rows).to_list() == [[2, 4], [], [6]]
    assert tf.RaggedTensor.from_sparse(rows.to_sparse()).to_list() == [[1, 2], [], [3]]


@tf.function
def _countdown(n):
    if n > 0:
        return 1 + _countdown(n - 1)
    return 0


def test_functions_call_themselves():
    assert int(_countdown(5)) == 5


def test_merging_layers_of_keras_2():
    class Product(keras.layers._Merge):
        def _merge_function(self, inputs):
            return inputs[0] * inputs[1]

    assert Product()([np.float32([[2, 3]]), np.float32([[4, 5]])]).numpy().tolist() == [[8, 15]] and keras.layers.merge.Add is keras.layers.Add


def test_what_models_and_data_sets_look_like_when_they_are_printed(capsys):
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(16, 3, name="a_name_that_does_not_fit_into_its_column")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1000)(keras.layers.GlobalAveragePooling2D(name="pool")(x)), name="m")
    model.summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        'Model: "m"',
        "┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┓",
        "┃ Layer (type)                    ┃ Output Shape           ┃       Param # ┃",
        "┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩",
    ]
    assert "│ a_name_that_does_not_fit_into_… │ (None, 6, 6, 16)       │           448 │" in lines
    assert "│ (Conv2D)                        │                        │               │" in lines
    assert lines[-3:] == [" Total params: 17,448 (68.16 KB)", " Trainable params: 17,448 (68.16 KB)", " Non-trainable params: 0 (0.00 B)"]
    y = keras.layers.Dense(4, name="d")(keras.Input((4,), name="i"))
    keras.Model(y._node.inputs, keras.layers.add([y, y._node.inputs[0]], name="sum")).summary()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("│ sum (Add)") and "d[0][0], i[0][0]" in line for line in lines)
    texts = []
    model.summary(print_fn=texts.append)
    assert len(texts) == 1 and texts[0].endswith("\n")
    numbers = tf.data.Dataset.range(4)
    assert repr(numbers.map(lambda i: i, num_parallel_calls=2).batch(2)) == "<_BatchDataset element_spec=TensorSpec(shape=(None,), dtype=tf.int64, name=None)>"
    assert repr(numbers.map(lambda i: i, num_parallel_calls=2)).startswith("<_ParallelMapDataset ")
    given = tf.data.Dataset.from_generator(lambda: iter([(1, [2.0])]), output_types=(tf.int32, tf.float32), output_shapes=((), (None,)))
    assert [s.shape.as_list() for s in given.element_spec] == [[], [None]]
    assert repr(tf.Variable(3.0)) == "<tf.Variable 'Variable:0' shape=() dtype=float32, numpy=3.0>"


def test_the_optimizer_counts_in_a_summary_once_it_is_built():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.zeros((2, 2)), np.zeros((2, 1)), verbose=0)
    texts = []
    model.summary(print_fn=texts.append)
    assert texts[0].splitlines()[-4:] == [
        " Total params: 11 (48.00 B)", " Trainable params: 3 (12.00 B)", " Non-trainable params: 0 (0.00 B)", " Optimizer params: 8 (36.00 B)",
    ]


def test_weights_and_layers_have_keras_paths():
    class Two(keras.Model):
        def __init__(self):
            super().__init__(name="two")
            self.rnn = keras.layers.Bidirectional(keras.layers.GRU(2, name="gru"), name="both")
            self.rest = keras.Sequential([keras.layers.Dense(1, name="last")], name="rest")

        def call(self, x):
            return self.rest(self.rnn(x))

    model = Two()
    model(np.zeros((1, 3, 2), "float32"))
    paths = [w.path for w in model.weights]
    assert paths[0] == "two/both/forward_gru/gru_cell/kernel" and paths[3] == "two/both/backward_gru/gru_cell/kernel"
    assert paths[-2:] == ["two/rest/last/kernel", "two/rest/last/bias"] and model.rest.layers[0].path == "two/rest/last"

    class Own(keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=(shape[-1], 2), name="w")

        def call(self, x):
            return x @ self.w

    own = Own(name="own")
    own.build((None, 3))
    own(np.zeros((1, 3), "float32"))
    assert own.built and [w.path for w in own.weights] == ["own/w"]


def test_names_of_scopes_and_arguments(capsys):
    class MyModule(tf.Module):
        def __init__(self):
            super().__init__()
            with self.name_scope:
                self.v = tf.Variable(1.0)

    assert MyModule().v.name == "my_module/Variable:0"

    @tf.function
    def f(a, pair):
        print(a, pair)
        return a

    f(tf.constant(1), (tf.constant(2.0), tf.constant(3)))
    assert capsys.readouterr().out.startswith('Tensor("a:0", shape=(), dtype=int32) (<tf.Tensor \'pair:0\' shape=() dtype=float32>, <tf.Tensor \'pair_1:0\'')
    assert tf.linspace(0, 1, 3).dtype == tf.float64 and tf.linspace(0.0, 1, 3).dtype == tf.float32


def test_configurations_are_those_of_keras():
    policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": None}
    zeros = {"module": "keras.initializers", "class_name": "Zeros", "config": {}, "registered_name": None}
    uniform = {"module": "keras.initializers", "class_name": "GlorotUniform", "config": {"seed": None, "input_axes": None, "output_axes": None}, "registered_name": None}
    penalty = {"module": "keras.regularizers", "class_name": "L2", "config": {"l2": 0.01}, "registered_name": None}
    dense = keras.layers.Dense(3, "relu", kernel_regularizer="l2", name="d").get_config()
    assert list(dense.items()) == [
        ("name", "d"), ("trainable", True), ("dtype", policy), ("units", 3), ("activation", "relu"), ("use_bias", True), ("kernel_initializer", uniform),
        ("bias_initializer", zeros), ("kernel_regularizer", penalty), ("bias_regularizer", None), ("kernel_constraint", None),
        ("bias_constraint", None), ("quantization_config", None),
    ]
    own = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True, dropout=0.5), merge_mode="sum")
    made = [
        own, keras.layers.Conv2D(2, 3, strides=2, padding="same"), keras.layers.DepthwiseConv2D(3), keras.layers.ZeroPadding2D((1, 2)),
        keras.layers.Cropping1D(2), keras.layers.TimeDistributed(keras.layers.Dense(2)), keras.layers.MultiHeadAttention(2, 3), keras.layers.BatchNormalization(),
    ]
    for layer in made:
        config = layer.get_config()
        assert type(layer).from_config(config).get_config() == config
    assert made[1].get_config()["strides"] == (2, 2) and made[3].get_config()["padding"] == ((1, 1), (2, 2))
    assert own.get_config()["layer"]["config"]["dropout"] == 0.5


def test_a_model_as_json_has_its_shapes_and_how_it_was_compiled():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="d")], name="s")
    model.compile(keras.optimizers.SGD(0.5), "mse")
    config = json.loads(model.to_json())
    assert (config["module"], config["class_name"], config["build_config"]) == ("keras", "Sequential", {"input_shape": [None, 4]})
    assert config["config"]["layers"][1]["build_config"] == {"input_shape": [None, 4]} and config["compile_config"]["optimizer"]["class_name"] == "SGD"
    again = keras.models.model_from_json(model.to_json())
    assert [w.path for w in again.weights] == ["d/kernel", "d/bias"]  # As in Keras, whose models that are read make their layers first.
    x = keras.Input((2,))
    described = keras.Model(x, keras.layers.Dense(1)(x), name="f")
    assert repr(described) == "<Functional name=f, built=True>" and json.loads(described.to_json())["class_name"] == "Functional"


def test_a_variable_is_a_target_and_modules_list_their_own_variables_first():
    a, b = tf.Variable(2.0, name="a"), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = a * b
    ga, gb = tape.gradient([y, a], [a, b])
    assert float(ga) == 4.0 and float(gb) == 2.0 and [v.name for v in tape.watched_variables()] == ["a:0", "Variable:0"]

    class Inner(tf.Module):
        def __init__(self):
            self.many = [tf.Variable(1), tf.Variable(2)]

    class Outer(tf.Module):
        def __init__(self):
            self.inner = Inner()
            self.own = tf.Variable(10)

    assert [int(v) for v in Outer().variables] == [10, 1, 2]


def test_eigenvalues_of_any_matrix_are_complex():
    np.testing.assert_allclose(tf.linalg.eigvals(tf.constant([[0.0, -1.0], [1.0, 0.0]])).numpy(), [1j, -1j], atol=1e-6)
    values, vectors = tf.linalg.eig([[1.0, 2.0], [3.0, 4.0]])
    assert values.dtype == tf.complex64 and vectors.shape == (2, 2)


def test_all_names_of_keras_and_what_checkpoints_and_logs_say(tmp_path, capsys):
    names = {}
    exec("from tandem.keras import *", names)
    assert names["layers"] is keras.layers and names["preprocessing"].sequence is keras.preprocessing.sequence and "Sequential" in names
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    log, path = tmp_path / "log.csv", tmp_path / "best.keras"
    watching = [keras.callbacks.ModelCheckpoint(path, monitor="loss", save_best_only=True, verbose=1), keras.callbacks.CSVLogger(log)]
    model.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0, callbacks=watching)
    said = capsys.readouterr().out
    assert "Epoch 1: loss improved from None to" in said and f"Epoch 1: finished saving model to {path}" in said
    assert log.read_text().splitlines()[0] == "epoch,loss,val_loss"
    assert model.metrics_names == ["loss"]
    with pytest.warns(UserWarning, match="deprecated"):
        assert not keras.Sequential([keras.layers.Embedding(3, 2, input_length=4)]).built


def test_complex_values_are_printed_as_other_tensors():
    value = tf.constant([[1 + 2j, 3]])
    assert str(value) == "tf.Tensor([[1.+2.j 3.+0.j]], shape=(1, 2), dtype=complex128)"
    assert repr(tf.complex(1.0, 2.0)) == "<tf.Tensor: shape=(), dtype=complex64, numpy=(1+2j)>"


def test_scalars_interleaving_and_schedules_are_as_in_tensorflow():
    assert repr(tf.constant(0.1)) == "<tf.Tensor: shape=(), dtype=float32, numpy=0.10000000149011612>" and str(tf.constant(0.1)).startswith("tf.Tensor(0.1,")
    assert tf.constant(1 + 1j).shape == () and keras.layers.SimpleRNN(2).cell.name == "simple_rnn_cell"
    repeated = tf.data.Dataset.range(2).interleave(lambda i: tf.data.Dataset.from_tensors(i).repeat(2), cycle_length=2)
    assert [int(i) for i in repeated] == [0, 1, 0, 1]
    one_each = tf.data.Dataset.range(3).interleave(lambda i: tf.data.Dataset.from_tensors(i).repeat(2))
    assert sorted(int(i) for i in one_each) == [0, 0, 1, 1, 2, 2] and len(list(one_each)) == 6
    assert keras.optimizers.schedules.InverseTimeDecay(0.1, 100, 0.5)(np.float64(5)).dtype == tf.float32


def test_transforms_of_one_row():
    x = tf.sin(tf.range(12.0))
    for f in (tf.signal.rfft, lambda v: tf.signal.fft(tf.complex(v, v * 0.5)), tf.signal.dct):
        alone, row = f(x), f(x[tf.newaxis])
        np.testing.assert_allclose(np.asarray(alone.numpy()), np.asarray(row.numpy())[0], atol=1e-6)
    np.testing.assert_allclose(tf.signal.irfft(tf.signal.rfft(x)), x, atol=1e-6)


def test_sizes_as_programs_of_both_versions_ask_for_them():
    shape = tf.TensorShape([3, None])
    assert [tf.compat.dimension_value(d) for d in shape] == [3, None] and tf.compat.dimension_at_index(shape, 0) == 3
    assert tf.compat.dimension_at_index(tf.TensorShape(None), 0) is None and tf.compat.path_to_str("a") == "a"
