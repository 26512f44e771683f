"""Functions that are traced, gradients, and what the present thread is doing."""
