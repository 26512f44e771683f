"""Layers of no particular kind: Dense, Embedding, shapes, noise, merging, wrappers."""

import numpy as np

import _tandem
from tandem import _ops, dtypes, nest
from tandem.keras import activations, constraints, initializers, regularizers
from tandem.keras._layer import Input, InputLayer, Layer  # noqa: F401
from tandem.keras._calls import InputSpec, call_context, _mask_of  # noqa: F401
from tandem.keras._symbolic import KerasTensor  # noqa: F401


def floating(x):
    return x if x.dtype.is_floating else _tandem.cast(x, 0)


class Dense(Layer):
    """activation(x kernel + bias)."""

    def __init__(self, units, activation=None, use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, lora_rank=None, lora_alpha=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if not isinstance(units, (int, np.integer)) or units <= 0:
            raise ValueError(f"Received an invalid value for `units`, expected a positive integer. Received: units={units}")
        self.units = int(units)
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer, self.bias_initializer = initializers.get(kernel_initializer), initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = regularizers.get(kernel_regularizer), regularizers.get(bias_regularizer)
        self.kernel_constraint, self.bias_constraint = constraints.get(kernel_constraint), constraints.get(bias_constraint)
        self.supports_masking = True

    def build(self, input_shape):
        if input_shape[-1] is None:
            raise ValueError("The last dimension of the inputs to a Dense layer should be defined. Found None.")
        self.kernel = self.add_weight((input_shape[-1], self.units), self.kernel_initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, name="kernel")
        self.bias = self.add_weight((self.units,), self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias") if self.use_bias else None
        self.built = True

    def call(self, inputs, training=None):
        x = floating(_tandem.convert(inputs))
        if x._rank < 2:
            raise ValueError(f"Input 0 of layer \"{self.name}\" is incompatible with the layer: expected min_ndim=2, found ndim={x._rank}. Full shape received: {x.shape}")
        y = _tandem.matmul(x, self.kernel, False, False)
        if self.use_bias:
            y = y + self.bias
        return self.activation(y)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[:-1]) + (self.units,)


class EinsumDense(Layer):
    def __init__(self, equation, output_shape, activation=None, bias_axes=None, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.equation, self.bias_axes, self.activation = equation, bias_axes, activations.get(activation)
        self.partial_output_shape = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.kernel_initializer, self.bias_initializer = initializers.get(kernel_initializer), initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = regularizers.get(kernel_regularizer), regularizers.get(bias_regularizer)

    def build(self, input_shape):
        inputs, rest = self.equation.replace(" ", "").split(",")
        kernel, output = rest.split("->")
        own = inputs.replace("...", "")
        sizes = dict(zip(reversed(own), reversed(list(input_shape))))
        out = output.replace("...", "")
        for label, size in zip(reversed(out), reversed(self.partial_output_shape)):
            if size is not None:
                sizes[label] = size
        self.kernel = self.add_weight(tuple(sizes[l] for l in kernel), self.kernel_initializer, regularizer=self.kernel_regularizer, name="kernel")
        if self.bias_axes:
            first = min(out.index(a) for a in self.bias_axes)
            shape = tuple(sizes[l] if l in self.bias_axes else 1 for l in out[first:])
            self.bias = self.add_weight(shape, self.bias_initializer, regularizer=self.bias_regularizer, name="bias")
        else:
            self.bias = None
        self.built = True

    def call(self, inputs, training=None):
        y = _ops.einsum(self.equation, inputs, self.kernel)
        return self.activation(y if self.bias is None else y + self.bias)


class Embedding(Layer):
    """Rows of a table, by their numbers."""

    def __init__(self, input_dim, output_dim, embeddings_initializer="uniform", embeddings_regularizer=None, embeddings_constraint=None, mask_zero=False, weights=None, lora_rank=None, lora_alpha=None, input_length=None, **kwargs):
        if input_length is not None and "input_shape" not in kwargs:
            kwargs["input_shape"] = (input_length,) if isinstance(input_length, int) else tuple(input_length)
        super().__init__(**kwargs)
        if weights is not None:
            self._tandem_initial_weights = weights if isinstance(weights, list) else [weights]
        self.input_dim, self.output_dim, self.mask_zero = int(input_dim), int(output_dim), mask_zero
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.embeddings_regularizer, self.embeddings_constraint = regularizers.get(embeddings_regularizer), constraints.get(embeddings_constraint)
        self.supports_masking = mask_zero
        self.autocast = False

    def build(self, input_shape=None):
        self.embeddings = self.add_weight((self.input_dim, self.output_dim), self.embeddings_initializer, regularizer=self.embeddings_regularizer, constraint=self.embeddings_constraint, name="embeddings")
        self.built = True

    def call(self, inputs):
        x = _tandem.convert(inputs)
        if x._code not in (5, 6):
            x = _tandem.cast(x, 5)
        return _tandem.gather(self.embeddings, x, 0)

    def compute_mask(self, inputs, mask=None):
        return _tandem.not_equal(inputs, 0) if self.mask_zero and not hasattr(type(inputs), "_tandem_symbolic") else None


class Activation(Layer):
    def __init__(self, activation, **kwargs):
        super().__init__(**kwargs)
        self.activation = activations.get(activation)
        self.supports_masking = True

    def call(self, inputs):
        return self.activation(inputs)


class Lambda(Layer):
    def __init__(self, function, output_shape=None, mask=None, arguments=None, **kwargs):
        super().__init__(**kwargs)
        self.function, self._output_shape, self.arguments = function, output_shape, arguments or {}

    def call(self, inputs, mask=None, training=None):
        from tandem.keras._calls import _parameters

        names, _, _ = _parameters(self.function)
        extra = dict(self.arguments)
        if "training" in names:
            extra["training"] = training
        return self.function(inputs, **extra)


class Identity(Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return inputs


class Masking(Layer):
    def __init__(self, mask_value=0.0, **kwargs):
        super().__init__(**kwargs)
        self.mask_value = mask_value
        self.supports_masking = True

    def compute_mask(self, inputs, mask=None):
        if hasattr(type(inputs), "_tandem_symbolic"):
            return None
        return _tandem.reduce_any(_tandem.not_equal(inputs, self.mask_value), -1, False)

    def call(self, inputs):
        keep = _tandem.reduce_any(_tandem.not_equal(inputs, self.mask_value), -1, True)
        return inputs * _tandem.cast(keep, inputs._code)


# ---- Shapes ----


class Flatten(Layer):
    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)

    def call(self, inputs):
        x = _tandem.convert(inputs)
        if x._rank == 1:
            return _tandem.expand_dims(x, -1)
        count = 1
        for size in x._sizes[1:]:
            count *= int(size)
        return _tandem.reshape(x, (x._sizes[0], count))


class Reshape(Layer):
    def __init__(self, target_shape, **kwargs):
        super().__init__(**kwargs)
        self.target_shape = (target_shape,) if isinstance(target_shape, int) else tuple(target_shape)

    def call(self, inputs):
        x = _tandem.convert(inputs)
        target = list(self.target_shape)
        if -1 in target or None in target:
            count = 1
            for size in x._sizes[1:]:
                count *= int(size)
            known = 1
            for size in target:
                known *= size if size not in (-1, None) else 1
            target = [count // known if s in (-1, None) else s for s in target]
        return _tandem.reshape(x, [x._sizes[0]] + target)


class Permute(Layer):
    def __init__(self, dims, **kwargs):
        super().__init__(**kwargs)
        self.dims = tuple(dims)

    def call(self, inputs):
        return _tandem.transpose(inputs, [0] + list(self.dims))


class RepeatVector(Layer):
    def __init__(self, n, **kwargs):
        super().__init__(**kwargs)
        self.n = n

    def call(self, inputs):
        x = _tandem.convert(inputs)
        return _tandem.broadcast_to(_tandem.expand_dims(x, 1), [x._sizes[0], self.n, x._sizes[1]])


def _pairs(padding, axes):
    if isinstance(padding, int):
        return [(padding, padding)] * axes
    return [(p, p) if isinstance(p, int) else tuple(p) for p in padding]


class _Padding(Layer):
    _axes = 2

    def __init__(self, padding=1, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.padding = tuple([tuple(padding)]) if self._axes == 1 and isinstance(padding, (tuple, list)) else padding

    def call(self, inputs):
        return _tandem.pad(inputs, [(0, 0)] + _pairs(self.padding, self._axes) + [(0, 0)], 0.0)


class ZeroPadding1D(_Padding):
    _axes = 1


class ZeroPadding2D(_Padding):
    _axes = 2


class ZeroPadding3D(_Padding):
    _axes = 3


class _Cropping(Layer):
    _axes = 2

    def __init__(self, cropping=1, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.cropping = tuple([tuple(cropping)]) if self._axes == 1 and isinstance(cropping, (tuple, list)) else cropping

    def call(self, inputs):
        key = [slice(None)]
        for low, high in _pairs(self.cropping, self._axes):
            key.append(slice(low, -high if high else None))
        return inputs[tuple(key)]


class Cropping1D(_Cropping):
    _axes = 1


class Cropping2D(_Cropping):
    _axes = 2


class Cropping3D(_Cropping):
    _axes = 3


class UpSampling1D(Layer):
    def __init__(self, size=2, **kwargs):
        super().__init__(**kwargs)
        self.size = int(size)

    def call(self, inputs):
        return _ops.repeat(inputs, self.size, axis=1)


class UpSampling2D(Layer):
    def __init__(self, size=(2, 2), data_format=None, interpolation="nearest", **kwargs):
        super().__init__(**kwargs)
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        self.interpolation = interpolation

    def call(self, inputs):
        if self.interpolation == "nearest":
            return _ops.repeat(_ops.repeat(inputs, self.size[0], axis=1), self.size[1], axis=2)
        from tandem import image

        return image.resize(inputs, [int(inputs._sizes[1]) * self.size[0], int(inputs._sizes[2]) * self.size[1]], self.interpolation)


class UpSampling3D(Layer):
    def __init__(self, size=(2, 2, 2), data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.size = (size,) * 3 if isinstance(size, int) else tuple(size)

    def call(self, inputs):
        for axis, n in enumerate(self.size, 1):
            inputs = _ops.repeat(inputs, n, axis=axis)
        return inputs


# ---- Noise ----


class Dropout(Layer):
    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError(f"Invalid value received for argument `rate`. Expected a scalar value between 0 and 1. Received: rate={rate}")
        self.rate, self.noise_shape, self.seed = float(rate), noise_shape, seed
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        if self.noise_shape is None:
            return _tandem.dropout(inputs, self.rate, self.seed)
        sizes = [s if n is None else n for n, s in zip(self.noise_shape, inputs._sizes)]
        ones = _tandem.fill(sizes, 1.0, inputs._code)
        return inputs * _tandem.dropout(ones, self.rate, self.seed)


class _SpatialDropout(Dropout):
    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        sizes = [inputs._sizes[0]] + [1] * (inputs._rank - 2) + [inputs._sizes[-1]]
        return inputs * _tandem.dropout(_tandem.fill(sizes, 1.0, inputs._code), self.rate, self.seed)


class SpatialDropout1D(_SpatialDropout):
    pass


class SpatialDropout2D(_SpatialDropout):
    pass


class SpatialDropout3D(_SpatialDropout):
    pass


class GaussianNoise(Layer):
    def __init__(self, stddev, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.stddev, self.seed = stddev, seed
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or not self.stddev:
            return inputs
        return inputs + _tandem.random_normal(inputs._sizes, 0.0, float(self.stddev), inputs._code, self.seed)


class GaussianDropout(Layer):
    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate, self.seed = rate, seed
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return inputs * _tandem.random_normal(inputs._sizes, 1.0, float(np.sqrt(self.rate / (1 - self.rate))), inputs._code, self.seed)


class AlphaDropout(Layer):
    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate, self.seed = rate, seed
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        alpha = -1.7580993408473766
        keep = _tandem.random_uniform(inputs._sizes, 0.0, 1.0, inputs._code, self.seed) >= float(self.rate)
        a = ((1 - self.rate) * (1 + self.rate * alpha**2)) ** -0.5
        return a * _tandem.where(keep, inputs, _tandem.fill((), alpha, inputs._code)) - a * alpha * self.rate


class ActivityRegularization(Layer):
    def __init__(self, l1=0.0, l2=0.0, **kwargs):
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **kwargs)
        self.l1, self.l2 = l1, l2
        self.supports_masking = True

    def call(self, inputs):
        return inputs


# ---- Activations as layers ----


class ReLU(Layer):
    def __init__(self, max_value=None, negative_slope=0.0, threshold=0.0, **kwargs):
        super().__init__(**kwargs)
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold
        self.supports_masking = True

    def call(self, inputs):
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    def __init__(self, negative_slope=0.3, alpha=None, **kwargs):
        super().__init__(**kwargs)
        self.negative_slope = float(negative_slope if alpha is None else alpha)
        self.supports_masking = True

    def call(self, inputs):
        return activations.leaky_relu(inputs, self.negative_slope)


class ELU(Layer):
    def __init__(self, alpha=1.0, **kwargs):
        super().__init__(**kwargs)
        self.alpha = alpha
        self.supports_masking = True

    def call(self, inputs):
        return activations.elu(inputs, self.alpha)


class PReLU(Layer):
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
    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is not None:
            inputs = inputs + (1.0 - _tandem.cast(mask, inputs._code)) * -3e38 / 2
        return activations.softmax(inputs, self.axis)


class ThresholdedReLU(Layer):
    def __init__(self, theta=1.0, **kwargs):
        super().__init__(**kwargs)
        self.theta = theta

    def call(self, inputs):
        return inputs * _tandem.cast(inputs > float(self.theta), inputs._code)


# ---- Merging ----


class _Merge(Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def _fit(self, inputs):
        rank = max(t._rank for t in inputs)
        fitted = []
        for t in inputs:
            while t._rank < rank:
                t = _tandem.expand_dims(t, 1)
            fitted.append(t)
        return fitted

    def call(self, inputs):
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 1:
            raise ValueError(f"A merge layer should be called on a list of at least 1 input. Received: inputs={inputs}")
        inputs = self._fit([_tandem.convert(t) for t in inputs])
        code = next((t._code for t in inputs if t.dtype.is_floating), inputs[0]._code)
        inputs = [t if t._code == code else _tandem.cast(t, code) for t in inputs]
        return self._merge_function(inputs)

    def _merge_function(self, inputs):
        total = inputs[0]
        for each in inputs[1:]:
            total = self._two(total, each)
        return total

    def compute_mask(self, inputs, mask=None):
        masks = [m for m in mask or () if m is not None] if isinstance(mask, (list, tuple)) else []
        if not masks:
            return None
        total = masks[0]
        for m in masks[1:]:
            total = _tandem.logical_and(total, m)
        return total


class Add(_Merge):
    def _two(self, a, b):
        return a + b


class Subtract(_Merge):
    def _two(self, a, b):
        return a - b


class Multiply(_Merge):
    def _two(self, a, b):
        return a * b


class Maximum(_Merge):
    def _two(self, a, b):
        return _tandem.maximum(a, b)


class Minimum(_Merge):
    def _two(self, a, b):
        return _tandem.minimum(a, b)


class Average(_Merge):
    def _merge_function(self, inputs):
        return _ops.add_n(inputs) / float(len(inputs))


class Concatenate(_Merge):
    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def _merge_function(self, inputs):
        return _tandem.concat(inputs, self.axis)

    def compute_mask(self, inputs, mask=None):
        return None


class Dot(_Merge):
    def __init__(self, axes, normalize=False, **kwargs):
        super().__init__(**kwargs)
        self.axes, self.normalize = axes, normalize

    def call(self, inputs):
        from tandem import nn

        a, b = inputs
        axes = (self.axes, self.axes) if isinstance(self.axes, int) else tuple(self.axes)
        i, j = axes[0] % a._rank, axes[1] % b._rank
        if self.normalize:
            a, b = nn.l2_normalize(a, i), nn.l2_normalize(b, j)
        letters = "abcdefgh"
        first = list("z" + letters[: a._rank - 1])
        second = list("z" + letters[a._rank - 1 : a._rank + b._rank - 2])
        second[j] = first[i]
        out = [l for l in first if l != first[i]] + [l for l in second[1:] if l != first[i]]
        y = _ops.einsum(f"{''.join(first)},{''.join(second)}->{''.join(out)}", a, b)
        return _tandem.expand_dims(y, -1) if y._rank == 1 else y

    def compute_mask(self, inputs, mask=None):
        return None


def _functional(cls):
    def call(inputs, *args, **kwargs):
        return cls(*args, **kwargs)(inputs)

    return call


add, subtract, multiply = _functional(Add), _functional(Subtract), _functional(Multiply)
maximum, minimum, average = _functional(Maximum), _functional(Minimum), _functional(Average)


def concatenate(inputs, axis=-1, **kwargs):
    return Concatenate(axis, **kwargs)(inputs)


def dot(inputs, axes=-1, **kwargs):
    return Dot(axes, **kwargs)(inputs)


# ---- Wrappers ----


class Wrapper(Layer):
    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape=None):
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        self.built = True


class TimeDistributed(Wrapper):
    """A layer at each step of a sequence."""

    def build(self, input_shape):
        self.built = True

    def call(self, inputs, training=None, mask=None):
        from tandem.keras._calls import _parameters

        x = _tandem.convert(inputs)
        rows, steps, rest = x._sizes[0], int(x._sizes[1]), list(x._sizes[2:])
        flat = _tandem.reshape(x, [rows.times(steps) if isinstance(rows, _tandem.Size) else rows * steps] + rest)
        y = self.layer(flat, training=training) if "training" in _parameters(self.layer.call)[0] else self.layer(flat)
        return _tandem.reshape(y, [rows, steps] + list(y._sizes[1:]))


class SpectralNormalization(Wrapper):
    def __init__(self, layer, power_iterations=1, **kwargs):
        super().__init__(layer, **kwargs)
        self.power_iterations = power_iterations

    def build(self, input_shape):
        super().build(input_shape)
        self.vector_u = self.add_weight((1, int(self.layer.kernel.shape[-1])), "truncated_normal", trainable=False, name="vector_u")

    def call(self, inputs, training=False):
        kernel = self.layer.kernel
        if training:
            w = _tandem.reshape(kernel.read_value(), (-1, int(kernel.shape[-1])))
            u = self.vector_u.read_value()
            unit = lambda t: t * _tandem.rsqrt(_tandem.maximum(_tandem.reduce_sum(t * t, None, False), 1e-12))  # noqa: E731
            for _ in range(self.power_iterations):
                v = unit(_tandem.matmul(u, w, False, True))
                u = unit(_tandem.matmul(v, w, False, False))
            u, v = _tandem.stop_gradient(u), _tandem.stop_gradient(v)
            sigma = _tandem.matmul(_tandem.matmul(v, w, False, False), u, False, True)
            self.vector_u.assign(u)
            kernel.assign(kernel.read_value() / _tandem.reshape(sigma, ()))
        return self.layer(inputs)


class TFSMLayer(Layer):
    """A model that was saved into a folder, as a layer: see tf.saved_model."""

    def __init__(self, filepath, call_endpoint="serve", call_training_endpoint=None, trainable=True, name=None, dtype=None):
        super().__init__(trainable=trainable, name=name, dtype=dtype)
        from tandem import saved_model

        self.filepath, self.call_endpoint = filepath, call_endpoint
        loaded = saved_model.load(filepath)
        self._loaded = loaded._model
        self._endpoint = loaded.signatures.get(call_endpoint, loaded)
        self.built = True

    def call(self, inputs, training=False):
        return self._endpoint(inputs)
