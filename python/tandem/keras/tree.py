"""Structures of values, keras.tree."""

from tandem._names import missing as _missing
from tandem.nest import _sorted_keys, flatten, is_nested, map_structure, pack_sequence_as  # noqa: F401


MAP_TO_NONE = object()  # What a function gives `traverse` for a part in whose place None is to stand.


def assert_same_structure(a, b, check_types=None):
    """Raises unless two structures have one form."""
    from tandem import nest

    nest.assert_same_structure(a, b)


def flatten_with_path(structure):
    """The values of a structure with their paths, tuples of keys and places."""
    if isinstance(structure, dict):
        parts = [(key, structure[key]) for key in _sorted_keys(structure)]
    elif isinstance(structure, (list, tuple)):
        parts = list(enumerate(structure))
    else:
        return [((), structure)]
    return [((key, *path), value) for key, part in parts for path, value in flatten_with_path(part)]


def assert_same_paths(a, b):
    """Raises ValueError unless two structures have values at the same paths."""
    own, others = ({path for path, _ in flatten_with_path(each)} for each in (a, b))
    if own != others:
        raise ValueError(f"`a` and `b` don't have the same paths. Only in the first: {sorted(own - others, key=str)}, only in the second: {sorted(others - own, key=str)}")


def map_structure_up_to(shallow_structure, func, *structures):
    """func of the parts of structures that stand where a shallower one has its leaves."""
    def walk(shallow, *parts):
        if isinstance(shallow, dict):
            return type(shallow)((key, walk(shallow[key], *(p[key] for p in parts))) for key in shallow)
        if isinstance(shallow, (list, tuple)):
            made = [walk(*each) for each in zip(shallow, *parts)]
            return type(shallow)(*made) if hasattr(shallow, "_fields") else type(shallow)(made)
        return func(*parts)

    return walk(shallow_structure, *structures)


def traverse(func, structure, top_down=True):
    """`func` of each part of a structure; what it returns, if anything, stands in the part's place."""
    if top_down:
        changed = func(structure)
        if changed is not None:
            return None if changed is MAP_TO_NONE else changed
    if isinstance(structure, dict):
        structure = type(structure)((k, traverse(func, v, top_down)) for k, v in structure.items())
    elif isinstance(structure, (list, tuple)):
        parts = [traverse(func, v, top_down) for v in structure]
        structure = type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    if top_down:
        return structure
    changed = func(structure)
    return structure if changed is None else None if changed is MAP_TO_NONE else changed


def lists_to_tuples(structure):
    """The structure with tuples in the place of lists."""
    return traverse(lambda part: tuple(part) if isinstance(part, list) else None, structure, top_down=False)


def map_shape_structure(func, structure):
    """func of each shape of a structure."""
    if isinstance(structure, (list, tuple)) and all(isinstance(v, (int, type(None))) for v in structure):
        return func(tuple(structure))
    if isinstance(structure, dict):
        return {k: map_shape_structure(func, v) for k, v in structure.items()}
    return type(structure)(map_shape_structure(func, v) for v in structure)


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "MAP_TO_NONE", "assert_same_paths", "assert_same_structure", "flatten", "flatten_with_path", "is_nested", "lists_to_tuples",
    "map_shape_structure", "map_structure", "map_structure_up_to", "pack_sequence_as", "traverse",
]
