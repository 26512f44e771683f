"""The losses and metrics that a model was compiled with."""

import re

import _tandem
from tandem import nest
from tandem._tensors.shape import _is_size
from tandem._tensors.tensor import Tensor
from tandem.keras import _objects, losses as losses_module, metrics as metrics_module


def _as_loss(identifier):
    loss = losses_module.get(identifier)
    if loss is None or isinstance(loss, losses_module.Loss):
        return loss
    return losses_module.LossFunctionWrapper(loss)


def _name_of(given, made):
    """The name of a loss or metric that compile() was given: the text, or the name of the object or function."""
    if isinstance(given, str):
        return given
    if isinstance(getattr(given, "name", None), str):
        return given.name
    return _objects.snake_case(re.sub(r"\W+", "", given.__name__)) if hasattr(given, "__name__") else getattr(made, "name", "metric")


def _first_size(value):
    """The number of rows of a batch as a size, which may be open."""
    first = next((t for t in nest.flatten(value) if isinstance(t, Tensor) and t._rank), None)
    return 1 if first is None else first._sizes[0]


def _rows(value):
    """The number of rows of a batch, as a number or as a tensor."""
    first = next((t for t in nest.flatten(value) if isinstance(t, Tensor) and t._rank or hasattr(t, "_ragged_rows")), None)
    if first is None:
        return 1.0
    if hasattr(first, "_ragged_rows"):
        return float(len(first))
    size = first._sizes[0]
    return _tandem.cast(_tandem.shape(first, 5)[0], 0) if _is_size(size) else float(size)


class CompileLoss:
    """The losses of all outputs, and their sum."""

    def __init__(self, loss, loss_weights, output_names=None):
        self._given, self._weights = loss, loss_weights
        self._losses = None
        self.metrics = []  # The mean of each output's own loss, where there are several.
        self._trackers = None  # The same, one for each output.
        self._names = output_names

    def build(self, y_pred, names):
        flat = nest.flatten(y_pred)
        given, weights = self._given, self._weights
        if isinstance(given, dict):
            keys = sorted(y_pred) if isinstance(y_pred, dict) else names
            unknown = [k for k in given if k not in keys]
            if unknown:
                raise ValueError(f"In the dict argument `loss`, key '{unknown[0]}' does not correspond to any model output; the outputs are {keys}")
            listed = [given.get(k) for k in keys]
        elif isinstance(given, (list, tuple)):
            listed = list(given)
            if len(listed) == 1 and len(flat) > 1:
                listed = listed * len(flat)
        else:
            listed = [given] * len(flat)
            keys = names
        keys = sorted(y_pred) if isinstance(y_pred, dict) else names
        if len(listed) != len(flat):
            raise ValueError(f"For a model with multiple outputs, when providing the `loss` argument as a list, it should have as many entries as the model has outputs. Received {len(listed)} for {len(flat)} outputs.")
        if isinstance(weights, dict):
            weights = [weights.get(k, 1.0) for k in keys]
        elif weights is None:
            weights = [1.0] * len(flat)
        elif isinstance(weights, (int, float)):
            weights = [weights] * len(flat)
        self._losses = [_as_loss(l) for l in listed]
        self._factors = list(weights)
        if len([l for l in self._losses if l is not None]) > 1:
            self._trackers = [
                None if loss is None else metrics_module.Mean(name=f"{key or _name_of(each, loss)}_loss") for key, each, loss in zip(keys, listed, self._losses)
            ]
            of_key = dict(zip(keys, self._trackers))
            listed_as_given = isinstance(given, dict) and isinstance(y_pred, dict)
            self.metrics = [m for m in ([of_key[k] for k in given] if listed_as_given else self._trackers) if m is not None]

    def __call__(self, y_true, y_pred, sample_weight=None, names=None):
        flat_pred = nest.flatten(y_pred)
        if self._losses is None:
            self.build(y_pred, names)
        keys = sorted(y_pred) if isinstance(y_pred, dict) else names
        if y_true is None and any(loss is not None for loss in self._losses):
            raise ValueError("The model was compiled with a loss, which compares predictions with targets: `y` is None.")
        flat_true = _aligned(y_true, y_pred, keys, len(flat_pred))
        flat_weight = _aligned(sample_weight, y_pred, keys, len(flat_pred), repeat=True)
        total = None
        for true, pred, weight, loss, factor, tracker in zip(flat_true, flat_pred, flat_weight, self._losses, self._factors, self._trackers or [None] * len(flat_pred)):
            if loss is None or true is None:
                continue
            value = loss(true, pred, weight)
            if value._rank:
                value = _tandem.reduce_mean(value, None, False)
            if tracker is not None:
                tracker.update_state(_unscaled(value), sample_weight=_rows(pred))
            value = value if factor == 1.0 else value * float(factor)
            total = value if total is None else total + value
        return total


def _unscaled(value):
    """A share of a global mean as what its rows stand for: see Trainer._track_loss."""
    return value


