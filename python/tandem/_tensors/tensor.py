"""Tensor: what Python adds to the extension's class, and how values become tensors."""

import numbers
import sys

import _tandem
from tandem import dtypes
from tandem._names import words as _words
from tandem._names.lazy import np
from tandem._tensors.shape import DynamicShape, DynamicSize, TensorShape, _Computed
from tandem.errors import NoArrayInGraphError, OperatorNotAllowedInGraphError

Tensor = _tandem.Tensor


def _no_value(what):
    return OperatorNotAllowedInGraphError(
        f"Using a symbolic `tf.Tensor` as a Python `{what}` is not allowed: the function that is being traced has no "
        "values yet. Use tf.cond, tf.while_loop or tf.where, or run it op by op."
    )


# ---- What is no tensor, number or array of a type that tensors have ----

def _of_array(array, dtype, beside):
    if array.dtype.kind in "USO":
        if array.dtype.kind == "O" and array.size and not isinstance(array.flat[0], (str, bytes)):
            first = array.flat[0]
            if isinstance(first, (numbers.Number, np.generic)):
                plain = np.array(array.tolist())
                if plain.dtype.kind == "O":
                    raise _of_objects(plain)
                return _tandem.convert(plain, dtype, beside)
            raise ValueError(f"Failed to convert a NumPy array to a Tensor (Unsupported object type {type(first).__name__}).")
        raise TypeError("strings have no Tensor here; tf.constant makes a StringTensor of them")
    if array.dtype.kind == "c":
        raise TypeError("a complex array stands where a real tensor is wanted; tf.constant and tf.cast make complex values")
    if array.ndim > 8:
        raise ValueError(f"a tensor has 8 axes at most, this array has {array.ndim}")
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name == "bfloat16":  # Of ml_dtypes, which has no buffers.
        tensor = _tandem.of_bits(array.view(np.uint16), dtypes.bfloat16._code)
        return tensor if dtype in (None, tensor._code) else _constant_of(tensor, dtype)
    return _tandem.convert(array, dtype, beside)


def _constant_of(tensor, code):
    with _tandem.InitScope():
        return _tandem.cast(tensor, code)


def _has_tensor(value):
    if isinstance(value, (list, tuple)):
        return any(_has_tensor(each) for each in value)
    return isinstance(value, (Tensor, _tandem.Variable, _Computed))


def _first_code(value):
    """The dtype of the first tensor in lists, which numbers beside it take."""
    for each in value:
        code = each._code if isinstance(each, (Tensor, _tandem.Variable)) else _first_code(each) if isinstance(each, (list, tuple)) else None
        if code is not None:
            return code
    return None


def _of_list(value, dtype, beside):
    if _has_tensor(value):
        if isinstance(value, (list, tuple)):
            if dtype is not None:  # What is asked for is what all of them become.
                return _tandem.stack([_tandem.cast(_of_list(each, dtype, beside), dtype) for each in value], 0)
            known = _first_code(value)
            joined = [_of_list(each, known if not _has_tensor(each) else None, beside) for each in value]
            return _tandem.stack(joined, 0)
        return _tandem.convert(value, dtype, beside)
    if not isinstance(value, (list, tuple)):
        return _tandem.convert(value, dtype, beside)
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from None
    if array.dtype.kind == "O" and not all(isinstance(each, (str, bytes)) for each in array.flat):
        raise _of_objects(array)
    if array.dtype.kind in "US" and not isinstance(_first_number(value), (str, bytes)):
        raise _of_objects(array.astype(object))
    if dtype is None:
        array = _as_list_of_numbers(array, value)
    return _of_array(array, dtype, beside)


def _first_number(value):
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def _as_list_of_numbers(array, value):
    """The array of a list in TensorFlow's type: int32 where that is wide enough, float32 unless the first element is wider or a half."""
    if array.dtype.kind in "iu":
        if array.size and array.dtype.itemsize == 8 and not (-(2**31) <= int(array.min()) and int(array.max()) < 2**31):
            if int(array.max()) >= 2**63:
                raise ValueError("Can't convert Python sequence with out-of-range integer to Tensor.")
            return array.astype(np.int64, copy=False)
        return array.astype(np.int32, copy=False)
    if array.dtype.kind != "f":
        return array
    first = getattr(_first_number(value), "dtype", None)
    if first is not None and first in (np.float64, np.float16):
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if array.dtype == np.float64 and array.size and not (np.isfinite(narrow) | ~np.isfinite(array)).all():
        raise ValueError("Can't convert Python sequence with a value out of range for float32; give dtype=tf.float64")
    return narrow


