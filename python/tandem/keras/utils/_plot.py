"""A model as a picture: by dot where it is installed, else as SVG drawn here."""

import html
import os
import shutil
import subprocess


def _edges(model):
    graph = getattr(model, "_tandem_graph", None)
    if graph is None:
        layers = model.layers
        return layers, [(a, b) for a, b in zip(layers, layers[1:])]
    edges = []
    for node in graph.nodes:
        for t in node.inputs:
            edges.append((t._node.operation, node.operation))
    return graph.operations, edges


def _label(operation, show_shapes, show_layer_names):
    text = type(operation).__name__ if type(operation).__name__ != "OpCall" else operation.name
    if show_layer_names and text != operation.name:
        text = f"{operation.name} ({text})"
    if show_shapes:
        try:
            text += f"\n{operation.output_shape}"
        except AttributeError:
            pass
    return text


def _dot_text(model, show_shapes, show_layer_names, rankdir):
    operations, edges = _edges(model)
    number = {id(o): i for i, o in enumerate(operations)}
    lines = [f"digraph model {{ rankdir={rankdir}; node [shape=box];"]
    for o in operations:
        label = _label(o, show_shapes, show_layer_names).replace("\n", "\\n").replace('"', "'")
        lines.append(f'  n{number[id(o)]} [label="{label}"];')
    lines += [f"  n{number[id(a)]} -> n{number[id(b)]};" for a, b in edges if id(a) in number and id(b) in number]
    return "\n".join(lines + ["}"])


def _svg_text(model, show_shapes, show_layer_names):
    operations, edges = _edges(model)
    level = {id(o): 0 for o in operations}
    for _ in operations:
        for a, b in edges:
            if id(a) in level and id(b) in level:
                level[id(b)] = max(level[id(b)], level[id(a)] + 1)
    columns, place = {}, {}
    for o in operations:
        row = level[id(o)]
        place[id(o)] = (columns.get(row, 0), row)
        columns[row] = columns.get(row, 0) + 1
    width, height = 260, 80
    parts = []
    for a, b in edges:
        if id(a) in place and id(b) in place:
            (xa, ya), (xb, yb) = place[id(a)], place[id(b)]
            parts.append(f'<line x1="{xa * width + 120}" y1="{ya * height + 50}" x2="{xb * width + 120}" y2="{yb * height + 10}" stroke="black"/>')
    for o in operations:
        x, y = place[id(o)]
        parts.append(f'<rect x="{x * width + 10}" y="{y * height + 10}" width="230" height="40" fill="white" stroke="black"/>')
        for i, line in enumerate(_label(o, show_shapes, show_layer_names).split("\n")):
            parts.append(f'<text x="{x * width + 20}" y="{y * height + 28 + 14 * i}" font-size="12" font-family="monospace">{html.escape(line)}</text>')
    total_width, total_height = max(columns.values(), default=1) * width, (max(columns, default=0) + 1) * height
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="{total_height}">{"".join(parts)}</svg>'


def model_to_dot(model, show_shapes=False, show_dtype=False, show_layer_names=True, rankdir="TB", **kwargs):
    """The model in dot's language."""
    return _dot_text(model, show_shapes, show_layer_names, rankdir)


def plot_model(model, to_file="model.png", show_shapes=False, show_dtype=False, show_layer_names=False, rankdir="TB", expand_nested=False, dpi=200, **kwargs):
    """Writes a picture of the model. Without dot it is an SVG, whatever the file is called; the path is returned."""
    kind = os.path.splitext(to_file)[1].lstrip(".") or "png"
    if shutil.which("dot"):
        subprocess.run(["dot", f"-T{kind}", f"-Gdpi={dpi}", "-o", to_file], input=_dot_text(model, show_shapes, show_layer_names, rankdir).encode(), check=True)
        return to_file
    path = os.path.splitext(to_file)[0] + ".svg"
    with open(path, "w", encoding="utf-8") as file:
        file.write(_svg_text(model, show_shapes, show_layer_names))
    return path
