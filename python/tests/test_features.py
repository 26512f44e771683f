"""What notebooks, other libraries and other processes see of tensors and models."""

import copy
import io
import pickle
import sys
import time
import types

import warnings

import numpy as np
import pytest

import tandem as tf
from tandem import keras


def small_model():
    model = keras.Sequential([keras.Input((3,), name="features"), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


X, Y = np.arange(24, dtype="float32").reshape(8, 3) / 24, np.ones((8, 1), "float32")


def test_html_views():
    model = small_model()
    history = model.fit(X, Y, epochs=2, verbose=0)
    views = [tf.ones(3), tf.Variable([1.0]), tf.data.Dataset.range(3), tf.config.list_logical_devices()[0], tf.config.list_physical_devices()[0], history, model, tf.distribute.OneDeviceStrategy("/cpu:0")]
    for each in views:
        assert each._repr_html_().startswith("<"), type(each)
    assert history._repr_html_().count("<tr>") == 3


def test_pictures_of_models_and_histories(tmp_path, monkeypatch):
    a, b = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    joined = keras.layers.Add(name="sum")([keras.layers.Dense(2, name="shared")(a), keras.layers.Dense(2)(b)])
    path = keras.utils.plot_model(keras.Model([a, b], joined), str(tmp_path / "model.svg"), show_shapes=True, show_layer_names=True)
    text = open(path).read()
    assert all(name in text for name in ("left", "right", "sum", "shared")) and path._repr_html_().startswith("<")
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="relu", name="deep")], name="inner")
    outer = keras.Model(a, keras.layers.Dense(1)(inner(a)))
    monkeypatch.setattr("shutil.which", lambda name: None)
    options = {"show_layer_names": True, "show_layer_activations": True, "show_dtype": True, "show_trainable": True}
    for nested, rankdir in ((False, "TB"), (True, "LR")):
        text = open(keras.utils.plot_model(outer, tmp_path / "outer.svg", expand_nested=nested, rankdir=rankdir, **options)).read()
        assert ("deep" in text and "activation: relu" in text) == nested and ("inner" in text) == (not nested)
        assert "float32" in text and "trainable" in text and text.count("<line") == 2 + nested
    monkeypatch.setitem(sys.modules, "PIL", None)  # Not installed.
    with pytest.warns(UserWarning, match="neither dot nor Pillow"):
        assert keras.utils.plot_model(outer, str(tmp_path / "outer.png")) == str(tmp_path / "outer.svg")
    drawn = []
    axes = types.SimpleNamespace(plot=lambda *args, label: drawn.append((label, args[0], len(args[1]))), set_xlabel=lambda t: None, legend=lambda: None)
    pyplot = types.ModuleType("matplotlib.pyplot")
    pyplot.subplots = lambda: (None, axes)
    monkeypatch.setitem(sys.modules, "matplotlib", types.ModuleType("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    small_model().fit(X, Y, epochs=3, validation_data=(X, Y), verbose=0).plot()
    assert drawn == [("loss", [0, 1, 2], 3), ("val_loss", [0, 1, 2], 3)]
    del drawn[:]
    history = small_model().fit(X, Y, epochs=4, validation_data=(X, Y), validation_freq=2, verbose=0)
    history.plot()
    assert drawn == [("loss", [0, 1, 2, 3], 4), ("val_loss", [1, 3], 2)]
    assert history._repr_html_().count("<td></td>") == 2


def test_the_bar_is_written_over_in_place(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    class Waits(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            time.sleep(0.11)

    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "48")
    small_model().fit(X, Y, batch_size=2, callbacks=[Waits()])
    bars, rest = sys.stdout.getvalue().split("\n")
    shown = bars.split("\r")
    assert rest == "" and len(shown) > 2
    assert all(bar.startswith(f"{n}/4 ━") and len(bar) <= 47 for n, bar in enumerate(shown[:-1], 1))  # None wraps.
    assert shown[-1].startswith("4/4") and len(shown[-1]) >= len(shown[-2])  # Nothing of the line below is left.


def test_dlpack_shares_memory_that_stays():
    x = tf.ones((4, 2)) * 3
    there = np.from_dlpack(x)
    assert not there.flags.writeable and there.__array_interface__["data"][0] == np.asarray(x).__array_interface__["data"][0]
    del x
    assert there.sum() == 24.0

    class Foreign:  # As libraries without NumPy's protocol are.
        def __dlpack__(self, **kwargs):
            return np.arange(3.0).__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return (1, 0)

    assert tf.constant(Foreign()).numpy().tolist() == [0.0, 1.0, 2.0]


def test_a_spawned_process_computes(run, tmp_path):
    (tmp_path / "program.py").write_text("""
import multiprocessing
import numpy as np
import tandem as tf

def square(x):
    return (tf.constant(x) ** 2).numpy().sum()

def predict(model):
    return model.predict(np.ones((2, 3), "float32"), verbose=0).sum()

if __name__ == "__main__":
    (tf.ones(2) + 1).numpy()
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2, kernel_initializer="ones")])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print("got", pool.apply(square, (np.arange(3.0),)), pool.apply(predict, (model,)))
""")
    assert "got 5.0 12.0" in run(str(tmp_path / "program.py"))


def test_optimizers_are_copied_and_pickled():
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5), clipnorm=1.0)
    other = pickle.loads(pickle.dumps(optimizer))
    assert other.get_config() == optimizer.get_config()


def test_generators_and_batches_by_number():
    model = small_model()

    class Batches(keras.utils.PyDataset):
        ended = 0

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return X[index * 2 : index * 2 + 2], Y[index * 2 : index * 2 + 2]

        def on_epoch_end(self):
            self.ended += 1

    batches = Batches()
    model.fit(batches, epochs=2, verbose=0)
    assert batches.ended == 3  # As in Keras, once more after a look at the first batches.

    def endless():
        while True:
            yield X, Y

    assert len(model.fit(endless(), steps_per_epoch=3, epochs=2, verbose=0).history["loss"]) == 2
    assert model.predict((X[i : i + 1] for i in range(5)), verbose=0).shape == (5, 1)
    assert np.isclose(model.evaluate(batches, verbose=0), model.evaluate(X, Y, verbose=0))


def test_pandas_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]})
    series = pandas.Series([1, 0, 1])
    assert tf.constant(frame).shape == (3, 2) and tf.convert_to_tensor(series).numpy().tolist() == [1, 0, 1]
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    model.fit(frame, series, epochs=1, verbose=0)
    assert model.predict(frame, verbose=0).shape == (3, 1)
    features, label = next(iter(tf.data.Dataset.from_tensor_slices((dict(frame), series))))
    assert sorted(features) == ["a", "b"] and int(label) == 1


