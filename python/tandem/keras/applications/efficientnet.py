"""EfficientNets (Tan and Le 2019, arXiv:1905.11946): one model of inverted bottlenecks, scaled in width, depth and size of images."""

import math

from tandem.keras import initializers, layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401
from tandem.keras.applications.mobilenet_v2 import _divisible, _padding

# Kernel, blocks, filters, expansion and first stride of each stage.
_STAGES = ((3, 1, 16, 1, 1), (3, 2, 24, 6, 2), (5, 2, 40, 6, 2), (3, 3, 80, 6, 2), (5, 3, 112, 6, 1), (5, 4, 192, 6, 2), (3, 1, 320, 6, 1))

_SQUEEZE = 0.25
_DROP_CONNECT = 0.2


def _kernel():
    return initializers.VarianceScaling(2.0, mode="fan_out", distribution="truncated_normal")


def _conv(x, filters, size, name, **options):
    return layers.Conv2D(filters, size, use_bias=False, kernel_initializer=_kernel(), name=name, **options)(x)


def _active(x, name, prefix=""):
    x = layers.BatchNormalization(axis=3, name=f"{name}{prefix}bn")(x)
    return layers.Activation("swish", name=f"{name}{prefix}activation")(x)


def _excited(x, width, name):
    """Channels weighed by what all of them are like over the whole image."""
    found = layers.GlobalAveragePooling2D(name=f"{name}se_squeeze")(x)
    found = layers.Reshape((1, 1, x.shape[-1]), name=f"{name}se_reshape")(found)
    found = layers.Conv2D(width, 1, padding="same", activation="swish", kernel_initializer=_kernel(), name=f"{name}se_reduce")(found)
    found = layers.Conv2D(x.shape[-1], 1, padding="same", activation="sigmoid", kernel_initializer=_kernel(), name=f"{name}se_expand")(found)
    return layers.Multiply(name=f"{name}se_excite")([x, found])


def _block(x, kernel, filters, expansion, stride, drop_rate, name):
    inputs, width = x, x.shape[-1]
    if expansion != 1:
        x = _active(_conv(x, width * expansion, 1, f"{name}expand_conv", padding="same"), name, "expand_")
    if stride == 2:
        x = layers.ZeroPadding2D(_padding(x, kernel), name=f"{name}dwconv_pad")(x)
    padding = "valid" if stride == 2 else "same"
    x = layers.DepthwiseConv2D(kernel, strides=stride, padding=padding, use_bias=False, depthwise_initializer=_kernel(), name=f"{name}dwconv")(x)
    x = _active(x, name)
    x = _excited(x, max(1, int(width * _SQUEEZE)), name)
    x = _conv(x, filters, 1, f"{name}project_conv", padding="same")
    x = layers.BatchNormalization(axis=3, name=f"{name}project_bn")(x)
    if stride != 1 or width != filters:
        return x
    if drop_rate > 0:
        x = layers.Dropout(drop_rate, noise_shape=(None, 1, 1, 1), name=f"{name}drop")(x)
    return layers.Add(name=f"{name}add")([x, inputs])


def _efficientnet(name, width, depth, size, dropout, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation):
    is_imagenet = weights == "imagenet"
    weights = imagenet_utils.weights_file(weights, include_top, classes, (f"{name}.h5", f"{name}_notop.h5"))
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top, size)
    x = layers.Rescaling(1.0 / 255.0)(x)
    x = layers.Normalization(axis=3)(x)
    if is_imagenet:
        x = layers.Rescaling([1.0 / math.sqrt(s) for s in (0.229, 0.224, 0.225)])(x)
    x = layers.ZeroPadding2D(_padding(x, 3), name="stem_conv_pad")(x)
    x = _active(_conv(x, _divisible(32 * width), 3, "stem_conv", strides=2, padding="valid"), "stem_")
    counts = [math.ceil(depth * count) for _, count, *_ in _STAGES]
    done = 0
    for stage, (count, (kernel, _, filters, expansion, stride)) in enumerate(zip(counts, _STAGES), 1):
        for i in range(count):
            letter = chr(ord("a") + i)
            x = _block(x, kernel, _divisible(filters * width), expansion, stride if i == 0 else 1, _DROP_CONNECT * done / sum(counts), f"block{stage}{letter}_")
            done += 1
    x = _active(_conv(x, _divisible(1280 * width), 1, "top_conv", padding="same"), "top_")

    def top(x):
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        if dropout > 0:
            x = layers.Dropout(dropout, name="top_dropout")(x)
        scaled = initializers.VarianceScaling(1.0 / 3.0, mode="fan_out", distribution="uniform")
        return layers.Dense(classes, activation=classifier_activation, kernel_initializer=scaled, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def _variant(number, width, depth, size, dropout):
    def build(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name=f"efficientnetb{number}"):
        return _efficientnet(name, width, depth, size, dropout, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)

    build.__name__ = build.__qualname__ = f"EfficientNetB{number}"
    build.__doc__ = f"EfficientNet B{number}, for images of {size} x {size} pixels unless told otherwise."
    return build


EfficientNetB0 = _variant(0, 1.0, 1.0, 224, 0.2)
EfficientNetB1 = _variant(1, 1.0, 1.1, 240, 0.2)
EfficientNetB2 = _variant(2, 1.1, 1.2, 260, 0.3)
EfficientNetB3 = _variant(3, 1.2, 1.4, 300, 0.3)
EfficientNetB4 = _variant(4, 1.4, 1.8, 380, 0.4)
EfficientNetB5 = _variant(5, 1.6, 2.2, 456, 0.4)
EfficientNetB6 = _variant(6, 1.8, 2.6, 528, 0.5)
EfficientNetB7 = _variant(7, 2.0, 3.1, 600, 0.5)


def preprocess_input(x, data_format=None):
    """The model scales images itself."""
    return x

__all__ = [  # Written by scripts/exported-names.py.
    "EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4", "EfficientNetB5", "EfficientNetB6",
    "EfficientNetB7", "decode_predictions", "imagenet_utils", "initializers", "layers", "preprocess_input",
]
