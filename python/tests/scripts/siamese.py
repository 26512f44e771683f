"""Two inputs through one network, a contrastive loss and a Lambda; then a triplet by train_step."""

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import backend as K
from tensorflow.keras.layers import Dense, Dropout, Flatten, Input, Lambda
from tensorflow.keras.models import Model

from common import fix


def create_base_network(input_shape):
    input = Input(shape=input_shape)
    x = Flatten()(input)
    x = Dense(12, activation="relu")(x)
    x = Dropout(0.0)(x)
    x = Dense(6, activation="relu")(x)
    return Model(input, x)


def euclidean_distance(vects):
    x, y = vects
    sum_square = tf.reduce_sum(tf.square(x - y), axis=1, keepdims=True)
    return tf.sqrt(tf.maximum(sum_square, K.epsilon()))


def eucl_dist_output_shape(shapes):
    shape1, shape2 = shapes
    return (shape1[0], 1)


def contrastive_loss(y_true, y_pred):
    margin = 1
    y_true = tf.cast(y_true, y_pred.dtype)
    square_pred = tf.square(y_pred)
    margin_square = tf.square(tf.maximum(margin - y_pred, 0))
    return tf.reduce_mean(y_true * square_pred + (1 - y_true) * margin_square)


def accuracy(y_true, y_pred):
    return tf.reduce_mean(tf.cast(tf.equal(y_true, tf.cast(y_pred < 0.5, y_true.dtype)), tf.float32))


r = np.random.RandomState(2)
pairs, labels = r.rand(40, 2, 5, 5).astype("float32"), r.randint(0, 2, 40).astype("float32")
base_network = fix(create_base_network((5, 5)))
input_a, input_b = Input(shape=(5, 5), name="left"), Input(shape=(5, 5), name="right")
distance = Lambda(euclidean_distance, output_shape=eucl_dist_output_shape)([base_network(input_a), base_network(input_b)])
model = Model([input_a, input_b], distance)
model.compile(loss=contrastive_loss, optimizer=keras.optimizers.RMSprop(0.005), metrics=[accuracy])
history = model.fit([pairs[:, 0], pairs[:, 1]], labels, batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=([pairs[:8, 0], pairs[:8, 1]], labels[:8]))
by_name = model.predict({"left": pairs[:4, 0], "right": pairs[:4, 1]}, verbose=0)


class SiameseModel(Model):
    def __init__(self, network, margin=0.5):
        super().__init__()
        self.network, self.margin = network, margin
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def call(self, inputs):
        anchor, positive, negative = (self.network(i) for i in inputs)
        return tf.reduce_sum(tf.square(anchor - positive), -1), tf.reduce_sum(tf.square(anchor - negative), -1)

    def _compute(self, data):
        ap_distance, an_distance = self(data)
        return tf.maximum(ap_distance - an_distance + self.margin, 0.0)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self._compute(data)
        gradients = tape.gradient(loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        self.loss_tracker.update_state(self._compute(data))
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self):
        return [self.loss_tracker]


anchor = tf.data.Dataset.from_tensor_slices(r.rand(24, 5, 5).astype("float32"))
positive = tf.data.Dataset.from_tensor_slices(r.rand(24, 5, 5).astype("float32"))
negative = tf.data.Dataset.from_tensor_slices(r.rand(24, 5, 5).astype("float32"))
dataset = tf.data.Dataset.zip((anchor, positive, negative)).batch(8, drop_remainder=False).prefetch(8)
siamese_model = SiameseModel(fix(create_base_network((5, 5))))
siamese_model.compile(optimizer=keras.optimizers.Adam(0.01))
triplets = siamese_model.fit(dataset.take(2), epochs=2, verbose=0, validation_data=dataset.skip(2))
result = {**history.history, "by_name": by_name, "triplets": triplets.history["loss"], "triplets_val": triplets.history["val_loss"]}
