"""Training: compile, fit, evaluate, predict."""

import contextlib
import time
import warnings

import numpy as np

import _tandem
from tandem import _ops, nest
from tandem._function import Function, GiveUpTrace
from tandem._shape import _is_size
from tandem._state import init_scope, state
from tandem._tape import GradientTape
from tandem._tensor import Tensor
from tandem.keras import _adapter, losses as losses_module, metrics as metrics_module, optimizers as optimizers_module
from tandem.keras._adapter import pack_x_y_sample_weight, unpack_x_y_sample_weight  # noqa: F401
from tandem.keras._layer import learning_phase


def _as_loss(identifier):
    loss = losses_module.get(identifier)
    if loss is None or isinstance(loss, losses_module.Loss):
        return loss
    return losses_module.LossFunctionWrapper(loss)


def _first_size(value):
    """The number of rows of a batch as a size, which may be open."""
    first = next((t for t in nest.flatten(value) if isinstance(t, Tensor) and t._rank), None)
    return 1 if first is None else first._sizes[0]


def _rows(value):
    """The number of rows of a batch, as a number or as a tensor."""
    first = next((t for t in nest.flatten(value) if isinstance(t, Tensor) and t._rank), None)
    if first is None:
        return 1.0
    size = first._sizes[0]
    return _tandem.cast(_tandem.shape(first, 5)[0], 0) if _is_size(size) else float(size)


class CompileLoss:
    """The losses of all outputs, and their sum."""

    def __init__(self, loss, loss_weights, output_names=None):
        self._given, self._weights = loss, loss_weights
        self._losses = None
        self.metrics = []  # The mean of each output's own loss, where there are several.
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
            self.metrics = [metrics_module.Mean(name=f"{k}_loss") for k, l in zip(keys, self._losses) if l is not None]

    def __call__(self, y_true, y_pred, sample_weight=None, names=None):
        flat_pred = nest.flatten(y_pred)
        if self._losses is None:
            self.build(y_pred, names)
        keys = sorted(y_pred) if isinstance(y_pred, dict) else names
        flat_true = _aligned(y_true, y_pred, keys, len(flat_pred))
        flat_weight = _aligned(sample_weight, y_pred, keys, len(flat_pred), repeat=True)
        total, tracker = None, iter(self.metrics)
        for true, pred, weight, loss, factor in zip(flat_true, flat_pred, flat_weight, self._losses, self._factors):
            if loss is None or true is None:
                continue
            value = loss(true, pred, weight)
            if value._rank:
                value = _tandem.reduce_mean(value, None, False)
            if self.metrics:
                next(tracker).update_state(_unscaled(value), sample_weight=_rows(pred))
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
    """The metrics of all outputs, by Keras's names."""

    def __init__(self, given, weighted):
        self._given, self._weighted = given, weighted
        self._sets = None

    def _resolve(self, given, y_true, y_pred, loss):
        if isinstance(given, str) and given in ("accuracy", "acc", "crossentropy", "ce"):
            metric = self._by_shapes(given, y_true, y_pred, loss)
            metric.name = given
            return metric
        metric = metrics_module.get(given)
        if metric is None or isinstance(metric, metrics_module.Metric):
            return metric
        if isinstance(metric, losses_module.Loss):
            return metrics_module.MeanMetricWrapper(metric.call, name=metric.name)
        return metrics_module.MeanMetricWrapper(metric, name=given if isinstance(given, str) else getattr(metric, "__name__", "metric"))

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

    def build(self, y_true, y_pred, keys, losses):
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
                    label = f"{keys[i]}_{metric.name}" if len(flat) > 1 else metric.name
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

    def update_state(self, y_true, y_pred, sample_weight, keys, losses):
        if self._given is None and self._weighted is None:
            return
        if self._sets is None:
            self.build(y_true, y_pred, keys, losses)
        flat = nest.flatten(y_pred)
        trues = _aligned(y_true, y_pred, keys, len(flat))
        weights = _aligned(sample_weight, y_pred, keys, len(flat), repeat=True)
        for i, made in self._sets:
            for _, metric, weighted in made:
                if weighted and weights[i] is not None:
                    metric.update_state(trues[i], flat[i], sample_weight=weights[i])
                else:
                    metric.update_state(trues[i], flat[i])

    def results(self):
        return {label: metric.result() for _, made in self._sets or () for label, metric, _ in made}


