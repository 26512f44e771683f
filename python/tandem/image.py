"""Images, tf.image: [height, width, channels] or with a batch before."""

import numpy as np

import _tandem
from tandem import _ops, dtypes
from tandem._names import missing as _missing
from tandem._ops import op
from tandem.errors import InvalidArgumentError


from tandem._ops.rarer import (  # noqa: E402, F401
    combined_non_max_suppression, crop_and_resize, draw_bounding_boxes, image_gradients, non_max_suppression_padded,
    non_max_suppression_with_scores, rgb_to_yiq, rgb_to_yuv, yiq_to_rgb, yuv_to_rgb,
)


class ResizeMethod:
    """The names of the ways in which images are resized."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA, LANCZOS3, LANCZOS5, GAUSSIAN, MITCHELLCUBIC = "bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"


def _weights(source, target, method, antialias=False):
    """The matrix [target, source] that resizes one axis."""
    scale = source / target
    places = (np.arange(target) + 0.5) * scale - 0.5
    matrix = np.zeros((target, source), np.float32)
    if method == "nearest":
        chosen = np.minimum(np.floor((np.arange(target) + 0.5) * scale).astype(int), source - 1)
        matrix[np.arange(target), chosen] = 1
        return matrix
    if method == "area":
        for i in range(target):
            low, high = i * scale, (i + 1) * scale
            for j in range(int(np.floor(low)), min(int(np.ceil(high)), source)):
                matrix[i, j] = min(high, j + 1) - max(low, j)
        return matrix / matrix.sum(1, keepdims=True)
    wide = max(scale, 1.0) if antialias else 1.0
    kernels = {
        "bilinear": (1.0, lambda t: np.maximum(1 - np.abs(t), 0)),
        "bicubic": (2.0, lambda t: np.where(np.abs(t) <= 1, 1.5 * np.abs(t) ** 3 - 2.5 * t**2 + 1, np.where(np.abs(t) < 2, -0.5 * np.abs(t) ** 3 + 2.5 * t**2 - 4 * np.abs(t) + 2, 0))),
        "lanczos3": (3.0, lambda t: np.where(np.abs(t) < 3, np.sinc(t) * np.sinc(t / 3), 0)),
        "lanczos5": (5.0, lambda t: np.where(np.abs(t) < 5, np.sinc(t) * np.sinc(t / 5), 0)),
        "gaussian": (1.5, lambda t: np.where(np.abs(t) < 1.5, np.exp(-t * t / 0.5), 0)),
        "mitchellcubic": (2.0, lambda t: np.where(np.abs(t) < 1, (7 * np.abs(t) ** 3 - 12 * t**2 + 16 / 3) / 6, np.where(np.abs(t) < 2, (-7 / 3 * np.abs(t) ** 3 + 12 * t**2 - 20 * np.abs(t) + 32 / 3) / 6, 0))),
    }
    if method not in kernels:
        raise ValueError(f"resize: the method {method!r} is none of {', '.join(kernels)}, nearest, area")
    radius, kernel = kernels[method]
    for i, place in enumerate(places):
        near = np.arange(int(np.floor(place - radius * wide)), int(np.ceil(place + radius * wide)) + 1)
        inside = near[(near >= 0) & (near < source)] if antialias or method not in ("bilinear", "bicubic") else near
        values = kernel((inside - place) / wide)
        for j, v in zip(np.clip(inside, 0, source - 1), values):
            matrix[i, j] += v
    return matrix / matrix.sum(1, keepdims=True)


@op
def resize(images, size, method="bilinear", preserve_aspect_ratio=False, antialias=False, name=None):
    """Images of another size, interpolated."""
    x = _tandem.convert(images)
    method = {0: "bilinear", 1: "nearest", 2: "bicubic", 3: "area"}.get(method, method)
    single = x._rank == 3
    if single:
        x = _tandem.expand_dims(x, 0)
    height, width = int(x._sizes[1]), int(x._sizes[2])
    target = [int(s) for s in size]
    if preserve_aspect_ratio:
        factor = min(target[0] / height, target[1] / width)
        target = [max(int(round(height * factor)), 1), max(int(round(width * factor)), 1)]
    if method == "nearest":
        rows = np.argmax(_weights(height, target[0], "nearest"), 1).astype(np.int32)
        columns = np.argmax(_weights(width, target[1], "nearest"), 1).astype(np.int32)
        y = _tandem.gather(_tandem.gather(x, rows, 1), columns, 2)
    else:
        y = x if x.dtype.is_floating else _tandem.cast(x, 0)
        if (height, width) != tuple(target):
            down, across = _weights(height, target[0], method, antialias), _weights(width, target[1], method, antialias)
            n, h, w, c = y._sizes
            y = _tandem.matmul(_tandem.convert(down, y._code), _tandem.reshape(y, [n, h, w * c]), False, False)
            y = _tandem.reshape(y, [n, target[0], w, c])
            y = _tandem.matmul(_tandem.convert(across, y._code), y, False, False)
    return _tandem.squeeze(y, [0]) if single else y


def resize_with_pad(image, target_height, target_width, method="bilinear", antialias=False):
    """Images of another size whose proportions are kept, with zeros around them."""
    y = resize(image, (target_height, target_width), method, True, antialias)
    return resize_with_crop_or_pad(y, target_height, target_width)


def _at(x, axis, key):
    entries = [slice(None)] * x._rank
    entries[axis] = key
    return x[tuple(entries)]


@op
def flip_left_right(image, name=None):
    """Images mirrored from left to right."""
    x = _tandem.convert(image)
    return _at(x, x._rank - 2, slice(None, None, -1))


@op
def flip_up_down(image, name=None):
    """Images turned upside down."""
    x = _tandem.convert(image)
    return _at(x, x._rank - 3, slice(None, None, -1))


@op
def transpose(image, name=None):
    """Images with rows and columns exchanged."""
    x = _tandem.convert(image)
    order = list(range(x._rank))
    order[-3], order[-2] = order[-2], order[-3]
    return _tandem.transpose(x, order)


def rot90(image, k=1, name=None):
    """Images turned counter-clockwise by k quarters."""
    x = _tandem.convert(image)
    for _ in range(int(k) % 4):
        x = flip_up_down(transpose(x))
    return x


def _stateful(seed, shape=(), low=0.0, high=1.0):
    """Numbers of chance, others at each call."""
    from tandem import random

    return random.uniform(shape, low, high, seed=seed)


def _stateless(seed, shape=(), low=0.0, high=1.0):
    """Numbers of this seed, the same at each call."""
    from tandem import random

    return random.stateless_uniform(shape, seed, minval=low, maxval=high)


def _flipped_by_chance(image, flip, draw, seed):
    """Each image is flipped or not."""
    x = _tandem.convert(image)
    if len(x._sizes) < 4:
        return _tandem.where(draw(seed) < 0.5, flip(x), x)
    chosen = _tandem.reshape(draw(seed, (x._sizes[0],)) > 0.5, [-1, 1, 1, 1])  # As in TensorFlow, which compares otherwise for one image.
    return _tandem.where(chosen, flip(x), x)


def random_flip_left_right(image, seed=None):
    """Each image is mirrored from left to right by chance."""
    return _flipped_by_chance(image, flip_left_right, _stateful, seed)


def random_flip_up_down(image, seed=None):
    """Each image is turned upside down by chance."""
    return _flipped_by_chance(image, flip_up_down, _stateful, seed)


def stateless_random_flip_left_right(image, seed):
    """Each image is mirrored from left to right by a chance that the seed decides."""
    return _flipped_by_chance(image, flip_left_right, _stateless, seed)


def stateless_random_flip_up_down(image, seed):
    """Each image is turned upside down by a chance that the seed decides."""
    return _flipped_by_chance(image, flip_up_down, _stateless, seed)


@op
def convert_image_dtype(image, dtype, saturate=False, name=None):
    """Images of another dtype; floats are from 0 to 1, integers from 0 to their largest value."""
    x = _tandem.convert(image)
    dtype = dtypes.as_dtype(dtype)
    if x.dtype == dtype:
        return x
    if x.dtype.is_floating and dtype.is_floating:
        return _tandem.cast(x, dtype._code)
    if x.dtype.is_floating:
        scaled = x * (float(dtype.max) + 0.5)
        return _tandem.cast(_tandem.clip(scaled, float(dtype.min), float(dtype.max)), dtype._code)
    if dtype.is_floating:
        return _tandem.cast(x, dtype._code) * (1.0 / float(x.dtype.max))
    return _of_integers(x, dtype, saturate)


def _of_integers(x, dtype, saturate):
    """Images of integers of another size: a whole factor leads from one largest value to the other."""
    have, wanted = int(x.dtype.max), int(dtype.max)
    if have > wanted:
        scaled = _ops.floordiv(x, _tandem.convert((have + 1) // (wanted + 1), x._code))
        return dtypes.saturate_cast(scaled, dtype) if saturate else _tandem.cast(scaled, dtype._code)
    cast = dtypes.saturate_cast(x, dtype) if saturate else _tandem.cast(x, dtype._code)
    return cast * _tandem.convert((wanted + 1) // (have + 1), dtype._code)


def _in_float(f):
    @op
    def call(image, *args, **kwargs):
        x = _tandem.convert(image)
        if x.dtype.is_floating:
            return f(x, *args, **kwargs)
        y = f(convert_image_dtype(x, dtypes.float32), *args, **kwargs)
        return convert_image_dtype(_tandem.clip(y, 0.0, 1.0), x.dtype)

    call.__name__, call.__doc__ = f.__name__, f.__doc__
    return call


@_in_float
def adjust_brightness(image, delta):
    """Images with delta added to all values."""
    return image + delta


@_in_float
def adjust_contrast(image, contrast_factor):
    """Images with the distance of each value from its channel's mean scaled."""
    mean = _tandem.reduce_mean(image, [-3, -2], True)
    return (image - mean) * contrast_factor + mean


