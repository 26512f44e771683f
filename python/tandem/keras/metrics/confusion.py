"""Metrics of counts over thresholds: true and false positives and negatives, and what is made of them."""

import numpy as np

import _tandem
from tandem import _ops
from tandem.keras import losses as _losses
from tandem.keras.metrics.base import Metric, _weights_for

_COUNTS = ("true_positives", "false_positives", "true_negatives", "false_negatives")


class _Confusion(Metric):
    """Numbers of right and wrong positives and negatives, at thresholds."""

    _counted = _COUNTS  # Which of the numbers a class keeps.

    def __init__(self, thresholds=None, top_k=None, class_id=None, name=None, dtype=None, default=0.5):
        super().__init__(dtype, name)
        self._given = thresholds
        self.init_thresholds = thresholds
        self.top_k, self.class_id = top_k, class_id
        self.thresholds = [default] if thresholds is None else ([thresholds] if isinstance(thresholds, (int, float)) else list(thresholds))
        self._make_counts()

    def _make_counts(self):
        for name in self._counted:
            setattr(self, name, self.add_variable((len(self.thresholds),), name=name))

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = _losses._pair(y_true, y_pred)
        if self.top_k is not None:
            ranks = _ops.top_k(y_pred, int(self.top_k))[1]
            y_pred = _tandem.reduce_max(_tandem.one_hot(ranks, int(y_pred._sizes[-1]), 1.0, 0.0, 0), -2, False)
        if self.class_id is not None:
            y_true, y_pred = y_true[..., self.class_id], y_pred[..., self.class_id]
        weight = None if sample_weight is None else _tandem.cast(_tandem.reshape(_weights_for(y_pred, sample_weight), (1, -1)), 0)
        y_true = _tandem.reshape(y_true, (1, -1)) > 0.5
        y_pred = _tandem.reshape(y_pred, (1, -1)) > _tandem.convert(np.asarray(self.thresholds, np.float32)[:, None], y_pred._code)
        self._count(y_true, y_pred, weight)

    def _count(self, y_true, y_pred, weight):
        def count(condition):
            values = _tandem.cast(condition, 0)
            return _tandem.reduce_sum(values if weight is None else values * weight, 1, False)

        for name in self._counted:
            truth, prediction = name.split("_")
            predicted = y_pred if prediction == "positives" else _tandem.logical_not(y_pred)
            actual = y_true if (truth == "true") == (prediction == "positives") else _tandem.logical_not(y_true)
            getattr(self, name).assign_add(count(_tandem.logical_and(predicted, actual)))

    def _value(self, values):
        return values[0] if len(self.thresholds) == 1 else values

    def get_config(self):
        return {**super().get_config(), "thresholds": self._given, "top_k": self.top_k, "class_id": self.class_id}


def _count_class(name, variable, default_name):
    def __init__(self, thresholds=None, name=None, dtype=None):
        _Confusion.__init__(self, thresholds, None, None, name, dtype)
        self.accumulator = getattr(self, variable)

    def _make_counts(self):
        setattr(self, variable, self.add_variable((len(self.thresholds),), name="accumulator"))

    def result(self):
        return self._value(self.accumulator.read_value())

    def get_config(self):
        return {**Metric.get_config(self), "thresholds": self._given}

    return type(name, (_Confusion,), {
        "__init__": __init__, "_make_counts": _make_counts, "result": result, "get_config": get_config, "_counted": (variable,), "__module__": __name__,
    })


TruePositives = _count_class("TruePositives", "true_positives", "true_positives")
FalsePositives = _count_class("FalsePositives", "false_positives", "false_positives")
TrueNegatives = _count_class("TrueNegatives", "true_negatives", "true_negatives")
FalseNegatives = _count_class("FalseNegatives", "false_negatives", "false_negatives")


