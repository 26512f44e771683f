"""Losses, keras.losses.

Inside of strategy.run a mean is over the global batch: each replica gets its share, and the sum over replicas is the
loss that one device would have.
"""

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._names import missing as _missing
from tandem._tracing.state import state
from tandem.keras import _objects

_EPSILON = 1e-7


def _pair(y_true, y_pred):
    """Truth and predictions in one dtype and rank, as Keras brings them together."""
    y_pred = _tandem.convert(y_pred)
    if y_pred._code > 1:
        y_pred = _tandem.cast(y_pred, 0)
    y_true = _tandem.cast(_tandem.convert(y_true), y_pred._code)
    return _same_rank(y_true, y_pred)


def _last_is_one(x):
    return x._rank and x._sizes[-1] == 1


def _same_rank(y_true, y_pred):
    if y_true._rank == y_pred._rank:
        return y_true, y_pred
    if y_pred._rank == y_true._rank + 1 and _last_is_one(y_pred):
        if y_true._rank == 1:
            y_true = _tandem.expand_dims(y_true, -1)
        else:
            y_pred = _tandem.squeeze(y_pred, [-1])
    elif y_true._rank == y_pred._rank + 1 and _last_is_one(y_true):
        if y_pred._rank == 1:
            y_pred = _tandem.expand_dims(y_pred, -1)
        else:
            y_true = _tandem.squeeze(y_true, [-1])
    return y_true, y_pred


def _mean(x, axis=-1):
    return _tandem.reduce_mean(x, axis, False) if x._rank else x


@_ops.op
def mean_squared_error(y_true, y_pred):
    """The mean of the squares of the differences of each row."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(_tandem.squared_difference(y_true, y_pred))


@_ops.op
def mean_absolute_error(y_true, y_pred):
    """The mean of the absolute differences of each row."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(_tandem.abs(y_true - y_pred))


@_ops.op
def mean_absolute_percentage_error(y_true, y_pred):
    """100 times the mean of the absolute differences, relative to the truth."""
    y_true, y_pred = _pair(y_true, y_pred)
    return 100.0 * _mean(_tandem.abs((y_true - y_pred) / _tandem.maximum(_tandem.abs(y_true), _EPSILON)))


@_ops.op
def mean_squared_logarithmic_error(y_true, y_pred):
    """The mean of the squares of the differences of the logarithms."""
    y_true, y_pred = _pair(y_true, y_pred)
    first = _tandem.log(_tandem.maximum(y_pred, _EPSILON) + 1.0)
    second = _tandem.log(_tandem.maximum(y_true, _EPSILON) + 1.0)
    return _mean(_tandem.square(first - second))


@_ops.op
def cosine_similarity(y_true, y_pred, axis=-1):
    """Minus the cosine of the angle between the vectors of truth and prediction."""
    from tandem import nn

    y_true, y_pred = _pair(y_true, y_pred)
    return _tandem.reduce_sum(nn.l2_normalize(y_true, axis, 1e-14) * nn.l2_normalize(y_pred, axis, 1e-14), axis, False)


def _negated_cosine(y_true, y_pred, axis=-1):
    return -cosine_similarity(y_true, y_pred, axis)


@_ops.op
def huber(y_true, y_pred, delta=1.0):
    """Half of the squared difference up to delta, linear beyond."""
    y_true, y_pred = _pair(y_true, y_pred)
    error = _tandem.abs(y_true - y_pred)
    return _mean(_tandem.where(error <= delta, 0.5 * _tandem.square(error), delta * error - 0.5 * delta * delta))


@_ops.op
def log_cosh(y_true, y_pred):
    """The mean of the logarithm of the hyperbolic cosine of the differences."""
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return _mean(x + _tandem.softplus(-2.0 * x) - float(np.log(2.0)))


def _signs(y_true):
    """Truths of 0 and 1 as -1 and 1."""
    is_binary = _tandem.reduce_all(_tandem.logical_or(_tandem.equal(y_true, 0.0), _tandem.equal(y_true, 1.0)), None, False)
    return _tandem.where(is_binary, 2.0 * y_true - 1.0, y_true)


