"""What the peers share: the data and initial weights, bit for bit those of tandem-bench, and how a step is timed."""

import argparse
import gzip
import math
import os
import pathlib
import sys
import time
from typing import Callable, NamedTuple

import numpy as np

FEATURES = 784
CLASSES = 10
BATCH = 128
REPLICAS = 2
LOSS_STEP = 20
REPETITIONS = 5
MINIMUM_SECONDS = 0.3

# Trains for a number of steps from where it stands; returns the last step's loss, once all steps are complete.
Runner = Callable[[int], float]


class Classifier(NamedTuple):
    """A chain of dense layers with relu between them."""

    sizes: tuple[int, ...]
    learning_rate: float


CLASSIFIERS = {
    "mlp10": Classifier((FEATURES, 10, CLASSES), 0.01),
    "mlp1024": Classifier((FEATURES, 1024, 1024, CLASSES), 0.0001),
}

class Transformer(NamedTuple):
    """A decoder-only transformer whose blocks normalise first, with gelu, biases everywhere and no dropout."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    tokens: int = 128
    vocabulary: int = 1024
    batch: int = 8
    learning_rate: float = 1e-4
    weight_decay: float = 0.004
    epsilon: float = 1e-5  # of the normalisations


TRANSFORMERS = {"gpt_block": Transformer()}

# Work on one large tensor, and its shape.
MOVEMENTS = {
    "reduce_sum_16M": (4096, 4096),
    "reduce_rows_4096x4096": (4096, 4096),
    "transpose_4096": (4096, 4096),
    "gather_rows": (1 << 20, 64),
}


def splitmix64(seed: int, count: int) -> np.ndarray:
    """The first `count` words of the stream of `seed`."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    z = np.arange(1, count + 1, dtype=np.uint64) * golden + np.array([seed], np.uint64) * golden
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, count: int) -> np.ndarray:
    """Float64 in [0, 1), each with 24 bits and so exact in float32."""
    return (splitmix64(seed, count) >> np.uint64(40)) * 2.0**-24


def features(rows: int, dtype=np.float32) -> np.ndarray:
    """[rows, 784]."""
    return uniform(1, rows * FEATURES).astype(dtype).reshape(rows, FEATURES)


def images(rows: int) -> np.ndarray:
    """[rows, 28, 28, 1]."""
    return features(rows).reshape(rows, 28, 28, 1)


def classes(rows: int) -> np.ndarray:
    return ((splitmix64(2, rows) >> np.uint64(33)) % np.uint64(CLASSES)).astype(np.int32)


def labels(rows: int, dtype=np.float32) -> np.ndarray:
    """One-hot, [rows, 10]."""
    return np.eye(CLASSES, dtype=dtype)[classes(rows)]


def fashion_mnist() -> tuple[np.ndarray, np.ndarray]:
    """The training pictures of Debian's package as float32[60000,784] in [0, 1], and their labels."""
    folder = pathlib.Path("/usr/share/datasets/fashion-mnist")

    def read(name: str, header: int) -> np.ndarray:
        return np.frombuffer(gzip.open(folder / name).read(), np.uint8, offset=header)

    pixels = read("train-images-idx3-ubyte.gz", 16).reshape(-1, FEATURES)
    return pixels.astype(np.float32) / np.float32(255), read("train-labels-idx1-ubyte.gz", 8)


def lookups(rows: int) -> np.ndarray:
    """64K rows of a table, in no order."""
    return ((splitmix64(3, 64 << 10) >> np.uint64(33)) % np.uint64(rows)).astype(np.int64)


def weights(sizes: tuple[int, ...], dtype=np.float32) -> list[np.ndarray]:
    """Kernel [in, out] and zero bias of each layer in turn."""
    values = []
    for layer, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
        kernel = (2 * uniform(10 + layer, rows * columns) - 1) * math.sqrt(6 / (rows + columns))
        values += [kernel.astype(dtype).reshape(rows, columns), np.zeros(columns, dtype)]
    return values


# Two convolutions with relu and max pooling, [height, width, in, out], and a dense layer.
CONVNET = ((3, 3, 1, 32), (3, 3, 32, 64), (5 * 5 * 64, CLASSES))
CONVNET_LEARNING_RATE = 0.001


def convnet_weights() -> list[np.ndarray]:
    """Kernel and zero bias of each layer in turn."""
    values = []
    for layer, shape in enumerate(CONVNET):
        limit = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
        kernel = (2 * uniform(10 + layer, math.prod(shape)) - 1) * limit
        values += [kernel.astype(np.float32).reshape(shape), np.zeros(shape[-1], np.float32)]
    return values


class Fit(NamedTuple):
    """A training over all rows in shuffled batches, with accuracy."""

    rows: int
    learning_rate: float


FITS = {
    "seed_fit": Fit(60_000, CLASSIFIERS["mlp10"].learning_rate),
    "mirrored_fit": Fit(60_000, CLASSIFIERS["mlp10"].learning_rate),
    "convnet_fit": Fit(50 * BATCH, CONVNET_LEARNING_RATE),
}


