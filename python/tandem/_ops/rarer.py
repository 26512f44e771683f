"""Functions of tensors that few programs use, composed of those in _ops.py: tf, tf.math, tf.nn and tf.image take them."""

import builtins
import collections

import _tandem
from tandem import _ops
from tandem._names import words as _words
from tandem._names.lazy import np
from tandem._ops import op

_c = _tandem.convert


# ---- tf ----


def Assert(condition, data, summarize=None, name=None):
    """Raises InvalidArgumentError with the data unless the condition holds."""
    from tandem import debugging

    return debugging.Assert(condition, data, summarize)


def as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill="", name=None):
    """Numbers as texts."""
    from tandem import strings

    return strings.as_string(input, precision, scientific, shortest, width, fill)


@op
def batch_to_space(input, block_shape, crops, name=None):
    """Moves parts of the batch axis into blocks of pixels, and crops."""
    x, blocks = _c(input), [int(b) for b in np.asarray(block_shape).reshape(-1)]
    rest = [int(s) for s in x._sizes[1:]]
    rows = int(x._sizes[0]) // int(np.prod(blocks))
    k = len(blocks)
    x = _tandem.reshape(x, blocks + [rows] + rest)
    order = [k] + [i for j in range(k) for i in (k + 1 + j, j)] + list(range(2 * k + 1, k + 1 + len(rest)))
    x = _tandem.reshape(_tandem.transpose(x, order), [rows] + [s * b for s, b in zip(rest, blocks)] + rest[k:])
    crops = np.asarray(crops).reshape(-1, 2)
    return x[(slice(None),) + builtins.tuple(slice(int(a), int(x._sizes[i + 1]) - int(b)) for i, (a, b) in enumerate(crops))]


