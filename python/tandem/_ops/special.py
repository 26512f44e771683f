"""Special functions, as integrals and series whose terms are one axis more: they can be traced and have gradients. Computed in float64."""

import math

import numpy as np

import _tandem
from tandem._ops import op

_FLOAT64 = 1
_EULER = 0.5772156649015329


def _wide(x):
    """The tensor in float64, and its own type."""
    x = _tandem.convert(x)
    x = x if x.dtype.is_floating else _tandem.cast(x, 0)
    return _tandem.cast(x, _FLOAT64), x._code


def _terms(values):
    """Numbers along a new last axis."""
    return _tandem.convert(np.asarray(values, np.float64))


def _sum(terms):
    return _tandem.reduce_sum(terms, -1, False)


def _along(x):
    return _tandem.expand_dims(x, -1)


def _function(f):
    """A function of float64 tensors, of others."""
    import functools

    @functools.wraps(f)
    def call(*args, name=None):
        wide = [_wide(a) for a in args]
        return _tandem.cast(f(*(w for w, _ in wide)), wide[-1][1])

    return op(call)


def _where(condition, x, y):
    return _tandem.where(condition, x, y)


# ---- Bessel functions: means over a circle and integrals over a line, and series far away ----

_CIRCLE = 2 * np.pi * (np.arange(128) + 0.5) / 128
_LINE = np.arange(0, 400) * 0.03


def _expansion(x, order, alternating):
    """The series of large x, whose terms are products of (4 n^2 - odd^2) / (8 x)."""
    total = term = 1.0
    for k in range(1, 9):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (k * 8.0)) / x
        total = total + term * ((-1) ** k if alternating else 1)
    return total


def _i(x, order):
    """exp(-|x|) I(x)."""
    size = _tandem.abs(x)
    near = _tandem.minimum(size, 60.0)
    inner = _sum(_tandem.exp(_along(near) * _terms(np.cos(_CIRCLE) - 1)) * _terms(np.cos(order * _CIRCLE))) / float(len(_CIRCLE))
    far = _tandem.maximum(size, 60.0)
    value = _where(size < 60.0, inner, _expansion(far, order, True) / _tandem.sqrt(2 * math.pi * far))
    return value * _tandem.sign(x) if order % 2 else value


def _k(x, order):
    """exp(x) K(x), for positive x."""
    weights = np.where(_LINE == 0, 0.5, 1.0) * 0.03
    return _sum(_tandem.exp(-_along(x) * _terms(np.cosh(_LINE) - 1)) * _terms(np.cosh(order * _LINE) * weights))


@_function
def bessel_i0e(x):
    """exp(-|x|) times the modified Bessel function of order 0."""
    return _i(x, 0)


@_function
def bessel_i1e(x):
    """exp(-|x|) times the modified Bessel function of order 1."""
    return _i(x, 1)


@_function
def bessel_i0(x):
    """The modified Bessel function of order 0."""
    return _i(x, 0) * _tandem.exp(_tandem.abs(x))


@_function
def bessel_i1(x):
    """The modified Bessel function of order 1."""
    return _i(x, 1) * _tandem.exp(_tandem.abs(x))


@_function
def bessel_k0e(x):
    """exp(x) times the modified Bessel function of the second kind of order 0."""
    return _k(x, 0)


@_function
def bessel_k1e(x):
    """exp(x) times the modified Bessel function of the second kind of order 1."""
    return _k(x, 1)


@_function
def bessel_k0(x):
    """The modified Bessel function of the second kind of order 0."""
    return _k(x, 0) * _tandem.exp(-x)


@_function
def bessel_k1(x):
    """The modified Bessel function of the second kind of order 1."""
    return _k(x, 1) * _tandem.exp(-x)


def _j_near(x, order):
    return _sum(_tandem.cos(float(order) * _terms(_CIRCLE) - _along(x) * _terms(np.sin(_CIRCLE)))) / float(len(_CIRCLE))


