#!/usr/bin/env python3
"""Writes tests/data/tensorflow_checkpoints with TensorFlow itself: python make_tensorflow_checkpoints.py

objects/    the last two of three saves by a tf.train.CheckpointManager, of variables of every type, nested, shared and empty, and Python state
classifier/ a Keras model with an Adam optimizer after two steps, and in expected.npz what is in it after a third
names/      TensorFlow 1's checkpoints by name
"""

import os
import pathlib
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(__file__).parent / "tensorflow_checkpoints"


class Position(tf.train.experimental.PythonState):
    def serialize(self):
        return b"row 17\0of 60000"

    def deserialize(self, string_value):
        raise NotImplementedError


def objects() -> None:
    layer = tf.Module()
    layer.kernel = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3) / 4, name="kernel")
    layer.bias = tf.Variable(np.array([1, -2, 3], np.float32), name="bias")
    types = {
        name: tf.Variable(tf.cast([1, 0, 3], name))
        for name in ("float16", "float32", "float64", "bfloat16", "uint8", "int32", "int64", "bool")
    }
    checkpoint = tf.train.Checkpoint(
        layer=layer,
        layers=[layer],
        types=types,
        empty=tf.Variable(np.zeros((0, 4), np.float32)),
        step=tf.Variable(np.int64(41)),
        position=Position(),
        unknown=tf.Variable(np.array([1, 2], np.int8)),
    )
    checkpoint._track_trackable(tf.Variable(2.5, name="odd"), "a/b.c")
    manager = tf.train.CheckpointManager(checkpoint, str(FOLDER / "objects"), max_to_keep=2)
    for _ in range(3):
        manager.save()
        checkpoint.step.assign_add(1)


def classifier() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
    model.set_weights([(np.arange(w.size).reshape(w.shape) % 7 - 3).astype(np.float32) / 8 for w in model.get_weights()])
    optimizer = keras.optimizers.Adam(0.01)
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 12
    y = np.eye(2, dtype=np.float32)[[0, 1, 1, 0]]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, model(x)))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))

    step(), step()
    tf.train.Checkpoint(model=model, optimizer=optimizer).save(str(FOLDER / "classifier" / "ckpt"))
    step()
    np.savez(FOLDER / "classifier" / "expected.npz", **{f"{i}": w for i, w in enumerate(model.get_weights())})


def names() -> None:
    with tf.Graph().as_default():
        tf.compat.v1.get_variable("weights", initializer=np.float32([1, 2]), use_resource=False)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            (FOLDER / "names").mkdir(parents=True)
            saver = tf.compat.v1.train.Saver()
            saver.save(session, str(FOLDER / "names" / "model"), write_meta_graph=False, write_state=False)


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    objects()
    classifier()
    names()
