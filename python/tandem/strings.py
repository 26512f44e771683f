"""Strings, tf.strings: arrays of bytes on the host, for names of files, labels and the like. No op computes with them."""

import builtins
import functools
import re

import numpy as np

import _tandem
from tandem import dtypes
from tandem._names import missing as _missing
from tandem._tensors.shape import TensorShape
from tandem._tensors.tensor import _own_lines


def _encoded(value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, np.str_):
        return str(value).encode()
    return value


class StringTensor:
    """A tensor of strings."""

    _is_text_tensor = True
    dtype = dtypes.string
    __array_priority__ = 100

    def __init__(self, value):
        if isinstance(value, StringTensor):
            self._array = value._array
            return
        array = np.asarray(value, dtype=object) if not isinstance(value, (str, bytes)) else np.array(value, dtype=object)
        self._array = np.empty(array.shape, dtype=object)
        for place in np.ndindex(array.shape):
            entry = array[place]
            self._array[place] = _encoded(entry.numpy() if hasattr(entry, "numpy") else entry)

    @property
    def shape(self):
        return TensorShape(self._array.shape)

    ndim = property(lambda self: self._array.ndim)

    def get_shape(self):
        return self.shape

    def set_shape(self, shape):
        pass

    def __format__(self, spec):
        return self.numpy().__format__(spec)

    def numpy(self):
        return self._array if self._array.ndim else self._array[()]

    def tolist(self):
        return self._array.tolist()

    def _gather(self, indices):
        return StringTensor(self._array[np.asarray(indices)])

    def __getitem__(self, key):
        if hasattr(key, "numpy"):
            key = key.numpy()
        return StringTensor(self._array[key])

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        return (StringTensor(each) for each in self._array)

    def __eq__(self, other):
        return _tandem.convert(np.asarray(self._array == _plain(other), bool))

    def __ne__(self, other):
        return _tandem.convert(np.asarray(self._array != _plain(other), bool))

    def __add__(self, other):
        return join([self, other])

    def __radd__(self, other):
        return join([other, self])

    def __hash__(self):
        return id(self)

    def __array__(self, dtype=None, copy=None):
        return self._array

    def __str__(self):
        if not self.ndim:
            return f"tf.Tensor({self.numpy()!r}, shape={self.shape}, dtype=string)"
        text = str(self._array)
        return f"tf.Tensor({_own_lines(text)}, shape={self.shape}, dtype=string)"

    def __repr__(self):
        return f"<tf.Tensor: shape={self.shape}, dtype=string, numpy={_own_lines(repr(self.numpy()))}>"

    def __fspath__(self):
        return self.numpy().decode()

    def decode(self, *args):
        return self.numpy().decode(*args)

    def to_tensor(self, default_value="", shape=None, name=None):
        return self


def _plain(value):
    return value._array if isinstance(value, StringTensor) else _encoded(value) if isinstance(value, (str, bytes)) else StringTensor(value)._array


