"""Functions whose arguments were others in version 1, for tf.compat.v1.nn and tf.compat.v1.image."""

import functools

import numpy as np

import tandem as _tf


class _Room:
    """Names of version 1; where they are those of version 2, its."""

    def __init__(self, module, **own):
        self._module = module
        self.__dict__.update(own)

    def __getattr__(self, name):
        return getattr(self._module, name)


def ctc_loss(labels=None, inputs=None, sequence_length=None, preprocess_collapse_repeated=False, ctc_merge_repeated=True, ignore_longer_outputs_than_inputs=False, time_major=True, logits=None):
    """The loss of writing the labels of a sparse tensor; the last class is the blank."""
    if preprocess_collapse_repeated or not ctc_merge_repeated:
        raise NotImplementedError("tf.compat.v1.nn.ctc_loss: preprocess_collapse_repeated=False and ctc_merge_repeated=True are accepted")
    return _tf.nn.ctc_loss(labels, inputs if logits is None else logits, None, sequence_length, logits_time_major=time_major, blank_index=-1)


def ctc_beam_search_decoder(inputs, sequence_length, beam_width=100, top_paths=1, merge_repeated=True):
    """tf.nn.ctc_beam_search_decoder, whose labels are joined where they follow each other."""
    from tandem._ops import decoding

    return decoding.ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated)


def _named(f, old="dim"):
    """A function whose `axis` had another name."""

    def call(*args, **kwargs):
        if old in kwargs:
            kwargs["axis"] = kwargs.pop(old)
        return f(*args, **kwargs)

    return call


def dropout(x, keep_prob=None, noise_shape=None, seed=None, name=None, rate=None):
    """tf.nn.dropout, which took the part that stays."""
    return _tf.nn.dropout(x, 1.0 - keep_prob if rate is None else rate, noise_shape, seed)


def _places(source, target, align_corners):
    return np.arange(target) * ((source - 1) / max(target - 1, 1) if align_corners else source / target)


def resize(images, size, method="bilinear", align_corners=False, preserve_aspect_ratio=False, name=None):
    """Images of another size, whose pixels are taken at whole multiples of the scale, without tf.image.resize's shift by half a pixel."""
    method = {0: "bilinear", 1: "nearest"}.get(method, method)
    if method not in ("bilinear", "nearest") or preserve_aspect_ratio:
        raise NotImplementedError(f"tf.compat.v1.image.resize: method={method!r}, preserve_aspect_ratio={preserve_aspect_ratio}; bilinear and nearest without it are accepted. tf.image.resize does the rest")
    x = _tf.convert_to_tensor(images)
    axes = (len(x.shape) - 3, len(x.shape) - 2)
    for axis, target in zip(axes, (int(s) for s in np.asarray(size))):
        source = int(x.shape[axis])
        places = _places(source, target, align_corners)
        if method == "nearest":
            x = _tf.gather(x, np.minimum(np.floor(places + 0.5 * align_corners), source - 1).astype(np.int32), axis=axis)
            continue
        low = np.minimum(np.floor(places), source - 1).astype(np.int32)
        part = (places - low).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(len(x.shape))])
        x = _tf.cast(x, _tf.float32)
        below = _tf.gather(x, low, axis=axis)
        x = below + (_tf.gather(x, np.minimum(low + 1, source - 1), axis=axis) - below) * part
    return x


nn = _Room(
    _tf.nn, ctc_loss=ctc_loss, ctc_beam_search_decoder=ctc_beam_search_decoder, dropout=dropout, softmax=_named(_tf.nn.softmax),
    log_softmax=_named(_tf.nn.log_softmax), l2_normalize=_named(_tf.nn.l2_normalize),
)
image = _Room(_tf.image, resize=resize, resize_images=resize)


def _optimizer(kind, **arguments):
    """A function that makes an optimizer of Keras of the arguments that version 1 had: their names, and for each Keras's name and the default."""

    def make(learning_rate=0.001, *args, use_locking=False, name=None, **kwargs):
        given = dict(arguments.values())
        given.update(zip(given, args))
        given.update({arguments[k][0] if k in arguments else k: v for k, v in kwargs.items()})
        return getattr(_tf.keras.optimizers, kind)(learning_rate=learning_rate, **given)

    return make


@functools.cache
def get_or_create_global_step(graph=None):
    """The variable in which a program counts its steps."""
    return _tf.Variable(0, dtype=_tf.int64, trainable=False, name="global_step")


train = _Room(
    _tf.train, AdamOptimizer=_optimizer("Adam", beta1=("beta_1", 0.9), beta2=("beta_2", 0.999), epsilon=("epsilon", 1e-8)),
    GradientDescentOptimizer=_optimizer("SGD"), MomentumOptimizer=_optimizer("SGD", momentum=("momentum", 0.9), use_nesterov=("nesterov", False)),
    RMSPropOptimizer=_optimizer("RMSprop", decay=("rho", 0.9), momentum=("momentum", 0.0), epsilon=("epsilon", 1e-10)),
    AdagradOptimizer=_optimizer("Adagrad", initial_accumulator_value=("initial_accumulator_value", 0.1)),
    get_or_create_global_step=get_or_create_global_step, get_global_step=get_or_create_global_step,
)
gfile = _Room(
    _tf.io.gfile, Open=_tf.io.gfile.GFile, FastGFile=_tf.io.gfile.GFile, Exists=_tf.io.gfile.exists, Glob=_tf.io.gfile.glob, IsDirectory=_tf.io.gfile.isdir,
    ListDirectory=_tf.io.gfile.listdir, MakeDirs=_tf.io.gfile.makedirs, MkDir=_tf.io.gfile.makedirs, Remove=_tf.io.gfile.remove,
    DeleteRecursively=_tf.io.gfile.rmtree, Copy=_tf.io.gfile.copy, Rename=_tf.io.gfile.rename, Walk=_tf.io.gfile.walk, Stat=_tf.io.gfile.stat,
)
