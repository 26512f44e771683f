"""The model ResNet50."""

from tandem.keras.applications.resnet import ResNet50, decode_predictions, preprocess_input  # noqa: F401

__all__ = [  # Written by scripts/exported-names.py.
    "ResNet50", "decode_predictions", "preprocess_input",
]
