"""The strategies in which replicas train in step."""

import _tandem
from tandem.distribute._cluster import TFConfigClusterResolver
from tandem.distribute._strategy import Strategy


def _device_names(devices):
    if devices is None:
        return []
    return [d if isinstance(d, str) else d.name for d in devices]


_SHARDS = (None, "state", "gradients", "variables")  # By the library's numbers.


def shard_code(shard):
    """The library's number for what replicas keep in parts."""
    if shard not in _SHARDS:
        raise ValueError(f"shard={shard!r}; what replicas keep in parts is None, 'state', 'gradients' or 'variables'")
    return _SHARDS.index(shard)


def microbatch_count(microbatches):
    """The library's number for a number of micro-batches, or for "automatic"."""
    return _tandem.AUTOMATIC_MICROBATCHES if microbatches == "automatic" else int(microbatches)


def layer_names(layers):
    """The names of the layers of each stage, which may be given themselves."""
    return [[getattr(each, "name", each) for each in stage] for stage in layers or ()]


class MirroredStrategy(Strategy):
    """Synchronous training on the devices of one machine; with `shard` replicas keep parts of "state" (optimizers' slots),
    "gradients" (sums of them, too) or "variables" (and these)."""

    def __init__(self, devices=None, cross_device_ops=None, reproducible_shards=None, shard=None):
        if cross_device_ops is not None and not isinstance(cross_device_ops, CrossDeviceOps):
            raise ValueError(f"cross_device_ops is {cross_device_ops!r}; ReductionToOneDevice, NcclAllReduce and HierarchicalCopyAllReduce are accepted")
        reduction = 0 if cross_device_ops is None else cross_device_ops._reduction
        super().__init__(_tandem.mirrored_strategy(_device_names(devices), reproducible_shards, reduction, shard_code(shard)))
        self._has_variables_in_parts = shard == "variables"


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
    """Sums over all replicas at once; named after the library that does so on NVIDIA's GPUs."""


class HierarchicalCopyAllReduce(_AllReduce):
    """Sums within groups of devices first."""


class PipelineStrategy(Strategy):
    """Some layers of a model on each device; batches go through them in micro-batches. TensorFlow has none.

    `stages` of 0 is one for each device. `microbatches` may be "automatic": as few as the device's memory allows.
    `schedule` is "gpipe", "1f1b" or "interleaved" (with `chunks` of the model on each stage). `replicas` pipelines stand
    side by side. `layers` names the layers of each stage; without them stages are searched for."""

    _has_one_state = True

    def __init__(self, stages=0, microbatches=1, schedule="1f1b", chunks=1, replicas=1, devices=None, layers=None):
        count = microbatch_count(microbatches)
        super().__init__(_tandem.pipeline_strategy(int(stages), count, schedule, int(chunks), int(replicas), _device_names(devices), layer_names(layers)))


class _Missing:
    """A strategy that the library does not have."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(
            f"tandem.distribute.{type(self).__name__} does not exist here; MirroredStrategy trains on the devices of one machine"
        )


class TPUStrategy(_Missing):
    """There are no TPUs here: says so."""


class TPUClusterResolver:
    """There are no TPUs here: says so with the error by which programs that look for one find that there is none."""

    def __init__(self, tpu=None, zone=None, project=None, **kwargs):
        raise ValueError("Please provide a TPU Name to connect to: tandem finds no TPUs; MirroredStrategy trains on the CPUs and GPUs of this machine")

    connect = classmethod(lambda cls, tpu=None, zone=None, project=None: cls(tpu, zone, project))


class MultiWorkerMirroredStrategy(Strategy):
    """Synchronous training in several processes, those that TF_CONFIG, a launcher or the resolver names; alone without.
    `shard` as for MirroredStrategy, over all processes."""

    def __init__(self, cluster_resolver=None, communication_options=None, reproducible_shards=None, shard=None):
        timeout = getattr(communication_options, "timeout_seconds", None) or 0.0
        bucket = int(getattr(communication_options, "bytes_per_pack", 0) or 0)
        given = cluster_resolver is not None and not isinstance(cluster_resolver, TFConfigClusterResolver)
        self.cluster_resolver = cluster_resolver if cluster_resolver is not None else TFConfigClusterResolver()
        addresses = self.cluster_resolver.cluster_spec().as_dict() if given else None
        super().__init__(_tandem.multi_worker_mirrored_strategy(addresses or None, self.cluster_resolver.task_type or "worker", self.cluster_resolver.task_id or 0, reproducible_shards, float(timeout), bucket, shard_code(shard)))
        self._has_variables_in_parts = shard == "variables"
