"""tensorflow.python.framework.smart_cond."""

from tandem._names.inner.layers.utils import smart_cond  # noqa: F401
