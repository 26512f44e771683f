"""Queues of tensors, tf.queue. They are on the host: a function that uses one runs op by op."""

import bisect
import threading

import numpy as np

from tandem import _ops, dtypes, errors
from tandem._names import missing as _missing
from tandem._tensors.shape import TensorShape
from tandem._tracing.state import state


def _listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_text(tensor):
    return getattr(tensor, "_is_text_tensor", False)


class QueueBase:
    """What all queues have: elements, each of one or several tensors, that threads put in and take out."""

    def __init__(self, capacity, dtypes, shapes=None, names=None, shared_name=None, name="queue"):
        self.capacity = int(capacity) if capacity > 0 else float("inf")
        self.dtypes = [_dtype(each) for each in _listed(dtypes)]
        self.name = name
        self.shapes = None if shapes is None else [TensorShape(each) for each in (shapes if isinstance(shapes, (list, tuple)) and len(self.dtypes) == len(shapes) else [shapes])]
        if self.shapes is not None and len(self.shapes) != len(self.dtypes):
            raise ValueError(f"Queue shapes must have the same length as dtypes, received len(shapes)={len(self.shapes)}, len(dtypes)={len(self.dtypes)}")
        self.names = None if names is None else _listed(names)
        if self.names is not None and len(self.names) != len(self.dtypes):
            raise ValueError(f"Queue names must have the same length as dtypes,received len(names)={len(self.names)},len {len(self.dtypes)}")
        self._elements = []
        self._is_closed = False
        self._change = threading.Condition()

    # ---- What kinds of queues differ in ----

    _needed = 0  # How many elements stay behind until the queue is closed.

    def _put(self, element):
        self._elements.append(element)

    def _take(self):
        return self._elements.pop(0)

    def _batch(self, tensors):
        return _ops.stack(tensors, 0)

    # ---- Putting in ----

    def _tensors(self, vals):
        if state.tracing:
            raise errors.OperatorNotAllowedInGraphError(f"tf.queue: {self.name} is on the host")
        if isinstance(vals, dict):
            if not self.names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self.names) != sorted(vals):
                raise ValueError(f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: {sorted(vals)},Queue: {sorted(self.names)}")
            vals = [vals[each] for each in self.names]
        elif self.names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        else:
            vals = vals if isinstance(vals, (list, tuple)) and len(vals) == len(self.dtypes) else [vals]
        if len(vals) != len(self.dtypes):
            raise ValueError(f"{self.name}: an element has {len(self.dtypes)} tensors; got {len(vals)}")
        return [_ops.convert_to_tensor(each, dtype) for each, dtype in zip(vals, self.dtypes)]

    def _check(self, element):
        for i, (tensor, shape) in enumerate(zip(element, self.shapes or [])):
            if not shape.is_compatible_with(tensor.shape):
                raise ValueError(f"{self.name}: component {i} has the shape {tensor.shape}; {shape} is accepted")

    def _wait(self, ready):
        while not ready():
            self._change.wait(0.1)  # Ctrl-C is seen between two waits.

    def _enqueue(self, elements):
        with self._change:
            for element in elements:
                self._wait(lambda: self._is_closed or len(self._elements) < self.capacity)
                if self._is_closed:
                    raise errors.CancelledError(None, None, f"{type(self).__name__} '{self.name}' is closed.")
                self._put(element)
                self._change.notify_all()

    def enqueue(self, vals, name=None):
        """Puts one element in; waits while the queue is full."""
        element = self._tensors(vals)
        self._check(element)
        self._enqueue([element])

    def enqueue_many(self, vals, name=None):
        """Puts the slices of tensors in, one element for each."""
        tensors = self._tensors(vals)
        counts = {int(tensor.shape[0]) for tensor in tensors}
        if len(counts) != 1:
            raise ValueError(f"{self.name}: all components have as many slices; got {sorted(counts)}")
        elements = [[tensor[i] for tensor in tensors] for i in range(counts.pop())]
        for element in elements:
            self._check(element)
        self._enqueue(elements)

    # ---- Taking out ----

    def _result(self, tensors):
        if self.names:
            return dict(zip(self.names, tensors))
        return tensors[0] if len(tensors) == 1 else tensors

    def _dequeue(self, count, least):
        if state.tracing:
            raise errors.OperatorNotAllowedInGraphError(f"tf.queue: {self.name} is on the host")
        with self._change:
            self._wait(lambda: self._is_closed or len(self._elements) - self._needed >= count)
            if len(self._elements) < least:
                raise errors.OutOfRangeError(
                    None, None,
                    f"{type(self).__name__} '{self.name}' is closed and has insufficient elements (requested {count}, current size {len(self._elements)})",
                )
            taken = [self._take() for _ in range(min(count, len(self._elements)))]
            self._change.notify_all()
        return taken

    def dequeue(self, name=None):
        """Takes one element out; waits until there is one."""
        return self._result(self._dequeue(1, 1)[0])

    def _dequeue_batch(self, n, least):
        if self.shapes is None:
            raise errors.InvalidArgumentError(None, None, f"{type(self).__name__}'s DequeueMany and DequeueUpTo require the components to have specified shapes.")
        return self._result([self._batch(tensors) for tensors in zip(*self._dequeue(n, least))])

    def dequeue_many(self, n, name=None):
        """Takes n elements out, stacked along a new first axis; waits until there are so many."""
        return self._dequeue_batch(int(n), int(n))

    def dequeue_up_to(self, n, name=None):
        """Takes n elements out, or those that are left once the queue is closed."""
        return self._dequeue_batch(int(n), 1)

    # ---- The queue itself ----

    def close(self, cancel_pending_enqueues=False, name=None):
        """No more elements come: those that are there can still be taken."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()

    def is_closed(self, name=None):
        """True once the queue is closed."""
        return _ops.convert_to_tensor(self._is_closed)

    def size(self, name=None):
        """The number of elements."""
        return _ops.convert_to_tensor(len(self._elements))

    @staticmethod
    def from_list(index, queues):
        """One of several queues of the same kinds of elements."""
        if any(each.dtypes != queues[0].dtypes for each in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        return queues[int(index)]


_dtype = dtypes.as_dtype


class FIFOQueue(QueueBase):
    """A queue whose elements come out in the order in which they went in."""

    def __init__(self, capacity, dtypes, shapes=None, names=None, shared_name=None, name="fifo_queue"):
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)


class PaddingFIFOQueue(FIFOQueue):
    """A queue whose elements may differ in sizes: several that come out together are filled up with zeros to the largest."""

    def __init__(self, capacity, dtypes, shapes, names=None, shared_name=None, name="padding_fifo_queue"):
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)

    def _batch(self, tensors):
        sizes = np.max([tuple(tensor.shape) for tensor in tensors], axis=0) if len(tensors[0].shape) else ()
        if _is_text(tensors[0]):
            full = np.full((len(tensors), *sizes), b"", dtype=object)
            for row, tensor in zip(full, tensors):
                row[tuple(slice(int(n)) for n in tensor.shape)] = tensor.numpy()
            return _ops.convert_to_tensor(full)
        return _ops.stack([_ops.pad(tensor, [[0, int(n) - int(m)] for n, m in zip(sizes, tensor.shape)]) if len(sizes) else tensor for tensor in tensors], 0)


class RandomShuffleQueue(QueueBase):
    """A queue whose elements come out in a random order; `min_after_dequeue` of them stay behind until it is closed."""

    def __init__(self, capacity, min_after_dequeue, dtypes, shapes=None, names=None, seed=None, shared_name=None, name="random_shuffle_queue"):
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)
        self._min_after_dequeue = int(min_after_dequeue)
        self._random = np.random.default_rng(seed)

    @property
    def _needed(self):
        return self._min_after_dequeue

    def _take(self):
        return self._elements.pop(int(self._random.integers(len(self._elements))))


class PriorityQueue(QueueBase):
    """A queue whose elements come out by their first tensor, an int64: the smallest first."""

    def __init__(self, capacity, types, shapes=None, names=None, shared_name=None, name="priority_queue"):
        types = _listed(types)
        shapes = [()] * len(types) if shapes is None or not len(shapes) else list(shapes)
        super().__init__(capacity, [dtypes.int64, *types], [(), *shapes], names, shared_name, name)

    def _put(self, element):
        bisect.insort(self._elements, element, key=lambda each: int(each[0]))


_missing.install(__name__, globals())
