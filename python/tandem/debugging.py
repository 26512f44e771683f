"""Checks, tf.debugging. A check of a tensor that has no value yet, in a function that is traced, says nothing."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._tensors.tensor import Tensor
from tandem.errors import InvalidArgumentError


def set_log_device_placement(enabled):
    _tandem.set_log_device_placement(bool(enabled))


def get_log_device_placement():
    return _tandem.get_log_device_placement()


def _check(condition, message, default):
    condition = _tandem.convert(condition)
    if condition._is_symbolic:
        return
    if not bool(np.all(condition.numpy())):
        raise InvalidArgumentError(message or default)


def _compare(name, f):
    def check(x, y, message=None, summarize=None, name=None):
        _check(f(_tandem.convert(x), y), message, f"Condition x {symbol} y did not hold: x = {x}, y = {y}")

    symbol = name
    return check


assert_equal = _compare("==", _tandem.equal)
assert_none_equal = _compare("!=", _tandem.not_equal)
assert_less = _compare("<", _tandem.less)
assert_less_equal = _compare("<=", _tandem.less_equal)
assert_greater = _compare(">", _tandem.greater)
assert_greater_equal = _compare(">=", _tandem.greater_equal)


def assert_near(x, y, rtol=None, atol=None, message=None, summarize=None, name=None):
    x, y = _tandem.convert(x), _tandem.convert(y)
    eps = 10 * float(np.finfo(np.float32).eps)
    _check(_tandem.abs(x - y) <= (atol or eps) + (rtol or eps) * _tandem.abs(y), message, "x and y are not near each other")


def assert_positive(x, message=None, summarize=None, name=None):
    assert_greater(x, 0, message)


def assert_non_negative(x, message=None, summarize=None, name=None):
    assert_greater_equal(x, 0, message)


def assert_negative(x, message=None, summarize=None, name=None):
    assert_less(x, 0, message)


def assert_non_positive(x, message=None, summarize=None, name=None):
    assert_less_equal(x, 0, message)


def assert_integer(x, message=None, name=None):
    if not _tandem.convert(x).dtype.is_integer:
        raise TypeError(message or f"Expected an integer tensor, and got {_tandem.convert(x).dtype.name}")


def assert_scalar(tensor, name=None, message=None):
    tensor = _tandem.convert(tensor)
    if tensor._rank:
        raise ValueError(message or f"Expected a scalar, and got the shape {tensor.shape}")
    return tensor


def assert_rank_in(x, ranks, message=None, name=None):
    rank = _tandem.convert(x)._rank
    if rank not in [int(r) for r in ranks]:
        raise ValueError(message or f"Tensor must have rank in {list(ranks)}, and has {rank}")


def assert_same_float_dtype(tensors=None, dtype=None):
    found = {t.dtype for t in tensors or () if t is not None} | ({dtypes.as_dtype(dtype)} if dtype else set())
    if len(found) > 1:
        raise ValueError(f"The tensors are of several dtypes: {sorted(d.name for d in found)}")
    return found.pop() if found else dtypes.float32


def disable_check_numerics():
    pass


def assert_rank(x, rank, message=None, name=None):
    if len(x.shape) != int(rank):
        raise ValueError(message or f"Tensor must have rank {rank}. Received rank {len(x.shape)}, shape {x.shape}")


def assert_rank_at_least(x, rank, message=None, name=None):
    if len(x.shape) < int(rank):
        raise ValueError(message or f"Tensor must have rank at least {rank}. Received rank {len(x.shape)}")


def assert_shapes(shapes, data=None, summarize=None, message=None, name=None):
    known = {}
    for x, shape in shapes.items() if isinstance(shapes, dict) else shapes:
        for own, wanted in zip(x.shape, shape):
            if isinstance(wanted, str) and wanted != ".":
                wanted = known.setdefault(wanted, own)
            if own is not None and wanted not in (None, ".", own):
                raise ValueError(message or f"the shape {x.shape} is not {shape}")


def assert_type(tensor, tf_type, message=None, name=None):
    if tensor.dtype != dtypes.as_dtype(tf_type):
        raise TypeError(message or f"the tensor is {tensor.dtype.name}, not {dtypes.as_dtype(tf_type).name}")


def Assert(condition, data, summarize=None, name=None):
    _check(condition, None, f"assertion failed: {[str(d) for d in data]}")


def check_numerics(tensor, message, name=None):
    x = _tandem.convert(tensor)
    if not x._is_symbolic and not bool(np.all(np.isfinite(x.numpy()))):
        raise InvalidArgumentError(f"{message} : Tensor had NaN or Inf values")
    return x


def assert_all_finite(x, message=None, name=None):
    return check_numerics(x, message or "")


def enable_check_numerics(*args, **kwargs):
    pass


def disable_traceback_filtering():
    pass


def enable_traceback_filtering():
    pass


def is_numeric_tensor(tensor):
    return isinstance(tensor, (Tensor, _tandem.Variable))


class experimental:
    @staticmethod
    def enable_dump_debug_info(*args, **kwargs):
        raise NotImplementedError("tf.debugging.experimental: tandem has placement_report() and explain()")


_missing.install(__name__, globals())
