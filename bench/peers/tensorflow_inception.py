"""The step of bench/inception.cpp in TensorFlow: Keras's own InceptionV3, and Adam.

Imported once the command line is read, which sets the number of threads."""

import re

import keras
import tensorflow as tf
from data import INCEPTION, Runner, inception_batch, inception_kernel


def make_model() -> keras.Model:
    model = keras.applications.InceptionV3(weights=None, classes=INCEPTION.classes, classifier_activation=None)
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    convolutions.sort(key=lambda layer: int((re.findall(r"_(\d+)$", layer.name) or [0])[0]))
    for number, layer in enumerate([*convolutions, model.get_layer("predictions")]):
        layer.kernel.assign(inception_kernel(number, tuple(layer.kernel.shape)))
    return model


def single(jit_compile: bool) -> Runner:
    x, y = map(tf.constant, inception_batch())
    model = make_model()
    optimizer = keras.optimizers.Adam(INCEPTION.learning_rate)
    optimizer.build(model.trainable_variables)

    def train(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    step = tf.function(train, jit_compile=jit_compile, autograph=False).get_concrete_function(x, y)

    def run(steps):
        for _ in range(steps):
            loss = step(x, y)
        return float(loss)

    return run


def ways() -> dict:
    return {"XLA": lambda: single(True), "tf.function": lambda: single(False)}
