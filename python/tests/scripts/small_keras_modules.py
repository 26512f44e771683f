"""keras.quantizers, keras.tree, keras.config, keras.dtype_policies and operations of one's own."""

import keras
import numpy as np
import tensorflow as tf

Q, T, C = keras.quantizers, keras.tree, keras.config
x = np.linspace(-2, 3, 12).reshape(3, 4).astype("float32")
small = np.array([[1, -2], [3, -4], [7, -8], [0, 5]], "int8")
result = {}


def flat(values):
    return np.concatenate([np.ravel(np.asarray(tf.cast(v, tf.float64) if hasattr(v, "dtype") else v, dtype=np.float64)) for v in tf.nest.flatten(values)])


result["quantized"] = flat([Q.abs_max_quantize(x, axis=0), Q.abs_max_quantize(x, axis=(0, 1), value_range=(-7, 7)), Q.AbsMaxQuantizer(axis=1)(x), Q.AbsMaxQuantizer()(x)])
packed, shape, rows = Q.pack_int4(small)
result["packed"] = [*flat(packed), *shape, rows, *flat(Q.unpack_int4(packed, rows)), *flat(Q.pack_int4(small[:, :1], axis=1)[0])]
with tf.GradientTape() as tape:
    v = tf.constant(x)
    tape.watch(v)
    y = Q.fake_quant_with_min_max_vars(v, -1.0, 2.0)
result["as if of few bits"] = flat([
    y, tape.gradient(y, v), Q.fake_quant_with_min_max_vars(x, -1.3, 2.1, num_bits=3, narrow_range=True),
    Q.fake_quant_with_min_max_vars(x, [-1.0, -1.0, 0.0, -2.0], [1.0, 2.0, 3.0, 1.0], axis=1), Q.quantize_and_dequantize(x, np.float32(0.01), "float16", "float32"),
])
result["scales"] = flat([Q.compute_float8_scale(2.0, 1.0, 448.0), Q.compute_float8_amax_history(x, np.array([1.0, 2.0, 3.0], "float32"))])
result["configured"] = [Q.get("abs_max_quantizer").value_range[1], Q.AbsMaxQuantizer.from_config(Q.AbsMaxQuantizer(axis=1).get_config()).axis[0]]

result["paths"] = [T.flatten_with_path({"b": [1, 2], "a": (3,)}) == [(("a", 0), 3), (("b", 0), 1), (("b", 1), 2)]]
result["up to"] = [T.map_structure_up_to({"a": 0, "b": 0}, len, {"a": [1, 2], "b": [3]}) == {"a": 2, "b": 1}]


class Times(keras.Operation):
    def __init__(self, factor, name=None):
        super().__init__(name=name)
        self.factor = factor

    def call(self, x):
        return x * self.factor

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


described = keras.Input((3,), name="source")
model = keras.Model(described, Times(2.0)(described))
result["operation"] = [*flat(model(np.ones((1, 3)))), *flat(Times(3.0)(tf.constant([1.0]))), keras.utils.get_source_inputs(model.output)[0].name == "source"]
policies = keras.dtype_policies
result["policies"] = [
    policies.get("mixed_float16").compute_dtype == "float16", policies.get(None).name == "float32",
    policies.deserialize(policies.serialize(keras.DTypePolicy("bfloat16"))).name == "bfloat16", keras.utils.standardize_dtype(None) == "float32",
]

C.set_max_epochs(2)
C.set_max_steps_per_epoch(3)
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(np.ones((40, 2)), np.ones((40, 1)), batch_size=4, epochs=5, verbose=0).history
result["limited"] = [len(history["loss"]), int(model.optimizer.iterations.numpy()), len(model.predict(np.ones((40, 2)), batch_size=4, verbose=0)), C.max_epochs(), C.max_steps_per_epoch()]
C.set_max_epochs(None)
C.set_max_steps_per_epoch(None)
C.disable_interactive_logging()
result["quiet"] = C.is_interactive_logging_enabled()
C.enable_interactive_logging()
keras.utils.clear_session()  # Other programs of this process count their names from the beginning.

# ---- What layers, policies and models are asked for ----

lstm = keras.layers.LSTM(3, recurrent_activation="tanh", kernel_regularizer="l2", use_bias=False)
result["of cells"] = [lstm.use_bias, lstm.units, lstm.unit_forget_bias, lstm.recurrent_activation.__name__ == "tanh", type(lstm.kernel_regularizer).__name__ == "L2", keras.layers.GRU(2).reset_after]
kind = keras.layers.InputSpec.from_config(keras.layers.InputSpec(shape=(None, 2)).get_config())
half = keras.DTypePolicy.from_config(keras.DTypePolicy("float16").get_config())
result["of kinds"] = [kind.shape[1], half.convert_input(np.ones((2,), "float32"), True, "float16").dtype == "float16", half.convert_input(np.ones((2,), "int32"), True, "float16").dtype == "int32"]
result["described"] = [keras.layers.Dense(2).symbolic_call(keras.KerasTensor((None, 3))).shape[1]]
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones", name="d")], name="s")
model.compile("sgd", "mse")
state = model.get_state_tree(value_format="numpy_array")
result["state"] = [sorted(state) == ["metrics_variables", "non_trainable_variables", "optimizer_variables", "trainable_variables"], *state["trainable_variables"]["s"]["d"]["kernel"].ravel(), *sorted(len(k) for k in state["optimizer_variables"]["sgd"])]
state["trainable_variables"]["s"]["d"]["kernel"] = np.array([[3.0], [4.0]])
model.set_state_tree(state)
result["state set"] = model.get_weights()[0]
values = [[v.value for v in part] for part in (model.trainable_variables, model.non_trainable_variables, model.metrics_variables)]
loss, states = model.stateless_compute_loss(*values, x=np.ones((2, 2), "float32"), y=np.ones((2, 1), "float32"), y_pred=tf.ones((2, 1)) * 3.0)
result["a loss without states"] = [float(loss), len(states), *(len(part) for part in states)]
keras.utils.clear_session()
