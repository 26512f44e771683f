"""A model as a table, laid out as Keras does it."""

import math
import re
import shutil

from tandem import nest
from tandem._tensors.shape import TensorShape
from tandem.keras._symbolic import KerasTensor, OpCall, _leaves


def _count(weights):
    return sum(math.prod(w.shape.as_list()) for w in weights)


def _bytes(weights):
    def element(w):  # The library keeps learning rates in double precision; in Keras they have single precision.
        return 4 if w.name.endswith("/learning_rate:0") else w.dtype.size

    size = sum(math.prod(w.shape.as_list()) * element(w) for w in {id(w): w for w in weights}.values())
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1024 or unit == "TB":
            return f"{size:.2f} {unit}"
        size /= 1024


# ---- What a row says ----


def _shape_text(layer):
    if layer._inbound_nodes:
        shapes = nest.map_structure(lambda t: str(tuple(t.shape)) if isinstance(t, KerasTensor) else str(t), layer._inbound_nodes[-1].outputs)
        flat = nest.flatten(shapes)
        return flat[0] if len(flat) == 1 else str(shapes).replace("'", "")
    try:
        return str(tuple(layer.output_shape))
    except (AttributeError, TypeError):
        pass
    given = layer.__dict__.get("_tandem_built_for")
    if given is None or not _says_its_shape(type(layer)):
        return "?"
    try:
        shape = layer.compute_output_shape(given)
    except Exception:  # noqa: BLE001  A layer of the user's may want more than shapes; the table goes without.
        return "?"
    if isinstance(shape, (tuple, TensorShape)) and shape and not isinstance(shape[0], (tuple, list)):
        return str((given[0] if isinstance(given[0], int) else None, *tuple(shape)[1:]) if tuple(shape)[0] is None else tuple(shape))
    return str(shape)


def _says_its_shape(kind):
    """Whether the built-in class of a layer, or the user's own, says what shape follows from which."""
    for base in kind.__mro__:
        if "compute_output_shape" in vars(base):
            return base.__name__ not in ("Layer", "Model", "Sequential")
        if base.__module__.startswith("tandem.keras.layers"):
            return True
    return False


def _class_name(operation):
    if isinstance(operation, OpCall):
        return "".join(part.title() for part in re.sub(r"_\d+$", "", operation.name).split("_"))
    return type(operation).__name__


def _connections(operation, nodes):
    sources = [t for node in operation._inbound_nodes if id(node) in nodes for t in node.inputs]
    parts = ["{}[{}][{}]".format(t._keras_history.operation.name, *t._keras_history[1:]) for t in sources]
    return ", ".join(parts) or "-"


def _params(operation):
    if not hasattr(operation, "built"):
        return "0"
    return f"{_count(operation.weights):,}" if operation.built else "0 (unbuilt)"


def _trained(operation):
    if not operation.weights:
        return "-"
    return "Y" if operation.trainable else "N"


def _is_a_chain(graph):
    """Whether one layer follows the other, each used once."""
    operations = [id(node.operation) for node in graph.nodes]
    used = [id(t) for node in graph.nodes for t in node.inputs]
    ends = [t for t in _leaves(graph.outputs) if isinstance(t, KerasTensor)]
    ends = {id(t._node) for t in ends} - {id(t._node) for node in graph.nodes for t in node.inputs}
    return (
        len(graph.flat_inputs) == 1
        and all(len(node.inputs) <= 1 for node in graph.nodes)
        and len(set(operations)) == len(operations)
        and len(set(used)) == len(used)
        and len(ends) <= 1
    )


# ---- The table ----


def _wrapped(text, width):
    """The lines of a cell: words that are too long are cut."""
    lines = [""]
    for word in re.findall(r"\s*\S+", text) or [""]:
        if lines[-1] and len(lines[-1] + word) > width:
            lines.append("")
        lines[-1] += word if lines[-1] else word if len(lines) == 1 else word.lstrip()
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def _widths(shares, length):
    ends = [int(share * length) for share in shares]
    widths = [end - start + 2 for start, end in zip([0] + ends, ends)]
    if min(widths) < 6:
        raise ValueError("Insufficient console width to print summary.")
    excess = max(sum(widths) + len(widths) + 1 - length, 0)
    for i in range(len(widths)):
        taken = round(excess / (len(widths) - i))
        widths[i] -= taken
        excess -= taken
    return widths


