"""Times JAX on the benchmarks of tandem-bench: one jitted train step, Adam as Keras does it, on one batch and on
shuffled rows, and a large product."""

import os

import busy
import data
from data import BATCH, CLASSIFIERS, FITS, TRANSFORMERS, Runner
from data import features, labels, parse_arguments, report, steps_per_epoch, uniform, weights

arguments = parse_arguments([*CLASSIFIERS, *TRANSFORMERS, "convnet", "matmul4096", *FITS, *busy.NAMES])
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["NPROC"] = str(arguments.threads)  # the size of XLA's thread pool

import jax
import jax.numpy as jnp
import jax_fit
import jax_transformer
from jax_adam import adam, initial_state


def logits(parameters, x):
    """Of a chain of dense layers."""
    *hidden, last = zip(parameters[::2], parameters[1::2])
    for kernel, bias in hidden:
        x = jax.nn.relu(x @ kernel + bias)
    kernel, bias = last
    return x @ kernel + bias


def mean_loss(parameters, x, y):
    """Mean softmax cross-entropy."""
    return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(logits(parameters, x)), axis=-1))


def convnet_logits(parameters, x):
    """Of convolutions with relu and max pooling, and a dense layer."""
    *convolutions, (kernel, bias) = zip(parameters[::2], parameters[1::2])
    for filters, offsets in convolutions:
        x = jax.lax.conv_general_dilated(x, filters, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + offsets)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(len(x), -1) @ kernel + bias


def convnet_loss(parameters, x, y):
    """Mean sparse cross-entropy."""
    scores = jax.nn.log_softmax(convnet_logits(parameters, x))
    return -jnp.mean(jnp.take_along_axis(scores, y[:, None], axis=1))


def jitted(name: str) -> Runner:
    if name == "convnet":
        batch, loss_of = (data.images(BATCH), data.classes(BATCH)), convnet_loss
        initial, learning_rate = data.convnet_weights(), data.CONVNET_LEARNING_RATE
    else:
        batch, loss_of = (features(BATCH), labels(BATCH)), mean_loss
        initial, learning_rate = weights(CLASSIFIERS[name].sizes), CLASSIFIERS[name].learning_rate
    x, y = map(jnp.asarray, batch)
    state = initial_state(initial)

    def train_step(state, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(state[0], x, y)
        return adam(state, gradients, learning_rate), loss

    train_step = jax.jit(train_step, donate_argnums=0)

    def run(steps):
        nonlocal state
        for _ in range(steps):
            state, loss = train_step(state, x, y)
        jax.block_until_ready(state)
        return float(loss)

    return run


def product(side: int) -> Runner:
    """In the place of a loss stands the mean square of the result."""
    a, b = (jnp.asarray((2 * uniform(seed, side * side) - 1).reshape(side, side), jnp.float32) for seed in (1, 2))
    matmul = jax.jit(jnp.matmul)

    def run(steps):
        for _ in range(steps):
            result = matmul(a, b).block_until_ready()
        return float(jnp.mean(result**2))

    return run


def fits_of(name: str) -> dict:
    return jax_fit.ways(name, convnet_logits if name == "convnet_fit" else logits)


def report_busy(name: str) -> None:
    work = busy.NAMES[name][0]
    if work in FITS:
        busy.report(name, fits_of(work), steps_per_epoch(FITS[work].rows))
    else:
        busy.report(name, {"jit": lambda: jitted(work)})


for name in arguments.names:
    if name == "matmul4096":
        report(name, {"jit": lambda: product(4096)})
    elif name in busy.NAMES:
        report_busy(name)
    elif name in FITS:
        report(name, fits_of(name), steps_per_epoch(FITS[name].rows))
    elif name in TRANSFORMERS:
        report(name, jax_transformer.ways(name))
    else:
        report(name, {"jit": lambda: jitted(name)})
