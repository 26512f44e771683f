"""Derivatives in one direction, and functions with a gradient of their own that use variables."""

import tensorflow as tf

Forward = tf.autodiff.ForwardAccumulator
result = {}

x, direction = tf.constant([[2.0, 3.0], [1.0, 4.0]]), tf.constant([[1.0, 0.0], [0.0, 1.0]])
with Forward(x, direction) as forward:
    y = tf.reduce_sum(tf.sin(x) * x**2, axis=1)
    other = tf.constant(1.0)
result["along"] = forward.jvp(y)
result["unconnected"] = [forward.jvp(other) is None, float(forward.jvp(other, unconnected_gradients="zero"))]
result["itself"] = forward.jvp(x)

v = tf.Variable([1.0, 2.0])
with Forward(v, tf.constant([1.0, 0.0])) as forward:
    y = v * v
    result["inside the block"] = forward.jvp(y)
result["of a variable"] = forward.jvp(y)

a, b = tf.constant([1.0, 2.0]), tf.constant([3.0])
with Forward([a, b], [tf.constant([1.0, 1.0]), tf.constant([2.0])]) as forward:
    found = {"a": a * 2, "b": [b * b * a]}
result["structure"] = [*forward.jvp(found)["a"].numpy(), *forward.jvp(found)["b"][0].numpy()]

three = tf.constant(3.0)
with Forward(three, tf.constant(1.0)) as outer:
    with Forward(three, tf.constant(1.0)) as inner:
        y = three**3
    once = inner.jvp(y)
result["twice"] = [float(once), float(outer.jvp(once))]

a = tf.constant([1.0, 2.0])
with Forward(a, tf.constant([1.0, 0.0])) as forward:
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = tf.reduce_sum(a**3)
    gradient = tape.gradient(y, a)
result["of a gradient"] = forward.jvp(gradient)
with tf.GradientTape() as tape:
    tape.watch(a)
    with Forward(a, tf.constant([1.0, 0.0])) as forward:
        y = tf.reduce_sum(a**3)
    along = forward.jvp(y)
result["gradient of it"] = [float(along), *tape.gradient(along, a).numpy()]

square = tf.function(lambda x: x**2)
with Forward(three, tf.constant(1.0)) as forward:
    y = square(three)
result["of a function"] = forward.jvp(y)


@tf.function
def powers(x, tangent):
    with Forward(x, tangent) as forward:
        y = x
        for _ in range(3):
            y = y * x
    return forward.jvp(y)


result["in a function"] = powers(tf.constant(2.0), tf.constant(1.0))

kernel = tf.constant([[0.1, 0.2], [0.3, 0.4]])
with Forward(kernel, tf.ones_like(kernel)) as forward:
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        y = tf.reduce_sum(tf.tanh(tf.constant([[1.0, 2.0]]) @ kernel) ** 2)
    gradient = tape.gradient(y, kernel)
result["hessian times vector"] = forward.jvp(gradient)

# ---- Gradients of one's own ----

v = tf.Variable(2.0)


@tf.custom_gradient
def scaled(x):
    def gradient(dy, variables=None):
        return dy * 10.0, [dy * 100.0 for _ in variables]

    return x * v, gradient


def gradients_of_scaled(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = scaled(x) * 2.0
    return tape.gradient(y, [x, v])


result["with a variable"] = gradients_of_scaled(three)
result["with a variable, traced"] = tf.function(gradients_of_scaled)(three)


@tf.custom_gradient
def without(x):
    return x * v, lambda dy: dy


try:
    without(three)
    result["refused"] = 0
except TypeError as error:
    result["refused"] = "must accept keyword argument 'variables'" in str(error)


@tf.custom_gradient
def soft(x):
    e = tf.exp(x)
    return tf.math.log(1 + e), lambda up: up * (1 - 1 / (1 + e))


x = tf.constant([0.5, 1.0])
with tf.GradientTape() as second:
    second.watch(x)
    with tf.GradientTape() as first:
        first.watch(x)
        y = soft(x)
    gradient = first.gradient(y, x)
result["second derivative"] = [*gradient.numpy(), *second.gradient(gradient, x).numpy()]


@tf.custom_gradient
def clipped(x, low, high):
    return x, lambda dy: (tf.clip_by_value(dy, low, high), None, None)


with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.reduce_sum(clipped(x, -0.5, 0.5) * 3.0)
result["numbers among the arguments"] = tape.gradient(y, x)


@tf.custom_gradient
def swapped(x, y):
    return (y, x), lambda da, db: (da * 2.0, db * 3.0)


with tf.GradientTape() as tape:
    tape.watch([a, x])
    p, q = swapped(a, x)
    y = p + 2.0 * q
result["two of two"] = tape.gradient(y, [a, x])

with tf.GradientTape(persistent=True) as tape:
    tape.watch(kernel)
    y = tf.stack([tf.reduce_sum(kernel, 1), kernel[:, 0] * kernel[:, 1]], 1)
result["by rows"] = tape.batch_jacobian(y, kernel)
result["by rows of others"] = tape.batch_jacobian(tf.constant([[1.0], [2.0]]), kernel)
try:
    tape.batch_jacobian(tf.ones((3, 1)), kernel)
    result["other rows"] = 0
except ValueError:
    result["other rows"] = 1
