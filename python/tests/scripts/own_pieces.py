import tensorflow as tf
from tensorflow import keras
from common import data
class Linear(keras.layers.Layer):
    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
    def build(self, input_shape):
        self.w = self.add_weight(shape=(input_shape[-1], self.units), initializer=keras.initializers.Constant(0.1), trainable=True, name="w")
        self.b = self.add_weight(shape=(self.units,), initializer="zeros", trainable=True, name="b")
    def call(self, inputs):
        self.add_loss(1e-2 * tf.reduce_sum(inputs ** 2) / tf.cast(tf.shape(inputs)[0], tf.float32))
        return tf.matmul(inputs, self.w) + self.b
    def get_config(self):
        return {**super().get_config(), "units": self.units}
class MyLoss(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tf.reduce_mean(tf.square(tf.cast(y_true, tf.float32) - y_pred), axis=-1) * 2.0
class Above(keras.metrics.Metric):
    def __init__(self, name="above", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight(name="total", initializer="zeros")
    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(tf.reduce_sum(tf.cast(y_pred > 0.1, tf.float32)))
    def result(self):
        return self.total
def rmse(y_true, y_pred):
    return tf.sqrt(tf.reduce_mean(tf.square(tf.cast(y_true, tf.float32) - y_pred)))
x, y = data()
inputs = keras.Input((8,))
outputs = keras.layers.Dense(1, kernel_initializer="ones", kernel_constraint=keras.constraints.MaxNorm(1.0))(keras.layers.Activation(lambda t: tf.nn.relu(t))(Linear(5)(inputs)))
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.SGD(0.01), MyLoss(), metrics=[Above(), rmse])
h = model.fit(x, y.astype("float32"), epochs=3, batch_size=32, shuffle=False, verbose=0, sample_weight=None, class_weight={0: 1.0, 1: 2.0, 2: 0.5})
config = Linear(6).get_config()
result = {"loss": h.history["loss"], "above": h.history["above"], "rmse": h.history["rmse"], "units": Linear.from_config(config).units}