def _listed(value):
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


class Trainer:
    """What a model has besides being a layer."""

    def __init__(self):
        self._tandem_functions = {}
        self._compiled = False
        self.compiled = False
        self.stop_training = False
        self._run_eagerly = False
        self._compile_loss = None
        self._compile_metrics = None
        self._loss_tracker = None
        self.optimizer = None
        self.history = None
        self.steps_per_execution = 1
        self._compile_config = None

    @property
    def run_eagerly(self):
        return self._run_eagerly

    @run_eagerly.setter
    def run_eagerly(self, value):
        self._run_eagerly = bool(value)

    @property
    def distribute_strategy(self):
        from tandem import distribute

        return self.__dict__.get("_tandem_strategy") or distribute.get_strategy()

    def compile(self, optimizer="rmsprop", loss=None, loss_weights=None, metrics=None, weighted_metrics=None, run_eagerly=False, steps_per_execution=1, jit_compile="auto", auto_scale_loss=True, **kwargs):
        with self._strategy_scope():
            self.optimizer = optimizers_module.get(optimizer)
            self._compile_loss = CompileLoss(loss, loss_weights) if loss is not None else None
            self._compile_metrics = CompileMetrics(metrics, weighted_metrics)
            self._loss_tracker = metrics_module.Mean(name="loss")
        self._run_eagerly = bool(run_eagerly)
        self.steps_per_execution = steps_per_execution
        self.stop_training = False
        self.compiled = self._compiled = True
        self._tandem_functions = {}
        self.loss = loss
        self._compile_config = {"optimizer": optimizer, "loss": loss, "loss_weights": loss_weights, "metrics": metrics, "weighted_metrics": weighted_metrics}

    def compile_from_config(self, config):
        self.compile(**config)

    def get_compile_config(self):
        return self._compile_config

    def _assert_compiled(self, method):
        if not self.__dict__.get("compiled"):
            raise ValueError("You must call `compile()` before using the model.")

    # ---- Metrics ----

    @property
    def metrics(self):
        found = []
        if self.__dict__.get("_loss_tracker") is not None:
            found.append(self._loss_tracker)
        if self.__dict__.get("_compile_metrics") is not None:
            found += self._compile_metrics.metrics
        if self.__dict__.get("_compile_loss") is not None:
            found += self._compile_loss.metrics
        from tandem.keras._layer import Layer

        for each in Layer.metrics.fget(self):
            if not any(each is f for f in found):
                found.append(each)
        return found

    @property
    def metrics_names(self):
        names = ["loss"] + list(self._compile_metrics.results() if self._compile_metrics is not None else ())
        return names

    def reset_metrics(self):
        for m in self.metrics:
            m.reset_state()

    def get_metrics_result(self):
        results = {}
        own = {id(m) for m in self._compile_metrics.metrics} if self._compile_metrics is not None else set()
        for m in self.metrics:
            if id(m) in own:
                continue
            value = m.result()
            results.update(value) if isinstance(value, dict) else results.__setitem__(m.name, value)
        if self._compile_metrics is not None:
            results.update(self._compile_metrics.results())
        if self._compile_loss is None and self._loss_tracker is not None and type(self).train_step is not Trainer.train_step:
            if sum(1 for m in self.metrics if m.name == "loss") == 1 and "loss" in results and not self._loss_was_tracked:
                results.pop("loss")
        return results

    _loss_was_tracked = False

    # ---- Steps: what users override ----

    def _output_names(self, y_pred):
        flat = nest.flatten(y_pred)
        if self.__dict__.get("_tandem_graph") is not None:
            names = self.output_names
            if len(names) == len(flat):
                return names
        return [f"output_{i + 1}" for i in range(len(flat))]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        losses = []
        if self._compile_loss is not None and y is not None:
            value = self._compile_loss(y, y_pred, sample_weight, self._output_names(y_pred))
            if value is not None:
                losses.append(value)
        for each in self.losses:
            each = _tandem.convert(each)
            each = _tandem.reduce_sum(each, None, False) if each._rank else each
            if state.in_replica:  # Each replica adds its share.
                each = each / float(self.distribute_strategy.num_replicas_in_sync)
            losses.append(each)
        if not losses:
            if self._compile_loss is None:
                raise ValueError("No loss to compute. Provide a `loss` argument in `compile()`, or call `self.add_loss()`.")
            raise ValueError("No loss to compute: the targets are missing.")
        total = losses[0]
        for each in losses[1:]:
            total = total + _tandem.cast(each, total._code)
        return total

    def _compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """compute_loss as users may have written it."""
        import inspect

        f = self.compute_loss
        own = type(self).compute_loss is not Trainer.compute_loss
        kwargs = {"x": x, "y": y, "y_pred": y_pred, "sample_weight": sample_weight, "training": training}
        if own:
            names = inspect.signature(f).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in names.values()):
                kwargs = {k: v for k, v in kwargs.items() if k in names}
        return f(**kwargs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._compile_metrics is not None and y is not None:
            losses = self._compile_loss._losses if self._compile_loss is not None else None
            self._compile_metrics.update_state(y, y_pred, sample_weight, self._output_names(y_pred), losses)
        return self.get_metrics_result() if not state.in_replica else {}

    def compiled_loss(self, y_true, y_pred, sample_weight=None, regularization_losses=None):
        value = self._compile_loss(y_true, y_pred, sample_weight, self._output_names(y_pred))
        for each in regularization_losses or ():
            value = value + each
        return value

    @property
    def compiled_metrics(self):
        trainer = self

        class _Compiled:
            metrics = trainer._compile_metrics.metrics

            @staticmethod
            def update_state(y_true, y_pred, sample_weight=None):
                losses = trainer._compile_loss._losses if trainer._compile_loss is not None else None
                trainer._compile_metrics.update_state(y_true, y_pred, sample_weight, trainer._output_names(y_pred), losses)

        return _Compiled

    def _track_loss(self, loss, x):
        self._loss_was_tracked = True
        rows = _rows(x)
        if not state.in_replica:
            self._loss_tracker.update_state(loss, sample_weight=rows)
            return
        # The shares of all replicas add up to the mean over all rows.
        if self.distribute_strategy._has_servers:  # Whose workers do not meet: their shares say how many rows there are.
            share = _tandem.compute_average_loss(_tandem.fill((_first_size(x),), 1.0, 0))
            everyone = _ops.divide_no_nan(_tandem.convert(rows, 0), share)
        else:
            everyone = _tandem.all_reduce("SUM", _tandem.convert(rows, 0))
        self._loss_tracker.total.assign_add(_tandem.cast(loss, 0) * everyone)
        self._loss_tracker.count.assign_add(rows)

    def _call_with_phase(self, x, training):
        from tandem.keras._layer import _parameters

        names, takes_any, _ = _parameters(self.call)
        with learning_phase(training):
            return self(x, training=training) if "training" in names or takes_any else self(x)

    def train_step(self, data):
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            y_pred = self._call_with_phase(x, True)
            loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
        self._track_loss(loss, x)
        variables = self.trainable_variables
        if variables:
            self.optimizer.apply(tape.gradient(loss, variables), variables)
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data):
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        y_pred = self._call_with_phase(x, False)
        loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
        self._track_loss(loss, x)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data):
        x, _, _ = unpack_x_y_sample_weight(data)
        return self._call_with_phase(x, False)

    # ---- Steps as programs ----

    def _program(self, kind):
        """The step as a function that runs one batch; as a program, and on all replicas where there is a strategy."""
        found = self._tandem_functions.get(kind)
        if found is not None:
            return _TextStep(self, found, kind) if self._has_text_layers() else found
        step = {"train": self.train_step, "test": self.test_step, "predict": self.predict_step}[kind]
        strategy = self.__dict__.get("_tandem_strategy")

        def run(data):
            from tandem import autograph

            with learning_phase(kind == "train"):
                return autograph.called(step)(data)

        run.__name__ = f"{type(self).__name__}.{kind}_step"
        if strategy is not None and strategy.num_replicas_in_sync >= 1 and not self._run_eagerly:
            program = (_ServerStep if strategy._has_servers and kind == "train" else _ReplicaStep)(self, strategy, run, kind)
        elif self._run_eagerly:
            program = run
        else:
            program = Function(run, name=run.__name__, open_rows=True, autograph=False)
        self._tandem_functions[kind] = program
        return self._program(kind)

    def _has_text_layers(self):
        found = self.__dict__.get("_tandem_has_text")
        if found is None:
            found = self.__dict__["_tandem_has_text"] = any(getattr(l, "_takes_texts", False) for l in self._flatten_layers())
        return found

    def _numbers_of_texts(self, inputs):
        return inputs

    def make_train_function(self, force=False):
        self.train_function = self._program("train")
        return self.train_function

    def make_test_function(self, force=False):
        self.test_function = self._program("test")
        return self.test_function

    def make_predict_function(self, force=False):
        self.predict_function = self._program("predict")
        return self.predict_function

    def _ensure_built(self, data):
        """Weights are made before the first step is traced: a function may make variables only once."""
        if self.built and self.weights and self._has_unbuilt() is False:
            return
        x, _, _ = unpack_x_y_sample_weight(data)
        from tandem.keras._layer import call_context

        strategy = self.__dict__.get("_tandem_strategy")
        small = nest.map_structure(lambda t: _first_rows(t), x) if nest.is_nested(x) else _first_rows(x)
        if type(self).train_step is Trainer.train_step or type(self).call is not _model_call():
            own_step = type(self).train_step is not Trainer.train_step
            try:
                with init_scope(), self._strategy_scope(), learning_phase(False):
                    self._quiet_call(small)
            except Exception as error:  # noqa: BLE001
                # A step of one's own may give `call` something else than x; it makes the weights itself then.
                if not own_step and not isinstance(error, NotImplementedError):
                    raise

    def _has_unbuilt(self):
        return any(not layer.built for layer in self._flatten_layers(include_self=False))

    def _ensure_metrics(self, data):
        """The states of metrics and of the optimizer are made before the first step is traced, too."""
        if self._tandem_functions.get("prepared"):
            return
        self._tandem_functions["prepared"] = True
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with init_scope(), self._strategy_scope():
            if self._compile_loss is not None or (self._compile_metrics is not None and (self._compile_metrics._given or self._compile_metrics._weighted)):
                if y is not None and type(self).call is not None:
                    first = lambda v: nest.map_structure(_first_rows, v) if nest.is_nested(v) else (v if v is None else _first_rows(v))  # noqa: E731
                    try:
                        with learning_phase(False):
                            y_pred = self._quiet_call(first(x))
                    except Exception as error:  # noqa: BLE001
                        if type(self).train_step is Trainer.train_step and not isinstance(error, NotImplementedError):
                            raise
                        y_pred = None
                    if y_pred is not None:
                        names = self._output_names(y_pred)
                        if self._compile_loss is not None and self._compile_loss._losses is None:
                            self._compile_loss.build(y_pred, names)
                        if self._compile_metrics is not None and self._compile_metrics._sets is None and (self._compile_metrics._given or self._compile_metrics._weighted):
                            losses = self._compile_loss._losses if self._compile_loss is not None else None
                            self._compile_metrics.build(first(y), y_pred, names, losses)
                            for m in self._compile_metrics.metrics:
                                if not m.variables:
                                    m.update_state(nest.flatten(first(y))[0], nest.flatten(y_pred)[0])
                                    m.reset_state()
            if self.optimizer is not None and isinstance(self.optimizer, optimizers_module.Optimizer):
                if type(self).train_step is Trainer.train_step and not self.optimizer.built and self.trainable_variables:
                    self.optimizer.build(self.trainable_variables)

    # ---- fit ----

    def fit(self, x=None, y=None, batch_size=None, epochs=1, verbose="auto", callbacks=None, validation_split=0.0, validation_data=None, shuffle=True, class_weight=None, sample_weight=None, initial_epoch=0, steps_per_epoch=None, validation_steps=None, validation_batch_size=None, validation_freq=1, **kwargs):
        from tandem.keras import callbacks as callbacks_module

        self._assert_compiled("fit")
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = _adapter.split_off((x, y, sample_weight), validation_split)
        training = _adapter.Batches(x, y, sample_weight, batch_size, steps_per_epoch, shuffle, class_weight, self)
        validation = None
        if validation_data is not None:
            vx, vy, vw = _adapter.unpack_validation(validation_data)
            validation = _adapter.Batches(vx, vy, vw, validation_batch_size or batch_size, validation_steps, False, None, self)
        verbose = 0 if verbose == "auto" and not getattr(self.distribute_strategy, "is_chief", True) else _verbosity(verbose)
        container = callbacks_module.CallbackList(callbacks, add_history=True, add_progbar=verbose != 0, verbose=verbose, epochs=epochs, steps=training.steps, model=self)
        self.stop_training = False
        first = training.peek()
        if first is not None:
            self._ensure_built(first)
            self._ensure_metrics(first)
        container.on_train_begin()
        initial_epoch = self.__dict__.pop("_initial_epoch", None) or initial_epoch  # Where a backup says to go on.
        logs = {}
        epoch_logs = {}
        wants_batches = container.wants_train_batches
        program = self._program("train")
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            container.on_epoch_begin(epoch)
            logs = {}
            step = 0
            for data in training.epoch():
                if wants_batches:
                    container.on_train_batch_begin(step)
                logs = program(data)
                container.progress(step, logs, self)
                if wants_batches:
                    container.on_train_batch_end(step, self._numbers(logs, self._from_metrics("train", live=True)))
                step += 1
                if self.stop_training:
                    break
            if step == 0:
                raise ValueError("fit: the data has no batch")
            self._finish_steps()
            epoch_logs = self._numbers(logs, self._from_metrics("train"))
            if validation is not None and self._validates(epoch, validation_freq):
                val_logs = self._evaluate(validation, container)
                epoch_logs.update({f"val_{k}": v for k, v in val_logs.items()})
            container.on_epoch_end(epoch, dict(epoch_logs))
            if self.stop_training:
                break
        if isinstance(self.optimizer, optimizers_module.Optimizer) and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_weights)
        container.on_train_end(epoch_logs)
        return self.history

    @staticmethod
    def _validates(epoch, freq):
        return (epoch + 1) in freq if isinstance(freq, (list, tuple, set)) else (epoch + 1) % freq == 0

    def _finish_steps(self):
        """Waits for steps that others do meanwhile."""
        strategy = self.__dict__.get("_tandem_strategy")
        if strategy is not None and strategy._has_servers:
            strategy.join()

    def _from_metrics(self, kind, live=False):
        """What the metrics say, where a step's own logs do not: on replicas, whose states are apart.

        Within an epoch (`live`) it is what this process knows: others are not asked, and servers have it.
        """
        program = self._tandem_functions.get(kind)
        if not isinstance(program, _ReplicaStep) or not program.is_default:
            return None
        if live:
            return {} if isinstance(program, _ServerStep) else self.get_metrics_result()
        self._merge_processes()
        return self.get_metrics_result()

    def _merge_processes(self):
        """Where several processes train, the states of metrics become the sums over all of them."""
        strategy = self.__dict__.get("_tandem_strategy")
        if strategy.num_replicas_in_sync == strategy._local_replicas:
            return
        from tandem.distribute._values import PerReplica, marked

        count = strategy._local_replicas
        for metric in self.metrics:
            for variable in metric.variables:
                own = variable.read_value()
                parts = [own] + [_tandem.zeros_like(own)] * (count - 1)
                variable.assign(strategy.reduce("SUM", marked(PerReplica(parts), count)))

    def _numbers(self, logs, better=None):
        strategy = self.__dict__.get("_tandem_strategy")
        if strategy is not None and strategy._has_servers:
            from tandem.distribute._later import fetched

            logs = fetched(logs)
        if better is not None:
            logs = better
        elif isinstance(logs, (Tensor, float, int)):
            logs = {"loss": logs}
        result = {}
        for key, value in (logs or {}).items():
            if isinstance(value, dict):
                for k, v in value.items():
                    result[k] = _number(v)
            else:
                result[key] = _number(value)
        return _sorted_logs(result)

    def _evaluate(self, batches, container=None):
        self.reset_metrics()
        program = self._program("test")
        logs, step = {}, 0
        wants = container is not None and container.wants_test_batches
        if container is not None:
            container.on_test_begin()
        for data in batches.epoch(False):
            if step == 0:
                self._ensure_built(data)
                self._ensure_metrics(data)
                program = self._program("test")
            if wants:
                container.on_test_batch_begin(step)
            logs = program(data)
            if wants:
                container.on_test_batch_end(step, self._numbers(logs))
            step += 1
        numbers = self._numbers(logs, self._from_metrics("test")) if step else {}
        if container is not None:
            container.on_test_end(numbers)
        return numbers

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, steps=None, callbacks=None, return_dict=False, **kwargs):
        from tandem.keras import callbacks as callbacks_module

        self._assert_compiled("evaluate")
        batches = _adapter.Batches(x, y, sample_weight, batch_size, steps, False, None, self)
        container = callbacks_module.CallbackList(callbacks, add_history=False, add_progbar=False, model=self, verbose=0, epochs=1, steps=batches.steps)
        started = time.time()
        numbers = self._evaluate(batches, container)
        if _verbosity(verbose):
            callbacks_module.print_line(batches.steps or batches.seen, time.time() - started, numbers)
        if return_dict:
            return numbers
        ordered = self._ordered_numbers(numbers)
        return ordered[0] if len(ordered) == 1 else ordered

    def _ordered_numbers(self, numbers):
        rest = [k for k in numbers if k != "loss"]
        if self._compile_metrics is not None:
            own = list(self._compile_metrics.results())
            rest = [k for k in own if k in numbers] if set(own) >= set(rest) else [k for k in rest if k not in own] + [k for k in own if k in numbers]
        return ([numbers["loss"]] if "loss" in numbers else []) + [numbers[k] for k in rest]

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None, **kwargs):
        from tandem.keras import callbacks as callbacks_module

        batches = _adapter.Batches(x, None, None, batch_size, steps, False, None, self, is_predict=True)
        container = callbacks_module.CallbackList(callbacks, add_history=False, add_progbar=False, model=self, verbose=0, epochs=1, steps=batches.steps)
        container.on_predict_begin()
        program, outputs, step = None, None, 0
        started = time.time()
        for data in batches.epoch(False):
            if program is None:
                self._ensure_built(data)
                program = self._program("predict")
            container.on_predict_batch_begin(step)
            result = program(data)
            result = self._whole(result)
            arrays = nest.map_structure(_as_array, result) if nest.is_nested(result) else _as_array(result)
            if outputs is None:
                outputs = nest.map_structure(lambda a: [a], arrays) if nest.is_nested(arrays) else [[arrays]]
                like = arrays
                collected = [[a] for a in (nest.flatten(arrays) if nest.is_nested(arrays) else [arrays])]
            else:
                for many, one in zip(collected, nest.flatten(arrays) if nest.is_nested(arrays) else [arrays]):
                    many.append(one)
            container.on_predict_batch_end(step, {"outputs": arrays})
            step += 1
        container.on_predict_end()
        if step == 0:
            raise ValueError("predict: the data has no batch")
        if _verbosity(verbose):
            callbacks_module.print_line(step, time.time() - started, {})
        joined = [np.concatenate(many) if many[0].ndim else np.stack(many) for many in collected]
        return nest.pack_sequence_as(like, joined) if nest.is_nested(like) else joined[0]

    def _whole(self, result):
        """The rows of all replicas, one after another."""
        from tandem import distribute

        strategy = self.__dict__.get("_tandem_strategy")
        everywhere = strategy is not None and strategy.num_replicas_in_sync > strategy._local_replicas

        def join(v):
            if everywhere and isinstance(v, (Tensor, distribute.PerReplica)):
                return strategy.gather(v, 0)
            if isinstance(v, distribute.PerReplica):
                return _tandem.concat([t for t in v.values], 0)
            return v

        return nest.map_structure(join, result) if nest.is_nested(result) else join(result)

    # ---- Batches ----

    def _one_batch(self, x, y, sample_weight, class_weight):
        batches = _adapter.Batches(x, y, sample_weight, 2**30, None, False, class_weight, self)
        return batches.peek()

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False, reset_metrics=False):
        self._assert_compiled("train_on_batch")
        self.reset_metrics()
        data = self._one_batch(x, y, sample_weight, class_weight)
        self._ensure_built(data)
        self._ensure_metrics(data)
        logs = self._numbers(self._program("train")(self._dealt(data)), self._from_metrics("train"))
        return logs if return_dict else self._flat_logs(logs)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False, reset_metrics=False):
        self._assert_compiled("test_on_batch")
        self.reset_metrics()
        data = self._one_batch(x, y, sample_weight, None)
        self._ensure_built(data)
        self._ensure_metrics(data)
        logs = self._numbers(self._program("test")(self._dealt(data)), self._from_metrics("test"))
        return logs if return_dict else self._flat_logs(logs)

    def _dealt(self, data):
        return data

    def _flat_logs(self, logs):
        ordered = self._ordered_numbers(logs)
        return ordered[0] if len(ordered) == 1 else ordered

    def predict_on_batch(self, x):
        data = self._one_batch(x, None, None, None)
        self._ensure_built(data)
        result = self._whole(self._program("predict")(self._dealt(data)))
        return nest.map_structure(_as_array, result) if nest.is_nested(result) else _as_array(result)

    def fit_generator(self, *args, **kwargs):
        return self.fit(*args, **kwargs)

    def evaluate_generator(self, *args, **kwargs):
        return self.evaluate(*args, **kwargs)

    def predict_generator(self, *args, **kwargs):
        return self.predict(*args, **kwargs)

    def explain(self, kind="train"):
        """The program of a step, for people."""
        program = self._tandem_functions.get(kind)
        if program is None:
            raise ValueError(f"the {kind} step has not run yet")
        return program.explain()


