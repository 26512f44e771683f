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
    error_code = CANCELLED


class UnknownError(OpError):
    error_code = UNKNOWN


class InvalidArgumentError(OpError, ValueError):
    error_code = INVALID_ARGUMENT


class DeadlineExceededError(OpError, TimeoutError):
    error_code = DEADLINE_EXCEEDED


class NotFoundError(OpError, KeyError):
    error_code = NOT_FOUND

    def __str__(self):
        return str(self.message)


class AlreadyExistsError(OpError):
    error_code = ALREADY_EXISTS


class PermissionDeniedError(OpError, PermissionError):
    error_code = PERMISSION_DENIED


class ResourceExhaustedError(OpError, MemoryError):
    error_code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError, RuntimeError):
    error_code = FAILED_PRECONDITION


class AbortedError(OpError):
    error_code = ABORTED


class OutOfRangeError(OpError, StopIteration):
    error_code = OUT_OF_RANGE


class UnimplementedError(OpError, NotImplementedError):
    error_code = UNIMPLEMENTED


class InternalError(OpError):
    error_code = INTERNAL


class UnavailableError(OpError, ConnectionError):
    error_code = UNAVAILABLE


class DataLossError(OpError, IOError):
    error_code = DATA_LOSS


class UnauthenticatedError(OpError):
    error_code = UNAUTHENTICATED


class OperatorNotAllowedInGraphError(TypeError):
    """The value of a tensor was needed where a function is being traced, and there is none yet."""


class NoArrayInGraphError(OperatorNotAllowedInGraphError, NotImplementedError):
    """A NumPy array of a tensor was needed where a function is being traced, and there is no value yet."""


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
