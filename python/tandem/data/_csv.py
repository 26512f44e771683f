"""tf.data.experimental.make_csv_dataset: the columns of files as features by name."""

import csv
import glob

import numpy as np


def _column(texts, default=None):
    """Whole numbers as int32, or int64 where they are large; numbers as float32; else texts. Nothing is 0 or no text."""
    filled = [t if t != "" else default for t in texts]
    for kind in (np.int64, np.float32):
        try:
            values = np.array([0 if t is None else kind(t) for t in filled], kind)
        except ValueError:
            continue
        return values.astype(np.int32) if kind is np.int64 and np.all(np.abs(values) < 2**31) else values
    return np.array(["" if t is None else t for t in filled])


def make_csv_dataset(file_pattern, batch_size, column_names=None, column_defaults=None, label_name=None, select_columns=None, field_delim=",", use_quote_delim=True, na_value="", header=True, num_epochs=None, shuffle=True, shuffle_buffer_size=10000, shuffle_seed=None, prefetch_buffer_size=None, num_parallel_reads=None, sloppy=False, num_rows_for_inference=100, compression_type=None, ignore_errors=False, encoding="utf-8"):
    """Batches of a dictionary of columns, with the label beside it where `label_name` is given. The files are read at once."""
    from tandem.data import Dataset

    if compression_type:
        raise NotImplementedError("make_csv_dataset: compressed files")
    patterns = [file_pattern] if isinstance(file_pattern, str) else list(file_pattern)
    paths = sorted(path for pattern in patterns for path in glob.glob(pattern))
    if not paths:
        raise ValueError(f"make_csv_dataset: no file matches {patterns}")
    rows, names = [], list(column_names) if column_names is not None else None
    for path in paths:
        with open(path, newline="", encoding=encoding) as file:
            lines = csv.reader(file, delimiter=field_delim, quoting=csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE)
            if header:
                first = next(lines)
                names = names or first
            rows += lines
    if names is None:
        raise ValueError("make_csv_dataset: without a header column_names are needed")
    wrong = [row for row in rows if len(row) != len(names)]
    if wrong and not ignore_errors:
        raise ValueError(f"make_csv_dataset: a row has {len(wrong[0])} fields, {len(names)} are expected: {wrong[0]}")
    rows = [["" if field == na_value else field for field in row] for row in rows if len(row) == len(names)]
    chosen = names if select_columns is None else [names[c] if isinstance(c, int) else c for c in select_columns]
    columns = {name: _column([row[names.index(name)] for row in rows]) for name in chosen}
    if label_name is not None and label_name not in columns:
        raise ValueError(f"make_csv_dataset: `label_name` {label_name!r} is not among the columns {chosen}")
    label = columns.pop(label_name) if label_name is not None else None
    dataset = Dataset.from_tensor_slices(columns if label is None else (columns, label))
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, seed=shuffle_seed)
    dataset = dataset.repeat(num_epochs)
    return dataset.batch(batch_size, drop_remainder=num_epochs is None).prefetch(1)
