"""FarmHash's fingerprints of texts (Pike and Alakuijala, 2014), with which TensorFlow puts texts into bins, and
SipHash's (Aumasson and Bernstein, 2012), which depend on a key."""

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


def _spread(piece, a, b):
    """Two words of 32 bytes and two seeds."""
    w, x, y, z = (int.from_bytes(piece[at : at + 8], "little") for at in (0, 8, 16, 24))
    a = (a + w) & _WORD
    b = _turn((b + a + z) & _WORD, 21)
    total = (a + x + y) & _WORD
    return (total + z) & _WORD, (b + _turn(total, 44) + a) & _WORD


def _round(block, x, y, z, v, w, factor, last):
    """What 64 bytes more make of the seven words of state; the last ones weigh more."""
    word = lambda at: int.from_bytes(block[at : at + 8], "little")  # noqa: E731
    weight = 9 if last else 1
    x = (_turn((x + y + v[0] + word(8)) & _WORD, 37) * factor) & _WORD
    y = (_turn((y + v[1] + word(48)) & _WORD, 42) * factor) & _WORD
    x ^= (w[1] * weight) & _WORD
    y = (y + v[0] * weight + word(40)) & _WORD
    z = (_turn((z + w[0]) & _WORD, 33) * factor) & _WORD
    v = _spread(block[:32], (v[1] * factor) & _WORD, (x + w[0]) & _WORD)
    w = _spread(block[32:], (z + w[1]) & _WORD, (y + word(16)) & _WORD)
    return z, y, x, v, w


def _long_fingerprint(text):
    seed, n = 81, len(text)
    y = (seed * _K1 + 113) & _WORD
    z = (_mix((y * _K2 + 113) & _WORD) * _K2) & _WORD
    x = (seed * _K2 + int.from_bytes(text[:8], "little")) & _WORD
    v = w = (0, 0)
    for at in range(0, (n - 1) // 64 * 64, 64):
        x, y, z, v, w = _round(text[at : at + 64], x, y, z, v, w, _K1, False)
    factor = (_K1 + ((z & 0xFF) << 1)) & _WORD
    w = ((w[0] + ((n - 1) & 63)) & _WORD, w[1])
    v = ((v[0] + w[0]) & _WORD, v[1])
    w = ((w[0] + v[0]) & _WORD, w[1])
    x, y, z, v, w = _round(text[-64:], x, y, z, v, w, factor, True)
    first = (_pair(v[0], w[0], factor) + _mix(y) * _K0 + z) & _WORD
    return _pair(first, (_pair(v[1], w[1], factor) + x) & _WORD, factor)


def fingerprint(text):
    """64 bits of a text's bytes."""
    n = len(text)
    if n > 64:
        return _long_fingerprint(text)
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


def cross(numbers, start=None):
    """64 bits of several numbers, as crosses of features have them."""
    total = _CROSS_START if start is None else start
    for number in numbers:
        total = total ^ _CROSS ^ ((_mix(((number & _WORD) * _CROSS) & _WORD) * _CROSS) & _WORD)
        total = (_mix((total * _CROSS) & _WORD) * _CROSS) & _WORD
        total = _mix(total)
    return total


def _sip_round(a, b, c, d):
    a = (a + b) & _WORD
    c = (c + d) & _WORD
    b = ((b << 13 | b >> 51) & _WORD) ^ a
    d = ((d << 16 | d >> 48) & _WORD) ^ c
    a = (a << 32 | a >> 32) & _WORD
    c = (c + b) & _WORD
    a = (a + d) & _WORD
    b = ((b << 17 | b >> 47) & _WORD) ^ c
    d = ((d << 21 | d >> 43) & _WORD) ^ a
    return a, b, (c << 32 | c >> 32) & _WORD, d


def keyed_fingerprint(text, key):
    """64 bits of a text's bytes and of a key, which is two numbers of 64 bits."""
    low, high = (int(k) & _WORD for k in key)
    state = (low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573)
    whole = len(text) // 8 * 8
    words = [int.from_bytes(text[at : at + 8], "little") for at in range(0, whole, 8)]
    for word in [*words, int.from_bytes(text[whole:], "little") | (len(text) & 0xFF) << 56]:
        a, b, c, d = _sip_round(*_sip_round(state[0], state[1], state[2], state[3] ^ word))
        state = (a ^ word, b, c, d)
    a, b, c, d = state
    c ^= 0xFF
    for _ in range(4):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d
