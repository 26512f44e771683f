"""Xception (Chollet 2017, arXiv:1610.02357): separable convolutions between shortcuts."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401


def _convolved(x, filters, name, strides=1):
    x = layers.Conv2D(filters, 3, strides=strides, use_bias=False, name=name)(x)
    x = layers.BatchNormalization(name=f"{name}_bn")(x)
    return layers.Activation("relu", name=f"{name}_act")(x)


def _separated(x, filters, name, has_activation_before=True):
    if has_activation_before:
        x = layers.Activation("relu", name=f"{name}_act")(x)
    x = layers.SeparableConv2D(filters, 3, padding="same", use_bias=False, name=name)(x)
    return layers.BatchNormalization(name=f"{name}_bn")(x)


def _halving(x, widths, number, has_first_activation=True):
    """A block that ends with half the rows and columns, and so does its shortcut."""
    shortcut = layers.Conv2D(widths[1], 1, strides=2, padding="same", use_bias=False)(x)
    shortcut = layers.BatchNormalization()(shortcut)
    x = _separated(x, widths[0], f"block{number}_sepconv1", has_first_activation)
    x = _separated(x, widths[1], f"block{number}_sepconv2")
    x = layers.MaxPooling2D(3, strides=2, padding="same", name=f"block{number}_pool")(x)
    return layers.Add()([x, shortcut])


def Xception(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="xception"):
    """Xception, for images of 299 x 299 pixels unless told otherwise."""
    files = ("xception_weights_tf_dim_ordering_tf_kernels.h5", "xception_weights_tf_dim_ordering_tf_kernels_notop.h5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, files)
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top, 299)
    x = _convolved(x, 32, "block1_conv1", strides=2)
    x = _convolved(x, 64, "block1_conv2")
    x = _halving(x, (128, 128), 2, has_first_activation=False)
    x = _halving(x, (256, 256), 3)
    x = _halving(x, (728, 728), 4)
    for number in range(5, 13):
        shortcut = x
        for i in (1, 2, 3):
            x = _separated(x, 728, f"block{number}_sepconv{i}")
        x = layers.Add()([x, shortcut])
    x = _halving(x, (728, 1024), 13)
    for i, filters in ((1, 1536), (2, 2048)):
        x = _separated(x, filters, f"block14_sepconv{i}", has_activation_before=False)
        x = layers.Activation("relu", name=f"block14_sepconv{i}_act")(x)

    def top(x):
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def preprocess_input(x, data_format=None):
    return imagenet_utils.preprocess_input(x, data_format, mode="tf")

__all__ = [  # Written by scripts/exported-names.py.
    "Xception", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
