"""Values go to PyTorch or JAX and back by DLPack: python exchange.py torch|jax, with an interpreter that has it."""

import sys

import numpy as np
import tandem as tf


def with_torch():
    import torch

    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    there = torch.from_dlpack(x)
    assert there.dtype == torch.float32 and there.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    back = tf.constant(there * 2)
    there[0, 0] = 9.0  # It does not heed that the memory cannot be written, and so has its own.
    assert float(x[0, 0]) == 1.0
    assert back.numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert torch.from_dlpack(tf.constant(3.0)).item() == 3.0 and torch.from_dlpack(x, copy=False).shape == (2, 2)
    assert torch.from_dlpack(tf.range(3)).tolist() == [0, 1, 2]
    kept = torch.from_dlpack(tf.ones((1000,)) * 3)  # The tensor is gone; its memory is not.
    junk = [tf.zeros((1000,)) + i for i in range(50)]
    assert kept.sum().item() == 3000.0 and len(junk) == 50
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    assert model.predict(torch.ones(4, 2), verbose=0).shape == (4, 1)


def with_jax():
    import jax
    import jax.numpy as jnp

    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    there = jnp.from_dlpack(x)
    assert np.asarray(there).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    back = tf.constant(jax.jit(lambda v: v * 2)(there))
    assert back.numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert tf.convert_to_tensor(jnp.arange(3)).numpy().tolist() == [0, 1, 2]
    assert jnp.asarray(x).tolist() == jnp.array(tf.Variable(x)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    half = tf.constant(jnp.arange(3).astype(jnp.bfloat16))
    assert half.dtype == tf.bfloat16 and [float(v) for v in half] == [0.0, 1.0, 2.0]


{"torch": with_torch, "jax": with_jax}[sys.argv[1]]()
print(f"DLPack with {sys.argv[1]}: agrees")
