"""A model as a table, in the form in which Keras prints it."""

import re
import shutil

import numpy as np

from tandem import nest
from tandem.keras._calls import _shape_of


def _count(weights):
    return sum(int(np.prod(w.shape.as_list())) if w.shape.rank else 1 for w in weights)


def _size(weights):
    sizes = {"bool": 1, "float64": 4}  # Only learning rates have 64 bits, which Keras keeps in 32.
    return sum(_count([w]) * sizes.get(w.dtype.name, w.dtype.size) for w in {id(w): w for w in weights}.values())


def _bytes(size):
    size = float(size)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1024 or unit == "TB":
            return f"{size:.2f} {unit}"
        size /= 1024


# ---- What stands in the cells ----


def _shapes_text(shapes):
    """The text of a shape, or of a structure of shapes."""
    if isinstance(shapes, tuple) and all(s is None or isinstance(s, int) for s in shapes):
        return f"({', '.join(map(str, shapes))})"
    if isinstance(shapes, dict):
        return "{" + ", ".join(f"{k}: {_shapes_text(v)}" for k, v in shapes.items()) + "}"
    if len(shapes) == 1:
        return _shapes_text(shapes[0])
    inner = ", ".join(_shapes_text(s) for s in shapes)
    return f"[{inner}]" if isinstance(shapes, list) else f"({inner})"


def _shape_cell(layer, rows):
    """A layer's output shape: of the last call that was described, or of the shape that it was built for."""
    nodes = layer._inbound_nodes
    if nodes:
        shapes = _shape_of(nodes[-1].outputs)
        if rows is not None:
            shapes = nest.map_structure(lambda t: (rows,) + tuple(t.shape[1:]), nodes[-1].outputs)
        shapes = list(shapes) if isinstance(nodes[-1].outputs, tuple) else shapes
        return _shapes_text(shapes)
    shape = layer.__dict__.get("_tandem_built_for")
    if shape is None or not _tells_its_shape(layer):
        return "?"
    try:
        built = layer.compute_output_shape(shape)
        if isinstance(shape, tuple) and shape and isinstance(built, tuple) and built and built[0] is None:
            built = (shape[0],) + built[1:]
        return _shapes_text(built)
    except Exception:
        return "?"  # As in Keras: a table is printed of every model.


def _tells_its_shape(layer):
    from tandem.keras._layer import Layer

    return type(layer).compute_output_shape is not Layer.compute_output_shape or type(layer).__module__.startswith("tandem.")


def _class_name(operation):
    return getattr(operation, "class_name", None) or operation._class_name()


def _rows(layer, cells, level, expand_nested, rows):
    prefix = "   " * level + "└ " if level else ""
    weights = getattr(layer, "weights", ())
    params = f"{_count(weights):,}" if getattr(layer, "built", True) else "0 (unbuilt)"
    own = {
        "name": f"{prefix}{layer.name} ({_class_name(layer)})", "shape": _shape_cell(layer, rows), "params": params,
        "trainable": ("Y" if layer.trainable else "N") if weights else "-", "layer": layer,
    }
    cells.append(own)
    if expand_nested and getattr(layer, "layers", None):
        for each in layer.layers:
            _rows(each, cells, level + 1, expand_nested, layer.__dict__.get("_tandem_built_rows"))


class _Connections:
    """Who gives a layer its inputs, in models that are no chain."""

    def __init__(self, graph):
        self.nodes = {id(n) for n in graph.nodes} | {id(t._node) for t in graph.flat_inputs}
        depths = {}
        for node in graph.nodes[::-1]:
            own = depths.setdefault(id(node), 0)
            for source in node.inputs:
                if source._node is not None:
                    depths[id(source._node)] = max(depths.get(id(source._node), 0), own + 1)
        has_several_inputs = any(len(n.inputs) > 1 for n in graph.nodes)
        is_shared = any(sum(id(n) in self.nodes for n in o._inbound_nodes) > 1 for o in graph.operations)
        self.is_chain = not has_several_inputs and not is_shared and len(set(depths.values())) == len(depths)

    def of(self, layer):
        sources = [t for n in layer._inbound_nodes if id(n) in self.nodes for t in n.inputs]
        at = lambda t: next(i for i, n in enumerate(t._node.operation._inbound_nodes) if n is t._node)  # noqa: E731
        return ", ".join(f"{t._node.operation.name}[{at(t)}][{t._index}]" for t in sources if t._node is not None) or "-"


# ---- The table ----


