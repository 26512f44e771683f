"""Tables of features made ready for a model, keras.utils.FeatureSpace: a preprocessing layer for each feature, and crosses of them."""

import numpy as np

from tandem import _ops, data as _data
from tandem._tensors.tensor import Tensor
from tandem.keras import _objects, layers
from tandem.keras._layer import Input, Layer


class Feature:
    """How one feature is prepared: its dtype, its layer, and whether what that gives is a number or a class ("one_hot", "int")."""

    def __init__(self, dtype, preprocessor, output_mode):
        if output_mode not in ("int", "one_hot", "float"):
            raise ValueError(f"Invalid value for argument `output_mode`. Expected one of 'int', 'one_hot', 'float'. Received: output_mode={output_mode}")
        self.dtype, self.preprocessor, self.output_mode = dtype, preprocessor, output_mode


class Cross:
    """Several features as one class."""

    def __init__(self, feature_names, crossing_dim, output_mode="one_hot"):
        self.feature_names, self.crossing_dim, self.output_mode = tuple(feature_names), crossing_dim, output_mode

    name = property(lambda self: "_X_".join(self.feature_names))


class FeatureSpace(Layer):
    """Features of a table, by name, as one vector, or as a dictionary of what each becomes."""

    def save(self, filepath):
        """Writes what was adapted, with its code, for keras.saving.load_model(.., safe_mode=False)."""
        from tandem._tracing import portable

        portable.write(filepath, self)

    # ---- Kinds of features ----

    @classmethod
    def cross(cls, feature_names, crossing_dim, output_mode="one_hot"):
        return Cross(feature_names, crossing_dim, output_mode)

    @classmethod
    def feature(cls, dtype, preprocessor, output_mode):
        return Feature(dtype, preprocessor, output_mode)

    @classmethod
    def float(cls, name=None):
        return Feature("float32", layers.Identity(name=_named(name, "float")), "float")

    @classmethod
    def float_rescaled(cls, scale=1.0, offset=0.0, name=None):
        return Feature("float32", layers.Rescaling(scale, offset, name=_named(name, "float_rescaled")), "float")

    @classmethod
    def float_normalized(cls, name=None):
        return Feature("float32", layers.Normalization(axis=-1, name=_named(name, "float_normalized")), "float")

    @classmethod
    def float_discretized(cls, num_bins, bin_boundaries=None, output_mode="one_hot", name=None):
        layer = layers.Discretization(num_bins=num_bins, bin_boundaries=bin_boundaries, name=_named(name, "float_discretized"))
        return Feature("float32", layer, output_mode)

    @classmethod
    def integer_categorical(cls, max_tokens=None, num_oov_indices=1, output_mode="one_hot", name=None):
        layer = layers.IntegerLookup(max_tokens=max_tokens, num_oov_indices=num_oov_indices, name=_named(name, "integer_categorical"))
        return Feature("int32", layer, output_mode)

    @classmethod
    def string_categorical(cls, max_tokens=None, num_oov_indices=1, output_mode="one_hot", name=None):
        layer = layers.StringLookup(max_tokens=max_tokens, num_oov_indices=num_oov_indices, name=_named(name, "string_categorical"))
        return Feature("string", layer, output_mode)

    @classmethod
    def string_hashed(cls, num_bins, output_mode="one_hot", name=None):
        return Feature("string", layers.Hashing(num_bins, name=_named(name, "string_hashed")), output_mode)

    @classmethod
    def integer_hashed(cls, num_bins, output_mode="one_hot", name=None):
        return Feature("int32", layers.Hashing(num_bins, name=_named(name, "integer_hashed")), output_mode)

    # ---- The space ----

    def __init__(self, features, output_mode="concat", crosses=None, crossing_dim=32, hashing_dim=32, num_discretization_bins=32, name=None):
        super().__init__(name=name)
        if not features:
            raise ValueError("The `features` argument cannot be None or empty.")
        if output_mode not in ("dict", "concat"):
            raise ValueError(f"Invalid value for argument `output_mode`. Expected one of 'dict', 'concat'. Received: output_mode={output_mode}")
        self.output_mode = output_mode
        self.crossing_dim, self.hashing_dim, self.num_discretization_bins = crossing_dim, hashing_dim, num_discretization_bins
        self.features = {name: self._feature_of(name, given) for name, given in features.items()}
        self.crosses = [each if isinstance(each, Cross) else Cross(each, crossing_dim) for each in crosses or ()]
        for each in self.crosses:
            unknown = [n for n in each.feature_names if n not in self.features]
            if unknown:
                raise ValueError(f"All features referenced in the `crosses` argument should be present in the `features` dict. Received unknown features: {unknown}")
        self.preprocessors = {name: feature.preprocessor for name, feature in self.features.items()}
        self.crossers = {each.name: layers.HashedCrossing(each.crossing_dim, name=each.name) for each in self.crosses}
        self.inputs = {name: Input((1,), dtype=feature.dtype, name=name) for name, feature in self.features.items()}
        self.encoded_features = None
        self._is_adapted = not any(self._to_adapt())

    def _feature_of(self, name, given):
        if isinstance(given, Feature):
            return given
        sizes = {"float_discretized": self.num_discretization_bins, "integer_hashed": self.hashing_dim, "string_hashed": self.hashing_dim}
        kinds = ("float", "float_normalized", "float_rescaled", "float_discretized", "integer_categorical", "string_categorical", "integer_hashed", "string_hashed")
        if given not in kinds:
            raise ValueError(f"Invalid feature type: {given}; {', '.join(kinds)} are accepted")
        make = getattr(self, given)
        return make(sizes[given], name=name) if given in sizes else make(name=name)

    def _to_adapt(self):
        """The names of the features whose layers have to see data first."""
        for name, feature in self.features.items():
            layer = feature.preprocessor
            known = getattr(layer, "input_mean", None) is not None or getattr(layer, "bin_boundaries", None) is not None or bool(getattr(layer, "_words", None))
            if hasattr(layer, "adapt") and not known:
                yield name

    def adapt(self, dataset):
        """Shows the features of a data set, dictionaries by name, to the layers that learn from them."""
        if isinstance(dataset, dict):
            dataset = _data.Dataset.from_tensor_slices(dataset)
        if not isinstance(dataset, _data.Dataset):
            raise ValueError(f"`adapt()` can only be called on a tf.data.Dataset or a dict of arrays/lists. Received instead: {dataset} (of type {type(dataset)})")
        wanted = list(self._to_adapt())
        seen = {name: [] for name in wanted}
        for row in dataset:
            for name in wanted:
                seen[name].append(np.asarray(row[name].numpy()).reshape(-1, 1))
        for name in wanted:
            self.preprocessors[name].adapt(np.concatenate(seen[name]))
        self._is_adapted = True

    def get_inputs(self):
        """A model's inputs for the features as they are."""
        self.get_encoded_features()
        return self.inputs

    def get_encoded_features(self):
        """What models take that are trained on features that were prepared before."""
        if not self._is_adapted:
            raise ValueError("You need to call `.adapt(dataset)` on the FeatureSpace before you can start using it.")
        if self.encoded_features is None:
            self.encoded_features = self._encode(self.inputs)
        return self.encoded_features

    def _encode(self, values):
        made = {name: self.preprocessors[name](values[name]) for name in self.features}
        encoded = {name: self._encoded(name, feature, made[name]) for name, feature in sorted(self.features.items())}
        for cross in sorted(self.crosses, key=lambda c: c.name):
            numbers = self.crossers[cross.name]([made[name] for name in cross.feature_names])
            encoded[cross.name] = self._one_hot(cross.name, numbers, cross.crossing_dim) if cross.output_mode == "one_hot" else numbers
        if self.output_mode == "dict":
            return encoded
        return layers.concatenate(list(encoded.values()), axis=-1)

    def _encoded(self, name, feature, value):
        if feature.output_mode == "one_hot":
            return self._one_hot(name, value, self._classes(name, feature.preprocessor))
        if self.output_mode == "concat" and feature.output_mode == "int":
            raise ValueError(f"Cannot concatenate features because feature '{name}' has not been encoded. Consider using `output_mode='dict'`.")
        return value

    @staticmethod
    def _classes(name, layer):
        if hasattr(layer, "vocabulary_size"):
            return layer.vocabulary_size()
        count = getattr(layer, "num_bins", None) or getattr(layer, "num_tokens", None)
        if count is None and getattr(layer, "bin_boundaries", None) is not None:
            count = len(layer.bin_boundaries) + 1
        if count is None:
            raise ValueError(f"Feature '{name}' has `output_mode='one_hot'`, and the number of its classes is not known. Try using `output_mode='int'`.")
        return count

    def _one_hot(self, name, value, classes):
        encoders = self.__dict__.setdefault("one_hot_encoders", {})
        if name not in encoders:
            encoders[name] = layers.CategoryEncoding(classes, output_mode="multi_hot")
        return encoders[name](value)

    def __call__(self, data):
        if not isinstance(data, dict):
            raise ValueError(f"A FeatureSpace can only be called with a dict. Received: data={data} (of type {type(data)})")
        self.get_encoded_features()
        values = {name: data[name] if isinstance(data[name], Tensor) or hasattr(data[name], "_is_text_tensor") else _ops.constant(data[name]) for name in self.features}
        is_row = all(v.ndim == 0 for v in values.values())
        column = lambda v: _ops.reshape(v, (1, 1)) if v.ndim == 0 else _ops.expand_dims(v, -1) if v.ndim == 1 else v  # noqa: E731
        result = self._encode({name: column(v) for name, v in values.items()})
        if not is_row:
            return result
        first = lambda v: v[0]  # noqa: E731
        return {name: first(v) for name, v in result.items()} if isinstance(result, dict) else first(result)


def _named(name, kind):
    return f"{name or _objects.auto_name(kind)}_preprocessor"