def _aligned(values, y_pred, keys, count, repeat=False):
    if values is None:
        return [None] * count
    if isinstance(values, dict):
        return [values.get(k) for k in keys]
    if isinstance(values, (list, tuple)) and (count > 1 or len(values) == 1):
        flat = nest.flatten(values)
        if len(flat) != count:
            raise ValueError(f"{len(flat)} targets for {count} outputs")
        return flat
    return [values] * count if repeat or count == 1 else [values] + [None] * (count - 1)


class CompileMetrics:
    """The metrics of all outputs, by Keras's names. To those who list a model's metrics it is one metric with several results."""

    name = "compile_metrics"

    def __init__(self, given, weighted, trainer):
        self._given, self._weighted, self._trainer = given, weighted, trainer
        self._sets = None

    @property
    def is_given(self):
        """Whether compile was given any."""
        return self._given is not None or self._weighted is not None

    def _resolve(self, given, y_true, y_pred, loss):
        if isinstance(given, str) and given in ("accuracy", "acc", "crossentropy", "ce"):
            metric = self._by_shapes(given, y_true, y_pred, loss)
            metric.name = given
            return metric
        metric = metrics_module.get(given)
        if metric is None:
            return None
        if isinstance(metric, losses_module.Loss):
            metric = metrics_module.MeanMetricWrapper(metric.call, name=metric.name)
        elif not isinstance(metric, metrics_module.Metric):
            metric = metrics_module.MeanMetricWrapper(metric, name=_name_of(given, metric))
        if isinstance(given, str):
            metric.name = given
        return metric

    @staticmethod
    def _by_shapes(name, y_true, y_pred, loss):
        last_true = y_true._sizes[-1] if y_true._rank else 1
        last_pred = y_pred._sizes[-1] if y_pred._rank else 1
        sparse = y_true._rank < y_pred._rank or (last_true == 1 and last_pred != 1)
        from_logits = getattr(loss, "from_logits", False)
        if y_pred._rank <= 1 or last_pred == 1:
            return metrics_module.BinaryAccuracy() if name.startswith("acc") else metrics_module.BinaryCrossentropy(from_logits=from_logits)
        if isinstance(loss, losses_module.BinaryCrossentropy) or getattr(getattr(loss, "fn", None), "__name__", "") == "binary_crossentropy":
            if name.startswith("acc"):
                return metrics_module.BinaryAccuracy()
        if sparse:
            return metrics_module.SparseCategoricalAccuracy() if name.startswith("acc") else metrics_module.SparseCategoricalCrossentropy(from_logits=from_logits)
        return metrics_module.CategoricalAccuracy() if name.startswith("acc") else metrics_module.CategoricalCrossentropy(from_logits=from_logits)

    def _lists(self, given, count, keys):
        if given is None:
            return [[] for _ in range(count)]
        if isinstance(given, dict):
            return [_listed(given.get(k)) for k in keys]
        if not isinstance(given, (list, tuple)):
            return [[given] for _ in range(count)]
        if count > 1 and any(isinstance(g, (list, tuple)) for g in given):
            return [_listed(g) for g in given]
        if count > 1 and len(given) == count:
            return [_listed(g) for g in given]
        return [list(nest.flatten(list(given))) for _ in range(count)]

    def build(self, y_true, y_pred, keys=None, losses=None):
        keys = keys if keys is not None else self._trainer._output_names(y_pred)
        flat = nest.flatten(y_pred)
        trues = _aligned(y_true, y_pred, keys, len(flat))
        self._sets, names = [], []
        for which, given in (("", self._given), ("weighted", self._weighted)):
            for i, (own, true, pred) in enumerate(zip(self._lists(given, len(flat), keys), trues, flat)):
                made = []
                for each in own:
                    if true is None or each is None:
                        continue
                    metric = self._resolve(each, true, pred, losses[i] if losses and i < len(losses) else None)
                    label = f"{keys[i]}_{metric.name}" if len(flat) > 1 and keys[i] else metric.name
                    if label in names:
                        label = f"weighted_{label}" if which and f"weighted_{label}" not in names else label
                        number, unique = 1, label
                        while unique in names:
                            unique, number = f"{label}_{number}", number + 1
                        label = unique
                    names.append(label)
                    made.append((label, metric, bool(which)))
                self._sets.append((i, made))

    @property
    def metrics(self):
        return [m for _, made in self._sets or () for _, m, _ in made]

    @property
    def variables(self):
        return [v for m in self.metrics for v in m.variables]

    def reset_state(self):
        for m in self.metrics:
            m.reset_state()

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Only the weighted metrics take weights."""
        if not self.is_given:
            return
        keys = self._trainer._output_names(y_pred)
        if self._sets is None:
            compiled = self._trainer._compile_loss
            self.build(y_true, y_pred, keys, compiled._losses if compiled is not None else None)
        flat = nest.flatten(y_pred)
        trues = _aligned(y_true, y_pred, keys, len(flat))
        weights = _aligned(sample_weight, y_pred, keys, len(flat), repeat=True)
        for i, made in self._sets:
            for _, metric, weighted in made:
                if weighted and weights[i] is not None:
                    metric.update_state(trues[i], flat[i], sample_weight=weights[i])
                else:
                    metric.update_state(trues[i], flat[i])

    def result(self):
        return {label: metric.result() for _, made in self._sets or () for label, metric, _ in made}


def _listed(value):
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
