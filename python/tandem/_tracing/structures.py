"""What the arguments of a traced function are recognised by, and the structures that its results come in."""

import _tandem
from tandem import dtypes, nest
from tandem._names.lazy import np
from tandem._tensors.shape import TensorShape, _Computed
from tandem._tensors.tensor import Tensor, TensorSpec
from tandem._tracing.state import happens_after_each_run, state


class _TensorMark:
    pass


_MARK = _TensorMark()  # Where a tensor stands in the key of a call.


def _map_up_to(shallow, value, f):
    """f of each leaf of a structure and of what another structure has in its place, which may be a list."""
    if isinstance(shallow, dict):
        if not isinstance(value, dict) or set(value) != set(shallow):
            raise TypeError(f"a dictionary with the keys {sorted(shallow)} is wanted, got {value!r}")
        return {key: _map_up_to(each, value[key], f) for key, each in shallow.items()}
    if isinstance(shallow, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(shallow):
            raise TypeError(f"{len(shallow)} values are wanted, got {value!r}")
        parts = [_map_up_to(each, own, f) for each, own in zip(shallow, value)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return f(shallow, value)


def _named(value, name):
    """The specs of an argument, named after it where they have no name."""
    flat = nest.flatten(value)
    if not _has_spec(value):
        return value
    named = [TensorSpec(s.shape, s.dtype, s.name or (f"{name}_{i}" if i else name)) if isinstance(s, TensorSpec) else s for i, s in enumerate(flat)]
    return nest.pack_sequence_as(value, named) if nest.is_nested(value) else named[0]


def _is_leaf_tensor(value):
    return isinstance(value, (Tensor, np.ndarray)) or (isinstance(value, np.generic)) or isinstance(value, _Computed)


def _key_of(value):
    """What a plain argument is recognised by: its value, or itself."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    if isinstance(value, (int, float, bool, str, bytes, type(None), dtypes.DType, TensorShape)):
        return type(value), value
    return id(value)


def _is_object(value):
    """Whether an argument is recognised by itself alone."""
    return value is not _MARK and not isinstance(value, (int, float, bool, str, bytes, type(None), dtypes.DType, TensorShape, _Rows))


class _Rows:
    """In the place of a ragged tensor: where its rows end."""

    def __init__(self, of):
        self.of = of


def flatten_results(result):
    """The tensors of a result, and what is needed to make it again of others."""
    tensors, leaves = [], []
    for leaf in nest.flatten(result):
        if isinstance(leaf, (bool, int, float)) and not isinstance(leaf, bool):
            leaf = _tandem.convert(leaf)
        elif isinstance(leaf, (bool, np.ndarray, np.generic, _Computed)):
            leaf = _tandem.convert(leaf)
        elif isinstance(leaf, _tandem.Variable):
            leaf = leaf.read_value()
        elif hasattr(leaf, "_ragged_rows") and isinstance(leaf.flat_values, Tensor):
            leaves.append(_Rows(leaf.outline()))
            tensors.append(leaf.flat_values)
            continue
        if isinstance(leaf, Tensor):
            leaves.append(_MARK)
            tensors.append(leaf)
        else:
            leaves.append(leaf)
    return tensors, (result if nest.is_nested(result) else None, leaves)


def rebuild_results(tensors, structure):
    """What a function returned, of its tensors and of the structure they came in."""
    like, leaves = structure
    if like is None and leaves[0] is _MARK:
        return tensors[0]
    if type(like) is _FlatDictionary:
        return {key: tensors[place] for key, place in like.places}
    tensors = iter(tensors)
    leaves = [next(tensors) if leaf is _MARK else leaf.of(next(tensors)) if type(leaf) is _Rows else leaf for leaf in leaves]
    return leaves[0] if like is None else nest.pack_sequence_as(like, leaves)


class _FlatDictionary:
    """The structure of a dictionary of tensors, as a step's logs are: its keys, and the place of each one's tensor."""

    __slots__ = ("places",)

    def __init__(self, keys):
        self.places = [(key, sorted(keys).index(key)) for key in keys]


def _without_values(structure):
    """The structure of a result without its tensors, which are those of the trace."""
    like, leaves = structure
    if like is not None:
        like = nest.pack_sequence_as(like, [None] * len(leaves)) if leaves else like
    if type(like) is dict and len(like) == leaves.count(_MARK) and all(v is None for v in like.values()):
        like = _FlatDictionary(list(like))
    return like, leaves


class _WithEffects:
    """The structure of a result, after whose tensors come those of what happens after each run."""

    __slots__ = ("structure", "effects")

    def __init__(self, structure, effects):
        self.structure, self.effects = structure, [(f, len(tensors)) for f, tensors in effects]

    def happen(self, tensors):
        """Calls the effects, or leaves them to the function around this one. Returns the tensors of the result."""
        end = first = len(tensors) - sum(count for _, count in self.effects)
        for f, count in self.effects:
            own = tensors[end : end + count]
            end += count
            if not (state.tracing and happens_after_each_run(f, *own)):
                f(*own)
        return tensors[:first]


def _as_results(result):
    """Numbers among the results of a function are tensors, also where it runs op by op."""

    def converted(value):
        return _tandem.convert(value) if type(value) in (bool, int, float) else value

    return nest.map_structure(converted, result) if nest.is_nested(result) else converted(result)


def _has_spec(value):
    from tandem._tensors.specs import SPECS

    return any(isinstance(leaf, SPECS) for leaf in nest.flatten(value))
