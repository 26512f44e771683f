"""A mixed policy with float16: the loss is scaled, and steps whose gradients are not finite are left out; weights of halves are trained."""

import keras
import numpy as np
import tensorflow as tf

layers, optimizers = keras.layers, keras.optimizers
result = {}


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype("float32")


def name_of(x):
    return ["float32", "float16", "bfloat16"].index(tf.as_dtype(x.dtype).name)


# ---- The policy ----

keras.mixed_precision.set_global_policy("mixed_float16")
try:
    kernel = keras.initializers.Constant(numbers(4, 3) / 4)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="tanh", kernel_initializer=kernel), layers.Dense(1, kernel_initializer="ones", dtype="float32")])
    model.compile(optimizers.SGD(0.05, momentum=0.5), "mse")
    x, y = numbers(32, 4), numbers(32, 1, seed=1)
    result["dtypes"] = [name_of(model.layers[0](x)), name_of(model.layers[0].kernel), name_of(model(x)), name_of(model.layers[0](x[:1]))]
    result["trained"] = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    result["weights"] = np.concatenate([w.numpy().ravel() for w in model.weights])
    result["wrapped"] = [isinstance(model.optimizer, optimizers.LossScaleOptimizer), isinstance(model.optimizer.inner_optimizer, optimizers.SGD)]
    result["scale"] = [float(model.optimizer.dynamic_scale.numpy()), int(model.optimizer.step_counter.numpy()), int(model.optimizer.iterations.numpy())]
    result["rate"] = [float(model.optimizer.learning_rate), len(model.optimizer.variables)]
    model.compile("sgd", "mse", auto_scale_loss=False)
    result["not wrapped"] = isinstance(model.optimizer, optimizers.LossScaleOptimizer)

    # A layer of each kind computes in halves.
    images, sequences = numbers(2, 6, 6, 3), numbers(2, 5, 4)
    for i, layer in enumerate([layers.Conv2D(2, 3), layers.BatchNormalization(), layers.MaxPooling2D(), layers.Conv2DTranspose(2, 3)]):
        y = layer(images)
        result[f"image {i}"] = [name_of(y), *(name_of(w) for w in layer.weights)]
    for i, layer in enumerate([layers.LSTM(3), layers.GRU(3), layers.LayerNormalization(), layers.Dense(3, activation="softmax"), layers.Dropout(0.5)]):
        result[f"sequence {i}"] = [name_of(layer(sequences)), *(name_of(w) for w in layer.weights)]
finally:
    keras.mixed_precision.set_global_policy("float32")

# ---- The scale ----

v = keras.Variable(np.float32([1.0, 2.0]))
optimizer = optimizers.LossScaleOptimizer(optimizers.Adam(0.1), initial_scale=8.0, dynamic_growth_steps=3)
result["scaled before"] = optimizer.scale_loss(tf.constant(2.0))
steps = []
for i in range(9):
    gradient = tf.constant([np.inf if i in (2, 7) else 4.0, np.nan if i == 7 else -2.0])
    optimizer.apply([gradient], [v])
    steps += [*v.numpy(), float(optimizer.dynamic_scale.numpy()), int(optimizer.step_counter.numpy()), int(optimizer.iterations.numpy())]
result["steps"] = steps
result["scaled after"] = optimizer.scale_loss(tf.constant(2.0))
again = optimizers.LossScaleOptimizer.from_config(optimizer.get_config())
result["again"] = [again.initial_scale, again.dynamic_growth_steps, float(again.inner_optimizer.learning_rate)]

v = keras.Variable(np.float32([1.0, 2.0]), constraint=keras.constraints.NonNeg())
optimizer = optimizers.LossScaleOptimizer(optimizers.Adamax(0.1, clipnorm=1.0, use_ema=True, ema_momentum=0.5))


@tf.function
def step(scale):
    with tf.GradientTape() as tape:
        loss = optimizer.scale_loss(tf.reduce_sum((v * scale) ** 2))
    optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    return loss


steps = []
for scale in (1.0, 1e30, 2.0, 1e30, 1.0):
    step(tf.constant(scale))
    steps += [*v.numpy(), float(optimizer.dynamic_scale.numpy()), int(optimizer.iterations.numpy())]
result["steps of a function"] = steps

v = keras.Variable(np.float32([1.0]))
fixed = optimizers.SGD(0.5, loss_scale_factor=4.0)
result["a fixed scale"] = [float(fixed.scale_loss(tf.constant(3.0))), 0]
fixed.apply([tf.constant([4.0])], [v])
result["a fixed scale"][1] = float(v.numpy()[0])

# ---- Weights of halves ----

MAKES = {
    "sgd": lambda: optimizers.SGD(0.1), "momentum": lambda: optimizers.SGD(0.1, momentum=0.9), "nesterov": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda: optimizers.RMSprop(0.01), "rmsprop with momentum": lambda: optimizers.RMSprop(0.01, momentum=0.5),
    "centred": lambda: optimizers.RMSprop(0.01, centered=True), "adagrad": lambda: optimizers.Adagrad(0.1), "adam": lambda: optimizers.Adam(0.01),
    "amsgrad": lambda: optimizers.Adam(0.01, amsgrad=True), "adamw": lambda: optimizers.AdamW(0.01), "decay": lambda: optimizers.SGD(0.1, weight_decay=0.1),
    "clipped": lambda: optimizers.Adam(0.01, clipnorm=0.1), "lion": lambda: optimizers.Lion(0.01), "adadelta": lambda: optimizers.Adadelta(0.5),
}
for dtype in ("float16", "bfloat16"):
    for name, make in MAKES.items():
        v, optimizer = keras.Variable(np.array([1.0, -2.0, 0.25]), dtype=dtype), make()
        for i in range(4):
            optimizer.apply([tf.cast([0.5, -0.15, 0.01 * i], dtype)], [v])
        result[f"{name} of {dtype}"] = tf.cast(v.value, tf.float32)

kernel = keras.initializers.Constant(numbers(4, 2) / 4)
for dtype in ("float16", "bfloat16"):
    model = keras.Sequential([keras.Input((4,), dtype=dtype), layers.Dense(2, dtype=dtype, kernel_initializer=kernel)])
    model.compile(optimizers.Adam(0.01), "mse")
    losses = model.fit(numbers(16, 4), numbers(16, 2, seed=1), batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    result[f"layers of {dtype}"] = np.round(losses, 2)
    result[f"dtypes of {dtype}"] = [name_of(w) for w in model.weights]
keras.utils.clear_session()  # Other programs of this process count their names from the beginning.
