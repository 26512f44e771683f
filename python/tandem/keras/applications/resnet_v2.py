"""ResNets whose blocks normalize first (He et al. 2016, arXiv:1603.05027)."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401
from tandem.keras.applications.resnet import _EPSILON, _normalized


def _active(x, name):
    """As they are named before a block and behind the last one."""
    x = layers.BatchNormalization(axis=3, epsilon=_EPSILON, name=f"{name}_bn")(x)
    return layers.Activation("relu", name=f"{name}_relu")(x)


def _block(x, filters, stride, has_projection, name):
    before = _active(x, f"{name}_preact")
    if has_projection:
        shortcut = layers.Conv2D(4 * filters, 1, strides=stride, name=f"{name}_0_conv")(before)
    else:
        shortcut = layers.MaxPooling2D(1, strides=stride)(x) if stride > 1 else x
    x = layers.Conv2D(filters, 1, use_bias=False, name=f"{name}_1_conv")(before)
    x = _normalized(x, f"{name}_1")
    x = layers.ZeroPadding2D(1, name=f"{name}_2_pad")(x)
    x = layers.Conv2D(filters, 3, strides=stride, use_bias=False, name=f"{name}_2_conv")(x)
    x = _normalized(x, f"{name}_2")
    x = layers.Conv2D(4 * filters, 1, name=f"{name}_3_conv")(x)
    return layers.Add(name=f"{name}_out")([shortcut, x])


def _resnet_v2(name, depths, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation):
    files = (f"{name}_weights_tf_dim_ordering_tf_kernels.h5", f"{name}_weights_tf_dim_ordering_tf_kernels_notop.h5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, files)
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top)
    x = layers.ZeroPadding2D(3, name="conv1_pad")(x)
    x = layers.Conv2D(64, 7, strides=2, name="conv1_conv")(x)
    x = layers.ZeroPadding2D(1, name="pool1_pad")(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1_pool")(x)
    for stack, (filters, depth) in enumerate(zip((64, 128, 256, 512), depths), 2):
        for i in range(1, depth + 1):
            stride = 2 if stack < 5 and i == depth else 1
            x = _block(x, filters, stride, i == 1, f"conv{stack}_block{i}")
    x = _active(x, "post")

    def top(x):
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def ResNet50V2(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="resnet50v2"):
    """ResNet50V2, with weights from Keras's cache folder or new ones."""
    return _resnet_v2(name, (3, 4, 6, 3), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def ResNet101V2(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="resnet101v2"):
    """ResNet101V2, with weights from Keras's cache folder or new ones."""
    return _resnet_v2(name, (3, 4, 23, 3), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def ResNet152V2(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="resnet152v2"):
    """ResNet152V2, with weights from Keras's cache folder or new ones."""
    return _resnet_v2(name, (3, 8, 36, 3), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def preprocess_input(x, data_format=None):
    """Pixels from 0 to 255 as ResNetV2 was trained on them: from -1 to 1."""
    return imagenet_utils.preprocess_input(x, data_format, mode="tf")

__all__ = [  # Written by scripts/exported-names.py.
    "ResNet101V2", "ResNet152V2", "ResNet50V2", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
