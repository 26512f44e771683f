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