@pytest.mark.parametrize("name", ["tf.signal.rfft3d", "tf.math.sobol_sample", "tf.keras.layers.Densse", "tf.data.Datasett", "tf.keras.optimizers.MultiOptimizers", "tf.lite.TFLiteConverter", "tf.distribute.MirrorredStrategy"])
def test_names_that_are_not_here(name):
    place = {"tf": tf}
    with pytest.raises(AttributeError, match="does not exist.*tandem does not"):
        eval(name, place)
    if name.endswith(("Densse", "Datasett", "MirrorredStrategy")):
        with pytest.raises(AttributeError, match="Nearest: .*(Dense|Dataset|MirroredStrategy)"):
            eval(name, place)


def test_images_changed_by_chance():
    generator = keras.preprocessing.image.ImageDataGenerator(rotation_range=20, width_shift_range=0.2, height_shift_range=0.2, zoom_range=0.2, horizontal_flip=True, rescale=1 / 255)
    images = np.random.RandomState(0).randint(0, 255, (6, 8, 8, 3)).astype("float32")
    np.random.seed(0)
    changed, labels = next(generator.flow(images, np.arange(6), batch_size=4, shuffle=False))
    assert changed.shape == (4, 8, 8, 3) and labels.tolist() == [0, 1, 2, 3] and 0 <= changed.min() and changed.max() <= 1
    still, _ = next(keras.preprocessing.image.ImageDataGenerator().flow(images, np.arange(6), batch_size=6, shuffle=False))
    np.testing.assert_array_equal(still, images)
    turned = keras.preprocessing.image.apply_affine_transform(images[0], theta=90)
    np.testing.assert_allclose(turned, np.rot90(images[0], -1), atol=1e-3)


