"""Columns of features, tf.feature_column: how the features of a table become numbers. keras.layers.DenseFeatures takes them.

What a column of classes makes of a feature is numbers [rows, classes of a row]: -2 where the row has no value, -1 where the value is of no class. Texts, hashes and vocabularies are
looked up on the host, before a step is a program where the layer is the first one of a Sequential model (see keras.layers.DenseFeatures).
"""

import math as _math

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._names import missing as _missing
from tandem._ops.fingerprint import cross as _cross
from tandem._ops.fingerprint import fingerprint as _fingerprint


_NOTHING = -2  # The number of no value.


# ---- Features as tables ----


def _dense(feature):
    """A feature with one row for each example; sparse and ragged ones are filled up with what stands for nothing."""
    if hasattr(feature, "_is_sparse"):
        from tandem import sparse

        is_text = getattr(feature.values, "_is_text_tensor", False)
        feature = sparse.to_dense(feature, "" if is_text else -1)
    elif hasattr(feature, "_ragged_rows"):
        feature = feature.to_tensor("" if feature.dtype == dtypes.string else -1)
    elif not isinstance(feature, _tandem.Tensor) and not getattr(feature, "_is_text_tensor", False):
        feature = _ops.constant(feature)
    return _ops.expand_dims(feature, -1) if len(feature.shape) == 1 else feature


def _on_host(feature):
    from tandem.keras.layers.preprocessing import _on_host

    array = np.asarray(_on_host(_dense(feature)))
    return array.reshape(len(array), -1)


def _as_text(value):
    return value if isinstance(value, bytes) else str(value).encode()


class _Column:
    """What all columns have: names of their arguments, by which they are shown and compared."""

    _arguments = ()

    def __init__(self, **given):
        self.__dict__.update(given)

    def _values(self):
        return tuple(getattr(self, name) for name in self._arguments)

    def __eq__(self, other):
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in zip(self._arguments, self._values()))})"

    def _lookups(self):
        """The columns of classes within it, which the host may look up."""
        return []

    def _weights(self):
        """The weights that it has, as {name: (shape, initializer, trainable)}."""
        return {}


# ---- Columns of classes ----


class _Categorical(_Column):
    """Classes by their numbers."""

    _needs_host = True

    @property
    def name(self):
        """The column's name."""
        return self.key

    def _keys(self):
        return [self.key]

    def _lookups(self):
        return [self]

    def _numbers_of(self, features):
        """The numbers of the classes, as a tensor: those that the host has looked up, where it has."""
        found = features.get(f"{self.name}/numbers")
        return _tandem.convert(self._numbers(*[features[key] for key in self._keys()])) if found is None else found

    def _row_weights(self, features):
        return None

    parse_example_spec = property(lambda self: {self.key: _var_len(self.dtype)})


def _var_len(dtype):
    from tandem.io import VarLenFeature

    return VarLenFeature(dtypes.as_dtype(dtype))


class IdentityCategoricalColumn(_Categorical):
    """Whole numbers that are classes themselves."""

    _arguments = ("key", "number_buckets", "default_value")
    _needs_host = False
    dtype = dtypes.int64
    num_buckets = property(lambda self: self.number_buckets)

    def _numbers(self, feature):
        x = _tandem.cast(_dense(feature), 6)
        inside = _tandem.logical_and(x >= 0, x < self.number_buckets)
        other = -1 if self.default_value is None else int(self.default_value)
        if self.default_value is None and not x._is_symbolic:
            array = x.numpy()
            if (array < -1).any() or (array >= self.number_buckets).any():
                raise ValueError(f"categorical_column_with_identity {self.key!r}: numbers from 0 to {self.number_buckets - 1} are accepted, and -1 for none; the feature has {array.min()} to {array.max()}")
        missing = _tandem.equal(x, -1)
        return _tandem.where(inside, x, _tandem.where(missing, _tandem.fill((), _NOTHING, 6), _tandem.fill((), other, 6)))


