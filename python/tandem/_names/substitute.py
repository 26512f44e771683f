"""This module in the place of `tensorflow` and `keras`, where a program asks for it."""

import importlib
import importlib.abc
import importlib.machinery
import sys

from tandem._names.missing import OLD_MODULES

_ENGINE = {
    **dict.fromkeys(("base_layer", "input_layer", "input_spec"), "tandem.keras.layers"),
    "data_adapter": "tandem._names.data_adapter",
    **dict.fromkeys(("functional", "network", "sequential", "topology", "training"), "tandem.keras"),
}
_KERAS = ("keras", "keras.src", "tensorflow.keras", "tensorflow.python.keras")

_PLACES = {
    **{f"{keras}.engine.{old}": own for keras in _KERAS for old, own in _ENGINE.items()},
    **{f"{keras}.engine": "tandem._names.engine" for keras in _KERAS},
    **{f"{keras}.{module}.{old}": f"tandem.keras.{module}" for keras in _KERAS for module, names in OLD_MODULES.items() for old in names},
    **{f"{keras}.optimizer_v2.learning_rate_schedule": "tandem.keras.optimizers.schedules" for keras in _KERAS},
    **{f"{keras}.optimizer_v2.{old}": "tandem.keras.optimizers" for keras in _KERAS for old in OLD_MODULES["optimizers"]},
    **{f"{keras}.optimizer_v2": "tandem.keras.optimizers" for keras in _KERAS},
    **{f"{keras}.api._v2.keras": "tandem.keras" for keras in _KERAS},
    **{f"{keras}.api{module}": "tandem._names.inner" for keras in _KERAS for module in ("._v2", "")},
    **{f"{keras}.api.keras": "tandem.keras" for keras in _KERAS},
    **{f"{keras}.layers.experimental{module}": f"tandem.keras.layers{module}" for keras in ("keras", "tensorflow.keras") for module in (".preprocessing", "")},
    "tensorflow.python.keras": "tandem.keras",
    "tensorflow.python.util.nest": "tandem.nest",
    "tensorflow.python.framework.dtypes": "tandem.dtypes",
    "tensorflow.python.framework.errors": "tandem.errors",
    "tensorflow.python": "tandem._names.inner",
    "tensorflow.keras": "tandem.keras",
    "tensorflow.compat.v1.keras": "tandem.keras",
    "tensorflow.compat.v2": "tandem",
    "tensorflow": "tandem",
    "keras.src": "tandem.keras",
    "keras": "tandem.keras",
    "tf_keras": "tandem.keras",
}


def _own_name(name):
    if not name.startswith(("tensorflow", "keras", "tf_keras")):
        return None
    for place, own in _PLACES.items():
        if name == place or name.startswith(place + "."):
            return own + name[len(place) :]
    return None


class _Loader(importlib.abc.Loader):
    def __init__(self, name, own):
        self._name, self._own = name, own

    def create_module(self, spec):
        module = importlib.import_module(self._own)
        self._kept = (module.__spec__, module.__name__, getattr(module, "__loader__", None), getattr(module, "__package__", None))
        return module

    def exec_module(self, module):
        module.__spec__, module.__name__, module.__loader__, module.__package__ = self._kept


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        own = _own_name(fullname)
        if own is None:
            return None
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name and (own == error.name or own.startswith(error.name + ".")):
                raise ModuleNotFoundError(f"{fullname} does not exist: TensorFlow or Keras may have it, tandem does not (yet)", name=fullname) from None
            raise
        return importlib.machinery.ModuleSpec(fullname, _Loader(fullname, own), is_package=hasattr(module, "__path__"))


_finder = _Finder()


class _Installed:
    """What is read first in a spawned process: this module stands in there, too, before the program is imported."""

    def __reduce__(self):
        return install, (True,)


def _tell_spawned_processes():
    from multiprocessing import spawn

    plain = spawn.get_preparation_data

    def with_this(name):
        return {**plain(name), "tandem": _Installed()}

    spawn.get_preparation_data = with_this


def install(quiet=False):
    """Programs of this process that import tensorflow or keras get this module."""
    if _finder in sys.meta_path:
        return
    loaded = [n for n in ("tensorflow", "keras") if n in sys.modules and not getattr(sys.modules[n], "__file__", "").count("tandem")]
    if loaded:
        raise RuntimeError(f"{loaded[0]} is imported already; tandem.as_tensorflow() comes first")
    sys.meta_path.insert(0, _finder)
    _tell_spawned_processes()
    if not quiet:
        print("tandem stands in for tensorflow and keras in this process", file=sys.stderr)
