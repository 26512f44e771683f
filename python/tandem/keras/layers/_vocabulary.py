"""How layers keep their vocabularies in files: a list of words beside the weights, where Keras has it."""

import contextlib
import os

import numpy as np


_written = [False]


@contextlib.contextmanager
def vocabularies_are_written():
    """A scope in which configurations are those of a file."""
    before, _written[0] = _written[0], True
    try:
        yield
    finally:
        _written[0] = before


class KeptVocabulary:
    """A layer with a vocabulary, which `_known_words` gives without the special ones (None: there is none) and `_set_words` takes."""

    def save_assets(self, dir_path):
        """Writes the vocabulary to a folder."""
        if self._known_words() is None:
            return
        with open(os.path.join(dir_path, "vocabulary.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(str(word) for word in self.get_vocabulary()))
        if self._idf is not None:
            np.save(os.path.join(dir_path, "idf_weights.npy"), self._idf)

    def load_assets(self, dir_path):
        """Reads the vocabulary from a folder."""
        with open(os.path.join(dir_path, "vocabulary.txt"), encoding="utf-8") as file:
            words = file.read().split("\n")
        special = len(self.get_vocabulary()) - len(self.get_vocabulary(include_special_tokens=False))
        self._set_words([self._word_of(word) for word in words[special:]])
        weights = os.path.join(dir_path, "idf_weights.npy")
        if os.path.exists(weights):
            self._idf = np.load(weights)

    def _word_of(self, text):
        return text

    def get_config(self):
        """The configuration; in files it has the vocabulary that was learnt, too, which sizes of what follows depend on."""
        config = super().get_config()
        if _written[0] and self._known_words() is not None:
            config["vocabulary"] = list(self.get_vocabulary(include_special_tokens=False))
            if self._idf is not None:
                config["idf_weights"] = self._idf[len(self._idf) - len(config["vocabulary"]) :].tolist()
        return config
