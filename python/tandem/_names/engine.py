"""keras.engine of Keras 2, whose names are elsewhere now."""

from tandem import keras
from tandem._names import data_adapter  # noqa: F401
from tandem.keras import Functional, Input, InputSpec, Layer, Model, Sequential  # noqa: F401
from tandem.keras.layers import InputLayer  # noqa: F401

base_layer = input_layer = input_spec = keras.layers
functional = network = sequential = topology = training = keras
__path__ = []  # A package to the import system, which asks for the modules by their names.
