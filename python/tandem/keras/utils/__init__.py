"""Small things around models, keras.utils."""

import itertools
import sys

import numpy as np

import _tandem
from tandem._names import missing as _missing
from tandem.keras._adapter import pack_x_y_sample_weight, unpack_x_y_sample_weight  # noqa: F401
from tandem.keras.saving import (  # noqa: F401
    CustomObjectScope, custom_object_scope, deserialize_keras_object, get_custom_objects, get_registered_name,
    get_registered_object, register_keras_serializable, serialize_keras_object,
)
from tandem.keras.utils._folders import audio_dataset_from_directory, image_dataset_from_directory, text_dataset_from_directory  # noqa: F401
from tandem.keras.utils._get_file import get_file  # noqa: F401
from tandem.keras.utils._plot import model_to_dot, plot_model  # noqa: F401


def standardize_dtype(dtype):
    """The name of a dtype, Keras's floatx where there is none."""
    from tandem.keras.backend import standardize_dtype as own

    return own(dtype)


def get_source_inputs(tensor):
    """The inputs that a described tensor is computed of."""
    found, seen, waiting = [], set(), [tensor]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current._node is None or not current._node.inputs:
            found.append(current)
        else:
            waiting += current._node.inputs
    return found


def to_categorical(x, num_classes=None):
    """Classes as one-hot rows."""
    if isinstance(x, _tandem.Tensor):
        if num_classes is None:
            num_classes = int(_tandem.reduce_max(x, None, False)) + 1
        return _tandem.one_hot(_tandem.cast(x, 5), int(num_classes), 1.0, 0.0, 0)
    x = np.array(x, dtype="int64")
    shape = x.shape
    if shape and shape[-1] == 1 and len(shape) > 1:
        shape = shape[:-1]
    x = x.reshape(-1)
    num_classes = int(num_classes or np.max(x) + 1)
    result = np.zeros((len(x), num_classes))
    result[np.arange(len(x)), x] = 1
    return result.reshape(shape + (num_classes,))


def normalize(x, axis=-1, order=2):
    """An array, divided by its norm along an axis."""
    norm = np.atleast_1d(np.linalg.norm(x, order, axis))
    norm[norm == 0] = 1
    return x / np.expand_dims(norm, axis)


def set_random_seed(seed):
    """Seeds Python's, NumPy's and the library's random numbers."""
    import random

    from tandem.keras.random import seeds_begin_anew
    from tandem.random import set_seed

    random.seed(seed)
    np.random.seed(seed)
    set_seed(seed)
    seeds_begin_anew()


class PyDataset:
    """Batches by their numbers."""

    def __init__(self, workers=1, use_multiprocessing=False, max_queue_size=10):
        self.workers, self.use_multiprocessing, self.max_queue_size = workers, use_multiprocessing, max_queue_size

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        return self.num_batches

    @property
    def num_batches(self):
        """The number of batches, or None."""
        raise NotImplementedError

    def on_epoch_begin(self):
        """Called before each epoch."""

    def on_epoch_end(self):
        """Called after each epoch."""

    def __iter__(self):
        return (self[i] for i in range(len(self)))


Sequence = PyDataset


class Progbar:
    """A bar of one's own loop."""

    def __init__(self, target, width=20, verbose=1, interval=0.05, stateful_metrics=None, stateless_metrics=None, unit_name="step"):
        self.target, self.verbose, self._values, self._seen = target, verbose, {}, 0

    def update(self, current, values=None, finalize=None):
        """Shows that so many steps are done."""
        import time

        from tandem.keras.callbacks.progress import _bar_text, _formatted

        self._started = getattr(self, "_started", time.time())
        step = current - self._seen
        for name, value in values or ():
            total, count = self._values.get(name, (0.0, 0))
            self._values[name] = (total + float(value) * max(step, 1), count + max(step, 1))
        self._seen = current
        done = finalize if finalize is not None else self.target is not None and current >= self.target
        if self.verbose:
            logs = {k: t / c for k, (t, c) in self._values.items()}
            print(f"\r{_bar_text(current, self.target)}{_formatted(logs)}", end="\n" if done else "", flush=True)

    def add(self, n, values=None):
        """Shows that so many more steps are done."""
        self.update(self._seen + n, values)


def _shuffled_nearby(values, size, seed):
    """The values in the order in which a buffer of a size gives them that is filled up again after each."""
    source, buffer, result = np.random.default_rng(seed), list(values[:size]), []
    for each in [*values[size:], *[None] * len(buffer)]:
        place = source.integers(len(buffer))
        result.append(buffer[place])
        buffer[place] = each if each is not None else buffer[-1]
        if each is None:
            buffer.pop()
    return np.array(result, dtype=values.dtype)


