"""Random numbers as TensorFlow draws them: Philox4x32-10, a function of a key and a counter, and distributions over its words."""

import _tandem
from tandem._names.lazy import np

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_WORD = 0xFFFFFFFF
_CHUNK = 1 << 15  # So many blocks at once stay in the processor's cache.


class Sequence:
    """Blocks of four words: those of a key of 64 bits from a counter of 128 bits on."""

    def __init__(self, key, counter):
        self.key, self.counter = key, counter

    @classmethod
    def of_stateless(cls, seed):
        """The sequence of a stateless op with a seed of two numbers, which are mixed."""
        first, second = (int(each) % 2**64 for each in np.asarray(seed).ravel())
        mixed = cls(0x02461E293EC8F720, first | second << 64).blocks(0, 1)[0].tolist()
        return cls(mixed[0] | mixed[1] << 32, (mixed[2] | mixed[3] << 32) << 64)

    @classmethod
    def of_stateful(cls, seed, seed2, position):
        """The sequence of an op that has drawn `position` blocks before, with the two seeds it was made with."""
        return cls(seed % 2**64, ((seed2 % 2**64) << 64) + position)

    def blocks(self, first, count):
        """So many blocks from number `first` on."""
        return _rows(count, 4, np.uint32, lambda numbers: self.at(numbers, first))

    def at(self, offsets, first=0):
        """The blocks at `first` and each of the offsets, an array of uint64."""
        start = (self.counter + first) % 2**128
        low = offsets + np.uint64(start % 2**64)
        high = np.uint64(start >> 64) + (low < offsets).astype(np.uint64)
        word, half = np.uint64(_WORD), np.uint64(32)
        x = [low & word, low >> half, high & word, high >> half]
        multipliers = [np.uint64(m) for m in _MULTIPLIERS]
        key = [self.key & _WORD, self.key >> 32]
        for _ in range(10):
            a, b = x[0] * multipliers[0], x[2] * multipliers[1]
            x = [(b >> half) ^ x[1] ^ np.uint64(key[0]), b & word, (a >> half) ^ x[3] ^ np.uint64(key[1]), a & word]
            key = [(k + w) & _WORD for k, w in zip(key, _WEYL)]
        return np.stack(x, -1).astype(np.uint32)

    def words(self, count):
        """The first words."""
        return self.blocks(0, -(-count // 4)).reshape(-1)[:count]


def _rows(count, width, kind, make):
    """An array of rows, of whose numbers `make` makes some at once."""
    result = np.empty((count, width), kind)
    for begin in range(0, count, _CHUNK):
        end = min(begin + _CHUNK, count)
        result[begin:end] = make(np.arange(begin, end, dtype=np.uint64))
    return result


# ---- Numbers of words ----


def _count(shape):
    return int(np.prod(shape, dtype=np.int64))


def _unit(words):
    """Numbers in [0, 1) of 23 bits of each word."""
    return ((words & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)


def _wide_unit(pairs):
    """Numbers in [0, 1) of 52 bits of two words."""
    bits = (pairs[..., 0].astype(np.uint64) & np.uint64(0xFFFFF)) << np.uint64(32) | pairs[..., 1].astype(np.uint64)
    return (bits | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.0


def uniform(sequence, shape, dtype):
    """Numbers in [0, 1)."""
    count = _count(shape)
    if dtype.name == "float64":
        found = _rows(-(-count // 2), 2, np.float64, lambda at: _wide_unit(sequence.at(at).reshape(-1, 2, 2)))
    elif dtype.name == "float32":
        found = _rows(-(-count // 4), 4, np.float32, lambda at: _unit(sequence.at(at)))
    else:
        bits = 10 if dtype.name == "float16" else 7  # Of bfloat16.
        found = _rows(-(-count // 4), 4, np.float32, lambda at: (sequence.at(at) & np.uint32(2**bits - 1)) / np.float32(2**bits))
    return found.reshape(-1)[:count].reshape(shape)


def integers(sequence, shape, low, high, dtype):
    """Integers from `low` up to but without `high`; where `low` is None, of all that the dtype has."""
    kind = np.dtype(dtype.as_numpy_dtype)
    wide = kind.itemsize == 8
    if wide:
        pairs = sequence.words(2 * _count(shape)).reshape(-1, 2).astype(np.uint64)
        words = (pairs[:, 0] | pairs[:, 1] << np.uint64(32)).reshape(shape)
    else:
        words = sequence.words(_count(shape)).reshape(shape)
    if low is None:
        return words.astype(kind)
    unsigned = words.dtype.type
    bits = 64 if wide else 32
    return (words % unsigned((high - low) % 2**bits) + unsigned(low % 2**bits)).astype(kind)


def _normal_of(words, double):
    """Normal numbers of rows of words, by Box and Muller: as many as there are words, in double precision half of them."""
    pairs = words.reshape(len(words), -1, 2)
    u, v = (_wide_unit(pairs[:, 0::2]), _wide_unit(pairs[:, 1::2])) if double else (_unit(pairs[..., 0]), _unit(pairs[..., 1]))
    kind = u.dtype.type
    radius = np.sqrt(kind(-2) * np.log(np.maximum(u, kind(1e-7))))
    angle = kind(2 * np.pi) * v
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], -1).reshape(len(words), -1)


def normal(sequence, shape, dtype):
    """Normal numbers."""
    double, count = dtype.name == "float64", _count(shape)
    width, kind = (2, np.float64) if double else (4, np.float32)
    found = _rows(-(-count // width), width, kind, lambda at: _normal_of(sequence.at(at), double))
    return found.reshape(-1)[:count].reshape(shape)


def truncated_normal(sequence, shape, dtype):
    """Normal numbers whose absolute values are below 2. Each four of them (two in double precision) have words of their own, of
    which they take as many as they need."""
    double, count = dtype.name == "float64", _count(shape)
    size, kind = (2, np.float64) if double else (4, np.float32)
    found = _rows(-(-count // size), size, kind, lambda groups: _truncated(sequence, groups, size, kind))
    return found.reshape(-1)[:count].reshape(shape)


def _truncated(sequence, groups, size, kind):
    result = np.empty((len(groups), size), kind)
    left, tried = np.arange(len(groups)), 1  # At first as many words as most of them need.
    while len(left):
        offsets = groups[left] * np.uint64(64 * size)
        words = np.concatenate([sequence.at(offsets, k) for k in range(tried)], 1)
        numbers = _normal_of(words, kind is np.float64)
        inside = np.abs(numbers) < 2
        enough = inside.sum(1) >= size
        if numbers.shape[1] == size:
            result[left[enough]] = numbers[enough]
        else:
            chosen = np.argsort(~inside, axis=1, kind="stable")[:, :size]
            result[left[enough]] = np.take_along_axis(numbers, chosen, 1)[enough]
        left, tried = left[~enough], 3 * tried
    return result


def permutation(sequence, count):
    """The numbers up to `count` in a random order."""
    words = sequence.words(max(count - 1, 0)).tolist()
    order = list(range(count))
    for at, word in enumerate(words):
        other = at + word % (count - at)
        order[at], order[other] = order[other], order[at]
    return np.asarray(order, np.int64)


def classes(sequence, logits, count):
    """For each row of logits so many classes, drawn by their unnormalized logarithmic probabilities."""
    drawn = _wide_unit(sequence.words(2 * len(logits) * count).reshape(len(logits), count, 2))
    found = np.empty((len(logits), count), np.int64)
    for row, each, numbers in zip(found, logits, drawn):
        finite = np.isfinite(each)
        sums = np.cumsum(np.where(finite, np.exp(each - each[finite].max(initial=-np.inf)), 0.0))
        row[:] = np.searchsorted(sums, numbers * sums[-1], side="right")
    return found


# ---- Seeds ----


class _Seeds:
    """The seed of all ops, and how far each op with a seed of its own has drawn."""

    def __init__(self):
        self.set(None)

    def set(self, seed):
        import random

        self.seed, self.own, self.positions = seed, random.Random(seed), {}

    def pair(self, seed):
        """The two seeds of an op; None where nothing decides them."""
        if self.seed is None:
            return None if seed is None else (87654321, int(seed))
        pair = self.seed % 2**31, int(self.own.randint(0, 2**31 - 1) if seed is None else seed) % 2**31
        return (0, 2**31 - 1) if pair == (0, 0) else pair


seeds = _Seeds()


def of_op(name, seed, blocks):
    """The sequence that TensorFlow's op of this name draws from, which reserves so many blocks; None where no seed decides it."""
    pair = seeds.pair(seed)
    if pair is None:
        return None
    place = name, *pair
    position = seeds.positions.get(place, 0)
    seeds.positions[place] = position + blocks
    return Sequence.of_stateful(*pair, position)


def tensor(array, dtype):
    """The tensor of an array of drawn numbers."""
    return _tandem.convert(np.asarray(array, order="C"), dtype._code)
