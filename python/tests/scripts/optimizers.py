import numpy as np
import tensorflow as tf
O = tf.keras.optimizers
result = {}
for o in (O.SGD(0.1), O.SGD(0.1, momentum=0.9, nesterov=True), O.Adam(0.1), O.Adam(0.1, amsgrad=True), O.RMSprop(0.1), O.RMSprop(0.1, centered=True, momentum=0.5), O.Adagrad(0.1), O.Adadelta(1.0), O.Adamax(0.1), O.Nadam(0.1), O.AdamW(0.1), O.Lion(0.01), O.Ftrl(0.1), O.Adam(0.1, clipnorm=0.5), O.SGD(0.1, clipvalue=0.3), O.Adam(O.schedules.ExponentialDecay(0.1, 2, 0.5))):
    v = tf.Variable([1.0, -2.0, 3.0])
    for step in range(4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v * tf.constant([1.0, 0.5, 0.1]))
        o.apply_gradients([(tape.gradient(loss, v), v)])
    result[f"{len(result)}_{type(o).__name__}"] = v.numpy()
