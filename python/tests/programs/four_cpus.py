"""Models that are cut over devices: meshes, pipelines, state in parts. All have the result of one device."""

import numpy as np
import pytest

import tandem as tf
from tandem import keras
from tandem.keras import layers

pytestmark = pytest.mark.usefixtures("four_cpus")


@pytest.fixture(scope="module")
def four_cpus():
    """The devices, configured before anything uses them."""
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4)


@pytest.fixture(autouse=True)
def float64():
    keras.backend.set_floatx("float64")
    yield
    keras.backend.set_floatx("float32")
    keras.distribution.set_distribution(None)


def transformer(dropout=0.3, normalized=False):
    keras.utils.set_random_seed(3)
    tokens = keras.Input((6,), dtype="int32")
    x = layers.Embedding(40, 16, name="table")(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 4, dropout=dropout, name="attention")(x, x, use_causal_mask=True))
    x = x + layers.Dense(16, name="down")(layers.Dense(32, activation="gelu", name="up")(x))
    x = layers.Dense(8, activation="softmax", name="odd")(layers.Flatten()(x))
    if normalized:
        x = layers.BatchNormalization()(x)
    model = keras.Model(tokens, layers.Dense(5, name="head")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01, global_clipnorm=1.0), loss=loss, metrics=["accuracy"])
    return model


def trained(**options):
    """What fit, evaluate and predict give, and the weights, for batches that do not divide."""
    random = np.random.RandomState(0)
    x, y = random.randint(0, 40, (23, 6)).astype("int32"), random.randint(0, 5, (23,)).astype("int32")
    model = transformer(**options)
    history = model.fit(x, y, batch_size=10, epochs=2, verbose=0, shuffle=False).history
    results = [np.array(history["loss"]), np.array(history["accuracy"]), np.array(model.evaluate(x, y, verbose=0)), model.predict(x, verbose=0)]
    return results + [v.numpy() for v in model.weights]


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def mesh_of(shape, axes, **options):
    layouts = keras.distribution.LayoutMap(keras.distribution.DeviceMesh(shape, axes))
    if "model" in axes:
        layouts["table/embeddings"] = ("model", None)
        layouts["(query|key|value)/kernel"] = (None, "model")
        layouts["attention_output/kernel"] = ("model",)
        layouts["(up|odd)/kernel"] = (None, "model")
        layouts["down/kernel"] = ("model", None)
    return keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="data", **options)


@pytest.fixture(scope="module")
def on_one_device(four_cpus):
    keras.backend.set_floatx("float64")
    return trained()


@pytest.mark.parametrize("shape, axes", [((2, 2), ["data", "model"]), ((1, 4), ["data", "model"]), ((2, 2), ["stage", "model"])])
def test_a_transformer_in_parts_trains_as_on_one_device(shape, axes, on_one_device):
    distribution = mesh_of(shape, axes)
    keras.distribution.set_distribution(distribution)
    assert_same(trained(), on_one_device)
    assert "are cut" in distribution.explain()


@pytest.mark.parametrize("options", [dict(stages=2, microbatches=4), dict(stages=2, microbatches=2, replicas=2), dict(stages=1, microbatches=3),
                                     dict(stages=2, microbatches=4, schedule="interleaved", chunks=2)])
def test_a_pipeline_trains_as_one_device(options, on_one_device):
    with tf.distribute.PipelineStrategy(**options).scope():
        assert_same(trained(), on_one_device)


@pytest.mark.parametrize("shard", ["state", "gradients", "variables"])
def test_replicas_that_keep_parts_train_as_one_device(shard, on_one_device):
    with tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"], shard=shard).scope():
        assert_same(trained(), on_one_device)


@pytest.mark.parametrize("shard", ["state", "gradients", "variables"])
@pytest.mark.parametrize("microbatches", [2, "automatic"])
def test_the_devices_of_a_stage_keep_parts_of_its_state(shard, microbatches, on_one_device):
    distribution = mesh_of((2, 2), ["data", "stage"], microbatches=microbatches, shard=shard)
    keras.distribution.set_distribution(distribution)
    assert_same(trained(), on_one_device)
    assert "part 1 of 2 of " in distribution.explain()


def test_batch_normalization_of_microbatches_is_that_of_as_many_replicas():
    with tf.distribute.MirroredStrategy().scope():
        wanted = trained(normalized=True)
    with tf.distribute.PipelineStrategy(stages=2, microbatches=4).scope():
        assert_same(trained(normalized=True), wanted)


def test_layers_without_a_form_join_weights_that_are_cut():
    def losses():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([layers.Conv1D(4, 3, name="conv"), layers.GRU(4, name="gru"), layers.Dense(1)])
        model.compile("sgd", "mse")
        x = np.linspace(0, 1, 8 * 6 * 2).reshape(8, 6, 2)
        return model.fit(x, x[:, 0, :1], epochs=2, verbose=0, shuffle=False).history["loss"]

    wanted = losses()
    layouts = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((1, 2), ["batch", "model"]))
    layouts["conv/kernel"] = (None, None, "model")
    layouts["gru.*/kernel"] = (None, "model")
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layouts))
    np.testing.assert_allclose(losses(), wanted, rtol=1e-9)


