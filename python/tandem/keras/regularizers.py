"""Penalties on weights, keras.regularizers."""

import _tandem
from tandem._names import missing as _missing
from tandem.keras import _objects


class Regularizer(_objects.Configured):
    """What a regularizer of one's own derives from: a function of a weight that is added to the loss."""

    def __call__(self, x):
        return 0.0


class L1L2(Regularizer):
    """l1 * sum(|w|) + l2 * sum(w * w)."""

    def __init__(self, l1=0.0, l2=0.0):
        self.l1, self.l2 = 0.0 if l1 is None else l1, 0.0 if l2 is None else l2

    def __call__(self, x):
        x = _tandem.convert(x)
        total = _tandem.fill((), 0.0, x._code)
        if self.l1:
            total = total + self.l1 * _tandem.reduce_sum(_tandem.abs(x), None, False)
        if self.l2:
            total = total + self.l2 * _tandem.reduce_sum(_tandem.square(x), None, False)
        return total

    def get_config(self):
        return {"l1": float(self.l1), "l2": float(self.l2)}


class L1(L1L2):
    """l1 * sum(|w|)."""

    def __init__(self, l1=0.01, l=None):  # noqa: E741
        super().__init__(l1=l if l is not None else l1)

    def get_config(self):
        return {"l1": float(self.l1)}


class L2(L1L2):
    """l2 * sum(w * w)."""

    def __init__(self, l2=0.01, l=None):  # noqa: E741
        super().__init__(l2=l if l is not None else l2)

    def get_config(self):
        return {"l2": float(self.l2)}


class OrthogonalRegularizer(Regularizer):
    """Makes the rows or columns of a matrix orthogonal."""

    def __init__(self, factor=0.01, mode="rows"):
        self.factor, self.mode = factor, mode

    def __call__(self, x):
        x = _tandem.convert(x)
        axis = 1 if self.mode == "rows" else 0
        x = x / _tandem.sqrt(_tandem.maximum(_tandem.reduce_sum(x * x, axis, True), 1e-12))
        product = _tandem.matmul(x, x, axis == 0, axis == 1)
        n = int(product._sizes[0])
        off = _tandem.abs(product * (1 - _tandem.eye(n, -1, x._code)))
        return self.factor * 0.5 * _tandem.reduce_sum(off, None, False) / max(n * (n - 1) / 2.0, 1.0)

    def get_config(self):
        return {"factor": self.factor, "mode": self.mode}


l1, l2, orthogonal_regularizer = L1, L2, OrthogonalRegularizer


l1_l2 = L1L2
_NAMES = _objects.table(L1L2, L1, L2, OrthogonalRegularizer, l1=L1, l2=L2, l1_l2=L1L2)


def get(identifier):
    """The regularizer of a name, configuration or function."""
    return _objects.lookup("regularizer", identifier, _NAMES, Regularizer)


def serialize(regularizer):
    """What `deserialize` makes the regularizer of again."""
    from tandem.keras import saving

    return saving.serialize_keras_object(regularizer)


def deserialize(config, custom_objects=None):
    """The regularizer of a name or configuration."""
    return get(config)


_missing.install(__name__, globals())
