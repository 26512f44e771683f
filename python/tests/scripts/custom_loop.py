import tensorflow as tf
from common import data, fix
x, y = data()
model = fix(tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(10, activation="relu"), tf.keras.layers.Dense(3)]))
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.RMSprop(0.01)
metric = tf.keras.metrics.SparseCategoricalAccuracy()
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(20)
@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    grads = tape.gradient(loss, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    metric.update_state(y, logits)
    return loss
losses, accs = [], []
for epoch in range(3):
    for bx, by in dataset:
        losses.append(float(train_step(bx, by)))
    accs.append(float(metric.result()))
    metric.reset_state()
result = {"losses": losses, "accs": accs, "norm": float(tf.linalg.global_norm(model.trainable_weights))}
