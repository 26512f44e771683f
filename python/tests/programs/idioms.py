"""Small programs as public ones are written, one after another; the last line says how many did not run."""

import os, tempfile, traceback

import keras
import numpy as np
import tensorflow as tf
from tensorflow import keras as K
from tensorflow.keras import layers
FOLDER = tempfile.mkdtemp()
failed = []
def case(f):
    try: f(); print("ok", f.__name__)
    except Exception as e:
        failed.append(f.__name__)
        tb = traceback.extract_tb(e.__traceback__)[-1]
        print("FAIL", f.__name__, type(e).__name__, str(e)[:200], f"{os.path.basename(tb.filename)}:{tb.lineno}")
K.utils.set_random_seed(0)  # What is asserted of losses does not depend on luck.
x = np.random.rand(40, 8).astype("float32"); y = np.random.randint(0, 3, 40)
@case
def iterator_in_function():
    st = tf.distribute.MirroredStrategy()
    with st.scope():
        m = K.Sequential([layers.Dense(3)]); opt = K.optimizers.Adam()
        met = K.metrics.Mean()
    ds = st.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(10).repeat())
    @tf.function
    def train_step(iterator):
        def step_fn(inputs):
            a, b = inputs
            with tf.GradientTape() as t:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(b, m(a)))
            opt.apply_gradients(zip(t.gradient(loss, m.trainable_variables), m.trainable_variables)); met.update_state(loss); return loss
        return st.reduce("SUM", st.run(step_fn, args=(next(iterator),)), axis=None)
    it = iter(ds)
    for _ in range(5): train_step(it)
    assert len(st._functions) == 1, len(st._functions)
@case
def siamese():
    a, b = K.Input((8,)), K.Input((8,)); base = K.Sequential([layers.Dense(4, activation="relu"), layers.Dense(2)])
    d = layers.Lambda(lambda t: tf.sqrt(tf.reduce_sum(tf.square(t[0] - t[1]), axis=1, keepdims=True) + 1e-7))([base(a), base(b)])
    m = K.Model([a, b], d); m.compile("adam", lambda t, p: tf.reduce_mean(t * tf.square(p) + (1 - t) * tf.square(tf.maximum(1 - p, 0)))); m.fit([x, x], y % 2, verbose=0); m.summary(print_fn=lambda s: None)
@case
def unet():
    i = K.Input((32, 32, 3)); skips = []; h = i
    for f in (8, 16):
        h = layers.Conv2D(f, 3, padding="same")(h); h = layers.BatchNormalization()(h); h = layers.Activation("relu")(h); skips.append(h); h = layers.MaxPooling2D(2)(h)
    for f, s in zip((16, 8), reversed(skips)):
        h = layers.Conv2DTranspose(f, 3, strides=2, padding="same")(h); h = layers.concatenate([h, s]); h = layers.Dropout(0.1)(h)
    m = K.Model(i, layers.Conv2D(4, 1, activation="softmax")(h)); m.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    m.fit(np.random.rand(8, 32, 32, 3), np.random.randint(0, 4, (8, 32, 32)), batch_size=4, verbose=0)
@case
def seq2seq():
    e = K.Input((5, 7)); _, h, c = layers.LSTM(6, return_state=True)(e); d = K.Input((4, 9)); o, _, _ = layers.LSTM(6, return_sequences=True, return_state=True)(d, initial_state=[h, c])
    m = K.Model([e, d], layers.Dense(9, activation="softmax")(o)); m.compile("rmsprop", "categorical_crossentropy"); m.fit([np.random.rand(8, 5, 7), np.random.rand(8, 4, 9)], np.random.rand(8, 4, 9), verbose=0)
    enc = K.Model(m.input[0], m.layers[2].output[1:] if isinstance(m.layers[2].output, list) else m.layers[1].output)
