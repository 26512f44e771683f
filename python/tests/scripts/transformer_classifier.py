"""A transformer block and an embedding of tokens and positions, as in the Keras examples."""

import keras
import numpy as np
from keras import layers, ops

from common import fix


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.0):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="gelu"), layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
        self.dropout2 = layers.Dropout(rate)

    def call(self, inputs, training=False):
        attn_output = self.att(inputs, inputs)
        attn_output = self.dropout1(attn_output, training=training)
        out1 = self.layernorm1(inputs + attn_output)
        ffn_output = self.ffn(out1)
        ffn_output = self.dropout2(ffn_output, training=training)
        return self.layernorm2(out1 + ffn_output)


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
        self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

    def call(self, x):
        maxlen = ops.shape(x)[-1]
        positions = ops.arange(start=0, stop=maxlen, step=1)
        positions = self.pos_emb(positions)
        x = self.token_emb(x)
        return x + positions


r = np.random.RandomState(0)
maxlen, vocab_size = 10, 50
sequences = [list(r.randint(1, vocab_size, r.randint(4, 14))) for _ in range(60)]
x = keras.utils.pad_sequences(sequences, maxlen=maxlen)
y = (x.sum(axis=1) % 2).astype("int32")
inputs = layers.Input(shape=(maxlen,))
h = TokenAndPositionEmbedding(maxlen, vocab_size, 8)(inputs)
h = TransformerBlock(8, 2, 12)(h)
h = layers.GlobalAveragePooling1D()(h)
h = layers.Dropout(0.0)(h)
h = layers.Dense(6, activation="relu")(h)
outputs = layers.Dense(2, activation="softmax")(h)
model = fix(keras.Model(inputs=inputs, outputs=outputs))
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x[:48], y[:48], batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=(x[48:], y[48:]))

# A decoder: a causal mask, cross attention, the scores.
query, memory = r.normal(size=(2, 5, 8)).astype("float32"), r.normal(size=(2, 7, 8)).astype("float32")
attention = layers.MultiHeadAttention(num_heads=2, key_dim=4, value_dim=3, output_shape=6)
attention.build(query.shape, memory.shape)
fix(attention)
own = layers.MultiHeadAttention(num_heads=2, key_dim=4)
own.build(query.shape, query.shape)
fix(own)
value, scores = attention(query, memory, return_attention_scores=True)
mask = np.tril(np.ones((5, 5), bool))[None]
result = {
    **history.history, "value": value, "scores": scores, "causal": own(query, query, use_causal_mask=True), "masked": own(query, query, attention_mask=mask),
    "params": model.count_params(), "evaluated": model.evaluate(x[48:], y[48:], verbose=0), "dot": layers.Attention()([query, memory]), "additive": layers.AdditiveAttention(use_scale=False)([query, memory]),
}