@_in_float
def adjust_gamma(image, gamma=1, gain=1):
    """gain * image ** gamma."""
    return gain * _tandem.pow(image, float(gamma))


@op
def rgb_to_grayscale(images, name=None):
    """The brightness of coloured images, in one channel."""
    x = _tandem.convert(images)
    y = x if x.dtype.is_floating else convert_image_dtype(x, dtypes.float32)
    gray = _tandem.matmul(y, np.float32([[0.2989], [0.5870], [0.1140]]), False, False)
    return gray if x.dtype.is_floating else convert_image_dtype(gray, x.dtype)


@op
def grayscale_to_rgb(images, name=None):
    """Grey images in three equal channels."""
    x = _tandem.convert(images)
    return _tandem.concat([x, x, x], -1)


@_in_float
def adjust_saturation(image, saturation_factor, name=None):
    """Images with their saturation scaled."""
    hsv = rgb_to_hsv(image)
    h, s, v = _tandem.unstack(hsv, -1)
    return hsv_to_rgb(_tandem.stack([h, _tandem.clip(s * saturation_factor, 0.0, 1.0), v], -1))


@_in_float
def adjust_hue(image, delta, name=None):
    """Images with their hue turned by delta."""
    h, s, v = _tandem.unstack(rgb_to_hsv(image), -1)
    return hsv_to_rgb(_tandem.stack([_tandem.mod(h + delta, 1.0), s, v], -1))


