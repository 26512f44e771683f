"""Writes keras_losses.txt: inputs, and the losses and metrics that Keras computes from them in float64. Tandem's tests
compare with it. Each line is a name, its shape and its values.

    python make_keras_losses.py > keras_losses.txt
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
from keras import losses, metrics
from keras.src import backend

keras.backend.set_floatx("float64")
random = np.random.default_rng(7)


def write(name, value):
    array = np.asarray(value, dtype="float64")
    shape = "x".join(str(size) for size in array.shape) or "scalar"
    print(name, shape, *(repr(float(number)) for number in array.ravel()))


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


classes = np.array([0, 3, 1, 2, 2, 0])
scores = random.normal(size=(6, 4)) * 2 + np.eye(4)[classes]
sure = np.array(softmax(scores))
sure[1] = [1, 0, 0, 0]  # Clipped: the truth is class 3.
inputs = {
    "scores": scores,
    "probabilities": softmax(scores),
    "unscaled": softmax(scores) * np.array([[0.5], [1], [2], [3], [1], [1]]),
    "sure": sure,
    "classes": classes,
    "one_hot": np.eye(4)[classes],
    "soft": softmax(random.normal(size=(6, 4)) + np.eye(4)[classes]),
    "logit": random.normal(size=(6, 1)) * 3,
    "probability": np.array([[0.2], [0.0], [1.0], [0.7], [0.5], [0.9]]),
    "binary": np.array([[0], [1], [1], [1], [0], [0]]),
    "many_binary": random.integers(0, 2, size=(6, 4)),
    "targets": random.normal(size=(6, 4)) * 2,
    "sample_weight": np.array([1, 0.5, 0, 2, 3, 0.25]),
    "sequence": random.normal(size=(3, 5, 4)),
    "sequence_classes": random.integers(0, 4, size=(3, 5)),
    "sequence_mask": np.array([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]),
    "sequence_weight": random.uniform(size=(3, 5)),
    "row_weight": np.array([[0.5], [2], [1]]),
}
for name, value in inputs.items():
    write(name, value)


def masked(value):
    tensor = backend.convert_to_tensor(value)
    backend.set_keras_mask(tensor, backend.convert_to_tensor(inputs["sequence_mask"].astype(bool)))
    return tensor


def loss_cases():
    i = inputs
    yield "categorical_logits", losses.CategoricalCrossentropy, {"from_logits": True}, i["soft"], i["scores"]
    smooth = {"from_logits": True, "label_smoothing": 0.1}
    yield "categorical_logits_smooth", losses.CategoricalCrossentropy, smooth, i["one_hot"], i["scores"]
    yield "categorical", losses.CategoricalCrossentropy, {}, i["one_hot"], i["sure"]
    yield "categorical_unscaled", losses.CategoricalCrossentropy, {}, i["soft"], i["unscaled"]
    yield "categorical_smooth", losses.CategoricalCrossentropy, {"label_smoothing": 0.2}, i["one_hot"], i["sure"]
    yield "sparse_logits", losses.SparseCategoricalCrossentropy, {"from_logits": True}, i["classes"], i["scores"]
    yield "sparse", losses.SparseCategoricalCrossentropy, {}, i["classes"], i["sure"]
    yield "binary_logits", losses.BinaryCrossentropy, {"from_logits": True}, i["binary"], i["logit"]
    yield "binary", losses.BinaryCrossentropy, {}, i["binary"], i["probability"]
    yield "binary_many", losses.BinaryCrossentropy, {"label_smoothing": 0.3}, i["many_binary"], i["probabilities"]
    yield "mse", losses.MeanSquaredError, {}, i["targets"], i["scores"]
    yield "mae", losses.MeanAbsoluteError, {}, i["targets"], i["scores"]
    yield "huber", losses.Huber, {"delta": 1.5}, i["targets"], i["scores"]


for name, kind, options, y_true, y_pred in loss_cases():
    write(f"loss.{name}.none", kind(reduction="none", **options)(y_true, y_pred))
    for reduction in ("sum_over_batch_size", "sum", "mean_with_sample_weight"):
        loss = kind(reduction=reduction, **options)
        write(f"loss.{name}.{reduction}", loss(y_true, y_pred))
        write(f"loss.{name}.{reduction}.weighted", loss(y_true, y_pred, inputs["sample_weight"]))

for reduction in ("sum_over_batch_size", "sum", "mean_with_sample_weight"):
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
    truth = inputs["sequence_classes"]
    write(f"sequence.{reduction}", loss(truth, inputs["sequence"]))
    write(f"sequence.{reduction}.masked", loss(truth, masked(inputs["sequence"])))
    weight = inputs["sequence_weight"]
    write(f"sequence.{reduction}.masked_weighted", loss(truth, masked(inputs["sequence"]), weight))
write("sequence.sum.row_weight", losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")(
    inputs["sequence_classes"], inputs["sequence"], inputs["row_weight"]))


def metric_cases():
    i = inputs
    yield "categorical_accuracy", metrics.CategoricalAccuracy(), i["soft"], i["scores"]
    yield "sparse_categorical_accuracy", metrics.SparseCategoricalAccuracy(), i["classes"], i["scores"]
    yield "binary_accuracy", metrics.BinaryAccuracy(), i["binary"], i["probability"]
    yield "binary_accuracy_many", metrics.BinaryAccuracy(threshold=0.3), i["many_binary"], i["probabilities"]
    single = i["scores"].astype("float32")  # TensorFlow's in_top_k takes no other.
    yield "top_1", metrics.TopKCategoricalAccuracy(k=1), i["soft"], single
    yield "top_2", metrics.TopKCategoricalAccuracy(k=2), i["one_hot"], single
    yield "sparse_top_2", metrics.SparseTopKCategoricalAccuracy(k=2), i["classes"], single
    yield "mean_squared_error", metrics.MeanSquaredError(), i["targets"], i["scores"]
    yield "mean_absolute_error", metrics.MeanAbsoluteError(), i["targets"], i["scores"]


for name, metric, y_true, y_pred in metric_cases():
    write(f"metric.{name}", metric(y_true, y_pred))
    metric.reset_state()
    write(f"metric.{name}.weighted", metric(y_true, y_pred, inputs["sample_weight"]))
metric = metrics.SparseCategoricalAccuracy()
write("metric.sequence.weighted", metric(inputs["sequence_classes"], inputs["sequence"], inputs["sequence_weight"]))
mean = metrics.Mean()
mean.update_state(inputs["targets"], inputs["sample_weight"])
mean.update_state(inputs["sequence_weight"])
write("metric.mean", mean.result())
