"""tensorflow.python.eager."""

import sys

from tandem._names.inner.stand_ins import add_stand_ins

add_stand_ins(sys.modules[__name__], "backprop context def_function")
