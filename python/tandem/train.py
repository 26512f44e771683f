"""Checkpoints, tf.train."""

import os

import _tandem
from tandem._tensors.tracking import AutoTrackable, node_of, sync
from tandem._tensors.variable import Variable  # noqa: F401


class CheckpointStatus:
    """What a restore found and did not find."""

    def __init__(self, status):
        self._status = status

    def assert_consumed(self):
        """Raises unless all that the checkpoint has was restored."""
        self._checked(self._status.assert_consumed)
        return self

    def assert_existing_objects_matched(self):
        """Raises unless all variables were restored."""
        self._checked(self._status.assert_existing_objects_matched)
        return self

    def _checked(self, check):
        try:
            check()
        except RuntimeError as error:
            raise AssertionError(str(error)) from None

    def assert_nontrivial_match(self):
        """Raises unless anything was restored."""
        return self

    def expect_partial(self):
        """Says nothing of what was not restored."""
        self._status.expect_partial()
        return self

    def initialize_or_restore(self, session=None):
        """Does nothing: variables have values here."""
        return self

    run_restore_ops = initialize_or_restore


class Checkpoint(AutoTrackable):
    """Saves and restores objects, in TensorFlow's own format."""

    def __init__(self, root=None, **kwargs):
        if root is not None:
            node = node_of(root)
            self.__dict__["_tandem_node"] = node
            self.__dict__["_root"] = root
        for name, value in kwargs.items():
            setattr(self, name, value)
        if root is None:
            node_of(self)
        self.__dict__["_checkpoint"] = _tandem.Checkpoint(node_of(self))

    def _sync(self):
        sync(self.__dict__.get("_root", self))
        sync(self)

    @property
    def save_counter(self):
        """How many times it was saved, as a variable."""
        return _tandem.convert(self._checkpoint.save_counter(), 6)

    def save(self, file_prefix, options=None):
        """Writes all that is tracked to files whose names have a number; returns their prefix."""
        self._sync()
        return self._checkpoint.save(os.fspath(file_prefix))

    def write(self, file_prefix, options=None):
        """Writes all that is tracked to files of this name; returns their prefix."""
        self._sync()
        self._checkpoint.write(os.fspath(file_prefix))
        return os.fspath(file_prefix)

    def restore(self, save_path, options=None):
        """Reads what was saved; what is made later is restored when it is made."""
        self._sync()
        if save_path is not None:
            save_path = os.fspath(save_path)
            if os.path.isdir(save_path):
                save_path = latest_checkpoint(save_path)
        return CheckpointStatus(self._checkpoint.restore(save_path))

    read = restore


class CheckpointManager:
    """Saves into one folder and keeps the last few."""

    def __init__(self, checkpoint, directory, max_to_keep=5, keep_checkpoint_every_n_hours=None, checkpoint_name="ckpt", step_counter=None, checkpoint_interval=None, init_fn=None):
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._init_fn = init_fn
        self._name = checkpoint_name
        self._step_counter, self._interval, self._last = step_counter, checkpoint_interval, None
        os.makedirs(self._directory, exist_ok=True)
        self._native = _tandem.CheckpointManager(checkpoint._checkpoint, self._directory, 2**30 if max_to_keep is None else max_to_keep, checkpoint_name)

    checkpoint = property(lambda self: self._checkpoint)
    directory = property(lambda self: self._directory)

    @property
    def checkpoints(self):
        """The prefixes of the checkpoints that are kept, the newest last."""
        return self._native.checkpoints()

    @property
    def latest_checkpoint(self):
        """The prefix of the newest checkpoint, or None."""
        kept = self.checkpoints
        return kept[-1] if kept else None

    def save(self, checkpoint_number=None, check_interval=True, options=None):
        """Writes a checkpoint and deletes the oldest beyond max_to_keep."""
        if self._interval is not None and check_interval and self._last is not None:
            if int(self._step_counter) - self._last < self._interval:
                return None
        self._checkpoint._sync()
        path = self._native.save()
        if self._step_counter is not None:
            self._last = int(self._step_counter)
        return path

    def restore_or_initialize(self):
        """Restores the newest checkpoint if there is one."""
        if self.latest_checkpoint is None:
            if self._init_fn is not None:
                self._init_fn()
            return None
        self._checkpoint.restore(self.latest_checkpoint)
        return self.latest_checkpoint


