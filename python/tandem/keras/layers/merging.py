"""Layers that make one of several inputs, and functions of the same names."""

import _tandem
from tandem._names import words as _words
from tandem import _ops
from tandem.keras._layer import Layer


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
    """The sum of its inputs."""

    def _two(self, a, b):
        return a + b


class Subtract(_Merge):
    """The difference of its two inputs."""

    def _two(self, a, b):
        return a - b


class Multiply(_Merge):
    """The product of its inputs, element by element."""

    def _two(self, a, b):
        return a * b


class Maximum(_Merge):
    """The largest of its inputs, element by element."""

    def _two(self, a, b):
        return _tandem.maximum(a, b)


class Minimum(_Merge):
    """The smallest of its inputs, element by element."""

    def _two(self, a, b):
        return _tandem.minimum(a, b)


class Average(_Merge):
    """The mean of its inputs."""

    def _merge_function(self, inputs):
        return _ops.add_n(inputs) / float(len(inputs))


class Concatenate(_Merge):
    """Its inputs one after another along an axis."""

    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def _merge_function(self, inputs):
        return _tandem.concat(inputs, self.axis)

    def compute_mask(self, inputs, mask=None):
        return None


class Dot(_Merge):
    """The products of the rows of two inputs over the given axes."""

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
    """The inputs one after another along an axis, as the layer Concatenate."""
    return Concatenate(axis, **kwargs)(inputs)


def dot(inputs, axes=-1, **kwargs):
    """The products of the rows of two inputs, as the layer Dot."""
    return Dot(axes, **kwargs)(inputs)

_words.describe(__name__, globals())
