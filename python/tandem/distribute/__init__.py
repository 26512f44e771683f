"""Strategies: one program on many devices, tf.distribute."""

import enum
import functools
import weakref

import _tandem
from tandem import dtypes, nest
from tandem import data as _data
from tandem._function import _MARK, Function, GiveUpTrace, _key_of, flatten_results
from tandem._state import converting_calls, init_scope, state
from tandem._tensor import Tensor
from tandem.errors import OperatorNotAllowedInGraphError


class ReduceOp(enum.Enum):
    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def _name(op):
        return op.value if isinstance(op, ReduceOp) else str(op).upper().rsplit(".", 1)[-1]


PerReplica = _tandem.PerReplica


def _count_of(value):
    return getattr(value, "_count", 1)


PerReplica.values = property(lambda self: tuple(self.value(i) for i in range(_count_of(self))))
PerReplica.__repr__ = PerReplica.__str__ = lambda self: "PerReplica:{\n" + ",\n".join(f"  {i}: {v}" for i, v in enumerate(self.values)) + "\n}"
PerReplica.dtype = property(lambda self: self.value(0).dtype)
PerReplica.shape = property(lambda self: self.value(0).shape)
DistributedValues = PerReplica


def _marked(value, count):
    value._count = count
    return value


class InputContext:
    """Which part of the input a data set is made for."""

    def __init__(self, num_input_pipelines=1, input_pipeline_id=0, num_replicas_in_sync=1):
        self.num_input_pipelines = num_input_pipelines
        self.input_pipeline_id = input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size):
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` {self.num_replicas_in_sync}")
        return global_batch_size // self.num_replicas_in_sync


class InputOptions:
    def __init__(self, experimental_fetch_to_device=None, experimental_replication_mode=None, experimental_place_dataset_on_device=False, experimental_per_replica_buffer_size=1):
        pass


class RunOptions:
    def __init__(self, experimental_enable_dynamic_batch_size=True, experimental_bucketizing_dynamic_shape=False):
        pass


class DistributedDataset:
    """A data set whose batches are dealt to replicas."""

    def __init__(self, strategy, native, dataset):
        self._strategy, self._native, self._structure, self._dataset = strategy, native, dataset._structure, dataset

    def __iter__(self):
        if state.tracing:
            raise GiveUpTrace("a loop over a data set inside of a function that is being traced")
        return DistributedIterator(self)

    def __len__(self):
        count = self._native.cardinality()
        if count < 0:
            raise TypeError("The dataset length is unknown or infinite.")
        return count

    @property
    def cardinality(self):
        return self._native.cardinality()

    @property
    def element_spec(self):
        return self._dataset.element_spec


class DistributedIterator:
    def __init__(self, dataset):
        self._dataset = dataset
        with init_scope():
            self._iterator = dataset._native.iterator()

    def __iter__(self):
        return self

    def __next__(self):
        if state.tracing:
            raise GiveUpTrace("next(iterator) inside of a function that is being traced")
        parts = self._iterator.next()
        if parts is None:
            raise StopIteration
        count = self._dataset._strategy._local_replicas
        if count == 1:
            return self._dataset._structure.pack([p.value(0) for p in parts])
        return self._dataset._structure.pack([_marked(p, count) for p in parts])

    def get_next(self):
        from tandem.errors import OutOfRangeError

        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None

    def get_next_as_optional(self):
        from tandem.experimental import Optional

        try:
            return Optional.from_value(next(self))
        except StopIteration:
            return Optional.empty()

    @property
    def element_spec(self):
        return self._dataset.element_spec


def _code_key(f):
    """What a function is recognised by where it is made anew for each call: its code and what it holds."""
    bound = getattr(f, "__self__", None)
    while isinstance(f, Function):
        bound = getattr(f.python_function, "__self__", bound)
        f = f.python_function
    if isinstance(f, functools.partial):
        return ("partial", _code_key(f.func), tuple(_key_of(a) for a in f.args), tuple((k, _key_of(v)) for k, v in f.keywords.items()))
    code = getattr(f, "__code__", None)
    if code is None:
        return id(f)
    cells = []
    for cell in f.__closure__ or ():
        try:
            cells.append(_key_of(cell.cell_contents))
        except ValueError:
            cells.append(None)
    return code, tuple(cells), tuple(_key_of(d) for d in f.__defaults__ or ()), id(bound)


class _Scope:
    """A strategy's scope as a context manager, which may be entered again and again."""

    def __init__(self, strategy):
        self._strategy = strategy
        self._open = []

    def __enter__(self):
        current = _current[-1] if _current else None
        if current is self._strategy:
            self._open.append(None)
        else:
            scope = self._strategy._native.scope()
            scope.enter()
            self._open.append(scope)
        _current.append(self._strategy)
        return self._strategy

    def __exit__(self, *exception):
        _current.pop()
        scope = self._open.pop()
        if scope is not None:
            scope.exit()


_current = []  # The strategies whose scopes are open.


class Strategy:
    """How a program runs on several devices."""

    def __init__(self, native):
        self._native = native
        self._functions = {}

    @property
    def num_replicas_in_sync(self):
        return self._native.num_replicas_in_sync

    @property
    def _local_replicas(self):
        """The replicas of this process."""
        return len(self._native.devices)

    @property
    def extended(self):
        return self

    @property
    def worker_devices(self):
        return tuple(self._native.devices)

    parameter_devices = worker_devices
    cluster_resolver = None

    def explain(self):
        """Replicas, devices and threads, where the variables are and how gradients meet, for people."""
        return self._native.explain()

    def _repr_html_(self):
        import html

        return f"<pre>{html.escape(self.explain())}</pre>"

    def scope(self):
        return _Scope(self)

    # ---- Input ----

    def experimental_distribute_dataset(self, dataset, options=None):
        native = self._native.distribute_dataset(dataset._as_native())
        return DistributedDataset(self, native, dataset)

    distribute_dataset = experimental_distribute_dataset

    def distribute_datasets_from_function(self, dataset_fn, options=None):
        kept = {}

        def make(pipelines, number, replicas):
            dataset = dataset_fn(InputContext(pipelines, number, replicas))
            kept["dataset"] = dataset
            return dataset._as_native()

        native = self._native.distribute_datasets_from_function(make)
        return DistributedDataset(self, native, kept["dataset"])

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_distribute_values_from_function(self, value_fn):
        values = [value_fn(ValueContext(i, self.num_replicas_in_sync)) for i in range(self._local_replicas)]
        return values[0] if len(values) == 1 else _marked(PerReplica(values), len(values))

    def experimental_make_numpy_dataset(self, numpy_input, session=None):
        return _data.Dataset.from_tensor_slices(numpy_input)

    # ---- Running ----

    def run(self, fn, args=(), kwargs=None, options=None):
        if state.in_replica:
            raise RuntimeError("strategy.run inside of strategy.run")
        if state.tracing:
            raise GiveUpTrace("strategy.run inside of a function that is being traced")
        kwargs = kwargs or {}
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
        full_key = (_code_key(fn), nest.signature((tuple(args), kwargs)), tuple(key))
        entry = self._functions.get(full_key)
        if entry is None:
            entry = self._functions[full_key] = _ReplicaProgram(self, fn, tuple(args), kwargs, leaves)
        return entry.run(tensors, fn, args, kwargs)

    experimental_run_v2 = run

    def reduce(self, reduce_op, value, axis=None):
        def one(v):
            if not isinstance(v, (Tensor, PerReplica, _tandem.Variable)):
                v = _tandem.convert(v)
            if not isinstance(v, PerReplica) and self._local_replicas > 1 and not state.in_replica:
                v = _marked(PerReplica([v] * self._local_replicas), self._local_replicas)
            return self._native.reduce(ReduceOp._name(reduce_op), v, axis)

        if state.tracing and not state.in_replica:
            raise GiveUpTrace("strategy.reduce inside of a function that is being traced")
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def reduce_to(self, reduce_op, value, destinations=None, options=None):
        return self.reduce(reduce_op, value)

    def batch_reduce_to(self, reduce_op, pairs, options=None):
        return [self.reduce(reduce_op, value) for value, _ in pairs]

    def gather(self, value, axis):
        one = lambda v: self._native.gather(v, int(axis))  # noqa: E731
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def experimental_local_results(self, value):
        if isinstance(value, PerReplica):
            return tuple(self._native.local_results(value))
        if nest.is_nested(value):
            parts = [self.experimental_local_results(v) for v in nest.flatten(value)]
            return tuple(nest.pack_sequence_as(value, list(each)) for each in zip(*parts))
        return (value,)

    local_results = experimental_local_results

    def unwrap(self, value):
        return self.experimental_local_results(value)

    def update(self, var, fn, args=(), kwargs=None, group=True):
        return fn(var, *args, **(kwargs or {}))

    def broadcast_to(self, tensor, destinations=None):
        return tensor

    def verify(self, variables):
        """Compares the replicas' variables."""
        self._native.verify(list(variables))

    def experimental_split_to_logical_devices(self, tensor, partition_dimensions):
        return tensor

    def __repr__(self):
        return f"<{type(self).__name__} with {self.num_replicas_in_sync} replicas>"


class _ReplicaProgram:
    """A function that a strategy runs on all replicas, for one kind of arguments."""

    def __init__(self, strategy, fn, args, kwargs, leaves):
        self._strategy = strategy
        self._structure = None
        self._op_by_op = None
        self._kept = (fn, leaves)  # What keys name by its identity lives as long as they do.
        outline = nest.pack_sequence_as((args, kwargs), [None] * len(leaves)) if leaves else (args, kwargs)
        python = fn
        while isinstance(python, Function):
            python = python.python_function
        self._python = python
        # As in Function: the library holds this.
        reference = weakref.ref(self)
        strategy_reference = weakref.ref(strategy)
        del strategy, fn, python

        def traced(given):
            from tandem import autograph

            self, strategy = reference(), strategy_reference()
            python = self._python
            given = iter(given)
            filled = [next(given) if leaf is _MARK else leaf for leaf in leaves]
            own_args, own_kwargs = nest.pack_sequence_as(outline, filled)
            before = state.tracing, state.open_rows, state.in_replica
            state.tracing, state.open_rows, state.in_replica = state.tracing + 1, True, True
            _current.append(strategy)
            try:
                result = autograph.converted(python)(*own_args, **own_kwargs)
                flat, self._structure = flatten_results(result)
            finally:
                _current.pop()
                state.tracing, state.open_rows, state.in_replica = before
            like, marks = self._structure
            self._structure = (nest.pack_sequence_as(like, [None] * len(marks)) if like is not None and marks else like, marks)
            return flat

        self._function = _tandem.ReplicaFunction(traced, getattr(self._python, "__name__", "replica_fn"))

    def run(self, tensors, fn, args, kwargs):
        count = self._strategy._local_replicas
        try:
            results = self._strategy._native.run(self._function, tensors)
        except GiveUpTrace:
            raise
        except OperatorNotAllowedInGraphError:
            with converting_calls():
                results = self._strategy._native.run(self._function, tensors)
        like, leaves = self._structure
        results = iter(results)
        filled = []
        for leaf in leaves:
            if leaf is _MARK:
                value = next(results)
                filled.append(value.value(0) if count == 1 else _marked(value, count))
            else:
                filled.append(leaf)
        return filled[0] if like is None else nest.pack_sequence_as(like, filled)


class ValueContext:
    def __init__(self, replica_id_in_sync_group=0, num_replicas_in_sync=1):
        self.replica_id_in_sync_group = replica_id_in_sync_group
        self.num_replicas_in_sync = num_replicas_in_sync


class ReplicaContext:
    """What the code inside of strategy.run can ask and do about its replica."""

    def __init__(self, strategy):
        self.strategy = strategy

    @property
    def num_replicas_in_sync(self):
        return self.strategy.num_replicas_in_sync

    @property
    def replica_id_in_sync_group(self):
        return _tandem.replica_id() if state.in_replica else _tandem.convert(0)

    def all_reduce(self, reduce_op, value, options=None):
        if not state.in_replica:
            return value
        one = lambda v: _tandem.all_reduce(ReduceOp._name(reduce_op), v)  # noqa: E731
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def all_gather(self, value, axis, options=None):
        if not state.in_replica:
            return value
        one = lambda v: _tandem.all_gather(v, int(axis))  # noqa: E731
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def merge_call(self, merge_fn, args=(), kwargs=None):
        return merge_fn(self.strategy, *args, **(kwargs or {}))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def _device_names(devices):
    if devices is None:
        return []
    return [d if isinstance(d, str) else d.name for d in devices]


class MirroredStrategy(Strategy):
    """Synchronous training on the devices of one machine."""

    def __init__(self, devices=None, cross_device_ops=None, reproducible_shards=None):
        if cross_device_ops is not None and not isinstance(cross_device_ops, CrossDeviceOps):
            raise ValueError(f"cross_device_ops is {cross_device_ops!r}; ReductionToOneDevice, NcclAllReduce and HierarchicalCopyAllReduce are accepted")
        reduction = 0 if cross_device_ops is None else cross_device_ops._reduction
        super().__init__(_tandem.mirrored_strategy(_device_names(devices), reproducible_shards, reduction))


class OneDeviceStrategy(Strategy):
    """Everything on one device."""

    def __init__(self, device):
        super().__init__(_tandem.one_device_strategy(device))


class CentralStorageStrategy(Strategy):
    """Variables live once; all devices compute."""

    def __init__(self, compute_devices=None, parameter_device=None):
        if parameter_device is not None and "CPU" not in str(parameter_device).upper():
            raise NotImplementedError(f"CentralStorageStrategy: parameter_device is {parameter_device}; variables lie in the host's memory")
        super().__init__(_tandem.central_storage_strategy(_device_names(compute_devices)))


class _DefaultStrategy(Strategy):
    def __init__(self):
        super().__init__(None)

    num_replicas_in_sync = _local_replicas = 1

    def scope(self):
        import contextlib

        return contextlib.nullcontext(self)

    def run(self, fn, args=(), kwargs=None, options=None):
        return fn(*args, **(kwargs or {}))

    def reduce(self, reduce_op, value, axis=None):
        from tandem import _ops

        if axis is None:
            return value
        f = _ops.reduce_sum if ReduceOp._name(reduce_op) == "SUM" else _ops.reduce_mean
        return f(value, axis=axis)

    def experimental_distribute_dataset(self, dataset, options=None):
        return dataset

    distribute_dataset = experimental_distribute_dataset

    def distribute_datasets_from_function(self, dataset_fn, options=None):
        return dataset_fn(InputContext())

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def gather(self, value, axis):
        return value

    def explain(self):
        return "the default strategy: one replica, placed op by op\n"


class CrossDeviceOps:
    """How gradients meet on devices that do not share memory."""

    _reduction = 0  # The library's numbers: by how much there is to move, by ranges, on one device.


class ReductionToOneDevice(CrossDeviceOps):
    """One device sums, the others get the sum."""

    _reduction = 2

    def __init__(self, reduce_to_device=None, accumulation_fn=None):
        if accumulation_fn is not None:
            raise NotImplementedError("ReductionToOneDevice: accumulation_fn; gradients are added")


class _AllReduce(CrossDeviceOps):
    """Each device sums its range of the gradients, then all gather the ranges; between NVIDIA's GPUs NCCL does."""

    _reduction = 1

    def __init__(self, num_packs=1):
        if num_packs < 0:
            raise ValueError(f"num_packs must be >= 0, got {num_packs}")
        self.num_packs = num_packs


class NcclAllReduce(_AllReduce):
    pass


class HierarchicalCopyAllReduce(_AllReduce):
    pass


class _Missing:
    """A strategy that the library does not have."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(
            f"tandem.distribute.{type(self).__name__} does not exist here; MirroredStrategy trains on the devices of one machine"
        )


class TPUStrategy(_Missing):
    pass


class ParameterServerStrategy(_Missing):
    pass


class MultiWorkerMirroredStrategy(Strategy):
    """Synchronous training in several processes, those that TF_CONFIG, a launcher or the resolver names; alone without."""

    def __init__(self, cluster_resolver=None, communication_options=None, reproducible_shards=None):
        timeout = getattr(communication_options, "timeout_seconds", None) or 0.0
        bucket = int(getattr(communication_options, "bytes_per_pack", 0) or 0)
        given = cluster_resolver is not None and not isinstance(cluster_resolver, TFConfigClusterResolver)
        self.cluster_resolver = cluster_resolver if cluster_resolver is not None else TFConfigClusterResolver()
        addresses = self.cluster_resolver.cluster_spec().as_dict() if given else None
        super().__init__(_tandem.multi_worker_mirrored_strategy(addresses or None, self.cluster_resolver.task_type or "worker", self.cluster_resolver.task_id or 0, reproducible_shards, float(timeout), bucket))

    @property
    def is_chief(self):
        """True in the one process that writes files and prints."""
        return self._native.is_chief


class ClusterResolver:
    """Which processes there are, and which of them this is."""

    def __init__(self, cluster_spec=None, task_type=None, task_id=None):
        self._spec, self.task_type, self.task_id = cluster_spec, task_type, task_id

    def cluster_spec(self):
        from tandem.train import ClusterSpec

        return self._spec if isinstance(self._spec, ClusterSpec) else ClusterSpec(self._spec or {})

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        return self.cluster_spec().task_address(task_type, task_id) if task_type else ""

    def num_accelerators(self, task_type=None, task_id=None, config_proto=None):
        return {}

    environment, rpc_layer = "", "grpc"


class SimpleClusterResolver(ClusterResolver):
    """What the program says."""

    def __init__(self, cluster_spec, master="", task_type=None, task_id=None, environment="", num_accelerators=None, rpc_layer=None):
        super().__init__(cluster_spec, task_type, task_id)


class TFConfigClusterResolver(ClusterResolver):
    """What TF_CONFIG says."""

    def __init__(self, task_type=None, task_id=None, rpc_layer=None, environment=None):
        spec, own_type, own_id = _tandem.tf_config()
        super().__init__(spec, own_type if task_type is None and own_type else task_type or "worker", own_id if task_id is None else task_id)


_default = None


def get_strategy():
    if _current:
        return _current[-1]
    global _default
    if _default is None:
        _default = _DefaultStrategy()
    return _default


def has_strategy():
    return bool(_current)


def in_cross_replica_context():
    return has_strategy() and not state.in_replica


def get_replica_context():
    if in_cross_replica_context():
        return None
    return ReplicaContext(get_strategy())


def experimental_set_strategy(strategy):
    scope = strategy.scope()
    scope.__enter__()
    _kept_scopes.append(scope)


_kept_scopes = []


class experimental:
    CentralStorageStrategy = CentralStorageStrategy
    MultiWorkerMirroredStrategy = MultiWorkerMirroredStrategy
    TPUStrategy = TPUStrategy
    ParameterServerStrategy = ParameterServerStrategy
    ValueContext = ValueContext

    class CommunicationImplementation:
        AUTO, RING, NCCL = "AUTO", "RING", "NCCL"

    CollectiveCommunication = CommunicationImplementation

    class CommunicationOptions:
        def __init__(self, bytes_per_pack=0, timeout_seconds=None, implementation="AUTO"):
            if bytes_per_pack < 0:
                raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {bytes_per_pack}.")
            self.bytes_per_pack, self.timeout_seconds, self.implementation = bytes_per_pack, timeout_seconds, implementation


DistributedDataset.__module__ = "tandem.distribute"
StrategyExtended = Strategy
InputReplicationMode = enum.Enum("InputReplicationMode", "PER_WORKER PER_REPLICA")


class cluster_resolver:
    ClusterResolver = ClusterResolver
    SimpleClusterResolver = SimpleClusterResolver
    TFConfigClusterResolver = TFConfigClusterResolver
