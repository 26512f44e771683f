"""Several optimizers for one model, and a student that learns from a teacher."""

import keras
import numpy as np

L, O, D = keras.layers, keras.optimizers, keras.distillation
result = {}


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).normal(size=shape).astype("float32")


def constant(*shape, seed=0):
    return keras.initializers.Constant(numbers(*shape, seed=seed) / 2)


x, y = numbers(32, 4), numbers(32, 2, seed=1)


def model():
    return keras.Sequential([
        keras.Input((4,)), L.Dense(3, activation="tanh", kernel_initializer=constant(4, 3), name="first"), L.Dense(2, kernel_initializer=constant(3, 2), name="second"),
    ], name="net")


def trained(optimizer):
    m = model()
    m.compile(optimizer, "mse")
    history = m.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    return m, [*history, *np.concatenate([w.numpy().ravel() for w in m.weights])]


optimizers = O.OptimizerMap(default_optimizer=O.SGD(0.1))
optimizers["first/.*"] = O.Adam(0.01)
m, result["by patterns"] = trained(O.MultiOptimizer(optimizers))
result["steps"] = [int(m.optimizer.iterations.numpy()), len(m.optimizer.optimizers), *(int(o.iterations.numpy()) for o in m.optimizer.optimizers)]
one, other = O.Lion(0.01), O.RMSprop(0.01, weight_decay=0.1)
_, result["by a function"] = trained(O.MultiOptimizer(lambda v: one if "bias" in v.path else other))
again = O.MultiOptimizer.from_config(m.optimizer.get_config())
_, result["again"] = trained(again)
scaled = O.MultiOptimizer(O.OptimizerMap(O.SGD(0.1)), loss_scale_factor=4.0)
_, result["with a factor"] = trained(scaled)
_, result["with a scale that changes"] = trained(O.LossScaleOptimizer(O.MultiOptimizer(O.OptimizerMap(O.SGD(0.1), {"second/.*": O.Adam(0.01)})), initial_scale=8.0, dynamic_growth_steps=3))
for name, wrong in {
    "rate": lambda: scaled.learning_rate, "twice": lambda: optimizers.__setitem__("first/.*", O.SGD()), "scale": lambda: optimizers.__setitem__("x", O.LossScaleOptimizer(O.SGD())),
    "default": lambda: O.OptimizerMap("sgd"),
}.items():
    try:
        wrong()
        result[f"wrong {name}"] = 0
    except (AttributeError, ValueError, TypeError):
        result[f"wrong {name}"] = 1


def teacher():
    return keras.Sequential([
        keras.Input((4,)), L.Dense(6, activation="relu", kernel_initializer=constant(4, 6, seed=2), name="hidden"), L.Dense(3, kernel_initializer=constant(6, 3, seed=3)),
    ])


def student():
    return keras.Sequential([
        keras.Input((4,)), L.Dense(6, activation="tanh", kernel_initializer=constant(4, 6, seed=4), name="own"), L.Dense(3, kernel_initializer=constant(6, 3, seed=5)),
    ])


labels = np.arange(32) % 3
for name, losses, options in (
    ("logits", D.LogitsDistillation(temperature=2.0, loss=keras.losses.KLDivergence()), {}),
    ("plain logits", D.LogitsDistillation(temperature=4.0, loss="mse"), {"student_loss_weight": 0.3}),
    ("features", D.FeatureDistillation(loss="mse", teacher_layer_name="hidden", student_layer_name="own"), {"student_loss_weight": 0.0}),
    ("both", [D.LogitsDistillation(loss="mse"), D.FeatureDistillation("mae", "hidden", "own")], {"distillation_loss_weights": [0.7, 0.3]}),
):
    distiller = D.Distiller(teacher(), student(), losses, **options)
    distiller.compile(O.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    history = distiller.fit(x, labels, batch_size=8, epochs=2, shuffle=False, verbose=0).history
    result[f"learnt from {name}"] = [history[key] for key in ("student_loss", "distillation_loss", "total_loss", "accuracy")]
    result[f"weights by {name}"] = np.concatenate([w.numpy().ravel() for w in distiller.student.weights])
    result[f"trained by {name}"] = [len(distiller.trainable_variables), distiller.predict(x, verbose=0).shape[1]]
keras.utils.clear_session()  # Other programs of this process count their names from the beginning.
