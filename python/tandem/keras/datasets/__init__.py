"""Data sets to try things with, read from Keras's cache folder; nothing is downloaded."""

import gzip
import os
import sys
import types

import numpy as np

_FASHION = "/usr/share/datasets/fashion-mnist"


def _folder():
    return os.path.join(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras"), "datasets")


def _path(name):
    path = name if os.path.isabs(name) else os.path.join(_folder(), name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not there, and tandem downloads nothing: put Keras's file there")
    return path


def _npz(name):
    with np.load(_path(name), allow_pickle=True) as file:
        return (file["x_train"], file["y_train"]), (file["x_test"], file["y_test"])


def _idx(path):
    with gzip.open(path, "rb") as file:
        data = file.read()
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, -1, 4 + 4 * rank).reshape(shape)


def _mnist(path="mnist.npz"):
    return _npz(path)


def _fashion_mnist():
    cached = os.path.join(_folder(), "fashion-mnist")
    folders = [cached, _FASHION, "/usr/share/datasets/fashion-mnist"]
    files = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    for folder in folders:
        if all(os.path.exists(os.path.join(folder, f)) for f in files):
            x, y, xt, yt = (_idx(os.path.join(folder, f)) for f in files)
            return (x, y), (xt, yt)
    raise FileNotFoundError(f"Fashion-MNIST is in none of {', '.join(folders)}; Debian's package dataset-fashion-mnist has it")


def _cifar(folder, train, test, key):
    import pickle

    path = _path(folder)

    def read(name):
        with open(os.path.join(path, name), "rb") as file:
            entry = pickle.load(file, encoding="bytes")
        return entry[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.array(entry[key]).reshape(-1, 1)

    parts = [read(n) for n in train]
    return (np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])), read(test)


def _cifar10():
    return _cifar("cifar-10-batches-py", [f"data_batch_{i}" for i in range(1, 6)], "test_batch", b"labels")


def _cifar100(label_mode="fine"):
    return _cifar("cifar-100-python", ["train"], "test", f"{label_mode}_labels".encode())


def _sequences(path, num_words=None, skip_top=0, maxlen=None, seed=113, start_char=1, oov_char=2, index_from=3, test_split=0.2, given_split=True):
    with np.load(_path(path), allow_pickle=True) as file:
        if given_split:
            x = np.concatenate([file["x_train"], file["x_test"]])
            y = np.concatenate([file["y_train"], file["y_test"]])
            at = len(file["x_train"])
            order_a = np.arange(at)
            order_b = np.arange(at, len(x))
            source = np.random.RandomState(seed)
            source.shuffle(order_a)
            source.shuffle(order_b)
            order = np.concatenate([order_a, order_b])
            x, y = x[order], y[order]
        else:
            x, y = file["x"], file["y"]
            order = np.arange(len(x))
            np.random.RandomState(seed).shuffle(order)
            x, y = x[order], y[order]
            at = None
    rows = [[start_char] + [w + index_from for w in s] for s in x] if start_char is not None else [[w + index_from for w in s] for s in x]
    if maxlen:
        kept = [i for i, r in enumerate(rows) if len(r) < maxlen]
        if not kept:
            raise ValueError(f"After filtering for sequences shorter than maxlen={maxlen}, no sequence was kept. Increase maxlen.")
        at = None if at is None else sum(i < at for i in kept)
        rows, y = [rows[i] for i in kept], y[kept]
    at = int(len(rows) * (1 - test_split)) if at is None else at
    num_words = num_words or max(max(r) for r in rows)
    rows = [[w if skip_top <= w < num_words else oov_char for w in r] if oov_char is not None else [w for w in r if skip_top <= w < num_words] for r in rows]
    pack = lambda part: np.array(part + [None], dtype=object)[:-1]  # noqa: E731
    return (pack(rows[:at]), y[:at]), (pack(rows[at:]), y[at:])


def _imdb(path="imdb.npz", **kwargs):
    return _sequences(path, **kwargs)


def _reuters(path="reuters.npz", **kwargs):
    return _sequences(path, given_split=False, **kwargs)


def _word_index(name):
    def get_word_index(path=name):
        import json

        with open(_path(path)) as file:
            return json.load(file)

    return get_word_index


_REUTERS_LABELS = (
    "cocoa", "grain", "veg-oil", "earn", "acq", "wheat", "copper", "housing", "money-supply", "coffee", "sugar", "trade", "reserves", "ship",
    "cotton", "carcass", "crude", "nat-gas", "cpi", "money-fx", "interest", "gnp", "meal-feed", "alum", "oilseed", "gold", "tin",
    "strategic-metal", "livestock", "retail", "ipi", "iron-steel", "rubber", "heat", "jobs", "lei", "bop", "zinc", "orange", "pet-chem",
    "dlr", "gas", "silver", "wpi", "hog", "lead",
)


def _table(path, test_split=0.2, seed=113):
    with np.load(_path(path), allow_pickle=True) as file:
        x, y = file["x"], file["y"]
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    at = int(len(x) * (1 - test_split))
    return (x[:at], y[:at]), (x[at:], y[at:])


def _module(name, **functions):
    module = types.ModuleType(f"{__name__}.{name}", f"The data set {name}.")
    module.__dict__.update(functions)
    sys.modules[module.__name__] = module
    return module


mnist = _module("mnist", load_data=_mnist)
fashion_mnist = _module("fashion_mnist", load_data=_fashion_mnist)
cifar10 = _module("cifar10", load_data=_cifar10)
cifar100 = _module("cifar100", load_data=_cifar100)
imdb = _module("imdb", load_data=_imdb, get_word_index=_word_index("imdb_word_index.json"))
reuters = _module("reuters", load_data=_reuters, get_word_index=_word_index("reuters_word_index.json"), get_label_names=lambda: _REUTERS_LABELS)
boston_housing = _module("boston_housing", load_data=lambda path="boston_housing.npz", test_split=0.2, seed=113: _table(path, test_split, seed))
california_housing = _module("california_housing", load_data=lambda version="large", path="california_housing.npz", test_split=0.2, seed=113: _table(path, test_split, seed))
