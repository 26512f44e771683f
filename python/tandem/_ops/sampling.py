"""Values of distributions that are drawn inside of traces: the library has uniform and normal ones."""

import _tandem

_TRIES = 8


def gamma(shape, alpha, seed=None):
    """Values of gamma distributions of a scale of 1 (Marsaglia and Tsang, 2000): the first of eight proposals that is accepted, which one is in all but 1e-10 of cases."""
    seeds = iter(range(int(seed), int(seed) + 3)) if seed is not None else iter([None] * 3)
    alpha = _tandem.convert(alpha, 0)
    small = alpha < 1.0
    raised = _tandem.where(small, alpha + 1.0, alpha)
    d = raised - 1.0 / 3.0
    c = 1.0 / _tandem.sqrt(9.0 * d)
    x = _tandem.random_normal((_TRIES, *shape), 0.0, 1.0, 0, next(seeds))
    u = _tandem.random_uniform((_TRIES, *shape), 1e-12, 1.0, 0, next(seeds))
    v = 1.0 + c * x
    positive = _tandem.maximum(v, 1e-12)
    v = positive * positive * positive
    accepted = _tandem.logical_and(v > 1e-30, _tandem.log(u) < 0.5 * x * x + d - d * v + d * _tandem.log(v))
    first = _tandem.argmax(_tandem.cast(accepted, 5), 0)
    chosen = _tandem.cast(_tandem.one_hot(first, _TRIES, 1.0, 0.0, 0), 0)
    rank = chosen._rank
    chosen = _tandem.transpose(chosen, [rank - 1, *range(rank - 1)])
    value = _tandem.reduce_sum(chosen * v, 0, False) * d
    scaled = _tandem.pow(_tandem.random_uniform(tuple(shape), 1e-12, 1.0, 0, next(seeds)), 1.0 / alpha)
    return _tandem.where(small, value * scaled, value)


def beta(shape, alpha, other, seed=None):
    """Values of beta distributions."""
    x, y = gamma(shape, alpha, seed), gamma(shape, other, None if seed is None else int(seed) + 3)
    return x / _tandem.maximum(x + y, 1e-30)
