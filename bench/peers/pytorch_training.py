"""Training steps in PyTorch: eager with its own Adam, and a whole compiled step.

Imported once the command line is read, which sets the number of threads."""

from typing import Callable, NamedTuple

import numpy as np
import torch
from data import Runner

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7


class Problem(NamedTuple):
    """What is trained, on one batch."""

    x: torch.Tensor
    y: torch.Tensor
    parameters: list[torch.Tensor]
    mean_loss: Callable  # of (parameters, x, y)
    learning_rate: float


def keras_corrections(learning_rate: float) -> list[dict[str, float]]:
    """Per step the learning rate and epsilon that make torch.optim.Adam update as Keras does in float32, which adds
    epsilon before the bias correction and corrects in float32. The last entry holds for all further steps."""
    steps = np.arange(1, 20_001, dtype=np.float32)
    alpha = learning_rate * np.sqrt(1 - np.float32(BETA2) ** steps) / (1 - np.float32(BETA1) ** steps)
    exact_steps = steps.astype(np.float64)
    root = np.sqrt(1 - BETA2**exact_steps)
    rates = alpha * (1 - BETA1**exact_steps) / root
    return [{"lr": rate, "eps": eps} for rate, eps in zip(rates.tolist(), (EPSILON / root).tolist())]


def eager(problem: Problem, **implementation) -> Runner:
    x, y, parameters, mean_loss, learning_rate = problem
    for parameter in parameters:
        parameter.requires_grad_()
    optimizer = torch.optim.Adam(parameters, betas=(BETA1, BETA2), **implementation)
    group = optimizer.param_groups[0]
    corrections = keras_corrections(learning_rate)
    done = 0

    def run(steps):
        nonlocal done
        for _ in range(steps):
            group.update(corrections[min(done, len(corrections) - 1)])
            done += 1
            optimizer.zero_grad()
            loss = mean_loss(parameters, x, y)
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def keras_adam(parameters, first, second, step, gradients, learning_rate: float) -> None:
    """One update of all of them in place, to be compiled."""
    step.add_(1)
    alpha = learning_rate * torch.sqrt(1 - BETA2**step) / (1 - BETA1**step)
    for w, m, v, g in zip(parameters, first, second, gradients):
        m.add_((g - m) * (1 - BETA1))
        v.add_((g * g - v) * (1 - BETA2))
        w.sub_(alpha * m / (v.sqrt() + EPSILON))


def compiled(problem: Problem) -> Runner:
    x, y, parameters, mean_loss, learning_rate = problem
    first = [torch.zeros_like(w) for w in parameters]
    second = [torch.zeros_like(w) for w in parameters]
    step = torch.zeros(())

    def train_step(parameters, first, second, step, x, y):
        gradients, loss = torch.func.grad_and_value(mean_loss)(parameters, x, y)
        keras_adam(parameters, first, second, step, gradients, learning_rate)
        return loss

    torch.compiler.reset()
    train_step = torch.compile(train_step, fullgraph=True)

    @torch.no_grad()
    def run(steps):
        for _ in range(steps):
            loss = train_step(parameters, first, second, step, x, y)
        return loss.item()

    return run


def ways_of(problem: Callable[[], Problem]) -> dict:
    return {
        "eager, fused Adam": lambda: eager(problem(), fused=True),
        "eager, foreach Adam": lambda: eager(problem(), foreach=True),
        "compiled": lambda: compiled(problem()),
    }
