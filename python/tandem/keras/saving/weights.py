"""Weights in HDF5 files, by paths as Keras has them."""

import contextlib
import io
import os
import zipfile

import numpy as np

import _tandem


def _h5py():
    try:
        import h5py
    except ImportError:
        raise ImportError("HDF5 files need h5py: pip install h5py") from None
    return h5py


class _Part:
    """Some of a layer's variables, which Keras keeps in a layer of its own."""

    def __init__(self, name, variables):
        self.name, self._variables = name, variables

    def _own_saved(self):
        return self._variables


def _named_layers(model):
    """The layers with weights of their own, each once, by paths as Keras has them."""
    found, seen = [], set()

    def once(layer, path):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        if hasattr(layer, "_saved_parts"):
            found.extend((f"{path}/{name}", _Part(f"{layer.name}/{name}", variables)) for name, variables in layer._saved_parts())
        elif layer._own_saved():
            found.append((path, layer))
        for name, child in _named_children(layer):
            once(child, f"{path}/{name}".strip("/"))

    once(model, "")
    return found


def _layers_by_path(model):
    """All layers, each once, by paths as Keras has them."""
    seen = set()

    def walk(layer, path):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        yield path, layer
        for name, child in _named_children(layer):
            yield from walk(child, f"{path}/{name}".strip("/"))

    yield from walk(model, "")


def _named_children(layer):
    """Layers within a layer: those of a described model by their kinds, those of attributes by the attributes' names."""
    from tandem.keras._layer import Layer

    has_graph = getattr(layer, "_tandem_graph", None) is not None or type(layer).__name__ == "Sequential"
    if has_graph:
        yield from _of_kinds("layers", layer.layers)
    held = {k: v for k, v in vars(layer).items() if not k.startswith("_tandem_") and k not in ("_init_args", "_stack", "_input_layer")}
    if hasattr(type(layer), "layers") and not has_graph:  # An attribute of models among the others.
        held["layers"] = layer.layers
    for name in sorted(held, key=lambda n: "~" + n if n.startswith("_") else n):
        value = held[name]
        if isinstance(value, Layer):
            yield name, value
        elif isinstance(value, (list, tuple, set, dict)):
            yield from _of_kinds(name, value.values() if isinstance(value, dict) else value)


def _of_kinds(name, container):
    """The layers of a container, numbered where several are of one kind. Names of layers are not the same in each program."""
    from tandem.keras._layer import Layer
    from tandem.keras._objects import snake_case

    used = {}
    for child in container:
        if not isinstance(child, Layer) or type(child).__name__ == "InputLayer":
            continue
        kind = snake_case(type(child).__name__)
        number = used[kind] = used.get(kind, -1) + 1
        yield f"{name}/{kind}_{number}" if number else f"{name}/{kind}", child


def _has_own(layer, method):
    """Whether the user's class says how its variables are stored."""
    from tandem.keras._layer import Layer

    return isinstance(layer, Layer) and getattr(type(layer), method) is not getattr(Layer, method)


