"""Ctrl-C at all that takes long. Each line says what it ended, how many steps were begun after it, and how soon it ended.

What is promised is the end within a second, at a whole step: no step is begun after the signal but the one that was beginning, and the second
is one of another thread's, which sleeps a hundred times for a hundredth of it. On a busy machine both wait for their turn.
"""

import json
import os
import signal
import socket
import threading
import time

import numpy as np

import tandem as tf

signal.signal(signal.SIGINT, signal.default_int_handler)  # What a shell starts in the background ignores it.
clock_of_main = time.pthread_getcpuclockid(threading.main_thread().ident)


class Second(threading.Thread):
    """Counts hundredths of a second, as long as a thread that has to wait for its turn finds them."""

    def __init__(self):
        super().__init__(daemon=True)
        self.hundredths = 0
        self.start()

    def run(self):
        while True:
            time.sleep(0.01)
            self.hundredths += 1


seconds_of_others = Second()


class Steps(tf.keras.callbacks.Callback):
    """Counts the steps that were begun."""

    begun = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.begun += 1

    on_test_batch_begin = on_predict_batch_begin = on_train_batch_begin


def interrupted(what, f, steps=None):
    """Calls `f` and asks for its end: when it has begun five steps, or when it waits for something that does not come."""
    entered, asked = threading.Event(), {}

    def ask():
        entered.wait()
        if steps is None:
            time.sleep(0.3)
        while steps is not None and steps.begun < 5:
            time.sleep(0.001)
        asked.update(own=time.clock_gettime(clock_of_main), hundredths=seconds_of_others.hundredths)
        os.kill(os.getpid(), signal.SIGINT)
        asked["begun"] = 0 if steps is None else steps.begun

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        entered.set()
        f()
        print(what, "was not interrupted")
    except KeyboardInterrupt:
        hundredths, own = seconds_of_others.hundredths, time.clock_gettime(clock_of_main)
        asking.join()
        further = 0 if steps is None else steps.begun - asked["begun"]
        own, seconds = own - asked["own"], (hundredths - asked["hundredths"]) / 100
        assert further <= 1, (what, further)  # The one that was beginning.
        assert own < 1 and seconds <= 1, (what, own, seconds)
        print(what, "ends:", further, "further steps,", f"{own:.3f} s of its own,", f"{seconds:.2f} s")


cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
x, y = np.zeros((64, 4), "float32"), np.zeros((64, 2), "float32")
endless = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(4)


def made():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


def fits(what, model, *data, **options):
    """Weights are those after a whole step."""
    steps = Steps()
    interrupted(what, lambda: model.fit(*data, verbose=0, callbacks=[steps], **options), steps)
    assert steps.begun - 1 <= int(model.optimizer.iterations) <= steps.begun, (what, steps.begun, model.optimizer.iterations)


model = made()
fits("fit", model, x, y, epochs=10**7)
with tf.distribute.MirroredStrategy().scope():
    fits("fit on replicas", made(), endless)


def slow(a, b):
    time.sleep(0.01)
    return a, b


fits("fit of a map", made(), endless.map(slow).prefetch(2))

steps = Steps()
interrupted("evaluate", lambda: model.evaluate(endless, verbose=0, callbacks=[steps]), steps)
steps = Steps()
interrupted("predict", lambda: model.predict(endless.map(lambda a, b: a), verbose=0, callbacks=[steps]), steps)


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    model.optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


def loop():
    for a, b in endless:
        steps.begun += 1
        float(step(a, b))


steps = Steps()
interrupted("a loop", loop, steps)


def elements_of_a_map():
    for _ in endless.map(lambda a, b: (tf.py_function(lambda v: v, [a], tf.float32), b)):
        steps.begun += 1


steps = Steps()
interrupted("a map", elements_of_a_map, steps)


@tf.function
def counted(end):
    i, total = tf.constant(0.0), tf.zeros((16,))
    while i < end:
        i += 1.0
        total += tf.sin(total + i)
    return i


assert float(counted(tf.constant(10.0))) == 10
interrupted("a compiled loop", lambda: counted(tf.constant(float("inf"))))
assert float(counted(tf.constant(20.0))) == 20
interrupted("tf.while_loop", lambda: tf.while_loop(lambda i: i < float("inf"), lambda i: (i + 1.0,), [tf.constant(0.0)]))


def elements():
    yield 1.0
    time.sleep(60)


generated = tf.data.Dataset.from_generator(elements, output_signature=tf.TensorSpec((), tf.float32))
interrupted("a wait in a generator", lambda: list(generated))
interrupted("a wait for data", lambda: list(generated.prefetch(2)))


def take_part(task, **cluster):
    """In a cluster whose other tasks are never started."""
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": task, "index": len(cluster[task]) - 1}})


take_part("worker", worker=["127.0.0.1:1", "127.0.0.1:2"])
interrupted("a wait for workers", tf.distribute.MultiWorkerMirroredStrategy)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    own = free.getsockname()
take_part("chief", chief=[f"{own[0]}:{own[1]}"], worker=["127.0.0.1:1"], ps=["127.0.0.1:2"])
with tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver()).scope():
    served = made()
interrupted("a wait for servers", lambda: served.fit(x, y, verbose=0))

print("and goes on:", len(model.fit(x, y, verbose=0).epoch), flush=True)
os._exit(0)  # Not after what the generator waits for.
