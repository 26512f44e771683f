import tensorflow as tf
@tf.function
def collatz(n):
    steps = tf.constant(0)
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps
@tf.function
def total(x):
    s = tf.constant(0.0)
    for i in tf.range(5):
        s += tf.cast(i, tf.float32) * tf.reduce_sum(x)
    return s
@tf.function
def sign(x):
    if tf.reduce_sum(x) > 0:
        return x * 2
    else:
        return -x
@tf.function
def search(values, wanted):
    place = tf.constant(-1)
    for i in tf.range(4):
        if values[i] == wanted:
            place = i
            break
    return place
x = tf.constant([1.0, 2.0])
result = {"collatz": [int(collatz(tf.constant(n))) for n in (6, 7, 1)], "total": total(x), "sign": [sign(x).numpy().tolist(), sign(-x).numpy().tolist()], "search": [int(search(tf.constant([3, 5, 7, 9]), tf.constant(w))) for w in (7, 4)]}
