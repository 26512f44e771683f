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
