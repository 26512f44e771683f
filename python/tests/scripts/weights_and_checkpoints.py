import os, tempfile
import numpy as np
import tensorflow as tf
from common import data, fix
x, y = data()
folder = tempfile.mkdtemp()
make = lambda: tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(3)])
model = fix(make())
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=1, shuffle=False, verbose=0)
before = model.predict(x[:3], verbose=0)
model.save_weights(os.path.join(folder, "w.weights.h5"))
other = make(); other.load_weights(os.path.join(folder, "w.weights.h5"))
model.save(os.path.join(folder, "m.keras"))
loaded = tf.keras.models.load_model(os.path.join(folder, "m.keras"))
ckpt = tf.train.Checkpoint(model=model, step=tf.Variable(7))
path = ckpt.save(os.path.join(folder, "ckpt"))
third = make(); step = tf.Variable(0)
tf.train.Checkpoint(model=third, step=step).restore(tf.train.latest_checkpoint(folder))
h = loaded.fit(x, y, epochs=1, shuffle=False, verbose=0)
result = {"before": before, "h5": other.predict(x[:3], verbose=0), "keras": loaded.predict(x[:3], verbose=0), "ckpt": third.predict(x[:3], verbose=0), "step": int(step), "name": [float(os.path.basename(path) == "ckpt-1")], "again": h.history["loss"]}