@op
def space_to_batch(input, block_shape, paddings, name=None):
    """Pads, and moves blocks of pixels into the batch axis."""
    x, blocks = _c(input), [int(b) for b in np.asarray(block_shape).reshape(-1)]
    k = len(blocks)
    pads = [(0, 0)] + [(int(a), int(b)) for a, b in np.asarray(paddings).reshape(-1, 2)] + [(0, 0)] * (x._rank - 1 - k)
    x = _tandem.pad(x, pads, 0.0)
    rows, rest = int(x._sizes[0]), [int(s) for s in x._sizes[1:]]
    x = _tandem.reshape(x, [rows] + [n for s, b in zip(rest, blocks) for n in (s // b, b)] + rest[k:])
    order = [2 * j + 2 for j in range(k)] + [0] + [2 * j + 1 for j in range(k)] + list(range(2 * k + 1, x._rank))
    return _tandem.reshape(_tandem.transpose(x, order), [rows * int(np.prod(blocks))] + [s // b for s, b in zip(rest, blocks)] + rest[k:])


def get_static_value(tensor, partial=False):
    """The value, where it is known before a function runs."""
    if isinstance(tensor, _tandem.Tensor) and tensor._is_symbolic:
        return None
    return np.asarray(tensor.numpy() if hasattr(tensor, "numpy") else tensor)


def grad_pass_through(f):
    """`f`, whose gradient is that of the identity."""
    from tandem._tracing.tape import custom_gradient

    @custom_gradient
    def passed(*args, **kwargs):
        return f(*args, **kwargs), lambda *upstream: upstream[0] if len(upstream) == 1 else upstream

    return passed


def hessians(ys, xs, **kwargs):
    """The second derivatives of the sum of ys by each x."""
    raise RuntimeError("tf.hessians needs a graph of TensorFlow 1; use two tf.GradientTapes and tape.jacobian")


def histogram_fixed_width(values, value_range, nbins=100, dtype="int32", name=None):
    """How many values lie in each of nbins equal parts of a range."""
    def count(v, r):
        width = (r[1] - r[0]) / nbins
        places = np.clip(np.floor((v.reshape(-1) - r[0]) / width), 0, nbins - 1).astype(np.int64)
        return np.bincount(places, minlength=nbins).astype(np.int32)

    from tandem import dtypes

    return _tandem.cast(_c(_ops.host(count, _c(values), np.asarray(value_range, np.float64))), dtypes.code_of(dtype))


def parallel_stack(values, name=None):
    """The tensors along a new first axis."""
    return _ops.stack(values)


def scalar_mul(scalar, x, name=None):
    """The scalar times each element."""
    return _ops.multiply(scalar, x)


def tensor_scatter_nd_min(tensor, indices, updates, name=None):
    """The tensor with the smaller of its elements and the updates at their indices."""
    def scatter(t, i, u):
        result = t.copy()
        np.minimum.at(result, builtins.tuple(np.moveaxis(i, -1, 0)), u)
        return result

    return _c(_ops.host(scatter, _c(tensor), _c(indices), _c(updates)))


@op
def truncatediv(x, y, name=None):
    """x / y, rounded towards zero."""
    x, y = _c(x), _c(y, None, _c(x)._code)
    magnitude = _tandem.floor_div(_tandem.abs(x), _tandem.abs(y))
    return _tandem.sign(x) * _tandem.sign(y) * magnitude


@op
def truncatemod(x, y, name=None):
    """The remainder of truncatediv; it has the sign of x."""
    x, y = _c(x), _c(y, None, _c(x)._code)
    return x - y * truncatediv(x, y)


def tuple(tensors, control_inputs=None, name=None):
    """The tensors as a list."""
    return list(tensors)


def unravel_index(indices, dims, name=None):
    """The coordinates of flat indices in an array of the given sizes."""
    return _c(_ops.host(lambda i, d: np.stack(np.unravel_index(i, d)).astype(np.int32), _c(indices), _c(dims)))


# ---- tf.math ----


@op
def reciprocal_no_nan(x, name=None):
    """1 / x, and 0 where x is 0."""
    return _ops.divide_no_nan(_ops.ones_like(x), x)


@op
def xdivy(x, y, name=None):
    """x / y, and 0 where x is 0."""
    x, y = _c(x), _c(y)
    zero = _tandem.equal(x, 0.0)
    return _tandem.where(zero, _tandem.zeros_like(x), x / _tandem.where(zero, _tandem.ones_like(y), y))


@op
def xlog1py(x, y, name=None):
    """x * log1p(y), and 0 where x is 0."""
    x, y = _c(x), _c(y)
    zero = _tandem.equal(x, 0.0)
    return _tandem.where(zero, _tandem.zeros_like(x), x * _tandem.log1p(_tandem.where(zero, _tandem.zeros_like(y), y)))


@op
def polyval(coeffs, x, name=None):
    """The value of a polynomial; the coefficient of the highest power comes first."""
    x = _c(x)
    total = _ops.zeros_like(x)
    for coefficient in coeffs:
        total = total * x + coefficient
    return total


@op
def erfcinv(x, name=None):
    """The inverse of erfc."""
    return _ops.erfinv(1.0 - _c(x))


def invert_permutation(x, name=None):
    """The permutation that undoes another."""
    return _c(_ops.host(lambda p: np.argsort(p).astype(p.dtype), _c(x)))


@op
def unsorted_segment_sqrt_n(data, segment_ids, num_segments, name=None):
    """The sum of the rows of each segment, divided by the square root of their number."""
    ones = _ops.ones_like(segment_ids, dtype="float32")
    count = _tandem.maximum(_ops.unsorted_segment_sum(ones, segment_ids, num_segments), 1.0)
    total = _ops.unsorted_segment_sum(data, segment_ids, num_segments)
    return total / _tandem.reshape(_tandem.sqrt(count), [-1] + [1] * (total._rank - 1))


@op
def real(input, name=None):
    """The real part."""
    return _c(input)


@op
def conj(x, name=None):
    """The complex conjugate."""
    return _c(x)


@op
def angle(input, name=None):
    """The angle of complex values; 0 or pi of real ones."""
    x = _c(input)
    return _tandem.where(x < 0, _tandem.zeros_like(x) + np.pi, _tandem.zeros_like(x))


def complex(real, imag, name=None):
    """A complex value of its parts."""
    from tandem._tensors.complex import ComplexTensor

    real, imag = _tandem.convert(real), _tandem.convert(imag)
    if real._code != imag._code or not real.dtype.is_floating:
        raise TypeError(f"tf.complex: the real part is {real.dtype.name} and the imaginary part {imag.dtype.name}; both float32 or both float64 are accepted")
    return ComplexTensor(real, imag)


@op
def imag(input, name=None):
    """The imaginary part."""
    return _tandem.zeros_like(_c(input))


# ---- tf.nn ----


@op
def weighted_moments(x, axes, frequency_weights, keepdims=False, name=None):
    """The mean and variance over axes, each element weighed by its frequency."""
    x = _c(x)
    weights = _tandem.broadcast_to(_c(frequency_weights, x._code), x._sizes)
    axes = _ops.reduction._axes(axes)
    total = _tandem.reduce_sum(weights, axes, True)
    mean = _tandem.reduce_sum(x * weights, axes, True) / total
    variance = _tandem.reduce_sum(_tandem.square(x - mean) * weights, axes, True) / total
    return (mean, variance) if keepdims else (_ops.squeeze(mean, axes), _ops.squeeze(variance, axes))


@op
def sufficient_statistics(x, axes, shift=None, keepdims=False, name=None):
    """The count, sum, sum of squares and shift from which moments are computed."""
    x = _c(x)
    axes = _ops.reduction._axes(axes)
    count = float(np.prod([int(x._sizes[a]) for a in (axes if isinstance(axes, (list, builtins.tuple)) else [axes])]))
    moved = x if shift is None else x - shift
    return _c(count), _tandem.reduce_sum(moved, axes, keepdims), _tandem.reduce_sum(moved * moved, axes, keepdims), shift


def _volume(kind):
    @op
    def pool(input, ksize, strides, padding, data_format="NDHWC", name=None):
        from tandem.keras import layers

        three = lambda v: [v] * 3 if isinstance(v, int) else list(v) if len(v) == 3 else list(v)[1:4] if len(v) == 5 else list(v) * 3  # noqa: E731
        return getattr(layers, kind)(three(ksize), three(strides), padding.lower()).call(_c(input))

    return pool


max_pool3d, avg_pool3d = _volume("MaxPooling3D"), _volume("AveragePooling3D")


@op
def conv3d(input, filters, strides, padding, data_format="NDHWC", dilations=None, name=None):
    """Convolves volumes with filters."""
    from tandem.keras import layers

    w = _c(filters)
    layer = layers.Conv3D(int(w._sizes[-1]), [int(s) for s in w._sizes[:3]], builtins.tuple(list(strides)[1:4]) if not isinstance(strides, int) else strides, padding.lower(), dilation_rate=(1, 1, 1) if dilations is None else builtins.tuple(list(dilations)[1:4]), use_bias=False)
    return layer.convolution_op(_c(input), w)


@op
def conv1d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NWC", dilations=None, name=None):
    """The gradient of a one-dimensional convolution with respect to its input."""
    from tandem.keras._convolution import transposed

    stride = strides if isinstance(strides, int) else list(strides)[1] if len(strides) == 3 else list(strides)[0]
    y = transposed(_tandem.expand_dims(input, 1), _tandem.expand_dims(filters, 0), [1, int(stride)], padding.lower(), [1, int(output_shape[1])])
    return _tandem.squeeze(y, [1])


MaxPoolWithArgmax = collections.namedtuple("MaxPoolWithArgmax", "output argmax")


@op
def max_pool_with_argmax(input, ksize, strides, padding, data_format="NHWC", output_dtype="int64", include_batch_in_index=False, name=None):
    """The maximum of each window, and where in its image it stands."""
    from tandem import image, nn

    x = _c(input)
    rows, height, width, channels = (int(s) for s in x._sizes)
    kh, kw = nn._pair(ksize)
    sh, sw = nn._pair(strides)
    # Places travel beside values: a window's place is where its value is the largest.
    places = np.arange(height * width * channels).reshape(1, height, width, channels)
    if include_batch_in_index:
        places = places + np.arange(rows).reshape(-1, 1, 1, 1) * (height * width * channels)
    low = float(_ops.host(np.min, x)) - 1.0
    patch = lambda t: image.extract_patches(t, [1, kh, kw, 1], [1, sh, sw, 1], [1, 1, 1, 1], padding)  # noqa: E731
    values = patch(x - low)
    n, h, w = (int(s) for s in values._sizes[:3])
    best = _tandem.argmax(_tandem.reshape(values, [n, h, w, kh * kw, channels]), 3)
    own = np.asarray(patch(_c(np.broadcast_to(places, x._sizes).astype(np.float64)))).reshape(n, h, w, kh * kw, channels)
    found = np.take_along_axis(own, np.asarray(best)[:, :, :, None, :], 3)[:, :, :, 0]
    return MaxPoolWithArgmax(nn.max_pool2d(x, ksize, strides, padding), _c(found.astype(np.int64)))


def collapse_repeated(labels, seq_length, name=None):
    """Sequences of labels with repeated ones joined, and their new lengths."""
    def collapse(rows, lengths):
        kept = [[v for i, v in enumerate(row[:n]) if i == 0 or v != row[i - 1]] for row, n in zip(rows, lengths)]
        out = np.zeros((len(kept), max(map(len, kept), default=0)), rows.dtype)
        for row, values in zip(out, kept):
            row[: len(values)] = values
        return out, np.array([len(k) for k in kept], lengths.dtype)

    out, lengths = _ops.host(collapse, _c(labels), _c(seq_length))
    return _c(out), _c(lengths)


def _dense_rows(sparse):
    """The rows of a sparse matrix, filled up with zeros, and how long they are."""
    from tandem.sparse import to_dense

    places = np.asarray(sparse.indices.numpy())
    return to_dense(sparse), np.bincount(places[:, 0], minlength=int(sparse.shape[0]))


@op
def ctc_loss(labels, logits, label_length, logit_length, logits_time_major=True, unique=None, blank_index=None, name=None):
    """Graves and others, 2006: the probabilities of all ways to write the labels, summed forward in time, in logarithms."""
    logits = _c(logits)
    if hasattr(labels, "dense_shape"):  # A sparse tensor, whose blank is the last class.
        blank_index = -1 if blank_index is None else blank_index
        labels, label_length = _dense_rows(labels)
    if logits_time_major:
        logits = _tandem.transpose(logits, [1, 0, 2])
    labels = np.asarray(_ops.host(np.asarray, _c(labels))).astype(np.int64)
    lengths, times = (np.asarray(_ops.host(np.asarray, _c(v))).astype(np.int64).reshape(-1) for v in (label_length, logit_length))
    rows, steps, classes = (int(s) for s in logits._sizes)
    blank = classes - 1 if blank_index is None and not logits_time_major else 0 if blank_index is None else int(blank_index) % classes
    states = 2 * labels.shape[1] + 1
    written = np.full((rows, states), blank, np.int64)
    written[:, 1::2] = labels
    never = -1e30
    skips = np.full((rows, states), never, np.float32)
    for s in range(3, states, 2):
        skips[:, s] = np.where(written[:, s] != written[:, s - 2], 0.0, never)
    log = _tandem.log_softmax(logits, -1)
    one_hot = np.eye(classes, dtype=np.float32)[written]
    emitted = _ops.einsum("btc,bsc->bts", log, one_hot)
    start = np.full((rows, states), never, np.float32)
    start[:, : min(2, states)] = 0.0
    alpha = emitted[:, 0] + start
    moved = lambda a, n: _tandem.concat([_tandem.fill((rows, n), never, 0), a[:, : states - n]], 1)  # noqa: E731
    for t in range(1, steps):
        ways = [alpha, moved(alpha, 1)] + ([moved(alpha, 2) + skips] if states > 2 else [])
        forward = _tandem.reduce_logsumexp(_ops.stack(ways, 0), 0, False) + emitted[:, t]
        alpha = _tandem.where(np.broadcast_to((t < times)[:, None], (rows, states)), forward, alpha)
    last = np.full((rows, states), never, np.float32)
    for row, n in enumerate(lengths):
        last[row, 2 * n] = 0.0
        if n:
            last[row, 2 * n - 1] = 0.0
    return -_tandem.reduce_logsumexp(alpha + last, 1, False)


def best_path(inputs, lengths, blank, merge_repeated=True):
    """The likeliest label at each time of [batch, time, classes] on the host, without repetitions and blanks, and the sums of its inputs."""
    paths, sums = [], []
    for row, length in zip(np.asarray(inputs), np.asarray(lengths).ravel()):
        best = row[: int(length)].argmax(-1)
        sums.append(row[np.arange(int(length)), best].sum())
        kept = [v for i, v in enumerate(best.tolist()) if v != blank and not (merge_repeated and i and best[i - 1] == v)]
        paths.append(kept)
    return paths, np.asarray(sums, np.float32)


def ctc_greedy_decoder(inputs, sequence_length, merge_repeated=True, blank_index=None):
    """The likeliest labels of [time, batch, classes], as a sparse tensor in a list, and minus the sums of their logits."""
    from tandem._ops.decoding import sparse_rows

    blank = int(inputs.shape[-1]) - 1 if blank_index is None else int(blank_index) % int(inputs.shape[-1])
    paths, sums = _ops.host(lambda x, n: best_path(np.swapaxes(x, 0, 1), n, blank, merge_repeated), _c(inputs), _c(sequence_length))
    return [sparse_rows(paths)], _c(-sums[:, None])


# ---- tf.image ----


def _by_matrix(matrix):
    """Colours times a matrix, as TensorFlow's own are."""

    @op
    def change(images, name=None):
        return _ops.tensordot(_c(images), _c(np.array(matrix, np.float32)), [[-1], [0]])

    return change


rgb_to_yuv = _by_matrix([[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]])
yuv_to_rgb = _by_matrix([[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]])
rgb_to_yiq = _by_matrix([[0.299, 0.59590059, 0.21153661], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]])
yiq_to_rgb = _by_matrix([[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]])


@op
def image_gradients(image):
    """The differences of neighbouring pixels downwards and to the right."""
    x = _c(image)
    height, width = int(x._sizes[1]), int(x._sizes[2])
    down = _tandem.pad(x[:, 1:] - x[:, : height - 1], [(0, 0), (0, 1), (0, 0), (0, 0)], 0.0)
    right = _tandem.pad(x[:, :, 1:] - x[:, :, : width - 1], [(0, 0), (0, 0), (0, 1), (0, 0)], 0.0)
    return down, right


@op
def crop_and_resize(image, boxes, box_indices, crop_size, method="bilinear", extrapolation_value=0.0, name=None):
    """Each box is a matrix of weights over the rows and one over the columns of its image."""
    x, boxes = _c(image), np.asarray(_ops.host(np.asarray, _c(boxes)), np.float64)
    height, width = int(x._sizes[1]), int(x._sizes[2])
    out_h, out_w = (int(s) for s in np.asarray(crop_size))

    def weights(low, high, size, out):
        places = (low * (size - 1) + np.arange(out) * (high - low) * (size - 1) / (out - 1)) if out > 1 else np.array([0.5 * (low + high) * (size - 1)])
        table = np.zeros((out, size), np.float32)
        inside = (places >= 0) & (places <= size - 1)
        for i, place in enumerate(places):
            if not inside[i]:
                continue
            if method == "nearest":
                table[i, int(np.floor(place + 0.5))] = 1.0
                continue
            top = int(np.floor(place))
            table[i, top] += 1.0 - (place - top)
            table[i, min(top + 1, size - 1)] += place - top
        return table, inside

    rows, columns, masks = [], [], []
    for y1, x1, y2, x2 in boxes:
        (a, in_rows), (b, in_columns) = weights(y1, y2, height, out_h), weights(x1, x2, width, out_w)
        rows.append(a)
        columns.append(b)
        masks.append(in_rows[:, None] & in_columns[None])
    picked = _ops.gather(_tandem.cast(x, 0), box_indices, axis=0)
    y = _ops.einsum("byh,bhwc->bywc", _c(np.stack(rows)), picked)
    y = _ops.einsum("bxw,bywc->byxc", _c(np.stack(columns)), y)
    return _tandem.where(np.broadcast_to(np.stack(masks)[..., None], y._sizes), y, _tandem.fill((), float(extrapolation_value), 0))


def draw_bounding_boxes(images, boxes, colors, name=None):
    """Images with frames drawn around boxes."""
    def draw(pixels, given, palette):
        pixels = pixels.copy()
        palette = np.array([[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1]], np.float32) if palette is None or not np.size(palette) else np.asarray(palette)
        height, width, channels = pixels.shape[1:]
        for image, own in zip(pixels, given):
            for i, (y1, x1, y2, x2) in enumerate(own):
                top, bottom = int(y1 * (height - 1)), int(y2 * (height - 1))
                left, right = int(x1 * (width - 1)), int(x2 * (width - 1))
                color = palette[i % len(palette)][:channels]
                rows, columns = slice(max(top, 0), min(bottom, height - 1) + 1), slice(max(left, 0), min(right, width - 1) + 1)
                for row in (top, bottom):
                    if 0 <= row < height:
                        image[row, columns] = color
                for column in (left, right):
                    if 0 <= column < width:
                        image[rows, column] = color
        return pixels

    return _c(_ops.host(draw, _c(images), _c(boxes), colors))


def non_max_suppression_with_scores(boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=float("-inf"), soft_nms_sigma=0.0, name=None):
    """The boxes that remain when those overlapping a better one are left out or weighed down, and their scores."""
    from tandem import image

    if soft_nms_sigma:
        raise NotImplementedError("tf.image.non_max_suppression_with_scores: soft_nms_sigma is not here")
    kept = image.non_max_suppression(boxes, scores, max_output_size, iou_threshold, score_threshold)
    return kept, _ops.gather(scores, kept)


def non_max_suppression_padded(boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=float("-inf"), pad_to_max_output_size=False, name=None, **kwargs):
    """The boxes that remain when those overlapping a better one are left out, filled up to max_output_size, and their number."""
    from tandem import image

    kept = image.non_max_suppression(boxes, scores, max_output_size, iou_threshold, score_threshold)
    count = int(kept._sizes[0])
    if pad_to_max_output_size:
        kept = _tandem.pad(kept, [(0, int(max_output_size) - count)], 0)
    return kept, _c(np.int32(count))


def combined_non_max_suppression(boxes, scores, max_output_size_per_class, max_total_size, iou_threshold=0.5, score_threshold=float("-inf"), pad_per_class=False, clip_boxes=True, name=None):
    """Non-max suppression for each class of a batch of images, the best of all classes together."""
    from tandem import image

    def combine(all_boxes, all_scores):
        size = int(max_total_size)
        if pad_per_class:
            size = min(size, int(max_output_size_per_class) * all_scores.shape[-1])
        out = [np.zeros((len(all_boxes), size) + tail, np.float32) for tail in ((4,), (), ())]
        valid = np.zeros(len(all_boxes), np.int32)
        for row, (own, marks) in enumerate(zip(all_boxes, all_scores)):
            found = []
            for kind in range(marks.shape[-1]):
                chosen = own[:, min(kind, own.shape[1] - 1)]
                for i in np.asarray(image.non_max_suppression(chosen, np.ascontiguousarray(marks[:, kind]), max_output_size_per_class, iou_threshold, score_threshold)):
                    found.append((marks[i, kind], kind, chosen[i]))
            found.sort(key=lambda f: -f[0])
            valid[row] = min(len(found), size)
            for j, (mark, kind, box) in enumerate(found[:size]):
                out[0][row, j], out[1][row, j], out[2][row, j] = np.clip(box, 0, 1) if clip_boxes else box, mark, kind
        return (*out, valid)

    return builtins.tuple(_c(v) for v in _ops.host(combine, _c(boxes), _c(scores)))

_words.describe(__name__, globals())
