import copy
import dataclasses
import gc
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import tandem as tf


def test_a_function_is_traced_once_for_each_kind_of_arguments():
    traces = []

    @tf.function
    def f(x, training=False):
        traces.append(training)
        return {"y": x * 2, "more": (x + 1, 3)}

    a = f(tf.ones(2))
    f(tf.zeros(2), training=False)
    assert a["y"].numpy().tolist() == [2.0, 2.0] and a["more"][1].numpy() == 3
    assert traces == [False]
    f(tf.ones(2), training=True)
    f(x=tf.ones(2), training=True)
    assert traces == [False, True]


def test_structures_go_in_and_out():
    @dataclasses.dataclass
    class Pair:
        a: object
        b: object

    @tf.function
    def f(d, p):
        return {"sum": d["x"] + d["y"][0]}, Pair(p.b, p.a), [None, d["x"]]

    sums, pair, rest = f({"x": tf.constant(1.0), "y": [tf.constant(2.0)]}, Pair(tf.constant(3.0), tf.constant(4.0)))
    assert float(sums["sum"]) == 3 and float(pair.a) == 4 and rest[0] is None and float(rest[1]) == 1


def test_signatures_of_methods_have_no_self():
    import inspect

    class Layer(tf.keras.layers.Layer):
        @tf.function
        def call(self, x, training=True):
            return x * 2.0 if training else x

    layer = Layer()
    assert list(inspect.signature(layer.call).parameters) == ["x", "training"]
    assert [float(layer(tf.constant(1.0), training)) for training in (True, False)] == [2.0, 1.0]


def test_input_signature():
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def f(x):
        return tf.reduce_sum(x, axis=1)

    assert f(tf.ones((3, 2))).shape == (3,) and f(tf.ones((5, 2))).shape == (5,)
    assert f.experimental_get_tracing_count() == 1
    with pytest.raises(TypeError):
        f(tf.ones((3, 3)))
    assert f.get_concrete_function()(tf.ones((2, 2))).shape == (2,)


def test_methods_have_functions_of_their_own():
    class Counter:
        def __init__(self, by):
            self.by, self.v = by, tf.Variable(0.0)

        @tf.function
        def step(self, x):
            self.v.assign_add(x * self.by)
            return self.v.read_value()

    a, b = Counter(1.0), Counter(10.0)
    a.step(tf.constant(1.0))
    assert float(a.step(tf.constant(1.0))) == 2 and float(b.step(tf.constant(1.0))) == 10


def test_variables_may_be_made_on_the_first_call():
    class M(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = None

        @tf.function
        def __call__(self, x):
            if self.w is None:
                self.w = tf.Variable([[3.0], [3.0]])
            return x @ self.w

    m = M()
    assert m(tf.ones((1, 2))).numpy().tolist() == [[6.0]] and len(m.trainable_variables) == 1


def test_the_number_of_rows_as_a_size():
    @tf.function
    def f(x):
        n = tf.shape(x)[0]
        return tf.reshape(x, (n, -1)), tf.zeros((n, 2)), tf.cast(n, tf.float32), tf.range(n)

    for rows in (3, 5):
        a, b, c, d = f(tf.ones((rows, 2, 2)))
        assert a.shape == (rows, 4) and b.shape == (rows, 2) and float(c) == rows and d.shape == (rows,)


def test_exceptions_come_out_as_themselves():
    class Own(Exception):
        pass

    @tf.function
    def f(x):
        raise Own("here")

    with pytest.raises(Own, match="here"):
        f(tf.ones(2))

    def bad(x):
        if int(x) == 3:
            raise Own("in a map")
        return x

    dataset = tf.data.Dataset.range(5).map(bad).prefetch(2)
    with pytest.raises(Own, match="in a map"):
        list(dataset)
    with pytest.raises(Own):
        list(tf.data.Dataset.from_generator(lambda: (bad(i) for i in range(5)), output_signature=tf.TensorSpec((), tf.int32)).batch(2))


def test_what_cannot_be_traced_runs_op_by_op_with_a_warning():
    @tf.function
    def f(x):
        return tf.constant(float(np.asarray(x).sum()))

    @tf.function
    def g(x):
        return x.numpy().sum() + np.mean(x)

    for function, value in ((f, 3.0), (g, 4.0)):
        with pytest.warns(UserWarning, match=r"op by op.*test_functions.py:\d+") as warned:
            assert float(function(tf.ones(3))) == value and float(function(2 * tf.ones(3))) == 2 * value
        assert len(warned) == 1, [str(w.message) for w in warned]


def test_cond_and_while_loop():
    @tf.function
    def f(x):
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: -x)
        i, s = tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + y), (tf.constant(0), tf.zeros(2)))
        return s

    assert f(tf.constant([1.0, 1.0])).numpy().tolist() == [8.0, 8.0]
    assert f(tf.constant([-1.0, -1.0])).numpy().tolist() == [4.0, 4.0]


