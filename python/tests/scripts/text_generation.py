"""Characters of a text: windows of ids by tf.data, a GRU with a state, generation one step after another."""

import numpy as np
import tensorflow as tf

from common import fix

text = "the quick brown fox jumps over the lazy dog and runs away over the hills far away from the quick brown fox " * 2
vocab = sorted(set(text))
char2idx = {u: i for i, u in enumerate(vocab)}
idx2char = np.array(vocab)
text_as_int = np.array([char2idx[c] for c in text])
seq_length = 12
char_dataset = tf.data.Dataset.from_tensor_slices(text_as_int)
sequences = char_dataset.batch(seq_length + 1, drop_remainder=True)


def split_input_target(chunk):
    input_text = chunk[:-1]
    target_text = chunk[1:]
    return input_text, target_text


dataset = sequences.map(split_input_target, num_parallel_calls=tf.data.AUTOTUNE).batch(4, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
for input_example, target_example in dataset.take(1):
    first = "".join(idx2char[input_example[0].numpy()])


class MyModel(tf.keras.Model):
    def __init__(self, vocab_size, embedding_dim, rnn_units):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(vocab_size, embedding_dim)
        self.gru = tf.keras.layers.GRU(rnn_units, return_sequences=True, return_state=True)
        self.dense = tf.keras.layers.Dense(vocab_size)

    def call(self, inputs, states=None, return_state=False, training=False):
        x = inputs
        x = self.embedding(x, training=training)
        if states is None:
            batch_size = tf.shape(x)[0]
            states = tf.zeros((batch_size, self.gru.units))
        x, states = self.gru(x, initial_state=states, training=training)
        x = self.dense(x, training=training)
        if return_state:
            return x, states
        else:
            return x


model = MyModel(len(vocab), 6, 10)
model(input_example)
fix(model)
loss = tf.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=tf.keras.optimizers.SGD(0.5, momentum=0.9), loss=loss)
history = model.fit(dataset, epochs=3, verbose=0)


class OneStep(tf.keras.Model):
    def __init__(self, model, temperature=1.0):
        super().__init__()
        self.temperature = temperature
        self.model = model
        self.prediction_mask = tf.constant([-1e9] + [0.0] * (len(vocab) - 1))

    @tf.function
    def generate_one_step(self, inputs, states=None):
        predicted_logits, states = self.model(inputs=inputs, states=states, return_state=True)
        predicted_logits = predicted_logits[:, -1, :]
        predicted_logits = predicted_logits / self.temperature
        predicted_logits = predicted_logits + self.prediction_mask
        predicted_ids = tf.argmax(predicted_logits, axis=-1)
        return predicted_ids, states


one_step = OneStep(model)
states, next_char, generated = None, tf.constant([[char2idx["t"]], [char2idx["q"]]]), []
for n in range(6):
    ids, states = one_step.generate_one_step(next_char, states=states)
    generated.append(ids.numpy())
    next_char = tf.expand_dims(ids, 1)
result = {"loss": history.history["loss"], "states": states, "count": len(first), "generated": np.array(generated), "perplexity": tf.exp(loss(target_example, model(input_example)))}
