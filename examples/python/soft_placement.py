"""A variable of whole numbers has no place on a GPU: with soft placement it goes to the CPU, without it is an error."""

import tandem as tf

tf.config.set_soft_device_placement(False)
try:
    with tf.device("/gpu:0"):
        tf.Variable(0, name="a_gpu")
except tf.errors.NotFoundError as error:
    print("without soft placement:", error)

tf.config.set_soft_device_placement(True)
with tf.device("/gpu:0"):
    a_gpu = tf.Variable(0, name="a_gpu")
print("with soft placement:", a_gpu.device)
