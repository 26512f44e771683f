"""Gradient tapes, tf.GradientTape, and functions with a gradient of their own."""

import contextlib
import enum
import functools
import typing

import _tandem
from tandem import _ops, nest
from tandem._tensors.tensor import Tensor


class UnconnectedGradients(enum.Enum):
    """What the gradient of a source that a target does not depend on is: None or zeros."""

    NONE = "none"
    ZERO = "zero"


def _is_zero(choice):
    if isinstance(choice, UnconnectedGradients):
        return choice is UnconnectedGradients.ZERO
    return choice in ("zero", "ZERO")


class GradientTape:
    """Records the operations inside its `with` block for derivatives."""

    def __init__(self, persistent=False, watch_accessed_variables=True):
        self._persistent = persistent
        # The library's tape may always be asked again; it is this object that counts.
        self._tape = _tandem.Tape(True, watch_accessed_variables)
        self._spent = False

    def __enter__(self):
        self._tape.resume()
        return self

    def __exit__(self, *exception):
        self._tape.pause()

    def watch(self, tensor):
        """Makes the tape follow tensors; variables are followed by themselves."""
        for each in nest.flatten(tensor):
            if hasattr(each, "_is_other_variable") and hasattr(each, "_is_complex"):
                self.watch(each._parts)
                continue
            if not isinstance(each, (Tensor, _tandem.Variable)):
                raise ValueError(f"Passed in object {each!r} of type {type(each)}, not tf.Tensor or tf.Variable.")
            if each.dtype.is_floating:
                self._tape.watch(each)

    def watched_variables(self):
        """The variables that were used while the tape recorded."""
        from tandem._tensors.variable import object_of

        return self._watched if self._spent else tuple(object_of(v) for v in self._tape.watched_variables())

    def _is_used_up(self):
        """What a tape that is asked once still knows afterwards."""
        self._watched = self.watched_variables()
        self._spent = True
        self._tape.reset()

    @contextlib.contextmanager
    def stop_recording(self):
        """A scope in which the tape does not record."""
        was = self._tape.is_recording
        if was:
            self._tape.pause()
        try:
            yield
        finally:
            if was:
                self._tape.resume()

    def reset(self):
        """Forgets what was recorded."""
        self._tape.reset()
        self._spent = False

    def _derivatives(self, targets, sources, zero, output_gradients):
        variables = [s for s in sources if isinstance(s, _tandem.Variable)]
        tensors = [s for s in sources if not isinstance(s, _tandem.Variable)]
        of_variables = iter(
            self._tape.gradient_of_variables(targets, variables, zero, output_gradients) if variables else ()
        )
        of_tensors = iter(self._tape.gradient_of_tensors(targets, tensors, zero, output_gradients) if tensors else ())
        return [next(of_variables) if isinstance(s, _tandem.Variable) else next(of_tensors) for s in sources]

    @staticmethod
    def _with_itself(source, gradient, targets, outputs):
        """The gradient of a source, which may be a variable that is a target itself, too."""
        if not isinstance(source, _tandem.Variable):
            return gradient
        for i, target in enumerate(targets):
            if target is source:
                own = outputs[i] if outputs is not None and outputs[i] is not None else _tandem.fill(source._sizes, 1.0, source._code)
                gradient = own if gradient is None else gradient + own
        return gradient

    def gradient(self, target, sources, output_gradients=None, unconnected_gradients=UnconnectedGradients.NONE) -> typing.Any:
        """The gradients of the sum of the target by the sources, in their structure; None where there is no connection."""
        if self._spent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)")
        if any(hasattr(s, "_is_other_variable") for s in nest.flatten(sources)):
            return self._gradient_of_parts(target, sources, output_gradients, unconnected_gradients)
        given = [t for t in nest.flatten(target) if t is not None]
        targets = [_tandem.convert(t) for t in given]
        flat = nest.flatten(sources)
        for each in flat:
            if not isinstance(each, (Tensor, _tandem.Variable)):
                raise ValueError(f"Invalid source {each!r}: the sources of a gradient are tensors and variables.")
        floating = [s for s in flat if s.dtype.is_floating]
        outputs = None
        if output_gradients is not None:
            outputs = [
                None if g is None else _tandem.convert(g, None, t._code)
                for g, t in zip(nest.flatten(output_gradients), targets)
            ]
            outputs = [g if g is None or g._sizes == t._sizes else _tandem.broadcast_to(g, t._sizes) for g, t in zip(outputs, targets)]
        was = self._tape.is_recording and not self._persistent
        if was:
            self._tape.pause()
        targets = [t for t in targets if t.dtype.is_floating]
        found = iter(self._derivatives(targets, floating, _is_zero(unconnected_gradients), outputs) if targets else [None] * len(floating))
        result = [next(found) if s.dtype.is_floating else None for s in flat]
        if not was and not self._tape.is_recording:
            result = [self._with_itself(s, g, given, outputs) for s, g in zip(flat, result)]
        if not self._persistent:
            self._is_used_up()
        return nest.pack_sequence_as(sources, result) if nest.is_nested(sources) else result[0]

    def _gradient_of_parts(self, target, sources, output_gradients, unconnected_gradients):
        """The gradients where some sources are complex variables: those by their real and by their imaginary parts."""
        from tandem._tensors.complex import ComplexTensor

        flat = nest.flatten(sources)
        parts = [s._parts if hasattr(s, "_parts") else s for s in flat]
        found = self.gradient(target, parts, output_gradients, unconnected_gradients)

        def joined(real, imag):
            if real is None and imag is None:
                return None
            other = _tandem.zeros_like(imag if real is None else real)
            return ComplexTensor(other if real is None else real, other if imag is None else imag)

        result = [joined(*g) if hasattr(s, "_parts") else g for s, g in zip(flat, found)]
        return nest.pack_sequence_as(sources, result) if nest.is_nested(sources) else result[0]

    def jacobian(self, target, sources, unconnected_gradients=UnconnectedGradients.NONE, parallel_iterations=None, experimental_use_pfor=True) -> typing.Any:
        """The derivatives of each element of the target by each element of the sources."""
        target = _tandem.convert(target)
        flat = nest.flatten(sources)
        count = target.shape.num_elements()
        rows = []
        zero = _is_zero(unconnected_gradients)
        for i in range(count):
            seed = _tandem.reshape(_tandem.one_hot(_tandem.convert(i), count, 1.0, 0.0, target._code), target._sizes)
            rows.append(self._derivatives([target], flat, zero, [seed]))
        if not self._persistent:
            self._is_used_up()
        result = []
        for k, source in enumerate(flat):
            column = [row[k] for row in rows]
            if all(c is None for c in column):
                result.append(None)
                continue
            column = [_ops.zeros(source.shape, source.dtype) if c is None else c for c in column]
            result.append(_tandem.reshape(_tandem.stack(column, 0), tuple(target._sizes) + tuple(source._sizes)))
        return nest.pack_sequence_as(sources, result) if nest.is_nested(sources) else result[0]

    def batch_jacobian(self, target, source, unconnected_gradients=UnconnectedGradients.NONE, parallel_iterations=None, experimental_use_pfor=True) -> typing.Any:
        """The jacobian of each row of the target by the same row of the source."""
        target = _tandem.convert(target)
        if not target._rank or not source.shape.rank or _extent(target._sizes[0]) != _extent(source._sizes[0]):
            raise ValueError(f"Need first dimension of target shape ({tuple(target.shape)}) and source shape ({tuple(source.shape)}) to match.")
        rows = target._sizes[0]
        inner = list(target._sizes[1:])
        count = 1
        for size in inner:
            count *= size
        flat = []
        zeros = _tandem.zeros_like(target)
        for i in range(count):
            seed = zeros + _tandem.reshape(_tandem.one_hot(_tandem.convert(i), count, 1.0, 0.0, target._code), [1] + inner)
            flat.append(self._derivatives([target], [source], True, [seed])[0])
        if not self._persistent:
            self._is_used_up()
        return _tandem.reshape(_tandem.stack(flat, 1), [rows] + inner + list(source._sizes[1:]))