def _of_rows(f):
    """The function, which of ragged texts takes those in the rows."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        first = args[0] if args else kwargs.get("input")
        if not hasattr(first, "_ragged_rows"):
            return f(*args, **kwargs)
        if args:
            return first.with_flat_values(f(first.flat_values, *args[1:], **kwargs))
        return first.with_flat_values(f(**{**kwargs, "input": first.flat_values}))

    return call


def _each(f, value, *others):
    array = StringTensor(value)._array
    out = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        out[place] = f(array[place])
    return out


@_of_rows
def lower(input, encoding="", name=None):
    """Texts in small letters."""
    return StringTensor(_each(lambda s: s.decode("utf-8", "replace").lower().encode() if encoding else s.lower(), input))


@_of_rows
def upper(input, encoding="", name=None):
    """Texts in capital letters."""
    return StringTensor(_each(lambda s: s.upper(), input))


@_of_rows
def strip(input, name=None):
    """Texts without blanks around them."""
    return StringTensor(_each(lambda s: s.strip(), input))


@_of_rows
def length(input, unit="BYTE", name=None):
    """The number of bytes or characters of texts."""
    return _tandem.convert(_each(lambda s: len(s if unit == "BYTE" else s.decode()), input).astype(np.int32))


@_of_rows
def regex_replace(input, pattern, rewrite, replace_global=True, name=None):
    """Texts with what a pattern matches replaced."""
    expression = re.compile(_encoded(pattern))
    text = re.sub(rb"\\(\d)", rb"\\g<\1>", _encoded(rewrite))
    return StringTensor(_each(lambda s: expression.sub(text, s, count=0 if replace_global else 1), input))


@_of_rows
def regex_full_match(input, pattern, name=None):
    """True for texts that a pattern matches as a whole."""
    expression = re.compile(_encoded(pattern))
    return _tandem.convert(_each(lambda s: expression.fullmatch(s) is not None, input).astype(bool))


@_of_rows
def substr(input, pos, len, unit="BYTE", name=None):
    """The parts of texts that begin at a place and have a length, in bytes or in characters."""
    size = builtins.len

    def part(s, pos, count):
        whole = s.decode("utf-8", "replace") if unit == "UTF8_CHAR" else s
        pos = pos + size(whole) if pos < 0 else pos
        found = whole[pos : pos + count]
        return found.encode() if isinstance(found, str) else found

    texts, starts, counts = np.broadcast_arrays(StringTensor(input)._array, np.asarray(pos), np.asarray(len))
    out = np.empty(texts.shape, dtype=object)
    for place in np.ndindex(out.shape):
        out[place] = part(texts[place], int(starts[place]), int(counts[place]))
    return StringTensor(out)


def join(inputs, separator="", name=None):
    """The texts of several tensors, joined element by element."""
    ragged = next((each for each in inputs if hasattr(each, "_ragged_rows")), None)
    if ragged is not None:
        beside = [each.flat_values if hasattr(each, "_ragged_rows") else each for each in inputs]
        return ragged.with_flat_values(join(beside, separator))
    arrays = np.broadcast_arrays(*[StringTensor(i)._array for i in inputs])
    out = np.empty(arrays[0].shape, dtype=object)
    for place in np.ndindex(out.shape):
        out[place] = _encoded(separator).join(a[place] for a in arrays)
    return StringTensor(out)


def reduce_join(inputs, axis=None, keepdims=False, separator="", name=None):
    """The texts along an axis, joined."""
    if hasattr(inputs, "_ragged_rows"):
        return StringTensor([_encoded(separator).join(row._array) for row in inputs])
    array = StringTensor(inputs)._array
    if axis is None:
        return StringTensor(_encoded(separator).join(array.ravel()))
    moved = np.moveaxis(array, axis, -1)
    out = np.empty(moved.shape[:-1], dtype=object)
    for place in np.ndindex(out.shape):
        out[place] = _encoded(separator).join(moved[place])
    return StringTensor(np.expand_dims(out, axis) if keepdims else out)


@_of_rows
def split(input, sep=None, maxsplit=-1, name=None):
    """The parts of texts between separators, as ragged rows."""
    text = StringTensor(input)
    if text.ndim == 0:
        return StringTensor(text.numpy().split(None if sep is None else _encoded(sep), maxsplit))
    return _rows_of(_each(lambda s: s.split(None if sep is None else _encoded(sep), maxsplit), text).tolist())


def _rows_of(rows):
    """Lists of texts: a tensor where they have the same length, else ragged."""
    from tandem import ragged

    return ragged.constant(rows, dtypes.string) if len({len(row) for row in rows}) != 1 else StringTensor(rows)


@_of_rows
def to_number(input, out_type=dtypes.float32, name=None):
    """The numbers that texts say."""
    return _tandem.convert(_each(float, input).astype(np.float64), dtypes.code_of(out_type))


def as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill="", name=None):
    """Numbers as texts."""
    _need_values([input])
    array = np.asarray(input)
    kind = "e" if scientific else "g" if shortest else "f"
    plain = (lambda v: f"{v:.{precision}{kind}}") if precision >= 0 else (lambda v: f"{v:{kind}}") if scientific or shortest else str

    def text(v):
        if isinstance(v, bool):
            return "true" if v else "false"
        written = plain(v) if isinstance(v, float) else str(v)
        if width <= 0:
            return written
        return written.zfill(width) if fill == "0" else written.ljust(width) if fill == "-" else written.rjust(width)

    return StringTensor(np.array([text(v) for v in array.ravel().tolist()], dtype=object).reshape(array.shape))


def format(template, inputs, placeholder="{}", summarize=3, name=None):
    """A text with tensors in the place of each placeholder."""
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    _need_values(inputs)
    parts = template.split(placeholder)
    if len(parts) != len(inputs) + 1:
        raise ValueError(f"{len(parts) - 1} placeholder(s) in template does not match {len(inputs)} tensor(s) provided as input")
    written = [_plain(i).decode() if isinstance(i, (str, bytes)) else str(np.asarray(i)) for i in inputs]
    return StringTensor("".join(part + text for part, text in zip(parts, [*written, ""])))


def _need_values(tensors):
    """Texts are on the host: a function that makes some of tensors runs op by op."""
    if any(getattr(each, "_is_symbolic", False) for each in tensors):
        from tandem._tracing.function import GiveUpTrace

        raise GiveUpTrace("texts are made on the host")


@_of_rows
def unicode_split(input, input_encoding="UTF-8", errors="replace", name=None):
    """The characters of texts, as ragged rows."""
    rows = StringTensor(input)
    if not rows.ndim:
        return StringTensor(list(rows.numpy().decode()))
    return _rows_of(_each(lambda s: [letter.encode() for letter in s.decode()], rows).tolist())


@_of_rows
def bytes_split(input, name=None):
    """The bytes of texts, as ragged rows."""
    rows = StringTensor(input)
    letters = lambda s: [s[i : i + 1] for i in range(len(s))]  # noqa: E731
    return _rows_of(_each(letters, rows).tolist()) if rows.ndim else StringTensor(letters(rows.numpy()))


@_of_rows
def to_hash_bucket_fast(input, num_buckets, name=None):
    """Bins of texts by FarmHash's fingerprints, as in TensorFlow."""
    from tandem._ops.fingerprint import fingerprint

    return _tandem.convert(_each(lambda s: fingerprint(s) % num_buckets, input).astype(np.int64))


