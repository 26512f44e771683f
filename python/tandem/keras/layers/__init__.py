"""Layers, keras.layers."""

from tandem._names import missing as _missing
from tandem.keras._layer import Input, InputLayer, Layer  # noqa: F401
from tandem.keras._calls import InputSpec  # noqa: F401
from tandem.keras.layers.activation import ELU, LeakyReLU, PReLU, ReLU, Softmax, ThresholdedReLU  # noqa: F401
from tandem.keras.layers.attention import AdditiveAttention, Attention, MultiHeadAttention  # noqa: F401
from tandem.keras.layers.convolution import (  # noqa: F401
    AveragePooling1D, AveragePooling2D, AveragePooling3D, AvgPool1D, AvgPool2D, AvgPool3D, Conv1D, Conv1DTranspose, Conv2D,
    Conv2DTranspose, Conv3D, Convolution1D, Convolution1DTranspose, Convolution2D, Convolution2DTranspose, Convolution3D, DepthwiseConv1D,
    DepthwiseConv2D, GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalAveragePooling3D, GlobalAvgPool1D,
    GlobalAvgPool2D, GlobalAvgPool3D, GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D, GlobalMaxPooling1D,
    GlobalMaxPooling2D, GlobalMaxPooling3D, MaxPool1D, MaxPool2D, MaxPool3D, MaxPooling1D, MaxPooling2D, MaxPooling3D,
    SeparableConv1D, SeparableConv2D, SeparableConvolution1D, SeparableConvolution2D,
)
from tandem.keras.layers.core import (  # noqa: F401
    Activation, Dense, EinsumDense, Embedding, Identity, Lambda, Masking, SpectralNormalization, TFSMLayer, TimeDistributed,
    Wrapper,
)
from tandem.keras.layers.merging import (  # noqa: F401
    Add, Average, Concatenate, Dot, Maximum, Minimum, Multiply, Subtract, add, average, concatenate, dot, maximum, minimum,
    multiply, subtract,
)
from tandem.keras.layers.normalization import (  # noqa: F401
    BatchNormalization, GroupNormalization, LayerNormalization, RMSNormalization, UnitNormalization,
)
from tandem.keras.layers.preprocessing import (  # noqa: F401
    CategoryEncoding, CenterCrop, Discretization, HashedCrossing, Hashing, IntegerLookup, Normalization, RandomBrightness, RandomContrast,
    RandomCrop, RandomFlip, RandomRotation, RandomTranslation, RandomZoom, Rescaling, Resizing, StringLookup,
    TextVectorization,
)
from tandem.keras.layers.recurrent import (  # noqa: F401
    GRU, LSTM, RNN, Bidirectional, ConvLSTM2D, GRUCell, LSTMCell, SimpleRNN, SimpleRNNCell, StackedRNNCells,
)
from tandem.keras.layers.regularization import (  # noqa: F401
    ActivityRegularization, AlphaDropout, Dropout, GaussianDropout, GaussianNoise, SpatialDropout1D, SpatialDropout2D,
    SpatialDropout3D,
)
from tandem.keras.layers.reshaping import (  # noqa: F401
    Cropping1D, Cropping2D, Cropping3D, Flatten, Permute, RepeatVector, Reshape, UpSampling1D, UpSampling2D, UpSampling3D,
    ZeroPadding1D, ZeroPadding2D, ZeroPadding3D,
)


class experimental:
    """Names that are experimental in keras.layers."""

    class preprocessing:
        pass


for _cls in (CategoryEncoding, CenterCrop, Discretization, HashedCrossing, Hashing, IntegerLookup, Normalization, RandomContrast, RandomCrop, RandomFlip, RandomRotation, RandomTranslation, RandomZoom, Rescaling, Resizing, StringLookup, TextVectorization):
    setattr(experimental.preprocessing, _cls.__name__, _cls)
experimental.SyncBatchNormalization = BatchNormalization


CuDNNGRU, CuDNNLSTM = GRU, LSTM  # Of TensorFlow 1; which kernels compute a layer is not said here.


