"""What objects say of themselves: configurations, names and dtypes, as Keras has them."""

import json

import numpy as np
import pytest

import tandem as tf

keras = tf.keras


@pytest.mark.parametrize("make, expected", [
    (lambda: keras.metrics.MeanIoU(num_classes=3, name="m"), {"name": "m", "dtype": "int64", "num_classes": 3, "ignore_class": None, "sparse_y_true": True, "sparse_y_pred": True, "axis": -1}),
    (lambda: keras.metrics.OneHotIoU(3, [1], name="m"), {"name": "m", "dtype": "int64", "num_classes": 3, "target_class_ids": (1,), "ignore_class": None, "sparse_y_pred": False, "axis": -1}),
    (lambda: keras.metrics.Precision(0.4, top_k=2, class_id=1, name="m"), {"name": "m", "dtype": "float32", "thresholds": 0.4, "top_k": 2, "class_id": 1}),
    (lambda: keras.metrics.F1Score("macro", 0.5, name="m"), {"name": "m", "dtype": "float32", "average": "macro", "threshold": 0.5}),
    (lambda: keras.metrics.R2Score(num_regressors=2, name="m"), {"name": "m", "dtype": "float32", "class_aggregation": "uniform_average", "num_regressors": 2}),
    (lambda: keras.random.SeedGenerator(3, name="s"), {"seed": 3, "name": "s"}),
])
def test_objects_are_made_again_of_all_their_arguments(make, expected):
    assert make().get_config() == expected
    assert type(make())(**expected).get_config() == expected


@pytest.mark.parametrize("make", [
    lambda layers: layers.Dense(2, activity_regularizer="l2"),
    lambda layers: layers.Bidirectional(layers.LSTM(3), merge_mode="sum"),
    lambda layers: layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)]),
    lambda layers: layers.RandomContrast(0.2),
    lambda layers: layers.ConvLSTM2D(2, 3),
    lambda layers: layers.StringLookup(vocabulary=["a", "b"]),
    lambda layers: layers.GroupQueryAttention(4, 4, 2),
])
def test_layers_are_made_again_of_what_json_keeps(make):
    layer = make(keras.layers)
    entry = json.loads(json.dumps(keras.layers.serialize(layer)))
    assert json.loads(json.dumps(keras.layers.serialize(keras.layers.deserialize(entry)))) == entry


def test_configurations_have_the_keys_of_keras_in_their_order():
    names = lambda layer: list(layer.get_config())  # noqa: E731
    assert names(keras.layers.Discretization(num_bins=3)) == ["bin_boundaries", "num_bins", "epsilon", "output_mode", "sparse", "name", "dtype"]
    assert names(keras.layers.SpatialDropout1D(0.2)) == ["rate", "seed", "name", "dtype"]
    assert names(keras.layers.Bidirectional(keras.layers.GRU(2))) == ["name", "trainable", "dtype", "merge_mode", "layer", "backward_layer"]
    assert keras.layers.Dense(2, activity_regularizer="l2").get_config()["activity_regularizer"]["class_name"] == "L2"
    assert keras.layers.RandomBrightness(0.2).get_config()["factor"] == (-0.2, 0.2)
    assert keras.layers.RandomContrast(0.2).get_config()["factor"] == (0, 0.2)


class Scaled(keras.layers.Layer):
    def __init__(self, factor=3):
        super().__init__()
        self.factor = factor


def test_a_users_class_without_get_config_has_its_arguments():
    assert list(Scaled().get_config()) == ["factor", "trainable", "dtype"]
    entry = keras.layers.serialize(Scaled(4))
    assert (entry["config"]["factor"], entry["registered_name"]) == (4, "Scaled")


def test_models_say_how_they_were_built_and_compiled():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    assert model.get_build_config() == {"input_shape": (None, 3)} and "build_input_shape" in model.get_config()
    assert "build_input_shape" not in keras.Sequential([keras.layers.Dense(2)]).get_config()
    model.compile("adam", keras.losses.mean_squared_error, metrics=[keras.metrics.MeanIoU(2)])
    config = model.get_compile_config()
    assert config["loss"] == {"module": "builtins", "class_name": "function", "config": "mean_squared_error", "registered_name": "function"}
    assert config["optimizer"]["class_name"] == "Adam" and config["metrics"][0]["config"]["num_classes"] == 2
    again = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    again.compile_from_config(json.loads(json.dumps(config)))
    assert again.get_compile_config() == config
    inputs = keras.Input((3,))
    entry = json.loads(keras.Model(inputs, keras.layers.Dense(2)(inputs)).to_json())
    assert (entry["registered_name"], entry["build_config"]) == ("Functional", {"input_shape": None})


def test_layers_of_a_configuration_have_paths_of_their_own():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.Sequential([keras.layers.Dense(2, name="d")], name="inner")(inputs))
    assert [w.path for w in model.weights] == ["inner/d/kernel", "inner/d/bias"]
    assert [w.path for w in keras.models.clone_model(model).weights] == ["d/kernel", "d/bias"]


def test_variables_of_keras_have_names_of_dtypes():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    kernel = model.weights[0]
    assert f"{kernel.dtype} {kernel.dtype!r}" == "float32 'float32'" and kernel.dtype == tf.float32 and kernel.dtype.is_floating
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    assert [v.dtype for v in model.optimizer.variables[:2]] == ["int64", "float32"]
    assert float(round(keras.optimizers.SGD(0.123456).learning_rate, 3)) == pytest.approx(0.123)


@pytest.mark.parametrize("given, expected", [
    (("int32", "float16"), "float16"), ((int,), "int32"), (("int64", float), "float32"), (("uint8", int), "uint8"), (("int8", "uint8"), "int16"),
    (("float16", "bfloat16"), "float32"), (("uint64", "int64"), "float32"), ((tf.bfloat16, int), "bfloat16"), ((bool, "bool"), "bool"),
])
def test_dtypes_meet_as_in_keras(given, expected):
    assert keras.backend.result_type(*given) == expected


def test_losses_are_computed_in_their_own_dtype():
    truth, prediction = np.array([[0.0, 1.0]]), np.array([[0.3, 0.7]])
    assert keras.losses.BinaryCrossentropy()(truth, prediction).dtype == tf.float32
    assert keras.losses.MeanSquaredError(dtype="float64")(truth, prediction).dtype == tf.float64


def test_bins_are_those_of_a_summary():
    layer = keras.layers.Discretization(num_bins=4)
    layer.adapt(np.array([[-1.5, 1.0, 3.4, 0.5], [0.0, 3.0, 1.3, 0.0]]))
    np.testing.assert_allclose(layer.bin_boundaries, [0.0, 0.5, 1.3], rtol=1e-6)


def test_import_of_all_names_takes_those_that_are_found_late():
    names = {}
    exec("from tandem.keras.layers import *\nfrom tandem.keras.losses import *\nfrom tandem.keras.optimizers import *", names)
    assert {"Dense", "AdaptiveMaxPooling3D", "CutMix", "circle", "Muon"} <= set(names)


class InBatchesOfFive(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)

    def call(self, x):
        return keras.ops.reshape(self.dense(keras.ops.reshape(x, [5 * 6, 3])), [-1, 6, 4])


def test_a_layer_may_be_written_for_one_number_of_rows():
    inputs = keras.Input((6, 3))
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(InBatchesOfFive()(inputs)))
    model.compile("sgd", "mse")
    model.fit(np.ones((10, 6, 3)), np.ones((10, 4)), batch_size=5, verbose=0)
    assert model.predict(np.ones((5, 6, 3)), verbose=0).shape == (5, 4)
