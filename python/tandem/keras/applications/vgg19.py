"""The model VGG19."""

from tandem.keras.applications import _vgg, imagenet_utils
from tandem.keras.applications.imagenet_utils import decode_predictions  # noqa: F401


def VGG19(include_top=True, weights="imagenet", input_tensor=None, input_shape=None, pooling=None, classes=1000, classifier_activation="softmax", name="vgg19"):
    """VGG19, with weights from Keras's cache folder or new ones."""
    return _vgg.vgg(name, (2, 2, 4, 4, 4), include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)


def preprocess_input(x, data_format=None):
    """Pixels from 0 to 255 as VGG19 was trained on them: blue first, without the mean."""
    return imagenet_utils.preprocess_input(x, data_format, mode="caffe")

__all__ = [  # Written by scripts/exported-names.py.
    "VGG19", "decode_predictions", "imagenet_utils", "preprocess_input",
]
