"""Training: compile, fit, evaluate, predict."""

import time
import typing
import warnings

import numpy as np

import _tandem
from tandem import nest
from tandem._tensors.tensor import Tensor
from tandem._tracing.state import state
from tandem.keras import _adapter, config, metrics as metrics_module, optimizers as optimizers_module
from tandem.keras._compiled import CompileLoss, CompileMetrics
from tandem.keras._steps import TrainingSteps, _ReplicaStep, _ServerStep

if typing.TYPE_CHECKING:
    from tandem.keras.callbacks import History


class Trainer(TrainingSteps):
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
        """Whether steps run as plain Python, for debugging."""
        return self._run_eagerly

    @run_eagerly.setter
    def run_eagerly(self, value):
        self._run_eagerly = bool(value)

    @property
    def distribute_strategy(self):
        """The strategy that the model was made under."""
        from tandem import distribute

        return self.__dict__.get("_tandem_strategy") or distribute.get_strategy()

    def compile(self, optimizer="rmsprop", loss=None, loss_weights=None, metrics=None, weighted_metrics=None, run_eagerly=False, steps_per_execution=1, jit_compile="auto", auto_scale_loss=True, **kwargs):
        """Says how the model trains: optimizer, loss, metrics."""
        if metrics is None and _are_metrics(loss_weights):  # Their place in Keras 2.
            loss_weights, metrics = None, loss_weights
        with self._strategy_scope():
            self.optimizer = optimizers_module.get(optimizer)
            if auto_scale_loss and self.dtype_policy.name == "mixed_float16" and isinstance(self.optimizer, optimizers_module.Optimizer):
                if not isinstance(self.optimizer, optimizers_module.LossScaleOptimizer):
                    self.optimizer = optimizers_module.LossScaleOptimizer(self.optimizer, name="loss_scale_optimizer")
            # As in Keras, what is not given stays as it was compiled before.
            if loss is not None:
                self._compile_loss, self.loss = CompileLoss(loss, loss_weights), loss
            if self._compile_metrics is None or metrics is not None or weighted_metrics is not None:
                self._compile_metrics = CompileMetrics(metrics, weighted_metrics, self)
            self._loss_tracker = metrics_module.Mean(name="loss")
        self._run_eagerly = bool(run_eagerly)
        self.steps_per_execution = steps_per_execution
        self.stop_training = False
        self.compiled = self._compiled = True
        self._tandem_functions = {}
        self._compile_config = {"optimizer": optimizer, "loss": loss, "loss_weights": loss_weights, "metrics": metrics, "weighted_metrics": weighted_metrics, "run_eagerly": self._run_eagerly, "steps_per_execution": steps_per_execution, "jit_compile": jit_compile is True}

    def compile_from_config(self, config):
        """Compiles the model as get_compile_config says."""
        from tandem.keras import saving

        self.compile(**saving.deserialize_keras_object(config))

    def get_compile_config(self):
        """How the model was compiled, for files."""
        from tandem.keras import saving

        config = saving.serialize_keras_object(self._compile_config or {})
        if isinstance(self.optimizer, optimizers_module.Optimizer):
            config["optimizer"] = optimizers_module.serialize(self.optimizer)
        return config

    def _assert_compiled(self, method):
        if not self.__dict__.get("compiled"):
            raise ValueError("You must call `compile()` before using the model.")

    # ---- Metrics ----

    @property
    def metrics(self):
        """The metrics, that of the loss first."""
        found = []
        if self.__dict__.get("_loss_tracker") is not None:
            found.append(self._loss_tracker)
        if self.__dict__.get("_compile_metrics") is not None and self._compile_metrics.is_given:
            found.append(self._compile_metrics)
        if self.__dict__.get("_compile_loss") is not None:
            found += self._compile_loss.metrics
        for layer in self._flatten_layers():
            if layer is not self and isinstance(layer, Trainer):
                continue  # What a model within this one was compiled with does not count here.
            for each in layer._own_metrics():
                if not any(each is f for f in found):
                    found.append(each)
        return found

    @property
    def metrics_names(self):
        """The names of the metrics as in Keras 3, where one name stands for all that compile() was given."""
        return [m.name for m in self.metrics]

    def reset_metrics(self):
        """Lets the metrics begin anew."""
        for m in self.metrics:
            m._is_merged = False
            m.reset_state()

    def get_metrics_result(self):
        """The results of the metrics by name."""
        results = {}
        for m in self.metrics:
            value = m.result()
            results.update(value) if isinstance(value, dict) else results.__setitem__(m.name, value)
        if self._compile_loss is None and self._loss_tracker is not None and type(self).train_step is not Trainer.train_step:
            if sum(1 for m in self.metrics if m.name == "loss") == 1 and "loss" in results and not self._loss_was_tracked:
                results.pop("loss")
        return results

    _loss_was_tracked = False

    # ---- States as values ----

    @property
    def jit_compile(self):
        """False where nobody sets it: there is no XLA, and all steps are compiled."""
        return self.__dict__.get("_tandem_jit_compile", False)

    @jit_compile.setter
    def jit_compile(self, value):
        self.__dict__["_tandem_jit_compile"] = bool(value)

    def get_state_tree(self, value_format="backend_tensor"):
        """The values of all variables in dictionaries by their paths, as tensors or as NumPy's arrays ("numpy_array")."""
        if value_format not in ("backend_tensor", "numpy_array"):
            raise ValueError(f"Invalid `value_format` argument. Expected one of {{'numpy_array', 'backend_tensor'}}. Received: value_format={value_format}")
        return {name: self._tree_of(variables, lambda v: np.asarray(v.numpy()) if value_format == "numpy_array" else v.read_value()) for name, variables in self._state_lists().items()}

    def _state_lists(self):
        optimizer = self.optimizer.variables if isinstance(self.optimizer, optimizers_module.Optimizer) else []
        metrics = {id(v) for v in self.metrics_variables}
        others = [v for v in self.non_trainable_variables if id(v) not in metrics]
        return {"trainable_variables": self.trainable_variables, "non_trainable_variables": others, "optimizer_variables": optimizer, "metrics_variables": self.metrics_variables}

    @staticmethod
    def _tree_of(variables, value):
        tree = {}
        for v in variables:
            *above, name = _path_of(v).split("/")
            place = tree
            for part in above:
                place = place.setdefault(part, {})
            place[name] = value(v)
        return tree

    def set_state_tree(self, state_tree):
        """Assigns variables as get_state_tree has them; parts of the tree are enough."""
        lists = self._state_lists()
        for name, tree in state_tree.items():
            if name not in lists:
                raise ValueError(f"Unknown variable name: {name}")
            by_path = {_path_of(v): v for v in lists[name]}

            def assign(part, path):
                for key, value in part.items():
                    own = f"{path}/{key}" if path else key
                    if isinstance(value, dict):
                        assign(value, own)
                    elif own in by_path:
                        by_path[own].assign(_tandem.convert(np.asarray(value), by_path[own]._code))
                    else:
                        raise ValueError(f"{name} has no variable {own}; it has {', '.join(by_path)}")

            assign(tree, "")

    def stateless_compute_loss(self, trainable_variables, non_trainable_variables, metrics_variables, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss with other values of the variables, which are as they were afterwards, and the values that they would have."""
        variables = [*self.trainable_variables, *self.non_trainable_variables, *self.metrics_variables]
        given = [*trainable_variables, *non_trainable_variables, *metrics_variables]
        kept = [v.read_value() for v in variables]
        try:
            for v, value in zip(variables, given):
                v.assign(value)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training)
            own, others, counts = ([v.read_value() for v in part] for part in (self.trainable_variables, self.non_trainable_variables, self.metrics_variables))
        finally:
            for v, value in zip(variables, kept):
                v.assign(value)
        return loss, (own, others, counts)

    # ---- fit ----

    def fit(self, x=None, y=None, batch_size=None, epochs=1, verbose="auto", callbacks=None, validation_split=0.0, validation_data=None, shuffle=True, class_weight=None, sample_weight=None, initial_epoch=0, steps_per_epoch=None, validation_steps=None, validation_batch_size=None, validation_freq=1, **kwargs) -> "History":
        """Trains the model on arrays, data sets, generators or a PyDataset. Returns a History."""
        from tandem.keras import callbacks as callbacks_module

        self._assert_compiled("fit")
        epochs = min(epochs, config.max_epochs() or epochs)
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
            self._ensure_built(first, training.are_even)
            self._ensure_metrics(first)
        container.on_train_begin()
        initial_epoch = self.__dict__.pop("_initial_epoch", None) or initial_epoch  # Where a backup says to go on.
        logs = {}
        epoch_logs = {}
        wants_batches = container.wants_train_batches
        together = int(self.steps_per_execution or 1)  # Callbacks hear of so many steps at once, by the number of the last.
        program, whole = self._program_for("train", first), _tandem.WholeStep()
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            container.on_epoch_begin(epoch)
            logs = {}
            step = 0
            for data in training.epoch():
                if wants_batches and step % together == 0:
                    container.on_train_batch_begin(step)
                with whole:
                    logs = program(data)
                container.progress(step, logs, self)
                step += 1
                if wants_batches and step % together == 0:
                    container.on_train_batch_end(step - 1, self._numbers(logs, self._from_metrics("train", live=True)))
                if self.stop_training:
                    break
            if step == 0 and epoch > initial_epoch and training.no_rows is None:
                warnings.warn("Your input ran out of data; interrupting training. A generator gives its batches once: give steps_per_epoch and one that goes on, or a data set.", stacklevel=2)
                break
            if step == 0:
                warnings.warn("fit: the data has no batch; the epoch makes no step and has no results", stacklevel=2)
            if wants_batches and step % together:
                container.on_train_batch_end(step - step % together + together - 1, self._numbers(logs, self._from_metrics("train", live=True)))
            self._finish_steps()
            epoch_logs = self._numbers(logs, self._from_metrics("train")) if step else {}
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
        if live and isinstance(program, _ServerStep):
            return {}
        if not live:
            self._merge_processes()
        before, state.metrics_alone = state.metrics_alone, True
        try:
            return self.get_metrics_result()
        finally:
            state.metrics_alone = before

    def _merge_processes(self):
        """Where several processes train, the states of metrics become the sums over all of them."""
        strategy = self.__dict__.get("_tandem_strategy")
        if not strategy._spans_processes:
            return
        for metric in self.metrics:
            metrics_module.merge_processes(metric, strategy)
            metric._is_merged = True

    def _numbers(self, logs, better=None):
        strategy = self.__dict__.get("_tandem_strategy")
        if strategy is not None and strategy._has_servers:
            from tandem.distribute._later import fetched

            logs = fetched(logs)
        if better is not None:
            logs = better
        elif isinstance(logs, (Tensor, float, int)):
            logs = {"loss": logs}
        return _sorted_logs(logs or {})

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
                program = self._program_for("test", data)
            if wants:
                container.on_test_batch_begin(step)
            logs = program(data)
            if wants:
                container.on_test_batch_end(step, self._numbers(logs, self._from_metrics("test", live=True)))
            step += 1
        numbers = self._numbers(logs, self._from_metrics("test")) if step else {}
        if container is not None:
            container.on_test_end(numbers)
        return numbers

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, steps=None, callbacks=None, return_dict=False, **kwargs):
        """The loss and the metrics on data, as a list or by name."""
        from tandem.keras import callbacks as callbacks_module

        self._assert_compiled("evaluate")
        batches = _adapter.Batches(x, y, sample_weight, batch_size, steps, False, None, self)
        container = callbacks_module.CallbackList(callbacks, add_history=False, add_progbar=False, model=self, verbose=0, epochs=1, steps=batches.steps)
        started = time.time()
        numbers = self._evaluate(batches, container)
        if _verbosity(verbose):
            callbacks_module.print_line(batches.steps or batches.seen, time.time() - started, numbers, _verbosity(verbose))
        if return_dict:
            return numbers
        ordered = self._ordered_numbers(numbers)
        return ordered[0] if len(ordered) == 1 else ordered

    def _ordered_numbers(self, numbers):
        """The numbers as Keras lists them: those of the metrics in their order, then what has other names."""
        names = [own.name for m in self.metrics for own in (m.metrics if m is self._compile_metrics else [m])]
        return [numbers[n] for n in names if n in numbers] + [numbers[n] for n in sorted(numbers) if n not in names]

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None, **kwargs) -> typing.Any:
        """The predictions for data, as arrays."""
        from tandem.keras import callbacks as callbacks_module

        batches = _adapter.Batches(x, None, None, batch_size, steps, False, None, self, is_predict=True)
        container = callbacks_module.CallbackList(callbacks, add_history=False, add_progbar=False, model=self, verbose=0, epochs=1, steps=batches.steps)
        container.on_predict_begin()
        program, outputs, step = None, None, 0
        started = time.time()
        for data in batches.epoch(False):
            if program is None:
                self._ensure_built(data)
                program = self._program_for("predict", data)
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
        if step == 0 and batches.no_rows is not None:
            self._ensure_built(batches.no_rows)
            result = self._quiet_call(batches.no_rows[0] if isinstance(batches.no_rows, tuple) else batches.no_rows)
            return nest.map_structure(_as_array, result) if nest.is_nested(result) else _as_array(result)
        if step == 0:
            raise ValueError("predict: the data has no batch")
        if _verbosity(verbose):
            callbacks_module.print_line(step, time.time() - started, {}, _verbosity(verbose))
        joined = [np.concatenate(many) if many[0].ndim else np.stack(many) for many in collected]
        return nest.pack_sequence_as(like, joined) if nest.is_nested(like) else joined[0]

    def _whole(self, result):
        """The rows of all replicas, one after another."""
        from tandem import distribute

        strategy = self.__dict__.get("_tandem_strategy")
        # Replicas that have the same rows count once.
        by_strategy = strategy is not None and (strategy._spans_processes or strategy._model_parts > 1)

        def join(v):
            if by_strategy and isinstance(v, (Tensor, distribute.PerReplica)):
                return strategy.gather(v, 0)
            if isinstance(v, distribute.PerReplica):
                return _tandem.concat([t for t in v.values], 0)
            return v

        return nest.map_structure(join, result) if nest.is_nested(result) else join(result)

    # ---- Batches ----

    def _one_batch(self, x, y, sample_weight, class_weight):
        batches = _adapter.Batches(x, y, sample_weight, 2**30, None, False, class_weight, self)
        return batches.peek() if batches.no_rows is None else batches.no_rows

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False, reset_metrics=False):
        """One training step on one batch."""
        self._assert_compiled("train_on_batch")
        self.reset_metrics()
        data = self._one_batch(x, y, sample_weight, class_weight)
        self._ensure_built(data)
        self._ensure_metrics(data)
        logs = self._numbers(self._program_for("train", data)(self._dealt(data)), self._from_metrics("train"))
        return logs if return_dict else self._flat_logs(logs)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False, reset_metrics=False):
        """The loss and the metrics on one batch."""
        self._assert_compiled("test_on_batch")
        self.reset_metrics()
        data = self._one_batch(x, y, sample_weight, None)
        self._ensure_built(data)
        self._ensure_metrics(data)
        logs = self._numbers(self._program_for("test", data)(self._dealt(data)), self._from_metrics("test"))
        return logs if return_dict else self._flat_logs(logs)

    def _dealt(self, data):
        return data

    def _flat_logs(self, logs):
        ordered = self._ordered_numbers(logs)
        return ordered[0] if len(ordered) == 1 else ordered

    def predict_on_batch(self, x):
        """The predictions for one batch."""
        data = self._one_batch(x, None, None, None)
        self._ensure_built(data)
        result = self._whole(self._program_for("predict", data)(self._dealt(data)))
        return nest.map_structure(_as_array, result) if nest.is_nested(result) else _as_array(result)

    def fit_generator(self, *args, **kwargs):
        """fit, by its name in Keras 1."""
        return self.fit(*args, **kwargs)

    def evaluate_generator(self, *args, **kwargs):
        """evaluate, by its name in Keras 1."""
        return self.evaluate(*args, **kwargs)

    def predict_generator(self, *args, **kwargs):
        """predict, by its name in Keras 1."""
        return self.predict(*args, **kwargs)

    def explain(self, kind="train"):
        """The program of a step, for people."""
        program = self._tandem_functions.get(kind)
        if program is None:
            raise ValueError(f"the {kind} step has not run yet")
        return program.explain()


def _path_of(variable):
    """A variable's path; that of the library's optimizers is their names, with Keras's word for the steps."""
    path = getattr(variable, "path", None)
    return path or variable.name.removesuffix(":0").replace("/iterations", "/iteration")


def _as_array(value):
    return np.asarray(value.numpy()) if hasattr(value, "numpy") else np.asarray(value)


def _number(value):
    if isinstance(value, (Tensor, _tandem.Variable)):
        array = np.asarray(value.numpy())
        return float(array) if array.ndim == 0 else array
    if hasattr(value, "values") and not isinstance(value, dict):
        return float(np.mean([float(v) for v in value.values]))
    return float(value) if isinstance(value, (int, float, np.generic)) else value


def _sorted_logs(logs):
    """Numbers in the order of their names, as Keras shows them: those of a metric with several stand in that metric's place."""
    result = {}
    for key, value in sorted(logs.items()) if all(isinstance(k, str) for k in logs) else logs.items():
        if isinstance(value, dict):
            result.update(_sorted_logs(value))
        else:
            result[key] = _number(value)
    return result


def _verbosity(verbose):
    return 1 if verbose == "auto" else int(verbose)


def _are_metrics(given):
    """Whether what stands in the place of loss_weights are metrics."""
    return isinstance(given, (list, tuple)) and any(isinstance(g, str) or callable(g) for g in given)
