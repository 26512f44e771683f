"""What checkpoints save of Python objects: variables, the objects that hold them, and lists and dictionaries of those."""

import functools
import re

import _tandem

_SKIPPED = ("_tandem_", "__")


class AutoTrackable:
    """An object whose attributes are saved and restored."""

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        node = self.__dict__.get("_tandem_node")
        if node is not None and is_trackable(value):
            track(node, name, value)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_tandem_")}


def is_trackable(value):
    """True for what a checkpoint holds: variables, modules, layers, and containers of them."""
    if isinstance(value, (_tandem.Variable, _tandem.Optimizer, AutoTrackable)):
        return True
    if isinstance(value, (list, tuple)):
        return any(is_trackable(v) for v in value)
    if isinstance(value, dict):
        return all(isinstance(k, str) for k in value) and any(is_trackable(v) for v in value.values())
    return hasattr(value, "_trackable_children")


def track(node, name, value):
    """Notes that a node has a value under a name."""
    node.track(name, node_of(value))


_lists = {}


def node_of(value):
    """The node that stands for an object in checkpoints; the same each time."""
    if isinstance(value, _tandem.Variable):
        return _tandem.Trackable.of_variable(value)
    if isinstance(value, _tandem.Optimizer):
        return value
    if isinstance(value, (list, tuple, dict)):
        node = _tandem.Trackable()
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            if is_trackable(each):
                node.track(str(key), node_of(each))
        return node
    node = value.__dict__.get("_tandem_node")
    if node is None:
        own = getattr(value, "_own_node", None)
        node = own() if own is not None else None
        if node is None:
            node = _tandem.Trackable()
        value.__dict__["_tandem_node"] = node
        sync(value, node)
    return node


def children_of(value):
    """The values that an object tracks, by name."""
    own = getattr(value, "_trackable_children", None)
    if own is not None:
        return own()
    return {k: v for k, v in vars(value).items() if not k.startswith(_SKIPPED) and is_trackable(v)}


def sync(value, node=None, seen=None):
    """Brings the nodes up to date with what the objects hold now."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, (_tandem.Variable, _tandem.Optimizer)):
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            if is_trackable(each):
                sync(each, None, seen)
        return
    node = node or node_of(value)
    names = set(node.tracked_names())
    for name, child in children_of(value).items():
        if not isinstance(child, (_tandem.Variable, _tandem.Optimizer)):
            sync(child, None, seen)
        if name not in names or isinstance(child, (list, tuple, dict, _tandem.Variable)):
            if name not in names or not isinstance(child, _tandem.Variable):
                track(node, name, child)


class Module(AutoTrackable):
    """An object that holds variables and other modules, tf.Module."""

    def __init__(self, name=None):
        self._module_name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()

    @property
    def name(self):
        """The module's name."""
        return self._module_name

    @property
    def name_scope(self):
        """A scope in which variables are named after the module."""
        import tandem

        return tandem.name_scope(self.name)

    @classmethod
    def with_name_scope(cls, method):
        """A method that runs in the module's name scope."""

        @functools.wraps(method)
        def scoped(self, *args, **kwargs):
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped

    def _flatten_variables(self):
        """The variables of this module by the names of their attributes, and after them those of the modules within."""
        found, seen = [], set()

        def leaves(value):
            if isinstance(value, (list, tuple)):
                for each in value:
                    yield from leaves(each)
            elif isinstance(value, dict):
                for key in sorted(value, key=str):
                    yield from leaves(value[key])
            else:
                yield value

        def walk(module):
            if id(module) in seen:
                return
            seen.add(id(module))
            within = []
            for leaf in leaves([vars(module)[key] for key in sorted(vars(module)) if not key.startswith("_tandem_")]):
                if isinstance(leaf, _tandem.Variable):
                    if id(leaf) not in seen:
                        seen.add(id(leaf))
                        found.append(leaf)
                elif hasattr(leaf, "_is_other_variable"):
                    if id(leaf) not in seen:
                        seen.add(id(leaf))
                        found.append(leaf)
                elif isinstance(leaf, Module) or hasattr(leaf, "weights") and hasattr(leaf, "_trackable_children"):
                    within.append(leaf)
            for each in within:
                if isinstance(each, Module):
                    walk(each)
                else:
                    found.extend(w for w in each.weights if id(w) not in seen)
                    seen.update(id(w) for w in each.weights)

        walk(self)
        return found

    @property
    def variables(self):
        """The variables of this module and of all within it."""
        return tuple(self._flatten_variables())

    @property
    def trainable_variables(self):
        """Those of the variables that gradients are computed for."""
        return tuple(v for v in self._flatten_variables() if v.trainable)

    @property
    def non_trainable_variables(self):
        """Those of the variables that are not trained."""
        return tuple(v for v in self._flatten_variables() if not v.trainable)

    @property
    def submodules(self):
        """The modules within this one."""
        found = []

        def walk(value):
            if isinstance(value, (list, tuple)):
                for each in value:
                    walk(each)
            elif isinstance(value, dict):
                for each in value.values():
                    walk(each)
            elif isinstance(value, Module) and value not in found:
                found.append(value)
                for each in vars(value).values():
                    walk(each)

        for each in vars(self).values():
            walk(each)
        return tuple(found)
