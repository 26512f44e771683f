"""Recurrent layers. A sequence is walked step by step while the function is traced."""

import inspect

import numpy as np

import _tandem
from tandem._names import words as _words
from tandem import _ops, dtypes, nest
from tandem._tensors.shape import TensorShape
from tandem._tracing.state import init_scope, state
from tandem.errors import InvalidArgumentError
from tandem.keras import _config_keys, _objects, activations, constraints, initializers, regularizers
from tandem.keras._calls import InputSpec, call_context
from tandem.keras._layer import Layer
from tandem.keras._variable import KerasVariable
from tandem.keras.layers._formats import format_of
from tandem.keras.random import SeedGenerator
from tandem.keras.layers.core import Wrapper, floating


class _Cell(Layer):
    _gates = 1

    def __init__(self, units, activation="tanh", use_bias=True, kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros", kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, recurrent_dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        if units <= 0:
            raise ValueError(f"Received an invalid value for argument `units`, expected a positive integer, got {units}.")
        self.units, self.activation, self.use_bias = int(units), activations.get(activation), use_bias
        if self._gates == 1:
            self.seed_generator = SeedGenerator(seed)  # Keras takes it before the initializers' seeds here, and after them elsewhere.
        self.kernel_initializer, self.recurrent_initializer, self.bias_initializer = (initializers.get(i) for i in (kernel_initializer, recurrent_initializer, bias_initializer))
        if self._gates > 1:
            self.seed_generator = SeedGenerator(seed)
        self.kernel_regularizer, self.recurrent_regularizer, self.bias_regularizer = (regularizers.get(i) for i in (kernel_regularizer, recurrent_regularizer, bias_regularizer))
        self.kernel_constraint, self.recurrent_constraint, self.bias_constraint = (constraints.get(i) for i in (kernel_constraint, recurrent_constraint, bias_constraint))
        self.dropout, self.recurrent_dropout = float(dropout), float(recurrent_dropout)
        self.state_size, self.output_size = self.units, self.units

    def build(self, input_shape):
        wide = self.units * self._gates
        self.kernel = self.add_weight((input_shape[-1], wide), self.kernel_initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, name="kernel")
        self.recurrent_kernel = self.add_weight((self.units, wide), self.recurrent_initializer, regularizer=self.recurrent_regularizer, constraint=self.recurrent_constraint, name="recurrent_kernel")
        self.bias = self._bias(wide) if self.use_bias else None
        self.built = True

    def _bias(self, wide):
        return self.add_weight((wide,), self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias")

    def project(self, x, masks=None):
        """What does not depend on the step before, for all steps at once."""
        y = self._product(x, self.kernel, masks)
        return y if self.bias is None else y + self.bias

    def _product(self, x, kernel, masks):
        """x times a kernel of several gates; where there are masks, each gate sees x through its own."""
        if masks is None:
            return _tandem.matmul(x, kernel, False, False)
        kernel, n = _tandem.convert(kernel), self.units
        parts = [_tandem.matmul(x * mask, kernel[:, i * n : (i + 1) * n], False, False) for i, mask in enumerate(masks)]
        return parts[0] if len(parts) == 1 else _tandem.concat(parts, -1)

    def masks_for(self, shape, rate, code, count=None):
        """What drops elements of a tensor of this shape, the same in all steps, once for each gate."""
        return [_tandem.dropout(_tandem.fill(shape, 1.0, code), rate, None) for _ in range(self._gates if count is None else count)]

    def get_initial_state(self, batch_size=None, inputs=None, dtype=None):
        size = inputs._sizes[0] if inputs is not None else getattr(batch_size, "_size", batch_size)
        count = len(self.state_size) if isinstance(self.state_size, (list, tuple)) else 1
        return [_tandem.fill((size, self.units), 0.0, dtypes.code_of(dtype or self.compute_dtype)) for _ in range(count)]

    def call(self, inputs, states, training=False):
        single = not isinstance(states, (list, tuple))
        x, masks = inputs, None
        if training and self.dropout:
            x = _tandem.dropout(x, self.dropout, None)
        if training and self.recurrent_dropout:
            masks = self.masks_for([x._sizes[0], self.units], self.recurrent_dropout, x._code)
        output, states = self.step(self.project(x), [states] if single else list(states), masks)
        return output, states[0] if single else states


class SimpleRNNCell(_Cell):
    """One step of SimpleRNN."""

    def step(self, projected, states, masks=None):
        h = self.activation(projected + self._product(states[0], self.recurrent_kernel, masks))
        return h, [h]


class LSTMCell(_Cell):
    """One step of LSTM."""

    _gates = 4

    def __init__(self, units, activation="tanh", recurrent_activation="sigmoid", use_bias=True, kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros", unit_forget_bias=True, **kwargs):
        super().__init__(units, activation, use_bias, kernel_initializer, recurrent_initializer, bias_initializer, **kwargs)
        self.recurrent_activation, self.unit_forget_bias = activations.get(recurrent_activation), unit_forget_bias
        self.state_size = [self.units, self.units]

    def _bias(self, wide):
        if not self.unit_forget_bias:
            return super()._bias(wide)

        def start(shape, dtype=None):
            n = self.units
            own = self.bias_initializer
            return _tandem.concat([own((n,), dtype), _tandem.fill((n,), 1.0, dtypes.code_of(dtype or "float32")), own((2 * n,), dtype)], 0)

        return self.add_weight((wide,), start, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias")

    def step(self, projected, states, masks=None):
        h, c = states
        z = projected + self._product(h, self.recurrent_kernel, masks)
        i, f, g, o = _tandem.split(z, 4, -1)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]


class GRUCell(_Cell):
    """One step of GRU."""

    _gates = 3

    def __init__(self, units, activation="tanh", recurrent_activation="sigmoid", use_bias=True, kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros", reset_after=True, **kwargs):
        super().__init__(units, activation, use_bias, kernel_initializer, recurrent_initializer, bias_initializer, **kwargs)
        self.recurrent_activation, self.reset_after = activations.get(recurrent_activation), reset_after

    def _bias(self, wide):
        shape = (2, wide) if self.reset_after else (wide,)
        return self.add_weight(shape, self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias")

    def project(self, x, masks=None):
        y = self._product(x, self.kernel, masks)
        if self.bias is None:
            return y
        return y + (self.bias[0] if self.reset_after else self.bias)

    def step(self, projected, states, masks=None):
        h = states[0]  # What is carried on is not dropped from: it would grow with each step.
        n = self.units
        xz, xr, xh = _tandem.split(projected, 3, -1)
        if self.reset_after:
            inner = self._product(h, self.recurrent_kernel, masks)
            if self.bias is not None:
                inner = inner + self.bias[1]
            rz, rr, rh = _tandem.split(inner, 3, -1)
            z, r = self.recurrent_activation(xz + rz), self.recurrent_activation(xr + rr)
            candidate = self.activation(xh + r * rh)
        else:
            kernel = self.recurrent_kernel.read_value()
            inner = self._product(h, kernel[:, : 2 * n], None if masks is None else masks[:2])
            rz, rr = _tandem.split(inner, 2, -1)
            z, r = self.recurrent_activation(xz + rz), self.recurrent_activation(xr + rr)
            candidate = self.activation(xh + _tandem.matmul(r * (h if masks is None else h * masks[2]), kernel[:, 2 * n :], False, False))
        h = z * h + (1.0 - z) * candidate
        return h, [h]


def initial_state_of(cell, rows, inputs):
    """What a cell says itself, or zeros of its state's sizes."""
    own = getattr(cell, "get_initial_state", None)
    if own is None:
        sizes = cell.state_size if isinstance(cell.state_size, (list, tuple)) and not isinstance(cell.state_size, TensorShape) else [cell.state_size]
        code = dtypes.as_dtype(getattr(cell, "compute_dtype", "float32"))._code
        return [_tandem.fill([rows, *([s] if isinstance(s, int) else list(s))], 0.0, code) for s in sizes]
    given = {"batch_size": rows, "inputs": inputs, "dtype": getattr(cell, "compute_dtype", "float32")}
    return own(**{name: given[name] for name in inspect.signature(own).parameters if name in given})


class StackedRNNCells(Layer):
    """Cells one after another, as one cell."""

    def __init__(self, cells, **kwargs):
        super().__init__(**kwargs)
        self.cells = list(cells)

    @property
    def state_size(self):
        return [c.state_size for c in self.cells]

    @property
    def output_size(self):
        return self.cells[-1].output_size

    def get_initial_state(self, batch_size=None, inputs=None, dtype=None):
        return [initial_state_of(c, batch_size, inputs) for c in self.cells]

    def call(self, inputs, states, training=False):
        new = []
        for cell, own in zip(self.cells, states):
            own = own if isinstance(own, (list, tuple)) else [own]
            inputs, after = cell(inputs, own, training=training) if "training" in cell.call.__code__.co_varnames else cell(inputs, own)
            new.append(after)
        return inputs, new


class RNN(Layer):
    """A cell walked along sequences [batch, steps, features], or where they are time_major [steps, batch, features]."""

    def __init__(self, cell, return_sequences=False, return_state=False, go_backwards=False, stateful=False, unroll=False, zero_output_for_mask=False, time_major=False, **kwargs):
        super().__init__(**kwargs)
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell)
        self.cell = cell
        self.return_sequences, self.return_state, self.go_backwards, self.stateful = return_sequences, return_state, go_backwards, stateful
        self.unroll, self.zero_output_for_mask, self.time_major = unroll, zero_output_for_mask, time_major
        self.supports_masking = True

    def build(self, sequences_shape, initial_state_shape=None):
        shape = sequences_shape[0] if isinstance(sequences_shape, list) else sequences_shape
        if isinstance(self.cell, _Cell) and len(shape) != 3:
            raise ValueError(f"Input 0 of layer '{self.name}' is incompatible with the layer: expected ndim=3, found ndim={len(shape)}. Full shape received: {tuple(shape)}")
        if not self.cell.built and hasattr(self.cell, "build"):
            self.cell.build((shape[0],) + tuple(shape[2:]))
            self.cell.built = True
        self.built = True

    def _build_for(self, args, kwargs):
        from tandem._tracing.state import init_scope
        from tandem.keras._calls import _shape_of

        with self._strategy_scope(), init_scope():
            shape = _shape_of(args[0])
            self.__dict__["_tandem_built_for"] = shape[0] if isinstance(shape, list) else shape
            self.build(self._tandem_built_for)
            if self.stateful:
                self._make_states(args[0])
        self.built = True
        if self._tandem_initial_weights is not None:
            self.set_weights(self._tandem_initial_weights)
            self._tandem_initial_weights = None

    def get_initial_state(self, batch_size):
        return initial_state_of(self.cell, batch_size, None)

    @property
    def states(self):
        """What a stateful layer goes on from; None before its first call."""
        kept = self.__dict__.get("_tandem_states")
        return list(kept.values())[-1] if kept else None

    def _make_states(self, sequences):
        """The variables that keep the states between calls with as many rows as these sequences have, or those of the batch that is to come."""
        x = sequences[0] if isinstance(sequences, (list, tuple)) else sequences
        axis = 1 if self.time_major else 0
        rows = x.shape[axis]
        if call_context.rows is not None and rows == min(2, call_context.rows[0] or 0):
            rows = call_context.rows[0]
        if rows is None:
            raise ValueError(f"When using `stateful=True` in a RNN, the batch size must be static. Found dynamic batch size: sequence.shape={tuple(x.shape)}")
        self._states_of(int(rows))

    def _states_of(self, rows):
        kept = self.__dict__.setdefault("_tandem_states", {})
        if rows not in kept:
            with init_scope(), self._strategy_scope():
                sizes = nest.flatten(self.cell.state_size)
                kept[rows] = [KerasVariable(np.zeros((rows, int(size)), np.float32), dtype=self.compute_dtype, trainable=False, name="rnn_state", path=f"{self.path}/rnn_state") for size in sizes]
        return kept[rows]

    def _states_for(self, x):
        """The variables that keep the states between calls with so many rows; None while a call is only described."""
        rows = x._sizes[0]
        kept = self.__dict__.get("_tandem_states", {})
        if rows in kept:
            return kept[rows]
        if state.is_rehearsal:
            return None
        if not isinstance(rows, int):  # The function is traced again for this number.
            raise InvalidArgumentError(f"{self.name}: a stateful layer wants to know the number of rows")
        if state.tracing:
            raise ValueError(f"{self.name}: a batch of {rows} rows for a stateful layer that keeps the states of {' or '.join(map(str, kept)) or 'no'} rows; all batches have as many rows as the model was built for")
        return self._states_of(rows)

    def reset_states(self, states=None):
        """Zeros, or these, for what comes next."""
        for variables in self.__dict__.get("_tandem_states", {}).values():
            for i, variable in enumerate(variables):
                variable.assign(_tandem.zeros_like(variable.read_value()) if states is None else states[i])

    reset_state = reset_states

    def call(self, sequences, initial_state=None, mask=None, training=False):
        if isinstance(sequences, (list, tuple)):
            sequences, initial_state = sequences[0], list(sequences[1:])
        if isinstance(mask, (list, tuple)):
            mask = mask[0]
        x = self._rows_first(floating(_tandem.convert(sequences)))
        mask = None if mask is None else self._rows_first(mask)
        if not isinstance(x._sizes[1], int):
            raise ValueError("the number of steps of a sequence must be known")
        keeping = self._states_for(x) if self.stateful else None
        if initial_state is None and keeping is not None:
            flat = [v.read_value() for v in keeping]
            sizes = self.cell.state_size
            initial_state = nest.pack_sequence_as(sizes, flat) if nest.is_nested(sizes) else flat
        elif initial_state is None:
            initial_state = initial_state_of(self.cell, x._sizes[0], x)
        states = list(initial_state) if isinstance(initial_state, (list, tuple)) else [initial_state]
        states = [s if isinstance(s, (list, tuple)) else _tandem.convert(s) for s in states]
        fast = isinstance(self.cell, _Cell) and type(self.cell).call is _Cell.call
        gate_masks = input_masks = None  # As in Keras gates have masks of their own where states are dropped, too.
        if training and fast and self.cell.recurrent_dropout:
            gate_masks = self.cell.masks_for([x._sizes[0], self.cell.units], self.cell.recurrent_dropout, x._code)
        if training and fast and self.cell.dropout:
            shape = [x._sizes[0], 1, x._sizes[2]]
            if gate_masks is None:
                x = x * self.cell.masks_for(shape, self.cell.dropout, x._code, 1)[0]
            else:
                input_masks = self.cell.masks_for(shape, self.cell.dropout, x._code)
        steps = _tandem.unstack(self.cell.project(x, input_masks) if fast else x, 1)
        masks = _tandem.unstack(mask, 1) if mask is not None else [None] * len(steps)
        if self.go_backwards:
            steps, masks = steps[::-1], masks[::-1]
        outputs, output = [], None
        for step, own in zip(steps, masks):
            if fast:
                new, after = self.cell.step(step, states, gate_masks)
            else:
                new, after = self._cell_call(step, states, training)
            after = list(after) if isinstance(after, (list, tuple)) else [after]
            if own is not None:
                chosen = _tandem.expand_dims(own, -1)
                before = output if output is not None else _tandem.zeros_like(new)
                new = _tandem.where(chosen, new, _tandem.zeros_like(new) if self.zero_output_for_mask else before)
                after = nest.map_structure(lambda a, b: _tandem.where(chosen, a, b), after, states)
            output, states = new, after
            if self.return_sequences:
                outputs.append(new)
        if keeping is not None and not state.is_rehearsal:
            for variable, last in zip(keeping, nest.flatten(states)):
                variable.assign(last)
        result = self._rows_first(_tandem.stack(outputs, 1)) if self.return_sequences else output
        return (result, *states) if self.return_state else result

    def _rows_first(self, x):
        """The axes of rows and steps change places where steps come first, which goes both ways."""
        return _tandem.transpose(x, [1, 0] + list(range(2, x._rank))) if self.time_major else x

    def _cell_call(self, step, states, training):
        from tandem.keras._calls import _parameters

        names, _, _ = _parameters(self.cell.call)
        return self.cell(step, states, training=training) if "training" in names else self.cell(step, states)

    def compute_mask(self, sequences, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return mask if self.return_sequences else None

    def _check_inputs(self, inputs):
        super()._check_inputs(inputs[0] if isinstance(inputs, (list, tuple)) else inputs)

    def __call__(self, sequences, initial_state=None, **kwargs):
        if initial_state is not None:
            kwargs["initial_state"] = initial_state
        return super().__call__(sequences, **kwargs)


_RNN_NAMES = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "zero_output_for_mask", "time_major")
_LAYER_NAMES = ("name", "dtype", "trainable", "input_shape", "batch_input_shape", "activity_regularizer", "input_dim", "weights", "batch_shape")


_OF_CELL = (
    "kernel recurrent_kernel bias activation recurrent_activation use_bias kernel_initializer recurrent_initializer bias_initializer unit_forget_bias kernel_regularizer"
    " recurrent_regularizer bias_regularizer kernel_constraint recurrent_constraint bias_constraint dropout recurrent_dropout reset_after"
)  # What a layer is asked for and its cell has, if it is one that has it.


def _recurrent(name, cell_class):
    def __init__(self, units, *args, **kwargs):
        own = {k: kwargs.pop(k) for k in list(kwargs) if k in _RNN_NAMES}
        layer = {k: kwargs.pop(k) for k in list(kwargs) if k in _LAYER_NAMES}
        kwargs.pop("use_cudnn", None), kwargs.pop("implementation", None), kwargs.pop("input_length", None)
        cell = cell_class(units, *args, **kwargs, dtype=layer.get("dtype"), name=_objects.snake_case(name) + "_cell")
        RNN.__init__(self, cell, **own, **layer)
        self.units = cell.units
        self.input_spec = InputSpec(ndim=3)

    def get_config(self):
        config = {"name": self.name, "trainable": self._trainable, "dtype": self._dtype_policy.as_config()}
        of_cell, given = self.cell.get_config(), self._init_args[1]
        for key in _config_keys.KEYS[name].split():
            if key in of_cell:
                config[key] = of_cell[key]
            else:
                config[key] = regularizers.serialize(self.activity_regularizer) if key == "activity_regularizer" else getattr(self, key, given.get(key, False if key != "seed" else None))
        config.update({k: v for k, v in given.items() if k in _RNN_NAMES and k not in config})
        if self._tandem_batch_input_shape is not None:
            config["batch_input_shape"] = self._tandem_batch_input_shape
        return config

    members = {"__init__": __init__, "get_config": get_config, "__module__": __name__}
    for each in _OF_CELL.split():
        members[each] = property(lambda self, each=each: getattr(self.cell, each))
    return type(name, (RNN,), members)


SimpleRNN = _recurrent("SimpleRNN", SimpleRNNCell)
LSTM = _recurrent("LSTM", LSTMCell)
GRU = _recurrent("GRU", GRUCell)


class Bidirectional(Layer):
    """A recurrent layer forwards and one backwards."""

    def __init__(self, layer, merge_mode="concat", weights=None, backward_layer=None, **kwargs):
        super().__init__(**kwargs)
        config, name = layer.get_config(), layer.name.removeprefix("forward_")
        self.forward_layer = type(layer).from_config({**config, "name": f"forward_{name}"})
        if backward_layer is None:
            config["go_backwards"] = not layer.go_backwards
            config["name"] = f"backward_{name}"
            backward_layer = type(layer).from_config(config)
        self.backward_layer, self.merge_mode = backward_layer, merge_mode
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state
        self.supports_masking = True

    def build(self, sequences_shape, initial_state_shape=None):
        for layer in (self.forward_layer, self.backward_layer):
            if not layer.built:
                layer.build(sequences_shape)
        self.built = True

    def get_config(self):
        from tandem.keras import saving

        config = {name: value for name, value in super().get_config().items() if name in ("name", "trainable", "dtype", "activity_regularizer")}
        return {**config, "merge_mode": self.merge_mode, **{k: saving.serialize_keras_object(getattr(self, k)) for k in ("layer", "backward_layer")}}

    @property
    def layer(self):
        return self.forward_layer

    def reset_states(self):
        """Zeros for what comes next, in both directions."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    reset_state = reset_states

    def call(self, sequences, initial_state=None, mask=None, training=False):
        kwargs = {"mask": mask, "training": training}
        half = None if initial_state is None else len(initial_state) // 2
        ahead = self.forward_layer(sequences, initial_state=None if half is None else list(initial_state[:half]), **kwargs)
        back = self.backward_layer(sequences, initial_state=None if half is None else list(initial_state[half:]), **kwargs)
        states = []
        if self.return_state:
            states = list(ahead[1:]) + list(back[1:])
            ahead, back = ahead[0], back[0]
        if self.return_sequences:
            back = _ops.reverse(back, [0 if getattr(self.forward_layer, "time_major", False) else 1])
        mode = self.merge_mode
        if mode == "concat":
            output = _tandem.concat([ahead, back], -1)
        elif mode == "sum":
            output = ahead + back
        elif mode == "ave":
            output = (ahead + back) / 2.0
        elif mode == "mul":
            output = ahead * back
        else:
            output = (ahead, back)
        if self.return_state:
            return (*output, *states) if isinstance(output, tuple) else (output, *states)
        return output

    def compute_mask(self, sequences, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return mask if self.return_sequences else None


class ConvLSTM2D(Layer):
    """An LSTM whose products are convolutions of images."""

    _rank = 2

    def __init__(self, filters, kernel_size, strides=1, padding="valid", data_format=None, dilation_rate=1, activation="tanh", recurrent_activation="sigmoid", use_bias=True, kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal", bias_initializer="zeros", unit_forget_bias=True, kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, recurrent_constraint=None, bias_constraint=None, dropout=0.0, recurrent_dropout=0.0, seed=None, return_sequences=False, return_state=False, go_backwards=False, stateful=False, **kwargs):
        if stateful:
            raise NotImplementedError(f"{type(self).__name__}: stateful; LSTM, GRU and SimpleRNN are accepted so, and initial_state gives a layer its states")
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.filters = int(filters)
        self.seed_generator = SeedGenerator(seed)
        pair = lambda v: (v,) * self._rank if isinstance(v, int) else tuple(v)  # noqa: E731
        self.kernel_size, self.strides, self.dilation_rate, self.padding, self.data_format = pair(kernel_size), pair(strides), pair(dilation_rate), padding.lower(), format_of(data_format)
        self.activation, self.recurrent_activation, self.use_bias = activations.get(activation), activations.get(recurrent_activation), use_bias
        self.kernel_initializer, self.recurrent_initializer, self.bias_initializer = (initializers.get(i) for i in (kernel_initializer, recurrent_initializer, bias_initializer))
        self.kernel_regularizer, self.recurrent_regularizer, self.bias_regularizer = (regularizers.get(i) for i in (kernel_regularizer, recurrent_regularizer, bias_regularizer))
        self.kernel_constraint, self.recurrent_constraint, self.bias_constraint = (constraints.get(i) for i in (kernel_constraint, recurrent_constraint, bias_constraint))
        self.unit_forget_bias, self.return_sequences, self.return_state, self.go_backwards = unit_forget_bias, return_sequences, return_state, go_backwards
        self.dropout, self.recurrent_dropout, self.seed = float(dropout), float(recurrent_dropout), seed
        self.supports_masking = True

    def build(self, sequences_shape, initial_state_shape=None):
        shape = sequences_shape[0] if isinstance(sequences_shape, list) else sequences_shape
        n, channels = self.filters, shape[2] if self.data_format == "channels_first" else shape[-1]
        self.kernel = self.add_weight(self.kernel_size + (channels, 4 * n), self.kernel_initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, name="kernel")
        self.recurrent_kernel = self.add_weight(self.kernel_size + (n, 4 * n), self.recurrent_initializer, regularizer=self.recurrent_regularizer, constraint=self.recurrent_constraint, name="recurrent_kernel")

        def start(shape, dtype=None):
            own = self.bias_initializer
            if not self.unit_forget_bias:
                return own(shape, dtype)
            return _tandem.concat([own((n,), dtype), _tandem.fill((n,), 1.0, dtypes.code_of(dtype or "float32")), own((2 * n,), dtype)], 0)

        self.bias = self.add_weight((4 * n,), start, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias") if self.use_bias else None
        self.built = True

    def _convolved(self, x, kernel, strides, padding, dilations):
        return _tandem.conv2d(x, kernel, strides, padding, dilations, 1)

    def _moved(self, x, axes, last):
        """Channels behind or before the pixels, whose first axis is `axes`."""
        if self.data_format == "channels_last":
            return x
        order = [*range(axes), *range(axes + 1, x._rank), axes] if last else [*range(axes), x._rank - 1, *range(axes, x._rank - 1)]
        return _tandem.transpose(x, order)

    def call(self, sequences, initial_state=None, mask=None, training=False):
        if isinstance(sequences, (list, tuple)):
            sequences, initial_state = sequences[0], list(sequences[1:])
        x = self._moved(floating(_tandem.convert(sequences)), 2, True)
        if training and self.dropout:  # The same elements of all steps.
            x = x * _tandem.dropout(_tandem.fill([x._sizes[0], 1, *x._sizes[2:]], 1.0, x._code), self.dropout, self.seed)
        steps = _tandem.unstack(x, 1)
        masks = [None] * len(steps) if mask is None else _tandem.unstack(_tandem.cast(mask[0] if isinstance(mask, (list, tuple)) else mask, 7), 1)
        if self.go_backwards:
            steps, masks = steps[::-1], masks[::-1]
        h = c = keep = None
        if initial_state:
            h, c = (self._moved(_tandem.convert(s), 1, True) for s in initial_state)
        outputs, output = [], None
        for step, own in zip(steps, masks):
            z = self._convolved(step, self.kernel, self.strides, self.padding, self.dilation_rate)
            if self.bias is not None:
                z = z + self.bias
            if h is None:
                h = c = _tandem.zeros_like(z[..., : self.filters])
            if training and self.recurrent_dropout and keep is None:
                keep = _tandem.dropout(_tandem.ones_like(h), self.recurrent_dropout, self.seed)
            z = z + self._convolved(h if keep is None else h * keep, self.recurrent_kernel, (1,) * self._rank, "same", (1,) * self._rank)
            i, f, g, o = _tandem.split(z, 4, -1)
            after = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
            new = self.recurrent_activation(o) * self.activation(after)
            if own is not None:
                chosen = _tandem.reshape(own, [own._sizes[0]] + [1] * (new._rank - 1))
                seen = _tandem.where(chosen, new, _tandem.zeros_like(new) if output is None else output)
                after, state_h = _tandem.where(chosen, after, c), _tandem.where(chosen, new, h)
            else:
                seen = state_h = new
            h, c, output = state_h, after, seen
            outputs.append(seen)
        result = self._moved(_tandem.stack(outputs, 1), 2, False) if self.return_sequences else self._moved(output, 1, False)
        return (result, self._moved(h, 1, False), self._moved(c, 1, False)) if self.return_state else result

    def compute_mask(self, sequences, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return mask if self.return_sequences else None


_WEIGHTS = "kernel_initializer='glorot_uniform', recurrent_initializer='orthogonal', bias_initializer='zeros'"
_PENALTIES = "kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None"
_LIMITS = "kernel_constraint=None, recurrent_constraint=None, bias_constraint=None"
_objects.sign(globals(), {
    "SimpleRNN": f"units, activation='tanh', use_bias=True, {_WEIGHTS}, {_PENALTIES}, activity_regularizer=None, {_LIMITS}, dropout=0.0, recurrent_dropout=0.0, return_sequences=False, return_state=False, go_backwards=False, stateful=False, unroll=False, seed=None",
    "LSTM": f"units, activation='tanh', recurrent_activation='sigmoid', use_bias=True, {_WEIGHTS}, unit_forget_bias=True, {_PENALTIES}, activity_regularizer=None, {_LIMITS}, dropout=0.0, recurrent_dropout=0.0, seed=None, return_sequences=False, return_state=False, go_backwards=False, stateful=False, unroll=False, use_cudnn='auto'",
    "GRU": f"units, activation='tanh', recurrent_activation='sigmoid', use_bias=True, {_WEIGHTS}, {_PENALTIES}, activity_regularizer=None, {_LIMITS}, dropout=0.0, recurrent_dropout=0.0, seed=None, return_sequences=False, return_state=False, go_backwards=False, stateful=False, unroll=False, reset_after=True, use_cudnn='auto'",
    "LSTMCell": f"units, activation='tanh', recurrent_activation='sigmoid', use_bias=True, {_WEIGHTS}, unit_forget_bias=True, {_PENALTIES}, {_LIMITS}, dropout=0.0, recurrent_dropout=0.0, seed=None",
    "GRUCell": f"units, activation='tanh', recurrent_activation='sigmoid', use_bias=True, {_WEIGHTS}, {_PENALTIES}, {_LIMITS}, dropout=0.0, recurrent_dropout=0.0, reset_after=True, seed=None",
})

_words.describe(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "Bidirectional", "ConvLSTM2D", "GRU", "GRUCell", "InputSpec", "InvalidArgumentError", "KerasVariable", "LSTM", "LSTMCell", "Layer",
    "RNN", "SeedGenerator", "SimpleRNN", "SimpleRNNCell", "StackedRNNCells", "TensorShape", "Wrapper", "activations", "call_context",
    "constraints", "dtypes", "floating", "format_of", "init_scope", "initial_state_of", "initializers", "nest", "regularizers", "state",
]
