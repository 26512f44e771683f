"""Adam in JAX, as Keras does it."""

import jax.numpy as jnp

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7


def initial_state(weights):
    """(parameters, first moments, second moments, step)"""
    parameters = [jnp.array(w) for w in weights]
    first = [jnp.zeros_like(w) for w in parameters]
    second = [jnp.zeros_like(w) for w in parameters]
    return parameters, first, second, jnp.float32(0)


def adam(state, gradients, learning_rate, weight_decay=0.0):
    """The state after one update."""
    parameters, first, second, step = state
    step = step + 1
    alpha = learning_rate * jnp.sqrt(1 - BETA2**step) / (1 - BETA1**step)
    if weight_decay:
        parameters = [w - w * (learning_rate * weight_decay) for w in parameters]
    first = [m + (g - m) * (1 - BETA1) for m, g in zip(first, gradients)]
    second = [v + (g * g - v) * (1 - BETA2) for v, g in zip(second, gradients)]
    parameters = [w - alpha * m / (jnp.sqrt(v) + EPSILON) for w, m, v in zip(parameters, first, second)]
    return parameters, first, second, step
