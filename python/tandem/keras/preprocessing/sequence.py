"""Sequences of numbers, keras.preprocessing.sequence."""

import numpy as np

from tandem.keras.utils import PyDataset, pad_sequences  # noqa: F401


class TimeseriesGenerator(PyDataset):
    """Windows of a series and what follows them, batch by batch."""

    def __init__(self, data, targets, length, sampling_rate=1, stride=1, start_index=0, end_index=None, shuffle=False, reverse=False, batch_size=128):
        super().__init__()
        if len(data) != len(targets):
            raise ValueError(f"Data and targets have to be of same length. Data length is {len(data)} while target length is {len(targets)}")
        self.data, self.targets, self.length = data, targets, length
        self.sampling_rate, self.stride, self.shuffle, self.reverse, self.batch_size = sampling_rate, stride, shuffle, reverse, batch_size
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        if self.start_index > self.end_index:
            raise ValueError(f"`start_index+length={self.start_index} > end_index={self.end_index}` is disallowed, as no part of the sequence would be left to be used as current step.")

    def __len__(self):
        return (self.end_index - self.start_index + self.batch_size * self.stride) // (self.batch_size * self.stride)

    def __getitem__(self, index):
        if self.shuffle:
            rows = np.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            first = self.start_index + self.batch_size * self.stride * index
            rows = np.arange(first, min(first + self.batch_size * self.stride, self.end_index + 1), self.stride)
        samples = np.array([self.data[row - self.length : row : self.sampling_rate] for row in rows])
        targets = np.array([self.targets[row] for row in rows])
        return (samples[:, ::-1, ...] if self.reverse else samples), targets


def make_sampling_table(size, sampling_factor=1e-5):
    """The probabilities with which words are kept, by how common they are."""
    gamma = 0.577
    rank = np.arange(size)
    rank[0] = 1
    frequencies = sampling_factor * (rank * (np.log(rank) + gamma) + 0.5 - 1.0 / (12.0 * rank))
    return np.minimum(1.0, frequencies / np.sqrt(frequencies))


def skipgrams(sequence, vocabulary_size, window_size=4, negative_samples=1.0, shuffle=True, categorical=False, sampling_table=None, seed=None):
    """Pairs of words that stand near each other, and pairs drawn by chance."""
    import random

    couples, labels = [], []
    for i, word in enumerate(sequence):
        if not word or (sampling_table is not None and sampling_table[word] < random.random()):
            continue
        for j in range(max(0, i - window_size), min(len(sequence), i + window_size + 1)):
            if j != i and sequence[j]:
                couples.append([word, sequence[j]])
                labels.append([0, 1] if categorical else 1)
    if negative_samples > 0:
        words = [c[0] for c in couples]
        random.shuffle(words)
        couples += [[words[i % len(words)], random.randint(1, vocabulary_size - 1)] for i in range(int(len(labels) * negative_samples))]
        labels += [[1, 0] if categorical else 0] * int(len(labels) * negative_samples)
    if shuffle:
        seed = random.randint(0, 10**6) if seed is None else seed
        for values in (couples, labels):
            random.Random(seed).shuffle(values)
    return couples, labels

__all__ = [  # Written by scripts/exported-names.py.
    "PyDataset", "TimeseriesGenerator", "make_sampling_table", "pad_sequences", "skipgrams",
]
