"""Data sets whose batches are dealt to replicas."""

from tandem._tracing.function import GiveUpTrace
from tandem._tracing.state import state
from tandem.data._iterator import Elements
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


class DistributedIterator(Elements):
    """Goes through a distributed data set, one value of each replica at a time."""

    def __init__(self, dataset):
        super().__init__(dataset, dataset._native.iterator)

    def _take(self):
        parts = self._iterator.next()
        if parts is None:
            raise StopIteration
        count = self._dataset._strategy._local_replicas
        if count == 1:
            return self._dataset._structure.pack([p.value(0) for p in parts])
        return self._dataset._structure.pack([marked(p, count) for p in parts])
