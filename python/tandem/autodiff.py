"""Derivatives, tf.autodiff: gradient tapes, and derivatives in one direction."""

import warnings

import _tandem
from tandem import nest
from tandem._names import missing as _missing
from tandem._tensors.tensor import Tensor
from tandem._tracing.tape import GradientTape, UnconnectedGradients, _is_zero


class ForwardAccumulator:
    """Derivatives of what is computed inside its `with` block, of all of it in the direction of the tangents.

    The library has gradients only: a derivative in a direction t is the gradient by u of the sum of t times the gradient that u
    makes of the primals (Townsend 2017, "A new trick for calculating Jacobian vector products"). It costs about two gradients.
    """

    def __init__(self, primals, tangents):
        self._primals, tangents = nest.flatten(primals), nest.flatten(tangents)
        if len(self._primals) != len(tangents):
            raise ValueError(f"ForwardAccumulator: {len(tangents)} tangents for {len(self._primals)} primals")
        self._tangents = []
        for primal, tangent in zip(self._primals, tangents):
            if not isinstance(primal, (Tensor, _tandem.Variable)):
                raise TypeError(f"ForwardAccumulator: a primal is {primal!r}; tensors and variables are accepted")
            if not primal.dtype.is_floating:
                warnings.warn(f"The dtype of the watched primal must be floating (e.g. tf.float32), got {primal.dtype!r}", stacklevel=2)
            tangent = _tandem.convert(tangent, primal._code)
            if tuple(tangent.shape) != tuple(primal.shape):
                raise ValueError(f"ForwardAccumulator: a tangent of the shape {tuple(tangent.shape)} for a primal of the shape {tuple(primal.shape)}")
            self._tangents.append(tangent)
        self._tape = GradientTape(persistent=True, watch_accessed_variables=False)

    def __enter__(self):
        self._tape.__enter__()
        self._tape.watch([p for p in self._primals if p.dtype.is_floating])
        return self

    def __exit__(self, *exception):
        self._tape.__exit__(*exception)

    def jvp(self, primals, unconnected_gradients=UnconnectedGradients.NONE):
        """The derivatives of tensors that were computed inside, in their structure; None, or zeros where asked for, for others."""
        zero = _is_zero(unconnected_gradients)
        if not nest.is_nested(primals):
            return self._derivative(primals, zero)
        return nest.map_structure(lambda value: self._derivative(value, zero), primals)

    def _derivative(self, value, zero):
        for primal, tangent in zip(self._primals, self._tangents):
            if value is primal:
                return tangent
        value = _tandem.convert(value)
        pairs = [(p, t) for p, t in zip(self._primals, self._tangents) if p.dtype.is_floating] if value.dtype.is_floating else []
        with self._tape.stop_recording():
            with GradientTape(watch_accessed_variables=False) as along:
                u = _tandem.zeros_like(value)
                along.watch(u)
                gradients = self._tape._derivatives([value], [p for p, _ in pairs], False, [u]) if pairs else []
                total = None
                for g, (_, tangent) in zip(gradients, pairs):
                    if g is not None:
                        product = _tandem.reduce_sum(_tandem.cast(g, tangent._code) * tangent, None, False)
                        total = product if total is None else total + _tandem.cast(product, total._code)
            if total is None:
                return _tandem.zeros_like(value) if zero else None
            return along.gradient(total, u, unconnected_gradients=UnconnectedGradients.ZERO)


_missing.install(__name__, globals())

__all__ = ["ForwardAccumulator", "GradientTape"]
