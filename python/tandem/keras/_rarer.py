"""Losses, metrics, activations and initializers that are rarer; their modules find them here when they are first asked for."""

import math

import numpy as np

import _tandem
from tandem import _ops
from tandem._ops import op
from tandem.keras import losses
from tandem.keras.initializers import Initializer, _code
from tandem.keras.metrics import MeanMetricWrapper

# ---- Losses ----


@op
def categorical_generalized_cross_entropy(y_true, y_pred, q):
    """(1 - p ** q) / q of the probability p of the true class, which stands noisy labels (Zhang and Sabuncu 2018)."""
    p = _tandem.convert(y_pred)
    hot = _tandem.one_hot(_tandem.cast(_tandem.convert(y_true), 5), int(p._sizes[-1]), 1.0, 0.0, 0)
    chance = _tandem.reduce_sum(p * _tandem.cast(hot, p._code), -1, False)
    return (1.0 - _tandem.pow(chance, float(q))) / float(q)


class CategoricalGeneralizedCrossEntropy(losses.LossFunctionWrapper):
    """The mean of categorical_generalized_cross_entropy; q is between 0 and 1."""

    def __init__(self, q=0.5, reduction="sum_over_batch_size", name="categorical_generalized_cross_entropy", dtype=None):
        if not 0 < q < 1:
            raise ValueError("q must be in the interval (0, 1)")
        super().__init__(categorical_generalized_cross_entropy, reduction=reduction, name=name, q=q)
        self.q = q

    def get_config(self):
        return {"name": self.name, "reduction": self.reduction, "q": self.q}


@op
def circle(y_true, y_pred, ref_labels=None, ref_embeddings=None, remove_diagonal=True, gamma=80, margin=0.4):
    """The circle loss of embeddings of unit length: those of one class together, others apart."""
    labels, x = _tandem.cast(_tandem.convert(y_true), 5), _tandem.convert(y_pred)
    others = labels if ref_labels is None else _tandem.cast(_tandem.convert(ref_labels), 5)
    far = _tandem.relu(1.0 - _tandem.matmul(x, x if ref_embeddings is None else _tandem.convert(ref_embeddings), False, True))
    same = _tandem.equal(_tandem.reshape(labels, (-1, 1)), _tandem.reshape(others, (1, -1)))
    different = _tandem.logical_not(same)
    if remove_diagonal:
        places = _tandem.convert(np.arange(int(x._sizes[0])) if ref_labels is None else np.arange(max(int(x._sizes[0]), int(others._sizes[0]))))
        same = _tandem.logical_and(same, _tandem.not_equal(_tandem.reshape(places[: int(x._sizes[0])], (-1, 1)), _tandem.reshape(places[: int(same._sizes[1])], (1, -1))))
    lowest = _tandem.fill((), float("-inf"), x._code)

    def total(chosen, weights, distances):
        weights = _tandem.relu(_tandem.where(chosen, weights, _tandem.zeros_like(weights)))
        return _tandem.reduce_logsumexp(_tandem.where(chosen, weights * distances, lowest), 1, False)

    near = total(same, margin + far, -gamma * (margin - far))
    apart = total(different, 1 + margin - far, gamma * (1 - margin - far))
    loss = _tandem.softplus(near + apart)
    loss._keras_mask = loss > 0.0
    return loss


class Circle(losses.LossFunctionWrapper):
    """The circle loss of embeddings of unit length and their classes (Sun and others 2020, arXiv:2002.10857)."""

    def __init__(self, gamma=80.0, margin=0.4, remove_diagonal=True, reduction="sum_over_batch_size", name="circle", dtype=None):
        super().__init__(circle, reduction=reduction, name=name, gamma=gamma, margin=margin, remove_diagonal=remove_diagonal)
        self.gamma, self.margin, self.remove_diagonal = gamma, margin, remove_diagonal

    def get_config(self):
        return {"name": self.name, "reduction": self.reduction, "gamma": self.gamma, "margin": self.margin, "remove_diagonal": self.remove_diagonal}


# ---- Metrics ----


def _centred(y_true, y_pred, axis):
    p = _tandem.convert(y_pred)
    t = _tandem.cast(_tandem.convert(y_true, None, p._code), p._code)
    if t._rank == p._rank - 1:
        t = _tandem.expand_dims(t, -1)
    axes = _ops.reduction._axes(axis)
    return [(x, _tandem.reduce_mean(x, axes, True), axes) for x in (t, p)]


