import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from common import fix
class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.0):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
    def call(self, inputs, training=None):
        attn_output = self.dropout1(self.att(inputs, inputs), training=training)
        out1 = self.layernorm1(inputs + attn_output)
        return self.layernorm2(out1 + self.ffn(out1))
class Positions(layers.Layer):
    def __init__(self, maxlen, vocab, dim):
        super().__init__()
        self.token, self.pos = layers.Embedding(vocab, dim), layers.Embedding(maxlen, dim)
    def call(self, x):
        return self.token(x) + self.pos(tf.range(start=0, limit=tf.shape(x)[-1], delta=1))
inputs = layers.Input(shape=(7,))
x = Positions(7, 20, 8)(inputs)
x = TransformerBlock(8, 2, 12)(x)
x = layers.GlobalAveragePooling1D()(x)
model = keras.Model(inputs, layers.Dense(2, activation="softmax")(x))
rows = np.random.RandomState(5).randint(0, 20, (24, 7)); labels = rows.sum(1) % 2
names = sorted(range(len(model.weights)), key=lambda i: (model.weights[i].shape.__str__() if False else i))
for w in model.weights:
    w.assign(np.ones(tuple(w.shape), "float32") * 0.1 + np.linspace(0, 0.1, int(np.prod(w.shape))).reshape(tuple(w.shape)).astype("float32"))
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
result = {"loss": model.fit(rows, labels, epochs=2, batch_size=8, shuffle=False, verbose=0).history["loss"], "params": model.count_params()}
