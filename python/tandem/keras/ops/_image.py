"""Images of other places, keras.ops.image: what affine maps, homographies and coordinates name."""

import itertools

import numpy as np

import _tandem
from tandem import _ops
from tandem._ops import op

_FILLS = ("constant", "nearest", "wrap", "mirror", "reflect")
_WAYS = ("nearest", "bilinear")


def _one_of(what, value, accepted):
    if value not in accepted:
        raise ValueError(f"{what} is {value!r}; {', '.join(accepted)} are accepted")


def _inside(p, size, fill_mode):
    """Places moved into an axis, as the fill mode says."""
    if fill_mode == "reflect":
        period = 2.0 * size
        p = _tandem.mod(p + 0.5, period)
        p = _tandem.where(p < float(size), p, period - p) - 0.5
    elif fill_mode == "wrap":
        p = _tandem.mod(p, float(size))
    return _tandem.clip(p, 0.0, size - 1.0)


def sample(images, ys, xs, interpolation="bilinear", fill_mode="constant", fill_value=0.0):
    """The values of images [batch, height, width, channels] at the places [batch, rows, columns]."""
    _one_of("interpolation", interpolation, _WAYS)
    n, h, w, c = images._sizes
    h, w = int(h), int(w)
    rows, columns = ys._sizes[-2:]
    if fill_mode != "constant":
        ys, xs = _inside(ys, h, fill_mode), _inside(xs, w, fill_mode)
    if interpolation == "nearest":
        nodes = [(*(_tandem.sign(p) * _tandem.floor(_tandem.abs(p) + 0.5) for p in (ys, xs)), None)]
    else:
        y0, x0 = _tandem.floor(ys), _tandem.floor(xs)
        fy, fx = ys - y0, xs - x0
        nodes = [(y0 + float(dy), x0 + float(dx), (fy if dy else 1.0 - fy) * (fx if dx else 1.0 - fx)) for dy in (0, 1) for dx in (0, 1)]
    flat = _tandem.reshape(images, [n, h * w, c])
    total = None
    for y, x, weight in nodes:
        yy, xx = _tandem.clip(y, 0.0, h - 1.0), _tandem.clip(x, 0.0, w - 1.0)
        place = _tandem.reshape(_tandem.cast(yy * float(w) + xx, 5), [n, rows * columns])
        part = _ops.choosing._batched_gather(flat, place, 1, 1)
        if fill_mode == "constant":
            seen = _tandem.logical_and(_tandem.equal(yy, y), _tandem.equal(xx, x))
            part = _tandem.where(_tandem.reshape(seen, [n, rows * columns, 1]), part, _tandem.fill((), float(fill_value), images._code))
        if weight is not None:
            part = part * _tandem.reshape(_tandem.cast(weight, images._code), [n, rows * columns, 1])
        total = part if total is None else total + part
    return _tandem.reshape(total, [n, rows, columns, c])


def grid(height, width):
    """The rows and the columns of the pixels, [1, height, width] each."""
    ys, xs = np.meshgrid(np.arange(height, dtype=np.float32), np.arange(width, dtype=np.float32), indexing="ij")
    return _tandem.convert(ys[None]), _tandem.convert(xs[None])


def _batches(images, data_format, f):
    """f of images with a batch before them and their channels last."""
    x = _tandem.convert(images)
    single, first, code = x._rank == 3, data_format == "channels_first", x._code
    if x._rank not in (3, 4):
        raise ValueError(f"Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). Received input with shape: images.shape={x.shape}")
    x = x if x.dtype.is_floating else _tandem.cast(x, 0)
    x = _tandem.expand_dims(x, 0) if single else x
    y = f(_tandem.transpose(x, [0, 2, 3, 1]) if first else x)
    y = _tandem.transpose(y, [0, 3, 1, 2]) if first else y
    return _tandem.cast(_tandem.squeeze(y, [0]) if single else y, code)


def projected(x, transform, interpolation, fill_mode, fill_value):
    """Images of which each pixel (x, y) is that of the place ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), k = c0 x + c1 y + 1."""
    ys, xs = grid(int(x._sizes[1]), int(x._sizes[2]))
    t = _tandem.cast(_tandem.convert(transform, None, 0), 0)
    a = [_tandem.reshape(t[:, i], [t._sizes[0], 1, 1]) for i in range(8)]
    k = a[6] * xs + a[7] * ys + 1.0
    shape = [x._sizes[0], *k._sizes[1:]]
    place = lambda p: _tandem.broadcast_to(p / k, shape)  # noqa: E731
    return sample(x, place(a[3] * xs + a[4] * ys + a[5]), place(a[0] * xs + a[1] * ys + a[2]), interpolation, fill_mode, fill_value)


