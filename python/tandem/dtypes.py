"""Element types, tf.dtypes."""

import builtins

import _tandem
from tandem._names.lazy import np


class DType:
    """The type of a tensor's elements. Equal to its name and to NumPy's type."""

    __slots__ = ("name", "_code", "_numpy_name", "_hash")

    def __init__(self, name, code, numpy_name):
        self.name = name
        self._code = code  # None: a type that has a name here and no tensors.
        self._numpy_name = numpy_name
        self._hash = hash(name)

    @property
    def _numpy(self):
        return _numpy_bfloat16() if self.name == "bfloat16" else getattr(np, self._numpy_name)

    @property
    def as_numpy_dtype(self):
        """NumPy's type of such elements."""
        return self._numpy

    @property
    def base_dtype(self):
        """The dtype itself."""
        return self

    @property
    def as_datatype_enum(self):
        """TensorFlow's number of the dtype."""
        return _numbers[self.name]

    @property
    def is_floating(self):
        """True for floating numbers."""
        return self.name in ("float16", "bfloat16", "float32", "float64")

    @property
    def is_integer(self):
        """True for integers."""
        return "int" in self.name

    @property
    def is_unsigned(self):
        """True for integers without a sign."""
        return self.name.startswith("uint")

    @property
    def is_bool(self):
        """True for bools."""
        return self.name == "bool"

    @property
    def is_complex(self):
        """True for complex numbers."""
        return self.name.startswith("complex")

    @property
    def is_numpy_compatible(self):
        """True if NumPy has it."""
        return True

    @property
    def size(self):
        """The number of bytes of an element."""
        return np.dtype(self._numpy).itemsize

    def _limit(self, sign):
        if self.name == "bfloat16":
            return float.fromhex(f"{sign}0x1.fep127")
        limits = np.finfo(self._numpy) if self.is_floating else np.iinfo(self._numpy)
        return limits.min if sign else limits.max

    @property
    def min(self):
        """The smallest value."""
        return False if self.is_bool else self._limit("-")

    @property
    def max(self):
        """The largest value."""
        return True if self.is_bool else self._limit("")

    @property
    def limits(self):
        """The smallest and the largest value."""
        return self.min, self.max

    def is_compatible_with(self, other):
        """True if the other dtype is the same."""
        return self == as_dtype(other)

    def __eq__(self, other):
        if self is other:
            return True
        if other is None:
            return False
        try:
            return self is as_dtype(other)
        except (TypeError, ValueError):
            return False

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self._hash

    def __repr__(self):
        return f"tf.{self.name}"

    def __str__(self):
        return f"<dtype: '{self.name}'>"

    def __reduce__(self):
        return as_dtype, (self.name,)


float32 = DType("float32", 0, "float32")
float64 = DType("float64", 1, "float64")
float16 = half = DType("float16", 2, "float16")
bfloat16 = DType("bfloat16", 3, "uint16")
uint8 = DType("uint8", 4, "uint8")
int32 = DType("int32", 5, "int32")
int64 = DType("int64", 6, "int64")
bool = DType("bool", 7, "bool_")
double = float64
int8 = DType("int8", 8, "int8")
int16 = DType("int16", 9, "int16")
uint16 = DType("uint16", 10, "uint16")
uint32 = DType("uint32", 11, "uint32")
uint64 = DType("uint64", 12, "uint64")
complex64 = DType("complex64", None, "complex64")
complex128 = DType("complex128", None, "complex128")
string = DType("string", None, "object_")
resource = DType("resource", None, "object_")
variant = DType("variant", None, "object_")

BY_CODE = [float32, float64, float16, bfloat16, uint8, int32, int64, bool, int8, int16, uint16, uint32, uint64]
_by_name = {d.name: d for d in BY_CODE + [complex64, complex128, string, resource, variant]}
_numbers = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8, "int64": 9, "bool": 10, "bfloat16": 14,
    "uint16": 17, "complex128": 18, "float16": 19, "resource": 20, "variant": 21, "uint32": 22, "uint64": 23,
}
_by_name["half"] = float16
_by_name["double"] = float64
_by_name["boolean"] = bool
_by_name["float"] = float32
_by_name["int"] = int64
_by_python = {float: float32, int: int32, builtins.bool: bool, str: string, bytes: string}
_tandem.set_dtypes(BY_CODE)


def as_dtype(value):
    """The DType of a name, a NumPy or Python type, or a DType."""
    if type(value) is DType:
        return value
    if isinstance(value, str):
        found = _by_name.get(value.removesuffix("_ref"))
        if found is None:
            raise TypeError(f"Cannot convert {value!r} to a TensorFlow DType; known are {', '.join(_by_name)}")
        return found
    if isinstance(value, type) and value in _by_python:
        return _by_python[value]
    if value is None:
        raise TypeError("Cannot convert None to a TensorFlow DType")
    if isinstance(value, int):  # TensorFlow's number of the dtype.
        found = next((name for name, number in _numbers.items() if number == value), None)
        if found is None:
            raise TypeError(f"Cannot convert {value!r} to a TensorFlow DType")
        return _by_name[found]
    if hasattr(value, "dtype") and not isinstance(value, type):
        return as_dtype(value.dtype)
    try:
        name = np.dtype(value).name
    except TypeError:
        raise TypeError(f"Cannot convert {value!r} to a TensorFlow DType") from None
    if name.startswith(("str", "bytes", "object")):
        return string
    found = _by_name.get(name)
    if found is None:
        raise TypeError(f"Cannot convert {value!r} to a TensorFlow DType")
    return found


def code_of(value):
    """The number of a dtype that tensors have. Others raise TypeError, naming the nearest."""
    dtype = as_dtype(value)
    if dtype._code is None:
        raise TypeError(f"tandem has no tensors of {dtype.name}")
    return dtype._code


def _numpy_bfloat16():
    """NumPy has bfloat16 only where ml_dtypes is installed; elsewhere its values become float32."""
    try:
        import ml_dtypes
    except ImportError:
        return np.float32
    return ml_dtypes.bfloat16


def cast(x, dtype, name=None):
    """The elements as another dtype."""
    from tandem._ops import cast as cast_op

    return cast_op(x, dtype)


def complex(real, imag, name=None):  # noqa: A001
    """Complex values of their real and imaginary parts."""
    from tandem._ops.rarer import complex as complex_op

    return complex_op(real, imag)


def saturate_cast(value, dtype, name=None):
    """The elements as another dtype, moved into its range first."""
    return cast(value, dtype)
