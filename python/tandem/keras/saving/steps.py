"""Steps of described models that are functions, not layers, as configurations.

Operators and functions of keras.ops are written as Keras writes them: their operands are what the step is called with, their
options a configuration. Other functions of this package are written by where they are found.
"""

import importlib
import inspect

from tandem.keras import _objects
from tandem.keras._symbolic import KerasTensor, _get_item, _leaves

_OPERATORS = {
    "add": "Add", "sub": "Subtract", "mul": "Multiply", "truediv": "TrueDivide", "floordiv": "FloorDivide", "mod": "Mod", "pow": "Power",
    "matmul": "Matmul", "neg": "Negative", "abs": "Absolute", "lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual",
    "and_": "LogicalAnd", "or_": "LogicalOr", "xor": "LogicalXor", "invert": "LogicalNot", "_get_item": "GetItem",
}
# Functions of keras.ops all of whose arguments are operands, and of which Keras has in keras.src.ops.nn.
_OF_OPERANDS = {
    "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "mod", "power", "matmul", "maximum", "minimum", "where", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor", "dot", "outer", "arctan2",
}
_OF_NN = {
    "relu", "relu6", "sigmoid", "softplus", "softsign", "silu", "log_sigmoid", "leaky_relu", "hard_sigmoid", "elu", "selu", "gelu", "softmax",
    "log_softmax", "max_pool", "average_pool", "conv", "one_hot", "multi_hot", "moments", "normalize", "hard_silu", "celu", "glu", "tanh_shrink",
}


def _home(function):
    """The module in whose namespace a function is found by its name, or None."""
    for name in ("tandem.keras.ops", function.__module__, "tandem", "tandem.nn", "tandem.math", "tandem.linalg", "tandem.image"):
        try:
            found = getattr(importlib.import_module(name), function.__name__, None)
        except (AttributeError, ModuleNotFoundError):
            continue
        if found is function or getattr(found, "_raw", None) is function:
            return name
    return None


def _camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def _lists(value):
    """Tuples as lists, as Keras writes them in steps."""
    return [_lists(v) for v in value] if isinstance(value, (list, tuple)) else value


def step_config(operation, node, encode_value):
    """A step as a dictionary, with how it is called."""
    function = operation.function
    encode = lambda value: encode_value(_lists(value))  # noqa: E731
    name = getattr(function, "__name__", "")
    if function is _get_item or function.__module__ == "_operator":
        return _keras_entry(operation, "numpy", _OPERATORS[name], {}, [encode(a) for a in node.args], {})
    home = _home(function)
    if home is None:
        raise TypeError(f"the model has a step {operation.name!r}, a function that is found nowhere by its name; wrap it in a layer to save it")
    if home == "tandem.keras.ops":
        module = "nn" if name in _OF_NN else "numpy"
        if name in _OF_OPERANDS:
            return _keras_entry(operation, module, _camel(name), {}, [encode(a) for a in node.args], {k: encode(v) for k, v in node.kwargs.items()})
        bound = inspect.signature(function).bind(*node.args, **node.kwargs)
        if not bound.kwargs and not _is_variadic(function):
            given = bound.arguments
            operands = [v for v in given.values() if any(isinstance(leaf, KerasTensor) for leaf in _leaves(v))]
            options = {k: encode(v) for k, v in given.items() if not any(v is o for o in operands)}
            return _keras_entry(operation, module, _camel(name), options, [encode(v) for v in operands], {})
    call = {"args": [encode_value(a) for a in node.args], "kwargs": {k: encode_value(v) for k, v in node.kwargs.items()}}
    return {"module": home, "class_name": "__function__", "config": {"name": operation.name, "function": name}, "registered_name": None, "name": operation.name, "inbound_nodes": [call]}


def _is_variadic(function):
    return any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values())


def _keras_entry(operation, module, class_name, options, args, kwargs):
    return {
        "module": f"keras.src.ops.{module}", "class_name": class_name, "config": {"name": operation.name, **options}, "registered_name": class_name,
        "name": operation.name, "inbound_nodes": [{"args": args, "kwargs": kwargs}],
    }


def is_step(entry):
    """True if an entry of a configuration is an op and not a layer."""
    return entry.get("class_name") == "__function__" or str(entry.get("module", "")).startswith("keras.src.ops")


def step_from_config(entry, decode):
    """The function that a step calls, with its options."""
    from tandem.keras import ops

    config = dict(entry["config"])
    config.pop("name", None)
    config.pop("dtype", None)
    if entry["class_name"] == "__function__":
        if not entry["module"].startswith("tandem"):
            raise ValueError(f"a step's function is of the module {entry['module']!r}; those of tandem are accepted")
        found = getattr(importlib.import_module(entry["module"]), config["function"])
        return lambda *args, **kwargs: found(*args, **kwargs)
    if entry["class_name"] == "GetItem":
        return lambda x, key: x[tuple(key) if isinstance(key, list) else key]
    found = getattr(ops, _objects.snake_case(entry["class_name"]))
    options = {k: decode(v) for k, v in config.items()}
    plain = lambda v: tuple(v) if isinstance(v, list) else v  # noqa: E731
    known = inspect.signature(getattr(found, "_raw", found)).parameters
    if all(k in known for k in options) or not options:
        return lambda *args, **kwargs: found(*args, **{k: plain(v) for k, v in options.items()}, **kwargs)
    return lambda *args, **kwargs: found(*args, *[plain(v) for v in options.values()], **kwargs)