def test_the_lock_is_let_go_while_the_library_computes():
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0)

    a = tf.random.normal((600, 600))
    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # Nobody is made to let go of it.
    try:
        thread.start()
        before = counted[0]
        for _ in range(1000):  # A busy machine may not let the other thread run at once.
            tf.matmul(a, a)
            if counted[0] > before:
                break
        after = counted[0]
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    assert after > before


def test_nested_functions_and_tapes():
    v = tf.Variable(3.0)

    @tf.function
    def inner(x):
        return x * v

    @tf.function
    def outer(x):
        with tf.GradientTape() as tape:
            y = inner(x) ** 2
        return tape.gradient(y, v)

    assert float(outer(tf.constant(2.0))) == 24.0
    with tf.GradientTape() as tape:
        y = inner(tf.constant(2.0))
    assert float(tape.gradient(y, v)) == 2.0
    with pytest.raises(RuntimeError, match="non-persistent"):
        tape.gradient(y, v)


def test_gradients_pass_through_loops_of_unknown_length():
    w = tf.Variable([[0.5, -0.2], [0.1, 0.4]])
    traced = []

    def loss_gradient(x, steps):
        traced.append(1)
        with tf.GradientTape() as tape:
            h = tf.zeros_like(x)
            for _ in tf.range(steps):
                h = tf.tanh(tf.matmul(h, w) + x)
            loss = tf.reduce_sum(h * h)
        return tape.gradient(loss, w)

    x = tf.constant([[1.0, 2.0], [-0.5, 0.3]])
    compiled = tf.function(loss_gradient)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # None says that it runs op by op.
        for steps in (0, 1, 5):
            got = compiled(x, tf.constant(steps))
            expected = loss_gradient(x, steps)
            np.testing.assert_allclose(got, np.zeros((2, 2)) if expected is None else expected, rtol=1e-5, atol=1e-6)
    assert compiled.experimental_get_tracing_count() == 1


def test_while_loop_has_a_gradient_and_a_limit():
    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            _, y = tf.while_loop(lambda i, y: i < 100, lambda i, y: (i + 1, y * x), (tf.constant(0), x), maximum_iterations=3)
        return y, tape.gradient(y, x)

    y, gradient = f(tf.constant(2.0))
    assert float(y) == 16.0 and float(gradient) == 32.0


class Traces:
    count = 0


class Counted(tf.Module):
    def note(self):
        Traces.count += 1


counted, model, optimizer = Counted(), tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)]), tf.keras.optimizers.SGD(0.1)
scale = 1.0


def test_functions_that_are_made_anew_are_recognised():
    def fresh(factor, scales):
        def offset(x):
            return x + scales["offset"]

        @tf.function
        def inner(x):
            counted.note()
            return offset(x * factor) * scale

        return float(inner(tf.constant(3.0)))

    global scale
    Traces.count = 0
    assert [fresh(2.0, {"offset": 1.0}) for _ in range(3)] == [7.0] * 3 and Traces.count == 1
    assert fresh(5.0, {"offset": 1.0}) == 16.0 and fresh(5.0, {"offset": 2.0}) == 17.0 and Traces.count == 3
    scale = 2.0
    assert fresh(2.0, {"offset": 1.0}) == 14.0 and Traces.count == 4
    for _ in range(3):
        tf.function(lambda x: x + (counted is None))(tf.constant(1.0))
    for k in range(50):
        fresh(float(k), {"offset": 1.0})
    assert len(vars(counted)["_tandem_recognised"]) == 32  # The last of them.
    del vars(counted)["_tandem_recognised"]
    fresh(5.0, {"offset": 1.0})
    held = vars(counted)["_tandem_recognised"]
    assert len(held) == 1 and not vars(copy.deepcopy(counted)).get("_tandem_recognised")


def test_a_step_that_is_made_anew_sees_which_layers_are_trained():
    def train():
        @tf.function
        def step(x):
            counted.note()
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x) ** 2)
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

        before = model.layers[0].get_weights()[0]
        step(tf.ones((4, 2)))
        return not np.array_equal(before, model.layers[0].get_weights()[0])

    Traces.count, changed = 0, []
    for trainable in (False, False, True, True, False):
        model.layers[0].trainable = trainable
        changed.append(train())
    assert changed == [False, False, True, True, False] and Traces.count == 2


