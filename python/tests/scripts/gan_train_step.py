import numpy as np
import tensorflow as tf
from tensorflow import keras
from common import fix
class GAN(keras.Model):
    def __init__(self, discriminator, generator):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.d_loss_tracker = keras.metrics.Mean(name="d_loss")
        self.g_loss_tracker = keras.metrics.Mean(name="g_loss")
    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn
    @property
    def metrics(self):
        return [self.d_loss_tracker, self.g_loss_tracker]
    def train_step(self, real):
        batch_size = tf.shape(real)[0]
        noise = tf.zeros((batch_size, 4)) + 0.5
        fake = self.generator(noise)
        combined = tf.concat([fake, real], axis=0)
        labels = tf.concat([tf.ones((batch_size, 1)), tf.zeros((tf.shape(real)[0], 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(combined))
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights))
        misleading = tf.zeros((batch_size, 1))
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(misleading, self.discriminator(self.generator(noise)))
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))
        self.d_loss_tracker.update_state(d_loss)
        self.g_loss_tracker.update_state(g_loss)
        return {"d_loss": self.d_loss_tracker.result(), "g_loss": self.g_loss_tracker.result()}
d = fix(keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.LeakyReLU(negative_slope=0.2), keras.layers.Dense(1)]))
g = fix(keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(6)]))
gan = GAN(d, g)
gan.compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01), keras.losses.BinaryCrossentropy(from_logits=True))
real = np.random.RandomState(3).normal(size=(40, 6)).astype("float32")
h = gan.fit(tf.data.Dataset.from_tensor_slices(real).batch(16), epochs=3, verbose=0)
result = {**h.history}
