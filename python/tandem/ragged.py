"""tf.ragged: tensors whose rows have different lengths."""

import builtins

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._ops.ragged import stack
from tandem._tensors.ragged import RaggedTensor, _as_ragged, _at, _is_ragged, _length, _numbers, _tensor, constant


def map_flat_values(op, *args, **kwargs):
    """The op of the innermost values of ragged tensors, which have rows of the same lengths."""
    given = [each for each in (*args, *kwargs.values()) if _is_ragged(each)]
    if not given:
        return op(*args, **kwargs)
    for other in given[1:]:
        given[0]._beside(other)
    values = lambda each: each.flat_values if _is_ragged(each) else each  # noqa: E731
    return given[0].with_flat_values(op(*[values(each) for each in args], **{k: values(v) for k, v in kwargs.items()}))


def range(starts, limits=None, deltas=1, dtype=None, name=None, row_splits_dtype=None):  # noqa: A001
    """Rows of numbers from starts up to limits."""
    if limits is None:
        starts, limits = 0, starts
    given = [_tensor(v) for v in (starts, limits, deltas)]
    kind = dtypes.as_dtype(dtype) if dtype is not None else dtypes.as_dtype(np.result_type(*[v.dtype.as_numpy_dtype for v in given]))
    rows = [np.arange(*each, dtype=kind.as_numpy_dtype) for each in np.broadcast(*[np.atleast_1d(v.numpy()) for v in given])]
    return RaggedTensor.from_row_lengths(_tandem.convert(np.concatenate(rows) if rows else np.zeros(0, kind.as_numpy_dtype)), [len(row) for row in rows])


def boolean_mask(data, mask, name=None):
    """The elements where the mask is true, in their rows."""
    data, mask = _tensor(data), _tensor(mask)
    depth = mask._rank - 1 if _is_ragged(mask) or len(mask.shape) > 1 else 0
    whole = _as_ragged(data, max(depth, data.ragged_rank if _is_ragged(data) else 0))
    kept = mask.to_list() if _is_ragged(mask) else mask.numpy().tolist()

    def chosen(lists, flags):
        if flags and not isinstance(flags[0], list):
            return [each for each, flag in zip(lists, flags) if flag]
        return [chosen(each, flag) for each, flag in zip(lists, flags)]

    if not _is_ragged(whole):
        return _at(whole, chosen(list(builtins.range(_length(whole))), kept), 0)
    return _at(whole.flat_values, chosen(whole._places(), kept), whole.ragged_rank)


def row_splits_to_segment_ids(splits, name=None, out_type=None):
    """The row of each value."""
    lengths = np.diff(_numbers(splits))
    return _tandem.convert(np.repeat(np.arange(len(lengths)), lengths))


def segment_ids_to_row_splits(segment_ids, num_segments=None, out_type=None, name=None):
    """Where rows end, of the row of each value."""
    ids = _numbers(segment_ids)
    counts = np.bincount(ids, minlength=0 if num_segments is None else int(num_segments))
    return _tandem.convert(np.concatenate([[0], np.cumsum(counts)]))


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "RaggedTensor", "boolean_mask", "constant", "dtypes", "map_flat_values", "range", "row_splits_to_segment_ids",
    "segment_ids_to_row_splits", "stack",
]
