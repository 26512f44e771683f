"""AutoGraph where programs meet it: in a layer's call, beside a train_step, in a function that a tf.function calls."""

import tensorflow as tf
from tensorflow import keras

from common import data, fix

x, y = data(48)


def scaled(gradients, total, limit):
    if total > limit:
        gradients = [g * limit / total for g in gradients]
    return gradients


@tf.function
def clipped(gradients, limit):
    return scaled(gradients, tf.linalg.global_norm(gradients), limit)


class Gate(keras.layers.Layer):
    @tf.function
    def call(self, inputs):
        if tf.reduce_mean(inputs) > 0.0:
            return inputs * 2.0
        else:
            return inputs - 1.0


class Halting(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.dense = keras.layers.Dense(units, activation="tanh")

    def call(self, inputs):
        h = inputs
        for _ in range(3):
            h = self.dense(h)
        return h


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.gate, self.halting, self.out = Gate(), Halting(8), keras.layers.Dense(3)
        self.steps_skipped = self.add_weight(name="skipped", shape=(), initializer="zeros", trainable=False)

    def call(self, inputs, training=None):
        h = self.halting(self.gate(inputs))
        if training:
            h = h * 0.9
        return self.out(h)

    @tf.function
    def count(self, loss):
        if loss > 1.2:
            self.steps_skipped.assign_add(1.0)

    def train_step(self, data):
        features, labels = data
        with tf.GradientTape() as tape:
            logits = self(features, training=True)
            loss = self.compute_loss(y=labels, y_pred=logits)
        gradients = clipped(tape.gradient(loss, self.trainable_variables), 0.3)
        self.count(loss)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(labels, logits)
        return {m.name: m.result() for m in self.metrics}


model = Model()
model(x[:1])
fix(model)
model.steps_skipped.assign(0.0)
model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, verbose=0)


def newton(value):
    guess = value
    count = 0
    while tf.abs(guess * guess - value) > 1e-4:
        guess = 0.5 * (guess + value / guess)
        count += 1
        if count >= 20:
            break
    return guess, count


@tf.function
def root(value):
    guess, count = newton(value)
    return guess, count


@tf.function
def fizz(limit):
    three, five = tf.constant(0), tf.constant(0)
    for i in tf.range(1, limit + 1):
        if i % 15 == 0:
            three, five = three + 1, five + 1
        elif i % 3 == 0:
            three += 1
        elif i % 5 == 0:
            five += 1
    return three, five


@tf.function
def gathered(values):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for i in tf.range(tf.shape(values)[0]):
        if values[i] > 0:
            array = array.write(array.size(), values[i] * 2.0)
    return array.stack()


@tf.function
def assigned(value):
    if value < 0:
        message = -1.0
    else:
        message = 1.0
    assert message is not None
    return message * value


result = {
    "loss": history.history["loss"], "skipped": float(model.steps_skipped), "predicted": model.predict(x[:3], verbose=0), "root": [float(v) for v in root(tf.constant(9.0))], "fizz": [int(v) for v in fizz(tf.constant(30))],
    "gathered": gathered(tf.constant([1.0, -2.0, 3.0])), "assigned": [float(assigned(tf.constant(v))) for v in (-2.0, 3.0)], "gate": [Gate()(tf.constant([[v, v]])) for v in (1.0, -1.0)],
}
