"""Layers that change images by chance: what is left to chance differs, and what is not stays."""

import numpy as np
import pytest

import tandem as tf
from tandem import keras

layers = keras.layers
IMAGES = np.random.default_rng(0).uniform(0, 255, (4, 12, 10, 3)).astype("float32")


@pytest.mark.parametrize(
    "make",
    [
        layers.RandAugment, layers.AugMix, layers.RandomPerspective, lambda: layers.RandomShear(0.3, 0.3), layers.RandomElasticTransform, layers.RandomErasing,
        lambda: layers.RandomColorJitter(brightness_factor=0.2, contrast_factor=0.2, saturation_factor=0.5, hue_factor=0.2), lambda: layers.RandomHue(0.5),
    ],
)
def test_images_change_while_training_only(make):
    layer = make()
    traced = tf.function(lambda x: layer(x, training=True))
    runs = [np.asarray(traced(tf.constant(IMAGES))) for _ in range(4)]
    assert all(r.shape == IMAGES.shape and np.isfinite(r).all() for r in runs)
    assert any(np.abs(r - runs[0]).max() > 1 for r in runs[1:])
    np.testing.assert_allclose(layer(IMAGES, training=False), IMAGES)


@pytest.mark.parametrize("layer", [layers.MixUp(1.0), layers.CutMix()])
def test_labels_are_mixed_as_images_are(layer):
    flat = np.arange(4, dtype="float32").reshape(4, 1, 1, 1) * np.ones((4, 8, 8, 1), "float32")
    mixed = layer({"images": flat, "labels": np.eye(4, dtype="float32")}, training=True)
    labels = mixed["labels"].numpy()
    np.testing.assert_allclose(labels.sum(1), 1, rtol=1e-5)
    if isinstance(layer, layers.MixUp):
        np.testing.assert_allclose(mixed["images"].numpy()[:, 0, 0, 0], labels @ np.arange(4), atol=1e-4)


def test_sparsemax_gives_the_nearest_probabilities():
    y = keras.activations.sparsemax(tf.constant([[1.0, 0.5, -1.0], [3.0, 0.0, 0.0]])).numpy()
    np.testing.assert_allclose(y, [[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]], atol=1e-6)


def test_images_with_channels_first_change_as_those_with_channels_last():
    images = np.random.RandomState(0).uniform(0, 255, (4, 6, 5, 3)).astype("float32")
    layers = tf.keras.layers
    for make in (
        lambda **k: layers.RandomFlip(seed=3, **k), lambda **k: layers.RandomRotation(0.2, seed=3, **k), lambda **k: layers.RandomTranslation(0.3, 0.3, seed=3, **k),
        lambda **k: layers.RandomZoom(0.3, seed=3, **k), lambda **k: layers.RandomCrop(4, 3, seed=3, **k), lambda **k: layers.RandomBrightness(0.5, seed=3, **k),
    ):
        tf.keras.utils.set_random_seed(1)
        last = make()(images, training=True).numpy()
        tf.keras.utils.set_random_seed(1)
        first = make(data_format="channels_first")(images.transpose(0, 3, 1, 2), training=True).numpy()
        np.testing.assert_allclose(first.transpose(0, 2, 3, 1), last, rtol=1e-5)
        assert last.shape != images.shape or not np.array_equal(last, images)
        one = make(data_format="channels_first")(images[0].transpose(2, 0, 1), training=True)
        assert one.shape[0] == 3 and len(one.shape) == 3


def test_the_nearest_pixels_are_taken_where_asked_for():
    classes = np.random.RandomState(0).randint(0, 5, (2, 8, 8, 1)).astype("float32")
    for layer in (tf.keras.layers.RandomRotation(0.3, interpolation="nearest", seed=1), tf.keras.layers.RandomZoom(0.4, interpolation="nearest", seed=1)):
        assert set(np.unique(layer(classes, training=True).numpy())) <= set(range(5))
    with pytest.raises(NotImplementedError, match="bilinear and nearest"):
        tf.keras.layers.RandomRotation(0.3, interpolation="bicubic")