to_hash_bucket = to_hash_bucket_fast


@_of_rows
def to_hash_bucket_strong(input, num_buckets, key, name=None):
    """Bins of texts by SipHash's fingerprints under a key of two numbers, as in TensorFlow."""
    from tandem._ops.fingerprint import keyed_fingerprint

    if len(key) != 2:
        raise ValueError(f"tf.strings.to_hash_bucket_strong: key has two numbers. Received: {key}")
    return _tandem.convert(_each(lambda s: keyed_fingerprint(s, key) % num_buckets, input).astype(np.int64))


@_of_rows
def unicode_decode(input, input_encoding, errors="replace", replacement_char=65533, replace_control_characters=False, name=None):
    """The numbers of the letters of texts, by rows."""
    numbers = lambda s: [ord(letter) for letter in s.decode(input_encoding, errors)]  # noqa: E731
    rows = StringTensor(input)
    if not rows.ndim:
        return _tandem.convert(np.asarray(numbers(rows.numpy()), np.int32))
    from tandem import ragged

    return ragged.constant(_each(numbers, rows).tolist(), dtypes.int32)


def unicode_encode(input, output_encoding, errors="replace", replacement_char=65533, name=None):
    """Texts of the numbers of their letters."""
    written = lambda numbers: "".join(map(chr, numbers)).encode(output_encoding.lower().replace("-", "_") if output_encoding != "UTF-16-BE" else "utf_16_be")  # noqa: E731
    if hasattr(input, "_ragged_rows"):
        return StringTensor([written(np.asarray(row).tolist()) for row in input])
    array = np.asarray(input)
    out = np.empty(array.shape[:-1], dtype=object)
    for place in np.ndindex(out.shape):
        out[place] = written(array[place].tolist())
    return StringTensor(out)


