"""Values that replicas have, and what data sets and steps may ask for."""

import enum

import _tandem


class ReduceOp(enum.Enum):
    """How the values of replicas are put together."""

    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def _name(op):
        return op.value if isinstance(op, ReduceOp) else str(op).upper().rsplit(".", 1)[-1]


PerReplica = _tandem.PerReplica


def count_of(value):
    """The number of replicas that a value has parts of."""
    return getattr(value, "_count", 1)


PerReplica.values = property(lambda self: tuple(self.value(i) for i in range(count_of(self))))
PerReplica.__str__ = lambda self: "PerReplica:{\n" + ",\n".join(f"  {i}: {v!s}" for i, v in enumerate(self.values)) + "\n}"
PerReplica.__repr__ = lambda self: "PerReplica:{\n" + ",\n".join(f"  {i}: {v!r}" for i, v in enumerate(self.values)) + "\n}"
PerReplica.dtype = property(lambda self: self.value(0).dtype)
PerReplica.shape = property(lambda self: self.value(0).shape)
DistributedValues = PerReplica


def marked(value, count):
    """The value, which knows from now on how many replicas it has parts of."""
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
    """How data is given to replicas; accepted for programs that set it."""

    def __init__(self, experimental_fetch_to_device=None, experimental_replication_mode=None, experimental_place_dataset_on_device=False, experimental_per_replica_buffer_size=1):
        pass


class RunOptions:
    """How strategy.run runs; accepted for programs that set it."""

    def __init__(self, experimental_enable_dynamic_batch_size=True, experimental_bucketizing_dynamic_shape=False):
        pass


class ValueContext:
    """Which replica a value of experimental_distribute_values_from_function is for."""

    def __init__(self, replica_id_in_sync_group=0, num_replicas_in_sync=1):
        self.replica_id_in_sync_group = replica_id_in_sync_group
        self.num_replicas_in_sync = num_replicas_in_sync
