"""The callbacks of a training, called one after another."""

from tandem.keras.callbacks.base import History, _overrides
from tandem.keras.callbacks.progress import ProgbarLogger


class CallbackList:
    """The callbacks of a training."""

    def __init__(self, callbacks=None, add_history=False, add_progbar=False, model=None, verbose=0, epochs=1, steps=None, **params):
        callbacks = [] if callbacks is None else list(callbacks) if isinstance(callbacks, (list, tuple)) else callbacks.callbacks if isinstance(callbacks, CallbackList) else [callbacks]
        self.callbacks = list(callbacks)
        self._bar = ProgbarLogger() if add_progbar else None
        if self._bar is not None:
            self._bar._model = model
            self._bar.set_params({"verbose": verbose, "epochs": epochs, "steps": steps})
        history = next((c for c in self.callbacks if isinstance(c, History)), None)
        if add_history and history is None:
            history = History()
            self.callbacks.append(history)
        if add_history:
            model.history = history
        self._model = model
        self.params = {"verbose": verbose, "epochs": epochs, "steps": steps}
        for c in self.callbacks:
            c.set_params(self.params)
            c.set_model(model)
        self.wants_train_batches = any(_overrides(c, "on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end") for c in self.callbacks)
        self.wants_test_batches = any(_overrides(c, "on_test_batch_begin", "on_test_batch_end") for c in self.callbacks)

    def progress(self, step, logs, model):
        if self._bar is not None:
            self._bar.progress(step, logs, model)

    def on_epoch_begin(self, epoch, logs=None):
        for c in self.callbacks:
            c.on_epoch_begin(epoch, logs if logs is not None else {})
        if self._bar is not None:
            self._bar.on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch, logs=None):
        history = None
        for c in self.callbacks:
            if type(c) is History:
                history = c
                continue
            c.on_epoch_end(epoch, logs)
        if history is not None:  # It sees what the others added.
            history.on_epoch_end(epoch, logs)
        if self._bar is not None:
            self._bar.on_epoch_end(epoch, logs)


def _forward(name):
    def call(self, *args):
        args = args if len(args) == (2 if "batch" in name else 1) else args + ({},)
        for c in self.callbacks:
            getattr(c, name)(*args)

    setattr(CallbackList, name, call)


for _name in (
    "on_train_begin", "on_train_end", "on_test_begin", "on_test_end", "on_predict_begin", "on_predict_end",
    "on_train_batch_begin", "on_train_batch_end", "on_test_batch_begin", "on_test_batch_end", "on_predict_batch_begin",
    "on_predict_batch_end",
):
    _forward(_name)
