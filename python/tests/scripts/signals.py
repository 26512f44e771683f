import numpy as np
import tensorflow as tf
import keras

r = np.random.RandomState(5)
sound = r.normal(size=(3, 320)).astype("float32")
parts = lambda c: [tf.math.real(c).numpy().tolist(), tf.math.imag(c).numpy().tolist()]

short, long = r.normal(size=(2, 12)), r.normal(size=(2, 150))
value = tf.complex(tf.constant(short, tf.float32), tf.constant(short[::-1].copy(), tf.float32))
spectrum = tf.signal.stft(sound, frame_length=50, frame_step=20)
mel = tf.signal.linear_to_mel_weight_matrix(8, 33, 4000, 80.0, 1800.0)
mels = tf.math.log(tf.matmul(tf.abs(spectrum), mel) + 1e-3)


class Mixing(keras.layers.Layer):
    """Tokens that are mixed by a transform instead of attention."""

    def call(self, x):
        return tf.math.real(tf.signal.fft2d(tf.cast(x, tf.complex64)))


inputs = keras.Input((6, 8))
hidden = keras.layers.Dense(8, activation="tanh", name="hidden")(inputs)
hidden = keras.layers.Add()([hidden, Mixing()(hidden)])
model = keras.Model(inputs, keras.layers.Dense(1, name="out")(keras.layers.GlobalAveragePooling1D()(hidden)))
for i, weight in enumerate(model.weights):
    weight.assign(np.random.RandomState(i).normal(size=tuple(weight.shape)) * 0.2)
model.compile(keras.optimizers.SGD(0.01), "mse")
history = model.fit(r.normal(size=(16, 6, 8)), r.normal(size=(16, 1)), batch_size=8, epochs=2, shuffle=False, verbose=0)

waves = tf.Variable(sound[:, :64])
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.abs(tf.signal.rfft(waves)) ** 2) + tf.reduce_mean(tf.math.angle(tf.signal.rfft(waves))[:, 1:4])
real, imag = keras.ops.stft(sound, 40, 16, 64)
result = {
    "fft": parts(tf.signal.fft(value)), "ifft": parts(tf.signal.ifft(value)),
    "fft_long": parts(tf.signal.fft(tf.cast(long, tf.complex64))), "rfft": parts(tf.signal.rfft(tf.constant(long, tf.float32))),
    "irfft": tf.signal.irfft(value[:, :7]), "rfft2d": parts(tf.signal.rfft2d(sound[:, :96].reshape(3, 8, 12))),
    "arithmetic": parts(value * tf.math.conj(value[::-1]) / (value + tf.cast(3.0, tf.complex64)) - tf.reduce_sum(value)),
    "moved": parts(tf.transpose(tf.concat([value, tf.reshape(value, (2, 12))], 0))), "abs": tf.abs(value), "angle": tf.math.angle(value),
    "exp": parts(tf.exp(value)), "stft": tf.abs(spectrum), "mfcc": tf.signal.mfccs_from_log_mel_spectrograms(mels)[..., :5],
    "inverse": tf.signal.inverse_stft(spectrum, 50, 20, window_fn=tf.signal.inverse_stft_window_fn(20)),
    "frames": tf.signal.frame(sound[:, :50], 16, 12, pad_end=True), "added": tf.signal.overlap_and_add(tf.signal.frame(sound[:, :50], 16, 12), 5),
    "windows": [tf.signal.hann_window(9).numpy().tolist(), tf.signal.hamming_window(9, periodic=False).numpy().tolist(), tf.signal.hann_window(9).numpy().tolist()],
    "even_window": tf.signal.hann_window(8), "dct": tf.signal.dct(tf.constant(short, tf.float32), norm="ortho"),
    "shifted": tf.signal.fftshift(tf.constant(short, tf.float32)), "gradient": tape.gradient(loss, waves),
    "keras_stft": [real.numpy().tolist(), imag.numpy().tolist()], "keras_istft": keras.ops.istft((real, imag), 40, 16, 64),
    "keras_fft2": keras.ops.fft2((short, short[::-1].copy()))[1], "losses": history.history["loss"],
}