@_ops.op
def hinge(y_true, y_pred):
    """The mean of max(1 - y_true * y_pred, 0) for labels of -1 and 1."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(_tandem.maximum(1.0 - _signs(y_true) * y_pred, 0.0))


@_ops.op
def squared_hinge(y_true, y_pred):
    """The mean of the squares of max(1 - y_true * y_pred, 0)."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(_tandem.square(_tandem.maximum(1.0 - _signs(y_true) * y_pred, 0.0)))


@_ops.op
def categorical_hinge(y_true, y_pred):
    """max(1 + the best wrong value - the right one, 0)."""
    y_true, y_pred = _pair(y_true, y_pred)
    right = _tandem.reduce_sum(y_true * y_pred, -1, False)
    wrong = _tandem.reduce_max((1.0 - y_true) * y_pred, -1, False)
    return _tandem.maximum(wrong - right + 1.0, 0.0)


@_ops.op
def kl_divergence(y_true, y_pred):
    """The sum of y_true * log(y_true / y_pred)."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true, y_pred = _tandem.clip(y_true, _EPSILON, 1.0), _tandem.clip(y_pred, _EPSILON, 1.0)
    return _tandem.reduce_sum(y_true * _tandem.log(y_true / y_pred), -1, False)


@_ops.op
def poisson(y_true, y_pred):
    """The mean of y_pred - y_true * log(y_pred)."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(y_pred - y_true * _tandem.log(y_pred + _EPSILON))


@_ops.op
def categorical_crossentropy(y_true, y_pred, from_logits=False, label_smoothing=0.0, axis=-1):
    """The cross entropy of distributions over classes."""
    logits = getattr(y_pred, "_keras_logits", None)
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        classes = float(y_true._sizes[-1])
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / classes
    if axis not in (-1, y_pred._rank - 1):
        order = [i for i in range(y_pred._rank) if i != axis] + [axis]
        y_true, y_pred = _tandem.transpose(y_true, order), _tandem.transpose(y_pred, order)
        logits = None
    _check_same_shape(y_true, y_pred)
    if from_logits:
        return _tandem.softmax_cross_entropy_with_logits(y_true, y_pred)
    if logits is not None:
        return _tandem.softmax_cross_entropy_with_logits(y_true, logits)
    y_pred = y_pred / _tandem.reduce_sum(y_pred, -1, True)
    y_pred = _tandem.clip(y_pred, _EPSILON, 1.0 - _EPSILON)
    return -_tandem.reduce_sum(y_true * _tandem.log(y_pred), -1, False)


@_ops.op
def sparse_categorical_crossentropy(y_true, y_pred, from_logits=False, ignore_class=None, axis=-1):
    """The cross entropy of classes that are given by number."""
    logits = getattr(y_pred, "_keras_logits", None)
    y_pred = _tandem.convert(y_pred)
    y_true = _tandem.convert(y_true)
    y_true = y_true if y_true._code in (5, 6) else _tandem.cast(y_true, 6)
    if y_true._rank == y_pred._rank and _last_is_one(y_true):
        y_true = _tandem.squeeze(y_true, [-1])
    if axis not in (-1, y_pred._rank - 1):
        order = [i for i in range(y_pred._rank) if i != axis] + [axis]
        y_pred, logits = _tandem.transpose(y_pred, order), None
    valid = None
    if ignore_class is not None:
        valid = _tandem.not_equal(y_true, int(ignore_class))
        y_true = _tandem.where(valid, y_true, _tandem.zeros_like(y_true))
    if not from_logits:
        if logits is not None:
            y_pred = logits
        else:
            y_pred = _tandem.log(_tandem.clip(y_pred, _EPSILON, 1.0 - _EPSILON))
    loss = _tandem.sparse_softmax_cross_entropy_with_logits(y_true, y_pred)
    if valid is not None:
        loss = _tandem.where(valid, loss, _tandem.zeros_like(loss))
        if isinstance(loss, _tandem.Tensor):
            loss._keras_mask = valid
    return loss


def _check_same_shape(y_true, y_pred):
    if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(y_true._sizes[1:], y_pred._sizes[1:])) or y_true._rank != y_pred._rank:
        raise ValueError(f"Arguments `target` and `output` must have the same shape. Received: target.shape={tuple(y_true.shape)}, output.shape={tuple(y_pred.shape)}")


