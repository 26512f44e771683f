"""Data sets of files in folders: images, texts and sounds, a folder for each class."""

import os

import numpy as np

import _tandem

_IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


def _walk(folder, endings, follow_links):
    """The files of a folder and of those in it, in the order of their names."""
    found = []
    for root, _, names in sorted(os.walk(folder, followlinks=follow_links)):
        found += [os.path.join(root, n) for n in sorted(names) if n.lower().endswith(endings)]
    return found


def _classes_in(directory):
    return sorted(d for d in os.listdir(directory) if not d.startswith(".") and os.path.isdir(os.path.join(directory, d)))


class _Files:
    """The files of a folder with the class of each."""

    def __init__(self, function, directory, labels, label_mode, class_names, endings, shuffle, seed, follow_links, verbose):
        directory = os.fspath(directory)
        if label_mode not in ("int", "categorical", "binary", None):
            raise ValueError(f'{function}: `label_mode` argument must be one of "int", "categorical", "binary", or None. Received: label_mode={label_mode}')
        has_list = isinstance(labels, (list, tuple, np.ndarray))
        if not has_list and labels not in ("inferred", None):
            raise ValueError(f'{function}: `labels` argument should be a list/tuple of integer labels, of the same size as the number of files in the target directory, "inferred", or None. Received: labels={labels}')
        if label_mode is None:
            labels, has_list = None, False
        self.label_mode = None if labels is None else label_mode
        if labels == "inferred" if not has_list else False:
            folders = _classes_in(directory)
            if class_names is not None and sorted(class_names) != folders:
                raise ValueError(f"The `class_names` passed did not match the names of the subdirectories of the target directory. Expected: {folders}, but received: {list(class_names)}")
            self.names = list(class_names) if class_names is not None else folders
            pairs = [(path, i) for i, n in sorted(enumerate(self.names), key=lambda pair: pair[1]) for path in _walk(os.path.join(directory, n), endings, follow_links)]
            self.paths, self.labels = [p for p, _ in pairs], [i for _, i in pairs]
        else:
            self.paths = _walk(directory, endings, follow_links)
            self.labels = list(labels) if has_list else [0] * len(self.paths)
            self.names = [str(n) for n in sorted(set(self.labels))] if has_list else None
            if len(self.labels) != len(self.paths):
                raise ValueError(f"Expected the lengths of `labels` to match the number of files in the target directory. len(labels) is {len(self.labels)} while we found {len(self.paths)} files in directory {directory}.")
        if self.label_mode == "binary" and len(self.names) != 2:
            raise ValueError(f'{function}: When passing `label_mode="binary"`, there must be exactly 2 class_names. Received: class_names={self.names}')
        if verbose:
            print(f"Found {len(self.paths)} files belonging to {len(self.names)} classes." if self.names is not None else f"Found {len(self.paths)} files.")
        if not self.paths:
            raise ValueError(f"{function}: No files found in directory {directory}. Allowed formats: {endings}")
        if shuffle:
            order = np.arange(len(self.paths))
            np.random.RandomState(seed).shuffle(order)
            self.paths, self.labels = [self.paths[i] for i in order], [self.labels[i] for i in order]

    def part(self, validation_split, subset, verbose):
        """The paths and labels of a subset."""
        if not validation_split:
            return self.paths, self.labels
        at = len(self.paths) - int(validation_split * len(self.paths))
        if verbose:
            print(f"Using {at if subset == 'training' else len(self.paths) - at} files for {subset}.")
        return (self.paths[:at], self.labels[:at]) if subset == "training" else (self.paths[at:], self.labels[at:])

    def label(self, index):
        if self.label_mode == "binary":
            return np.float32([index])
        return np.eye(len(self.names), dtype=np.float32)[index] if self.label_mode == "categorical" else np.int32(index)


def _made(function, read, endings, directory, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset, follow_links, verbose):
    """The data set of what `read` makes of each path, or two of them."""
    from tandem.data import AUTOTUNE, Dataset

    if validation_split and not 0 < validation_split < 1:
        raise ValueError(f"`validation_split` must be between 0 and 1, received: {validation_split}")
    if (validation_split or subset) and not (validation_split and subset):
        raise ValueError(f"{function}: If `subset` is set, `validation_split` must be set, and inversely. Received: subset={subset}, validation_split={validation_split}")
    if subset not in ("training", "validation", "both", None):
        raise ValueError(f'{function}: `subset` must be either "training", "validation" or "both", received: {subset}')
    if validation_split and shuffle and seed is None:
        raise ValueError("If using `validation_split` and shuffling the data, you must provide a `seed` argument, to make sure that there is no overlap between the training and validation subset.")
    seed = np.random.randint(1e6) if seed is None else seed
    files = _Files(function, directory, labels, label_mode, class_names, endings, shuffle, seed, follow_links, verbose)

    def one(subset):
        paths, own_labels = files.part(validation_split, subset, verbose)
        order = np.arange(len(paths), dtype=np.int64)

        def element(i):
            value = read(paths[i])
            return value if files.label_mode is None else (value, _tandem.convert(files.label(own_labels[i])))

        rounds = np.random.RandomState(seed)

        def generate():
            if shuffle and subset != "validation":  # In another order in each epoch.
                rounds.shuffle(order)
            return (element(i) for i in order.tolist())

        result = Dataset(generate=generate, count=len(paths))
        if batch_size is not None:
            result = result.batch(batch_size)
        result = result.prefetch(AUTOTUNE)
        result.class_names, result.file_paths = files.names, paths
        return result

    return [one("training"), one("validation")] if subset == "both" else one(subset)