def _save_assets(archive, model):
    """The files that layers keep besides their weights."""
    import tempfile

    for path, layer in _layers_by_path(model):
        if not hasattr(layer, "save_assets"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            layer.save_assets(folder)
            for name in sorted(os.listdir(folder)):
                archive.write(os.path.join(folder, name), f"assets/{path}/{name}")


def _load_assets(archive, model):
    import tempfile

    for path, layer in _layers_by_path(model):
        names = [n for n in archive.namelist() if os.path.dirname(n) in (f"assets/{path}", f"assets/{layer.name}")]
        if not names or not hasattr(layer, "load_assets"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                with open(os.path.join(folder, os.path.basename(name)), "wb") as file:
                    file.write(archive.read(name))
            layer.load_assets(folder)


def _write_weights(file, model):
    for path, layer in _named_layers(model):
        group = file.require_group(f"{path}/vars" if path else "vars")
        if _has_own(layer, "save_own_variables"):
            store = {}
            layer.save_own_variables(store)
            for key, value in store.items():
                group[key] = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
            continue
        for i, v in enumerate(layer._own_saved()):
            group[str(i)] = np.asarray(v.numpy())


def _read_weights(file, model, skip_mismatch=False):
    for path, layer in _named_layers(model):
        key = f"{path}/vars" if path else "vars"
        own = layer._own_saved()
        if key not in file:
            if skip_mismatch:
                continue
            raise ValueError(f"the file has no weights for the layer {layer.name!r} ({key}); it was saved from another model")
        group = file[key]
        if _has_own(layer, "load_own_variables"):
            layer.load_own_variables({k: np.asarray(v) for k, v in group.items()})
            continue
        for i, v in enumerate(own):
            value = np.asarray(group[str(i)])
            if tuple(value.shape) != tuple(v.shape):
                if skip_mismatch:
                    continue
                raise ValueError(f"layer {layer.name!r}: the weight {v.name!r} has shape {tuple(v.shape)}, the file's {tuple(value.shape)}")
            v.assign(value)


@contextlib.contextmanager
def _replaced_at_once(filepath):
    """A new file that takes the place of `filepath` when it is whole: several processes may write the same one."""
    folder, name = os.path.split(filepath)
    os.makedirs(folder or ".", exist_ok=True)
    path = os.path.join(folder, f".{os.urandom(6).hex()}.{name}")
    try:
        yield path
        os.replace(path, filepath)
    finally:
        if os.path.exists(path):
            os.remove(path)


@contextlib.contextmanager
def whole_slots(model, include_optimizer=True):
    """Whether this process can write the model and its optimizer: where processes keep parts of the slots the chief
    alone, which has them whole meanwhile. All of them call this then, and leave together."""
    strategy, optimizer = model.__dict__.get("_tandem_strategy"), getattr(model, "optimizer", None)
    if strategy is None or not include_optimizer or not strategy._spans_processes or not hasattr(optimizer, "variables"):
        yield True
        return
    gathered = _tandem.GatheredSlots(optimizer.variables)
    has_parts = gathered.has_parts
    try:
        yield strategy.is_chief or not has_parts
    finally:
        del gathered
        if has_parts:
            strategy.reduce("SUM", 0.0)


def save_weights(model, filepath, overwrite=True):
    """Writes the weights of a model to a .weights.h5 file or to a checkpoint."""
    filepath = os.fspath(filepath)
    if not overwrite and os.path.exists(filepath):
        raise FileExistsError(filepath)
    if not filepath.endswith((".h5", ".hdf5", ".keras")):
        from tandem.train import Checkpoint

        Checkpoint(model).write(filepath)
        strategy = model.__dict__.get("_tandem_strategy")
        if strategy is None or strategy.is_chief:
            _name_latest(filepath)
        return
    with _replaced_at_once(filepath) as path, _h5py().File(path, "w") as file:
        _write_weights(file, model)


def _name_latest(filepath):
    """The file by which tf.train.latest_checkpoint finds it."""
    name = os.path.basename(filepath)
    with _replaced_at_once(os.path.join(os.path.dirname(filepath), "checkpoint")) as path, open(path, "w") as file:
        file.write(f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n')


def load_weights(model, filepath, skip_mismatch=False, by_name=False):
    """Reads weights from a .weights.h5, .keras or .h5 file or from a checkpoint."""
    filepath = os.fspath(filepath)
    if filepath.endswith(".keras"):
        with zipfile.ZipFile(filepath) as archive:
            with _h5py().File(io.BytesIO(archive.read("model.weights.h5")), "r") as file:
                _read_weights(file, model, skip_mismatch)
        return None
    if not filepath.endswith((".h5", ".hdf5")):
        from tandem.train import Checkpoint

        return Checkpoint(model).restore(filepath)
    with _h5py().File(filepath, "r") as file:
        if "layer_names" in file.attrs or "model_weights" in file:
            _read_legacy(file["model_weights"] if "model_weights" in file else file, model, by_name)
        else:
            _read_weights(file, model, skip_mismatch)
    return None


def _read_legacy(file, model, by_name):
    """Weights as Keras 2 wrote them: by the names of layers, in their order."""
    text = lambda v: v.decode() if isinstance(v, bytes) else v  # noqa: E731
    names = [text(n) for n in file.attrs["layer_names"]]
    stored = [(n, [np.asarray(file[n][text(w)]) for w in file[n].attrs["weight_names"]]) for n in names]
    stored = [(n, w) for n, w in stored if w]
    layers = [l for l in model.layers if l.weights]
    if by_name:
        by = dict(stored)
        pairs = [(l, by[l.name]) for l in layers if l.name in by]
    else:
        if len(layers) != len(stored):
            raise ValueError(f"the file has weights of {len(stored)} layers, the model {len(layers)}")
        pairs = [(l, w) for l, (_, w) in zip(layers, stored)]
    for layer, weights in pairs:
        layer.set_weights(weights)
