"""MobileNet (Howard et al. 2017, arXiv:1704.04861): separable convolutions only."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401

# Filters and stride of each block.
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1))


def _normalized(x, name):
    x = layers.BatchNormalization(name=f"{name}_bn")(x)
    return layers.ReLU(6.0, name=f"{name}_relu")(x)


def _block(x, filters, stride, depth_multiplier, number):
    if stride == 2:
        x = layers.ZeroPadding2D(((0, 1), (0, 1)), name=f"conv_pad_{number}")(x)
    padding = "same" if stride == 1 else "valid"
    x = layers.DepthwiseConv2D(3, strides=stride, padding=padding, depth_multiplier=depth_multiplier, use_bias=False, name=f"conv_dw_{number}")(x)
    x = _normalized(x, f"conv_dw_{number}")
    x = layers.Conv2D(filters, 1, padding="same", use_bias=False, name=f"conv_pw_{number}")(x)
    return _normalized(x, f"conv_pw_{number}")


def MobileNet(
    input_shape=None,
    alpha=1.0,
    depth_multiplier=1,
    dropout=0.001,
    include_top=True,
    weights="imagenet",
    input_tensor=None,
    pooling=None,
    classes=1000,
    classifier_activation="softmax",
    name=None,
):
    """MobileNet, of `alpha` times its usual width."""
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top)
    rows = x.shape[1] if x.shape[1] in (128, 160, 192, 224) else 224
    named = rows if weights == "imagenet" else x.shape[1]
    width = {1.0: "1_0", 0.75: "7_5", 0.5: "5_0"}.get(alpha, "2_5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, (f"mobilenet_{width}_{rows}_tf.h5", f"mobilenet_{width}_{rows}_tf_no_top.h5"))
    x = layers.Conv2D(int(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="conv1")(x)
    x = _normalized(x, "conv1")
    for number, (filters, stride) in enumerate(_BLOCKS, 1):
        x = _block(x, int(filters * alpha), stride, depth_multiplier, number)

    def top(x):
        x = layers.GlobalAveragePooling2D(keepdims=True)(x)
        x = layers.Dropout(dropout, name="dropout")(x)
        x = layers.Conv2D(classes, 1, padding="same", name="conv_preds")(x)
        x = layers.Reshape((classes,), name="reshape_2")(x)
        return layers.Activation(classifier_activation, name="predictions")(x)

    name = name or f"mobilenet_{alpha:0.2f}_{named}"
    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)


def preprocess_input(x, data_format=None):
    return imagenet_utils.preprocess_input(x, data_format, mode="tf")

__all__ = [  # Written by scripts/exported-names.py.
    "MobileNet", "decode_predictions", "imagenet_utils", "layers", "preprocess_input",
]
