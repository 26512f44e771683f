"""What keras.utils.set_random_seed decides: the numbers here are those of Keras with TensorFlow."""

import random

import numpy as np
import pytest

import tandem as tf

keras = tf.keras


def test_layers_begin_with_the_weights_of_keras():
    keras.utils.set_random_seed(7)
    np.testing.assert_allclose(keras.layers.Dense(3)(np.ones((1, 2))), [[-0.77348727, 0.25764126, 1.0312994]], rtol=1e-5)
    drawn = {
        "RandomNormal": [[-0.033579, 0.083803, -0.047212], [0.030397, 0.062639, 0.067623]],
        "HeNormal": [[-0.763489, 1.905413, -1.073463], [0.691134, -0.476422, -0.56362]],
        "GlorotUniform": [[-0.666222, 0.962557, 0.070711], [0.747184, -0.694925, -0.834917]],
        "Orthogonal": [[-0.393548, -0.553327, 0.734131], [0.748416, 0.270894, 0.605384]],
    }
    for name, values in drawn.items():
        np.testing.assert_allclose(getattr(keras.initializers, name)(seed=3)((2, 3)), values, atol=2e-6)


@pytest.mark.parametrize("make, taken", [
    (lambda layers: layers.Dense(2), 1), (lambda layers: layers.Dropout(0.5), 1), (lambda layers: layers.Dropout(0.0), 0), (lambda layers: layers.LSTM(3), 3),
    (lambda layers: layers.Bidirectional(layers.GRU(3)), 9), (lambda layers: layers.RandomFlip(), 1), (lambda layers: layers.RandomCrop(2, 2), 2),
    (lambda layers: layers.BatchNormalization(), 0), (lambda layers: layers.SeparableConv2D(2, 3), 2), (lambda layers: layers.MultiHeadAttention(2, 3), 1),
])
def test_layers_take_as_many_seeds_as_those_of_keras(make, taken):
    keras.utils.set_random_seed(3)
    make(keras.layers)
    there = random.random()
    keras.utils.set_random_seed(3)
    for _ in range(taken):
        random.randint(1, int(1e9))
    assert there == random.random()


def test_heads_of_attention_have_weights_of_their_own():
    keras.utils.set_random_seed(3)
    layer = keras.layers.MultiHeadAttention(2, 3)
    layer(np.ones((1, 2, 4), np.float32), np.ones((1, 2, 4), np.float32))
    sums = [float(np.sum(w)) for w in layer.weights[::2]]
    np.testing.assert_allclose(sums[:3], [0.828, -2.399, -4.712], atol=1e-3)


def test_random_functions_and_generators():
    np.testing.assert_allclose(keras.random.normal((2, 2), seed=5), [[-2.0553784, 1.1581877], [0.19160862, -0.1297789]], rtol=1e-5)
    np.testing.assert_allclose(keras.random.uniform((2,), 1, 3, seed=5), [1.1237066, 2.6633382], rtol=1e-5)
    assert keras.random.randint((3,), 0, 10, seed=5).numpy().tolist() == [3, 0, 7]
    assert keras.random.shuffle(np.arange(6), seed=5).numpy().tolist() == [0, 3, 5, 4, 1, 2]
    generator = keras.random.SeedGenerator(4)
    np.testing.assert_allclose(keras.random.normal((2,), seed=generator), [-0.5818487, 0.86535907], rtol=1e-5)
    np.testing.assert_allclose(keras.random.normal((2,), seed=generator), [1.3834325, 0.5415337], rtol=1e-5)
    assert generator.next().numpy().tolist() == [4, 2]
    assert keras.random.dropout(np.ones((2, 4), np.float32), 0.5, seed=5).numpy().tolist() == [[0, 2, 2, 0], [2, 0, 0, 2]]


def test_fit_gives_rows_in_the_order_of_keras():
    seen = []

    class Model(keras.Model):
        def train_step(self, data):
            seen.extend(int(v) for v in data[0].numpy()[:, 0])
            return {"loss": tf.constant(0.0)}

    keras.utils.set_random_seed(5)
    model = Model()
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(np.arange(10.0)[:, None], np.zeros((10, 1)), epochs=2, batch_size=3, verbose=0)
    assert seen == 2 * [7, 4, 5, 9, 1, 2, 8, 6, 0, 3]


def test_a_seeded_run_has_the_losses_of_keras():
    keras.utils.set_random_seed(42)
    x = np.random.normal(size=(200, 8)).astype("float32")
    y = (x.sum(1) > 0).astype("int32")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(2, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, epochs=3, batch_size=32, validation_split=0.2, verbose=0).history
    np.testing.assert_allclose(history["loss"], [0.6527, 0.6341, 0.6168], atol=2e-4)
    np.testing.assert_allclose(history["val_loss"], [0.7658, 0.7456, 0.7264], atol=2e-4)


def test_without_a_seed_models_differ():
    random.seed()
    kernels = [keras.layers.Dense(3)(np.ones((1, 2))).numpy() for _ in range(2)]
    assert not np.allclose(*kernels)
