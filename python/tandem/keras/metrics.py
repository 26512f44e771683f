"""Metrics, keras.metrics: states that are counted into and read."""

import functools

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._names import words as _words
from tandem._names import missing as _missing
from tandem._tracing.state import state
from tandem.keras import _objects, initializers, losses as _losses
from tandem.keras._variable import KerasVariable
from tandem.keras.losses import (  # noqa: F401: metrics by the names of losses
    binary_crossentropy, categorical_crossentropy, categorical_hinge, cosine_similarity, hinge, huber, kl_divergence, kld,
    log_cosh, mae, mape, mean_absolute_error, mean_absolute_percentage_error, mean_squared_error,
    mean_squared_logarithmic_error, mse, msle, poisson, sparse_categorical_crossentropy, squared_hinge,
)


def merge_processes(metric, strategy):
    """The state of a metric becomes the sum over all processes."""
    from tandem.distribute._values import PerReplica, marked

    count = strategy._local_replicas
    for variable in metric.variables:
        own = variable.read_value()
        parts = [own] + [_tandem.zeros_like(own)] * (count - 1)
        variable.assign(strategy.reduce("SUM", marked(PerReplica(parts), count)))


def _over_processes(result):
    """A metric's `result` in a loop of one's own: of the states of all processes that train together, each of which calls it."""

    @functools.wraps(result)
    def call(self, *args, **kwargs):
        strategy = self.__dict__.get("_tandem_strategy")
        if strategy is None or state.metrics_alone or state.in_replica or state.tracing or not self._is_apart(strategy):
            return result(self, *args, **kwargs)
        own = [v.read_value() for v in self.variables]
        try:
            state.metrics_alone = True
            merge_processes(self, strategy)
            return result(self, *args, **kwargs)
        finally:
            state.metrics_alone = False
            for v, value in zip(self.variables, own):
                v.assign(value)

    return call


class Metric(_objects.Configured):
    """A state over examples, and what it says."""

    _is_merged = False  # Whether this process has the state of all already.

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "result" in vars(cls):
            cls.result = _over_processes(cls.result)

    def __init__(self, dtype=None, name=None):
        self.name = name or _objects.auto_name(_objects.snake_case(type(self).__name__))
        self._dtype = dtypes.as_dtype(dtype or "float32").name
        self._variables_ = []
        from tandem.keras._layer import _current_strategy

        self._tandem_strategy = _current_strategy()

    dtype = property(lambda self: self._dtype)
    dtype_policy = property(lambda self: self._dtype)

    def add_variable(self, shape=(), initializer=None, dtype=None, aggregation="sum", name=None):
        """A variable of the metric's state."""
        import contextlib

        from tandem._tracing.state import init_scope

        scope = contextlib.nullcontext()
        if self._tandem_strategy is not None and not state.in_replica:
            from tandem import distribute

            if not distribute.has_strategy():
                scope = self._tandem_strategy.scope()
        many = self._tandem_strategy is not None
        # Replicas have states of their own, which meet when they are read, or one that all add to.
        synchronization = "auto" if not many else "on_write" if self._tandem_strategy._has_one_state else "on_read"
        with scope, init_scope():
            variable = KerasVariable(
                initializers.get(initializer or "zeros"),
                shape=(shape,) if isinstance(shape, int) else tuple(shape),
                dtype=dtype or self._dtype,
                trainable=False,
                name=name or "state",
                path=f"{self.name}/{name or 'state'}",
                aggregation="sum" if many else "none",
                synchronization=synchronization,
            )
        if many and self._tandem_strategy._model_parts > 1:
            variable._adds_share = True
        variable._metric_initializer = initializers.get(initializer or "zeros")
        self._variables_.append(variable)
        return variable

    def add_weight(self, shape=(), initializer=None, dtype=None, name=None, **kwargs):
        """A variable of the metric's state."""
        if isinstance(shape, str):
            name, shape = shape, kwargs.pop("shape", initializer if isinstance(initializer, (tuple, list)) else ())
            initializer = None if isinstance(initializer, (tuple, list)) else initializer
        return self.add_variable(shape, initializer, dtype, name=name)

    @property
    def variables(self):
        """The variables of the state."""
        found = list(self._variables_)
        for value in self.__dict__.values():
            if isinstance(value, _tandem.Variable) and not any(value is v for v in found):
                found.append(value)
            elif isinstance(value, Metric):
                found += value.variables
        return found

    weights = variables
    trainable_variables = trainable_weights = property(lambda self: [])
    non_trainable_variables = property(lambda self: self.variables)

    def _is_apart(self, strategy):
        """Whether each process has a state of its own, which the others do not know."""
        return strategy._spans_processes and strategy._model_parts == 1 and not strategy._has_one_state and not self._is_merged

    def reset_state(self):
        """Sets the state to zeros."""
        self._is_merged = False
        for v in self.variables:
            v.assign(_tandem.fill(v._sizes, 0.0, v._code))

    def reset_states(self):
        """reset_state, by its name in Keras 2."""
        self.reset_state()

    def update_state(self, *args, **kwargs):
        """Takes a batch into account; a metric of one's own overrides it."""
        raise NotImplementedError(f"{type(self).__name__} has no method update_state")

    def result(self):
        """The value of the metric, or several by name; a metric of one's own overrides it."""
        raise NotImplementedError(f"{type(self).__name__} has no method result")

    def __call__(self, *args, **kwargs):
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self):
        """The arguments of which from_config makes the metric again."""
        return {"name": self.name, "dtype": self._dtype}

    def _with_state(self, values, f):
        """What `f` gives, and the state that it leaves, beginning with one that is given; the metric keeps its own."""
        variables = self.variables
        if len(values) != len(variables):
            raise ValueError(f"Argument `metric_variables` must be a list of tensors corresponding 1:1 to {type(self).__name__}().variables. Received list with length {len(values)}, but expected {len(variables)} variables.")
        kept = [v.read_value() for v in variables]
        try:
            for v, value in zip(variables, values):
                v.assign(value)
            return f(), [v.read_value() for v in variables]
        finally:
            for v, value in zip(variables, kept):
                v.assign(value)

    def stateless_update_state(self, metric_variables, *args, **kwargs):
        """The state after a batch, of the state before."""
        return self._with_state(metric_variables, lambda: self.update_state(*args, **kwargs))[1]

    def stateless_result(self, metric_variables):
        """The result of a state."""
        return self._with_state(metric_variables, self.result)[0]

    def stateless_reset_state(self):
        """The state before the first batch."""
        return self._with_state([v.read_value() for v in self.variables], self.reset_state)[1]

    def _trackable_children(self):
        return {v.name: v for v in self.variables}

    def __repr__(self):
        return f"<{type(self).__name__} name={self.name}>"


