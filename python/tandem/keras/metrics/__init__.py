"""Metrics, keras.metrics: states that are counted into and read."""

import _tandem
from tandem import _ops
from tandem._names import words as _words
from tandem._names import missing as _missing
from tandem.keras import _objects, losses as _losses
from tandem.keras.losses import (  # noqa: F401: metrics by the names of losses
    binary_crossentropy, categorical_crossentropy, categorical_hinge, cosine_similarity, hinge, huber, kl_divergence, kld,
    log_cosh, mae, mape, mean_absolute_error, mean_absolute_percentage_error, mean_squared_error,
    mean_squared_logarithmic_error, mse, msle, poisson, sparse_categorical_crossentropy, squared_hinge,
)
from tandem.keras.metrics.base import Mean, MeanMetricWrapper, Metric, Sum, _weights_for, merge_processes  # noqa: F401
from tandem.keras.metrics.confusion import (  # noqa: F401
    AUC, FalseNegatives, FalsePositives, Precision, PrecisionAtRecall, Recall, RecallAtPrecision, SensitivityAtSpecificity,
    SpecificityAtSensitivity, TrueNegatives, TruePositives,
)
from tandem.keras.metrics.overlaps import BinaryIoU, F1Score, FBetaScore, IoU, MeanIoU, OneHotIoU, OneHotMeanIoU  # noqa: F401


# ---- Accuracies ----


def _matches(y_true, y_pred):
    y_true, y_pred = _tandem.convert(y_true), _tandem.convert(y_pred)
    y_true = _tandem.cast(y_true, y_pred._code)
    y_true, y_pred = _losses._same_rank(y_true, y_pred)
    return _tandem.cast(_tandem.equal(y_true, y_pred), 0)


@_ops.op
def accuracy(y_true, y_pred):
    """1 where the prediction equals the truth."""
    return _matches(y_true, y_pred)


@_ops.op
def binary_accuracy(y_true, y_pred, threshold=0.5):
    """1 where a prediction is on the right side of the threshold."""
    y_true, y_pred = _losses._pair(y_true, y_pred)
    return _tandem.cast(_tandem.equal(y_true, _tandem.cast(y_pred > threshold, y_true._code)), 0)


@_ops.op
def categorical_accuracy(y_true, y_pred):
    """1 where the largest prediction is that of the true class, given as a one-hot vector."""
    return _tandem.cast(_tandem.equal(_ops.argmax(y_true, -1), _ops.argmax(y_pred, -1)), 0)


@_ops.op
def sparse_categorical_accuracy(y_true, y_pred):
    """1 where the largest prediction is that of the true class, given by number."""
    y_true, y_pred = _tandem.convert(y_true), _tandem.convert(y_pred)
    if y_true._rank == y_pred._rank and y_true._sizes[-1] == 1:
        y_true = _tandem.squeeze(y_true, [-1])
    return _tandem.cast(_tandem.equal(_tandem.cast(y_true, 6), _ops.argmax(y_pred, -1)), 0)


@_ops.op
def sparse_top_k_categorical_accuracy(y_true, y_pred, k=5, from_sorted_ids=False):
    """1 where the true class, given by number, is among the k largest predictions."""
    y_true, y_pred = _tandem.convert(y_true), _tandem.convert(y_pred)
    if y_true._rank == y_pred._rank and y_true._sizes[-1] == 1:
        y_true = _tandem.squeeze(y_true, [-1])
    return _tandem.cast(_ops.in_top_k(y_true, y_pred, k), 0)


@_ops.op
def top_k_categorical_accuracy(y_true, y_pred, k=5):
    """1 where the true class, given as a one-hot vector, is among the k largest predictions."""
    return sparse_top_k_categorical_accuracy(_ops.argmax(y_true, -1), y_pred, k)