def _binary_losses(y_true, y_pred, from_logits, label_smoothing):
    logits = getattr(y_pred, "_keras_logits", None)
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    if y_true._rank == y_pred._rank:
        _check_same_shape(y_true, y_pred)
    if y_true._sizes != y_pred._sizes and not y_true._is_symbolic_shape:
        y_true = _tandem.broadcast_to(y_true, y_pred._sizes)
    if from_logits:
        return y_true, y_pred, _tandem.sigmoid_cross_entropy_with_logits(y_true, y_pred)
    if logits is not None and logits._rank == y_pred._rank:  # _pair may have taken an axis away.
        return y_true, y_pred, _tandem.sigmoid_cross_entropy_with_logits(y_true, logits)
    clipped = _tandem.clip(y_pred, _EPSILON, 1.0 - _EPSILON)
    return y_true, y_pred, -(y_true * _tandem.log(clipped) + (1.0 - y_true) * _tandem.log(1.0 - clipped))


@_ops.op
def binary_crossentropy(y_true, y_pred, from_logits=False, label_smoothing=0.0, axis=-1):
    """The mean of the cross entropies of yes-or-no predictions."""
    return _mean(_binary_losses(y_true, y_pred, from_logits, label_smoothing)[2], axis)


@_ops.op
def binary_focal_crossentropy(y_true, y_pred, apply_class_balancing=False, alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0, axis=-1):
    """Binary cross entropy in which predictions that are right already weigh less."""
    y_true, y_pred, losses = _binary_losses(y_true, y_pred, from_logits, label_smoothing)
    p = _tandem.sigmoid(y_pred) if from_logits else y_pred
    right = y_true * p + (1.0 - y_true) * (1.0 - p)
    losses = losses * _tandem.pow(1.0 - right, float(gamma))
    if apply_class_balancing:
        losses = losses * (y_true * alpha + (1.0 - y_true) * (1.0 - alpha))
    return _mean(losses, axis)


@_ops.op
def categorical_focal_crossentropy(y_true, y_pred, alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0, axis=-1):
    """Cross entropy in which predictions that are right already weigh less."""
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / float(y_true._sizes[axis])
    if from_logits:
        y_pred = _tandem.softmax(y_pred, axis)
    y_pred = y_pred / _tandem.reduce_sum(y_pred, axis, True)
    p = _tandem.clip(y_pred, _EPSILON, 1.0 - _EPSILON)
    return _tandem.reduce_sum(alpha * _tandem.pow(1.0 - p, float(gamma)) * -y_true * _tandem.log(p), axis, False)


@_ops.op
def dice(y_true, y_pred, axis=None):
    """1 - twice the overlap of truth and prediction, divided by their sizes."""
    y_true, y_pred = _pair(y_true, y_pred)
    axis = list(axis) if isinstance(axis, (tuple, list)) else axis
    both = _tandem.reduce_sum(y_true * y_pred, axis, False)
    return 1.0 - (2.0 * both + _EPSILON) / (_tandem.reduce_sum(y_true, axis, False) + _tandem.reduce_sum(y_pred, axis, False) + _EPSILON)


@_ops.op
def tversky(y_true, y_pred, alpha=0.5, beta=0.5, axis=None):
    """As dice, with weights alpha of what was missed and beta of what was predicted wrongly, as Keras computes it."""
    y_true, y_pred = _pair(y_true, y_pred)
    both = _tandem.reduce_sum(y_true * y_pred, axis, False)
    false_positive = _tandem.reduce_sum((1.0 - y_true) * y_pred, axis, False)
    false_negative = _tandem.reduce_sum(y_true * (1.0 - y_pred), axis, False)
    return 1.0 - both / (both + false_negative * alpha + false_positive * beta + _EPSILON)


# ---- Reductions ----


def _weighted(losses, weight):
    weight = _tandem.cast(_tandem.convert(weight), losses._code)
    if weight._rank == losses._rank + 1 and _last_is_one(weight):
        weight = _tandem.squeeze(weight, [-1])
    while weight._rank < losses._rank:
        weight = _tandem.expand_dims(weight, -1)
    return losses * weight, weight


