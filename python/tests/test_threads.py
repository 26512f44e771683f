"""Threads of a program use the module at the same time, and wait for each other within what the library calls."""

import queue
import threading

import numpy as np

import tandem as tf
from tandem import keras

X, Y = np.arange(256, dtype="float32").reshape(64, 4) / 256, np.ones((64, 1), "float32")


def small_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def side_by_side(count, work):
    """Each of `count` threads calls work(its number); what one of them raises comes out."""
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:  # Which nobody would see in a thread.
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=120)
        assert not each.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]


def in_a_thread(work):
    results = []
    side_by_side(1, lambda _: results.append(work()))
    return results[0]


def test_threads_train_models_of_their_own_and_share_one():
    shared = small_model()
    expected = shared.predict(X, verbose=0)

    def work(number):
        own = small_model()
        assert len(own.fit(X, Y, epochs=3, batch_size=16, verbose=0).history["loss"]) == 3
        np.testing.assert_array_equal(shared.predict(X, verbose=0), expected)

    side_by_side(4, work)
    side_by_side(3, lambda number: shared.fit(X, Y, epochs=2, batch_size=16, verbose=0))
    assert int(shared.optimizer.iterations) == 3 * 2 * 4


def test_threads_share_functions_and_variables():
    total = tf.Variable(0.0)

    @tf.function
    def add(x):
        total.assign_add(tf.reduce_sum(x))
        return x * 2

    def work(number):
        for size in range(1, 20):
            assert add(tf.ones(size % 3 + 1)).numpy().tolist() == [2.0] * (size % 3 + 1)

    side_by_side(6, work)
    assert float(total) == 6 * sum(size % 3 + 1 for size in range(1, 20))


def test_threads_share_data_sets_and_an_iterator():
    numbers = tf.data.Dataset.range(60).map(lambda x: x * 2).prefetch(2)
    iterator, seen = iter(numbers), []

    def work(number):
        assert sum(int(x) for x in numbers) == 59 * 60
        for x in iterator:
            seen.append(int(x))

    side_by_side(4, work)
    assert sorted(seen) == list(range(0, 120, 2))


def test_a_callback_uses_models_and_waits_for_a_thread_that_does():
    other = small_model()

    class Uses(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            assert self.model.predict(X[:4], verbose=0).shape == (4, 1)
            other.train_on_batch(X[:4], Y[:4])

        def on_epoch_end(self, epoch, logs=None):
            self.model.evaluate(X, Y, verbose=0)
            assert in_a_thread(lambda: self.model.predict(X, verbose=0)).shape == (64, 1)
            other.fit(X, Y, verbose=0)

    small_model().fit(X, Y, epochs=2, batch_size=32, verbose=0, callbacks=[Uses()])
    assert int(other.optimizer.iterations) == 2 * (2 + 2)


def test_a_map_calls_functions_and_models_and_waits_for_threads_and_locks():
    lock, model = threading.Lock(), small_model()

    @tf.function
    def tripled(x):
        return x * 3

    def on_the_host(x):
        with lock:
            return in_a_thread(lambda: tripled(x)) + int(model.predict(X[:1], verbose=0).shape[0])

    numbers = tf.data.Dataset.range(8).map(tripled).map(lambda x: tf.py_function(on_the_host, [x], tf.int64)).prefetch(4)

    def work(number):
        for n, x in enumerate(numbers):
            with lock:  # While the map of the next elements waits for it.
                assert int(x * 1) == 9 * n + 1

    side_by_side(3, work)


def test_a_generator_waits_for_what_a_thread_brings():
    given = queue.Queue()
    numbers = tf.data.Dataset.from_generator(lambda: iter(given.get, None), output_signature=tf.TensorSpec((), tf.float32)).prefetch(2)
    timer = threading.Timer(0.2, lambda: [given.put(x) for x in (np.float32(1), np.float32(2), None)])
    timer.start()
    assert [float(x) for x in numbers] == [1.0, 2.0]
    timer.join()