def test_layout_maps_are_those_of_keras():
    mesh = keras.distribution.DeviceMesh((2, 2), ["batch", "model"])
    assert mesh.shape == (2, 2) and mesh.devices.shape == (2, 2) and mesh.devices[0, 0] == "cpu:0"
    layouts = keras.distribution.LayoutMap(mesh)
    layouts["d1/kernel"] = (None, "model")
    assert layouts["model/d1/kernel"].axes == (None, "model") and layouts["other"] is None and len(layouts) == 1
    with pytest.raises(ValueError, match="already exist"):
        layouts["d1/kernel"] = ("model",)
    with pytest.raises(ValueError, match="Invalid axis names"):
        layouts["d2/kernel"] = ("rows",)
    layouts["kernel"] = ("model",)
    with pytest.raises(ValueError, match="matches multiple"):
        layouts["a/d1/kernel"]
    with pytest.raises(ValueError, match="same size"):
        keras.distribution.DeviceMesh((4,), ["batch", "model"])
    with pytest.raises(ValueError, match="there are 4"):
        keras.distribution.DeviceMesh((4, 2), ["batch", "model"])
    with pytest.raises(ValueError, match="layout_map"):
        keras.distribution.ModelParallel()
    with pytest.raises(ValueError, match="'state', 'gradients' or 'variables'"):
        tf.distribute.MirroredStrategy(shard="slots")


def test_fit_takes_a_data_set_that_was_distributed():
    def losses(distribute):
        strategy = tf.distribute.MirroredStrategy()
        keras.utils.set_random_seed(4)
        with strategy.scope():
            model = keras.Sequential([layers.Dense(3, activation="relu"), layers.Dense(1)])
            model.compile("sgd", "mse")
        x = np.linspace(0, 1, 46 * 4).reshape(46, 4)
        batches = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(10)
        return model.fit(strategy.experimental_distribute_dataset(batches) if distribute else batches, epochs=2, verbose=0).history["loss"]

    assert losses(True) == losses(False)


def test_merge_call_sees_the_values_of_all_replicas():
    strategy = tf.distribute.MirroredStrategy()

    def merge(whole, x, factor=1.0):
        assert tf.distribute.in_cross_replica_context()
        return whole.reduce("SUM", x, axis=None) * factor, whole.reduce(tf.distribute.ReduceOp.MEAN, x, axis=None)

    def step():
        context = tf.distribute.get_replica_context()
        own = tf.cast(context.replica_id_in_sync_group, tf.float32)
        return context.merge_call(merge, args=(own,), kwargs={"factor": 10.0})

    total, mean = (strategy.experimental_local_results(v) for v in strategy.run(step))
    assert [float(v) for v in total] == [60.0] * 4 and [float(v) for v in mean] == [1.5] * 4


class Limit(keras.constraints.Constraint):
    def __call__(self, w):
        return tf.clip_by_value(w, -0.4, 0.4)


class Momentum(keras.optimizers.Optimizer):
    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.kept = [self.add_variable_from_reference(v, "kept") for v in variables]

    def update_step(self, gradient, variable, learning_rate):
        kept = self.kept[self._get_variable_index(variable)]
        kept.assign(0.9 * kept + gradient)
        variable.assign_sub(tf.cast(learning_rate, variable.dtype) * kept)


def weights_after(strategy, optimizer):
    import contextlib

    keras.utils.set_random_seed(6)
    x = np.random.default_rng(3).normal(size=(37, 4))
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = keras.Sequential([keras.Input((4,)), layers.Dense(6, activation="tanh", kernel_constraint=Limit()), layers.Dense(5, activation="tanh"), layers.Dense(1)])
        model.compile(optimizer(), "mse")
    model.fit(x, x.sum(1, keepdims=True), batch_size=10, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.parametrize("optimizer", [lambda: Momentum(0.05), lambda: keras.optimizers.Nadam(0.02), lambda: keras.optimizers.Lion(0.01)], ids=["own", "nadam", "lion"])
def test_optimizers_written_in_ops_and_constraints_train_on_replicas(optimizer):
    alone = weights_after(None, optimizer)
    assert np.abs(alone[0]).max() <= 0.4
    for strategy in (
        tf.distribute.MirroredStrategy(), tf.distribute.experimental.CentralStorageStrategy(), tf.distribute.MirroredStrategy(shard="gradients"),
        tf.distribute.PipelineStrategy(stages=2, microbatches=2), tf.distribute.PipelineStrategy(stages=1, microbatches=3),
    ):
        for a, b in zip(alone, weights_after(strategy, optimizer)):
            np.testing.assert_allclose(a, b, atol=1e-9)
    with pytest.raises(NotImplementedError, match="written in ops"):
        weights_after(tf.distribute.MirroredStrategy(shard="variables"), optimizer)
