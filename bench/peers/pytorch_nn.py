"""The work of bench/nn.cpp in PyTorch, by name. In the place of a loss stands the mean square of what is computed: the
result, or in training the gradient of the layer's last input."""

from data import uniform

LAYERS = (
    "conv_3x3_32_64",
    "conv_first",
    "conv_1x1_256",
    "conv_depthwise",
    "pool_max",
    "pool_avg",
    "norm_batch",
    "norm_layer",
    "softmax_1024",
    "softmax_10",
)
NAMES = ("matmul4096", *LAYERS, *(f"{layer}_train" for layer in LAYERS))


def ways(name: str) -> dict:
    import math

    import numpy as np
    import torch  # after the command line is read, which sets the number of threads
    from torch.nn import functional

    def values(seed: int, *shape: int) -> torch.Tensor:
        return torch.from_numpy((2 * uniform(seed, math.prod(shape)) - 1).astype(np.float32).reshape(shape))

    def image(seed: int, *shape: int) -> torch.Tensor:
        """[batch, height, width, channels] in memory, as PyTorch calls it: channels last."""
        return values(seed, *shape).permute(0, 3, 1, 2)

    def kernel(seed: int, *shape: int) -> torch.Tensor:
        """From [height, width, in, out]."""
        return values(seed, *shape).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)

    def depthwise_kernel(seed: int, *shape: int) -> torch.Tensor:
        """From [height, width, channels, 1]."""
        return values(seed, *shape).permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)

    def batch_norm(x, gamma, beta):
        return functional.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-3)

    layer = name.removesuffix("_train")
    inputs, f = {
        "matmul4096": lambda: ([values(1, 4096, 4096), values(2, 4096, 4096)], torch.matmul),
        "conv_3x3_32_64": lambda: ([image(1, 128, 13, 13, 32), kernel(2, 3, 3, 32, 64)], functional.conv2d),
        "conv_first": lambda: ([image(1, 128, 28, 28, 1), kernel(2, 3, 3, 1, 32)], functional.conv2d),
        "conv_1x1_256": lambda: ([image(1, 32, 14, 14, 256), kernel(2, 1, 1, 256, 256)], functional.conv2d),
        "conv_depthwise": lambda: (
            [image(1, 32, 28, 28, 128), depthwise_kernel(2, 3, 3, 128, 1)],
            lambda x, w: functional.conv2d(x, w, padding=1, groups=128),
        ),
        "pool_max": lambda: ([image(1, 128, 26, 26, 32)], lambda x: functional.max_pool2d(x, 2)),
        "pool_avg": lambda: ([image(1, 128, 26, 26, 32)], lambda x: functional.avg_pool2d(x, 2)),
        "norm_batch": lambda: ([image(1, 128, 26, 26, 32), values(2, 32), values(3, 32)], batch_norm),
        "norm_layer": lambda: (
            [values(1, 8192, 512), values(2, 512), values(3, 512)],
            lambda x, gamma, beta: functional.layer_norm(x, (512,), gamma, beta, eps=1e-3),
        ),
        "softmax_1024": lambda: ([values(1, 8192, 1024)], lambda x: torch.softmax(x, 1)),
        "softmax_10": lambda: ([values(1, 8192, 10)], lambda x: torch.softmax(x, 1)),
    }[layer]()

    # The gradient of the result, which lies in memory as the result does.
    result = f(*inputs)
    channels_last = result.dim() == 4
    upstream = image(9, *result.permute(0, 2, 3, 1).shape) if channels_last else values(9, *result.shape)

    def forward():
        with torch.no_grad():
            return f(*inputs)

    def train():
        tracked = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(f(*tracked), tracked, upstream)[-1]

    step = train if name.endswith("_train") else forward

    def eager():
        def run(steps):
            for _ in range(steps):
                result = step()
            return float((result.double() ** 2).mean())

        return run

    return {"eager": eager}
