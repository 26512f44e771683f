"""Checks, tf.debugging. In a function that is traced a check of tensors is made after each run; one inside of a loop
makes the function run op by op."""

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import words as _words
from tandem._names import missing as _missing
from tandem._tensors.tensor import Tensor, _no_value
from tandem._tracing.state import happens_after_each_run
from tandem.errors import InvalidArgumentError


def set_log_device_placement(enabled):
    """Says where each op runs, in the log."""
    _tandem.set_log_device_placement(bool(enabled))


def get_log_device_placement():
    """True if the log says where each op runs."""
    return _tandem.get_log_device_placement()


def _check(condition, message, default, shown=()):
    """`default` is a text, or a function that makes one of the tensors it is given."""
    condition = _tandem.convert(condition)
    shown = [_tandem.convert(each) for each in shown]

    def check(condition, *shown):
        if not bool(np.all(condition.numpy())):
            raise InvalidArgumentError(message or (default(*shown) if callable(default) else default))

    if not condition._is_symbolic:
        check(condition, *shown)
    elif not happens_after_each_run(check, condition, *shown):
        raise _no_value("bool")


def _compare(name, f):
    def check(x, y, message=None, summarize=None, name=None):
        _check(f(_tandem.convert(x), y), message, lambda x, y: f"Condition x {symbol} y did not hold: x = {x}, y = {y}", (x, y))

    symbol = name
    return check


assert_equal = _compare("==", _tandem.equal)
assert_none_equal = _compare("!=", _tandem.not_equal)
assert_less = _compare("<", _tandem.less)
assert_less_equal = _compare("<=", _tandem.less_equal)
assert_greater = _compare(">", _tandem.greater)
assert_greater_equal = _compare(">=", _tandem.greater_equal)


def assert_near(x, y, rtol=None, atol=None, message=None, summarize=None, name=None):
    """Raises InvalidArgumentError unless x and y are close."""
    x, y = _tandem.convert(x), _tandem.convert(y)
    eps = 10 * float(np.finfo(np.float32).eps)
    _check(_tandem.abs(x - y) <= (atol or eps) + (rtol or eps) * _tandem.abs(y), message, "x and y are not near each other")


def assert_positive(x, message=None, summarize=None, name=None):
    """Raises InvalidArgumentError unless all elements are above 0."""
    assert_greater(x, 0, message)


def assert_non_negative(x, message=None, summarize=None, name=None):
    """Raises InvalidArgumentError if an element is below 0."""
    assert_greater_equal(x, 0, message)


def assert_negative(x, message=None, summarize=None, name=None):
    """Raises InvalidArgumentError unless all elements are below 0."""
    assert_less(x, 0, message)


def assert_non_positive(x, message=None, summarize=None, name=None):
    """Raises InvalidArgumentError if an element is above 0."""
    assert_less_equal(x, 0, message)


def assert_integer(x, message=None, name=None):
    """Raises TypeError unless the dtype is one of integers."""
    if not _tandem.convert(x).dtype.is_integer:
        raise TypeError(message or f"Expected an integer tensor, and got {_tandem.convert(x).dtype.name}")


def assert_scalar(tensor, name=None, message=None):
    """Raises ValueError unless the tensor has no axes."""
    tensor = _tandem.convert(tensor)
    if tensor._rank:
        raise ValueError(message or f"Expected a scalar, and got the shape {tensor.shape}")
    return tensor


def assert_rank_in(x, ranks, message=None, name=None):
    """Raises ValueError unless the number of axes is among `ranks`."""
    rank = _tandem.convert(x)._rank
    if rank not in [int(r) for r in ranks]:
        raise ValueError(message or f"Tensor must have rank in {list(ranks)}, and has {rank}")


def assert_same_float_dtype(tensors=None, dtype=None):
    """Raises ValueError unless all tensors have one floating dtype, which it returns."""
    found = {t.dtype for t in tensors or () if t is not None} | ({dtypes.as_dtype(dtype)} if dtype else set())
    if len(found) > 1:
        raise ValueError(f"The tensors are of several dtypes: {sorted(d.name for d in found)}")
    return found.pop() if found else dtypes.float32