def _weights_for(values, sample_weight):
    weight = _tandem.cast(_tandem.convert(sample_weight), values._code)
    if weight._rank == values._rank + 1 and weight._sizes[-1] == 1:
        weight = _tandem.squeeze(weight, [-1])
    if weight._rank > values._rank:
        weight = _tandem.reduce_mean(weight, list(range(values._rank, weight._rank)), False)
    while weight._rank < values._rank:
        if values._rank - weight._rank and weight._rank == 0:
            break
        weight = _tandem.expand_dims(weight, -1)
    return _tandem.broadcast_to(weight, values._sizes)


def _sum(values):
    """The sum of all elements; of a single one that is itself."""
    return _tandem.reduce_sum(values, None, False) if values._rank else values


class Mean(Metric):
    """The mean of values."""

    def __init__(self, name="mean", dtype=None):
        super().__init__(dtype, name)
        self.total = self.add_variable(name="total")
        self.count = self.add_variable(name="count")

    def update_state(self, values, sample_weight=None):
        values = _tandem.cast(_tandem.convert(values), 0)
        if sample_weight is None:
            self.total.assign_add(_sum(values))
            count = _tandem.cast(_tandem.size(values, 5), 0) if values._is_symbolic_shape else float(values.shape.num_elements())
            self.count.assign_add(count)
            return
        weight = _weights_for(values, sample_weight)
        self.total.assign_add(_sum(values * weight))
        self.count.assign_add(_sum(weight))

    def result(self):
        return _ops.divide_no_nan(self.total.read_value(), self.count.read_value())


class Sum(Metric):
    """The sum of the values."""

    def __init__(self, name="sum", dtype=None):
        super().__init__(dtype, name)
        self.total = self.add_variable(name="total")

    def update_state(self, values, sample_weight=None):
        values = _tandem.cast(_tandem.convert(values), 0)
        if sample_weight is not None:
            values = values * _weights_for(values, sample_weight)
        self.total.assign_add(_sum(values))

    def result(self):
        return self.total.read_value()


class MeanMetricWrapper(Mean):
    """The mean of a function of truth and predictions."""

    def __init__(self, fn, name=None, dtype=None, **kwargs):
        super().__init__(name or getattr(fn, "__name__", "metric"), dtype)
        self._fn, self._fn_kwargs = fn, kwargs

    def update_state(self, y_true, y_pred, sample_weight=None):
        mask = getattr(y_pred, "_keras_mask", None)
        values = self._fn(y_true, y_pred, **self._fn_kwargs)
        values = _tandem.convert(values)
        if mask is not None and mask._rank <= values._rank:
            sample_weight = mask if sample_weight is None else _weights_for(values, sample_weight) * _weights_for(values, mask)
        super().update_state(values, sample_weight)

    def get_config(self):
        from tandem.keras import saving

        return {**super().get_config(), **({"fn": saving.serialize_keras_object(self._fn)} if type(self) is MeanMetricWrapper else {}), **self._fn_kwargs}


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


# ---- Counts over thresholds ----


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
    "KerasVariable", "LogCoshError", "Mean", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanIoU", "MeanMetricWrapper",
    "MeanRelativeError", "MeanSquaredError", "MeanSquaredLogarithmicError", "MeanTensor", "Metric", "OneHotIoU", "OneHotMeanIoU", "Poisson",
    "Precision", "PrecisionAtRecall", "R2Score", "Recall", "RecallAtPrecision", "RootMeanSquaredError", "SensitivityAtSpecificity",
    "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy", "SparseTopKCategoricalAccuracy", "SpecificityAtSensitivity",
    "SquaredHinge", "Sum", "TopKCategoricalAccuracy", "TrueNegatives", "TruePositives", "accuracy", "binary_accuracy",
    "binary_crossentropy", "categorical_accuracy", "categorical_crossentropy", "categorical_hinge", "cosine_similarity", "deserialize",
    "dtypes", "get", "hinge", "huber", "initializers", "kl_divergence", "kld", "log_cosh", "mae", "mape", "mean_absolute_error",
    "mean_absolute_percentage_error", "mean_squared_error", "mean_squared_logarithmic_error", "merge_processes", "mse", "msle", "poisson",
    "serialize", "sparse_categorical_accuracy", "sparse_categorical_crossentropy", "sparse_top_k_categorical_accuracy", "squared_hinge",
    "state", "top_k_categorical_accuracy",
]
