"""A mixed policy: layers compute in bfloat16 and keep their weights in float32."""

import numpy as np
import tensorflow as tf


def numbers(*shape):
    return np.random.RandomState(0).normal(size=shape).astype("float32")


tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
result = {}
try:
    layers = tf.keras.layers
    images, sequences = tf.constant(numbers(4, 8, 8, 3)), tf.constant(numbers(4, 6, 5))
    names = {"float32": 0, "bfloat16": 1}

    def seen(name, layer, x):
        """The dtypes, and whether the values are those of float32 but for what bfloat16 rounds."""
        y = layer(x)
        result[name] = [names[y.dtype.name], names[layer.compute_dtype], names[layer.variable_dtype], *(names[str(w.dtype).split("'")[-2] if "'" in str(w.dtype) else str(w.dtype)] for w in layer.weights)]
        config = layer.get_config()
        config["dtype"] = "float32"
        exact = type(layer).from_config(config)
        exact.build(x.shape)
        exact.set_weights(layer.get_weights())
        np.testing.assert_allclose(tf.cast(y, tf.float32), exact(x), rtol=0.06, atol=0.06, err_msg=name)

    seen("dense", layers.Dense(3, activation="relu"), sequences)
    seen("softmax", layers.Dense(3, activation="softmax"), sequences)
    seen("float32", layers.Dense(3, dtype="float32"), sequences)
    seen("conv", layers.Conv2D(4, 3, padding="same"), images)
    seen("separable", layers.SeparableConv2D(4, 3), images)
    seen("transpose", layers.Conv2DTranspose(4, 3, strides=2), images)
    seen("conv1d", layers.Conv1D(4, 3, padding="causal"), sequences)
    seen("batch normalization", layers.BatchNormalization(), images)
    seen("layer normalization", layers.LayerNormalization(), sequences)
    seen("pooling", layers.MaxPooling2D(), images)
    seen("average", layers.GlobalAveragePooling2D(), images)
    seen("lstm", layers.LSTM(4), sequences)
    seen("gru", layers.GRU(4), sequences)
    seen("relu", layers.ReLU(), sequences)
    seen("rescaling", layers.Rescaling(0.5), images)

    model = tf.keras.Sequential([
        tf.keras.Input((8, 8, 3)), layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten(), layers.Dropout(0.0),
        layers.Dense(3), layers.Activation("softmax", dtype="float32"),
    ])
    model.compile(tf.keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    x, y = numbers(32, 8, 8, 3), np.arange(32) % 3
    history = model.fit(x, y, epochs=5, batch_size=16, verbose=0).history["loss"]
    assert history[-1] < history[0], history
    result["model"] = [names[layer.compute_dtype] for layer in model.layers]
    assert model.predict(x, verbose=0).dtype == np.float32
finally:
    tf.keras.mixed_precision.set_global_policy("float32")
