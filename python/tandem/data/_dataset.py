"""Data sets: where they come from, and how they are read."""

import functools
import itertools
import random as _random

import numpy as np

import _tandem
from tandem import dtypes, nest
from tandem._tensors.specs import SPECS, RaggedTensorSpec, reshaped, row_of, spec_of
from tandem._tensors.tensor import Tensor, TensorSpec
from tandem._tracing.function import GiveUpTrace
from tandem._ops import philox
from tandem._tracing.state import rehearsal, state
from tandem.data._iterator import Iterator, Options
from tandem.data._structure import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, _Structure, _as_slices, _flat, _is_not_dense, _leaf, _leaves_for, _pack_values, _row, _typed_part, _untupled
from tandem.data._transformations import Transformations
from tandem.errors import InvalidArgumentError, NoFileError
from tandem.strings import StringTensor


class Dataset(Transformations):
    """Elements, one after another: structures of tensors."""

    def __init__(self, native=None, structure=None, spec=None, generate=None, count=None):
        self._native = native  # A data set of the library,
        self._generate = generate  # or a function that starts a generator of elements as structures.
        self._structure = structure if structure is not None else _Structure()
        self._spec = spec  # The kind of the elements, where it was said.
        self._seen_spec = None  # The kind of the first one, where it was not; others may have other sizes.
        self._count = count
        self._options = Options()

    # ---- Sources ----

    @staticmethod
    def from_tensor_slices(tensors, name=None):
        """A data set of the rows of arrays or tensors, or of structures of them."""
        tensors = _as_slices(tensors)
        leaves = nest.flatten(tensors)
        if any(getattr(leaf, "_is_text_tensor", False) or _is_not_dense(leaf) for leaf in leaves):
            rows_of = [leaf.rows() if hasattr(leaf, "_is_sparse") else leaf for leaf in leaves]
            count = len(rows_of[0])

            def generate():
                for i in range(count):
                    yield nest.pack_sequence_as(tensors, [_row(leaf, i) for leaf in rows_of]) if nest.is_nested(tensors) else _row(rows_of[0], i)

            row_kind = lambda leaf: row_of(spec_of(leaf))  # noqa: E731
            return Dataset(generate=generate, count=count, spec=nest.map_structure(row_kind, tensors) if nest.is_nested(tensors) else row_kind(tensors))
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
        """A data set of one element."""
        tensors = _untupled(tensors)
        spec = nest.map_structure(spec_of, tensors) if nest.is_nested(tensors) else spec_of(tensors)
        return Dataset(generate=lambda: iter([tensors]), count=1, spec=spec)

    @staticmethod
    def from_generator(generator, output_types=None, output_shapes=None, args=None, output_signature=None, name=None):
        """A data set of what a Python generator yields."""
        kinds = output_signature
        if kinds is None and output_types is not None:
            flat = nest.flatten(output_types)
            kinds = [TensorSpec(s, d) for s, d in zip(_leaves_for(output_shapes, output_types, len(flat)), flat)]
            kinds = nest.pack_sequence_as(output_types, kinds) if nest.is_nested(output_types) else kinds[0]
        given = tuple(args or ())

        def typed(value, spec):
            if isinstance(spec, RaggedTensorSpec) and not hasattr(value, "_ragged_rows"):
                from tandem._tensors.ragged import constant

                return constant(value, spec.dtype, ragged_rank=spec.ragged_rank)
            if not isinstance(spec, TensorSpec):
                return _leaf(value)
            if spec.dtype == dtypes.string:
                return StringTensor(value)
            made = _tandem.convert(value, spec.dtype._code) if not isinstance(value, Tensor) else _tandem.cast(value, spec.dtype._code)
            if not spec.shape.is_compatible_with(made.shape):
                raise InvalidArgumentError(f"from_generator: the generator yielded an element of shape {made.shape} where an element of shape {spec.shape} was expected")
            return made

        def generate():
            for value in generator(*given):
                if kinds is None:
                    yield _untupled(value)
                else:
                    yield _typed_part(value, kinds, typed)

        return Dataset(generate=generate, spec=kinds)

    @staticmethod
    def range(*args, output_type=dtypes.int64, name=None):
        """A data set of the numbers of a range."""
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (args + (1,))[:3]
        dataset = Dataset(_tandem.Dataset.range(int(start), int(stop), int(step)), _Structure(0), TensorSpec((), dtypes.int64))
        if dtypes.as_dtype(output_type) == dtypes.int64:
            return dataset
        return dataset.map(lambda x: _tandem.cast(x, dtypes.code_of(output_type)))

    @staticmethod
    def zip(*args, datasets=None, name=None):
        """A data set of tuples, one element from each data set."""
        sets = datasets if datasets is not None else (args[0] if len(args) == 1 and not isinstance(args[0], Dataset) else args)
        if not nest.is_nested(sets):
            sets = (sets,)
        flat = nest.flatten(sets)
        counts = [d._cardinality() for d in flat]

        def generate():
            for values in zip(*[d._open() for d in flat]):
                yield _pack_values(sets, list(values))

        specs = [d._spec for d in flat]
        spec = None if any(s is None for s in specs) else _pack_values(sets, specs)
        if all(d._native is not None and d._structure.known for d in flat):
            like = _pack_values(sets, [d._structure.like for d in flat])
            zipped = Dataset(_tandem.Dataset.zip([d._native for d in flat]), _Structure(like), spec)
            zipped._has_open_rows = any(d._has_open_rows for d in flat)
            return zipped
        finite = [c for c in counts if c >= 0]
        count = UNKNOWN_CARDINALITY if any(c == UNKNOWN_CARDINALITY for c in counts) else (min(finite) if finite else INFINITE_CARDINALITY)
        zipped = Dataset(generate=generate, count=count, spec=spec)
        zipped._has_open_rows = any(d._has_open_rows for d in flat)
        return zipped

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None, name=None):
        """A data set of the names of files that match a pattern."""
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
        """A data set of numbers without an end."""
        def generate():
            for i in itertools.count(start, step):
                yield _tandem.convert(i, dtypes.code_of(dtype))

        return Dataset(generate=generate, count=INFINITE_CARDINALITY)

    @staticmethod
    def random(seed=None, rerandomize_each_iteration=None, name=None):
        """A data set of random integers without an end."""
        philox.seeds.pair(seed)
        def generate():
            source = _random.Random(seed)
            while True:
                yield _tandem.convert(source.getrandbits(32), 6)

        return Dataset(generate=generate, count=INFINITE_CARDINALITY)

    @staticmethod
    def sample_from_datasets(datasets, weights=None, seed=None, stop_on_empty_dataset=False, rerandomize_each_iteration=None):
        """Elements of several data sets, drawn by weights."""
        philox.seeds.pair(seed)
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
        """Elements of several data sets, chosen by the numbers of another."""
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
        """Goes through the elements as NumPy arrays."""
        from tandem.data._iterator import Arrays

        return Arrays(iter(self))

    def _cardinality(self):
        if self._native is not None:
            return self._native.cardinality()
        return UNKNOWN_CARDINALITY if self._count is None else self._count

    def cardinality(self, name=None):
        """The number of elements, or a negative number where it is infinite or not known."""
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
        """The kind of the elements, in their structure."""
        if self._spec is not None:
            return self._spec
        if self._seen_spec is None:
            with rehearsal():
                first = next(self._peek(), None)
            if first is None:
                return None
            self._seen_spec = nest.map_structure(spec_of, first) if nest.is_nested(first) else spec_of(first)
            if self._has_open_rows:
                self._seen_spec = self._without_rows(self._seen_spec)
        return self._seen_spec

    @staticmethod
    def _without_rows(spec):
        """The spec with None for the rows of a batch: the last one may have fewer."""
        leaves = [s for s in nest.flatten(spec) if isinstance(s, SPECS) and s.shape.rank]
        rows = leaves[0].shape[0] if leaves else None

        def opened(s):
            is_rows = isinstance(s, SPECS) and s.shape.rank and s.shape[0] == rows
            return reshaped(s, [None, *s.shape[1:]]) if is_rows else s

        return nest.map_structure(opened, spec) if nest.is_nested(spec) else opened(spec)

    def _peek(self):
        if self._native is None:
            return iter(self._generate())
        return self._peek_native()

    def _peek_native(self):
        iterator = self._native.iterator_of_epoch(0)
        element = iterator.next()
        if element is not None:
            yield self._structure.pack(element)


