"""Structures of values, keras.tree."""

from tandem._names import missing as _missing
from tandem.nest import assert_same_structure, flatten, is_nested, map_structure, pack_sequence_as  # noqa: F401


def traverse(func, structure, top_down=True):
    """`func` of each part of a structure; what it returns, if anything, stands in the part's place."""
    if top_down:
        changed = func(structure)
        if changed is not None:
            return changed
    if isinstance(structure, dict):
        structure = type(structure)((k, traverse(func, v, top_down)) for k, v in structure.items())
    elif isinstance(structure, (list, tuple)):
        parts = [traverse(func, v, top_down) for v in structure]
        structure = type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    if top_down:
        return structure
    changed = func(structure)
    return structure if changed is None else changed


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
    "assert_same_structure", "flatten", "is_nested", "lists_to_tuples", "map_shape_structure", "map_structure", "pack_sequence_as",
    "traverse",
]