def latest_checkpoint(checkpoint_dir, latest_filename=None):
    """The prefix of the newest checkpoint of a folder, or None."""
    return _tandem.latest_checkpoint(os.fspath(checkpoint_dir))


def load_checkpoint(ckpt_dir_or_file):
    """A reader of the variables of a checkpoint."""
    return CheckpointReader(_tandem.load_checkpoint(os.fspath(ckpt_dir_or_file)))


class CheckpointReader:
    """A checkpoint's tensors by key."""

    def __init__(self, reader):
        self._reader = reader

    def get_tensor(self, name):
        return self._reader.tensor(name).numpy()

    def has_tensor(self, name):
        return name in self._reader.keys()

    def get_variable_to_shape_map(self):
        return {key: list(self._reader.shape(key)) for key in self._reader.keys()}

    def get_variable_to_dtype_map(self):
        from tandem import dtypes

        return {key: dtypes.as_dtype(self._reader.dtype_name(key)) for key in self._reader.keys()}


def list_variables(ckpt_dir_or_file):
    """The names and shapes of the variables of a checkpoint."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file, name):
    """The value of a variable of a checkpoint."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)


class CheckpointOptions:
    """How checkpoints are written; accepted for programs that set it."""

    def __init__(self, *args, **kwargs):
        pass


class ExponentialMovingAverage:
    """Averages of variables that follow them slowly."""

    def __init__(self, decay, num_updates=None, zero_debias=False, name="ExponentialMovingAverage"):
        self._decay, self._averages = decay, {}

    def apply(self, var_list=None):
        for variable in var_list:
            average = self._averages.get(id(variable))
            if average is None:
                self._averages[id(variable)] = Variable(variable.read_value(), trainable=False)
            else:
                average.assign_sub((1 - self._decay) * (average - variable))

    def average(self, var):
        return self._averages.get(id(var))


class CheckpointState:
    """Which checkpoints a folder has."""

    def __init__(self, paths):
        self.all_model_checkpoint_paths = list(paths)
        self.model_checkpoint_path = paths[-1] if paths else ""


def get_checkpoint_state(checkpoint_dir, latest_filename=None):
    """What the folder's file of checkpoints says; None without one."""
    path = os.path.join(checkpoint_dir, latest_filename or "checkpoint")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        found = [line.split('"')[1] for line in file if line.startswith("all_model_checkpoint_paths")]
    return CheckpointState([os.path.join(checkpoint_dir, name) for name in found])


class ClusterSpec:
    """The tasks of each job and their addresses."""

    def __init__(self, cluster):
        if isinstance(cluster, ClusterSpec):
            cluster = cluster._cluster
        self._cluster = {job: list(tasks.values()) if isinstance(tasks, dict) else list(tasks) for job, tasks in dict(cluster).items()}

    def as_dict(self):
        return {job: list(tasks) for job, tasks in self._cluster.items()}

    @property
    def jobs(self):
        return sorted(self._cluster)

    def _tasks(self, job_name):
        if job_name not in self._cluster:
            raise ValueError(f"No such job in cluster: {job_name!r}; there are {self.jobs}")
        return self._cluster[job_name]

    def num_tasks(self, job_name):
        return len(self._tasks(job_name))

    def task_indices(self, job_name):
        return list(range(self.num_tasks(job_name)))

    def task_address(self, job_name, task_index):
        return self._tasks(job_name)[task_index]

    def job_tasks(self, job_name):
        return list(self._tasks(job_name))

    def __bool__(self):
        return bool(self._cluster)

    def __eq__(self, other):
        return isinstance(other, ClusterSpec) and self._cluster == other._cluster

    __hash__ = None

    def __repr__(self):
        return f"ClusterSpec({self._cluster})"


_RECORDS = ("BytesList", "Example", "Feature", "Features", "FloatList", "Int64List")


def __getattr__(name):
    import sys

    if name in _RECORDS:
        from tandem.data import _records

        return getattr(_records, name)
    from tandem._names import missing as _missing

    raise _missing.missing("tandem.train", name, sys.modules[__name__], _RECORDS)
