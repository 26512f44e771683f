"""Dtype policies, keras.dtype_policies."""

from tandem._names import missing as _missing
from tandem.keras._calls import DTypePolicy, dtype_policy, set_dtype_policy
from tandem.keras.optimizers import LossScaleOptimizer  # noqa: F401

Policy = DTypePolicy
global_policy = dtype_policy
set_global_policy = set_dtype_policy


FloatDTypePolicy = DTypePolicy


def get(identifier):
    """The policy of a name, a configuration or a policy."""
    if identifier is None:
        return dtype_policy()
    if isinstance(identifier, DTypePolicy):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    return DTypePolicy(identifier)


def serialize(dtype_policy):
    """What `deserialize` makes the policy of again."""
    return dtype_policy.as_config()


def deserialize(config, custom_objects=None):
    """The policy of a configuration."""
    if config.get("class_name") not in ("DTypePolicy", "FloatDTypePolicy", "Policy"):
        raise ValueError(f"dtype policy {config.get('class_name')!r}; DTypePolicy is accepted")
    return DTypePolicy(**config["config"])


class experimental:
    """Names that are experimental in keras.dtype_policies."""

    Policy = DTypePolicy
    set_policy = staticmethod(set_dtype_policy)
    global_policy = staticmethod(dtype_policy)


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "DTypePolicy", "FloatDTypePolicy", "LossScaleOptimizer", "Policy", "deserialize", "dtype_policy", "experimental", "get",
    "global_policy", "serialize", "set_dtype_policy", "set_global_policy",
]