def _wrapped(text, width):
    """Lines of a width, broken at spaces; words that are too long end in dots."""
    lines, line = [], ""
    for word in re.findall(r"\s*\S+\s*", text):
        if line and len(line) + len(word.rstrip()) > width:
            lines.append(line)
            line = ""
        line += word
    lines.append(line)
    return [line.rstrip() if len(line.rstrip()) <= width else line[: width - 1] + "…" for line in lines]


def _widths(positions, line_length):
    """The inner widths of columns that end at parts of a line, less what borders and spaces take."""
    ends = [int(p * line_length) for p in positions]
    widths = [end - start for start, end in zip([0] + ends, ends)]
    if min(widths) < 4:
        raise ValueError("Insufficient console width to print summary.")
    excess = sum(widths) + 3 * len(widths) + 1 - line_length
    for i in range(len(widths)):
        less = round(excess / (len(widths) - i))
        widths[i] -= less
        excess -= less
    return widths


def _table(rows, widths, alignment):
    def line(left, middle, right, stroke):
        return left + middle.join(stroke * (w + 2) for w in widths) + right

    def texts(row, wall):
        cells = [_wrapped(c, w) for c, w in zip(row, widths)]
        for i in range(max(map(len, cells))):
            parts = [format(c[i] if i < len(c) else "", f"{a}{w}") for c, a, w in zip(cells, alignment, widths)]
            yield wall + wall.join(f" {p} " for p in parts) + wall

    lines = [line("┏", "┳", "┓", "━"), *texts(rows[0], "┃"), line("┡", "╇", "┩", "━")]
    for row in rows[1:]:
        lines += [*texts(row, "│"), line("├", "┼", "┤", "─")]
    lines[-1 if len(rows) > 1 else len(lines) :] = [line("└", "┴", "┘", "─")]
    return lines


def _chosen(layers, layer_range):
    if layer_range is None:
        return layers
    if len(layer_range) != 2:
        raise ValueError(f"layer_range must be a list or tuple of length 2. Received: layer_range = {layer_range} of length {len(layer_range)}")
    found = [[i for i, layer in enumerate(layers) if re.match(pattern, layer.name)] for pattern in layer_range]
    if not all(found):
        raise ValueError(f"Passed layer_names do not match the layer names in the model. Received: {layer_range}")
    low, high = found
    return layers[min(high) : max(low) + 1] if min(low) > max(high) else layers[min(low) : max(high) + 1]


def summary_text(model, line_length=None, expand_nested=False, show_trainable=False, positions=None, layer_range=None):
    """The table of a model's layers as text."""
    from tandem.keras._model import Sequential

    is_graph = model._tandem_graph is not None and not isinstance(model, Sequential)
    connections = _Connections(model._tandem_graph) if is_graph else None
    header, keys, alignment = ["Layer (type)", "Output Shape", "Param #"], ["name", "shape", "params"], "<<>"
    if connections is None or connections.is_chain:
        length, positions = 88, positions or [0.45, 0.80, 1.0]
    else:
        length, positions = 108, positions or [0.3, 0.56, 0.74, 1.0]
        header, keys, alignment = header + ["Connected to"], keys + ["connected"], alignment + "<"
    if show_trainable:
        length, positions = length + 12, [p * 0.90 for p in positions] + [1.0]
        header, keys, alignment = header + ["Trainable"], keys + ["trainable"], alignment + "^"
    console = shutil.get_terminal_size().columns
    line_length = line_length or min(length, console - 4)
    cells = []
    for layer in _chosen(model.operations if is_graph else model.layers, layer_range):
        _rows(layer, cells, 0, expand_nested, model.__dict__.get("_tandem_built_rows"))
    if "connected" in keys:
        for each in cells:
            each["connected"] = connections.of(each["layer"])
    lines = _table([header] + [[c[k] for k in keys] for c in cells], _widths(positions[: len(header)], line_length), alignment)
    return "\n".join([f'Model: "{model.name}"', *(each[:console] for each in lines), *_totals(model)])


def _totals(model):
    parts = {"Trainable": model.trainable_weights, "Non-trainable": model.non_trainable_weights}
    optimizer = getattr(model, "optimizer", None) if model.compiled else None
    if optimizer is not None and optimizer.built:
        parts["Optimizer"] = optimizer.variables
    everything = [w for weights in parts.values() for w in weights]
    size = sum(_size(weights) for weights in parts.values())
    yield f" Total params: {_count(everything):,} ({_bytes(size)})"
    for name, weights in parts.items():
        yield f" {name} params: {_count(weights):,} ({_bytes(_size(weights))})"
