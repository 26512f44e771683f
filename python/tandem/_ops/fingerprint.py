"""FarmHash's fingerprints of texts (Pike and Alakuijala, 2014), with which TensorFlow puts texts into bins."""

_WORD = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_CROSS, _CROSS_START = 0xC6A4A7935BD1E995, 0xDECAFCAFFE


def _turn(value, by):
    return ((value >> by) | (value << (64 - by))) & _WORD


def _mix(value):
    return value ^ (value >> 47)


def _pair(u, v, factor):
    a = _mix(((u ^ v) * factor) & _WORD)
    return (_mix(((v ^ a) * factor) & _WORD) * factor) & _WORD


def fingerprint(text):
    """64 bits of up to 64 bytes; of longer texts those of their pieces, one after another, which is this module's own."""
    n = len(text)
    if n > 64:
        total = n
        for at in range(0, n, 64):
            total = cross([total, fingerprint(text[at : at + 64])])
        return total
    word = lambda at, size=8: int.from_bytes(text[at : at + size], "little")  # noqa: E731
    if n == 0:
        return _K2
    if n < 4:
        return (_mix((((text[0] + (text[n >> 1] << 8)) * _K2) & _WORD) ^ (((n + (text[-1] << 2)) * _K0) & _WORD)) * _K2) & _WORD
    factor = (_K2 + 2 * n) & _WORD
    if n < 8:
        return _pair((n + (word(0, 4) << 3)) & _WORD, word(n - 4, 4), factor)
    if n <= 16:
        a, b = (word(0) + _K2) & _WORD, word(n - 8)
        return _pair((_turn(b, 37) * factor + a) & _WORD, ((_turn(a, 25) + b) * factor) & _WORD, factor)
    a, b = (word(0) * (_K1 if n <= 32 else _K2)) & _WORD, word(8)
    c, d = (word(n - 8) * factor) & _WORD, (word(n - 16) * _K2) & _WORD
    y = (_turn((a + b) & _WORD, 43) + _turn(c, 30) + d) & _WORD
    z = _pair(y, (a + _turn((b + _K2) & _WORD, 18) + c) & _WORD, factor)
    if n <= 32:
        return z
    e, f = (word(16) * factor) & _WORD, word(24)
    g, h = ((y + word(n - 32)) * factor) & _WORD, ((z + word(n - 24)) * factor) & _WORD
    return _pair((_turn((e + f) & _WORD, 43) + _turn(g, 30) + h) & _WORD, (e + _turn((f + a) & _WORD, 18) + g) & _WORD, factor)


def cross(numbers):
    """64 bits of several numbers, as crosses of features have them."""
    total = _CROSS_START
    for number in numbers:
        total = total ^ _CROSS ^ ((_mix(((number & _WORD) * _CROSS) & _WORD) * _CROSS) & _WORD)
        total = (_mix((total * _CROSS) & _WORD) * _CROSS) & _WORD
        total = _mix(total)
    return total
