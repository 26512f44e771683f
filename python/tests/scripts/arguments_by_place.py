"""Arguments of losses, metrics, optimizers and layers that are given by their places, and Keras's defaults."""

import keras
import numpy as np
import tensorflow as tf

L, O, M, S = keras.layers, keras.optimizers, keras.metrics, keras.losses
y, p = np.array([[0.0, 1.0], [1.0, 0.0]], "float32"), np.array([[0.2, 0.7], [0.6, 0.3]], "float32")
labels = np.array([1, 0])
result = {}

for i, loss in enumerate([
    S.BinaryCrossentropy(True), S.BinaryCrossentropy(False, 0.1, -1, "sum"), S.Huber(0.3, "sum", "h"), S.MeanSquaredError("sum"), S.CosineSimilarity(0),
    S.CategoricalCrossentropy(True, 0.1, 0), S.Dice("sum", "d", 1), S.Tversky(0.3, 0.7, "sum"), S.BinaryFocalCrossentropy(True, 0.3, 1.0),
]):
    result[f"loss {i}"] = loss(y, p)
result["sparse loss"] = S.SparseCategoricalCrossentropy(True, 0, "none")(labels, p)


def measured(metric, y, p):
    metric.update_state(y, p)
    return metric.result()


for i, metric in enumerate([M.BinaryAccuracy("a", None, 0.65), M.TopKCategoricalAccuracy(1, "k"), M.BinaryCrossentropy("x", None, True), M.CosineSimilarity("c", None, 0)]):
    result[f"metric {i}"] = measured(metric, y, p)
result["sparse metric"] = measured(M.SparseTopKCategoricalAccuracy(1), labels, p)
for i, metric in enumerate([
    M.PrecisionAtRecall(recall=0.5), M.RecallAtPrecision(precision=0.5, num_thresholds=10), M.SensitivityAtSpecificity(specificity=0.5),
    M.SpecificityAtSensitivity(0.5, 10, None, "n"),
]):
    result[f"rates {i}"] = measured(type(metric).from_config(metric.get_config()), y.ravel(), p.ravel())
result["names of metrics"] = [M.BinaryAccuracy("acc").name == "acc", M.CategoricalAccuracy(name="z").name == "z"]


def stepped(optimizer):
    optimizer = type(optimizer).from_config(optimizer.get_config())
    v = tf.Variable([1.0, 2.0])
    for gradient in ([3.0, -4.0], [1.0, -4.0]):
        optimizer.apply_gradients([(tf.constant(gradient), v)])
    return v


for i, optimizer in enumerate([
    O.Adadelta(1.0, 0.9, 1e-6, None, 1.0), O.Lion(0.1, 0.9, 0.99, 0.1), O.Ftrl(0.1, -0.5, 0.1, 0.01, 0.01, 0.0, 0.0, 0.1), O.Nadam(0.1, 0.9, 0.999, 1e-7, None, None, 0.5),
    O.Lamb(0.1, weight_decay=0.01), O.Adafactor(0.1, -0.8, 1e-30, 1e-3, 1.0, True, 0.1), O.SGD(0.1, 0.9, True, None, 1.0),
]):
    result[f"optimizer {i}"] = stepped(optimizer)
keras.utils.clear_session()
names = [O.Adamax().name, O.Adamax().name, O.RMSprop().name, O.AdamW().name, O.Adam(name="x").name]
result["names of optimizers"] = [names == ["adamax", "adamax_1", "rm_sprop", "adam_w", "x"]]

x = np.arange(32, dtype="float32").reshape(1, 4, 4, 2)
result["conv"] = L.Conv2D(1, 2, (1, 1), "valid", None, (1, 1), 1, None, True, "ones", "ones")(x)
result["transposed"] = L.Conv2DTranspose(1, 2, (1, 1), "valid", None, None, (1, 1), None, True, "ones")(x[:, :2, :2])
for size, stride, more in ((3, 2, 1), (4, 3, 2), (2, 2, 1), (4, 2, 1)):
    result[f"transposed with padding {size} {stride} {more}"] = L.Conv2DTranspose(1, size, stride, "same", more, kernel_initializer="ones")(x)
    result[f"in one axis {size} {stride} {more}"] = L.Conv1DTranspose(1, size, stride, "same", more, kernel_initializer="ones")(x[0])
    result[f"in three axes {size} {stride} {more}"] = L.Conv3DTranspose(1, size, stride, "same", output_padding=more, kernel_initializer="ones")(x[..., None])
result["lstm"] = L.LSTM(2, "tanh", "sigmoid", True, "ones", "ones")(x[0] / 32)
result["gru"] = L.GRU(2, "relu", "sigmoid", True, "ones", "ones", "zeros")(x[0] / 32)
result["rnn"] = L.SimpleRNN(2, "relu", False, "ones", "ones")(x[0] / 32)
result["cropped"] = [*L.Cropping2D()(x).shape, *L.Cropping1D()(x[0]).shape, *L.Cropping2D(((1, 0), (0, 1)))(x).shape]
result["penalties"] = [float(keras.regularizers.l1_l2()(tf.ones((2, 2)))), float(keras.regularizers.L1L2(0.1, 0.2)(tf.ones((2, 2))))]
dropped = L.SpatialDropout2D(0.5, "channels_first")(tf.ones((4, 8, 5, 5)), training=True).numpy()
result["whole channels"] = np.all(dropped == dropped[:, :, :1, :1])
keras.utils.clear_session()  # Other programs of this process count their names from the beginning.
