"""Branches and loops on tensors become part of the program."""

import sys

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


def test_lambdas_and_chains_of_comparisons():
    f, g = tf.function(lambda x: x * 2 if tf.reduce_sum(x) > 0 else -x), tf.function(lambda x, k=3: (lambda y: y + k)(x) if 0 < x < 10 else x)
    assert f(tf.constant([1.0])).numpy().tolist() == [2.0] and f(tf.constant([-1.0])).numpy().tolist() == [1.0]
    assert [int(g(tf.constant(v))) for v in (5, 10, -1)] == [8, 10, -1]


@tf.function
def first_above(x, limit):
    for i in tf.range(10):
        for j in tf.range(3):
            if x + i * j > limit:
                return i * 100 + j
    return -1


@tf.function
def halves(x):
    while x < 100:
        x = x * 2
        if x % 7 == 0:
            return -x
    else:
        x = x + 1
    return x


def test_returns_from_loops():
    assert [int(first_above(tf.constant(0), tf.constant(n))) for n in (5, 0, 50)] == [302, 101, -1]
    assert [int(halves(tf.constant(n))) for n in (3, 7, 200)] == [193, -14, 201]
    assert first_above.experimental_get_tracing_count() == halves.experimental_get_tracing_count() == 1


@tf.function
def nested(k):
    total = 0
    for i in range(k):
        if i == 2:
            continue
        j = 0
        while True:
            j += 1
            if j > i:
                break
            if j == 3:
                continue
            total += j
        if total > 50:
            break
    return total


@tf.function
def last_of(k):
    for i in tf.range(k):
        y = i * 2
        z = y + 1
    return y, int(z), float(z), max(y, z, 3)


def test_loops_in_loops_and_values_that_a_loop_makes():
    def plain(k):
        return nested.python_function(k)

    assert [int(nested(tf.constant(k))) for k in (0, 3, 6, 20)] == [plain(k) for k in (0, 3, 6, 20)]
    assert [v.numpy() for v in last_of(tf.constant(3))] == [4, 5, 5.0, 5] and last_of(tf.constant(3))[2].dtype == tf.float32
    assert nested.experimental_get_tracing_count() == last_of.experimental_get_tracing_count() == 1


class Box:
    def __init__(self):
        self.total, self.seen, self.__own = None, tf.Variable(0), 5

    @tf.function
    def summed(self, k):
        self.total = tf.constant(0)
        for i in tf.range(k):
            self.total += i
            self.__own = self.__own + i
            self.seen.assign_add(1)
        result, self.total = self.total + self.__own, None
        self.__own = 5
        return result


@tf.function
def items(x, k):
    pair, state = [tf.constant(0), tf.constant(1)], {"a": tf.constant(0), "b": {"c": tf.constant(1.0)}}
    if x > 0:
        pair[0] = x
    else:
        pair[1] = x
    for i in tf.range(k):
        state["a"] += i
        state["b"]["c"] = state["b"]["c"] * 2.0
    return pair, state["a"], state["b"]["c"]


def test_attributes_and_items_are_carried():
    box = Box()
    assert [int(box.summed(tf.constant(k))) for k in (5, 3)] == [25, 11] and int(box.seen) == 8
    for x, pair in ((4, [4, 1]), (-4, [0, -4])):
        got, a, c = items(tf.constant(x), tf.constant(3))
        assert [int(v) for v in got] == pair and int(a) == 3 and float(c) == 8.0


def test_what_is_printed_and_checked_happens_at_each_run(capsys):
    v = tf.Variable(1)

    @tf.function
    def f(x):
        tf.print("run", x, v, output_stream=sys.stdout)
        v.assign_add(1)
        if x > 1:
            tf.print("large", {"x": x}, output_stream=sys.stdout)
            assert x < 4, "below four"
        tf.debugging.assert_greater(x, 0, message="no negatives")
        return x * 2

    @tf.function
    def outer(x):
        return f(x) + 1

    assert int(f(tf.constant(1))) == 2 and int(outer(tf.constant(2))) == 5 and int(f(tf.constant(3))) == 6
    assert capsys.readouterr().out.splitlines() == ["run 1 1", "run 2 2", "large {'x': 2}", "run 3 3", "large {'x': 3}"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="below four"):
        f(tf.constant(4))
    with pytest.raises(ValueError, match="no negatives"):
        outer(tf.constant(-1))
    assert f.experimental_get_tracing_count() <= 3


