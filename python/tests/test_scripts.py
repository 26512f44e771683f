"""Programs in the style of public ones give what TensorFlow gave: record.py says how the values were recorded."""

import os

import pytest
import record
import tandem as tf
from tandem._names import substitute as _substitute

RECORDED = record.read(os.path.join(os.path.dirname(__file__), "recorded.json"))


@pytest.mark.parametrize("name", record.names())
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_tensorflow(name):
    _substitute.install(quiet=True)
    tf.keras.backend.clear_session()  # Names of layers and metrics are numbered from the first again.
    assert record.differences(record.computed(name), RECORDED[name]) == []