@op
def affine_transform(images, transform, interpolation="bilinear", fill_mode="constant", fill_value=0, data_format=None):
    """Images whose pixels are taken at the places that the eight numbers of a transform name."""
    _one_of("fill_mode", fill_mode, _FILLS)
    t = _tandem.convert(transform, None, 0)
    t = _tandem.expand_dims(t, 0) if t._rank == 1 else t
    return _batches(images, data_format, lambda x: projected(x, t, interpolation, fill_mode, fill_value))


def homography(start, end):
    """The eight numbers of the projective map that takes the end points [batch, 4, 2] to the start points."""
    from tandem import linalg

    rows = []
    for i in range(4):
        sx, sy, ex, ey = start[:, i, 0], start[:, i, 1], end[:, i, 0], end[:, i, 1]
        zero, one = _tandem.zeros_like(ex), _tandem.ones_like(ex)
        rows.append(_tandem.stack([ex, ey, one, zero, zero, zero, -sx * ex, -sx * ey], -1))
        rows.append(_tandem.stack([zero, zero, zero, ex, ey, one, -sy * ex, -sy * ey], -1))
    matrix, target = _tandem.stack(rows, 1), _tandem.reshape(start, [start._sizes[0], 8, 1])
    return _tandem.reshape(_eliminated(matrix, target, 8) if matrix._is_symbolic else linalg.solve(matrix, target), [start._sizes[0], 8])


def _eliminated(a, b, n):
    """The solutions of small systems by Gauss and Jordan in ops that can be traced; a pivot is the largest of its column."""
    for i in range(n):
        column = _tandem.abs(a[:, :, i])
        done = _tandem.convert(np.float32(np.arange(n) < i)[None])
        pivot = _tandem.one_hot(_tandem.argmax(column - done * 1e30, 1), n, 1.0, 0.0, 0)
        own = _tandem.convert(np.float32(np.arange(n) == i)[None])
        swap = _tandem.expand_dims(pivot - own, 1) * _tandem.expand_dims(own - pivot, 2) + _tandem.convert(np.eye(n, dtype=np.float32))
        a, b = _tandem.matmul(swap, a, False, False), _tandem.matmul(swap, b, False, False)
        row_a, row_b = a[:, i : i + 1] / a[:, i : i + 1, i : i + 1], b[:, i : i + 1] / a[:, i : i + 1, i : i + 1]
        others = a[:, :, i : i + 1] * _tandem.convert(np.float32(np.arange(n) != i)[None, :, None])
        own = _tandem.reshape(own, [1, n, 1])
        a = (a - others * row_a) * (1.0 - own) + own * row_a
        b = (b - others * row_b) * (1.0 - own) + own * row_b
    return b


@op
def perspective_transform(images, start_points, end_points, interpolation="bilinear", fill_value=0, data_format=None):
    """Images seen from elsewhere: what is at the four start points (x, y) comes to the end points."""
    start, end = _tandem.convert(start_points, None, 0), _tandem.convert(end_points, None, 0)
    if start._rank == 2:
        start, end = _tandem.expand_dims(start, 0), _tandem.expand_dims(end, 0)
    return _batches(images, data_format, lambda x: projected(x, homography(_tandem.cast(start, 0), _tandem.cast(end, 0)), interpolation, "constant", fill_value))


def _bell(size, sigma):
    x = _tandem.convert(np.arange(size, dtype=np.float32) - (size - 1) / 2)
    bell = _tandem.exp(-0.5 * _tandem.square(x / _tandem.cast(_tandem.convert(sigma, None, 0), 0)))
    return bell / _tandem.reduce_sum(bell, None, False)


