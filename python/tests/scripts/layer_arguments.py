"""Arguments of layers and of AUC whose effect is seen in values, weights, penalties, constraints and refusals."""

import zlib

import keras
import numpy as np
import tensorflow as tf

L, M, C = keras.layers, keras.metrics, keras.constraints
result = {}
random = np.random.RandomState(0)


def n(*shape):
    return random.normal(size=shape).astype("float32")


def number(value):
    """Numbers, and for texts numbers by which they are recognised."""
    if isinstance(value, str):
        return [zlib.crc32(value.encode()) % 1000]
    return np.ravel(np.asarray(value, dtype="float64"))


def note(name, f):
    try:
        found = [number(v) for v in tf.nest.flatten(f())]
        result[name] = np.concatenate(found) if found else np.zeros(0)
    except ValueError as error:
        text = str(error)
        result[name] = number(text[text.index("incompatible") :] if "incompatible" in text else "refused")


x3, img = n(2, 4, 6), n(2, 6, 5, 8)
q, k = n(2, 3, 4), n(2, 5, 4)
note("rms over two axes", lambda: L.LayerNormalization(axis=(1, 2), rms_scaling=True)(x3))
note("gn", lambda: L.GroupNormalization(2)(img[..., :4]))
note("groups along another axis", lambda: L.GroupNormalization(3, axis=1)(img))
note("one channel a group", lambda: L.GroupNormalization(-1)(x3))
note("penalties of groups", lambda: (lambda l: (l(x3), [float(v) for v in l.losses]))(L.GroupNormalization(2, gamma_regularizer="l2", beta_regularizer="l1"))[1])


def cons(l, x):
    l(x)
    return [getattr(v, "constraint", None).__class__.__name__ for v in l.trainable_weights]


mm = C.MaxNorm(1.0)
nn = C.NonNeg()
note("limits of batch normalization", lambda: cons(L.BatchNormalization(beta_constraint=nn, gamma_constraint=mm), x3))
note("limits of layer normalization", lambda: cons(L.LayerNormalization(beta_constraint=nn, gamma_constraint=mm), x3))
note("limits of groups", lambda: cons(L.GroupNormalization(2, beta_constraint=nn, gamma_constraint=mm), x3))
note("limits of sums of products", lambda: cons(L.EinsumDense("abc,cd->abd", output_shape=(None, 3), bias_axes="d", kernel_constraint=mm, bias_constraint=nn), x3))
note("limits of separable convolutions", lambda: cons(L.SeparableConv2D(2, 3, depthwise_constraint=mm, pointwise_constraint=nn, bias_constraint=nn), img))
note("limits of separable convolutions of sequences", lambda: cons(L.SeparableConv1D(2, 3, depthwise_constraint=mm, pointwise_constraint=nn, bias_constraint=nn), x3))
note("attention concat", lambda: L.Attention(score_mode="concat")([q, k]))
note("attention concat s", lambda: L.Attention(score_mode="concat", use_scale=True)([q, k]))
note("attention w", lambda: (lambda l: (l([q, k]), [w.name for w in l.weights]))(L.Attention(score_mode="concat", use_scale=True))[1])
qm, vm = (np.array([[1, 1, 0], [1, 0, 0]], bool), np.array([[1, 1, 0, 1, 0], [1, 0, 0, 1, 1]], bool))
note("attention mask", lambda: L.Attention()([q, k], mask=[qm, vm]))
note("attention causal", lambda: L.Attention()([q, k], use_causal_mask=True))
note("attention scores", lambda: L.Attention(use_scale=True)([q, k], return_attention_scores=True))
note("add att", lambda: (lambda l: (l.build([(2, 3, 4), (2, 5, 4)]), l.set_weights([np.ones(4)]), l([q, k], mask=[qm, vm])))(L.AdditiveAttention())[2])
note("resized crop", lambda: L.Resizing(3, 4, crop_to_aspect_ratio=True)(img[..., :1]))
note("resized pad", lambda: L.Resizing(3, 6, pad_to_aspect_ratio=True, fill_value=7.0)(img[..., :1]))
note("resized cf", lambda: L.Resizing(3, 4, data_format="channels_first")(img))
note("resized aa", lambda: L.Resizing(3, 2, antialias=True)(img[..., :1]))
note("resized one", lambda: L.Resizing(2, 2)(img[0, ..., :1]))
note("resized int", lambda: L.Resizing(2, 2, interpolation="nearest")(np.arange(16, dtype="uint8").reshape(1, 4, 4, 1)))
note("cc", lambda: L.CenterCrop(3, 3)(img[..., :1]))
note("middle cf", lambda: L.CenterCrop(3, 3, data_format="channels_first")(img))
note("middle small", lambda: L.CenterCrop(8, 4)(img[..., :1]))
note("middle one", lambda: L.CenterCrop(3, 2)(img[0, ..., :1]))
note("function mask", lambda: L.Lambda(lambda v: v * 2, mask=lambda i, m: m).compute_mask(x3, np.array([True])))
note("function args", lambda: L.Lambda(lambda v, a: v * a, arguments={"a": 3.0})(np.ones((1, 2), "float32")))
yt = np.array([[0, 1], [1, 1], [0, 0], [1, 0]], "float32")
yp = np.array([[0.1, 0.7], [0.6, 0.8], [0.4, 0.3], [0.3, 0.9]], "float32")


