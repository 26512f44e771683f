"""Functions at the end of a layer, keras.activations."""

import sys

import numpy as np

import _tandem
from tandem import _ops
from tandem._names import missing as _missing


def _tensor(x):
    x = _tandem.convert(x)
    return x if x.dtype.is_floating else _tandem.cast(x, 0)


def linear(x):
    """x itself."""
    return x


@_ops.op
def relu(x, negative_slope=0.0, max_value=None, threshold=0.0):
    """max(x, 0), with a slope below the threshold and a largest value."""
    x = _tensor(x)
    if threshold:
        y = _tandem.where(x > threshold, x, negative_slope * (x - threshold))
    elif negative_slope:
        y = _tandem.leaky_relu(x, float(negative_slope))
    elif max_value == 6:
        return _tandem.relu6(x)
    else:
        y = _tandem.relu(x)
    return y if max_value is None else _tandem.minimum(y, float(max_value))


@_ops.op
def softmax(x, axis=-1):
    """exp(x), divided by its sum over an axis."""
    x = _tensor(x)
    if isinstance(axis, (list, tuple)):
        if len(axis) == 1:
            axis = axis[0]
        else:
            high = _tandem.reduce_max(_tandem.stop_gradient(x), list(axis), True)
            e = _tandem.exp(x - high)
            return e / _tandem.reduce_sum(e, list(axis), True)
    y = _tandem.softmax(x, int(axis))
    if axis in (-1, x._rank - 1):
        y._keras_logits = x
    return y


@_ops.op
def log_softmax(x, axis=-1):
    """The logarithm of softmax."""
    return _tandem.log_softmax(_tensor(x), int(axis))


@_ops.op
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    x = _tensor(x)
    y = _tandem.sigmoid(x)
    y._keras_logits = x
    return y


@_ops.op
def log_sigmoid(x):
    """The logarithm of sigmoid."""
    return -_tandem.softplus(-_tensor(x))


@_ops.op
def hard_sigmoid(x):
    """relu6(x + 3) / 6."""
    return _tandem.clip(_tensor(x) * (1 / 6) + 0.5, 0.0, 1.0)


@_ops.op
def tanh(x):
    """The hyperbolic tangent."""
    return _tandem.tanh(_tensor(x))


@_ops.op
def hard_tanh(x):
    """x, moved into the range from -1 to 1."""
    return _tandem.clip(_tensor(x), -1.0, 1.0)


@_ops.op
def tanh_shrink(x):
    """x - tanh(x)."""
    x = _tensor(x)
    return x - _tandem.tanh(x)


@_ops.op
def soft_shrink(x, threshold=0.5):
    """x moved towards 0 by the threshold, and 0 within it."""
    x = _tensor(x)
    return _tandem.sign(x) * _tandem.relu(_tandem.abs(x) - threshold)


@_ops.op
def hard_shrink(x, threshold=0.5):
    """x, and 0 where it is within the threshold."""
    x = _tensor(x)
    return _tandem.where(_tandem.abs(x) > threshold, x, _tandem.zeros_like(x))


@_ops.op
def softplus(x):
    """log(1 + exp(x))."""
    return _tandem.softplus(_tensor(x))


@_ops.op
def softsign(x):
    """x / (1 + |x|)."""
    x = _tensor(x)
    return x / (1 + _tandem.abs(x))


@_ops.op
def elu(x, alpha=1.0):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return _tandem.elu(_tensor(x), float(alpha))


@_ops.op
def selu(x):
    """The scaled exponential linear unit, which keeps mean and variance."""
    return 1.0507009873554805 * _tandem.elu(_tensor(x), 1.6732632423543772)


@_ops.op
def celu(x, alpha=1.0):
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
    x = _tensor(x)
    return _tandem.maximum(x, 0.0) + _tandem.minimum(alpha * _tandem.expm1(x / alpha), 0.0)


@_ops.op
def gelu(x, approximate=False):
    """x times the probability that a normal value is below it."""
    return _tandem.gelu(_tensor(x), bool(approximate))


@_ops.op
def silu(x):
    """x * sigmoid(x)."""
    return _tandem.silu(_tensor(x))


swish = silu


@_ops.op
def hard_silu(x):
    """x * hard_sigmoid(x)."""
    x = _tensor(x)
    return x * _tandem.clip(x * (1 / 6) + 0.5, 0.0, 1.0)


hard_swish = hard_silu


@_ops.op
def mish(x):
    """x * tanh(softplus(x))."""
    x = _tensor(x)
    return x * _tandem.tanh(_tandem.softplus(x))


@_ops.op
def leaky_relu(x, negative_slope=0.2):
    """x where it is positive, negative_slope * x elsewhere."""
    return _tandem.leaky_relu(_tensor(x), float(negative_slope))


@_ops.op
def relu6(x):
    """x, moved into the range from 0 to 6."""
    return _tandem.relu6(_tensor(x))


@_ops.op
def exponential(x):
    """exp(x)."""
    return _tandem.exp(_tensor(x))


@_ops.op
def squareplus(x, b=4):
    """(x + sqrt(x * x + b)) / 2."""
    x = _tensor(x)
    return (x + _tandem.sqrt(x * x + b)) / 2


@_ops.op
def glu(x, axis=-1):
    """One half of the channels times the sigmoid of the other."""
    a, b = _tandem.split(_tensor(x), 2, axis)
    return a * _tandem.sigmoid(b)


@_ops.op
def threshold(x, threshold, default_value):
    """x where it is above the threshold, the default value elsewhere."""
    x = _tensor(x)
    return _tandem.where(x > threshold, x, _tandem.fill((), float(default_value), x._code))


@_ops.op
def sparse_plus(x):
    """0 below -1, x above 1, (x + 1)**2 / 4 between."""
    x = _tensor(x)
    return _tandem.where(x <= -1, _tandem.zeros_like(x), _tandem.where(x < 1, 0.25 * (x + 1) ** 2, x))


_NAMES = {
    f.__name__: f
    for f in (
        linear, relu, softmax, log_softmax, sigmoid, log_sigmoid, hard_sigmoid, tanh, hard_tanh, tanh_shrink, soft_shrink,
        hard_shrink, softplus, softsign, elu, selu, celu, gelu, silu, hard_silu, mish, leaky_relu, relu6, exponential,
        squareplus, glu, sparse_plus,
    )
}
_NAMES["swish"], _NAMES["hard_swish"] = silu, hard_silu


def get(identifier):
    """The activation of a name, configuration or function."""
    if identifier is None:
        return linear
    if isinstance(identifier, dict):
        from tandem.keras import saving

        return saving.deserialize_keras_object(identifier)
    if isinstance(identifier, str):
        if identifier in ("sparsemax", "sparse_sigmoid"):
            return getattr(sys.modules[__name__], identifier)
        from tandem.keras.saving import custom_object

        found = _NAMES.get(identifier) or custom_object(identifier)
        if found is None:
            raise ValueError(f"Could not interpret activation function identifier: {identifier}; known are {', '.join(_NAMES)}")
        return found() if isinstance(found, type) else found
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret activation function identifier: {identifier}")


def serialize(activation):
    """What `deserialize` makes the activation of again."""
    name = getattr(activation, "__name__", None)
    if name in _NAMES:
        return name
    from tandem.keras import saving

    return saving.serialize_keras_object(activation)


def deserialize(config, custom_objects=None):
    """The activation of a name or configuration."""
    return get(config)


_missing.install(__name__, globals(), {"tandem.keras._rarer": "sparse_sigmoid sparsemax"})
