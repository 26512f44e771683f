import tensorflow as tf
x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = tf.reduce_sum(x ** 3)
    z = tf.sin(x) @ x
a, b = tape.gradient(y, x), tape.gradient(z, x)
v = tf.Variable(2.0)
with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        w = v ** 4
    first = inner.gradient(w, v)
second = outer.gradient(first, v)
with tf.GradientTape() as tape:
    tape.watch(x)
    m = tf.matmul(x, x)
jac = tape.jacobian(m, x)
@tf.custom_gradient
def clip(x):
    def grad(dy):
        return dy * 0.5
    return tf.identity(x), grad
with tf.GradientTape() as tape:
    tape.watch(x)
    c = tf.reduce_sum(clip(x) * 2.0)
u = tf.Variable([1.0]); n = tf.Variable([2.0])
with tf.GradientTape() as tape:
    k = u * 3.0
g = tape.gradient(k, [u, n], unconnected_gradients="zero")


def residual(points):
    """A gradient that is asked for while its tape records, and the gradient of it."""
    with tf.GradientTape(persistent=True) as tape:
        time, place = points[:, :1], points[:, 1:]
        tape.watch([time, place])
        u = tf.tanh(tf.concat([time, place], 1) @ [[0.5], [1.5]])
        u_x = tape.gradient(u, place)
    return tape.gradient(u, time) + u * u_x - 0.1 * tape.gradient(u_x, place)


class Derivatives(tf.keras.layers.Layer):
    """The second derivatives of a model by its inputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def call(self, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = self.model(x)
            first = inner.batch_jacobian(y, x)
        return outer.batch_jacobian(first, x)[:, 0]


network = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3, "tanh", kernel_initializer="ones"), tf.keras.layers.Dense(1, kernel_initializer="ones")])
points = tf.keras.Input((2,))
described = tf.keras.Model(points, Derivatives(network)(points))
result = {"residual": residual(x), "residual in a function": tf.function(residual)(x), "of a model": described(x), "of batches": described.predict(x, batch_size=1, verbose=0)}
result |= {"a": a, "b": b, "first": first, "second": second, "jac": jac, "clip": tape and c, "g": [float(t[0]) for t in g]}
