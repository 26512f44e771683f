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
