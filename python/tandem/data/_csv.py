"""Tables in text files: their columns as features by name (tf.data.experimental.make_csv_dataset), their rows as tuples (CsvDataset)."""

import csv
import glob
import gzip

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

    if compression_type not in (None, "", "GZIP"):
        raise NotImplementedError(f"make_csv_dataset: files compressed by {compression_type}; GZIP and none are accepted")
    patterns = [file_pattern] if isinstance(file_pattern, str) else list(file_pattern)
    paths = sorted(path for pattern in patterns for path in glob.glob(pattern))
    if not paths:
        raise ValueError(f"make_csv_dataset: no file matches {patterns}")
    rows, names = [], list(column_names) if column_names is not None else None
    for path in paths:
        with (gzip.open(path, "rt", newline="", encoding=encoding) if compression_type == "GZIP" else open(path, newline="", encoding=encoding)) as file:
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


def _default(given):
    """The NumPy dtype of a column and what stands where a field is empty; None: nothing may."""
    from tandem import dtypes

    if isinstance(given, (list, tuple)):
        given = given[0] if len(given) else dtypes.float32
    if isinstance(given, dtypes.DType):
        return given.as_numpy_dtype if given != dtypes.string else object, None
    if isinstance(given, (str, bytes)) or getattr(given, "_is_text_tensor", False):
        value = given.numpy() if hasattr(given, "numpy") else given
        return object, value.decode() if isinstance(value, bytes) else str(value)
    array = np.asarray(given.numpy() if hasattr(given, "numpy") else given)
    if array.dtype.kind in "SUO":
        return _default(str(array.ravel()[0])) if array.size else (object, None)
    kind = {"float64": np.float32, "int64": np.int32}.get(array.dtype.name, array.dtype) if isinstance(given, (int, float)) else array.dtype
    return np.dtype(kind).type, array.ravel()[0].item() if array.size else None


def parsed_column(fields, given):
    """The fields of a column as an array of its default's dtype."""
    from tandem.errors import InvalidArgumentError

    kind, default = _default(given)
    values = []
    for number, field in enumerate(fields):
        if field == "":
            if default is None:
                raise InvalidArgumentError(f"Field {number} is required but missing in record!")
            values.append(default)
            continue
        try:
            values.append(field if kind is object else kind(field))
        except ValueError:
            raise InvalidArgumentError(f"Field {number} in record is not a valid {np.dtype(kind).name}: {field}") from None
    return np.array(values, kind)


def CsvDataset(filenames, record_defaults, compression_type=None, buffer_size=None, header=False, field_delim=",", use_quote_delim=True, na_value="", select_cols=None, exclude_cols=None):
    """The rows of files as tuples of scalars, with the dtypes of the defaults. The files are read at once."""
    from tandem.data import Dataset

    if compression_type not in (None, "", "GZIP"):
        raise NotImplementedError(f"CsvDataset: files compressed by {compression_type}; GZIP and none are accepted")
    plain = lambda p: p.decode() if isinstance(p, bytes) else str(p)  # noqa: E731
    if hasattr(filenames, "numpy"):
        filenames = filenames.numpy()
    paths = [plain(filenames)] if isinstance(filenames, (str, bytes)) or not np.ndim(filenames) else [plain(p) for p in filenames]
    rows = []
    for path in paths:
        opened = gzip.open(path, "rt", newline="") if compression_type == "GZIP" else open(path, newline="")
        with opened as file:
            lines = list(csv.reader(file, delimiter=field_delim, quoting=csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE))
        rows += lines[1:] if header else lines
    rows = [row for row in rows if row]
    count = len(rows[0]) if rows else 0
    chosen = list(select_cols) if select_cols is not None else [i for i in range(count) if i not in (exclude_cols or ())]
    if len(chosen) != len(record_defaults):
        raise ValueError(f"CsvDataset: {len(record_defaults)} defaults for {len(chosen)} columns")
    columns = tuple(parsed_column(["" if row[i] == na_value else row[i] for row in rows], default) for i, default in zip(chosen, record_defaults))
    return Dataset.from_tensor_slices(columns)