def image_dataset_from_directory(
    directory,
    labels="inferred",
    label_mode="int",
    class_names=None,
    color_mode="rgb",
    batch_size=32,
    image_size=(256, 256),
    shuffle=True,
    seed=None,
    validation_split=None,
    subset=None,
    interpolation="bilinear",
    follow_links=False,
    crop_to_aspect_ratio=False,
    pad_to_aspect_ratio=False,
    data_format=None,
    format="tf",
    verbose=True,
):
    """Images in a folder for each class, read by PIL and resized as tf.image.resize does."""
    from PIL import Image

    from tandem import image as images

    if color_mode not in ("rgb", "rgba", "grayscale"):
        raise ValueError(f'`color_mode` must be one of {{"rgb", "rgba", "grayscale"}}. Received: color_mode={color_mode}')
    mode = {"rgb": "RGB", "grayscale": "L", "rgba": "RGBA"}[color_mode]
    size = tuple(int(s) for s in image_size)

    def fitted(array):
        """The largest part in the middle of the image that has the wanted ratio, or the image within one."""
        rows, columns = array.shape[:2]
        if crop_to_aspect_ratio:
            high, wide = min(rows, int(columns * size[0] / size[1])), min(columns, int(rows * size[1] / size[0]))
            top, left = (rows - high) // 2, (columns - wide) // 2
            return array[top : top + high, left : left + wide]
        high, wide = max(rows, int(columns * size[0] / size[1])), max(columns, int(rows * size[1] / size[0]))
        top, left = (high - rows) // 2, (wide - columns) // 2
        return np.pad(array, ((top, high - rows - top), (left, wide - columns - left), (0, 0)))

    def read(path):
        with Image.open(path) as file:
            array = np.asarray(file.convert(mode), np.float32)
        array = array[..., None] if array.ndim == 2 else array
        if crop_to_aspect_ratio or pad_to_aspect_ratio:
            array = fitted(array)
        return _tandem.cast(images.resize(array, size, method=interpolation), 0) if array.shape[:2] != size else _tandem.convert(array)

    return _made("image_dataset_from_directory", read, _IMAGES, directory, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset, follow_links, verbose)


def text_dataset_from_directory(
    directory,
    labels="inferred",
    label_mode="int",
    class_names=None,
    batch_size=32,
    max_length=None,
    shuffle=True,
    seed=None,
    validation_split=None,
    subset=None,
    follow_links=False,
    format="tf",
    verbose=True,
):
    """Texts in a folder for each class."""
    from tandem.strings import StringTensor

    def read(path):
        with open(path, "rb") as file:
            text = file.read()
        return StringTensor(text if max_length is None else text[:max_length])

    return _made("text_dataset_from_directory", read, (".txt",), directory, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset, follow_links, verbose)


def audio_dataset_from_directory(
    directory,
    labels="inferred",
    label_mode="int",
    class_names=None,
    batch_size=32,
    sampling_rate=None,
    output_sequence_length=None,
    ragged=False,
    shuffle=True,
    seed=None,
    validation_split=None,
    subset=None,
    follow_links=False,
    verbose=True,
):
    """Sounds (.wav) in a folder for each class: samples within -1 and 1, by channels."""
    from tandem import audio

    if ragged:
        raise NotImplementedError("audio_dataset_from_directory: ragged=True; sounds are filled up with zeros to output_sequence_length")
    if sampling_rate is not None:
        raise NotImplementedError("audio_dataset_from_directory: sampling_rate; sounds are read as they are")
    length = -1 if output_sequence_length is None else int(output_sequence_length)

    def read(path):
        with open(path, "rb") as file:
            return audio.decode_wav(file.read(), desired_samples=length)[0]

    return _made("audio_dataset_from_directory", read, (".wav",), directory, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset, follow_links, verbose)
