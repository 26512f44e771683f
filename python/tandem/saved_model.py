"""SavedModels do not exist here: each function says so."""


def _missing(*args, **kwargs):
    raise NotImplementedError("tandem writes and reads no SavedModels; model.save('name.keras'), or tf.train.Checkpoint for other objects")


save = load = contains_saved_model = _missing


class SaveOptions:
    def __init__(self, *args, **kwargs):
        pass


LoadOptions = SaveOptions
