"""Reductions of the rows that have the same number."""

import _tandem
from tandem._names import words as _words
from tandem._ops.base import op
from tandem._ops.choosing import _scatter_add


def _segment(reduce, start):
    def segment(data, segment_ids, num_segments=None, name=None):
        x, ids = _tandem.convert(data), _tandem.convert(segment_ids)
        if num_segments is None:
            num_segments = int(_tandem.reduce_max(ids, None, False)) + 1
        n = int(num_segments)
        if reduce == "sum":
            return _scatter_add(ids, x, n, list(x._sizes[ids._rank :]))
        if reduce == "mean":
            total = _scatter_add(ids, x, n, list(x._sizes[ids._rank :]))
            count = _scatter_add(ids, _tandem.fill(list(ids._sizes), 1.0, x._code), n, [])
            count = _tandem.maximum(count, 1.0)
            return total / _tandem.reshape(count, [n] + [1] * (total._rank - 1))
        member = _tandem.one_hot(ids, n, 1.0, 0.0, 7)  # [rows, segments]
        member = _tandem.reshape(_tandem.transpose(member, [1, 0]), [n, ids._sizes[0]] + [1] * (x._rank - 1))
        info = x.dtype
        low = float(info.min) if reduce == "max" else float(info.max)
        if reduce == "prod":
            low = 1.0
        spread = _tandem.where(member, _tandem.expand_dims(x, 0), _tandem.fill((), low, x._code))
        f = {"max": _tandem.reduce_max, "min": _tandem.reduce_min, "prod": _tandem.reduce_prod}[reduce]
        return f(spread, 1, False)

    return op(segment)


segment_sum = unsorted_segment_sum = _segment("sum", 0)
segment_mean = unsorted_segment_mean = _segment("mean", 0)
segment_max = unsorted_segment_max = _segment("max", 0)
segment_min = unsorted_segment_min = _segment("min", 0)
segment_prod = unsorted_segment_prod = _segment("prod", 1)

_words.describe(__name__, globals())