@op
def rgb_to_hsv(images, name=None):
    """Hue, saturation and value of coloured images."""
    r, g, b = _tandem.unstack(_tandem.convert(images), -1)
    high, low = _tandem.maximum(_tandem.maximum(r, g), b), _tandem.minimum(_tandem.minimum(r, g), b)
    span = high - low
    safe = _tandem.where(span > 0, span, _tandem.ones_like(span))
    h = _tandem.where(_tandem.equal(high, r), _tandem.mod((g - b) / safe, 6.0), _tandem.where(_tandem.equal(high, g), (b - r) / safe + 2.0, (r - g) / safe + 4.0))
    h = _tandem.where(span > 0, h / 6.0, _tandem.zeros_like(h))
    s = _tandem.where(high > 0, span / _tandem.where(high > 0, high, _tandem.ones_like(high)), _tandem.zeros_like(high))
    return _tandem.stack([h, s, high], -1)


@op
def hsv_to_rgb(images, name=None):
    """Red, green and blue of images of hue, saturation and value."""
    h, s, v = _tandem.unstack(_tandem.convert(images), -1)

    def channel(n):
        k = _tandem.mod(n + h * 6.0, 6.0)
        return v - v * s * _tandem.maximum(0.0 * k, _tandem.minimum(_tandem.minimum(k, 4.0 - k), _tandem.ones_like(k)))

    return _tandem.stack([channel(5.0), channel(3.0), channel(1.0)], -1)


