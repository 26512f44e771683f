"""Variables, tf.Variable."""

import contextlib
import enum
import weakref

import _tandem
from tandem._names import words as _words
from tandem import dtypes
from tandem._tensors import tensor as _tensor
from tandem._names.lazy import np
from tandem._tensors.shape import TensorShape
from tandem._tracing.state import init_scope, state


class VariableSynchronization(enum.Enum):
    """How the components of a distributed variable are kept in step."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How the updates of replicas to one variable are put together."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


_alive = weakref.WeakValueDictionary()  # The Python objects of variables, by the library's own.
_creators = []


def object_of(variable):
    """The Python object that a variable of the library was made as."""
    return _alive.get(variable._key, variable)


def _initial(initial_value, dtype, shape):
    if callable(initial_value) and not isinstance(initial_value, _tandem.Tensor):
        initial_value = initial_value()
    if isinstance(initial_value, _tandem.Variable):
        initial_value = initial_value.read_value()
    code = None if dtype is None else dtypes.code_of(dtype)
    if isinstance(initial_value, (float, list, tuple)) and code is not None and not dtypes.as_dtype(dtype).is_floating:
        found = _tandem.convert(initial_value)
        if found.dtype.is_floating:
            raise TypeError(f"Cannot convert {initial_value!r} to a variable of dtype {dtypes.as_dtype(dtype).name}")
    tensor = _tandem.convert(initial_value, code)
    if code is not None and tensor._code != code:
        tensor = _tandem.cast(tensor, code)
    return tensor


_OF_OTHERS = ("trainable", "name", "dtype", "synchronization", "aggregation")


def _other_class(value, dtype):
    """The class of a variable of complex numbers or of texts; None where it is none."""
    if isinstance(value, (_tandem.Tensor, int, float)) and dtype is None:
        return None
    if callable(value) and not hasattr(value, "dtype"):
        kind = None if dtype is None else dtypes.as_dtype(dtype)
        if kind is None or not kind.is_complex and kind != dtypes.string:
            return None
    from tandem._tensors import other_variables

    if other_variables.is_text(value, dtype):
        return other_variables.StringVariable
    return other_variables.ComplexVariable if other_variables.is_complex(value, dtype) else None


class Variable(_tandem.Variable):
    """A named value that changes. Of complex numbers and of texts there are variables of other classes."""

    def __new__(cls, initial_value=None, *args, **kwargs):
        other = _other_class(initial_value, kwargs.get("dtype", args[5] if len(args) > 5 else None)) if cls is Variable else None
        return super().__new__(cls) if other is None else other(initial_value, *args[:1], **{k: v for k, v in kwargs.items() if k in _OF_OTHERS})

    def __init__(
        self,
        initial_value=None,
        trainable=None,
        validate_shape=True,
        caching_device=None,
        name=None,
        variable_def=None,
        dtype=None,
        import_scope=None,
        constraint=None,
        synchronization=VariableSynchronization.AUTO,
        aggregation=VariableAggregation.NONE,
        shape=None,
        experimental_enable_variable_lifting=True,
        names_by_scope=True,
    ):
        if initial_value is None:
            raise ValueError("The `initial_value` arg to `tf.Variable` must be specified")
        with init_scope() if state.tracing else contextlib.nullcontext():
            tensor = _initial(initial_value, dtype, shape)
            if tensor._is_symbolic:
                raise _tensor.OperatorNotAllowedInGraphError(
                    "tf.Variable: the initial value is a tensor of the function being traced; give a function that makes "
                    "it, or create the variable outside"
                )
            if shape is not None and not TensorShape(shape).is_compatible_with(tensor.shape):
                raise ValueError(f"tf.Variable: the initial value has shape {tensor.shape}, which is not compatible with `shape` {TensorShape(shape)}")
            floating = tensor.dtype.is_floating
            on_read = synchronization == VariableSynchronization.ON_READ
            self._is_trainable = (not on_read) if trainable is None else bool(trainable)
            super().__init__(
                tensor,
                "/".join([*state.name_scopes, name or "Variable"]) if names_by_scope else name,
                self._is_trainable and not on_read and floating,
                aggregation.value,
                synchronization.value,
            )
        self.constraint = constraint
        self.synchronization = synchronization
        self.aggregation = aggregation
        _alive[self._key] = self

    @property
    def name(self):
        """The variable's name."""
        return f"{self._name}:0"

    @property
    def trainable(self):
        """True if gradient tapes watch it by themselves."""
        return self._is_trainable

    def value(self):
        """The present value, as a tensor that later assignments do not change."""
        return self.read_value()

    def __deepcopy__(self, memo):
        copy = type(self)(np.array(self.numpy()), trainable=self.trainable, name=self._name, dtype=self.dtype)
        memo[id(self)] = copy
        return copy

    def __reduce__(self):
        return _restored, (type(self), np.array(self.numpy()), self.trainable, self._name)


