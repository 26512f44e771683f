"""Parameter servers: ParameterServerStrategy and ClusterCoordinator."""

import weakref

import _tandem
from tandem._tracing.function import Function, GiveUpTrace
from tandem._tracing.state import state
from tandem.data import Dataset
from tandem.distribute import _cluster
from tandem.distribute._later import Later, fetched
from tandem.distribute._program import code_key
from tandem.distribute._strategy import NestedRunError, Strategy
from tandem import nest


class Partitioner:
    """How variables are cut over servers."""

    def __init__(self, *description):
        self._description = description


class FixedShardsPartitioner(Partitioner):
    """So many shards of each variable."""

    def __init__(self, num_shards):
        super().__init__("fixed_shards", int(num_shards))


class MinSizePartitioner(Partitioner):
    """As many shards as have at least so many bytes each."""

    def __init__(self, min_shard_bytes=256 << 10, max_shards=1, bytes_per_string=16):
        super().__init__("min_size", int(min_shard_bytes), int(max_shards))


class MaxSizePartitioner(Partitioner):
    """As few shards as have at most so many bytes each."""

    def __init__(self, max_shard_bytes, max_shards=None, bytes_per_string=16):
        super().__init__("max_size", int(max_shard_bytes), max_shards)


class ParameterServerStrategy(Strategy):
    """Variables lie on servers; workers read them and send gradients, by default without waiting for each other.

    Workers and servers are the tasks of the cluster, or, without one, threads of this process. `staleness` is by how
    many batches a worker may be ahead of the slowest (None: by any number, 0: all share each batch), `damping` divides the rate
    of an update by 1 + its staleness, `drop_older_than` leaves out updates that are staler. `sparse_update` has servers change only those rows
    of a table that a gradient has; variables of `bytes_in_files` or more take no memory of workers that do not read them;
    `patience` is for how many seconds processes wait for one that is gone. See docs/parallel-training.md.
    """

    def __init__(self, cluster_resolver=None, variable_partitioner=None, staleness=None, damping=False, drop_older_than=None, devices=None, workers=0, servers=1, reproducible=False, sparse_update=False, bytes_in_files=64 << 20, patience=60):
        if variable_partitioner is not None and not isinstance(variable_partitioner, Partitioner):
            raise ValueError(f"variable_partitioner is {variable_partitioner!r}; those of tf.distribute.experimental.partitioners are accepted")
        self.cluster_resolver = cluster_resolver if cluster_resolver is not None else _cluster.TFConfigClusterResolver()
        cluster, task_type, task_id = _cluster.task_of(self.cluster_resolver)
        tasks = self.cluster_resolver.cluster_spec().as_dict()
        if _cluster.are_here(tasks.get("worker", []) + tasks.get("ps", [])):
            cluster, workers, servers = None, len(tasks.get("worker", ())), len(tasks.get("ps", ()))
        names = [d if isinstance(d, str) else d.name for d in devices or ()]
        description = variable_partitioner._description if variable_partitioner is not None else ()
        super().__init__(
            _tandem.parameter_server_strategy(
                cluster, task_type, task_id, staleness, damping, drop_older_than, description, names, workers, servers, reproducible, sparse_update, bytes_in_files, int(patience)
            )
        )
        self._coordinator = _tandem.ClusterCoordinator(self._native)
        # Its threads call Python and end before the interpreter does, and other processes hear of the end.
        weakref.finalize(self, self._native.close)

    _has_servers = _has_one_state = True

    def staleness_histogram(self):
        """How many updates there were of each staleness so far."""
        return self._native.staleness_histogram()

    def run(self, fn, args=(), kwargs=None, options=None):
        """A step, and its results after waiting for it; in what a coordinator schedules without waiting."""
        if not state.schedules or self.num_replicas_in_sync > 1:
            return super().run(fn, args, kwargs)
        return self._schedule(fn, args, kwargs or {})

    def _schedule(self, fn, args, kwargs):
        program, tensors = self._program_of(fn, args, kwargs)
        return program.schedule(self._coordinator, tensors)

    def reduce(self, reduce_op, value, axis=None):
        reduced = super().reduce
        if not any(isinstance(v, Later) for v in nest.flatten(value)):
            return reduced(reduce_op, value, axis)
        one = lambda v: v.map(lambda t: reduced(reduce_op, t, axis)) if isinstance(v, Later) else reduced(reduce_op, v, axis)  # noqa: E731
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)

    def join(self):
        """Waits for all that was scheduled; variables have the servers' values then."""
        self._coordinator.join()


class RemoteValue:
    """The results of a step that was scheduled."""

    def __init__(self, structure):
        self._structure = structure

    def get(self):
        """The results, after waiting for them."""
        return fetched(self._structure)

    def fetch(self):
        """The same, tensors as arrays."""
        one = lambda v: v.numpy() if hasattr(v, "numpy") else v  # noqa: E731
        value = self.get()
        return nest.map_structure(one, value) if nest.is_nested(value) else one(value)


class ClusterCoordinator:
    """Gives steps to whichever worker is free.

    A step is a function that calls `strategy.run` (with what it takes of an iterator), or itself computes and applies
    gradients. In a cluster all tasks run the same loop.
    """

    def __init__(self, strategy):
        if not isinstance(strategy, ParameterServerStrategy):
            raise ValueError(f"ClusterCoordinator takes a ParameterServerStrategy, not {strategy!r}")
        self.strategy = strategy
        self._runs_itself = {}  # By code: whether it is what workers run.

    def schedule(self, fn, args=None, kwargs=None):
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        key = code_key(fn)
        if self._runs_itself.setdefault(key, not any(hasattr(a, "__next__") for a in nest.flatten((args, kwargs)))):
            try:
                return RemoteValue(self._scheduled(lambda: self.strategy.run(fn, args, kwargs)))
            except (NestedRunError, GiveUpTrace):
                self._runs_itself[key] = False
        while isinstance(fn, Function):
            fn = fn.python_function
        return RemoteValue(self._scheduled(lambda: fn(*args, **kwargs)))

    @staticmethod
    def _scheduled(call):
        before, state.schedules = state.schedules, True
        try:
            return call()
        finally:
            state.schedules = before

    def join(self):
        """Waits for all that was scheduled. Throws what a worker threw."""
        self.strategy.join()

    def done(self):
        return self.strategy._coordinator.done()

    def fetch(self, val):
        """The results of steps in a structure, as arrays."""
        one = lambda v: v.fetch() if isinstance(v, RemoteValue) else v  # noqa: E731
        return nest.map_structure(one, val) if nest.is_nested(val) else one(val)

    def create_per_worker_dataset(self, dataset_fn):
        """A data set whose batches go to whichever worker is free, of a data set or a function that makes one."""
        while isinstance(dataset_fn, Function):
            dataset_fn = dataset_fn.python_function
        dataset = dataset_fn() if callable(dataset_fn) else dataset_fn
        return self.strategy.experimental_distribute_dataset(dataset) if isinstance(dataset, Dataset) else dataset