def reduce_losses(losses, reduction, sample_weight=None, mask=None):
    """Losses of examples as one; inside of strategy.run this replica's share."""
    losses = _tandem.convert(losses)
    counted = None
    if mask is not None:
        mask = _tandem.cast(mask, losses._code)
        if mask._rank > losses._rank:
            mask = _tandem.reduce_max(mask, list(range(losses._rank, mask._rank)), False) if losses._rank else _tandem.fill((), 1.0, losses._code)
        while mask._rank < losses._rank:
            mask = _tandem.expand_dims(mask, -1)
        counted = mask
        sample_weight = mask if sample_weight is None else _weighted(mask, sample_weight)[0]
    weight = None
    if sample_weight is not None:
        losses, weight = _weighted(losses, sample_weight)
    if reduction in (None, "none"):
        return losses
    total = _tandem.reduce_sum(losses, None, False) if losses._rank else losses
    if reduction == "sum":
        return total
    if reduction == "mean_with_sample_weight" and weight is not None:
        divisor = _tandem.reduce_sum(_tandem.broadcast_to(weight, losses._sizes), None, False)
        if state.in_replica:
            divisor = _tandem.all_reduce("SUM", divisor)
        return _ops.divide_no_nan(total, divisor)
    if counted is not None:
        divisor = _tandem.reduce_sum(_tandem.broadcast_to(counted, losses._sizes), None, False)
        if state.in_replica:
            divisor = _tandem.all_reduce("SUM", divisor)
        return _ops.divide_no_nan(total, divisor)
    if losses._rank == 0:
        return _share_of_scalar(losses)
    return _tandem.compute_average_loss(losses)


def _share_of_scalar(loss):
    """A mean that a function of the user's made of its own rows: replicas count alike."""
    if not state.in_replica:
        return loss
    from tandem import distribute

    return loss / float(distribute.get_strategy().num_replicas_in_sync)


class Loss(_objects.Configured):
    """How far predictions are from the truth, as one number."""

    def __init__(self, name=None, reduction="sum_over_batch_size", dtype=None):
        self.name = name or _objects.auto_name(_objects.snake_case(type(self).__name__))
        reduction = getattr(reduction, "value", reduction)
        self.reduction = "sum_over_batch_size" if reduction in ("auto", "AUTO", "mean") else reduction
        if self.reduction not in ("sum_over_batch_size", "sum", "none", None, "mean_with_sample_weight"):
            raise ValueError(f"Invalid value for argument `reduction`. Received: reduction={reduction}")
        self._dtype = getattr(dtype, "compute_dtype", dtype)

    @property
    def dtype(self):
        """What truth and predictions are cast to."""
        from tandem.keras.backend import floatx

        return self._dtype or floatx()

    def _converted(self, value):
        if hasattr(type(value), "_tandem_symbolic"):
            return value
        code, logits = dtypes.code_of(self.dtype), getattr(value, "_keras_logits", None)
        value = _tandem.convert(value)
        if value.dtype.is_floating and value._code != code:
            value = _tandem.cast(value, code)
            logits = None if logits is None else _tandem.cast(logits, code)
        if logits is not None:
            value._keras_logits = logits
        return value

    def __call__(self, y_true, y_pred, sample_weight=None):
        from tandem import nest

        mask = getattr(y_pred, "_keras_mask", None)
        y_true = nest.map_structure(self._converted, y_true) if isinstance(y_true, (dict, tuple)) else self._converted(y_true)
        if not isinstance(y_pred, (dict, tuple, list)):
            y_pred = self._converted(y_pred)
        if isinstance(y_true, _tandem.Tensor) and not y_true.dtype.is_floating and isinstance(y_pred, _tandem.Tensor) and y_pred.dtype.is_floating:
            if not isinstance(self, LossFunctionWrapper) or self.fn not in _BUILT_IN:
                y_true = _tandem.cast(y_true, y_pred._code)
        losses = self.call(y_true, y_pred)
        own = getattr(losses, "_keras_mask", None)
        return reduce_losses(losses, self.reduction, sample_weight, own if own is not None else mask)

    def call(self, y_true, y_pred):
        """The losses of the rows of a batch; a loss of one's own overrides it."""
        raise NotImplementedError(f"{type(self).__name__} has no method call(y_true, y_pred)")

    def get_config(self):
        """The arguments of which from_config makes the loss again."""
        return {"name": self.name, "reduction": self.reduction}

    class Reduction:
        """How the losses of rows become one number."""

        AUTO, NONE, SUM, SUM_OVER_BATCH_SIZE = "auto", "none", "sum", "sum_over_batch_size"


