"""Numbers of few bits, keras.quantizers: functions that round to them and back. Layers and models have no such weights."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem.keras import _objects, ops

_c = _tandem.convert


class Quantizer(_objects.Configured):
    """A function that gives numbers of few bits and their scale; one's own derives from it."""

    def __init__(self, output_dtype="int8"):
        self.output_dtype = output_dtype

    def __call__(self, x):
        """The numbers, and the scale by which they were multiplied."""
        return x

    @classmethod
    def from_config(cls, config):
        """The quantizer of its configuration."""
        return cls(**config)

    def get_config(self):
        """The arguments of which from_config makes the quantizer again; one's own overrides it."""
        raise NotImplementedError(f"{self} does not implement get_config()")


def abs_max_quantize(inputs, axis, value_range=(-127, 127), dtype="int8", epsilon=1e-7, to_numpy=False):
    """The inputs as whole numbers of a range, of which the largest element along the axes has the largest, and the scale."""
    x = ops._float(inputs)
    axis = axis if isinstance(axis, int) else tuple(axis)
    scale = float(value_range[1]) / (ops.max(_tandem.abs(x), axis=axis, keepdims=True) + float(epsilon))
    y = _tandem.clip(_tandem.round(x * scale), float(value_range[0]), float(value_range[1]))
    return _tandem.cast(y, dtypes.code_of(dtype)), scale


class AbsMaxQuantizer(Quantizer):
    """abs_max_quantize with its arguments."""

    def __init__(self, axis=None, value_range=(-127, 127), epsilon=1e-7, output_dtype="int8"):
        super().__init__(output_dtype)
        self.axis = (axis,) if isinstance(axis, int) else None if axis is None else tuple(axis)
        self.value_range, self.epsilon = value_range, epsilon
        bits = {"int8": (-128, 127), "uint8": (0, 255)}.get(output_dtype)
        if bits is not None and not bits[0] <= value_range[0] <= value_range[1] <= bits[1]:
            raise ValueError(f"Quantizer with output_dtype='{output_dtype}' requires value_range to be within the interval {list(bits)}. Received: value_range={value_range}")

    def __call__(self, x, axis=None, to_numpy=False):
        axis = axis if axis is not None else self.axis if self.axis is not None else -1
        return abs_max_quantize(x, axis, self.value_range, self.output_dtype, self.epsilon, to_numpy)

    def get_config(self):
        """The arguments of which from_config makes the quantizer again."""
        config = {"value_range": self.value_range, "epsilon": self.epsilon, "output_dtype": self.output_dtype}
        return config if self.axis is None else {"axis": self.axis, **config}


def quantize_and_dequantize(inputs, scale, quantized_dtype, compute_dtype):
    """The inputs, rounded as they would be in halves or numbers of fewer bits."""
    if dtypes.as_dtype(quantized_dtype)._code is None:
        raise TypeError(f"quantize_and_dequantize: {quantized_dtype}; dtypes that tensors have are accepted")
    kind = dtypes.as_dtype(quantized_dtype)
    x = _tandem.cast(_c(inputs), dtypes.code_of(compute_dtype)) / _tandem.cast(_c(scale), dtypes.code_of(compute_dtype))
    low, high = float(kind.min), float(kind.max)
    x = _tandem.cast(_tandem.cast(_tandem.clip(_tandem.cast(x, 0), low, high), kind._code), dtypes.code_of(compute_dtype))
    return x * _tandem.cast(_c(scale), x._code)


def compute_float8_scale(amax, scale, dtype_max, margin=0):
    """The scale with which the largest value is the largest that a dtype has."""
    amax, scale = _c(amax), _c(scale)
    found = (float(dtype_max) / amax) / float(2**margin)
    found = _tandem.where(amax > 0.0, found, 1.0 / scale)
    return 1.0 / _tandem.where(_tandem.is_finite(amax), found, 1.0 / scale)


