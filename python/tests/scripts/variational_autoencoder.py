import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from common import fix
class Sampling(layers.Layer):
    def call(self, inputs):
        z_mean, z_log_var = inputs
        batch = tf.shape(z_mean)[0]
        dim = tf.shape(z_mean)[1]
        epsilon = tf.ones(shape=(batch, dim)) * 0.1
        return z_mean + tf.exp(0.5 * z_log_var) * epsilon
inputs = keras.Input(shape=(10,))
h = layers.Dense(8, activation="relu")(inputs)
z_mean = layers.Dense(2, name="z_mean")(h)
z_log_var = layers.Dense(2, name="z_log_var")(h)
z = Sampling()([z_mean, z_log_var])
encoder = fix(keras.Model(inputs, [z_mean, z_log_var, z], name="encoder"))
latent = keras.Input(shape=(2,))
decoder = fix(keras.Model(latent, layers.Dense(10, activation="sigmoid")(layers.Dense(8, activation="relu")(latent)), name="decoder"))
class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder
        self.total = keras.metrics.Mean(name="total_loss")
    @property
    def metrics(self):
        return [self.total]
    def train_step(self, data):
        with tf.GradientTape() as tape:
            z_mean, z_log_var, z = self.encoder(data)
            rec = self.decoder(z)
            rec_loss = tf.reduce_mean(tf.reduce_sum(keras.losses.binary_crossentropy(data[..., None], rec[..., None]), axis=-1))
            kl = -0.5 * (1 + z_log_var - tf.square(z_mean) - tf.exp(z_log_var))
            total = rec_loss + tf.reduce_mean(tf.reduce_sum(kl, axis=1))
        grads = tape.gradient(total, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.total.update_state(total)
        return {"loss": self.total.result()}
vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam())
x = np.random.RandomState(4).rand(48, 10).astype("float32")
result = {**vae.fit(x, epochs=3, batch_size=16, shuffle=False, verbose=0).history}
