"""Models to files and back: .keras, .h5, weights, json, configs, checkpoints, clones."""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from common import data, fix

folder = tempfile.mkdtemp()
x, y = data(48)


@keras.utils.register_keras_serializable(package="scripts")
class Scale(layers.Layer):
    def __init__(self, factor=1.0, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        self.scale = self.add_weight(name="scale", shape=(input_shape[-1],), initializer="ones")

    def call(self, inputs):
        return self.activation(inputs * self.scale * self.factor)

    def get_config(self):
        config = super().get_config()
        config.update({"factor": self.factor, "activation": keras.activations.serialize(self.activation)})
        return config


def twice(t):
    return t * 2.0


def functional():
    a = keras.Input((8,), name="a")
    h = layers.Dense(6, activation="relu", name="hidden")(a)
    h = Scale(0.5, activation="tanh", name="scale")(h)
    h = layers.BatchNormalization()(h)
    skip = layers.Dense(6, name="skip", kernel_regularizer=keras.regularizers.L1L2(1e-3, 1e-3), kernel_initializer=keras.initializers.HeNormal())(a)
    h = layers.Add()([h, skip])
    return keras.Model(a, layers.Dense(3, activation="softmax", name="out")(h), name="classifier")


model = fix(functional())
model.compile(keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 4, 0.9)), keras.losses.SparseCategoricalCrossentropy(), metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")])
model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
before = model.predict(x[:4], verbose=0)
model.save(os.path.join(folder, "model.keras"))
loaded = keras.models.load_model(os.path.join(folder, "model.keras"))
continued = loaded.fit(x, y, epochs=1, batch_size=16, shuffle=False, verbose=0).history["loss"]
expected = model.fit(x, y, epochs=1, batch_size=16, shuffle=False, verbose=0).history["loss"]
model.save(os.path.join(folder, "model.h5"))
legacy = keras.models.load_model(os.path.join(folder, "model.h5"))
model.save_weights(os.path.join(folder, "model.weights.h5"))
other = functional()
other.load_weights(os.path.join(folder, "model.weights.h5"))
again = keras.models.model_from_json(model.to_json())
again.set_weights(model.get_weights())
clone = keras.models.clone_model(model)
clone.set_weights([w * 0.5 for w in model.get_weights()])
config = model.get_config()
rebuilt = keras.Model.from_config(config)
features = keras.Model(inputs=model.inputs, outputs=[model.get_layer("hidden").output, model.get_layer("scale").output])
hidden, scaled = features(x[:2])

sequential = keras.Sequential([layers.Input((8,)), layers.Dense(4, activation="relu"), layers.Lambda(twice), layers.Dense(1)], name="regression")
fix(sequential)
sequential.save(os.path.join(folder, "sequential.keras"))
sequential2 = keras.models.load_model(os.path.join(folder, "sequential.keras"), custom_objects={"twice": twice}, safe_mode=False)


class Net(keras.Model):
    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.blocks = [layers.Dense(units, activation="relu") for _ in range(2)]
        self.heads = {"one": layers.Dense(1), "two": layers.Dense(2)}

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return tf.concat([self.heads[k](inputs) for k in sorted(self.heads)], axis=1)

    def get_config(self):
        return {"units": self.units}


net = Net()
net(x[:1])
fix(net)
net.save_weights(os.path.join(folder, "net.weights.h5"))
net2 = Net()
net2(x[:1])
net2.load_weights(os.path.join(folder, "net.weights.h5"))
step = tf.Variable(0, dtype=tf.int64)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=net, step=step), os.path.join(folder, "checkpoints"), max_to_keep=2)
for _ in range(3):
    step.assign_add(1)
    manager.save()
step3 = tf.Variable(0, dtype=tf.int64)
tf.train.Checkpoint(step=step3).restore(manager.latest_checkpoint).expect_partial()
same = lambda a, b: float(np.abs(np.asarray(a) - np.asarray(b)).max() < 1e-5)
result = {
    "before": before, "loaded_continues": same(continued, expected), "expected": expected, "legacy": same(legacy.predict(x, verbose=0), model.predict(x, verbose=0)), "weights": same(other(x), model(x)), "json": same(again(x), model(x)),
    "clone": clone(x[:2]), "layers": [len(model.layers), len(rebuilt.layers), len(json.loads(model.to_json())["config"]["layers"])], "hidden": hidden, "scaled": scaled, "sequential": same(sequential2(x), sequential(x)), "regression": sequential(x[:3]),
    "net": net(x[:2]), "net2": same(net2(x), net(x)), "step": int(step3), "kept": len(manager.checkpoints), "dense_config": [layers.Dense.from_config(model.get_layer("hidden").get_config()).units, int(loaded.optimizer.iterations)],
    "rate": float(loaded.optimizer.learning_rate) if not callable(loaded.optimizer.learning_rate) else float(loaded.optimizer.learning_rate(loaded.optimizer.iterations)),
}
