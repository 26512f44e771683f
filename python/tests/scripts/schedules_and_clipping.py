"""Optimizers as programs configure them: schedules (one of one's own), warm-up, clipping, averages, frozen layers, own optimizers."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common import data, fix

x, y = data(64)


class CustomSchedule(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, d_model, warmup_steps=4):
        super().__init__()
        self.d_model = tf.cast(d_model, tf.float32)
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = tf.cast(step, dtype=tf.float32)
        arg1 = tf.math.rsqrt(step + 1)
        arg2 = (step + 1) * (self.warmup_steps**-1.5)
        return tf.math.rsqrt(self.d_model) * tf.math.minimum(arg1, arg2)

    def get_config(self):
        return {"d_model": float(self.d_model), "warmup_steps": self.warmup_steps}


class Plain(keras.optimizers.Optimizer):
    """An optimizer of one's own: momentum in named slots."""

    def __init__(self, learning_rate=0.05, beta=0.9, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta = beta

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.velocities = [self.add_variable_from_reference(v, name="velocity") for v in variables]

    def update_step(self, gradient, variable, learning_rate):
        velocity = self.velocities[self._get_variable_index(variable)]
        rate = tf.cast(learning_rate, variable.dtype)
        self.assign(velocity, self.beta * velocity + gradient)
        self.assign_sub(variable, rate * velocity)


def trained(optimizer, epochs=2, freeze=False, **compiled):
    model = fix(keras.Sequential([keras.Input((8,)), keras.layers.Dense(6, activation="tanh", name="first"), keras.layers.Dense(3)]))
    if freeze:
        model.get_layer("first").trainable = False
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), **compiled)
    return model.fit(x, y, epochs=epochs, batch_size=16, shuffle=False, verbose=0).history["loss"]


o, s = keras.optimizers, keras.optimizers.schedules
result = {
    "custom": trained(o.Adam(CustomSchedule(64), beta_1=0.9, beta_2=0.98, epsilon=1e-9)), "own": trained(Plain()), "clipvalue": trained(o.SGD(0.2, clipvalue=0.05)), "clipnorm": trained(o.Adam(0.02, clipnorm=0.1)), "global": trained(o.RMSprop(0.01, global_clipnorm=0.2)),
    "nesterov": trained(o.SGD(0.1, momentum=0.9, nesterov=True)), "amsgrad": trained(o.Adam(0.02, amsgrad=True)), "decay": trained(o.SGD(s.CosineDecay(0.2, 8, alpha=0.1, warmup_target=0.3, warmup_steps=2))), "restarts": trained(o.SGD(s.CosineDecayRestarts(0.2, 3))),
    "piecewise": trained(o.Adagrad(s.PiecewiseConstantDecay([3, 6], [0.1, 0.05, 0.01]))), "ema": trained(o.Adam(0.02, use_ema=True, ema_momentum=0.9)), "weight_decay": trained(o.SGD(0.1, weight_decay=0.02)), "centered": trained(o.RMSprop(0.01, centered=True, momentum=0.5)),
    "frozen": trained(o.Adam(0.05), freeze=True), "lion": trained(o.Lion(0.01)), "nadam": trained(o.Nadam(0.02)), "adamax": trained(o.Adamax(0.02)), "adadelta": trained(o.Adadelta(1.0)), "ftrl": trained(o.Ftrl(0.1)), "steps": trained(o.Adam(0.02), steps_per_execution=2),
    "accumulate": trained(o.SGD(0.2, gradient_accumulation_steps=2)), "polynomial": trained(o.SGD(s.PolynomialDecay(0.2, 5, 0.01, cycle=True))), "exponential": trained(o.SGD(s.ExponentialDecay(0.2, 4, 0.5))),
}
excluded = o.AdamW(0.05, weight_decay=0.2)
excluded.exclude_from_weight_decay(var_names=["bias"])
result["excluded"] = trained(excluded)

# A loop with clipped gradients and a rate that the program changes.
w = tf.Variable(np.linspace(-1, 1, 24).reshape(8, 3), dtype=tf.float32)
optimizer, norms = o.SGD(learning_rate=0.5), []
for step in range(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, w)))
    grads, norm = tf.clip_by_global_norm(tape.gradient(loss, [w]), 0.2)
    optimizer.apply_gradients(zip(grads, [w]))
    optimizer.learning_rate.assign(optimizer.learning_rate * 0.5)
    norms.append([float(norm), float(loss), float(optimizer.learning_rate)])
result["loop"] = norms