def timeseries_dataset_from_array(data, targets, sequence_length, sequence_stride=1, sampling_rate=1, batch_size=128, shuffle=False, seed=None, start_index=None, end_index=None, format="tf"):  # noqa: A002
    """Windows of a series, with the target of each."""
    from tandem.data import Dataset

    if format != "tf":
        raise ValueError(f"format {format!r}; 'tf' is accepted, which gives a data set")
    data = np.asarray(data)
    start, end = start_index or 0, end_index if end_index is not None else len(data)
    last = end - sequence_length * sampling_rate + sampling_rate if targets is None else min(end - (sequence_length - 1) * sampling_rate, start + len(targets))
    if targets is not None:
        last = min(last, start + len(targets))
    starts = np.arange(start, last, sequence_stride)
    if shuffle:
        seed = np.random.randint(1e6) if seed is None else seed
        np.random.RandomState(seed).shuffle(starts)
    steps = np.arange(sequence_length) * sampling_rate
    targets = None if targets is None else np.asarray(targets)[start:end]
    passes = itertools.count()

    def generate():
        order = _shuffled_nearby(starts, 8 * batch_size if batch_size else 1024, [seed, next(passes)]) if shuffle else starts
        for i in range(0, len(order), batch_size or 1):
            chosen = order[i : i + (batch_size or 1)]
            windows = data[chosen[:, None] + steps[None]]
            if batch_size is None:
                windows = windows[0]
            if targets is None:
                yield _tandem.convert(windows)
            else:
                own = targets[chosen - start]
                yield _tandem.convert(windows), _tandem.convert(own if batch_size is not None else own[0])

    return Dataset(generate=generate, count=-(-len(starts) // (batch_size or 1)))


def split_dataset(dataset, left_size=None, right_size=None, shuffle=False, seed=None, preferred_backend=None):
    """Two data sets of the parts of one."""
    from tandem.data import Dataset
    from tandem.data._structure import _of_values

    values = list(dataset) if isinstance(dataset, Dataset) else [tuple(np.asarray(a)[i] for a in dataset) if isinstance(dataset, (tuple, list)) else dataset[i] for i in range(len(dataset[0] if isinstance(dataset, (tuple, list)) else dataset))]
    if shuffle:
        np.random.RandomState(seed).shuffle(values)
    n = len(values)
    part = lambda s: int(s * n) if isinstance(s, float) else s  # noqa: E731
    left = part(left_size) if left_size is not None else n - part(right_size)
    return _of_values(values[:left]), _of_values(values[left : left + (part(right_size) if right_size is not None else n)])


def load_img(path, color_mode="rgb", target_size=None, interpolation="nearest", keep_aspect_ratio=False, grayscale=False):
    """The image of a file, as Pillow's."""
    from PIL import Image

    image = Image.open(path).convert({"rgb": "RGB", "grayscale": "L", "rgba": "RGBA"}["grayscale" if grayscale else color_mode])
    return image if target_size is None else image.resize((target_size[1], target_size[0]), getattr(Image, interpolation.upper(), Image.NEAREST))


def img_to_array(img, data_format=None, dtype=None):
    """An image of Pillow's as an array."""
    array = np.asarray(img, dtype or "float32")
    array = array[..., None] if array.ndim == 2 else array
    return array.transpose(2, 0, 1) if _is_first(data_format) else array


def _is_first(data_format):
    from tandem.keras.layers._formats import format_of

    return format_of(data_format) == "channels_first"


def array_to_img(x, data_format=None, scale=True, dtype=None):
    """An array as an image of Pillow's."""
    from PIL import Image

    x = np.asarray(x, np.float32)
    x = x.transpose(1, 2, 0) if _is_first(data_format) else x
    if scale:
        x = x - x.min()
        x = x / max(x.max(), 1e-12) * 255
    x = x.astype(np.uint8)
    return Image.fromarray(x[..., 0] if x.shape[-1] == 1 else x)


def save_img(path, x, data_format=None, file_format=None, scale=True, **kwargs):
    """Writes an array to a file of an image."""
    array_to_img(x, data_format, scale).save(path, format=file_format)


def pad_sequences(sequences, maxlen=None, dtype="int32", padding="pre", truncating="pre", value=0.0):
    """Sequences as one array, filled up or cut to one length."""
    sequences = [list(s) for s in sequences]
    maxlen = maxlen or max((len(s) for s in sequences), default=0)
    shape = np.asarray(sequences[0]).shape[1:] if sequences and sequences[0] else ()
    result = np.full((len(sequences), maxlen) + shape, value, dtype=dtype)
    for row, s in zip(result, sequences):
        if not s:
            continue
        s = s[-maxlen:] if truncating == "pre" else s[:maxlen]
        if padding == "pre":
            row[-len(s) :] = s
        else:
            row[: len(s)] = s
    return result


def is_keras_tensor(x):
    """True for what stands for a tensor of a described model."""
    from tandem.keras._symbolic import KerasTensor

    return isinstance(x, KerasTensor)


def clear_session(free_memory=True):
    """Lets automatic names begin at the beginning."""
    from tandem.keras.backend import clear_session as clear

    clear()


def is_interactive_logging_enabled():
    """True if fit shows a bar."""
    return True


def disable_interactive_logging():
    """Lets fit print plain lines instead of a bar."""


def enable_interactive_logging():
    """Lets fit show a bar."""


def __getattr__(name):
    if name == "FeatureSpace":
        from tandem.keras.utils._feature_space import FeatureSpace

        return FeatureSpace
    if name == "experimental":
        from tandem.keras.utils import _experimental

        return _experimental
    if name in _missing.OLD_MODULES["utils"]:
        return sys.modules[__name__]
    raise _missing.missing("keras.utils", name, sys.modules[__name__])

__all__ = [  # Written by scripts/exported-names.py.
    "CustomObjectScope", "Progbar", "PyDataset", "Sequence", "array_to_img", "audio_dataset_from_directory", "clear_session",
    "custom_object_scope", "deserialize_keras_object", "disable_interactive_logging", "enable_interactive_logging", "get_custom_objects",
    "get_file", "get_registered_name", "get_registered_object", "get_source_inputs", "image_dataset_from_directory", "img_to_array",
    "is_interactive_logging_enabled", "is_keras_tensor", "load_img", "model_to_dot", "normalize", "pack_x_y_sample_weight", "pad_sequences",
    "plot_model", "register_keras_serializable", "save_img", "serialize_keras_object", "set_random_seed", "split_dataset",
    "standardize_dtype", "text_dataset_from_directory", "timeseries_dataset_from_array", "to_categorical", "unpack_x_y_sample_weight",
]
