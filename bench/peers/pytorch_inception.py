"""The step of bench/inception.cpp in PyTorch: Keras's InceptionV3 written with functions, channels last and first.

Imported once the command line is read, which sets the number of threads."""

import numpy as np
import torch
from data import INCEPTION, inception_batch, inception_kernel
from pytorch_training import Problem, eager
from torch.nn.functional import avg_pool2d, batch_norm, conv2d, cross_entropy, linear, max_pool2d, relu


class Network:
    """Goes through the network twice: first with no parameters, to list their shapes, then to compute."""

    def __init__(self):
        self.shapes: list[tuple[int, ...]] = []  # of kernels, [height, width, in, out] or [in, out]
        self.statistics: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.parameters = None
        self.number = 0
        with torch.no_grad():
            self.logits(torch.zeros(1, 3, INCEPTION.side, INCEPTION.side))

    def convolution(self, x, filters, height, width, stride=1, same=True):
        """A convolution without bias, normalised, with relu."""
        number, self.number = self.number, self.number + 1
        if self.parameters is None:
            self.shapes.append((height, width, x.shape[1], filters))
            self.statistics.append((torch.zeros(filters), torch.ones(filters)))
            kernel, beta = torch.zeros(filters, x.shape[1], height, width), torch.zeros(filters)
        else:
            kernel, beta = self.parameters[2 * number : 2 * number + 2]
        padding = (height // 2, width // 2) if same else 0
        x = conv2d(x, kernel, stride=stride, padding=padding)
        mean, variance = self.statistics[number]
        x = batch_norm(x, mean, variance, None, beta, True, 1 - INCEPTION.momentum, INCEPTION.epsilon)
        return relu(x)

    def chain(self, x, *steps):
        for step in steps:
            x = self.convolution(x, *step)
        return x

    def halving(self, x, filters, side=3):
        return self.convolution(x, filters, side, side, stride=2, same=False)

    def pooled(self, x, filters):
        return self.convolution(avg_pool2d(x, 3, 1, 1, count_include_pad=False), filters, 1, 1)

    def stem(self, x):
        x = self.convolution(self.halving(x, 32), 32, 3, 3, same=False)
        x = max_pool2d(self.convolution(x, 64, 3, 3), 3, 2)
        x = self.convolution(x, 80, 1, 1)
        return max_pool2d(self.convolution(x, 192, 3, 3, same=False), 3, 2)

    def block_35(self, x, pool_filters):
        one = self.convolution(x, 64, 1, 1)
        five = self.chain(x, (48, 1, 1), (64, 5, 5))
        three = self.chain(x, (64, 1, 1), (96, 3, 3), (96, 3, 3))
        return torch.cat([one, five, three, self.pooled(x, pool_filters)], 1)

    def to_17(self, x):
        three = self.halving(x, 384)
        three_twice = self.halving(self.chain(x, (64, 1, 1), (96, 3, 3)), 96)
        return torch.cat([three, three_twice, max_pool2d(x, 3, 2)], 1)

    def block_17(self, x, width):
        one = self.convolution(x, 192, 1, 1)
        seven = self.chain(x, (width, 1, 1), (width, 1, 7), (192, 7, 1))
        twice = self.chain(x, (width, 1, 1), (width, 7, 1), (width, 1, 7), (width, 7, 1), (192, 1, 7))
        return torch.cat([one, seven, twice, self.pooled(x, 192)], 1)

    def to_8(self, x):
        three = self.halving(self.convolution(x, 192, 1, 1), 320)
        seven = self.halving(self.chain(x, (192, 1, 1), (192, 1, 7), (192, 7, 1)), 192)
        return torch.cat([three, seven, max_pool2d(x, 3, 2)], 1)

    def spread(self, x):
        return [self.convolution(x, 384, 1, 3), self.convolution(x, 384, 3, 1)]

    def block_8(self, x):
        one = self.convolution(x, 320, 1, 1)
        three = self.spread(self.convolution(x, 384, 1, 1))
        three_twice = self.spread(self.chain(x, (448, 1, 1), (384, 3, 3)))
        return torch.cat([one, *three, *three_twice, self.pooled(x, 192)], 1)

    def logits(self, x):
        self.number = 0
        x = self.stem(x)
        for filters in (32, 64, 64):
            x = self.block_35(x, filters)
        x = self.to_17(x)
        for width in (128, 160, 160, 192):
            x = self.block_17(x, width)
        x = self.block_8(self.block_8(self.to_8(x))).mean((2, 3))
        if self.parameters is None:
            self.shapes.append((x.shape[1], INCEPTION.classes))
            return x
        return linear(x, *self.parameters[-2:])

    def mean_loss(self, parameters, x, y):
        self.parameters = parameters
        return cross_entropy(self.logits(x), y)


def problem(layout: torch.memory_format) -> Problem:
    """Kernels are [out, in, height, width]."""
    network = Network()
    parameters = []
    for number, shape in enumerate(network.shapes):
        kernel = torch.from_numpy(np.moveaxis(inception_kernel(number, shape), (-1, -2), (0, 1)))
        kernel = kernel.contiguous(memory_format=layout) if kernel.dim() == 4 else kernel.contiguous()
        parameters += [kernel, torch.zeros(shape[-1])]
    x, y = map(torch.from_numpy, inception_batch())
    x = x.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    return Problem(x, y.long(), parameters, network.mean_loss, INCEPTION.learning_rate)


def compiled(own: Problem) -> Problem:
    """The statistics change in place, so the loss and its gradient are compiled, not the whole step."""
    torch.compiler.reset()
    return own._replace(mean_loss=torch.compile(own.mean_loss, fullgraph=True))


def ways(name: str) -> dict:
    return {
        "eager, channels last": lambda: eager(problem(torch.channels_last), fused=True),
        "eager, channels first": lambda: eager(problem(torch.contiguous_format), fused=True),
        "compiled, channels last": lambda: eager(compiled(problem(torch.channels_last)), fused=True),
    }
