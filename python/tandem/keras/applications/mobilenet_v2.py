"""MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381): thin layers between wide ones of separable convolutions."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401

# Filters, the first stride and the number of blocks of each stage; all but the first widen their inputs six times.
_STAGES = ((16, 1, 1), (24, 2, 2), (32, 2, 3), (64, 2, 4), (96, 1, 3), (160, 2, 3), (320, 1, 1))


def _divisible(value, divisor=8):
    """The nearest multiple, but not below nine tenths of the value."""
    found = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * value else found


def _normalized(x, name, relu=None):
    x = layers.BatchNormalization(epsilon=1e-3, momentum=0.999, name=name)(x)
    return layers.ReLU(6.0, name=relu)(x) if relu else x


def _padding(x, kernel):
    """What makes a convolution of stride 2 look at the same places as TensorFlow's first models did."""
    pads = []
    for size in x.shape[1:3]:
        low = kernel // 2 - (1 if size is None else 1 - size % 2)
        pads.append((low, kernel // 2))
    return tuple(pads)


def _block(x, filters, stride, expansion, number):
    inputs, width = x, x.shape[-1]
    prefix = f"block_{number}_" if number else "expanded_conv_"
    if number:
        x = layers.Conv2D(expansion * width, 1, padding="same", use_bias=False, name=f"{prefix}expand")(x)
        x = _normalized(x, f"{prefix}expand_BN", f"{prefix}expand_relu")
    if stride == 2:
        x = layers.ZeroPadding2D(_padding(x, 3), name=f"{prefix}pad")(x)
    x = layers.DepthwiseConv2D(3, strides=stride, use_bias=False, padding="same" if stride == 1 else "valid", name=f"{prefix}depthwise")(x)
    x = _normalized(x, f"{prefix}depthwise_BN", f"{prefix}depthwise_relu")
    x = layers.Conv2D(filters, 1, padding="same", use_bias=False, name=f"{prefix}project")(x)
    x = _normalized(x, f"{prefix}project_BN")
    return layers.Add(name=f"{prefix}add")([inputs, x]) if width == filters and stride == 1 else x


def MobileNetV2(input_shape=None, alpha=1.0, include_top=True, weights="imagenet", input_tensor=None, pooling=None, classes=1000, classifier_activation="softmax", name=None):
    """MobileNetV2, with weights from Keras's cache folder or new ones."""
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top)
    rows = x.shape[1] if x.shape[1] in (96, 128, 160, 192) else 224
    named = rows if weights == "imagenet" else x.shape[1]
    file = f"mobilenet_v2_weights_tf_dim_ordering_tf_kernels_{float(alpha)}_{rows}"
    weights = imagenet_utils.weights_file(weights, include_top, classes, (f"{file}.h5", f"{file}_no_top.h5"))
    x = layers.Conv2D(_divisible(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="Conv1")(x)
    x = _normalized(x, "bn_Conv1", "Conv1_relu")
    number = 0
    for filters, first_stride, count in _STAGES:
        for i in range(count):
            x = _block(x, _divisible(int(filters * alpha)), first_stride if i == 0 else 1, 6 if number else 1, number)
            number += 1
    x = layers.Conv2D(_divisible(1280 * alpha) if alpha > 1 else 1280, 1, use_bias=False, name="Conv_1")(x)
    x = _normalized(x, "Conv_1_bn", "out_relu")

    def top(x):
        x = layers.GlobalAveragePooling2D()(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    name = name or f"mobilenetv2_{alpha:0.2f}_{named}"
    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def preprocess_input(x, data_format=None):
    """Pixels from 0 to 255 as MobileNetV2 was trained on them: from -1 to 1."""
    return imagenet_utils.preprocess_input(x, data_format, mode="tf")

__all__ = [  # Written by scripts/exported-names.py.
    "MobileNetV2", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
