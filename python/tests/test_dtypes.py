"""Small integers and halves, where scripts/small_dtypes.py and scripts/mixed_bfloat16.py do not say it already."""

import numpy as np
import pytest

import tandem as tf


def test_numpy_both_ways():
    for dtype in ("int8", "int16", "uint8", "uint16", "uint32", "uint64", "float16"):
        array = np.array([[1, 2], [3, 4]], dtype)
        tensor = tf.constant(array)
        assert tensor.dtype == dtype and tensor.numpy().dtype == dtype and np.asarray(tensor).dtype == dtype
        assert tf.as_dtype(dtype).as_numpy_dtype == np.dtype(dtype) and tf.zeros((2,), dtype).dtype == dtype
        assert tf.constant([1, 2], dtype)[1].numpy() == 2 and int(tf.constant(3, dtype)) == 3
        assert tf.Variable(tensor).dtype == dtype
    assert tf.int8.min == -128 and tf.uint16.max == 65535 and tf.uint64.max == 2**64 - 1 and tf.float16.max == 65504
    half = tf.constant([1.0, 1.0078125, 3.14], tf.bfloat16)
    np.testing.assert_array_equal(np.asarray(half, np.float32), np.float32([1.0, 1.0078125, 3.140625]))
    assert (half + half).dtype == tf.bfloat16 and float(tf.bfloat16.max) == 3.3895313892515355e38 and half[2].numpy() == 3.140625
    assert tf.constant(2**64 - 1, tf.uint64).numpy() == 2**64 - 1


def test_checkpoints_keep_them(tmp_path):
    kept = {d: tf.Variable(tf.cast([1, 2, 3], d)) for d in ("int8", "int16", "uint16", "uint32", "uint64", "float16", "bfloat16")}
    path = tf.train.Checkpoint(**kept).save(str(tmp_path / "ckpt"))
    assert dict(tf.train.list_variables(path))["int16/.ATTRIBUTES/VARIABLE_VALUE"] == [3]
    restored = {d: tf.Variable(tf.zeros(3, d)) for d in kept}
    tf.train.Checkpoint(**restored).restore(path).assert_consumed()
    for d, v in restored.items():
        assert v.dtype == d and tf.cast(v, tf.int32).numpy().tolist() == [1, 2, 3]


def test_dtypes_are_not_mixed_unasked():
    with pytest.raises(tf.errors.InvalidArgumentError, match="float16.*float32"):
        tf.constant([1.0], tf.float16) + tf.constant([1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="int8.*int32"):
        tf.constant([1], tf.int8) * tf.constant([1])
    assert (tf.constant([1], tf.int8) + 1).dtype == tf.int8 and (tf.constant([1], tf.int16) / 2).dtype == tf.float32


def test_data_sets_hand_them_on():
    audio = np.array([[0, 16384], [-32768, 32767], [1, 2]], np.int16)
    batches = list(tf.data.Dataset.from_tensor_slices((audio, np.uint16([1, 2, 3]))).batch(2))
    assert batches[0][0].dtype == tf.int16 and batches[0][1].dtype == tf.uint16 and batches[1][0].numpy().tolist() == [[1, 2]]
    scaled = tf.data.Dataset.from_tensor_slices(audio).map(lambda a: tf.cast(a, tf.float32) / 32768.0)
    np.testing.assert_allclose(next(iter(scaled)), [0.0, 0.5])


def test_labels_and_inputs_of_small_integers_train():
    x, y = np.random.RandomState(0).randint(0, 255, (64, 8)).astype(np.uint16), (np.arange(64) % 3).astype(np.int8)
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Dense(3)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    history = model.fit(x, y, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


def test_an_optimizer_that_has_begun_goes_on_with_weights_of_halves():
    optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.5)
    optimizer.learning_rate = 0.5
    assert int(optimizer.iterations) == 0
    v = tf.Variable([1.0, 2.0], dtype=tf.float16)
    optimizer.apply_gradients([(tf.constant([1.0, -1.0], tf.float16), v)])
    assert int(optimizer.iterations) == 1 and v.numpy().tolist() == [0.5, 2.5] and optimizer.variables[2].dtype == "float16"
    single = tf.keras.optimizers.SGD(1.0)
    single.build([tf.Variable(1.0)])
    with pytest.raises(ValueError, match="float16 is not among those"):
        single.apply([tf.constant(1.0, tf.float16)], [tf.Variable(1.0, dtype=tf.float16)])


SCALED = """
import numpy as np, tandem as tf
from tandem import keras

def trained(scope, inner=keras.optimizers.SGD):
    with scope:
        policy = keras.mixed_precision.Policy("mixed_float16")
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, kernel_initializer=keras.initializers.Constant(0.5), dtype=policy)])
        model.compile(keras.mixed_precision.LossScaleOptimizer(inner(0.1), initial_scale=2.0**20, dynamic_growth_steps=2), "mse")
    x = np.linspace(-1, 1, 32).reshape(8, 4)
    model.fit(x, np.ones((8, 2)), batch_size=4, epochs=4, shuffle=False, verbose=0)
    return model
"""


def test_replicas_scale_losses_alike(run):
    program = SCALED + """
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy()
assert strategy.num_replicas_in_sync == 2
for inner in (keras.optimizers.SGD, keras.optimizers.Adamax):  # The library's, and one that is made of ops.
    alone, spread = trained(tf.distribute.get_strategy().scope(), inner), trained(strategy.scope(), inner)
    np.testing.assert_allclose(spread.get_weights()[0], alone.get_weights()[0], rtol=2e-3)
    assert 0 < int(spread.optimizer.iterations) < 8 and float(spread.optimizer.dynamic_scale) < 2.0**20
print("scaled alike")
"""
    assert "scaled alike" in run("-c", program)


def test_scaled_losses_in_files_and_in_programs_of_keras_2(tmp_path):
    keras, found = tf.keras, {}
    exec(SCALED, found)
    alone = found["trained"](tf.distribute.get_strategy().scope())
    assert 0 < int(alone.optimizer.iterations) < 8 and float(alone.optimizer.dynamic_scale) < 2.0**20
    alone.save(tmp_path / "model.keras")
    other = keras.models.load_model(tmp_path / "model.keras")
    assert [v.numpy().tolist() for v in other.optimizer.variables] == [v.numpy().tolist() for v in alone.optimizer.variables]

    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=4.0)
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        scaled = optimizer.get_scaled_loss(tf.reduce_sum(v * v))
    gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled, [v]))
    optimizer.apply_gradients(zip(gradients, [v]))
    assert float(scaled) == 20.0 and v.numpy().tolist() == [-1.0, -2.0]
    with pytest.raises(ValueError, match="set `clipnorm` on the `inner_optimizer`"):
        keras.mixed_precision.LossScaleOptimizer("sgd", clipnorm=1.0)
    with pytest.raises(ValueError, match="mixed_float16.*mixed_bfloat16"):
        keras.mixed_precision.Policy("mixed_int8")


def test_strategies_have_them():
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        counter = tf.Variable(tf.constant([1, 2], tf.int8), trainable=False)
        policy = tf.keras.mixed_precision.Policy("mixed_bfloat16")
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2, dtype=policy)])
        model.compile("sgd", "mse")
    model.fit(np.ones((8, 4)), np.ones((8, 2)), verbose=0)
    assert model.layers[0].kernel.dtype == "float32" and model.layers[0].compute_dtype == "bfloat16" and counter.dtype == tf.int8
