"""The transformer of bench/transformer.cpp in TensorFlow: Keras layers and AdamW in a compiled train step.

Imported once the command line is read, which sets the number of threads."""

import keras
import tensorflow as tf
from data import TRANSFORMERS, Runner, Transformer, texts, transformer_weights


class Model(keras.Model):
    def __init__(self, transformer: Transformer):
        super().__init__()
        width = transformer.width
        self.transformer = transformer
        self.embedding = keras.layers.Embedding(transformer.vocabulary, width)
        self.positions = self.add_weight(shape=(transformer.tokens, width))
        self.blocks = [
            [*self.attention(), self.norm(), self.dense(4 * width), self.dense(width)]
            for _ in range(transformer.layers)
        ]
        self.last = [self.norm(), self.dense(transformer.vocabulary)]

    def norm(self):
        return keras.layers.LayerNormalization(epsilon=self.transformer.epsilon)

    def dense(self, units: int):
        return keras.layers.Dense(units)

    def attention(self):
        return self.norm(), self.dense(3 * self.transformer.width), self.dense(self.transformer.width)

    def attend(self, x, into, out):
        heads, width = self.transformer.heads, self.transformer.width
        parts = tf.split(into(x), 3, axis=-1)
        query, key, value = (tf.reshape(p, (-1, self.transformer.tokens, heads, width // heads)) for p in parts)
        result = keras.ops.dot_product_attention(query, key, value, is_causal=True)
        return out(tf.reshape(result, (-1, self.transformer.tokens, width)))

    def call(self, read):
        x = self.embedding(read) + self.positions
        for first_norm, into, out, second_norm, wide, narrow in self.blocks:
            x = x + self.attend(first_norm(x), into, out)
            x = x + narrow(tf.nn.gelu(wide(second_norm(x)), approximate=False))
        norm, dense = self.last
        return dense(norm(x))

    def set_initial(self) -> None:
        layers = [layer for block in self.blocks for layer in block] + self.last
        variables = [self.embedding.embeddings, self.positions, *(w for layer in layers for w in layer.weights)]
        for variable, value in zip(variables, transformer_weights(self.transformer), strict=True):
            variable.assign(value)


def single(transformer: Transformer, jit_compile: bool) -> Runner:
    read, following = (tf.constant(t, tf.int32) for t in texts(transformer))
    model = Model(transformer)
    model(read)
    model.set_initial()
    optimizer = keras.optimizers.AdamW(transformer.learning_rate, weight_decay=transformer.weight_decay)
    optimizer.build(model.trainable_variables)

    def train(read, following):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(following, model(read, training=True))
            loss = tf.reduce_mean(losses)
        # Keras would square the gradients of a token's places one by one.
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, model.trainable_variables)]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    step = tf.function(train, jit_compile=jit_compile, autograph=False).get_concrete_function(read, following)

    def run(steps):
        for _ in range(steps):
            loss = step(read, following)
        return float(loss)

    return run


def ways(name: str) -> dict:
    transformer = TRANSFORMERS[name]
    return {"XLA": lambda: single(transformer, True), "tf.function": lambda: single(transformer, False)}
