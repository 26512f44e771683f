"""What a model does with a batch, as users override it, as a program, and on replicas."""

import warnings

import _tandem
from tandem import _ops, nest
from tandem._tensors.tensor import Tensor
from tandem._tracing.function import Function
from tandem._tracing.state import init_scope, state
from tandem._tracing.tape import GradientTape
from tandem.errors import InvalidArgumentError
from tandem.keras import optimizers as optimizers_module
from tandem.keras._adapter import unpack_x_y_sample_weight
from tandem.keras._calls import learning_phase
from tandem.keras._compiled import _first_size, _rows
from tandem.keras._symbolic import KerasTensor, output_spec


class TrainingSteps:
    """What a model does with a batch: what users override, and the programs that are made of it."""

    # ---- Steps: what users override ----

    def _output_names(self, y_pred):
        if isinstance(y_pred, dict):
            return sorted(y_pred)
        flat = nest.flatten(y_pred)
        if self.__dict__.get("_tandem_graph") is not None:
            names = self.output_names
            if len(names) == len(flat):
                return names
        return [None] * len(flat)  # Losses and metrics go by their own names then.

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss of predictions with the terms that layers added; may be overridden."""
        losses = []
        if self._compile_loss is not None:
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
        own = type(self).compute_loss is not TrainingSteps.compute_loss
        kwargs = {"x": x, "y": y, "y_pred": y_pred, "sample_weight": sample_weight, "training": training}
        if own:
            names = inspect.signature(f).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in names.values()):
                kwargs = {k: v for k, v in kwargs.items() if k in names}
        return f(**kwargs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates the metrics and returns their results; may be overridden."""
        if self._compile_metrics is not None and y is not None:
            self._compile_metrics.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result() if not state.in_replica else {}

    def compiled_loss(self, y_true, y_pred, sample_weight=None, regularization_losses=None):
        """The loss that compile was given, to be called as in Keras 2."""
        value = self._compile_loss(y_true, y_pred, sample_weight, self._output_names(y_pred))
        for each in regularization_losses or ():
            value = value + each
        return value

    @property
    def compiled_metrics(self):
        """The metrics that compile was given, to be updated as in Keras 2."""
        return self._compile_metrics

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
        from tandem.keras._calls import _parameters

        # As in Keras, a model of one's own whose `call` has no argument `training` leaves its layers to their defaults.
        return self(x, training=training) if "training" in _parameters(self.call)[0] else self(x)

    def train_step(self, data):
        """One step of fit on one batch; may be overridden. Returns results by name."""
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            y_pred = self._call_with_phase(x, True)
            loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
            scaled = self.optimizer.scale_loss(loss) if hasattr(self.optimizer, "scale_loss") else loss
        self._track_loss(loss, x)
        variables = self.trainable_variables
        if variables:
            self.optimizer.apply(tape.gradient(scaled, variables), variables)
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data):
        """One step of evaluate on one batch; may be overridden. Returns results by name."""
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        y_pred = self._call_with_phase(x, False)
        loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
        self._track_loss(loss, x)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data):
        """One step of predict on one batch; may be overridden. Returns predictions."""
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

    def _program_for(self, kind, data):
        """The step for such data: that of ragged tensors runs op by op, since where rows end differs from batch to batch."""
        if data is None or not any(hasattr(v, "_ragged_rows") for v in nest.flatten(data)):
            return self._program(kind)
        if self.__dict__.get("_tandem_strategy") is not None:
            raise NotImplementedError("a model under a strategy takes no ragged tensors; RaggedTensor.to_tensor() makes dense ones of them")
        step = {"train": self.train_step, "test": self.test_step, "predict": self.predict_step}[kind]

        def run(data):
            with learning_phase(kind == "train"):
                return step(data)

        return run

    def _has_text_layers(self):
        found = self.__dict__.get("_tandem_has_text")
        if found is None:
            found = self.__dict__["_tandem_has_text"] = any(getattr(l, "_takes_texts", False) for l in self._flatten_layers())
        return found

    def _numbers_of_texts(self, inputs):
        return inputs

    def make_train_function(self, force=False):
        """Makes the compiled function of a training step."""
        self.train_function = self._program("train")
        return self.train_function

    def make_test_function(self, force=False):
        """Makes the compiled function of a test step."""
        self.test_function = self._program("test")
        return self.test_function

    def make_predict_function(self, force=False):
        """Makes the compiled function of a prediction."""
        self.predict_function = self._program("predict")
        return self.predict_function

    def _ensure_built(self, data, is_even=True):
        """Weights are made before the first step is traced: a function may make variables only once. Layers remember the number of rows where
        batches do not differ in it."""
        if self.built and self.weights and self._has_unbuilt() is False:
            return
        x, _, _ = unpack_x_y_sample_weight(data)
        from tandem.keras._calls import call_context

        if type(self).train_step is TrainingSteps.train_step or type(self).call is not _model_call():
            own_step = type(self).train_step is not TrainingSteps.train_step
            try:
                of_batch = next((t._sizes[0] for t in nest.flatten(x) if isinstance(t, Tensor) and t._rank), None)
                call_context.rows = of_batch, of_batch if is_even else None
                with init_scope(), self._strategy_scope(), learning_phase(False):
                    self._rehearse(x)
            except Exception as error:  # noqa: BLE001
                # A step of one's own may give `call` something else than x; it makes the weights itself then.
                if not own_step and not isinstance(error, NotImplementedError):
                    raise
            finally:
                call_context.rows = None

    def _rehearse(self, x):
        """Calls the model with a few rows, so that it has weights; the outputs are of use for their kinds alone. One that is made for
        batches of one number of rows is given them all."""
        try:
            return self._rehearse_rows(_few_rows(x))
        except InvalidArgumentError:
            return self._rehearse_rows(x)

    def _rehearse_rows(self, x):
        strategy = self.__dict__.get("_tandem_strategy")
        has_parts_elsewhere = strategy is not None and strategy._model_parts > 1 and strategy._spans_processes
        if strategy is None or not (has_parts_elsewhere or strategy._has_variables_in_parts):
            return self._quiet_call(x)
        # Other processes keep parts of weights, which only a step joins: the call is traced and not made.
        rows = nest.flatten(x)[0]._sizes[0]
        outputs = output_spec(self._quiet_call, (nest.map_structure(lambda t: KerasTensor((None, *t.shape[1:]), t.dtype), x),), {})
        return nest.map_structure(lambda t: _ops.zeros((rows, *t.shape[1:]), t.dtype), outputs)

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
                    try:
                        with learning_phase(False):
                            y_pred = _few_rows(self._rehearse(x))
                    except Exception as error:  # noqa: BLE001
                        if type(self).train_step is TrainingSteps.train_step and not isinstance(error, NotImplementedError):
                            raise
                        y_pred = None
                    if y_pred is not None:
                        names = self._output_names(y_pred)
                        if self._compile_loss is not None and self._compile_loss._losses is None:
                            self._compile_loss.build(y_pred, names)
                        if self._compile_metrics is not None and self._compile_metrics._sets is None and (self._compile_metrics._given or self._compile_metrics._weighted):
                            losses = self._compile_loss._losses if self._compile_loss is not None else None
                            self._compile_metrics.build(_few_rows(y), y_pred, names, losses)
                            for m in self._compile_metrics.metrics:
                                if not m.variables:
                                    m.update_state(nest.flatten(_few_rows(y))[0], nest.flatten(y_pred)[0])
                                    m.reset_state()
            if self.optimizer is not None and isinstance(self.optimizer, optimizers_module.Optimizer):
                if type(self).train_step is TrainingSteps.train_step and not self.optimizer.built and self.trainable_variables:
                    self.optimizer.build(self.trainable_variables)


