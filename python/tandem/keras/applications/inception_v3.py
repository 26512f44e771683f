"""InceptionV3 (Szegedy et al. 2016, arXiv:1512.00567): branches of convolutions of several sizes side by side."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401


def _conv(x, filters, rows, columns, padding="same", strides=1):
    x = layers.Conv2D(filters, (rows, columns), strides=strides, padding=padding, use_bias=False)(x)
    x = layers.BatchNormalization(axis=3, scale=False)(x)
    return layers.Activation("relu")(x)


def _pooled(x, filters):
    return _conv(layers.AveragePooling2D(3, strides=1, padding="same")(x), filters, 1, 1)


def _chain(x, *steps):
    for step in steps:
        x = _conv(x, *step)
    return x


def _block35(x, pool_filters, name):
    one = _conv(x, 64, 1, 1)
    five = _chain(x, (48, 1, 1), (64, 5, 5))
    double = _chain(x, (64, 1, 1), (96, 3, 3), (96, 3, 3))
    return layers.Concatenate(axis=3, name=name)([one, five, double, _pooled(x, pool_filters)])


def _block17(x, width, name):
    one = _conv(x, 192, 1, 1)
    seven = _chain(x, (width, 1, 1), (width, 1, 7), (192, 7, 1))
    double = _chain(x, (width, 1, 1), (width, 7, 1), (width, 1, 7), (width, 7, 1), (192, 1, 7))
    return layers.Concatenate(axis=3, name=name)([one, seven, double, _pooled(x, 192)])


def _forked(x, name=None):
    """A convolution by rows and one by columns."""
    rows = _conv(x, 384, 1, 3)
    columns = _conv(x, 384, 3, 1)
    return layers.Concatenate(axis=3, name=name)([rows, columns])


def _block8(x, number):
    one = _conv(x, 320, 1, 1)
    three = _forked(_conv(x, 384, 1, 1), f"mixed9_{number}")
    double = _forked(_chain(x, (448, 1, 1), (384, 3, 3)))
    return layers.Concatenate(axis=3, name=f"mixed{9 + number}")([one, three, double, _pooled(x, 192)])


def InceptionV3(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="inception_v3"):
    """InceptionV3, for images of 299 x 299 pixels unless told otherwise."""
    files = ("inception_v3_weights_tf_dim_ordering_tf_kernels.h5", "inception_v3_weights_tf_dim_ordering_tf_kernels_notop.h5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, files)
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top, 299)
    x = _chain(x, (32, 3, 3, "valid", 2), (32, 3, 3, "valid"), (64, 3, 3))
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = _chain(x, (80, 1, 1, "valid"), (192, 3, 3, "valid"))
    x = layers.MaxPooling2D(3, strides=2)(x)
    for number, pool_filters in enumerate((32, 64, 64)):
        x = _block35(x, pool_filters, f"mixed{number}")
    three = _conv(x, 384, 3, 3, "valid", 2)
    double = _chain(x, (64, 1, 1), (96, 3, 3), (96, 3, 3, "valid", 2))
    x = layers.Concatenate(axis=3, name="mixed3")([three, double, layers.MaxPooling2D(3, strides=2)(x)])
    for number, width in enumerate((128, 160, 160, 192), 4):
        x = _block17(x, width, f"mixed{number}")
    three = _chain(x, (192, 1, 1), (320, 3, 3, "valid", 2))
    seven = _chain(x, (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3, "valid", 2))
    x = layers.Concatenate(axis=3, name="mixed8")([three, seven, layers.MaxPooling2D(3, strides=2)(x)])
    for number in (0, 1):
        x = _block8(x, number)

    def top(x):
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def preprocess_input(x, data_format=None):
    return imagenet_utils.preprocess_input(x, data_format, mode="tf")

__all__ = [  # Written by scripts/exported-names.py.
    "InceptionV3", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
