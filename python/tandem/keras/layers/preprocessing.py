"""Layers that prepare their input: scales, sizes, random changes of images, categories."""

import itertools

import numpy as np

import _tandem
from tandem import _ops, errors
from tandem._tracing.function import GiveUpTrace
from tandem._tensors.tensor import Tensor
from tandem.keras._symbolic import KerasTensor, text_probes
from tandem.keras._layer import Layer
from tandem.keras.layers._formats import format_of
from tandem.keras.layers._vocabulary import KeptVocabulary
from tandem.keras.layers.core import floating
from tandem.keras.random import SeedGenerator, make_default_seed


class Rescaling(Layer):
    """inputs * scale + offset."""

    def __init__(self, scale, offset=0.0, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset
        self.supports_masking = True

    def call(self, inputs):
        x = floating(_tandem.convert(inputs))
        return x * _tandem.convert(self.scale, x._code) + _tandem.convert(self.offset, x._code)


class Normalization(Layer):
    """(x - mean) / standard deviation, of what adapt() has seen."""

    def __init__(self, axis=-1, mean=None, variance=None, invert=False, **kwargs):
        super().__init__(**kwargs)
        self.axis = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        self.input_mean, self.input_variance, self.invert = mean, variance, invert
        self._total = None

    def build(self, input_shape):
        rank = len(input_shape)
        self._keep = sorted(a % rank for a in self.axis)
        if self.input_mean is None and "_adapted" not in self.__dict__:
            shape = tuple(input_shape[a] for a in self._keep)
            self.adapt_mean = self.add_weight(shape, "zeros", trainable=False, name="mean")
            self.adapt_variance = self.add_weight(shape, "ones", trainable=False, name="variance")
            self.count = self.add_weight((), "zeros", dtype="int64", trainable=False, name="count")
            self._adapted = False
        self._rank_seen = rank
        self.built = True

    def adapt(self, data, batch_size=None, steps=None):
        """Learns mean and variance from data."""
        if hasattr(data, "_open"):
            rows = [np.asarray(v[0] if isinstance(v, tuple) else v) for v in data]
            array = np.concatenate([r if r.ndim else r[None] for r in rows]) if rows[0].ndim else np.asarray(rows)
        else:
            array = np.asarray(data)
        if array.ndim == 1 and self.axis:
            array = array[:, None]
        self.build((None,) + array.shape[1:])
        axes = tuple(i for i in range(array.ndim) if i not in self._keep)
        array = array.astype(np.float64)
        self.adapt_mean.assign(array.mean(axes).astype(np.float32))
        self.adapt_variance.assign(array.var(axes).astype(np.float32))

    @property
    def mean(self):
        """The mean that was learned or given."""
        return self.input_mean if self.input_mean is not None else self._shaped(self.adapt_mean)

    @property
    def variance(self):
        """The variance that was learned or given."""
        return self.input_variance if self.input_variance is not None else self._shaped(self.adapt_variance)

    def _shaped(self, value):
        shape = [value._sizes[self._keep.index(i)] if i in self._keep else 1 for i in range(self._rank_seen)]
        return _tandem.reshape(value, shape)

    def call(self, inputs):
        x = floating(_tandem.convert(inputs))
        mean, variance = _tandem.convert(self.mean, None, x._code), _tandem.convert(self.variance, None, x._code)
        deviation = _tandem.maximum(_tandem.sqrt(_tandem.cast(variance, x._code)), 1e-7)
        mean = _tandem.cast(mean, x._code)
        return x * deviation + mean if self.invert else (x - mean) / deviation


class Resizing(Layer):
    """Images of another size."""

    def __init__(self, height, width, interpolation="bilinear", crop_to_aspect_ratio=False, pad_to_aspect_ratio=False, fill_mode="constant", fill_value=0.0, antialias=False, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.height, self.width, self.interpolation, self.data_format = int(height), int(width), interpolation, format_of(data_format)
        self.crop_to_aspect_ratio, self.pad_to_aspect_ratio = crop_to_aspect_ratio, pad_to_aspect_ratio
        self.fill_mode, self.fill_value, self.antialias = fill_mode, fill_value, antialias

    def call(self, inputs):
        from tandem.keras.ops import image

        return image.resize(
            inputs, (self.height, self.width), self.interpolation, self.antialias, self.crop_to_aspect_ratio, self.pad_to_aspect_ratio, self.fill_mode,
            self.fill_value, self.data_format,
        )


class CenterCrop(Layer):
    """The middle part of images; smaller ones are made larger first."""

    def __init__(self, height, width, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.height, self.width, self.data_format = int(height), int(width), format_of(data_format)

    def call(self, inputs):
        from tandem.keras.ops import _image

        return _image.formatted(floating(_tandem.convert(inputs)), self.data_format, self._cropped)

    def _cropped(self, x):
        h, w = int(x._sizes[-3]), int(x._sizes[-2])
        if h >= self.height and w >= self.width:
            top, left = (h - self.height) // 2, (w - self.width) // 2
            return x[..., top : top + self.height, left : left + self.width, :]
        from tandem.keras.ops import image

        return image.resize(x, (self.height, self.width), crop_to_aspect_ratio=True, data_format="channels_last")


class _RandomImage(Layer):
    def __init__(self, seed=None, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.seed, self.data_format = seed, format_of(data_format)
        self.generator = SeedGenerator(seed)

    def call(self, inputs, training=True):
        from tandem.keras.ops import _image

        x = floating(_tandem.convert(inputs))
        return _image.formatted(x, self.data_format, self._changed_by_chance) if training else x

    def _changed_by_chance(self, x):
        single = x._rank == 3
        y = self._changed(_tandem.expand_dims(x, 0) if single else x)
        return _tandem.squeeze(y, [0]) if single else y

    def _chance(self, x, low=0.0, high=1.0):
        """A random number for each image."""
        return _tandem.random_uniform((x._sizes[0], 1, 1, 1), float(low), float(high), x._code, self.seed)


class RandomFlip(_RandomImage):
    """Mirrors images by chance while training."""

    def __init__(self, mode="horizontal_and_vertical", seed=None, **kwargs):
        super().__init__(seed, **kwargs)
        self.mode = mode

    def _changed(self, x):
        if "horizontal" in self.mode:
            x = _tandem.where(self._chance(x) < 0.5, x[:, :, ::-1], x)
        if "vertical" in self.mode:
            x = _tandem.where(self._chance(x) < 0.5, x[:, ::-1], x)
        return x


def _bounds(factor, lowest=-1.0):
    """The two bounds that a factor stands for."""
    return (max(-abs(factor), lowest), abs(factor)) if isinstance(factor, (int, float)) else tuple(factor)


class RandomBrightness(_RandomImage):
    """Changes the brightness of images by chance while training."""

    def __init__(self, factor, value_range=(0, 255), seed=None, **kwargs):
        super().__init__(seed, **kwargs)
        self.factor, self.value_range = _bounds(factor), value_range

    def _changed(self, x):
        low, high = self.factor
        scale = self.value_range[1] - self.value_range[0]
        return _tandem.clip(x + self._chance(x, low, high) * float(scale), float(self.value_range[0]), float(self.value_range[1]))


class RandomContrast(_RandomImage):
    """Changes the contrast of images by chance while training."""

    def __init__(self, factor, value_range=(0, 255), seed=None, **kwargs):
        super().__init__(seed, **kwargs)
        self.factor, self.value_range = tuple(sorted(_bounds(factor, 0))), tuple(value_range)

    def _changed(self, x):
        low, high = -self.factor[0], self.factor[1]
        mean = _tandem.reduce_mean(x, [1, 2], True)
        return _tandem.clip((x - mean) * (1.0 + self._chance(x, low, high)) + mean, float(self.value_range[0]), float(self.value_range[1]))


class RandomCrop(_RandomImage):
    """A random part of images while training."""

    def __init__(self, height, width, seed=None, **kwargs):
        own = make_default_seed() if seed is None else seed
        super().__init__(seed, **kwargs)
        self._given_seed, self.seed = seed, own
        self.height, self.width = int(height), int(width)

    def call(self, inputs, training=True):
        return super().call(floating(_tandem.convert(inputs)), training)

    def compute_output_shape(self, input_shape):
        """The shape while training; elsewhere the images stay as they are."""
        inner = (self.height, self.width)
        return (*input_shape[:-3], *inner, input_shape[-1]) if self.data_format != "channels_first" else (*input_shape[:-2], *inner)

    def _changed(self, x):
        h, w = int(x._sizes[1]), int(x._sizes[2])
        if h < self.height or w < self.width:
            from tandem import image

            return image.resize(x, (self.height, self.width))
        for axis, size, wanted in ((1, h, self.height), (2, w, self.width)):
            start = _tandem.random_integers((), 0, size - wanted + 1, 5, self._given_seed)
            x = _tandem.gather(x, _tandem.range(0, wanted, 1, 5) + start, axis)
        return x


class _RandomAffine(_RandomImage):
    """Images taken at other places, which a matrix for each image gives."""

    def __init__(self, fill_mode="reflect", interpolation="bilinear", seed=None, fill_value=0.0, **kwargs):
        super().__init__(seed, **kwargs)
        if interpolation not in ("bilinear", "nearest"):
            raise NotImplementedError(f"{type(self).__name__}: interpolation={interpolation!r}; bilinear and nearest are accepted")
        self.fill_mode, self.interpolation, self.fill_value = fill_mode, interpolation, fill_value

    def _sampled(self, x, ys, xs):
        """The values at the places [batch, height, width], bilinear or the nearest; beyond the edge as the fill mode says."""
        if self.interpolation == "nearest":
            ys, xs = _tandem.floor(ys + 0.5), _tandem.floor(xs + 0.5)
        n, h, w, c = x._sizes
        h, w = int(h), int(w)

        def inside(p, size):
            if self.fill_mode == "reflect":
                period = 2.0 * size
                p = _tandem.mod(p + 0.5, period)
                return _tandem.clip(_tandem.where(p < size, p, period - p) - 0.5, 0.0, size - 1.0)
            if self.fill_mode == "wrap":
                return _tandem.clip(_tandem.mod(p, float(size)), 0.0, size - 1.0)
            return _tandem.clip(p, 0.0, size - 1.0)

        py, px = inside(ys, h), inside(xs, w)
        y0, x0 = _tandem.floor(py), _tandem.floor(px)
        flat = _tandem.reshape(x, [n, h * w, c])
        total = None
        for dy in (0, 1):
            for dx in (0, 1):
                yy = _tandem.minimum(y0 + float(dy), h - 1.0)
                xx = _tandem.minimum(x0 + float(dx), w - 1.0)
                weight = (1 - _tandem.abs(py - (y0 + float(dy)))) * (1 - _tandem.abs(px - (x0 + float(dx))))
                place = _tandem.cast(yy * float(w) + xx, 5)
                part = _ops.choosing._batched_gather(flat, _tandem.reshape(place, [n, h * w]), 1, 1)
                part = part * _tandem.reshape(weight, [n, h * w, 1])
                total = part if total is None else total + part
        y = _tandem.reshape(total, [n, h, w, c])
        if self.fill_mode == "constant":
            seen = _tandem.logical_and(_tandem.logical_and(ys >= -0.5, ys <= h - 0.5), _tandem.logical_and(xs >= -0.5, xs <= w - 0.5))
            y = _tandem.where(_tandem.expand_dims(seen, -1), y, _tandem.fill((), float(self.fill_value), x._code))
        return y

    def _grid(self, x):
        h, w = int(x._sizes[1]), int(x._sizes[2])
        ys, xs = np.meshgrid(np.arange(h, dtype=np.float32), np.arange(w, dtype=np.float32), indexing="ij")
        return _tandem.convert(ys[None]), _tandem.convert(xs[None]), h, w

    def _number(self, x, low, high):
        return _tandem.random_uniform((x._sizes[0], 1, 1), float(low), float(high), x._code, self.seed)


class RandomRotation(_RandomAffine):
    """Turns images by chance while training."""

    def __init__(self, factor, fill_mode="reflect", interpolation="bilinear", seed=None, fill_value=0.0, value_range=None, **kwargs):
        super().__init__(fill_mode, interpolation, seed, fill_value, **kwargs)
        self.factor = _bounds(factor)

    def _changed(self, x):
        low, high = self.factor
        angle = self._number(x, low, high) * float(2 * np.pi)
        ys, xs, h, w = self._grid(x)
        cy, cx = (h - 1) / 2.0, (w - 1) / 2.0
        sin, cos = _tandem.sin(angle), _tandem.cos(angle)
        return self._sampled(x, (xs - cx) * sin + (ys - cy) * cos + cy, (xs - cx) * cos - (ys - cy) * sin + cx)


class RandomZoom(_RandomAffine):
    """Zooms images by chance while training."""

    def __init__(self, height_factor, width_factor=None, fill_mode="reflect", interpolation="bilinear", seed=None, fill_value=0.0, **kwargs):
        super().__init__(fill_mode, interpolation, seed, fill_value, **kwargs)
        self.height_factor, self.width_factor = height_factor, width_factor

    def _changed(self, x):
        zy = 1.0 + self._number(x, *_bounds(self.height_factor))
        zx = zy if self.width_factor is None else 1.0 + self._number(x, *_bounds(self.width_factor))
        ys, xs, h, w = self._grid(x)
        cy, cx = (h - 1) / 2.0, (w - 1) / 2.0
        return self._sampled(x, (ys - cy) * zy + cy, (xs - cx) * zx + cx)


class RandomTranslation(_RandomAffine):
    """Shifts images by chance while training."""

    def __init__(self, height_factor, width_factor, fill_mode="reflect", interpolation="bilinear", seed=None, fill_value=0.0, **kwargs):
        super().__init__(fill_mode, interpolation, seed, fill_value, **kwargs)
        self.height_factor, self.width_factor = height_factor, width_factor

    def _changed(self, x):
        ys, xs, h, w = self._grid(x)
        dy, dx = self._number(x, *_bounds(self.height_factor)) * float(h), self._number(x, *_bounds(self.width_factor)) * float(w)
        zero = _tandem.zeros_like(dy)
        return self._sampled(x, ys - dy + zero * xs, xs - dx + zero * ys)


def _encoding(layer, output_mode, *accepted):
    """How a layer encodes, by Keras's names of today."""
    output_mode = {"binary": "multi_hot", "tf-idf": "tf_idf"}.get(output_mode, output_mode)
    if output_mode not in accepted:
        raise ValueError(f"{layer}: output_mode is {output_mode!r}; {', '.join(accepted)} are accepted")
    return output_mode


class CategoryEncoding(Layer):
    """Integers as one-hot or multi-hot vectors, or counts."""

    def __init__(self, num_tokens=None, output_mode="multi_hot", sparse=False, **kwargs):
        super().__init__(**kwargs)
        self.num_tokens, self.output_mode = int(num_tokens), _encoding("CategoryEncoding", output_mode, "one_hot", "multi_hot", "count")
        self.autocast = False

    def call(self, inputs, count_weights=None):
        x = _tandem.cast(inputs, 5)
        if not x._rank and self.output_mode != "one_hot":
            x = _tandem.expand_dims(x, 0)
        if self.output_mode == "one_hot":
            if x._rank and x._sizes[-1] == 1:
                x = _tandem.squeeze(x, [-1])
            return _tandem.one_hot(x, self.num_tokens, 1.0, 0.0, 0)
        hot = _tandem.one_hot(x, self.num_tokens, 1.0, 0.0, 0)
        if self.output_mode == "count":
            if count_weights is not None:
                hot = hot * _tandem.expand_dims(_tandem.cast(count_weights, 0), -1)
            return _tandem.reduce_sum(hot, -2, False)
        return _tandem.reduce_max(hot, -2, False)


class Discretization(Layer):
    """Numbers as the index of the bin they are in."""

    def __init__(self, bin_boundaries=None, num_bins=None, epsilon=0.01, output_mode="int", **kwargs):
        super().__init__(**kwargs)
        self.bin_boundaries, self.num_bins, self.epsilon, self.output_mode = bin_boundaries, num_bins, epsilon, output_mode

    def adapt(self, data, batch_size=None, steps=None):
        """Learns the bins from data: from a summary of values and weights, which stays small however many batches there are."""
        if self.num_bins is None:
            raise ValueError("Cannot adapt a Discretization layer that has been initialized with `bin_boundaries`, use `num_bins` instead.")
        batches = [data] if isinstance(data, (np.ndarray, Tensor)) or not hasattr(data, "__iter__") else itertools.islice(data, steps)
        summary = np.zeros((2, 0), np.float32)
        for batch in batches:
            values = np.sort(np.ravel(np.asarray(batch)).astype(np.float32))
            step = max(len(values) * self.epsilon, 1)
            values = values[int(step - 1) :: int(step)]
            merged = np.concatenate([np.stack([values, np.full_like(values, step)]), summary], axis=1)
            summary = self._compress(merged[:, np.argsort(merged[0])], self.epsilon)
        self.bin_boundaries = self._compress(summary, 1.0 / self.num_bins)[0, :-1].tolist()

    @staticmethod
    def _compress(summary, epsilon):
        """The summary by quantiles that are epsilon apart."""
        values, weights = summary
        if len(values) * epsilon < 1:
            return summary
        parts, total = epsilon + np.arange(0.0, 1.0, epsilon), weights.cumsum()
        reached = total / total[-1]
        return np.stack([np.interp(parts, reached, values), np.diff(np.interp(parts, reached, total), prepend=0)]).astype(np.float32)

    def call(self, inputs):
        bins = _ops.searchsorted(_tandem.convert(np.asarray(self.bin_boundaries, np.float32)), floating(_tandem.convert(inputs)), "right")
        return bins if self.output_mode == "int" else CategoryEncoding(len(self.bin_boundaries) + 1, self.output_mode)(bins)


def _on_host(inputs):
    """The values of texts, which only the host has: a function that is being traced runs op by op instead."""
    if isinstance(inputs, Tensor) and inputs._is_symbolic:
        raise GiveUpTrace("the words or numbers that a text layer is given are looked up on the host")
    return inputs.numpy() if hasattr(inputs, "numpy") else inputs


def _numbered(layer, inputs):
    """A text layer's output: described, looked up, or what it was given where the host has looked it up before a step."""
    if isinstance(inputs, KerasTensor):
        return layer._describe_call((inputs,), {}) if inputs.dtype == "string" else inputs
    return inputs if isinstance(inputs, Tensor) else layer.call(inputs)


def _by_count(counts):
    """Words or numbers, the most frequent first, those that are as frequent from the end of the alphabet or the largest on."""
    return sorted(sorted(counts, reverse=True), key=lambda w: -counts[w])


class _Lookup(KeptVocabulary, Layer):
    """Numbers of words or values; done on the host, but for numbers of integers."""

    def __init__(self, vocabulary=None, num_oov_indices=1, mask_token=None, oov_token=None, max_tokens=None, output_mode="int", invert=False, idf_weights=None, pad_to_max_tokens=False, **kwargs):
        for name in ("encoding", "sparse", "vocabulary_dtype"):
            kwargs.pop(name, None)
        super().__init__(**kwargs)
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError(f"If pad_to_max_tokens is True, must set `max_tokens`. Received: max_tokens={max_tokens}")
        self.pad_to_max_tokens, self._idf = pad_to_max_tokens, None
        self.num_oov_indices, self.mask_token, self.oov_token, self.max_tokens = num_oov_indices, mask_token, oov_token, max_tokens
        self.output_mode, self.invert = _encoding(type(self).__name__, output_mode, "int", "one_hot", "multi_hot", "count", "tf_idf"), invert
        self.autocast = False
        self._words = []
        self._table = None  # The numbers of the words, once there is a vocabulary.
        if vocabulary is not None and (idf_weights is None) != (output_mode != "tf_idf"):
            raise ValueError(f"`idf_weights` must be set if `output_mode` is 'tf_idf' and a vocabulary is given, and only then. Received: idf_weights={idf_weights} and output_mode={output_mode}")
        if vocabulary is not None:
            if isinstance(vocabulary, str):
                with open(vocabulary, encoding="utf-8") as file:
                    vocabulary = file.read().splitlines()
            self.set_vocabulary(vocabulary, idf_weights)

    def _has_mask(self):
        """Whether there is a number for the mask; outputs other than numbers have no place for it."""
        return self.mask_token is not None and self.output_mode == "int"

    def _special(self):
        return ([self.mask_token] if self._has_mask() else []) + [self.oov_token] * self.num_oov_indices

    def set_vocabulary(self, vocabulary, idf_weights=None):
        words = [self._plain(w) for w in (vocabulary.numpy().tolist() if hasattr(vocabulary, "numpy") else np.asarray(vocabulary).tolist())]
        special = self._special()
        if words[: len(special)] == special:
            words = words[len(special) :]
        self._set_words(words)
        if idf_weights is not None:
            weights = np.asarray(idf_weights, np.float32)
            if len(special) and len(weights) == len(special) + len(words):
                self._idf = weights
                return
            weights = weights[-len(words) :]
            unknown = np.full(len(special), weights.mean() if len(weights) else 1.0, np.float32)
            unknown[: len(special) - self.num_oov_indices] = 0.0
            self._idf = np.concatenate([unknown, weights])

    def _known_words(self):
        return None if self._table is None else self._words

    def _set_words(self, words):
        self._words = words
        self._table = {w: i + len(self._special()) for i, w in enumerate(words)}

    def adapt(self, data, batch_size=None, steps=None):
        from collections import Counter

        counts, rows_with, rows = Counter(), Counter(), 0
        batches = data if hasattr(data, "_open") else [data]
        for batch in batches:
            values = np.asarray(batch.numpy() if hasattr(batch, "numpy") else batch)
            counts.update(self._plain(v) for v in np.ravel(values).tolist())
            if self.output_mode == "tf_idf":
                for row in values.reshape(len(values), -1).tolist():
                    rows_with.update({self._plain(v) for v in row})
                rows += len(values)
        words = _by_count(counts)
        if self.max_tokens is not None:
            words = words[: self.max_tokens - len(self._special())]
        rarity = [np.log(1 + rows / (1 + rows_with[w])) for w in words] if self.output_mode == "tf_idf" else None
        self.set_vocabulary(np.array(words, dtype=object), rarity)

    def get_vocabulary(self, include_special_tokens=True):
        return (self._special() if include_special_tokens else []) + list(self._words)

    def vocabulary_size(self):
        return len(self.get_vocabulary())

    def call(self, inputs):
        if self.invert:
            from tandem.strings import StringTensor

            words = self.get_vocabulary()
            array = np.asarray(_on_host(inputs))
            found = [words[i] if 0 <= i < len(words) else self.oov_token for i in np.ravel(array).tolist()]
            return StringTensor(np.array(found, dtype=object).reshape(array.shape)) if self._is_text else _tandem.convert(np.array(found).reshape(array.shape))
        if isinstance(inputs, Tensor) and inputs._is_symbolic and not self._is_text:
            numbers = self._numbers_in_a_trace(inputs)
        else:
            values = np.asarray(_on_host(inputs), dtype=object)
            numbers = _tandem.convert(np.array([self._number_of(self._plain(v)) for v in values.ravel().tolist()], np.int64).reshape(values.shape))
        if self.output_mode == "int":
            return numbers
        hot = _tandem.one_hot(numbers, self._width(), 1.0, 0.0, 6 if self._idf is None else 0)
        if self._idf is not None:
            hot = hot * np.concatenate([self._idf, np.zeros(self._width() - len(self._idf), np.float32)])
        if self.output_mode == "one_hot":
            return _tandem.squeeze(hot, [-2]) if hot._rank > 2 and hot._sizes[-2] == 1 else hot
        if hot._rank == 1:
            return hot
        return _tandem.reduce_max(hot, -2, False) if self.output_mode == "multi_hot" else _tandem.reduce_sum(hot, -2, False)

    def _width(self):
        """The size of what stands for a row of values."""
        return int(self.max_tokens) if self.pad_to_max_tokens else self.vocabulary_size()

    def _numbers_in_a_trace(self, inputs):
        """Each integer is compared with all that are known."""
        special = len(self._special())
        unknown = int(self._has_mask())
        x = _tandem.expand_dims(_tandem.cast(inputs, 6), -1)
        places = np.arange(special, special + len(self._words), dtype=np.int64)
        found = _tandem.cast(_tandem.equal(x, np.asarray(self._words, np.int64)), 6)
        numbers = _tandem.reduce_sum(found * places, -1, False)
        others = _tandem.mod(_tandem.cast(inputs, 6), max(self.num_oov_indices, 1)) + unknown
        numbers = _tandem.where(_tandem.greater(_tandem.reduce_sum(found, -1, False), 0), numbers, others)
        if self.mask_token is None:
            return numbers
        return _tandem.where(_tandem.equal(_tandem.cast(inputs, 6), int(self.mask_token)), _tandem.zeros_like(numbers) - int(not self._has_mask()), numbers)

    def _number_of(self, value):
        if self.mask_token is not None and value == self.mask_token:
            return 0 if self._has_mask() else -1
        if self._table is None:
            raise errors.FailedPreconditionError(f"Table not initialized: {self.name} has no vocabulary yet; adapt(), set_vocabulary() or the argument `vocabulary` give it one")
        found = self._table.get(value)
        if found is not None:
            return found
        if self.num_oov_indices == 0:
            if text_probes:
                return 0
            raise ValueError(f"{value!r} is not in the vocabulary, and there is no number for unknown values")
        first = int(self._has_mask())
        if self.num_oov_indices == 1:
            return first
        from tandem._ops.fingerprint import fingerprint

        return first + (fingerprint(value.encode()) if self._is_text else value) % self.num_oov_indices

    @property
    def _takes_texts(self):
        return self._is_text and not self.invert

    def __call__(self, inputs, **kwargs):
        if hasattr(inputs, "_ragged_rows"):
            return inputs.with_values(self(inputs.values, **kwargs))
        if self._takes_texts:
            return _numbered(self, inputs)
        if not self._is_text and not self.invert and (isinstance(inputs, KerasTensor) or isinstance(inputs, Tensor) and self._words):
            return super().__call__(inputs, **kwargs)
        return self.call(inputs)

    def compute_output_spec(self, inputs):
        if self.output_mode == "int":
            return KerasTensor(inputs.shape, "int64")
        lead = inputs.shape[:-1] if len(inputs.shape) > 1 else inputs.shape
        return KerasTensor((*lead, self._width()), "int64" if self.output_mode != "tf_idf" else "float32")


class StringLookup(_Lookup):
    """Texts as indices of a vocabulary, or the other way round."""

    _is_text = True

    def __init__(self, max_tokens=None, num_oov_indices=1, mask_token=None, oov_token="[UNK]", vocabulary=None, **kwargs):
        super().__init__(vocabulary, num_oov_indices, mask_token, oov_token, max_tokens, **kwargs)

    @staticmethod
    def _plain(value):
        return value.decode() if isinstance(value, bytes) else str(value)


class IntegerLookup(_Lookup):
    """Integers as indices of a vocabulary, or the other way round."""

    _is_text = False

    def __init__(self, max_tokens=None, num_oov_indices=1, mask_token=None, oov_token=-1, vocabulary=None, **kwargs):
        super().__init__(vocabulary, num_oov_indices, mask_token, oov_token, max_tokens, **kwargs)

    @staticmethod
    def _plain(value):
        return int(value)

    _word_of = _plain


def _lines_of(vocabulary):
    """The words of a list, or of a file's lines."""
    if not isinstance(vocabulary, str):
        return vocabulary
    with open(vocabulary, encoding="utf-8") as file:
        return file.read().splitlines()


class TextVectorization(KeptVocabulary, Layer):
    """Texts as sequences of numbers of words; done on the host."""

    def __init__(self, max_tokens=None, standardize="lower_and_strip_punctuation", split="whitespace", ngrams=None, output_mode="int", output_sequence_length=None, pad_to_max_tokens=False, vocabulary=None, idf_weights=None, sparse=False, ragged=False, encoding="utf-8", name=None, **kwargs):
        super().__init__(name=name, **{k: v for k, v in kwargs.items() if k in ("dtype", "trainable")})
        if ragged and (output_mode != "int" or output_sequence_length is not None):
            raise ValueError(f"`ragged` is accepted with output_mode='int' and without output_sequence_length. Received: output_mode={output_mode!r}, output_sequence_length={output_sequence_length}")
        self._ragged = ragged
        self.max_tokens, self.standardize, self.split, self.ngrams = max_tokens, standardize, split, ngrams
        self.output_mode, self.output_sequence_length = _encoding("TextVectorization", output_mode, "int", "multi_hot", "count", "tf_idf"), output_sequence_length
        self._width = max_tokens if pad_to_max_tokens else None
        self._lookup = StringLookup(max_tokens, mask_token="" if self.output_mode == "int" else None)
        self._idf = None
        if vocabulary is not None:
            self.set_vocabulary(_lines_of(vocabulary), idf_weights)

    def _tokens(self, text):
        import re

        text = text.decode() if isinstance(text, bytes) else str(text)
        if callable(self.standardize):
            from tandem.strings import StringTensor

            text = self.standardize(StringTensor(text)).numpy().decode()
        elif self.standardize:
            if "lower" in self.standardize:
                text = text.lower()
            if "strip_punctuation" in self.standardize:
                text = re.sub(r"""[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']""", "", text)
        words = list(text) if self.split == "character" else text.split() if self.split == "whitespace" else self._own_split(text) if self.split else [text]
        if self.ngrams:
            sizes = range(1, self.ngrams + 1) if isinstance(self.ngrams, int) else self.ngrams
            words = [" ".join(words[i : i + n]) for n in sizes for i in range(len(words) - n + 1)]
        return words

    def _own_split(self, text):
        """What a function of the user's makes of a text."""
        from tandem.strings import StringTensor

        made = self.split(StringTensor([text]))
        row = made[0] if made.ndim > 1 or hasattr(made, "_ragged_rows") else made
        return [w.decode() if isinstance(w, bytes) else str(w) for w in np.ravel(np.asarray(row.numpy(), dtype=object)).tolist()]

    def adapt(self, data, batch_size=None, steps=None):
        """Learns the vocabulary from texts."""
        from collections import Counter

        counts, texts_with, texts = Counter(), Counter(), 0
        for batch in data if hasattr(data, "_open") else [data]:
            values = batch.numpy() if hasattr(batch, "numpy") else np.asarray(batch, dtype=object)
            for text in np.ravel(np.asarray(values, dtype=object)).tolist():
                words = self._tokens(text)
                counts.update(words)
                texts_with.update(set(words))
                texts += 1
        words = [w for w in _by_count(counts) if w]
        if self.max_tokens is not None:
            words = words[: self.max_tokens - len(self._lookup._special())]
        # A word that few texts have says more about them.
        rarity = [np.log(1 + texts / (1 + texts_with[w])) for w in words] if self.output_mode == "tf_idf" else None
        self.set_vocabulary(words, rarity)

    def set_vocabulary(self, vocabulary, idf_weights=None):
        """Sets the vocabulary."""
        if (idf_weights is None) != (self.output_mode != "tf_idf"):
            raise ValueError(f"`idf_weights` must be set if output_mode is 'tf_idf', and only then. Received: output_mode={self.output_mode}, idf_weights={idf_weights}")
        self._lookup.set_vocabulary(np.array(list(vocabulary), dtype=object))
        if idf_weights is not None:
            weights = np.asarray(idf_weights, np.float32)
            unknown = self.vocabulary_size() - len(weights)
            self._idf = np.concatenate([np.full(unknown, weights.mean() if len(weights) else 1.0, np.float32), weights])

    def _known_words(self):
        return self._lookup._known_words()

    def _set_words(self, words):
        self._lookup._set_words(words)

    def get_vocabulary(self, include_special_tokens=True):
        """The vocabulary as a list."""
        return self._lookup.get_vocabulary(include_special_tokens)

    def vocabulary_size(self):
        """The number of entries of the vocabulary."""
        return self._lookup.vocabulary_size()

    _takes_texts = True

    def __call__(self, inputs, **kwargs):
        return _numbered(self, inputs)

    def compute_output_spec(self, inputs):
        if self.output_mode == "int":
            return KerasTensor((inputs.shape[0] if inputs.shape else None, self.output_sequence_length), "int64")
        return KerasTensor((inputs.shape[0] if inputs.shape else None, self._width or self.vocabulary_size()), self._counted.__name__)

    @property
    def _counted(self):
        return np.float32 if self.output_mode == "tf_idf" else np.int64

    def call(self, inputs):
        values = np.asarray(_on_host(inputs), dtype=object)
        single = values.ndim == 0
        rows = [[self._lookup._number_of(w) for w in self._tokens(t)] for t in np.atleast_1d(values).reshape(-1).tolist()]
        if self._ragged and not single:
            from tandem import ragged

            return ragged.constant(rows, "int64", ragged_rank=1)
        if self.output_mode == "int":
            length = self.output_sequence_length or max((len(r) for r in rows), default=0)
            out = np.zeros((len(rows), length), np.int64)
            for row, own in zip(out, rows):
                row[: len(own)] = own[:length]
        else:
            out = np.zeros((len(rows), self._width or self.vocabulary_size()), self._counted)
            for row, own in zip(out, rows):
                for i in own:
                    row[i] = 1 if self.output_mode == "multi_hot" else row[i] + 1
            if self._idf is not None:
                out[:, : len(self._idf)] *= self._idf
        return _tandem.convert(out[0] if single else out)


def _texts_of(inputs):
    """The values as texts, which integers are by their digits, and their shape."""
    values = np.asarray(_on_host(inputs), dtype=object)
    return [v if isinstance(v, bytes) else str(v).encode() for v in values.ravel().tolist()], values.shape


class _Bins(Layer):
    """Classes of values by their fingerprints; done on the host."""

    _takes_texts = False
    _modes = ("int", "one_hot", "multi_hot", "count")

    def __init__(self, num_bins, output_mode="int", **kwargs):
        kwargs.pop("sparse", None)
        super().__init__(**kwargs)
        self.num_bins, self.output_mode = int(num_bins), _encoding(type(self).__name__, output_mode, *self._modes)
        self.autocast = False

    def _encoded(self, bins):
        bins = _tandem.convert(bins)
        return bins if self.output_mode == "int" else CategoryEncoding(self.num_bins, self.output_mode)(bins)

    def compute_output_spec(self, inputs):
        shape = (inputs[0] if isinstance(inputs, (list, tuple)) else inputs).shape
        if self.output_mode == "int":
            return KerasTensor(shape, "int64")
        return KerasTensor((*(shape[:-1] if len(shape) > 1 else shape), self.num_bins), "float32")


class Hashing(_Bins):
    """Bins of texts or integers, the same that TensorFlow puts them into."""

    def __init__(self, num_bins, mask_value=None, salt=None, output_mode="int", **kwargs):
        super().__init__(num_bins, output_mode, **kwargs)
        if salt is not None and not isinstance(salt, int) and not (isinstance(salt, (list, tuple)) and len(salt) == 2):
            raise ValueError(f"The `salt` argument for `Hashing` can only be a tuple of 2 integers, or a single integer. Received: salt={salt}.")
        self.mask_value, self.salt = mask_value, [salt, salt] if isinstance(salt, int) else salt

    def __call__(self, inputs):
        if isinstance(inputs, KerasTensor):
            self._takes_texts = inputs.dtype == "string"
            return self._describe_call((inputs,), {})
        if self._takes_texts and isinstance(inputs, Tensor):  # The host has looked them up before the step.
            return inputs
        return self.call(inputs)

    def call(self, inputs):
        from tandem._ops import fingerprint

        number = fingerprint.fingerprint if self.salt is None else lambda text: fingerprint.keyed_fingerprint(text, self.salt)
        texts, shape = _texts_of(inputs)
        if self.mask_value is None:
            bins = [number(t) % self.num_bins for t in texts]
        else:
            hidden = self.mask_value if isinstance(self.mask_value, bytes) else str(self.mask_value).encode()
            bins = [0 if t == hidden else 1 + number(t) % (self.num_bins - 1) for t in texts]
        return self._encoded(np.array(bins, np.int64).reshape(shape))


class HashedCrossing(_Bins):
    """Bins of several features together."""

    _modes = ("int", "one_hot")

    def __call__(self, inputs):
        if any(isinstance(x, KerasTensor) for x in inputs):
            return self._describe_call((inputs,), {})
        return self.call(inputs)

    def call(self, inputs):
        from tandem._ops.fingerprint import cross, fingerprint

        columns, shape = [], None
        for each in inputs:
            array = np.asarray(_on_host(each))
            shape = array.shape
            is_number = array.dtype.kind in "iu"
            columns.append([int(v) for v in array.ravel()] if is_number else [fingerprint(t) for t in _texts_of(each)[0]])
        bins = [cross(row) % self.num_bins for row in zip(*columns)]
        return self._encoded(np.array(bins, np.int64).reshape(shape))
