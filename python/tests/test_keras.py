import copy
import inspect
import os
import pickle

import numpy as np
import pytest
from conftest import HERE

import tandem as tf
from tandem import keras
from tandem.keras import layers


def data(n=64):
    r = np.random.RandomState(0)
    x = r.normal(size=(n, 4)).astype("float32")
    return x, (x.sum(1) > 0).astype("int32")


def model():
    m = keras.Sequential([keras.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
    m.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return m


def test_fit_takes_what_keras_takes():
    x, y = data()
    m = model()
    m.fit(x.astype("float64"), y.astype("uint8"), verbose=0)
    m.fit(x.tolist(), y.tolist(), verbose=0)
    m.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), verbose=0, validation_data=tf.data.Dataset.from_tensor_slices((x, y)).batch(8))

    def endless():
        while True:
            yield x[:8], y[:8]

    h = m.fit(endless(), steps_per_epoch=3, epochs=2, verbose=0)
    assert len(h.history["loss"]) == 2

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]

    m.fit(Batches(), verbose=0)
    assert m.predict(tf.data.Dataset.from_tensor_slices(x).batch(10), verbose=0).shape == (64, 2)
    assert m.fit(x[:6], y[:6], verbose=0).history["loss"]  # Fewer rows than a batch.


def test_dictionaries_by_name():
    a, b = keras.Input((2,), name="a"), keras.Input((3,), name="b")
    m = keras.Model({"a": a, "b": b}, {"sum": layers.Dense(1, name="sum")(layers.concatenate([a, b]))})
    m.compile("sgd", {"sum": "mse"})
    given = {"b": np.ones((8, 3)), "a": np.zeros((8, 2))}
    m.fit(given, {"sum": np.ones(8)}, verbose=0)
    assert m.predict(given, verbose=0)["sum"].shape == (8, 1)


def test_training_improves_and_evaluate_agrees():
    keras.utils.set_random_seed(1)
    x, y = data(256)
    m = model()
    h = m.fit(x, y, epochs=60, verbose=0)
    loss, accuracy = m.evaluate(x, y, verbose=0)
    assert accuracy > 0.85 and h.history["loss"][-1] < h.history["loss"][0]
    assert m.evaluate(x, y, verbose=0, return_dict=True)["loss"] == pytest.approx(loss)


def test_replicas_train_as_one_device(run):
    code = """
import numpy as np, tandem as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
r = np.random.RandomState(0); x = r.normal(size=(50, 4)).astype("float32"); y = (x.sum(1) > 0).astype("int32")
def train(strategy):
    with strategy.scope():
        m = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(6, activation="relu", kernel_regularizer="l2"), tf.keras.layers.Dense(2)])
        for i, w in enumerate(m.weights): w.assign(np.random.RandomState(i).normal(size=tuple(w.shape)))
        m.compile(tf.keras.optimizers.Adam(0.01), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    h = m.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_data=(x, y))
    return h.history, m.predict(x, verbose=0), m.get_weights()
one, two = train(tf.distribute.OneDeviceStrategy("/cpu:0")), train(tf.distribute.MirroredStrategy())
assert tf.distribute.MirroredStrategy().num_replicas_in_sync == 2
for key in one[0]: np.testing.assert_allclose(one[0][key], two[0][key], rtol=1e-5)
np.testing.assert_allclose(one[1], two[1], rtol=1e-4, atol=1e-5)
print("agree")
"""
    assert "agree" in run("-c", code)


def test_saving(tmp_path):
    x, y = data()
    m = model()
    m.fit(x, y, verbose=0)
    wanted = m.predict(x, verbose=0)
    m.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), wanted)
    assert float(loaded.optimizer.iterations.numpy()) == 2
    for other in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m)):
        np.testing.assert_array_equal(other.predict(x, verbose=0), wanted)
    clone = keras.models.clone_model(m)
    assert not np.allclose(clone.predict(x, verbose=0), wanted)
    with pytest.warns(UserWarning, match="folder"):
        m.save(tmp_path / "m")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "m").predict(x, verbose=0), wanted)
    served = tf.saved_model.load(tmp_path / "m")
    assert tf.saved_model.contains_saved_model(tmp_path / "m") and not tf.saved_model.contains_saved_model(tmp_path)
    (name, result), = served.signatures["serving_default"](tf.constant(x)).items()
    assert name == "output_0"
    np.testing.assert_allclose(result, wanted, rtol=1e-5)
    whole = keras.Sequential([keras.Input(m.input_shape[1:]), keras.layers.TFSMLayer(tmp_path / "m", call_endpoint="serve")])
    np.testing.assert_allclose(whole.predict(x, verbose=0), wanted, rtol=1e-5)


def test_sub_models_and_layers_by_name():
    m = model()
    features = keras.Model(m.input if hasattr(m, "input") else m.inputs, m.layers[0].output)
    assert features(np.ones((3, 4), "float32")).shape == (3, 8)
    assert m.get_layer(index=1).kernel.shape == (8, 2)
    assert [w.path for w in m.layers[0].weights][0].endswith("/kernel")


def test_trainable_is_respected():
    x, y = data()
    m = model()
    m.layers[0].trainable = False
    before = m.layers[0].get_weights()[0]
    m.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    m.fit(x, y, verbose=0)
    np.testing.assert_array_equal(before, m.layers[0].get_weights()[0])
    assert len(m.trainable_variables) == 2 and len(m.non_trainable_variables) == 2


