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


def norm(transformer: Transformer, remaining, x):
    return layer_norm(x, (transformer.width,), next(remaining), next(remaining), transformer.epsilon)


def dense(remaining, x):
    return linear(x, next(remaining), next(remaining))


def attend(transformer: Transformer, remaining, x):
    width, heads = transformer.width, transformer.heads
    parts = dense(remaining, x).split(width, dim=2)
    query, key, value = (part.unflatten(2, (heads, width // heads)).transpose(1, 2) for part in parts)
    result = scaled_dot_product_attention(query, key, value, is_causal=True)
    return dense(remaining, result.transpose(1, 2).flatten(2))


def embedded(remaining, read):
    return embedding(read, next(remaining)) + next(remaining)


def block(transformer: Transformer, remaining, x):
    x = x + attend(transformer, remaining, norm(transformer, remaining, x))
    return x + dense(remaining, gelu(dense(remaining, norm(transformer, remaining, x))))


def scores(transformer: Transformer, remaining, x):
    return dense(remaining, norm(transformer, remaining, x))


def loss_of_scores(logits, following):
    return cross_entropy(logits.flatten(0, 1), following.flatten())


def mean_loss(transformer: Transformer, parameters, read, following):
    remaining = iter(parameters)
    x = embedded(remaining, read)
    for _ in range(transformer.layers):
        x = block(transformer, remaining, x)
    return loss_of_scores(scores(transformer, remaining, x), following)


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
