"""Where operations run: constants on the CPU, the sum on the second GPU, and what the log says of it.

Without GPUs the sum falls back to the CPU, which the library says once.
"""

import tandem as tf

tf.debugging.set_log_device_placement(True)

with tf.device("/cpu:0"):
    a = tf.constant([1.0, 2.0, 3.0], shape=[3], name="a")
    b = tf.constant([1.0, 2.0, 3.0], shape=[3], name="b")
with tf.device("/gpu:1"):
    c = a + b
print(c)
for op, requested, device, reason in tf.placement_report():
    print(f"{op} on {device}: {reason}")