def test_sizes_that_are_not_known():
    i = keras.Input((None, None, 3))
    m = keras.Model(i, layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3, padding="same")(i)))
    assert m.output_shape == (None, 4) and m.layers[1].output_shape == (None, None, None, 4)
    assert m(np.ones((2, 8, 9, 3), "float32")).shape == (2, 4)


def test_an_exception_of_a_callback_leaves_the_model_usable():
    class Stop(Exception):
        pass

    class Breaks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise Stop

    x, y = data()
    m = model()
    with pytest.raises(Stop):
        m.fit(x, y, verbose=0, callbacks=[Breaks()])
    m.fit(x, y, verbose=0)


def test_summary_and_pictures(tmp_path, capsys):
    m = model()
    m.summary()
    text = capsys.readouterr().out
    assert "Total params: 58" in text and "(None, 8)" in text
    assert os.path.exists(keras.utils.plot_model(m, str(tmp_path / "m.svg"), show_shapes=True))
    assert "<pre>" in m._repr_html_()


def test_summaries_are_laid_out_as_keras_does(capsys):
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    shared = keras.layers.Dense(4, name="shared")
    y = keras.layers.Concatenate(name="both_of_them_together")([shared(a), shared(b)])
    m = keras.Model([a, b], keras.layers.LSTM(3, return_state=True, name="memory")(keras.layers.Reshape((8, 1), name="steps")(y)), name="two")
    m.summary(line_length=70)
    assert capsys.readouterr().out == """\
Model: "two"
┏━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)       ┃ Output Shape    ┃  Param # ┃ Connected to     ┃
┡━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━┩
│ a (InputLayer)     │ (None, 4)       │        0 │ -                │
├────────────────────┼─────────────────┼──────────┼──────────────────┤
│ b (InputLayer)     │ (None, 4)       │        0 │ -                │
├────────────────────┼─────────────────┼──────────┼──────────────────┤
│ shared (Dense)     │ (None, 4)       │       20 │ a[0][0], b[0][0] │
├────────────────────┼─────────────────┼──────────┼──────────────────┤
│ both_of_them_toge… │ (None, 8)       │        0 │ shared[0][0],    │
│ (Concatenate)      │                 │          │ shared[1][0]     │
├────────────────────┼─────────────────┼──────────┼──────────────────┤
│ steps (Reshape)    │ (None, 8, 1)    │        0 │ both_of_them_to… │
├────────────────────┼─────────────────┼──────────┼──────────────────┤
│ memory (LSTM)      │ [(None, 3),     │       60 │ steps[0][0]      │
│                    │ (None, 3),      │          │                  │
│                    │ (None, 3)]      │          │                  │
└────────────────────┴─────────────────┴──────────┴──────────────────┘
 Total params: 80 (320.00 B)
 Trainable params: 80 (320.00 B)
 Non-trainable params: 0 (0.00 B)
"""
    assert type(m).__name__ == "Functional" and m.input_shape == [(None, 4), (None, 4)]


def test_configurations_have_all_arguments():
    layer = keras.layers.Conv2D(2, 3, kernel_regularizer="l2", name="c")
    config = layer.get_config()
    assert config["kernel_size"] == (3, 3) and config["activation"] == "linear" and config["padding"] == "valid"
    assert config["kernel_regularizer"]["class_name"] == "L2" and config["dtype"]["config"] == {"name": "float32"}
    for each in (layer, keras.layers.LSTM(2), keras.layers.Conv2DTranspose(2, 3), keras.layers.DepthwiseConv2D(3), keras.layers.TimeDistributed(keras.layers.Dense(2)), keras.layers.AdditiveAttention()):
        again = type(each).from_config(each.get_config())
        assert again.get_config() == each.get_config()
    assert keras.layers.LSTM(2).get_config()["recurrent_activation"] == "sigmoid"


def test_functions_between_symbolic_tensors():
    x = keras.Input((4,))
    f = keras.Function(x, keras.ops.relu(x * 2 - 1))
    np.testing.assert_array_equal(f(np.ones((2, 4), np.float32)), np.ones((2, 4)))
    assert f.compute_output_spec(keras.KerasTensor((5, 4))).shape == (5, 4) and f.compute_output_shape((3, 4)) == (3, 4)
    assert [o.name.rstrip("_0123456789") for o in f.operations if not isinstance(o, keras.layers.Layer)] == ["multiply", "subtract", "relu"]


