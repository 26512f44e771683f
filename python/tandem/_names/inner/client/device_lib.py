"""The devices of this machine, as tensorflow.python.client.device_lib tells them."""

import types


def list_local_devices(session_config=None):
    """The logical devices of this process, as TensorFlow's inner module lists them."""
    from tandem import config

    return [
        types.SimpleNamespace(name=f"/device:{d.device_type}:{d.name.rsplit(':', 1)[-1]}", device_type=d.device_type, memory_limit=0, physical_device_desc=d.name)
        for d in config.list_logical_devices()
    ]
