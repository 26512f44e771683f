"""What becomes of data sets: map, batch, shuffle and their kin."""

import functools
import inspect
import itertools
import os
import random as _random

import numpy as np

import _tandem
from tandem import nest
from tandem._tensors.shape import TensorShape
from tandem._tensors.specs import SPECS, RaggedTensorSpec, SparseTensorSpec, batched, row_of, spec_of
from tandem._tensors.tensor import Tensor, TensorSpec
from tandem._ops import philox
from tandem._tracing.state import rehearsal
from tandem.data import _dataset
from tandem.errors import InvalidArgumentError
from tandem.data._structure import INFINITE_CARDINALITY, _Structure, _call, _chunks, _flat, _is_not_dense, _leaf, _leaves_for, _of_values, _row, _stack, _stacked, _untupled, _windowed


def _mapped(f, value):
    """What a function makes of an element. A list of results is a tuple of them, as in tf.data: py_function gives one."""
    made = _call(f, value)
    return tuple(made) if type(made) is list else made


def _holds(predicate, value):
    """Whether a predicate holds for an element."""
    found = _call(predicate, value)
    if isinstance(found, Tensor) and found._code != 7:
        raise ValueError(f"Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its return type is {found.dtype.name}.")
    return bool(found)


def _one_after_another(first, second):
    """The elements of two data sets, which are of one kind."""
    kind = None
    for value in first._open():
        kind = kind or _kind_of(value)
        yield value
    for place, value in enumerate(second._open()):
        if place == 0 and kind is not None and _kind_of(value) != kind:
            raise TypeError(f"Incompatible dataset elements: concatenate has {kind[1]} and {_kind_of(value)[1]}")
        yield value


def _kind_of(value):
    return nest.signature(value), [getattr(getattr(leaf, "dtype", None), "name", None) for leaf in nest.flatten(value)]