def test_words_and_sequences():
    text = keras.preprocessing.text
    tokenizer = text.Tokenizer(num_words=6, oov_token="?")
    tokenizer.fit_on_texts(["the cat sat", "the dog sat down", "a bird"])
    again = text.tokenizer_from_json(tokenizer.to_json())
    assert again.texts_to_sequences(["the cat flew"]) == tokenizer.texts_to_sequences(["the cat flew"]) == [[2, 4, 1]]
    assert tokenizer.texts_to_matrix(["the the cat"], mode="count")[0].tolist() == [0, 0, 2, 0, 1, 0]
    series = keras.preprocessing.sequence.TimeseriesGenerator(np.arange(10), np.arange(10) * 10, length=3, batch_size=4)
    assert len(series) == 2 and series[0][0].tolist()[0] == [0, 1, 2] and series[0][1].tolist() == [30, 40, 50, 60]


def test_cross_device_ops_are_the_librarys():
    ops = tf.distribute
    for each in (ops.ReductionToOneDevice(), ops.NcclAllReduce(), ops.HierarchicalCopyAllReduce(num_packs=2), None):
        strategy = ops.MirroredStrategy(["/cpu:0"], cross_device_ops=each)
        assert strategy.num_replicas_in_sync == 1
    assert (ops.ReductionToOneDevice()._reduction, ops.NcclAllReduce()._reduction) == (2, 1)
    with pytest.raises(ValueError, match="cross_device_ops"):
        ops.MirroredStrategy(cross_device_ops="nccl")
    with pytest.raises(ValueError, match="num_packs"):
        ops.HierarchicalCopyAllReduce(num_packs=-1)


def test_a_training_that_was_cut_off_goes_on(tmp_path):
    class Fails(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise RuntimeError("cut off")

    def made():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.Adam(0.1), "mse")
        return model

    whole = made()
    whole.fit(X, Y, epochs=4, shuffle=False, verbose=0)
    with pytest.raises(RuntimeError, match="cut off"):
        made().fit(X, Y, epochs=4, shuffle=False, verbose=0, callbacks=[keras.callbacks.BackupAndRestore(tmp_path / "backup"), Fails()])
    again = made()
    history = again.fit(X, Y, epochs=4, shuffle=False, verbose=0, callbacks=[keras.callbacks.BackupAndRestore(tmp_path / "backup")])
    assert history.epoch == [2, 3]
    np.testing.assert_allclose(again.get_weights()[0], whole.get_weights()[0], rtol=1e-5)
    assert not (tmp_path / "backup" / "training_metadata.json").exists()


def test_events_for_tensorboard(tmp_path):
    with tf.summary.create_file_writer(tmp_path / "own").as_default():
        assert tf.summary.scalar("a", 0.5, step=1) and tf.summary.image("i", tf.zeros((2, 4, 4, 3)), step=0)
        assert tf.summary.histogram("h", tf.range(10), step=2) and tf.summary.text("t", "hello", step=3)
    model = small_model()
    model.fit(X, Y, epochs=2, batch_size=2, validation_data=(X, Y), verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path / "fit", histogram_freq=1, update_freq=2)])
    events = {path.parent.name: path.read_bytes() for path in tmp_path.rglob("events*")}
    assert all(tag in events["own"] for tag in (b"\x01a", b"i/image/0", b"\x89PNG", b"\x01h", b"hello"))
    assert events["train"].count(b"batch_loss") == 4 and events["train"].count(b"epoch_loss") == 2 and events["train"].count(b"/histogram") == 8
    assert events["validation"].count(b"epoch_loss") == 2


def test_averages_of_weights_are_tested():
    class Seen(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            self.weights = self.model.get_weights()

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.9), "mse")
    seen = Seen()
    model.fit(X, Y, epochs=3, batch_size=2, validation_data=(X, Y), verbose=0, callbacks=[keras.callbacks.SwapEMAWeights(), seen])
    averages = [a.numpy() for _, a in model.optimizer._averages]
    np.testing.assert_array_equal(seen.weights[0], averages[0])
    with pytest.raises(ValueError, match="use_ema"):
        small_model().fit(X, Y, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights()])


def test_profiles(tmp_path):
    with tf.profiler.experimental.Profile(tmp_path / "logs"):
        small_model().fit(X, Y, verbose=0)
    assert "traceEvents" in (tmp_path / "logs" / "trace.json").read_text()
    small_model().fit(X, Y, batch_size=2, verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path / "fit", profile_batch="2,3")])
    assert (tmp_path / "fit" / "trace.json").exists()