def _table(header, rows, widths, places):
    def line(left, stroke, middle, right):
        return left + middle.join(stroke * w for w in widths) + right

    def lines(row, bar):
        cells = [_wrapped(text, w - 2) for text, w in zip(row, widths)]
        for i in range(max(len(c) for c in cells)):
            parts = [f"{c[i] if i < len(c) else '':{place}{w - 2}}" for c, w, place in zip(cells, widths, places)]
            yield f"{bar} " + f" {bar} ".join(parts) + f" {bar}"

    result = [line("┏", "━", "┳", "┓"), *lines(header, "┃"), line("┡", "━", "╇", "┩")]
    for i, row in enumerate(rows):
        if i:
            result.append(line("├", "─", "┼", "┤"))
        result += lines(row, "│")
    return result + [line("└", "─", "┴", "┘")]


def _range(layers, layer_range):
    if layer_range is None:
        return layers
    if len(layer_range) != 2:
        raise ValueError(f"layer_range must be a list or tuple of length 2. Received: layer_range = {layer_range} of length {len(layer_range)}")
    if not all(isinstance(name, str) for name in layer_range):
        raise ValueError(f"layer_range should contain string type only. Received: {layer_range}")
    found = [[i for i, layer in enumerate(layers) if re.match(name, layer.name)] for name in layer_range]
    if not all(found):
        raise ValueError(f"Passed layer_names do not match the layer names in the model. Received: {layer_range}")
    first, last = sorted(found, key=min)
    return layers[min(first) : max(last) + 1]


def summary_text(model, line_length=None, positions=None, expand_nested=False, show_trainable=False, layer_range=None):
    """The table of a model's layers as text."""
    from tandem.keras._model import Sequential

    graph = None if isinstance(model, Sequential) else model._tandem_graph
    is_chain = graph is None or _is_a_chain(graph)
    header, places = ["Layer (type)", "Output Shape", "Param #"], ["<", "<", ">"]
    shares, length = positions or ([0.45, 0.80, 1.0] if is_chain else [0.3, 0.56, 0.74, 1.0]), 88 if is_chain else 108
    if not is_chain:
        header, places = header + ["Connected to"], places + ["<"]
    if show_trainable:
        shares, length = [0.9 * share for share in shares] + [1.0], length + 12
        header, places = header + ["Trainable"], places + ["^"]
    length = line_length or min(length, shutil.get_terminal_size().columns - 4)
    nodes = set() if graph is None else {id(node) for node in graph.nodes}

    def rows_of(layer, depth):
        row = [f"{'   ' * depth + '└ ' if depth else ''}{layer.name} ({_class_name(layer)})", _shape_text(layer), _params(layer)]
        row += [] if is_chain else [_connections(layer, nodes)]
        row += [_trained(layer)] if show_trainable else []
        rows = [row]
        for each in getattr(layer, "layers", ()) if expand_nested else ():
            rows += rows_of(each, depth + 1)
        return rows

    operations = _range(model.layers if graph is None else model.operations, layer_range)
    rows = [row for layer in operations for row in rows_of(layer, 0)]
    trained, fixed = model.trainable_weights, model.non_trainable_weights
    optimizer = getattr(model, "optimizer", None)
    slots = list(optimizer.variables) if optimizer is not None and optimizer.built else []
    counted = [("Total", [*trained, *fixed, *slots]), ("Trainable", trained), ("Non-trainable", fixed)]
    counted += [("Optimizer", slots)] if slots else []
    lines = [f'Model: "{model.name}"', *_table(header, rows, _widths(shares, length), places)]
    return "\n".join(lines + [f" {what} params: {_count(weights):,} ({_bytes(weights)})" for what, weights in counted])