def test_lists_of_numbers_are_in_keras_order(capfd):
    class Broadcast(keras.metrics.Metric):
        """Compares [n] with [n, 1], which gives [n, n] only where the number of rows is known."""

        def __init__(self, name="pairs"):
            super().__init__(name=name)
            self.count = self.add_weight(shape=(), initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            best = keras.ops.reshape(keras.ops.argmax(y_pred, axis=1), (-1, 1))
            self.count.assign_add(keras.ops.sum(keras.ops.cast(keras.ops.cast(y_true, "int64") == keras.ops.cast(best, "int64"), "float32")))

        def result(self):
            return self.count.value

        def reset_state(self):
            self.count.assign(0.0)

    x, y = np.ones((6, 2), np.float32), np.arange(6) % 3
    inputs = keras.Input((2,))
    m = keras.Model(inputs, keras.layers.Dense(3, kernel_initializer="ones")(inputs))
    m.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=[Broadcast(), "accuracy"])
    h = m.fit(x, y, verbose=0)
    assert h.history["pairs"] == [12.0] and m.evaluate(x, y, verbose=0)[1] == 12.0
    first, second = keras.layers.Dense(1, name="b", kernel_initializer="zeros")(inputs), keras.layers.Dense(2, name="a", kernel_initializer="ones")(inputs)
    m = keras.Model(inputs, [first, second])
    m.compile("sgd", "mse", metrics=[["mae"], ["mse"]])
    assert m.evaluate(x, [np.ones((6, 1)), np.zeros((6, 2))], verbose=0) == [5.0, 1.0, 4.0, 4.0, 1.0]  # loss, losses by output, metrics by name
    m = keras.Model(inputs, {"p": first, "q": second})
    m.compile("sgd", {"p": "mse", "q": "mse"}, metrics={"p": ["mae", "mse"], "q": "mae"})
    assert sorted(m.evaluate(x, {"p": np.ones((6, 1)), "q": np.zeros((6, 2))}, verbose=0, return_dict=True)) == ["loss", "p_loss", "p_mae", "p_mse", "q_loss", "q_mae"]


def test_early_stopping_and_checkpoints(tmp_path):
    x, y = data()
    m = model()
    h = m.fit(
        x, y, epochs=50, verbose=0, validation_split=0.25,
        callbacks=[
            keras.callbacks.EarlyStopping(patience=1, min_delta=10.0, restore_best_weights=True),
            keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), save_best_only=True),
            keras.callbacks.CSVLogger(str(tmp_path / "log.csv")),
        ],
    )
    assert len(h.epoch) == 2 and (tmp_path / "best.keras").exists()
    assert (tmp_path / "log.csv").read_text().startswith("epoch,accuracy,loss,val_accuracy,val_loss")


def test_cells_of_ones_own_need_no_initial_state():
    class Cell(keras.layers.Layer):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            self.units = self.state_size = units

        def build(self, input_shape):
            self.kernel = self.add_weight(shape=(input_shape[-1], self.units), initializer="ones", name="kernel")
            self.built = True

        def call(self, inputs, states):
            output = keras.ops.matmul(inputs, self.kernel) + states[0]
            return output, [output]

    m = keras.Sequential([keras.Input((5, 3)), keras.layers.RNN([Cell(4), Cell(6)]), keras.layers.Dense(1)])
    m.compile("adam", "mse")
    m.fit(np.ones((8, 5, 3)), np.ones((8, 1)), verbose=0)
    sequence, state = keras.layers.RNN(Cell(4), return_sequences=True, return_state=True)(np.ones((2, 5, 3)))
    assert sequence.shape == (2, 5, 4) and float(state[0, 0]) == 15.0


class Scale(keras.layers.Layer):
    def call(self, x, factor=1.0, other=None, training=None):
        y = x * factor if other is None else x * factor + other
        return y + 100.0 if training else y


def test_calls_in_described_models_have_arguments_of_their_own(tmp_path):
    layers, r = keras.layers, np.random.RandomState(0)
    q, v, h = keras.Input((5, 8)), keras.Input((6, 8)), keras.Input((3,))
    attention = layers.MultiHeadAttention(2, 4)
    mixed, scores = attention(q, v, return_attention_scores=True)
    causal = attention(q, q, use_causal_mask=True)
    dropped = layers.Dropout(0.5)(causal, training=True)
    sequence, state = layers.GRU(3, return_sequences=True, return_state=True)(q, initial_state=h)
    scaled = Scale()(h, factor=3.0, other=state, training=False)
    model = keras.Model([q, v, h], [mixed, scores, causal, sequence, scaled, dropped])
    x = [r.normal(size=s).astype("float32") for s in ((2, 5, 8), (2, 6, 8), (2, 3))]
    wanted = model(x)
    assert wanted[1].shape == (2, 2, 5, 6) and (wanted[5].numpy() == 0).any()
    np.testing.assert_allclose(model(x, training=True)[4], wanted[4] + 100, rtol=1e-5)  # As in Keras, what the model is given goes first.
    np.testing.assert_allclose(wanted[4], 3 * x[2] + wanted[3][:, -1], rtol=1e-5)
    np.testing.assert_allclose(wanted[2][:, 0], attention(x[0][:, :1], x[0][:, :1])[:, 0], rtol=1e-4, atol=1e-5)  # The first sees itself alone.
    model.save(tmp_path / "model.keras")
    cloned = keras.models.clone_model(model)
    cloned.set_weights(model.get_weights())
    for other in (keras.models.load_model(tmp_path / "model.keras", custom_objects={"Scale": Scale}), cloned):
        for a, b in zip(other(x)[:5], wanted):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_well_known_models(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))  # Without weights.
    images = keras.Input((32, 32, 3))
    base = keras.applications.MobileNetV2(input_shape=(32, 32, 3), alpha=0.35, include_top=False, weights=None)
    base.trainable = False
    scaled = keras.applications.mobilenet_v2.preprocess_input(images)
    model = keras.Model(images, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling2D()(base(scaled, training=False))))
    assert base.count_params() == 410208 and len(model.trainable_variables) == 2  # As many as Keras's has.
    assert keras.applications.ResNet50V2(input_shape=(32, 32, 3), classes=10, weights=None).count_params() == 23585290
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(np.zeros((4, 32, 32, 3)), np.array([0, 1, 0, 1]), verbose=0)
    np.testing.assert_allclose(keras.applications.vgg16.preprocess_input(np.full((1, 1, 3), 100, "uint8")).ravel(), [-3.939, -16.779, -23.68], rtol=1e-5)
    with pytest.raises(FileNotFoundError, match="downloads nothing"):
        keras.applications.ResNet50(weights="imagenet")


