"""The classifiers of bench/training.cpp in PyTorch: eager steps with its own Adam, and a whole compiled step.

Imported once the command line is read, which sets the number of threads."""

import numpy as np
import torch
from data import BATCH, CLASSIFIERS, Classifier, Runner, features, labels, weights
from torch.nn.functional import cross_entropy, linear, relu

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(features(BATCH)), torch.from_numpy(labels(BATCH))


def initial_parameters(classifier: Classifier) -> list[torch.Tensor]:
    """Kernels in PyTorch's layout [out, in], and biases."""
    return [torch.from_numpy(w.T.copy()) for w in weights(classifier.sizes)]


def mean_loss(parameters, x, y):
    """Mean softmax cross-entropy of a chain of dense layers."""
    *hidden, last = zip(parameters[::2], parameters[1::2])
    for kernel, bias in hidden:
        x = relu(linear(x, kernel, bias))
    return cross_entropy(linear(x, *last), y)


def keras_corrections(learning_rate: float) -> list[dict[str, float]]:
    """Per step the learning rate and epsilon that make torch.optim.Adam update as Keras does in float32, which adds
    epsilon before the bias correction and corrects in float32. The last entry holds for all further steps."""
    steps = np.arange(1, 20_001, dtype=np.float32)
    alpha = learning_rate * np.sqrt(1 - np.float32(BETA2) ** steps) / (1 - np.float32(BETA1) ** steps)
    exact_steps = steps.astype(np.float64)
    root = np.sqrt(1 - BETA2**exact_steps)
    rates = alpha * (1 - BETA1**exact_steps) / root
    return [{"lr": rate, "eps": eps} for rate, eps in zip(rates.tolist(), (EPSILON / root).tolist())]


def eager(classifier: Classifier, **implementation) -> Runner:
    x, y = batch()
    parameters = [w.requires_grad_() for w in initial_parameters(classifier)]
    optimizer = torch.optim.Adam(parameters, betas=(BETA1, BETA2), **implementation)
    group = optimizer.param_groups[0]
    corrections = keras_corrections(classifier.learning_rate)
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


def compiled(classifier: Classifier) -> Runner:
    x, y = batch()
    parameters = initial_parameters(classifier)
    first = [torch.zeros_like(w) for w in parameters]
    second = [torch.zeros_like(w) for w in parameters]
    step = torch.zeros(())

    def train_step(parameters, first, second, step, x, y):
        gradients, loss = torch.func.grad_and_value(mean_loss)(parameters, x, y)
        step.add_(1)
        alpha = classifier.learning_rate * torch.sqrt(1 - BETA2**step) / (1 - BETA1**step)
        for w, m, v, g in zip(parameters, first, second, gradients):
            m.add_((g - m) * (1 - BETA1))
            v.add_((g * g - v) * (1 - BETA2))
            w.sub_(alpha * m / (v.sqrt() + EPSILON))
        return loss

    torch.compiler.reset()
    train_step = torch.compile(train_step, fullgraph=True)

    @torch.no_grad()
    def run(steps):
        for _ in range(steps):
            loss = train_step(parameters, first, second, step, x, y)
        return loss.item()

    return run


def ways(name: str) -> dict:
    classifier = CLASSIFIERS[name]
    return {
        "eager, fused Adam": lambda: eager(classifier, fused=True),
        "eager, foreach Adam": lambda: eager(classifier, foreach=True),
        "compiled": lambda: compiled(classifier),
    }