def _model_call():
    from tandem.keras._model import Model

    return Model.call


class _TextStep:
    """A step of a model with text layers: the host looks texts up, the step gets numbers. Where other layers see the texts, it runs op by op."""

    def __init__(self, model, program, kind):
        self._model, self._program, self._kind = model, program, kind

    def __call__(self, data):
        if any(getattr(v, "_is_text_tensor", False) for v in nest.flatten(data)):
            if isinstance(data, tuple):
                data = (self._model._numbers_of_texts(data[0]),) + data[1:]
            else:
                data = self._model._numbers_of_texts(data)
            if any(getattr(v, "_is_text_tensor", False) for v in nest.flatten(data)) and not isinstance(self._program, _ReplicaStep):
                step = {"train": self._model.train_step, "test": self._model.test_step, "predict": self._model.predict_step}[self._kind]
                with learning_phase(self._kind == "train"):
                    return step(data)
        return self._program(data)

    def explain(self):
        return self._program.explain()


class _ReplicaStep:
    """A step that a strategy's replicas run."""

    def __init__(self, model, strategy, run, kind):
        self._strategy, self._run = strategy, run
        steps = {"train": "train_step", "test": "test_step", "predict": "predict_step"}
        self.is_default = kind != "predict" and getattr(type(model), steps[kind]) is getattr(Trainer, steps[kind])
        self._kind = kind

    def __call__(self, data):
        from tandem.distribute._values import PerReplica, marked

        native = self._strategy._native
        count = self._strategy._local_replicas

        def split(t):
            return marked(native.split(t), count) if isinstance(t, Tensor) and t._rank else t

        logs = self._run_on(nest.map_structure(split, data))
        if self._kind == "predict" or self.is_default:
            return logs
        mean = lambda v: self._strategy.reduce("MEAN", v) if isinstance(v, PerReplica) else v  # noqa: E731
        return {k: mean(v) for k, v in logs.items()} if isinstance(logs, dict) else mean(logs)

    def _run_on(self, parts):
        return self._strategy.run(self._run, args=(parts,))

    def explain(self):
        return "\n".join(e._function.explain() for e in self._strategy._functions.values())