class _Assigned(Variable):
    """What `assign` gives where ops run at once: the same variable, which shows itself by another name, as in TensorFlow."""

    def __init__(self, origin):
        _tandem.Variable.__init__(self, origin)
        self._origin = origin  # It stays alive, and with it what else is known of it.
        self._is_trainable, self.constraint = origin._is_trainable, origin.constraint
        self.synchronization, self.aggregation = origin.synchronization, origin.aggregation

    name = "UnreadVariable"

    def __deepcopy__(self, memo):
        return self._origin.__deepcopy__(memo)

    def __reduce__(self):
        return self._origin.__reduce__()


def _after_assignment(variable):
    return _Assigned(variable) if type(variable) is Variable and not state.tracing else variable


def _restored(cls, array, trainable, name):
    return cls(array, trainable=trainable, name=name)


def _has_fraction(value):
    return any(map(_has_fraction, value)) if isinstance(value, (list, tuple)) else isinstance(value, float) and not value.is_integer()


def _assign(method):
    def assign(self, value, use_locking=False, name=None, read_value=True):
        if isinstance(value, _tandem.Tensor) and value._code != self._code:
            raise ValueError(
                f"Cannot assign a tensor of dtype {value.dtype.name} to the variable {self._name!r} of dtype {self.dtype.name}"
            )
        if not isinstance(value, (_tandem.Tensor, int, float)):
            if isinstance(value, (list, tuple)) and not self.dtype.is_floating and _has_fraction(value):
                raise TypeError(f"Cannot convert {value} to EagerTensor of dtype {self.dtype.name}")
            value = _tandem.convert(value, self._code)
        if method == "_assign" and isinstance(value, _tandem.Tensor) and not value._is_symbolic_shape:
            if value._sizes != self._sizes:
                raise ValueError(
                    f"Cannot assign value to variable '{self._name}:0': Shape mismatch. The variable shape {self.shape}, "
                    f"and the assigned value shape {value.shape} are incompatible."
                )
        getattr(_tandem.Variable, method)(self, value)
        return _after_assignment(self)

    return assign


def _numpy(self):
    return self.read_value().numpy()


def _repr(self):
    return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, numpy={_value_text(self.numpy())}>"


def _value_text(value):
    array = np.asarray(value)
    return _tensor._own_lines(repr(array)) if array.ndim else repr(array.item())


def _rows_of(indices):
    if isinstance(indices, _tensor.IndexedSlices):
        return indices.values, indices.indices
    raise TypeError("scatter: IndexedSlices are wanted")


def _scatter(combine):
    def scatter(self, sparse_delta, use_locking=False, name=None):
        from tandem import _ops

        values, indices = _rows_of(sparse_delta)
        return self.assign(combine(_ops)(self.read_value(), _ops.expand_dims(indices, -1), values))

    return scatter


_base = _tandem.Variable
_native_item = _base.__getitem__


def _part(self, key):
    """Elements of a variable: a tensor that knows where it comes from, so that it can be assigned."""
    part = _native_item(self, key)
    part._part_of = self, key
    return part


def _assign_part(change):
    def assign(self, value, name=None):
        from tandem import _ops

        try:
            variable, key = self._part_of
        except AttributeError:
            raise AttributeError("'Tensor' object has no attribute 'assign': only variables and parts of them, v[0, 1], are assigned") from None
        plain = lambda k: int(k) if isinstance(k, (_tensor.Tensor, _base)) and not k._rank else k  # noqa: E731
        key = tuple(plain(k) for k in key) if isinstance(key, tuple) else plain(key)
        places = np.arange(int(np.prod(variable._sizes))).reshape(variable._sizes)[key]
        values = _tandem.broadcast_to(_tandem.convert(value, variable._code), places.shape)
        flat = change(_ops)(_tandem.reshape(variable.read_value(), [-1]), places.reshape(-1, 1), _tandem.reshape(values, [-1]))
        return variable.assign(_tandem.reshape(flat, variable._sizes))

    return assign


