"""Poolings whose output has a given size, whatever the size of the input."""

import numpy as np

import _tandem
from tandem._ops import op
from tandem.keras._layer import Layer
from tandem.keras.layers._formats import format_of, from_last, to_last
from tandem.keras.layers.core import floating


def _windows(size, count):
    """Where each window of an axis begins and ends."""
    i = np.arange(count)
    return i * size // count, -((-(i + 1) * size) // count)


def _mean(x, axis, count):
    size = int(x._sizes[axis])
    begin, end = _windows(size, count)
    places = np.arange(size)[None]
    inside = (places >= begin[:, None]) & (places < end[:, None])
    weights = _tandem.convert(np.float32(inside / (end - begin)[:, None]), x._code)
    sizes = list(x._sizes)
    rest = 1
    for s in sizes[axis + 1 :]:
        rest *= int(s)
    flat = _tandem.reshape(x, [*sizes[:axis], size, rest])
    return _tandem.reshape(_tandem.matmul(weights, flat, False, False), [*sizes[:axis], count, *sizes[axis + 1 :]])


def _largest(x, axis, count):
    begin, end = _windows(int(x._sizes[axis]), count)
    widest = int((end - begin).max())
    places = np.minimum(begin[:, None] + np.arange(widest)[None], end[:, None] - 1)  # The last of a short window stands several times.
    found = _tandem.gather(x, _tandem.convert(places.astype(np.int32)), axis)
    return _tandem.reduce_max(found, axis + 1, False)


def pooled(x, output_size, kind):
    """Tensors [batch, .., channels] whose inner axes have given sizes; None keeps one."""
    reduce = {"average": _mean, "max": _largest}[kind]
    for axis, count in enumerate(output_size, 1):
        if count is not None and int(count) != int(x._sizes[axis]):
            x = reduce(x, axis, int(count))
    return x


def _function(kind, word):
    def pool(inputs, output_size, data_format=None):
        x = floating(_tandem.convert(inputs))
        sizes = (output_size,) * (x._rank - 2) if isinstance(output_size, int) else tuple(output_size)
        data_format = format_of(data_format)
        return from_last(pooled(to_last(x, data_format), sizes, kind), data_format)

    pool.__name__, pool.__doc__ = f"adaptive_{kind}_pool", f"The {word} of so many windows of each axis."
    return op(pool)


adaptive_average_pool, adaptive_max_pool = _function("average", "means"), _function("max", "maxima")


class _Adaptive(Layer):
    _rank, _kind = 2, "average"

    def __init__(self, output_size, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.output_size = (output_size,) * self._rank if isinstance(output_size, int) else tuple(output_size)
        if len(self.output_size) != self._rank:
            raise ValueError(f"`output_size` must be an integer or {self._rank} of them. Received: {output_size}")
        self.data_format = format_of(data_format)

    def call(self, inputs):
        return from_last(pooled(to_last(floating(_tandem.convert(inputs)), self.data_format), self.output_size, self._kind), self.data_format)


class AdaptiveAveragePooling1D(_Adaptive):
    """The means of so many windows of sequences."""

    _rank = 1


class AdaptiveAveragePooling2D(_Adaptive):
    """The means of so many windows of images."""


class AdaptiveAveragePooling3D(_Adaptive):
    """The means of so many windows of volumes."""

    _rank = 3


class AdaptiveMaxPooling1D(_Adaptive):
    """The maxima of so many windows of sequences."""

    _rank, _kind = 1, "max"


class AdaptiveMaxPooling2D(_Adaptive):
    """The maxima of so many windows of images."""

    _kind = "max"


class AdaptiveMaxPooling3D(_Adaptive):
    """The maxima of so many windows of volumes."""

    _rank, _kind = 3, "max"
