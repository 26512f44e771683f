"""Data sets, tf.data.

Stages that the library has (slices, map, batch, shuffle, ..) run there; the others are generators of Python over
those before them.
"""

from tandem._names import missing as _missing
from tandem.data._dataset import Dataset, TextLineDataset
from tandem.data._iterator import Iterator, Options, _Namespace
from tandem.data._structure import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY

DatasetV2 = Dataset
OwnedIterator = Iterator


class experimental(metaclass=_missing.Namespace):
    """Names that are experimental in tf.data."""

    AUTOTUNE = AUTOTUNE
    INFINITE_CARDINALITY = INFINITE_CARDINALITY
    UNKNOWN_CARDINALITY = UNKNOWN_CARDINALITY

    class AutoShardPolicy:
        OFF, AUTO, FILE, DATA, HINT = -1, 0, 1, 2, 3

    class OptimizationOptions(_Namespace):
        pass

    @staticmethod
    def make_csv_dataset(*args, **kwargs):
        from tandem.data._csv import make_csv_dataset

        return make_csv_dataset(*args, **kwargs)

    @staticmethod
    def CsvDataset(*args, **kwargs):
        from tandem.data._csv import CsvDataset

        return CsvDataset(*args, **kwargs)

    @staticmethod
    def cardinality(dataset):
        return dataset.cardinality()

    @staticmethod
    def assert_cardinality(count):
        def apply(dataset):
            source = dataset
            return Dataset(generate=source._open, count=int(count))

        return apply

    @staticmethod
    def get_single_element(dataset):
        return dataset.get_single_element()

    @staticmethod
    def prefetch_to_device(device, buffer_size=None):
        return lambda dataset: dataset.prefetch(buffer_size or 2)

    @staticmethod
    def sample_from_datasets(datasets, weights=None, seed=None, stop_on_empty_dataset=False):
        return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)

    @staticmethod
    def ignore_errors(log_warning=False):
        return lambda dataset: dataset.ignore_errors()

    @staticmethod
    def dense_to_ragged_batch(batch_size, drop_remainder=False):
        return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder=drop_remainder)

    @staticmethod
    def dense_to_sparse_batch(batch_size, row_shape):
        return lambda dataset: dataset.sparse_batch(batch_size, row_shape)

    Counter = Dataset.counter
    choose_from_datasets = Dataset.choose_from_datasets
    load = Dataset.load

    @staticmethod
    def save(dataset, path, compression=None, shard_func=None, checkpoint_args=None):
        dataset.save(path)

    @staticmethod
    def map_and_batch(map_func, batch_size, num_parallel_batches=None, drop_remainder=False, num_parallel_calls=None):
        return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)

    @staticmethod
    def shuffle_and_repeat(buffer_size, count=None, seed=None):
        return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)

    @staticmethod
    def enumerate_dataset(start=0):
        return lambda dataset: dataset.enumerate(start)

    @staticmethod
    def get_structure(dataset_or_iterator):
        return dataset_or_iterator.element_spec

    @staticmethod
    def get_next_as_optional(iterator):
        return iterator.get_next_as_optional()


def _as_transformation(name):
    """A method of data sets as a function for `apply`, as tf.data.experimental has it."""
    return staticmethod(lambda *args, **kwargs: lambda dataset: getattr(dataset, name)(*args, **kwargs))


for _name in ("bucket_by_sequence_length", "group_by_window", "rejection_resample", "scan", "snapshot", "take_while", "unbatch", "unique"):
    setattr(experimental, _name, _as_transformation(_name))


def make_one_shot_iterator(dataset):
    """As tf.compat.v1.data has it."""
    return iter(dataset)


def __getattr__(name):
    import sys

    if name == "TFRecordDataset":
        from tandem.data._records import TFRecordDataset

        return TFRecordDataset
    if name == "DatasetSpec":
        from tandem._tensors.specs import DatasetSpec

        return DatasetSpec

    raise _missing.missing("tandem.data", name, sys.modules[__name__], ("TFRecordDataset",))

__all__ = [  # Written by scripts/exported-names.py.
    "AUTOTUNE", "Dataset", "DatasetV2", "INFINITE_CARDINALITY", "Iterator", "Options", "OwnedIterator", "TextLineDataset",
    "UNKNOWN_CARDINALITY", "experimental", "make_one_shot_iterator",
]
