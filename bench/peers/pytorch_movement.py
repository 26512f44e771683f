"""The work of bench/movement.cpp in PyTorch, by name; in the place of a loss, a number that says what was computed."""

import math

import numpy as np
import torch
from data import MOVEMENTS, Runner, lookups, uniform


def repeated(f, check) -> Runner:
    @torch.no_grad()
    def run(steps):
        for _ in range(steps):
            result = f()
        return float(check(result))

    return run


def ways(name: str) -> dict:
    shape = MOVEMENTS[name]
    x = torch.from_numpy(uniform(1, math.prod(shape)).astype(np.float32).reshape(shape))
    if name == "reduce_sum_16M":
        return {"sum": lambda: repeated(x.sum, lambda y: y / x.numel())}
    if name == "reduce_rows_4096x4096":
        return {"sum": lambda: repeated(lambda: x.sum(1), lambda y: y.mean() / shape[1])}
    if name == "transpose_4096":
        return {"contiguous": lambda: repeated(lambda: x.t().contiguous(), lambda y: y[1, 2])}
    rows = torch.from_numpy(lookups(shape[0]))
    return {
        "index_select": lambda: repeated(lambda: torch.index_select(x, 0, rows), torch.mean),
        "embedding": lambda: repeated(lambda: torch.nn.functional.embedding(rows, x), torch.mean),
        "indexing": lambda: repeated(lambda: x[rows], torch.mean),
    }
