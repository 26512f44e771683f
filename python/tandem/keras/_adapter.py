"""What fit, evaluate and predict are given, as batches: arrays, lists, dictionaries, data sets, generators, frames."""

import numpy as np

import _tandem
from tandem import _ops, dtypes, nest
from tandem._tensors.tensor import Tensor
from tandem.data import Dataset
from tandem.keras import config


def unpack_x_y_sample_weight(data):
    """A batch as (x, y, sample_weight), with None for what it has not."""
    if isinstance(data, list):
        data = tuple(data)
    if not isinstance(data, tuple):
        return data, None, None
    if len(data) == 1:
        return data[0], None, None
    if len(data) == 2:
        return data[0], data[1], None
    if len(data) == 3:
        return data
    raise ValueError(f"Data is expected to be in format `x`, `(x,)`, `(x, y)`, or `(x, y, sample_weight)`, found: {type(data)} of length {len(data)}")


def pack_x_y_sample_weight(x, y=None, sample_weight=None):
    """x, y and sample_weight as a tuple without the Nones at its end."""
    if y is None:
        return (x,) if nest.is_nested(x) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def unpack_validation(data):
    """validation_data as (x, y, sample_weight)."""
    if isinstance(data, (Dataset,)) or hasattr(data, "__next__") or hasattr(data, "__getitem__") and not isinstance(data, (tuple, list, dict, np.ndarray)):
        return data, None, None
    if isinstance(data, (tuple, list)):
        data = tuple(data)
        return data + (None,) * (3 - len(data))
    return data, None, None


def _array(value):
    """An array of a type that tensors have, float64 as float32 (Keras's floatx)."""
    if isinstance(value, Tensor):
        return _tandem.cast(value, 0) if value._code == 1 else value
    if isinstance(value, _tandem.Variable):
        return _array(value.read_value())
    if getattr(value, "_is_text_tensor", False) or hasattr(value, "_ragged_rows"):
        return value
    if hasattr(value, "_is_sparse"):
        return _array(_tandem.convert(value))  # Layers take the whole tensor.
    if type(value).__module__.startswith("pandas"):
        value = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
        if value.dtype == object:
            try:
                value = value.astype(np.float32)
            except (TypeError, ValueError):
                pass  # Texts.
    if hasattr(value, "toarray"):
        value = value.toarray()
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.dtype == np.float64 or array.dtype == np.float16:
        array = array.astype(np.float32)
    elif array.dtype.kind in "iu" and array.dtype not in (np.uint8, np.int32, np.int64):
        array = array.astype(np.int32)
    elif array.dtype.kind in "USO":
        from tandem._ops import constant

        return constant(array)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.ndim and array.size and array.dtype in (np.float32, np.uint8, np.int32, np.int64, np.bool_):
        return _tandem.wrap(array)
    return _tandem.convert(array)


def _is_array_like(value):
    return isinstance(value, (Tensor, _tandem.Variable, np.ndarray)) or type(value).__module__.startswith("pandas") or hasattr(value, "__array__") or getattr(value, "_is_text_tensor", False) or hasattr(value, "toarray") or hasattr(value, "_ragged_rows") or hasattr(value, "_is_sparse")


def _rank(value):
    return len(value.shape) if hasattr(value, "shape") else np.ndim(value)


