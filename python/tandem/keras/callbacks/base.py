"""What callbacks are, and the logs of epochs."""


class Callback:
    """A callback of one's own overrides what it needs."""

    def __init__(self):
        self.params = None
        self._model = None

    def set_params(self, params):
        """Takes the numbers of epochs and steps."""
        self.params = params

    def set_model(self, model):
        """Takes the model that trains."""
        self._model = model

    def on_batch_begin(self, batch, logs=None):
        """As on_train_batch_begin, by its name in Keras 2."""

    def on_batch_end(self, batch, logs=None):
        """As on_train_batch_end, by its name in Keras 2."""

    def on_epoch_begin(self, epoch, logs=None):
        """Called before each epoch of fit."""

    def on_epoch_end(self, epoch, logs=None):
        """Called after each epoch of fit, with its results."""

    def on_train_batch_begin(self, batch, logs=None):
        """Called before each step of fit."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch, logs=None):
        """Called after each step of fit, with the results so far."""
        self.on_batch_end(batch, logs=logs)

    def on_test_batch_begin(self, batch, logs=None):
        """Called before each step of evaluate."""

    def on_test_batch_end(self, batch, logs=None):
        """Called after each step of evaluate, with the results so far."""

    def on_predict_batch_begin(self, batch, logs=None):
        """Called before each step of predict."""

    def on_predict_batch_end(self, batch, logs=None):
        """Called after each step of predict, with its outputs."""

    def on_train_begin(self, logs=None):
        """Called when fit begins."""

    def on_train_end(self, logs=None):
        """Called when fit ends, with the results of the last epoch."""

    def on_test_begin(self, logs=None):
        """Called when evaluate begins."""

    def on_test_end(self, logs=None):
        """Called when evaluate ends, with its results."""

    def on_predict_begin(self, logs=None):
        """Called when predict begins."""

    def on_predict_end(self, logs=None):
        """Called when predict ends."""


Callback.model = property(lambda self: self.__dict__.get("_model"), lambda self, value: self.__dict__.__setitem__("_model", value), doc="The model that trains.")


def _overrides(callback, *names):
    if not getattr(callback, "_wants_batches", True):
        return False
    return any(getattr(type(callback), n, None) is not getattr(Callback, n) or n in vars(callback) for n in names)


def _writes_files(model):
    """False in all but one of several processes that train together."""
    return getattr(model.distribute_strategy, "is_chief", True)


class History(Callback):
    """The logs of each epoch."""

    def __init__(self):
        super().__init__()
        self.history = {}
        self.epoch = []
        self._epochs = {}

    def on_train_begin(self, logs=None):
        self.epoch = []

    def on_epoch_end(self, epoch, logs=None):
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)
            self._epochs.setdefault(key, []).append(epoch)

    def plot(self, keys=None):
        """The logs over the epochs, where Matplotlib is installed."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots()
        for key in keys or self.history:
            axes.plot(self._epochs_of(key), self.history[key], label=key)
        axes.set_xlabel("epoch")
        axes.legend()
        return axes

    def _epochs_of(self, key):
        """The epochs that have a value of this name: not all have been validated where validation_freq says so."""
        return self._epochs.get(key, self.epoch)[: len(self.history[key])]

    def _repr_html_(self):
        keys = list(self.history)
        values = {key: dict(zip(self._epochs_of(key), self.history[key])) for key in keys}
        head = "".join(f"<th>{k}</th>" for k in ["epoch"] + keys)
        cells = [[f"{values[k][e]:.4g}" if e in values[k] else "" for k in keys] for e in self.epoch]
        rows = "".join(f"<tr><td>{e}</td>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for e, row in zip(self.epoch, cells))
        return f"<table><tr>{head}</tr>{rows}</table>"


class LambdaCallback(Callback):
    """Calls functions that are given by the names of hooks."""

    def __init__(self, on_epoch_begin=None, on_epoch_end=None, on_train_begin=None, on_train_end=None, on_train_batch_begin=None, on_train_batch_end=None, on_batch_begin=None, on_batch_end=None, **kwargs):
        super().__init__()
        given = {
            "on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_train_begin": on_train_begin,
            "on_train_end": on_train_end, "on_train_batch_begin": on_train_batch_begin or on_batch_begin,
            "on_train_batch_end": on_train_batch_end or on_batch_end, **kwargs,
        }
        for name, f in given.items():
            if f is not None:
                setattr(self, name, f)
