"""Layers that change images by chance while training. Each draws a transformation, and applies it to images and labels."""

import numpy as np

import _tandem
from tandem import _ops
from tandem._ops import sampling
from tandem.keras.layers._formats import format_of, from_last, to_last
from tandem.keras.layers.core import floating
from tandem.keras.random import SeedGenerator
from tandem.keras._layer import Layer


def range_of(factor, low=0, high=1, name="factor"):
    """The two bounds that a factor stands for, which have to lie within low and high."""
    bounds = tuple(sorted(factor)) if isinstance(factor, (tuple, list)) else (max(-abs(factor), low), abs(factor))
    if len(bounds) != 2 or bounds[0] < low or bounds[1] > high:
        raise ValueError(f"The `{name}` argument should be a number (or a list of two numbers) in the range [{low}, {high}]. Received: {name}={factor}")
    return bounds


class Augmentation(Layer):
    """What the layers have in common: one image or many, alone or in a dictionary with labels, changed only while training."""

    def __init__(self, seed=None, data_format=None, bounding_box_format=None, **kwargs):
        super().__init__(**kwargs)
        self.seed, self.data_format, self.bounding_box_format = seed, format_of(data_format), bounding_box_format
        self.generator = SeedGenerator(seed) if self._draws else None
        self._drawn = 0

    _draws = True  # Whether there is something to draw.

    def call(self, data, training=True):
        images = data["images"] if isinstance(data, dict) else data
        x = floating(_tandem.convert(images))
        single = x._rank == 3
        x = to_last(_tandem.expand_dims(x, 0) if single else x, self.data_format)
        self._drawn = 0
        chosen = self.get_random_transformation(x) if training else None
        if training:
            x = self.transform_images(x, chosen)
        x = from_last(x, self.data_format)
        x = _tandem.squeeze(x, [0]) if single else x
        if not isinstance(data, dict):
            return x
        result = {**data, "images": x}
        if training:
            for key, change in (("labels", self.transform_labels), ("bounding_boxes", self.transform_bounding_boxes), ("segmentation_masks", self.transform_segmentation_masks)):
                if key in result:
                    result[key] = change(result[key], chosen)
        return result

    def get_random_transformation(self, images):
        """What is drawn for a batch; None where nothing is."""
        return None

    def transform_images(self, images, transformation):
        """The images [batch, height, width, channels] after a transformation."""
        return images

    def transform_labels(self, labels, transformation):
        """The labels after a transformation."""
        return labels

    def transform_bounding_boxes(self, boxes, transformation):
        """The boxes after a transformation."""
        return boxes

    def transform_segmentation_masks(self, masks, transformation):
        """The masks after a transformation."""
        return masks

    def _next_seed(self):
        """Each draw of a call has a seed of its own."""
        self._drawn += 1
        return None if self.seed is None else int(self.seed) + 7919 * (self._drawn - 1)

    def _uniform(self, shape, bounds=(0.0, 1.0)):
        return _tandem.random_uniform(tuple(shape), float(bounds[0]), float(bounds[1]), 0, self._next_seed())

    def _each(self, x, bounds=(0.0, 1.0)):
        """A number for each image."""
        return self._uniform((x._sizes[0], 1, 1, 1), bounds)

    def _chosen(self, x, bounds):
        """Whether each image is meant, with a probability that is drawn, too."""
        probability = self._each(x, bounds)
        return self._each(x) < probability

    def _in_bytes(self, x, back=False):
        """Values of the layer's range as such of 0 to 255, or the other way."""
        low, high = (float(v) for v in self.value_range)
        if (low, high) == (0.0, 255.0):
            return x
        return x / 255.0 * (high - low) + low if back else (x - low) / (high - low) * 255.0

    def _clipped(self, x):
        return _tandem.clip(x, float(self.value_range[0]), float(self.value_range[1]))


