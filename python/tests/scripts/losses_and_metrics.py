import numpy as np
import tensorflow as tf
r = np.random.RandomState(6)
p = r.rand(12, 4).astype("float32"); p /= p.sum(1, keepdims=True); t = np.eye(4, dtype="float32")[r.randint(0, 4, 12)]
b = (r.rand(12, 1) > 0.5).astype("float32"); q = r.rand(12, 1).astype("float32"); weight = r.rand(12).astype("float32")
L, M = tf.keras.losses, tf.keras.metrics
result = {}
for name in ("CategoricalCrossentropy", "KLDivergence", "MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError", "CosineSimilarity", "Huber", "LogCosh", "Poisson", "CategoricalHinge", "Hinge", "SquaredHinge"):
    result[name] = [float(getattr(L, name)()(t, p)), float(getattr(L, name)(reduction="sum")(t, p, sample_weight=weight))]
result["bce"] = [float(L.BinaryCrossentropy()(b, q)), float(L.BinaryFocalCrossentropy(gamma=3)(b, q)), float(L.BinaryCrossentropy(from_logits=True, label_smoothing=0.1)(b, q))]
result["per"] = np.asarray(L.MeanSquaredError(reduction="none")(t, p))
for m in (M.AUC(), M.Precision(), M.Recall(), M.BinaryAccuracy(), M.TruePositives(), M.FalseNegatives(), M.RootMeanSquaredError(), M.MeanAbsoluteError(), M.AUC(curve="PR"), M.PrecisionAtRecall(0.5)):
    m.update_state(b, q); m.update_state(b[::-1], q)
    result[f"m_{m.name}"] = float(m.result())
for m in (M.CategoricalAccuracy(), M.TopKCategoricalAccuracy(k=2), M.F1Score(average="macro"), M.CategoricalCrossentropy()):
    m.update_state(t, p)
    result[f"c_{m.name}"] = float(m.result())
m = M.MeanIoU(num_classes=3); m.update_state([0, 1, 2, 2], [0, 2, 2, 1]); result["iou"] = float(m.result())
m = M.Mean(); m.update_state([1.0, 2.0], sample_weight=[0.5, 1.0]); result["mean"] = float(m.result())
