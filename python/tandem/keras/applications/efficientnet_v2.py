"""EfficientNetV2 (Tan and Le 2021, arXiv:2104.00298): EfficientNets whose first blocks are plain convolutions."""

import math

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.efficientnet import _conv, _excited, initializers
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401

# Blocks, input and output filters, expansion, the part of squeezed channels, stride, whether convolutions are fused.
_B = ((1, 32, 16, 1, 0, 1, True), (2, 16, 32, 4, 0, 2, True), (2, 32, 48, 4, 0, 2, True), (3, 48, 96, 4, 0.25, 2, False), (5, 96, 112, 6, 0.25, 1, False), (8, 112, 192, 6, 0.25, 2, False))
_STAGES = {
    "s": ((2, 24, 24, 1, 0, 1, True), (4, 24, 48, 4, 0, 2, True), (4, 48, 64, 4, 0, 2, True), (6, 64, 128, 4, 0.25, 2, False), (9, 128, 160, 6, 0.25, 1, False), (15, 160, 256, 6, 0.25, 2, False)),
    "m": ((3, 24, 24, 1, 0, 1, True), (5, 24, 48, 4, 0, 2, True), (5, 48, 80, 4, 0, 2, True), (7, 80, 160, 4, 0.25, 2, False), (14, 160, 176, 6, 0.25, 1, False), (18, 176, 304, 6, 0.25, 2, False), (5, 304, 512, 6, 0.25, 1, False)),
    "l": ((4, 32, 32, 1, 0, 1, True), (7, 32, 64, 4, 0, 2, True), (7, 64, 96, 4, 0, 2, True), (10, 96, 192, 4, 0.25, 2, False), (19, 192, 224, 6, 0.25, 1, False), (25, 224, 384, 6, 0.25, 2, False), (7, 384, 640, 6, 0.25, 1, False)),
}
_DROP_CONNECT = 0.2


def _active(x, name, prefix=""):
    x = layers.BatchNormalization(axis=3, momentum=0.9, name=f"{name}{prefix}bn")(x)
    return layers.Activation("swish", name=f"{name}{prefix}activation")(x)


def _block(x, width, filters, expansion, squeezed, stride, is_fused, drop_rate, name):
    inputs = x
    if is_fused and expansion != 1:
        x = _active(_conv(x, width * expansion, 3, f"{name}expand_conv", strides=stride, padding="same"), name, "expand_")
    elif not is_fused:
        if expansion != 1:
            x = _active(_conv(x, width * expansion, 1, f"{name}expand_conv", padding="same"), name, "expand_")
        kernel = initializers.VarianceScaling(2.0, mode="fan_out", distribution="truncated_normal")
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, depthwise_initializer=kernel, name=f"{name}dwconv2")(x)
        x = _active(x, name)
    if squeezed:
        x = _excited(x, max(1, int(width * squeezed)), name)
    plain = is_fused and expansion == 1
    x = _conv(x, filters, 3 if plain else 1, f"{name}project_conv", strides=stride if plain else 1, padding="same")
    x = layers.BatchNormalization(axis=3, momentum=0.9, name=f"{name}project_bn")(x)
    if plain:
        x = layers.Activation("swish", name=f"{name}project_activation")(x)
    if stride != 1 or width != filters:
        return x
    if drop_rate:
        x = layers.Dropout(drop_rate, noise_shape=(None, 1, 1, 1), name=f"{name}drop")(x)
    return layers.Add(name=f"{name}add")([x, inputs])


def _efficientnet(kind, width, depth, size, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, include_preprocessing, name):
    file = f"efficientnetv2-{kind}"
    weights = imagenet_utils.weights_file(weights, include_top, classes, (f"{file}.h5", f"{file}_notop.h5"))
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top, size)
    scaled = lambda n: int(max(8, int(n * width + 4) // 8 * 8))  # noqa: E731
    if include_preprocessing and kind.startswith("b") and x.shape[-1] == 3:
        x = layers.Rescaling(1.0 / 255)(x)
        x = layers.Normalization(mean=[0.485, 0.456, 0.406], variance=[0.229**2, 0.224**2, 0.225**2], axis=3)(x)
    elif include_preprocessing:
        x = layers.Rescaling(1.0 / 128.0, offset=-1)(x)
    stages = _STAGES.get(kind, _B)
    x = _active(_conv(x, scaled(stages[0][1]), 3, "stem_conv", strides=2, padding="same"), "stem_")
    done, total = 0, sum(stage[0] for stage in stages)
    for i, (count, before, filters, expansion, squeezed, stride, is_fused) in enumerate(stages, 1):
        before, filters = scaled(before), scaled(filters)
        for j in range(math.ceil(depth * count)):
            x = _block(x, filters if j else before, filters, expansion, squeezed, 1 if j else stride, is_fused, _DROP_CONNECT * done / total, f"block{i}{chr(97 + j)}_")
            done += 1
    x = _active(_conv(x, scaled(1280), 1, "top_conv", padding="same"), "top_")

    def top(x):
        x = layers.Dropout(0.2, name="top_dropout")(layers.GlobalAveragePooling2D(name="avg_pool")(x))
        uniform = initializers.VarianceScaling(1.0 / 3.0, mode="fan_out", distribution="uniform")
        return layers.Dense(classes, activation=classifier_activation, kernel_initializer=uniform, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def _variant(kind, width, depth, size):
    def build(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", include_preprocessing=True, name=f"efficientnetv2-{kind}"):
        return _efficientnet(kind, width, depth, size, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, include_preprocessing, name)

    build.__name__ = build.__qualname__ = f"EfficientNetV2{kind.upper()}"
    build.__doc__ = f"EfficientNetV2 {kind.upper()}, for images of {size} x {size} pixels unless told otherwise."
    return build


EfficientNetV2B0 = _variant("b0", 1.0, 1.0, 224)
EfficientNetV2B1 = _variant("b1", 1.0, 1.1, 240)
EfficientNetV2B2 = _variant("b2", 1.1, 1.2, 260)
EfficientNetV2B3 = _variant("b3", 1.2, 1.4, 300)
EfficientNetV2S = _variant("s", 1.0, 1.0, 384)
EfficientNetV2M = _variant("m", 1.0, 1.0, 480)
EfficientNetV2L = _variant("l", 1.0, 1.0, 480)


def preprocess_input(x, data_format=None):
    """The model scales images itself."""
    return x

__all__ = [  # Written by scripts/exported-names.py.
    "EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3", "EfficientNetV2L", "EfficientNetV2M", "EfficientNetV2S",
    "decode_predictions", "imagenet_utils", "initializers", "layers", "preprocess_input",
]
