"""What the process runs on, tf.config."""

import _tandem
from _tandem import (
    LogicalDevice,
    PhysicalDevice,
    get_logical_device_configuration,
    get_soft_device_placement,
    set_soft_device_placement,
)
from tandem._names import missing as _missing
from tandem._tracing.function import functions_run_eagerly, run_functions_eagerly  # noqa: F401


def _device_view(device):
    import html

    return f"<code>{html.escape(str(device))}</code>"


def _pickled(device):
    kind = "logical" if isinstance(device, LogicalDevice) else "physical"
    return _device_named, (kind, device.name)


def _device_named(kind, name):
    devices = list_logical_devices() if kind == "logical" else list_physical_devices()
    for device in devices:
        if device.name == name:
            return device
    raise ValueError(f"this process has no {kind} device {name}: it has {', '.join(d.name for d in devices)}")


LogicalDevice.__reduce__ = PhysicalDevice.__reduce__ = _pickled
LogicalDevice._repr_html_ = PhysicalDevice._repr_html_ = _device_view


def list_physical_devices(device_type=None):
    """The devices of the machine, all or of one kind; none is touched."""
    return _tandem.list_physical_devices(device_type or "")


def list_logical_devices(device_type=None):
    """The devices that programs use, all or of one kind."""
    return _tandem.list_logical_devices(device_type or "")


def get_visible_devices(device_type=None):
    """The physical devices that logical ones are made of."""
    return _tandem.get_visible_devices(device_type or "")


def set_visible_devices(devices, device_type=None):
    """Chooses the physical devices that logical ones are made of."""
    if devices is None:
        devices = []
    if isinstance(devices, PhysicalDevice):
        devices = [devices]
    if [str(d) for d in devices] == [str(d) for d in get_visible_devices(device_type)]:
        return  # Nothing changes, so devices may be in use.
    _tandem.set_visible_devices(list(devices), device_type or "")


class LogicalDeviceConfiguration:
    """How a logical device is cut from a physical one. The limit is in MB, as in TensorFlow."""

    def __init__(self, memory_limit=None, experimental_priority=None, experimental_device_ordinal=None, threads=0):
        self.memory_limit = memory_limit
        self.threads = threads

    def __repr__(self):
        return f"LogicalDeviceConfiguration(memory_limit={self.memory_limit})"


def set_logical_device_configuration(device, logical_devices):
    """Cuts a physical device into logical ones, before it is first used."""
    parts = [(p.threads, int((p.memory_limit or 0) * 2**20)) for p in logical_devices]
    _tandem.set_logical_device_configuration(device, parts)


def set_memory_growth(device, enable):
    """Chooses whether a device takes memory as it needs it."""
    _tandem.set_memory_growth(device, enable)


def get_memory_growth(device):
    """Whether a device takes memory as it needs it."""
    return _tandem.get_memory_growth(device)


def set_log_device_placement(enabled):
    """Says where each op runs, in the log."""
    _tandem.set_log_device_placement(enabled)


class threading:
    """The numbers of threads are those of the logical devices here; these are remembered and change nothing."""

    _inter, _intra = 0, 0

    @classmethod
    def set_intra_op_parallelism_threads(cls, num_threads):
        """Remembers a number."""
        cls._intra = num_threads

    @classmethod
    def set_inter_op_parallelism_threads(cls, num_threads):
        """Remembers a number."""
        cls._inter = num_threads

    @classmethod
    def get_intra_op_parallelism_threads(cls):
        """The number that was remembered."""
        return cls._intra

    @classmethod
    def get_inter_op_parallelism_threads(cls):
        """The number that was remembered."""
        return cls._inter


class optimizer:
    """Programs are always optimised."""

    @staticmethod
    def set_jit(enabled):
        """Accepted: functions are always compiled."""

    @staticmethod
    def get_jit():
        """What set_jit was given."""
        return ""

    @staticmethod
    def set_experimental_options(options):
        """Remembers options of TensorFlow's graph optimizer, which mean nothing here."""
        _optimizer_options.update(options)

    @staticmethod
    def get_experimental_options():
        """The options that were remembered."""
        return {**_optimizer_options, "disable_model_pruning": False, "disable_meta_optimizer": False, **_optimizer_options}


_optimizer_options: dict = {}


class experimental(metaclass=_missing.Namespace):
    """Names that are experimental in tf.config."""

    VirtualDeviceConfiguration = LogicalDeviceConfiguration
    list_physical_devices = staticmethod(list_physical_devices)
    list_logical_devices = staticmethod(list_logical_devices)
    set_visible_devices = staticmethod(set_visible_devices)
    get_visible_devices = staticmethod(get_visible_devices)
    set_memory_growth = staticmethod(set_memory_growth)
    get_memory_growth = staticmethod(get_memory_growth)
    set_virtual_device_configuration = staticmethod(set_logical_device_configuration)
    get_virtual_device_configuration = staticmethod(get_logical_device_configuration)

    @staticmethod
    def get_memory_info(device):
        return _tandem.get_memory_info(device)

    @staticmethod
    def reset_memory_stats(device):
        _tandem.reset_memory_stats(device)

    @staticmethod
    def enable_op_determinism():
        _tandem.enable_op_determinism()

    @staticmethod
    def enable_tensor_float_32_execution(enabled):
        pass

    @staticmethod
    def get_device_details(device):
        return {"device_name": device.hardware}

    @staticmethod
    def set_synchronous_execution(enable):
        pass


def experimental_run_functions_eagerly(run_eagerly):
    """As run_functions_eagerly."""
    run_functions_eagerly(run_eagerly)


def experimental_functions_run_eagerly():
    """As functions_run_eagerly."""
    return functions_run_eagerly()


def enable_op_determinism():
    """Makes results the same bit for bit, for any number of replicas."""
    _tandem.enable_op_determinism()


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "LogicalDevice", "LogicalDeviceConfiguration", "PhysicalDevice", "enable_op_determinism", "experimental",
    "experimental_functions_run_eagerly", "experimental_run_functions_eagerly", "functions_run_eagerly", "get_logical_device_configuration",
    "get_memory_growth", "get_soft_device_placement", "get_visible_devices", "list_logical_devices", "list_physical_devices", "optimizer",
    "run_functions_eagerly", "set_log_device_placement", "set_logical_device_configuration", "set_memory_growth",
    "set_soft_device_placement", "set_visible_devices", "threading",
]
