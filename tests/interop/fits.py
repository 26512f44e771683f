#!/usr/bin/env python3
"""What fit and evaluate make of data, weights and dtypes, here with Keras and in tandem-interop, drawn at random.

A case is a linear model with SGD on 20 samples: arrays, a data set that ends or repeats, or a generator; a number of steps per
epoch, perhaps more than there is data; validation; weights of samples or classes; metrics, weighted and not; losses, one's own
among them, that return a value for each sample or a scalar; inputs and truths of other dtypes than the model's. Compared are
the names and values of the history, and of what evaluate returns afterwards, as |ours - theirs| / max(1, |theirs|).

Each case is fitted on one device and on two replicas (logical CPUs), on our side and on Keras's. Where Keras on two replicas
does not train as on one, theirs are those of one: with batches that do not divide, which it cannot add up, with several steps
per execution, and with scalar losses, which it counts once for each replica.

Run by the TensorFlow virtualenv of `make peers`. Exit status 1 if a case is further apart than 1e-4.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf

ROWS = 20
FEATURES = 3
TOLERANCE = 1e-4
DTYPES = ["float32", "float32", "float64", "float16", "int32", "int64", "uint8"]
METRICS = ["mae", "mse", "accuracy"]


def squares(y_true, y_pred):
    return keras.ops.square(y_true - y_pred)


class Reduced(keras.losses.Loss):
    """A scalar."""

    def __init__(self, reduce, reduction):
        super().__init__(reduction=reduction)
        self.reduce = reduce

    def call(self, y_true, y_pred):
        return self.reduce(squares(y_true, y_pred))


LOSSES = {
    "mse": lambda: "mse",
    "mae": lambda: "mae",
    "own": lambda: squares,
    "own_mean": lambda: Reduced(keras.ops.mean, "sum_over_batch_size"),
    "own_sum": lambda: Reduced(keras.ops.sum, "sum"),
}


def draw(random: np.random.Generator) -> dict:
    """A case, as JSON."""

    def pick(*choices):
        return choices[random.integers(len(choices))]

    def some_metrics():
        return [str(name) for name in random.permutation(METRICS)[: random.integers(0, 3)]]

    data = pick("arrays", "arrays", "finite", "repeat", "generator")
    weights = pick(None, "sample", "sample", "class") if data == "arrays" else pick(None, "sample")
    case = {
        "data": data,
        "batch_size": int(random.integers(1, 7)),
        "epochs": int(random.integers(1, 6)),
        "steps_per_epoch": pick(None, 1, 2, 3, 5, 7),
        "steps_per_execution": pick(1, 1, 1, 2),
        "validation_data": pick(None, None, "arrays", "finite", "generator"),
        "validation_split": 0.0,
        "validation_steps": pick(None, 2, 3, 9),
        "steps": pick(None, 2, 3),
        "weights": weights,
        "class_weight": {"0": 9.0, "1": 0.5} if weights == "class" else {},
        "metrics": some_metrics(),
        "weighted_metrics": some_metrics(),
        "loss": pick("mse", "mse", "mae", "own", "own_mean", "own_sum"),
        "x_dtype": pick(*DTYPES),
        "y_dtype": pick(*DTYPES),
    }
    if data == "repeat" and case["steps_per_epoch"] is None:
        case["steps_per_epoch"] = 3
    if data == "arrays" and pick(True, False):
        case["batch_size"] = None
    if data == "arrays" and case["validation_data"] is None:
        case["validation_split"] = pick(0.0, 0.25)
    return case


def arrays(case: dict, random: np.random.Generator) -> dict:
    is_whole = "int" in case["x_dtype"]
    x = random.integers(0, 3, (ROWS, FEATURES)) if is_whole else random.normal(size=(ROWS, FEATURES))
    entries = {
        "x": x.astype(case["x_dtype"]),
        "y": random.integers(0, 2, (ROWS, 1)).astype(case["y_dtype"]),
        "weight0": random.normal(size=(FEATURES, 1)).astype("float32") / 4,
        "weight1": random.normal(size=1).astype("float32") / 4,
    }
    if case["weights"] == "sample":
        entries["sample_weight"] = random.uniform(0, 2, ROWS).astype("float32")
    return entries


def is_same_on_replicas(case: dict) -> bool:
    """Whether Keras trains on two replicas as on one."""
    divides = case["batch_size"] in (2, 4) and case["steps"] != 3
    return divides and case["steps_per_execution"] == 1 and case["validation_split"] == 0 and not case["loss"].startswith("own_")


def columns(entries: dict) -> tuple:
    return tuple(entries[name] for name in ("x", "y", "sample_weight") if name in entries)


def batches(kind: str, size: int, entries: dict):
    dataset = tf.data.Dataset.from_tensor_slices(columns(entries)).batch(size)
    if kind == "repeat":
        return dataset.repeat()
    if kind == "finite":
        return dataset
    return tf.data.Dataset.from_generator(lambda: iter(dataset), output_signature=dataset.element_spec)


def keras_results(case: dict, entries: dict, strategy) -> dict:
    with strategy.scope():
        x = keras.Input((FEATURES,))
        model = keras.Model(x, keras.layers.Dense(1)(x))
        model.set_weights([entries["weight0"], entries["weight1"]])
        model.compile(
            optimizer=keras.optimizers.SGD(0.0625),
            loss=LOSSES[case["loss"]](),
            metrics=case["metrics"],
            weighted_metrics=case["weighted_metrics"],
            steps_per_execution=case["steps_per_execution"],
        )
    options = {name: case[name] for name in ("batch_size", "epochs", "steps_per_epoch", "validation_steps")}
    held = case["validation_data"]
    if held is not None:
        options["validation_data"] = columns(entries) if held == "arrays" else batches(held, 4, entries)
    if case["data"] == "arrays":
        options["validation_split"] = case["validation_split"]
        options["sample_weight"] = entries.get("sample_weight")
        options["class_weight"] = {int(label): weight for label, weight in case["class_weight"].items()} or None
        history = model.fit(entries["x"], entries["y"], shuffle=False, verbose=0, **options)
    else:
        history = model.fit(batches(case["data"], case["batch_size"], entries), verbose=0, **options)
    logs = model.evaluate(
        entries["x"],
        entries["y"],
        sample_weight=entries.get("sample_weight"),
        steps=case["steps"],
        verbose=0,
        return_dict=True,
    )
    results = {f"history/{name}": np.array(values) for name, values in history.history.items()}
    return results | {f"evaluate/{name}": np.array(value) for name, value in logs.items()}


def difference(ours: dict, theirs: dict) -> str:
    """What differs, or nothing."""
    if sorted(ours) != sorted(theirs):
        return f"has {sorted(ours)}, Keras {sorted(theirs)}"
    for name, wanted in theirs.items():
        got = ours[name]
        same = got.shape == wanted.shape
        near = same and (got == wanted) | (np.abs(got - wanted) <= TOLERANCE * np.maximum(1, np.abs(wanted)))
        if not np.all(near):  # Infinite losses are equal.
            return f"{name} {got.tolist()}, Keras {wanted.tolist()}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="tandem-interop")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    warnings.simplefilter("ignore")
    np.seterr(invalid="ignore")
    tf.get_logger().setLevel("ERROR")
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    alone = tf.distribute.get_strategy()
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    random = np.random.default_rng(arguments.seed)
    rows, entries, theirs = [], {}, []
    for _ in range(arguments.cases):
        case = draw(random)
        own = arrays(case, random)
        of_one = keras_results(case, own, alone)
        for replicas in (1, 2):
            both = replicas == 2 and is_same_on_replicas(case)
            theirs.append(keras_results(case, own, mirrored) if both else of_one)
            row = json.dumps(case | {"replicas": replicas})
            entries[f"{len(rows)}/row"] = np.frombuffer(row.encode(), np.uint8)
            entries |= {f"{len(rows)}/{name}": values for name, values in own.items()}
            rows.append(row)

    with tempfile.TemporaryDirectory() as folder:
        cases, results = os.path.join(folder, "cases.npz"), os.path.join(folder, "results.npz")
        np.savez(cases, **entries)
        done = subprocess.run([arguments.program, "--fits", cases, results], timeout=600, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{arguments.program} failed: {done.stderr}")  # Else there are only warnings of data that end.
        ours = dict(np.load(results))

    failures = 0
    for number, (row, wanted) in enumerate(zip(rows, theirs)):
        prefix = f"{number}/"
        got = {name.removeprefix(prefix): values for name, values in ours.items() if name.startswith(prefix)}
        problem = got["error"].tobytes().decode() if "error" in got else difference(got, wanted)
        if problem:
            failures += 1
            print(f"fit FAILED {row}\n  {problem}")
    print(f"{len(rows) - failures} of {len(rows)} fits agree with Keras {keras.__version__} to {TOLERANCE}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
