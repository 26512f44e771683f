"""Training of the transformer of bench/multi_worker.cpp's pp_torch with torch.distributed.pipelining over gloo: two
processes of one thread, each with a stage, 1F1B."""

import sys

import pytorch_ddp

NAMES = ("pp_torch",)
STAGES = 2
MICROBATCHES = 8
BATCH = 32
STEPS = 3
# How many of the blocks the first stage has.
WAYS = ("2 blocks first", "3 blocks first")


def report_training(name: str) -> None:
    pytorch_ddp.report_training(name, WAYS, __file__)


def pipeline_runner(first_blocks: int):
    """Trains this process's stage; returns the loss, which the last stage has."""
    import torch
    import torch.distributed as dist
    from data import Transformer
    from pytorch_training import BETA1, BETA2, keras_corrections
    from pytorch_transformer import batch, block, embedded, initial_parameters, loss_of_scores, scores
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    transformer = Transformer(batch=BATCH)
    is_first = dist.get_rank() == 0
    blocks = first_blocks if is_first else transformer.layers - first_blocks
    values_of_a_block = 12
    cut = 2 + values_of_a_block * first_blocks

    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            parameters = initial_parameters(transformer)
            self.all = torch.nn.ParameterList(parameters[:cut] if is_first else parameters[cut:])

        def forward(self, x):
            remaining = iter(self.all)
            if is_first:
                x = embedded(remaining, x)
            for _ in range(blocks):
                x = block(transformer, remaining, x)
            return x if is_first else scores(transformer, remaining, x)

    module = Stage()
    stage = PipelineStage(module, dist.get_rank(), STAGES, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=MICROBATCHES, loss_fn=loss_of_scores)
    optimizer = torch.optim.AdamW(
        module.parameters(), betas=(BETA1, BETA2), weight_decay=transformer.weight_decay, fused=True
    )
    group = optimizer.param_groups[0]
    corrections = keras_corrections(transformer.learning_rate)
    read, following = batch(transformer)
    done = 0

    def run(steps):
        nonlocal done
        losses = []
        for _ in range(steps):
            group.update(corrections[min(done, len(corrections) - 1)])
            done += 1
            optimizer.zero_grad()
            losses.clear()
            if is_first:
                schedule.step(read)
            else:
                schedule.step(target=following, losses=losses)
            optimizer.step()
        mean = sum(losses).detach() / MICROBATCHES if losses else torch.zeros(())
        dist.all_reduce(mean)
        return mean.item()

    return run


def measure(way: str) -> None:
    """Prints the seconds of a step and the loss."""
    import time

    import torch
    import torch.distributed as dist
    from data import LOSS_STEP, REPETITIONS

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    run = pipeline_runner(int(way.split()[0]))
    loss = run(LOSS_STEP)
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        run(STEPS)
        best = min(best, (time.perf_counter() - start) / STEPS)
    if dist.get_rank() == 0:
        print(best, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    measure(sys.argv[2])
