"""Writes keras_layers.txt: what Keras's layers compute in float64 from given weights and inputs, and the gradients of
the sum of the squares of their outputs. Tandem's tests compare with it.

    python make_keras_layers.py > keras_layers.txt
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from keras import layers

HEADER = f"""\
# Written by make_keras_layers.py with TensorFlow {tf.__version__} and Keras {keras.__version__}.
# layer <name> <1 where it is called as in training>
# Then tensors <role> <type> <rank> <sizes> <values>: its inputs, weights, output, the gradients of the sum of the
# squares of the output by the trainable weights, and the weights after the call where it changes them."""

IMAGES = (2, 6, 5, 4)
ACTIVATIONS = (
    "linear relu relu6 leaky_relu elu selu celu gelu sigmoid log_sigmoid hard_sigmoid tanh hard_tanh softmax log_softmax "
    "softplus softsign silu swish hard_silu hard_swish mish exponential"
).split()


def cases() -> dict:
    """By name: the layer, the shapes of its inputs, and whether it is in training."""
    attention = lambda **options: layers.MultiHeadAttention(2, 3, **options)
    all_cases = {
        "dense": (layers.Dense(3, activation="relu"), [(4, 5)], False),
        "dense_no_bias": (layers.Dense(3, use_bias=False), [(4, 5)], False),
        "dense_rank_3": (layers.Dense(3, activation="tanh"), [(2, 4, 5)], False),
        "conv2d": (layers.Conv2D(3, 3, activation="relu"), [IMAGES], False),
        "conv2d_same": (layers.Conv2D(3, (3, 2), strides=2, padding="same"), [IMAGES], False),
        "conv2d_dilated": (layers.Conv2D(3, 2, dilation_rate=(2, 1), use_bias=False), [IMAGES], False),
        "conv2d_groups": (layers.Conv2D(6, 3, groups=2), [IMAGES], False),
        "depthwise_conv2d": (layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), [IMAGES], False),
        "max_pooling2d": (layers.MaxPooling2D(), [IMAGES], False),
        "max_pooling2d_same": (layers.MaxPooling2D(3, strides=(2, 1), padding="same"), [IMAGES], False),
        "average_pooling2d": (layers.AveragePooling2D((2, 3)), [IMAGES], False),
        "average_pooling2d_same": (layers.AveragePooling2D(3, strides=2, padding="same"), [IMAGES], False),
        "global_average_pooling2d": (layers.GlobalAveragePooling2D(), [IMAGES], False),
        "global_max_pooling2d": (layers.GlobalMaxPooling2D(keepdims=True), [IMAGES], False),
        "zero_padding2d": (layers.ZeroPadding2D(((1, 0), (2, 3))), [IMAGES], False),
        "flatten": (layers.Flatten(), [IMAGES], False),
        "reshape": (layers.Reshape((-1, 8)), [IMAGES], False),
        "rescaling": (layers.Rescaling(0.5, offset=-1), [(2, 3)], False),
        "embedding": (layers.Embedding(7, 3), ["indices"], False),
        "add": (layers.Add(), [(2, 3), (2, 3), (2, 3)], False),
        "multiply": (layers.Multiply(), [(2, 3), (2, 3), (2, 3)], False),
        "concatenate": (layers.Concatenate(), [(2, 3), (2, 4)], False),
        "batch_normalization": (layers.BatchNormalization(), [IMAGES], False),
        "batch_normalization_training": (layers.BatchNormalization(momentum=0.9), [IMAGES], True),
        "batch_normalization_bare": (layers.BatchNormalization(scale=False, center=False), [(5, 3)], True),
        "layer_normalization": (layers.LayerNormalization(), [(2, 3, 4)], False),
        "multi_head_attention": (attention(), [(2, 4, 5), (2, 6, 5)], False),
        "multi_head_attention_key": (
            attention(value_dim=4, output_shape=2, use_bias=False),
            [(2, 4, 5), (2, 6, 5), (2, 6, 7)],
            False,
        ),
        "multi_head_attention_causal": (attention(), [(2, 4, 5), (2, 4, 5)], False),
        "multi_head_attention_mask": (attention(), [(2, 4, 5), (2, 6, 5), "mask"], False),
    }
    for name in ACTIVATIONS:
        all_cases[f"activation_{name}"] = (layers.Activation(name), [(3, 8)], False)
    return all_cases


def print_tensor(role: str, value: np.ndarray) -> None:
    kind = {"f": "float64", "i": "int64", "b": "boolean"}[value.dtype.kind]
    numbers = " ".join(repr(float(number)).removesuffix(".0") for number in value.ravel())
    print(role, kind, value.ndim, *value.shape, numbers)


def make_input(shape, random: np.random.Generator) -> np.ndarray:
    if shape == "indices":
        return np.array([[1, 6, 1], [0, 3, 6]])
    if shape == "mask":
        mask = random.random((2, 4, 6)) < 0.6
        mask[:, :, 0] = True  # Keras gives a query that sees nothing a meaning of its own.
        return mask
    return np.round(random.normal(scale=2, size=shape), 3)


def call(name: str, layer: layers.Layer, inputs: list, training: bool):
    if not isinstance(layer, layers.MultiHeadAttention):
        return layer(inputs if len(inputs) > 1 else inputs[0], training=training)
    options = {"use_causal_mask": name.endswith("_causal")}
    if inputs[-1].dtype == bool:
        options["attention_mask"] = inputs[-1]
        inputs = inputs[:-1]
    return layer(*inputs, **options)


def main() -> None:
    keras.config.set_floatx("float64")
    print(HEADER)
    random = np.random.default_rng(7)
    for name, (layer, shapes, training) in cases().items():
        print(f"layer {name} {int(training)}")
        inputs = [tf.constant(make_input(shape, random)) for shape in shapes]
        call(name, layer, inputs, False)
        layer.set_weights([np.round(np.abs(random.normal(size=w.shape)) if "variance" in w.name
                                    else random.normal(size=w.shape), 3) for w in layer.weights])
        for tensor in inputs:
            print_tensor("input", tensor.numpy())
        for weight in layer.get_weights():
            print_tensor("weight", weight)
        with tf.GradientTape() as tape:
            output = call(name, layer, inputs, training)
            loss = tf.reduce_sum(tf.square(output))
        print_tensor("output", output.numpy())
        variables = [variable.value for variable in layer.trainable_variables]
        for gradient in tape.gradient(loss, variables):
            print_tensor("gradient", tf.convert_to_tensor(gradient).numpy())
        if training:
            for weight in layer.get_weights():
                print_tensor("after", weight)


main()