_base.__getitem__ = _part
_tensor.Tensor.assign = _assign_part(lambda ops: ops.tensor_scatter_nd_update)
_tensor.Tensor.assign_add = _assign_part(lambda ops: ops.tensor_scatter_nd_add)
_tensor.Tensor.assign_sub = _assign_part(lambda ops: ops.tensor_scatter_nd_sub)
_base.shape = property(lambda self: TensorShape._of(self._sizes))
_base.get_shape = lambda self: self.shape
_base.ndim = property(lambda self: len(self._sizes))
_base.device = property(lambda self: self.read_value().device)
_base.assign = _assign("_assign")
_base.assign_add = _assign("_assign_add")
_base.assign_sub = _assign("_assign_sub")
_base.numpy = _numpy
_base.eval = lambda self, session=None: self.numpy()
_base.initialized_value = lambda self: self.read_value()
_base.__array__ = lambda self, dtype=None, copy=None: np.asarray(self.numpy(), dtype=dtype)
_base.__array_priority__ = 100
_base.__bool__ = lambda self: bool(self.read_value())
_base.__int__ = lambda self: int(self.read_value())
_base.__float__ = lambda self: float(self.read_value())
_base.__index__ = lambda self: self.read_value().__index__()
_base.__len__ = lambda self: len(self.read_value())
_base.__iter__ = lambda self: iter(self.read_value())
_base.__eq__ = lambda self, other: True if self is other and self.ndim == 0 else _tensor._equal(self, other)
_base.__ne__ = lambda self, other: _tensor._not_equal(self, other)
_base.__hash__ = object.__hash__
_base.__repr__ = _repr
_base.__str__ = _repr
_base.__format__ = lambda self, spec: format(self.numpy(), spec) if spec else _repr(self)
_base.ref = lambda self: _tensor.Reference(self)
_base.experimental_ref = _base.ref
_base.is_initialized = lambda self: True
_base.count_up_to = None
_base.sparse_read = lambda self, indices, name=None: _tandem.gather(self, indices, 0)
_base.gather_nd = lambda self, indices, name=None: __import__("tandem")._ops.gather_nd(self, indices)
_base.scatter_update = _scatter(lambda ops: ops.tensor_scatter_nd_update)
_base.scatter_add = _scatter(lambda ops: ops.tensor_scatter_nd_add)
_base.scatter_sub = _scatter(lambda ops: ops.tensor_scatter_nd_sub)
_base.scatter_nd_update = lambda self, indices, updates, name=None: self.assign(
    __import__("tandem")._ops.tensor_scatter_nd_update(self, indices, updates)
)
_base.scatter_nd_add = lambda self, indices, updates, name=None: self.assign(
    __import__("tandem")._ops.tensor_scatter_nd_add(self, indices, updates)
)
_base.scatter_nd_sub = lambda self, indices, updates, name=None: self.assign(
    __import__("tandem")._ops.tensor_scatter_nd_sub(self, indices, updates)
)
_base._repr_html_ = lambda self: _tensor._html(self.read_value())
_base.name = property(lambda self: f"{self._name}:0")
_base.trainable = property(lambda self: self._trainable)
_base.value = lambda self: self.read_value()
_words.describe_class(
    _tensor.Tensor,
    {
        "assign": "Assigns a part of a variable, as in v[0, 1].assign(x).", "assign_add": "Adds to a part of a variable.",
        "assign_sub": "Subtracts from a part of a variable.",
    },
)
_words.describe_class(
    _base,
    {
        "assign": "Sets the value.", "assign_add": "Adds to the value.", "assign_sub": "Subtracts from the value.",
        "sparse_read": "The rows at indices.", "gather_nd": "The parts whose leading indices are the rows of `indices`.",
        "scatter_update": "Assigns the rows at the indices of IndexedSlices.", "scatter_add": "Adds to the rows at the indices of IndexedSlices.",
        "scatter_sub": "Subtracts from the rows at the indices of IndexedSlices.",
        "scatter_nd_update": "Assigns the parts at indices.", "scatter_nd_add": "Adds to the parts at indices.",
        "scatter_nd_sub": "Subtracts from the parts at indices.",
        "get_shape": "The sizes of the axes.", "ndim": "The number of axes.", "device": "The name of the device that the value is on.",
        "numpy": "The value as a NumPy array, which later assignments do not change.", "eval": "The value as a NumPy array.",
        "initialized_value": "The present value: variables have one from the beginning.", "is_initialized": "True: variables have a value from the beginning.",
        "ref": "A reference that can be a key of a dictionary.",
    },
)
