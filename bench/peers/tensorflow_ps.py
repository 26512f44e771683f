"""Training of the classifiers of bench/parameter_servers.cpp with TensorFlow's ParameterServerStrategy and its
ClusterCoordinator: a chief, two workers and a server as processes; `fit` of Keras 3 does not support it. The time is of a
step and worker, the loss that of the first weights, since what comes of later steps depends on chance."""

import json
import os
import socket
import subprocess
import sys

WORKERS = 2
STEPS = {"ps_mlp10": 200, "ps_mlp1024": 20}  # of a repetition
NAMES = tuple(STEPS)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def serve() -> None:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()


def measure(name: str) -> None:
    """The chief: prints the seconds of a step and worker, and the loss."""
    import time

    import tensorflow as tf
    from data import BATCH, CLASSIFIERS, REPETITIONS, features, labels, weights

    sizes, learning_rate = CLASSIFIERS[name.removeprefix("ps_")]
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    shapes = [array.shape for array in weights(sizes)]
    with strategy.scope():
        variables = [tf.Variable(array) for array in weights(sizes)]
        first = [tf.Variable(tf.zeros(shape)) for shape in shapes]
        second = [tf.Variable(tf.zeros(shape)) for shape in shapes]
        count = tf.Variable(0.0)
    x, y = features(BATCH), labels(BATCH)

    def batches():
        return tf.data.Dataset.from_tensors((x, y)).repeat().prefetch(2)

    per_worker = iter(coordinator.create_per_worker_dataset(batches))

    @tf.function
    def step(iterator):
        # Keras 3's optimizers do not work under this strategy: Adam is written out.
        inputs, truths = next(iterator)
        with tf.GradientTape() as tape:
            hidden = inputs
            for i in range(0, len(variables), 2):
                hidden = tf.matmul(hidden, variables[i]) + variables[i + 1]
                if i + 2 < len(variables):
                    hidden = tf.nn.relu(hidden)
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=truths, logits=hidden))
        gradients = tape.gradient(loss, variables)
        done = count.assign_add(1.0)
        rate = learning_rate * tf.sqrt(1.0 - tf.pow(0.999, done)) / (1.0 - tf.pow(0.9, done))
        for variable, m, v, gradient in zip(variables, first, second, gradients):
            m.assign_add((gradient - m) * 0.1)
            v.assign_add((tf.square(gradient) - v) * 0.001)
            variable.assign_sub(rate * m / (tf.sqrt(v) + 1e-7))
        return loss

    loss = float(coordinator.schedule(step, args=(per_worker,)).fetch())
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        for _ in range(STEPS[name]):
            coordinator.schedule(step, args=(per_worker,))
        coordinator.join()
        best = min(best, (time.perf_counter() - start) / STEPS[name] * WORKERS)
    print(best, loss, flush=True)


def report_training(name: str) -> None:
    ports = free_ports(WORKERS + 2)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    cluster = {"chief": addresses[:1], "ps": addresses[1:2], "worker": addresses[2:]}

    def start(job: str, index: int, words: list[str], output=None) -> subprocess.Popen:
        config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        environment = {**os.environ, "TF_CONFIG": config, "TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_FAIL_FAST": "use_caller"}
        return subprocess.Popen([sys.executable, __file__, *words], env=environment, stdout=output, text=True)

    servers = [start("ps", 0, ["serve"]), *(start("worker", w, ["serve"]) for w in range(WORKERS))]
    chief = start("chief", 0, [name], subprocess.PIPE)
    output = chief.communicate()[0]
    for server in servers:
        server.kill()
        server.wait()
    if chief.returncode != 0:
        sys.exit(f"{name}: the chief of ParameterServerStrategy failed")
    seconds, loss = map(float, output.split()[-2:])
    print(f"{name}: ClusterCoordinator: {seconds * 1e6:.1f} us, loss {loss:.9g}", file=sys.stderr, flush=True)
    print(f"{name}\t{seconds * 1e6:.9g}\tus")
    print(f"{name}.loss\t{loss:.9g}\tloss", flush=True)


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else measure(sys.argv[1])
