"""A model as a table."""

import numpy as np


def _count(weights):
    return sum(int(np.prod(w.shape.as_list())) if w.shape.rank else 1 for w in weights)


def _bytes(count):
    size = count * 4.0
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.2f} {unit}"
        size /= 1024


def _shape_text(layer):
    try:
        shape = layer.output_shape
    except AttributeError:
        return "?"
    text = str(shape)
    return text


def summary_text(model, line_length=None, expand_nested=False, show_trainable=False):
    """The table of a model's layers as text."""
    rows = [("Layer (type)", "Output Shape", "Param #")]
    layers = model.layers
    for layer in layers:
        params = f"{_count(layer.weights):,}" if layer.built else "0 (unbuilt)"
        rows.append((f"{layer.name} ({type(layer).__name__})", _shape_text(layer), params))
    widths = [max(len(r[i]) for r in rows) + 2 for i in range(3)]
    line = lambda left, middle, right: left + middle.join("─" * (w + 2) for w in widths) + right  # noqa: E731
    text = lambda r: "│" + "│".join(f" {c:>{w}} " if i == 2 else f" {c:<{w}} " for i, (c, w) in enumerate(zip(r, widths))) + "│"  # noqa: E731
    lines = [f'Model: "{model.name}"', line("┌", "┬", "┐"), text(rows[0]), line("├", "┼", "┤")]
    lines += [text(r) for r in rows[1:]] + [line("└", "┴", "┘")]
    trained, fixed = _count(model.trainable_weights), _count(model.non_trainable_weights)
    lines += [
        f" Total params: {trained + fixed:,} ({_bytes(trained + fixed)})",
        f" Trainable params: {trained:,} ({_bytes(trained)})",
        f" Non-trainable params: {fixed:,} ({_bytes(fixed)})",
    ]
    return "\n".join(lines)
