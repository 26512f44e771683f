"""Convolutions that the library has no op for, composed of those it has."""

import math

import _tandem


def _dilated(x, strides):
    """Zeros between the pixels of images, so many that a step over them is one pixel."""
    for axis, stride in enumerate(strides, 1):
        if stride == 1:
            continue
        sizes = list(x._sizes)
        pads = [[0, 0]] * (x._rank + 1)
        pads[axis + 1] = [0, stride - 1]
        x = _tandem.pad(_tandem.expand_dims(x, axis + 1), pads, 0.0)
        sizes[axis] = int(sizes[axis]) * stride
        x = _tandem.reshape(x, sizes)
    return x


def output_length(length, kernel, stride, padding, output_padding=None, dilation=1):
    """The size of an axis after a transposed convolution."""
    kernel = (kernel - 1) * dilation + 1
    if output_padding is None:
        return length * stride + max(kernel - stride, 0) if padding == "valid" else length * stride
    pad = kernel // 2 if padding == "same" else 0
    return (length - 1) * stride + kernel - 2 * pad + output_padding


def _by_phases(convolve, x, kernel, strides, befores, outs):
    """A transposed convolution with steps, as one convolution without: its channels are the pixels of a step, which are put in their places then.

    Pixel s * q + m of the whole result, in front of which `before` pixels are cut off, is the sum over j of x[q - j] kernel[m + s * j].
    """
    axes = range(len(strides))
    taps = [-(-int(k) // s) for k, s in zip(kernel._sizes, strides)]
    places = [-(-(before + out) // s) for before, out, s in zip(befores, outs, strides)]
    seen = [min(int(n), q) for n, q in zip(x._sizes[1:], places)]
    out, into = (int(n) for n in kernel._sizes[-2:])
    kernel = _tandem.pad(kernel, [*((0, j * s - int(k)) for j, s, k in zip(taps, strides, kernel._sizes)), (0, 0), (0, 0)], 0.0)
    kernel = _tandem.reshape(kernel, [*(n for pair in zip(taps, strides) for n in pair), out, into])
    kernel = kernel[tuple(part for _ in axes for part in (slice(None, None, -1), slice(None)))]
    last = 2 * len(strides)
    kernel = _tandem.transpose(kernel, [*(2 * i for i in axes), last + 1, *(2 * i + 1 for i in axes), last])
    kernel = _tandem.reshape(kernel, [*taps, into, math.prod(strides) * out])
    pads = [(j - 1, q - length) for j, q, length in zip(taps, places, seen)]
    y = convolve(x[(slice(None), *(slice(0, length) for length in seen))], kernel, pads)
    y = _tandem.reshape(y, [x._sizes[0], *places, *strides, out])
    y = _tandem.transpose(y, [0, *(n for i in axes for n in (1 + i, 1 + len(strides) + i)), last + 1])
    y = _tandem.reshape(y, [x._sizes[0], *(q * s for q, s in zip(places, strides)), out])
    return y[(slice(None), *(slice(before, before + size) for before, size in zip(befores, outs)))]


def _convolve_images(x, kernel, pads):
    return _tandem.conv2d(x, kernel, [1, 1], [n for pair in pads for n in pair], [1, 1], 1)


def _convolve_volumes(x, kernel, pads, dilations=(1, 1, 1)):
    from tandem.keras.layers import Conv3D

    layer = Conv3D(int(kernel._sizes[-1]), tuple(int(s) for s in kernel._sizes[:3]), dilation_rate=tuple(dilations), use_bias=False)
    return layer.convolution_op(_tandem.pad(x, [(0, 0), *pads, (0, 0)], 0.0), kernel)


def transposed(x, kernel, strides, padding, output_sizes=None, dilations=(1, 1), output_padding=None):
    """The gradient of a convolution as an op of its own: `kernel` is [height, width, out, in]."""
    x, kernel = _tandem.convert(x), _tandem.convert(kernel)
    height, width = int(x._sizes[1]), int(x._sizes[2])
    kh, kw = int(kernel._sizes[0]), int(kernel._sizes[1])
    pads, befores, outs = [], [], []
    for i, (length, k) in enumerate(((height, kh), (width, kw))):
        stride, dilation = strides[i], dilations[i]
        own = None if output_padding is None else output_padding[i]
        k = (k - 1) * dilation + 1
        out = output_length(length, k, stride, padding, own) if output_sizes is None or output_sizes[i] is None else int(output_sizes[i])
        # The padding that the convolution from `out` to `length` would have.
        total = max((length - 1) * stride + k - out, 0)
        before = total // 2 if padding == "same" else 0
        low = k - 1 - before
        high = out + k - 1 - low - length * stride
        pads.append((low, high))
        befores.append(before)
        outs.append(out)
    if max(strides) > 1 and max(dilations) == 1:
        return _by_phases(_convolve_images, x, kernel, [int(s) for s in strides], befores, outs)
    wide = _dilated(x, strides)
    # Zeros behind the last pixel may be too many: they are cut off.
    cut = [slice(None)] * 4
    for axis, (low, high) in enumerate(pads, 1):
        if high < 0:
            cut[axis] = slice(None, int(wide._sizes[axis]) + high)
        if low < 0:
            cut[axis] = slice(-low, cut[axis].stop)
    if any(c != slice(None) for c in cut):
        wide = wide[tuple(cut)]
    pads = [(max(low, 0), max(high, 0)) for low, high in pads]
    turned = _tandem.transpose(kernel[::-1, ::-1], [0, 1, 3, 2])
    return _tandem.conv2d(wide, turned, [1, 1], [pads[0][0], pads[0][1], pads[1][0], pads[1][1]], list(dilations), 1)


def transposed_volumes(x, kernel, strides, padding, output_sizes=None, dilations=(1, 1, 1), output_padding=None):
    """The gradient of a convolution of volumes: `kernel` is [depth, height, width, out, in]."""
    x, kernel = _tandem.convert(x), _tandem.convert(kernel)
    pads, cut, befores, outs = [], [slice(None)], [], []
    for i in range(3):
        length, k, stride = int(x._sizes[i + 1]), (int(kernel._sizes[i]) - 1) * dilations[i] + 1, strides[i]
        own = None if output_padding is None else output_padding[i]
        out = output_length(length, k, stride, padding, own) if output_sizes is None or output_sizes[i] is None else int(output_sizes[i])
        before = max((length - 1) * stride + k - out, 0) // 2 if padding == "same" else 0
        low = k - 1 - before
        high = out + k - 1 - low - length * stride
        cut.append(slice(max(-low, 0), length * stride + min(high, 0)))
        pads.append((max(low, 0), max(high, 0)))
        befores.append(before)
        outs.append(out)
    if max(strides) > 1 and max(dilations) == 1:
        return _by_phases(_convolve_volumes, x, kernel, [int(s) for s in strides], befores, outs)
    turned = _tandem.transpose(kernel[::-1, ::-1, ::-1], [0, 1, 2, 4, 3])
    return _convolve_volumes(_dilated(x, strides)[tuple(cut)], turned, pads, dilations)
