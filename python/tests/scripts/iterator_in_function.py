"""The distribution guides: strategy.run inside of an outer tf.function, with next(iterator), loops and inner step functions."""

import tensorflow as tf

from common import data, fix

x, y = data(60)
strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
global_batch_size = 20
dataset = tf.data.Dataset.from_tensor_slices((x, y.reshape(-1, 1).astype("float32"))).batch(global_batch_size)
dist_dataset = strategy.experimental_distribute_dataset(dataset)
with strategy.scope():
    model = fix(tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1, kernel_regularizer=tf.keras.regularizers.L2(1e-2))]))
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.05, momentum=0.9)
    loss_object = tf.keras.losses.MeanSquaredError(reduction=tf.keras.losses.Reduction.NONE)
    train_loss = tf.keras.metrics.Mean(name="train_loss")
    test_loss = tf.keras.metrics.Mean(name="test_loss")


def compute_loss(labels, predictions, model_losses):
    per_example_loss = loss_object(labels, predictions)
    loss = tf.nn.compute_average_loss(per_example_loss)
    if model_losses:
        loss += tf.nn.scale_regularization_loss(tf.add_n(model_losses))
    return loss


@tf.function
def train_step(iterator):
    def step_fn(inputs):
        features, labels = inputs
        with tf.GradientTape() as tape:
            predictions = model(features, training=True)
            loss = compute_loss(labels, predictions, model.losses)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(list(zip(grads, model.trainable_variables)))
        train_loss.update_state(loss)
        return loss

    losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


@tf.function
def test_step(inputs):
    def step_fn(inputs):
        features, labels = inputs
        test_loss.update_state(loss_object(labels, model(features, training=False)))

    strategy.run(step_fn, args=(inputs,))


@tf.function
def train_epoch(dist_dataset):
    total_loss = 0.0
    num_batches = 0
    for batch in dist_dataset:
        per_replica = strategy.run(lambda inputs: tf.reduce_mean(loss_object(inputs[1], model(inputs[0]))), args=(batch,))
        total_loss += strategy.reduce(tf.distribute.ReduceOp.MEAN, per_replica, axis=None)
        num_batches += 1
    return total_loss / tf.cast(num_batches, dtype=tf.float32)


losses = []
for epoch in range(2):
    train_loss.reset_state()
    iterator = iter(dist_dataset)
    for _ in range(3):
        losses.append(train_step(iterator))
for batch in dist_dataset:
    test_step(batch)


def value_fn(context):
    return tf.constant(float(context.replica_id_in_sync_group) + 1.0)


distributed_values = strategy.experimental_distribute_values_from_function(value_fn)


@tf.function
def replica_fn(value):
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value * 2.0)


def dataset_fn(context):
    batch_size = context.get_per_replica_batch_size(12)
    d = tf.data.Dataset.from_tensor_slices(tf.range(24.0)).batch(batch_size)
    return d.shard(context.num_input_pipelines, context.input_pipeline_id).prefetch(2)


sums = [float(strategy.reduce("SUM", strategy.run(lambda v: tf.reduce_sum(v), args=(v,)), axis=None)) for v in strategy.distribute_datasets_from_function(dataset_fn)]
result = {
    "losses": [float(l) for l in losses], "train": float(train_loss.result()), "test": float(test_loss.result()), "epoch": float(train_epoch(dist_dataset)), "steps": int(optimizer.iterations.numpy()),
    "all_reduce": [float(v) for v in strategy.experimental_local_results(strategy.run(replica_fn, args=(distributed_values,)))], "sums": sums,
    "mean": float(strategy.reduce(tf.distribute.ReduceOp.MEAN, tf.constant([1.0, 3.0]), axis=0)),
}
