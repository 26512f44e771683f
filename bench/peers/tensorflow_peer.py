"""Times TensorFlow on the benchmarks of tandem-bench: Keras layers and Adam in compiled train steps, on one CPU and
mirrored over two logical CPUs; `fit`; checkpoints; and tf.data."""

import os

import busy
import data
import python_programs
import tensorflow_checkpoint
import tensorflow_ps
from data import BATCH, CLASSIFIERS, FITS, INCEPTION, REPLICAS, TRANSFORMERS, Runner
from data import fashion_mnist, features, labels, parse_arguments, report, steps_per_epoch, weights

MIRRORED_NAMES = ("seed_mirrored", "seed_mirrored_loop")
arguments = parse_arguments(
    [*CLASSIFIERS, *TRANSFORMERS, "convnet", *MIRRORED_NAMES, *tensorflow_checkpoint.NAMES, "input", *FITS, "inception"]
    + [*busy.NAMES, *tensorflow_ps.NAMES, "py_import", *python_programs.PROGRAMS]
)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import tensorflow as tf
import tensorflow_fit
import tensorflow_inception
import tensorflow_transformer

tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)

ROWS = 60_000


def make_model(sizes: tuple[int, ...]) -> keras.Model:
    hidden = [keras.layers.Dense(size, activation="relu") for size in sizes[1:-1]]
    model = keras.Sequential([keras.Input(sizes[:1]), *hidden, keras.layers.Dense(sizes[-1])])
    model.set_weights(weights(sizes))
    return model


def make_convnet() -> keras.Model:
    first, second, (features, classes) = data.CONVNET
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(first[-1], first[:2], activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(second[-1], second[:2], activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(classes),
        ]
    )
    model.set_weights(data.convnet_weights())
    return model


def make_optimizer(model: keras.Model, learning_rate: float) -> keras.Optimizer:
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build(model.trainable_variables)
    return optimizer


def cross_entropy(y, logits):
    """`y` holds one-hot rows, or classes."""
    if y.dtype.is_integer:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    return tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)


def train(model, optimizer, x, y, replicas=1):
    """One step; returns this replica's share of the mean loss. Shards are of equal size, so shares add up to it."""
    with tf.GradientTape() as tape:
        losses = cross_entropy(y, model(x, training=True))
        loss = tf.reduce_mean(losses) / replicas
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


def single(name: str, jit_compile: bool) -> Runner:
    if name == "convnet":
        x, y = tf.constant(data.images(BATCH)), tf.constant(data.classes(BATCH))
        model, learning_rate = make_convnet(), data.CONVNET_LEARNING_RATE
    else:
        x, y = tf.constant(features(BATCH)), tf.constant(labels(BATCH))
        sizes, learning_rate = CLASSIFIERS[name]
        model = make_model(sizes)
    optimizer = make_optimizer(model, learning_rate)
    step = tf.function(lambda x, y: train(model, optimizer, x, y), jit_compile=jit_compile, autograph=False)
    step = step.get_concrete_function(x, y)  # called directly it saves 200 us of dispatch

    def run(steps):
        for _ in range(steps):
            loss = step(x, y)
        return float(loss)

    return run


class Mirrored:
    """A custom training loop over a distributed dataset that streams all rows. Every run starts a new pass over the
    data, as an epoch does."""

    def __init__(self):
        classifier = CLASSIFIERS["mlp10"]
        self.strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(REPLICAS)])
        with self.strategy.scope():
            self.model = make_model(classifier.sizes)
            self.optimizer = make_optimizer(self.model, classifier.learning_rate)
        dataset = tf.data.Dataset.from_tensor_slices((features(ROWS), labels(ROWS)))
        dataset = dataset.batch(BATCH).repeat().prefetch(tf.data.AUTOTUNE)
        self.batches = self.strategy.experimental_distribute_dataset(dataset)

    def step(self, batch):
        shares = self.strategy.run(lambda x, y: train(self.model, self.optimizer, x, y, REPLICAS), args=batch)
        return self.strategy.reduce("SUM", shares, axis=None)

    def call_per_step(self) -> Runner:
        step = tf.function(self.step)

        def run(steps):
            batches = iter(self.batches)
            for _ in range(steps):
                loss = step(next(batches))
            return float(loss)

        return run

    def loop_in_function(self) -> Runner:
        @tf.function
        def loop(batches, steps):
            loss = tf.zeros(())
            for _ in tf.range(steps):
                loss = self.step(next(batches))
            return loss

        return lambda steps: float(loop(iter(self.batches), tf.constant(steps)))


def samples() -> Runner:
    """A step is one sample of an endless stream of shuffled batches."""
    x, y = fashion_mnist()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x))
    epoch = dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    totals = [
        float(tf.reduce_sum(tf.cast(a, tf.float64)) / x.shape[1] + tf.reduce_sum(tf.cast(b, tf.float64)))
        for a, b in epoch
    ]
    batches = iter(dataset.repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE))

    def run(steps):
        for _ in range(-(-steps // BATCH)):
            next(batches)
        return sum(totals) / len(x)

    return run


def singles_of(name: str) -> dict:
    return {"XLA": lambda: single(name, True), "tf.function": lambda: single(name, False)}


def fits_of(name: str) -> dict:
    make_fitted = make_convnet if name == "convnet_fit" else lambda: make_model(CLASSIFIERS["mlp10"].sizes)
    return tensorflow_fit.ways(name, make_fitted)


def report_busy(name: str) -> None:
    work = busy.NAMES[name][0]
    if work in FITS:
        busy.report(name, fits_of(work), steps_per_epoch(FITS[work].rows))
    else:
        busy.report(name, singles_of(work))


def report_import(module: str) -> None:
    print(f"py_import\t{python_programs.import_seconds(module) * 1e6:.9g}\tus")
    print("py_import.loss\t0\tloss", flush=True)


MIRRORED = {
    "seed_mirrored": {"one call per step": lambda: Mirrored().call_per_step()},
    "seed_mirrored_loop": {"loop in a tf.function": lambda: Mirrored().loop_in_function()},
}

if {*MIRRORED, "mirrored_fit"} & set(arguments.names):
    halves = [tf.config.LogicalDeviceConfiguration()] * REPLICAS
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)

for name in arguments.names:
    if name in tensorflow_checkpoint.NAMES:
        tensorflow_checkpoint.report(name)
    elif name in tensorflow_ps.NAMES:
        tensorflow_ps.report_training(name)
    elif name == "input":
        report(name, {"tf.data": samples}, ROWS)
    elif name in MIRRORED:
        report(name, MIRRORED[name], steps_per_epoch(ROWS))
    elif name in busy.NAMES:
        report_busy(name)
    elif name in FITS:
        report(name, fits_of(name), steps_per_epoch(FITS[name].rows))
    elif name == "py_import":
        report_import("tensorflow")
    elif name in python_programs.PROGRAMS:
        report(name, {"eager": lambda: python_programs.PROGRAMS[name](tf)})
    elif name == "inception":
        report(name, tensorflow_inception.ways(), loss_step=INCEPTION.loss_steps)
    elif name in TRANSFORMERS:
        report(name, tensorflow_transformer.ways(name))
    else:
        report(name, singles_of(name))
