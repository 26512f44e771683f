"""What strategies have in common, and the one that there is without a scope."""

import contextlib

import _tandem
from tandem import data as _data
from tandem import nest
from tandem._tracing.function import _MARK, Function, GiveUpTrace, _key_of
from tandem._tracing.recognition import present_contents
from tandem._tracing.state import state
from tandem._tensors.tensor import Tensor
from tandem.distribute._dataset import DistributedDataset
from tandem.distribute._program import ReplicaProgram, code_key
from tandem.distribute._scope import Scope, open_scopes
from tandem.distribute._values import InputContext, PerReplica, ReduceOp, ValueContext, marked


class NestedRunError(RuntimeError):
    """A replica asks for replicas."""


class Strategy:
    """How a program runs on several devices."""

    def __init__(self, native):
        self._native = native
        self._functions = {}

    @property
    def num_replicas_in_sync(self):
        """How many replicas train together."""
        return self._native.num_replicas_in_sync

    @property
    def _local_replicas(self):
        """The replicas of this process."""
        return len(self._native.devices)

    @property
    def _spans_processes(self):
        """Whether other processes have replicas, too."""
        return self.num_replicas_in_sync * self._model_parts > self._local_replicas

    @property
    def is_chief(self):
        """True in the one process that writes files and prints."""
        return self._native.is_chief

    @property
    def extended(self):
        """The strategy, by TensorFlow's name for its inner part."""
        return self

    @property
    def worker_devices(self):
        """The devices of the replicas."""
        return tuple(self._native.devices)

    parameter_devices = worker_devices
    cluster_resolver = None
    _has_servers = False  # Whether variables are changed by parameter servers.
    _has_one_state = False  # Whether replicas have no values of their own: servers have them, or replicas are micro-batches.
    _has_variables_in_parts = False  # Whether each replica keeps a part alone of variables that no layout cuts.
    _model_parts = 1  # How many parts of the weights there are.

    def explain(self):
        """Replicas, devices and threads, where the variables are and how gradients meet, for people."""
        return self._native.explain()

    def _repr_html_(self):
        import html

        return f"<pre>{html.escape(self.explain())}</pre>"

    def scope(self):
        """A scope in which variables and models belong to the strategy."""
        return Scope(self)

    # ---- Input ----

    def experimental_distribute_dataset(self, dataset, options=None):
        """The data set with each batch split over the replicas."""
        native = self._native.distribute_dataset(dataset._as_native())
        return DistributedDataset(self, native, dataset)

    distribute_dataset = experimental_distribute_dataset

    def distribute_datasets_from_function(self, dataset_fn, options=None):
        """The distributed data set that a function makes for an InputContext."""
        kept = {}

        def make(pipelines, number, replicas):
            dataset = dataset_fn(InputContext(pipelines, number, replicas))
            kept["dataset"] = dataset
            return dataset._as_native()

        native = self._native.distribute_datasets_from_function(make)
        return DistributedDataset(self, native, kept["dataset"], is_per_replica=True)

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_distribute_values_from_function(self, value_fn):
        """A value of each replica, made by a function."""
        values = [value_fn(ValueContext(i, self.num_replicas_in_sync)) for i in range(self._local_replicas)]
        return values[0] if len(values) == 1 else marked(PerReplica(values), len(values))

    def experimental_make_numpy_dataset(self, numpy_input, session=None):
        """A data set of an array's rows."""
        return _data.Dataset.from_tensor_slices(numpy_input)

    # ---- Running ----

    def run(self, fn, args=(), kwargs=None, options=None):
        """Calls a function on each replica with its part of the arguments, as one program."""
        program, tensors = self._program_of(fn, args, kwargs or {})
        return program.run(tensors)

    def _program_of(self, fn, args, kwargs):
        """The program of a function for such arguments, and the tensors among them."""
        if state.in_replica:
            raise NestedRunError("strategy.run inside of strategy.run")
        if state.tracing:
            raise GiveUpTrace("strategy.run inside of a function that is being traced")
        if not kwargs and type(args) is tuple and all(type(each) is PerReplica or type(each) is Tensor for each in args):
            key = _key_of_function(fn), len(args)  # Most calls; what follows takes ten times as long.
            program = self._functions.get(key)
            if program is None:
                program = self._functions[key] = ReplicaProgram(self, fn, args, kwargs, [_MARK] * len(args))
            return program, list(args)
        flat = nest.flatten((tuple(args), kwargs))
        tensors, leaves, key = [], [], []
        for leaf in flat:
            if isinstance(leaf, (Tensor, PerReplica)):
                tensors.append(leaf)
            elif hasattr(leaf, "__array__") and not isinstance(leaf, _tandem.Variable):
                tensors.append(_tandem.convert(leaf))
            else:
                leaves.append(leaf)
                key.append(_key_of(leaf))
                continue
            leaves.append(_MARK)
            key.append(_MARK)
        full_key = (_key_of_function(fn), nest.signature((tuple(args), kwargs)), tuple(key))
        program = self._functions.get(full_key)
        if program is None:
            program = self._functions[full_key] = ReplicaProgram(self, fn, tuple(args), kwargs, leaves)
        return program, tensors

    experimental_run_v2 = run

    def reduce(self, reduce_op, value, axis=None):
        """The sum or mean of the values of all replicas."""
        def one(v):
            if not isinstance(v, (Tensor, PerReplica, _tandem.Variable)):
                v = _tandem.convert(v)
            if not isinstance(v, PerReplica) and self._local_replicas > 1 and not state.in_replica:
                v = marked(PerReplica([v] * self._local_replicas), self._local_replicas)
            return self._native.reduce(ReduceOp._name(reduce_op), v, axis)

        if state.tracing and not state.in_replica:
            raise GiveUpTrace("strategy.reduce inside of a function that is being traced")
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def reduce_to(self, reduce_op, value, destinations=None, options=None):
        """The sum or mean of the values of all replicas."""
        return self.reduce(reduce_op, value)

    def batch_reduce_to(self, reduce_op, pairs, options=None):
        """The sums or means of several values of all replicas."""
        return [self.reduce(reduce_op, value) for value, _ in pairs]

    def gather(self, value, axis):
        """The values of all replicas one after another along an axis."""
        one = lambda v: self._native.gather(v, int(axis))  # noqa: E731
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def experimental_local_results(self, value):
        """The values of the replicas of this process, as a tuple."""
        if isinstance(value, PerReplica):
            return tuple(self._native.local_results(value))
        if nest.is_nested(value):
            parts = [self.experimental_local_results(v) for v in nest.flatten(value)]
            return tuple(nest.pack_sequence_as(value, list(each)) for each in zip(*parts))
        return (value,)

    local_results = experimental_local_results

    def unwrap(self, value):
        """The values of the replicas of this process, as a tuple."""
        return self.experimental_local_results(value)

    def update(self, var, fn, args=(), kwargs=None, group=True):
        """Calls a function with a variable."""
        return fn(var, *args, **(kwargs or {}))

    def broadcast_to(self, tensor, destinations=None):
        """A value on all replicas."""
        return tensor

    def verify(self, variables):
        """Compares the replicas' variables."""
        self._native.verify(list(variables))

    def experimental_split_to_logical_devices(self, tensor, partition_dimensions):
        return tensor

    def __repr__(self):
        return f"<{type(self).__name__} with {self.num_replicas_in_sync} replicas>"


