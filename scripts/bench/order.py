# SPDX-License-Identifier: Apache-2.0
"""The order of training samples, as core/data/order.cpp and core/data/tokens/windows.cpp draw it."""

from draws import random_key

MASK = 0xFFFFFFFF


def philox(key, counter):
    """The first word of Philox4x32-10."""
    c, key0, key1 = list(counter), key & MASK, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ key0, b & MASK, a >> 32 ^ c[3] ^ key1, a & MASK]
        key0, key1 = key0 + 0x9E3779B9 & MASK, key1 + 0xBB67AE85 & MASK
    return c[0]


def shuffled(seed, epoch, index, size):
    key, bits = random_key(seed, "shuffle"), (size - 1).bit_length()
    low_bits, value = bits // 2, index
    while True:
        low, high = value & (1 << low_bits) - 1, value >> low_bits
        for turn in range(16 if bits < 10 else 6):
            mixed = philox(key, (low if turn % 2 == 0 else high, turn, epoch, 0))
            if turn % 2 == 0:
                high ^= mixed & (1 << bits - low_bits) - 1
            else:
                low ^= mixed & (1 << low_bits) - 1
        value = high << low_bits | low
        if value < size:
            return value


def batch_of(seed, size, batch, step):
    """The epoch of a step, and its samples of `size`; an epoch's last samples are dropped if they fill no batch."""
    epoch, first = divmod(step, size // batch)
    return epoch, [shuffled(seed, epoch, first * batch + i, size) for i in range(batch)]


def windows_of(seed, tokens, length, batch, step):
    """The first tokens of a step's windows in a stream of this many tokens."""
    size = max(1, (tokens - length) // length)
    epoch, samples = batch_of(seed, size, batch, step)
    most = min(tokens - 1 - size * length, length - 1)
    shift = philox(random_key(seed, "window shift"), (0, 0, epoch, 0)) * (most + 1) >> 32 if most > 0 else 0
    return [shift + sample * length for sample in samples]
