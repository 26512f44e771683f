"""The network of bench/convnet.cpp in PyTorch, with channels last and first."""

import torch
from data import BATCH, CONVNET_LEARNING_RATE, classes, convnet_weights, images
from pytorch_training import Problem, ways_of
from torch.nn.functional import conv2d, cross_entropy, linear, max_pool2d, relu


def logits(parameters, x):
    """Of convolutions with relu and max pooling, and a dense layer."""
    *convolutions, last = zip(parameters[::2], parameters[1::2])
    for filters, bias in convolutions:
        x = max_pool2d(relu(conv2d(x, filters, bias)), 2)
    return linear(x.flatten(1), *last)


def mean_loss(parameters, x, y):
    """Mean sparse cross-entropy."""
    return cross_entropy(logits(parameters, x), y)


def initial(layout: torch.memory_format) -> list[torch.Tensor]:
    """Filters are [out, in, height, width]; the dense kernel reads channels before places."""
    first, bias1, second, bias2, dense, bias3 = map(torch.from_numpy, convnet_weights())
    channels = len(bias2)
    dense = dense.reshape(-1, channels, len(bias3)).permute(2, 1, 0).reshape(len(bias3), -1)
    first, second = (filters.permute(3, 2, 0, 1).contiguous(memory_format=layout) for filters in (first, second))
    return [first, bias1, second, bias2, dense, bias3]


def problem(layout: torch.memory_format) -> Problem:
    x = torch.from_numpy(images(BATCH)).permute(0, 3, 1, 2).contiguous(memory_format=layout)
    y = torch.from_numpy(classes(BATCH)).long()
    return Problem(x, y, initial(layout), mean_loss, CONVNET_LEARNING_RATE)


LAYOUTS = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}


def ways(name: str) -> dict:
    return {
        f"{way}, {layout}": run
        for layout, memory_format in LAYOUTS.items()
        for way, run in ways_of(lambda memory_format=memory_format: problem(memory_format)).items()
    }
