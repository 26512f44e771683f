"""A convolutional GAN with a loop of its own, as the tutorials write it."""

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

from common import fix

BATCH_SIZE, noise_dim = 8, 5


def make_generator_model():
    model = tf.keras.Sequential()
    model.add(layers.Input(shape=(noise_dim,)))
    model.add(layers.Dense(3 * 3 * 8, use_bias=False))
    model.add(layers.BatchNormalization())
    model.add(layers.LeakyReLU())
    model.add(layers.Reshape((3, 3, 8)))
    assert model.output_shape == (None, 3, 3, 8)
    model.add(layers.Conv2DTranspose(6, (5, 5), strides=(1, 1), padding="same", use_bias=False))
    model.add(layers.BatchNormalization())
    model.add(layers.LeakyReLU())
    model.add(layers.Conv2DTranspose(1, (5, 5), strides=(2, 2), padding="same", use_bias=False, activation="tanh"))
    assert model.output_shape == (None, 6, 6, 1)
    return model


def make_discriminator_model():
    model = tf.keras.Sequential([layers.Input((6, 6, 1))])
    model.add(layers.Conv2D(6, (5, 5), strides=(2, 2), padding="same"))
    model.add(layers.LeakyReLU())
    model.add(layers.Dropout(0.0))
    model.add(layers.Flatten())
    model.add(layers.Dense(1))
    return model


generator, discriminator = fix(make_generator_model()), fix(make_discriminator_model())
cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)


def discriminator_loss(real_output, fake_output):
    real_loss = cross_entropy(tf.ones_like(real_output), real_output)
    fake_loss = cross_entropy(tf.zeros_like(fake_output), fake_output)
    return real_loss + fake_loss


def generator_loss(fake_output):
    return cross_entropy(tf.ones_like(fake_output), fake_output)


generator_optimizer = tf.keras.optimizers.Adam(1e-3)
discriminator_optimizer = tf.keras.optimizers.Adam(1e-3)
checkpoint = tf.train.Checkpoint(generator_optimizer=generator_optimizer, discriminator_optimizer=discriminator_optimizer, generator=generator, discriminator=discriminator)
noise_source = np.random.RandomState(4)


@tf.function
def train_step(images, noise):
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        generated_images = generator(noise, training=True)
        real_output = discriminator(images, training=True)
        fake_output = discriminator(generated_images, training=True)
        gen_loss = generator_loss(fake_output)
        disc_loss = discriminator_loss(real_output, fake_output)
    gradients_of_generator = gen_tape.gradient(gen_loss, generator.trainable_variables)
    gradients_of_discriminator = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
    generator_optimizer.apply_gradients(zip(gradients_of_generator, generator.trainable_variables))
    discriminator_optimizer.apply_gradients(zip(gradients_of_discriminator, discriminator.trainable_variables))
    return gen_loss, disc_loss


images = np.random.RandomState(1).uniform(-1, 1, size=(20, 6, 6, 1)).astype("float32")
train_dataset = tf.data.Dataset.from_tensor_slices(images).batch(BATCH_SIZE)
losses = []
for epoch in range(2):
    for image_batch in train_dataset:
        noise = tf.constant(noise_source.normal(size=(image_batch.shape[0], noise_dim)), tf.float32)
        g, d = train_step(image_batch, noise)
        losses.append([g.numpy(), d.numpy()])
predictions = generator(tf.ones((2, noise_dim)), training=False)
result = {"losses": losses, "image": predictions[0, :, :, 0] * 127.5 + 127.5, "decision": discriminator(predictions)}
