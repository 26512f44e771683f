"""Layers that change shapes: flattening, padding, cropping, upsampling."""

import _tandem
from tandem import _ops
from tandem.keras._layer import Layer
from tandem.keras.layers._formats import format_of, from_last, to_last


class Flatten(Layer):
    """The elements of each row in one axis."""

    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = format_of(data_format)

    def call(self, inputs):
        x = _tandem.convert(inputs)
        if x._rank == 1:
            return _tandem.expand_dims(x, -1)
        x = to_last(x, self.data_format) if x._rank > 2 else x
        count = 1
        for size in x._sizes[1:]:
            count *= int(size)
        return _tandem.reshape(x, (x._sizes[0], count))


class Reshape(Layer):
    """The elements of each row in another shape."""

    _is_built_at_once = True

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
    """The axes of each row in another order."""

    def __init__(self, dims, **kwargs):
        super().__init__(**kwargs)
        self.dims = tuple(dims)

    def call(self, inputs):
        return _tandem.transpose(inputs, [0] + list(self.dims))


class RepeatVector(Layer):
    """Each row repeated n times along a new axis."""

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
        self.data_format = format_of(data_format)
        pairs = tuple(tuple(pair) for pair in _pairs(tuple([tuple(padding)]) if self._axes == 1 and isinstance(padding, (tuple, list)) else padding, self._axes))
        self.padding = pairs if self._axes > 1 else pairs[0]

    def call(self, inputs):
        pairs = self.padding if self._axes > 1 else (self.padding,)
        return _tandem.pad(inputs, [(0, 0), (0, 0), *pairs] if self.data_format == "channels_first" else [(0, 0), *pairs, (0, 0)], 0.0)


class ZeroPadding1D(_Padding):
    """Sequences with zeros before and after them."""

    _axes = 1


class ZeroPadding2D(_Padding):
    """Images with zeros around them."""

    _axes = 2


class ZeroPadding3D(_Padding):
    """Volumes with zeros around them."""

    _axes = 3


class _Cropping(Layer):
    _axes = 2

    def __init__(self, cropping=(1, 1), data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = format_of(data_format)
        pairs = tuple(tuple(pair) for pair in _pairs(tuple([tuple(cropping)]) if self._axes == 1 and isinstance(cropping, (tuple, list)) else cropping, self._axes))
        self.cropping = pairs if self._axes > 1 else pairs[0]

    def call(self, inputs):
        key = [slice(None)] * (2 if self.data_format == "channels_first" else 1)
        for low, high in self.cropping if self._axes > 1 else (self.cropping,):
            key.append(slice(low, -high if high else None))
        return inputs[tuple(key)]


class Cropping1D(_Cropping):
    """Sequences without their first and last steps."""

    _axes = 1


class Cropping2D(_Cropping):
    """Images without their borders."""

    _axes = 2

    def __init__(self, cropping=((0, 0), (0, 0)), data_format=None, **kwargs):
        super().__init__(cropping, data_format, **kwargs)


class Cropping3D(_Cropping):
    """Volumes without their borders."""

    _axes = 3

    def __init__(self, cropping=((1, 1), (1, 1), (1, 1)), data_format=None, **kwargs):
        super().__init__(cropping, data_format, **kwargs)


class UpSampling1D(Layer):
    """Each step of sequences repeated."""

    def __init__(self, size=2, **kwargs):
        super().__init__(**kwargs)
        self.size = int(size)

    def call(self, inputs):
        return _ops.repeat(inputs, self.size, axis=1)


class UpSampling2D(Layer):
    """Images with each pixel repeated or interpolated."""

    def __init__(self, size=(2, 2), data_format=None, interpolation="nearest", **kwargs):
        super().__init__(**kwargs)
        self.data_format = format_of(data_format)
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        self.interpolation = interpolation

    def call(self, inputs):
        return from_last(self._upsampled(to_last(inputs, self.data_format)), self.data_format)

    def _upsampled(self, inputs):
        if self.interpolation == "nearest":
            return _ops.repeat(_ops.repeat(inputs, self.size[0], axis=1), self.size[1], axis=2)
        from tandem import image

        return image.resize(inputs, [int(inputs._sizes[1]) * self.size[0], int(inputs._sizes[2]) * self.size[1]], self.interpolation)


class UpSampling3D(Layer):
    """Volumes with each element repeated."""

    def __init__(self, size=(2, 2, 2), data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = format_of(data_format)
        self.size = (size,) * 3 if isinstance(size, int) else tuple(size)

    def call(self, inputs):
        for axis, n in enumerate(self.size, 2 if self.data_format == "channels_first" else 1):
            inputs = _ops.repeat(inputs, n, axis=axis)
        return inputs
