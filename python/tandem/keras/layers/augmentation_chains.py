"""Layers that move images by chance, and those that apply others one after another."""

import _tandem
from tandem._ops import sampling
from tandem.keras._layer import Layer
from tandem.keras.layers import augmentation as own
from tandem.keras.layers import preprocessing
from tandem.keras.layers.augmentation import Augmentation, range_of


class RandomShear(Augmentation):
    """Shears images."""

    def __init__(self, x_factor=0.0, y_factor=0.0, interpolation="bilinear", fill_mode="reflect", fill_value=0.0, data_format=None, seed=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.x_factor, self.y_factor = range_of(x_factor, -1.0, 1.0, "x_factor"), range_of(y_factor, -1.0, 1.0, "y_factor")
        self.interpolation, self.fill_mode, self.fill_value = interpolation, fill_mode, fill_value

    def get_random_transformation(self, images):
        sign = _tandem.where(self._each(images) > 0.5, -1.0, 1.0)
        y, x = self._each(images, self.y_factor) * sign, self._each(images, self.x_factor) * sign
        return {"shear_factor": _tandem.reshape(_tandem.concat([x, y], 3), (-1, 2))}

    def transform_images(self, images, transformation):
        from tandem.keras.ops._image import projected

        x, y = _tandem.split(transformation["shear_factor"], 2, 1)
        one, zero = _tandem.ones_like(x), _tandem.zeros_like(x)
        return projected(images, _tandem.concat([one, x, zero, y, one, zero, zero, zero], 1), self.interpolation, self.fill_mode, self.fill_value)


class RandomPerspective(Augmentation):
    """Shows images from other sides."""

    def __init__(self, factor=1.0, scale=1.0, interpolation="bilinear", fill_value=0.0, seed=None, data_format=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.factor, self.scale = range_of(factor), float(scale)
        self.interpolation, self.fill_value = interpolation, fill_value

    def get_random_transformation(self, images):
        h, w = float(int(images._sizes[1]) - 1), float(int(images._sizes[2]) - 1)
        start = _tandem.convert([[[0.0, 0.0], [w, 0.0], [0.0, h], [w, h]]], 0)
        moved = start + start * self._uniform((images._sizes[0], 4, 2), (-0.5 * self.scale, 0.5 * self.scale))
        return {"apply_perspective": self._chosen(images, self.factor), "start_points": _tandem.zeros_like(moved) + start, "end_points": moved}

    def transform_images(self, images, transformation):
        from tandem.keras.ops._image import perspective_transform

        y = perspective_transform(images, transformation["start_points"], transformation["end_points"], self.interpolation, self.fill_value)
        return _tandem.where(_tandem.reshape(transformation["apply_perspective"], (-1, 1, 1, 1)), y, images)


class RandomElasticTransform(Augmentation):
    """Bends images here and there."""

    def __init__(self, factor=1.0, scale=1.0, interpolation="bilinear", fill_mode="reflect", fill_value=0.0, value_range=(0, 255), seed=None, data_format=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.factor, self.scale, self.value_range = range_of(factor), range_of(scale, name="scale"), tuple(value_range)
        self.interpolation, self.fill_mode, self.fill_value = interpolation, fill_mode, fill_value

    def get_random_transformation(self, images):
        return {"apply_transform": self._chosen(images, self.factor), "distortion_factor": self._uniform((), self.scale)}

    def transform_images(self, images, transformation):
        from tandem.keras.ops._image import gaussian_blur, grid, sample

        n, h, w, _ = images._sizes
        amount = transformation["distortion_factor"]
        sigma = min(int(h), int(w)) * 0.05 * 0.5
        size = int(6 * int(max(sigma, 1.0)) | 1)
        noise = [_tandem.random_normal((n, h, w, 1), 0.0, 1.0, 0, self._next_seed()) * amount for _ in range(2)]
        dy, dx = (_tandem.reshape(gaussian_blur(e, (size, size), (max(sigma, 1.0),) * 2), [n, h, w]) * (100.0 * max(sigma, 1.0) / 5.0) for e in noise)
        ys, xs = grid(int(h), int(w))
        y = self._clipped(sample(images, ys + dy, xs + dx, self.interpolation, self.fill_mode, self.fill_value))
        return _tandem.where(transformation["apply_transform"], y, images)


class Pipeline(Layer):
    """Layers one after another."""

    def __init__(self, layers, name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.layers = list(layers)

    def call(self, inputs, training=True, mask=None):
        import inspect

        for layer in self.layers:
            takes = "training" in inspect.signature(layer.call).parameters
            inputs = layer(inputs, training=training) if takes else layer(inputs)
        return inputs

    def get_config(self):
        from tandem.keras import saving

        return {"name": self.name, "layers": [saving.serialize_keras_object(each) for each in self.layers]}

    @classmethod
    def from_config(cls, config):
        from tandem.keras import saving

        layers = [saving.deserialize_keras_object(each) if isinstance(each, dict) else each for each in config["layers"]]
        return cls(layers, name=config.get("name"))


class _Several(Augmentation):
    """Layers that choose among others."""

    def _made(self, kinds, **more):
        """One layer of each kind, for this layer's factor and range."""
        f, seeds = self.factor, (lambda i: None if self.seed is None else int(self.seed) + i)
        ranged = {"value_range": self.value_range}
        moves = {"interpolation": self.interpolation}
        makers = {
            "random_shear": lambda s: RandomShear(f, f, seed=s, **moves),
            "random_translation": lambda s: preprocessing.RandomTranslation(f, f, seed=s, **moves),
            "random_rotation": lambda s: preprocessing.RandomRotation(f, seed=s, **moves),
            "random_brightness": lambda s: preprocessing.RandomBrightness(f, seed=s, **ranged),
            "random_color_degeneration": lambda s: own.RandomColorDegeneration(f, seed=s, **ranged),
            "random_contrast": lambda s: preprocessing.RandomContrast(f, seed=s, **ranged),
            "random_sharpness": lambda s: own.RandomSharpness(f, seed=s, **ranged),
            "solarization": lambda s: own.Solarization(f, f, seed=s, **ranged),
            "random_posterization": lambda s: own.RandomPosterization(max(1, int(8 * f[1])), seed=s, **ranged),
            "auto_contrast": lambda s: own.AutoContrast(**ranged),
            "equalization": lambda s: own.Equalization(**ranged),
        }
        return [makers[kind](seeds(i)) for i, kind in enumerate(kinds)]

    def _one_of(self, images, layers):
        """The images after one of the layers, which a run chooses; after the last of them there may be one that changes nothing."""
        chosen = _tandem.floor(self._uniform((), (0.0, float(len(layers)))))
        y = images
        for i, layer in enumerate(layers):
            if layer is not None:
                y = _tandem.where(_tandem.equal(chosen, float(i)), layer(images, training=True), y)
        return y


_MOVES = ("random_shear", "random_translation", "random_rotation")
_COLOURS = ("random_brightness", "random_color_degeneration", "random_contrast", "random_sharpness")
_LEVELS = ("solarization", "random_posterization", "auto_contrast", "equalization")


class RandAugment(_Several):
    """Some changes of eleven that are chosen for each batch (Cubuk and others 2020, arXiv:1909.13719)."""

    def __init__(self, value_range=(0, 255), num_ops=2, factor=0.5, interpolation="bilinear", seed=None, data_format=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.value_range, self.num_ops, self.factor, self.interpolation = tuple(value_range), int(num_ops), range_of(factor), interpolation
        self._changes = self._made(_MOVES + _COLOURS + _LEVELS)

    def transform_images(self, images, transformation=None):
        for _ in range(self.num_ops):
            images = self._one_of(images, self._changes)
        return images


class AugMix(_Several):
    """Means of several chains of changes and the image (Hendrycks and others 2020, arXiv:1912.02781)."""

    def __init__(self, value_range=(0, 255), num_chains=3, chain_depth=3, factor=0.3, alpha=1.0, all_ops=True, interpolation="bilinear", seed=None, data_format=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.value_range, self.num_chains, self.chain_depth, self.factor = tuple(value_range), int(num_chains), int(chain_depth), range_of(factor)
        self.alpha, self.all_ops, self.interpolation = alpha, all_ops, interpolation
        self._changes = [*self._made(_MOVES + (_COLOURS if all_ops else ()) + _LEVELS), None]

    def transform_images(self, images, transformation=None):
        parts = sampling.gamma((self.num_chains,), self.alpha, self._next_seed())
        parts = parts / _tandem.reduce_sum(parts, None, False)
        kept = sampling.beta((), self.alpha, self.alpha, self._next_seed())
        total = _tandem.zeros_like(images)
        for i in range(self.num_chains):
            x = images
            for _ in range(self.chain_depth):
                x = self._one_of(x, self._changes)
            total = total + x * parts[i]
        return self._clipped(kept * images + (1.0 - kept) * total)


class RandomColorJitter(Augmentation):
    """Changes brightness, contrast, saturation and hue of images, each by a factor of its own."""

    def __init__(self, value_range=(0, 255), brightness_factor=None, contrast_factor=None, saturation_factor=None, hue_factor=None, seed=None, data_format=None, **kwargs):
        super().__init__(seed, data_format, **kwargs)
        self.value_range = tuple(value_range)
        self.brightness_factor, self.contrast_factor, self.saturation_factor, self.hue_factor = brightness_factor, contrast_factor, saturation_factor, hue_factor
        kinds = (preprocessing.RandomBrightness, brightness_factor), (preprocessing.RandomContrast, contrast_factor), (own.RandomSaturation, saturation_factor), (own.RandomHue, hue_factor)
        self._changes = [kind(factor, value_range=self.value_range, seed=seed) for kind, factor in kinds if factor is not None]

    def transform_images(self, images, transformation=None):
        for layer in self._changes:
            images = layer(images, training=True)
        return images


class _RandomSize(Augmentation):
    """Layers of Keras 2 that stretch one side of images by a factor that is drawn for a batch; the size changes, and so they run op by op."""

    _axis = 1

    def __init__(self, factor, interpolation="bilinear", seed=None, **kwargs):
        super().__init__(seed, **kwargs)
        self.factor, self.interpolation = range_of(factor, -1.0, float("inf")) if isinstance(factor, (tuple, list)) else (-abs(factor), abs(factor)), interpolation

    def transform_images(self, images, transformation=None):
        from tandem import image

        sizes = [int(images._sizes[1]), int(images._sizes[2])]
        sizes[self._axis - 1] = max(1, int(sizes[self._axis - 1] * (1.0 + float(self._uniform((), self.factor)))))
        return image.resize(images, sizes, self.interpolation)


class RandomHeight(_RandomSize):
    """Stretches the height of images."""


class RandomWidth(_RandomSize):
    """Stretches the width of images."""

    _axis = 2