@case
def augmentation():
    aug = K.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.1), layers.RandomZoom(0.1), layers.RandomTranslation(0.1, 0.1), layers.RandomContrast(0.2), layers.Rescaling(1/255)])
    m = K.Sequential([K.Input((16, 16, 3)), aug, layers.Conv2D(4, 3), layers.GlobalAveragePooling2D(), layers.Dense(2)]); m.compile("adam", K.losses.SparseCategoricalCrossentropy(from_logits=True))
    ds = tf.data.Dataset.from_tensor_slices((np.random.rand(12, 16, 16, 3).astype("float32"), np.zeros(12, int))).batch(4).map(lambda a, b: (aug(a, training=True), b), num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    m.fit(ds, verbose=0); m.predict(np.random.rand(3, 16, 16, 3), verbose=0)
@case
def reinforce():
    m = K.Sequential([K.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(2, activation="softmax")]); opt = K.optimizers.Adam(0.01)
    with tf.GradientTape() as t:
        ls = []
        for _ in range(5):
            s = tf.expand_dims(tf.convert_to_tensor(np.random.rand(4)), 0); p = m(s); a = np.random.choice(2, p=np.squeeze(p) / np.sum(np.squeeze(p))); ls.append(tf.math.log(p[0, a]) * -1.0)
        loss = sum(ls)
    opt.apply_gradients(zip(t.gradient(loss, m.trainable_variables), m.trainable_variables))
@case
def linear_regression_low_level():
    W, b = tf.Variable(np.random.randn(), name="weight"), tf.Variable(np.random.randn(), name="bias"); o = tf.optimizers.SGD(0.01)
    for _ in range(3):
        with tf.GradientTape() as g:
            pred = W * x[:, 0] + b; loss = tf.reduce_mean(tf.square(pred - x[:, 1]))
        grads = g.gradient(loss, [W, b]); o.apply_gradients(zip(grads, [W, b])); print("W %f" % W.numpy(), "loss: %f" % loss, end=" ")
    W.assign_sub(0.1 * grads[0]); tf.Variable(tf.random.normal([8, 3])); tf.one_hot(y, depth=3); tf.cast(tf.equal(tf.argmax(tf.ones((4, 3)), 1), y[:4]), tf.float32)
@case
def char_rnn_data():
    ids = tf.data.Dataset.from_tensor_slices(np.arange(100)).batch(11, drop_remainder=True).map(lambda c: (c[:-1], c[1:])).shuffle(20).batch(3, drop_remainder=True)
    m = K.Sequential([layers.Embedding(100, 8), layers.GRU(6, return_sequences=True), layers.Dense(100)]); m.compile("adam", K.losses.SparseCategoricalCrossentropy(from_logits=True)); m.fit(ids, epochs=2, verbose=0)
    for a, b in ids.take(1): assert m(a).shape == (3, 10, 100); tf.random.categorical(m(a)[0], num_samples=1)
@case
def tf_module_and_checkpoint():
    class D(tf.Module):
        def __init__(self, i, o, name=None):
            super().__init__(name=name); self.w = tf.Variable(tf.random.normal([i, o]), name="w"); self.b = tf.Variable(tf.zeros([o]), name="b")
        @tf.function
        def __call__(self, v): return tf.nn.relu(v @ self.w + self.b)
    d = D(8, 3); d(x); assert len(d.trainable_variables) == 2
    c = tf.train.Checkpoint(net=d, step=tf.Variable(1)); man = tf.train.CheckpointManager(c, os.path.join(FOLDER, "ck"), max_to_keep=3); man.save(); c.restore(man.latest_checkpoint).assert_existing_objects_matched()
@case
def grad_cam():
    m = K.Sequential([K.Input((12, 12, 3)), layers.Conv2D(4, 3, name="last"), layers.Flatten(), layers.Dense(3)])
    g = K.Model(m.inputs, [m.get_layer("last").output, m.output])
    with tf.GradientTape() as t:
        conv, p = g(np.random.rand(1, 12, 12, 3).astype("float32")); i = tf.argmax(p[0]); c = p[:, i]
    gr = t.gradient(c, conv); w = tf.reduce_mean(gr, axis=(0, 1, 2)); h = conv[0] @ w[..., tf.newaxis]; tf.squeeze(tf.maximum(h, 0) / tf.math.reduce_max(h)).numpy()
@case
def style_gram():
    v = tf.Variable(np.random.rand(1, 8, 8, 3).astype("float32")); r = tf.linalg.einsum("bijc,bijd->bcd", v, v); s = tf.shape(v); r / tf.cast(s[1] * s[2], tf.float32); tf.image.total_variation(v); v.assign(tf.clip_by_value(v, 0.0, 1.0))
@case
def compute_loss_override():
    class M(K.Model):
        def __init__(self, *a, **k): super().__init__(*a, **k); self.lt = K.metrics.Mean(name="loss")
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            loss = keras.ops.mean(keras.ops.square(keras.ops.cast(y, "float32")[:, None] - y_pred)) + keras.ops.sum(self.losses); self.lt.update_state(loss); return loss
        @property
        def metrics(self): return [self.lt]
    i = K.Input((8,)); m = M(i, layers.Dense(1, activity_regularizer="l2")(i)); m.compile("adam"); assert "loss" in m.fit(x, y, verbose=0).history
@case
def custom_optimizer_and_keras_ops():
    class My(K.optimizers.Optimizer):
        def __init__(self, learning_rate=0.1, **k): super().__init__(learning_rate=learning_rate, name="my", **k)
        def build(self, vs):
            if self.built: return
            super().build(vs); self.m = [self.add_variable_from_reference(v, name="m") for v in vs]
        def update_step(self, g, v, lr):
            m = self.m[self._get_variable_index(v)]; self.assign(m, 0.9 * m + g); self.assign_sub(v, lr * m)
    m = K.Sequential([K.Input((8,)), layers.Dense(3)]); m.compile(My(), K.losses.SparseCategoricalCrossentropy(from_logits=True)); h = m.fit(x, y, epochs=5, verbose=0).history["loss"]; assert h[-1] < h[0]
    keras.ops.concatenate([keras.ops.ones((2, 2)), keras.ops.zeros((2, 1))], axis=-1); keras.ops.softmax(keras.ops.arange(4, dtype="float32")); keras.ops.take(keras.ops.arange(5), [1, 2]); keras.ops.mean(keras.ops.array([1, 2]))
@case
def transfer_freeze_and_clone():
    base = K.Sequential([K.Input((8,)), layers.Dense(4), layers.BatchNormalization()]); base.trainable = False
    i = K.Input((8,)); m = K.Model(i, layers.Dense(1)(base(i, training=False))); m.compile(K.optimizers.Adam(1e-3), K.losses.BinaryCrossentropy(from_logits=True), metrics=[K.metrics.BinaryAccuracy()]); m.fit(x, y % 2, verbose=0); assert len(m.trainable_weights) == 2; K.models.clone_model(m); K.utils.plot_model(m, os.path.join(FOLDER, "m.png"), show_shapes=True)
@case
def masking_attention_scores():
    q = tf.random.normal((2, 5, 8)); o, s = layers.MultiHeadAttention(2, 4)(q, q, return_attention_scores=True, use_causal_mask=True); assert s.shape == (2, 2, 5, 5)
    m = K.Sequential([layers.Masking(0.0, input_shape=(5, 3)), layers.LSTM(4), layers.Dense(1)]); m.compile("sgd", "mse"); m.fit(np.random.rand(6, 5, 3), np.zeros(6), verbose=0)
@case
def dict_dataset_and_preprocessing():
    ds = tf.data.Dataset.from_tensor_slices(({"a": np.random.rand(20), "b": np.random.randint(0, 4, 20)}, np.random.randint(0, 2, 20))).batch(5)
    n = layers.Normalization(axis=None); n.adapt(ds.map(lambda f, t: f["a"])); ia, ib = K.Input((1,), name="a"), K.Input((1,), name="b", dtype="int64")
    m = K.Model({"a": ia, "b": ib}, layers.Dense(1, activation="sigmoid")(layers.concatenate([n(ia), layers.CategoryEncoding(4, "one_hot")(ib)]))); m.compile("adam", "binary_crossentropy", metrics=["accuracy", "AUC"]); m.fit(ds, verbose=0, validation_data=ds); print(m.evaluate(ds, verbose=0, return_dict=True).keys(), end=" ")
@case
def jit_and_misc():
    @tf.function(jit_compile=True)
    def f(a): return tf.reduce_sum(a)
    f(x); tf.get_logger().setLevel("ERROR"); print(tf.config.list_physical_devices("GPU"), tf.__version__, K.__version__, end=" "); tf.keras.backend.clear_session(); tf.test.is_gpu_available(); K.utils.set_random_seed(1)
@case
def texts_inside_models():
    colors = np.array([["red"], ["blue"], ["green"], ["red"]] * 10); target = np.array([1, 0, 0, 1] * 10)
    ds = tf.data.Dataset.from_tensor_slices(({"color": colors, "size": np.arange(40)[:, None]}, target)).batch(8)
    index = layers.StringLookup(max_tokens=5); index.adapt(ds.map(lambda f, t: f["color"])); sizes = layers.IntegerLookup(max_tokens=6); sizes.adapt(ds.map(lambda f, t: f["size"]))
    c, s = K.Input((1,), name="color", dtype="string"), K.Input((1,), name="size", dtype="int64")
    h = layers.concatenate([layers.CategoryEncoding(num_tokens=index.vocabulary_size())(index(c)), layers.CategoryEncoding(num_tokens=sizes.vocabulary_size())(sizes(s))])
    m = K.Model({"color": c, "size": s}, layers.Dense(1, activation="sigmoid")(h)); m.compile(K.optimizers.Adam(0.1), "binary_crossentropy", metrics=["accuracy"])
    assert m.fit(ds, epochs=8, verbose=0).history["accuracy"][-1] > 0.9
    assert m._tandem_functions["train"].experimental_get_tracing_count() == 1  # Not once for each batch of texts.
    assert m.predict({"color": tf.constant([["red"]]), "size": tf.constant([[3]])}, verbose=0).shape == (1, 1)
    v = layers.TextVectorization(max_tokens=20, output_sequence_length=4); v.adapt(colors.ravel()); t = K.Sequential([v, layers.Embedding(20, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)]); t.compile("adam", "mse")
    t.fit(tf.data.Dataset.from_tensor_slices((colors.ravel(), target)).batch(5), epochs=2, verbose=0); assert t._tandem_functions["train"].experimental_get_tracing_count() == 1; t.predict(np.array(["red blue"]), verbose=0)
@case
def models_called_with_several_tensors():
    class Encoder(K.Model):
        def __init__(self): super().__init__(); self.e = layers.Embedding(20, 6); self.g = layers.GRU(5, return_sequences=True, return_state=True)
        def call(self, x, hidden): return self.g(self.e(x), initial_state=hidden)
    enc = Encoder(); opt = K.optimizers.Adam()
    @tf.function
    def step(inp, hidden):
        with tf.GradientTape() as t:
            out, state = enc(inp, hidden); loss = tf.reduce_sum(out * out) + tf.reduce_sum(state)
        opt.apply_gradients(zip(t.gradient(loss, enc.trainable_variables), enc.trainable_variables)); return loss
    a = step(np.ones((4, 7), "int32"), tf.zeros((4, 5))); b = step(np.ones((4, 7), "int32"), tf.zeros((4, 5))); assert float(b) < float(a)
@case
def one_step_of_text():
    mask = tf.sparse.to_dense(tf.SparseTensor(values=[-float("inf")], indices=[[0]], dense_shape=[4])); assert mask.numpy().tolist()[1:] == [0, 0, 0] and mask.numpy()[0] == -np.inf
    ids = layers.StringLookup(vocabulary=list("abc"), mask_token=None); chars = layers.StringLookup(vocabulary=ids.get_vocabulary(), invert=True, mask_token=None)
    @tf.function
    def f(text): return chars(tf.argmax(tf.one_hot(ids(tf.strings.unicode_split(text, "UTF-8")).to_tensor(), 4) + mask, -1)[:, -1])
    assert f(tf.constant(["ab"])).numpy()[0] == b"b" and tf.constant([1, 2])[tf.newaxis].shape == (1, 2) and tf.argmax(tf.constant([b"x", b"y"]) == "y").numpy() == 1
@case
def csv_files():
    path = os.path.join(FOLDER, "t.csv"); open(path, "w").write("a,b,c\n1,x,0.5\n2,y,1.5\n3,,2\n")
    for f, label in tf.data.experimental.make_csv_dataset(path, batch_size=3, label_name="a", num_epochs=1, shuffle=False): assert label.numpy().tolist() == [1, 2, 3] and f["b"].numpy().tolist() == [b"x", b"y", b""] and f["c"].numpy().tolist() == [0.5, 1.5, 2.0]
@case
def inner_modules():
    from tensorflow.python.client import device_lib
    from tensorflow.python.keras.layers import Dense
    assert Dense is layers.Dense and device_lib.list_local_devices()[0].device_type == "CPU"
@case
def adversaries_of_keras_2():
    g = K.Sequential([layers.Dense(8, input_dim=4)]); d = K.Sequential([layers.Dense(1, activation="sigmoid", input_dim=8)])
    d.compile(loss="binary_crossentropy", optimizer=K.optimizers.Adam(0.0002, 0.5), metrics=["accuracy"])
    z = K.Input(shape=(4,)); d.trainable = False; both = K.Model(z, d(g(z))); both.compile(loss="binary_crossentropy", optimizer="adam")
    before = d.get_weights()[0].copy(); both.train_on_batch(np.random.normal(0, 1, (8, 4)), np.ones((8, 1)))
    assert np.array_equal(before, d.get_weights()[0])
@case
def letters_one_after_another():
    ids = layers.StringLookup(vocabulary=list("abc"), mask_token=None); back = layers.StringLookup(vocabulary=ids.get_vocabulary(), invert=True, mask_token=None)
    rows = tf.data.Dataset.from_tensor_slices(ids(tf.strings.unicode_split("abcabcab", "UTF-8"))).batch(4, drop_remainder=True).map(lambda s: (s[:-1], s[1:]))
    assert [tf.strings.reduce_join(back(b), axis=-1).numpy() for _, b in rows] == [b"bca", b"cab"]
print("failed:", failed)
