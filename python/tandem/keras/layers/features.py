"""The layer of columns of features, which Keras had until TensorFlow 2.15."""

import _tandem
from tandem import nest
from tandem.keras._layer import Layer


class DenseFeatures(Layer):
    """The features of a dictionary as one table, by columns of tf.feature_column in the order of their names."""

    def __init__(self, feature_columns, trainable=True, name=None, partitioner=None, **kwargs):
        super().__init__(name=name, trainable=trainable, **kwargs)
        columns = feature_columns.values() if isinstance(feature_columns, dict) else nest.flatten(feature_columns)
        for column in columns:
            if not hasattr(column, "_tensor"):
                raise ValueError(f"Items of feature_columns must be a dense column, as numeric_column, indicator_column and embedding_column make them. Given: {column}")
        self._tandem_columns = sorted(columns, key=lambda column: column.name)
        self._tandem_tables = {}
        self._takes_texts = any(lookup._needs_host for column in self._tandem_columns for lookup in column._lookups())

    def build(self, input_shape=None):
        for column in self._tandem_columns:
            for name, (shape, initializer, trainable) in column._weights().items():
                if name not in self._tandem_tables:
                    self._tandem_tables[name] = self.add_weight(shape, initializer, trainable=trainable, name=name)
        self.built = True

    def _build_for(self, args, kwargs):
        from tandem._tracing.state import init_scope

        with self._strategy_scope(), init_scope():
            self.build()

    def _looked_up(self, features):
        """The features with the numbers of classes in the place of what only the host can look up."""
        found = {}
        for column in self._tandem_columns:
            for lookup in column._lookups():
                if lookup._needs_host and f"{lookup.name}/numbers" not in features:
                    found[f"{lookup.name}/numbers"] = lookup._numbers_of(features)
        return {**{k: v for k, v in features.items() if not getattr(v, "_is_text_tensor", False)}, **found}

    def call(self, features, cols_to_output_tensors=None, training=None):
        if not isinstance(features, dict):
            raise ValueError(f"We expected a dictionary here. Instead we got: {features}")
        tensors = [column._tensor(features, self._tandem_tables) for column in self._tandem_columns]
        if cols_to_output_tensors is not None:
            cols_to_output_tensors.update(zip(self._tandem_columns, tensors))
        return _tandem.concat(tensors, -1) if len(tensors) > 1 else tensors[0]