def _of_objects(array):
    """The error for a list whose elements are of several kinds, or of one that no tensor has."""
    numbers_ = [isinstance(each, (numbers.Number, np.generic)) for each in array.flat]
    other = next(each for each, is_number in zip(array.flat, numbers_) if not is_number) if not all(numbers_) else array.flat[0]
    if any(numbers_) or isinstance(other, (str, bytes)):
        return ValueError(f"Can't convert Python sequence with mixed types to Tensor: {other!r} of {type(other).__name__} is among its elements.")
    return ValueError(f"Attempt to convert a value ({other!r}) with an unsupported type ({type(other)}) to a Tensor.")


def _fallback(value, dtype, beside):
    """Makes a tensor of everything that the extension does not know itself."""
    if getattr(value, "_is_complex", False):
        raise TypeError("a complex value stands where a real tensor is wanted; tf.math.real, tf.math.imag and tf.abs make one of it")
    if isinstance(value, _Computed):
        tensor = value.tensor()
        return tensor if dtype is None else _tandem.cast(tensor, dtype)
    if isinstance(value, (list, tuple)):
        return _of_list(value, dtype, beside)
    if isinstance(value, (np.ndarray, np.generic)):
        return _of_array(np.asarray(value), dtype, beside)
    if isinstance(value, TensorShape):
        return _tandem.convert(np.array(value.as_list(), np.int32), dtype, beside)
    if isinstance(value, range):
        return _of_array(np.array(list(value), np.int32), dtype, beside)
    if hasattr(value, "_is_other_variable"):
        raise TypeError(f"a variable of {value.dtype.name} stands where a real tensor is wanted")
    convert = getattr(value, "__tandem_tensor__", None)
    if convert is not None:
        return convert()
    if value is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.")
    if isinstance(value, (str, bytes)):
        raise TypeError("strings have no Tensor here; tf.constant makes a StringTensor of them")
    if hasattr(value, "_ragged_rows"):
        raise TypeError("a ragged tensor stands where a dense one is wanted; to_tensor() makes one of it")
    if isinstance(value, numbers.Number):
        array = np.asarray(value)
        if array.dtype.kind == "O":
            raise _unsupported(value)
        return _of_array(array, dtype, beside)
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return _of_array(np.from_dlpack(value), dtype, beside)
    if hasattr(value, "__array__"):
        return _of_array(np.asarray(value), dtype, beside)
    raise _unsupported(value)


def _unsupported(value):
    return ValueError(f"Attempt to convert a value ({value!r}) with an unsupported type ({type(value)}) to a Tensor.")


_tandem.set_fallback(_fallback)


def to_tensor(value, dtype=None):
    """The tensor of a value; as TensorFlow does, a tensor of another dtype is an error."""
    if type(value) is Tensor and dtype is None:
        return value
    code = None if dtype is None else dtypes.code_of(dtype)
    tensor = _tandem.convert(value, code)
    if code is not None and tensor._code != code:
        raise ValueError(
            f"Tensor conversion requested dtype {dtypes.BY_CODE[code].name} for Tensor with dtype {tensor.dtype.name}: {value!r}"
        )
    return tensor


# ---- Parts that are named by tensors and masks ----


def _concrete_index(entry):
    """A number or slice of numbers in place of a tensor that has a value."""
    if isinstance(entry, slice):
        parts = [_concrete_index(p) if isinstance(p, (Tensor, _tandem.Variable)) else p for p in (entry.start, entry.stop, entry.step)]
        return slice(*parts)
    if isinstance(entry, _tandem.Variable):
        entry = entry.read_value()
    if isinstance(entry, Tensor) and entry._rank == 0 and not entry._is_symbolic:
        return entry._item()
    if isinstance(entry, np.generic) and entry.dtype.kind in "iu":
        return int(entry)
    if isinstance(entry, DynamicSize):
        return int(entry)
    return entry