class Precision(_Confusion):
    """The part of what was predicted as positive that is."""

    _counted = ("true_positives", "false_positives")

    def __init__(self, thresholds=None, top_k=None, class_id=None, name=None, dtype=None):
        super().__init__(thresholds, top_k, class_id, name, dtype)

    def result(self):
        right = self.true_positives.read_value()
        return self._value(_ops.divide_no_nan(right, right + self.false_positives))


class Recall(_Confusion):
    """The part of what is positive that was predicted so."""

    _counted = ("true_positives", "false_negatives")

    def __init__(self, thresholds=None, top_k=None, class_id=None, name=None, dtype=None):
        super().__init__(thresholds, top_k, class_id, name, dtype)

    def result(self):
        right = self.true_positives.read_value()
        return self._value(_ops.divide_no_nan(right, right + self.false_negatives))


class AUC(_Confusion):
    """The area under the curve of all thresholds."""

    def __init__(self, num_thresholds=200, curve="ROC", summation_method="interpolation", name=None, dtype=None, thresholds=None, multi_label=False, num_labels=None, label_weights=None, from_logits=False):
        self._own_thresholds = thresholds is not None
        if thresholds is None:
            thresholds = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        else:
            thresholds = sorted(thresholds)
            num_thresholds = len(thresholds) + 2
        self.multi_label, self.num_labels = multi_label, num_labels
        self.label_weights = None if label_weights is None else np.asarray(label_weights, np.float32)
        super().__init__([-1e-7] + list(thresholds) + [1 + 1e-7], None, None, name, dtype)
        self.num_thresholds, self.curve, self.summation_method, self.from_logits = num_thresholds, curve, summation_method, from_logits

    def _make_counts(self):
        if not self.multi_label:
            super()._make_counts()
        elif self.num_labels:
            self._make_counts_of(int(self.num_labels))

    def _make_counts_of(self, labels):
        for name in _COUNTS:
            setattr(self, name, self.add_variable((len(self.thresholds), labels), name=name))

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = _tandem.convert(y_pred)
        if self.from_logits:
            y_pred = _tandem.sigmoid(y_pred)
        if self.multi_label:
            return self._update_by_labels(y_true, y_pred, sample_weight)
        if self.label_weights is not None:
            y_true, y_pred = _losses._pair(y_true, y_pred)
            weights = _tandem.broadcast_to(_tandem.cast(_tandem.convert(self.label_weights), y_pred._code), y_pred._sizes)
            sample_weight = weights if sample_weight is None else weights * _weights_for(y_pred, sample_weight)
        super().update_state(y_true, y_pred, sample_weight)

    def _update_by_labels(self, y_true, y_pred, sample_weight):
        y_true, y_pred = _losses._pair(y_true, y_pred)
        labels = int(y_pred._sizes[-1])
        if not hasattr(self, "true_positives"):
            self._make_counts_of(labels)
        y_true, y_pred = (_tandem.reshape(y, (1, -1, labels)) for y in (y_true > 0.5, y_pred))
        weight = None if sample_weight is None else _tandem.reshape(_weights_for(y_pred[0], sample_weight), (1, -1, labels))
        self._count(y_true, y_pred > _tandem.convert(np.asarray(self.thresholds, np.float32)[:, None, None], y_pred._code), weight)

    def _joined(self, by_label):
        """The mean of what the labels have, or their one value."""
        if not self.multi_label:
            return by_label
        if self.label_weights is None:
            return _tandem.reduce_mean(by_label, None, False)
        return _tandem.reduce_sum(by_label * self.label_weights, None, False) / float(self.label_weights.sum())

    def result(self):
        tp, fp = self.true_positives.read_value(), self.false_positives.read_value()
        tn, fn = self.true_negatives.read_value(), self.false_negatives.read_value()
        recall = _ops.divide_no_nan(tp, tp + fn)
        if self.curve == "PR":
            if self.summation_method == "interpolation":
                return self._interpolated(tp, fp, fn)
            x, y = recall, _ops.divide_no_nan(tp, tp + fp)
        else:
            x, y = _ops.divide_no_nan(fp, fp + tn), recall
        n = self.num_thresholds
        if self.summation_method in ("interpolation",):
            heights = (y[: n - 1] + y[1:]) / 2.0
        elif self.summation_method == "minoring":
            heights = _tandem.minimum(y[: n - 1], y[1:])
        else:
            heights = _tandem.maximum(y[: n - 1], y[1:])
        return self._joined(_tandem.reduce_sum((x[: n - 1] - x[1:]) * heights, 0, False))

    def _interpolated(self, tp, fp, fn):
        n = self.num_thresholds
        dtp = tp[: n - 1] - tp[1:]
        p = tp + fp
        dp = p[: n - 1] - p[1:]
        slope = _ops.divide_no_nan(dtp, _tandem.maximum(dp, 0.0))
        intercept = tp[1:] - slope * p[1:]
        both = _tandem.logical_and(p[: n - 1] > 0, p[1:] > 0)
        ratio = _tandem.where(both, _ops.divide_no_nan(p[: n - 1], _tandem.maximum(p[1:], 0.0)), _tandem.ones_like(p[1:]))
        top = slope * (dtp + intercept * _tandem.log(ratio))
        return self._joined(_tandem.reduce_sum(_ops.divide_no_nan(top, _tandem.maximum(tp[1:] + fn[1:], 0.0)), 0, False))

    def get_config(self):
        return {
            "name": self.name, "dtype": self.dtype, "num_thresholds": self.num_thresholds, "curve": self.curve, "summation_method": self.summation_method,
            "multi_label": self.multi_label, "num_labels": self.num_labels, "label_weights": None if self.label_weights is None else self.label_weights.tolist(),
            "from_logits": self.from_logits, **({"thresholds": self.thresholds[1:-1]} if self._own_thresholds else {}),
        }


