"""What the present thread is doing: tracing a function, running eagerly, collecting a model's losses."""

import contextlib
import threading

import _tandem


class _State(threading.local):
    def __init__(self):
        self.tracing = 0  # How many functions are being traced, one inside the other.
        self.open_rows = False  # The number of rows of a batch is left open: shapes say None there.
        self.in_replica = False  # Inside of strategy.run.
        self.schedules = False  # Inside of what a ClusterCoordinator schedules.
        self.converts_calls = False  # Branches and loops of called functions are converted, too: see autograph.py.


state = _State()


def probe_tracing():
    """Whether ops are recorded at this moment: a function may be called op by op, too."""
    return _tandem.fill((), 0.0, 0)._is_symbolic


@contextlib.contextmanager
def tracing(open_rows=None):
    before = state.tracing, state.open_rows
    state.tracing += 1
    if open_rows is not None:
        state.open_rows = open_rows
    try:
        yield
    finally:
        state.tracing, state.open_rows = before


@contextlib.contextmanager
def converting_calls():
    before, state.converts_calls = state.converts_calls, True
    try:
        yield
    finally:
        state.converts_calls = before


@contextlib.contextmanager
def init_scope():
    """Operations inside run at once and unrecorded, also where a function is being traced."""
    before = state.tracing, state.open_rows
    with _tandem.InitScope():
        state.tracing, state.open_rows = 0, False
        try:
            yield
        finally:
            state.tracing, state.open_rows = before
