import tensorflow as tf
from common import data, fix
x, y = data(90)
strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
GLOBAL = 30
dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL))
with strategy.scope():
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    model = fix(tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(3)]))
    optimizer = tf.keras.optimizers.Adam(0.01)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
    def compute_loss(labels, predictions):
        return tf.nn.compute_average_loss(loss_object(labels, predictions), global_batch_size=GLOBAL)
def train_step(inputs):
    images, labels = inputs
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = compute_loss(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    accuracy.update_state(labels, predictions)
    return loss
@tf.function
def distributed_train_step(dataset_inputs):
    per_replica_losses = strategy.run(train_step, args=(dataset_inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)
losses = []
for epoch in range(2):
    for batch in dataset:
        losses.append(float(distributed_train_step(batch)))
result = {"losses": losses, "accuracy": float(accuracy.result())}
