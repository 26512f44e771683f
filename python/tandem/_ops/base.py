"""How functions of the package meet symbolic tensors of Keras, texts and code of the host."""

import builtins
import functools

import _tandem
from tandem import dtypes
from tandem._names.lazy import np
from tandem._tensors.tensor import Tensor, _no_value, to_tensor


# ---- Symbolic tensors of Keras: a call with one of them becomes a step of the model that is being described ----

_describe = None  # Set by tandem.keras when it is imported.


def _is_described(value):
    if isinstance(value, (list, tuple)):
        return builtins.any(_is_described(each) for each in value)
    return hasattr(type(value), "_tandem_symbolic")


def op(f):
    """Marks a function of tensors as an op: called with what stands for tensors in a described model, it becomes a step of that model."""
    @functools.wraps(f)
    def call(*args, **kwargs):
        if _describe is not None:
            for each in args:
                if not isinstance(each, Tensor) and _is_described(each):
                    return _describe(f, args, kwargs)
            for each in kwargs.values():
                if not isinstance(each, Tensor) and _is_described(each):
                    return _describe(f, args, kwargs)
        try:
            return f(*args, **kwargs)
        except TypeError as error:
            is_ragged = _has_ragged(args, kwargs)
            if not is_ragged and (_has_texts(args) or _has_texts(kwargs.values())):
                from tandem import strings

                if f.__name__ in strings.MOVES:
                    return strings.MOVES[f.__name__](*args, **kwargs)
            if is_ragged:
                from tandem._ops import ragged

                return ragged.call(f, args, kwargs)
            if not _has_complex(args, kwargs):
                if args and args[0] is None or len(args) > 1 and args[1] is None and "incompatible function arguments" in str(error):
                    raise ValueError(f"{f.__name__}: None stands where a tensor is wanted") from None
                raise
        from tandem._tensors import complex

        return complex.call(f, args, kwargs)

    call._raw = f
    return call


def _has_complex(args, kwargs):
    """Whether there is a complex value among the arguments."""
    import sys

    module = sys.modules.get("tandem._tensors.complex")
    return module is not None and module.meets_complex(args, kwargs)


def _has_ragged(args, kwargs):
    """Whether there is a ragged tensor among the arguments."""
    import sys

    if "tandem._tensors.ragged" not in sys.modules:  # Then there is none in this process.
        return False
    from tandem._ops.ragged import meets_ragged

    return meets_ragged(args, kwargs)


def _is_string_tensor(value):
    return getattr(value, "_is_text_tensor", False)


def _has_texts(values):
    """Whether there is a text among values, or in a list of them."""
    for value in values:
        if isinstance(value, (list, tuple)):
            if _has_texts(value):
                return True
        elif isinstance(value, (str, bytes)) or _is_string_tensor(value):
            return True
    return False


def _texts(array):
    from tandem.strings import StringTensor

    return StringTensor(array)


def host(f, *tensors):
    """`f` of NumPy arrays, where values exist."""
    arrays = []
    for each in tensors:
        if isinstance(each, (Tensor, _tandem.Variable)):
            each = to_tensor(each)
            if each._is_symbolic:
                raise _no_value("NumPy array")
            each = np.asarray(each)
        arrays.append(each)
    return f(*arrays)


def host_with_gradient(f, gradient, *inputs):
    """`f` of NumPy arrays as an op with a gradient: gradient(output_gradients, inputs, outputs) in tensors."""

    def call(tensors):
        result = host(f, *tensors)
        results = result if isinstance(result, tuple) else (result,)
        outputs = [to_tensor(np.asarray(each, order="C")) for each in results]

        def backward(output_gradients):
            g = [o if o is not None else _tandem.zeros_like(v) for o, v in zip(output_gradients, outputs)]
            return gradient(g, tensors, outputs)

        return outputs, backward

    results = _tandem.call_with_gradient(call, [to_tensor(i) for i in inputs])
    return results[0] if len(results) == 1 else results


def pair(x, y):
    """Two operands as tensors; a number takes the dtype of the tensor beside it."""
    if isinstance(x, (int, float)) and not isinstance(y, (int, float)):
        y = _tandem.convert(y)
        return _tandem.convert(x, y._code), y
    x = _tandem.convert(x)
    return x, _tandem.convert(y, x._code) if isinstance(y, (int, float)) else _tandem.convert(y, None, x._code)


def alike(*values):
    """Operands as tensors: arrays and numbers take the dtype of the first that is a tensor already, as in TensorFlow's ops."""
    code = next((v._code for v in values if isinstance(v, (_tandem.Tensor, _tandem.Variable))), None)
    return tuple(_tandem.convert(v) if code is None else _tandem.convert(v, None, code) for v in values)


def _code(dtype):
    return dtypes.code_of(dtype)


def _floating(x):
    return x if x.dtype.is_floating else _tandem.cast(x, 0)
