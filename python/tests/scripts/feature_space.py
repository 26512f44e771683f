import numpy as np
import tensorflow as tf
import keras

r = np.random.RandomState(7)
rows = 24
table = {
    "kind": np.array(["fixed", "normal", "reversible", "a rather long name of a kind"])[r.randint(0, 4, rows)], "plan": r.randint(1, 5, rows),
    "age": (r.rand(rows) * 60).astype("float32"), "income": (r.rand(rows) * 1000).astype("float32"), "city": r.choice(["Rome", "Oslo", "Bern"], rows),
}
truth = (table["age"] > 30).astype("float32")
Space = keras.utils.FeatureSpace
space = Space(
    features={
        "kind": Space.string_categorical(), "plan": Space.integer_categorical(num_oov_indices=0), "age": Space.float_rescaled(scale=0.1),
        "income": "float_normalized", "city": Space.string_hashed(num_bins=5),
    },
    crosses=[("kind", "plan"), Space.cross(("plan", "city"), crossing_dim=7)], crossing_dim=8,
)
batches = tf.data.Dataset.from_tensor_slices((table, truth)).batch(6)
space.adapt(batches.map(lambda x, y: x))
encoded = space.get_encoded_features()
outputs = keras.layers.Dense(1, activation="sigmoid")(keras.layers.Dense(4, activation="tanh")(encoded))
training, whole = keras.Model(encoded, outputs), keras.Model(space.get_inputs(), outputs)
for i, weight in enumerate(training.weights):
    weight.assign(np.random.RandomState(i).normal(size=tuple(weight.shape)) * 0.3)
training.compile(keras.optimizers.SGD(0.1), "binary_crossentropy")
history = training.fit(batches.map(lambda x, y: (space(x), y)), epochs=3, verbose=0)
one = {name: tf.convert_to_tensor(values[:1]) for name, values in table.items()}
result = {
    "encoded": space(table), "row": space({name: values[2] for name, values in table.items()}), "losses": history.history["loss"], "prediction": whole.predict(one, verbose=0),
    "bins": keras.layers.Hashing(10)(np.array([["a"], ["bc"], ["some text"], ["a text of more than sixteen"], ["and one of more than thirty-two letters"]])),
    "masked": keras.layers.Hashing(4, mask_value="")(np.array([["a"], [""], ["b"]])), "fast": tf.strings.to_hash_bucket_fast(["x", "yz", "tensor"], 100),
    "crossed": keras.layers.HashedCrossing(6)((np.array(["A", "B", "A"]), np.array([101, 101, 102]))),
}
