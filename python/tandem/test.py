"""Questions about devices, and a base for tests, tf.test."""

import unittest

import numpy as np

import _tandem
from tandem._names import missing as _missing


def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    """True if there is a GPU."""
    return bool(_tandem.list_physical_devices("GPU"))


def gpu_device_name():
    """The name of the first GPU, or an empty text."""
    devices = _tandem.list_logical_devices("GPU")
    return devices[0].name if devices else ""


def is_built_with_cuda():
    """False."""
    return False


def is_built_with_gpu_support():
    """True: GPUs are found at run time."""
    return True


class TestCase(unittest.TestCase):
    """unittest's TestCase with assertions on arrays."""

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol, atol, err_msg=msg or "")

    def assertAllEqual(self, a, b, msg=None):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=msg or "")

    def assertShapeEqual(self, a, b, msg=None):
        self.assertEqual(tuple(np.shape(a)), tuple(np.shape(b)), msg)


main = unittest.main


_missing.install(__name__, globals())
