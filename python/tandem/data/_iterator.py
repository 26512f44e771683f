"""Iterators over data sets, and their options."""

import threading

from tandem import nest
from tandem._tracing.function import GiveUpTrace
from tandem._tracing.state import init_scope, state


def _array_of(value):
    if hasattr(value, "_is_sparse"):
        from tandem.sparse import to_dense

        value = to_dense(value)
    return value.numpy()


class Arrays:
    """The elements of an iterator as NumPy's arrays."""

    def __init__(self, elements):
        self._elements = elements

    def __iter__(self):
        return self

    def __next__(self):
        value = next(self._elements)
        return nest.map_structure(_array_of, value) if nest.is_nested(value) else _array_of(value)

    next = __next__


class Elements:
    """A way through the elements of `dataset`, whose next one is what `_take` returns, or StopIteration."""

    def __init__(self, dataset, open_iterator):
        self._dataset = dataset
        with init_scope():
            self._iterator = open_iterator()

    def __iter__(self):
        return self

    def __next__(self):
        if state.tracing:
            raise GiveUpTrace("next(iterator) inside of a function that is being traced")
        return self._take()

    def get_next(self, name=None):
        """The next element; raises OutOfRangeError after the last."""
        from tandem.errors import OutOfRangeError

        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None

    next = get_next

    def get_next_as_optional(self):
        """The next element as an Optional, which is empty after the last."""
        from tandem.experimental import Optional

        try:
            return Optional.from_value(next(self))
        except StopIteration:
            return Optional.empty()

    @property
    def element_spec(self):
        """The kind of the elements, in their structure."""
        return self._dataset.element_spec


class Iterator(Elements):
    """A way through the elements of one epoch."""

    def __init__(self, dataset):
        super().__init__(dataset, dataset._open)
        self._turn = threading.RLock()  # Threads that share it take turns.

    def _take(self):
        with self._turn:
            return next(self._iterator)


class Options:
    """How a data set is made; remembered, since elements and their order never depend on it here."""

    def __init__(self):
        self.experimental_distribute = _Namespace(auto_shard_policy=None, num_devices=None)
        self.experimental_optimization = _Namespace()
        self.experimental_threading = self.threading = _Namespace()
        self.autotune = _Namespace()
        self.experimental_deterministic = self.deterministic = True
        self.experimental_slack = False


class _Namespace:
    def __init__(self, **values):
        self.__dict__.update(values)