@op
def gaussian_blur(images, kernel_size=(3, 3), sigma=(1.0, 1.0), data_format=None):
    """Images blurred by a bell of a size in pixels."""
    ky, kx = (kernel_size,) * 2 if isinstance(kernel_size, int) else (int(k) for k in kernel_size)
    sy, sx = (sigma,) * 2 if isinstance(sigma, (int, float)) else (sigma[0], sigma[1])

    def blurred(x):
        c = int(x._sizes[-1])
        kernel = _tandem.reshape(_bell(kx, sx), [1, kx]) * _tandem.reshape(_bell(ky, sy), [ky, 1]) if kx == ky and sx is sy else _crossed(ky, kx, sy, sx)
        kernel = _tandem.broadcast_to(_tandem.reshape(_tandem.cast(kernel, x._code), [*kernel._sizes, 1, 1]), [*kernel._sizes, c, 1])
        return _tandem.depthwise_conv2d(x, kernel, (1, 1), "same", (1, 1))

    return _batches(images, data_format, blurred)


def _crossed(ky, kx, sy, sx):
    """As Keras has it, the first size and sigma lie across."""
    kernel = _tandem.reshape(_bell(kx, sx), [kx, 1]) * _tandem.reshape(_bell(ky, sy), [1, ky])
    return _tandem.reshape(kernel, [ky, kx])


@op
def elastic_transform(images, alpha=20.0, sigma=5.0, interpolation="bilinear", fill_mode="reflect", fill_value=0.0, seed=None, data_format=None):
    """Images whose pixels come from near places: smooth random shifts."""
    _one_of("fill_mode", fill_mode, _FILLS)
    size = int(6 * int(sigma) | 1)
    seed = None if seed is None else int(np.asarray(seed).reshape(-1)[0])

    def moved(x):
        n, h, w, _ = x._sizes
        shifts = [gaussian_blur._raw(_tandem.random_normal((n, h, w, 1), 0.0, 1.0, 0, s) * float(sigma), (size, size), (float(sigma), float(sigma))) for s in (seed, seed)]
        dx, dy = (_tandem.reshape(s, [n, h, w]) * float(alpha) for s in shifts)
        ys, xs = grid(int(h), int(w))
        return sample(x, ys + dy, xs + dx, interpolation, fill_mode, fill_value)

    return _batches(images, data_format, moved)


@op
def map_coordinates(inputs, coordinates, order, fill_mode="constant", fill_value=0.0):
    """The values of an array at places that need not be whole, [rank, ..]."""
    _one_of("fill_mode", fill_mode, _FILLS)
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates: order={order}; 0 and 1 are accepted")
    x = _tandem.convert(inputs)
    where = _tandem.cast(_tandem.convert(coordinates), 0)
    if int(where._sizes[0]) != x._rank:
        raise ValueError(f"First dim of `coordinates` must be the same as the rank of `inputs`. Received inputs with shape: {x.shape} and coordinate leading dim of {where._sizes[0]}")
    axes = []
    for i, p in enumerate(_tandem.unstack(where, 0)):
        size = int(x._sizes[i])
        low = _tandem.floor(p)
        nodes = [(_tandem.round(p), None)] if order == 0 else [(low, 1.0 - (p - low)), (low + 1.0, p - low)]
        found = []
        for q, weight in nodes:
            valid = None
            if fill_mode == "constant":
                valid = _tandem.logical_and(q >= 0.0, q < float(size))
            elif fill_mode in ("mirror", "reflect"):
                q = _tandem.mod(_tandem.abs(q), 2.0 * size)
                q = _tandem.where(q < float(size), q, 2.0 * size - q - (1.0 if fill_mode == "reflect" else 0.0))
            elif fill_mode == "wrap":
                q = _tandem.mod(q, float(size))
            found.append((_tandem.cast(_tandem.clip(q, 0.0, size - 1.0), 5), valid, weight))
        axes.append(found)
    total = None
    for items in itertools.product(*axes):
        part = _ops.gather_nd(x, _tandem.stack([i for i, _, _ in items], -1))
        part = part if part.dtype.is_floating else _tandem.cast(part, 0)
        for _, valid, _ in items:
            if valid is not None:
                part = _tandem.where(valid, part, _tandem.fill((), float(fill_value), part._code))
        for _, _, weight in items:
            part = part if weight is None else part * _tandem.cast(weight, part._code)
        total = part if total is None else total + part
    return _tandem.cast(total if x.dtype.is_floating else _tandem.round(total), x._code)


def _of_tensorflow(name):
    def call(images, data_format=None):
        from tandem import image

        return _batches(images, data_format, getattr(image, name))

    call.__name__ = name
    return op(call)


