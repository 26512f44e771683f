"""What stands for TensorFlow's own modules, tensorflow.python: the few that programs import."""

from tandem import keras