def random_brightness(image, max_delta, seed=None):
    """Brightness changed by a random delta below max_delta."""
    return adjust_brightness(image, _stateful(seed, (), -max_delta, max_delta))


def random_contrast(image, lower, upper, seed=None):
    """Contrast scaled by a random factor."""
    return adjust_contrast(image, _stateful(seed, (), lower, upper))


def random_saturation(image, lower, upper, seed=None):
    """Saturation scaled by a random factor."""
    return adjust_saturation(image, _stateful(seed, (), lower, upper))


def random_hue(image, max_delta, seed=None):
    """Hue turned by a random delta below max_delta."""
    return adjust_hue(image, _stateful(seed, (), -max_delta, max_delta))


def stateless_random_brightness(image, max_delta, seed):
    """Brightness changed by a delta that the seed decides."""
    return adjust_brightness(image, _stateless(seed, (), -max_delta, max_delta))


def stateless_random_contrast(image, lower, upper, seed):
    """Contrast scaled by a factor that the seed decides."""
    return adjust_contrast(image, _stateless(seed, (), lower, upper))


def stateless_random_saturation(image, lower, upper, seed=None):
    """Saturation scaled by a factor that the seed decides."""
    return adjust_saturation(image, _stateless(seed, (), lower, upper))


def stateless_random_hue(image, max_delta, seed):
    """Hue turned by a delta that the seed decides."""
    return adjust_hue(image, _stateless(seed, (), -max_delta, max_delta))


def random_crop(value, size, seed=None, name=None):
    """A part of the given size at a random place."""
    from tandem import random

    return _cropped(value, size, lambda rank: random.uniform((rank,), 0, 2**31 - 1, dtypes.int32, seed))


def stateless_random_crop(value, size, seed, name=None):
    """A part of the given size at a place that the seed decides."""
    from tandem import random

    return _cropped(value, size, lambda rank: random.stateless_uniform((rank,), seed, 0, 2**31 - 1, dtypes.int32))


def _cropped(value, size, draw):
    """A part of this size, which begins on each axis at the remainder of a number that is drawn."""
    x = _tandem.convert(value)
    wanted = [int(s) if int(s) != -1 else int(x._sizes[axis]) for axis, s in enumerate(size)]
    have = [int(s) for s in x._sizes]
    if len(wanted) != len(have) or any(w > h for w, h in zip(wanted, have)):
        raise InvalidArgumentError(f"Need value.shape >= size, got {have} and {wanted}")
    drawn = draw(len(have))
    for axis, (w, h) in enumerate(zip(wanted, have)):
        if w < h:
            x = _tandem.gather(x, _tandem.range(0, w, 1, 5) + drawn[axis] % (h - w + 1), axis)
    return x


@op
def crop_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """The part of images that begins at an offset."""
    x = _tandem.convert(image)
    return x[..., int(offset_height) : int(offset_height) + int(target_height), int(offset_width) : int(offset_width) + int(target_width), :]


@op
def pad_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """Images with zeros around them, at an offset."""
    x = _tandem.convert(image)
    h, w = int(x._sizes[-3]), int(x._sizes[-2])
    pads = [(0, 0)] * (x._rank - 3) + [(offset_height, target_height - offset_height - h), (offset_width, target_width - offset_width - w), (0, 0)]
    return _tandem.pad(x, pads, 0.0)


