"""VGG (Simonyan and Zisserman 2014, arXiv:1409.1556): blocks of convolutions of 3 x 3."""

from tandem.keras import layers
from tandem.keras.applications import imagenet_utils


def vgg(name, depths, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation):
    """A VGG network with so many convolutions in each of its blocks."""
    files = (f"{name}_weights_tf_dim_ordering_tf_kernels.h5", f"{name}_weights_tf_dim_ordering_tf_kernels_notop.h5")
    weights = imagenet_utils.weights_file(weights, include_top, classes, files)
    inputs, x = imagenet_utils.input_of(input_tensor, input_shape, include_top)
    for block, (filters, depth) in enumerate(zip((64, 128, 256, 512, 512), depths), 1):
        for i in range(1, depth + 1):
            x = layers.Conv2D(filters, 3, activation="relu", padding="same", name=f"block{block}_conv{i}")(x)
        x = layers.MaxPooling2D(2, strides=2, name=f"block{block}_pool")(x)

    def top(x):
        x = layers.Flatten(name="flatten")(x)
        x = layers.Dense(4096, activation="relu", name="fc1")(x)
        x = layers.Dense(4096, activation="relu", name="fc2")(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)

    return imagenet_utils.finish(x, inputs, name, include_top, top, pooling, weights)