@op
def pearson_correlation(y_true, y_pred, axis=-1):
    """How straight the line is on which predictions and truths lie, from -1 to 1."""
    normed = []
    for x, mean, axes in _centred(y_true, y_pred, axis):
        normed.append((x - mean) / _tandem.reduce_std(x, axes, True))
    return _tandem.reduce_mean(normed[0] * normed[1], axes, False)


@op
def concordance_correlation(y_true, y_pred, axis=-1):
    """How close predictions and truths are to each other, from -1 to 1: other scales and shifts count, too."""
    (t, mt, axes), (p, mp, _) = _centred(y_true, y_pred, axis)
    shared = (t - mt) * (p - mp)
    spread = _tandem.reduce_variance(t, axes, True) + _tandem.reduce_variance(p, axes, True) + _tandem.square(mt - mp)
    return _tandem.reduce_mean(2.0 * shared / (spread + 1e-7), axes, False)


class PearsonCorrelation(MeanMetricWrapper):
    """The mean of pearson_correlation."""

    def __init__(self, name="pearson_correlation", dtype=None, axis=-1):
        super().__init__(pearson_correlation, name=name, dtype=dtype, axis=axis)
        self.axis = axis

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype, "axis": self.axis}


class ConcordanceCorrelation(MeanMetricWrapper):
    """The mean of concordance_correlation."""

    def __init__(self, name="concordance_correlation", dtype=None, axis=-1):
        super().__init__(concordance_correlation, name=name, dtype=dtype, axis=axis)
        self.axis = axis

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype, "axis": self.axis}


# ---- Activations ----


@op
def sparse_sigmoid(x):
    """0 below -1, 1 above 1, a straight line between."""
    return _tandem.clip(0.5 * (_tandem.convert(x) + 1.0), 0.0, 1.0)


@op
def sparsemax(x, axis=-1):
    """The nearest probabilities, many of which are zero (Martins and Astudillo 2016, arXiv:1602.02068)."""
    x = _tandem.convert(x)
    axis = axis % x._rank
    ordered = _ops.sort(x, axis=axis, direction="DESCENDING")
    sums = _tandem.cumsum(ordered, axis, False, False)
    shape = [1] * x._rank
    shape[axis] = int(x._sizes[axis])
    count = _tandem.convert(np.arange(1, shape[axis] + 1, dtype=np.float32).reshape(shape), x._code)
    inside = ordered - (sums - 1.0) / count > 0.0
    number = _tandem.reduce_sum(_tandem.cast(inside, x._code), axis, True)
    level = (_tandem.reduce_sum(_tandem.where(inside, ordered, _tandem.zeros_like(ordered)), axis, True) - 1.0) / number
    return _tandem.relu(x - level)


# ---- Initializers ----


class STFT(Initializer):
    """The waves of a Fourier transform of frames, [frame, 1, frequencies]."""

    def __init__(self, side="real", window="hann", scaling="density", periodic=False):
        if side not in ("real", "imag"):
            raise ValueError(f"side should be 'real' or 'imag', not {side}")
        if scaling not in (None, "density", "spectrum"):
            raise ValueError(f"Scaling is invalid, it must be `None`, 'density' or 'spectrum'. Received scaling={scaling}")
        self.side, self.window, self.scaling, self.periodic = side, window, scaling, periodic

    def _weights(self, length):
        if self.window is None:
            return None
        if not isinstance(self.window, str):
            return np.asarray(self.window, np.float64)
        period = length if self.periodic else length - 1
        turns = 2 * math.pi * np.arange(length) / max(period, 1)
        terms = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08), "boxcar": (1.0,)}
        if self.window not in terms:
            raise NotImplementedError(f"keras.initializers.STFT: the window {self.window!r}; {', '.join(terms)} and arrays are accepted")
        return sum((-1) ** k * a * np.cos(k * turns) for k, a in enumerate(terms[self.window]))

    def __call__(self, shape, dtype=None):
        length, _, frequencies = (int(s) for s in shape)
        angle = -2 * math.pi * np.arange(length)[:, None, None] * np.arange(frequencies)[None, None] / ((frequencies - 1) * 2)
        kernel, weights = np.cos(angle) if self.side == "real" else np.sin(angle), self._weights(length)
        if weights is not None:
            scale = {"density": math.sqrt((weights**2).sum()), "spectrum": np.abs(weights).sum(), None: 1.0}[self.scaling]
            kernel = kernel * weights[:, None, None] / scale
        return _tandem.convert(np.float32(np.broadcast_to(kernel, tuple(int(s) for s in shape))), _code(dtype))

    def get_config(self):
        return {"side": self.side, "window": self.window, "scaling": self.scaling, "periodic": self.periodic}