@op
def resize_with_crop_or_pad(image, target_height, target_width):
    """Images cut or filled with zeros around their middle to a size."""
    x = _tandem.convert(image)
    h, w = int(x._sizes[-3]), int(x._sizes[-2])
    th, tw = int(target_height), int(target_width)
    top, left = max((h - th) // 2, 0), max((w - tw) // 2, 0)
    x = x[..., top : top + min(h, th), left : left + min(w, tw), :]
    h, w = int(x._sizes[-3]), int(x._sizes[-2])
    up, side = (th - h) // 2, (tw - w) // 2
    return _tandem.pad(x, [(0, 0)] * (x._rank - 3) + [(up, th - h - up), (side, tw - w - side), (0, 0)], 0.0)


@op
def central_crop(image, central_fraction):
    """The middle part of images."""
    x = _tandem.convert(image)
    h, w = int(x._sizes[-3]), int(x._sizes[-2])
    top, left = int((h - h * central_fraction) / 2), int((w - w * central_fraction) / 2)
    return x[..., top : h - top, left : w - left, :]


@op
def per_image_standardization(image):
    """Images with mean 0 and variance 1, each by itself."""
    x = _tandem.convert(image)
    x = x if x.dtype.is_floating else _tandem.cast(x, 0)
    axes = [-3, -2, -1]
    count = 1
    for s in x._sizes[-3:]:
        count *= int(s)
    deviation = _tandem.maximum(_tandem.sqrt(_tandem.reduce_variance(x, axes, True)), 1.0 / count**0.5)
    return (x - _tandem.reduce_mean(x, axes, True)) / deviation


@op
def psnr(a, b, max_val, name=None):
    """The peak signal-to-noise ratio of two images in decibels."""
    a, b = _tandem.cast(a, 0), _tandem.cast(b, 0)
    mse = _tandem.reduce_mean(_tandem.squared_difference(a, b), [-3, -2, -1], False)
    return 20.0 * float(np.log10(max_val)) - 10.0 / float(np.log(10)) * _tandem.log(mse)


@op
def ssim(img1, img2, max_val, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03, return_index_map=False):
    """The structural similarity of two images."""
    a, b = _tandem.convert(img1), _tandem.convert(img2)
    channels = int(a._sizes[-1])
    g = np.exp(-((np.arange(filter_size) - (filter_size - 1) / 2) ** 2) / (2 * filter_sigma**2))
    window = np.outer(g, g) / np.outer(g, g).sum()
    kernel = np.repeat(window[:, :, None, None], channels, 2).astype(np.float32)
    blur = lambda t: _tandem.depthwise_conv2d(t, kernel, (1, 1), "valid", (1, 1))  # noqa: E731
    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    ma, mb = blur(a), blur(b)
    first = (2 * ma * mb + c1) / (ma * ma + mb * mb + c1)
    second = (2 * (blur(a * b) - ma * mb) + c2) / (blur(a * a + b * b) - ma * ma - mb * mb + c2)
    return _tandem.reduce_mean(first * second, [-3, -2, -1], False)


@op
def total_variation(images, name=None):
    """The sum of the differences of neighbouring pixels."""
    x = _tandem.convert(images)
    down, across = x[..., 1:, :, :] - x[..., :-1, :, :], x[..., :, 1:, :] - x[..., :, :-1, :]
    axes = [-3, -2, -1]
    return _tandem.reduce_sum(_tandem.abs(down), axes, False) + _tandem.reduce_sum(_tandem.abs(across), axes, False)


@op
def sobel_edges(image):
    """The vertical and horizontal derivatives of images by Sobel's filter."""
    x = _tandem.convert(image)
    channels = int(x._sizes[-1])
    kernels = np.array([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], np.float32)
    kernel = np.repeat(kernels.transpose(1, 2, 0)[:, :, None], channels, 2)
    padded = _ops.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    y = _tandem.depthwise_conv2d(padded, kernel, (1, 1), "valid", (1, 1))
    return _tandem.reshape(y, list(x._sizes) + [2])


@op
def extract_patches(images, sizes, strides, rates, padding, name=None):
    """The patches of images, flattened, at each place of a grid."""
    x = _tandem.convert(images)
    kh, kw = int(sizes[1]), int(sizes[2])
    channels = int(x._sizes[-1])
    # Each element of a window is a convolution with a filter that is one there.
    kernel = np.eye(kh * kw, dtype=np.float32).reshape(kh, kw, 1, kh * kw)
    kernel = np.repeat(kernel, channels, 2)
    y = _tandem.depthwise_conv2d(x, _tandem.convert(kernel, x._code), [int(s) for s in strides[1:3]], padding.lower(), [int(r) for r in rates[1:3]])
    n, h, w = y._sizes[:3]
    y = _tandem.transpose(_tandem.reshape(y, [n, h, w, channels, kh * kw]), [0, 1, 2, 4, 3])
    return _tandem.reshape(y, [n, h, w, kh * kw * channels])


def non_max_suppression(boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=float("-inf"), name=None):
    """The indices of the boxes that remain when those overlapping a better one are left out."""
    def suppress(b, s):
        y1, x1, y2, x2 = np.minimum(b[:, 0], b[:, 2]), np.minimum(b[:, 1], b[:, 3]), np.maximum(b[:, 0], b[:, 2]), np.maximum(b[:, 1], b[:, 3])
        area = (y2 - y1) * (x2 - x1)
        order, kept = [i for i in np.argsort(-s, kind="stable") if s[i] > score_threshold], []
        while order and len(kept) < int(max_output_size):
            i = order.pop(0)
            kept.append(i)
            order = [j for j in order if (lambda inter: inter / max(area[i] + area[j] - inter, 1e-12) <= iou_threshold)(max(0.0, min(y2[i], y2[j]) - max(y1[i], y1[j])) * max(0.0, min(x2[i], x2[j]) - max(x1[i], x1[j])))]
        return np.array(kept, np.int32)

    return _tandem.convert(_ops.host(suppress, _tandem.convert(boxes), _tandem.convert(scores)))


def _decoded(contents, channels):
    import io

    from PIL import Image

    data = contents.numpy() if hasattr(contents, "numpy") else contents
    image = Image.open(io.BytesIO(data))
    mode = {0: None, 1: "L", 3: "RGB", 4: "RGBA"}[int(channels)]
    image = image.convert(mode) if mode else image
    array = np.asarray(image)
    return array[..., None] if array.ndim == 2 else array


def decode_image(contents, channels=None, dtype=dtypes.uint8, name=None, expand_animations=True):
    """The pixels of the bytes of an image file."""
    x = _tandem.convert(np.array(_decoded(contents, channels or 0)))
    return x if dtypes.as_dtype(dtype) == dtypes.uint8 else convert_image_dtype(x, dtype)


def decode_jpeg(contents, channels=0, **kwargs):
    """The pixels of the bytes of a JPEG file."""
    return decode_image(contents, channels)


def decode_png(contents, channels=0, dtype=dtypes.uint8, name=None):
    """The pixels of the bytes of a PNG file."""
    return decode_image(contents, channels)


decode_bmp = decode_gif = decode_png


def encode_png(image, compression=-1, name=None):
    """The bytes of a PNG file of an image."""
    import io

    from PIL import Image

    from tandem.strings import StringTensor

    array = np.asarray(image)
    buffer = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(buffer, "PNG")
    return StringTensor(buffer.getvalue())


def encode_jpeg(image, *args, **kwargs):
    """The bytes of a JPEG file of an image."""
    import io

    from PIL import Image

    from tandem.strings import StringTensor

    array = np.asarray(image)
    buffer = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(buffer, "JPEG", quality=kwargs.get("quality", 95))
    return StringTensor(buffer.getvalue())


del op
_missing.install(__name__, globals(), {
    "tandem._ops.pictures": "decode_and_crop_jpeg extract_jpeg_shape sample_distorted_bounding_box stateless_sample_distorted_bounding_box",
})

__all__ = [  # Written by scripts/exported-names.py.
    "InvalidArgumentError", "ResizeMethod", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "central_crop", "combined_non_max_suppression", "convert_image_dtype", "crop_and_resize", "crop_to_bounding_box", "decode_bmp",
    "decode_gif", "decode_image", "decode_jpeg", "decode_png", "draw_bounding_boxes", "dtypes", "encode_jpeg", "encode_png",
    "extract_patches", "flip_left_right", "flip_up_down", "grayscale_to_rgb", "hsv_to_rgb", "image_gradients", "non_max_suppression",
    "non_max_suppression_padded", "non_max_suppression_with_scores", "pad_to_bounding_box", "per_image_standardization", "psnr",
    "random_brightness", "random_contrast", "random_crop", "random_flip_left_right", "random_flip_up_down", "random_hue",
    "random_saturation", "resize", "resize_with_crop_or_pad", "resize_with_pad", "rgb_to_grayscale", "rgb_to_hsv", "rgb_to_yiq",
    "rgb_to_yuv", "rot90", "sobel_edges", "ssim", "stateless_random_brightness", "stateless_random_contrast", "stateless_random_crop",
    "stateless_random_flip_left_right", "stateless_random_flip_up_down", "stateless_random_hue", "stateless_random_saturation",
    "total_variation", "transpose", "yiq_to_rgb", "yuv_to_rgb",
]
