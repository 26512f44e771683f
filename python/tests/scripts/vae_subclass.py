"""A variational autoencoder with a Sampling layer, a train_step and a test_step."""

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from common import fix


class Sampling(layers.Layer):
    """Uses (z_mean, z_log_var) to sample z, here at a fixed distance of the mean."""

    def call(self, inputs):
        z_mean, z_log_var = inputs
        batch = tf.shape(z_mean)[0]
        dim = tf.shape(z_mean)[1]
        epsilon = tf.ones(shape=(batch, dim)) * 0.3
        return z_mean + tf.exp(0.5 * z_log_var) * epsilon


latent_dim = 2
encoder_inputs = keras.Input(shape=(8, 8, 1))
x = layers.Conv2D(4, 3, activation="relu", strides=2, padding="same")(encoder_inputs)
x = layers.Conv2D(6, 3, activation="relu", strides=2, padding="same")(x)
x = layers.Flatten()(x)
x = layers.Dense(8, activation="relu")(x)
z_mean = layers.Dense(latent_dim, name="z_mean")(x)
z_log_var = layers.Dense(latent_dim, name="z_log_var")(x)
z = Sampling()([z_mean, z_log_var])
encoder = fix(keras.Model(encoder_inputs, [z_mean, z_log_var, z], name="encoder"))
latent_inputs = keras.Input(shape=(latent_dim,))
x = layers.Dense(2 * 2 * 6, activation="relu")(latent_inputs)
x = layers.Reshape((2, 2, 6))(x)
x = layers.Conv2DTranspose(6, 3, activation="relu", strides=2, padding="same")(x)
x = layers.Conv2DTranspose(4, 3, activation="relu", strides=2, padding="same")(x)
decoder_outputs = layers.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(x)
decoder = fix(keras.Model(latent_inputs, decoder_outputs, name="decoder"))


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.decoder = decoder
        self.total_loss_tracker = keras.metrics.Mean(name="total_loss")
        self.reconstruction_loss_tracker = keras.metrics.Mean(name="reconstruction_loss")
        self.kl_loss_tracker = keras.metrics.Mean(name="kl_loss")

    @property
    def metrics(self):
        return [self.total_loss_tracker, self.reconstruction_loss_tracker, self.kl_loss_tracker]

    def losses_of(self, data):
        z_mean, z_log_var, z = self.encoder(data)
        reconstruction = self.decoder(z)
        reconstruction_loss = tf.reduce_mean(tf.reduce_sum(keras.losses.binary_crossentropy(data, reconstruction), axis=(1, 2)))
        kl_loss = -0.5 * (1 + z_log_var - tf.square(z_mean) - tf.exp(z_log_var))
        kl_loss = tf.reduce_mean(tf.reduce_sum(kl_loss, axis=1))
        return reconstruction_loss + kl_loss, reconstruction_loss, kl_loss

    def tracked(self, losses):
        for tracker, loss in zip(self.metrics, losses):
            tracker.update_state(loss)
        return {m.name: m.result() for m in self.metrics}

    def train_step(self, data):
        with tf.GradientTape() as tape:
            losses = self.losses_of(data)
        grads = tape.gradient(losses[0], self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        return self.tracked(losses)

    def test_step(self, data):
        if isinstance(data, tuple):
            data = data[0]
        return self.tracked(self.losses_of(data))


digits = np.random.RandomState(0).rand(36, 8, 8, 1).astype("float32")
vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam(0.01))
history = vae.fit(digits[:24], epochs=3, batch_size=8, shuffle=False, verbose=0, validation_data=(digits[24:], None))
evaluated = vae.evaluate(digits[24:], batch_size=12, verbose=0, return_dict=True)
means, _, _ = vae.encoder.predict(digits[:3], verbose=0)
result = {**history.history, **{f"evaluated_{k}": v for k, v in evaluated.items()}, "means": means, "decoded": vae.decoder.predict(np.array([[0.5, -0.5]]), verbose=0)[0, :, :, 0]}
