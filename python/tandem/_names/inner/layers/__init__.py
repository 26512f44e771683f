"""tensorflow.python.layers."""

from tandem._names.inner.layers import utils
