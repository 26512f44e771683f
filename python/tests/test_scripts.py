"""Programs in the style of public ones give what TensorFlow gave: record.py says how the values were recorded."""

import json
import os

import numpy as np
import pytest

import tandem
from tandem import _substitute

import record

with open(os.path.join(os.path.dirname(__file__), "recorded.json")) as _file:
    RECORDED = json.load(_file)


@pytest.mark.parametrize("name", record.names())
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_tensorflow(name):
    _substitute.install(quiet=True)
    got = record.computed(name)
    assert set(got) == set(RECORDED[name])
    for key, value in RECORDED[name].items():
        np.testing.assert_allclose(got[key], value, rtol=2e-3, atol=2e-4, err_msg=key)
