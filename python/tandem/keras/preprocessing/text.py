"""Texts as numbers, keras.preprocessing.text."""

import collections
import hashlib
import json

import numpy as np

_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def text_to_word_sequence(input_text, filters=_FILTERS, lower=True, split=" "):
    """The words of a text."""
    text = input_text.lower() if lower else input_text
    return [w for w in text.translate(str.maketrans({c: split for c in filters})).split(split) if w]


def hashing_trick(text, n, hash_function=None, filters=_FILTERS, lower=True, split=" ", analyzer=None):
    """The words of a text as numbers by a hash."""
    hashed = (lambda w: int(hashlib.md5(w.encode()).hexdigest(), 16)) if hash_function == "md5" else hash_function or hash
    return [hashed(w) % (n - 1) + 1 for w in (analyzer(text) if analyzer else text_to_word_sequence(text, filters, lower, split))]


def one_hot(input_text, n, filters=_FILTERS, lower=True, split=" ", analyzer=None):
    """The words of a text as numbers by Python's hash."""
    return hashing_trick(input_text, n, hash, filters, lower, split, analyzer)


class Tokenizer:
    """Words by how often they occur."""

    def __init__(self, num_words=None, filters=_FILTERS, lower=True, split=" ", char_level=False, oov_token=None, **kwargs):
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token = char_level, oov_token
        self.word_counts, self.word_docs, self.word_index, self.index_word, self.index_docs, self.document_count = collections.OrderedDict(), {}, {}, {}, {}, 0

    def _words(self, text):
        if isinstance(text, list):
            return [t.lower() if self.lower else t for t in text]
        if self.char_level:
            return list(text.lower() if self.lower else text)
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts):
        """Learns the words of texts."""
        for text in texts:
            self.document_count += 1
            words = self._words(text)
            for word in words:
                self.word_counts[word] = self.word_counts.get(word, 0) + 1
            for word in set(words):
                self.word_docs[word] = self.word_docs.get(word, 0) + 1
        ordered = sorted(self.word_counts, key=lambda w: -self.word_counts[w])
        names = ([self.oov_token] if self.oov_token is not None else []) + ordered
        self.word_index = {w: i for i, w in enumerate(names, 1)}
        self.index_word = {i: w for w, i in self.word_index.items()}
        self.index_docs = {self.word_index[w]: n for w, n in self.word_docs.items()}

    def fit_on_sequences(self, sequences):
        """Learns how many sequences each word is in."""
        self.document_count += len(sequences)
        for sequence in sequences:
            for number in set(sequence):
                self.index_docs[number] = self.index_docs.get(number, 0) + 1

    def texts_to_sequences(self, texts):
        """The numbers of the words of each text."""
        unknown = self.word_index.get(self.oov_token)
        result = []
        for text in texts:
            row = []
            for word in self._words(text):
                number = self.word_index.get(word)
                if number is not None and (not self.num_words or number < self.num_words):
                    row.append(number)
                elif unknown is not None:
                    row.append(unknown)
            result.append(row)
        return result

    def sequences_to_texts(self, sequences):
        """The words of each sequence of numbers."""
        return [" ".join(self.index_word.get(i, self.oov_token or "") for i in s) for s in sequences]

    def texts_to_matrix(self, texts, mode="binary"):
        """A row for each text, with a column for each word."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences, mode="binary"):
        """A row for each sequence, with a column for each word."""
        size = self.num_words or len(self.word_index) + 1
        out = np.zeros((len(sequences), size))
        for row, sequence in zip(out, sequences):
            for number in sequence:
                if number < size:
                    row[number] += 1
            if mode == "binary":
                row[:] = row > 0
            elif mode == "freq":
                row /= max(len(sequence), 1)
            elif mode == "tfidf":
                idf = np.array([np.log(1 + self.document_count / (1 + self.index_docs.get(i, 0))) for i in range(size)])
                row[:] = np.where(row > 0, (1 + np.log(np.maximum(row, 1))) * idf, 0.0)
            elif mode != "count":
                raise ValueError(f"Unknown vectorization mode: {mode}")
        return out

    def get_config(self):
        plain = {n: json.dumps(getattr(self, n)) for n in ("word_counts", "word_docs", "index_docs", "index_word", "word_index")}
        return {n: getattr(self, n) for n in ("num_words", "filters", "lower", "split", "char_level", "oov_token", "document_count")} | plain

    def to_json(self, **kwargs):
        """What tokenizer_from_json makes the tokenizer of again."""
        return json.dumps({"class_name": "Tokenizer", "config": self.get_config()}, **kwargs)


def tokenizer_from_json(json_string):
    """The tokenizer that to_json wrote."""
    config = json.loads(json_string)["config"]
    saved = {n: json.loads(config.pop(n)) for n in ("word_counts", "word_docs", "index_docs", "index_word", "word_index")}
    count = config.pop("document_count")
    tokenizer = Tokenizer(**config)
    tokenizer.document_count = count
    tokenizer.word_counts, tokenizer.word_docs, tokenizer.word_index = saved["word_counts"], saved["word_docs"], saved["word_index"]
    tokenizer.index_docs, tokenizer.index_word = ({int(k): v for k, v in saved[n].items()} for n in ("index_docs", "index_word"))
    return tokenizer
