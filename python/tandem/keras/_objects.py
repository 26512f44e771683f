"""Objects that are named by strings, classes or configurations: initializers, losses, optimizers, .."""

import re


def snake_case(name):
    """A class's name in small letters, with underscores."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


_counts = {}


def auto_name(prefix):
    """A name that no other object has: the prefix with a number."""
    number = _counts.get(prefix, 0)
    _counts[prefix] = number + 1
    return prefix if number == 0 else f"{prefix}_{number}"


def reset_uids():
    """Lets automatic names begin at the beginning."""
    _counts.clear()


def lookup(kind, identifier, names, base=None):
    """The object that an identifier means: itself, a name, a class, or a configuration."""
    from tandem.keras import saving

    if identifier is None:
        return None
    if isinstance(identifier, dict):
        if "class_name" in identifier:
            name = identifier["class_name"]
            found = names.get(name) or names.get(snake_case(name)) or saving.custom_object(name)
            if isinstance(found, type):
                return saving.from_config(found, identifier.get("config", {}))
        return saving.deserialize_keras_object(identifier)
    if isinstance(identifier, str):
        found = names.get(identifier) or names.get(snake_case(identifier)) or saving.custom_object(identifier)
        if found is None:
            known = sorted(n for n in names if n == snake_case(n))
            raise ValueError(f"Could not interpret {kind} identifier: {identifier!r}; known are {', '.join(known)}")
        return found() if isinstance(found, type) else found
    if isinstance(identifier, type):
        return identifier()
    if callable(identifier) or base is not None and isinstance(identifier, base):
        return identifier
    raise ValueError(f"Could not interpret {kind} identifier: {identifier!r}")


def table(*classes, **aliases):
    """The objects that can be found by name."""
    names = {}
    for cls in classes:
        names[cls.__name__] = cls
        names[snake_case(cls.__name__)] = cls
    names.update(aliases)
    return names


def sign(classes, arguments):
    """Gives classes the arguments that Keras's have, in their order: each an __init__ that takes them and calls the class's own by name."""
    for name, text in arguments.items():
        _sign(classes[name], text)


def _sign(cls, text):
    import functools
    import inspect

    signature = inspect.signature(eval(f"lambda self, {text}, **kwargs: None"))  # noqa: S307: a text of this package.
    own = cls.__init__

    @functools.wraps(own)
    def __init__(self, *args, **kwargs):
        try:
            given = dict(signature.bind(self, *args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        del given["self"]
        own(self, **given.pop("kwargs", {}), **given)

    __init__.__signature__ = signature
    cls.__init__ = __init__


class Configured:
    """An object that can be made again from its configuration."""

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        """The object of its configuration."""
        return cls(**config)