class Transformations:
    """Data sets of data sets: what comes after them."""

    _has_open_rows = False
    _one_by_one = None  # Starts an iterator that goes on after an element that raised; the library's own end there.
    _kind = None  # What TensorFlow calls a data set that was made so.

    def __iter__(self):
        raise NotImplementedError  # Data sets have one of their own.

    def map(self, map_func, num_parallel_calls=None, deterministic=None, synchronous=None, use_unbounded_threadpool=False, name=None):
        """A data set of f of each element."""
        from tandem._tracing.function import Function

        f = map_func.python_function if isinstance(map_func, Function) else map_func
        result = _Structure()
        if self._native is None or self._has_no_native_map():
            source = self
            return _dataset.Dataset(generate=lambda: map(lambda v: _untupled(_mapped(f, v)), source._open()), count=self._count if self._native is None else self._native.cardinality())
        structure = self._structure
        has_text = []

        def on_element(tensors):
            value = _untupled(_mapped(f, structure.pack(tensors)))
            result.learn(value)
            return _flat(value)

        # Whether the function gives strings is seen with the first element.
        with rehearsal():
            first = next(self._peek(), None)
            if first is not None:
                made = _untupled(_mapped(f, first))
                has_text = [leaf for leaf in nest.flatten(made) if not isinstance(leaf, Tensor)]
                result.learn(made)
        if has_text:
            source = self
            return _dataset.Dataset(generate=lambda: map(lambda v: _untupled(_mapped(f, v)), source._open()), count=self._native.cardinality())
        mapped = _dataset.Dataset(self._native.map(on_element, 1), result)
        mapped._one_by_one = lambda: map(lambda v: _untupled(_mapped(f, v)), self._open())
        return mapped

    def _has_no_native_map(self):
        return False

    def filter(self, predicate, name=None):
        """A data set of the elements for which f holds."""
        structure = self._structure
        if self._native is None:
            source = self
            return _dataset.Dataset(generate=lambda: (v for v in source._open() if _holds(predicate, v)), spec=self._spec)
        return _dataset.Dataset(self._native.filter(lambda t: _holds(predicate, structure.pack(t))), structure, self._spec)

    def batch(self, batch_size, drop_remainder=False, num_parallel_calls=None, deterministic=None, name=None):
        """A data set of so many elements together; the last batch may be smaller."""
        size = int(batch_size)
        if self._native is not None:
            return self._then(self._native.batch(size, bool(drop_remainder)))
        source = self

        def generate():
            for values in _chunks(source._open(), size):
                if len(values) == size or not drop_remainder:
                    yield _stacked(values)

        count = self._count
        if count is not None and count >= 0:
            count = count // size if drop_remainder else -(-count // size)
        return _dataset.Dataset(generate=generate, count=count, spec=self._batched_spec(size if drop_remainder else None))

    def _batched_spec(self, rows):
        """The kind of batches, where that of elements is known already and they are not all dense."""
        flat = nest.flatten(self._spec)
        if not any(isinstance(s, (RaggedTensorSpec, SparseTensorSpec)) for s in flat) or not all(isinstance(s, SPECS) for s in flat):
            return None
        return nest.map_structure(lambda s: batched(s, rows), self._spec) if nest.is_nested(self._spec) else batched(self._spec, rows)

    def sparse_batch(self, batch_size, row_shape, name=None):
        """Batches of elements of different sizes, as sparse tensors of rows of a shape."""
        from tandem import sparse

        source, size = self, int(batch_size)

        def generate():
            for values in _chunks(source._open(), size):
                yield sparse.of_rows(values, TensorShape(row_shape).as_list())

        count = self._cardinality()
        return _dataset.Dataset(generate=generate, count=-(-count // size) if count >= 0 else count)

    def padded_batch(self, batch_size, padded_shapes=None, padding_values=None, drop_remainder=False, name=None):
        """Batches of elements that are filled up to one shape."""
        source, size = self, int(batch_size)

        def pad_all(arrays, shape, value):
            if any(_is_not_dense(a) for a in arrays):
                raise TypeError(f"`padded_batch` is only supported for datasets that produce tensor elements, not for {spec_of(arrays[0])!r}; ragged_batch and batch take such elements")
            arrays = [np.asarray(a) for a in arrays]
            if not arrays[0].ndim:
                return _tandem.convert(np.asarray(arrays))
            wide = np.max([a.shape for a in arrays], axis=0)
            if shape is not None:
                wide = [w if s in (None, -1) else int(s) for w, s in zip(wide, TensorShape(shape).as_list())]
            fill = 0 if value is None else np.asarray(value)
            out = np.full((len(arrays), *[int(w) for w in wide]), fill, arrays[0].dtype)
            for row, a in zip(out, arrays):
                row[tuple(slice(0, s) for s in a.shape)] = a
            return _tandem.convert(out)

        def generate():
            for values in _chunks(source._open(), size):
                if len(values) < size and drop_remainder:
                    return
                flat = list(zip(*[nest.flatten(v) for v in values]))
                like = values[0]
                shapes = _leaves_for(padded_shapes, like, len(flat))
                fills = _leaves_for(padding_values, like, len(flat))
                out = [pad_all(a, s, v) for a, s, v in zip(flat, shapes, fills)]
                yield nest.pack_sequence_as(like, out) if nest.is_nested(like) else out[0]

        count = self._cardinality()
        if count >= 0:
            count = count // size if drop_remainder else -(-count // size)
        return _dataset.Dataset(generate=generate, count=count)

    def ragged_batch(self, batch_size, drop_remainder=False, **kwargs):
        """Batches of elements of different lengths, as ragged tensors."""
        source, size = self, int(batch_size)

        def stacked(leaves, spec):
            is_known = isinstance(spec, TensorSpec) and spec.shape.is_fully_defined()
            return _stack(leaves, not is_known and len(leaves[0].shape) > 0)

        def generate():
            for values in _chunks(source._open(), size):
                if len(values) < size and drop_remainder:
                    return
                flat = list(zip(*[nest.flatten(v) for v in values]))
                like = values[0]
                out = [stacked(list(each), spec) for each, spec in zip(flat, _leaves_for(source._spec, like, len(flat)))]
                yield nest.pack_sequence_as(like, out) if nest.is_nested(like) else out[0]

        def kind(s):
            rows = size if drop_remainder else None
            if not isinstance(s, TensorSpec) or s.shape.is_fully_defined():
                return batched(s, rows)
            return RaggedTensorSpec([rows, *s.shape], s.dtype, s.shape.rank)

        spec, flat = None, nest.flatten(self._spec)
        if all(isinstance(s, SPECS) and s.shape.rank is not None for s in flat):
            spec = nest.map_structure(kind, self._spec) if nest.is_nested(self._spec) else kind(self._spec)
        count = self._cardinality()
        if count >= 0:
            count = count // size if drop_remainder else -(-count // size)
        return _dataset.Dataset(generate=generate, count=count, spec=spec)

    def unbatch(self, name=None):
        """A data set of the rows of each element."""
        source = self

        def generate():
            for value in source._open():
                leaves = [leaf.rows() if hasattr(leaf, "_is_sparse") else leaf for leaf in nest.flatten(value)]
                for i in range(len(leaves[0])):
                    yield nest.pack_sequence_as(value, [_row(leaf, i) for leaf in leaves]) if nest.is_nested(value) else _row(leaves[0], i)

        spec, flat = None, nest.flatten(self._spec)
        if all(isinstance(s, SPECS) and s.shape.rank for s in flat):
            spec = nest.map_structure(row_of, self._spec) if nest.is_nested(self._spec) else row_of(self._spec)
        return _dataset.Dataset(generate=generate, spec=spec)

    def rebatch(self, batch_size, drop_remainder=False, name=None):
        """Batches of another size."""
        sizes = np.ravel(np.asarray(batch_size))
        if len(sizes) == 1:
            return self.unbatch().batch(int(sizes[0]), drop_remainder)
        source = self.unbatch()

        def generate():
            values, turn = source._open(), itertools.cycle(int(size) for size in sizes)
            for size in turn:
                rows = list(itertools.islice(values, size))
                if len(rows) == size or rows and not drop_remainder:
                    yield _stacked(rows)
                if len(rows) < size:
                    return

        return _dataset.Dataset(generate=generate)

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=None, name=None):
        """The elements in a random order, drawn from a buffer."""
        reshuffle = True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)
        size = int(buffer_size)
        philox.seeds.pair(seed)  # TensorFlow takes one of its random seeds here, which those of later ops follow.
        if self._native is not None:
            return self._then(self._native.shuffle(size, None if seed is None else int(seed) % 2**63, reshuffle), self._spec)
        source = self
        first_order = seed if seed is not None else int(np.random.randint(2**31))
        epochs = itertools.count()

        def generate():
            epoch = next(epochs) if reshuffle else 0
            order = _random.Random(first_order * 1000003 + epoch)
            buffer = []
            for value in source._open():
                if len(buffer) < size:
                    buffer.append(value)
                    continue
                i = order.randrange(size)
                buffer[i], value = value, buffer[i]
                yield value
            order.shuffle(buffer)
            yield from buffer

        return _dataset.Dataset(generate=generate, count=self._count, spec=self._spec)

    def _in_order(self, numbers):
        """The elements of these numbers, one after another."""
        if self._native is not None:
            return self._then(self._native.in_order(numbers), self._spec)
        source = self

        def generate():
            elements = list(source._open())
            return (elements[i] for i in numbers)

        return _dataset.Dataset(generate=generate, count=len(numbers), spec=self._spec)

    def repeat(self, count=None, name=None):
        """The elements so many times, or without an end."""
        count = None if count is None or int(count) < 0 else int(count)
        if self._native is not None:
            return self._then(self._native.repeat(count), self._spec)
        source = self

        def generate():
            for _ in itertools.count() if count is None else range(count):
                empty = True
                for value in source._open():
                    empty = False
                    yield value
                if empty:
                    return

        total = INFINITE_CARDINALITY if count is None else (self._count * count if self._count is not None and self._count >= 0 else self._count)
        return _dataset.Dataset(generate=generate, count=total, spec=self._spec)

    def take(self, count, name=None):
        """The first `count` elements."""
        count = int(count)
        if count < 0:
            return self
        if self._native is not None:
            return self._then(self._native.take(count), self._spec)
        source = self
        known = self._count
        return _dataset.Dataset(generate=lambda: itertools.islice(source._open(), count), count=count if known == -1 else (min(known, count) if known is not None and known >= 0 else known), spec=self._spec)

    def skip(self, count, name=None):
        """The elements after the first `count`."""
        count = int(count)
        if self._native is not None:
            if count < 0:
                return self._then(self._native.take(0), self._spec)
            return self._then(self._native.skip(count), self._spec)
        source = self
        known = self._count
        return _dataset.Dataset(generate=lambda: itertools.islice(source._open(), count, None), count=max(known - count, 0) if known is not None and known >= 0 else known, spec=self._spec)

    def shard(self, num_shards, index, name=None):
        """Every num_shards-th element, from `index` on."""
        if self._native is not None:
            return self._then(self._native.shard(int(num_shards), int(index)), self._spec)
        source = self
        return _dataset.Dataset(generate=lambda: itertools.islice(source._open(), int(index), None, int(num_shards)), spec=self._spec)

    def cache(self, filename="", name=None):
        """The elements, kept in memory or a file when they were first read."""
        if self._native is not None and self._native.cardinality() != INFINITE_CARDINALITY:
            return self._then(self._native.cache(), self._spec)
        source, kept = self, []

        def generate():
            if kept:
                yield from kept[0]
                return
            values = []
            for value in source._open():
                values.append(value)
                yield value
            if not kept:
                kept.append(values)

        return _dataset.Dataset(generate=generate, count=self._count, spec=self._spec)

    def prefetch(self, buffer_size, name=None):
        """The elements, read ahead on another thread."""
        size = int(buffer_size)
        if self._native is not None:
            return self._then(self._native.prefetch(2 if size < 1 else size), self._spec)
        return self

    def enumerate(self, start=0, name=None):
        """Each element with its number."""
        source = self

        def generate():
            for i, value in enumerate(source._open(), int(start)):
                yield _tandem.convert(i, 6), value

        return _dataset.Dataset(generate=generate, count=self._cardinality())

    def concatenate(self, dataset, name=None):
        """The elements of another data set after these."""
        first, second = self, dataset
        kinds = [spec for spec in (first._spec, second._spec) if spec is not None]
        if len(kinds) == 2 and _kind_of(kinds[0]) != _kind_of(kinds[1]):
            raise TypeError(f"Incompatible dataset elements:\n  {kinds[0]} vs.   {kinds[1]}")
        counts = first._cardinality(), second._cardinality()
        return _dataset.Dataset(generate=lambda: _one_after_another(first, second), count=sum(counts) if min(counts) >= 0 else min(counts))

    def flat_map(self, map_func, name=None):
        """The elements of the data sets that f makes of each element, one after another."""
        source = self

        def generate():
            for value in source._open():
                yield from _call(map_func, value)._open()

        return _dataset.Dataset(generate=generate)

    def interleave(self, map_func, cycle_length=None, block_length=None, num_parallel_calls=None, deterministic=None, name=None):
        """The elements of the data sets that f makes of each element, in turns."""
        source = self
        cycle = min(len(os.sched_getaffinity(0)), 16) if cycle_length is None or int(cycle_length) < 1 else int(cycle_length)
        block = int(block_length or 1)

        def generate():
            values = source._open()
            slots, place, has_more = [None] * cycle, 0, True
            while has_more or any(slot is not None for slot in slots):
                if slots[place] is None and has_more:  # An empty place is filled when its turn comes.
                    value = next(values, None)
                    has_more = value is not None
                    slots[place] = _call(map_func, value)._open() if has_more else None
                if slots[place] is not None:
                    for _ in range(block):
                        try:
                            yield next(slots[place])
                        except StopIteration:
                            slots[place] = None
                            break
                place = (place + 1) % cycle

        return _dataset.Dataset(generate=generate)

    def window(self, size, shift=None, stride=1, drop_remainder=False, name=None):
        """Data sets of neighbouring elements."""
        source = self
        size, stride = int(size), int(stride)
        shift = size if shift is None else int(shift)

        def generate():
            buffer, start, position = [], 0, 0
            span = (size - 1) * stride + 1
            values = source._open()
            ended = False
            while True:
                while not ended and len(buffer) < span:
                    try:
                        value = next(values)
                    except StopIteration:
                        ended = True
                        break
                    if position >= start:
                        buffer.append(value)
                    position += 1
                if not buffer:
                    return
                chosen = buffer[:span:stride]
                if len(chosen) < size and (drop_remainder or not chosen):
                    return
                yield _windowed(chosen)
                start += shift
                if shift >= len(buffer):
                    skipped = shift - len(buffer)
                    buffer = []
                    for _ in range(skipped):
                        if next(values, None) is None:
                            ended = True
                            break
                        position += 1
                else:
                    buffer = buffer[shift:]

        count = self._cardinality()
        if count >= 0:
            span = (size - 1) * stride + 1
            count = max(0, (count - span) // shift + 1) if drop_remainder else -(-count // shift)
        return _dataset.Dataset(generate=generate, count=count)

    def take_while(self, predicate, name=None):
        """The elements up to the first for which f does not hold."""
        source = self
        return _dataset.Dataset(generate=lambda: itertools.takewhile(lambda v: bool(_call(predicate, v)), source._open()))

    def scan(self, initial_state, scan_func, name=None):
        """f of a state and each element, which gives the next state and an element."""
        source = self

        def generate():
            now = nest.map_structure(_leaf, initial_state)
            for value in source._open():
                now, out = scan_func(now, value)
                yield _untupled(out)

        return _dataset.Dataset(generate=generate)

    def reduce(self, initial_state, reduce_func, name=None):
        """The last state when f is applied to a state and each element."""
        now = nest.map_structure(_leaf, initial_state) if nest.is_nested(initial_state) else _leaf(initial_state)
        for value in self:
            now = reduce_func(now, value)
        return nest.map_structure(_leaf, now) if nest.is_nested(now) else _leaf(now)

    def apply(self, transformation_func):
        """What a function of data sets makes of this one."""
        return transformation_func(self)

    def group_by_window(self, key_func, reduce_func, window_size=None, window_size_func=None, name=None):
        """Elements with one key, put together in windows."""
        source = self

        def generate():
            groups = {}
            for value in source._open():
                key = int(_call(key_func, value))
                group = groups.setdefault(key, [])
                group.append(value)
                size = int(window_size) if window_size is not None else int(window_size_func(_tandem.convert(key, 6)))
                if len(group) == size:
                    values = groups.pop(key)
                    yield from reduce_func(_tandem.convert(key, 6), _of_values(values))._open()
            for key, values in sorted(groups.items()):
                yield from reduce_func(_tandem.convert(key, 6), _of_values(values))._open()

        return _dataset.Dataset(generate=generate)

    def bucket_by_sequence_length(self, element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes=None, padding_values=None, pad_to_bucket_boundary=False, no_padding=False, drop_remainder=False, name=None):
        """Padded batches of elements of similar lengths."""
        import bisect

        def key(*value):
            length = int(_call(element_length_func, value if len(value) > 1 else value[0]))
            return bisect.bisect_right(list(bucket_boundaries), length)

        def widened(shape, longest):
            return [longest if size is None else size for size in TensorShape(shape).as_list()]

        def reduce_(bucket, values):
            size, shapes = bucket_batch_sizes[int(bucket)], padded_shapes
            if no_padding:
                return values.batch(size, drop_remainder)
            if pad_to_bucket_boundary:
                if int(bucket) == len(bucket_boundaries):
                    raise InvalidArgumentError("When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries).")
                first = next(values._open())
                longest = int(bucket_boundaries[int(bucket)]) - 1
                flat = [widened([None] * leaf.shape.rank if given is None else given, longest) for leaf, given in zip(nest.flatten(first), _leaves_for(padded_shapes, first, len(nest.flatten(first))))]
                shapes = nest.pack_sequence_as(first, [TensorShape(each) for each in flat]) if nest.is_nested(first) else flat[0]
            return values.padded_batch(size, shapes, padding_values, drop_remainder)

        return self.group_by_window(key, reduce_, window_size_func=lambda k: bucket_batch_sizes[int(k)])

    def unique(self, name=None):
        """Each different element once."""
        source = self

        def generate():
            seen = set()
            for value in source._open():
                key = value.numpy().tobytes() if hasattr(value, "numpy") and hasattr(value.numpy(), "tobytes") else value.numpy()
                if key not in seen:
                    seen.add(key)
                    yield value

        return _dataset.Dataset(generate=generate)

    def rejection_resample(self, class_func, target_dist, initial_dist=None, seed=None, name=None):
        """Elements drawn so that classes have the target distribution."""
        source = self
        target = np.asarray(target_dist, float)

        def generate():
            draws = _random.Random(seed)
            counts = np.ones(len(target))
            for value in source._open():
                label = int(_call(class_func, value))
                counts[label] += 1
                rates = np.divide(target, counts / counts.sum())
                if draws.random() < rates[label] / rates.max():
                    yield _tandem.convert(label, 5), value

        return _dataset.Dataset(generate=generate)

    def ignore_errors(self, log_warning=False, name=None):
        """The elements that can be read, without those that raise."""
        source = self

        def generate():
            values = (source._one_by_one or source._open)()
            while True:
                try:
                    yield next(values)
                except StopIteration:
                    return
                except Exception:  # noqa: BLE001: what the name says
                    continue

        return _dataset.Dataset(generate=generate)

    def snapshot(self, path, compression="AUTO", reader_func=None, shard_func=None, name=None):
        """The elements are computed once and kept in memory."""
        return self.cache()

    def get_single_element(self, name=None):
        """The only element."""
        return next(iter(self))

    def with_options(self, options, name=None):
        """The data set with options."""
        other = _dataset.Dataset(self._native, self._structure, self._spec, self._generate, self._count)
        other._options = options
        return other

    def options(self):
        """The options."""
        return self._options

    def save(self, path, compression=None, shard_func=None, checkpoint_args=None):
        """Writes the elements to a folder."""
        import pickle

        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "elements.pickle"), "wb") as file:
            pickle.dump(list(self), file)

    @staticmethod
    def load(path, element_spec=None, compression=None, reader_func=None):
        """The data set that save wrote."""
        import pickle

        with open(os.path.join(path, "elements.pickle"), "rb") as file:
            values = pickle.load(file)
        return _of_values(values)

    def __repr__(self):
        return f"<{self._kind or type(self).__name__} element_spec={self.element_spec}>"

    def _repr_html_(self):
        import html

        text = str(self._native) if self._native is not None else repr(self)
        return f"<pre>{html.escape(text)}\n{html.escape(str(self.element_spec))}</pre>"

    def __deepcopy__(self, memo):
        return self  # It does not change.

    def __reduce__(self):
        raise TypeError("a data set cannot be pickled: it may hold functions and files; make it anew in the other process")