class VocabularyListCategoricalColumn(_Categorical):
    """Values by their places in a list."""

    _arguments = ("key", "vocabulary_list", "dtype", "default_value", "num_oov_buckets")
    num_buckets = property(lambda self: len(self.vocabulary_list) + self.num_oov_buckets)

    def _numbers(self, feature):
        is_text = self.dtype == dtypes.string
        plain = _as_text if is_text else int
        table = {plain(v): i for i, v in enumerate(self.vocabulary_list)}

        def number(value):
            if _as_text(value) == b"" or not is_text and int(value) == -1:
                return _NOTHING
            found = table.get(plain(value))
            if found is None and self.num_oov_buckets:
                return len(table) + _fingerprint(_as_text(value)) % self.num_oov_buckets
            return self.default_value if found is None else found

        array = _on_host(feature)
        return np.array([[number(v) for v in row] for row in array.tolist()], np.int64).reshape(array.shape)


class HashedCategoricalColumn(_Categorical):
    """Values by their fingerprints."""

    _arguments = ("key", "hash_bucket_size", "dtype")
    num_buckets = property(lambda self: self.hash_bucket_size)

    def _numbers(self, feature):
        array = _on_host(feature)
        number = lambda v: _NOTHING if v == b"" or self.dtype != dtypes.string and v == -1 else _fingerprint(_as_text(v)) % self.hash_bucket_size  # noqa: E731
        return np.array([[number(v) for v in row] for row in array.tolist()], np.int64).reshape(array.shape)


class CrossedColumn(_Categorical):
    """The combinations of several features, by their fingerprints."""

    _arguments = ("keys", "hash_bucket_size", "hash_key")
    num_buckets = property(lambda self: self.hash_bucket_size)
    name = property(lambda self: "_X_".join(sorted(k if isinstance(k, str) else k.name for k in self._leaves())))

    def _leaves(self):
        leaves = []
        for key in self.keys:
            leaves += key._leaves() if isinstance(key, CrossedColumn) else [key]
        return leaves

    def _keys(self):
        return [key for leaf in self._leaves() for key in ([leaf] if isinstance(leaf, str) else leaf._keys())]

    def _numbers_of(self, features):
        found = features.get(f"{self.name}/numbers")
        return self._crossed(features) if found is None else found

    def _crossed(self, features):
        tables = []
        is_whole = lambda leaf: isinstance(leaf, str) and not hasattr(features[leaf], "_is_sparse") and not hasattr(features[leaf], "_ragged_rows")  # noqa: E731
        for leaf in sorted(self._leaves(), key=is_whole):  # Features that have a value in each place come last, as in TensorFlow.
            if isinstance(leaf, str):
                has_gaps = not is_whole(leaf)
                tables.append([[None if has_gaps and v in (b"", -1) else v if isinstance(v, int) else _fingerprint(_as_text(v)) for v in row] for row in _on_host(features[leaf]).tolist()])
            else:
                tables.append([[None if v == _NOTHING else v for v in row] for row in _on_host(leaf._numbers_of(features)).tolist()])
        rows = []
        for cells in zip(*tables):
            combined = [()]
            for values in cells:
                combined = [(*before, v) for before in combined for v in values if v is not None]
            rows.append([_cross(each, self.hash_key) % self.hash_bucket_size for each in combined])
        wide = max((len(row) for row in rows), default=0)
        return _tandem.convert(np.array([row + [_NOTHING] * (wide - len(row)) for row in rows], np.int64).reshape(len(rows), wide))

    @property
    def parse_example_spec(self):
        spec = {}
        for leaf in self._leaves():
            spec.update({leaf: _var_len("string")} if isinstance(leaf, str) else leaf.parse_example_spec)
        return spec


