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


def _array(value):
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


class TestCase(unittest.TestCase):
    """unittest's TestCase with assertions on arrays and nested structures of them."""

    def setUp(self):
        super().setUp()
        self._temporary = None

    def get_temp_dir(self):
        """A folder that is removed after the test."""
        if self.__dict__.get("_temporary") is None:
            import tempfile

            self._temporary = tempfile.TemporaryDirectory()
            self.addCleanup(self._temporary.cleanup)
        return self._temporary.name

    def evaluate(self, tensors):
        """The values of tensors as arrays."""
        from tandem import nest

        return nest.map_structure(_array, tensors)

    def _each(self, check, a, b):
        if isinstance(a, dict):
            self.assertEqual(a.keys(), b.keys())
            for key in a:
                self._each(check, a[key], b[key])
        elif isinstance(a, (list, tuple)) and any(hasattr(v, "shape") or isinstance(v, (list, tuple, dict)) for v in a):
            self.assertEqual(len(a), len(b))
            for left, right in zip(a, b):
                self._each(check, left, right)
        else:
            check(_array(a), _array(b))

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):
        self._each(lambda x, y: np.testing.assert_allclose(x, y, rtol, atol, err_msg=msg or ""), a, b)

    def assertNotAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        raise AssertionError(msg or "the two values are close at all elements")

    def assertAllEqual(self, a, b, msg=None):
        self._each(lambda x, y: np.testing.assert_array_equal(x, y, err_msg=msg or ""), a, b)

    def assertNotAllEqual(self, a, b, msg=None):
        if np.array_equal(_array(a), _array(b)):
            raise AssertionError(msg or "the two values are equal at all elements")

    def assertAllInRange(self, target, lower_bound, upper_bound, open_lower_bound=False, open_upper_bound=False):
        x = _array(target)
        below = x <= lower_bound if open_lower_bound else x < lower_bound
        above = x >= upper_bound if open_upper_bound else x > upper_bound
        self.assertFalse((below | above).any(), f"elements outside of {lower_bound} to {upper_bound}: {x[below | above]}")

    def assertAllGreater(self, a, comparison_target):
        self.assertTrue((_array(a) > comparison_target).all())

    def assertAllGreaterEqual(self, a, comparison_target):
        self.assertTrue((_array(a) >= comparison_target).all())

    def assertAllLess(self, a, comparison_target):
        self.assertTrue((_array(a) < comparison_target).all())

    def assertAllLessEqual(self, a, comparison_target):
        self.assertTrue((_array(a) <= comparison_target).all())

    def assertNear(self, f1, f2, err, msg=None):
        self.assertTrue(abs(float(f1) - float(f2)) <= err, msg or f"{f1} is not within {err} of {f2}")

    def assertShapeEqual(self, a, b, msg=None):
        self.assertEqual(tuple(np.shape(a)), tuple(np.shape(b)), msg)

    def assertDTypeEqual(self, target, expected_dtype):
        from tandem import dtypes

        self.assertEqual(dtypes.as_dtype(target.dtype), dtypes.as_dtype(expected_dtype))

    def assertLen(self, container, expected_len, msg=None):
        self.assertEqual(len(container), expected_len, msg)

    def assertEmpty(self, container, msg=None):
        self.assertEqual(len(container), 0, msg)

    def assertNotEmpty(self, container, msg=None):
        self.assertNotEqual(len(container), 0, msg)

    def assertStartsWith(self, actual, expected_start, msg=None):
        self.assertTrue(actual.startswith(expected_start), msg or f"{actual!r} does not start with {expected_start!r}")

    def assertEndsWith(self, actual, expected_end, msg=None):
        self.assertTrue(actual.endswith(expected_end), msg or f"{actual!r} does not end with {expected_end!r}")


class Benchmark:
    """What benchmarks derive from: they report what they measured, which is printed."""

    def report_benchmark(self, iters=None, cpu_time=None, wall_time=None, throughput=None, extras=None, name=None, metrics=None):
        """Prints what was measured."""
        import inspect

        entry = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput, "extras": extras, "metrics": metrics}
        print({"name": f"{type(self).__name__}.{name or inspect.stack()[1].function}", **{k: v for k, v in entry.items() if v is not None}})


main = unittest.main


_missing.install(__name__, globals())
