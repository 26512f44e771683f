"""tensorflow.python.util."""

from tandem import nest
