"""Versions, tf.version."""

from tandem import __version__ as VERSION  # noqa: F401

GIT_VERSION = "tandem"
COMPILER_VERSION = ""

__all__ = [  # Written by scripts/exported-names.py.
    "COMPILER_VERSION", "GIT_VERSION", "VERSION",
]
