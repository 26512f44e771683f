"""What a metric is, and means and sums of values."""

import functools

import _tandem
from tandem import _ops, dtypes
from tandem._tracing.state import state
from tandem.keras import _objects, initializers
from tandem.keras._variable import KerasVariable


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