# ---- Whether the number of rows of a batch is open, which element_spec says ----


def _with_rows(method, has_open_rows):
    """The method, whose result knows by `has_open_rows(self, arguments)` whether its batches may differ in size."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        if isinstance(result, Transformations) and result is not self:
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            result._has_open_rows = has_open_rows(self, given.arguments)
        return result

    return call


for _name in ("batch", "padded_batch", "ragged_batch", "sparse_batch"):
    setattr(Transformations, _name, _with_rows(getattr(Transformations, _name), lambda self, given: not given.get("drop_remainder")))
for _name in ("map", "filter", "shuffle", "repeat", "take", "skip", "shard", "cache", "prefetch", "with_options", "take_while", "ignore_errors", "concatenate", "enumerate"):
    setattr(Transformations, _name, _with_rows(getattr(Transformations, _name), lambda self, given: self._has_open_rows))


# ---- What they are called when they are printed ----


def _named(method, kind):
    @functools.wraps(method)
    def call(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        if isinstance(result, Transformations) and result is not self:
            is_parallel = kind in ("_MapDataset", "_BatchDataset", "_InterleaveDataset") and kwargs.get("num_parallel_calls") is not None
            result._kind = kind.replace("_", "_Parallel") if is_parallel else kind
        return result

    return call


_KINDS = {
    "map": "_MapDataset", "filter": "_FilterDataset", "batch": "_BatchDataset", "padded_batch": "_PaddedBatchDataset", "ragged_batch": "_MapDataset", "sparse_batch": "_DenseToSparseBatchDataset", "shuffle": "_ShuffleDataset",
    "repeat": "_RepeatDataset", "take": "_TakeDataset", "skip": "_SkipDataset", "shard": "_ShardDataset", "cache": "CacheDataset",
    "prefetch": "_PrefetchDataset", "concatenate": "_ConcatenateDataset", "flat_map": "_FlatMapDataset", "interleave": "_InterleaveDataset",
    "window": "_WindowDataset", "enumerate": "_ZipDataset", "unbatch": "_UnbatchDataset", "with_options": "_OptionsDataset",
    "take_while": "_TakeWhileDataset", "scan": "_ScanDataset", "unique": "_UniqueDataset", "rebatch": "_RebatchDataset",
}
for _name, _of in _KINDS.items():
    setattr(Transformations, _name, _named(getattr(Transformations, _name), _of))
