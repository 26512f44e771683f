"""The kinds of tensors that are not dense: RaggedTensorSpec and SparseTensorSpec, and the kind of any value."""

from tandem import dtypes
from tandem._tensors.shape import TensorShape
from tandem._tensors.tensor import Tensor, TensorSpec


class _Spec:
    """What the kinds have in common: a shape, a dtype, and whether they are equal."""

    name = None

    @property
    def shape(self):
        """The shape, None where a size may be any."""
        return self._shape

    @property
    def dtype(self):
        """The dtype."""
        return self._dtype

    def _parts(self):
        return self._shape, self._dtype

    def __eq__(self, other):
        return type(other) is type(self) and self._parts() == other._parts()

    def __hash__(self):
        return hash((type(self), self._dtype))

    def most_specific_common_supertype(self, others):
        """The kind itself, where the others are the same."""
        return self if all(each == self for each in others) else None


class RaggedTensorSpec(_Spec):
    """The kind of a ragged tensor; with the ragged_rank 0 it is that of a row of one."""

    def __init__(self, shape=None, dtype=dtypes.float32, ragged_rank=None, row_splits_dtype=dtypes.int64, flat_values_spec=None):
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)
        self._row_splits_dtype, self._flat_values_spec = dtypes.as_dtype(row_splits_dtype), flat_values_spec
        if self._row_splits_dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"row_splits_dtype must be tf.int32 or tf.int64, not {self._row_splits_dtype!r}")
        rank = self._shape.rank
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape of a known rank.")
            ragged_rank = rank - 1
        if rank is not None and ragged_rank >= rank:
            raise ValueError(f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank}).")
        self._ragged_rank = int(ragged_rank)

    @property
    def ragged_rank(self):
        """How many axes are ragged."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self):
        """The dtype of what says where rows end."""
        return self._row_splits_dtype

    @property
    def flat_values_spec(self):
        """The kind of the innermost values, where it was given."""
        return self._flat_values_spec

    @property
    def value_type(self):
        """The class of values of this kind."""
        from tandem._tensors.ragged import RaggedTensor

        return RaggedTensor if self._ragged_rank > 0 else Tensor

    @classmethod
    def from_value(cls, value):
        """The kind of a ragged tensor."""
        return cls(value.shape, value.dtype, getattr(value, "ragged_rank", 0))

    def is_compatible_with(self, other):
        """True if a value, or every one of a kind, is of this kind."""
        rank = getattr(other, "ragged_rank", 0)
        return self._dtype == other.dtype and self._ragged_rank == rank and self._shape.is_compatible_with(other.shape)

    def _parts(self):
        return self._shape, self._dtype, self._ragged_rank, self._row_splits_dtype

    def __repr__(self):
        return f"RaggedTensorSpec({self._shape!r}, {self._dtype!r}, {self._ragged_rank}, {self._row_splits_dtype!r})"


class SparseTensorSpec(_Spec):
    """The kind of a sparse tensor."""

    def __init__(self, shape=None, dtype=dtypes.float32):
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)

    @property
    def value_type(self):
        """The class of values of this kind."""
        from tandem.sparse import SparseTensor

        return SparseTensor

    @classmethod
    def from_value(cls, value):
        """The kind of a sparse tensor."""
        return cls(value.shape, value.dtype)

    def is_compatible_with(self, other):
        """True if a value, or every one of a kind, is of this kind."""
        is_sparse = isinstance(other, SparseTensorSpec) or hasattr(other, "_is_sparse")
        return is_sparse and self._dtype == other.dtype and self._shape.is_compatible_with(other.shape)

    def __repr__(self):
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"


class DatasetSpec:
    """The kind of a data set that is an element of another."""

    def __init__(self, element_spec, dataset_shape=()):
        self.element_spec, self.dataset_shape = element_spec, TensorShape(dataset_shape)

    @classmethod
    def from_value(cls, value):
        """The kind of a data set."""
        return cls(value.element_spec)

    def __eq__(self, other):
        return isinstance(other, DatasetSpec) and (self.element_spec, self.dataset_shape) == (other.element_spec, other.dataset_shape)

    def __hash__(self):
        return hash(repr(self))

    def __repr__(self):
        return f"DatasetSpec({self.element_spec!r}, {self.dataset_shape!r})"


SPECS = (TensorSpec, RaggedTensorSpec, SparseTensorSpec)


def spec_of(value):
    """The kind of a tensor of any sort, or of a data set; other things stand for themselves."""
    if hasattr(value, "element_spec") and hasattr(value, "_open"):
        return DatasetSpec(value.element_spec)
    if hasattr(value, "_ragged_rows"):
        return RaggedTensorSpec.from_value(value)
    if hasattr(value, "_is_sparse"):
        return SparseTensorSpec.from_value(value)
    if hasattr(value, "_is_row"):
        return RaggedTensorSpec([None, *value.shape[1:]], value.dtype, 0)
    return TensorSpec(value.shape, value.dtype) if hasattr(value, "shape") else value


def reshaped(spec, shape, more_rows=0):
    """A kind with another shape, which has so many ragged axes more."""
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank + more_rows, spec.row_splits_dtype)
    return SparseTensorSpec(shape, spec.dtype) if isinstance(spec, SparseTensorSpec) else TensorSpec(shape, spec.dtype, spec.name)


def batched(spec, rows):
    """The kind of `rows` values of a kind together."""
    return reshaped(spec, None if spec.shape.rank is None else [rows, *spec.shape], 1)


def row_of(spec):
    """The kind of a row of values of a kind."""
    if isinstance(spec, RaggedTensorSpec) and spec.ragged_rank == 0:
        return TensorSpec(spec.shape[1:], spec.dtype)
    return reshaped(spec, spec.shape[1:], -1)


def type_spec_from_value(value):
    """The kind of a value."""
    from tandem._ops import convert_to_tensor

    known = hasattr(value, "_ragged_rows") or hasattr(value, "_is_sparse") or hasattr(value, "shape") and hasattr(value, "dtype")
    return spec_of(value if known else convert_to_tensor(value))