Reduction = Loss.Reduction


class LossFunctionWrapper(Loss):
    """A loss of a function."""

    def __init__(self, fn, reduction="sum_over_batch_size", name=None, dtype=None, **kwargs):
        super().__init__(name or getattr(fn, "__name__", None), reduction, dtype)
        self.fn, self._fn_kwargs = fn, kwargs

    def call(self, y_true, y_pred):
        if self.fn not in _BUILT_IN and isinstance(y_true, _tandem.Tensor) and isinstance(y_pred, _tandem.Tensor):
            y_true, y_pred = _same_rank(y_true, y_pred)
        return self.fn(y_true, y_pred, **self._fn_kwargs)

    def get_config(self):
        config = super().get_config()
        config.update(self._fn_kwargs)
        return config


def _class(name, fn, default_name, **defaults):
    names = list(defaults)

    def __init__(self, *args, reduction="sum_over_batch_size", name=default_name, dtype=None, **kwargs):
        values = dict(defaults)
        for key, value in zip(names, args):
            values[key] = value
        if len(args) > len(names):
            reduction = args[len(names)]
        for key, value in kwargs.items():
            if key not in values:
                raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {key!r}; it takes {', '.join(names) or 'none'}")
            values[key] = value
        LossFunctionWrapper.__init__(self, fn, reduction, name, dtype, **values)
        self.__dict__.update(values)

    return type(name, (LossFunctionWrapper,), {"__init__": __init__, "__module__": __name__, "__doc__": fn.__doc__ or f"The loss {default_name}."})


MeanSquaredError = _class("MeanSquaredError", mean_squared_error, "mean_squared_error")
MeanAbsoluteError = _class("MeanAbsoluteError", mean_absolute_error, "mean_absolute_error")
MeanAbsolutePercentageError = _class("MeanAbsolutePercentageError", mean_absolute_percentage_error, "mean_absolute_percentage_error")
MeanSquaredLogarithmicError = _class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error, "mean_squared_logarithmic_error")
CosineSimilarity = _class("CosineSimilarity", _negated_cosine, "cosine_similarity", axis=-1)
Huber = _class("Huber", huber, "huber_loss", delta=1.0)
LogCosh = _class("LogCosh", log_cosh, "log_cosh")
Hinge = _class("Hinge", hinge, "hinge")
SquaredHinge = _class("SquaredHinge", squared_hinge, "squared_hinge")
CategoricalHinge = _class("CategoricalHinge", categorical_hinge, "categorical_hinge")
KLDivergence = _class("KLDivergence", kl_divergence, "kl_divergence")
Poisson = _class("Poisson", poisson, "poisson")
CategoricalCrossentropy = _class("CategoricalCrossentropy", categorical_crossentropy, "categorical_crossentropy", from_logits=False, label_smoothing=0.0, axis=-1)
SparseCategoricalCrossentropy = _class("SparseCategoricalCrossentropy", sparse_categorical_crossentropy, "sparse_categorical_crossentropy", from_logits=False, ignore_class=None, axis=-1)
BinaryCrossentropy = _class("BinaryCrossentropy", binary_crossentropy, "binary_crossentropy", from_logits=False, label_smoothing=0.0, axis=-1)
BinaryFocalCrossentropy = _class("BinaryFocalCrossentropy", binary_focal_crossentropy, "binary_focal_crossentropy", apply_class_balancing=False, alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0, axis=-1)
CategoricalFocalCrossentropy = _class("CategoricalFocalCrossentropy", categorical_focal_crossentropy, "categorical_focal_crossentropy", alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0, axis=-1)
Dice = _class("Dice", dice, "dice", axis=None)
Tversky = _class("Tversky", tversky, "tversky", alpha=0.5, beta=0.5, axis=None)

