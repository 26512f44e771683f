"""TensorFlow's functions of tensors, over the library's ops.

What the library has no op for is composed of those it has; what cannot be (sorting, decompositions, parts whose size
depends on values) is computed by NumPy where values exist, and makes a function that is being traced run op by op.
"""

from tandem._ops.base import *  # noqa: F403
from tandem._ops.creation import *  # noqa: F403
from tandem._ops.shaping import *  # noqa: F403
from tandem._ops.arithmetic import *  # noqa: F403
from tandem._ops.products import *  # noqa: F403
from tandem._ops.reduction import *  # noqa: F403
from tandem._ops.choosing import *  # noqa: F403
from tandem._ops.ordering import *  # noqa: F403
from tandem._ops.segments import *  # noqa: F403
from tandem._ops.matrices import *  # noqa: F403
from tandem._ops.flow import *  # noqa: F403
from tandem._ops.effects import *  # noqa: F403
