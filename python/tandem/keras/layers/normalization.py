"""Normalisations."""

import _tandem
from tandem import _ops
from tandem._tracing.state import state
from tandem.keras import constraints, initializers, regularizers
from tandem.keras._layer import Layer
from tandem.keras.layers.core import floating


def _wide(x):
    """Statistics of halves are computed in float32."""
    return x if x._code <= 1 else _tandem.cast(x, 0)


def _place_of(layer, axis, rank):
    """The number of an axis, which may be counted from the last."""
    if not -rank <= axis < rank:
        raise ValueError(f"{type(layer).__name__}: axis {axis} of an input with {rank} axes")
    return axis % rank


class BatchNormalization(Layer):
    """Scales each channel to the mean and variance of the batch while training, and of all batches before else."""

    def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros", gamma_initializer="ones", moving_mean_initializer="zeros", moving_variance_initializer="ones", beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None, synchronized=False, **kwargs):
        if kwargs.pop("renorm", False):
            raise NotImplementedError("BatchNormalization: renorm; `synchronized` and GroupNormalization are there for small batches")
        for name in ("renorm_clipping", "renorm_momentum", "fused", "virtual_batch_size"):
            kwargs.pop(name, None)
        super().__init__(**kwargs)
        self.axis, self.momentum, self.epsilon = axis, float(momentum), float(epsilon)
        self.center, self.scale, self.synchronized = center, scale, synchronized
        self.beta_initializer, self.gamma_initializer = initializers.get(beta_initializer), initializers.get(gamma_initializer)
        self.moving_mean_initializer, self.moving_variance_initializer = initializers.get(moving_mean_initializer), initializers.get(moving_variance_initializer)
        self.beta_regularizer, self.gamma_regularizer = regularizers.get(beta_regularizer), regularizers.get(gamma_regularizer)
        self.beta_constraint, self.gamma_constraint = constraints.get(beta_constraint), constraints.get(gamma_constraint)
        self.supports_masking = True

    def build(self, input_shape):
        rank = len(input_shape)
        axis = self.axis[0] if isinstance(self.axis, (list, tuple)) else self.axis
        self._place = _place_of(self, axis, rank)
        self._last = self._place == rank - 1
        n = input_shape[self._place]
        self.gamma = self.add_weight((n,), self.gamma_initializer, regularizer=self.gamma_regularizer, constraint=self.gamma_constraint, name="gamma") if self.scale else None
        self.beta = self.add_weight((n,), self.beta_initializer, regularizer=self.beta_regularizer, constraint=self.beta_constraint, name="beta") if self.center else None
        self.moving_mean = self.add_weight((n,), self.moving_mean_initializer, trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight((n,), self.moving_variance_initializer, trainable=False, name="moving_variance")
        self._channels = n
        self.built = True

    def call(self, inputs, training=False, mask=None):
        given = floating(_tandem.convert(inputs))
        x = _wide(given)
        if not self._last:
            order = [i for i in range(x._rank) if i != self._place] + [self._place]
            x = _tandem.transpose(x, order)
        gamma = _tandem.cast(self.gamma, x._code) if self.scale else _tandem.fill((self._channels,), 1.0, x._code)
        beta = _tandem.cast(self.beta, x._code) if self.center else _tandem.fill((self._channels,), 0.0, x._code)
        if training and self.trainable:
            y = self._trained(x, gamma, beta)
        else:
            y = _tandem.batch_norm_inference(x, gamma, beta, _tandem.cast(self.moving_mean, x._code), _tandem.cast(self.moving_variance, x._code), self.epsilon)
        if not self._last:
            y = _tandem.transpose(y, [int(i) for i in sorted(range(y._rank), key=lambda i: order[i])])
        return _tandem.cast(y, given._code)

    def _trained(self, x, gamma, beta):
        y, mean, variance = _tandem.batch_norm(x, gamma, beta, self.epsilon)
        if state.in_replica:
            count = _tandem.cast(_tandem.size(x, 5), x._code) / float(x._sizes[-1])
            if self.synchronized:
                mean, variance = self._about_mean(count, mean, variance)
                y = _tandem.batch_norm_inference(x, gamma, beta, mean, variance, self.epsilon)
            else:
                mean, variance = self._about_center(count, mean, variance, self.moving_mean.read_value())
        keep = 1.0 - self.momentum
        self.moving_mean.assign(_tandem.cast(self.moving_mean.read_value(), x._code) * self.momentum + _tandem.stop_gradient(mean) * keep)
        self.moving_variance.assign(_tandem.cast(self.moving_variance.read_value(), x._code) * self.momentum + _tandem.stop_gradient(variance) * keep)
        return y

    @staticmethod
    def _about_center(count, mean, variance, center):
        """The statistics of all replicas, by one meeting of them, from distances from what is near the mean."""
        distance = mean - center
        total, shift, spread = (_tandem.all_reduce("SUM", v) for v in (count, distance * count, (variance + _tandem.square(distance)) * count))
        shift = shift / total
        return center + shift, _tandem.maximum(spread / total - _tandem.square(shift), 0.0)

    @staticmethod
    def _about_mean(count, mean, variance):
        """The same to the last digits, wherever the mean is: first the mean, then the distances from it."""
        total = _tandem.all_reduce("SUM", count)
        whole = _tandem.all_reduce("SUM", mean * count) / total
        distance = (variance + _tandem.square(mean - whole)) * count
        return whole, _tandem.all_reduce("SUM", distance) / total


SyncBatchNormalization = BatchNormalization


class LayerNormalization(Layer):
    """Scales each row to mean 0 and variance 1 over an axis."""

    def __init__(self, axis=-1, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros", gamma_initializer="ones", beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None, rms_scaling=False, **kwargs):
        super().__init__(**kwargs)
        self.axis, self.epsilon, self.center, self.scale = axis, float(epsilon), center and not rms_scaling, scale or rms_scaling
        self.rms_scaling = rms_scaling
        self.beta_initializer, self.gamma_initializer = initializers.get(beta_initializer), initializers.get(gamma_initializer)
        self.beta_regularizer, self.gamma_regularizer = regularizers.get(beta_regularizer), regularizers.get(gamma_regularizer)
        self.beta_constraint, self.gamma_constraint = constraints.get(beta_constraint), constraints.get(gamma_constraint)
        self.supports_masking = True

    def build(self, input_shape):
        rank = len(input_shape)
        axes = sorted(_place_of(self, a, rank) for a in ([self.axis] if isinstance(self.axis, int) else self.axis))
        self._axes = axes
        shape = tuple(input_shape[a] for a in axes)
        self._sized = shape
        self.gamma = self.add_weight(shape, self.gamma_initializer, regularizer=self.gamma_regularizer, constraint=self.gamma_constraint, name="gamma") if self.scale else None
        self.beta = self.add_weight(shape, self.beta_initializer, regularizer=self.beta_regularizer, constraint=self.beta_constraint, name="beta") if self.center else None
        self.built = True

    def call(self, inputs):
        given = floating(_tandem.convert(inputs))
        x = _wide(given)
        gamma = _tandem.cast(self.gamma, x._code) if self.scale else _tandem.fill(self._sized, 1.0, x._code)
        beta = _tandem.cast(self.beta, x._code) if self.center else _tandem.fill(self._sized, 0.0, x._code)
        if self.rms_scaling:
            shape = [x._sizes[i] if i in self._axes else 1 for i in range(x._rank)]
            return _tandem.cast(x * _tandem.rsqrt(_tandem.reduce_variance(x, self._axes, True) + self.epsilon) * _tandem.reshape(gamma, shape), given._code)
        if self._axes == list(range(self._axes[0], x._rank)):
            return _tandem.cast(_tandem.layer_norm(x, gamma, beta, self._axes[0] - x._rank, self.epsilon), given._code)
        mean = _tandem.reduce_mean(x, self._axes, True)
        variance = _tandem.reduce_variance(x, self._axes, True)
        shape = [x._sizes[i] if i in self._axes else 1 for i in range(x._rank)]
        y = (x - mean) * _tandem.rsqrt(variance + self.epsilon)
        return _tandem.cast(y * _tandem.reshape(gamma, shape) + _tandem.reshape(beta, shape), given._code)


class RMSNormalization(Layer):
    """Divides by the root of the mean of squares over an axis."""

    def __init__(self, axis=-1, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.axis, self.epsilon = axis, epsilon

    def build(self, input_shape):
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        self.scale = self.add_weight(tuple(input_shape[a] for a in axes), "ones", name="scale")
        self.built = True

    def call(self, x):
        return x * _tandem.rsqrt(_tandem.reduce_mean(x * x, self.axis, True) + self.epsilon) * self.scale


class UnitNormalization(Layer):
    """Divides by the L2 norm over an axis."""

    _is_built_at_once = True

    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs):
        from tandem import nn

        return nn.l2_normalize(inputs, self.axis)


class GroupNormalization(Layer):
    """Scales groups of channels of each row to mean 0 and variance 1."""

    def __init__(self, groups=32, axis=-1, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros", gamma_initializer="ones", beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None, **kwargs):
        super().__init__(**kwargs)
        self.groups, self.axis, self.epsilon, self.center, self.scale = groups, axis, epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = initializers.get(beta_initializer), initializers.get(gamma_initializer)
        self.beta_regularizer, self.gamma_regularizer = regularizers.get(beta_regularizer), regularizers.get(gamma_regularizer)
        self.beta_constraint, self.gamma_constraint = constraints.get(beta_constraint), constraints.get(gamma_constraint)

    def build(self, input_shape):
        n = input_shape[_place_of(self, self.axis, len(input_shape))]
        if n is None:
            raise ValueError(f"Axis {self.axis} of input tensor should have a defined dimension but the layer received an input with shape {input_shape}.")
        if self.groups == -1:
            self.groups = n
        if n % self.groups:
            raise ValueError(f"Number of groups ({self.groups}) must be a multiple of the number of channels ({n}).")
        self.gamma = self.add_weight((n,), self.gamma_initializer, regularizer=self.gamma_regularizer, constraint=self.gamma_constraint, name="gamma") if self.scale else None
        self.beta = self.add_weight((n,), self.beta_initializer, regularizer=self.beta_regularizer, constraint=self.beta_constraint, name="beta") if self.center else None
        self.built = True

    def call(self, inputs):
        given = floating(inputs)
        x = _wide(given)
        axis = self.axis % x._rank
        order = [i for i in range(x._rank) if i != axis] + [axis]
        x = x if axis == x._rank - 1 else _tandem.transpose(x, order)
        sizes = list(x._sizes)
        grouped = _tandem.reshape(x, sizes[:-1] + [self.groups, sizes[-1] // self.groups])
        axes = list(range(1, x._rank - 1)) + [x._rank]
        mean, variance = _tandem.reduce_mean(grouped, axes, True), _tandem.reduce_variance(grouped, axes, True)
        y = _tandem.reshape((grouped - mean) * _tandem.rsqrt(variance + self.epsilon), sizes)
        if self.scale:
            y = y * _tandem.cast(self.gamma, x._code)
        y = y + _tandem.cast(self.beta, x._code) if self.center else y
        y = y if axis == x._rank - 1 else _tandem.transpose(y, [order.index(i) for i in range(x._rank)])
        return _tandem.cast(y, given._code)