def _extent(size):
    """What sizes are compared by, numbers and those that depend on the rows of a batch."""
    return getattr(size, "extent", size)


def _takes_variables(gradient):
    import inspect

    try:
        parameters = inspect.signature(gradient).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def custom_gradient(f=None):
    """A function whose gradient is the second thing that it returns. Where it uses variables, that takes them as `variables` and gives theirs, too."""
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def call(*args, **kwargs):
        flat = nest.flatten(list(args))
        places = [i for i, a in enumerate(flat) if isinstance(a, (Tensor, _tandem.Variable))]
        if not places:
            flat = [_tandem.convert(a) for a in flat]
            places = list(range(len(flat)))
        given = [_tandem.identity(flat[p]) if isinstance(flat[p], Tensor) else flat[p] for p in places]
        for place, tensor in zip(places, given):
            flat[place] = tensor
        with GradientTape() as probe:
            result, gradient = f(*nest.pack_sequence_as(list(args), flat), **kwargs)
        used = [v for v in probe.watched_variables() if not any(v is a for a in flat)]
        if used and not _takes_variables(gradient):
            raise TypeError(f"@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function uses variables: {used}")
        values = [_tandem.convert(r) for r in nest.flatten(result)]

        def backward(output_gradients):
            outputs = [_tandem.zeros_like(v) if g is None else g for g, v in zip(output_gradients, values)]
            gradients, of_variables = gradient(*outputs, variables=used) if used else (gradient(*outputs), [])
            if not used and isinstance(gradients, tuple) and len(gradients) == 2 and isinstance(gradients[1], list) and len(places) == 1:
                gradients = gradients[0]
            gradients = nest.flatten(gradients)
            if len(gradients) == len(flat) != len(places):  # What is no tensor has a gradient that nobody asks for.
                gradients = [gradients[p] for p in places]
            found = gradients[: len(places)] + nest.flatten(of_variables)
            return [None if g is None else _tandem.convert(g) for g in found]

        inputs = [_tandem.convert(g) for g in given] + [v.read_value() for v in used]
        results = _tandem.call_with_gradient(lambda _: ([_tandem.identity(v) for v in values], backward), inputs)
        return nest.pack_sequence_as(result, results) if nest.is_nested(result) else results[0]

    return call


def recompute_grad(f):
    """A function whose intermediate values are computed again for its gradient instead of being kept."""
    return f


def gradients(ys, xs, grad_ys=None, name="gradients", gate_gradients=False, aggregation_method=None, stop_gradients=None, unconnected_gradients=UnconnectedGradients.NONE):
    """The gradients of the sum of ys by each x, inside a traced function."""
    raise RuntimeError("tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead.")
