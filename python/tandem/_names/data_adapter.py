"""keras.engine.data_adapter of Keras 2, which training steps of one's own used."""

from tandem import expand_dims, nest
from tandem.keras._adapter import pack_x_y_sample_weight, unpack_x_y_sample_weight  # noqa: F401


def expand_1d(data):
    """Vectors as columns."""
    return nest.map_structure(lambda x: expand_dims(x, -1) if getattr(getattr(x, "shape", None), "rank", None) == 1 else x, data)
