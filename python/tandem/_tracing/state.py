"""What the present thread is doing: tracing a function, running eagerly, collecting a model's losses."""

import contextlib
import threading

import _tandem


class _State(threading.local):
    def __init__(self):
        self.tracing = 0  # How many functions are being traced, one inside the other.
        self.op_by_op = 0  # How many functions run op by op, one inside of the other, since they cannot be traced.
        self.open_rows = False  # The number of rows of a batch is left open: shapes say None there.
        self.is_first_try = False  # The trace has sizes that are left open; where a shape does not fit, it is made again without.
        self.in_replica = False  # Inside of strategy.run.
        self.in_data = False  # Inside of a function of a data set, of which TensorFlow makes a graph.
        self.schedules = False  # Inside of what a ClusterCoordinator schedules.
        self.effects = None  # What happens after each run of the function that is being traced: functions and their tensors.
        self.is_rehearsal = False  # A function is called only to learn what it makes: nothing is printed.
        self.in_flow = 0  # Inside of so many loops of a trace.
        self.name_scopes = []  # The scopes that are open, before whose names those of new variables stand.
        self.metrics_alone = False  # Metrics tell what this process knows, without asking others.
        self.converts_calls = False  # Branches and loops of called functions are converted, too: see autograph.py.


state = _State()


def probe_tracing():
    """Whether ops are recorded at this moment: a function may be called op by op, too."""
    return _tandem.fill((), 0.0, 0)._is_symbolic


@contextlib.contextmanager
def tracing(open_rows=None, is_first_try=False):
    """A scope in which a function is traced."""
    before = state.tracing, state.open_rows, state.is_first_try
    state.tracing += 1
    state.is_first_try = is_first_try
    if open_rows is not None:
        state.open_rows = open_rows
    try:
        yield
    finally:
        state.tracing, state.open_rows, state.is_first_try = before


def happens_after_each_run(f, *tensors):
    """Has `f` called with the values of tensors after each run of the function that is being traced. False where that
    cannot be: on replicas, and inside of loops, whose values nobody sees outside."""
    if state.effects is None or state.in_flow or state.in_replica:
        return False
    state.effects.append((f, tensors))
    return True


@contextlib.contextmanager
def collecting_effects():
    """The effects of the function that is traced inside."""
    before = state.effects, state.in_flow
    state.effects, state.in_flow = [], 0
    try:
        yield state.effects
    finally:
        state.effects, state.in_flow = before


@contextlib.contextmanager
def inside_flow():
    """The test or the body of a loop is traced inside."""
    state.in_flow += 1
    try:
        yield
    finally:
        state.in_flow -= 1


@contextlib.contextmanager
def converting_calls():
    """A scope in which what a traced function calls is converted by AutoGraph, too."""
    before, state.converts_calls = state.converts_calls, True
    try:
        yield
    finally:
        state.converts_calls = before


@contextlib.contextmanager
def running_op_by_op():
    """A scope in which a function that cannot be traced runs as Python."""
    state.op_by_op += 1
    try:
        yield
    finally:
        state.op_by_op -= 1


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


@contextlib.contextmanager
def rehearsal():
    """A scope for calls that only show what kind of thing a function makes: they run at once, and print nothing."""
    before, state.is_rehearsal = state.is_rehearsal, True
    try:
        with init_scope():
            yield
    finally:
        state.is_rehearsal = before
