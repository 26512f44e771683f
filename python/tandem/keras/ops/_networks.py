"""Convolutions and pooling by Keras's names: of sequences, images and volumes, with channels last or first."""

import numpy as np

import _tandem
from tandem import _ops
from tandem._ops import op
from tandem.keras import ops as o
from tandem.keras.layers._formats import format_of, from_last, to_last

_c = _tandem.convert


def _all(v, n):
    return (int(v),) * n if isinstance(v, (int, np.integer)) else tuple(int(s) for s in v)


def _formatted(f):
    """The op of tensors whose channels are last, for either format."""

    def call(inputs, *args, data_format=None, **kwargs):
        data_format = format_of(data_format)
        x = to_last(inputs, data_format)
        if x._rank not in (3, 4, 5):
            raise ValueError(f"keras.ops.{f.__name__}: the inputs are of the shape {tuple(x.shape)}; sequences, images and volumes are accepted, with a batch before them")
        return from_last(f(x, x._rank - 2, *args, **kwargs), data_format)

    return call


@_formatted
def _conv(x, rank, kernel, strides, padding, dilation_rate):
    from tandem import nn
    from tandem.keras.layers import Conv3D

    kernel, strides, dilations = _c(kernel), _all(strides, rank), _all(dilation_rate, rank)
    if rank == 1:
        return nn.conv1d(x, kernel, strides[0], padding.upper(), dilations=dilations[0])
    if rank == 2:
        return nn.conv2d(x, kernel, strides, padding.upper(), dilations=dilations)
    layer = Conv3D(int(kernel._sizes[-1]), tuple(int(s) for s in kernel._sizes[:3]), strides, padding, dilation_rate=dilations, use_bias=False, name="conv")
    return layer.convolution_op(x, kernel)


@op
def conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    """A convolution of sequences, images or volumes."""
    return _conv(inputs, kernel, strides, padding, dilation_rate, data_format=data_format)


@_formatted
def _pool(x, rank, kind, pool_size, strides, padding):
    from tandem.keras import layers

    sizes = _all(o._pair(pool_size, rank), rank)
    strides = sizes if strides is None else _all(o._pair(strides, rank), rank)
    one = lambda v: v[0] if rank == 1 else v  # noqa: E731
    layer = getattr(layers, f"{kind}Pooling{rank}D")(one(sizes), one(strides), padding, data_format="channels_last", name="pool")
    return layer.call(x)


@op
def max_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    """The maximum of each window."""
    return _pool(inputs, "Max", pool_size, strides, padding, data_format=data_format)


@op
def average_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    """The mean of each window."""
    return _pool(inputs, "Average", pool_size, strides, padding, data_format=data_format)


@_formatted
def _depthwise(x, rank, kernel, strides, padding, dilation_rate):
    if rank == 3:
        raise NotImplementedError("keras.ops.depthwise_conv: volumes; sequences and images are accepted")
    kernel, strides, dilations = _c(kernel), _all(strides, rank), _all(dilation_rate, rank)
    if rank == 1:
        y = _tandem.depthwise_conv2d(_tandem.expand_dims(x, 1), _tandem.expand_dims(kernel, 0), [strides[0]] * 2, padding.lower(), [1, dilations[0]])
        return _tandem.squeeze(y, [1])
    return _tandem.depthwise_conv2d(x, kernel, list(strides), padding.lower(), list(dilations))


@op
def depthwise_conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    """Convolves each channel with kernels of its own."""
    return _depthwise(inputs, kernel, strides, padding, dilation_rate, data_format=data_format)


@op
def separable_conv(inputs, depthwise_kernel, pointwise_kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    """A depthwise convolution, then one of single places over channels."""
    return conv(depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate), pointwise_kernel, data_format=data_format)


@_formatted
def _transposed(x, rank, kernel, strides, padding, output_padding, dilation_rate):
    from tandem.keras._convolution import transposed, transposed_volumes

    kernel, strides, dilations = _c(kernel), _all(strides, rank), _all(dilation_rate, rank)
    more = None if output_padding is None else _all(output_padding, rank)
    if rank == 1:
        y = transposed(_tandem.expand_dims(x, 1), _tandem.expand_dims(kernel, 0), (1, strides[0]), padding, None, (1, dilations[0]), None if more is None else (0, more[0]))
        return _tandem.squeeze(y, [1])
    return (transposed if rank == 2 else transposed_volumes)(x, kernel, strides, padding, None, dilations, more)