def test_stateful_layers_go_on():
    x = np.random.RandomState(0).normal(size=(4, 6, 3)).astype("float32")
    layer = keras.layers.LSTM(2, stateful=True)
    model = keras.Sequential([keras.Input(batch_shape=(4, 3, 3)), layer])
    plain = keras.layers.LSTM(2)
    plain.build((4, 6, 3))
    plain.set_weights(layer.get_weights())
    model.predict(x[:, :3], batch_size=4, verbose=0)
    np.testing.assert_allclose(model.predict(x[:, 3:], batch_size=4, verbose=0), plain(x), rtol=1e-4, atol=1e-6)
    layer.reset_states()
    np.testing.assert_allclose(model.predict(x[:, :3], batch_size=4, verbose=0), plain(x[:, :3]), rtol=1e-4, atol=1e-6)
    model.compile("adam", "mse", ["mae"])  # Metrics in their place of Keras 2.
    assert sorted(model.fit(x[:, :3], np.zeros((4, 2)), batch_size=4, verbose=0).history) == ["loss", "mae"]


def test_a_sequential_without_an_input_takes_sequences_of_any_length():
    model = keras.Sequential([keras.layers.Dense(3, activation="relu"), keras.layers.Dense(2)])
    assert model(np.zeros((2, 7, 4), "float32")).shape == (2, 7, 2) and model(np.zeros((1, 1, 4), "float32")).shape == (1, 1, 2)
    declared = keras.Sequential([keras.Input((7, 4)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="incompatible"):
        declared(np.zeros((2, 6, 4), "float32"))


def test_labels_of_sequences_are_decoded():
    likely = np.full((1, 6, 4), 0.05, "float32")
    for time, label in enumerate([1, 1, 3, 2, 2, 3]):  # 3 is the blank.
        likely[0, time, label] = 0.85
    (labels,), scores = keras.backend.ctc_decode(likely, [6])
    assert labels.numpy().tolist() == [[1, 2, -1, -1, -1, -1]]
    np.testing.assert_allclose(scores, [[-6 * np.log(0.85)]], rtol=1e-4)
    assert keras.ops.ctc_decode(np.log(likely), [6], mask_index=3)[0].numpy().tolist() == [[[1, 2, -1, -1, -1, -1]]]
    losses = keras.ops.ctc_loss(np.array([[1, 2], [2, 1]]), np.repeat(np.log(likely), 2, 0), [2, 2], [6, 6], mask_index=3).numpy()
    assert losses[0] < losses[1]
    (sparse,), _ = tf.nn.ctc_greedy_decoder(np.swapaxes(np.log(likely), 0, 1), [5])
    assert tf.sparse.to_dense(sparse).numpy().tolist() == [[1, 2]]


def test_all_models_of_a_program_are_distributed():
    distribution = keras.distribution
    assert distribution.list_devices("cpu") == ["cpu:0"]
    distribution.set_distribution(distribution.DataParallel())
    try:
        m = model()
        assert type(m.distribute_strategy).__name__ == "MirroredStrategy" and distribution.distribution() is not None
        m.fit(*data(), verbose=0)
    finally:
        distribution.set_distribution(None)
    assert type(model().distribute_strategy).__name__ != "MirroredStrategy"


def test_files_that_keras_wrote():
    import keras_files

    off = keras_files.read(os.path.join(HERE, "fixtures"))
    assert sorted(off) == ["described.h5", "described.keras", "own.weights.h5", "steps.keras"] and max(off.values()) < 1e-5, off


def test_callbacks_see_the_logs_of_batches_on_replicas():
    seen = []

    class Logs(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(("train", sorted(logs)))

        def on_test_batch_end(self, batch, logs=None):
            seen.append(("test", sorted(logs)))

    with tf.distribute.MirroredStrategy().scope():
        m = model()
    x, y = data(16)
    m.fit(x, y, batch_size=8, validation_data=(x, y), validation_batch_size=16, verbose=0, callbacks=[Logs()])
    assert len(seen) == 3 and all("loss" in names for _, names in seen), seen


def test_sequences_with_steps_first():
    x = np.random.RandomState(3).normal(size=(5, 2, 3)).astype("float32")
    for wrap in (lambda layer: layer, keras.layers.Bidirectional):
        steps_first = wrap(keras.layers.GRU(4, return_sequences=True, return_state=True, time_major=True))
        rows_first = wrap(keras.layers.GRU(4, return_sequences=True, return_state=True))
        first = steps_first(x)
        rows_first(np.swapaxes(x, 0, 1))
        rows_first.set_weights(steps_first.get_weights())
        other = rows_first(np.swapaxes(x, 0, 1))
        np.testing.assert_allclose(np.swapaxes(first[0].numpy(), 0, 1), other[0], atol=1e-6)
        np.testing.assert_allclose(first[1], other[1], atol=1e-6)


def test_a_layer_alone_is_a_sequence_and_truths_may_be_bools():
    m = keras.Sequential(keras.layers.Dense(2, activation="softmax"))
    assert m((tf.ones((4, 3)),)).shape == (4, 2)
    m.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    truth = np.eye(2, dtype=bool)[[0, 1, 1, 0]]
    assert 0.0 <= m.evaluate(np.ones((4, 3), "float32"), truth, verbose=0)[1] <= 1.0
    assert keras.ops.argmax(truth, -1).numpy().tolist() == [0, 1, 1, 0]


def test_long_sequences_are_left_out(tmp_path, monkeypatch):
    rows = np.empty(4, object)
    rows[:] = [[5] * n for n in (1, 2, 6, 3)]
    (tmp_path / "datasets").mkdir()
    np.savez(tmp_path / "datasets" / "imdb.npz", x_train=rows, y_train=np.arange(4), x_test=rows[:3], y_test=np.arange(3))
    np.savez(tmp_path / "datasets" / "reuters.npz", x=rows, y=np.arange(4))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (x, y), (xt, yt) = keras.datasets.imdb.load_data(maxlen=4)
    assert sorted(y.tolist()) == [0, 1] and sorted(yt.tolist()) == [0, 1] and max(map(len, x)) == 3
    (x, y), (xt, yt) = keras.datasets.reuters.load_data(maxlen=5, test_split=0.5)
    assert len(x) == 1 and len(xt) == 2 and 2 not in [*y, *yt]
    with pytest.raises(ValueError, match="Increase maxlen"):
        keras.datasets.imdb.load_data(maxlen=1)


def test_texts_are_counted_and_weighed():
    texts = ["the cat sat on the mat", "a dog ran", "the dog sat"]
    by_rarity = keras.layers.TextVectorization(output_mode="tf_idf", ngrams=2)
    by_rarity.adapt(texts)
    words, seen = by_rarity.get_vocabulary(), by_rarity(["the dog flew the cat"]).numpy()[0]  # As Keras has them.
    found = {w: round(float(v), 4) for w, v in zip(words, seen) if v}
    assert found == {"[UNK]": 2.6307, "the": 1.3863, "dog": 0.6931, "the dog": 0.9163, "the cat": 0.9163, "cat": 0.9163}, found
    assert words.index("cat sat") < words.index("cat")
    padded = keras.layers.TextVectorization(output_mode="binary", max_tokens=30, pad_to_max_tokens=True)
    padded.adapt(texts)
    assert padded(["the cat the"]).shape == (1, 30) and float(tf.reduce_sum(padded(["the cat the"]))) == 2
    own = keras.layers.TextVectorization(split=lambda x: tf.strings.split(x, sep="a"), standardize=None)
    own.adapt(["xaya", "ya"])
    assert own.get_vocabulary() == ["", "[UNK]", "y", "x"] and own(["xay"]).numpy().tolist() == [[3, 2]]
    lookup = keras.layers.IntegerLookup(vocabulary=[1, 2, 3], output_mode="binary", num_oov_indices=0)
    assert [lookup(tf.constant(v)).numpy().tolist() for v in (2, [1, 3], [[1], [3]])] == [[0, 1, 0], [1, 0, 1], [[1, 0, 0], [0, 0, 1]]]
    with pytest.raises(ValueError, match="one_hot, multi_hot"):
        keras.layers.StringLookup(output_mode="tf_idff")


def test_steps_of_models_are_saved(tmp_path):
    ops = keras.ops
    a = keras.Input((4, 6))
    h = tf.nn.relu(keras.layers.Dense(6)(a) + a)[..., ::2]
    y = tf.reduce_mean(h * 2.0 - 1.0, axis=1, keepdims=True)
    z = tf.concat([y, ops.reshape(y, (-1, 1, 3))], axis=-1)
    scores = ops.softmax(ops.einsum("abc,abd->acd", z, z), axis=-1)
    sums = ops.concatenate([ops.expand_dims(ops.sum(ops.abs(-z), axis=[1, 2]), -1), ops.max(ops.maximum(z, 0.1), axis=-1)], axis=-1)
    m = keras.Model(a, [scores, ops.where(z > 0.2, z, 0.0) ** 2 / 3.0, sums])
    m.save(tmp_path / "m.keras")
    x = np.random.RandomState(1).normal(size=(3, 4, 6)).astype("float32")
    expected = m.predict(x, verbose=0)
    for other in (keras.models.load_model(tmp_path / "m.keras"), keras.models.clone_model(m), copy.deepcopy(m), keras.models.model_from_json(m.to_json())):
        other.set_weights(m.get_weights())
        for got, wanted in zip(other.predict(x, verbose=0), expected):
            np.testing.assert_allclose(got, wanted, atol=1e-6)
    with pytest.raises(TypeError, match="nowhere by its name"):
        keras.Model(a, tandem_step(a)).save(tmp_path / "n.keras")


def test_elements_along_an_axis_broadcast():
    x, r = np.random.RandomState(0).rand(2, 5, 3).astype("float32"), np.random.RandomState(1)
    for axis, shape in ((1, (2, 4, 1)), (-1, (1, 5, 2)), (0, (1, 5, 3))):
        indices = r.randint(0, x.shape[axis], shape)
        for f in (keras.ops.take_along_axis, tf.function(keras.ops.take_along_axis)):
            np.testing.assert_array_equal(f(x, indices, axis=axis), np.take_along_axis(x, indices, axis))


def test_layers_may_be_set_before_init():
    class Early(keras.layers.Layer):
        def __init__(self):
            self.inner = keras.layers.Dense(2)
            super().__init__()

        def call(self, x):
            return self.inner(x)

    class Never(keras.layers.Layer):
        def __init__(self):
            self.inner = keras.layers.Dense(2)

    early = Early()
    early(np.ones((1, 3), "float32"))
    assert len(early.trainable_weights) == 2
    with pytest.raises(RuntimeError, match="forgot to call"):
        Never()(np.ones((1, 3), "float32"))


def tandem_step(a):
    from tandem.keras._symbolic import describe

    return describe(lambda x: x * 2.0, (a,), {})


def test_layers_of_ones_own_see_texts():
    class Looked(keras.layers.Layer):
        def __init__(self, words):
            super().__init__()
            self.lookup = keras.layers.StringLookup(vocabulary=words, mask_token=None, num_oov_indices=0)
            self.table = keras.layers.Embedding(len(words), 3)

        def call(self, inputs):
            return self.table(self.lookup(inputs)) * 2.0

    word = keras.Input((), dtype="string", name="word")
    number = keras.Input((2,), name="number")
    m = keras.Model({"word": word, "number": number}, keras.layers.Dense(1)(keras.layers.concatenate([Looked(["a", "b"])(word), number])))
    m.compile("sgd", "mse")
    batches = tf.data.Dataset.from_tensor_slices(({"word": ["a", "b", "a", "b"], "number": np.ones((4, 2), "float32")}, np.ones(4, "float32"))).batch(2)
    h = m.fit(batches, epochs=3, verbose=0)
    assert h.history["loss"][-1] < h.history["loss"][0] and m.predict(batches, verbose=0).shape == (4, 1)


def test_a_model_whose_outputs_need_another_input_cannot_be_called():
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    m = keras.Model(a, keras.layers.Add()([a, b]))
    with pytest.raises(ValueError, match="disconnected.*'b'"):
        m(np.ones((1, 2), "float32"))


def test_forms_of_keras_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    K = keras.backend
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    assert K.argmax(x).shape == (2, 3) and K.argmin(x).shape == (2, 3) and K.expand_dims(x).shape == (2, 3, 4, 1)
    np.testing.assert_allclose(K.batch_dot(tf.constant(x), tf.constant(x.transpose(0, 2, 1))), x @ x.transpose(0, 2, 1))
    m = model()
    every_second = keras.callbacks.ModelCheckpoint("whole-{epoch}.h5", period=2)
    weights = keras.callbacks.ModelCheckpoint("weights/cp-{epoch}.ckpt", save_weights_only=True)
    m.fit(*data(), epochs=3, verbose=0, callbacks=[every_second, weights])
    assert sorted(p.name for p in tmp_path.glob("*.h5")) == ["whole-2.h5"]
    other = model()
    other.load_weights(tf.train.latest_checkpoint("weights"))
    np.testing.assert_array_equal(other.predict(data()[0], verbose=0), m.predict(data()[0], verbose=0))
    layer = m.layers[0]
    assert layer.get_output_at(0) is layer.output and keras.layers.CuDNNLSTM is keras.layers.LSTM

    class Dynamic(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(dynamic=True, **kwargs)

        def call(self, x):
            return x * 2.0

    assert Dynamic()(x).shape == x.shape
    causal, later = keras.layers.Attention(causal=True), x.copy()
    later[:, 2] = 0.0
    np.testing.assert_allclose(causal([x, x])[:, 1], causal([x, later])[:, 1], rtol=1e-5)
    assert int(tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(5, 7)).get_next()) == 5
    tf.config.set_visible_devices(tf.config.get_visible_devices("CPU"), "CPU")  # Which changes nothing.


def test_inputs_in_structures_of_structures():
    inputs = {"a": keras.Input((2,), name="a"), "b": [keras.Input((2,), name="first"), keras.Input((2,), name="second")]}
    m = keras.Model(inputs, {"sum": keras.layers.Add()([inputs["a"], *inputs["b"]]), "parts": (inputs["a"] * 2.0,)})
    result = m({"a": np.ones((1, 2)), "b": [np.ones((1, 2)), np.full((1, 2), 5.0)]})
    assert result["sum"].numpy().tolist() == [[7.0, 7.0]] and result["parts"][0].numpy().tolist() == [[2.0, 2.0]]


def test_states_are_kept_for_one_number_of_rows():
    with pytest.raises(ValueError, match="the batch size must be static"):
        keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(2, stateful=True)])
    model = keras.Sequential([keras.Input(batch_shape=(2, 5, 1)), keras.layers.LSTM(3, stateful=True), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="a batch of 1 rows .* keeps the states of 2 rows"):
        model.fit(np.zeros((5, 5, 1)), np.zeros((5, 1)), batch_size=2, verbose=0)
    assert [v.path.split("/")[-1] for v in model.layers[0].states] == ["rnn_state", "rnn_state"]
    model.reset_states()  # A method of Keras 2.
    assert not np.any(model.layers[0].states[0].numpy())


def test_what_has_no_rows_is_predicted_without_rows():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    assert model.predict(np.zeros((0, 4)), verbose=0).shape == (0, 3)
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="no batch"):
        model.fit(np.zeros((0, 4)), np.zeros((0, 3)), verbose=0)


def test_fit_takes_datasets_of_ones_own_and_tells_them_of_epochs():
    class Batches(keras.utils.PyDataset):
        def __init__(self, count):
            super().__init__()
            self.count, self.heard = count, []

        @property
        def num_batches(self):
            return self.count

        def __getitem__(self, index):
            self.heard.append(index)
            return np.full((2, 1), index, "f"), np.zeros((2, 1), "f")

        def on_epoch_begin(self):
            self.heard.append("begin")

        def on_epoch_end(self):
            self.heard.append("end")

    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    known, endless = Batches(2), Batches(None)
    model.fit(known, epochs=2, shuffle=False, verbose=0)
    assert known.heard == [0, 1, "end"] + ["begin", 0, 1, "end"] * 2
    assert len(model.fit(endless, epochs=2, steps_per_epoch=2, verbose=0).epoch) == 2 and endless.heard[:7] == [0, 1, "end", "begin", 0, 1, 2]


def test_fit_takes_structures_within_structures():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(1, kernel_initializer="ones")

        def call(self, inputs):
            return self.dense(inputs["pair"][0] + inputs["pair"][1]) + inputs["offset"]

    x, y = np.linspace(0, 1, 24, dtype="f").reshape(12, 2), np.ones((12, 1), "f")
    losses = []
    for data in ({"pair": (x, x), "offset": y}, tf.data.Dataset.from_tensor_slices(({"pair": (x, x), "offset": y}, y)).batch(4)):
        model = Model()
        model.compile("sgd", "mse")
        rest = {} if isinstance(data, tf.data.Dataset) else {"y": y, "batch_size": 4, "shuffle": False}
        losses.append(model.fit(data, **rest, verbose=0).history["loss"][0])
    assert losses[0] == pytest.approx(losses[1])


def test_a_generator_that_ends_ends_training():
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="ran out of data"):
        history = model.fit(((np.ones((2, 1), "f"), np.ones((2, 1), "f")) for _ in range(3)), epochs=3, verbose=0)
    assert history.epoch == [0]


