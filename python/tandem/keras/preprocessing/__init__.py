"""Keras's older helpers, keras.preprocessing."""

import sys
import types

from tandem.keras import utils as _utils
from tandem.keras.utils import image_dataset_from_directory, text_dataset_from_directory, timeseries_dataset_from_array  # noqa: F401


class Tokenizer:
    """Words by how often they occur."""

    def __init__(self, num_words=None, filters='!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', lower=True, split=" ", char_level=False, oov_token=None, **kwargs):
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token = char_level, oov_token
        self.word_counts, self.word_index, self.index_word, self.document_count = {}, {}, {}, 0

    def _words(self, text):
        if isinstance(text, list):
            return [t.lower() if self.lower else t for t in text]
        text = text.lower() if self.lower else text
        if self.char_level:
            return list(text)
        return [w for w in text.translate(str.maketrans({c: self.split for c in self.filters})).split(self.split) if w]

    def fit_on_texts(self, texts):
        for text in texts:
            self.document_count += 1
            for word in self._words(text):
                self.word_counts[word] = self.word_counts.get(word, 0) + 1
        ordered = sorted(self.word_counts, key=lambda w: -self.word_counts[w])
        names = ([self.oov_token] if self.oov_token is not None else []) + ordered
        self.word_index = {w: i for i, w in enumerate(names, 1)}
        self.index_word = {i: w for w, i in self.word_index.items()}

    def texts_to_sequences(self, texts):
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
        return [" ".join(self.index_word.get(i, self.oov_token or "") for i in s) for s in sequences]

    def texts_to_matrix(self, texts, mode="binary"):
        import numpy as np

        size = self.num_words or len(self.word_index) + 1
        out = np.zeros((len(texts), size))
        for row, s in zip(out, self.texts_to_sequences(texts)):
            for i in s:
                row[i] = 1 if mode == "binary" else row[i] + 1
        return out


def _module(name, **members):
    module = types.ModuleType(f"{__name__}.{name}")
    module.__dict__.update(members)
    sys.modules[module.__name__] = module
    return module


sequence = _module("sequence", pad_sequences=_utils.pad_sequences)
text = _module("text", Tokenizer=Tokenizer)
image = _module("image", load_img=_utils.load_img, img_to_array=_utils.img_to_array, array_to_img=_utils.array_to_img, save_img=_utils.save_img, image_dataset_from_directory=_utils.image_dataset_from_directory)
