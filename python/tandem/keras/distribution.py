"""How all models of a program are distributed, keras.distribution: data parallelism, as MirroredStrategy has it."""

import numpy as np

from tandem._names import missing as _missing

_current = [None, None]  # The distribution, and the scope of its strategy.


def list_devices(device_type=None):
    """The names of the devices, as keras.distribution writes them: "cpu:0"."""
    from tandem import config

    found = config.list_logical_devices(device_type.upper() if device_type else None)
    gpus = [d for d in found if d.device_type == "GPU"]
    return [d.name.split("device:")[-1].lower() for d in (found if device_type or not gpus else gpus)]


def initialize(job_addresses=None, num_processes=None, process_id=None):
    """Joins the processes that train together."""
    raise NotImplementedError("keras.distribution.initialize: start the program by python -m tandem run --workers N, or set TF_CONFIG, and use tf.distribute.MultiWorkerMirroredStrategy")


class DeviceMesh:
    """Devices by the names of axes."""

    def __init__(self, shape, axis_names, devices=None):
        self.devices = np.asarray(list_devices() if devices is None else devices).reshape(shape)
        self.axis_names, self.shape = list(axis_names), tuple(shape)
        if len(self.axis_names) != len(self.shape):
            raise ValueError(f"shape and axis_names should have same size. Received: shape={shape}, axis_names={axis_names}")


class DataParallel:
    """Each device has all weights and a part of each batch."""

    def __init__(self, device_mesh=None, devices=None, auto_shard_dataset=True):
        from tandem.distribute import MirroredStrategy

        if device_mesh is not None and len([n for n in device_mesh.shape if n > 1]) > 1:
            raise ValueError(f"DataParallel takes a mesh of one axis; this one is {device_mesh.shape}")
        chosen = device_mesh.devices.ravel().tolist() if device_mesh is not None else list(devices) if devices is not None else list_devices()
        self.device_mesh = device_mesh if device_mesh is not None else DeviceMesh((len(chosen),), ["batch"], chosen)
        self.batch_dim_name = self.device_mesh.axis_names[0]
        self._strategy = MirroredStrategy([f"/{d}" if not d.startswith("/") else d for d in chosen])

    def scope(self):
        return self._strategy.scope()


class ModelParallel:
    """The C++ library has it; here it says so."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("keras.distribution.ModelParallel: in C++ keras::distribution has it; here DataParallel")


def set_distribution(value):
    """All models that are made from now on train so; None ends that."""
    if _current[1] is not None:
        _current[1].__exit__(None, None, None)
    scope = value.scope() if value is not None else None
    if scope is not None:
        scope.__enter__()
    _current[:] = [value, scope]


def distribution():
    """The distribution that was set, or None."""
    return _current[0]


_missing.install(__name__, globals())