def _other_parts(x, key):
    from tandem import _ops

    if isinstance(key, list) and key and all(type(e) is int for e in key):
        return x[tuple(key)]
    entries = key if isinstance(key, tuple) else (key,)
    entries = tuple(_concrete_index(e) for e in entries)
    if len(entries) > 1 and any(isinstance(e, (list, tuple, str, float, np.ndarray)) and np.ndim(e) > 0 or isinstance(e, (str, float)) for e in entries):
        raise TypeError(f"Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid indices, got {key!r}; tf.gather takes positions along an axis")
    if len(entries) == 1 and not isinstance(entries[0], (int, slice)) and entries[0] is not None:
        only = entries[0]
        if isinstance(only, list) and only and isinstance(only[0], (slice, type(None), type(Ellipsis))):
            return x[tuple(only)]
        if isinstance(only, (Tensor, np.ndarray, list)):
            index = _tandem.convert(only)
            if index.dtype == dtypes.bool:
                return _ops.boolean_mask(x, index)
            if index._rank == 0:
                return _tandem.gather(x, index, 0)
            raise TypeError(
                "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors "
                f"are valid indices, got {only!r}; tf.gather takes a tensor of positions"
            )
    # Positions that only a run knows are gathered, the last axis first so that the others stay where they are.
    axis = 0
    rank = x._rank
    named = sum(1 for e in entries if e is not None and e is not Ellipsis)
    plain, gathered = [], []
    place = 0
    for entry in entries:
        if entry is None:
            plain.append(None)
            place += 1
            continue
        if entry is Ellipsis:
            plain.append(Ellipsis)
            place += rank - named
            axis += rank - named
            continue
        if isinstance(entry, Tensor):
            plain.append(slice(None))
            gathered.append((place, entry))
            place += 1
        else:
            plain.append(entry)
            place += isinstance(entry, slice)
            for bound in (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else ():
                if isinstance(bound, Tensor):
                    raise _no_value("int")
        axis += 1
    for entry in plain:
        if not (entry is None or entry is Ellipsis or isinstance(entry, slice) or (isinstance(entry, int) and not isinstance(entry, bool))):
            raise TypeError(f"Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid indices, got {entry!r}")
    result = x[tuple(plain)] if any(not (isinstance(e, slice) and e == slice(None)) for e in plain) else x
    for place, index in reversed(gathered):
        result = _tandem.gather(result, index, place)
    return result


_tandem.set_other_parts(_other_parts)


# ---- The class ----


def _copied(self):
    """The value as a NumPy array of the caller's own, as TensorFlow gives it; a scalar as NumPy's scalar."""
    value = _numpy(self)
    return value.copy() if type(value) is np.ndarray and not value.flags.writeable else value


def _numpy(self):
    """The value as a NumPy array over the same memory, which cannot be written; a scalar as NumPy's scalar."""
    if self._is_symbolic:
        raise NoArrayInGraphError(
            "numpy() is only available when eager execution is enabled: the tensor is one of a function being traced."
        )
    if self._code == 3:
        kind = dtypes.bfloat16._numpy
        array = _numpy_of_bits(self, kind) if kind is not np.float32 else np.asarray(memoryview(_tandem.cast(self, 0)))
    else:
        array = np.asarray(memoryview(self))
    return array if array.ndim else array[()]


def _numpy_of_bits(self, kind):
    return np.asarray(memoryview(_tandem.bits_of(self))).view(kind)


def _array(self, dtype=None, copy=None):
    if self._is_symbolic:
        raise NoArrayInGraphError(
            f"Cannot convert a symbolic tf.Tensor ({self._str()}) to a numpy array. This error may indicate that you're "
            "trying to pass a Tensor to a NumPy call, which is not supported."
        )
    array = np.asarray(_numpy(self))
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _bool(self):
    if self._is_symbolic:
        raise _no_value("bool")
    if self._rank and self.shape.num_elements() != 1:
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
        )
    return bool(self._item())


def _scalar(kind):
    def convert(self):
        if self._is_symbolic:
            raise _no_value(kind.__name__)
        return kind(self._item())

    return convert


def _index(self):
    if self._is_symbolic:
        raise _no_value("int")
    if not self.dtype.is_integer:
        raise TypeError("only integer scalar arrays can be converted to a scalar index")
    return int(self._item())


def _len(self):
    if self._rank == 0:
        raise TypeError("Scalar tensor has no `len()`")
    size = self._sizes[0]
    return int(size)


def _iter(self):
    if self._rank == 0:
        raise TypeError("Cannot iterate over a scalar tensor.")
    if self._is_symbolic:
        return iter(_tandem.unstack(self, 0))
    return (self[i] for i in range(len(self)))