def _class(name, fn, default_name, **defaults):
    names = list(defaults)

    def __init__(self, *args, name=default_name, dtype=None, **kwargs):
        values = dict(defaults)
        values.update(zip(names, args))
        if not names and args:
            name = args[0]
        for key, value in kwargs.items():
            if key not in values:
                raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {key!r}")
            values[key] = value
        MeanMetricWrapper.__init__(self, fn, name, dtype, **values)

    return type(name, (MeanMetricWrapper,), {"__init__": __init__, "__module__": __name__})


Accuracy = _class("Accuracy", accuracy, "accuracy")
BinaryAccuracy = _class("BinaryAccuracy", binary_accuracy, "binary_accuracy", threshold=0.5)
CategoricalAccuracy = _class("CategoricalAccuracy", categorical_accuracy, "categorical_accuracy")
SparseCategoricalAccuracy = _class("SparseCategoricalAccuracy", sparse_categorical_accuracy, "sparse_categorical_accuracy")
TopKCategoricalAccuracy = _class("TopKCategoricalAccuracy", top_k_categorical_accuracy, "top_k_categorical_accuracy", k=5)
SparseTopKCategoricalAccuracy = _class("SparseTopKCategoricalAccuracy", sparse_top_k_categorical_accuracy, "sparse_top_k_categorical_accuracy", k=5, from_sorted_ids=False)
MeanSquaredError = _class("MeanSquaredError", mean_squared_error, "mean_squared_error")
MeanAbsoluteError = _class("MeanAbsoluteError", mean_absolute_error, "mean_absolute_error")
MeanAbsolutePercentageError = _class("MeanAbsolutePercentageError", mean_absolute_percentage_error, "mean_absolute_percentage_error")
MeanSquaredLogarithmicError = _class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error, "mean_squared_logarithmic_error")
CosineSimilarity = _class("CosineSimilarity", cosine_similarity, "cosine_similarity", axis=-1)
LogCoshError = _class("LogCoshError", log_cosh, "logcosh")
Hinge = _class("Hinge", hinge, "hinge")
SquaredHinge = _class("SquaredHinge", squared_hinge, "squared_hinge")
CategoricalHinge = _class("CategoricalHinge", categorical_hinge, "categorical_hinge")
KLDivergence = _class("KLDivergence", kl_divergence, "kl_divergence")
Poisson = _class("Poisson", poisson, "poisson")
BinaryCrossentropy = _class("BinaryCrossentropy", binary_crossentropy, "binary_crossentropy", from_logits=False, label_smoothing=0)
CategoricalCrossentropy = _class("CategoricalCrossentropy", categorical_crossentropy, "categorical_crossentropy", from_logits=False, label_smoothing=0, axis=-1)
SparseCategoricalCrossentropy = _class("SparseCategoricalCrossentropy", sparse_categorical_crossentropy, "sparse_categorical_crossentropy", from_logits=False, ignore_class=None, axis=-1)


