"""Inception-ResNet (Szegedy et al. 2016, arXiv:1602.07261): branches of convolutions that are added to what they saw."""

from tandem.keras import layers
from tandem.keras._layer import Layer
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401

# The branches of each kind of block: filters and kernels one after another.
_BLOCKS = {
    "block35": (((32, 1),), ((32, 1), (32, 3)), ((32, 1), (48, 3), (64, 3))),
    "block17": (((192, 1),), ((128, 1), (160, (1, 7)), (192, (7, 1)))),
    "block8": (((192, 1),), ((192, 1), (224, (1, 3)), (256, (3, 1)))),
}


class CustomScaleLayer(Layer):
    """The first of two tensors and a part of the second."""

    def __init__(self, scale, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, inputs):
        return inputs[0] + inputs[1] * self.scale


def _conv(x, filters, kernel, strides=1, padding="same", name=None):
    x = layers.Conv2D(filters, kernel, strides=strides, padding=padding, use_bias=False, name=name)(x)
    x = layers.BatchNormalization(axis=3, scale=False, name=None if name is None else f"{name}_bn")(x)
    return layers.Activation("relu", name=None if name is None else f"{name}_ac")(x)


def _branch(x, steps):
    for filters, kernel, *more in steps:
        x = _conv(x, filters, kernel, *more)
    return x


def _block(x, scale, kind, number, activation="relu"):
    name = f"{kind}_{number}"
    mixed = layers.Concatenate(axis=3, name=f"{name}_mixed")([_branch(x, steps) for steps in _BLOCKS[kind]])
    up = layers.Conv2D(x.shape[-1], 1, padding="same", name=f"{name}_conv")(mixed)
    x = CustomScaleLayer(scale)([x, up])
    return x if activation is None else layers.Activation(activation, name=f"{name}_ac")(x)


def InceptionResNetV2(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="inception_resnet_v2"):
    """The second Inception-ResNet."""
    files = ("inception_resnet_v2_weights_tf_dim_ordering_tf_kernels.h5", "inception_resnet_v2_weights_tf_dim_ordering_tf_kernels_notop.h5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, files)
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top, 299)
    halved = (2, "valid")
    x = _branch(x, ((32, 3, *halved), (32, 3, 1, "valid"), (64, 3)))
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = _branch(x, ((80, 1, 1, "valid"), (192, 3, 1, "valid")))
    x = layers.MaxPooling2D(3, strides=2)(x)
    branches = [_branch(x, steps) for steps in (((96, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)))]
    branches.append(_conv(layers.AveragePooling2D(3, strides=1, padding="same")(x), 64, 1))
    x = layers.Concatenate(axis=3, name="mixed_5b")(branches)
    for i in range(1, 11):
        x = _block(x, 0.17, "block35", i)
    branches = [_branch(x, steps) for steps in (((384, 3, *halved),), ((256, 1), (256, 3), (384, 3, *halved)))]
    x = layers.Concatenate(axis=3, name="mixed_6a")([*branches, layers.MaxPooling2D(3, strides=2)(x)])
    for i in range(1, 21):
        x = _block(x, 0.1, "block17", i)
    branches = [_branch(x, steps) for steps in (((256, 1), (384, 3, *halved)), ((256, 1), (288, 3, *halved)), ((256, 1), (288, 3), (320, 3, *halved)))]
    x = layers.Concatenate(axis=3, name="mixed_7a")([*branches, layers.MaxPooling2D(3, strides=2)(x)])
    for i in range(1, 10):
        x = _block(x, 0.2, "block8", i)
    x = _block(x, 1.0, "block8", 10, None)
    x = _conv(x, 1536, 1, name="conv_7b")

    def top(x):
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def preprocess_input(x, data_format=None):
    """Images of 0 to 255 within -1 and 1."""
    return imagenet_utils.preprocess_input(x, data_format, mode="tf")

__all__ = [  # Written by scripts/exported-names.py.
    "CustomScaleLayer", "InceptionResNetV2", "Layer", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
