"""NASNet (Zoph et al. 2018, arXiv:1707.07012): cells of branches that a search has found."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401
from tandem.keras.applications.mobilenet_v2 import _padding


def _normal(x, name):
    return layers.BatchNormalization(axis=-1, momentum=0.9997, epsilon=1e-3, name=name)(x)


def _relu(x, name=None):
    return layers.Activation("relu", name=name)(x)


def _conv(x, filters, name):
    return layers.Conv2D(filters, 1, padding="same", use_bias=False, kernel_initializer="he_normal", name=name)(x)


def _separable(x, filters, kernel, name, stride=1):
    """Two separable convolutions, of which the first may halve the image."""
    x = _relu(x)
    if stride == 2:
        x = layers.ZeroPadding2D(_padding(x, kernel), name=f"separable_conv_1_pad_{name}")(x)
    x = layers.SeparableConv2D(filters, kernel, strides=stride, padding="valid" if stride == 2 else "same", use_bias=False, name=f"separable_conv_1_{name}")(x)
    x = _relu(_normal(x, f"separable_conv_1_bn_{name}"))
    x = layers.SeparableConv2D(filters, kernel, padding="same", use_bias=False, name=f"separable_conv_2_{name}")(x)
    return _normal(x, f"separable_conv_2_bn_{name}")


def _adjusted(p, x, filters, name):
    """The cell before the last one, in the size and with the channels of the last."""
    if p is None:
        return x
    if p.shape[-2] != x.shape[-2]:
        p = _relu(p, f"adjust_relu_1_{name}")
        first = layers.AveragePooling2D(1, strides=2, padding="valid", name=f"adjust_avg_pool_1_{name}")(p)
        first = _conv(first, filters // 2, f"adjust_conv_1_{name}")
        second = layers.Cropping2D(((1, 0), (1, 0)))(layers.ZeroPadding2D(((0, 1), (0, 1)))(p))
        second = layers.AveragePooling2D(1, strides=2, padding="valid", name=f"adjust_avg_pool_2_{name}")(second)
        second = _conv(second, filters // 2, f"adjust_conv_2_{name}")
        return _normal(layers.Concatenate(axis=-1)([first, second]), f"adjust_bn_{name}")
    if p.shape[-1] != filters:
        return _normal(_conv(_relu(p), filters, f"adjust_conv_projection_{name}"), f"adjust_bn_{name}")
    return p


def _add(parts, name=None):
    return layers.Add(name=name)(parts)


def _average(x, name, stride=1):
    return layers.AveragePooling2D(3, strides=stride, padding="valid" if stride == 2 else "same", name=name)(x)


def _cell(x, p, filters, name):
    p = _adjusted(p, x, filters, name)
    h = _normal(_conv(_relu(x), filters, f"normal_conv_1_{name}"), f"normal_bn_1_{name}")
    x1 = _add([_separable(h, filters, 5, f"normal_left1_{name}"), _separable(p, filters, 3, f"normal_right1_{name}")], f"normal_add_1_{name}")
    x2 = _add([_separable(p, filters, 5, f"normal_left2_{name}"), _separable(p, filters, 3, f"normal_right2_{name}")], f"normal_add_2_{name}")
    x3 = _add([_average(h, f"normal_left3_{name}"), p], f"normal_add_3_{name}")
    x4 = _add([_average(p, f"normal_left4_{name}"), _average(p, f"normal_right4_{name}")], f"normal_add_4_{name}")
    x5 = _add([_separable(h, filters, 3, f"normal_left5_{name}"), h], f"normal_add_5_{name}")
    return layers.Concatenate(axis=-1, name=f"normal_concat_{name}")([p, x1, x2, x3, x4, x5]), x


def _reduction(x, p, filters, name):
    p = _adjusted(p, x, filters, name)
    h = _normal(_conv(_relu(x), filters, f"reduction_conv_1_{name}"), f"reduction_bn_1_{name}")
    padded = layers.ZeroPadding2D(_padding(h, 3), name=f"reduction_pad_1_{name}")(h)
    largest = lambda label: layers.MaxPooling2D(3, strides=2, padding="valid", name=label)(padded)  # noqa: E731
    x1 = _add([_separable(h, filters, 5, f"reduction_left1_{name}", 2), _separable(p, filters, 7, f"reduction_right1_{name}", 2)], f"reduction_add_1_{name}")
    x2 = _add([largest(f"reduction_left2_{name}"), _separable(p, filters, 7, f"reduction_right2_{name}", 2)], f"reduction_add_2_{name}")
    x3 = _add([_average(padded, f"reduction_left3_{name}", 2), _separable(p, filters, 5, f"reduction_right3_{name}", 2)], f"reduction_add3_{name}")
    x4 = _add([x2, _average(x1, f"reduction_left4_{name}")])
    x5 = _add([_separable(x1, filters, 3, f"reduction_left4_{name}"), largest(f"reduction_right5_{name}")], f"reduction_add4_{name}")
    return layers.Concatenate(axis=-1, name=f"reduction_concat_{name}")([x2, x3, x4, x5]), x


def _nasnet(file, penultimate, blocks, stem, skips, size, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name):
    weights = imagenet_utils.weights_file(weights, include_top, classes, (f"{file}.h5", f"{file}_no_top.h5"))
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top, size)
    filters = penultimate // 24
    x = layers.Conv2D(stem, 3, strides=2, padding="valid", use_bias=False, name="stem_conv1", kernel_initializer="he_normal")(x)
    x, p = _reduction(_normal(x, "stem_bn1"), None, filters // 4, "stem_1")
    x, p = _reduction(x, p, filters // 2, "stem_2")
    number = 0
    for stage in range(3):
        if stage:
            x, before = _reduction(x, p, filters * 2**stage, f"reduce_{stage * blocks}")
            p = p if skips else before
            number = stage * blocks + 1
        for i in range(blocks):
            x, p = _cell(x, p, filters * 2**stage, str(number + i))
    x = _relu(x)

    def top(x):
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(layers.GlobalAveragePooling2D()(x))

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def NASNetMobile(input_shape=None, include_top=True, weights="imagenet", input_tensor=None, pooling=None, classes=1000, classifier_activation="softmax", name="nasnet_mobile"):
    """The NASNet for phones."""
    shape = input_shape or ((224, 224, 3) if input_tensor is None else None)
    return _nasnet("nasnet_mobile", 1056, 4, 32, False, 224, include_top, weights, input_tensor, shape, pooling, classes, classifier_activation, name)


def NASNetLarge(input_shape=None, include_top=True, weights="imagenet", input_tensor=None, pooling=None, classes=1000, classifier_activation="softmax", name="nasnet_large"):
    """The large NASNet."""
    shape = input_shape or ((331, 331, 3) if input_tensor is None else None)
    return _nasnet("nasnet_large", 4032, 6, 96, True, 331, include_top, weights, input_tensor, shape, pooling, classes, classifier_activation, name)


def preprocess_input(x, data_format=None):
    """Images of 0 to 255 within -1 and 1."""
    return imagenet_utils.preprocess_input(x, data_format, mode="tf")

__all__ = [  # Written by scripts/exported-names.py.
    "NASNetLarge", "NASNetMobile", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