def met(m, *a):
    m.update_state(*a)
    return m.result()


note("auc ml", lambda: met(M.AUC(multi_label=True), yt, yp))
note("auc lw", lambda: met(M.AUC(multi_label=True, label_weights=[1.0, 3.0]), yt, yp))
note("auc pr ml", lambda: met(M.AUC(multi_label=True, curve="PR", num_thresholds=20), yt, yp))
note("auc nl", lambda: met(M.AUC(multi_label=True, num_labels=2, summation_method="minoring"), yt, yp))
note("auc", lambda: met(M.AUC(), yt, yp))
note("auc sw", lambda: met(M.AUC(multi_label=True), yt, yp, np.array([1.0, 2.0, 1.0, 0.5])))


def lora(l, x):
    l(x)
    a = len(l.trainable_weights)
    l.enable_lora(2)
    return (a, len(l.trainable_weights), [w.name for w in l.trainable_weights], [tuple(w.shape) for w in l.trainable_weights], len(l.non_trainable_weights))


note("added product dense", lambda: lora(L.Dense(3), x3))
note("added product emb", lambda: lora(L.Embedding(5, 3), np.array([[1, 2]])))
note("added product ed", lambda: lora(L.EinsumDense("abc,cd->abd", output_shape=(None, 3), bias_axes="d"), x3))
note("added product arg", lambda: (lambda l: (l(x3), len(l.trainable_weights)))(L.Dense(3, lora_rank=2))[1])


def lora2():
    l = L.Dense(3, kernel_initializer="ones")
    l(x3)
    l.enable_lora(2, lora_alpha=4, a_initializer="ones")
    l.lora_kernel_b.assign(np.ones((2, 3)))
    return l(x3[:1, :1]), l.lora_enabled


