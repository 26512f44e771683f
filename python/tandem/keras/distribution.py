"""How all models of a program are distributed, keras.distribution: batches cut over devices, weights, or layers."""

import collections.abc
import re

import numpy as np

import _tandem
from tandem.keras import _parts
from tandem._names import missing as _missing

_current = [None, None]  # The distribution, and the scope of its strategy.


def list_devices(device_type=None):
    """The names of the devices, as keras.distribution writes them: "cpu:0"."""
    from tandem import config

    found = config.list_logical_devices(device_type.upper() if device_type else None)
    gpus = [d for d in found if d.device_type == "GPU"]
    return [_short(d.name) for d in (found if device_type or not gpus else gpus)]


def _short(name):
    """A device's name as keras.distribution writes it; one of another process has its whole name."""
    return name if "/task:" in name else name.split("device:")[-1].lower()


def initialize(job_addresses=None, num_processes=None, process_id=None):
    """Joins the processes that train together."""
    raise NotImplementedError("keras.distribution.initialize: start the program by python -m tandem run --workers N, or set TF_CONFIG, and use tf.distribute.MultiWorkerMirroredStrategy")


class DeviceMesh:
    """Devices in a grid whose axes have names; without a list one of each process that the environment names, else the first
    GPUs, else the first logical CPUs."""

    def __init__(self, shape, axis_names, devices=None):
        if not shape or not axis_names:
            raise ValueError(f"Shape and axis_names cannot be empty. Received: shape={shape}, axis_names={axis_names}")
        if len(shape) != len(axis_names):
            raise ValueError(f"Shape and axis_names should have same size. Received: shape={shape}, axis_names={axis_names}")
        if devices is None:
            devices = [_short(name) for name in _tandem.mesh_devices([int(n) for n in shape], list(axis_names))]
        devices = np.asarray(devices)
        if int(np.prod(shape)) != devices.size:
            raise ValueError(f"Shape does not match the number of devices. Received: shape={shape}; devices.shape={devices.shape}")
        self.shape, self.axis_names, self.devices = tuple(int(n) for n in shape), list(axis_names), devices.reshape(shape)

    def __repr__(self):
        return f"<DeviceMesh shape={self.shape}, axis_names={self.axis_names}>"

    def _device_names(self):
        return [each if each.startswith("/") else f"/{each}" for each in self.devices.ravel().tolist()]


class TensorLayout:
    """For each axis of a tensor the axis of a mesh along which it is cut, or None."""

    def __init__(self, axes, device_mesh=None):
        self.axes, self._device_mesh = tuple(axes), device_mesh
        self._check()

    @property
    def device_mesh(self):
        """The mesh whose axes are named."""
        return self._device_mesh

    @device_mesh.setter
    def device_mesh(self, device_mesh):
        if self._device_mesh is not None:
            raise ValueError(f"Cannot override device mesh value. Existing value is {self._device_mesh}")
        self._device_mesh = device_mesh
        self._check()

    def _check(self):
        if self._device_mesh is not None:
            wrong = set(axis for axis in self.axes if axis) - set(self._device_mesh.axis_names)
            if wrong:
                raise ValueError(f"Invalid axis names for Layout. Valid axis names: {self._device_mesh.axis_names}, Got {self.axes}")

    def __repr__(self):
        return f"<TensorLayout axes={self.axes}, device_mesh={self._device_mesh}>"


class LayoutMap(collections.abc.MutableMapping):
    """The layouts of variables by their paths, or by regular expressions that are found in them."""

    def __init__(self, device_mesh):
        self._layouts, self._device_mesh = {}, device_mesh

    @property
    def device_mesh(self):
        """The mesh whose axes the layouts name."""
        return self._device_mesh

    def __getitem__(self, key):
        if key in self._layouts:
            return self._layouts[key]
        found = [pattern for pattern in self._layouts if re.search(pattern, key)]
        if len(found) > 1:
            raise ValueError(f"Path '{key}' matches multiple layout specification keys: {found}. Please make sure each tensor/variable path only matches at most one layout specification key in the LayoutMap.")
        return self._layouts[found[0]] if found else None

    def __setitem__(self, key, layout):
        if key in self._layouts:
            raise ValueError(f"{key} already exist in the LayoutMap with value {self._layouts[key]}. Please make sure to not use duplicated keys.")
        if isinstance(layout, (tuple, list)):
            layout = TensorLayout(layout)
        if not isinstance(layout, TensorLayout):
            raise ValueError(f"{layout} should be a TensorLayout type, got {type(layout)}")
        if layout.device_mesh is None:
            layout.device_mesh = self._device_mesh
        self._layouts[key] = layout

    def __delitem__(self, key):
        del self._layouts[key]

    def __len__(self):
        return len(self._layouts)

    def __iter__(self):
        return iter(self._layouts)


