"""Training of the classifiers of bench/multi_worker.cpp with PyTorch's DistributedDataParallel over gloo: two processes
of one thread, each with half of the rows of a batch."""

import os
import socket
import subprocess
import sys

WORKERS = 2
# Steps of a repetition; both processes do the same number.
STEPS = {"mw_mlp10": 300, "mw_mlp1024": 20}
NAMES = tuple(STEPS)
WAYS = ("fused Adam", "foreach Adam")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ddp_runner(name: str, way: str):
    """Trains this process's half of the batch; returns the mean loss over all."""
    import torch
    import torch.distributed as dist
    from data import BATCH, CLASSIFIERS, features, labels
    from pytorch_classifiers import initial, mean_loss
    from pytorch_training import BETA1, BETA2, keras_corrections

    class Classifier(torch.nn.Module):
        def __init__(self, parameters):
            super().__init__()
            self.all = torch.nn.ParameterList(parameters)

        def forward(self, x, y):
            return mean_loss(list(self.all), x, y)

    sizes, learning_rate = CLASSIFIERS[name.removeprefix("mw_")]
    model = torch.nn.parallel.DistributedDataParallel(Classifier(initial(sizes)))
    optimizer = torch.optim.Adam(model.parameters(), betas=(BETA1, BETA2), **{way.split()[0]: True})
    group = optimizer.param_groups[0]
    corrections = keras_corrections(learning_rate)
    rows = slice(dist.get_rank() * BATCH // WORKERS, (dist.get_rank() + 1) * BATCH // WORKERS)
    x, y = torch.from_numpy(features(BATCH)[rows]), torch.from_numpy(labels(BATCH)[rows])
    done = 0

    def run(steps):
        nonlocal done
        for _ in range(steps):
            group.update(corrections[min(done, len(corrections) - 1)])
            done += 1
            optimizer.zero_grad()
            loss = model(x, y)
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        return mean.item() / WORKERS

    return run


def measure(name: str, way: str) -> None:
    """Prints the seconds of a step and the loss."""
    import time

    import torch
    import torch.distributed as dist
    from data import LOSS_STEP, REPETITIONS

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    run = ddp_runner(name, way)
    loss = run(LOSS_STEP)
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        run(STEPS[name])
        best = min(best, (time.perf_counter() - start) / STEPS[name])
    if dist.get_rank() == 0:
        print(best, loss)
    dist.destroy_process_group()


def measured_by_processes(name: str, way: str, script: str) -> tuple[float, float]:
    """Seconds of a step, and the loss; `script` prints them where it is the first of the processes."""
    shared = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(WORKERS),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, script, name, way],
            env={**shared, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORKERS)
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit(f"{name}: a process of PyTorch failed")
    seconds, loss = map(float, outputs[0].split())
    return seconds, loss


def report_training(name: str, ways: tuple[str, ...] = WAYS, script: str = __file__) -> None:
    results = []
    for way in ways:
        seconds, loss = measured_by_processes(name, way, script)
        print(f"{name}: {way}: {seconds * 1e6:.1f} us, loss {loss:.9g}", file=sys.stderr, flush=True)
        results.append((seconds, loss))
    seconds, loss = min(results)
    print(f"{name}\t{seconds * 1e6:.9g}\tus")
    print(f"{name}.loss\t{loss:.9g}\tloss", flush=True)


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2])
