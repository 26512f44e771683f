"""Which labels a network wrote: the best of many ways (Graves and others, 2006), and how far texts of labels are from each other."""

import math

import numpy as np

_NEVER = -math.inf


def _either(a, b):
    """The logarithm of the sum of two probabilities."""
    if a < b:
        a, b = b, a
    return a if b == _NEVER else a + math.log1p(math.exp(b - a))


class _Beam:
    """Labels that may have been written, and the probabilities that the last time was a blank or the last label: before a step and after."""

    __slots__ = ("after", "after_blank", "after_label", "before", "before_blank", "children", "label", "parent")

    def __init__(self, parent, label):
        self.parent, self.label, self.children = parent, label, {}
        self.before = self.before_blank = _NEVER
        self.forget()

    def forget(self):
        """The beam is no longer among the best."""
        self.after = self.after_blank = self.after_label = _NEVER

    def path(self, merge_repeated):
        labels, beam, previous = [], self, None
        while beam.parent is not None:
            if not merge_repeated or beam.label != previous:
                labels.append(beam.label)
            previous, beam = beam.label, beam.parent
        return labels[::-1]


def _step(beams, scores, width):
    """The beams after one more time; the blank is the last class."""
    for beam in beams:
        beam.before, beam.before_blank = beam.after, beam.after_blank
    kept = list(beams)
    for beam in beams:
        parent = beam.parent
        if parent is not None:
            if parent.after != _NEVER:
                beam.after_label = _either(beam.after_label, parent.before_blank if beam.label == parent.label else parent.before)
            beam.after_label += scores[beam.label]
        beam.after_blank = beam.before + scores[-1]
        beam.after = _either(beam.after_blank, beam.after_label)
    worst = min(kept, key=lambda b: b.after)
    for beam in beams:
        if not (beam.before > _NEVER and (len(kept) < width or beam.before > worst.after)):
            continue
        for label in range(len(scores) - 1):
            child = beam.children.get(label)
            if child is not None and child.after != _NEVER:
                continue
            chance = scores[label] + (beam.before_blank if label == beam.label else beam.before)
            if not (chance > _NEVER and (len(kept) < width or chance > worst.after)):
                if child is not None:
                    child.before = child.before_blank = _NEVER
                continue
            if child is None:
                child = beam.children[label] = _Beam(beam, label)
            child.after_blank = _NEVER
            child.after = child.after_label = chance
            if len(kept) == width:
                kept.remove(worst)
                worst.forget()
            kept.append(child)
            worst = min(kept, key=lambda b: b.after)
    return sorted(kept, key=lambda b: -b.after)


def best_paths(inputs, lengths, width, count, merge_repeated):
    """The `count` likeliest sequences of labels of each row of [batch, time, classes] and the logarithms of their probabilities."""
    if count > width:
        raise ValueError(f"ctc_beam_search_decoder: top_paths={count} is more than beam_width={width}")
    paths, chances = [], []
    for row, length in zip(np.asarray(inputs, np.float64), np.asarray(lengths).ravel()):
        root = _Beam(None, -1)
        root.after = root.after_blank = 0.0
        beams = [root]
        for scores in row[: int(length)]:
            top = scores.max()
            beams = _step(beams, (scores - top - math.log(np.exp(scores - top).sum())).tolist(), width)
        if len(beams) < count:
            raise ValueError(f"ctc_beam_search_decoder: top_paths={count} is more than the {len(beams)} sequences that there are")
        paths.append([beam.path(merge_repeated) for beam in beams[:count]])
        chances.append([beam.after for beam in beams[:count]])
    return paths, np.asarray(chances, np.float32)


def ctc_beam_search_decoder(inputs, sequence_length, beam_width=100, top_paths=1, merge_repeated=False):
    """The likeliest sequences of labels of logits [time, batch, classes], each as a sparse tensor, and the logarithms of their probabilities."""
    import _tandem
    from tandem import _ops

    def decode(x, lengths):
        return best_paths(np.swapaxes(x, 0, 1), lengths, beam_width, top_paths, merge_repeated)

    paths, chances = _ops.host(decode, _tandem.convert(inputs), _tandem.convert(sequence_length))
    return [sparse_rows([row[k] for row in paths]) for k in range(top_paths)], _tandem.convert(chances)


def filled(paths, length):
    """Lists of rows of numbers, filled up with -1."""
    out = np.full((len(paths), len(paths[0]), length), -1, np.int32)
    for place, rows in zip(out, paths):
        for row, values in zip(place, rows):
            row[: len(values)] = values
    return out


def sparse_rows(rows):
    """Rows of numbers of any lengths as a sparse tensor."""
    from tandem.sparse import SparseTensor

    places = [(i, k) for i, row in enumerate(rows) for k in range(len(row))]
    longest = max((len(row) for row in rows), default=0)
    return SparseTensor(np.asarray(places, np.int64).reshape(-1, 2), np.asarray([v for row in rows for v in row], np.int64), [len(rows), longest])


def _distance(a, b):
    """Levenshtein, 1966: how many elements must be put in, left out or changed."""
    line = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        last, line[0] = line[0], i
        for j, right in enumerate(b, 1):
            last, line[j] = line[j], min(line[j] + 1, line[j - 1] + 1, last + (left != right))
    return line[-1]


def _sequences(sparse):
    """The rows of a sparse tensor's last axis by the places of the other axes."""
    found = {}
    values = np.asarray(sparse.values.numpy(), dtype=object)
    for place, value in sorted(zip(np.asarray(sparse.indices.numpy()).tolist(), values.tolist()), key=lambda pair: pair[0]):
        found.setdefault(tuple(place[:-1]), []).append(value)
    return found


def edit_distance(hypothesis, truth, normalize=True, name="edit_distance"):
    """Levenshtein's distances between the rows of two sparse tensors, as parts of the lengths of the true ones if `normalize` is set."""
    import _tandem

    shapes = [tuple(int(s) for s in each.shape) for each in (hypothesis, truth)]
    if len(shapes[0]) != len(shapes[1]) or len(shapes[0]) < 2:
        raise ValueError(f"edit_distance: hypothesis and truth have the shapes {shapes[0]} and {shapes[1]}; sparse tensors of the same number of axes, two or more, are accepted")
    out = np.zeros([max(a, b) for a, b in zip(shapes[0][:-1], shapes[1][:-1])], np.float32)
    ours, theirs = _sequences(hypothesis), _sequences(truth)
    for place in np.ndindex(*out.shape):
        a, b = ours.get(place, []), theirs.get(place, [])
        distance = _distance(a, b)
        if normalize:
            distance = distance / len(b) if b else math.inf if a else 0.0
        out[place] = distance
    return _tandem.convert(out)