def test_stateless_changes_of_images_are_the_same_each_time():
    image = tf.random.uniform((6, 6, 3))
    changes = [
        lambda seed: tf.image.stateless_random_flip_left_right(image, seed), lambda seed: tf.image.stateless_random_brightness(image, 0.5, seed),
        lambda seed: tf.image.stateless_random_contrast(image, 0.2, 0.9, seed), lambda seed: tf.image.stateless_random_crop(image, (3, 3, 3), seed),
        lambda seed: tf.image.stateless_random_saturation(image, 0.2, 0.9, seed), lambda seed: tf.image.stateless_random_hue(image, 0.4, seed),
    ]
    for change in changes:
        np.testing.assert_array_equal(change((1, 2)), change((1, 2)))
        assert any(not np.array_equal(change((1, 2)), change((k, 5))) for k in range(8))


def test_names_of_versions(run, tmp_path):
    (tmp_path / "versions.py").write_text(
        "import tensorflow as plain\nimport tensorflow.compat.v2 as tf\nimport tensorflow.compat.v1 as tf1\n"
        "from tensorflow.compat.v2.keras import layers\nfrom keras.utils.np_utils import to_categorical\nfrom keras.layers.convolutional import Conv2D\nfrom tensorflow.keras.layers.experimental import preprocessing\nfrom keras.layers.experimental.preprocessing import RandomFlip\n"
        "assert preprocessing.RandomFlip is RandomFlip is layers.RandomFlip and Conv2D is layers.Conv2D and plain.keras.utils.np_utils.to_categorical is to_categorical\nassert tf is plain and layers is plain.keras.layers and tf1.nn.relu(-1.0) == 0\n"
        "try:\n    tf1.disable_v2_behavior()\nexcept NotImplementedError as error:\n    print(error)\n"
    )
    assert "under tf.function" in run("-m", "tandem", "run", str(tmp_path / "versions.py"))


class Scaled(keras.layers.Layer):
    def __init__(self, units=2, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units), name="kernel")

    def call(self, x):
        return x @ self.kernel

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class Blocks(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.rest, self.named = Scaled(), [keras.layers.Dense(2) for _ in range(2)], {"last": keras.layers.Dense(1)}

    def call(self, x):
        x = self.first(x)
        for each in self.rest:
            x = each(x)
        return self.named["last"](x)


@pytest.mark.parametrize("copied", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("kind", ["subclassed", "sequential"])
def test_copies_of_models_go_on_as_the_models_do(kind, copied):
    model = Blocks() if kind == "subclassed" else keras.Sequential([keras.Input((3,)), Scaled(3), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Nadam(0.05) if kind == "subclassed" else "adam", "mse", metrics=["mae", keras.metrics.RootMeanSquaredError()])
    model.fit(X, Y, epochs=2, shuffle=False, verbose=0)
    other = copied(model)
    assert int(other.optimizer.iterations) == 2
    histories = [m.fit(X, Y, epochs=3, shuffle=False, verbose=0).history for m in (model, other)]
    assert sorted(histories[0]) == ["loss", "mae", "root_mean_squared_error"]
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-5)
    before = other.get_weights()[0].copy()
    model.fit(X, Y, verbose=0)
    np.testing.assert_array_equal(other.get_weights()[0], before)  # They share nothing.


def test_copies_of_optimizers_have_their_slots():
    optimizer, v = keras.optimizers.Adam(0.1), tf.Variable([1.0, 2.0])
    optimizer.apply_gradients([(tf.constant([1.0, 1.0]), v)])
    others = [pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)]
    others.append(copy.deepcopy(others[0]))  # One that was not used yet.
    start, results = v.numpy(), []
    for each in [optimizer, *others]:
        own = tf.Variable(start) if each is not optimizer else v
        each.apply_gradients([(tf.constant([1.0, -3.0]), own)])
        results.append(own.numpy())
        assert int(each.iterations) == 2
    np.testing.assert_allclose(results[1:], [results[0]] * 3)
    with pytest.raises(ValueError, match="other shapes"):
        copy.deepcopy(optimizer).apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])


def test_a_model_with_a_lambda_for_a_loss_is_pickled_without_it():
    model = small_model()
    model.compile("sgd", lambda t, p: tf.reduce_mean(tf.abs(t - p)))
    with pytest.warns(UserWarning, match="without what compile"):
        other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(X, verbose=0), model.predict(X, verbose=0))
    assert not other.compiled and copy.deepcopy(model).compiled


