"""The transformer of bench/transformer.cpp in JAX: one jitted train step.

Imported once the command line is read, which sets the number of threads."""

import jax
import jax.numpy as jnp
from data import TRANSFORMERS, Runner, Transformer, texts, transformer_weights
from jax_adam import adam, initial_state


def mean_loss(transformer: Transformer, parameters, read, following):
    remaining = iter(parameters)
    heads = (transformer.heads, transformer.width // transformer.heads)

    def norm(x):
        gamma, beta = next(remaining), next(remaining)
        return jax.nn.standardize(x, epsilon=transformer.epsilon) * gamma + beta

    def dense(x):
        kernel, bias = next(remaining), next(remaining)
        return x @ kernel + bias

    def attend(x):
        query, key, value = (part.reshape(*x.shape[:2], *heads) for part in jnp.split(dense(x), 3, axis=-1))
        return dense(jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(x.shape))

    x = next(remaining)[read] + next(remaining)
    for _ in range(transformer.layers):
        x = x + attend(norm(x))
        x = x + dense(jax.nn.gelu(dense(norm(x)), approximate=False))
    logits = jax.nn.log_softmax(dense(norm(x)))
    return -jnp.mean(jnp.take_along_axis(logits, following[..., None], axis=-1))


def jitted(transformer: Transformer) -> Runner:
    read, following = (jnp.asarray(t, jnp.int32) for t in texts(transformer))
    state = initial_state(transformer_weights(transformer))

    def train_step(state, read, following):
        loss, gradients = jax.value_and_grad(mean_loss, argnums=1)(transformer, state[0], read, following)
        return adam(state, gradients, transformer.learning_rate, transformer.weight_decay), loss

    train_step = jax.jit(train_step, donate_argnums=0)

    def run(steps):
        nonlocal state
        for _ in range(steps):
            state, loss = train_step(state, read, following)
        jax.block_until_ready(state)
        return float(loss)

    return run


def ways(name: str) -> dict:
    return {"jit": lambda: jitted(TRANSFORMERS[name])}