def test_metrics_have_the_names_that_they_were_given():
    def closeToOne(y_true, y_pred):
        return tf.reduce_mean(tf.abs(1 - y_pred))

    model = keras.Sequential([keras.Input((1,)), layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "mse", metrics=["AUC", "MAE", "mean_absolute_error", "binary_accuracy", closeToOne, lambda a, b: tf.reduce_sum(a), keras.metrics.Recall()])
    history = model.fit(np.ones((4, 1), "f"), np.ones((4, 1), "f"), verbose=0).history
    assert set(history) == {"loss", "AUC", "MAE", "mean_absolute_error", "binary_accuracy", "close_to_one", "lambda", "recall"}


def test_averages_and_counts_of_steps_that_accumulate_gradients():
    """Keras 3.15 on TensorFlow gave these values."""
    weight = tf.Variable(1.0)
    rule = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), gradient_accumulation_steps=2)
    seen = []
    for _ in range(5):
        rule.apply_gradients([(tf.constant(1.0), weight)])
        seen.append((int(rule.iterations), round(float(weight), 4)))
    assert seen == [(0, 1.0), (1, 0.95), (1, 0.95), (2, 0.9375), (2, 0.9375)]
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))])
    model.compile(keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5, gradient_accumulation_steps=2), "mse")
    x = np.arange(24, dtype=np.float32).reshape(12, 2) / 24
    model.fit(x, x.sum(1, keepdims=True) * 2, batch_size=4, epochs=2, shuffle=False, verbose=0)
    np.testing.assert_allclose(model.weights[0].numpy().ravel(), [0.731, 0.732], atol=6e-4)