class _AtValue(_Confusion):
    def __init__(self, value, num_thresholds=200, class_id=None, name=None, dtype=None):
        thresholds = [0.5] if num_thresholds == 1 else [0.0] + [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)] + [1.0]
        super().__init__(thresholds, None, class_id, name, dtype)
        self.value, self.num_thresholds, self.class_id = value, num_thresholds, class_id

    def _best(self, constraint, value):
        feasible = constraint >= self.value
        low = _tandem.fill((), -1.0, 0)
        best = _tandem.reduce_max(_tandem.where(feasible, value, low), None, False)
        return _tandem.maximum(best, 0.0)

    def _rates(self):
        tp, fp = self.true_positives.read_value(), self.false_positives.read_value()
        tn, fn = self.true_negatives.read_value(), self.false_negatives.read_value()
        d = _ops.divide_no_nan
        return d(tp, tp + fn), d(tn, tn + fp), d(tp, tp + fp)


def _at_class(name, constraint, value, default_name):
    def __init__(self, num_thresholds=200, class_id=None, name=None, dtype=None, **given):
        _AtValue.__init__(self, given[constraint], num_thresholds, class_id, name, dtype)

    def result(self):
        rates = dict(zip(("sensitivity", "specificity", "precision"), self._rates()))
        rates["recall"] = rates["sensitivity"]
        return self._best(rates[constraint], rates[value])

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype, "class_id": self.class_id, "num_thresholds": self.num_thresholds, constraint: self.value}

    return type(name, (_AtValue,), {"__init__": __init__, "result": result, "get_config": get_config, "__module__": __name__})


SensitivityAtSpecificity = _at_class("SensitivityAtSpecificity", "specificity", "sensitivity", "sensitivity_at_specificity")
SpecificityAtSensitivity = _at_class("SpecificityAtSensitivity", "sensitivity", "specificity", "specificity_at_sensitivity")
PrecisionAtRecall = _at_class("PrecisionAtRecall", "recall", "precision", "precision_at_recall")
RecallAtPrecision = _at_class("RecallAtPrecision", "precision", "recall", "recall_at_precision")
