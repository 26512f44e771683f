#!/usr/bin/env python3
"""Writes the small files of tests/data/numpy with NumPy itself. Element i of each array is i - 2, in uint8 i + 1, in
bool whether i is odd; what cannot be read has any values."""

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "numpy"


def values(dtype: str, shape: tuple[int, ...], order: str = "C") -> np.ndarray:
    index = np.arange(int(np.prod(shape)))
    kind = np.dtype(dtype).kind
    data = index % 2 if kind == "b" else index + 1 if kind == "u" else index - 2
    return np.array(data.astype(dtype).reshape(shape), order=order)


def write(name: str, array: np.ndarray, version: tuple[int, int] | None = None) -> None:
    with open(FOLDER / f"{name}.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)


FOLDER.mkdir(exist_ok=True)
for kind in ("f2", "f4", "f8", "u1", "i4", "i8", "b1"):
    write(kind, values(kind, (2, 3)))
for kind in ("f2", "f4", "f8", "i4", "i8"):
    write(f"big_{kind}", values(f">{kind}", (2, 3)))
write("fortran_f4", values("f4", (2, 3, 4), "F"))
write("fortran_big_i8", values(">i8", (3, 4), "F"))
write("version2", values("f4", (2, 3)), (2, 0))
write("version3", values("f4", (2, 3)), (3, 0))
write("scalar", values("f8", ()))
write("empty", values("i4", (0, 3)))
write("vector", values("i8", (5,)))
for kind in ("i2", "u4", "c8", "U3", "O"):
    write(f"unknown_{kind}", values(kind, (2,)))
write("unknown_record", np.zeros(2, dtype=[("x", "f4"), ("y", "i4")]))

arrays = {"weights": values("f4", (2, 3)), "layer/bias": values("f8", (3,)), "steps": values("i8", ())}
np.savez(FOLDER / "stored.npz", **arrays)
np.savez_compressed(FOLDER / "deflated.npz", zeros=np.zeros((8, 64), "f4"), **arrays)
