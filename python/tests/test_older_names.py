"""Names of Keras 2, of TensorFlow 1 and of TensorFlow's inner modules, as unchanged programs import them."""

import os

import numpy as np
import pytest

import tandem as tf
from tandem import keras

IMPORTS = """
from tensorflow.keras import *
model = models.Sequential([Input((1,)), layers.Dense(1, kernel_regularizer=regularizers.l2(), kernel_initializer=initializers.Zeros())])
model.compile(optimizers.SGD(), losses.MeanSquaredError(), [metrics.MeanAbsoluteError()])
from tensorflow import *
assert RaggedTensor and optimizers and zeros_initializer and assert_equal
from keras.engine import data_adapter, InputSpec
from keras.engine.topology import Layer
from keras.layers.normalization import BatchNormalization
from keras.optimizer_v2.learning_rate_schedule import ExponentialDecay
from keras.optimizers import adam_v2
from tensorflow.keras.wrappers.scikit_learn import KerasClassifier
from tensorflow.python import keras as inner
from tensorflow.python.eager.backprop import GradientTape
from tensorflow.python.framework import dtypes, ops, tensor_shape
from tensorflow.python.keras.api._v2 import keras as api
from tensorflow.python.keras.engine.functional import Functional
from tensorflow.python.keras.layers.core import Dense
from tensorflow.python.keras.optimizer_v2 import adam, gradient_descent
from tensorflow.python.framework.smart_cond import smart_cond
from tensorflow.python.layers import utils
from tensorflow.python.ops import array_ops, math_ops, nn
from tensorflow.python.ops.lookup_ops import StaticHashTable
from tensorflow.python.ops.init_ops_v2 import Zeros
from tensorflow.python.util import nest
from tensorflow.python.util.nest import flatten
import tensorflow as tf

assert Dense is tf.keras.layers.Dense is inner.layers.Dense is api.layers.Dense and Layer is tf.keras.layers.Layer
assert adam.Adam is adam_v2.Adam is tf.keras.optimizers.Adam and gradient_descent.SGD is tf.keras.optimizers.SGD
assert isinstance(tf.keras.Model(tf.keras.Input((1,)), []), Functional) and GradientTape is tf.GradientTape
assert ops.convert_to_tensor is tf.convert_to_tensor and tensor_shape.TensorShape is tf.TensorShape and dtypes.float32 is tf.float32
assert float(math_ops.reduce_sum(nn.relu(array_ops.concat([[-1.0], [2.0]], 0)))) == 2.0 and nest.flatten is flatten
assert [utils.conv_output_length(10, 3, p, 2) for p in ("same", "valid", "full")] == [5, 4, 6]
assert smart_cond(True, lambda: 1, lambda: 2) == 1 and int(smart_cond(tf.constant(False), lambda: 1, lambda: 2)) == 2
columns, whole = data_adapter.expand_1d((tf.ones((3,)), tf.ones((2, 2))))
assert columns.shape == (3, 1) and whole.shape == (2, 2) and data_adapter.unpack_x_y_sample_weight((1, 2)) == (1, 2, None)
try:
    math_ops.no_such_op
except AttributeError as error:
    assert "tensorflow.python.ops.math_ops has no no_such_op" in str(error)
print("all are there")
"""


def test_modules_that_moved_are_found(run, tmp_path):
    script = tmp_path / "imports.py"
    script.write_text(IMPORTS)
    assert "all are there" in run("-m", "tandem", "run", str(script))


def test_programs_that_look_for_a_tpu_find_none():
    with pytest.raises(ValueError, match="Please provide a TPU Name"):
        tf.distribute.cluster_resolver.TPUClusterResolver()


def test_the_experimental_strategy_takes_what_it_took():
    experimental = tf.distribute.experimental
    strategy = experimental.MultiWorkerMirroredStrategy(communication=experimental.CollectiveCommunication.RING)
    assert isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and strategy.num_replicas_in_sync == 1


def test_names_of_version_1(tmp_path):
    v1 = tf.compat.v1
    assert v1.__version__ == tf.__version__ and v1.train.get_or_create_global_step() is v1.train.get_or_create_global_step()
    for make, wanted in (
        (v1.train.GradientDescentOptimizer, 0.8), (v1.train.AdamOptimizer, 0.9), (v1.train.AdagradOptimizer, 0.90123), (lambda rate: v1.train.MomentumOptimizer(rate, 0.5), 0.8),
    ):
        w = tf.Variable(1.0)
        make(0.1).minimize(lambda w=w: w * w, var_list=w)
        np.testing.assert_allclose(w, wanted, atol=1e-4)
    with v1.gfile.Open(str(tmp_path / "a"), "w") as file:
        file.write("text")
    assert v1.gfile.Exists(str(tmp_path / "a")) and int(v1.arg_max([1, 3, 2], 0)) == 1


def test_a_data_set_for_each_worker_is_made_by_fit():
    def rows(context):
        x = np.arange(40.0, dtype=np.float32).reshape(20, 2)
        return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(context.get_per_replica_batch_size(10))

    creator = keras.utils.experimental.DatasetCreator(rows)
    with tf.distribute.MirroredStrategy().scope():
        m = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        m.compile("sgd", "mae")
    assert len(m.fit(creator, epochs=2, steps_per_epoch=3, verbose=0).history["loss"]) == 2
    with pytest.raises(ValueError, match="steps_per_epoch"):
        m.fit(creator, verbose=0)


