"""keras.utils.experimental of Keras 2: how programs for parameter servers give fit their data."""


class DatasetCreator:
    """A function that makes a data set for an InputContext, in the place of the data set: fit deals its batches to the workers."""

    def __init__(self, dataset_fn, input_options=None):
        if not callable(dataset_fn):
            raise TypeError(f"`dataset_fn` for `DatasetCreator` must be a `callable`. Received: {dataset_fn}")
        self.dataset_fn, self.input_options = dataset_fn, input_options

    def __call__(self, *args, **kwargs):
        from tandem.data import Dataset

        dataset = self.dataset_fn(*args, **kwargs)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"The `callable` provided to `DatasetCreator` must return a Dataset. It returns {dataset}")
        return dataset