def test_added_products_are_one_weight_in_files(tmp_path):
    dense = layers.Dense(3, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((2,)), dense])
    dense.enable_lora(2, lora_alpha=4, a_initializer="ones")
    assert [w.name for w in model.trainable_weights] == ["bias", "lora_kernel_a", "lora_kernel_b"] and not dense.kernel.trainable
    model.compile("sgd", "mse")
    x = np.ones((4, 2))
    model.fit(x, np.ones((4, 3)), verbose=0)
    wanted = model.predict(x, verbose=0)
    assert np.array_equal(dense.kernel.numpy(), np.ones((2, 3))) and not np.allclose(wanted, 2)
    model.save(tmp_path / "model.keras")
    other = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(other.predict(x, verbose=0), wanted, rtol=1e-6)
    assert other.layers[0].lora_rank == 2 and other.layers[0].lora_alpha == 4 and len(other.trainable_weights) == 3
    model.save_weights(tmp_path / "w.weights.h5")
    plain = keras.Sequential([keras.Input((2,)), layers.Dense(3)])
    plain.load_weights(tmp_path / "w.weights.h5")
    np.testing.assert_allclose(plain.predict(x, verbose=0), wanted, rtol=1e-6)
    with pytest.raises(ValueError, match="already enabled"):
        dense.enable_lora(2)
    with pytest.raises(ValueError, match="isn't yet built"):
        layers.Dense(3).enable_lora(2)