def _model_call():
    from tandem.keras._model import Model

    return Model.call


class _TextStep:
    """A step of a model with text layers: the host looks texts up, the step gets numbers. Where other layers see the texts, it runs op by op."""

    def __init__(self, model, program, kind):
        self._model, self._program, self._kind = model, program, kind

    def __call__(self, data):
        if any(getattr(v, "_is_text_tensor", False) for v in nest.flatten(data)) or self._has_columns():
            if isinstance(data, tuple):
                data = (self._model._numbers_of_texts(data[0]),) + data[1:]
            else:
                data = self._model._numbers_of_texts(data)
            if any(getattr(v, "_is_text_tensor", False) for v in nest.flatten(data)) and not isinstance(self._program, _ReplicaStep):
                step = {"train": self._model.train_step, "test": self._model.test_step, "predict": self._model.predict_step}[self._kind]
                return step(data)
        return self._program(data)

    def _has_columns(self):
        return any(hasattr(layer, "_looked_up") for layer in getattr(self._model, "_stack", ()))

    def explain(self):
        return self._program.explain()


class _ReplicaStep:
    """A step that a strategy's replicas run."""

    def __init__(self, model, strategy, run, kind):
        self._strategy, self._run = strategy, run
        steps = {"train": "train_step", "test": "test_step", "predict": "predict_step"}
        self.is_default = kind != "predict" and getattr(type(model), steps[kind]) is getattr(TrainingSteps, steps[kind])
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
        return nest.map_structure(mean, logs) if nest.is_nested(logs) else mean(logs)

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


def _few_rows(x):
    return nest.map_structure(_first_rows, x) if nest.is_nested(x) else x if x is None else _first_rows(x)


def _first_rows(t):
    if isinstance(t, Tensor) and t._rank and not t._is_symbolic and t._sizes[0] > 2:
        return t[:2]
    if getattr(t, "_is_text_tensor", False) and t.ndim or hasattr(t, "_ragged_rows"):
        return t[:2]
    return t
