"""The work of bench/random.cpp in PyTorch, by name. In the place of a loss stands a mean that says what was drawn."""

NAMES = ("random_normal_16M", "random_uniform_16M", "dropout_16M")


def ways(name: str) -> dict:
    import torch  # after the command line is read, which sets the number of threads

    shape = (4096, 4096)

    def repeated(draw, check=torch.mean):
        @torch.no_grad()
        def run(steps):
            for _ in range(steps):
                result = draw()
            return float(check(result.double()))

        return run

    if name == "random_normal_16M":
        return {"randn": lambda: repeated(lambda: torch.randn(shape), lambda x: (x * x).mean())}
    if name == "random_uniform_16M":
        return {"rand": lambda: repeated(lambda: torch.rand(shape))}
    x = torch.ones(shape)
    return {"dropout": lambda: repeated(lambda: torch.nn.functional.dropout(x, 0.1))}