rgb_to_hsv, hsv_to_rgb = _of_tensorflow("rgb_to_hsv"), _of_tensorflow("hsv_to_rgb")
rgb_to_hsv.__doc__ = "Images of hue, saturation and value."
hsv_to_rgb.__doc__ = "Images of red, green and blue."


# ---- Sizes and parts ----


def is_first(data_format):
    """Whether channels are before the pixels."""
    from tandem.keras.layers._formats import format_of

    return format_of(data_format) == "channels_first"


def formatted(images, data_format, f):
    """f of images whose channels are last."""
    x = _tandem.convert(images)
    if not is_first(data_format):
        return f(x)
    lead = list(range(x._rank - 3))
    y = f(_tandem.transpose(x, [*lead, x._rank - 2, x._rank - 1, x._rank - 3]))
    return _tandem.transpose(y, [*lead, y._rank - 1, y._rank - 3, y._rank - 2])


@op
def resize(images, size, interpolation="bilinear", antialias=False, crop_to_aspect_ratio=False, pad_to_aspect_ratio=False, fill_mode="constant", fill_value=0.0, data_format=None):
    """Images of another size; on request the middle of them in its aspect ratio, or all of them with a frame."""
    from tandem import image as own

    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError("Only one of `crop_to_aspect_ratio` & `pad_to_aspect_ratio` can be `True`.")
    if fill_mode != "constant":
        raise ValueError(f"Only `fill_mode='constant'` is supported. Received: fill_mode={fill_mode}")
    if len(size) != 2:
        raise ValueError(f"Argument `size` must be a tuple of two elements (height, width). Received: size={size}")
    tall, wide = (int(s) for s in size)

    def resized(x):
        h, w = int(x._sizes[-3]), int(x._sizes[-2])
        if crop_to_aspect_ratio:
            ch, cw = min(h, int(float(w * tall) / wide)) or h, min(w, int(float(h * wide) / tall)) or w
            top, left = int(float(h - ch) / 2), int(float(w - cw) / 2)
            x = x[..., top : top + ch, left : left + cw, :]
        elif pad_to_aspect_ratio:
            ph, pw = max(h, int(float(w * tall) / wide)), max(w, int(float(h * wide) / tall))
            top, left = int(float(ph - h) / 2), int(float(pw - w) / 2)
            pads = [(0, 0)] * (x._rank - 3) + [(top, top), (left, left), (0, 0)]
            x = _ops.pad(x, pads, constant_values=fill_value)
        return own.resize(x, [tall, wide], interpolation, antialias=antialias)

    return formatted(images, data_format, resized)


