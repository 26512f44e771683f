"""Where channels are: layers compute with them last, and move them where they are first."""

import _tandem


def format_of(data_format):
    """The format that is meant."""
    from tandem.keras import backend

    data_format = backend.image_data_format() if data_format is None else str(data_format).lower()
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {data_format}')
    return data_format


def channels_of(shape, data_format):
    return shape[1] if data_format == "channels_first" else shape[-1]


def to_last(x, data_format):
    """The tensor with its channels last."""
    x = _tandem.convert(x)
    return _tandem.transpose(x, [0, *range(2, x._rank), 1]) if data_format == "channels_first" else x


def from_last(y, data_format):
    """The other way."""
    return _tandem.transpose(y, [0, y._rank - 1, *range(1, y._rank - 1)]) if data_format == "channels_first" else y