def _text(self):
    if self._is_symbolic:
        return f'Tensor("{self.name}", shape={self.shape}, dtype={self.dtype.name})'
    text = _own_lines(np.array2string(np.asarray(_numpy(self)), separator=" ")) if self._rank else self._plain_text()
    return f"tf.Tensor({text}, shape={self.shape}, dtype={self.dtype.name})"


def _own_lines(text):
    """Several lines begin on one of their own."""
    return f"\n{text}" if "\n" in text else text


def _plain_text(self):
    return str(_numpy(self))


def _repr(self):
    if self._is_symbolic:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self.dtype.name}>"
    return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={_own_lines(repr(np.asarray(_numpy(self))))}>" if self._rank else (
        f"<tf.Tensor: shape=(), dtype={self.dtype.name}, numpy={np.asarray(_numpy(self)).item()!r}>"
    )


def _format(self, spec):
    if self._is_symbolic:
        return _text(self)
    value = _numpy(self)
    return format(value, spec)


def _is_first_try():
    """Whether shapes may not fit only because the number of rows is left open; the trace is made again without, then."""
    from tandem._tracing.state import state

    return state.is_first_try


def _compared(op, self, other, of_strangers):
    """Elementwise where shapes fit, else what holds of things that differ. Other dtypes are an error, as they are of all ops."""
    if other is None:
        return of_strangers
    if not isinstance(other, (Tensor, _tandem.Variable, int, float)):
        try:
            other = _tandem.convert(other, None, self._code)
        except (ValueError, TypeError):
            if _is_first_try():
                raise
            return of_strangers
    try:
        return op(self, other)
    except (ValueError, TypeError):
        if _is_first_try() or _may_broadcast(self._sizes, getattr(other, "_sizes", ())):
            raise
        return of_strangers