class WeightedCategoricalColumn(_Categorical):
    """Classes that have weights of their own in another feature."""

    _arguments = ("categorical_column", "weight_feature_key", "dtype")
    name = property(lambda self: f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}")
    num_buckets = property(lambda self: self.categorical_column.num_buckets)

    def _keys(self):
        return [*self.categorical_column._keys(), self.weight_feature_key]

    def _lookups(self):
        return self.categorical_column._lookups()

    def _numbers_of(self, features):
        return self.categorical_column._numbers_of(features)

    def _row_weights(self, features):
        return _tandem.cast(_dense(features[self.weight_feature_key]), 0)

    @property
    def parse_example_spec(self):
        return {**self.categorical_column.parse_example_spec, self.weight_feature_key: _var_len(self.dtype)}


# ---- Dense columns ----


class NumericColumn(_Column):
    """Numbers as they are, or as a function makes them."""

    _arguments = ("key", "shape", "default_value", "dtype", "normalizer_fn")
    name = property(lambda self: self.key)

    def _keys(self):
        return [self.key]

    def _table(self, features):
        x = _dense(features[self.key])
        if getattr(x, "_is_text_tensor", False):
            raise ValueError(f"The corresponding Tensor of numerical column must be a Tensor. numeric_column {self.key!r} is given texts")
        x = _tandem.cast(x, 0)
        return x if self.normalizer_fn is None else _tandem.cast(_tandem.convert(self.normalizer_fn(x)), 0)

    def _tensor(self, features, weights):
        return _ops.reshape(self._table(features), [-1, _math.prod(self.shape)])

    @property
    def parse_example_spec(self):
        from tandem.io import FixedLenFeature

        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}


class BucketizedColumn(_Categorical):
    """The ranges that numbers are in."""

    _arguments = ("source_column", "boundaries")
    _needs_host = False
    name = property(lambda self: f"{self.source_column.name}_bucketized")
    parse_example_spec = property(lambda self: self.source_column.parse_example_spec)

    @property
    def num_buckets(self):
        """The number of classes: each number of a feature has some of its own."""
        return (len(self.boundaries) + 1) * _math.prod(self.source_column.shape)

    def _keys(self):
        return self.source_column._keys()

    def _lookups(self):
        return []

    def _places(self, features):
        x = _ops.reshape(self.source_column._table(features), [-1, _math.prod(self.source_column.shape)])
        edges = np.asarray(self.boundaries, np.float32)
        return _tandem.reduce_sum(_tandem.cast(_tandem.expand_dims(x, -1) >= edges, 6), -1, False)

    def _numbers_of(self, features):
        places = self._places(features)
        return places + (np.arange(_math.prod(self.source_column.shape)) * (len(self.boundaries) + 1)).astype(np.int64)

    def _tensor(self, features, weights):
        hot = _ops.one_hot(self._places(features), len(self.boundaries) + 1)
        return _ops.reshape(hot, [-1, self.num_buckets])


class _OfClasses(_Column):
    def _keys(self):
        return self.categorical_column._keys()

    def _lookups(self):
        return self.categorical_column._lookups()

    parse_example_spec = property(lambda self: self.categorical_column.parse_example_spec)


class IndicatorColumn(_OfClasses):
    """How often, or with which weight, each class is in a row."""

    _arguments = ("categorical_column",)
    name = property(lambda self: f"{self.categorical_column.name}_indicator")

    def _tensor(self, features, weights):
        hot = _ops.one_hot(self.categorical_column._numbers_of(features), self.categorical_column.num_buckets)
        own = self.categorical_column._row_weights(features)
        return _tandem.reduce_sum(hot if own is None else hot * _tandem.expand_dims(own, -1), 1, False)


