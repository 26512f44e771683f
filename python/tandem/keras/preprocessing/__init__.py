"""Keras's older helpers, keras.preprocessing."""

from tandem.keras.preprocessing import image, sequence, text  # noqa: F401
from tandem.keras.utils import image_dataset_from_directory, text_dataset_from_directory, timeseries_dataset_from_array  # noqa: F401

__all__ = [  # Written by scripts/exported-names.py.
    "image", "image_dataset_from_directory", "sequence", "text", "text_dataset_from_directory", "timeseries_dataset_from_array",
]
