"""Kinds of tensors that TensorFlow has and this module does not: no value is an instance of them."""


class SparseTensorSpec:
    """The kind of a sparse tensor."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("tandem has no sparse tensors")


class RaggedTensorSpec:
    """The kind of a ragged tensor."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("data sets and functions of tandem take no ragged tensors; RaggedTensor.to_tensor() makes dense ones of them")
