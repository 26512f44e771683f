"""tensorflow.python.eager."""

import sys

from tandem._names.inner.rooms import open_rooms

open_rooms(sys.modules[__name__], "backprop context def_function")
