"""Attention."""

import _tandem
from tandem import _ops
from tandem.keras import _objects, _parts, constraints, initializers, regularizers
from tandem.keras._layer import Layer
from tandem.keras.random import SeedGenerator


def count_inner_layers():
    """Keras's attention has a Softmax and a Dropout inside, with which names of later layers are numbered."""
    for kind in ("softmax", "dropout"):
        _objects.auto_name(kind)


class MultiHeadAttention(Layer):
    """Several heads of attention side by side (Vaswani and others, 2017)."""

    def __init__(self, num_heads, key_dim, value_dim=None, dropout=0.0, use_bias=True, output_shape=None, attention_axes=None, flash_attention=None, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, seed=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.attention_axes = None if attention_axes is None else (attention_axes,) if isinstance(attention_axes, int) else tuple(attention_axes)
        self.num_heads, self.key_dim, self.value_dim = int(num_heads), int(key_dim), int(value_dim or key_dim)
        self.dropout, self.use_bias, self._output_shape, self.seed = float(dropout), use_bias, output_shape, seed
        self.kernel_initializer, self.bias_initializer = initializers.get(kernel_initializer), initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = regularizers.get(kernel_regularizer), regularizers.get(bias_regularizer)
        self.kernel_constraint, self.bias_constraint = constraints.get(kernel_constraint), constraints.get(bias_constraint)
        self.supports_masking = True

    def _dense(self, name, inputs, outputs, bias):
        initializer = self.kernel_initializer
        initializer = initializer.clone() if isinstance(initializer, initializers.Initializer) else initializer  # Each has a seed of its own.
        if isinstance(initializer, initializers.VarianceScaling):
            initializer = initializer.for_axes(range(len(inputs)), range(len(inputs), len(inputs) + len(outputs)))
        kernel = self.add_weight(tuple(inputs) + tuple(outputs), initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, name=f"{name}/kernel")
        if not self.use_bias:
            return kernel, None
        return kernel, self.add_weight(bias, self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name=f"{name}/bias")

    def build(self, query_shape, value_shape=None, key_shape=None):
        value_shape = value_shape or query_shape
        key_shape = key_shape or value_shape
        h, k, v = self.num_heads, self.key_dim, self.value_dim
        self._query = self._dense("query", (query_shape[-1],), (h, k), (h, k))
        self._key = self._dense("key", (key_shape[-1],), (h, k), (h, k))
        self._value = self._dense("value", (value_shape[-1],), (h, v), (h, v))
        self.seed_generator = SeedGenerator(self.seed) if self.dropout > 0 else None
        out = self._output_shape
        out = (query_shape[-1],) if out is None else (out,) if isinstance(out, int) else tuple(out)
        self._output = self._dense("attention_output", (h, v), out, out)
        count_inner_layers()
        self.built = True

    def _saved_parts(self):
        """The projections, which are layers in Keras's files."""
        if not hasattr(self, "_query"):
            return []  # It was never called.
        names = ("query_dense", "key_dense", "value_dense", "output_dense")
        return [(n, [v for v in dense if v is not None]) for n, dense in zip(names, (self._query, self._key, self._value, self._output))]

    @staticmethod
    def _project(x, dense):
        kernel, bias = dense
        inside, heads, width = kernel._sizes
        y = _tandem.matmul(x, _tandem.reshape(kernel, (inside, heads * width)), False, False)
        y = _tandem.reshape(y, list(x._sizes[:-1]) + [heads, width])
        return y if bias is None else y + bias

    def _joined_mask(self, query, value, query_mask, value_mask, key_mask, attention_mask, use_causal_mask):
        mask = None

        def also(more):
            nonlocal mask
            mask = more if mask is None else _tandem.logical_and(mask, more)

        if query_mask is not None:
            also(_tandem.expand_dims(_tandem.cast(query_mask, 7), -1))
        for own in (value_mask, key_mask):
            if own is not None:
                also(_tandem.expand_dims(_tandem.cast(own, 7), -2))
        if attention_mask is not None:
            also(_tandem.cast(attention_mask, 7))
        if use_causal_mask:
            import numpy as np

            also(_tandem.convert(np.tril(np.ones((int(query._sizes[1]), int(value._sizes[1])), bool))[None]))
        return mask

    def call(self, query, value, key=None, query_mask=None, value_mask=None, key_mask=None, attention_mask=None, return_attention_scores=False, training=None, use_causal_mask=False):
        key = value if key is None else key
        if query._rank > 3:
            has_masks = any(m is not None for m in (query_mask, value_mask, key_mask, attention_mask)) or use_causal_mask
            return self._over_axes(query, value, key, training, return_attention_scores or has_masks)
        # Under a ModelParallel each device may have some of the heads.
        in_heads = all(_parts.cut_axis(kernel) == 1 for kernel, _ in (self._query, self._key, self._value))
        project = (lambda x, dense: _parts.heads(x, *dense)) if in_heads else self._project
        q, k, v = project(query, self._query), project(key, self._key), project(value, self._value)
        dropped = training and self.dropout
        scale = 1.0 / float(self.key_dim) ** 0.5
        only_causal = use_causal_mask and query_mask is None and value_mask is None and key_mask is None and attention_mask is None
        mask = None if only_causal else self._joined_mask(query, value, query_mask, value_mask, key_mask, attention_mask, use_causal_mask)
        if mask is not None:
            while mask._rank < 4:
                mask = _tandem.expand_dims(mask, 1) if mask._rank == 3 else _tandem.expand_dims(mask, 0)
        scores = None
        if not dropped and not return_attention_scores and q._rank == 4:
            y = _tandem.attention(q, k, v, bool(only_causal), scale, mask)
        else:
            if only_causal:
                mask = _tandem.expand_dims(self._joined_mask(query, value, None, None, None, None, True), 1)
            logits = _ops.einsum("bqhd,bkhd->bhqk", q * scale, k)
            if mask is not None:
                logits = _tandem.where(mask, logits, _tandem.fill((), -1e9, logits._code))
            scores = _tandem.softmax(logits, -1)
            used = scores
            if dropped:
                used = _parts.dropout(scores, self.dropout, self.seed, 1, self.num_heads) if in_heads else _tandem.dropout(scores, self.dropout, self.seed)
            y = _ops.einsum("bhqk,bkhd->bqhd", used, v)
        kernel, bias = self._output
        if in_heads:
            scores = scores if scores is None else _tandem.gather_parts(_tandem.mark_part(scores, 1))
            if _parts.cut_axis(kernel) == 0:
                y = _parts.heads_summed(y, kernel, bias)
                return (y, scores) if return_attention_scores else y
            y = _tandem.gather_parts(_tandem.mark_part(y, y._rank - 2))
        heads, width = kernel._sizes[:2]
        outs = list(kernel._sizes[2:])
        count = 1
        for s in outs:
            count *= s
        y = _tandem.matmul(_tandem.reshape(y, list(y._sizes[:-2]) + [heads * width]), _tandem.reshape(kernel, (heads * width, count)), False, False)
        if len(outs) > 1:
            y = _tandem.reshape(y, list(y._sizes[:-1]) + outs)
        if bias is not None:
            y = y + bias
        return (y, scores) if return_attention_scores else y

    def _over_axes(self, query, value, key, training, is_refused):
        """Attention over some of several axes: the others are more rows of a batch."""
        if is_refused:
            raise NotImplementedError(f"{self.name}: masks and attention scores of inputs with {query._rank} axes; inputs with 3 axes are accepted there")
        rank = query._rank
        axes = [a % rank for a in self.attention_axes or range(1, rank - 1)]
        rest = [a for a in range(rank - 1) if a not in axes]
        order = [*rest, *axes, rank - 1]

        def flat(x):
            x = _tandem.transpose(x, order)
            steps = 1
            for size in x._sizes[len(rest) : -1]:
                steps *= size
            return _tandem.reshape(x, [-1, steps, x._sizes[-1]])

        y = self.call(flat(query), flat(value), flat(key), training=training)
        y = _tandem.reshape(y, [*(query._sizes[a] for a in order[:-1]), y._sizes[-1]])
        return _tandem.transpose(y, [order.index(a) for a in range(rank)])

    def compute_mask(self, query, value=None, query_mask=None, **kwargs):
        return query_mask


class Attention(Layer):
    """Luong's attention, by products, or by sums where the score mode is "concat"."""

    def __init__(self, use_scale=False, score_mode="dot", dropout=0.0, seed=None, causal=False, **kwargs):
        super().__init__(**kwargs)
        if score_mode not in ("dot", "concat"):
            raise ValueError(f"Invalid value for argument score_mode. Expected one of {{'dot', 'concat'}}. Received: score_mode={score_mode}")
        self.use_scale, self.score_mode, self.dropout, self.seed, self.causal = use_scale, score_mode, dropout, seed, causal
        self.seed_generator = SeedGenerator(seed) if dropout > 0 else None
        self.supports_masking = True

    def build(self, input_shape):
        self.scale = self.add_weight((), "ones", name="scale") if self.use_scale else None
        self.concat_score_weight = self.add_weight((), "ones", name="concat_score_weight") if self.score_mode == "concat" else None
        self.built = True

    def _scores(self, query, key):
        if self.score_mode == "concat":
            both = _tandem.expand_dims(query, -2) + _tandem.expand_dims(key, -3)
            return self.concat_score_weight * _tandem.reduce_sum(_tandem.tanh(both if self.scale is None else both * self.scale), -1, False)
        scores = _tandem.matmul(query, key, False, True)
        return scores if self.scale is None else scores * self.scale

    def call(self, inputs, mask=None, training=False, return_attention_scores=False, use_causal_mask=False):
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        scores = self._scores(query, key)
        query_mask, value_mask = (list(mask) + [None, None])[:2] if isinstance(mask, (list, tuple)) else (None, None)
        if value_mask is not None:
            scores = scores - 1e9 * _tandem.expand_dims(1.0 - _tandem.cast(value_mask, scores._code), -2)
        if use_causal_mask or self.causal:
            import numpy as np

            allowed = np.tril(np.ones((int(query._sizes[1]), int(value._sizes[1])), np.float32))
            scores = scores - 1e9 * _tandem.convert(1 - allowed)
        weights = _tandem.softmax(scores, -1)
        if training and self.dropout:
            weights = _tandem.dropout(weights, float(self.dropout), self.seed)
        y = _tandem.matmul(weights, value, False, False)
        if query_mask is not None:
            y = y * _tandem.expand_dims(_tandem.cast(query_mask, y._code), -1)
        return (y, weights) if return_attention_scores else y

    def compute_mask(self, inputs, mask=None):
        return mask[0] if isinstance(mask, (list, tuple)) else None


class AdditiveAttention(Attention):
    """Bahdanau's attention."""

    def __init__(self, use_scale=True, dropout=0.0, **kwargs):
        super().__init__(use_scale, "dot", dropout, **kwargs)

    def build(self, input_shape):
        self.scale = self.add_weight((input_shape[0][-1],), "glorot_uniform", name="scale") if self.use_scale else None
        self.built = True

    def _scores(self, query, key):
        total = _tandem.tanh(_tandem.expand_dims(query, -2) + _tandem.expand_dims(key, -3))
        return _tandem.reduce_sum(total if self.scale is None else total * self.scale, -1, False)