class Distribution:
    """What models are made for between set_distribution() and the next."""

    def __init__(self, device_mesh, batch_dim_name, strategy):
        self.device_mesh, self.batch_dim_name, self._strategy = device_mesh, batch_dim_name, strategy

    def scope(self):
        """A scope in which models are distributed so."""
        return self._strategy.scope()

    @property
    def strategy(self):
        """The strategy, for loops of one's own."""
        return self._strategy

    def distribute_dataset(self, dataset):
        """The data set with each batch cut over the devices."""
        return self._strategy.experimental_distribute_dataset(dataset)

    def explain(self):
        """The mesh, who holds what and how values meet, for people."""
        return self._strategy.explain()


class DataParallel(Distribution):
    """Each device has all weights and a part of each batch."""

    def __init__(self, device_mesh=None, devices=None, auto_shard_dataset=True):
        from tandem.distribute import MirroredStrategy

        if device_mesh is not None and len([n for n in device_mesh.shape if n > 1]) > 1:
            raise ValueError(f"DataParallel takes a mesh of one axis; this one is {device_mesh.shape}")
        if device_mesh is None:
            chosen = list_devices() if devices is None else list(devices)
            device_mesh = DeviceMesh((len(chosen),), ["batch"], chosen)
        super().__init__(device_mesh, device_mesh.axis_names[0], MirroredStrategy(device_mesh._device_names()))


class ModelParallel(Distribution):
    """Weights cut along an axis of a mesh as a layout map says, batches along another, and along an axis "stage" the layers.

    Dense computes by columns or rows, MultiHeadAttention by heads and Embedding by its rows; other layers join a weight where
    they read it. `microbatches`, `schedule`, `chunks` and `layers` are those of tf.distribute.PipelineStrategy, for a mesh with
    stages, and `shard` that of MirroredStrategy, for what no layout cuts; with stages the devices of each keep parts."""

    def __init__(self, *, layout_map=None, batch_dim_name=None, auto_shard_dataset=True, microbatches=None, schedule="1f1b", chunks=1, layers=None, shard=None):
        from tandem.distribute._strategies import layer_names, microbatch_count, shard_code
        from tandem.distribute._strategy import Strategy

        if layout_map is None:
            raise ValueError("You must specify a layout_map argument.")
        if not isinstance(layout_map, LayoutMap):
            raise ValueError(f"Argument `layout_map` must be a `LayoutMap` instance. Received: layout_map={layout_map}")
        mesh = layout_map.device_mesh
        batch = batch_dim_name or mesh.axis_names[0]
        # A layout of what a layer returns is a hint to a compiler in Keras; here forms of layers decide. Along the batch's axis
        # weights are whole.
        layouts = [(key, [axis if axis and axis != batch else "" for axis in layout.axes]) for key, layout in layout_map.items()]
        has_stages = "stage" in mesh.axis_names
        options = (_tandem.DEFAULT_MICROBATCHES if microbatches is None else microbatch_count(microbatches), schedule, int(chunks), layer_names(layers), shard_code(shard))
        native = _tandem.model_parallel(mesh.shape, mesh.axis_names, mesh._device_names(), layouts, batch, *options)
        strategy = Strategy(native)
        strategy._model_parts = int(np.prod([n for name, n in zip(mesh.axis_names, mesh.shape) if name not in (batch, "stage")]))
        strategy._has_variables_in_parts = shard == "variables"
        strategy._has_one_state = has_stages or microbatches is not None
        super().__init__(mesh, batch, strategy)
        self.layout_map = layout_map
        _parts.in_use = True


def distribute_tensor(tensor, layout):
    """The tensor: where a value lies is decided by the layers that compute with it."""
    return tensor


def get_device_count(device_type=None):
    """How many devices there are of a type."""
    return len(list_devices(device_type))


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