@tf.function
def doubled(x):
    return x * 2


class Scale(tf.Module):
    def __init__(self):
        super().__init__()
        self.factor = tf.Variable(2.0)

    @tf.function
    def apply(self, x):
        return x * self.factor


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_functions_and_devices_are_pickled_by_their_names(protocol):
    def again(value):
        return pickle.loads(pickle.dumps(value, protocol))

    assert again(doubled) is doubled and again(Scale.apply) is Scale.apply
    scale = Scale()
    method = again(scale.apply)  # Nobody else holds its object.
    assert float(method(tf.constant(3.0))) == float(again(method)(tf.constant(3.0))) == 6
    for devices in (tf.config.list_logical_devices(), tf.config.list_physical_devices()):
        assert again(devices) == devices and set(copy.deepcopy(devices)) == set(devices)
    kept = Scale().apply
    with pytest.raises(ReferenceError, match="Scale.apply.*keep it in a variable"):
        kept(tf.constant(3.0))


def test_spawned_processes_of_an_unchanged_program(run, tmp_path):
    (tmp_path / "program.py").write_text("""
import multiprocessing
import sys
import tensorflow as tf
from tensorflow.keras import layers

def total(n):
    return float(tf.reduce_sum(tf.ones(n))), layers.__name__

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print("got", pool.apply(total, (3,)), sys.argv[1:])
""")
    printed = run("-m", "tandem", "run", str(tmp_path / "program.py"), "--steps", "3")
    assert "got (3.0, 'tandem.keras.layers') ['--steps', '3']" in printed and printed.count("tandem stands in") == 1


@pytest.mark.parametrize("name, advice", [("tf.lite", "tf.train.Checkpoint"), ("tf.distribute.cluster_resolver.SlurmClusterResolver", "srun"), ("tf.data.experimental.service", "tandem.data.experimental.service")])
def test_names_that_are_not_here_say_what_is(name, advice):
    with pytest.raises(AttributeError, match=advice):
        eval(name)


def test_a_program_finds_its_files_from_another_folder(run, tmp_path):
    (tmp_path / "beside.txt").write_text("found")
    (tmp_path / "program.py").write_text(
        "import os\nimport tensorflow as tf\nos.chdir('/')\nprint(open(os.path.join(os.path.dirname(__file__), 'beside.txt')).read(), tf.__name__)\n"
    )
    code = f"import os, subprocess, sys; os.chdir({str(tmp_path)!r}); sys.exit(subprocess.run([sys.executable, '-m', 'tandem', 'run', 'program.py']).returncode)"
    assert "found tandem" in run("-c", code)


def test_summaries_take_positions_for_columns_that_are_not_shown():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    lines = []
    model.summary(positions=[0.3, 0.6, 0.8, 1.0], print_fn=lambda text, **_: lines.extend(text.splitlines()))
    assert len({len(line) for line in lines if line[:1] in "┏┃┡│└"}) == 1


def test_data_sets_are_copied_as_what_does_not_change():
    data = tf.data.Dataset.range(3)
    assert copy.deepcopy({"data": data})["data"] is data


