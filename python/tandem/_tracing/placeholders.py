"""Kinds of tensors that TensorFlow has and this module does not: no value is an instance of them."""


class RaggedTensor:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("tandem has no ragged tensors; Dataset.padded_batch pads rows of different lengths")


class SparseTensorSpec:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("tandem has no sparse tensors")


class RaggedTensorSpec:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("tandem has no ragged tensors")
