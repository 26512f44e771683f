"""The model ResNet50."""

from tandem.keras.applications.resnet import ResNet50, decode_predictions, preprocess_input  # noqa: F401