def compute_float8_amax_history(x, amax_history):
    """The history of largest values, with that of x in the first place."""
    history = _c(amax_history)
    largest = _tandem.cast(ops.max(_tandem.abs(_c(x))), history._code)
    rolled = ops.roll(history, -1)
    return _tandem.concat([_tandem.reshape(largest, (1,)), rolled[1:]], 0)


def fake_quant_with_min_max_vars(inputs, min_vals, max_vals, num_bits=8, narrow_range=False, axis=None):
    """The inputs, rounded to 2 ** num_bits values between a least and a largest; gradients go through where they are inside."""
    from tandem._tracing.tape import custom_gradient

    x = ops._float(inputs)
    count = int(2**num_bits - 1)
    first = 1 if narrow_range else 0

    def along(v):
        v = _tandem.cast(_c(v), x._code)
        if axis is None or v._rank == 0:
            return v
        return _tandem.reshape(v, [-1 if i == axis % x._rank else 1 for i in range(x._rank)])

    low, high = along(min_vals), along(max_vals)
    step = (high - low) / float(count - first)
    zero = first - low / step
    nudged = _tandem.where(zero < float(first), _tandem.fill((), float(first), x._code), _tandem.where(zero > float(count), _tandem.fill((), float(count), x._code), _tandem.round(zero)))
    low, high = (float(first) - nudged) * step, (float(count) - nudged) * step

    @custom_gradient
    def rounded(x):
        inside = _tandem.logical_and(x >= low, x <= high)
        y = _tandem.floor((_tandem.minimum(_tandem.maximum(x, low), high) - low) / step + 0.5) * step + low
        return y, lambda dy: _tandem.where(inside, dy, _tandem.zeros_like(dy))

    return rounded(x)


def _checked_int4(dtype):
    if dtype not in ("int8", "uint8"):
        raise ValueError(f"Expected dtype to be 'int8' or 'uint8', but got '{dtype}'.")


def pack_int4(arr, axis=0, dtype="int8"):
    """Numbers of four bits, two in a byte along an axis: the packed array, its whole shape, and the size of the axis before."""
    _checked_int4(dtype)
    array = np.moveaxis(np.asarray(_c(arr).numpy()), axis, 0)
    rows = array.shape[0]
    padded = np.concatenate([array, np.zeros((rows % 2, *array.shape[1:]), array.dtype)])
    low, high = padded[0::2].astype(np.uint8) & 15, padded[1::2].astype(np.uint8) & 15
    packed = np.moveaxis((low | (high << 4)).astype(np.uint8), 0, axis)
    found = _c(np.ascontiguousarray(packed.view(np.int8) if dtype == "int8" else packed))
    return found, tuple(found.shape.as_list()), rows


def unpack_int4(packed, orig_len, axis=0, dtype="int8"):
    """The numbers that pack_int4 put into bytes."""
    _checked_int4(dtype)
    bits = np.moveaxis(np.asarray(_c(packed).numpy()), axis, 0).astype(np.uint8)
    both = np.stack([bits & 15, bits >> 4], 1).reshape(-1, *bits.shape[1:])[: int(orig_len)].astype(np.int8)
    both = np.where(both > 7, both - 16, both).astype(np.int8) if dtype == "int8" else both.astype(np.uint8)
    return _c(np.ascontiguousarray(np.moveaxis(both, 0, axis)))


def serialize(initializer):
    """What `deserialize` makes the quantizer of again."""
    return {"class_name": type(initializer).__name__, "config": initializer.get_config()}


def deserialize(config, custom_objects=None):
    """The quantizer of a configuration."""
    return get(config)


def get(identifier, **kwargs):
    """The quantizer of a name, configuration or function."""
    if isinstance(identifier, str) and identifier in ("abs_max_quantizer", "AbsMaxQuantizer", "absmaxquantizer"):
        return AbsMaxQuantizer(**kwargs)
    return _objects.lookup("quantizer", identifier, _objects.table(AbsMaxQuantizer), Quantizer)


_missing.install(__name__, globals())
