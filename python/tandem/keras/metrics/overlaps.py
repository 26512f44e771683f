"""Metrics of how far predicted classes and regions overlap the true ones."""

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem.keras import losses as _losses
from tandem.keras.metrics.base import Metric, _weights_for


class FBetaScore(Metric):
    """The weighted harmonic mean of precision and recall."""

    def __init__(self, average=None, beta=1.0, threshold=None, name="fbeta_score", dtype=None):
        super().__init__(dtype, name)
        self.average, self.beta, self.threshold = average, beta, threshold
        self._states = None

    def get_config(self):
        return {**super().get_config(), "average": self.average, "beta": self.beta, "threshold": self.threshold}

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = _losses._pair(y_true, y_pred)
        n, y_true = int(y_pred._sizes[-1]), _tandem.cast(y_true, 0)
        if self._states is None:
            shape = (n,) if self.average != "micro" else ()
            self._states = [self.add_variable(shape, name=k) for k in ("true_positives", "false_positives", "false_negatives", "intermediate_weights")]
        if self.threshold is None:
            chosen = _tandem.one_hot(_ops.argmax(y_pred, -1), n, 1.0, 0.0, 0)
        else:
            chosen = _tandem.cast(y_pred > self.threshold, 0)
        axis = None if self.average == "micro" else 0

        def total(values):
            if sample_weight is not None:
                values = values * _weights_for(values, sample_weight)
            return _tandem.reduce_sum(values, axis, False)

        tp, fp, fn, weights = self._states
        tp.assign_add(total(chosen * y_true))
        fp.assign_add(total(chosen * (1 - y_true)))
        fn.assign_add(total((1 - chosen) * y_true))
        weights.assign_add(total(y_true))

    def result(self):
        tp, fp, fn, weights = [s.read_value() for s in self._states]
        precision, recall = tp / (tp + fp + 1e-7), tp / (tp + fn + 1e-7)
        b = self.beta**2
        score = (1 + b) * precision * recall / (precision * b + recall + 1e-7)
        if self.average == "weighted":
            return _tandem.reduce_sum(score * weights / (_tandem.reduce_sum(weights, None, False) + 1e-7), None, False)
        return _tandem.reduce_mean(score, None, False) if self.average is not None else score

    def reset_state(self):
        for v in self._states or ():
            v.assign(_tandem.fill(v._sizes, 0.0, v._code))


class F1Score(FBetaScore):
    """The harmonic mean of precision and recall."""

    def __init__(self, average=None, threshold=None, name="f1_score", dtype=None):
        super().__init__(average, 1.0, threshold, name, dtype)

    def get_config(self):
        return {k: v for k, v in super().get_config().items() if k != "beta"}


class _IoU(Metric):
    _arguments = ("num_classes", "target_class_ids", "ignore_class", "sparse_y_true", "sparse_y_pred", "axis")

    def __init__(self, num_classes, target_class_ids=None, name=None, dtype=None, ignore_class=None, sparse_y_true=True, sparse_y_pred=True, axis=-1):
        super().__init__(dtype or "int64", name)
        self.num_classes, self.ignore_class, self.axis = int(num_classes), ignore_class, axis
        self.target_class_ids = list(range(self.num_classes)) if target_class_ids is None else tuple(target_class_ids)
        self.sparse_y_true, self.sparse_y_pred = sparse_y_true, sparse_y_pred
        self.total_cm = self.add_variable((self.num_classes, self.num_classes), dtype="float32", name="total_confusion_matrix")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = _tandem.convert(y_true), _tandem.convert(y_pred)
        y_true = y_true if self.sparse_y_true else _ops.argmax(y_true, self.axis)
        y_pred = y_pred if self.sparse_y_pred else _ops.argmax(y_pred, self.axis)
        weights = sample_weight
        y_true, y_pred = _tandem.reshape(_tandem.cast(y_true, 5), (-1,)), _tandem.reshape(_tandem.cast(y_pred, 5), (-1,))
        if weights is not None:
            # Weights have the metric's dtype: unless that is given, those of fractions are none.
            weights = _tandem.reshape(_tandem.cast(_tandem.cast(_tandem.convert(weights), dtypes.code_of(self._dtype)), 0), (-1,))
        n = self.num_classes
        valid = (y_true >= 0) & (y_true < n) & (y_pred >= 0) & (y_pred < n)
        y_true, y_pred = _ops.where(valid, y_true, 0), _ops.where(valid, y_pred, 0)
        valid = _tandem.cast(valid if self.ignore_class is None else valid & _tandem.not_equal(y_true, int(self.ignore_class)), 0)
        weights = valid if weights is None else weights * valid
        self.total_cm.assign_add(_ops.confusion_matrix(y_true, y_pred, self.num_classes, weights, "float32"))

    def get_config(self):
        return {**super().get_config(), **{name: getattr(self, name) for name in self._arguments}}

    def result(self):
        cm = self.total_cm.read_value()
        rows, columns = _tandem.reduce_sum(cm, 0, False), _tandem.reduce_sum(cm, 1, False)
        right = _ops.diag_part(cm)
        below = rows + columns - right
        ids = np.asarray(self.target_class_ids, np.int32)
        right, below = _tandem.gather(right, ids, 0), _tandem.gather(below, ids, 0)
        valid = _tandem.cast(below > 1e-7, 0)
        return _ops.divide_no_nan(_tandem.reduce_sum(_ops.divide_no_nan(right, below), None, False), _tandem.reduce_sum(valid, None, False))


class IoU(_IoU):
    """The overlap of truth and prediction, divided by their union, for some classes."""

    def __init__(self, num_classes, target_class_ids, name=None, dtype=None, ignore_class=None, sparse_y_true=True, sparse_y_pred=True, axis=-1):
        super().__init__(num_classes, target_class_ids, name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis)


class MeanIoU(_IoU):
    """The mean over classes of overlap divided by union."""

    _arguments = ("num_classes", "ignore_class", "sparse_y_true", "sparse_y_pred", "axis")

    def __init__(self, num_classes, name=None, dtype=None, ignore_class=None, sparse_y_true=True, sparse_y_pred=True, axis=-1):
        super().__init__(num_classes, None, name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis)


class OneHotIoU(_IoU):
    """IoU of one-hot vectors."""

    _arguments = ("num_classes", "target_class_ids", "ignore_class", "sparse_y_pred", "axis")

    def __init__(self, num_classes, target_class_ids, name=None, dtype=None, ignore_class=None, sparse_y_pred=False, axis=-1):
        super().__init__(num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis)


class OneHotMeanIoU(_IoU):
    """MeanIoU of one-hot vectors."""

    _arguments = ("num_classes", "ignore_class", "sparse_y_pred", "axis")

    def __init__(self, num_classes, name=None, dtype=None, ignore_class=None, sparse_y_pred=False, axis=-1):
        super().__init__(num_classes, None, name, dtype, ignore_class, False, sparse_y_pred, axis)


class BinaryIoU(_IoU):
    """IoU of yes-or-no predictions."""

    _arguments = ("target_class_ids", "threshold")

    def __init__(self, target_class_ids=(0, 1), threshold=0.5, name=None, dtype=None):
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_true, _tandem.cast(_tandem.convert(y_pred) >= self.threshold, 5), sample_weight)