class DefaultStrategy(Strategy):
    """The strategy of a program that chose none: one device."""

    def __init__(self):
        super().__init__(None)

    num_replicas_in_sync = _local_replicas = 1
    is_chief = True

    def scope(self):
        """A scope in which this is the strategy."""
        return contextlib.nullcontext(self)

    def run(self, fn, args=(), kwargs=None, options=None):
        """Calls the function."""
        return fn(*args, **(kwargs or {}))

    def reduce(self, reduce_op, value, axis=None):
        """The value, which is that of the only replica."""
        from tandem import _ops

        if axis is None:
            return value
        f = _ops.reduce_sum if ReduceOp._name(reduce_op) == "SUM" else _ops.reduce_mean
        return f(value, axis=axis)

    def experimental_distribute_dataset(self, dataset, options=None):
        """The data set itself."""
        return dataset

    distribute_dataset = experimental_distribute_dataset

    def distribute_datasets_from_function(self, dataset_fn, options=None):
        """The data set that a function makes for the only replica."""
        return dataset_fn(InputContext())

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def gather(self, value, axis):
        """The value itself."""
        return value

    def explain(self):
        """Says that there is one device."""
        return "the default strategy: one replica, placed op by op\n"


class ReplicaContext:
    """What the code inside of strategy.run can ask and do about its replica."""

    def __init__(self, strategy):
        self.strategy = strategy

    @property
    def num_replicas_in_sync(self):
        """How many replicas train together."""
        return self.strategy.num_replicas_in_sync

    @property
    def replica_id_in_sync_group(self):
        """The number of this replica."""
        return _tandem.replica_id() if state.in_replica else _tandem.convert(0)

    def all_reduce(self, reduce_op, value, options=None):
        """The sum or mean of the values of all replicas, on each of them."""
        if not state.in_replica:
            return value
        one = lambda v: _tandem.all_reduce(ReduceOp._name(reduce_op), v)  # noqa: E731
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def all_gather(self, value, axis, options=None):
        """The values of all replicas one after another along an axis, on each of them."""
        if not state.in_replica:
            return value
        one = lambda v: _tandem.all_gather(v, int(axis))  # noqa: E731
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def merge_call(self, merge_fn, args=(), kwargs=None):
        """Calls a function with the strategy and the values of all replicas, which its reduce, gather and local results take."""
        if not state.in_replica:
            return merge_fn(self.strategy, *args, **(kwargs or {}))
        return _tandem.merge_call(lambda *_: merge_fn(self.strategy, *args, **(kwargs or {})), ())

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


_default = None


def _key_of_function(fn):
    """What a function is recognised by. Inside of a tf.function, and as one, it keeps what it read when it was traced; Python that
    calls run itself has it read anew."""
    is_kept = state.op_by_op or isinstance(fn, Function) or (getattr(fn, "__module__", None) or "").split(".")[0] == "tandem"
    return code_key(fn) if is_kept else (code_key(fn), present_contents(fn))


def get_strategy():
    """The strategy whose scope is open, or the default one."""
    if open_scopes.strategies:
        return open_scopes.strategies[-1]
    global _default
    if _default is None:
        _default = DefaultStrategy()
    return _default


def has_strategy():
    """True inside of a strategy's scope."""
    return bool(open_scopes.strategies)


def in_cross_replica_context():
    """True outside of what strategy.run calls, and inside of merge_call."""
    return has_strategy() and (not state.in_replica or _tandem.in_cross_replica_context())


def get_replica_context():
    """The replica that is being traced, inside of what strategy.run calls; None elsewhere."""
    if in_cross_replica_context():
        return None
    return ReplicaContext(get_strategy())


def experimental_set_strategy(strategy):
    """Opens a strategy's scope for the rest of the program; None closes it."""
    while _kept_scopes:
        _kept_scopes.pop().__exit__(None, None, None)
    if strategy is None:
        return
    scope = strategy.scope()
    scope.__enter__()
    _kept_scopes.append(scope)


_kept_scopes = []