def test_what_a_function_holds_does_not_live_longer_because_of_it():
    def made():
        inner = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2)])

        @tf.function
        def step(x):
            return inner(x)

        step(tf.ones((1, 2)))
        return weakref.ref(inner)

    references = [made() for _ in range(3)]
    gc.collect()
    assert not any(r() is not None for r in references)


def test_a_function_that_is_traced_again_and_again_says_so():
    f = tf.function(lambda x, k: x * k)
    with pytest.warns(UserWarning, match=r"17th kind of arguments .*test_functions.py:\d+") as warned:
        for k in range(40):
            f(tf.constant(1.0), k)
    assert len(warned) == 1


def test_steps_of_replicas_that_are_made_anew_are_recognised():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")

    def made(factor):
        def loss_of(x):
            return x * factor

        def step(x):
            counted.note()
            return loss_of(x) + 1.0

        return step

    Traces.count = 0
    assert [float(strategy.run(made(k), args=(tf.constant(2.0),))) for k in (3.0, 3.0, 4.0, 3.0)] == [7.0, 7.0, 9.0, 7.0]
    assert Traces.count == 2


def test_functions_that_are_made_anew_see_what_changed_in_objects():
    class Scaled(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.factor, self.options, self.calls = 2.0, {"offset": 0.0}, 0
            self.inner = tf.keras.layers.Dropout(0.5)

        def call(self, x):
            Traces.count += 1
            return self.inner(self.scale(x))

        def scale(self, x):
            return x * self.factor + self.options["offset"]

        def train(self):
            self.calls += 1
            return float(tf.function(lambda x: self(x))(tf.constant([1.0]))[0])

    class Holder(tf.Module):
        def __init__(self):
            super().__init__()
            self.factor = 2.0

    layer, holder, rule, weight = Scaled(), Holder(), tf.keras.optimizers.SGD(1.0), tf.Variable(10.0)
    layer.train()
    Traces.count = 0
    assert [layer.train(), layer.train(), layer.calls] == [2.0, 2.0, 3] and Traces.count <= 1  # It was built meanwhile.
    layer.factor = 3.0
    assert layer.train() == 3.0
    layer.options["offset"] = 1.0
    assert layer.train() == 4.0
    layer.factor, layer.options = 2.0, {"offset": 0.0}
    Traces.count = 0
    assert layer.train() == 2.0 and Traces.count == 0

    def held(x):
        return float(tf.function(lambda x: x * holder.factor)(x))

    assert held(tf.constant(1.0)) == 2.0
    holder.factor = 5.0
    assert held(tf.constant(1.0)) == 5.0

    def change():
        tf.function(lambda: rule.apply_gradients([(tf.constant(1.0), weight)]))()
        return float(weight)

    assert change() == 9.0
    rule.learning_rate = 0.5
    assert change() == 8.5
    with pytest.warns(UserWarning, match="`clipvalue` has no effect after the first step"):
        rule.clipvalue = 0.5


rate = 1.0


def test_python_that_runs_steps_on_replicas_itself_sees_what_changed():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])

    class Trainer:
        def __init__(self):
            self.factor, self.steps = 2.0, 0

        def step(self, x):
            Traces.count += 1
            return x * self.factor * rate

        def train(self):
            self.steps += 1
            return float(strategy.run(self.step, args=(tf.constant(1.0),)))

        @tf.function
        def compiled(self, x):
            return strategy.run(self.step, args=(x,))

    global rate
    trainer, Traces.count = Trainer(), 0
    assert [trainer.train() for _ in range(3)] == [2.0] * 3 and Traces.count == 1
    trainer.factor = 3.0
    assert trainer.train() == 3.0
    rate = 10.0
    assert trainer.train() == 30.0
    assert float(trainer.compiled(tf.constant(1.0))) == 30.0
    rate = 1.0
    assert trainer.train() == 3.0
    assert float(trainer.compiled(tf.constant(1.0))) == 30.0  # What it read when it was traced, as in TensorFlow.


def test_functions_with_a_gradient_of_their_own_may_read_variables():
    scale, offset = tf.Variable(2.0), tf.Variable(1.0)

    @tf.custom_gradient
    def scaled(x):
        def gradient(upstream, variables=None):
            assert {id(v) for v in variables} == {id(scale), id(offset)}
            return upstream * 10.0, [upstream * (100.0 if v is scale else 1000.0) for v in variables]

        return x * scale + offset, gradient

    @tf.custom_gradient
    def silent(x):
        return x * scale, lambda upstream: upstream

    def gradients():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = scaled(x)
        return y, tape.gradient(y, [x, scale, offset])

    for run in (gradients, tf.function(gradients)):
        y, found = run()
        assert float(y) == 7.0 and [float(g) for g in found] == [10.0, 100.0, 1000.0]
    with tf.GradientTape(), pytest.raises(TypeError, match="variables"):
        silent(tf.constant(3.0))


