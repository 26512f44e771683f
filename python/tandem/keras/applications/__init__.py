"""Well-known models: none of them in Python yet."""

from tandem._names import missing as _missing

_missing.install(__name__, globals())
