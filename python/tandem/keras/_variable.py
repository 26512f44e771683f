"""Weights of layers: variables with Keras's names."""

import _tandem
from tandem import dtypes
from tandem._tensors import variable as _variable
from tandem.keras import _objects


class DTypeName(str):
    """The name of a dtype, as Keras's variables have it, which can be asked what a tf.DType can."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(dtypes.as_dtype(str(self)), name)

    def __reduce__(self):
        return str, (str(self),)


_dtype_names = {}


def _dtype_name(code):
    if code not in _dtype_names:
        _dtype_names[code] = DTypeName(dtypes.BY_CODE[code].name)
    return _dtype_names[code]


class KerasVariable(_variable.Variable):
    """A variable with a short name and a path, whose value is an attribute."""

    def __init__(self, initializer, shape=None, dtype=None, trainable=True, autocast=True, aggregation="none", synchronization="auto", name=None, path=None, regularizer=None, constraint=None, **kwargs):
        dtype = dtypes.as_dtype(dtype or "float32")
        if isinstance(initializer, str):
            from tandem.keras import initializers

            initializer = initializers.get(initializer)
        if callable(initializer) and not isinstance(initializer, _tandem.Tensor):
            if shape is None:
                raise ValueError("When creating a Variable from an initializer, the `shape` argument should be specified.")
            initial = lambda: initializer(tuple(shape), dtype=dtype)  # noqa: E731
        else:
            initial = initializer
        self._short_name = name or _objects.auto_name("variable")
        self.path = path or self._short_name
        aggregations = {None: 0, "none": 0, "sum": 1, "mean": 2, "only_first_replica": 3}
        super().__init__(
            initial,
            trainable=trainable,
            dtype=dtype,
            name=self.path,
            names_by_scope=False,
            aggregation=_variable.VariableAggregation(aggregations.get(aggregation, 0)),
            synchronization=_variable.VariableSynchronization.ON_READ if synchronization == "on_read" else _variable.VariableSynchronization.AUTO,
        )
        self.regularizer = regularizer
        self.constraint = constraint
        self._is_trainable = trainable

    @classmethod
    def of(cls, variable, name, path):
        """A variable of the library by another name."""
        made = cls.__new__(cls)
        _tandem.Variable.__init__(made, variable)
        made._short_name, made.path, made.regularizer, made.constraint, made._is_trainable = name, path, None, None, False
        made.synchronization, made.aggregation = _variable.VariableSynchronization.AUTO, _variable.VariableAggregation.NONE
        return made

    @property
    def name(self):
        """The variable's name."""
        return self._short_name

    @property
    def dtype(self):
        """The name of the dtype."""
        return _dtype_name(self._code)

    @property
    def value(self):
        """The present value."""
        return self.read_value()

    @property
    def trainable(self):
        """Whether it is trained."""
        return self._is_trainable

    @trainable.setter
    def trainable(self, value):
        self._is_trainable = bool(value)

    def assign(self, value, *args, **kwargs):
        """Sets the value."""
        if not isinstance(value, (_tandem.Tensor, int, float)):
            value = _tandem.convert(value, self._code)
        elif isinstance(value, _tandem.Tensor) and value._code != self._code:
            value = _tandem.cast(value, self._code)
        return super().assign(value)

    _adds_share = False  # Whether replicas that have the same rows count for a share each.

    def assign_add(self, value, *args, **kwargs):
        """Adds to the value."""
        if isinstance(value, _tandem.Tensor) and value._code != self._code:
            value = _tandem.cast(value, self._code)
        if self._adds_share and _tandem.part_count() > 1 and self.dtype.is_floating:
            value = _tandem.convert(value, self._code) / float(_tandem.part_count())
        return super().assign_add(value)

    def __repr__(self):
        return f"<Variable path={self.path}, shape={self.shape}, dtype={self.dtype}, value={self.numpy()}>"

    __str__ = __repr__

    def __deepcopy__(self, memo):
        copy = _copied(self.numpy().copy() if self.ndim else self.numpy(), self.trainable, self._short_name, self.path, self.dtype.name)
        copy.regularizer, copy.constraint = self.regularizer, self.constraint
        memo[id(self)] = copy
        return copy

    def __reduce__(self):
        import numpy as np

        return _copied, (np.array(self.numpy()), self.trainable, self._short_name, self.path, self.dtype.name)


class RateVariable(KerasVariable):
    """The learning rate of the library's optimizers, which keep 64 bits of it: others see 32, as Keras has it."""

    dtype = property(lambda self: _dtype_name(0))

    def read_value(self):
        return _tandem.cast(super().read_value(), 0)

    def numpy(self):
        return self.read_value().numpy()


def _copied(array, trainable, name, path, dtype):
    return KerasVariable(array, dtype=dtype, trainable=trainable, name=name, path=path)


Variable = KerasVariable
