"""ConvNeXt (Liu et al. 2022, arXiv:2201.03545): residual blocks that learnt from transformers."""

import numpy as np

import _tandem
from tandem.keras import initializers, layers
from tandem.keras._layer import Layer
from tandem.keras._model import Sequential
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401

_MODELS = {
    "tiny": ((3, 3, 9, 3), (96, 192, 384, 768)), "small": ((3, 3, 27, 3), (96, 192, 384, 768)), "base": ((3, 3, 27, 3), (128, 256, 512, 1024)),
    "large": ((3, 3, 27, 3), (192, 384, 768, 1536)), "xlarge": ((3, 3, 27, 3), (256, 512, 1024, 2048)),
}


class LayerScale(Layer):
    """Channels, each times a weight that begins small."""

    def __init__(self, init_values, projection_dim, **kwargs):
        super().__init__(**kwargs)
        self.init_values, self.projection_dim = init_values, projection_dim

    def build(self, input_shape):
        self.gamma = self.add_weight((self.projection_dim,), initializers.Constant(self.init_values), name="gamma")
        self.built = True

    def call(self, x):
        return x * self.gamma


class StochasticDepth(Layer):
    """Leaves out what a block adds, by chance for each example while training (Huang et al. 2016, arXiv:1603.09382)."""

    def __init__(self, drop_path_rate, **kwargs):
        super().__init__(**kwargs)
        self.drop_path_rate = drop_path_rate

    def call(self, x, training=None):
        if not training:
            return x
        kept = 1.0 - self.drop_path_rate
        return x / kept * _tandem.floor(kept + _tandem.random_uniform((x._sizes[0], *(1,) * (x._rank - 1)), 0.0, 1.0, x._code, None))


def _block(inputs, width, name, drop_rate=0.0, scale=1e-6):
    x = layers.Conv2D(width, 7, padding="same", groups=width, name=f"{name}_depthwise_conv")(inputs)
    x = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_layernorm")(x)
    x = layers.Dense(4 * width, name=f"{name}_pointwise_conv_1")(x)
    x = layers.Activation("gelu", name=f"{name}_gelu")(x)
    x = layers.Dense(width, name=f"{name}_pointwise_conv_2")(x)
    x = LayerScale(scale, width, name=f"{name}_layer_scale")(x)
    last = StochasticDepth(drop_rate, name=f"{name}_stochastic_depth") if drop_rate else layers.Activation("linear", name=f"{name}_identity")
    return inputs + last(x)


def _convnext(kind, include_top, include_preprocessing, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name):
    depths, widths = _MODELS[kind]
    weights = imagenet_utils.weights_file(weights, include_top, classes, (f"convnext_{kind}.h5", f"convnext_{kind}_notop.h5"))
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top, 224)
    if include_preprocessing and x.shape[-1] == 3:
        mean, deviation = np.array([0.485, 0.456, 0.406]) * 255, np.array([0.229, 0.224, 0.225]) * 255
        x = layers.Normalization(mean=mean.tolist(), variance=(deviation**2).tolist(), name=f"{name}_prestem_normalization")(x)
    for i, (depth, width) in enumerate(zip(depths, widths)):
        if i == 0:
            parts = [layers.Conv2D(width, 4, strides=4, name=f"{name}_stem_conv"), layers.LayerNormalization(epsilon=1e-6, name=f"{name}_stem_layernorm")]
        else:
            parts = [layers.LayerNormalization(epsilon=1e-6, name=f"{name}_downsampling_layernorm_{i - 1}"), layers.Conv2D(width, 2, strides=2, name=f"{name}_downsampling_conv_{i - 1}")]
        x = Sequential(parts, name=f"{name}_downsampling_block_{i - 1}" if i else f"{name}_stem")(x)
        for j in range(depth):
            x = _block(x, width, f"{name}_stage_{i}_block_{j}")

    def top(x):
        x = layers.GlobalAveragePooling2D(name=f"{name}_head_gap")(x)
        x = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_head_layernorm")(x)
        return layers.Dense(classes, activation=classifier_activation, name=f"{name}_head_dense")(x)

    if not include_top:  # The last normalization comes after the pooling.
        x = {"avg": layers.GlobalAveragePooling2D, "max": layers.GlobalMaxPooling2D}[pooling]()(x) if pooling else x
        x = layers.LayerNormalization(epsilon=1e-6)(x)
    return imagenet_utils.finish(x, inputs, name, include_top, top, None, weights)


def _variant(kind, words):
    def build(include_top=True, include_preprocessing=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name=f"convnext_{kind}"):
        return _convnext(kind, include_top, include_preprocessing, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name)

    build.__name__ = build.__qualname__ = words
    build.__doc__ = f"The {kind} ConvNeXt."
    return build


ConvNeXtTiny, ConvNeXtSmall, ConvNeXtBase = _variant("tiny", "ConvNeXtTiny"), _variant("small", "ConvNeXtSmall"), _variant("base", "ConvNeXtBase")
ConvNeXtLarge, ConvNeXtXLarge = _variant("large", "ConvNeXtLarge"), _variant("xlarge", "ConvNeXtXLarge")


def preprocess_input(x, data_format=None):
    """The model scales images itself."""
    return x

__all__ = [  # Written by scripts/exported-names.py.
    "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtSmall", "ConvNeXtTiny", "ConvNeXtXLarge", "Layer", "LayerScale", "Sequential",
    "StochasticDepth", "decode_predictions", "imagenet_utils", "initializers", "layers", "preprocess_input",
]