def _may_broadcast(a, b):
    return all(not (isinstance(m, int) and isinstance(n, int)) or m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


def _equal(self, other):
    return _compared(_tandem.equal, self, other, False)


def _not_equal(self, other):
    return _compared(_tandem.not_equal, self, other, True)


def _bitwise(name):
    """An operator of truth values that is one of bits where the elements are whole numbers."""
    of_truth = getattr(Tensor, name)

    def call(self, other):
        if self._code == 7:
            return of_truth(self, other)
        from tandem import bitwise

        return bitwise._operators[name](self, other)

    return call


def _inverted(of_truth):
    def call(self):
        if self._code == 7:
            return of_truth(self)
        from tandem import bitwise

        return bitwise.invert(self)

    return call


for _name in ("and", "or", "xor"):
    for _class in (_tandem.Tensor, _tandem.Variable):
        setattr(_class, f"__{_name}__", _bitwise(f"__{_name}__"))
        setattr(_class, f"__r{_name}__", _bitwise(f"__r{_name}__"))
Tensor.__invert__ = _inverted(Tensor.__invert__)
_tandem.Variable.__invert__ = _inverted(_tandem.Variable.__invert__)


class Reference:
    """What stands for a tensor or variable as a key."""

    __slots__ = ("_object",)

    def __init__(self, value):
        self._object = value

    def deref(self):
        """The tensor."""
        return self._object

    def __repr__(self):
        return f"<Reference wrapping {self._object!r}>"

    def __hash__(self):
        return id(self._object)

    def __eq__(self, other):
        return isinstance(other, Reference) and self._object is other._object


def _device(self):
    name = self._device
    return f"/job:localhost/replica:0/task:0{name}" if name.startswith("/device") else name


def _set_shape(self, shape):
    if not self.shape.is_compatible_with(shape):
        raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {TensorShape(shape)}")


def _html(self):
    import html

    return f"<pre>{html.escape(_text(self))}</pre>"


def _restored(array, code):
    return _tandem.convert(array, code)


def _reduce(self):
    return _restored, (np.array(_numpy(self)), self._code)


def _shape_property(self):
    return TensorShape._of(self._sizes)


Tensor.shape = property(_shape_property)
Tensor.get_shape = lambda self: self.shape
Tensor.set_shape = _set_shape
Tensor.ndim = property(lambda self: self._rank)
Tensor.device = property(_device)
Tensor.name = property(lambda self: getattr(self, "_given_name", "Tensor:0"))
Tensor.op = property(lambda self: self)
Tensor.graph = property(lambda self: None)
Tensor.numpy = _copied
Tensor.item = lambda self: self._item()
Tensor.tolist = lambda self: _numpy(self).tolist()
Tensor.to_tensor = lambda self, default_value=None, name=None, shape=None: self  # What would be ragged in TensorFlow is not.
Tensor.__array__ = _array
Tensor.__array_priority__ = 100
def _dlpack(self, *, max_version=None, copy=None, **kwargs):
    """Without a copy where the other side knows of memory that cannot be written: DLPack 1.0. PyTorch passes over what is said
    of that, and so gets a copy unless it asks for none."""
    array = np.asarray(_numpy(self))
    writes = copy is None and sys._getframe(1).f_globals.get("__name__", "").split(".")[0] == "torch"
    if max_version is not None and max_version[0] >= 1 and not copy and not writes:
        return array.__dlpack__(max_version=max_version, **kwargs)
    return np.array(array).__dlpack__(**kwargs)


Tensor.__dlpack__ = _dlpack
Tensor.__dlpack_device__ = lambda self: (1, 0)
Tensor.__bytes__ = lambda self: memoryview(self).tobytes()
Tensor.__bool__ = _bool
Tensor.__int__ = _scalar(int)
Tensor.__float__ = _scalar(float)
Tensor.__complex__ = _scalar(complex)
Tensor.__index__ = _index
Tensor.__round__ = lambda self, digits=None: round(float(self), digits) if digits is not None else _tandem.round(self)
Tensor.__len__ = _len
Tensor.__iter__ = _iter
Tensor.__str__ = _text
Tensor.__repr__ = _repr
Tensor._plain_text = _plain_text
Tensor.__format__ = _format
Tensor.__eq__ = _equal
Tensor.__ne__ = _not_equal
Tensor.__hash__ = object.__hash__
Tensor.__copy__ = lambda self: self
Tensor.__deepcopy__ = lambda self, memo: self
Tensor.__reduce__ = _reduce
Tensor.ref = lambda self: Reference(self)
Tensor.experimental_ref = Tensor.ref
Tensor._repr_html_ = _html
Tensor.cpu = lambda self: _tandem.copy_to_device(self, "/device:CPU:0")
Tensor.eval = lambda self, *args, **kwargs: _numpy(self)
Tensor.is_sparse = False
_words.describe_class(
    Tensor,
    {
        "shape": "The sizes of the axes.", "get_shape": "The sizes of the axes.", "set_shape": "Raises ValueError unless the shape is compatible.",
        "ndim": "The number of axes.", "device": "The name of the device that the value is on.", "name": "The tensor's name.",
        "op": "The tensor, by TensorFlow's name for what made it.", "graph": "None: there is no default graph.", "item": "The only element as a Python number.",
        "tolist": "The elements as nested lists.", "to_tensor": "The tensor itself; ragged ones become tensors so.",
        "ref": "A reference that can be a key of a dictionary.", "experimental_ref": "A reference that can be a key of a dictionary.",
        "cpu": "The value on the first CPU.", "eval": "The value as a NumPy array.",
    },
)


class TensorSpec:
    """The shape and dtype of a tensor that will be given."""

    __slots__ = ("_shape", "_dtype", "_name")

    def __init__(self, shape, dtype=dtypes.float32, name=None):
        self._shape = TensorShape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._name = name

    @property
    def shape(self):
        """The shape, None where a size may be any."""
        return self._shape

    @property
    def dtype(self):
        """The dtype."""
        return self._dtype

    @property
    def name(self):
        """The name, or None."""
        return self._name

    @classmethod
    def from_tensor(cls, tensor, name=None):
        """The kind of a tensor."""
        return cls(tensor.shape, tensor.dtype, name)

    from_spec = from_tensor

    def is_compatible_with(self, other):
        """True if a tensor is of this kind."""
        return self._dtype == other.dtype and self._shape.is_compatible_with(other.shape)

    def __eq__(self, other):
        return isinstance(other, TensorSpec) and (self._shape, self._dtype) == (other._shape, other._dtype)

    def __hash__(self):
        return hash((self._shape, self._dtype))

    def __repr__(self):
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"


class IndexedSlices:
    """A gradient that is zero but for some rows."""

    def __init__(self, values, indices, dense_shape=None):
        self.values, self.indices, self.dense_shape = values, indices, dense_shape
        self.dtype = values.dtype if hasattr(values, "dtype") else dtypes.as_dtype(np.asarray(_tandem.convert(values)).dtype)
