"""Images as arrays, turned, moved and flipped by chance, keras.preprocessing.image."""

import os

import numpy as np

from tandem.keras.utils import PyDataset, array_to_img, image_dataset_from_directory, img_to_array, load_img, save_img  # noqa: F401

_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".tif", ".tiff", ".gif", ".webp")


def smart_resize(x, size, interpolation="bilinear", data_format="channels_last", backend_module=None):
    """Resized without a change of proportions: the middle is cut out first."""
    from tandem import image

    array = np.asarray(x.numpy() if hasattr(x, "numpy") else x)
    height, width = array.shape[-3:-1]
    crop_height = min(height, int(width * size[0] / size[1]))
    crop_width = min(width, int(height * size[1] / size[0]))
    top, left = (height - crop_height) // 2, (width - crop_width) // 2
    cut = array[..., top : top + crop_height, left : left + crop_width, :]
    resized = image.resize(cut, size, interpolation).numpy()
    return resized if not hasattr(x, "numpy") else image.resize(cut, size, interpolation)


# ---- Changes of one image ----


def _places(coordinates, size, mode):
    """Where pixels outside of the image are taken from, as scipy's modes have it."""
    if mode != "reflect":
        return np.clip(coordinates, 0, size - 1)
    period = np.mod(coordinates, 2 * size)
    return np.where(period >= size, 2 * size - 1 - period, period)


def _wrapped(coordinates, size):
    """As scipy wraps: the first and the last pixel are the same place."""
    period = size - 1
    below = coordinates + period * (np.trunc(-coordinates / period) + 1)
    above = coordinates - period * np.trunc(coordinates / period)
    return np.where(coordinates < 0, below, np.where(coordinates > period, above, coordinates))