class RootMeanSquaredError(Mean):
    """The root of the mean of squared differences."""

    def __init__(self, name="root_mean_squared_error", dtype=None):
        super().__init__(name, dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = _losses._pair(y_true, y_pred)
        super().update_state(_tandem.squared_difference(y_true, y_pred), sample_weight)

    def result(self):
        return _tandem.sqrt(super().result())


class R2Score(Metric):
    """The part of the variance of the truth that predictions explain."""

    def __init__(self, class_aggregation="uniform_average", num_regressors=0, name="r2_score", dtype=None):
        super().__init__(dtype, name)
        if num_regressors < 0:
            raise ValueError(f"Invalid value for argument `num_regressors`. Expected a value >= 0. Received: num_regressors={num_regressors}")
        self.class_aggregation, self.num_regressors = class_aggregation, num_regressors
        self._rows = self.add_variable((), name="num_samples") if num_regressors else None
        self._built = False

    def get_config(self):
        return {**super().get_config(), "class_aggregation": self.class_aggregation, "num_regressors": self.num_regressors}

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = _losses._pair(y_true, y_pred)
        if self._rows is not None:
            self._rows.assign_add(_tandem.cast(_ops.size(y_true), 0))
        if not self._built:
            n = int(y_true._sizes[-1])
            self._names = [self.add_variable((n,), name=k) for k in ("squared_sum", "sum", "residual", "count")]
            self._built = True
        weight = _tandem.ones_like(y_true) if sample_weight is None else _weights_for(y_true, sample_weight)
        squared_sum, total, residual, count = self._names
        squared_sum.assign_add(_tandem.reduce_sum(weight * y_true * y_true, 0, False))
        total.assign_add(_tandem.reduce_sum(weight * y_true, 0, False))
        residual.assign_add(_tandem.reduce_sum(weight * _tandem.squared_difference(y_true, y_pred), 0, False))
        count.assign_add(_tandem.reduce_sum(weight, 0, False))

    def result(self):
        squared_sum, total, residual, count = [v.read_value() for v in self._names]
        mean = total / count
        scores = 1 - residual / (squared_sum - total * mean)
        score = scores if self.class_aggregation is None else _tandem.reduce_mean(scores, None, False)
        if self._rows is None:
            return score
        rows = self._rows.read_value()
        return 1 - (1 - score) * (rows - 1) / (rows - self.num_regressors - 1)


_objects.sign(globals(), {
    "BinaryAccuracy": "name='binary_accuracy', dtype=None, threshold=0.5",
    "BinaryCrossentropy": "name='binary_crossentropy', dtype=None, from_logits=False, label_smoothing=0",
    "CategoricalCrossentropy": "name='categorical_crossentropy', dtype=None, from_logits=False, label_smoothing=0, axis=-1",
    "CosineSimilarity": "name='cosine_similarity', dtype=None, axis=-1",
    "PrecisionAtRecall": "recall, num_thresholds=200, class_id=None, name=None, dtype=None",
    "RecallAtPrecision": "precision, num_thresholds=200, class_id=None, name=None, dtype=None",
    "SensitivityAtSpecificity": "specificity, num_thresholds=200, class_id=None, name=None, dtype=None",
    "SparseCategoricalCrossentropy": "name='sparse_categorical_crossentropy', dtype=None, from_logits=False, ignore_class=None, axis=-1",
    "SparseTopKCategoricalAccuracy": "k=5, name='sparse_top_k_categorical_accuracy', dtype=None, from_sorted_ids=False",
    "SpecificityAtSensitivity": "sensitivity, num_thresholds=200, class_id=None, name=None, dtype=None",
    "TopKCategoricalAccuracy": "k=5, name='top_k_categorical_accuracy', dtype=None",
})


class MeanRelativeError(Mean):
    """The mean of the differences, relative to a normalizer."""

    def __init__(self, normalizer, name=None, dtype=None):
        super().__init__(name or "mean_relative_error", dtype)
        self.normalizer = _tandem.convert(normalizer, 0)

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = _losses._pair(y_true, y_pred)
        super().update_state(_ops.divide_no_nan(_tandem.abs(y_true - y_pred), self.normalizer), sample_weight)


class MeanTensor(Metric):
    """The mean of tensors, element by element."""

    def __init__(self, name="mean_tensor", dtype=None, shape=None):
        super().__init__(dtype, name)
        self._states = None

    def update_state(self, values, sample_weight=None):
        values = _tandem.cast(_tandem.convert(values), 0)
        if self._states is None:
            self._states = [self.add_variable(values._sizes, name=k) for k in ("total", "count")]
        weight = _tandem.ones_like(values) if sample_weight is None else _weights_for(values, sample_weight)
        self._states[0].assign_add(values * weight)
        self._states[1].assign_add(weight)

    def result(self):
        return _ops.divide_no_nan(self._states[0].read_value(), self._states[1].read_value())


_CLASSES = _objects.table(
    Mean, Sum, Accuracy, BinaryAccuracy, CategoricalAccuracy, SparseCategoricalAccuracy, TopKCategoricalAccuracy,
    SparseTopKCategoricalAccuracy, MeanSquaredError, MeanAbsoluteError, MeanAbsolutePercentageError,
    MeanSquaredLogarithmicError, CosineSimilarity, LogCoshError, Hinge, SquaredHinge, CategoricalHinge, KLDivergence, Poisson,
    BinaryCrossentropy, CategoricalCrossentropy, SparseCategoricalCrossentropy, RootMeanSquaredError, R2Score, TruePositives,
    FalsePositives, TrueNegatives, FalseNegatives, Precision, Recall, AUC, FBetaScore, F1Score, IoU, MeanIoU, OneHotIoU,
    OneHotMeanIoU, BinaryIoU,
    mse=MeanSquaredError, MSE=MeanSquaredError, mae=MeanAbsoluteError, MAE=MeanAbsoluteError, mape=MeanAbsolutePercentageError,
    MAPE=MeanAbsolutePercentageError, msle=MeanSquaredLogarithmicError, MSLE=MeanSquaredLogarithmicError, auc=AUC,
    rmse=RootMeanSquaredError, kld=KLDivergence, bce=BinaryCrossentropy, logcosh=LogCoshError, f1_score=F1Score,
)


def get(identifier):
    """The metric of a name, configuration or function."""
    if isinstance(identifier, str):
        name = identifier
        found = _CLASSES.get(name)
        if isinstance(found, type):
            metric = found()
            if name == _objects.snake_case(name):
                metric.name = name
            return metric
    return _objects.lookup("metric", identifier, _CLASSES, Metric)


def serialize(metric):
    """What `deserialize` makes the metric of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(metric)


def deserialize(config, custom_objects=None):
    """The metric of a name or configuration."""
    return get(config)

_words.describe(__name__, globals())
_missing.install(__name__, globals(), {
    "tandem.keras.losses": "KLD=kl_divergence MAE=mean_absolute_error MAPE=mean_absolute_percentage_error MSE=mean_squared_error"
    " MSLE=mean_squared_logarithmic_error kullback_leibler_divergence=kl_divergence logcosh=log_cosh binary_focal_crossentropy categorical_focal_crossentropy",
    "tandem.keras._rarer": "ConcordanceCorrelation PearsonCorrelation concordance_correlation pearson_correlation",
})

__all__ = [  # Written by scripts/exported-names.py.
    "AUC", "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "BinaryIoU", "CategoricalAccuracy", "CategoricalCrossentropy",
    "CategoricalHinge", "CosineSimilarity", "F1Score", "FBetaScore", "FalseNegatives", "FalsePositives", "Hinge", "IoU", "KLDivergence",
    "LogCoshError", "Mean", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanIoU", "MeanMetricWrapper", "MeanRelativeError",
    "MeanSquaredError", "MeanSquaredLogarithmicError", "MeanTensor", "Metric", "OneHotIoU", "OneHotMeanIoU", "Poisson", "Precision",
    "PrecisionAtRecall", "R2Score", "Recall", "RecallAtPrecision", "RootMeanSquaredError", "SensitivityAtSpecificity",
    "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy", "SparseTopKCategoricalAccuracy", "SpecificityAtSensitivity",
    "SquaredHinge", "Sum", "TopKCategoricalAccuracy", "TrueNegatives", "TruePositives", "accuracy", "binary_accuracy",
    "binary_crossentropy", "categorical_accuracy", "categorical_crossentropy", "categorical_hinge", "cosine_similarity", "deserialize",
    "get", "hinge", "huber", "kl_divergence", "kld", "log_cosh", "mae", "mape", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_squared_error", "mean_squared_logarithmic_error", "merge_processes", "mse", "msle", "poisson", "serialize",
    "sparse_categorical_accuracy", "sparse_categorical_crossentropy", "sparse_top_k_categorical_accuracy", "squared_hinge",
    "top_k_categorical_accuracy",
]
