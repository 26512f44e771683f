"""The trainings of bench/fit.cpp in PyTorch: a compiled step that takes its rows out of the arrays by a shuffled index,
counts hits and updates.

Imported once the command line is read, which sets the number of threads."""

from typing import Callable, NamedTuple

import pytorch_classifiers
import pytorch_convnet
import torch
from data import BATCH, CLASSIFIERS, FITS, LOSS_STEP, Runner, epochs_of, fit_data
from pytorch_training import keras_adam
from torch.nn.functional import cross_entropy


class Training(NamedTuple):
    x: torch.Tensor  # all rows
    y: torch.Tensor
    parameters: list[torch.Tensor]
    logits: Callable  # of (parameters, x)
    learning_rate: float


def compiled(training: Training, rows_inside: bool) -> Runner:
    """`rows_inside`: the step takes the rows; else they are taken before it. The loss is the mean over the first
    batches in order."""
    x, y, parameters, logits, learning_rate = training
    first = [torch.zeros_like(w) for w in parameters]
    second = [torch.zeros_like(w) for w in parameters]
    step = torch.zeros(())
    totals = torch.zeros(2)  # of losses and hits

    def loss_and_scores(parameters, x, y):
        scores = logits(parameters, x)
        return cross_entropy(scores, y), scores

    def train_step(parameters, first, second, step, totals, x, y, index):
        if rows_inside:
            x, y = x[index], y[index]
        gradients, (loss, scores) = torch.func.grad_and_value(loss_and_scores, has_aux=True)(parameters, x, y)
        truth = y.argmax(1) if y.dim() == 2 else y
        hits = (scores.argmax(1) == truth).sum()
        totals.add_(torch.stack([loss * len(x), hits.to(loss.dtype)]))
        keras_adam(parameters, first, second, step, gradients, learning_rate)

    torch.compiler.reset()
    train_step = torch.compile(train_step, fullgraph=True, dynamic=False)

    @torch.no_grad()
    def epoch(order):
        totals.zero_()
        for index in order.split(BATCH):
            batch = (x, y) if rows_inside else (x.index_select(0, index), y.index_select(0, index))
            train_step(parameters, first, second, step, totals, *batch, index if rows_inside else None)
        return (totals[0] / len(order)).item()

    loss = epoch(torch.arange(LOSS_STEP * BATCH))

    def run(steps):
        for _ in range(epochs_of(steps, len(x))):
            epoch(torch.randperm(len(x)))
        return loss

    return run


def seed() -> Training:
    x, y = map(torch.from_numpy, fit_data("seed_fit"))
    parameters = pytorch_classifiers.initial(CLASSIFIERS["mlp10"].sizes)
    return Training(x, y, parameters, pytorch_classifiers.logits, FITS["seed_fit"].learning_rate)


def convnet() -> Training:
    """With one channel, first and last are the same."""
    x, y = map(torch.from_numpy, fit_data("convnet_fit"))
    parameters = pytorch_convnet.initial(torch.channels_last)
    return Training(
        x.permute(0, 3, 1, 2), y.long(), parameters, pytorch_convnet.logits, FITS["convnet_fit"].learning_rate
    )


def ways(name: str) -> dict:
    make = {"seed_fit": seed, "convnet_fit": convnet}[name]
    return {
        "compiled with its rows": lambda: compiled(make(), True),
        "compiled, rows before": lambda: compiled(make(), False),
    }
