"""A model whose weights are cut over two processes; each compares with a model of its own."""

import numpy as np

import tensorflow as tf
import keras


def losses():
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.layers.Dense(16, activation="relu", name="up"), keras.layers.Dense(3, name="down")])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = np.random.RandomState(0).rand(30, 8).astype("float32")
    return model.fit(x, np.arange(30) % 3, batch_size=12, epochs=2, verbose=0, shuffle=False).history["loss"]


layouts = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((1, 2), ["batch", "model"]))
layouts["up/kernel"] = (None, "model")
layouts["down/kernel"] = ("model", None)
keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layouts))
found = losses()
keras.distribution.set_distribution(None)
alone = losses()
print("as on one device:", bool(np.allclose(found, alone, rtol=1e-5)), found)
for axes in (["batch", "stage"], ["stage", "model"]):
    for shard in ("state", "gradients", "variables"):
        layouts = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((2, 1) if axes[0] == "batch" else (1, 2), axes))
        distribution = keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch", microbatches="automatic", shard=shard)
        keras.distribution.set_distribution(distribution)
        found = losses()
        keras.distribution.set_distribution(None)
        assert "of 2 of " in distribution.explain()
        print("as on one device:", bool(np.allclose(found, alone, rtol=1e-5)), shard, found)