_objects.sign(globals(), {
    "BinaryCrossentropy": "from_logits=False, label_smoothing=0.0, axis=-1, reduction='sum_over_batch_size', name='binary_crossentropy', dtype=None",
    "BinaryFocalCrossentropy": "apply_class_balancing=False, alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0, axis=-1, reduction='sum_over_batch_size', name='binary_focal_crossentropy', dtype=None",
    "CategoricalCrossentropy": "from_logits=False, label_smoothing=0.0, axis=-1, reduction='sum_over_batch_size', name='categorical_crossentropy', dtype=None",
    "CategoricalFocalCrossentropy": "alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0, axis=-1, reduction='sum_over_batch_size', name='categorical_focal_crossentropy', dtype=None",
    "CosineSimilarity": "axis=-1, reduction='sum_over_batch_size', name='cosine_similarity', dtype=None",
    "Dice": "reduction='sum_over_batch_size', name='dice', axis=None, dtype=None",
    "Huber": "delta=1.0, reduction='sum_over_batch_size', name='huber_loss', dtype=None",
    "SparseCategoricalCrossentropy": "from_logits=False, ignore_class=None, reduction='sum_over_batch_size', axis=-1, name='sparse_categorical_crossentropy', dtype=None",
    "Tversky": "alpha=0.5, beta=0.5, reduction='sum_over_batch_size', name='tversky', axis=None, dtype=None",
})

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence = kl_divergence
logcosh = log_cosh
bce, BCE = binary_crossentropy, binary_crossentropy

_FUNCTIONS = {
    "mean_squared_error": mse, "mse": mse, "MSE": mse, "mean_absolute_error": mae, "mae": mae, "MAE": mae,
    "mean_absolute_percentage_error": mape, "mape": mape, "MAPE": mape, "mean_squared_logarithmic_error": msle,
    "msle": msle, "MSLE": msle, "cosine_similarity": _negated_cosine, "huber": huber, "Huber": huber, "huber_loss": huber,
    "log_cosh": log_cosh, "logcosh": log_cosh, "hinge": hinge, "squared_hinge": squared_hinge,
    "categorical_hinge": categorical_hinge, "kl_divergence": kld, "kld": kld, "KLD": kld,
    "kullback_leibler_divergence": kld, "poisson": poisson, "categorical_crossentropy": categorical_crossentropy,
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy, "binary_crossentropy": binary_crossentropy,
    "bce": binary_crossentropy, "BCE": binary_crossentropy, "binary_focal_crossentropy": binary_focal_crossentropy,
    "categorical_focal_crossentropy": categorical_focal_crossentropy, "dice": dice, "tversky": tversky,
}
_BUILT_IN = set(_FUNCTIONS.values())
_CLASSES = _objects.table(
    MeanSquaredError, MeanAbsoluteError, MeanAbsolutePercentageError, MeanSquaredLogarithmicError, CosineSimilarity, Huber,
    LogCosh, Hinge, SquaredHinge, CategoricalHinge, KLDivergence, Poisson, CategoricalCrossentropy,
    SparseCategoricalCrossentropy, BinaryCrossentropy, BinaryFocalCrossentropy, CategoricalFocalCrossentropy, Dice, Tversky,
)


def get(identifier):
    """The loss of a name, configuration or function."""
    if isinstance(identifier, str):
        found = _FUNCTIONS.get(identifier)
        if found is not None:
            return found
    return _objects.lookup("loss", identifier, {**_CLASSES, **_FUNCTIONS}, Loss)


def serialize(loss):
    """What `deserialize` makes the loss of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(loss)


def deserialize(config, custom_objects=None):
    """The loss of a name or configuration."""
    return get(config)


class CTC(Loss):
    """Connectionist temporal classification (Graves and others, 2006): labels without their places in time."""

    def __init__(self, reduction="sum_over_batch_size", name="ctc", dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def call(self, y_true, y_pred):
        return ctc(y_true, y_pred)

    def get_config(self):
        return {"name": self.name, "reduction": self.reduction}


def ctc(y_true, y_pred):
    """Of labels [rows, length], padded with 0, and logits [rows, steps, classes]."""
    from tandem import nn

    y_true, y_pred = _tandem.convert(y_true), _tandem.convert(y_pred)
    rows, steps = (int(n) for n in y_pred._sizes[:2])
    lengths = _tandem.reduce_sum(_tandem.cast(_tandem.not_equal(y_true, 0), 5), 1, False)
    return nn.ctc_loss(y_true, y_pred, lengths, np.full(rows, steps, np.int32), logits_time_major=False, blank_index=0)


_missing.install(__name__, globals(), {"tandem.keras._rarer": "CategoricalGeneralizedCrossEntropy Circle categorical_generalized_cross_entropy circle"})
