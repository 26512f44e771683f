"""The work of bench/elementwise.cpp in PyTorch, by name; the "loss" is the mean of the result."""

import torch
from data import ELEMENTWISE, elementwise_operand
from torch.nn.functional import gelu


def ways(name: str) -> dict:
    function, rows = ELEMENTWISE[name]
    a = torch.from_numpy(elementwise_operand(1, rows))
    b = torch.from_numpy(elementwise_operand(2, rows))
    row = b[0].clone()
    condition = a > 0.5
    to = torch.empty_like(a)
    function = {
        "add": lambda **out: torch.add(a, b, **out),
        "broadcast_add": lambda **out: torch.add(a, row, **out),
        "where": lambda **out: torch.where(condition, a, b, **out),
        "exp": lambda **out: torch.exp(a, **out),
        "tanh": lambda **out: torch.tanh(a, **out),
        "gelu": lambda **out: gelu(a),
    }[function]
    mean = function().double().mean().item()

    def repeated(**out):
        @torch.no_grad()
        def run(steps):
            for _ in range(steps):
                function(**out)
            return mean

        return run

    return {"eager": repeated, "into one tensor": lambda: repeated(out=to)}
