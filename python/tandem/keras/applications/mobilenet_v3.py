"""MobileNetV3 (Howard et al. 2019, arXiv:1905.02244): MobileNetV2 with weighed channels and hard swish."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401
from tandem.keras.applications.mobilenet_v2 import _divisible, _padding

# Expansion, filters, kernel (None: the model's), stride, whether channels are weighed, whether hard swish is used.
_SMALL = (
    (1, 16, 3, 2, True, False), (72 / 16, 24, 3, 2, False, False), (88 / 24, 24, 3, 1, False, False), (4, 40, None, 2, True, True),
    (6, 40, None, 1, True, True), (6, 40, None, 1, True, True), (3, 48, None, 1, True, True), (3, 48, None, 1, True, True),
    (6, 96, None, 2, True, True), (6, 96, None, 1, True, True), (6, 96, None, 1, True, True),
)
_LARGE = (
    (1, 16, 3, 1, False, False), (4, 24, 3, 2, False, False), (3, 24, 3, 1, False, False), (3, 40, None, 2, True, False),
    (3, 40, None, 1, True, False), (3, 40, None, 1, True, False), (6, 80, 3, 2, False, True), (2.5, 80, 3, 1, False, True),
    (2.3, 80, 3, 1, False, True), (2.3, 80, 3, 1, False, True), (6, 112, 3, 1, True, True), (6, 112, 3, 1, True, True),
    (6, 160, None, 2, True, True), (6, 160, None, 1, True, True), (6, 160, None, 1, True, True),
)


def _relu(x):
    return layers.ReLU()(x)


def _hard_swish(x):
    return layers.Activation("hard_swish")(x)


def _normal(x, name):
    return layers.BatchNormalization(axis=-1, epsilon=1e-3, momentum=0.999, name=name)(x)


def _weighed(inputs, filters, prefix):
    """Channels weighed by what all of them are like over the whole image."""
    x = layers.GlobalAveragePooling2D(keepdims=True, name=f"{prefix}squeeze_excite_avg_pool")(inputs)
    x = layers.Conv2D(_divisible(filters * 0.25), 1, padding="same", name=f"{prefix}squeeze_excite_conv")(x)
    x = layers.ReLU(name=f"{prefix}squeeze_excite_relu")(x)
    x = layers.Conv2D(filters, 1, padding="same", name=f"{prefix}squeeze_excite_conv_1")(x)
    x = layers.ReLU(6.0)(x + 3.0) * (1.0 / 6.0)
    return layers.Multiply(name=f"{prefix}squeeze_excite_mul")([inputs, x])


def _block(x, expansion, filters, kernel, stride, is_weighed, activation, number):
    shortcut, width = x, x.shape[-1]
    prefix = f"expanded_conv_{number}_" if number else "expanded_conv_"
    if number:
        x = layers.Conv2D(_divisible(width * expansion), 1, padding="same", use_bias=False, name=f"{prefix}expand")(x)
        x = activation(_normal(x, f"{prefix}expand_bn"))
    if stride == 2:
        x = layers.ZeroPadding2D(_padding(x, kernel), name=f"{prefix}depthwise_pad")(x)
    x = layers.DepthwiseConv2D(kernel, strides=stride, padding="same" if stride == 1 else "valid", use_bias=False, name=f"{prefix}depthwise")(x)
    x = activation(_normal(x, f"{prefix}depthwise_bn"))
    if is_weighed:
        x = _weighed(x, _divisible(width * expansion), prefix)
    x = _normal(layers.Conv2D(filters, 1, padding="same", use_bias=False, name=f"{prefix}project")(x), f"{prefix}project_bn")
    return layers.Add(name=f"{prefix}add")([shortcut, x]) if stride == 1 and width == filters else x


def _mobilenet(kind, blocks, last, input_shape, alpha, minimalistic, include_top, weights, input_tensor, classes, pooling, dropout_rate, classifier_activation, include_preprocessing, name):
    file = f"weights_mobilenet_v3_{kind}{'_minimalistic' if minimalistic else ''}_224_{alpha}_float"
    weights = imagenet_utils.weights_file(weights, include_top, classes, (f"{file}.h5", f"{file}_no_top_v2.h5"))
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape or (None, None, 3), False)
    large_kernel, swish = (3, _relu) if minimalistic else (5, _hard_swish)
    if include_preprocessing:
        x = layers.Rescaling(1.0 / 127.5, offset=-1.0)(x)
    x = swish(_normal(layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False, name="conv")(x), "conv_bn"))
    for i, (expansion, filters, kernel, stride, is_weighed, is_hard) in enumerate(blocks):
        x = _block(x, expansion, _divisible(filters * alpha), kernel or large_kernel, stride, is_weighed and not minimalistic, swish if is_hard else _relu, i)
    x = layers.Conv2D(_divisible(x.shape[-1] * 6), 1, padding="same", use_bias=False, name="conv_1")(x)
    x = swish(_normal(x, "conv_1_bn"))

    def top(x):
        x = layers.GlobalAveragePooling2D(keepdims=True)(x)
        x = swish(layers.Conv2D(_divisible(last * alpha) if alpha > 1.0 else last, 1, padding="same", name="conv_2")(x))
        if dropout_rate > 0:
            x = layers.Dropout(dropout_rate)(x)
        x = layers.Flatten()(layers.Conv2D(classes, 1, padding="same", name="logits")(x))
        return layers.Activation(classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def MobileNetV3Small(input_shape=None, alpha=1.0, minimalistic=False, include_top=True, weights="imagenet", input_tensor=None, classes=1000, pooling=None, dropout_rate=0.2, classifier_activation="softmax", include_preprocessing=True, name="MobileNetV3Small"):
    """The small MobileNetV3."""
    return _mobilenet("small", _SMALL, 1024, input_shape, alpha, minimalistic, include_top, weights, input_tensor, classes, pooling, dropout_rate, classifier_activation, include_preprocessing, name)


def MobileNetV3Large(input_shape=None, alpha=1.0, minimalistic=False, include_top=True, weights="imagenet", input_tensor=None, classes=1000, pooling=None, dropout_rate=0.2, classifier_activation="softmax", include_preprocessing=True, name="MobileNetV3Large"):
    """The large MobileNetV3."""
    return _mobilenet("large", _LARGE, 1280, input_shape, alpha, minimalistic, include_top, weights, input_tensor, classes, pooling, dropout_rate, classifier_activation, include_preprocessing, name)


def preprocess_input(x, data_format=None):
    """The model scales images itself."""
    return x

__all__ = [  # Written by scripts/exported-names.py.
    "MobileNetV3Large", "MobileNetV3Small", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
