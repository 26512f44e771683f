"""What optimizers are: a rate, a count of steps, slots, and an update of each variable."""

import re
import warnings

import numpy as np

import _tandem
from tandem import _ops, nest
from tandem._tensors.tensor import Tensor
from tandem._tracing.state import init_scope, state
from tandem.keras import _objects
from tandem.keras._variable import KerasVariable, RateVariable
from tandem.keras.optimizers import schedules
from tandem.keras.optimizers.schedules import LearningRateSchedule


_HALVES = (2, 3)  # The codes of float16 and bfloat16.


class _Rate:
    """A learning rate that is read and set as Keras's variable is."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def __tandem_tensor__(self):
        return _tandem.cast(self._optimizer._rate_tensor(), 0)

    def numpy(self):
        return np.float32(self.__tandem_tensor__().numpy())

    def assign(self, value):
        self._optimizer._set_rate(value)
        return self

    @property
    def value(self):
        return self.__tandem_tensor__()

    def read_value(self):
        return self.__tandem_tensor__()

    def assign_add(self, value):
        return self.assign(float(self) + float(value))

    def assign_sub(self, value):
        return self.assign(float(self) - float(value))

    shape, ndim, dtype, name, trainable, constraint = (), 0, "float32", "learning_rate", False, None

    @property
    def path(self):
        return f"{self._optimizer.name}/learning_rate"

    def __float__(self):
        return float(self.numpy())

    def __int__(self):
        return int(self.numpy())

    def __bool__(self):
        return bool(self.numpy())

    def __round__(self, ndigits=None):
        return _ops.round(self.__tandem_tensor__()) if not ndigits else _tandem.convert(np.float32(round(float(self), ndigits)), 0)

    __hash__ = object.__hash__

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def __repr__(self):
        return f"<Variable path={self.path}, shape=(), dtype=float32, value={float(self)}>"

    def __format__(self, spec):
        return format(float(self), spec)


def _arithmetic(name):
    def call(self, *other):
        return getattr(self.__tandem_tensor__(), name)(*other)

    setattr(_Rate, name, call)


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow", "lt", "le", "gt", "ge", "eq", "ne", "neg", "abs"):
    _arithmetic(f"__{_name}__")


_FIXED_BY_FIRST_STEP = frozenset((
    "momentum", "nesterov", "rho", "epsilon", "centered", "beta_1", "beta_2", "amsgrad", "initial_accumulator_value", "weight_decay",
    "clipnorm", "clipvalue", "global_clipnorm", "gradient_accumulation_steps",
))


class Optimizer(_objects.Configured):
    """Changes variables along gradients. One's own derives from it and has update_step()."""

    def __setattr__(self, name, value):
        if name in _FIXED_BY_FIRST_STEP and self.__dict__.get("_native") is not None and self.__dict__.get(name, value) != value:
            warnings.warn(f"{type(self).__name__}: `{name}` has no effect after the first step; make another optimizer, or assign `learning_rate`", stacklevel=2)
        object.__setattr__(self, name, value)

    def __init__(self, learning_rate=0.001, weight_decay=None, clipnorm=None, clipvalue=None, global_clipnorm=None, use_ema=False, ema_momentum=0.99, ema_overwrite_frequency=None, loss_scale_factor=None, gradient_accumulation_steps=None, name=None, **kwargs):
        legacy = kwargs.pop("lr", None)
        kwargs.pop("decay", None)
        kwargs.pop("jit_compile", None)
        if kwargs:
            raise ValueError(f"Argument(s) not recognized: {kwargs}")
        if legacy is not None:
            learning_rate = legacy
        if sum(c is not None for c in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ValueError("Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set.")
        self.name = name or _objects.auto_name(_objects.snake_case(type(self).__name__))
        self.weight_decay, self.clipnorm, self.clipvalue, self.global_clipnorm = weight_decay, clipnorm, clipvalue, global_clipnorm
        self.use_ema, self.ema_momentum, self.ema_overwrite_frequency = use_ema, ema_momentum, ema_overwrite_frequency
        self.loss_scale_factor = loss_scale_factor
        self.gradient_accumulation_steps = gradient_accumulation_steps
        if isinstance(learning_rate, dict):
            learning_rate = schedules.deserialize(learning_rate)
        if callable(learning_rate) and not isinstance(learning_rate, (LearningRateSchedule, Tensor, _tandem.Variable)):
            self._schedule = lambda step: learning_rate()
        else:
            self._schedule = learning_rate if isinstance(learning_rate, LearningRateSchedule) else None
        if isinstance(learning_rate, (Tensor, _tandem.Variable, np.ndarray, _Rate)):
            learning_rate = float(learning_rate)
        self._learning_rate = learning_rate
        self._native = None
        self._names = {}  # Its variables by Keras's names.
        self._slots = []
        self._averages = None
        self._iterations = None
        self._rate = None
        self.built = False
        self._has_halves = False  # Whether weights of float16 or bfloat16 are trained, which the library's kernels do not do.
        self._trainable_variables = []
        self._kept_values = None  # Of an optimizer that was copied: they become the variables' when there are all of them.
        from tandem.keras._layer import _current_strategy

        self._tandem_strategy = _current_strategy()
        self._make_state()

    # ---- What the library's optimizers do ----

    def _make_native(self, learning_rate, options):
        """The library's optimizer, where there is one."""
        return None

    def _make_state(self):
        pass

    def _start(self):
        """Makes the counter of steps and the rate, in the scope of the optimizer's strategy."""
        if self._iterations is not None or self._native is not None:
            return
        with self._scope(), init_scope():
            options = {
                "clipnorm": self.clipnorm, "clipvalue": self.clipvalue, "global_clipnorm": self.global_clipnorm,
                "gradient_accumulation_steps": self.gradient_accumulation_steps,
                "weight_decay": None if self._excludes_some() else self.weight_decay,
            }
            rate = self._schedule if self._schedule is not None else float(self._learning_rate)
            if getattr(type(self).update_step, "_is_the_librarys", False) and not self._has_halves:
                self._native = self._make_native(rate, options)
            if self._native is None:
                if self.gradient_accumulation_steps:
                    raise NotImplementedError(f"{type(self).__name__}: gradient_accumulation_steps is only there for SGD, RMSprop, Adagrad, Adam and AdamW")
                self._iterations = KerasVariable(np.int64(0), dtype="int64", trainable=False, name="iteration", path=f"{self.name}/iteration")
                if self._schedule is None:
                    self._rate = KerasVariable(np.float32(self._learning_rate), trainable=False, name="learning_rate", path=f"{self.name}/learning_rate")

    def _leave_native(self):
        """From now on the update is made of ops, which round as the weights' dtype does."""
        self._has_halves = True
        if self._native is None:
            return
        steps, rate = self._native.iterations.read_value(), None if self._schedule is not None else self._native.learning_rate.read_value()
        self._native = None
        self._start()
        self._iterations.assign(steps)
        if rate is not None:
            self._rate.assign(_tandem.cast(rate, 0))

    def _excludes_some(self):
        """Whether weights decay apart from the library's update, since not all of them do."""
        return bool(getattr(self, "_excluded", None)) and bool(self.weight_decay)

    def _scope(self):
        import contextlib

        if self._tandem_strategy is None or state.in_replica:
            return contextlib.nullcontext()
        from tandem import distribute

        return contextlib.nullcontext() if distribute.has_strategy() else self._tandem_strategy.scope()

    @property
    def iterations(self):
        """How many updates were made: a variable, or a tensor where gradients of several steps are accumulated for each."""
        counter = self._counter
        return _tandem.floor_div(counter.read_value(), int(self.gradient_accumulation_steps)) if self.gradient_accumulation_steps else counter

    @property
    def _counter(self):
        """How many steps were made, as a variable."""
        self._start()
        return self._named(self._native.iterations) if self._native is not None else self._iterations

    def _named(self, variable):
        """A variable of the library's optimizer under the name that Keras gives it."""
        found = self._names.get(variable._key)
        if found is None:
            *of, last = variable._name.split("/")
            own = {"iterations": "iteration"}.get(last, last) if len(of) < 2 else "_".join([*of[:-1], last])
            found = self._names[variable._key] = (RateVariable if own == "learning_rate" else KerasVariable).of(variable, own, f"{self.name}/{own}")
        return found

    def _rate_tensor(self):
        self._start()
        if self._native is not None:
            return self._native.current_learning_rate()
        if self._schedule is not None:
            return _tandem.convert(self._schedule(self._iterations.read_value()))
        return self._rate.read_value()

    def _set_rate(self, value):
        self._start()
        if self._schedule is not None:
            raise TypeError("This optimizer was created with a `LearningRateSchedule` object as its `learning_rate` constructor argument, hence its learning rate is not settable.")
        value = float(value)
        self._learning_rate = value
        variable = self._native.learning_rate if self._native is not None else self._rate
        variable.assign(_tandem.convert(value, variable._code))

    @property
    def learning_rate(self):
        """The learning rate, a variable or the value of a schedule."""
        return _Rate(self)

    @learning_rate.setter
    def learning_rate(self, value):
        if isinstance(value, LearningRateSchedule):
            if self._native is not None or self._iterations is not None:
                raise ValueError("the schedule of an optimizer is set before its first step")
            self._schedule = self._learning_rate = value
            return
        self._set_rate(value)

    lr = learning_rate

    def _get_current_learning_rate(self):
        return self._rate_tensor()

    @property
    def variables(self):
        """The number of steps, the learning rate and the slots."""
        self._start()
        self._take_kept_values()
        return self._all_variables()

    def _all_variables(self):
        if self._native is not None:
            return [self._named(v) for v in self._native.variables()]
        return [self._iterations] + ([self._rate] if self._rate is not None else []) + list(self._slots)

    weights = variables

    def get_weights(self):
        """The values of the variables as a list of arrays."""
        return [np.array(v.numpy()) for v in self.variables]

    def set_weights(self, weights):
        """Assigns the variables."""
        for v, value in zip(self.variables, weights):
            v.assign(_tandem.convert(value, v._code))

    # ---- Building ----

    def build(self, variables):
        """Makes the slots of variables; an optimizer of one's own overrides it."""
        variables = [v for v in variables]
        if any(v._code in _HALVES for v in variables):
            self._leave_native()
        self._start()
        if self._native is not None:
            with self._scope(), init_scope():
                self._native.build(variables)
        self._trainable_variables = variables
        self._places = {id(v): i for i, v in enumerate(variables)}
        self.built = True

    def add_variable(self, shape, initializer="zeros", dtype=None, aggregation="none", layout=None, name=None):
        """A variable of the optimizer."""
        from tandem.keras import initializers

        with self._scope(), init_scope():
            slot = KerasVariable(initializers.get(initializer), shape=tuple(shape), dtype=dtype or "float32", trainable=False, name=name or "slot", path=f"{self.name}/{name or 'slot'}")
        self._slots.append(slot)
        return slot

    def add_variable_from_reference(self, reference_variable, name=None, initializer="zeros", variable_name=None, model_variable=None, shape=None, initial_value=None):
        """A slot: a variable of the shape of another."""
        if not isinstance(reference_variable, _tandem.Variable):
            reference_variable = model_variable
        own = getattr(reference_variable, "path", None) or reference_variable.name
        return self.add_variable(reference_variable.shape, initializer, reference_variable.dtype, name=f"{own.replace('/', '_')}_{name or variable_name or 'slot'}")

    def add_optimizer_variables(self, trainable_variables, name, initializer="zeros"):
        """Slots for each of a list of variables; all those of one variable come before those of the next, in files, too."""
        names = name if isinstance(name, (list, tuple)) else [name]
        starts = initializer if isinstance(initializer, (list, tuple)) else [initializer] * len(names)
        made = [[self.add_variable_from_reference(v, n, start) for n, start in zip(names, starts)] for v in trainable_variables]
        listed = tuple([slots[i] for slots in made] for i in range(len(names)))
        return listed if isinstance(name, (list, tuple)) else listed[0]

    def add_slot(self, var, slot_name, initializer="zeros"):
        """A slot, by its name in Keras 2."""
        return self.add_variable_from_reference(var, slot_name, initializer)

    def _get_variable_index(self, variable):
        return self._places[id(variable)]

    # ---- Steps ----

    def apply_gradients(self, grads_and_vars, name=None, skip_gradients_aggregation=False, **kwargs):
        """One step with pairs of gradients and variables."""
        pairs = [(g, v) for g, v in grads_and_vars]
        self.apply([g for g, _ in pairs], [v for _, v in pairs])
        return self._counter

    def apply(self, grads, trainable_variables=None):
        """One step with gradients of the variables it was built for, or of those that are given."""
        grads, variables = self._paired(grads, trainable_variables)
        if self.loss_scale_factor is not None:
            grads = [None if g is None else g / float(self.loss_scale_factor) for g in grads]
        self._apply_where(None, grads, variables)

    def _paired(self, grads, trainable_variables):
        """The gradients as tensors, and as many variables."""
        variables = list(trainable_variables) if trainable_variables is not None else self._trainable_variables
        grads = list(grads)
        if len(grads) != len(variables):
            raise ValueError(f"{len(grads)} gradients for {len(variables)} variables")
        return [None if g is None else _tandem.convert(g) for g in grads], variables

    def _apply_where(self, condition, grads, variables):
        """One step, where a boolean scalar is true or where there is none; else nothing changes."""
        kept = [(g, v) for g, v in zip(grads, variables) if g is not None]
        if not kept:
            if not variables:
                return
            raise ValueError(f"No gradients provided for any variable: {[v.name for v in variables]}.")
        if len(kept) < len(grads):
            missing = [v.name for g, v in zip(grads, variables) if g is None]
            warnings.warn(f"Gradients do not exist for variables {missing} when minimizing the loss.", stacklevel=4)
        if not self.built:
            self.build(variables)
        self._take_kept_values()
        self._check_place(variables)
        variables = [v for _, v in kept]
        if any(v._code in _HALVES for v in variables) and self._native is not None:
            raise ValueError(f"{self.name}: a weight of {next(v.dtype.name for v in variables if v._code in _HALVES)} is not among those that the optimizer was built for")
        grads = [_tandem.cast(g, v._code) if g._code != v._code else g for g, v in kept]
        before = self._values_before(condition, variables)
        if self._native is not None:
            if self._excludes_some():
                self._decay(variables, _tandem.cast(self._rate_tensor(), 0))
            self._native.apply_gradients(grads, variables, condition)
        else:
            self._apply_by_ops(grads, variables)
        for v in variables:
            constraint = getattr(v, "constraint", None)
            if constraint is not None:
                v.assign(constraint(v.read_value()))
        if self.use_ema:
            self._follow(variables)
        for v, value in before:
            v.assign(_tandem.where(condition, v.read_value(), value))

    def _values_before(self, condition, variables):
        """What a step that may not be one changes besides the library's update, with its values now."""
        if condition is None:
            return []
        if self.use_ema:
            self._make_averages(variables)
        has_constraints = any(getattr(v, "constraint", None) is not None for v in variables)
        changed = list(variables) if self._native is None or self._excludes_some() or has_constraints or self.use_ema else []
        if self._native is None:
            changed += self._all_variables()
        changed += [average for _, average in self._averages or ()]
        return [(v, v.read_value()) for v in changed]

    def _check_place(self, variables):
        """Servers make the updates of the library's optimizers, in steps that workers run."""
        if state.schedules and not state.in_replica:
            raise RuntimeError("gradients are applied in a function that a ClusterCoordinator schedules, outside of strategy.run: put the step into strategy.run")
        if not state.in_replica or self._tandem_strategy is None:
            return
        if self._native is None and self._tandem_strategy._has_variables_in_parts:
            raise NotImplementedError(f"shard=\"variables\" with an optimizer that is written in ops, {type(self).__name__}; SGD, RMSprop, Adagrad, Adam and AdamW are accepted, or shard=\"gradients\"")
        if not self._tandem_strategy._has_servers:
            return
        what = None
        if self._native is None:
            what = f"an optimizer that is written in ops, {type(self).__name__}; SGD, RMSprop, Adagrad, Adam and AdamW are accepted"
        elif self.use_ema or self._excludes_some():
            what = "an optimizer with use_ema or exclude_from_weight_decay"
        elif any(getattr(v, "constraint", None) is not None for v in variables):
            what = "a constraint of a variable"
        if what is not None:
            raise NotImplementedError(f"ParameterServerStrategy with {what}")

    def _apply_by_ops(self, grads, variables):
        for v in variables:
            if id(v) not in self._places:
                raise KeyError(f"The optimizer cannot recognize variable {v.name}: it was built with other variables.")
        if state.in_replica:
            grads = [_tandem.all_reduce("SUM", g) for g in grads]
        if self.clipnorm:
            grads = [_ops.clip_by_norm(g, float(self.clipnorm)) for g in grads]
        elif self.global_clipnorm:
            grads = _ops.clip_by_global_norm(grads, float(self.global_clipnorm))[0]
        elif self.clipvalue:
            grads = [_tandem.clip(g, -float(self.clipvalue), float(self.clipvalue)) for g in grads]
        rate = _tandem.cast(self._rate_tensor(), 0)
        if self.weight_decay:
            self._decay(variables, rate)
        for g, v in zip(grads, variables):
            self.update_step(g, v, _tandem.cast(rate, v._code))
        self._iterations.assign_add(1)

    def _decay(self, variables, rate):
        for v in variables:
            if self._use_weight_decay(v):
                v.assign_sub(v.read_value() * _tandem.cast(rate, v._code) * float(self.weight_decay))

    def _make_averages(self, variables):
        if self._averages is None:
            with self._scope(), init_scope():
                self._averages = [(v, KerasVariable(v.numpy(), trainable=False, name="average")) for v in variables]

    def _follow(self, variables):
        self._make_averages(variables)
        # The values of the first update are where the averages begin.
        done = _tandem.floor_div(self._counter.read_value() - 1, int(self.gradient_accumulation_steps or 1)) + 1
        is_first = _tandem.equal(done, 1)
        for v, average in self._averages:
            followed = average.read_value() * self.ema_momentum + v.read_value() * (1 - self.ema_momentum)
            average.assign(_tandem.where(is_first, v.read_value(), followed))
        if self.ema_overwrite_frequency:
            due = _tandem.equal(_tandem.mod(done, int(self.ema_overwrite_frequency)), 0)
            for v, average in self._averages:
                v.assign(_tandem.where(due, average.read_value(), v.read_value()))

    def finalize_variable_values(self, var_list):
        """Writes the averages of weights over the weights, where asked for."""
        if self.use_ema:
            for v, average in self._averages or ():
                v.assign(average.read_value())

    def update_step(self, gradient, variable, learning_rate):
        """Changes one variable by its gradient; an optimizer of one's own overrides it."""
        raise NotImplementedError(f"{type(self).__name__} has no method update_step(gradient, variable, learning_rate)")

    def _use_weight_decay(self, variable):
        excluded = getattr(self, "_excluded", None)
        if not excluded:
            return True
        variables, names = excluded
        return id(variable) not in variables and not any(re.search(n, variable.name) for n in names)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """Leaves variables out of weight decay."""
        if self.built or self._native is not None:
            raise ValueError("`exclude_from_weight_decay()` can only be configured before the optimizer is built.")
        if self.gradient_accumulation_steps:
            raise NotImplementedError("exclude_from_weight_decay: not together with gradient_accumulation_steps")
        self._excluded = ({id(v) for v in var_list or ()}, list(var_names or ()))

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        """Variables are changed where they are: says so, as Keras on TensorFlow does."""
        raise ValueError("stateless_apply is not supported here, as with Keras's TensorFlow backend; apply changes the variables")

    def minimize(self, loss, var_list=None, tape=None, **kwargs):
        """Computes the gradients of a loss and makes one step."""
        from tandem._tracing.tape import GradientTape

        if callable(loss):
            with GradientTape() as tape:
                value = loss()
            loss = value
        variables = nest.flatten(var_list() if callable(var_list) else var_list)
        self.apply_gradients(zip(tape.gradient(loss, variables), variables))

    def scale_loss(self, loss):
        """The loss times loss_scale_factor, by which the gradients are divided when they are applied."""
        return loss if self.loss_scale_factor is None else loss * float(self.loss_scale_factor)

    def assign(self, variable, value):
        """Sets a variable, in update_step."""
        variable.assign(_tandem.cast(value, variable._code))

    def assign_add(self, variable, value):
        """Adds to a variable, in update_step."""
        variable.assign_add(_tandem.cast(_tandem.convert(value, None, variable._code), variable._code))

    def assign_sub(self, variable, value):
        """Subtracts from a variable, in update_step."""
        variable.assign_sub(_tandem.cast(_tandem.convert(value, None, variable._code), variable._code))

    # ---- Configurations, checkpoints ----

    def get_config(self):
        """The arguments of which from_config makes the optimizer again."""
        rate = schedules.serialize(self._schedule) if isinstance(self._schedule, LearningRateSchedule) else float(np.float32(self._learning_rate)) if self._native is None and self._rate is None else float(self.learning_rate)
        return {
            "name": self.name, "learning_rate": rate, "weight_decay": self.weight_decay, "clipnorm": self.clipnorm,
            "global_clipnorm": self.global_clipnorm, "clipvalue": self.clipvalue, "use_ema": self.use_ema,
            "ema_momentum": self.ema_momentum, "ema_overwrite_frequency": self.ema_overwrite_frequency,
            "loss_scale_factor": self.loss_scale_factor, "gradient_accumulation_steps": self.gradient_accumulation_steps,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The optimizer of its configuration; custom_objects has schedules of one's own by name."""
        from tandem.keras import saving

        if not custom_objects:
            return cls(**config)
        with saving.CustomObjectScope(custom_objects):
            return cls(**config)

    def _own_node(self):
        self._start()
        return self._native

    def _trackable_children(self):
        if self._native is not None:
            return {}
        kind = _objects.snake_case(type(self).__name__)  # Not its name, which counts the optimizers of a process.
        return {f"{kind}_{v.path.removeprefix(f'{self.name}/').replace('/', '_')}": v for v in self.variables}

    def save_own_variables(self, store):
        """Puts the variables into a store."""
        for i, v in enumerate(self.variables):
            store[str(i)] = v.numpy()

    def load_own_variables(self, store):
        """Takes the variables from a store."""
        for i, v in enumerate(self.variables):
            v.assign(_tandem.convert(np.asarray(store[str(i)]), v._code))

    def _take_kept_values(self):
        if self._kept_values is None or not self.built:
            return
        values, self._kept_values = self._kept_values, None
        with self._scope(), init_scope():
            variables = self._all_variables()
            if [tuple(v.shape) for v in variables] != [value.shape for value in values]:
                raise ValueError(f"{self.name}: a copy of an optimizer is used with variables of other shapes than the optimizer it was copied from")
            for v, value in zip(variables, values):
                v.assign(_tandem.convert(value, v._code))

    def __deepcopy__(self, memo):
        make, args = self.__reduce__()
        other = memo[id(self)] = make(*args)
        return other

    def __reduce__(self):
        """The variables go along; those of a copy are made for the variables that it is first used with."""
        has_state = self._native is not None or self._iterations is not None
        values = self._kept_values or (self.get_weights() if has_state else None)
        return _from_state, (type(self), self.get_config(), values, self.built or self._kept_values is not None)

    def __repr__(self):
        return f"<{type(self).__name__} name={self.name}>"


def _from_state(cls, config, values, is_built):
    optimizer = cls.from_config(config)
    if values is not None:
        optimizer._counter.assign(_tandem.convert(values[0], optimizer._counter._code))
        optimizer._kept_values = values if is_built else None
    return optimizer
