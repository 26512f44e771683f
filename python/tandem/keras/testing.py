"""What Keras's own tests are written with, keras.src.testing."""

import os

from tandem import dtypes, test
from tandem._names import missing as _missing


class TestCase(test.TestCase):
    """tf.test's TestCase with the names and tolerances of Keras's."""

    def assertAllClose(self, x1, x2, atol=1e-6, rtol=1e-6, msg=None):
        super().assertAllClose(x1, x2, rtol, atol, msg)

    def assertNotAllClose(self, x1, x2, atol=1e-6, rtol=1e-6, msg=None):
        super().assertNotAllClose(x1, x2, rtol, atol, msg)

    def assertDType(self, x, dtype, msg=None):
        self.assertEqual(dtypes.as_dtype(x.dtype).name, dtypes.as_dtype(dtype).name, msg)

    def assertFileExists(self, path):
        self.assertTrue(os.path.exists(path), f"there is no file {path}")

    def assertRaggedOrSparse(self, x):
        self.assertTrue(hasattr(x, "dense_shape") or hasattr(x, "_ragged_rows"))

    def run_class_serialization_test(self, instance, custom_objects=None):
        """The object that its configuration makes again, which has the same configuration."""
        revived = type(instance).from_config(instance.get_config())
        self.assertEqual(instance.get_config(), revived.get_config())
        return revived


def uses_gpu():
    """True if there is a GPU."""
    return test.is_gpu_available()


def uses_tpu():
    """False: there are no TPUs."""
    return False


tensorflow_uses_gpu = uses_gpu
tensorflow_uses_tpu = jax_uses_gpu = jax_uses_tpu = torch_uses_gpu = uses_tpu

_missing.install(__name__, globals())
