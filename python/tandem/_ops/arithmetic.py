"""Functions of each element."""

import _tandem
from tandem._names import words as _words
from tandem._names.lazy import np
from tandem._ops.base import host, host_with_gradient, op, pair as _pair
from tandem._tensors.tensor import Tensor


def _unary(name, f):
    def call(x, name=None):
        return f(x)

    call.__name__ = call.__qualname__ = name
    return op(call)


def _binary(name, f):
    def call(x, y, name=None):
        return f(x, y)

    call.__name__ = call.__qualname__ = name
    return op(call)


add = _binary("add", _tandem.add)
subtract = _binary("subtract", _tandem.sub)
multiply = _binary("multiply", _tandem.mul)
floordiv = _binary("floordiv", _tandem.floor_div)
mod = floormod = _binary("mod", _tandem.mod)
pow = _binary("pow", _tandem.pow)
maximum = _binary("maximum", _tandem.maximum)
minimum = _binary("minimum", _tandem.minimum)
squared_difference = _binary("squared_difference", _tandem.squared_difference)
equal = _binary("equal", _tandem.equal)
not_equal = _binary("not_equal", _tandem.not_equal)
less = _binary("less", _tandem.less)
less_equal = _binary("less_equal", _tandem.less_equal)
greater = _binary("greater", _tandem.greater)
greater_equal = _binary("greater_equal", _tandem.greater_equal)
logical_and = _binary("logical_and", _tandem.logical_and)
logical_or = _binary("logical_or", _tandem.logical_or)
logical_xor = _binary("logical_xor", _tandem.logical_xor)

negative = _unary("negative", _tandem.neg)
abs = _unary("abs", _tandem.abs)
square = _unary("square", _tandem.square)
reciprocal = _unary("reciprocal", _tandem.reciprocal)
sqrt = _unary("sqrt", _tandem.sqrt)
rsqrt = _unary("rsqrt", _tandem.rsqrt)
exp = _unary("exp", _tandem.exp)
expm1 = _unary("expm1", _tandem.expm1)
log = _unary("log", _tandem.log)
log1p = _unary("log1p", _tandem.log1p)
sin = _unary("sin", _tandem.sin)
cos = _unary("cos", _tandem.cos)
tan = _unary("tan", _tandem.tan)
asin = _unary("asin", _tandem.asin)
acos = _unary("acos", _tandem.acos)
atan = _unary("atan", _tandem.atan)
sinh = _unary("sinh", _tandem.sinh)
cosh = _unary("cosh", _tandem.cosh)
tanh = _unary("tanh", _tandem.tanh)
erf = _unary("erf", _tandem.erf)


def _knows_its_logits(y, logits):
    """A probability of a trace, which losses compute from its logits, as TensorFlow's graphs let Keras do."""
    if isinstance(y, Tensor) and y._is_symbolic:
        y._keras_logits = logits
    return y


@op
def sigmoid(x, name=None):
    """1 / (1 + exp(-x))."""
    x = _tandem.convert(x)
    return _knows_its_logits(_tandem.sigmoid(x), x)


softplus = _unary("softplus", _tandem.softplus)
logical_not = _unary("logical_not", _tandem.logical_not)
is_nan = _unary("is_nan", _tandem.is_nan)
is_inf = _unary("is_inf", _tandem.is_inf)
is_finite = _unary("is_finite", _tandem.is_finite)


@op
def sign(x, name=None):
    """-1, 0 or 1 by the sign of each element."""
    return _tandem.sign(x)


def _rounding(name, f):
    def call(x, name=None):
        x = _tandem.convert(x)
        return f(x) if x.dtype.is_floating else x

    call.__name__ = name
    return op(call)


floor = _rounding("floor", _tandem.floor)
ceil = _rounding("ceil", _tandem.ceil)
round = _rounding("round", _tandem.round)
rint = round


@op
def asinh(x, name=None):
    """The inverse hyperbolic sine of each element."""
    x = _tandem.convert(x)
    return _tandem.log(x + _tandem.sqrt(x * x + 1))


@op
def acosh(x, name=None):
    """The inverse hyperbolic cosine of each element."""
    x = _tandem.convert(x)
    return _tandem.log(x + _tandem.sqrt(x * x - 1))


@op
def atanh(x, name=None):
    """The inverse hyperbolic tangent of each element."""
    x = _tandem.convert(x)
    return 0.5 * (_tandem.log1p(x) - _tandem.log1p(-x))


@op
def atan2(y, x, name=None):
    """The angle of the point (x, y), between -pi and pi."""
    y, x = _pair(y, x)
    ratio = _tandem.atan(divide_no_nan._raw(y, x))
    low = _tandem.where(y >= 0, ratio + np.pi, ratio - np.pi)
    upright = _tandem.sign(y) * (np.pi / 2)
    return _tandem.where(x > 0, ratio, _tandem.where(x < 0, low, upright))


@op
def erfc(x, name=None):
    """1 - erf(x), exact where erf(x) is close to 1."""
    return 1 - _tandem.erf(x)