def test_functions_over_elements_are_converted():
    @tf.function
    def f(x):
        return tf.map_fn(lambda v: v * 2.0 if v > 0.0 else -v, x) + tf.foldl(lambda a, v: a if a > v else v, x)

    assert f(tf.constant([1.0, -3.0, 2.0])).numpy().tolist() == [4.0, 5.0, 6.0]


def test_arrays_that_a_loop_of_known_length_writes():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x):
        out = tf.TensorArray(tf.float32, size=3)
        for i in tf.range(1, 4):
            out = out.write(i, tf.reduce_sum(x) * tf.cast(i, tf.float32))
        return out.stack()[1:]

    assert f(tf.constant([1.0, 1.0])).numpy().tolist() == [2.0, 4.0, 6.0]


class Talks(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)

    def call(self, x):
        tf.print("rows", tf.shape(x)[0], output_stream=sys.stdout)
        tf.debugging.assert_less(tf.reduce_max(x), 2.0, message="too large")
        return self.dense(x)


def test_steps_of_fit_print_and_check(capsys):
    model = Talks()
    model.compile("sgd", "mse")
    model.fit(tf.ones((6, 3)), tf.ones((6, 1)), batch_size=4, verbose=0)
    assert capsys.readouterr().out.splitlines() == ["rows 4", "rows 2"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        model.fit(tf.ones((6, 3)) * 3.0, tf.ones((6, 1)), verbose=0)


def test_rows_that_must_be_known_in_a_loop():
    @tf.function
    def f(x, n):
        for _ in tf.range(n):
            x = x @ x
        return x

    assert f(tf.eye(3) * 2.0, tf.constant(2)).numpy().tolist() == (tf.eye(3) * 16.0).numpy().tolist()
    assert f(tf.eye(2), tf.constant(5)).shape == (2, 2)


latest = 0


def test_globals_outer_variables_and_comprehensions():
    calls = 0

    @tf.function
    def f(x):
        global latest
        nonlocal calls
        calls += 1
        latest = tf.constant(0)
        if x > 0:
            latest = x * 2
        else:
            latest = -x
        for _ in tf.range(x):
            latest += 1
        result, latest = latest, calls
        return result + tf.add_n([v * 10 if v > 1 else v for v in (x, x + 1)])

    assert [int(f(tf.constant(v))) for v in (3, 1, -4)] == [9 + 70, 3 + 21, 4 - 7] and latest == calls == 1


def test_ranges_go_down_and_are_named():
    @tf.function
    def down(n):
        digits = 0
        for i in tf.range(n, 0, -2):
            digits = digits * 10 + i
        for i in tf.range(start=n, limit=-1, delta=-3):
            digits = digits * 10 + i
        return digits

    @tf.function
    def either_way(start, limit, delta):
        digits = 0
        for i in tf.range(start, limit, delta):
            digits = digits * 10 + i
        return digits

    assert int(down(tf.constant(7))) == 7531741 and int(down(tf.constant(0))) == 0
    up, back = either_way(*map(tf.constant, (1, 8, 3))), either_way(*map(tf.constant, (7, 0, -2)))
    assert (int(up), int(back)) == (147, 7531) and int(either_way(*map(tf.constant, (1, -8, 3)))) == 0


def test_what_follows_and_or_is_computed_only_where_it_counts():
    asked = tf.Variable(0)

    def ask():
        asked.assign_add(1)
        return asked > 0

    @tf.function
    def positives(x):
        i = 0
        while i < tf.size(x) and x[i] > 0:
            i += 1
        return i

    @tf.function
    def both(a):
        return (a > 0 and ask(), a > 0 or ask())

    assert int(positives(tf.constant([1, 2, 3]))) == 3 and int(positives(tf.constant([1, -2, 3]))) == 1
    assert [bool(v) for v in both(tf.constant(1))] == [True, True] and int(asked) == 1
    assert [bool(v) for v in both(tf.constant(-1))] == [False, True] and int(asked) == 2


def test_a_while_loop_whose_variable_grows_runs_op_by_op():
    @tf.function
    def grow(n):
        return tf.while_loop(
            lambda i, x: i < n,
            lambda i, x: (i + 1, tf.concat([x, x], 0)),
            (tf.constant(0), tf.ones([1])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )

    with pytest.warns(UserWarning, match="runs op by op"):
        assert grow(tf.constant(3))[1].shape == (8,)
    assert grow(tf.constant(2))[1].shape == (4,)