@_of_rows
def unicode_transcode(input, input_encoding, output_encoding, errors="replace", replacement_char=65533, replace_control_characters=False, name=None):
    """Texts in another encoding; what cannot be read is replaced, or left out with errors="ignore"."""

    def transcoded(text):
        if errors == "strict":
            letters = text.decode(_codec(input_encoding))
        else:
            letters = text.decode(_codec(input_encoding), errors).replace("\ufffd", chr(replacement_char))
        if replace_control_characters:
            letters = "".join(chr(replacement_char) if ord(letter) < 32 or 127 <= ord(letter) < 160 else letter for letter in letters)
        return letters.encode(_codec(output_encoding))

    return StringTensor(_each(transcoded, input))


def _codec(encoding):
    return {"UTF-16-BE": "utf_16_be", "UTF-32-BE": "utf_32_be"}.get(encoding, encoding)


def _offsets(input, input_encoding):
    """Where each letter of texts begins, in bytes."""
    def places(text):
        sizes = [builtins.len(letter.encode(_codec(input_encoding))) for letter in text.decode(_codec(input_encoding), "replace")]
        return np.cumsum([0, *sizes])[:-1].tolist() if sizes else []

    rows = StringTensor(input)
    if not rows.ndim:
        return _tandem.convert(np.asarray(places(rows.numpy()), np.int64))
    from tandem import ragged

    return ragged.constant(_each(places, rows).tolist(), dtypes.int64)


def unicode_decode_with_offsets(input, input_encoding, errors="replace", replacement_char=65533, replace_control_characters=False, name=None):
    """The numbers of the letters of texts, and where each begins in bytes."""
    return unicode_decode(input, _codec(input_encoding), errors), _offsets(input, input_encoding)


def unicode_split_with_offsets(input, input_encoding, errors="replace", replacement_char=65533, name=None):
    """The letters of texts, and where each begins in bytes."""
    return unicode_split(input, input_encoding, errors), _offsets(input, input_encoding)


def unsorted_segment_join(inputs, segment_ids, num_segments, separator="", name=None):
    """The texts that have one number, joined."""
    texts, ids = StringTensor(inputs)._array.ravel(), np.asarray(segment_ids).ravel()
    return StringTensor([_encoded(separator).join(texts[ids == i]) for i in range(int(num_segments))])


def unicode_script(input, name=None):
    """The number of the script that each code point belongs to."""
    raise NotImplementedError("tf.strings.unicode_script: tandem has no table of scripts")


def ngrams(data, ngram_width, separator=" ", pad_values=None, padding_width=None, preserve_short_sequences=False, name=None):
    """Neighbours in rows, joined; `ngram_width` of them, or as many as each of the widths."""
    widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
    left, right = (pad_values if isinstance(pad_values, (tuple, list)) else (pad_values, pad_values)) if pad_values is not None else (None, None)

    def grams(row):
        found = []
        for width in widths:
            count = 0 if left is None else width - 1 if padding_width is None else min(padding_width, width - 1)
            padded = [_encoded(left)] * count + list(row) + [_encoded(right)] * count
            found += [_encoded(separator).join(padded[i : i + width]) for i in range(len(padded) - width + 1)]
        if not found and preserve_short_sequences and len(row):
            found = [_encoded(separator).join(row)]
        return found

    if hasattr(data, "_ragged_rows"):
        return _rows_of([grams(row.numpy().tolist()) for row in data])
    array = StringTensor(data)._array
    return StringTensor(np.array(grams(array.tolist()) + [None], dtype=object)[:-1]) if array.ndim == 1 else StringTensor([grams(row.tolist()) for row in array])


# ---- Ops that only move elements, by their names: what they are for texts ----


def _array(value):
    return StringTensor(value)._array


