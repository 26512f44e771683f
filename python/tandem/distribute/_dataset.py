"""Data sets whose batches are dealt to replicas."""

from tandem._tracing.function import GiveUpTrace
from tandem._tracing.state import init_scope, state
from tandem.distribute._values import marked


class DistributedDataset:
    """A data set whose batches are dealt to replicas."""

    def __init__(self, strategy, native, dataset):
        self._strategy, self._native, self._structure, self._dataset = strategy, native, dataset._structure, dataset

    def __iter__(self):
        if state.tracing:
            raise GiveUpTrace("a loop over a data set inside of a function that is being traced")
        return DistributedIterator(self)

    def __len__(self):
        count = self._native.cardinality()
        if count < 0:
            raise TypeError("The dataset length is unknown or infinite.")
        return count

    @property
    def cardinality(self):
        return self._native.cardinality()

    @property
    def element_spec(self):
        return self._dataset.element_spec


class DistributedIterator:
    def __init__(self, dataset):
        self._dataset = dataset
        with init_scope():
            self._iterator = dataset._native.iterator()

    def __iter__(self):
        return self

    def __next__(self):
        if state.tracing:
            raise GiveUpTrace("next(iterator) inside of a function that is being traced")
        parts = self._iterator.next()
        if parts is None:
            raise StopIteration
        count = self._dataset._strategy._local_replicas
        if count == 1:
            return self._dataset._structure.pack([p.value(0) for p in parts])
        return self._dataset._structure.pack([marked(p, count) for p in parts])

    def get_next(self):
        from tandem.errors import OutOfRangeError

        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None

    def get_next_as_optional(self):
        from tandem.experimental import Optional

        try:
            return Optional.from_value(next(self))
        except StopIteration:
            return Optional.empty()

    @property
    def element_spec(self):
        return self._dataset.element_spec
