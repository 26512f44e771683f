"""Variables of complex numbers and of texts."""

import tempfile

import numpy as np
import tensorflow as tf

result = {}


def parts(value):
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return [*np.ravel(array.real), *np.ravel(array.imag)]


v = tf.Variable([1 + 2j, 3 - 1j], dtype=tf.complex64)
result["kinds"] = [v.dtype == tf.complex64, tf.Variable([1 + 2j]).dtype == tf.complex128, tf.Variable([1.0], dtype=tf.complex64).dtype == tf.complex64, v.trainable]
result["repr"] = [repr(tf.Variable(1j)) == "<tf.Variable 'Variable:0' shape=() dtype=complex128, numpy=1j>", repr(tf.Variable("x")) == "<tf.Variable 'Variable:0' shape=() dtype=string, numpy=b'x'>"]
v.assign([2j, 1.0])
v.assign_add([1j, 1j])
v.assign_sub([1.0, 0.0])
result["assigned"] = parts(v)
result["ops"] = [
    *parts(v * 2), *parts(1.0 + v), *parts(v / v), *parts(-v), *parts(tf.abs(v)), *parts(v[0]), *parts(tf.math.conj(v)), *parts(tf.reshape(v, [2, 1])), *parts(tf.math.real(v)),
    *parts(tf.concat([v, v], 0)), *parts(tf.signal.fft(v)), *parts(tf.matmul([v], [v], transpose_b=True)), *parts(tf.convert_to_tensor(v)), *parts(tf.reduce_sum(v)),
]
with tf.GradientTape(persistent=True) as tape:
    size, turned = tf.reduce_sum(tf.abs(v) ** 2), tf.reduce_sum(tf.math.real(v * v * (1 + 1j)))
result["gradients"] = [*parts(tape.gradient(size, v)), *parts(tape.gradient(turned, v)), *parts(tape.gradient([size, turned], {"v": v})["v"])]
for _ in range(3):
    with tf.GradientTape() as tape:
        size = tf.reduce_sum(tf.abs(v) ** 2)
    v.assign_sub(0.1 * tape.gradient(size, v))
result["descended"] = parts(v)


@tf.function
def turned_further(x):
    v.assign(v * tf.complex(0.0, 1.0) + x)
    return tf.reduce_sum(v)


result["in a function"] = [p for _ in range(3) for p in parts(turned_further(tf.constant([1j, 1.0], tf.complex64)))]

texts = tf.Variable(["a", "b"])
texts.assign(["c", "dd"])
result["texts"] = [*(len(t) for t in texts.numpy()), *tf.strings.length(texts).numpy(), *texts.shape, *(texts == tf.constant(["c", "x"])).numpy(), tf.strings.upper(texts)[0].numpy() == b"C", (texts + "!")[1].numpy() == b"dd!"]
result["looked up"] = tf.gather(texts, [1])[0].numpy() == b"dd"


@tf.function
def counted():
    return tf.strings.length(texts)


result["of texts in functions"] = [*counted().numpy(), *(texts.assign(["ee", "f"]) is None or counted()).numpy()]
for name, wrong in {"complex": lambda: v.assign([1j]), "texts": lambda: texts.assign(["c"])}.items():
    try:
        wrong()
        result[f"wrong {name}"] = 0
    except ValueError as error:
        result[f"wrong {name}"] = "Shape mismatch" in str(error)


class Holder(tf.Module):
    def __init__(self):
        super().__init__()
        self.complex, self.text, self.real = tf.Variable([1j, 2.0]), tf.Variable(["a", "bb"]), tf.Variable(1.0)


holder = Holder()
result["held"] = [len(holder.variables), len(holder.trainable_variables)]
saved = tf.train.Checkpoint(holder=holder).save(tempfile.mkdtemp() + "/ckpt")
other = Holder()
other.complex.assign([0.0, 0.0])
other.text.assign(["", ""])
tf.train.Checkpoint(holder=other).restore(saved).assert_consumed()
result["restored"] = [*parts(other.complex), *(t in (b"a", b"bb") for t in other.text.numpy())]
