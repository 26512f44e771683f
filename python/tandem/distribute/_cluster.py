"""Which processes there are, and which of them this is."""

import json
import os

import _tandem


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


_own_servers = set()  # The addresses of servers that this process has made.
_own_task = None  # What this process is, where it runs the chief's part of a program for it.


class ServesChief(BaseException):
    """A task of a cluster only wants to serve. Here all tasks run the chief's part of a program: see serve()."""


def serve():
    """From here on the program sees a chief, whose part the library does as the task that this process is."""
    global _own_task
    _own_task = _tandem.tf_config()
    os.environ["TF_CONFIG"] = json.dumps({"cluster": _own_task[0], "task": {"type": "chief", "index": 0}})


def task_of(resolver):
    """The cluster's tasks and which of them this process is; None where the library is to look itself."""
    if _own_task is not None:
        return _own_task
    if isinstance(resolver, TFConfigClusterResolver):
        return None, "chief", 0
    spec = resolver.cluster_spec().as_dict()
    return spec or None, resolver.task_type or "chief", resolver.task_id or 0


def are_here(addresses):
    """Whether this process has made the servers at all these addresses itself."""
    return bool(addresses) and _own_servers.issuperset(addresses)


class Server:
    """A task of a cluster. Those that one process makes for itself are threads of it."""

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None, config=None, start=True):
        from tandem.train import ClusterSpec

        self._address = ClusterSpec(server_or_cluster_def).task_address(job_name or "worker", task_index or 0)
        if start:
            self.start()

    @property
    def target(self):
        return f"grpc://{self._address}"

    def start(self):
        _own_servers.add(self._address)

    def join(self):
        raise ServesChief(
            "tf.distribute.Server.join: here all tasks of a cluster run the chief's part of the program. Start it by "
            "python -m tandem run, or leave Server out and have all tasks make a ParameterServerStrategy"
        )
