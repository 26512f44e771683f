"""Convolutions of volumes and of sequences in layers that exist for images: transposed ones, and inside of LSTMs."""

import _tandem
from tandem.keras import _convolution
from tandem.keras.layers.convolution import Conv3D, _Conv, _sizes
from tandem.keras.layers.recurrent import ConvLSTM2D


class Conv3DTranspose(_Conv):
    """A transposed convolution of volumes, which makes them larger."""

    _rank = 3

    def __init__(self, filters, kernel_size, strides=(1, 1, 1), padding="valid", data_format=None, output_padding=None, dilation_rate=(1, 1, 1), activation=None, use_bias=True, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias, **kwargs)
        self.output_padding = None if output_padding is None else _sizes(output_padding, 3, "output_padding")

    def _kernel_shape(self, channels):
        return self.kernel_size + (self.filters, channels)

    def convolution_op(self, inputs, kernel):
        return _convolution.transposed_volumes(inputs, kernel, self.strides, self.padding, None, self.dilation_rate, self.output_padding)


Convolution3DTranspose = Conv3DTranspose


class ConvLSTM1D(ConvLSTM2D):
    """An LSTM whose products are convolutions of sequences."""

    _rank = 1

    def _convolved(self, x, kernel, strides, padding, dilations):
        y = _tandem.conv2d(_tandem.expand_dims(x, 1), _tandem.expand_dims(kernel, 0), (1, strides[0]), padding, (1, dilations[0]), 1)
        return _tandem.squeeze(y, [1])


class ConvLSTM3D(ConvLSTM2D):
    """An LSTM whose products are convolutions of volumes."""

    _rank = 3

    def _convolved(self, x, kernel, strides, padding, dilations):
        layer = Conv3D(int(kernel._sizes[-1]), tuple(int(s) for s in kernel._sizes[:3]), strides=tuple(strides), padding=padding, dilation_rate=tuple(dilations), use_bias=False, kernel_initializer="zeros", name="conv")
        return layer.convolution_op(x, kernel)
