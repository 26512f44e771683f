"""Data sets, tf.data.

Stages that the library has (slices, map, batch, shuffle, ..) run there; the others are generators of Python over
those before them.
"""

import itertools
import random as _random

import numpy as np

import _tandem
from tandem import dtypes, nest
from tandem._function import GiveUpTrace
from tandem._shape import TensorShape
from tandem._state import init_scope, state
from tandem._tensor import Tensor, TensorSpec
from tandem.strings import StringTensor

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2


class _Structure:
    """How the flat tensors of an element make a structure; known at the latest when the first element was made."""

    def __init__(self, like=None):
        self.like = like  # The structure with something at each leaf.
        self.known = like is not None
        self._flat = None

    def _is_flat(self):
        if self._flat is None:
            self._flat = not any(nest.is_nested(each) for each in self.like)
        return self._flat

    def pack(self, tensors):
        if type(self.like) is tuple and len(self.like) == len(tensors) and self._is_flat():
            return tuple(tensors)
        if not nest.is_nested(self.like):
            return tensors[0]
        return nest.pack_sequence_as(self.like, tensors)

    def learn(self, value):
        if not self.known:
            self.like = nest.map_structure(lambda leaf: 0, value) if nest.is_nested(value) else 0
            self.known, self._flat = True, None


