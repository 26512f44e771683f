"""Times the Python module, in the lines of tandem-bench: python bench/python_face.py --bench tandem-bench [NAME..].

The programs are those that the peers run with their own module. Where a row is held against the same work in C++,
tandem-bench is run in between.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import python_programs
from data import BATCH, CLASSIFIERS, LOSS_STEP, best_seconds, features, labels, steps_per_epoch, weights
from python_programs import import_seconds

ROWS = 60_000
EPOCHS = 10


def print_time(name: str, seconds: float) -> None:
    print(f"{name}\t{seconds * 1e6:.9g}\tus", flush=True)


def print_loss(name: str, loss: float) -> None:
    print(f"{name}.loss\t{loss:.9g}\tloss", flush=True)


def beside_cpp(bench: str, name: str, own_seconds: float, cpp_name: str) -> None:
    """The time here, that of `cpp_name` of tandem-bench, and their quotient."""
    printed = subprocess.run([bench, cpp_name], capture_output=True, text=True, check=True).stdout
    lines = dict(line.split("\t", 1) for line in printed.splitlines())
    value, unit = lines[cpp_name].split("\t")
    cpp_seconds = float(value) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    print_time(f"{name}.python", own_seconds)
    print_time(f"{name}.cpp", cpp_seconds)
    print(f"{name}\t{own_seconds / cpp_seconds:.9g}\tx", flush=True)


def seed_model(tf):
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(10, activation="relu", input_shape=(784,)), tf.keras.layers.Dense(10)]
    )
    model.set_weights(weights(CLASSIFIERS["mlp10"].sizes))
    return model


def py_import(bench: str) -> None:
    print_time("py_import", import_seconds("tandem"))
    print_loss("py_import", 0.0)


def py_seed_fit(bench: str) -> None:
    """Article 000, example 1, without a strategy: per step of `fit`."""
    import tandem as tf

    model = seed_model(tf)
    model.compile(tf.keras.optimizers.Adam(0.01), tf.keras.losses.CategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    x, y = features(ROWS), labels(ROWS)
    model.fit(x, y, batch_size=BATCH, verbose=0)
    epoch = min(python_programs.seconds_of(lambda: model.fit(x, y, batch_size=BATCH, verbose=0)) for _ in range(EPOCHS))
    beside_cpp(bench, "py_seed_fit", epoch / steps_per_epoch(ROWS), "seed_fit")


def py_seed_loop(bench: str) -> None:
    """Article 000, example 2, on two replicas, without its print: per step."""
    import tandem as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = seed_model(tf)
        optimizer = tf.keras.optimizers.Adam(0.01)
        loss_fn = tf.keras.losses.CategoricalCrossentropy(from_logits=True)
    dataset = tf.data.Dataset.from_tensor_slices((features(ROWS), labels(ROWS))).batch(BATCH)
    distributed_dataset = strategy.experimental_distribute_dataset(dataset)

    @tf.function
    def train_step(inputs, labels):
        with tf.GradientTape() as tape:
            predictions = model(inputs)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    def epoch(steps=None):
        for number, (inputs, labels) in enumerate(distributed_dataset, 1):
            loss = strategy.run(train_step, args=(inputs, labels))
            if number == steps:
                return float(strategy.reduce("SUM", loss, axis=None))

    print_loss("py_seed_loop.python", epoch(LOSS_STEP))
    seconds = min(python_programs.seconds_of(epoch) for _ in range(EPOCHS))
    beside_cpp(bench, "py_seed_loop", seconds / steps_per_epoch(ROWS), "seed_mirrored")


def timed_alone(name: str):
    def run(bench: str) -> None:
        import tandem as tf

        step = python_programs.PROGRAMS[name](tf)
        loss = step(LOSS_STEP)
        print_time(name, best_seconds(step))
        print_loss(name, loss)

    return run


BENCHMARKS = {
    "py_import": py_import,
    "py_seed_fit": py_seed_fit,
    "py_seed_loop": py_seed_loop,
    "py_eager": timed_alone("py_eager"),
    "py_map": timed_alone("py_map"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the tandem-bench program")
    parser.add_argument("names", metavar="NAME", nargs="*", choices=[[], *BENCHMARKS], help=", ".join(BENCHMARKS))
    arguments = parser.parse_args()
    names = arguments.names or list(BENCHMARKS)
    if len(names) == 1:
        BENCHMARKS[names[0]](arguments.bench)
        return
    for name in names:  # Each in a process of its own: devices are configured once.
        subprocess.run([sys.executable, os.path.abspath(__file__), "--bench", arguments.bench, name], check=True)


if __name__ == "__main__":
    main()