def test_results_are_sent_to_a_server_and_nan_raises():
    import http.server
    import json
    import threading

    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((4, 2)), np.ones((4, 1))
    monitor = keras.callbacks.RemoteMonitor(f"http://localhost:{server.server_port}", path="/here/", send_as_json=True)
    history = model.fit(x, y, epochs=2, verbose=0, callbacks=[monitor]).history
    server.shutdown()
    server.server_close()
    assert [path for path, _ in seen] == ["/here/"] * 2 and [s["epoch"] for _, s in seen] == [0, 1] and seen[1][1]["loss"] == history["loss"][1]
    with pytest.warns(UserWarning, match="Could not reach"):
        model.fit(x, y, verbose=0, callbacks=[keras.callbacks.RemoteMonitor("http://localhost:1")])
    with pytest.raises(RuntimeError, match="NaN or Inf loss"):
        model.fit(x * np.nan, y, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN(raise_error=True)])


def test_averages_are_swapped_where_the_loss_is_scaled():
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), initial_scale=4.0), "mse")
    x, y = np.ones((4, 2)), np.zeros((4, 1))
    model.fit(x, y, batch_size=2, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)])
    assert model.optimizer.inner_optimizer._averages is not None and float(model.optimizer.dynamic_scale) == 4.0


def test_several_optimizers_on_replicas(run):
    code = """
import numpy as np, tandem as tf
from tandem import keras
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
def train(strategy):
    O = keras.optimizers
    with strategy.scope():
        m = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, kernel_initializer="ones", name="first"), keras.layers.Dense(1, kernel_initializer="ones")])
        m.compile(O.MultiOptimizer(O.OptimizerMap(O.SGD(0.01), {".*first/.*": O.Adam(0.01)})), "mse")
    m.fit(np.linspace(-1, 1, 64).reshape(16, 4), np.ones((16, 1)), batch_size=8, epochs=2, shuffle=False, verbose=0)
    assert int(m.optimizer.iterations) == 4
    return m.get_weights()
for one, two in zip(train(tf.distribute.OneDeviceStrategy("/cpu:0")), train(tf.distribute.MirroredStrategy())):
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
print("alike")
"""
    assert "alike" in run("-c", code)


