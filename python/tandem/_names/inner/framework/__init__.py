"""tensorflow.python.framework: tensors, their dtypes and shapes, and errors, by the files in which TensorFlow has them."""

import sys

from tandem import dtypes, errors
from tandem._names.inner.stand_ins import add_stand_ins

add_stand_ins(sys.modules[__name__], "constant_op ops sparse_tensor tensor tensor_shape tensor_spec tensor_util")
