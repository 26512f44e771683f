"""Branches and loops on tensors become part of the program."""

import pytest

import tandem as tf

pytestmark = pytest.mark.filterwarnings("error")


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
def odd_sum(n):
    total = 0
    for i in tf.range(n):
        if i > 7:
            break
        if i % 2 == 0:
            continue
        total += i
    return total


@tf.function
def early(x, flag=True):
    if x is None:
        return tf.constant(-1.0)
    if tf.reduce_sum(x) > 10:
        return tf.reduce_sum(x)
    y = x * 2
    if flag and tf.reduce_max(y) > 3:
        y = y + 100
    z = y if tf.reduce_min(y) > 0 else -y
    return tf.reduce_sum(z)


def test_while_and_if():
    assert [int(collatz(tf.constant(n))) for n in (6, 7, 1)] == [8, 16, 0]
    assert collatz.experimental_get_tracing_count() == 1


def test_for_with_break_and_continue():
    assert [int(odd_sum(tf.constant(n))) for n in (5, 20)] == [4, 16]
    assert odd_sum.experimental_get_tracing_count() == 1


def test_returns_from_branches():
    values = [float(early(tf.constant([v]))) for v in (20.0, 1.0, 2.0, -2.0)]
    assert values == [20.0, 2.0, 104.0, 4.0] and float(early(None)) == -1 and float(early(tf.constant([2.0]), False)) == 4


def test_pythons_own_values_stay_pythons():
    @tf.function
    def f(xs, k):
        total = 0.0
        for j, x in enumerate(xs):
            if j >= k:
                break
            total += x
        while k < 5:
            k += 1
        return total, k

    total, k = f([tf.constant(1.0), tf.constant(2.0)], 1)
    assert float(total) == 1.0 and int(k) == 5


def test_gradients_pass_through_branches():
    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            if tf.reduce_sum(x) > 0:
                y = x * 3
            else:
                y = x * 5
        return tape.gradient(y, x)

    assert float(f(tf.constant(1.0))) == 3 and float(f(tf.constant(-1.0))) == 5


def clipped(x):
    if tf.reduce_max(x) > 1.0:
        x = x / tf.reduce_max(x)
    return x


def test_functions_that_are_called_are_converted():
    @tf.function
    def f(x):
        return clipped(x) + 1.0

    assert f(tf.constant([2.0, 4.0])).numpy().tolist() == [1.5, 2.0]
    assert f(tf.constant([0.25, 0.5])).numpy().tolist() == [1.25, 1.5]
    assert f.experimental_get_tracing_count() <= 2


class Gate(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.__factor = 2.0

    def call(self, x):
        if tf.reduce_sum(x) > 0.0:
            y = x * self.__factor
        else:
            y = -x
        return y


class Guarded(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.gate, self.dense = Gate(), tf.keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        return self.dense(self.gate(x))

    def train_step(self, data):
        if data is not None:
            return super().train_step(data)


def test_layers_and_steps_of_fit_are_converted():
    model = Guarded()
    model.compile("sgd", "mse")
    model.fit(tf.ones((4, 3)), tf.ones((4, 1)), verbose=0)
    gate = Gate()
    model = tf.keras.Sequential([gate])
    assert model.predict(tf.ones((1, 2)), verbose=0).tolist() == [[2.0, 2.0]]
    assert model.predict(-tf.ones((1, 2)), verbose=0).tolist() == [[1.0, 1.0]]
