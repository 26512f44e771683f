"""Special functions and cosine transforms."""

import numpy as np
import tensorflow as tf

result = {}
x = tf.constant([0.01, 0.3, 0.9, 1.4, 2.5, 4.9, 5.1, 9.0, 11.0, 24.0, 26.0, 70.0])
for name in (
    "bessel_i0e", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0", "bessel_k0e", "bessel_k1", "bessel_k1e", "bessel_y0", "bessel_y1", "dawsn",
    "fresnel_cos", "fresnel_sin", "spence",
):
    result[name] = getattr(tf.math.special, name)(x)
for name in ("bessel_i0", "bessel_i1", "expint"):
    result[name] = tf.math.log(getattr(tf.math.special, name)(x[3:]))
result["bessel_j1_negative"], result["bessel_i1_negative"] = tf.math.special.bessel_j1(-x), tf.math.bessel_i1e(-x)
a = tf.constant([[0.2], [1.0], [3.5], [30.0]])
result["igamma"], result["igammac"] = tf.math.igamma(a, x), tf.math.igammac(a, x)
z = tf.constant([0.0, 0.001, 0.2, 0.5, 0.8, 0.99, 1.0])
result["betainc"] = tf.math.betainc(a + tf.zeros(7), tf.constant([[0.7]]) + a * 0 + tf.zeros(7), z + a * 0)
result["lbeta"] = tf.math.lbeta(tf.constant([[1.0, 2.5, 0.3], [4.0, 5.0, 20.0]]))
result["polygamma"] = tf.math.polygamma(tf.constant([[0.0], [1.0], [2.0], [3.0]]), x[1:])
result["zeta"] = tf.math.zeta(tf.constant([[1.5], [2.0], [7.0]]), x[1:])
for name in ("bessel_i0e", "bessel_j0", "dawsn"):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = getattr(tf.math.special, name)(x)
    result[f"{name}_gradient"] = tape.gradient(y, x)
with tf.GradientTape() as tape:
    tape.watch([a, x])
    y = tf.math.igamma(a, x[1:6])
result["igamma_gradients"] = tape.gradient(y, a)
result["traced"] = tf.function(lambda v: tf.math.igammac(2.0, v))(x)

signal = tf.constant(np.random.default_rng(0).normal(size=(2, 16)).astype("float32"))
for kind in (1, 2, 3, 4):
    result[f"dct{kind}"], result[f"idct{kind}"] = tf.signal.dct(signal, type=kind), tf.signal.idct(signal, type=kind)
    if kind > 1:
        result[f"dct{kind}_ortho"], result[f"idct{kind}_ortho"] = tf.signal.dct(signal, type=kind, norm="ortho"), tf.signal.idct(signal, type=kind, norm="ortho")
result["dct_longer"], result["dct_shorter"] = tf.signal.dct(signal, n=20), tf.signal.dct(signal, n=5)
for norm in (None, "ortho"):
    result[f"mdct_{norm}"] = tf.signal.mdct(signal, 8, norm=norm)
    result[f"imdct_{norm}"] = tf.signal.inverse_mdct(result[f"mdct_{norm}"], norm=norm)
result["kaiser"], result["kaiser_derived"] = tf.signal.kaiser_window(9, 5.0), tf.signal.kaiser_bessel_derived_window(10, 4.0)