def steps_per_epoch(rows: int) -> int:
    return -(-rows // BATCH)


def epochs_of(steps: int, rows: int) -> int:
    """Whole epochs of at least so many steps."""
    return -(-steps // steps_per_epoch(rows))


def fit_data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """What `name` trains on: rows of features and one-hot labels, or images and classes."""
    rows = FITS[name].rows
    return (features(rows), labels(rows)) if name != "convnet_fit" else (images(rows), classes(rows))


def fit_weights(name: str) -> list[np.ndarray]:
    return weights(CLASSIFIERS["mlp10"].sizes) if name != "convnet_fit" else convnet_weights()


class Inception(NamedTuple):
    """InceptionV3 as Keras builds it, with logits."""

    batch: int = 8
    side: int = 299
    classes: int = 1000
    learning_rate: float = 1e-6
    loss_steps: int = 3
    epsilon: float = 1e-3  # of the normalisations
    momentum: float = 0.99  # of their statistics


INCEPTION = Inception()


def inception_batch() -> tuple[np.ndarray, np.ndarray]:
    """Images [batch, side, side, 3] from -1 to 1, and their classes."""
    batch, side = INCEPTION.batch, INCEPTION.side
    pixels = (2 * uniform(1, batch * side * side * 3) - 1).astype(np.float32).reshape(batch, side, side, 3)
    return pixels, ((splitmix64(2, batch) >> np.uint64(33)) % np.uint64(INCEPTION.classes)).astype(np.int32)


def inception_kernel(number: int, shape: tuple[int, ...]) -> np.ndarray:
    """[height, width, in, out] of the convolution with this number, in the order they are made; or [in, out]."""
    limit = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
    return ((2 * uniform(10 + number, math.prod(shape)) - 1) * limit).astype(np.float32).reshape(shape)


def texts(transformer: Transformer) -> tuple[np.ndarray, np.ndarray]:
    """Int64 [batch, tokens]: the tokens to read, and behind each the one to predict."""
    batch, tokens = transformer.batch, transformer.tokens + 1
    words = (splitmix64(4, batch * tokens) >> np.uint64(33)) % np.uint64(transformer.vocabulary)
    words = words.astype(np.int64).reshape(batch, tokens)
    return words[:, :-1].copy(), words[:, 1:].copy()


def transformer_weights(transformer: Transformer) -> list[np.ndarray]:
    """Tokens, positions; of each layer gamma and beta, kernels [in, out] and biases of the queries, keys and values
    side by side and of the attention's result, gamma and beta, both dense layers; gamma and beta, the last layer."""
    width = transformer.width
    values: list[np.ndarray] = []

    def add_uniform(rows: int, columns: int, limit: float) -> None:
        numbers = (2 * uniform(100 + len(values), rows * columns) - 1) * limit
        values.append(numbers.astype(np.float32).reshape(rows, columns))

    def add_dense(rows: int, columns: int) -> None:
        add_uniform(rows, columns, math.sqrt(6 / (rows + columns)))
        values.append(np.zeros(columns, np.float32))

    def add_norm() -> None:
        values.extend([np.ones(width, np.float32), np.zeros(width, np.float32)])

    add_uniform(transformer.vocabulary, width, 0.05)
    add_uniform(transformer.tokens, width, 0.05)
    for _ in range(transformer.layers):
        add_norm()
        add_dense(width, 3 * width)
        add_dense(width, width)
        add_norm()
        add_dense(width, 4 * width)
        add_dense(4 * width, width)
    add_norm()
    add_dense(width, transformer.vocabulary)
    return values


# Rows of matrices with 1024 columns, by the name of their number of elements.
ELEMENTWISE_ROWS = {"64K": 64, "16M": 16384}
ELEMENTWISE_COLUMNS = 1024
# Function and rows, by name.
ELEMENTWISE = {
    f"elementwise_{function}_{size}": (function, rows)
    for function in ("add", "broadcast_add", "where", "exp", "tanh", "gelu")
    for size, rows in ELEMENTWISE_ROWS.items()
}


def elementwise_operand(seed: int, rows: int) -> np.ndarray:
    """Float32 in [-1, 2), [rows, 1024]."""
    values = 3 * uniform(seed, rows * ELEMENTWISE_COLUMNS) - 1
    return values.astype(np.float32).reshape(rows, ELEMENTWISE_COLUMNS)


def parse_arguments(supported: list[str]) -> argparse.Namespace:
    """Reads the command line; call it before the framework is imported, whose thread pools read the environment."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("names", metavar="NAME", nargs="+", choices=supported, help=", ".join(supported))
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    return arguments


def best_seconds(run: Runner, steps: int = 1) -> float:
    """Best time per step over repetitions of at least MINIMUM_SECONDS; `steps` is the least number to run at once."""
    best = math.inf
    repetitions = 0
    while repetitions < REPETITIONS:
        start = time.perf_counter()
        run(steps)
        seconds = time.perf_counter() - start
        if seconds < MINIMUM_SECONDS:
            steps *= 2
            continue
        best = min(best, seconds / steps)
        repetitions += 1
    return best


def report(name: str, ways: dict[str, Callable[[], Runner]], steps: int = 1, loss_step: int = LOSS_STEP) -> None:
    """Measures every way of doing the same work and prints the best one; each starts from the initial weights."""
    results = []
    for way, make in ways.items():
        run = make()
        loss = run(loss_step)
        seconds = best_seconds(run, steps)
        print(f"{name}: {way}: {seconds * 1e6:.1f} us, loss {loss:.9g}", file=sys.stderr, flush=True)
        results.append((seconds, loss))
    seconds, loss = min(results)
    print(f"{name}\t{seconds * 1e6:.9g}\tus")
    print(f"{name}.loss\t{loss:.9g}\tloss", flush=True)