note("added product val", lora2)
ones = {"kernel_initializer": keras.initializers.Constant(0.1), "recurrent_initializer": keras.initializers.Constant(0.1)}
seq = n(2, 3, 4, 4, 2)
note("cl", lambda: L.ConvLSTM2D(1, 2, **ones, bias_initializer="ones")(seq))
note("convolved lstm nf", lambda: L.ConvLSTM2D(1, 2, **ones, bias_initializer="ones", unit_forget_bias=False)(seq))
note("convolved lstm cf", lambda: L.ConvLSTM2D(1, 2, **ones, data_format="channels_first", padding="same")(seq.transpose(0, 1, 4, 2, 3)))
note("convolved lstm reg", lambda: (lambda l: (l(seq), [round(float(v), 4) for v in l.losses]))(L.ConvLSTM2D(1, 2, **ones, kernel_regularizer="l2", recurrent_regularizer="l1", bias_regularizer="l1"))[1])
note("convolved lstm dil", lambda: L.ConvLSTM2D(1, 2, **ones, dilation_rate=2)(seq))
note("convolved lstm state", lambda: L.ConvLSTM2D(1, 2, **ones, return_state=True, return_sequences=True, go_backwards=True)(seq))
note("convolved lstm c", lambda: cons(L.ConvLSTM2D(1, 2, kernel_constraint=mm, recurrent_constraint=nn, bias_constraint=nn), seq))
note("convolved lstm init", lambda: L.ConvLSTM2D(1, 2, **ones, padding="same")(seq, initial_state=[np.ones((2, 4, 4, 1), "float32"), np.ones((2, 4, 4, 1), "float32")]))
note("convolved lstm mask", lambda: L.ConvLSTM2D(1, 2, **ones)(seq, mask=np.array([[1, 1, 0], [1, 0, 0]], bool)))
note("cl1", lambda: L.ConvLSTM1D(1, 2, **ones)(seq[:, :, 0]))
note("heads 4d", lambda: L.MultiHeadAttention(2, 3, kernel_initializer=keras.initializers.Constant(0.1))(n(1, 2, 3, 4) * 0 + np.arange(24).reshape(1, 2, 3, 4) / 10, n(1, 2, 3, 4) * 0 + 1).shape)
z = (np.arange(24).reshape(1, 2, 3, 4) / 10).astype("float32")
ki = keras.initializers.RandomUniform(-1, 1, seed=3)
c1 = keras.initializers.Constant(0.3)
note("heads ax", lambda: L.MultiHeadAttention(2, 3, attention_axes=(2,), kernel_initializer=c1)(z, z))
note("heads ax1", lambda: L.MultiHeadAttention(2, 3, attention_axes=(1,), kernel_initializer=c1)(z, z))
note("heads all", lambda: L.MultiHeadAttention(2, 3, kernel_initializer=c1)(z, z))
note("heads c", lambda: cons(L.MultiHeadAttention(2, 3, kernel_constraint=mm, bias_constraint=nn), x3) if 0 else (lambda l: (l(x3, x3), [type(v.constraint).__name__ for v in l.trainable_weights], [round(float(v), 3) for v in l.losses]))(L.MultiHeadAttention(2, 3, kernel_constraint=mm, bias_constraint=nn, bias_regularizer="l2"))[1:])
note("heads os", lambda: L.MultiHeadAttention(2, 3, output_shape=5)(x3, x3).shape)


class Sp(L.Layer):

    def __init__(self, spec):
        super().__init__()
        self.input_spec = spec

    def call(self, x):
        return x


I = keras.layers.InputSpec
for i, (sp, v) in enumerate([(I(ndim=3), n(2, 3)), (I(min_ndim=3), n(2, 3)), (I(max_ndim=1), n(2, 3)), (I(axes={-1: 4}), n(2, 3)), (I(shape=(None, 4)), n(2, 3)), (I(dtype="int32"), n(2, 3)), ([I(ndim=2), I(ndim=2)], [n(2, 3)]), (I(ndim=2), n(2, 3))]):
    note(f"spec {i}", lambda: Sp(sp)(v).shape)
note("spec dense", lambda: (lambda l: (l(n(2, 3)), l(n(2, 4))))(L.Dense(2)))
note("spec conv", lambda: L.Conv2D(2, 3)(n(2, 3)))
note("spec lstm", lambda: L.LSTM(2)(n(2, 3)))
note("spec conv ch", lambda: (lambda l: (l(n(1, 4, 4, 3)), l(n(1, 4, 4, 2))))(L.Conv2D(2, 3)))
note("spec pool", lambda: L.MaxPooling2D()(n(2, 3)))
note("spec gap", lambda: L.GlobalAveragePooling2D()(n(2, 3)))
b = np.linspace(0, 300, 48, dtype="float32").reshape(1, 4, 4, 3)
note("contrast", lambda: float(np.asarray(L.RandomContrast(0.9, seed=1)(b, training=True)).max()) <= 255.0)
note("contrast1", lambda: float(np.asarray(L.RandomContrast(0.9, value_range=(0, 1), seed=1)(b, training=True)).max()) <= 1.0)
a = np.asarray(L.AlphaDropout(0.5, noise_shape=(2, 1, 6), seed=1)(x3 * 0 + 1, training=True))
note("alpha", lambda: bool((a == a[:, :1]).all()))
keras.utils.clear_session()  # Other programs of this process count their names from the beginning.