def apply_affine_transform(x, theta=0, tx=0, ty=0, shear=0, zx=1, zy=1, row_axis=0, col_axis=1, channel_axis=2, fill_mode="nearest", cval=0.0, order=1):
    """An image turned, shifted, sheared and zoomed."""
    matrix = np.eye(3)
    if theta != 0:
        angle = np.deg2rad(theta)
        matrix = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    if tx != 0 or ty != 0:
        matrix = matrix @ np.array([[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    if shear != 0:
        angle = np.deg2rad(shear)
        matrix = matrix @ np.array([[1, -np.sin(angle), 0], [0, np.cos(angle), 0], [0, 0, 1]])
    if zx != 1 or zy != 1:
        matrix = matrix @ np.array([[zx, 0, 0], [0, zy, 0], [0, 0, 1]])
    if np.array_equal(matrix, np.eye(3)):
        return x
    image = np.moveaxis(np.asarray(x), (row_axis, col_axis, channel_axis), (0, 1, 2))
    height, width = image.shape[:2]
    middle = height / 2 - 0.5, width / 2 - 0.5
    matrix = np.array([[1, 0, middle[0]], [0, 1, middle[1]], [0, 0, 1]]) @ matrix @ np.array([[1, 0, -middle[0]], [0, 1, -middle[1]], [0, 0, 1]])
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    at_row = matrix[0, 0] * rows + matrix[0, 1] * columns + matrix[0, 2]
    at_column = matrix[1, 0] * rows + matrix[1, 1] * columns + matrix[1, 2]
    moved = _sampled(image, at_row, at_column, fill_mode, cval, order).astype(image.dtype)
    return np.moveaxis(moved, (0, 1, 2), (row_axis, col_axis, channel_axis))


def _sampled(image, at_row, at_column, fill_mode, cval, order):
    height, width = image.shape[:2]
    if fill_mode == "wrap":
        at_row, at_column = _wrapped(at_row, height), _wrapped(at_column, width)
    if order == 0:
        return image[_places(np.rint(at_row).astype(int), height, fill_mode), _places(np.rint(at_column).astype(int), width, fill_mode)]
    low_row, low_column = np.floor(at_row).astype(int), np.floor(at_column).astype(int)
    result = np.zeros(image.shape, np.float64)
    for row, part_row in ((low_row, low_row + 1 - at_row), (low_row + 1, at_row - low_row)):
        for column, part_column in ((low_column, low_column + 1 - at_column), (low_column + 1, at_column - low_column)):
            result += image[_places(row, height, fill_mode), _places(column, width, fill_mode)] * (part_row * part_column)[..., None]
    if fill_mode == "constant":
        outside = (at_row < 0) | (at_row > height - 1) | (at_column < 0) | (at_column > width - 1)
        result[outside] = cval
    return result


def apply_channel_shift(x, intensity, channel_axis=0):
    """An image with a value added to its channels."""
    return np.clip(x + intensity, np.min(x), np.max(x)).astype(np.asarray(x).dtype)


def apply_brightness_shift(x, brightness, scale=True):
    """An image with its brightness scaled."""
    low, high = np.min(x), np.max(x)
    image = np.asarray(x, np.float64)
    if scale:
        image = (image - low) / max(high - low, 1e-12) * 255
    image = np.clip(image.astype(np.uint8).astype(np.float64) * brightness, 0, 255)
    image = np.floor(image)
    return (image / 255 * (high - low) + low if scale and high > 255 or low < 0 else image).astype(np.asarray(x).dtype)


def _axes(axes):
    return dict(zip(("row_axis", "col_axis", "channel_axis"), axes))


def random_rotation(x, rg, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """An image turned by a random angle."""
    return apply_affine_transform(x, theta=np.random.uniform(-rg, rg), **_axes((row_axis, col_axis, channel_axis)), fill_mode=fill_mode, cval=cval, order=interpolation_order)


def random_shift(x, wrg, hrg, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """An image shifted by a random part of its size."""
    tx, ty = np.random.uniform(-hrg, hrg) * x.shape[row_axis], np.random.uniform(-wrg, wrg) * x.shape[col_axis]
    return apply_affine_transform(x, tx=tx, ty=ty, **_axes((row_axis, col_axis, channel_axis)), fill_mode=fill_mode, cval=cval, order=interpolation_order)


def random_shear(x, intensity, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """An image sheared by a random angle."""
    return apply_affine_transform(x, shear=np.random.uniform(-intensity, intensity), **_axes((row_axis, col_axis, channel_axis)), fill_mode=fill_mode, cval=cval, order=interpolation_order)


def random_zoom(x, zoom_range, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """An image zoomed by a random factor."""
    zx, zy = (1, 1) if zoom_range[0] == 1 and zoom_range[1] == 1 else np.random.uniform(zoom_range[0], zoom_range[1], 2)
    return apply_affine_transform(x, zx=zx, zy=zy, **_axes((row_axis, col_axis, channel_axis)), fill_mode=fill_mode, cval=cval, order=interpolation_order)


def random_channel_shift(x, intensity_range, channel_axis=0):
    """An image with a random value added to its channels."""
    return apply_channel_shift(x, np.random.uniform(-intensity_range, intensity_range), channel_axis)


def random_brightness(x, brightness_range, scale=True):
    """An image with its brightness scaled by a random factor."""
    return apply_brightness_shift(x, np.random.uniform(brightness_range[0], brightness_range[1]), scale)


# ---- Batches ----


class Iterator(PyDataset):
    """Batches of changed images, without end."""

    def __init__(self, n, batch_size, shuffle, seed):
        super().__init__()
        self.n, self.batch_size, self.shuffle, self.seed = n, batch_size, shuffle, seed
        self.batch_index = self.total_batches_seen = 0
        self.index_array = None

    def _set_index_array(self):
        self.index_array = np.random.permutation(self.n) if self.shuffle else np.arange(self.n)

    def __len__(self):
        return -(-self.n // self.batch_size)

    def __getitem__(self, index):
        if index >= len(self):
            raise ValueError(f"Asked to retrieve element {index}, but the Sequence has length {len(self)}")
        if self.seed is not None:
            np.random.seed(self.seed + self.total_batches_seen)
        self.total_batches_seen += 1
        if self.index_array is None:
            self._set_index_array()
        return self._get_batches_of_transformed_samples(self.index_array[self.batch_size * index : self.batch_size * (index + 1)])

    def on_epoch_end(self):
        self._set_index_array()

    def reset(self):
        self.batch_index = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.batch_index == 0:
            if self.seed is not None:
                np.random.seed(self.seed + self.total_batches_seen)
            self._set_index_array()
        batch = self[self.batch_index]
        self.batch_index = (self.batch_index + 1) % len(self)
        return batch

    next = __next__


class NumpyArrayIterator(Iterator):
    """Batches of arrays that are in memory."""

    def __init__(self, x, y, image_data_generator, batch_size=32, shuffle=False, sample_weight=None, seed=None, subset=None, ignore_class_split=False, **kwargs):
        self.more = []
        if isinstance(x, (tuple, list)):
            self.more, x = [np.asarray(m) for m in (x[1] if isinstance(x[1], (tuple, list)) else [x[1]])], x[0]
        x = np.asarray(x)
        if x.ndim != 4:
            raise ValueError(f"Input data in `NumpyArrayIterator` should have rank 4. You passed an array with shape {x.shape}")
        keep = slice(None)
        if subset is not None:
            at = int(len(x) * image_data_generator._validation_split)
            keep = {"validation": slice(None, at), "training": slice(at, None)}[subset]
        part = lambda a: None if a is None else np.asarray(a)[keep]  # noqa: E731
        self.x, self.y, self.sample_weight = part(x), part(y), part(sample_weight)
        self.more = [part(m) for m in self.more]
        self.generator = image_data_generator
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, rows):
        images = np.stack([self.generator._changed(self.x[row]) for row in rows])
        images = (images, *[m[rows] for m in self.more]) if self.more else images
        if self.y is None:
            return images
        if self.sample_weight is None:
            return images, self.y[rows]
        return images, self.y[rows], self.sample_weight[rows]


class _FileIterator(Iterator):
    """Batches of images in files."""

    def __init__(self, paths, targets, generator, target_size, color_mode, batch_size, shuffle, seed, interpolation, keep_aspect_ratio=False):
        self.filepaths, self._targets, self.generator = paths, targets, generator
        self.target_size, self.color_mode, self.interpolation = tuple(target_size), color_mode, interpolation
        self.keep_aspect_ratio = keep_aspect_ratio
        self.image_shape = self.target_size + ({"rgb": 3, "grayscale": 1, "rgba": 4}[color_mode],)
        super().__init__(len(paths), batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, rows):
        images = []
        for row in rows:
            loaded = load_img(self.filepaths[row], color_mode=self.color_mode, target_size=self.target_size, interpolation=self.interpolation, keep_aspect_ratio=self.keep_aspect_ratio)
            images.append(self.generator._changed(img_to_array(loaded)))
        images = np.stack(images)
        return images if self._targets is None else (images, self._targets[rows])


def _class_targets(classes, count, class_mode, dtype="float32"):
    if class_mode == "categorical":
        return np.eye(count, dtype=dtype)[classes]
    return np.asarray(classes, dtype)


class DirectoryIterator(_FileIterator):
    """Batches of the images in a folder with one folder for each class."""

    def __init__(self, directory, image_data_generator, target_size=(256, 256), color_mode="rgb", classes=None, class_mode="categorical", batch_size=32, shuffle=True, seed=None, follow_links=False, subset=None, interpolation="nearest", keep_aspect_ratio=False, **kwargs):
        names = list(classes) if classes else sorted(d for d in os.listdir(directory) if os.path.isdir(os.path.join(directory, d)))
        self.directory, self.class_indices, self.class_mode = directory, {name: i for i, name in enumerate(names)}, class_mode
        paths, labels = [], []
        for name in names:
            own = sorted(os.path.join(root, f) for root, _, files in os.walk(os.path.join(directory, name), followlinks=follow_links) for f in files if f.lower().endswith(_ENDINGS))
            if subset is not None:
                at = int(len(own) * image_data_generator._validation_split)
                own = own[:at] if subset == "validation" else own[at:]
            paths += own
            labels += [self.class_indices[name]] * len(own)
        self.samples, self.num_classes = len(paths), len(names)
        self.classes = np.array(labels, "int32")
        self.labels, self.filenames = self.classes, [os.path.relpath(p, directory) for p in paths]
        print(f"Found {len(paths)} images belonging to {len(names)} classes.")
        targets = None if class_mode in (None, "input") else _class_targets(self.classes, len(names), class_mode)
        super().__init__(paths, targets, image_data_generator, target_size, color_mode, batch_size, shuffle, seed, interpolation, keep_aspect_ratio)


class DataFrameIterator(_FileIterator):
    """Batches of the images that a pandas frame names."""

    def __init__(self, dataframe, directory, image_data_generator, x_col="filename", y_col="class", target_size=(256, 256), color_mode="rgb", classes=None, class_mode="categorical", batch_size=32, shuffle=True, seed=None, subset=None, interpolation="nearest", validate_filenames=True, **kwargs):
        paths = [os.path.join(directory or "", name) for name in dataframe[x_col]]
        rows = [i for i, path in enumerate(paths) if not validate_filenames or os.path.isfile(path)]
        if subset is not None:
            at = int(len(rows) * image_data_generator._validation_split)
            rows = rows[:at] if subset == "validation" else rows[at:]
        targets = None
        if class_mode in ("categorical", "binary", "sparse"):
            given = list(dataframe[y_col])
            names = list(classes) if classes else sorted(set(given))
            self.class_indices = {name: i for i, name in enumerate(names)}
            self.classes = [self.class_indices[given[i]] for i in rows]
            targets = _class_targets(self.classes, len(names), class_mode)
        elif class_mode in ("raw", "multi_output"):
            targets = np.asarray(dataframe[y_col])[rows]
        print(f"Found {len(rows)} validated image filenames.")
        self.samples, self.filenames = len(rows), [list(dataframe[x_col])[i] for i in rows]
        super().__init__([paths[i] for i in rows], targets, image_data_generator, target_size, color_mode, batch_size, shuffle, seed, interpolation)


class ImageDataGenerator:
    """Images changed by chance while they are trained on. Random numbers are NumPy's, drawn in Keras's order."""

    def __init__(self, featurewise_center=False, samplewise_center=False, featurewise_std_normalization=False, samplewise_std_normalization=False, zca_whitening=False, zca_epsilon=1e-6, rotation_range=0, width_shift_range=0.0, height_shift_range=0.0, brightness_range=None, shear_range=0.0, zoom_range=0.0, channel_shift_range=0.0, fill_mode="nearest", cval=0.0, horizontal_flip=False, vertical_flip=False, rescale=None, preprocessing_function=None, data_format=None, validation_split=0.0, interpolation_order=1, dtype=None):
        if data_format == "channels_first":
            raise ValueError("tandem has images as [batch, height, width, channels]")
        if validation_split and not 0 < validation_split < 1:
            raise ValueError(f"`validation_split` must be strictly between 0 and 1.  Received arg: {validation_split}")
        self.featurewise_center = featurewise_center or zca_whitening
        self.samplewise_center = samplewise_center or samplewise_std_normalization
        self.featurewise_std_normalization, self.samplewise_std_normalization = featurewise_std_normalization, samplewise_std_normalization
        self.featurewise_center = self.featurewise_center or featurewise_std_normalization
        self.zca_whitening, self.zca_epsilon = zca_whitening, zca_epsilon
        self.rotation_range, self.width_shift_range, self.height_shift_range = rotation_range, width_shift_range, height_shift_range
        self.brightness_range, self.shear_range, self.channel_shift_range = brightness_range, shear_range, channel_shift_range
        self.zoom_range = [1 - zoom_range, 1 + zoom_range] if isinstance(zoom_range, (int, float)) else list(zoom_range)
        self.fill_mode, self.cval, self.horizontal_flip, self.vertical_flip = fill_mode, cval, horizontal_flip, vertical_flip
        self.rescale, self.preprocessing_function = rescale, preprocessing_function
        self._validation_split, self.interpolation_order, self.dtype = validation_split, interpolation_order, dtype or "float32"
        self.mean = self.std = self.zca_whitening_matrix = None

    def flow(self, x, y=None, batch_size=32, shuffle=True, sample_weight=None, seed=None, save_to_dir=None, save_prefix="", save_format="png", ignore_class_split=False, subset=None):
        return NumpyArrayIterator(x, y, self, batch_size, shuffle, sample_weight, seed, subset)

    def flow_from_directory(self, directory, target_size=(256, 256), color_mode="rgb", classes=None, class_mode="categorical", batch_size=32, shuffle=True, seed=None, save_to_dir=None, save_prefix="", save_format="png", follow_links=False, subset=None, interpolation="nearest", keep_aspect_ratio=False):
        return DirectoryIterator(directory, self, target_size, color_mode, classes, class_mode, batch_size, shuffle, seed, follow_links, subset, interpolation, keep_aspect_ratio)

    def flow_from_dataframe(self, dataframe, directory=None, x_col="filename", y_col="class", weight_col=None, target_size=(256, 256), color_mode="rgb", classes=None, class_mode="categorical", batch_size=32, shuffle=True, seed=None, save_to_dir=None, save_prefix="", save_format="png", subset=None, interpolation="nearest", validate_filenames=True, **kwargs):
        return DataFrameIterator(dataframe, directory, self, x_col, y_col, target_size, color_mode, classes, class_mode, batch_size, shuffle, seed, subset, interpolation, validate_filenames)

    def _changed(self, image):
        image = np.asarray(image).astype(self.dtype)
        return self.standardize(self.apply_transform(image, self.get_random_transform(image.shape)))

    def _shift(self, given, size):
        if not np.any(given):
            return 0
        try:
            shift = np.random.choice(given)
            shift *= np.random.choice([-1, 1])
        except ValueError:
            shift = np.random.uniform(-given, given)
        return shift * size if np.max(given) < 1 else shift

    def get_random_transform(self, img_shape, seed=None):
        if seed is not None:
            np.random.seed(seed)
        theta = np.random.uniform(-self.rotation_range, self.rotation_range) if self.rotation_range else 0
        tx = self._shift(self.height_shift_range, img_shape[0])
        ty = self._shift(self.width_shift_range, img_shape[1])
        shear = np.random.uniform(-self.shear_range, self.shear_range) if self.shear_range else 0
        zx, zy = (1, 1) if self.zoom_range[0] == 1 and self.zoom_range[1] == 1 else np.random.uniform(self.zoom_range[0], self.zoom_range[1], 2)
        flip_horizontal = (np.random.random() < 0.5) * self.horizontal_flip
        flip_vertical = (np.random.random() < 0.5) * self.vertical_flip
        intensity = np.random.uniform(-self.channel_shift_range, self.channel_shift_range) if self.channel_shift_range != 0 else None
        brightness = np.random.uniform(self.brightness_range[0], self.brightness_range[1]) if self.brightness_range is not None else None
        return {"theta": theta, "tx": tx, "ty": ty, "shear": shear, "zx": zx, "zy": zy, "flip_horizontal": flip_horizontal, "flip_vertical": flip_vertical, "channel_shift_intensity": intensity, "brightness": brightness}

    def apply_transform(self, x, transform_parameters):
        given = transform_parameters
        x = apply_affine_transform(x, given.get("theta", 0), given.get("tx", 0), given.get("ty", 0), given.get("shear", 0), given.get("zx", 1), given.get("zy", 1), 0, 1, 2, self.fill_mode, self.cval, self.interpolation_order)
        if given.get("channel_shift_intensity") is not None:
            x = apply_channel_shift(x, given["channel_shift_intensity"], 2)
        if given.get("flip_horizontal", False):
            x = x[:, ::-1]
        if given.get("flip_vertical", False):
            x = x[::-1]
        if given.get("brightness") is not None:
            x = apply_brightness_shift(x, given["brightness"], False)
        return x

    def random_transform(self, x, seed=None):
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))

    def standardize(self, x):
        if self.preprocessing_function:
            x = self.preprocessing_function(x)
        if self.rescale:
            x = x * np.asarray(self.rescale, x.dtype)
        if self.samplewise_center:
            x = x - np.mean(x, keepdims=True)
        if self.samplewise_std_normalization:
            x = x / (np.std(x, keepdims=True) + 1e-6)
        if self.featurewise_center and self.mean is not None:
            x = x - self.mean
        if self.featurewise_std_normalization and self.std is not None:
            x = x / (self.std + 1e-6)
        if self.zca_whitening and self.zca_whitening_matrix is not None:
            x = (x.reshape(-1, x.size) @ self.zca_whitening_matrix).reshape(x.shape)
        return x

    def fit(self, x, augment=False, rounds=1, seed=None):
        x = np.array(x, dtype=self.dtype)
        if seed is not None:
            np.random.seed(seed)
        if augment:
            x = np.concatenate([[self.random_transform(image) for image in x] for _ in range(rounds)]).astype(self.dtype)
        if self.featurewise_center:
            self.mean = np.mean(x, axis=(0, 1, 2)).reshape(1, 1, -1)
            x = x - self.mean
        if self.featurewise_std_normalization:
            self.std = np.std(x, axis=(0, 1, 2)).reshape(1, 1, -1)
            x = x / (self.std + 1e-6)
        if self.zca_whitening:
            flat = x.reshape(len(x), -1)
            u, s, _ = np.linalg.svd(flat.T, full_matrices=False)
            self.zca_whitening_matrix = (u * (1.0 / np.sqrt(s**2 / len(flat) + self.zca_epsilon))) @ u.T

__all__ = [  # Written by scripts/exported-names.py.
    "DataFrameIterator", "DirectoryIterator", "ImageDataGenerator", "Iterator", "NumpyArrayIterator", "PyDataset", "apply_affine_transform",
    "apply_brightness_shift", "apply_channel_shift", "array_to_img", "image_dataset_from_directory", "img_to_array", "load_img",
    "random_brightness", "random_channel_shift", "random_rotation", "random_shear", "random_shift", "random_zoom", "save_img",
    "smart_resize",
]
