"""Well-known models: none of them in Python yet."""

from tandem import _missing

_missing.install(__name__, globals())