def _far_parts(x, order):
    """The slow factors of the cosine and the sine of large x."""
    p, q, term = 1.0, 0.0, 1.0
    for k in range(1, 11):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (k * 8.0)) / x
        if k % 2:
            q = q + term * (-1) ** ((k - 1) // 2)
        else:
            p = p + term * (-1) ** (k // 2)
    return p, q


def _far(x, order, second):
    p, q = _far_parts(x, order)
    phase = x - (order / 2 + 0.25) * math.pi
    sin, cos = _tandem.sin(phase), _tandem.cos(phase)
    return _tandem.sqrt(2 / math.pi / x) * (p * sin + q * cos if second else p * cos - q * sin)


def _j(x, order):
    size = _tandem.abs(x)
    value = _where(size < 25.0, _j_near(_tandem.minimum(size, 25.0), order), _far(_tandem.maximum(size, 25.0), order, False))
    return value * _tandem.sign(x) if order % 2 else value


def _y(x, order):
    """Neumann's series near zero (Abramowitz and Stegun 9.1.88)."""
    near = _tandem.minimum(x, 25.0)
    total = 0.0
    for k in range(1, 30):
        total = total + _j_near(near, order + 2 * k) * ((-1) ** k * (order + 2 * k) / (k * (order + k)))
    start = _tandem.log(near / 2.0) + _EULER - (1.0 if order else 0.0)
    value = 2 / math.pi * (start * _j_near(near, order) - total)
    if order:
        value = value - 2 / math.pi / near * _j_near(near, 0)
    return _where(x < 25.0, value, _far(_tandem.maximum(x, 25.0), order, True))


@_function
def bessel_j0(x):
    """The Bessel function of order 0."""
    return _j(x, 0)


@_function
def bessel_j1(x):
    """The Bessel function of order 1."""
    return _j(x, 1)


@_function
def bessel_y0(x):
    """The Bessel function of the second kind of order 0, for positive x."""
    return _y(x, 0)


@_function
def bessel_y1(x):
    """The Bessel function of the second kind of order 1, for positive x."""
    return _y(x, 1)


# ---- Integrals ----

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)
_UNIT, _UNIT_WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


@_function
def dawsn(x):
    """Dawson's integral: exp(-x * x) times the integral of exp(t * t) from 0 to x."""
    size = _tandem.abs(x)
    near = _tandem.minimum(size, 10.0)
    times = _along(near) * _terms(_UNIT)
    inner = near * _sum(_tandem.exp(_tandem.square(times) - _along(near * near)) * _terms(_UNIT_WEIGHTS))
    far = _tandem.maximum(size, 10.0)
    s = 1.0 / (far * far)
    outer = (1.0 + s * (0.5 + s * (0.75 + s * (1.875 + s * 6.5625)))) / (2.0 * far)
    return _tandem.sign(x) * _where(size < 10.0, inner, outer)


def _fresnel(x, kind):
    size = _tandem.abs(x)
    near = _tandem.minimum(size, 5.0)
    wave = {"sin": _tandem.sin, "cos": _tandem.cos}[kind]
    inner = near * _sum(wave(math.pi / 2 * _tandem.square(_along(near) * _terms(_UNIT))) * _terms(_UNIT_WEIGHTS))
    far = _tandem.maximum(size, 5.0)
    s = 1.0 / (math.pi * far * far)
    f, g = (1.0 - 3.0 * s * s + 105.0 * s**4) / (math.pi * far), s * (1.0 - 15.0 * s * s) / (math.pi * far)
    phase = math.pi / 2 * far * far
    sin, cos = _tandem.sin(phase), _tandem.cos(phase)
    outer = 0.5 + (f * sin - g * cos if kind == "cos" else -f * cos - g * sin)
    return _tandem.sign(x) * _where(size < 5.0, inner, outer)


@_function
def fresnel_sin(x):
    """The integral of sin(pi t * t / 2) from 0 to x."""
    return _fresnel(x, "sin")


@_function
def fresnel_cos(x):
    """The integral of cos(pi t * t / 2) from 0 to x."""
    return _fresnel(x, "cos")


@_function
def expint(x):
    """The exponential integral Ei of positive x."""
    near = _tandem.minimum(x, 40.0)
    k = np.arange(1, 141)
    logs = np.cumsum(np.log(k)) + np.log(k)
    series = _sum(_tandem.exp(_terms(k) * _along(_tandem.log(near)) - _terms(logs)))
    far = _tandem.maximum(x, 40.0)
    total = term = 1.0
    for i in range(1, 25):
        term = term * float(i) / far
        total = total + term
    return _where(x < 40.0, _EULER + _tandem.log(near) + series, _tandem.exp(far) / far * total)


@_function
def spence(x):
    """Spence's integral: that of -log(t) / (t - 1) from 1 to x."""
    def near(z):
        return -_sum(_tandem.log(1.0 + _along(z - 1.0) * _terms(_UNIT)) * _terms(_UNIT_WEIGHTS / _UNIT))

    is_small, is_large = x < 0.5, x > 2.0
    safe = _tandem.maximum(x, 1e-300)
    moved = _where(is_small, 1.0 - x, _where(is_large, 1.0 / safe, x))
    value = near(moved)
    inner = _where(_tandem.equal(x, 0.0), 0.0 * x, _tandem.log(safe) * _tandem.log1p(-_tandem.minimum(x, 0.5)))
    small = math.pi**2 / 6 - inner - value
    large = -value - 0.5 * _tandem.square(_tandem.log(safe))
    return _where(is_small, small, _where(is_large, large, value))


# ---- Gamma functions ----


def _lgamma(x):
    """The logarithm of the gamma function of positive x, by Stirling's series of x + 8."""
    shift = _tandem.log(x)
    for i in range(1, 8):
        shift = shift + _tandem.log(x + float(i))
    z = x + 8.0
    s = 1.0 / (z * z)
    tail = (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / z
    return (z - 0.5) * _tandem.log(z) - z + 0.5 * math.log(2 * math.pi) + tail - shift


def _lower(a, x):
    """The lower incomplete gamma function, regularised, by its series: for x below a + 1."""
    k = _terms(np.arange(400))
    logs = _along(a * _tandem.log(x) - x) + k * _along(_tandem.log(x)) - _lgamma(_along(a) + k + 1.0)
    return _sum(_tandem.exp(logs))


_LAGUERRE = np.polynomial.laguerre.laggauss(100)


def _upper(a, x):
    """The upper one by Gauss and Laguerre: for x above a + 1."""
    nodes, weights = _LAGUERRE
    inner = _sum(_tandem.exp(_along(a - 1.0) * _tandem.log1p(_terms(nodes) / _along(x))) * _terms(weights))
    return _tandem.exp((a - 1.0) * _tandem.log(x) - x - _lgamma(a)) * inner


def _both(a, x):
    shape = _tandem.zeros_like(a + x)
    a, x = a + shape, x + shape
    is_low = x < a + 1.0
    positive = _tandem.maximum(x, 1e-300)
    low = _lower(a, _where(is_low, positive, a))
    high = _upper(a, _where(is_low, a + 1.0, positive))
    return is_low, low, high


@_function
def igamma(a, x):
    """The lower incomplete gamma function, regularised."""
    is_low, low, high = _both(a, x)
    return _where(is_low, low, 1.0 - high)


@_function
def igammac(a, x):
    """The upper incomplete gamma function, regularised."""
    is_low, low, high = _both(a, x)
    return _where(is_low, 1.0 - low, high)


@_function
def betainc(a, b, x):
    """The incomplete beta function, regularised."""
    shape = _tandem.zeros_like(a + b + x)
    a, b, x = a + shape, b + shape, x + shape
    swapped = x > (a + 1.0) / (a + b + 2.0)
    p, q = _where(swapped, b, a), _where(swapped, a, b)
    z = _tandem.clip(_where(swapped, 1.0 - x, x), 1e-300, 1.0)
    k = _terms(np.arange(400))
    front = p * _tandem.log(z) + q * _tandem.log1p(-_tandem.minimum(z, 1.0 - 1e-16)) - _lgamma(q)
    logs = _along(front) + k * _along(_tandem.log(z)) + _lgamma(_along(p + q) + k) - _lgamma(_along(p) + k + 1.0)
    value = _sum(_tandem.exp(logs))
    return _where(swapped, 1.0 - value, value)


@op
def lbeta(x, name=None):
    """The logarithm of the beta function of the last axis."""
    wide, code = _wide(x)
    return _tandem.cast(_sum(_lgamma(wide)) - _lgamma(_sum(wide)), code)


def _zeta(s, q):
    """Hurwitz's zeta function by Euler and Maclaurin."""
    start = 12
    k = _terms(np.arange(start))
    total = _sum(_tandem.exp(-_along(s) * _tandem.log(_along(q) + k)))
    far = q + float(start)
    power = _tandem.exp(-s * _tandem.log(far))
    total = total + power * far / (s - 1.0) + 0.5 * power
    factor = s / far
    for i, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730), 1):
        total = total + power * factor * (bernoulli / math.factorial(2 * i))
        factor = factor * (s + float(2 * i - 1)) * (s + float(2 * i)) / (far * far)
    return total


