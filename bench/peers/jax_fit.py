"""The trainings of bench/fit.cpp in JAX: a jitted step on shuffled rows, which counts hits and updates.

Imported once the command line is read, which sets the number of threads."""

import jax
import jax.numpy as jnp
import numpy as np
from data import BATCH, FITS, LOSS_STEP, Runner, epochs_of, fit_data, fit_weights
from jax_adam import adam, initial_state


def jitted(name: str, logits, rows_inside: bool) -> Runner:
    """`rows_inside`: the step takes the rows; else NumPy takes them before it. The loss is the mean over the first
    batches in order."""
    x, y = fit_data(name)
    if rows_inside:
        x, y = jnp.asarray(x), jnp.asarray(y)
    learning_rate = FITS[name].learning_rate
    state = initial_state(fit_weights(name))
    generator = np.random.default_rng(1)

    def loss_and_scores(parameters, x, y):
        scores = logits(parameters, x)
        rows = jax.nn.log_softmax(scores)
        chosen = jnp.sum(y * rows, axis=-1) if y.ndim == 2 else jnp.take_along_axis(rows, y[:, None], axis=1)
        return -jnp.mean(chosen), scores

    def train_step(state, totals, x, y, index):
        if rows_inside:
            x, y = x[index], y[index]
        (loss, scores), gradients = jax.value_and_grad(loss_and_scores, has_aux=True)(state[0], x, y)
        truth = jnp.argmax(y, axis=-1) if y.ndim == 2 else y
        hits = jnp.sum(jnp.argmax(scores, axis=-1) == truth)
        return adam(state, gradients, learning_rate), totals + jnp.stack([loss * len(x), hits.astype(loss.dtype)])

    train_step = jax.jit(train_step, donate_argnums=(0, 1))

    def epoch(order):
        nonlocal state
        totals = jnp.zeros(2)
        for begin in range(0, len(order), BATCH):
            index = order[begin : begin + BATCH]
            batch = (x, y, index) if rows_inside else (x[index], y[index], None)
            state, totals = train_step(state, totals, *batch)
        jax.block_until_ready(state)
        return float(totals[0]) / len(order)

    loss = epoch(np.arange(LOSS_STEP * BATCH))

    def run(steps):
        for _ in range(epochs_of(steps, len(x))):
            epoch(generator.permutation(len(x)))
        return loss

    return run


def ways(name: str, logits) -> dict:
    return {
        "jit with its rows": lambda: jitted(name, logits, True),
        "jit, rows before": lambda: jitted(name, logits, False),
    }