class _ServerStep(_ReplicaStep):
    """A training step that the workers of parameter servers do, without waiting for it where that is possible."""

    def _run_on(self, parts):
        if self.is_default or self._strategy.num_replicas_in_sync == 1:
            return self._strategy._schedule(self._run, (parts,), {})
        return super()._run_on(parts)  # A coordinator has the results of one worker alone.


def _first_rows(t):
    if isinstance(t, Tensor) and t._rank and not t._is_symbolic and t._sizes[0] > 2:
        return t[:2]
    if getattr(t, "_is_text_tensor", False) and t.ndim:
        return t[:2]
    return t


def _as_array(value):
    return np.asarray(value.numpy()) if hasattr(value, "numpy") else np.asarray(value)


def _number(value):
    if isinstance(value, (Tensor, _tandem.Variable)):
        array = np.asarray(value.numpy())
        return float(array) if array.size == 1 else array
    if hasattr(value, "values") and not isinstance(value, dict):
        return float(np.mean([float(v) for v in value.values]))
    return float(value) if isinstance(value, (int, float, np.generic)) else value


def _sorted_logs(logs):
    """Keras shows logs in the order of their names."""
    return dict(sorted(logs.items())) if all(isinstance(k, str) for k in logs) else logs


def _verbosity(verbose):
    return 1 if verbose == "auto" else int(verbose)
