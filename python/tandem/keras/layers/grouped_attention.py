"""Attention whose queries share keys and values, and embeddings that work both ways."""

import numpy as np

import _tandem
from tandem import _ops
from tandem.keras import constraints, initializers, regularizers
from tandem.keras._layer import Layer
from tandem.keras.random import SeedGenerator
from tandem.keras.layers.attention import MultiHeadAttention, count_inner_layers
from tandem.keras.layers.core import Embedding, EinsumDense


class GroupedQueryAttention(Layer):
    """Heads of attention of which several share one key and value (Ainslie and others 2023, arXiv:2305.13245)."""

    def __init__(self, head_dim, num_query_heads, num_key_value_heads, dropout=0.0, use_bias=True, sliding_window=None, flash_attention=None, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, use_gate=False, seed=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if num_query_heads % num_key_value_heads:
            raise ValueError("`num_query_heads` must be divisible by `num_key_value_heads`.")
        if sliding_window is not None and (not isinstance(sliding_window, int) or sliding_window <= 0):
            raise ValueError(f"`sliding_window` must be `None` or a positive integer. Received: sliding_window={sliding_window}")
        self.head_dim, self.num_query_heads, self.num_key_value_heads = int(head_dim), int(num_query_heads), int(num_key_value_heads)
        self.dropout, self.use_bias, self.use_gate, self.seed, self.sliding_window = float(dropout), use_bias, use_gate, seed, sliding_window
        self._parts = {
            "kernel_initializer": initializers.get(kernel_initializer), "bias_initializer": initializers.get(bias_initializer),
            "kernel_regularizer": regularizers.get(kernel_regularizer), "bias_regularizer": regularizers.get(bias_regularizer),
            "kernel_constraint": constraints.get(kernel_constraint), "bias_constraint": constraints.get(bias_constraint),
        }
        self.kernel_initializer, self.bias_initializer = self._parts["kernel_initializer"], self._parts["bias_initializer"]
        self.supports_masking = True

    def _dense(self, equation, shape, bias_axes, name, input_shape, activation=None):
        own = self._parts["kernel_initializer"]
        parts = {**self._parts, "kernel_initializer": own.clone() if isinstance(own, initializers.Initializer) else own}  # Each has a seed of its own.
        layer = EinsumDense(equation, shape, activation=activation, bias_axes=bias_axes if self.use_bias else None, name=name, **parts)
        layer.build(input_shape)
        return layer

    def build(self, query_shape, value_shape=None, key_shape=None):
        value_shape = value_shape or query_shape
        key_shape = key_shape or value_shape
        queries, shared = (None, self.num_query_heads, self.head_dim), (None, self.num_key_value_heads, self.head_dim)
        self._query_dense = self._dense("bqm,muh->bquh", queries, "uh", "query", query_shape)
        self._key_dense = self._dense("bkm,mvh->bkvh", shared, "vh", "key", key_shape)
        if self.use_gate:
            self._gate_dense = self._dense("bqm,muh->bquh", queries, "uh", "gate", query_shape, "sigmoid")
        self._value_dense = self._dense("bkm,mvh->bkvh", shared, "vh", "value", value_shape)
        self.seed_generator = SeedGenerator(self.seed) if self.dropout > 0 else None
        self._output_dense = self._dense("bquh,uhm->bqm", (None, query_shape[-1]), "m", "attention_output", (None, None, self.num_query_heads, self.head_dim))
        count_inner_layers()
        self.built = True

    _joined_mask = MultiHeadAttention._joined_mask

    def call(self, query, value, key=None, query_mask=None, value_mask=None, key_mask=None, attention_mask=None, return_attention_scores=False, training=None, use_causal_mask=False):
        key = value if key is None else key
        mask = self._joined_mask(query, value, query_mask, value_mask, key_mask, attention_mask, use_causal_mask)
        if self.sliding_window is not None:
            apart = np.abs(np.arange(int(query._sizes[1]))[:, None] - np.arange(int(value._sizes[1]))[None])
            near = _tandem.convert(apart < self.sliding_window)
            mask = near if mask is None else _tandem.logical_and(mask, near)
        if mask is not None:
            while mask._rank < 4:
                mask = _tandem.expand_dims(mask, 1) if mask._rank == 3 else _tandem.expand_dims(mask, 0)
        repeats = self.num_query_heads // self.num_key_value_heads
        q = self._query_dense(query)
        k, v = (_ops.repeat(dense(x), repeats, 2) for dense, x in ((self._key_dense, key), (self._value_dense, value)))
        logits = _ops.einsum("bquh,bkuh->buqk", q * (1.0 / float(self.head_dim) ** 0.5), k)
        if mask is not None:
            logits = _tandem.where(mask, logits, _tandem.fill((), -1e9, logits._code))
        scores = _tandem.softmax(logits, -1)
        used = _tandem.dropout(scores, self.dropout, self.seed) if training and self.dropout else scores
        y = _ops.einsum("buqk,bkuh->bquh", used, v)
        y = self._output_dense(y * self._gate_dense(query) if self.use_gate else y)
        return (y, scores) if return_attention_scores else y

    def compute_mask(self, inputs, mask=None):
        return mask[0] if isinstance(mask, (list, tuple)) else mask


class ReversibleEmbedding(Embedding):
    """An embedding that gives, the other way, how well vectors fit its rows: the logits of a language model."""

    def __init__(self, input_dim, output_dim, tie_weights=True, embeddings_initializer="uniform", embeddings_regularizer=None, embeddings_constraint=None, mask_zero=False, reverse_dtype=None, logit_soft_cap=None, **kwargs):
        super().__init__(input_dim, output_dim, embeddings_initializer, embeddings_regularizer, embeddings_constraint, mask_zero, **kwargs)
        self.tie_weights, self.reverse_dtype, self.logit_soft_cap = tie_weights, reverse_dtype, logit_soft_cap

    def build(self, input_shape=None):
        super().build(input_shape)
        if not self.tie_weights:
            self.reverse_embeddings = self.add_weight((self.output_dim, self.input_dim), self.embeddings_initializer, name="reverse_embeddings")

    def call(self, inputs, reverse=False):
        if not reverse:
            return super().call(inputs)
        x, table = _tandem.convert(inputs), self.embeddings if self.tie_weights else self.reverse_embeddings
        table = _tandem.convert(table)
        if self.reverse_dtype is not None:
            x, table = _ops.cast(x, self.reverse_dtype), _ops.cast(table, self.reverse_dtype)
        logits = _ops.matmul(x, table, transpose_b=self.tie_weights)
        return logits if self.logit_soft_cap is None else _tandem.tanh(logits / float(self.logit_soft_cap)) * float(self.logit_soft_cap)
