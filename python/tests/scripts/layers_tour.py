import numpy as np
import tensorflow as tf
from common import fix
K = tf.keras.layers
r = np.random.RandomState(7)
img, seq = r.rand(2, 8, 8, 3).astype("float32"), r.rand(2, 6, 4).astype("float32")
result = {}
for layer, x in [(K.Conv2DTranspose(4, 3, strides=2, padding="same"), img), (K.Conv2DTranspose(4, 3, strides=2), img), (K.SeparableConv2D(5, 3), img), (K.DepthwiseConv2D(3, padding="same"), img), (K.Conv1D(5, 3, padding="causal", dilation_rate=2), seq), (K.UpSampling2D(), img), (K.UpSampling2D(interpolation="bilinear"), img), (K.Cropping2D(1), img), (K.ZeroPadding2D(1), img), (K.AveragePooling2D(3, strides=2, padding="same"), img), (K.MaxPooling1D(2), seq), (K.GlobalMaxPooling2D(), img), (K.LayerNormalization(), seq), (K.GroupNormalization(3), img), (K.UnitNormalization(), seq), (K.PReLU(), seq), (K.LSTM(5, return_sequences=True), seq), (K.GRU(5), seq), (K.GRU(5, reset_after=False), seq), (K.SimpleRNN(3, go_backwards=True), seq), (K.TimeDistributed(K.Dense(3)), seq), (K.Permute((2, 1)), seq), (K.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d"), seq), (K.Rescaling(1 / 255.0, 1.0), img), (K.Resizing(5, 4), img), (K.CenterCrop(4, 4), img), (K.Softmax(), seq), (K.ConvLSTM2D(2, 3), r.rand(1, 3, 6, 6, 2).astype("float32")), (K.Conv3D(2, 3), r.rand(1, 5, 5, 5, 2).astype("float32")), (K.RepeatVector(3), seq[:, 0]), (K.Flatten(), img)]:
    layer(x)
    fix(layer)
    result[f"{len(result)}_{type(layer).__name__}"] = np.asarray(layer(x))
a, b = tf.constant(seq), tf.constant(seq[::-1])
result["dot"] = K.Dot(axes=2)([a, b]); result["avg"] = K.Average()([a, b]); result["attention"] = K.Attention()([a, b])
n = K.Normalization(); n.adapt(seq.reshape(-1, 4)); result["norm"] = n(seq[0])
