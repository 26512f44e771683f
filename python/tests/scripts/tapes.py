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
result = {"a": a, "b": b, "first": first, "second": second, "jac": jac, "clip": tape and c, "g": [float(t[0]) for t in g]}