class EmbeddingColumn(_OfClasses):
    """The vectors of the classes of a row, combined."""

    _arguments = ("categorical_column", "dimension", "combiner", "initializer", "ckpt_to_load_from", "tensor_name_in_ckpt", "max_norm", "trainable", "use_safe_embedding_lookup")
    shared = None
    name = property(lambda self: f"{self.categorical_column.name}_{'shared_' if self.shared else ''}embedding")

    def _weights(self):
        name = self.shared or f"{self.name}/embedding_weights"
        return {name: ((self.categorical_column.num_buckets, self.dimension), self.initializer, self.trainable)}

    def _tensor(self, features, weights):
        table = weights[next(iter(self._weights()))]
        numbers = self.categorical_column._numbers_of(features)
        found = _tandem.gather(table, _tandem.where(numbers >= 0, numbers, _tandem.zeros_like(numbers)), 0)
        if self.max_norm is not None:
            length = _tandem.sqrt(_tandem.reduce_sum(found * found, -1, True))
            found = found * _tandem.minimum(float(self.max_norm) / _tandem.maximum(length, 1e-12), 1.0)
        weight = _tandem.cast(numbers >= 0, found._code)
        own = self.categorical_column._row_weights(features)
        weight = weight if own is None else weight * _tandem.cast(own, found._code)
        total = _tandem.reduce_sum(found * _tandem.expand_dims(weight, -1), 1, False)
        if self.combiner == "sum":
            return total
        size = _tandem.reduce_sum(weight if self.combiner == "mean" else weight * weight, 1, True)
        return _ops.divide_no_nan(total, size if self.combiner == "mean" else _tandem.sqrt(size))


# ---- What programs call ----


def numeric_column(key, shape=(1,), default_value=None, dtype=dtypes.float32, normalizer_fn=None):
    """Numbers of a feature, as they are or as `normalizer_fn` makes them."""
    shape = (int(shape),) if isinstance(shape, int) else tuple(int(s) for s in shape)
    dtype = dtypes.as_dtype(dtype)
    if not (dtype.is_floating or dtype.is_integer):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if default_value is not None:
        default_value = tuple(np.broadcast_to(np.asarray(default_value, dtype.as_numpy_dtype), shape).tolist())
    return NumericColumn(key=key, shape=shape, default_value=default_value, dtype=dtype, normalizer_fn=normalizer_fn)


def bucketized_column(source_column, boundaries):
    """The ranges between boundaries that the numbers of a numeric column are in."""
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a column generated with numeric_column(). Given: {source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries or list(boundaries) != sorted(set(boundaries)):
        raise ValueError(f"boundaries must be a sorted list. Given: {boundaries}")
    return BucketizedColumn(source_column=source_column, boundaries=tuple(boundaries))


def categorical_column_with_identity(key, num_buckets, default_value=None):
    """Whole numbers below num_buckets as classes; others are the default, or an error."""
    if num_buckets < 1 or default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"num_buckets {num_buckets} must be at least 1, and default_value {default_value} below it, column_name {key}")
    return IdentityCategoricalColumn(key=key, number_buckets=int(num_buckets), default_value=default_value)


def categorical_column_with_vocabulary_list(key, vocabulary_list, dtype=None, default_value=-1, num_oov_buckets=0):
    """Values by their places in a list; others count for nothing, for the default, or for bins of their own."""
    if vocabulary_list is None or not len(vocabulary_list):
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    if num_oov_buckets and default_value != -1:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    kind = dtypes.as_dtype(np.asarray(vocabulary_list).dtype) if dtype is None else dtypes.as_dtype(dtype)
    return VocabularyListCategoricalColumn(key=key, vocabulary_list=tuple(vocabulary_list), dtype=kind, default_value=default_value, num_oov_buckets=int(num_oov_buckets))


def categorical_column_with_vocabulary_file(key, vocabulary_file, vocabulary_size=None, dtype=dtypes.string, default_value=None, num_oov_buckets=0, file_format=None):
    """Values by their places among the lines of a file."""
    with open(vocabulary_file, encoding="utf-8") as file:
        lines = file.read().splitlines()[: None if vocabulary_size is None else int(vocabulary_size)]
    values = lines if dtypes.as_dtype(dtype) == dtypes.string else [int(line) for line in lines]
    return categorical_column_with_vocabulary_list(key, values, dtype, -1 if default_value is None else default_value, num_oov_buckets)


