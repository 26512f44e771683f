"""Variables of complex numbers and of texts, which tf.Variable makes of such values.

A complex one is two variables of the library, its real and its imaginary part; a text is kept on the host. They are no instances of
tf.Variable, of which the library has the bodies.
"""

import json

import _tandem
from tandem import dtypes
from tandem._names.lazy import np
from tandem._tensors import complex as _complex
from tandem._tensors import tensor as _tensor
from tandem._tracing.state import state
from tandem.strings import StringTensor


def is_text(value, dtype):
    """Whether a variable of the value is one of texts."""
    if dtype is not None and dtypes.as_dtype(dtype) == dtypes.string:
        return True
    if isinstance(value, (list, tuple)):
        return bool(value) and is_text(value[0], None)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return bool(value.size) and isinstance(value.flat[0], (str, bytes))
    return isinstance(value, (str, bytes, StringTensor)) or isinstance(value, np.ndarray) and value.dtype.kind in "US"


def is_complex(value, dtype):
    """Whether a variable of the value is one of complex numbers."""
    if dtype is not None:
        return dtypes.as_dtype(dtype).is_complex
    if isinstance(value, (list, tuple)):
        return any(is_complex(each, None) for each in value)
    return _complex.is_complex(value)


class _OtherVariable:
    """What both have of a variable."""

    _is_other_variable = True
    constraint = None

    @property
    def name(self):
        """The variable's name."""
        return f"{self._name}:0"

    @property
    def trainable(self):
        """Whether it is trained, as it was said when it was made."""
        return self._is_trainable

    def value(self):
        """The present value."""
        return self.read_value()

    def _check_shape(self, value):
        if tuple(value.shape) != tuple(self.shape):
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch. The variable shape {self.shape}, and the assigned value "
                f"shape {value.shape} are incompatible."
            )

    def _refuse(self, what):
        raise TypeError(f"{what} of the variable {self.name!r}: it is one of {self.dtype.name}, of which assign is accepted")

    def __repr__(self):
        value = self.numpy()
        text = _tensor._own_lines(repr(value)) if isinstance(value, np.ndarray) and value.ndim else repr(value.item() if isinstance(value, np.generic) else value)
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, numpy={text}>"

    __str__ = __repr__

    def __deepcopy__(self, memo):
        copy = memo[id(self)] = type(self)(self.read_value(), trainable=self.trainable, name=self._name, dtype=self.dtype)
        return copy


class ComplexVariable(_OtherVariable):
    """A named complex value that changes."""

    _is_complex = True
    __array_priority__ = 200

    def __init__(self, initial_value, trainable=None, name=None, dtype=None, **kwargs):
        from tandem._tensors.variable import Variable

        value = initial_value() if callable(initial_value) and not hasattr(initial_value, "dtype") else initial_value
        value = _complex.as_complex(value, dtype=dtype if dtype is not None else getattr(value, "dtype", "complex128"))
        self._is_trainable, self._name = trainable is None or bool(trainable), "/".join([*state.name_scopes, name or "Variable"])
        part = lambda which, own: Variable(own, trainable=self._is_trainable, name=f"{name or 'Variable'}/{which}", **kwargs)  # noqa: E731
        self._parts = part("real", value.real), part("imag", value.imag)

    def read_value(self):
        """The present value, as a tensor that later assignments do not change."""
        return _complex.ComplexTensor(*(part.read_value() for part in self._parts))

    dtype = property(lambda self: dtypes.complex128 if self._parts[0]._code == 1 else dtypes.complex64)
    shape = property(lambda self: self._parts[0].shape)
    ndim = property(lambda self: self._parts[0].ndim)
    real = property(lambda self: self._parts[0].read_value())
    imag = property(lambda self: self._parts[1].read_value())

    def get_shape(self):
        return self.shape

    def numpy(self):
        """A NumPy array of complex values."""
        return self.read_value().numpy()

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def _given(self, value):
        value = _complex.as_complex(value.read_value() if isinstance(value, ComplexVariable) else value, dtype=self.dtype)
        self._check_shape(value)
        return value

    def assign(self, value, use_locking=False, name=None, read_value=True):
        """Sets the value."""
        value = self._given(value)
        for part, own in zip(self._parts, (value.real, value.imag)):
            part.assign(own)
        return self

    def assign_add(self, value, use_locking=False, name=None, read_value=True):
        """Adds to the value."""
        return self.assign(self.read_value() + self._given(value))

    def assign_sub(self, value, use_locking=False, name=None, read_value=True):
        """Subtracts from the value."""
        return self.assign(self.read_value() - self._given(value))

    def __len__(self):
        return len(self._parts[0])

    def __hash__(self):
        return id(self)

    def _trackable_children(self):
        return dict(zip(("real", "imag"), self._parts))


def _delegate(name):
    def call(self, *args):
        plain = [a.read_value() if isinstance(a, ComplexVariable) else a for a in args]
        return getattr(self.read_value(), name)(*plain)

    setattr(ComplexVariable, name, call)


for _name in "add radd sub rsub mul rmul truediv rtruediv pow neg abs matmul eq ne getitem iter".split():
    _delegate(f"__{_name}__")


class StringVariable(_OtherVariable, StringTensor):
    """A named text that changes. A function that reads it runs op by op: a program has no texts."""

    def __init__(self, initial_value, trainable=None, name=None, dtype=None, **kwargs):
        value = initial_value() if callable(initial_value) and not hasattr(initial_value, "dtype") else initial_value
        self._held = StringTensor(value)._array.copy()
        self._is_trainable, self._name = trainable is None or bool(trainable), "/".join([*state.name_scopes, name or "Variable"])

    @property
    def _array(self):
        self._need_no_trace()
        return self._held

    def _need_no_trace(self):
        if state.tracing:
            from tandem._tracing.function import GiveUpTrace

            raise GiveUpTrace(f"the variable {self.name!r} is one of texts, which are on the host")

    def read_value(self):
        """The present value."""
        return StringTensor(self._array.copy())

    def assign(self, value, use_locking=False, name=None, read_value=True):
        """Sets the value."""
        self._need_no_trace()
        if not is_text(value, None):
            raise TypeError(f"Cannot convert {value!r} to a tensor of dtype string")
        value = StringTensor(value)
        self._check_shape(value)
        self._held = value._array.copy()
        return self

    def assign_add(self, value, use_locking=False, name=None, read_value=True):
        """Texts are assigned: says so."""
        self._refuse("assign_add")

    def assign_sub(self, value, use_locking=False, name=None, read_value=True):
        """Texts are assigned: says so."""
        self._refuse("assign_sub")

    def __hash__(self):
        return id(self)

    def _own_node(self):
        def save():
            return json.dumps([list(self._held.shape), [each.hex() for each in self._held.reshape(-1)]]).encode()

        def restore(kept):
            shape, texts = json.loads(kept)
            self.assign(np.array([*map(bytes.fromhex, texts), None], object)[:-1].reshape(shape))

        return _tandem.Trackable.of_bytes(save, restore)

    def _trackable_children(self):
        return {}
