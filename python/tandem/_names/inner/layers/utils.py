"""tensorflow.python.layers.utils: sizes of what convolutions give, and branches."""


def conv_output_length(input_length, filter_size, padding, stride, dilation=1):
    """How many places a window has on an axis."""
    if input_length is None:
        return None
    if padding not in ("same", "valid", "full"):
        raise ValueError(f"conv_output_length: padding={padding!r}; same, valid and full are accepted")
    span = (filter_size - 1) * dilation
    length = input_length + {"same": 0, "valid": -span, "full": span}[padding]
    return (length + stride - 1) // stride


def smart_cond(pred, true_fn=None, false_fn=None, name=None):
    """tf.cond of a tensor; of a value that is known, the branch that it takes."""
    import tandem as tf

    return tf.cond(pred, true_fn, false_fn) if tf.is_tensor(pred) else true_fn() if pred else false_fn()
