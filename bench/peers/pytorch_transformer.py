"""The transformer of bench/transformer.cpp in PyTorch: eager steps, and steps whose model is compiled.

Imported once the command line is read, which sets the number of threads."""

import torch
from data import TRANSFORMERS, Runner, Transformer, texts, transformer_weights
from pytorch_training import BETA1, BETA2, keras_corrections
from torch.nn.functional import cross_entropy, embedding, gelu, layer_norm, linear, scaled_dot_product_attention


def batch(transformer: Transformer) -> tuple[torch.Tensor, torch.Tensor]:
    read, following = texts(transformer)
    return torch.from_numpy(read), torch.from_numpy(following)


def initial_parameters(transformer: Transformer) -> list[torch.Tensor]:
    """Kernels in PyTorch's layout [out, in]; the tables of tokens and positions as they are."""
    tokens, positions, *others = transformer_weights(transformer)
    return [torch.from_numpy(w) for w in (tokens, positions, *(w.T.copy() for w in others))]


def mean_loss(transformer: Transformer, parameters, read, following):
    remaining = iter(parameters)
    width, heads = transformer.width, transformer.heads

    def norm(x):
        return layer_norm(x, (width,), next(remaining), next(remaining), transformer.epsilon)

    def dense(x):
        return linear(x, next(remaining), next(remaining))

    def attend(x):
        parts = dense(x).split(width, dim=2)
        query, key, value = (part.unflatten(2, (heads, width // heads)).transpose(1, 2) for part in parts)
        result = scaled_dot_product_attention(query, key, value, is_causal=True)
        return dense(result.transpose(1, 2).flatten(2))

    x = embedding(read, next(remaining)) + next(remaining)
    for _ in range(transformer.layers):
        x = x + attend(norm(x))
        x = x + dense(gelu(dense(norm(x))))
    logits = dense(norm(x))
    return cross_entropy(logits.flatten(0, 1), following.flatten())


def stepwise(transformer: Transformer, compiled: bool) -> Runner:
    """PyTorch's own AdamW after a backward pass."""
    read, following = batch(transformer)
    parameters = [w.requires_grad_() for w in initial_parameters(transformer)]
    optimizer = torch.optim.AdamW(
        parameters, betas=(BETA1, BETA2), weight_decay=transformer.weight_decay, fused=True
    )
    group = optimizer.param_groups[0]
    corrections = keras_corrections(transformer.learning_rate)
    torch.compiler.reset()
    loss_of = torch.compile(mean_loss, fullgraph=True) if compiled else mean_loss
    done = 0

    def run(steps):
        nonlocal done
        for _ in range(steps):
            group.update(corrections[min(done, len(corrections) - 1)])
            done += 1
            optimizer.zero_grad()
            loss = loss_of(transformer, parameters, read, following)
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def ways(name: str) -> dict:
    transformer = TRANSFORMERS[name]
    return {
        "eager, fused AdamW": lambda: stepwise(transformer, compiled=False),
        "compiled, fused AdamW": lambda: stepwise(transformer, compiled=True),
    }