@op
def conv_transpose(inputs, kernel, strides=1, padding="valid", output_padding=None, data_format=None, dilation_rate=1):
    """A transposed convolution of sequences, images or volumes."""
    return _transposed(inputs, kernel, strides, padding, output_padding, dilation_rate, data_format=data_format)


# ---- Patches of images [batch, channels, height, width] as columns ----


def _patch_places(size, kernel, dilation, padding, stride):
    """For each patch of one axis the places of its elements."""
    count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    return np.arange(count)[:, None] * stride + np.arange(kernel)[None] * dilation


def _grid_of_patches(sizes, kernel, dilation, padding, stride):
    """The flat place in the padded image of each element [kernel place, patch]."""
    rows, columns = (_patch_places(int(s), *each) for s, *each in zip(sizes, kernel, dilation, padding, stride))
    wide = int(sizes[1]) + 2 * padding[1]
    places = rows.T[:, None, :, None] * wide + columns.T[None, :, None, :]
    return places.reshape(kernel[0] * kernel[1], -1)


@op
def unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    """The patches of images [batch, channels, height, width] as columns."""
    x = _c(x)
    kernel, dilation, padding, stride = (_all(v, 2) for v in (kernel_size, dilation, padding, stride))
    places = _grid_of_patches(x._sizes[2:], kernel, dilation, padding, stride)
    wide = _tandem.pad(x, [(0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2], 0.0)
    flat = _tandem.reshape(wide, [x._sizes[0], x._sizes[1], -1])
    found = _tandem.gather(flat, places.reshape(-1).astype(np.int32), 2)
    return _tandem.reshape(found, [x._sizes[0], int(x._sizes[1]) * kernel[0] * kernel[1], places.shape[1]])


@op
def fold(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Images of which the columns are patches; where patches overlap their elements are added."""
    x = _c(x)
    kernel, dilation, padding, stride = (_all(v, 2) for v in (kernel_size, dilation, padding, stride))
    height, width = _all(output_size, 2)
    places = _grid_of_patches((height, width), kernel, dilation, padding, stride)
    tall, wide = height + 2 * padding[0], width + 2 * padding[1]
    channels = int(x._sizes[1]) // (kernel[0] * kernel[1])
    columns = _tandem.reshape(x, [-1, places.size])
    rows = _tandem.transpose(columns, [1, 0])
    total = _ops.unsorted_segment_sum(rows, places.reshape(-1).astype(np.int32), tall * wide)
    image = _tandem.reshape(_tandem.transpose(total, [1, 0]), [x._sizes[0], channels, tall, wide])
    return image[:, :, padding[0] : tall - padding[0], padding[1] : wide - padding[1]]


# ---- Axes by names ----


def _axes_of(side):
    """The axes of one side of a pattern, groups of names in parentheses."""
    import re

    return [token.strip("()").split() for token in re.findall(r"\([^)]*\)|\S+", side)]


@op
def rearrange(tensor, pattern, **axes_lengths):
    """The tensor with its axes joined, split and in another order, as "b (h k) w -> k b h w" says."""
    x = _c(tensor)
    left, right = (_axes_of(side) for side in pattern.split("->"))
    if len(left) != x._rank:
        raise ValueError(f"rearrange: {pattern!r} has {len(left)} axes, the tensor {x._rank}")
    lengths = dict(axes_lengths)
    for names, size in zip(left, x._sizes):
        unknown = [n for n in names if n not in lengths]
        known = int(np.prod([lengths[n] for n in names if n in lengths], dtype=np.int64))
        if len(unknown) > 1:
            raise ValueError(f"rearrange: the lengths of all but one of {unknown} must be given")
        if unknown:
            lengths[unknown[0]] = size if len(names) == 1 else int(size) // known
    order = [n for names in left for n in names]
    if sorted(order) != sorted(n for names in right for n in names if n != "1"):
        raise ValueError(f"rearrange: {pattern!r} has other axes on its sides")
    x = _tandem.reshape(x, [lengths[n] for n in order])
    wanted = [n for names in right for n in names if n != "1"]
    x = _tandem.transpose(x, [order.index(n) for n in wanted])
    sizes = [1 if names in ([], ["1"]) else lengths[names[0]] if len(names) == 1 else int(np.prod([int(lengths[n]) for n in names])) for names in right]
    return _tandem.reshape(x, sizes)
