"""Parameter servers as TensorFlow's tutorial uses them: workers and servers only serve, the chief trains in both ways."""

import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True)
    server.join()

partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=64, max_shards=2)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
r = np.random.RandomState(0)
x = r.normal(size=(64, 4)).astype("float32")
y = (x @ r.normal(size=(4, 1))).astype("float32")


def dataset_fn(context):
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(context.get_per_replica_batch_size(16))


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
    model.set_weights([r.normal(size=w.shape).astype("float32") * 0.3 for w in model.get_weights()])
    optimizer = tf.keras.optimizers.SGD(0.01)
    mean_loss = tf.keras.metrics.Mean()


@tf.function
def train_step(iterator):
    def replica_fn(features, labels):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.square(model(features, training=True)[:, 0] - labels[:, 0]), global_batch_size=16)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        mean_loss.update_state(loss)
        return loss

    losses = strategy.run(replica_fn, args=next(iterator))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(dataset_fn)


iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
losses = []
for epoch in range(3):
    mean_loss.reset_state()
    results = [coordinator.schedule(train_step, args=(iterator,)) for _ in range(10)]
    coordinator.join()
    losses.append(np.mean([result.fetch() for result in results]))
steps = int(optimizer.iterations)
last = coordinator.schedule(train_step, args=(iterator,))
print("loop", "falls" if losses[2] < losses[0] else losses, "steps", steps, "and then", 0 < last.fetch() < losses[0])
coordinator.join()

with strategy.scope():
    model.compile(tf.keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
before = model.evaluate(x, y, verbose=0)
model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(16), epochs=3, verbose=0)
found = model.evaluate(x, y, verbose=0)
print("fit", "falls" if found[0] < before[0] else (before, found), "evaluates", np.allclose(found[0], np.mean((model.predict(x, verbose=0) - y) ** 2), rtol=1e-4))
print("weights", *[f"{float(np.sum(w)):.5f}" for w in model.get_weights()])
