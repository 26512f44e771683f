"""Structures of values, tf.nest: lists, tuples, named tuples, dictionaries (in the order of their keys), data classes."""

from collections.abc import Mapping

import _tandem


def _is_named_tuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_nested(value):
    """True for lists, tuples, dictionaries and dataclasses."""
    return isinstance(value, (list, tuple, Mapping)) or _is_dataclass(value)


is_sequence = is_nested


def _is_dataclass(value):
    return hasattr(type(value), "__dataclass_fields__")


def _fields(value):
    import dataclasses

    return dataclasses.fields(value)


def _parts(value):
    """The parts of a data class that are values: all fields, or what it says itself by TensorFlow's __tf_flatten__."""
    if hasattr(value, "__tf_flatten__"):
        return tuple(value.__tf_flatten__()[1])
    return tuple(getattr(value, field.name) for field in _fields(value))


def _sorted_keys(mapping):
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)


def flatten(structure, expand_composites=False):
    """The values of a structure as a list; those of dictionaries by their keys' order."""
    result = []
    _flatten(structure, result)
    return result


def _flatten(structure, result):
    if type(structure) is _tandem.Tensor:  # The usual leaf.
        result.append(structure)
    elif isinstance(structure, (list, tuple)):
        for each in structure:
            _flatten(each, result)
    elif isinstance(structure, Mapping):
        for key in _sorted_keys(structure):
            _flatten(structure[key], result)
    elif _is_dataclass(structure):
        for each in _parts(structure):
            _flatten(each, result)
    else:
        result.append(structure)


def _rebuild(structure, leaves):
    if isinstance(structure, (list, tuple)):
        parts = [_rebuild(each, leaves) for each in structure]
        if _is_named_tuple(structure):
            return type(structure)(*parts)
        if type(structure) in (list, tuple):
            return type(structure)(parts)
        return tuple(parts) if isinstance(structure, tuple) else list(parts)
    if isinstance(structure, Mapping):
        parts = {key: _rebuild(structure[key], leaves) for key in _sorted_keys(structure)}
        ordered = {key: parts[key] for key in structure}
        try:
            return ordered if type(structure) is dict else type(structure)(ordered)
        except TypeError:
            return ordered
    if _is_dataclass(structure) and hasattr(structure, "__tf_flatten__"):
        metadata, parts = structure.__tf_flatten__()
        return type(structure).__tf_unflatten__(metadata, tuple(_rebuild(each, leaves) for each in parts))
    if _is_dataclass(structure):
        parts = {f.name: _rebuild(getattr(structure, f.name), leaves) for f in _fields(structure)}
        import dataclasses

        return dataclasses.replace(structure, **parts)
    return next(leaves)


def pack_sequence_as(structure, flat_sequence, expand_composites=False):
    """The values of a list in the structure of another."""
    flat_sequence = list(flat_sequence)
    wanted = len(flatten(structure))
    if wanted != len(flat_sequence):
        raise ValueError(
            f"Could not pack sequence. Structure had {wanted} atoms, but flat_sequence had {len(flat_sequence)} items."
        )
    return _rebuild(structure, iter(flat_sequence))


def map_structure(func, *structures, **kwargs):
    """func of the values at each place of structures of one form."""
    if not structures:
        raise ValueError("Must provide at least one structure")
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types=False)
    flat = [flatten(s) for s in structures]
    return pack_sequence_as(structures[0], [func(*leaves) for leaves in zip(*flat)])


def assert_same_structure(nest1, nest2, check_types=True, expand_composites=False):
    """Raises unless two structures have one form."""
    if len(flatten(nest1)) != len(flatten(nest2)) or _outline(nest1) != _outline(nest2):
        raise ValueError(
            f"The two structures don't have the same nested structure.\n\nFirst structure: {nest1}\n\n"
            f"Second structure: {nest2}"
        )
    if check_types:
        _assert_same_types(nest1, nest2)


def _assert_same_types(a, b):
    """Raises TypeError where one structure has a list and the other a tuple."""
    if not is_nested(a):
        return
    if type(a) is not type(b) and not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        raise TypeError(f"The two structures don't have the same sequence type. First structure has type {type(a)}, while second structure has type {type(b)}.")
    if isinstance(a, (list, tuple)):
        for x, y in zip(a, b):
            _assert_same_types(x, y)
    elif isinstance(a, Mapping):
        for key in a:
            _assert_same_types(a[key], b[key])


def _outline(structure):
    if isinstance(structure, (list, tuple)):
        return tuple(_outline(each) for each in structure)
    if isinstance(structure, Mapping):
        return tuple((key, _outline(structure[key])) for key in _sorted_keys(structure))
    if _is_dataclass(structure):
        return tuple(_outline(each) for each in _parts(structure))
    return None


def signature(structure):
    """The structure without its leaves, as something that can be a key."""
    if isinstance(structure, (list, tuple)):
        return (type(structure),) + tuple(signature(each) for each in structure)
    if isinstance(structure, Mapping):
        return ("dict",) + tuple((key, signature(structure[key])) for key in _sorted_keys(structure))
    if _is_dataclass(structure):
        plain = structure.__tf_flatten__()[0] if hasattr(structure, "__tf_flatten__") else ()
        return (type(structure), _as_key(plain)) + tuple(signature(each) for each in _parts(structure))
    return None


def _as_key(value):
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
