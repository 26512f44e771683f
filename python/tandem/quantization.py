"""What tensors would be if they were quantized, tf.quantization; there are no quantized types."""

from tandem._names import missing as _missing
from tandem._ops.networks import fake_quant_with_min_max_args, fake_quant_with_min_max_vars, fake_quant_with_min_max_vars_per_channel  # noqa: F401

_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "fake_quant_with_min_max_args", "fake_quant_with_min_max_vars", "fake_quant_with_min_max_vars_per_channel",
]