def opened(path, compression_type):
    """A file for reading bytes."""
    import gzip

    try:
        return (gzip.open if compression_type == "GZIP" else open)(path, "rb")
    except FileNotFoundError as error:
        raise NoFileError(f"{path}; No such file or directory") from error


class TextLineDataset(Dataset):
    """The lines of text files."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None, name=None):
        names = filenames.tolist() if hasattr(filenames, "tolist") else filenames
        if isinstance(filenames, Dataset):
            names = [f.numpy() for f in filenames]
        names = [names] if isinstance(names, (str, bytes)) or hasattr(names, "__fspath__") else list(names)

        def generate():
            for each in names:
                each = each.decode() if isinstance(each, bytes) else str(each)
                with opened(each, compression_type) as file:
                    for line in file:
                        yield StringTensor(line.rstrip(b"\r\n"))

        super().__init__(generate=generate, spec=TensorSpec((), dtypes.string))
        self._kind = "TextLineDatasetV2"


# ---- What sources are called when they are printed ----


def _named(source, kind):
    @functools.wraps(source)
    def make(*args, **kwargs):
        result = source(*args, **kwargs)
        result._kind = kind
        return result

    return staticmethod(make)


_KINDS = {
    "from_tensor_slices": "_TensorSliceDataset", "from_tensors": "_TensorDataset", "from_generator": "_FlatMapDataset", "range": "_RangeDataset",
    "zip": "_ZipDataset", "counter": "_ScanDataset", "random": "_RandomDataset", "sample_from_datasets": "_DirectedInterleaveDataset",
    "choose_from_datasets": "_DirectedInterleaveDataset",
}
for _name, _of in _KINDS.items():
    setattr(Dataset, _name, _named(getattr(Dataset, _name), _of))
