"""Convolutions and poolings."""

import numpy as np

import _tandem
from tandem import _ops
from tandem.keras import _convolution, _objects, activations, constraints, initializers, regularizers
from tandem.keras._calls import InputSpec
from tandem.keras._layer import Layer
from tandem.keras.layers._formats import channels_of, format_of, from_last, to_last
from tandem.keras.layers.core import floating


def _sizes(value, count, name):
    if isinstance(value, (int, np.integer)):
        return (int(value),) * count
    value = tuple(int(v) for v in value)
    if len(value) != count:
        raise ValueError(f"The `{name}` argument must be a tuple of {count} integers. Received: {value}")
    return value


def _padding_of(padding, may_be_causal=False):
    """One of the names of paddings, in small letters."""
    names = {"valid", "same", "causal"} if may_be_causal else {"valid", "same"}
    if not isinstance(padding, str) or padding.lower() not in names:
        raise ValueError(f"The `padding` argument must be one of {sorted(names)}. Received: {padding}")
    return padding.lower()


class _Conv(Layer):
    _rank = 2

    def __init__(self, filters, kernel_size, strides=1, padding="valid", data_format=None, dilation_rate=1, groups=1, activation=None, use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.filters, self.groups = int(filters) if filters is not None else None, groups
        self.kernel_size = _sizes(kernel_size, self._rank, "kernel_size")
        self.strides, self.dilation_rate = _sizes(strides, self._rank, "strides"), _sizes(dilation_rate, self._rank, "dilation_rate")
        self.padding, self.data_format = _padding_of(padding, self._rank == 1 or isinstance(self, DepthwiseConv1D)), format_of(data_format)
        self.activation, self.use_bias = activations.get(activation), use_bias
        self.kernel_initializer, self.bias_initializer = initializers.get(kernel_initializer), initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = regularizers.get(kernel_regularizer), regularizers.get(bias_regularizer)
        self.kernel_constraint, self.bias_constraint = constraints.get(kernel_constraint), constraints.get(bias_constraint)
        self.input_spec = InputSpec(min_ndim=self._rank + 2)

    def _kernel_shape(self, channels):
        if channels % self.groups:
            raise ValueError(f"The number of input channels must be evenly divisible by the number of groups. Received groups={self.groups}, but the input has {channels} channels.")
        return self.kernel_size + (channels // self.groups, self.filters)

    def build(self, input_shape):
        if len(input_shape) != self._rank + 2:
            raise ValueError(f"Input 0 of layer \"{self.name}\" is incompatible with the layer: expected ndim={self._rank + 2}, found ndim={len(input_shape)}. Full shape received: {tuple(input_shape)}")
        self.kernel = self.add_weight(self._kernel_shape(channels_of(input_shape, self.data_format)), self.kernel_initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, name="kernel")
        self.bias = self.add_weight((self.filters,), self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias") if self.use_bias else None
        self.input_spec = InputSpec(min_ndim=self._rank + 2, axes={1 if self.data_format == "channels_first" else -1: channels_of(input_shape, self.data_format)})
        self.built = True

    def convolution_op(self, inputs, kernel):
        """The convolution alone: what subclasses call with a kernel of their own."""
        return _tandem.conv2d(inputs, kernel, self.strides, self.padding, self.dilation_rate, self.groups)

    def call(self, inputs):
        y = self.convolution_op(to_last(floating(_tandem.convert(inputs)), self.data_format), self.kernel)
        if self.use_bias:
            y = y + self.bias
        return self.activation(from_last(y, self.data_format))


class Conv2D(_Conv):
    """Images [batch, height, width, channels] with filters laid over them."""

    def __init__(self, filters, kernel_size, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1), groups=1, activation=None, use_bias=True, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, groups, activation, use_bias, **kwargs)


class Conv1D(_Conv):
    """Sequences [batch, steps, channels] with filters laid over them."""

    _rank = 1

    def convolution_op(self, inputs, kernel):
        x, padding = inputs, self.padding
        if padding == "causal":
            x = _tandem.pad(x, [(0, 0), ((self.kernel_size[0] - 1) * self.dilation_rate[0], 0), (0, 0)], 0.0)
            padding = "valid"
        y = _tandem.conv2d(_tandem.expand_dims(x, 1), _tandem.expand_dims(kernel, 0), (1, self.strides[0]), padding, (1, self.dilation_rate[0]), self.groups)
        return _tandem.squeeze(y, [1])


class Conv3D(_Conv):
    """Volumes: the sum over the depth of the filter of convolutions of images."""

    _rank = 3

    def __init__(self, filters, kernel_size, strides=(1, 1, 1), padding="valid", data_format=None, dilation_rate=(1, 1, 1), groups=1, activation=None, use_bias=True, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, groups, activation, use_bias, **kwargs)

    def convolution_op(self, inputs, kernel):
        x = inputs
        rows, depth, height, width, channels = x._sizes
        kd, stride, dilation = self.kernel_size[0], self.strides[0], self.dilation_rate[0]
        span = (kd - 1) * dilation + 1
        if self.padding == "same":
            out = -(-depth // stride)
            total = max((out - 1) * stride + span - depth, 0)
            x = _tandem.pad(x, [(0, 0), (total // 2, total - total // 2), (0, 0), (0, 0), (0, 0)], 0.0)
            depth = depth + total
        out = (depth - span) // stride + 1
        total = None
        for k in range(kd):
            part = x[:, k * dilation : k * dilation + (out - 1) * stride + 1 : stride]
            flat = _tandem.reshape(part, [rows.times(out) if isinstance(rows, _tandem.Size) else rows * out, height, width, channels])
            y = _tandem.conv2d(flat, kernel[k], self.strides[1:], self.padding, self.dilation_rate[1:], self.groups)
            total = y if total is None else total + y
        return _tandem.reshape(total, [rows, out] + list(total._sizes[1:]))


class Conv2DTranspose(_Conv):
    """The way back of a convolution."""

    def __init__(self, filters, kernel_size, strides=(1, 1), padding="valid", output_padding=None, data_format=None, dilation_rate=(1, 1), activation=None, use_bias=True, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias, **kwargs)
        self.output_padding = None if output_padding is None else _sizes(output_padding, 2, "output_padding")

    def _kernel_shape(self, channels):
        return self.kernel_size + (self.filters, channels)

    def convolution_op(self, inputs, kernel):
        return _convolution.transposed(inputs, kernel, self.strides, self.padding, None, self.dilation_rate, self.output_padding)


class Conv1DTranspose(_Conv):
    """A transposed convolution of sequences, which makes them longer."""

    _rank = 1

    def __init__(self, filters, kernel_size, strides=1, padding="valid", output_padding=None, data_format=None, dilation_rate=1, activation=None, use_bias=True, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias, **kwargs)
        self.output_padding = None if output_padding is None else (0, *_sizes(output_padding, 1, "output_padding"))

    def _kernel_shape(self, channels):
        return self.kernel_size + (self.filters, channels)

    def convolution_op(self, inputs, kernel):
        y = _convolution.transposed(_tandem.expand_dims(inputs, 1), _tandem.expand_dims(kernel, 0), (1, self.strides[0]), self.padding, None, (1, self.dilation_rate[0]), self.output_padding)
        return _tandem.squeeze(y, [1])


class DepthwiseConv2D(_Conv):
    """Convolves each channel of images with kernels of its own."""

    def __init__(self, kernel_size, strides=(1, 1), padding="valid", depth_multiplier=1, data_format=None, dilation_rate=(1, 1), activation=None, use_bias=True, depthwise_initializer="glorot_uniform", bias_initializer="zeros", depthwise_regularizer=None, bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, bias_constraint=None, **kwargs):
        super().__init__(None, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias, depthwise_initializer, bias_initializer, depthwise_regularizer, bias_regularizer, activity_regularizer, depthwise_constraint, bias_constraint, **kwargs)
        self.depth_multiplier, self.depthwise_initializer = depth_multiplier, self.kernel_initializer

    def build(self, input_shape):
        self.filters = channels_of(input_shape, self.data_format) * self.depth_multiplier
        super().build(input_shape)
        self.depthwise_kernel = self.kernel

    def _kernel_shape(self, channels):
        return self.kernel_size + (channels, self.depth_multiplier)

    def convolution_op(self, inputs, kernel):
        return _tandem.depthwise_conv2d(inputs, kernel, self.strides, self.padding, self.dilation_rate)


class DepthwiseConv1D(DepthwiseConv2D):
    """Convolves each channel of sequences with kernels of its own."""

    _rank = 1

    def __init__(self, kernel_size, strides=1, padding="valid", depth_multiplier=1, data_format=None, dilation_rate=1, **kwargs):
        super().__init__(kernel_size, strides, padding, depth_multiplier, data_format, dilation_rate, **kwargs)

    def convolution_op(self, inputs, kernel):
        y = _tandem.depthwise_conv2d(_tandem.expand_dims(inputs, 1), _tandem.expand_dims(kernel, 0), (1, self.strides[0]), self.padding, (1, self.dilation_rate[0]))
        return _tandem.squeeze(y, [1])


class SeparableConv2D(Layer):
    """A depthwise convolution of images, then one of single pixels over channels."""

    _rank = 2

    def __init__(self, filters, kernel_size, strides=1, padding="valid", data_format=None, dilation_rate=1, depth_multiplier=1, activation=None, use_bias=True, depthwise_initializer="glorot_uniform", pointwise_initializer="glorot_uniform", bias_initializer="zeros", depthwise_regularizer=None, pointwise_regularizer=None, bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, pointwise_constraint=None, bias_constraint=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.data_format = format_of(data_format)
        self.filters, self.depth_multiplier = int(filters), depth_multiplier
        self.kernel_size, self.strides, self.dilation_rate = (_sizes(v, self._rank, n) for v, n in ((kernel_size, "kernel_size"), (strides, "strides"), (dilation_rate, "dilation_rate")))
        self.padding, self.activation, self.use_bias = padding.lower(), activations.get(activation), use_bias
        self.depthwise_initializer, self.pointwise_initializer, self.bias_initializer = (initializers.get(i) for i in (depthwise_initializer, pointwise_initializer, bias_initializer))
        self.depthwise_regularizer, self.pointwise_regularizer, self.bias_regularizer = (regularizers.get(i) for i in (depthwise_regularizer, pointwise_regularizer, bias_regularizer))
        self.depthwise_constraint, self.pointwise_constraint, self.bias_constraint = (constraints.get(i) for i in (depthwise_constraint, pointwise_constraint, bias_constraint))

    def build(self, input_shape):
        channels = channels_of(input_shape, self.data_format)
        self.depthwise_kernel = self.add_weight(self.kernel_size + (channels, self.depth_multiplier), self.depthwise_initializer, regularizer=self.depthwise_regularizer, constraint=self.depthwise_constraint, name="depthwise_kernel")
        self.pointwise_kernel = self.add_weight((1,) * self._rank + (channels * self.depth_multiplier, self.filters), self.pointwise_initializer, regularizer=self.pointwise_regularizer, constraint=self.pointwise_constraint, name="pointwise_kernel")
        self.bias = self.add_weight((self.filters,), self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias") if self.use_bias else None
        self.built = True

    def call(self, inputs):
        x = to_last(floating(_tandem.convert(inputs)), self.data_format)
        if self._rank == 1:
            wide = lambda t: _tandem.expand_dims(t, 0)  # noqa: E731
            y = _tandem.depthwise_conv2d(_tandem.expand_dims(x, 1), wide(self.depthwise_kernel), (1, self.strides[0]), self.padding, (1, self.dilation_rate[0]))
            y = _tandem.squeeze(_tandem.conv2d(y, wide(self.pointwise_kernel), (1, 1), "valid", (1, 1), 1), [1])
        else:
            y = _tandem.depthwise_conv2d(x, self.depthwise_kernel, self.strides, self.padding, self.dilation_rate)
            y = _tandem.conv2d(y, self.pointwise_kernel, (1, 1), "valid", (1, 1), 1)
        return self.activation(from_last(y if self.bias is None else y + self.bias, self.data_format))


class SeparableConv1D(SeparableConv2D):
    """A depthwise convolution of sequences, then one of single steps over channels."""

    _rank = 1


# ---- Pooling ----


class _Pooling(Layer):
    _is_built_at_once = True

    _rank, _op = 2, None

    def __init__(self, pool_size=2, strides=None, padding="valid", data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = format_of(data_format)
        self.pool_size = _sizes(pool_size, self._rank, "pool_size")
        self.strides = self.pool_size if strides is None else _sizes(strides, self._rank, "strides")
        self.padding = padding.lower()
        self.input_spec = InputSpec(ndim=self._rank + 2)

    def call(self, inputs):
        x = to_last(inputs, self.data_format)
        y = self._pooled(x) if x.dtype.is_floating else _tandem.cast(self._pooled(_tandem.cast(x, 1)), x._code)
        return from_last(y, self.data_format)

    def _pooled(self, inputs):
        if self._rank == 1:
            y = type(self)._op(_tandem.expand_dims(inputs, 1), (1, self.pool_size[0]), (1, self.strides[0]), self.padding)
            return _tandem.squeeze(y, [1])
        if self._rank == 2:
            return type(self)._op(inputs, self.pool_size, self.strides, self.padding)
        rows, depth, height, width, channels = inputs._sizes
        times = lambda n: rows.times(n) if isinstance(rows, _tandem.Size) else rows * n  # noqa: E731
        flat = _tandem.reshape(inputs, [times(depth), height, width, channels])
        y = type(self)._op(flat, self.pool_size[1:], self.strides[1:], self.padding)
        h, w = y._sizes[1:3]
        y = _tandem.reshape(y, [rows, depth, h * w, channels])
        y = type(self)._op(y, (self.pool_size[0], 1), (self.strides[0], 1), self.padding)
        return _tandem.reshape(y, [rows, y._sizes[1], h, w, channels])


class MaxPooling2D(_Pooling):
    """The maximum of each window of images."""

    _op = staticmethod(_tandem.max_pool2d)


class AveragePooling2D(_Pooling):
    """The mean of each window of images."""

    _op = staticmethod(_tandem.avg_pool2d)


class MaxPooling1D(_Pooling):
    """The maximum of each window of sequences."""

    _rank, _op = 1, staticmethod(_tandem.max_pool2d)


class AveragePooling1D(_Pooling):
    """The mean of each window of sequences."""

    _rank, _op = 1, staticmethod(_tandem.avg_pool2d)


class MaxPooling3D(_Pooling):
    """The maximum of each window of volumes."""

    _rank, _op = 3, staticmethod(_tandem.max_pool2d)


class AveragePooling3D(_Pooling):
    """The mean of each window of volumes."""

    _rank, _op = 3, staticmethod(_tandem.avg_pool2d)


class _GlobalPooling(Layer):
    _is_built_at_once = True

    _axes, _op = [1, 2], None

    def __init__(self, data_format=None, keepdims=False, **kwargs):
        super().__init__(**kwargs)
        self.data_format, self.keepdims = format_of(data_format), keepdims
        self.input_spec = InputSpec(ndim=len(self._axes) + 2)

    def call(self, inputs):
        axes = [axis + 1 for axis in self._axes] if self.data_format == "channels_first" else list(self._axes)
        if hasattr(inputs, "_ragged_rows"):
            return getattr(_ops, type(self)._op.__name__)(inputs, axes, self.keepdims)
        return type(self)._op(inputs, axes, self.keepdims)


class GlobalAveragePooling2D(_GlobalPooling):
    """The mean of each channel over a whole image."""

    _op = staticmethod(_tandem.reduce_mean)


class GlobalMaxPooling2D(_GlobalPooling):
    """The maximum of each channel over a whole image."""

    _op = staticmethod(_tandem.reduce_max)


class GlobalAveragePooling1D(_GlobalPooling):
    """The mean of each channel over a whole sequence, without masked steps."""

    _axes, _op = [1], staticmethod(_tandem.reduce_mean)

    def __init__(self, data_format=None, keepdims=False, **kwargs):
        super().__init__(data_format, keepdims, **kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is None:
            return super().call(inputs)
        steps = 2 if self.data_format == "channels_first" else 1
        weight = _tandem.expand_dims(_tandem.cast(mask, inputs._code), 3 - steps)
        return _tandem.reduce_sum(inputs * weight, steps, self.keepdims) / _tandem.reduce_sum(weight, steps, self.keepdims)

    def compute_mask(self, inputs, mask=None):
        return None


class GlobalMaxPooling1D(_GlobalPooling):
    """The maximum of each channel over a whole sequence."""

    _axes, _op = [1], staticmethod(_tandem.reduce_max)


class GlobalAveragePooling3D(_GlobalPooling):
    """The mean of each channel over a whole volume."""

    _axes, _op = [1, 2, 3], staticmethod(_tandem.reduce_mean)


class GlobalMaxPooling3D(_GlobalPooling):
    """The maximum of each channel over a whole volume."""

    _axes, _op = [1, 2, 3], staticmethod(_tandem.reduce_max)


MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalAveragePooling3D
GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution2DTranspose, SeparableConvolution2D = Conv2DTranspose, SeparableConv2D
Convolution1DTranspose, SeparableConvolution1D = Conv1DTranspose, SeparableConv1D

_OF_KERNELS = "kernel_initializer='glorot_uniform', bias_initializer='zeros', kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None"
_objects.sign(globals(), {
    "Conv1DTranspose": f"filters, kernel_size, strides=1, padding='valid', output_padding=None, data_format=None, dilation_rate=1, activation=None, use_bias=True, {_OF_KERNELS}",
    "Conv2D": f"filters, kernel_size, strides=(1, 1), padding='valid', data_format=None, dilation_rate=(1, 1), groups=1, activation=None, use_bias=True, {_OF_KERNELS}",
    "Conv2DTranspose": f"filters, kernel_size, strides=(1, 1), padding='valid', output_padding=None, data_format=None, dilation_rate=(1, 1), activation=None, use_bias=True, {_OF_KERNELS}",
    "Conv3D": f"filters, kernel_size, strides=(1, 1, 1), padding='valid', data_format=None, dilation_rate=(1, 1, 1), groups=1, activation=None, use_bias=True, {_OF_KERNELS}",
    "DepthwiseConv1D": "kernel_size, strides=1, padding='valid', depth_multiplier=1, data_format=None, dilation_rate=1, activation=None, use_bias=True, depthwise_initializer='glorot_uniform', bias_initializer='zeros', depthwise_regularizer=None, bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, bias_constraint=None",
})
