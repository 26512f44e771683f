"""DenseNets (Huang et al. 2017, arXiv:1608.06993): each layer sees all those before it in its block."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401

_EPSILON = 1.001e-5
_GROWTH = 32


def _active(x, name):
    x = layers.BatchNormalization(axis=3, epsilon=_EPSILON, name=f"{name}_bn")(x)
    return layers.Activation("relu", name=f"{name}_relu")(x)


def _grown(x, name):
    """Some more channels, made of all that are there."""
    new = _active(x, f"{name}_0")
    new = layers.Conv2D(4 * _GROWTH, 1, use_bias=False, name=f"{name}_1_conv")(new)
    new = _active(new, f"{name}_1")
    new = layers.Conv2D(_GROWTH, 3, padding="same", use_bias=False, name=f"{name}_2_conv")(new)
    return layers.Concatenate(axis=3, name=f"{name}_concat")([x, new])


def _halved(x, name):
    x = _active(x, name)
    x = layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False, name=f"{name}_conv")(x)
    return layers.AveragePooling2D(2, strides=2, name=f"{name}_pool")(x)


def _densenet(name, depths, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation):
    files = (f"{name}_weights_tf_dim_ordering_tf_kernels.h5", f"{name}_weights_tf_dim_ordering_tf_kernels_notop.h5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, files)
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top)
    x = layers.ZeroPadding2D(3)(x)
    x = layers.Conv2D(64, 7, strides=2, use_bias=False, name="conv1_conv")(x)
    x = _active(x, "conv1")
    x = layers.ZeroPadding2D(1)(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1")(x)
    for block, depth in enumerate(depths, 2):
        for i in range(1, depth + 1):
            x = _grown(x, f"conv{block}_block{i}")
        if block < 5:
            x = _halved(x, f"pool{block}")
    x = layers.BatchNormalization(axis=3, epsilon=_EPSILON, name="bn")(x)
    x = layers.Activation("relu", name="relu")(x)

    def top(x):
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def DenseNet121(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="densenet121"):
    """DenseNet with 121 layers."""
    return _densenet(name, (6, 12, 24, 16), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def DenseNet169(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="densenet169"):
    """DenseNet with 169 layers."""
    return _densenet(name, (6, 12, 32, 32), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def DenseNet201(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="densenet201"):
    """DenseNet with 201 layers."""
    return _densenet(name, (6, 12, 48, 32), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def preprocess_input(x, data_format=None):
    return imagenet_utils.preprocess_input(x, data_format, mode="torch")

__all__ = [  # Written by scripts/exported-names.py.
    "DenseNet121", "DenseNet169", "DenseNet201", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