def test_models_may_be_made_for_batches_of_one_number_of_rows():
    class Between(keras.layers.Layer):
        def call(self, inputs):
            a = tf.random.uniform((32, 1))
            return a * inputs[0] + (1.0 - a) * inputs[1]

    class Recurrent(keras.Model):
        def __init__(self):
            super().__init__()
            self.cells, self.last = keras.layers.GRU(3), keras.layers.Dense(1)

        def call(self, x):
            return self.last(self.cells(x[:, :, None], initial_state=tf.zeros((32, 3))))

    x = np.ones((64, 4), np.float32)
    a, b = keras.Input((4,)), keras.Input((4,))
    described = keras.Model([a, b], keras.layers.Dense(1)(Between()([a, b])))
    for m, inputs in ((described, [x, x]), (Recurrent(), x)):
        m.compile("sgd", "mse", metrics=["mae"])
        assert len(m.fit(inputs, x[:, :1], batch_size=32, epochs=2, verbose=0).history["mae"]) == 2
        assert m.predict(inputs, batch_size=32, verbose=0).shape == (64, 1)


@keras.saving.register_keras_serializable(package="tests")
class Known(keras.layers.Layer):
    """A layer that is found by its name."""

    def call(self, x):
        return x + 1.0


def test_folders_of_models_hold_the_classes_that_nobody_knows(tmp_path):
    def double(x):
        return 2.0 * x

    class Own(keras.Model):
        def __init__(self, units=2, **kwargs):
            super().__init__(**kwargs)
            self.dense, self.known = keras.layers.Dense(units, activation=double), Known()

        def call(self, x):
            return self.known(self.dense(x))

    m, x = Own(), np.ones((1, 3), np.float32)
    wanted = m(x)
    with pytest.warns(UserWarning, match="folder"):
        m.export(tmp_path / "m")
    for other in (keras.layers.TFSMLayer(tmp_path / "m"), tf.saved_model.load(tmp_path / "m"), keras.models.load_model(tmp_path / "m")):
        np.testing.assert_allclose(other(x), wanted)
    m.save(tmp_path / "m.keras")
    with pytest.raises(TypeError, match="Could not locate class 'Own'"):
        keras.models.load_model(tmp_path / "m.keras")
    os.rename(tmp_path / "m", tmp_path / "others")  # Now it may be a stranger's.
    with pytest.raises(ValueError, match="objects.pickle holds code, .* safe_mode=False"):
        keras.models.load_model(tmp_path / "others")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "others", safe_mode=False)(x), wanted)
    np.testing.assert_allclose(tf.saved_model.load(tmp_path / "others")(x), wanted)


def test_lambdas_in_files_are_code(tmp_path):
    model, x = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x * 2.0)]), np.ones((1, 2), np.float32)
    for name in ("m.keras", "m.h5"):
        model.save(tmp_path / name)
        with pytest.raises(ValueError, match="lambda in a configuration holds code, .* safe_mode=False"):
            keras.models.load_model(tmp_path / name)
        np.testing.assert_allclose(keras.models.load_model(tmp_path / name, safe_mode=False)(x), [[2.0, 2.0]])
    with pytest.warns(UserWarning, match="folder"):
        model.save(tmp_path / "m")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "m")(x), [[2.0, 2.0]])  # This process wrote it.
    with pytest.raises(ValueError, match="lambda"):
        keras.models.model_from_json(model.to_json())
    np.testing.assert_allclose(keras.models.clone_model(model)(x), [[2.0, 2.0]])


def test_models_are_estimators_of_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def build(X, y, units=8):
        last = keras.layers.Dense(y.shape[1], "softmax" if y.shape[1] > 1 else None)
        m = keras.Sequential([keras.Input(X.shape[1:]), keras.layers.Dense(units, "relu"), last])
        m.compile(keras.optimizers.Adam(0.05), "categorical_crossentropy" if y.shape[1] > 1 else "mse")
        return m

    keras.utils.set_random_seed(0)
    x = np.random.RandomState(0).randn(120, 4)
    labels = np.where(x[:, 0] > 0, "yes", "no")
    classifier = keras.wrappers.SKLearnClassifier(build, fit_kwargs={"epochs": 12, "verbose": 0})
    assert classifier.fit(x, labels).score(x, labels) > 0.9 and classifier.decision_function(x).shape == (120, 2)
    pipeline = make_pipeline(StandardScaler(), clone(classifier))
    assert pipeline.fit(x, labels).score(x, labels) > 0.9 and cross_val_score(classifier, x, labels, cv=2).min() > 0.7
    regressor = keras.wrappers.SKLearnRegressor(build, model_kwargs={"units": 4})
    assert regressor.fit(x, x[:, 0], epochs=2, verbose=0).predict(x).shape == (120,)
    compiled = build(x, x[:, :1])
    assert keras.wrappers.SKLearnTransformer(compiled).fit(x, x[:, 0], verbose=0).transform(x).shape == (120, 1)
    with pytest.raises(ValueError, match="Only binary and multiclass"):
        classifier.fit(x, x[:, 0])

    def build_fn(units=4):
        return build(x, np.ones((1, 2)), units)

    old = keras.wrappers.scikit_learn.KerasClassifier(build_fn=build_fn, epochs=2, verbose=0)
    search = GridSearchCV(old, {"units": [2, 4]}, cv=2).fit(x, labels)
    assert search.best_params_["units"] in (2, 4) and set(search.predict(x)) <= {"yes", "no"}
