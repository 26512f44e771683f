"""Data sets whose batches are dealt to replicas."""

from tandem._tracing.function import GiveUpTrace
from tandem._tracing.state import state
from tandem.data._iterator import Elements
from tandem.distribute._values import marked


class DistributedDataset:
    """A data set whose batches are dealt to replicas."""

    def __init__(self, strategy, native, dataset, is_per_replica=False):
        self._is_per_replica = is_per_replica  # Whether its elements are batches of one replica.
        self._strategy, self._native, self._structure, self._dataset = strategy, native, dataset._structure, dataset

    def __iter__(self):
        if state.tracing:
            raise GiveUpTrace("a loop over a data set inside of a function that is being traced")
        return DistributedIterator(self)

    def _global_batches(self):
        """The data set that was distributed."""
        if self._is_per_replica:
            raise ValueError("fit deals batches to replicas itself: give it the data set, or one of experimental_distribute_dataset")
        return self._dataset

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
