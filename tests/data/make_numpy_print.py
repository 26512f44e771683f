#!/usr/bin/env python3
"""Writes numpy_print.txt: arrays, and how NumPy prints them behind the seven characters of "Tensor(".

Each case is a line `dtype sizes...`, a line of values (`range start step` stands for all of them), the number of lines
of the text, and the text.
"""

import pathlib

import numpy as np

PREFIX = "Tensor("
NAN, INF = np.nan, np.inf

out = []


def case(dtype: str, shape, values) -> None:
    if isinstance(values, str):
        _, start, step = values.split()
        data = float(start) + float(step) * np.arange(int(np.prod(shape)), dtype=np.float64)
        written = values
    else:
        data = np.array(values, np.float64).ravel()
        written = " ".join(repr(float(v)) for v in data)
    array = data.astype(dtype).reshape(shape)
    text = str(array) if array.shape == () else np.array2string(array, prefix=PREFIX)
    out.extend([" ".join([dtype, *map(str, shape)]), written, str(len(text.split("\n"))), text])


FLOATS = [
    [1, 2, 3],
    [1, 2.5, -3.25],
    [0.1, 0.2, 0.3],
    [1 / 3, 2 / 3, 1.0],
    [1e-5, 1, 2],
    [0.0001, 0.05],
    [0.00009, 0.05],
    [1e8, 1],
    [99999.5, 123.25],
    [999999, 1000],
    [1000000, 1000],
    [12345678, 1],
    [99999992, 99999991],
    [1, 1000, 1001],
    [1, 1000],
    [0.001, 1],
    [0, 0, 0],
    [0, -0.0, 1e-9],
    [NAN, 1, 2],
    [INF, 1, 2],
    [-INF, 1, 2.5],
    [NAN, NAN],
    [-INF, NAN, INF],
    [NAN, 1e-7, 1e7],
    [INF, 123456.789],
    [1.123456789, 2.1],
    [1.00000001, 2],
    [0.999999999, 0.5],
    [3.14159265358979, 2.718281828459045, 1e3],
    [1e-300, 1e300],
    [1e100, -1e-100],
    [1.5e-45, 1e38],
    [16777216, 16777217],
    [65504, 0.1],
    [1e-7, 6e-8],
    [2049, 1.001],
    [-1.5],
    [123456789.125, 0.5],
]
for dtype in ("float32", "float64", "float16"):
    for values in FLOATS:
        if dtype == "float16" and max((abs(v) for v in values if np.isfinite(v)), default=0) > 65504:
            continue
        case(dtype, (len(values),), values)
    for value in (0, 1, -2.5, 0.1, 1e-5, 123456.789 if dtype != "float16" else 1234.5, NAN, -INF, 1e16, 65504, 1e-4):
        if dtype == "float16" and np.isfinite(value) and abs(value) > 65504:
            continue
        case(dtype, (), [value])
    case(dtype, (2, 3), [1, 2, 3, 4.5, -5, 6])
    case(dtype, (2, 2, 2), "range 0.5 0.25")
    case(dtype, (40,), "range 0 0.125")
    case(dtype, (3, 30), "range -4 0.1")
    case(dtype, (0, 3), [])
    case(dtype, (2, 0), [])
case("float32", (1001,), "range 0 1")
case("float32", (1000,), "range 0 1")
case("float32", (40, 40), "range 0 0.5")
case("float64", (20, 10, 10), "range 0 1")
case("float64", (2, 2, 2, 300), "range -3 0.25")
case("float64", (1, 5000), "range 0 1e-9")
for dtype in ("int32", "int64"):
    case(dtype, (3,), [1, -20, 300])
    case(dtype, (2, 3), [1, 2, 3, 4, 5, 6])
    case(dtype, (), [-7])
    case(dtype, (50,), "range 0 1000")
    case(dtype, (30, 50), "range 0 1")
    case(dtype, (7, 200), "range -700 1")
case("uint8", (2, 2), [0, 1, 65, 255])
case("uint8", (), [65])
case("bool", (2, 2), [1, 0, 0, 1])
case("bool", (), [1])
case("bool", (60,), "range 0 1")
case("int64", (1, 1, 1, 1, 1), [3])
case("int64", (2, 1, 2, 1, 2), "range 0 1")

pathlib.Path(__file__).with_name("numpy_print.txt").write_text("\n".join(out) + "\n")
