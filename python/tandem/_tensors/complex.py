"""Complex values: two tensors, the real and the imaginary part, and what ops make of them.

The library's tensors are real. Ops that are given a complex value look here for what they mean (`_ops.base.op`): those that
only move elements do so with both parts, others have a rule of their own. To functions and data sets it is a structure of
two tensors, so it is traced, differentiated and distributed as these are.
"""

import dataclasses
import typing

import _tandem
from tandem import _ops, dtypes
from tandem._names.lazy import np
from tandem._tensors import tensor as _tensor

_MOVING = {
    "reshape", "transpose", "expand_dims", "squeeze", "concat", "stack", "unstack", "split", "tile", "gather", "slice", "strided_slice",
    "reverse", "roll", "repeat", "identity", "stop_gradient", "reduce_sum", "reduce_mean", "cumsum", "zeros_like", "broadcast_to",
    "swapaxes", "moveaxis", "pad", "boolean_mask", "where", "add_n",
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ComplexTensor:
    """A complex value."""

    real: object
    imag: object

    __array_priority__ = 200
    _is_complex = True

    dtype = property(lambda self: dtypes.complex128 if self.real._code == 1 else dtypes.complex64)
    shape = property(lambda self: self.real.shape)
    ndim = property(lambda self: self.real._rank)

    def get_shape(self):
        """The shape."""
        return self.real.shape

    def numpy(self):
        """A NumPy array of complex values."""
        return self.real.numpy() + np.asarray(1j, self.dtype.as_numpy_dtype) * self.imag.numpy()

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def __getitem__(self, key):
        return ComplexTensor(self.real[key], self.imag[key])

    def __len__(self):
        return len(self.real)

    def __iter__(self):
        return (ComplexTensor(a, b) for a, b in zip(self.real, self.imag))

    def __repr__(self):
        if self.real._is_symbolic:
            return f"<tf.Tensor shape={self.shape} dtype={self.dtype.name}>"
        value = np.asarray(self.numpy())
        text = _tensor._own_lines(repr(value)) if value.ndim else str(value)
        return f"<tf.Tensor: shape={tuple(self.shape)}, dtype={self.dtype.name}, numpy={text}>"

    def __str__(self):
        if self.real._is_symbolic:
            return repr(self)
        value = np.asarray(self.numpy())
        text = _tensor._own_lines(np.array2string(value, separator=" ")) if value.ndim else str(value)
        return f"tf.Tensor({text}, shape={tuple(self.shape)}, dtype={self.dtype.name})"

    def __neg__(self):
        return ComplexTensor(-self.real, -self.imag)

    def __abs__(self):
        return magnitude(self)

    def __add__(self, other):
        other = as_complex(other, self)
        return ComplexTensor(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other):
        other = as_complex(other, self)
        return ComplexTensor(self.real - other.real, self.imag - other.imag)

    def __rsub__(self, other):
        return as_complex(other, self) - self

    def __mul__(self, other):
        other = as_complex(other, self)
        return ComplexTensor(self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real)

    def __truediv__(self, other):
        other = as_complex(other, self)
        size = other.real * other.real + other.imag * other.imag
        product = self * conjugate(other)
        return ComplexTensor(product.real / size, product.imag / size)

    def __rtruediv__(self, other):
        return as_complex(other, self) / self

    def __pow__(self, exponent):
        if exponent != 2:
            raise NotImplementedError(f"a complex value to the power {exponent}: 2 is accepted, and tf.exp")
        return self * self

    def __matmul__(self, other):
        other = as_complex(other, self)
        product = lambda a, b: _tandem.matmul(a, b, False, False)  # noqa: E731
        return ComplexTensor(product(self.real, other.real) - product(self.imag, other.imag), product(self.real, other.imag) + product(self.imag, other.real))

    def __eq__(self, other):
        other = as_complex(other, self)
        return _tandem.logical_and(_tandem.equal(self.real, other.real), _tandem.equal(self.imag, other.imag))

    def __ne__(self, other):
        return _tandem.logical_not(self == other)

    __radd__, __rmul__, __hash__ = __add__, __mul__, object.__hash__


def is_complex(value):
    """Whether it is a complex number, array or tensor."""
    return isinstance(value, (ComplexTensor, complex, np.complexfloating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "c") or _is_variable(value)


def _is_variable(value):
    return hasattr(value, "_is_other_variable") and hasattr(value, "_is_complex")


def as_complex(value, beside=None, dtype=None):
    """A complex value of one, of an array or number, or of real parts."""
    if _is_variable(value):
        value = value.read_value()
    if isinstance(value, ComplexTensor):
        if dtype is None or value.dtype == dtypes.as_dtype(dtype):
            return value
        code = 1 if dtypes.as_dtype(dtype) == dtypes.complex128 else 0
        return ComplexTensor(_tandem.cast(value.real, code), _tandem.cast(value.imag, code))
    code = None if dtype is None else 1 if dtypes.as_dtype(dtype) == dtypes.complex128 else 0
    if beside is not None:
        code = beside.real._code
    if isinstance(value, (list, tuple)):
        if _has_complex(value) or any(isinstance(each, _tandem.Tensor) for each in value):
            parts = [as_complex(each, beside, dtype) for each in value]
            return ComplexTensor(_tandem.stack([p.real for p in parts], 0), _tandem.stack([p.imag for p in parts], 0))
        value = np.asarray(value)
    if is_complex(value):
        array = np.asarray(value)
        if code is None:
            code = 0 if array.dtype == np.complex64 else 1
        part = lambda a: _tandem.cast(_tandem.convert(np.array(a, order="C")), code)  # noqa: E731
        return ComplexTensor(part(array.real), part(array.imag))
    real = _tandem.convert(value)
    real = _tandem.cast(real, code if code is not None else 1 if real._code == 1 else 0)
    return ComplexTensor(real, _tandem.zeros_like(real))


def magnitude(x):
    """|x|, whose gradient at 0 is 0."""
    square = x.real * x.real + x.imag * x.imag
    is_zero = _tandem.equal(square, 0.0)
    root = _tandem.sqrt(_tandem.where(is_zero, _tandem.zeros_like(square) + 1.0, square))
    return _tandem.where(is_zero, _tandem.zeros_like(root), root)


def conjugate(x):
    """The complex conjugate of a value."""
    return ComplexTensor(x.real, -x.imag)


def _exp(x, name=None):
    size = _tandem.exp(x.real)
    return ComplexTensor(size * _tandem.cos(x.imag), size * _tandem.sin(x.imag))


def _product(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False, a_is_sparse=False, b_is_sparse=False, output_type=None, name=None):
    """The product of matrices, which are transposed and conjugated first where asked for."""

    def turned(x, transposed, adjoint):
        x = as_complex(x)
        if not (transposed or adjoint):
            return x
        rank = x.real._rank
        order = [*range(rank - 2), rank - 1, rank - 2]
        x = ComplexTensor(_tandem.transpose(x.real, order), _tandem.transpose(x.imag, order))
        return conjugate(x) if adjoint else x

    return turned(a, transpose_a, adjoint_a) @ turned(b, transpose_b, adjoint_b)


def _cast(x, dtype, name=None):
    dtype = dtypes.as_dtype(dtype)
    return as_complex(x, dtype=dtype) if dtype.is_complex else _tandem.cast(x.real, dtypes.code_of(dtype))


_RULES = {
    "add": lambda x, y, name=None: as_complex(x) + y, "subtract": lambda x, y, name=None: as_complex(x) - y,
    "multiply": lambda x, y, name=None: as_complex(x) * y, "divide": lambda x, y, name=None: as_complex(x) / y,
    "truediv": lambda x, y, name=None: as_complex(x) / y, "matmul": lambda a, b, *args, **kwargs: _product(a, b, *args, **kwargs),
    "negative": lambda x, name=None: -x, "square": lambda x, name=None: x * x, "exp": _exp, "cast": _cast,
    "abs": lambda x, name=None: magnitude(x), "real": lambda input, name=None: input.real, "imag": lambda input, name=None: input.imag,
    "conj": lambda x, name=None: conjugate(x), "angle": lambda input, name=None: _ops.atan2(input.imag, input.real),
    "equal": lambda x, y, name=None: as_complex(x) == y, "not_equal": lambda x, y, name=None: as_complex(x) != y,
    "shape": lambda input, *args, **kwargs: _ops.shape(input.real, *args, **kwargs),
    "is_finite": lambda x, name=None: _tandem.logical_and(_tandem.is_finite(x.real), _tandem.is_finite(x.imag)),
}


def _has_complex(value):
    return any(_has_complex(each) for each in value) if isinstance(value, (list, tuple)) else isinstance(value, ComplexTensor) or _is_variable(value)


def _read(value):
    """What is given, with the values of variables in their place."""
    if isinstance(value, (list, tuple)) and _has_complex(value):
        return type(value)(_read(each) for each in value)
    return value.read_value() if _is_variable(value) else value


def _parts_of(value, which):
    if isinstance(value, (list, tuple)) and _has_complex(value):
        return type(value)(_parts_of(as_complex(each) if not isinstance(each, (list, tuple)) else each, which) for each in value)
    return getattr(value, which) if isinstance(value, ComplexTensor) else value


def meets_complex(args, kwargs):
    """True if any argument is complex."""
    return _has_complex(list(args) + list(kwargs.values()))


def call(f, args, kwargs) -> typing.Any:
    """An op of complex values."""
    name = f.__name__
    args, kwargs = [_read(a) for a in args], {k: _read(v) for k, v in kwargs.items()}
    if name in _RULES:
        return _RULES[name](*args, **kwargs)
    if name not in _MOVING:
        known = ", ".join(sorted(set(_RULES) | _MOVING))
        raise TypeError(f"{name}: it is given a complex value; of such tandem has {known}, and tf.signal")
    real = f(*_parts_of(list(args), "real"), **{k: _parts_of(v, "real") for k, v in kwargs.items()})
    imag = f(*_parts_of(list(args), "imag"), **{k: _parts_of(v, "imag") for k, v in kwargs.items()})
    if isinstance(real, (list, tuple)):
        return [ComplexTensor(a, b) for a, b in zip(real, imag)]
    return ComplexTensor(real, imag)