def disable_check_numerics():
    """Lets NaN and infinity pass again."""


def assert_rank(x, rank, message=None, name=None):
    """Raises ValueError unless the number of axes is `rank`."""
    if len(x.shape) != int(rank):
        raise ValueError(message or f"Tensor must have rank {rank}. Received rank {len(x.shape)}, shape {x.shape}")


def assert_rank_at_least(x, rank, message=None, name=None):
    """Raises ValueError if there are fewer axes than `rank`."""
    if len(x.shape) < int(rank):
        raise ValueError(message or f"Tensor must have rank at least {rank}. Received rank {len(x.shape)}")


def assert_shapes(shapes, data=None, summarize=None, message=None, name=None):
    """Raises ValueError unless sizes with one name agree among the tensors."""
    known = {}
    for x, shape in shapes.items() if isinstance(shapes, dict) else shapes:
        sizes = x.shape if hasattr(x, "shape") else np.shape(x)
        if isinstance(shape, str):
            shape = list(shape)
        if "..." not in shape and "*" not in shape and len(sizes) != len(shape):
            raise ValueError(message or f"Specified by tensor {x} of rank {len(sizes)}: rank {len(shape)} is wanted for {shape}")
        for own, wanted in zip(sizes, shape):
            if isinstance(wanted, str) and wanted != ".":
                wanted = known.setdefault(wanted, own)
            if own is not None and wanted not in (None, ".", own):
                raise ValueError(message or f"the shape {tuple(sizes)} is not {shape}")


def assert_type(tensor, tf_type, message=None, name=None):
    """Raises TypeError unless the dtype is the given one."""
    if tensor.dtype != dtypes.as_dtype(tf_type):
        raise TypeError(message or f"the tensor is {tensor.dtype.name}, not {dtypes.as_dtype(tf_type).name}")


def Assert(condition, data, summarize=None, name=None):
    """Raises InvalidArgumentError with the data unless the condition holds."""
    is_shown = [isinstance(d, (Tensor, _tandem.Variable)) for d in data]

    def text(*shown):
        shown = iter(shown)
        return f"assertion failed: {[str(next(shown) if s else d) for d, s in zip(data, is_shown)]}"

    _check(condition, None, text, [d for d, s in zip(data, is_shown) if s])


def check_numerics(tensor, message, name=None):
    """The tensor; raises InvalidArgumentError if it has a NaN or an infinity."""
    x = _tandem.convert(tensor)
    _check(_tandem.is_finite(x), None, f"{message} : Tensor had NaN or Inf values")
    return x


def assert_all_finite(x, message=None, name=None):
    """The tensor; raises InvalidArgumentError if it has a NaN or an infinity."""
    return check_numerics(x, message or "")


def enable_check_numerics(*args, **kwargs):
    """There is none here, as a warning says: check_numerics checks a tensor, TerminateOnNaN a training."""
    import warnings

    warnings.warn(
        "tf.debugging.enable_check_numerics changes nothing here: tf.debugging.check_numerics checks a tensor, and "
        "keras.callbacks.TerminateOnNaN ends a training whose loss is not finite",
        stacklevel=2,
    )


def disable_traceback_filtering():
    """Accepted: tracebacks are whole."""


def enable_traceback_filtering():
    """Accepted: tracebacks are whole."""


def is_numeric_tensor(tensor):
    """True for tensors of numbers."""
    return isinstance(tensor, (Tensor, _tandem.Variable))


class experimental(metaclass=_missing.Namespace):
    """Names that are experimental in tf.debugging."""

    @staticmethod
    def enable_dump_debug_info(*args, **kwargs):
        raise NotImplementedError("tf.debugging.experimental: tandem has placement_report() and explain()")

_words.describe(__name__, globals())
_missing.install(__name__, globals())
