"""Iterators over data sets, and their options."""

from tandem._tracing.function import GiveUpTrace
from tandem._tracing.state import init_scope, state


class Iterator:
    """A way through the elements of one epoch."""

    def __init__(self, dataset):
        self._dataset = dataset
        with init_scope():
            self._iterator = dataset._open()

    def __iter__(self):
        return self

    def __next__(self):
        if state.tracing:
            raise GiveUpTrace("next(iterator) inside of a function that is being traced")
        return next(self._iterator)

    def get_next(self, name=None):
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

    next = get_next

    @property
    def element_spec(self):
        return self._dataset.element_spec


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