def test_metrics_by_themselves_weigh_examples_of_any_type():
    """Keras 3.15 on TensorFlow gave these values."""
    y, p, w = np.array([0, 1, 1, 0, 1.0]), np.array([0.1, 0.8, 0.4, 0.6, 0.9]), np.array([1, 2, 0.5, 1, 1.0])
    found = []
    for kind in ("AUC", "Precision", "Recall", "BinaryAccuracy", "TruePositives", "FalseNegatives"):
        metric = getattr(keras.metrics, kind)()
        metric.update_state(y, p, sample_weight=w)
        metric.update_state(y.tolist(), p.tolist())
        metric.update_state(y.astype("int64"), p.astype("f"), w.astype("f"))
        found.append(round(float(metric.result()), 4))
    assert found == [0.9, 0.7273, 0.8, 0.6875, 8.0, 2.0]
    f1 = keras.metrics.F1Score(threshold=0.5)
    f1.update_state(y[:, None], p[:, None], sample_weight=w)
    assert f1.result().numpy() == pytest.approx([0.8])
    assert keras.metrics.binary_accuracy([[0, 1]], [[0.2, 0.3]]).numpy().tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    "kind, args, shape",
    [
        ("Dense", (2,), (1, 3)), ("EinsumDense", ("ab,bc->ac", 2), (1, 3)), ("Conv2D", (2, 2), (1, 4, 4, 2)), ("DepthwiseConv2D", (2,), (1, 4, 4, 2)),
        ("SeparableConv2D", (2, 2), (1, 4, 4, 2)), ("Embedding", (4, 2), (1, 3)), ("BatchNormalization", (), (1, 3)), ("LayerNormalization", (), (1, 3)),
        ("GroupNormalization", (1,), (1, 4)), ("LSTM", (2,), (1, 3, 2)), ("MultiHeadAttention", (1, 2), (1, 3, 2)), ("GroupQueryAttention", (2, 2, 1), (1, 3, 2)),
    ],
)
def test_constraints_and_regularizers_reach_the_weights(kind, args, shape):
    maker = getattr(layers, kind)
    names = inspect.signature(maker.__init__).parameters
    for name in [n for n in names if n.endswith(("_constraint", "_regularizer")) and n != "activity_regularizer"]:
        what = name.rsplit("_", 1)[1]
        bias = {"bias_axes": "c"} if kind == "EinsumDense" else {}
        layer = maker(*args, **{name: "non_neg" if what == "constraint" else "l2"}, **bias)
        x = np.ones(shape, "f")
        layer(x, x) if "Attention" in kind else layer(x)
        assert any(getattr(w, what) is not None for w in layer.weights), name


def test_axes_of_normalization_are_those_of_the_input():
    for wrong in (lambda: layers.BatchNormalization(axis=5), lambda: layers.LayerNormalization(axis=-3), lambda: layers.GroupNormalization(1, axis=3)):
        with pytest.raises(ValueError, match="axis"):
            wrong()(np.ones((2, 2), "f"))
    with pytest.raises(ValueError, match="min_ndim=2"):
        layers.Dense(2)(np.ones((), "f"))


def test_the_part_of_variance_is_adjusted_for_regressors():
    """Keras 3.15 on TensorFlow gave this value."""
    metric = keras.metrics.R2Score(num_regressors=2)
    y = np.linspace(-1, 2, 14, dtype="f").reshape(7, 2)
    predicted = y + np.array([[0.1, -0.2], [0.3, 0], [-0.1, 0.2], [0, 0.1], [0.2, 0.2], [-0.3, 0.1], [0.1, 0]], "f")
    metric.update_state(y[:4], predicted[:4])
    metric.update_state(y[4:], predicted[4:])
    assert float(metric.result()) == pytest.approx(0.9613622, abs=1e-6)
