"""Products of matrices and sums over labelled axes."""

import builtins

import _tandem
from tandem._names.lazy import np
from tandem._ops.base import op
from tandem._ops.shaping import _product
from tandem._tensors.shape import _is_size
from tandem._tensors.tensor import Tensor


@op
def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False, a_is_sparse=False, b_is_sparse=False, output_type=None, grad_a=False, grad_b=False, name=None):
    """The product of matrices, or of batches of them."""
    a = _tandem.convert(a, None, b._code if isinstance(b, (Tensor, _tandem.Variable)) else None)
    b = _tandem.convert(b, None, a._code)
    if not a.dtype.is_floating:
        result = _tandem.matmul(_tandem.cast(a, 1), _tandem.cast(b, 1), transpose_a or adjoint_a, transpose_b or adjoint_b)
        return _tandem.cast(result, a._code)
    return _tandem.matmul(a, b, transpose_a or adjoint_a, transpose_b or adjoint_b)


def _matmul_operator(native, mirrored):
    def product(self, other):
        if self._code <= 1:
            return native(self, other)
        return matmul(other, self) if mirrored else matmul(self, other)

    return product


Tensor.__matmul__ = _matmul_operator(Tensor.__matmul__, False)  # Products of integers, too.
Tensor.__rmatmul__ = _matmul_operator(Tensor.__rmatmul__, True)


@op
def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False, name=None):
    """The product of a matrix and a vector, or of batches of them."""
    b = _tandem.convert(b, None, a._code if isinstance(a, (Tensor, _tandem.Variable)) else None)
    return _tandem.squeeze(matmul._raw(a, _tandem.expand_dims(b, -1), builtins.bool(transpose_a or adjoint_a)), [-1])


@op
def tensordot(a, b, axes, name=None):
    """The sums of products of a and b over the named axes."""
    a = _tandem.convert(a, None, b._code if isinstance(b, Tensor) else None)
    b = _tandem.convert(b, None, a._code)
    if isinstance(axes, (Tensor, np.ndarray)):
        axes = np.asarray(axes).tolist()
    if isinstance(axes, int):
        first = list(builtins.range(a._rank - axes, a._rank))
        second = list(builtins.range(axes))
    else:
        first, second = ([x] if isinstance(x, int) else list(x) for x in axes)
    letters = "abcdefghijklmnopqrstuvwxyz"
    names_a = list(letters[: a._rank])
    names_b = list(letters[a._rank : a._rank + b._rank])
    for i, j in zip(first, second):
        names_b[j] = names_a[i]
    summed = {names_a[i] for i in first}
    out = [n for n in names_a if n not in summed] + [n for n in names_b if n not in summed]
    return einsum._raw(f"{''.join(names_a)},{''.join(names_b)}->{''.join(out)}", a, b)


def _sum_out(x, labels, keep):
    gone = [i for i, l in enumerate(labels) if l not in keep]
    if gone:
        x = _tandem.reduce_sum(x, gone, False)
    return x, [l for l in labels if l in keep]


def _permuted(x, labels, order):
    if labels == order:
        return x
    return _tandem.transpose(x, [labels.index(l) for l in order])


def _contract(a, la, b, lb, keep):
    """The product of two tensors, summed over the labels of both that nobody needs any more."""
    a, la = _sum_out(a, la, set(lb) | set(keep))
    b, lb = _sum_out(b, lb, set(la) | set(keep))
    batch = [l for l in la if l in lb and l in keep]
    summed = [l for l in la if l in lb and l not in keep]
    free_a = [l for l in la if l not in lb]
    free_b = [l for l in lb if l not in la]
    size = {l: s for l, s in zip(lb, b._sizes)}
    for l, s in zip(la, a._sizes):
        if l not in size or _is_size(s) or size[l] == 1:
            size[l] = s
    # An axis of size 1 is repeated beside a larger one of the same label.
    a, b = _stretched(a, la, size, set(lb)), _stretched(b, lb, size, set(la))
    lead = [size[l] for l in batch]
    left = _tandem.reshape(_permuted(a, la, batch + free_a + summed), lead + [_product(size[l] for l in free_a), _product(size[l] for l in summed)])
    right = _tandem.reshape(_permuted(b, lb, batch + summed + free_b), lead + [_product(size[l] for l in summed), _product(size[l] for l in free_b)])
    out = batch + free_a + free_b
    product = matmul._raw(left, right)
    return _tandem.reshape(product, [size[l] for l in out]), out


def _stretched(x, labels, size, shared):
    sizes = [size[l] if l in shared and _is_size(size[l]) is False and s == 1 else s for l, s in zip(labels, x._sizes)]
    return x if sizes == list(x._sizes) else _tandem.broadcast_to(x, sizes)


@op
def einsum(equation, *inputs, **kwargs):
    """Sums of products by Einstein's notation, as in "ij,jk->ik"."""
    inputs = list(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else list(inputs)
    equation = equation.replace(" ", "")
    code = next((i._code for i in inputs if isinstance(i, (Tensor, _tandem.Variable))), None)
    tensors = [_tandem.convert(i, None, code) for i in inputs]
    terms, _, output = equation.partition("->")
    terms = terms.split(",")
    if len(terms) != len(tensors):
        raise ValueError(f"einsum: {len(terms)} terms in {equation!r} and {len(tensors)} inputs")
    if "..." in equation:
        spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
        most = 0
        for term, t in zip(terms, tensors):
            if "..." in term:
                most = builtins.max(most, t._rank - len(term) + 3)
        for i, (term, t) in enumerate(zip(terms, tensors)):
            if "..." in term:
                count = t._rank - len(term) + 3
                terms[i] = term.replace("...", "".join(spare[most - count : most]))
        output = output.replace("...", "".join(spare[:most])) if "->" in equation else None
    elif "->" not in equation:
        output = None
    if output is None:
        letters = "".join(terms)
        output = "".join(sorted(l for l in set(letters) if letters.count(l) == 1))
    for i, (term, t) in enumerate(zip(terms, tensors)):
        for label in set(term):
            while terms[i].count(label) > 1:  # A diagonal.
                first = terms[i].index(label)
                second = terms[i].index(label, first + 1)
                n = int(tensors[i]._sizes[first])
                sizes = [1] * tensors[i]._rank
                sizes[first] = sizes[second] = n
                mask = _tandem.reshape(_tandem.eye(n, -1, tensors[i]._code), sizes)
                tensors[i] = _tandem.reduce_sum(tensors[i] * mask, second, False)
                terms[i] = terms[i][:second] + terms[i][second + 1 :]
    x, labels = tensors[0], list(terms[0])
    if len(tensors) == 1:
        x, labels = _sum_out(x, labels, set(output))
    for i in builtins.range(1, len(tensors)):
        keep = set(output).union(*[set(t) for t in terms[i + 1 :]])
        x, labels = _contract(x, labels, tensors[i], list(terms[i]), keep)
    return _permuted(x, labels, list(output))
