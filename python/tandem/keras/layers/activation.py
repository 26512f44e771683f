"""Activations as layers."""

import _tandem
from tandem.keras import activations, constraints, initializers, regularizers
from tandem.keras._layer import Layer


class ReLU(Layer):
    """max(x, 0), with a slope, a threshold and a largest value."""

    _is_built_at_once = True

    def __init__(self, max_value=None, negative_slope=0.0, threshold=0.0, **kwargs):
        super().__init__(**kwargs)
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold
        self.supports_masking = True

    def call(self, inputs):
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    """x where it is positive, negative_slope * x elsewhere."""

    _is_built_at_once = True

    def __init__(self, negative_slope=0.3, alpha=None, **kwargs):
        super().__init__(**kwargs)
        self.negative_slope = float(negative_slope if alpha is None else alpha)
        self.supports_masking = True

    def call(self, inputs):
        return activations.leaky_relu(inputs, self.negative_slope)


class ELU(Layer):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

    _is_built_at_once = True

    def __init__(self, alpha=1.0, **kwargs):
        super().__init__(**kwargs)
        self.alpha = alpha
        self.supports_masking = True

    def call(self, inputs):
        return activations.elu(inputs, self.alpha)


class PReLU(Layer):
    """x where it is positive, a slope that is learned times x elsewhere."""

    def __init__(self, alpha_initializer="Zeros", alpha_regularizer=None, alpha_constraint=None, shared_axes=None, **kwargs):
        super().__init__(**kwargs)
        self.alpha_initializer, self.alpha_regularizer, self.alpha_constraint = initializers.get(alpha_initializer), regularizers.get(alpha_regularizer), constraints.get(alpha_constraint)
        self.shared_axes = None if shared_axes is None else [shared_axes] if isinstance(shared_axes, int) else list(shared_axes)
        self.supports_masking = True

    def build(self, input_shape):
        shape = list(input_shape[1:])
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        self.alpha = self.add_weight(shape, self.alpha_initializer, regularizer=self.alpha_regularizer, constraint=self.alpha_constraint, name="alpha")
        self.built = True

    def call(self, inputs):
        return _tandem.relu(inputs) - self.alpha * _tandem.relu(-inputs)


class Softmax(Layer):
    """exp(x), divided by its sum over an axis."""

    _is_built_at_once = True

    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is not None:
            inputs = inputs + (1.0 - _tandem.cast(mask, inputs._code)) * -3e38 / 2
        return activations.softmax(inputs, self.axis)


class ThresholdedReLU(Layer):
    """x where it is above theta, 0 elsewhere."""

    def __init__(self, theta=1.0, **kwargs):
        super().__init__(**kwargs)
        self.theta = theta

    def call(self, inputs):
        return inputs * _tandem.cast(inputs > float(self.theta), inputs._code)
