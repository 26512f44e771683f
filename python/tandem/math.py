"""Functions of tensors, tf.math."""

from tandem._ops import (  # noqa: F401
    abs, accumulate_n, acos, acosh, add, add_n, argmax, argmin, asin, asinh, atan, atan2, atanh, bincount, ceil,
    confusion_matrix, cos, cosh, count_nonzero, cumprod, cumsum, digamma, divide, divide_no_nan, equal, erf, erfc, erfinv, exp,
    expm1, floor, floordiv, floormod, greater, greater_equal, in_top_k, is_finite, is_inf, is_nan, less, less_equal,
    lgamma, log, log1p, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, mod, multiply,
    multiply_no_nan, negative, not_equal, pow, reciprocal, reduce_all, reduce_any, reduce_euclidean_norm,
    reduce_logsumexp, reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_std, reduce_sum, reduce_variance, rint,
    round, rsqrt, segment_max, segment_mean, segment_min, segment_prod, segment_sum, sigmoid, sign, sin, sinh, softplus,
    sqrt, square, squared_difference, subtract, tan, tanh, top_k, truediv, unsorted_segment_max, unsorted_segment_mean,
    unsorted_segment_min, unsorted_segment_prod, unsorted_segment_sum, xlogy,
)
from tandem._names import missing as _missing
from tandem._ops.rarer import (  # noqa: F401
    angle, conj, erfcinv, imag, invert_permutation, polyval, real, reciprocal_no_nan, unsorted_segment_sqrt_n, xdivy, xlog1py,
)
import numpy as _np
import _tandem


def ndtri(x, name=None):
    """The quantile of the normal distribution."""
    return 1.4142135623730951 * erfinv(2.0 * _tandem.convert(x) - 1.0)


def scalar_mul(scalar, x, name=None):
    """The scalar times each element."""
    return multiply(scalar, x)


def log_sigmoid(x, name=None):
    """The logarithm of sigmoid."""
    return -_tandem.softplus(-_tandem.convert(x))


def softmax(logits, axis=-1, name=None):
    """exp(logits), divided by its sum over an axis."""
    from tandem import nn

    return nn.softmax(logits, axis)


def log_softmax(logits, axis=-1, name=None):
    """The logarithm of softmax."""
    from tandem import nn

    return nn.log_softmax(logits, axis)


def softsign(features, name=None):
    """x / (1 + |x|)."""
    from tandem import nn

    return nn.softsign(features)


def l2_normalize(x, axis=None, epsilon=1e-12, name=None):
    """x, divided by its L2 norm over axes."""
    from tandem import nn

    return nn.l2_normalize(x, axis, epsilon)


def cumulative_logsumexp(x, axis=0, exclusive=False, reverse=False, name=None):
    """The logarithm of the sum of the exponentials up to each element."""
    x = _tandem.convert(x)
    high = _tandem.reduce_max(x, axis, True)
    return _tandem.log(_tandem.cumsum(_tandem.exp(x - high), axis, exclusive, reverse)) + high


def zero_fraction(value, name=None):
    """The part of the elements that are zero."""
    x = _tandem.convert(value)
    return _tandem.reduce_mean(_tandem.cast(_tandem.equal(x, 0), 0), None, False)


def is_non_decreasing(x, name=None):
    """True if no element is below the one before it."""
    x = _tandem.reshape(x, (-1,))
    return _tandem.reduce_all(x[1:] >= x[:-1], None, False)


def is_strictly_increasing(x, name=None):
    """True if each element is above the one before it."""
    x = _tandem.reshape(x, (-1,))
    return _tandem.reduce_all(x[1:] > x[:-1], None, False)


_missing.install(__name__, globals(), {
    "tandem._ops.special": "approx_max_k approx_min_k bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc igamma igammac lbeta nextafter polygamma zeta",
})


class _Special:
    """The functions of tf.math.special."""

    def __getattr__(self, name):
        from tandem._ops import special

        if name.startswith("_") or not hasattr(special, name):
            raise _missing.missing("tandem.math.special", name, special)
        return getattr(special, name)


special = _Special()

__all__ = [  # Written by scripts/exported-names.py.
    "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "argmax", "argmin", "asin", "asinh", "atan", "atan2", "atanh",
    "bincount", "ceil", "confusion_matrix", "conj", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "cumulative_logsumexp", "digamma",
    "divide", "divide_no_nan", "equal", "erf", "erfc", "erfcinv", "erfinv", "exp", "expm1", "floor", "floordiv", "floormod", "greater",
    "greater_equal", "imag", "in_top_k", "invert_permutation", "is_finite", "is_inf", "is_nan", "is_non_decreasing",
    "is_strictly_increasing", "l2_normalize", "less", "less_equal", "lgamma", "log", "log1p", "log_sigmoid", "log_softmax", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "multiply_no_nan", "ndtri", "negative",
    "not_equal", "polyval", "pow", "real", "reciprocal", "reciprocal_no_nan", "reduce_all", "reduce_any", "reduce_euclidean_norm",
    "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance", "rint",
    "round", "rsqrt", "scalar_mul", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum", "sigmoid", "sign", "sin",
    "sinh", "softmax", "softplus", "softsign", "special", "sqrt", "square", "squared_difference", "subtract", "tan", "tanh", "top_k",
    "truediv", "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sqrt_n",
    "unsorted_segment_sum", "xdivy", "xlog1py", "xlogy", "zero_fraction",
]
