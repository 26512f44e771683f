#!/usr/bin/env python3
"""Trains one model by turns, here with TensorFlow and in tandem-interop, each from the other's last checkpoint. Then reads
a checkpoint of several data files, which as many processes of tandem-interop have written together.

Run by the TensorFlow virtualenv of `make peers`. Exit status 1 if a checkpoint cannot be restored, or if the end differs
from training here alone.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf

STEPS = 3  # of each turn
TURNS = 4
PROCESSES = {"slots": 2, "mesh": 4}  # that train together, by what each has a part of
TOLERANCE = 1e-6
TYPES = ("float16", "float32", "float64", "bfloat16", "uint8", "int32", "int64", "bool")


class Position(tf.train.experimental.PythonState):
    """A string of bytes."""

    value = b""

    def serialize(self):
        return self.value

    def deserialize(self, string_value):
        self.value = string_value


class Training:
    def __init__(self, width: int = 4):
        layers = [keras.Input((3,)), keras.layers.Dense(width, activation="relu"), keras.layers.Dense(2)]
        self.model = keras.Sequential(layers)
        weights = [(np.arange(w.size).reshape(w.shape) % 7 - 3) / 8 for w in self.model.get_weights()]
        self.model.set_weights([w.astype(np.float32) for w in weights])
        self.optimizer = keras.optimizers.Adam(0.01)
        self.optimizer.build(self.model.trainable_variables)

    def train(self, steps: int) -> None:
        x = np.arange(12, dtype=np.float32).reshape(4, 3) / 12
        y = np.eye(2, dtype=np.float32)[[0, 1, 1, 0]]
        weights = self.model.trainable_variables
        for _ in range(steps):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, self.model(x)))
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))


def take_turn(folder: str) -> None:
    """The same as in checkpoint.cpp."""
    training = Training()
    types = {name: tf.Variable(tf.zeros(3, name)) for name in TYPES}
    types["empty"] = tf.Variable(np.zeros((0, 4), np.float32))
    position, step, epoch = Position(), tf.Variable(np.int64(0)), tf.Variable(np.int64(0))
    random, providers = Position(), tf.Variable(np.int64(0))
    checkpoint = tf.train.Checkpoint(
        model=training.model,
        optimizer=training.optimizer,
        types=types,
        position=position,
        step=step,
        epoch=epoch,
        random=random,
        providers=providers,
    )
    odd = tf.Variable(0.0)
    checkpoint.types._track_trackable(odd, "a/b.c")
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    for name in TYPES:
        wanted = tf.cast([1, 0, 3], name).numpy()
        np.testing.assert_array_equal(types[name].numpy(), wanted, err_msg=name)
    assert odd.numpy() == 2.5
    training.train(STEPS)
    step.assign_add(STEPS)
    position.value += b"tensorflow\n"
    manager.save()


def check_files(folder: str, turn: int) -> None:
    """What load_checkpoint and the manager see."""
    latest = tf.train.latest_checkpoint(folder)
    assert latest == os.path.join(folder, f"ckpt-{turn}"), latest
    reader = tf.train.load_checkpoint(folder)
    assert reader.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == turn * STEPS
    for key in reader.get_variable_to_shape_map():
        reader.get_tensor(key)  # verifies its checksum
    kept = sorted(name for name in os.listdir(folder) if name.endswith(".index"))
    wanted = [f"ckpt-{n}.index" for n in range(max(1, turn - 1), turn + 1)]
    assert kept == wanted, f"{kept} are kept, {wanted} were expected"


def worst_difference(one: Training, other: Training) -> float:
    """Over all weights and slots."""
    numbers = [[*t.model.get_weights(), *(v.numpy() for v in t.optimizer.variables)] for t in (one, other)]
    return max(np.max(np.abs(a - b)) for a, b in zip(*numbers))


def restored(path: str, width: int) -> Training:
    training = Training(width)
    checkpoint = tf.train.Checkpoint(model=training.model, optimizer=training.optimizer)
    checkpoint.restore(path).assert_existing_objects_matched().expect_partial()
    return training


def trained_together(program: str, folder: str, way: str) -> float:
    """Processes that each keep a part of the state write a data file each; the difference to training here alone."""
    processes = PROCESSES[way]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meeting = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [program, "--train-together", folder, str(STEPS), way]
    workers = [subprocess.Popen(words, env={**os.environ, **meeting, "RANK": str(r)}) for r in range(processes)]
    for worker in workers:
        assert worker.wait(timeout=600) == 0, worker.args
    path = os.path.join(folder, "together-1")
    for shard in range(processes):
        data = f"{path}.data-{shard:05}-of-{processes:05}"
        assert os.path.getsize(data) > 0, data
    reader = tf.train.load_checkpoint(path)
    for key in reader.get_variable_to_shape_map():
        reader.get_tensor(key)  # verifies its checksum
    alone = Training(64)
    alone.train(STEPS)
    return worst_difference(restored(path, 64), alone)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="tandem-interop")
    program = parser.parse_args().program

    with tempfile.TemporaryDirectory() as folder:
        for turn in range(1, TURNS + 1):
            if turn % 2 == 1:
                subprocess.run([program, "--train", folder, str(STEPS)], check=True, timeout=600)
            else:
                take_turn(folder)
            check_files(folder, turn)
        reader = tf.train.load_checkpoint(folder)
        turns = reader.get_tensor("position/.ATTRIBUTES/py_state")
        assert turns == b"tandem\ntensorflow\n" * (TURNS // 2), turns
        resumed = restored(tf.train.latest_checkpoint(folder), 4)
    together = 0.0
    for way in PROCESSES:
        with tempfile.TemporaryDirectory() as folder:
            together = max(together, trained_together(program, folder, way))

    alone = Training()
    alone.train(STEPS * TURNS)
    worst = worst_difference(resumed, alone)
    same = max(worst, together) <= TOLERANCE
    print(
        f"checkpoints {'agree' if same else 'DIFFER'} with TensorFlow {tf.__version__}: {TURNS} turns of {STEPS} steps, apart by"
        f" {worst:.2g}; data files of {' and '.join(map(str, PROCESSES.values()))} processes, apart by {together:.2g}"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
