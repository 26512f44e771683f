"""A small model that learns what a large one says, keras.distillation (Hinton, Vinyals and Dean 2015, arXiv:1503.02531)."""

from tandem import nest
from tandem._names import missing as _missing
from tandem.keras import losses, metrics, ops
from tandem.keras._model import Model, Sequential


def _as_losses(loss, name):
    found = _mapped(lambda each: losses.get(each) if isinstance(each, str) else each, loss)
    if all(each is None for each in _flat(found)):
        raise ValueError(f"The `loss` argument in `{name}` must contain at least one non-`None` value.")
    return found


def _mapped(f, first, *others):
    """f at the places of structures whose leaves may be None."""
    if isinstance(first, dict):
        return {key: _mapped(f, first[key], *(o[key] for o in others)) for key in first}
    if isinstance(first, (list, tuple)):
        return [_mapped(f, *each) for each in zip(first, *others)]
    return f(first, *others)


def _flat(structure):
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in _flat(structure[key])]
    return [leaf for each in structure for leaf in _flat(each)] if isinstance(structure, (list, tuple)) else [structure]


def _summed(values):
    total = None
    for value in _flat(values):
        if value is not None:
            total = value if total is None else total + value
    return total


def _shapes(outputs):
    return [tuple(each.shape) for each in nest.flatten(outputs)]


def _fit(a, b):
    return len(a) == len(b) and all(len(x) == len(y) and all(m is None or n is None or m == n for m, n in zip(x, y)) for x, y in zip(a, b))


class DistillationLoss:
    """How far a student is from its teacher; one's own derives from it and has compute_loss()."""

    def compute_loss(self, teacher_outputs, student_outputs, **kwargs):
        """The loss, as a scalar."""
        raise NotImplementedError("Subclasses must implement compute_loss method.")

    def validate_outputs(self, teacher_outputs, student_outputs):
        """Raises ValueError unless the outputs can be compared."""
        if len(nest.flatten(teacher_outputs)) != len(nest.flatten(student_outputs)):
            raise ValueError(f"Teacher and student must have the same number of outputs, not {len(nest.flatten(teacher_outputs))} and {len(nest.flatten(student_outputs))}")

    def validate_model_compatibility(self, teacher, student):
        """Raises ValueError unless the loss can be computed of the models."""


class FeatureDistillation(DistillationLoss):
    """A loss between what a layer of the teacher and one of the student give, or their outputs."""

    def __init__(self, loss="mse", teacher_layer_name=None, student_layer_name=None):
        self.teacher_layer_name, self.student_layer_name = teacher_layer_name, student_layer_name
        self._given, self.loss = loss, _as_losses(loss, "FeatureDistillation")

    def validate_model_compatibility(self, teacher, student):
        """Raises ValueError unless the models have the layers."""
        for which, model, name in (("teacher", teacher, self.teacher_layer_name), ("student", student, self.student_layer_name)):
            if name is None:
                continue
            if model.inputs is None:
                raise ValueError(f"FeatureDistillation with specific layer names requires Functional or Sequential models. The {which} model(s) appear to be subclassed (no symbolic inputs/outputs).")
            try:
                model.get_layer(name=name)
            except ValueError as error:
                raise ValueError(f"In {which} model: {error}") from None

    def compute_loss(self, teacher_outputs, student_outputs, **kwargs):
        """The sum of the means of the losses."""
        return _summed(_mapped(lambda loss, t, s: None if loss is None else ops.mean(loss(t, s)), self.loss, teacher_outputs, student_outputs))

    def get_config(self):
        """The arguments of which from_config makes it again."""
        return {"loss": self._given, "teacher_layer_name": self.teacher_layer_name, "student_layer_name": self.student_layer_name}

    @classmethod
    def from_config(cls, config):
        """The loss of its configuration."""
        return cls(**config)


class LogitsDistillation(DistillationLoss):
    """A loss between the outputs, divided by a temperature."""

    def __init__(self, temperature=3.0, loss="kl_divergence"):
        if not isinstance(temperature, (int, float)):
            raise ValueError(f"temperature must be a number, got {type(temperature)}")
        if temperature <= 0.0:
            raise ValueError("temperature must be positive.")
        self.temperature, self._given, self.loss = temperature, loss, _as_losses(loss, "LogitsDistillation")

    def compute_loss(self, teacher_outputs, student_outputs, **kwargs):
        """The sum of the means of the losses; a KLDivergence is that of probabilities, times the square of the temperature."""

        def own(loss, teacher, student):
            if loss is None:
                return None
            teacher, student = teacher / self.temperature, student / self.temperature
            if isinstance(loss, losses.KLDivergence):
                return ops.mean(loss(ops.softmax(teacher, axis=-1), ops.softmax(student, axis=-1))) * float(self.temperature**2)
            return ops.mean(loss(teacher, student))

        return _summed(_mapped(own, self.loss, teacher_outputs, student_outputs))

    def get_config(self):
        """The arguments of which from_config makes it again."""
        return {"temperature": self.temperature, "loss": self._given}

    @classmethod
    def from_config(cls, config):
        """The loss of its configuration."""
        return cls(**config)


