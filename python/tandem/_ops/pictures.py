"""Parts of JPEG files, and random parts of images that show enough of what boxes mark, for tf.image."""

import io

import _tandem
from tandem._names.lazy import np
from tandem.random import _numpy_source


def _opened(contents):
    from PIL import Image

    return Image.open(io.BytesIO(contents.numpy() if hasattr(contents, "numpy") else contents))


def extract_jpeg_shape(contents, output_type=None, name=None):
    """Height, width and channels of a JPEG file, which is not decoded."""
    from tandem import dtypes

    image = _opened(contents)
    shape = np.array([image.height, image.width, len(image.getbands())], np.int32)
    return _tandem.convert(shape, dtypes.code_of(output_type or dtypes.int32))


def decode_and_crop_jpeg(contents, crop_window, channels=0, **kwargs):
    """The pixels of a part of a JPEG file: y, x, height and width of it."""
    from tandem import image

    y, x, height, width = (int(v) for v in np.asarray(crop_window))
    return image.decode_jpeg(contents, channels)[y : y + height, x : x + width]


def _overlaps(boxes, part):
    """Which parts of the boxes, of pixels from y, x to y, x, lie within another."""
    low, high = np.maximum(boxes[:, :2], part[:2]), np.minimum(boxes[:, 2:], part[2:])
    inside = np.prod(np.maximum(high - low, 0), 1)
    return inside / np.maximum(np.prod(boxes[:, 2:] - boxes[:, :2], 1), 1e-9)


def _part(size, boxes, covered, ratios, areas, attempts, source):
    height, width = size
    for _ in range(attempts):
        ratio = source.uniform(*ratios)
        low, high = (np.sqrt(a * height * width / ratio) for a in areas)
        tall = int(round(source.uniform(low, high)))
        wide = int(round(tall * ratio))
        if not (0 < tall <= height and 0 < wide <= width and areas[0] <= tall * wide / (height * width) <= areas[1]):
            continue
        top, left = source.integers(0, height - tall + 1), source.integers(0, width - wide + 1)
        part = np.array([top, left, top + tall, left + wide])
        if not len(boxes) or (_overlaps(boxes, part) >= covered).any():
            return part
    return np.array([0, 0, height, width])


def sample_distorted_bounding_box(
    image_size, bounding_boxes, seed=0, min_object_covered=0.1, aspect_ratio_range=None, area_range=None, max_attempts=None, use_image_if_no_bounding_boxes=None, name=None
):
    """A random part of an image that shows enough of one of the boxes: where it begins, how large it is, and as a box."""
    height, width, channels = (int(v) for v in np.asarray(image_size))
    boxes = np.asarray(bounding_boxes, np.float64).reshape(-1, 4) * np.array([height, width, height, width])
    if not len(boxes) and not use_image_if_no_bounding_boxes:
        raise ValueError("sample_distorted_bounding_box: no bounding boxes are given, and use_image_if_no_bounding_boxes is not set")
    source = _numpy_source(seed or None)
    part = _part((height, width), boxes, min_object_covered, aspect_ratio_range or (0.75, 1.33), area_range or (0.05, 1.0), max_attempts or 100, source)
    begin, size = [part[0], part[1], 0], [part[2] - part[0], part[3] - part[1], -1]
    box = (part / np.array([height, width, height, width])).astype(np.float32)
    return _tandem.convert(np.array(begin, np.int32)), _tandem.convert(np.array(size, np.int32)), _tandem.convert(box.reshape(1, 1, 4))


def stateless_sample_distorted_bounding_box(image_size, bounding_boxes, seed, **kwargs):
    """sample_distorted_bounding_box, the same for the same two numbers."""
    return sample_distorted_bounding_box(image_size, bounding_boxes, [int(v) for v in np.asarray(seed)], **kwargs)