def test_concrete_functions_say_what_they_take_and_give():
    @tf.function
    def f(a, factor=2, *, c, d=None):
        return {"rows": tf.reduce_sum(a, axis=1) * c, "all": [a * factor]}

    concrete = f.get_concrete_function(tf.TensorSpec([None, 3]), c=tf.TensorSpec([], name="cc"))
    first = tf.TensorSpec([None, 3], tf.float32, "a")
    assert concrete.structured_input_signature == ((first, 2), {"c": tf.TensorSpec([]), "d": None})
    assert [s.name for s in concrete.inputs] == ["a", "cc"] and concrete.structured_input_signature[1]["c"].name == "cc"
    assert concrete.output_shapes == {"rows": tf.TensorShape([None]), "all": [tf.TensorShape([None, 3])]} and f.experimental_get_tracing_count() == 0
    assert [s.shape.as_list() for s in concrete.outputs] == [[None, 3], [None]] and concrete.output_dtypes["rows"] == tf.float32
    for given in (concrete(tf.ones((2, 3)), c=2.0), concrete(a=tf.ones((2, 3)), cc=tf.constant(2.0)), concrete(tf.ones((2, 3)), 2, c=2.0)):
        assert given["rows"].numpy().tolist() == [6.0, 6.0] and given["all"][0].shape == (2, 3)
    for wrong in (lambda: concrete(tf.ones((2, 3))), lambda: concrete(tf.ones((2, 3)), 3, c=2.0), lambda: concrete(tf.ones((2, 3)), c=1.0, q=1)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(tf.errors.InvalidArgumentError, match="`a` is float32 in this concrete function, int32"):
        concrete(tf.ones((2, 3), tf.int32), c=1.0)


def test_signatures_take_lists_in_the_place_of_tensors():
    @tf.function(input_signature=[{"a": tf.TensorSpec([None], tf.float32), "b": tf.TensorSpec([], tf.int32)}])
    def f(d):
        return d["a"] * tf.cast(d["b"], tf.float32)

    assert f({"a": [1.0, 2.0, 3.0], "b": 2}).numpy().tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(TypeError, match="the keys"):
        f({"a": [1.0]})


def test_data_classes_say_which_of_their_fields_are_plain():
    @dataclasses.dataclass
    class Scaled:
        x: object
        factor: int

        def __tf_flatten__(self):
            return (self.factor,), (self.x,)

        @classmethod
        def __tf_unflatten__(cls, metadata, components):
            return cls(components[0], metadata[0])

    traces = []

    @tf.function
    def f(s):
        traces.append(s.factor)
        return Scaled(s.x * s.factor, s.factor + 1)

    results = [f(Scaled(tf.constant(2.0), k)) for k in (3, 3, 4)]
    assert [float(r.x) for r in results] == [6.0, 6.0, 8.0] and [r.factor for r in results] == [4, 4, 5] and traces == [3, 4]


def test_shapes_of_a_trace_are_printed_after_it_too():
    shapes = []
    tf.function(lambda x: shapes.append(x.shape) or x, input_signature=[tf.TensorSpec([None, 3])])(tf.ones((2, 3)))
    assert repr(shapes[0]) == "TensorShape([None, 3])" and str(shapes[0]) == "(None, 3)"


def test_ragged_arguments_are_traced_for_each_layout_of_rows():
    traces = []

    @tf.function
    def sums(r, factor=2.0):
        traces.append(1)
        return tf.reduce_sum(r * factor, axis=1)

    for i in range(4):
        values = tf.constant([1.0, 2.0, 3.0]) * i
        found = sums(tf.RaggedTensor.from_row_lengths(values, [1, 2] if i < 3 else [2, 1]))
        assert found.numpy().tolist() == ([2.0 * i, 10.0 * i] if i < 3 else [6.0 * i, 6.0 * i])
    assert len(traces) == 2
    v = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.reduce_sum(sums(tf.RaggedTensor.from_row_lengths(v, [1, 2])) ** 2)
    assert tape.gradient(y, v).numpy().tolist() == [8.0, 40.0, 40.0]


def test_functions_run_as_python_where_asked_for():
    seen = []

    @tf.function
    def doubled(x):
        seen.append(float(x))
        return 2 * x

    tf.config.run_functions_eagerly(True)
    try:
        assert [float(doubled(tf.constant(x))) for x in (1.0, 3.0)] == [2.0, 6.0] and seen == [1.0, 3.0]
    finally:
        tf.config.run_functions_eagerly(False)
