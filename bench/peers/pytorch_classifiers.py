"""The classifiers of bench/training.cpp in PyTorch."""

import torch
from data import BATCH, CLASSIFIERS, features, labels, weights
from pytorch_training import Problem, ways_of
from torch.nn.functional import cross_entropy, linear, relu


def logits(parameters, x):
    """Of a chain of dense layers."""
    *hidden, last = zip(parameters[::2], parameters[1::2])
    for kernel, bias in hidden:
        x = relu(linear(x, kernel, bias))
    return linear(x, *last)


def mean_loss(parameters, x, y):
    """Mean softmax cross-entropy."""
    return cross_entropy(logits(parameters, x), y)


def initial(sizes: tuple[int, ...]) -> list[torch.Tensor]:
    """Kernels are in PyTorch's layout [out, in]."""
    return [torch.from_numpy(w.T.copy()) for w in weights(sizes)]


def problem(name: str) -> Problem:
    sizes, learning_rate = CLASSIFIERS[name]
    parameters = initial(sizes)
    return Problem(
        torch.from_numpy(features(BATCH)), torch.from_numpy(labels(BATCH)), parameters, mean_loss, learning_rate
    )


def ways(name: str) -> dict:
    return ways_of(lambda: problem(name))