@op
def erfinv(x, name=None):
    """The inverse of erf."""
    x = _tandem.convert(x)
    # Giles's single-precision approximation, then one step of Newton's method.
    w = -_tandem.log((1 - x) * (1 + x))
    small = w - 2.5
    a = 2.81022636e-08
    for c in (3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941):
        a = a * small + c
    large = _tandem.sqrt(_tandem.maximum(w, 5.0)) - 3
    b = -0.000200214257
    for c in (0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682):
        b = b * large + c
    y = _tandem.where(w < 5, a, b) * x
    return y - (_tandem.erf(y) - x) / (2 / np.sqrt(np.pi) * _tandem.exp(-y * y))


@op
def lgamma(x, name=None):
    """The logarithm of the absolute value of the gamma function."""
    import math

    return host_with_gradient(
        lambda a: np.vectorize(math.lgamma, otypes=[a.dtype])(a), lambda g, i, o: [g[0] * digamma(i[0])], x
    )


@op
def digamma(x, name=None):
    """The derivative of lgamma."""
    def psi(a):
        a = a.astype(np.float64)
        result = np.zeros_like(a)
        while np.any(a < 6):
            small = a < 6
            result[small] -= 1 / a[small]
            a = np.where(small, a + 1, a)
        f = 1 / (a * a)
        return result + np.log(a) - 0.5 / a - f * (1 / 12 - f * (1 / 120 - f / 252))

    x = _tandem.convert(x)
    return _tandem.convert(host(lambda a: psi(np.atleast_1d(a)).reshape(a.shape), x), x._code)


@op
def divide(x, y, name=None):
    """x / y; integers are divided as float64."""
    return _true_divide(x, y)


def _true_divide(x, y):
    if not isinstance(x, (Tensor, _tandem.Variable)):
        x = _tandem.convert(x, None, y._code if isinstance(y, (Tensor, _tandem.Variable)) else None)
        if x._rank == 0 and isinstance(y, (Tensor, _tandem.Variable)):
            return (y * 0 + x) / y if not y.dtype.is_floating else _tandem.div(x, y)
    return x / y


truediv = realdiv = divide


@op
def divide_no_nan(x, y, name=None):
    """x / y, and 0 where y is 0."""
    x, y = _pair(x, y)
    zero = _tandem.equal(y, 0.0)
    safe = _tandem.where(zero, _tandem.ones_like(y), y)
    return _tandem.where(zero, _tandem.zeros_like(x / safe), x / safe)


@op
def multiply_no_nan(x, y, name=None):
    """x * y, and 0 where y is 0 whatever x is."""
    x, y = _pair(x, y)
    return _tandem.where(_tandem.equal(y, 0.0), _tandem.zeros_like(x * y), x * y)


@op
def xlogy(x, y, name=None):
    """x * log(y), and 0 where x is 0."""
    x, y = _pair(x, y)
    zero = _tandem.equal(x, 0.0)
    return _tandem.where(zero, _tandem.zeros_like(x), x * _tandem.log(_tandem.where(zero, _tandem.ones_like(y), y)))


@op
def add_n(inputs, name=None):
    """The sum of a list of tensors of one shape."""
    inputs = list(inputs)
    total = _tandem.convert(inputs[0])
    for each in inputs[1:]:
        total = total + each
    return total


@op
def accumulate_n(inputs, shape=None, tensor_dtype=None, name=None):
    """The sum of tensors of one shape."""
    return add_n._raw(inputs)



@op
def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """Each element, moved into the range from clip_value_min to clip_value_max."""
    t = _tandem.convert(t)
    if isinstance(clip_value_min, (int, float, np.floating)) and isinstance(clip_value_max, (int, float, np.floating)):
        for each in () if t.dtype.is_floating else (clip_value_min, clip_value_max):
            if each != np.floor(each):
                raise TypeError(f"Cannot convert {each} to EagerTensor of dtype {t.dtype.name}")
        if t.dtype.is_floating or not np.isinf(clip_value_max):
            return _tandem.clip(t, float(clip_value_min), float(clip_value_max))
    return _tandem.minimum(_tandem.maximum(t, clip_value_min), clip_value_max)


@op
def clip_by_norm(t, clip_norm, axes=None, name=None):
    """The tensor, scaled down where its L2 norm over `axes` is above clip_norm."""
    t = _tandem.convert(t)
    norm = _tandem.sqrt(_tandem.reduce_sum(t * t, axes, True))
    return t * clip_norm / _tandem.maximum(norm, clip_norm)


def global_norm(t_list, name=None):
    """The L2 norm of all the tensors of a list together; None is left out."""
    squares = [_tandem.reduce_sum(_tandem.square(t), None, False) for t in t_list if t is not None]
    return _tandem.sqrt(add_n(squares))


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    """The tensors, scaled down together where their joint norm is above clip_norm, and that norm."""
    norm = global_norm(t_list) if use_norm is None else use_norm
    factor = clip_norm / _tandem.maximum(norm, clip_norm)
    return [None if t is None else t * factor for t in t_list], norm

_words.describe(__name__, globals())
