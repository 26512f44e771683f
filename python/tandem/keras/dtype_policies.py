"""Dtype policies, keras.dtype_policies."""

from tandem._names import missing as _missing
from tandem.keras._calls import DTypePolicy, dtype_policy, set_dtype_policy
from tandem.keras.optimizers import LossScaleOptimizer  # noqa: F401

Policy = DTypePolicy
global_policy = dtype_policy
set_global_policy = set_dtype_policy


class experimental:
    """Names that are experimental in keras.dtype_policies."""

    Policy = DTypePolicy
    set_policy = staticmethod(set_dtype_policy)
    global_policy = staticmethod(dtype_policy)


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "DTypePolicy", "LossScaleOptimizer", "Policy", "dtype_policy", "experimental", "global_policy", "set_dtype_policy", "set_global_policy",
]
