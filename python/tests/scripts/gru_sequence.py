import numpy as np
import tensorflow as tf
from common import fix
t = np.arange(120) * 0.1
series = np.sin(t).astype("float32")
ds = tf.data.Dataset.from_tensor_slices(series).window(11, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(11)).map(lambda w: (w[:-1], w[-1])).batch(16)
model = tf.keras.Sequential([tf.keras.Input((10,)), tf.keras.layers.Reshape((10, 1)), tf.keras.layers.GRU(6, return_sequences=True), tf.keras.layers.SimpleRNN(4), tf.keras.layers.Dense(1)])
fix(model)
model.compile(loss=tf.keras.losses.Huber(), optimizer=tf.keras.optimizers.SGD(learning_rate=1e-2, momentum=0.9), metrics=["mae"])
h = model.fit(ds, epochs=2, verbose=0)
result = {**h.history}
