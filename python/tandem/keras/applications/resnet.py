"""ResNets (He et al. 2015, arXiv:1512.03385): blocks whose outputs are added to their inputs."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401

_EPSILON = 1.001e-5


def _normalized(x, name, is_active=True):
    x = layers.BatchNormalization(axis=3, epsilon=_EPSILON, name=f"{name}_bn")(x)
    return layers.Activation("relu", name=f"{name}_relu")(x) if is_active else x


def _block(x, filters, stride, has_projection, name):
    shortcut = x
    if has_projection:
        shortcut = layers.Conv2D(4 * filters, 1, strides=stride, name=f"{name}_0_conv")(x)
        shortcut = _normalized(shortcut, f"{name}_0", is_active=False)
    x = layers.Conv2D(filters, 1, strides=stride, name=f"{name}_1_conv")(x)
    x = _normalized(x, f"{name}_1")
    x = layers.Conv2D(filters, 3, padding="same", name=f"{name}_2_conv")(x)
    x = _normalized(x, f"{name}_2")
    x = layers.Conv2D(4 * filters, 1, name=f"{name}_3_conv")(x)
    x = _normalized(x, f"{name}_3", is_active=False)
    x = layers.Add(name=f"{name}_add")([shortcut, x])
    return layers.Activation("relu", name=f"{name}_out")(x)


def _resnet(name, depths, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation):
    files = (f"{name}_weights_tf_dim_ordering_tf_kernels.h5", f"{name}_weights_tf_dim_ordering_tf_kernels_notop.h5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, files)
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top)
    x = layers.ZeroPadding2D(3, name="conv1_pad")(x)
    x = layers.Conv2D(64, 7, strides=2, name="conv1_conv")(x)
    x = _normalized(x, "conv1")
    x = layers.ZeroPadding2D(1, name="pool1_pad")(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1_pool")(x)
    for stack, (filters, depth) in enumerate(zip((64, 128, 256, 512), depths), 2):
        for i in range(1, depth + 1):
            stride = 2 if stack > 2 and i == 1 else 1
            x = _block(x, filters, stride, i == 1, f"conv{stack}_block{i}")

    def top(x):
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def ResNet50(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="resnet50"):
    """ResNet50, with weights from Keras's cache folder or new ones."""
    return _resnet(name, (3, 4, 6, 3), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def ResNet101(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="resnet101"):
    """ResNet101, with weights from Keras's cache folder or new ones."""
    return _resnet(name, (3, 4, 23, 3), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def ResNet152(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="resnet152"):
    """ResNet152, with weights from Keras's cache folder or new ones."""
    return _resnet(name, (3, 8, 36, 3), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def preprocess_input(x, data_format=None):
    """Pixels from 0 to 255 as ResNet was trained on them: blue first, without the mean."""
    return imagenet_utils.preprocess_input(x, data_format, mode="caffe")

__all__ = [  # Written by scripts/exported-names.py.
    "ResNet101", "ResNet152", "ResNet50", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