def _untupled(value):
    """Lists in an element stand for tensors, as in tf.data; tuples and dictionaries are structure."""
    if isinstance(value, list):
        return _leaf(value)
    if isinstance(value, tuple):
        parts = [_untupled(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {k: _untupled(v) for k, v in value.items()}
    return _leaf(value)


def _leaf(value):
    if isinstance(value, (Tensor, StringTensor)):
        return value
    if isinstance(value, _tandem.Variable):
        return value.read_value()
    from tandem._ops import constant

    if hasattr(value, "toarray"):
        value = value.toarray()
    return constant(value)


def _flat(value):
    return [_tandem.convert(v) for v in nest.flatten(value)]


def _wrapped(array):
    """An array's memory itself where a tensor can have it; else a copy."""
    if isinstance(array, np.ndarray) and array.flags.c_contiguous and array.dtype in (np.float32, np.float64, np.uint8, np.int32, np.int64, np.bool_):
        return _tandem.wrap(array)
    return _leaf(array)


def _call(f, value, unpack=True):
    return f(*value) if unpack and isinstance(value, tuple) and not hasattr(value, "_fields") else f(value)


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


OwnedIterator = Iterator


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


class Dataset:
    """Elements, one after another: structures of tensors."""

    def __init__(self, native=None, structure=None, spec=None, generate=None, count=None):
        self._native = native  # A data set of the library,
        self._generate = generate  # or a function that starts a generator of elements as structures.
        self._structure = structure if structure is not None else _Structure()
        self._spec = spec
        self._count = count
        self._options = Options()

    # ---- Sources ----

    @staticmethod
    def from_tensor_slices(tensors, name=None):
        tensors = _as_slices(tensors)
        leaves = nest.flatten(tensors)
        if any(getattr(leaf, "_is_text_tensor", False) or hasattr(leaf, "_ragged_rows") for leaf in leaves):
            count = len(leaves[0])

            def generate():
                for i in range(count):
                    yield nest.pack_sequence_as(tensors, [leaf[i] for leaf in leaves]) if nest.is_nested(tensors) else leaves[0][i]

            return Dataset(generate=generate, count=count)
        spec = nest.map_structure(lambda t: TensorSpec(t.shape[1:], t.dtype), tensors) if nest.is_nested(tensors) else TensorSpec(tensors.shape[1:], tensors.dtype)
        for leaf in leaves:
            if leaf._rank == 0:
                raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        sizes = {leaf._sizes[0] for leaf in leaves}
        if len(sizes) > 1:
            raise ValueError(f"Dimensions {sorted(sizes)} are not compatible: all components must have the same number of rows")
        return Dataset(_tandem.Dataset.from_tensor_slices(leaves), _Structure(tensors), spec)

    @staticmethod
    def from_tensors(tensors, name=None):
        tensors = _untupled(tensors)
        return Dataset(generate=lambda: iter([tensors]), count=1)

    @staticmethod
    def from_generator(generator, output_types=None, output_shapes=None, args=None, output_signature=None, name=None):
        kinds = output_signature
        if kinds is None and output_types is not None:
            kinds = nest.map_structure(lambda d: TensorSpec(None, d), output_types) if nest.is_nested(output_types) else TensorSpec(None, output_types)
        given = tuple(args or ())

        def typed(value, spec):
            if not isinstance(spec, TensorSpec):
                return _leaf(value)
            if spec.dtype == dtypes.string:
                return StringTensor(value)
            return _tandem.convert(value, spec.dtype._code) if not isinstance(value, Tensor) else _tandem.cast(value, spec.dtype._code)

        def generate():
            for value in generator(*given):
                if kinds is None:
                    yield _untupled(value)
                elif isinstance(kinds, tuple):
                    yield tuple(_typed_part(v, k, typed) for v, k in zip(value, kinds))
                else:
                    yield _typed_part(value, kinds, typed)

        return Dataset(generate=generate, spec=kinds)

    @staticmethod
    def range(*args, output_type=dtypes.int64, name=None):
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (args + (1,))[:3]
        dataset = Dataset(_tandem.Dataset.range(int(start), int(stop), int(step)), _Structure(0), TensorSpec((), dtypes.int64))
        if dtypes.as_dtype(output_type) == dtypes.int64:
            return dataset
        return dataset.map(lambda x: _tandem.cast(x, dtypes.code_of(output_type)))

    @staticmethod
    def zip(*args, datasets=None, name=None):
        sets = datasets if datasets is not None else (args[0] if len(args) == 1 and not isinstance(args[0], Dataset) else args)
        if not nest.is_nested(sets):
            sets = (sets,)
        flat = nest.flatten(sets)
        counts = [d._cardinality() for d in flat]

        def generate():
            for values in zip(*[d._open() for d in flat]):
                yield _pack_values(sets, list(values))

        if all(d._native is not None and d._structure.known for d in flat):
            like = _pack_values(sets, [d._structure.like for d in flat])
            return Dataset(_tandem.Dataset.zip([d._native for d in flat]), _Structure(like), _pack_values(sets, [d.element_spec for d in flat]))
        finite = [c for c in counts if c >= 0]
        count = UNKNOWN_CARDINALITY if any(c == UNKNOWN_CARDINALITY for c in counts) else (min(finite) if finite else INFINITE_CARDINALITY)
        return Dataset(generate=generate, count=count)

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None, name=None):
        import glob

        patterns = file_pattern.tolist() if hasattr(file_pattern, "tolist") else file_pattern
        patterns = [patterns] if isinstance(patterns, (str, bytes)) else list(patterns)
        files = sorted(f for p in patterns for f in glob.glob(p.decode() if isinstance(p, bytes) else str(p)))
        if not files:
            from tandem.errors import InvalidArgumentError

            raise InvalidArgumentError(f"No files matched pattern: {file_pattern}")
        result = Dataset.from_tensor_slices(StringTensor(files))
        return result.shuffle(len(files), seed) if shuffle or shuffle is None else result

    @staticmethod
    def counter(start=0, step=1, dtype=dtypes.int64, name=None):
        def generate():
            for i in itertools.count(start, step):
                yield _tandem.convert(i, dtypes.code_of(dtype))

        return Dataset(generate=generate, count=INFINITE_CARDINALITY)

    @staticmethod
    def random(seed=None, rerandomize_each_iteration=None, name=None):
        def generate():
            source = _random.Random(seed)
            while True:
                yield _tandem.convert(source.getrandbits(32), 6)

        return Dataset(generate=generate, count=INFINITE_CARDINALITY)

    @staticmethod
    def sample_from_datasets(datasets, weights=None, seed=None, stop_on_empty_dataset=False, rerandomize_each_iteration=None):
        def generate():
            source = _random.Random(seed)
            open_ = [d._open() for d in datasets]
            chances = list(np.asarray(weights, float)) if weights is not None else [1.0] * len(open_)
            while open_:
                i = source.choices(range(len(open_)), chances)[0]
                try:
                    yield next(open_[i])
                except StopIteration:
                    if stop_on_empty_dataset:
                        return
                    del open_[i], chances[i]
                    if not any(chances):
                        return

        return Dataset(generate=generate)

    @staticmethod
    def choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset=True):
        def generate():
            open_ = [d._open() for d in datasets]
            for choice in choice_dataset._open():
                try:
                    yield next(open_[int(choice)])
                except StopIteration:
                    if stop_on_empty_dataset:
                        return

        return Dataset(generate=generate)

    # ---- Reading ----

    def _open(self):
        """A Python iterator over the elements of the next epoch."""
        if self._native is None:
            return iter(self._generate())
        return self._open_native()

    def _open_native(self):
        iterator = self._native.iterator()
        structure = self._structure
        while True:
            element = iterator.next()
            if element is None:
                return
            yield structure.pack(element)

    def _as_native(self):
        """This data set as one of the library, whose elements are flat lists of tensors."""
        if self._native is not None:
            return self._native
        structure = self._structure

        def start():
            source = iter(self._generate())

            def step():
                try:
                    value = next(source)
                except StopIteration:
                    return None
                structure.learn(value)
                return _flat(value)

            return step

        return _tandem.Dataset.from_generator(start)

    def _then(self, native, spec=None):
        return Dataset(native, self._structure, spec)

    def _has_texts(self):
        return any(getattr(s, "dtype", None) == dtypes.string for s in nest.flatten(self.element_spec))

    def _stage(self, name, *args):
        """A stage of the library, where this data set has only tensors and is not a generator."""
        if self._native is None:
            return None
        return getattr(self._native, name)(*args)

    def __iter__(self):
        if state.tracing:
            raise GiveUpTrace("a loop over a data set inside of a function that is being traced")
        return Iterator(self)

    def as_numpy_iterator(self):
        for value in self:
            yield nest.map_structure(lambda t: t.numpy(), value) if nest.is_nested(value) else value.numpy()

    def _cardinality(self):
        if self._native is not None:
            return self._native.cardinality()
        return UNKNOWN_CARDINALITY if self._count is None else self._count

    def cardinality(self, name=None):
        return _tandem.convert(self._cardinality(), 6)

    def __len__(self):
        count = self._cardinality()
        if count < 0:
            raise TypeError("The dataset is infinite." if count == INFINITE_CARDINALITY else "The dataset length is unknown.")
        return count

    def __bool__(self):
        return True

    @property
    def element_spec(self):
        if self._spec is None:
            with init_scope():
                first = next(self._peek(), None)
            if first is None:
                return None
            spec = lambda t: TensorSpec(t.shape, t.dtype) if hasattr(t, "shape") else t  # noqa: E731
            self._spec = nest.map_structure(spec, first) if nest.is_nested(first) else spec(first)
        return self._spec

    def _peek(self):
        if self._native is None:
            return iter(self._generate())
        return self._peek_native()

    def _peek_native(self):
        iterator = self._native.iterator_of_epoch(0)
        element = iterator.next()
        if element is not None:
            yield self._structure.pack(element)

    # ---- Transformations ----

    def map(self, map_func, num_parallel_calls=None, deterministic=None, synchronous=None, use_unbounded_threadpool=False, name=None):
        from tandem._function import Function

        f = map_func.python_function if isinstance(map_func, Function) else map_func
        result = _Structure()
        if self._native is None or self._has_no_native_map():
            source = self

            def generate():
                for value in source._open():
                    made = _untupled(_call(f, value))
                    yield made

            return Dataset(generate=generate, count=self._count if self._native is None else self._native.cardinality())
        structure = self._structure
        has_text = []

        def on_element(tensors):
            value = _untupled(_call(f, structure.pack(tensors)))
            result.learn(value)
            return _flat(value)

        # Whether the function gives strings is seen with the first element.
        with init_scope():
            first = next(self._peek(), None)
            if first is not None:
                made = _untupled(_call(f, first))
                has_text = [leaf for leaf in nest.flatten(made) if not isinstance(leaf, Tensor)]
                result.learn(made)
        if has_text:
            source = self
            return Dataset(generate=lambda: (_untupled(_call(f, v)) for v in source._open()), count=self._native.cardinality())
        return Dataset(self._native.map(on_element, 1), result)

    def _has_no_native_map(self):
        return False

    def filter(self, predicate, name=None):
        structure = self._structure
        if self._native is None:
            source = self
            return Dataset(generate=lambda: (v for v in source._open() if bool(_call(predicate, v))))
        return Dataset(self._native.filter(lambda t: bool(_call(predicate, structure.pack(t)))), structure, self._spec)

    def batch(self, batch_size, drop_remainder=False, num_parallel_calls=None, deterministic=None, name=None):
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
        return Dataset(generate=generate, count=count)

    def padded_batch(self, batch_size, padded_shapes=None, padding_values=None, drop_remainder=False, name=None):
        source, size = self, int(batch_size)

        def pad_all(arrays, shape, value):
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
        return Dataset(generate=generate, count=count)

    def ragged_batch(self, batch_size, drop_remainder=False, **kwargs):
        return self.padded_batch(batch_size, drop_remainder=drop_remainder)

    def unbatch(self, name=None):
        source = self

        def generate():
            for value in source._open():
                leaves = nest.flatten(value)
                for i in range(len(leaves[0])):
                    yield nest.pack_sequence_as(value, [leaf[i] for leaf in leaves]) if nest.is_nested(value) else leaves[0][i]

        return Dataset(generate=generate)

    def rebatch(self, batch_size, drop_remainder=False, name=None):
        return self.unbatch().batch(batch_size, drop_remainder)

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=None, name=None):
        reshuffle = True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)
        size = int(buffer_size)
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

        return Dataset(generate=generate, count=self._count, spec=self._spec)

    def repeat(self, count=None, name=None):
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
        return Dataset(generate=generate, count=total, spec=self._spec)

    def take(self, count, name=None):
        count = int(count)
        if count < 0:
            return self
        if self._native is not None:
            return self._then(self._native.take(count), self._spec)
        source = self
        known = self._count
        return Dataset(generate=lambda: itertools.islice(source._open(), count), count=count if known == -1 else (min(known, count) if known is not None and known >= 0 else known), spec=self._spec)

    def skip(self, count, name=None):
        count = int(count)
        if self._native is not None:
            if count < 0:
                return self._then(self._native.take(0), self._spec)
            return self._then(self._native.skip(count), self._spec)
        source = self
        known = self._count
        return Dataset(generate=lambda: itertools.islice(source._open(), count, None), count=max(known - count, 0) if known is not None and known >= 0 else known, spec=self._spec)

    def shard(self, num_shards, index, name=None):
        if self._native is not None:
            return self._then(self._native.shard(int(num_shards), int(index)), self._spec)
        source = self
        return Dataset(generate=lambda: itertools.islice(source._open(), int(index), None, int(num_shards)), spec=self._spec)

    def cache(self, filename="", name=None):
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

        return Dataset(generate=generate, count=self._count, spec=self._spec)

    def prefetch(self, buffer_size, name=None):
        size = int(buffer_size)
        if self._native is not None:
            return self._then(self._native.prefetch(2 if size < 1 else size), self._spec)
        return self

    def enumerate(self, start=0, name=None):
        source = self

        def generate():
            for i, value in enumerate(source._open(), int(start)):
                yield _tandem.convert(i, 6), value

        return Dataset(generate=generate, count=self._cardinality())

    def concatenate(self, dataset, name=None):
        first, second = self, dataset
        counts = first._cardinality(), second._cardinality()
        return Dataset(generate=lambda: itertools.chain(first._open(), second._open()), count=sum(counts) if min(counts) >= 0 else min(counts))

    def flat_map(self, map_func, name=None):
        source = self

        def generate():
            for value in source._open():
                yield from _call(map_func, value)._open()

        return Dataset(generate=generate)

    def interleave(self, map_func, cycle_length=None, block_length=None, num_parallel_calls=None, deterministic=None, name=None):
        source = self
        cycle = 4 if cycle_length is None or int(cycle_length) < 1 else int(cycle_length)
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

        return Dataset(generate=generate)

    def window(self, size, shift=None, stride=1, drop_remainder=False, name=None):
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
        return Dataset(generate=generate, count=count)

    def take_while(self, predicate, name=None):
        source = self
        return Dataset(generate=lambda: itertools.takewhile(lambda v: bool(_call(predicate, v)), source._open()))

    def scan(self, initial_state, scan_func, name=None):
        source = self

        def generate():
            now = nest.map_structure(_leaf, initial_state)
            for value in source._open():
                now, out = scan_func(now, value)
                yield _untupled(out)

        return Dataset(generate=generate)

    def reduce(self, initial_state, reduce_func, name=None):
        now = nest.map_structure(_leaf, initial_state) if nest.is_nested(initial_state) else _leaf(initial_state)
        for value in self:
            now = reduce_func(now, value)
        return nest.map_structure(_leaf, now) if nest.is_nested(now) else _leaf(now)

    def apply(self, transformation_func):
        return transformation_func(self)

    def group_by_window(self, key_func, reduce_func, window_size=None, window_size_func=None, name=None):
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
            for key, values in groups.items():
                yield from reduce_func(_tandem.convert(key, 6), _of_values(values))._open()

        return Dataset(generate=generate)

    def bucket_by_sequence_length(self, element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes=None, padding_values=None, pad_to_bucket_boundary=False, no_padding=False, drop_remainder=False, name=None):
        import bisect

        def key(*value):
            length = int(_call(element_length_func, value if len(value) > 1 else value[0]))
            return bisect.bisect_right(list(bucket_boundaries), length)

        def reduce_(bucket, values):
            return values.padded_batch(bucket_batch_sizes[int(bucket)], padded_shapes, padding_values, drop_remainder)

        return self.group_by_window(key, reduce_, window_size_func=lambda k: bucket_batch_sizes[int(k)])

    def unique(self, name=None):
        source = self

        def generate():
            seen = set()
            for value in source._open():
                key = value.numpy().tobytes() if hasattr(value, "numpy") and hasattr(value.numpy(), "tobytes") else value.numpy()
                if key not in seen:
                    seen.add(key)
                    yield value

        return Dataset(generate=generate)

    def rejection_resample(self, class_func, target_dist, initial_dist=None, seed=None, name=None):
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

        return Dataset(generate=generate)

    def ignore_errors(self, log_warning=False, name=None):
        source = self

        def generate():
            values = source._open()
            while True:
                try:
                    yield next(values)
                except StopIteration:
                    return
                except Exception:  # noqa: BLE001: what the name says
                    continue

        return Dataset(generate=generate)

    def snapshot(self, path, compression="AUTO", reader_func=None, shard_func=None, name=None):
        """The elements are computed once and kept in memory."""
        return self.cache()

    def get_single_element(self, name=None):
        return next(iter(self))

    def with_options(self, options, name=None):
        other = Dataset(self._native, self._structure, self._spec, self._generate, self._count)
        other._options = options
        return other

    def options(self):
        return self._options

    def save(self, path, compression=None, shard_func=None, checkpoint_args=None):
        import os
        import pickle

        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "elements.pickle"), "wb") as file:
            pickle.dump(list(self), file)

    @staticmethod
    def load(path, element_spec=None, compression=None, reader_func=None):
        import os
        import pickle

        with open(os.path.join(path, "elements.pickle"), "rb") as file:
            values = pickle.load(file)
        return _of_values(values)

    def __repr__(self):
        return f"<{type(self).__name__} element_spec={self.element_spec}>"

    def _repr_html_(self):
        import html

        text = str(self._native) if self._native is not None else repr(self)
        return f"<pre>{html.escape(text)}\n{html.escape(str(self.element_spec))}</pre>"

    def __reduce__(self):
        raise TypeError("a data set cannot be pickled: it may hold functions and files; make it anew in the other process")