class _Factor(Augmentation):
    _BOUNDS = (0, 1)

    def __init__(self, factor, value_range=(0, 255), data_format=None, seed=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.factor, self.value_range = range_of(factor, *self._BOUNDS), tuple(value_range)

    def get_random_transformation(self, images):
        return {"factor": self._each(images, self.factor)}


def _hsv(x, change):
    """Images whose hue, saturation and value are changed."""
    from tandem import image

    parts = _tandem.split(image.rgb_to_hsv(x), 3, -1)
    return image.hsv_to_rgb(_tandem.concat(change(*parts), -1))


class RandomHue(_Factor):
    """Turns the colours of images by up to half of a factor of the circle."""

    def get_random_transformation(self, images):
        sign = _tandem.where(self._each(images) > 0.5, -1.0, 1.0)
        return {"factor": sign * self._each(images, self.factor) * 0.5}

    def transform_images(self, images, transformation):
        def turned(h, s, v):
            h = h + transformation["factor"]
            h = _tandem.where(h > 1.0, h - 1.0, h)
            return [_tandem.where(h < 0.0, h + 1.0, h), s, v]

        low, high = self.value_range
        x = _hsv((images - float(low)) / float(high - low), turned)
        return _tandem.clip(x, 0.0, 1.0) * float(high - low) + float(low)


class RandomSaturation(_Factor):
    """Makes the colours of images paler or stronger; a factor of 0.5 changes nothing."""

    _BOUNDS = (-1.0, 1.0)

    def get_random_transformation(self, images):
        factor = self._each(images, self.factor)
        return {"factor": factor / (1.0 - factor + 1e-7)}

    def transform_images(self, images, transformation):
        return _hsv(images, lambda h, s, v: [h, self._clipped(s * transformation["factor"]), v])


def _gray(x):
    from tandem import image

    return image.rgb_to_grayscale(x)


class RandomColorDegeneration(_Factor):
    """Moves images towards gray."""

    _BOUNDS = (-1.0, 1.0)

    def transform_images(self, images, transformation):
        return self._clipped(images + transformation["factor"] * (_gray(images) - images))


class RandomSharpness(_Factor):
    """Makes images sharper or smoother; a factor of 0.5 changes nothing."""

    def transform_images(self, images, transformation):
        kernel = np.full((3, 3, int(images._sizes[-1]), 1), 1 / 13, np.float32)
        kernel[1, 1] = 5 / 13
        smooth = _tandem.depthwise_conv2d(images, _tandem.convert(kernel, images._code), (1, 1), "same", (1, 1))
        factor = _tandem.reshape(transformation["factor"], (-1, 1, 1, 1))
        return self._clipped(images + (1.0 - 2.0 * factor) * (smooth - images))


class RandomPosterization(_Factor):
    """Keeps only the upper bits of colours, as many as the factor says."""

    def __init__(self, factor, value_range=(0, 255), data_format=None, seed=None, **kwargs):
        Augmentation.__init__(self, seed, data_format, **kwargs)
        bits = tuple(sorted(factor)) if isinstance(factor, (tuple, list)) else (min(1, factor), factor)
        if len(bits) != 2 or any(b < 0 or b > 8 or b != int(b) for b in bits):
            raise ValueError(f"The `factor` argument should be an integer (or a list of two integers) in the range [0, 8]. Received: factor={factor}")
        self.factor, self.value_range = tuple(int(b) for b in bits), tuple(value_range)

    def get_random_transformation(self, images):
        low, high = self.factor
        bits = _tandem.floor(self._each(images, (low, high))) if low < high else _tandem.fill((1, 1, 1, 1), float(low), 0)
        return {"shift_factor": 8.0 - bits}

    def transform_images(self, images, transformation):
        step = _tandem.pow(_tandem.fill((), 2.0, 0), _tandem.cast(_tandem.reshape(transformation["shift_factor"], (-1, 1, 1, 1)), 0))
        return self._in_bytes(_tandem.floor(_tandem.floor(self._in_bytes(images)) / step) * step, back=True)


class _Sometimes(_Factor):
    """Layers that change some images and leave the others."""

    def __init__(self, factor=1.0, value_range=(0, 255), data_format=None, seed=None, **kwargs):
        super().__init__(factor, value_range, data_format, seed, **kwargs)

    def get_random_transformation(self, images):
        return {"chosen": self._chosen(images, self.factor), **self._more(images)}

    def _more(self, images):
        return {}

    def transform_images(self, images, transformation):
        return _tandem.where(transformation["chosen"], self._changed(images, transformation), images)


class RandomInvert(_Sometimes):
    """Turns images into their negatives."""

    def _changed(self, images, transformation):
        return float(self.value_range[1]) - images


class RandomGrayscale(_Sometimes):
    """Makes some images gray."""

    def __init__(self, factor=0.5, data_format=None, seed=None, **kwargs):
        super().__init__(factor, (0, 255), data_format, seed, **kwargs)

    def get_random_transformation(self, images):
        return {"chosen": self._each(images) < float(self.factor[1])}

    def _changed(self, images, transformation):
        return _gray(images)


class RandomGaussianBlur(_Sometimes):
    """Blurs images."""

    def __init__(self, factor=1.0, kernel_size=3, sigma=1.0, value_range=(0, 255), data_format=None, seed=None, **kwargs):
        super().__init__(factor, value_range, data_format, seed, **kwargs)
        self.kernel_size = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        if any(k % 2 == 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size must be an odd number. Received: kernel_size={kernel_size}")
        self.sigma = range_of(sigma, name="sigma")

    def _more(self, images):
        return {"blur_factor": self._uniform((2,), self.sigma) + 1e-6}

    def _changed(self, images, transformation):
        from tandem.keras.ops._image import gaussian_blur

        return self._clipped(gaussian_blur(images, self.kernel_size, transformation["blur_factor"]))


def boxes_within(layer, images, heights, widths):
    """Masks [batch, height, width, 1] of boxes at random places, whose sizes are parts of an image's, and the parts that they cover."""
    from tandem.keras.ops._image import grid

    n, h, w = images._sizes[0], int(images._sizes[1]), int(images._sizes[2])
    ys, xs = (_tandem.expand_dims(g, -1) for g in grid(h, w))
    mask = None
    for places, size, part in ((xs, w, widths), (ys, h, heights)):
        length = part * float(size)
        start = layer._uniform((n, 1, 1, 1)) * (float(size) - length)
        inside = _tandem.logical_and(places >= start, places < start + length)
        mask = inside if mask is None else _tandem.logical_and(mask, inside)
    return mask, heights * widths


class RandomErasing(_Sometimes):
    """Fills a box of each image with noise or a value."""

    def __init__(self, factor=1.0, scale=(0.02, 0.33), fill_value=None, value_range=(0, 255), data_format=None, seed=None, **kwargs):
        super().__init__(factor, value_range, data_format, seed, **kwargs)
        self.scale, self.fill_value = range_of(scale, name="scale"), fill_value

    def _more(self, images):
        if self.fill_value is None:
            filling = self._clipped(_tandem.random_normal(tuple(images._sizes), 0.0, float(self.value_range[1]), 0, self._next_seed()))
        else:
            filling = self._clipped(_tandem.convert(np.float32(self.fill_value)))
        sides = [_tandem.sqrt(self._each(images, self.scale)) for _ in range(2)]
        return {"batch_masks": boxes_within(self, images, *sides)[0], "fill_value": filling}

    def _changed(self, images, transformation):
        return _tandem.where(transformation["batch_masks"], transformation["fill_value"], images)


class Solarization(Augmentation):
    """Adds to the values of images, and turns those above a threshold into their negatives."""

    def __init__(self, addition_factor=0.0, threshold_factor=0.0, value_range=(0, 255), seed=None, **kwargs):
        super().__init__(seed, **kwargs)
        self.addition_factor, self.threshold_factor = range_of(addition_factor, name="addition_factor"), range_of(threshold_factor, name="threshold_factor")
        self.value_range = tuple(sorted(value_range))

    def get_random_transformation(self, images):
        return {name: self._each(images, (low, high * 255)) for name, (low, high) in (("additions", self.addition_factor), ("thresholds", self.threshold_factor))}

    def transform_images(self, images, transformation):
        x = _tandem.clip(self._in_bytes(images) + transformation["additions"], 0.0, 255.0)
        return self._in_bytes(_tandem.where(x < transformation["thresholds"], x, 255.0 - x), back=True)


class _Always(Augmentation):
    """Layers that have nothing to draw, and change images whether in training or not."""

    _draws = False

    def call(self, data, training=True):
        return super().call(data, True)


class AutoContrast(_Always):
    """Stretches the values of each channel of each image over the whole range."""

    def __init__(self, value_range=(0, 255), **kwargs):
        super().__init__(**kwargs)
        self.value_range = tuple(sorted(value_range))

    def transform_images(self, images, transformation=None):
        x = self._in_bytes(images)
        low, high = _tandem.reduce_min(x, [1, 2], True), _tandem.reduce_max(x, [1, 2], True)
        y = _tandem.clip((x - low) * (255.0 / _tandem.maximum(high - low, 1e-30)), 0.0, 255.0)
        return _tandem.where(_tandem.equal(high, low), images, self._in_bytes(y, back=True))


class Equalization(Augmentation):
    """Makes all values of a channel equally frequent."""

    _draws = False

    def __init__(self, value_range=(0, 255), bins=256, data_format=None, **kwargs):
        super().__init__(None, data_format, **kwargs)
        self.value_range, self.bins = tuple(sorted(value_range)), int(bins)

    def transform_images(self, images, transformation=None):
        channels = [self._equalized(c) for c in _tandem.unstack(self._in_bytes(images), -1)]
        return self._in_bytes(_tandem.stack(channels, -1), back=True)

    def _equalized(self, x):
        place = _tandem.cast(_tandem.clip(x * ((self.bins - 1) / 255.0), 0.0, self.bins - 1.0), 5)
        counts = _ops.unsorted_segment_sum(_tandem.ones_like(_tandem.reshape(x, (-1,))), _tandem.reshape(place, (-1,)), self.bins)
        below = _tandem.cumsum(counts, 0, False, False)
        least = _tandem.reduce_min(_tandem.where(below > 0.0, below, 1e30), None, False)
        total = below[-1] - least
        table = _tandem.clip(_tandem.round((below - least) * 255.0 / _tandem.where(_tandem.equal(total, 0.0), 1.0, total)), 0.0, 255.0)
        return _tandem.where(_tandem.equal(total, 0.0), x, _tandem.gather(table, place, 0))


class _Mixed(Augmentation):
    """Layers that mix each image with another of its batch, and their labels alike."""

    def _order(self, images):
        return _ops.argsort(self._uniform((images._sizes[0],)))

    def transform_labels(self, labels, transformation):
        labels = floating(_tandem.convert(labels))
        weight = _tandem.reshape(transformation["mix_weight"], (-1,) + (1,) * (labels._rank - 1))
        return weight * labels + (1.0 - weight) * _tandem.gather(labels, transformation["permutation_order"], 0)

    def transform_bounding_boxes(self, boxes, transformation):
        raise NotImplementedError(f"keras.layers.{type(self).__name__}: bounding_boxes; images and labels are accepted")


class MixUp(_Mixed):
    """Means of pairs of images (Zhang and others 2018, arXiv:1710.09412)."""

    def __init__(self, alpha=0.2, data_format=None, seed=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.alpha = alpha

    def get_random_transformation(self, images):
        weight = sampling.beta((images._sizes[0],), self.alpha, self.alpha, self._next_seed())
        return {"mix_weight": weight, "permutation_order": self._order(images)}

    def transform_images(self, images, transformation):
        weight = _tandem.reshape(transformation["mix_weight"], (-1, 1, 1, 1))
        return weight * images + (1.0 - weight) * _tandem.gather(images, transformation["permutation_order"], 0)

    def transform_segmentation_masks(self, masks, transformation):
        return self.transform_images(floating(_tandem.convert(masks)), transformation)


class CutMix(_Mixed):
    """Images with a box of another image in them (Yun and others 2019, arXiv:1905.04899)."""

    def __init__(self, factor=1.0, seed=None, data_format=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.factor = range_of(factor)

    def get_random_transformation(self, images):
        alpha = _tandem.reshape(self._each(images, self.factor), (-1,)) + 1e-6
        side = _tandem.sqrt(1.0 - _tandem.reshape(sampling.beta((images._sizes[0],), alpha, alpha, self._next_seed()), (-1, 1, 1, 1)))
        masks, covered = boxes_within(self, images, side, side)
        return {"batch_masks": masks, "mix_weight": 1.0 - covered, "permutation_order": self._order(images)}

    def transform_images(self, images, transformation):
        return _tandem.where(transformation["batch_masks"], _tandem.gather(images, transformation["permutation_order"], 0), images)

    def transform_segmentation_masks(self, masks, transformation):
        return self.transform_images(_tandem.convert(masks), transformation)


class MaxNumBoundingBoxes(Layer):
    """Boxes cut or filled up to one number of them."""

    def __init__(self, max_number, fill_value=-1, bounding_box_format=None, **kwargs):
        super().__init__(**kwargs)
        self.max_number, self.fill_value = int(max_number), int(fill_value)
        self.autocast = False

    def call(self, data, training=True):
        boxes = data["bounding_boxes"]

        def fitted(x):
            x = _tandem.convert(x)[:, : self.max_number]
            missing = self.max_number - int(x._sizes[1])
            return _tandem.pad(x, [(0, 0), (0, missing)] + [(0, 0)] * (x._rank - 2), float(self.fill_value)) if missing else x

        return {**data, "bounding_boxes": {**boxes, "boxes": fitted(boxes["boxes"]), "labels": fitted(boxes["labels"])}}
