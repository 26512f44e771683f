import tensorflow as tf
from common import data, fix
x, y = data()
model = fix(tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(6, activation="elu", kernel_regularizer=tf.keras.regularizers.l2(0.01)), tf.keras.layers.Dense(3)]))
seen = []
class Recorder(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        seen.append(logs["loss"])
        if epoch == 4:
            self.model.stop_training = True
    def on_train_batch_end(self, batch, logs=None):
        seen.append(float(batch))
model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
h = model.fit(x, y, epochs=8, batch_size=48, shuffle=False, verbose=0, callbacks=[Recorder(), tf.keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9), tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, min_delta=0.5)])
s = tf.keras.optimizers.schedules
rates = [float(sch(step)) for sch in (s.ExponentialDecay(0.1, 10, 0.5, staircase=True), s.CosineDecay(0.1, 20), s.PolynomialDecay(0.1, 20, 0.01, power=2.0), s.InverseTimeDecay(0.1, 5, 0.5), s.PiecewiseConstantDecay([5, 10], [1.0, 0.5, 0.1])) for step in (0, 3, 7, 12, 25)]
result = {"seen": seen, "rates": rates, "losses": h.history["loss"], "lr": h.history["learning_rate"]}
