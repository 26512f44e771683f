"""A model as a picture: by dot where it is installed, else drawn here, as SVG, or by Pillow where a PNG or JPEG is asked for."""

import base64
import html
import os
import shutil
import subprocess
import warnings

_WIDTH, _LINE = 7, 16  # The size of a letter.


class Picture(str):
    """The path of a picture, which notebooks show."""

    def _repr_html_(self):
        if not os.path.exists(self):
            return f"<pre>{html.escape(str(self))}</pre>"
        with open(self, "rb") as file:
            data = file.read()
        if self.endswith(".svg"):
            return data.decode()
        return f'<img src="data:image/{self.rsplit(".", 1)[-1]};base64,{base64.b64encode(data).decode()}">'


class _Shown:
    """What a picture says of each layer."""

    def __init__(self, shapes=False, dtype=False, names=False, activations=False, trainable=False, nested=False):
        self.shapes, self.dtype, self.names, self.activations, self.trainable, self.nested = shapes, dtype, names, activations, trainable, nested

    def lines(self, operation):
        kind = type(operation).__name__ if type(operation).__name__ != "OpCall" else operation.name
        lines = [f"{operation.name} ({kind})" if self.names and kind != operation.name else kind]
        activation = getattr(operation, "activation", None)
        if self.activations and activation is not None:
            lines.append(f"activation: {getattr(activation, '__name__', type(activation).__name__)}")
        if self.dtype and getattr(operation, "dtype", None) is not None:
            lines.append(f"dtype: {operation.dtype}")
        if self.trainable and getattr(operation, "weights", None):
            lines.append("trainable" if operation.trainable else "not trainable")
        if self.shapes:
            try:
                lines.append(f"output: {operation.output_shape}")
            except (AttributeError, ValueError):
                pass
        return lines


def _edges(model, shown):
    """The operations of a model in order, and which gives its result to which."""
    graph = getattr(model, "_tandem_graph", None)
    if graph is None:
        operations = model.layers
        edges = list(zip(operations, operations[1:]))
    else:
        operations = graph.operations
        edges = [(t._node.operation, node.operation) for node in graph.nodes for t in node.inputs]
    if not shown.nested:
        return operations, edges
    result, first, last = [], {}, {}
    for o in operations:
        if getattr(o, "_tandem_graph", None) is None:
            result.append(o)
            continue
        inner, between = _edges(o, shown)
        result += inner
        edges += between
        first[id(o)] = [i for i in inner if all(b is not i for _, b in between)]
        last[id(o)] = [i for i in inner if all(a is not i for a, _ in between)]
    return result, [(x, y) for a, b in edges for x in last.get(id(a), [a]) for y in first.get(id(b), [b])]


def _dot_text(model, shown, rankdir):
    operations, edges = _edges(model, shown)
    number = {id(o): i for i, o in enumerate(operations)}
    lines = [f"digraph model {{ rankdir={rankdir}; node [shape=box];"]
    for o in operations:
        label = "\\n".join(shown.lines(o)).replace('"', "'")
        lines.append(f'  n{number[id(o)]} [label="{label}"];')
    lines += [f"  n{number[id(a)]} -> n{number[id(b)]};" for a, b in edges if id(a) in number and id(b) in number]
    return "\n".join(lines + ["}"])


class _Drawing:
    """Boxes in rows by their distance from the inputs, or in columns, and the lines between them."""

    def __init__(self, model, shown, rankdir):
        operations, edges = _edges(model, shown)
        level = {id(o): 0 for o in operations}
        for _ in operations:
            for a, b in edges:
                if id(a) in level and id(b) in level:
                    level[id(b)] = max(level[id(b)], level[id(a)] + 1)
        texts = {id(o): shown.lines(o) for o in operations}
        width = max((len(line) for lines in texts.values() for line in lines), default=1) * _WIDTH + 20
        height = max((len(lines) for lines in texts.values()), default=1) * _LINE + 12
        taken, self.boxes = {}, {}
        for o in operations:
            row, column = level[id(o)], taken.get(level[id(o)], 0)
            taken[level[id(o)]] = column + 1
            across, along = (row, column) if rankdir in ("LR", "RL") else (column, row)
            self.boxes[id(o)] = (10 + across * (width + 40), 10 + along * (height + 40), width, height, texts[id(o)])
        self.is_across = rankdir in ("LR", "RL")
        self.lines = [self._line(self.boxes[id(a)], self.boxes[id(b)]) for a, b in edges if id(a) in self.boxes and id(b) in self.boxes]
        self.size = tuple(max((box[i] + box[i + 2] for box in self.boxes.values()), default=0) + 10 for i in (0, 1))

    def _line(self, a, b):
        if self.is_across:
            return a[0] + a[2], a[1] + a[3] // 2, b[0], b[1] + b[3] // 2
        return a[0] + a[2] // 2, a[1] + a[3], b[0] + b[2] // 2, b[1]

    def svg(self):
        parts = ['<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="black"/>' % line for line in self.lines]
        for x, y, width, height, texts in self.boxes.values():
            parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="white" stroke="black"/>')
            for i, text in enumerate(texts):
                parts.append(f'<text x="{x + 10}" y="{y + 6 + _LINE * (i + 1) - 4}" font-size="11" font-family="monospace">{html.escape(text)}</text>')
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.size[0]}" height="{self.size[1]}">{"".join(parts)}</svg>'

    def image(self):
        """As an image of Pillow's."""
        from PIL import Image, ImageDraw

        image = Image.new("RGB", self.size, "white")
        draw = ImageDraw.Draw(image)
        for line in self.lines:
            draw.line(line, fill="black")
        for x, y, width, height, texts in self.boxes.values():
            draw.rectangle((x, y, x + width, y + height), fill="white", outline="black")
            for i, text in enumerate(texts):
                draw.text((x + 10, y + 6 + _LINE * i), text, fill="black")
        return image


def model_to_dot(model, show_shapes=False, show_dtype=False, show_layer_names=True, rankdir="TB", expand_nested=False, dpi=200, subgraph=False, show_layer_activations=False, show_trainable=False, **kwargs):
    """The model in dot's language."""
    return _dot_text(model, _Shown(show_shapes, show_dtype, show_layer_names, show_layer_activations, show_trainable, expand_nested), rankdir)


def plot_model(model, to_file="model.png", show_shapes=False, show_dtype=False, show_layer_names=False, rankdir="TB", expand_nested=False, dpi=200, show_layer_activations=False, show_trainable=False, **kwargs):
    """Writes a picture of the model and returns its path, which notebooks show. Where neither dot nor Pillow is installed it
    is an SVG beside the file that was asked for, and a warning says so."""
    shown = _Shown(show_shapes, show_dtype, show_layer_names, show_layer_activations, show_trainable, expand_nested)
    to_file = os.fspath(to_file)
    kind = os.path.splitext(to_file)[1].lstrip(".").lower() or "png"
    if shutil.which("dot"):
        subprocess.run(["dot", f"-T{kind}", f"-Gdpi={dpi}", "-o", to_file], input=_dot_text(model, shown, rankdir).encode(), check=True)
        return Picture(to_file)
    drawing = _Drawing(model, shown, rankdir)
    if kind in ("png", "jpg", "jpeg"):
        try:
            drawing.image().save(to_file)
            return Picture(to_file)
        except ImportError:
            pass
    path = os.path.splitext(to_file)[0] + ".svg"
    if path != to_file:
        warnings.warn(f"plot_model: neither dot nor Pillow is installed, so the picture is {path}", stacklevel=2)
    with open(path, "w", encoding="utf-8") as file:
        file.write(drawing.svg())
    return Picture(path)
