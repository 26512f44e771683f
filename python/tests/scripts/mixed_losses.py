"""Several inputs and outputs, losses and metrics by name, weights, masks, add_loss, own metrics and a regularised layer."""

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from common import fix

r = np.random.RandomState(8)
titles, bodies, tags = r.randint(0, 20, (48, 6)), r.randint(0, 20, (48, 9)), r.randint(0, 2, (48, 3)).astype("float32")
priority, department = r.rand(48, 1).astype("float32"), r.randint(0, 4, 48)
title_input = keras.Input(shape=(6,), name="title", dtype="int32")
body_input = keras.Input(shape=(9,), name="body", dtype="int32")
tags_input = keras.Input(shape=(3,), name="tags")
title_features = layers.LSTM(5)(layers.Embedding(20, 4, mask_zero=True)(title_input))
body_features = layers.Bidirectional(layers.GRU(3))(layers.Embedding(20, 4)(body_input))
x = layers.concatenate([title_features, body_features, tags_input])
x = layers.Dense(6, activation="relu", activity_regularizer=keras.regularizers.L2(1e-2))(x)
priority_pred = layers.Dense(1, name="priority")(x)
department_pred = layers.Dense(4, name="department")(x)


class MeanAbove(keras.metrics.Metric):
    def __init__(self, threshold=0.5, name="mean_above", **kwargs):
        super().__init__(name=name, **kwargs)
        self.threshold = threshold
        self.above = self.add_weight(name="above", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        values = tf.cast(y_pred > self.threshold, tf.float32)
        if sample_weight is not None:
            values = tf.multiply(values, tf.reshape(tf.cast(sample_weight, tf.float32), (-1, 1)))
        self.above.assign_add(tf.reduce_sum(values))
        self.count.assign_add(tf.cast(tf.size(y_pred), tf.float32))

    def result(self):
        return tf.math.divide_no_nan(self.above, self.count)

    def reset_state(self):
        self.above.assign(0.0)
        self.count.assign(0.0)


model = fix(keras.Model(inputs=[title_input, body_input, tags_input], outputs={"priority": priority_pred, "department": department_pred}))
model.compile(
    optimizer=keras.optimizers.SGD(0.1, momentum=0.5),
    loss={"priority": keras.losses.Huber(delta=0.3), "department": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    loss_weights={"priority": 1.0, "department": 0.2},
    metrics={"priority": ["mae", MeanAbove(0.1)], "department": ["accuracy"]},
)
history = model.fit(
    {"title": titles, "body": bodies, "tags": tags}, {"priority": priority, "department": department}, epochs=2, batch_size=16, shuffle=False, verbose=0,
)
dataset = tf.data.Dataset.from_tensor_slices(({"title": titles, "body": bodies, "tags": tags}, {"priority": priority, "department": department}, {"priority": np.linspace(0, 1, 48), "department": np.ones(48)})).batch(24)
evaluated = model.evaluate(dataset, verbose=0, return_dict=True)
predicted = model.predict({"title": titles[:3], "body": bodies[:3], "tags": tags[:3]}, verbose=0)


class Huberish(keras.Model):
    """compute_loss of its own, with add_loss inside of a layer's call."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(4, activation="relu")
        self.out = layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="own")

    def call(self, inputs):
        h = self.dense(inputs)
        self.add_loss(0.01 * tf.reduce_sum(tf.abs(h)))
        return self.out(h)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = tf.reduce_mean(tf.where(tf.abs(y - y_pred) < 0.5, tf.square(y - y_pred), tf.abs(y - y_pred)))
        loss += sum(self.losses)
        self.tracker.update_state(loss)
        return loss

    @property
    def metrics(self):
        return [self.tracker]


own = Huberish()
own(tags[:1])
fix(own)
own.compile(optimizer=keras.optimizers.SGD(0.05))
own_history = own.fit(tags, priority, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {**{k: v for k, v in history.history.items()}, **{f"evaluated_{k}": v for k, v in evaluated.items()}, **{f"predicted_{k}": v for k, v in predicted.items()}, "own": own_history.history["own"]}