def categorical_column_with_hash_bucket(key, hash_bucket_size, dtype=dtypes.string):
    """Values by their fingerprints, in so many bins."""
    if hash_bucket_size is None or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}")
    return HashedCategoricalColumn(key=key, hash_bucket_size=int(hash_bucket_size), dtype=dtypes.as_dtype(dtype))


def crossed_column(keys, hash_bucket_size, hash_key=None):
    """The combinations of features and of columns of classes, in so many bins."""
    keys = tuple(keys)
    if len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, str) and (not isinstance(key, _Categorical) or isinstance(key, HashedCategoricalColumn)):
            raise ValueError(f"Unsupported key type. All keys must be either string, or categorical column except HashedCategoricalColumn. Given: {key}")
    return CrossedColumn(keys=keys, hash_bucket_size=int(hash_bucket_size), hash_key=hash_key)


def weighted_categorical_column(categorical_column, weight_feature_key, dtype=dtypes.float32):
    """A column of classes whose weights are in another feature."""
    return WeightedCategoricalColumn(categorical_column=categorical_column, weight_feature_key=weight_feature_key, dtype=dtypes.as_dtype(dtype))


def _need_classes(name, column):
    if not isinstance(column, _Categorical):
        raise ValueError(f"{name}: a categorical column is wanted. Given: {column}")


def indicator_column(categorical_column):
    """How often each class of a column is in a row."""
    _need_classes("indicator_column", categorical_column)
    return IndicatorColumn(categorical_column=categorical_column)


def embedding_column(categorical_column, dimension, combiner="mean", initializer=None, ckpt_to_load_from=None, tensor_name_in_ckpt=None, max_norm=None, trainable=True, use_safe_embedding_lookup=True):
    """A vector for each class of a column; those of one row are combined."""
    _need_classes("embedding_column", categorical_column)
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError(f"combiner {combiner!r}; 'mean', 'sqrtn' and 'sum' are accepted")
    if ckpt_to_load_from is not None:
        raise NotImplementedError("embedding_column: ckpt_to_load_from; assign the layer's weights instead")
    if initializer is None:
        from tandem.keras.initializers import TruncatedNormal

        initializer = TruncatedNormal(0.0, 1 / _math.sqrt(dimension))
    return EmbeddingColumn(
        categorical_column=categorical_column, dimension=int(dimension), combiner=combiner, initializer=initializer, ckpt_to_load_from=None,
        tensor_name_in_ckpt=None, max_norm=max_norm, trainable=trainable, use_safe_embedding_lookup=use_safe_embedding_lookup,
    )


def shared_embeddings(categorical_columns, dimension, combiner="mean", initializer=None, shared_embedding_collection_name=None, ckpt_to_load_from=None, tensor_name_in_ckpt=None, max_norm=None, trainable=True, use_safe_embedding_lookup=True):
    """Columns of vectors with one table for all of them."""
    columns = [embedding_column(each, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable) for each in categorical_columns]
    sizes = {each.num_buckets for each in categorical_columns}
    if len(sizes) != 1:
        raise ValueError(f"To use shared_embedding_columns, all categorical columns must have the same number of buckets, not {sorted(sizes)}")
    name = shared_embedding_collection_name or "_".join(sorted(each.name for each in categorical_columns)) + "_shared_embedding"
    for each in columns:
        each.shared, each.initializer = name, columns[0].initializer
    return columns


def make_parse_example_spec(feature_columns):
    """How tf.io.parse_example finds the features of columns."""
    spec = {}
    for column in feature_columns:
        for key, feature in column.parse_example_spec.items():
            if key in spec and spec[key] != feature:
                raise ValueError(f"feature_columns contain different parse_spec for key {key}. Given {spec[key]} and {feature}")
            spec[key] = feature
    return spec


_missing.install(__name__, globals())