DatasetV2 = Dataset


def _pack_values(like, values):
    """Values, which may be structures themselves, in the places of a structure's leaves."""
    values = iter(values)

    def fill(part):
        if isinstance(part, dict):
            return {k: fill(part[k]) for k in nest._sorted_keys(part)}
        if isinstance(part, (list, tuple)):
            return tuple(fill(p) for p in part)
        return next(values)

    return fill(like)


def _as_slices(value):
    if isinstance(value, tuple):
        parts = [_as_slices(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {k: _as_slices(v) for k, v in value.items()}
    if type(value).__module__.startswith("pandas"):
        if hasattr(value, "columns"):
            return _as_slices(np.asarray(value))
        value = np.asarray(value)
    return _wrapped(value)


def _typed_part(value, kind, typed):
    if isinstance(kind, dict):
        return {k: _typed_part(value[k], kind[k], typed) for k in kind}
    if isinstance(kind, (tuple, list)):
        return tuple(_typed_part(v, k, typed) for v, k in zip(value, kind))
    return typed(value, kind)


def _leaves_for(given, like, count):
    if given is None:
        return [None] * count
    if not nest.is_nested(like):
        return [given]
    leaves = []

    def walk(part, shape):
        if isinstance(part, dict):
            for k in nest._sorted_keys(part):
                walk(part[k], shape[k])
        elif isinstance(part, (list, tuple)):
            for p, s in zip(part, shape):
                walk(p, s)
        else:
            leaves.append(shape)

    try:
        walk(like, given)
    except (TypeError, KeyError):
        return [given] * count
    return leaves


def _chunks(values, size):
    while True:
        chunk = list(itertools.islice(values, size))
        if not chunk:
            return
        yield chunk


def _stacked(values):
    first = values[0]
    if not nest.is_nested(first):
        return _stack(values)
    flat = zip(*[nest.flatten(v) for v in values])
    return nest.pack_sequence_as(first, [_stack(list(each)) for each in flat])


def _stack(leaves):
    if isinstance(leaves[0], StringTensor):
        return StringTensor(np.stack([leaf.numpy() if leaf.shape.rank else np.array(leaf.numpy(), object) for leaf in leaves]))
    return _tandem.stack([_tandem.convert(leaf) for leaf in leaves], 0)


def _of_values(values):
    return Dataset(generate=lambda: iter(values), count=len(values))


def _windowed(values):
    first = values[0]
    if not nest.is_nested(first):
        return _of_values(values)
    if isinstance(first, tuple):
        return tuple(_windowed([v[i] for v in values]) for i in range(len(first)))
    if isinstance(first, dict):
        return {k: _windowed([v[k] for v in values]) for k in first}
    return _of_values(values)


class TextLineDataset(Dataset):
    """The lines of text files."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None, name=None):
        import gzip

        names = filenames.tolist() if hasattr(filenames, "tolist") else filenames
        if isinstance(filenames, Dataset):
            names = [f.numpy() for f in filenames]
        names = [names] if isinstance(names, (str, bytes)) or hasattr(names, "__fspath__") else list(names)

        def generate():
            for each in names:
                each = each.decode() if isinstance(each, bytes) else str(each)
                with (gzip.open if compression_type == "GZIP" else open)(each, "rb") as file:
                    for line in file:
                        yield StringTensor(line.rstrip(b"\r\n"))

        super().__init__(generate=generate, spec=TensorSpec((), dtypes.string))


class experimental:
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
        return lambda dataset: dataset.padded_batch(batch_size, drop_remainder=drop_remainder)

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


def __getattr__(name):
    import sys

    if name == "TFRecordDataset":
        from tandem._records import TFRecordDataset

        return TFRecordDataset
    from tandem import _missing

    raise _missing.missing("tandem.data", name, sys.modules[__name__], ("TFRecordDataset",))
