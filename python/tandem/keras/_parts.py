"""Forms of layers that compute with parts of their weights, under a ModelParallel. See keras.distribution."""

import _tandem
from tandem import nest
from tandem._tensors.tensor import Tensor

in_use = False  # Whether a ModelParallel was ever made: layers ask nothing else before.


def cut_axis(weight):
    """The axis along which the layouts cut a weight, in the step that is being traced; -1 where it is whole."""
    return _tandem.cut_axis_of_weight(weight) if in_use else -1


# Activations that work element by element, by their names: a part of a value is as good to them as the whole.
_BY_ELEMENTS = frozenset("linear relu relu6 leaky_relu sigmoid tanh gelu silu swish elu selu celu softplus softsign exponential hard_sigmoid hard_silu hard_swish mish log_sigmoid".split())


def keeps_parts(activation):
    """Whether an activation may be given a part of a value, and its result is that part."""
    return getattr(activation, "__name__", None) in _BY_ELEMENTS and getattr(activation, "__module__", "").startswith("tandem.")


def joined(values):
    """Values of a structure, those that are cut as wholes."""
    return nest.map_structure(lambda v: _tandem.gather_parts(v) if isinstance(v, Tensor) else v, values)


def product(x, kernel, bias, axis):
    """x kernel + bias, with a kernel [inputs, units] that is cut by columns (axis 1) or by rows (0)."""
    if axis == 1:
        y = _tandem.matmul(_tandem.gather_parts(x), _tandem.part_of_weight(kernel, 1), False, False)
        if bias is not None:
            y = y + _tandem.part_of_weight(bias, 0)
        return _tandem.mark_part(y, y._rank - 1)
    own = _tandem.part_of(x, x._rank - 1)
    y = _tandem.sum_of_parts(lambda: _tandem.matmul(own, _tandem.part_of_weight(kernel, 0), False, False))
    return y if bias is None else y + bias


def rows(table, numbers):
    """Rows of a table that is cut by its rows: each device looks up its own, and the sum has them all."""
    whole = table._sizes[0]
    part = _tandem.part_of_weight(table, 0)
    size = part._sizes[0]
    known = _tandem.logical_and(_tandem.greater_equal(numbers, 0), _tandem.less(numbers, whole))
    own = numbers - _tandem.cast(_tandem.part_number(), numbers._code) * size
    is_own = _tandem.logical_and(_tandem.greater_equal(own, 0), _tandem.less(own, size))
    # A number that nobody has is left to gather, which refuses it.
    row = _tandem.where(known, _tandem.where(is_own, own, _tandem.zeros_like(own)), numbers)

    def found():
        mine = _tandem.gather(part, row, 0)
        return _tandem.where(_tandem.expand_dims(is_own, -1), mine, _tandem.zeros_like(mine))

    return _tandem.sum_of_parts(found)


def dropout(x, rate, seed, axis, whole):
    """dropout of this device's part of a value with `whole` elements along `axis`: it loses those that the whole would lose."""
    sizes = list(x._sizes)
    sizes[axis] = whole
    return x * _tandem.part_of(_tandem.dropout(_tandem.fill(sizes, 1.0, x._code), rate, seed), axis)


def heads(x, kernel, bias):
    """The projections of tokens onto this device's heads: kernel [inputs, heads, size] is cut along 1."""
    part = _tandem.part_of_weight(kernel, 1)
    inside, count, width = part._sizes
    x = _tandem.gather_parts(x)
    y = _tandem.matmul(x, _tandem.reshape(part, (inside, count * width)), False, False)
    y = _tandem.reshape(y, list(x._sizes[:-1]) + [count, width])
    return y if bias is None else y + _tandem.part_of_weight(bias, 0)


def heads_summed(y, kernel, bias):
    """What all heads have seen, projected: kernel [heads, size, outputs ..] is cut along 0, as `y` by its heads."""
    part = _tandem.part_of_weight(kernel, 0)
    count, width, *outs = part._sizes
    total = 1
    for size in outs:
        total *= size

    def own():
        flat = _tandem.reshape(y, list(y._sizes[:-2]) + [count * width])
        return _tandem.matmul(flat, _tandem.reshape(part, (count * width, total)), False, False)

    z = _tandem.sum_of_parts(own)
    if len(outs) > 1:
        z = _tandem.reshape(z, list(z._sizes[:-1]) + outs)
    return z if bias is None else z + bias
