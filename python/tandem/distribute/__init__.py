"""Strategies: one program on many devices, tf.distribute."""

import enum

from tandem._names import missing as _missing
from tandem.distribute._cluster import ClusterResolver, Server, SimpleClusterResolver, TFConfigClusterResolver
from tandem.distribute._dataset import DistributedDataset, DistributedIterator
from tandem.distribute._servers import ClusterCoordinator, FixedShardsPartitioner, MaxSizePartitioner, MinSizePartitioner, ParameterServerStrategy, Partitioner, RemoteValue
from tandem.distribute._strategies import (
    CentralStorageStrategy, CrossDeviceOps, HierarchicalCopyAllReduce, MirroredStrategy, MultiWorkerMirroredStrategy, NcclAllReduce,
    OneDeviceStrategy, PipelineStrategy, ReductionToOneDevice, TPUClusterResolver, TPUStrategy,
)
from tandem.distribute._strategy import (
    ReplicaContext, Strategy, experimental_set_strategy, get_replica_context, get_strategy, has_strategy, in_cross_replica_context,
)
from tandem.distribute._values import DistributedValues, InputContext, InputOptions, PerReplica, ReduceOp, RunOptions, ValueContext

for _each in (ClusterResolver, Server, DistributedDataset, DistributedIterator, ClusterCoordinator, RemoteValue, Strategy, ReplicaContext, ReduceOp):
    _each.__module__ = "tandem.distribute"


class partitioners(metaclass=_missing.Namespace):
    """How large variables are cut into parts for parameter servers."""

    Partitioner = Partitioner
    FixedShardsPartitioner = FixedShardsPartitioner
    MinSizePartitioner = MinSizePartitioner
    MaxSizePartitioner = MaxSizePartitioner


class coordinator(metaclass=_missing.Namespace):
    """The names of tf.distribute.coordinator."""

    ClusterCoordinator = ClusterCoordinator
    RemoteValue = RemoteValue


class _MultiWorkerMirroredStrategy(MultiWorkerMirroredStrategy):
    """The strategy with the arguments that it had while it was experimental."""

    def __init__(self, communication=None, cluster_resolver=None):
        super().__init__(cluster_resolver)


class experimental(metaclass=_missing.Namespace):
    """Names that are experimental in tf.distribute."""

    CentralStorageStrategy = CentralStorageStrategy
    MultiWorkerMirroredStrategy = _MultiWorkerMirroredStrategy
    TPUStrategy = TPUStrategy
    ParameterServerStrategy = ParameterServerStrategy
    ValueContext = ValueContext
    coordinator = coordinator
    partitioners = partitioners

    class CommunicationImplementation:
        AUTO, RING, NCCL = "AUTO", "RING", "NCCL"

    CollectiveCommunication = CommunicationImplementation

    class CommunicationOptions:
        def __init__(self, bytes_per_pack=0, timeout_seconds=None, implementation="AUTO"):
            if bytes_per_pack < 0:
                raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {bytes_per_pack}.")
            self.bytes_per_pack, self.timeout_seconds, self.implementation = bytes_per_pack, timeout_seconds, implementation


StrategyExtended = Strategy
InputReplicationMode = enum.Enum("InputReplicationMode", "PER_WORKER PER_REPLICA")
InputReplicationMode.__doc__ = "How many copies of the input there are."


class cluster_resolver(metaclass=_missing.Namespace):
    """Where a program finds out which tasks take part."""

    ClusterResolver = ClusterResolver
    SimpleClusterResolver = SimpleClusterResolver
    TFConfigClusterResolver = TFConfigClusterResolver
    TPUClusterResolver = TPUClusterResolver


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "CentralStorageStrategy", "ClusterCoordinator", "ClusterResolver", "CrossDeviceOps", "DistributedDataset", "DistributedIterator",
    "DistributedValues", "FixedShardsPartitioner", "HierarchicalCopyAllReduce", "InputContext", "InputOptions", "InputReplicationMode",
    "MaxSizePartitioner", "MinSizePartitioner", "MirroredStrategy", "MultiWorkerMirroredStrategy", "NcclAllReduce", "OneDeviceStrategy",
    "ParameterServerStrategy", "Partitioner", "PerReplica", "PipelineStrategy", "ReduceOp", "ReductionToOneDevice", "RemoteValue",
    "ReplicaContext", "RunOptions", "Server", "SimpleClusterResolver", "Strategy", "StrategyExtended", "TFConfigClusterResolver",
    "TPUClusterResolver", "TPUStrategy", "ValueContext", "cluster_resolver", "coordinator", "experimental", "experimental_set_strategy",
    "get_replica_context", "get_strategy", "has_strategy", "in_cross_replica_context", "partitioners",
]
