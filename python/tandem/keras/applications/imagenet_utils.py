"""What models for ImageNet have in common: their inputs, their weights, and what their outputs mean."""

import json
import os

import numpy as np

from tandem._ops import cast
from tandem.keras import layers
from tandem.keras._model import Model

_MEANS = (103.939, 116.779, 123.68)


def preprocess_input(x, data_format=None, mode="caffe"):
    """Images of 0 to 255 as models want them: by colour around 0 ("caffe"), within -1 and 1 ("tf"), standardised ("torch")."""
    if data_format not in (None, "channels_last"):
        raise NotImplementedError(f"preprocess_input: data_format={data_format!r}; channels_last is accepted")
    x = x.astype("float32") if isinstance(x, np.ndarray) else cast(x, "float32")
    if mode == "tf":
        return x / 127.5 - 1.0
    if mode == "torch":
        return (x / 255.0 - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    if mode == "caffe":
        return x[..., ::-1] - np.float32(_MEANS)
    raise ValueError(f"Expected mode to be one of `caffe`, `tf` or `torch`. Received: mode={mode}")


def cached_file(name):
    """A file of Keras's cache folder."""
    home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    path = os.path.join(home, "models", name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not there; tandem downloads nothing. Put the file that Keras would download there, or give weights=None")
    return path


def decode_predictions(preds, top=5):
    """The names of the likeliest classes."""
    preds = np.asarray(preds)
    if preds.ndim != 2 or preds.shape[1] != 1000:
        raise ValueError(f"`decode_predictions` expects a batch of predictions (i.e. a 2D array of shape (samples, 1000)). Received array with shape: {preds.shape}")
    with open(cached_file("imagenet_class_index.json"), encoding="utf-8") as file:
        classes = json.load(file)
    return [[(*classes[str(i)], float(row[i])) for i in row.argsort()[-top:][::-1]] for row in preds]


def input_of(input_tensor, input_shape, include_top, default_size=224):
    """The input of a model, and what the model begins with."""
    shape = tuple(input_shape) if input_shape is not None else (default_size, default_size, 3) if include_top else (None, None, 3)
    if include_top and input_shape is not None and None in shape:
        raise ValueError(f"If `include_top` is True, you should specify a static `input_shape`. Received: input_shape={input_shape}")
    if input_tensor is None:
        given = layers.Input(shape=shape)
        return given, given
    if hasattr(type(input_tensor), "_tandem_symbolic"):
        return input_tensor, input_tensor
    raise ValueError(f"input_tensor is {type(input_tensor)}; an output of keras.Input is accepted")


def finish(x, inputs, name, include_top, top, pooling, weights):
    """The model with its top, or what is there instead of one, and the weights of a file."""
    if include_top:
        x = top(x)
    elif pooling == "avg":
        x = layers.GlobalAveragePooling2D()(x)
    elif pooling == "max":
        x = layers.GlobalMaxPooling2D()(x)
    model = Model(inputs, x, name=name)
    if weights is not None:
        model.load_weights(weights)
    return model


def weights_file(weights, include_top, classes, files):
    """The file of the weights, or None. `files` are those of ImageNet with and without a top."""
    if weights == "imagenet" and include_top and classes != 1000:
        raise ValueError(f"If using `weights='imagenet'` with `include_top=True`, `classes` should be 1000. Received classes={classes}")
    if weights == "imagenet":
        return cached_file(files[0] if include_top else files[1])
    if weights is not None and not os.path.exists(weights):
        raise ValueError(f"The `weights` argument should be either `None`, `imagenet`, or the path to the weights file to be loaded. Received: weights={weights}")
    return weights