def _arrays(value):
    """The arrays of an argument: a list of numbers is one array, a list of arrays several inputs."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {k: _arrays(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(_is_array_like(v) for v in value) and not all(_rank(v) == 0 for v in value):
            return tuple(_array(v) for v in value)
        return _array(np.asarray(value))
    return _array(value)


def _as_columns(value):
    """Columns of pandas frames are tables of one column, as in Keras."""
    if isinstance(value, dict):
        return {k: _as_columns(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and value and all(_is_array_like(v) for v in value):
        return [_as_columns(v) for v in value]
    return value.to_frame() if type(value).__module__.startswith("pandas") and hasattr(value, "to_frame") and not hasattr(value, "columns") else value


def split_off(data, fraction):
    """The last part of the samples, to validate on."""
    x, y, sample_weight = (_arrays(d) for d in (_as_columns(data[0]), *data[1:]))
    rows = int(nest.flatten(x)[0]._sizes[0])
    at = int(np.floor(rows * (1.0 - fraction)))
    if at == 0 or at == rows:
        raise ValueError(f"Training data contains {rows} samples, which is not sufficient to split it into a validation and training set as specified by `validation_split={fraction}`.")

    def part(value, low, high):
        if value is None:
            return None
        cut = lambda t: t._rows(low, high)  # noqa: E731
        return nest.map_structure(cut, value) if nest.is_nested(value) else cut(value)

    return tuple(part(d, 0, at) for d in (x, y, sample_weight)), tuple(part(d, at, rows) for d in (x, y, sample_weight))


class Batches:
    """The batches of an epoch, again and again."""

    def __init__(self, x, y, sample_weight, batch_size, steps, shuffle, class_weight, model, is_predict=False):
        self._limit = None if steps is None else int(steps)
        self._most = config.max_steps_per_epoch()
        self._class_weight = None if not class_weight else {int(k): v for k, v in class_weight.items()}
        self._going = None
        self._kept = None
        self.seen = None
        self._make = None
        self._dataset = None
        self.no_rows = None  # The arrays, where they have no rows: what there is to be seen of their kind.
        self._is_evaluated = False
        self.are_even = False  # Whether it is known before that all batches have the same number of rows.
        from tandem.distribute import DistributedDataset, InputContext
        from tandem.keras.utils._experimental import DatasetCreator

        if isinstance(x, DatasetCreator):
            if steps is None:
                raise ValueError("When using a `DatasetCreator`, the number of steps is given: `steps_per_epoch`, `validation_steps` or `steps`")
            x = x(InputContext())  # One pipeline for all, whose batches are dealt like those of any data set.
        if isinstance(x, DistributedDataset):
            x = x._global_batches()  # Its batches are dealt to replicas by each step.
        if isinstance(x, Dataset):
            if y is not None:
                raise ValueError("`y` should not be passed if `x` is a data set: its elements are (x, y)")
            self._dataset = x
            count = x._cardinality()
            self.steps = self._limit or (count if count >= 0 else None)
            self.are_even = not x._has_open_rows
        elif hasattr(x, "__getitem__") and hasattr(x, "__len__") and not _is_array_like(x) and not isinstance(x, (list, tuple, dict, str)):
            self._sequence(x, shuffle, is_predict)
        elif hasattr(x, "__next__") or (hasattr(x, "__iter__") and not _is_array_like(x) and not isinstance(x, (list, tuple, dict))):
            self._generator(x)
        elif x is None and y is None:
            raise ValueError("fit: there is no data")
        else:
            self._arrays(x, y, sample_weight, batch_size, shuffle, is_predict)

    def _arrays(self, x, y, sample_weight, batch_size, shuffle, is_predict):
        x, y = _arrays(_as_columns(x)), _arrays(y)
        sample_weight = _arrays(sample_weight)
        parts = pack_x_y_sample_weight(x, y, sample_weight)
        flat = nest.flatten(parts) if nest.is_nested(parts) else [parts]
        counts = {int(t._sizes[0]) if isinstance(t, Tensor) else len(t) for t in flat if t is not None}
        if len(counts) > 1:
            raise ValueError(f"Data cardinality is ambiguous. Make sure all arrays contain the same number of samples. 'x' sizes: {', '.join(str(c) for c in sorted(counts))}")
        rows = counts.pop()
        self.no_rows = _as_batch(parts) if rows == 0 else None
        if batch_size is None:
            batch_size = -(-rows // self._limit) if self._limit else 32
        batch_size = min(int(batch_size), max(rows, 1))
        order = self._order(rows) if shuffle and rows > 1 and shuffle != "batch" else None
        dataset = Dataset.from_tensor_slices(parts)
        if order is not None:
            dataset = dataset._in_order(order.tolist())
        elif shuffle and rows > 1:
            dataset = dataset.shuffle(rows)
        self._dataset = dataset.batch(batch_size)
        self.are_even = rows % batch_size == 0
        steps = -(-rows // batch_size)
        self.steps = min(self._limit, steps) if self._limit and self._limit < steps else self._limit or steps

    @staticmethod
    def _order(rows):
        """The order of rows where the program has set a seed: Keras on TensorFlow draws the same one in all epochs then."""
        from tandem._ops import philox

        return None if philox.seeds.seed is None else philox.permutation(philox.Sequence.of_stateful(*philox.seeds.pair(0), 0), rows).astype(np.int32)

    def _sequence(self, x, shuffle, is_predict):
        """As in Keras, two batches are looked at before, after which an epoch ends that none has seen; so it does before each further validation."""
        import itertools
        import random

        from tandem.keras.utils import PyDataset

        self._source = x
        count = x.num_batches if type(x).__len__ is PyDataset.__len__ else len(x)
        begin, end = (getattr(x, name, lambda: None) for name in ("on_epoch_begin", "on_epoch_end"))
        if hasattr(x, "on_epoch_end"):
            for i in range(2 if count is None else min(2, count)):
                x[i]
            if not is_predict:
                end()
        epochs = []

        def make():
            if epochs and self._is_evaluated:
                end()
            epochs.append(True)
            begin()
            order = itertools.count() if count is None else list(range(len(x)))
            if shuffle and shuffle != "batch" and count is not None:
                random.shuffle(order)
            for i in order:
                yield _as_batch(x[i])
            end()

        self._make = make
        self.steps = self._limit or count

    def _generator(self, x):
        iterator = iter(x)

        def make():
            for value in iterator:
                yield _as_batch(value)

        self._make = make
        self._endless = True
        self.steps = self._limit

    def _open(self):
        if self._dataset is not None:
            return (_as_batch(v) for v in self._dataset._open())
        return self._make()

    def peek(self):
        """The first batch, which is not lost."""
        if self._dataset is not None:
            return next((self._weighted(_as_batch(v)) for v in self._dataset._peek()), None)
        self._going = self._going or self._open()
        first = next(self._going, None)
        if first is None:
            return None
        self._kept = first
        return self._weighted(first)

    def epoch(self, goes_on=True):
        """The batches of the next epoch. With a limit it goes on where the last one ended."""
        steps = 0
        self._is_evaluated = not goes_on
        if not (self._limit and goes_on) and self._kept is None:
            self._going = None
        restarted = False
        while self._limit is None or steps < self._limit:
            if self._most is not None and steps >= self._most:
                break
            if self._going is None:
                self._going = self._open()
            if self._kept is not None:
                data, self._kept = self._kept, None
            else:
                data = next(self._going, None)
            if data is None:
                self._going = None
                if self._limit is None or self.__dict__.get("_endless"):
                    break
                if restarted and steps == 0:
                    break
                if steps:
                    import warnings

                    if self._dataset is not None:
                        warnings.warn("Your input ran out of data; interrupting epoch. Make sure that your dataset can generate at least `steps_per_epoch * epochs` batches. You may need to use the `.repeat()` function when building your dataset.", stacklevel=3)
                    break
                restarted = True
                continue
            steps += 1
            yield self._weighted(data)
        self.seen = steps
        if self._limit is None:
            self._going = None
            if self.steps is None:
                self.steps = steps

    def _weighted(self, data):
        if self._class_weight is None:
            return data
        x, y, weight = unpack_x_y_sample_weight(data)
        labels = nest.flatten(y)[0]
        if labels._rank > 1 and labels._sizes[-1] != 1:
            labels = _ops.argmax(labels, -1)
        elif labels._rank > 1:
            labels = _tandem.squeeze(labels, [-1])
        classes, places = np.unique(np.round(np.asarray(labels.numpy())).astype(np.int64), return_inverse=True)
        weights = np.array([self._class_weight.get(int(each), 1.0) for each in classes], np.float32)
        own = _tandem.convert(weights[places.reshape(labels.shape)])
        return (x, y, own if weight is None else own * weight)


def _as_batch(value):
    """A batch of tensors, of what a data set or a generator gives."""
    if type(value) is tuple and all(type(v) is Tensor and v._code != 1 for v in value):
        return value
    if isinstance(value, list):
        value = tuple(value)

    def convert(v):
        if v is None:
            return None
        if isinstance(v, Tensor):
            return v if v._code != 1 else _tandem.cast(v, 0)
        return _array(v)

    return _batch_part(value, convert)


def _batch_part(value, convert):
    if isinstance(value, dict):
        return {k: _batch_part(v, convert) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        if isinstance(value, list) and value and not _is_array_like(value[0]):
            return convert(np.asarray(value))
        return tuple(_batch_part(v, convert) for v in value)
    return convert(value)