def _number(value):
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _unique(x, out_idx=dtypes.int32, name=None):
    place, found, index = {}, [], []
    for each in _array(x).tolist():
        if each not in place:
            place[each] = len(found)
            found.append(each)
        index.append(place[each])
    return StringTensor(found), _tandem.convert(np.asarray(index), dtypes.code_of(out_idx))


def _unique_with_counts(x, out_idx=dtypes.int32, name=None):
    found, index = _unique(x, out_idx)
    return found, index, _tandem.convert(np.bincount(index.numpy(), minlength=len(found)), dtypes.code_of(out_idx))


def _split_rows(value, num_or_size_splits, axis=0, num=None, name=None):
    cut = int(num_or_size_splits) if np.ndim(num_or_size_splits) == 0 else np.cumsum(_number(num_or_size_splits))[:-1]
    return [StringTensor(part) for part in np.split(_array(value), cut, axis)]


def _padded(tensor, paddings, mode="CONSTANT", constant_values="", name=None):
    array, pads = _array(tensor), _number(paddings)
    out = np.full([n + a + b for n, (a, b) in zip(array.shape, pads)], _encoded(constant_values), dtype=object)
    out[tuple(slice(a, a + n) for n, (a, _) in zip(array.shape, pads))] = array
    return StringTensor(out)


def _one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    places = _number(indices)[..., None] == np.arange(int(depth))
    chosen = np.where(places, np.array(_plain(on_value), object), np.array(_plain(off_value), object))
    return StringTensor(chosen if axis is None else np.moveaxis(chosen, -1, axis))


MOVES = {
    "size": lambda input, out_type=dtypes.int32, name=None: _tandem.convert(_array(input).size, dtypes.code_of(out_type)),
    "rank": lambda input, name=None: _tandem.convert(_array(input).ndim),
    "equal": lambda x, y, name=None: StringTensor(x) == y,
    "not_equal": lambda x, y, name=None: StringTensor(x) != y,
    "identity": lambda input, name=None: StringTensor(input),
    "stop_gradient": lambda input, name=None: StringTensor(input),
    "fill": lambda dims, value, name=None: StringTensor(np.full(tuple(_number(dims)), _encoded(value), dtype=object)),
    "broadcast_to": lambda input, shape, name=None: StringTensor(np.broadcast_to(_array(input), tuple(_number(shape)))),
    "zeros_like": lambda input, dtype=None, name=None, layout=None: StringTensor(np.full(_array(input).shape, b"", dtype=object)),
    "tile": lambda input, multiples, name=None: StringTensor(np.tile(_array(input), tuple(_number(multiples)))),
    "transpose": lambda a, perm=None, conjugate=False, name=None: StringTensor(np.transpose(_array(a), perm)),
    "repeat": lambda input, repeats, axis=None, name=None: StringTensor(np.repeat(_array(input), _number(repeats), axis)),
    "reverse": lambda tensor, axis, name=None: StringTensor(np.flip(_array(tensor), tuple(_number(axis)))),
    "roll": lambda input, shift, axis, name=None: StringTensor(np.roll(_array(input), _number(shift), _number(axis))),
    "slice": lambda input_, begin, size, name=None: StringTensor(_array(input_)[tuple(slice(b, None if n == -1 else b + n) for b, n in zip(_number(begin).tolist(), _number(size).tolist()))]),
    "boolean_mask": lambda tensor, mask, axis=None, name=None: StringTensor(_array(tensor)[_number(mask)]),
    "where": lambda condition, x=None, y=None, name=None: StringTensor(np.where(_number(condition), _array(x), _array(y))),
    "unstack": lambda value, num=None, axis=0, name=None: [StringTensor(part) for part in np.moveaxis(_array(value), axis, 0)],
    "concat": lambda values, axis, name=None: StringTensor(np.concatenate([_array(v) for v in values], int(axis))),
    "stack": lambda values, axis=0, name=None: StringTensor(np.stack([_array(v) for v in values], axis)),
    "split": _split_rows, "pad": _padded, "unique": _unique, "unique_with_counts": _unique_with_counts, "one_hot": _one_hot,
}


_missing.install(__name__, globals())