_missing.install(__name__, globals(), {
    "tandem.keras.layers.adaptive": "AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D AdaptiveMaxPooling1D AdaptiveMaxPooling2D"
    " AdaptiveMaxPooling3D",
    "tandem.keras.layers.augmentation": "AutoContrast CutMix Equalization MaxNumBoundingBoxes MixUp RandomColorDegeneration RandomErasing RandomGaussianBlur"
    " RandomGrayscale RandomHue RandomInvert RandomPosterization RandomSaturation RandomSharpness Solarization",
    "tandem.keras.layers.augmentation_chains": "AugMix Pipeline RandAugment RandomColorJitter RandomElasticTransform RandomHeight RandomPerspective RandomShear"
    " RandomWidth",
    "tandem.keras.layers.features": "DenseFeatures",
    "tandem.keras.layers.grouped_attention": "GroupQueryAttention=GroupedQueryAttention GroupedQueryAttention ReversibleEmbedding",
    "tandem.keras.layers.spectrograms": "MelSpectrogram STFTSpectrogram",
    "tandem.keras.layers.volumes": "Conv3DTranspose ConvLSTM1D ConvLSTM3D Convolution3DTranspose",
    "tandem.keras.layers.merging": "_Merge",
})
_found_late = __getattr__  # noqa: F821


def __getattr__(name):
    if name == "merge":  # The module of merging layers, which Keras 2 has by this name.
        from tandem.keras.layers import merging

        return merging
    return _found_late(name)


def serialize(layer):
    """What `deserialize` makes the layer of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(layer)


def deserialize(config, custom_objects=None):
    """The layer of a configuration."""
    from tandem.keras import saving

    return saving.deserialize_keras_object(config, custom_objects)

__all__ = [  # Written by scripts/exported-names.py.
    "Activation", "ActivityRegularization", "Add", "AdditiveAttention", "AlphaDropout", "Attention", "Average", "AveragePooling1D",
    "AveragePooling2D", "AveragePooling3D", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNormalization", "Bidirectional",
    "CategoryEncoding", "CenterCrop", "Concatenate", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "ConvLSTM2D",
    "Convolution1D", "Convolution1DTranspose", "Convolution2D", "Convolution2DTranspose", "Convolution3D", "Cropping1D", "Cropping2D",
    "Cropping3D", "CuDNNGRU", "CuDNNLSTM", "Dense", "DepthwiseConv1D", "DepthwiseConv2D", "Discretization", "Dot", "Dropout", "ELU",
    "EinsumDense", "Embedding", "Flatten", "GRU", "GRUCell", "GaussianDropout", "GaussianNoise", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D",
    "GlobalMaxPool2D", "GlobalMaxPool3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "GroupNormalization",
    "HashedCrossing", "Hashing", "Identity", "Input", "InputLayer", "InputSpec", "IntegerLookup", "LSTM", "LSTMCell", "Lambda", "Layer",
    "LayerNormalization", "LeakyReLU", "Masking", "MaxPool1D", "MaxPool2D", "MaxPool3D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D",
    "Maximum", "Minimum", "MultiHeadAttention", "Multiply", "Normalization", "PReLU", "Permute", "RMSNormalization", "RNN",
    "RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation", "RandomTranslation", "RandomZoom", "ReLU",
    "RepeatVector", "Rescaling", "Reshape", "Resizing", "SeparableConv1D", "SeparableConv2D", "SeparableConvolution1D",
    "SeparableConvolution2D", "SimpleRNN", "SimpleRNNCell", "Softmax", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "SpectralNormalization", "StackedRNNCells", "StringLookup", "Subtract", "TFSMLayer", "TextVectorization", "ThresholdedReLU",
    "TimeDistributed", "UnitNormalization", "UpSampling1D", "UpSampling2D", "UpSampling3D", "Wrapper", "ZeroPadding1D", "ZeroPadding2D",
    "ZeroPadding3D", "add", "average", "concatenate", "deserialize", "dot", "experimental", "maximum", "minimum", "multiply", "serialize",
    "subtract",
]