@_function
def zeta(x, q):
    """Hurwitz's zeta function: the sum of (q + k) ** -x, for x above 1 and positive q."""
    shape = _tandem.zeros_like(x + q)
    return _zeta(x + shape, q + shape)


@_function
def polygamma(a, x):
    """The derivative of order a of digamma, for positive x."""
    shape = _tandem.zeros_like(a + x)
    a, x = a + shape, x + shape
    order = a + 1.0
    sign = 1.0 - 2.0 * _tandem.mod(order, 2.0)
    value = sign * _tandem.exp(_lgamma(order)) * _zeta(_tandem.maximum(order, 1.0 + 1e-9), x)
    s = 1.0 / _tandem.square(x + 8.0)
    digamma = _tandem.log(x + 8.0) - 0.5 / (x + 8.0) - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s / 240)))
    for i in range(8):
        digamma = digamma - 1.0 / (x + float(i))
    return _where(_tandem.equal(a, 0.0), digamma, value)


@op
def nextafter(x1, x2, name=None):
    """The next number after x1 in the direction of x2."""
    from tandem.keras import ops

    return ops.nextafter(x1, x2)


def _approximate(sign):
    def search(operand, k, reduction_dimension=-1, recall_target=0.95, reduction_input_size_override=-1, aggregate_to_topk=True, name=None):
        from tandem import _ops

        x = _tandem.convert(operand)
        axis = reduction_dimension % x._rank
        order = [i for i in range(x._rank) if i != axis] + [axis]
        back = [int(i) for i in np.argsort(order)]
        values, places = _ops.top_k(_tandem.transpose(x, order) * sign, k)
        return _tandem.transpose(values, back) * sign, _tandem.transpose(places, back)

    search.__name__ = "approx_max_k" if sign > 0 else "approx_min_k"
    search.__doc__ = f"The k {'largest' if sign > 0 else 'smallest'} values along an axis and their places; all of them are found here."
    return search


approx_max_k, approx_min_k = _approximate(1), _approximate(-1)