def test_tables_of_feature_columns_train():
    from tandem import feature_column as fc

    random = np.random.RandomState(0)
    kinds = random.choice(["cat", "dog", "mouse"], 64)
    age, codes = random.uniform(1, 80, 64).astype("float32"), random.randint(0, 100, 64)
    target = (np.array([{"cat": 1.0, "dog": -1.0, "mouse": 0.5}[k] for k in kinds]) + (age > 40)).astype("float32")
    column = fc.numeric_column("age", normalizer_fn=lambda x: (x - 40) / 20)
    kind = fc.categorical_column_with_vocabulary_list("kind", ["cat", "dog", "mouse"])
    columns = [
        column, fc.embedding_column(kind, 2), fc.bucketized_column(fc.numeric_column("age"), [20, 40, 60]), fc.indicator_column(fc.crossed_column([kind, "code"], 8)),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("code", 10, dtype=tf.int64), 2),
    ]
    keras = tf.keras
    model = keras.Sequential([keras.layers.DenseFeatures(columns), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.02), "mse", metrics=["mae"])
    data = tf.data.Dataset.from_tensor_slices(({"age": age, "kind": kinds, "code": codes}, target)).batch(16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Steps are programs: nothing runs op by op.
        history = model.fit(data, epochs=15, verbose=0, validation_data=data).history
    assert history["loss"][-1] < 0.1 * history["loss"][0]
    assert sorted(w.name for w in model.layers[0].weights) == ["embedding_weights", "embedding_weights"]
    assert model.predict(data, verbose=0).shape == (64, 1)

    inputs = {"age": keras.Input((1,), name="age"), "kind": keras.Input((1,), name="kind", dtype="string"), "code": keras.Input((1,), name="code", dtype="int64")}
    table = keras.layers.DenseFeatures(columns)(inputs)
    assert table.shape == (None, 17)
    described = keras.Model(inputs, keras.layers.Dense(1)(table))
    assert described.predict({"age": age, "kind": kinds, "code": codes}, verbose=0).shape == (64, 1)

    shared = fc.shared_embeddings([kind, fc.categorical_column_with_vocabulary_list("other", ["cat", "dog", "mouse"])], 2)
    layer = keras.layers.DenseFeatures(shared)
    y = layer({"kind": tf.constant(["cat", "dog"]), "other": tf.constant(["dog", "cat"])}).numpy()
    assert len(layer.weights) == 1 and np.array_equal(y[0, :2], y[1, 2:]) and np.array_equal(y[0, 2:], y[1, :2])
    sparse = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], ["cat", "mouse", "dog"], [3, 2])
    assert keras.layers.DenseFeatures(fc.indicator_column(kind))({"kind": sparse}).numpy().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    for wrong, words in (
        (lambda: fc.bucketized_column(column, [3, 1]), "sorted list"), (lambda: fc.crossed_column(["a"], 3), "length > 1"), (lambda: fc.embedding_column(column, 2), "categorical column"),
        (lambda: keras.layers.DenseFeatures([kind]), "dense column"), (lambda: keras.layers.DenseFeatures([fc.indicator_column(fc.categorical_column_with_identity("n", 2))])({"n": np.array([[5]])}), "0 to 1"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()


def test_files_of_models_keep_what_layers_have_learnt_of_words(tmp_path):
    keras = tf.keras
    words, numbers = keras.layers.StringLookup(output_mode="one_hot"), keras.layers.IntegerLookup(mask_token=0, num_oov_indices=2)
    words.adapt(["a", "b"])
    numbers.adapt([5, 7])
    text, number = keras.Input((1,), dtype="string"), keras.Input((1,), dtype="int64")
    model = keras.Model([text, number], keras.layers.Dense(2)(keras.layers.Concatenate()([words(text), numbers(number)])))
    model.save(tmp_path / "m.keras")
    given = [tf.constant([["a"], ["q"]]), tf.constant([[7], [1]], tf.int64)]
    read = keras.models.load_model(tmp_path / "m.keras")
    assert [layer.get_vocabulary() for layer in read.layers if hasattr(layer, "get_vocabulary")] == [["[UNK]", "b", "a"], [0, -1, -1, 7, 5]]
    np.testing.assert_array_equal(read(given), model(given))
    for i, layer in enumerate((keras.layers.TextVectorization(output_sequence_length=4), keras.layers.TextVectorization(output_mode="tf_idf"))):
        layer.adapt(["a b", "c"])
        model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(2)])
        texts = tf.constant(["a c", "z"])
        expected = model(texts)
        with pytest.warns(UserWarning, match="folder"):
            tf.saved_model.save(model, tmp_path / f"folder{i}")
        np.testing.assert_allclose(tf.saved_model.load(tmp_path / f"folder{i}").signatures["serving_default"](texts)["output_0"], expected, rtol=1e-6)
    assert layer.get_config()["vocabulary"] is None


class _Bare(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = tf.keras.layers.Dense(5)

    def call(self, inputs):
        return self.inner(inputs)


def test_a_model_whose_class_takes_no_arguments_is_read_from_a_folder(tmp_path):
    model = _Bare()
    expected = model(tf.ones((2, 3)))
    with pytest.warns(UserWarning, match="folder"):
        tf.saved_model.save(model, tmp_path / "m")
    np.testing.assert_allclose(tf.saved_model.load(tmp_path / "m").signatures["serving_default"](tf.ones((2, 3)))["output_0"], expected, rtol=1e-6)
