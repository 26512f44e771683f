"""Errors by TensorFlow's names. Each is also the built-in exception that a Python user expects."""

import _tandem
from tandem._names import missing as _missing

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS = range(7)
PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED = range(7, 13)
INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED = range(13, 17)


class OpError(Exception):
    """What all errors of the library derive from."""

    error_code = UNKNOWN

    def __init__(self, *args):
        # TensorFlow's own signature is (node_def, op, message, error_code).
        self.message = args[2] if len(args) >= 3 else (args[0] if args else "")
        super().__init__(self.message)

    node_def = None
    op = None
    experimental_payloads = {}


class CancelledError(OpError):
    """What was asked for was cancelled or interrupted."""

    error_code = CANCELLED


class UnknownError(OpError):
    """An error of which no more is known."""

    error_code = UNKNOWN


class InvalidArgumentError(OpError, ValueError):
    """An argument does not fit: a shape, a dtype, a value. Also a ValueError."""

    error_code = INVALID_ARGUMENT


class DeadlineExceededError(OpError, TimeoutError):
    """A wait took longer than it may. Also a TimeoutError."""

    error_code = DEADLINE_EXCEEDED


class NotFoundError(OpError, KeyError):
    """Something that was named does not exist: a device, a file, a key. Also a KeyError."""

    error_code = NOT_FOUND

    def __str__(self):
        return str(self.message)


class AlreadyExistsError(OpError):
    """What should be made exists already."""

    error_code = ALREADY_EXISTS


class PermissionDeniedError(OpError, PermissionError):
    """The caller may not do this. Also a PermissionError."""

    error_code = PERMISSION_DENIED


class ResourceExhaustedError(OpError, MemoryError):
    """There is not enough memory, or of another resource. Also a MemoryError."""

    error_code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError, RuntimeError):
    """The state of something does not allow this now. Also a RuntimeError."""

    error_code = FAILED_PRECONDITION


class AbortedError(OpError):
    """Something was broken off."""

    error_code = ABORTED


class OutOfRangeError(OpError, StopIteration):
    """There are no further elements. Also a StopIteration."""

    error_code = OUT_OF_RANGE


class UnimplementedError(OpError, NotImplementedError):
    """This is not implemented. Also a NotImplementedError."""

    error_code = UNIMPLEMENTED


class InternalError(OpError):
    """A fault of the library itself."""

    error_code = INTERNAL


class UnavailableError(OpError, ConnectionError):
    """Another process or device cannot be reached. Also a ConnectionError."""

    error_code = UNAVAILABLE


class DataLossError(OpError, IOError):
    """Data are damaged or incomplete. Also an OSError."""

    error_code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The caller is not known."""

    error_code = UNAUTHENTICATED


class OperatorNotAllowedInGraphError(TypeError):
    """The value of a tensor was needed where a function is being traced, and there is none yet."""


class NoFileError(NotFoundError, FileNotFoundError):
    """A file is not there."""


class OutOfBoundsError(InvalidArgumentError, IndexError):
    """An index is not within the size of its axis."""


class NoArrayInGraphError(OperatorNotAllowedInGraphError, NotImplementedError, AttributeError):
    """A NumPy array of a tensor was needed where a function is being traced, and there is no value yet: TensorFlow's
    tensors have no numpy() there."""


_tandem.set_error_classes(
    {
        "InvalidArgument": InvalidArgumentError,
        "NotFound": NotFoundError,
        "Unimplemented": UnimplementedError,
        "ResourceExhausted": ResourceExhaustedError,
        "DeadlineExceeded": DeadlineExceededError,
        "Unavailable": UnavailableError,
        "DataLoss": DataLossError,
        "FailedPrecondition": FailedPreconditionError,
        "Interrupted": CancelledError,
    }
)
_tandem.set_shape_errors(InvalidArgumentError)


_missing.install(__name__, globals())