@op
def extract_patches_3d(volumes, size, strides=None, dilation_rate=1, padding="valid", data_format=None):
    """The patches of volumes, each as one vector."""
    from tandem.keras.layers._formats import format_of, from_last, to_last

    data_format = format_of(data_format)
    three = lambda v: [int(v)] * 3 if isinstance(v, int) else [int(s) for s in v]  # noqa: E731
    x = _tandem.convert(volumes)
    single = x._rank == 4
    x = to_last(_tandem.expand_dims(x, 0) if single else x, data_format)
    size = three(size)
    strides, rates = size if strides is None else three(strides), three(dilation_rate)
    for axis in range(3):
        length, reach = int(x._sizes[axis + 1]), (size[axis] - 1) * rates[axis] + 1
        count = -(-length // strides[axis]) if padding == "same" else (length - reach) // strides[axis] + 1
        missing = max((count - 1) * strides[axis] + reach - length, 0) if padding == "same" else 0
        pads = [(0, 0)] * x._rank
        pads[axis + 1] = (missing // 2, missing - missing // 2)
        x = _tandem.pad(x, pads, 0.0) if missing else x
        places = np.arange(count)[:, None] * strides[axis] + np.arange(size[axis]) * rates[axis]
        x = _tandem.gather(x, places.reshape(-1).astype(np.int32), axis + 1)
        # The places within patches stand behind all axes, those of the first axis first.
        x = _tandem.reshape(x, [*x._sizes[: axis + 1], count, size[axis], *x._sizes[axis + 2 :]])
        x = _tandem.transpose(x, _behind(x._rank, axis))
    rank = x._rank  # batch, three counts, channels, three places
    x = _tandem.transpose(x, [0, 1, 2, 3, *range(5, rank), 4])
    y = _tandem.reshape(x, [*x._sizes[:4], size[0] * size[1] * size[2] * int(x._sizes[-1])])
    y = from_last(y, data_format)
    return _tandem.squeeze(y, [0]) if single else y


def _behind(rank, axis):
    """The order of axes in which the one after a count is the last."""
    return [i for i in range(rank) if i != axis + 2] + [axis + 2]


_KERNELS = {
    "linear": lambda x: np.maximum(0, 1 - np.abs(x)), "bilinear": lambda x: np.maximum(0, 1 - np.abs(x)), "trilinear": lambda x: np.maximum(0, 1 - np.abs(x)),
    "triangle": lambda x: np.maximum(0, 1 - np.abs(x)),
    "cubic": lambda x: _cubic(np.abs(x)), "bicubic": lambda x: _cubic(np.abs(x)), "tricubic": lambda x: _cubic(np.abs(x)),
    "lanczos3": lambda x: _lanczos(x, 3.0), "lanczos5": lambda x: _lanczos(x, 5.0),
}


def _cubic(x):
    y = ((1.5 * x - 2.5) * x) * x + 1.0
    y = np.where(x >= 1.0, ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0, y)
    return np.where(x >= 2.0, 0.0, y)


def _lanczos(x, radius):
    y = radius * np.sin(np.pi * x) * np.sin(np.pi * x / radius)
    y = np.where(np.abs(x) > 1e-3, y / np.where(x != 0, np.pi**2 * x**2, 1), 1)
    return np.where(np.abs(x) > radius, 0.0, y)


@op
def scale_and_translate(images, output_shape, scale, translation, spatial_dims, method, antialias=True):
    """Images that are scaled and moved along some axes, into another shape."""
    if method not in _KERNELS:
        raise ValueError(f"Invalid `method` argument. Expected of one {sorted(_KERNELS)}. Received: method={method}")
    x = _tandem.convert(images)
    x = x if x.dtype.is_floating else _tandem.cast(x, 0)
    scale, translation = np.asarray(scale, np.float64), np.asarray(translation, np.float64)
    for i, axis in enumerate(spatial_dims):
        axis = axis % x._rank
        size, out = int(x._sizes[axis]), int(output_shape[axis])
        inverse = 1.0 / scale[i]
        width = max(inverse, 1.0) if antialias else 1.0
        places = (np.arange(out) + 0.5) * inverse - translation[i] * inverse - 0.5
        weights = _KERNELS[method](np.abs(places[None] - np.arange(size)[:, None]) / width)
        total = weights.sum(0, keepdims=True)
        weights = np.where(np.abs(total) > 1000 * np.finfo(np.float32).eps, weights / np.where(total != 0, total, 1), 0)
        weights = np.where(((places >= -0.5) & (places <= size - 0.5))[None], weights, 0)
        rest = [a for a in range(x._rank) if a != axis]
        moved = _tandem.transpose(x, [*rest, axis])
        flat = _tandem.matmul(_tandem.reshape(moved, [-1, size]), _tandem.cast(_tandem.convert(weights), x._code), False, False)
        y = _tandem.reshape(flat, [*(x._sizes[a] for a in rest), out])
        back = list(range(axis)) + [x._rank - 1] + list(range(axis, x._rank - 1))
        x = _tandem.transpose(y, back)
    return x


@op
def sobel_edges(images, data_format=None):
    """The slopes of images, down and to the right, in a last axis."""
    from tandem import image as own

    if is_first(data_format):
        y = own.sobel_edges(_tandem.transpose(_tandem.convert(images), [0, 2, 3, 1]))
        return _tandem.transpose(y, [0, 3, 1, 2, 4])
    return own.sobel_edges(images)


@op
def ssim(x1, x2, max_val, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03, return_index_map=False, data_format=None):
    """The structural similarity of images."""
    from tandem import image as own

    if is_first(data_format):
        x1, x2 = (formatted(x, data_format, lambda y: y) for x in (x1, x2))
    x1, x2 = _tandem.convert(x1), _tandem.convert(x2)
    if x1._rank == 3:
        return own.ssim(x1[None], x2[None], max_val, filter_size, filter_sigma, k1, k2, return_index_map)[0]
    return own.ssim(x1, x2, max_val, filter_size, filter_sigma, k1, k2, return_index_map)