class Distiller(Model):
    """A student that is trained on its own loss and on what a teacher says."""

    def __init__(self, teacher, student, distillation_losses, distillation_loss_weights=None, student_loss_weight=0.5, name="distiller", **kwargs):
        super().__init__(name=name, **kwargs)
        for which, model in (("Teacher", teacher), ("Student", student)):
            if not isinstance(model, Model):
                raise ValueError(f"{which} must be a keras.Model, got {type(model)}")
        for what in ("inputs", "outputs"):
            own, others = getattr(teacher, what), getattr(student, what)
            if own is not None and others is not None and not _fit(_shapes(own), _shapes(others)):
                raise ValueError(f"Teacher and student {what[:-1]} shapes are incompatible. Teacher: {_shapes(own)}, Student: {_shapes(others)}. All dimensions must match.")
        if not isinstance(student_loss_weight, (int, float)) or not 0.0 <= student_loss_weight <= 1.0:
            raise ValueError(f"student_loss_weight must be between 0.0 and 1.0, got {student_loss_weight}")
        if distillation_losses is None:
            raise ValueError("'distillation_losses' cannot be `None`. Provide a distillation loss (e.g., LogitsDistillation or FeatureDistillation) or a list of distillation losses.")
        several = isinstance(distillation_losses, (list, tuple))
        self.distillation_losses = list(distillation_losses) if several else [distillation_losses]
        self.distillation_loss_weights = list(distillation_loss_weights) if several and distillation_loss_weights is not None else [1.0] * len(self.distillation_losses)
        if len(self.distillation_loss_weights) != len(self.distillation_losses):
            raise ValueError(f"Number of distillation_loss_weights ({len(self.distillation_loss_weights)}) must match number of distillation_losses ({len(self.distillation_losses)})")
        for each in self.distillation_losses:
            each.validate_model_compatibility(teacher, student)
        self.teacher, self.student, self.student_loss_weight = teacher, student, student_loss_weight
        self._tandem_seen = {which: self._with_features(model, f"{which}_layer_name") for which, model in (("teacher", teacher), ("student", student))}
        teacher.trainable = False
        self.student_loss_tracker = metrics.Mean(name="student_loss")
        self.distillation_loss_tracker = metrics.Mean(name="distillation_loss")
        self.total_loss_tracker = metrics.Mean(name="total_loss")

    def _with_features(self, model, attribute):
        """A model that gives also what the layers give that the losses name; None where they name none."""
        names = list(dict.fromkeys(n for n in (getattr(each, attribute, None) for each in self.distillation_losses) if n))
        if not names:
            return None
        final = model.layers[-1].output if isinstance(model, Sequential) else model.output
        outputs = {"final_output": final, **{n: model.get_layer(name=n).output for n in names}}
        return Model(inputs=model.inputs, outputs=outputs, name=f"{model.name}_multi_feature_extractor")

    def compile(self, optimizer="adam", loss=None, metrics=None, **kwargs):
        """Says how the student trains: optimizer, its own loss, metrics."""
        if loss is None:
            raise ValueError("'loss' cannot be `None`.")
        if metrics is not None and not isinstance(metrics, (list, tuple)):
            raise ValueError(f"metrics must be a list or tuple, got {type(metrics)}")
        self._student_loss = _as_losses(loss, "compile")
        super().compile(optimizer=optimizer, loss=None, metrics=metrics, **kwargs)

    def call(self, inputs, training=None, **kwargs):
        return self.student(inputs, training=training, **kwargs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The student's loss and the losses between it and its teacher, weighted."""
        y_pred = self(x, training=training) if y_pred is None else y_pred
        own = apart = 0.0
        if self.student_loss_weight > 0.0 and y is not None:
            own = _summed(_mapped(lambda loss, a, b: None if loss is None else ops.mean(loss(a, b)), self._student_loss, y, y_pred))
        if self.student_loss_weight < 1.0:
            seen = self._tandem_seen
            taught = {"final_output": self.teacher(x, training=False)} if seen["teacher"] is None else seen["teacher"](x, training=False)
            learnt = {"final_output": y_pred} if seen["student"] is None else seen["student"](x, training=True)
            for loss, weight in zip(self.distillation_losses, self.distillation_loss_weights):
                teacher_layer, student_layer = (getattr(loss, f"{which}_layer_name", None) for which in ("teacher", "student"))
                a = taught[teacher_layer or "final_output"]
                b = learnt[student_layer or "final_output"] if teacher_layer is not None else y_pred
                loss.validate_outputs(a, b)
                value = loss.compute_loss(a, b)
                if len(value.shape):
                    raise ValueError(f"Distillation loss {type(loss).__name__} returned a non-scalar loss with shape {value.shape}. The compute_loss method must return a scalar tensor.")
                apart = apart + value * float(weight)
        total = own * float(self.student_loss_weight) + apart * float(1.0 - self.student_loss_weight)
        for tracker, value in ((self.student_loss_tracker, own), (self.distillation_loss_tracker, apart), (self.total_loss_tracker, total)):
            tracker.update_state(value)
        return total

    def get_config(self):
        """The arguments of which from_config makes the model again."""
        from tandem.keras import saving

        kept = saving.serialize_keras_object
        return {
            "name": self.name, "teacher": kept(self.teacher), "student": kept(self.student), "student_loss_weight": self.student_loss_weight,
            "distillation_losses": [{"class_name": type(each).__name__, "config": each.get_config()} for each in self.distillation_losses],
            "distillation_loss_weights": self.distillation_loss_weights,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The model of its configuration."""
        from tandem.keras import saving

        known = {c.__name__: c for c in (FeatureDistillation, LogitsDistillation)}
        config = dict(config)
        for which in ("teacher", "student"):
            config[which] = saving.deserialize_keras_object(config[which])
        made = [(known.get(each["class_name"]) or saving.custom_object(each["class_name"])).from_config(each["config"]) for each in config["distillation_losses"]]
        return cls(**{**config, "distillation_losses": made})


_missing.install(__name__, globals())
