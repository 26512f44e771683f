"""What happens at the turns of a training, keras.callbacks."""

from tandem._names import missing as _missing

import csv
import json
import math
import os
import sys
import time
import warnings

import numpy as np


class Callback:
    """A callback of one's own overrides what it needs."""

    def __init__(self):
        self.params = None
        self._model = None

    @property
    def model(self):
        return self._model

    def set_params(self, params):
        self.params = params

    def set_model(self, model):
        self._model = model

    def on_batch_begin(self, batch, logs=None):
        pass

    def on_batch_end(self, batch, logs=None):
        pass

    def on_epoch_begin(self, epoch, logs=None):
        pass

    def on_epoch_end(self, epoch, logs=None):
        pass

    def on_train_batch_begin(self, batch, logs=None):
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch, logs=None):
        self.on_batch_end(batch, logs=logs)

    def on_test_batch_begin(self, batch, logs=None):
        pass

    def on_test_batch_end(self, batch, logs=None):
        pass

    def on_predict_batch_begin(self, batch, logs=None):
        pass

    def on_predict_batch_end(self, batch, logs=None):
        pass

    def on_train_begin(self, logs=None):
        pass

    def on_train_end(self, logs=None):
        pass

    def on_test_begin(self, logs=None):
        pass

    def on_test_end(self, logs=None):
        pass

    def on_predict_begin(self, logs=None):
        pass

    def on_predict_end(self, logs=None):
        pass


Callback.model = property(lambda self: self.__dict__.get("_model"), lambda self, value: self.__dict__.__setitem__("_model", value))


def _overrides(callback, *names):
    if not getattr(callback, "_wants_batches", True):
        return False
    return any(getattr(type(callback), n, None) is not getattr(Callback, n) or n in vars(callback) for n in names)


def _writes_files(model):
    """False in all but one of several processes that train together."""
    return getattr(model.distribute_strategy, "is_chief", True)


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


class History(Callback):
    """The logs of each epoch."""

    def __init__(self):
        super().__init__()
        self.history = {}
        self.epoch = []

    def on_train_begin(self, logs=None):
        self.epoch = []

    def on_epoch_end(self, epoch, logs=None):
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)

    def plot(self, keys=None):
        """The logs over the epochs, where Matplotlib is installed."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots()
        for key in keys or self.history:
            axes.plot(self.epoch, self.history[key], label=key)
        axes.set_xlabel("epoch")
        axes.legend()
        return axes

    def _repr_html_(self):
        keys = list(self.history)
        head = "".join(f"<th>{k}</th>" for k in ["epoch"] + keys)
        rows = "".join(f"<tr><td>{e}</td>" + "".join(f"<td>{self.history[k][i]:.4g}</td>" if i < len(self.history[k]) else "<td></td>" for k in keys) + "</tr>" for i, e in enumerate(self.epoch))
        return f"<table><tr>{head}</tr>{rows}</table>"


def _formatted(logs):
    parts = []
    for key, value in sorted(logs.items(), key=lambda item: item[0].startswith("val_")):
        if isinstance(value, np.ndarray):
            continue
        parts.append(f" - {key}: {value:.4f}" if abs(value) > 1e-3 or value == 0 else f" - {key}: {value:.4e}")
    return "".join(parts)


def _time_text(seconds, steps):
    each = seconds / max(steps, 1)
    unit = f"{each:.0f}s" if each >= 1 else f"{each * 1e3:.0f}ms" if each >= 1e-3 else f"{each * 1e6:.0f}us"
    return f"{seconds:.0f}s {unit}/step"


def _bar_text(step, steps):
    if steps is None:
        return f"{step}/Unknown"
    width = len(str(steps))
    done = int(20 * step / max(steps, 1))
    return f"{step:>{width}}/{steps} " + "━" * done + "─" * (20 - done)


def print_line(steps, seconds, logs):
    print(f"{_bar_text(steps, steps)} {_time_text(seconds, steps or 1)}{_formatted(logs)}", flush=True)


class ProgbarLogger(Callback):
    """One bar that updates in place on a terminal, plain lines elsewhere."""

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch_started = self._last = time.time()
        self._live = self.params["verbose"] == 1 and (sys.stdout.isatty() or "ipykernel" in sys.modules)
        self._steps = self.params["steps"]
        self._seen = 0
        if self.params["verbose"] == 1 or self.params["epochs"] > 1 and self.params["verbose"]:
            print(f"Epoch {epoch + 1}/{self.params['epochs']}", flush=True)

    def progress(self, step, logs, model):
        self._seen = step + 1
        if not self._live or time.time() - self._last < 0.1:
            return
        self._last = time.time()
        numbers = model._numbers(logs, model._from_metrics("train", live=True))
        left = ""
        print(f"\r\x1b[K{_bar_text(step + 1, self._steps)} {_time_text(self._last - self._epoch_started, step + 1)}{_formatted(numbers)}{left}", end="", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        steps = self._seen
        seconds = time.time() - self._epoch_started
        if self.params["verbose"] == 1:
            start = "\r\x1b[K" if self._live else ""
            print(f"{start}{_bar_text(steps, steps)} {_time_text(seconds, steps)}{_formatted(logs or {})}", flush=True)
        else:
            print(f"{steps}/{steps} - {_time_text(seconds, steps).replace(' ', ' - ')}{_formatted(logs or {})}", flush=True)


class LambdaCallback(Callback):
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


def _is_better(mode, monitor):
    if mode == "min":
        return np.less
    if mode == "max":
        return np.greater
    more = ("acc", "auc", "precision", "recall", "f1", "iou", "r2_score", "top_k")
    return np.greater if any(m in monitor for m in more) else np.less


class EarlyStopping(Callback):
    def __init__(self, monitor="val_loss", min_delta=0, patience=0, verbose=0, mode="auto", baseline=None, restore_best_weights=False, start_from_epoch=0):
        super().__init__()
        self.monitor, self.patience, self.verbose, self.baseline = monitor, patience, verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch
        self.monitor_op = _is_better(mode, monitor)
        self.min_delta = abs(min_delta) if self.monitor_op is np.greater else -abs(min_delta)
        self.wait = self.stopped_epoch = 0
        self.best = None
        self.best_weights = None

    def on_train_begin(self, logs=None):
        self.wait = self.stopped_epoch = 0
        self.best = None
        self.best_weights = None
        self.best_epoch = 0

    def get_monitor_value(self, logs):
        value = (logs or {}).get(self.monitor)
        if value is None:
            warnings.warn(f"Early stopping conditioned on metric `{self.monitor}` which is not available. Available metrics are: {','.join(logs or {})}", stacklevel=3)
        return value

    def on_epoch_end(self, epoch, logs=None):
        current = self.get_monitor_value(logs)
        if current is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights, self.best_epoch = self.model.get_weights(), epoch
        self.wait += 1
        if self.best is None or self.monitor_op(current - self.min_delta, self.best):
            self.best, self.best_epoch = current, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.monitor_op(current - self.min_delta, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        if self.stopped_epoch > 0 and self.verbose > 0:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            if self.verbose > 0:
                print(f"Restoring model weights from the end of the best epoch: {self.best_epoch + 1}.")
            self.model.set_weights(self.best_weights)


class ModelCheckpoint(Callback):
    def __init__(self, filepath, monitor="val_loss", verbose=0, save_best_only=False, save_weights_only=False, mode="auto", save_freq="epoch", initial_value_threshold=None, **kwargs):
        super().__init__()
        self.filepath, self.monitor, self.verbose = os.fspath(filepath), monitor, verbose
        self.save_best_only, self.save_weights_only, self.save_freq = save_best_only, save_weights_only, save_freq
        self.monitor_op = _is_better(mode, monitor)
        self.best = initial_value_threshold
        self._batches = 0
        self._epoch = 0
        self._wants_batches = save_freq != "epoch"

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.save_freq == "epoch":
            return
        self._batches += 1
        if self._batches % int(self.save_freq) == 0:
            self._save(self._epoch, batch, logs)

    def on_epoch_end(self, epoch, logs=None):
        if self.save_freq == "epoch":
            self._save(epoch, None, logs)

    def _save(self, epoch, batch, logs):
        logs = logs or {}
        path = self.filepath.format(epoch=epoch + 1, batch=(batch or 0) + 1, **logs)
        is_writer = _writes_files(self.model)
        verbose = self.verbose if is_writer else 0
        if self.save_best_only:
            current = logs.get(self.monitor)
            if current is None:
                warnings.warn(f"Can save best model only with {self.monitor} available, skipping.", stacklevel=3)
                return
            if self.best is not None and not self.monitor_op(current, self.best):
                if verbose > 0:
                    print(f"\nEpoch {epoch + 1}: {self.monitor} did not improve from {self.best:.5f}")
                return
            if verbose > 0:
                before = "inf" if self.best is None else f"{self.best:.5f}"
                print(f"\nEpoch {epoch + 1}: {self.monitor} improved from {before} to {current:.5f}, saving model to {path}")
            self.best = current
        elif verbose > 0:
            print(f"\nEpoch {epoch + 1}: saving model to {path}")
        if not is_writer and self.save_weights_only and path.endswith((".h5", ".hdf5", ".keras")):
            return  # All take part in the others: each may have a part of the optimizer's slots.
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)


class ReduceLROnPlateau(Callback):
    def __init__(self, monitor="val_loss", factor=0.1, patience=10, verbose=0, mode="auto", min_delta=1e-4, cooldown=0, min_lr=0.0, **kwargs):
        super().__init__()
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        self.monitor, self.factor, self.patience, self.verbose = monitor, factor, patience, verbose
        self.min_delta, self.cooldown, self.min_lr, self.mode = min_delta, cooldown, min_lr, mode
        self._start()

    def _start(self):
        self._greater = _is_better(self.mode, self.monitor) is np.greater
        self.best = -np.inf if self._greater else np.inf
        self.wait = self.cooldown_counter = 0

    def on_train_begin(self, logs=None):
        self._start()

    def on_epoch_end(self, epoch, logs=None):
        rate = float(self.model.optimizer.learning_rate)
        logs["learning_rate"] = rate
        current = logs.get(self.monitor)
        if current is None:
            warnings.warn(f"Learning rate reduction is conditioned on metric `{self.monitor}` which is not available. Available metrics are: {','.join(logs)}.", stacklevel=3)
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        better = current > self.best + self.min_delta if self._greater else current < self.best - self.min_delta
        if better:
            self.best, self.wait = current, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience and rate > np.float32(self.min_lr):
                new = max(rate * self.factor, self.min_lr)
                self.model.optimizer.learning_rate = new
                if self.verbose > 0:
                    print(f"\nEpoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {new}.")
                self.cooldown_counter, self.wait = self.cooldown, 0


class LearningRateScheduler(Callback):
    def __init__(self, schedule, verbose=0):
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch, logs=None):
        rate = float(self.model.optimizer.learning_rate)
        try:
            rate = self.schedule(epoch, rate)
        except TypeError:
            rate = self.schedule(epoch)
        self.model.optimizer.learning_rate = float(rate)
        if self.verbose > 0:
            print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {float(rate)}.")

    def on_epoch_end(self, epoch, logs=None):
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)


class CSVLogger(Callback):
    def __init__(self, filename, separator=",", append=False):
        super().__init__()
        self.filename, self.sep, self.append = os.fspath(filename), separator, append

    def on_train_begin(self, logs=None):
        self._keys = None
        if not _writes_files(self.model):
            self._file = open(os.devnull, "w")
            self._header = False
            return
        self._header = not (self.append and os.path.exists(self.filename) and os.path.getsize(self.filename))
        self._file = open(self.filename, "a" if self.append else "w", newline="")

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        if self._keys is None:
            self._keys = sorted(logs)
            self._writer = csv.DictWriter(self._file, ["epoch"] + self._keys, delimiter=self.sep)
            if self._header:
                self._writer.writeheader()
        self._writer.writerow({"epoch": epoch, **{k: logs.get(k, "NA") for k in self._keys}})
        self._file.flush()

    def on_train_end(self, logs=None):
        self._file.close()


class TerminateOnNaN(Callback):
    def on_train_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss")
        if loss is not None and (math.isnan(loss) or math.isinf(loss)):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class BackupAndRestore(Callback):
    """Writes weights, the optimizer's state and the epoch while training; a training that was cut off goes on from there.

    Where several processes train together the chief writes, and all read: the folder is one that all of them see."""

    def __init__(self, backup_dir, save_freq="epoch", double_checkpoint=False, delete_checkpoint=True):
        super().__init__()
        if not backup_dir:
            raise ValueError("Empty `backup_dir` argument passed")
        self.backup_dir, self.save_freq, self.delete_checkpoint = os.fspath(backup_dir), save_freq, delete_checkpoint
        self._wants_batches = save_freq != "epoch"
        self._epoch = self._batches = self._saves = 0

    def _path(self, name):
        return os.path.join(self.backup_dir, name)

    def _saved(self):
        try:
            with open(self._path("training_metadata.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def on_train_begin(self, logs=None):
        os.makedirs(self.backup_dir, exist_ok=True)
        saved = self._saved()
        if saved is None:
            return
        self.model.load_weights(self._path(saved["weights"]))
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        with np.load(self._path(saved["optimizer"])) as values:
            for variable, name in zip(optimizer.variables, values.files):
                variable.assign(values[name])
        self._saves = saved["save"]
        self.model._initial_epoch = saved["epoch"]

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.save_freq == "epoch":
            return
        self._batches += 1
        if self._batches % int(self.save_freq) == 0:
            self._save(self._epoch)

    def on_epoch_end(self, epoch, logs=None):
        if self.save_freq == "epoch":
            self._save(epoch + 1)

    def _save(self, epoch):
        """The description names the files of one save, and is replaced at once: a process that ends meanwhile leaves the last."""
        from tandem.keras import saving

        with saving.whole_slots(self.model):
            if _writes_files(self.model):
                self._write(epoch)

    def _write(self, epoch):
        before = self._saved()
        self._saves += 1
        now = {"epoch": epoch, "save": self._saves, "weights": f"{self._saves}.weights.h5", "optimizer": f"{self._saves}.optimizer.npz"}
        self.model.save_weights(self._path(now["weights"]), overwrite=True)
        np.savez(self._path(now["optimizer"]), **{f"v{i:06}": np.asarray(v.numpy()) for i, v in enumerate(self.model.optimizer.variables)})
        with open(self._path("training_metadata.tmp"), "w", encoding="utf-8") as file:
            json.dump(now, file)
        os.replace(self._path("training_metadata.tmp"), self._path("training_metadata.json"))
        self._remove(before)

    def _remove(self, saved):
        for name in (saved["weights"], saved["optimizer"]) if saved else ():
            if os.path.exists(self._path(name)):
                os.remove(self._path(name))

    def on_train_end(self, logs=None):
        if self.delete_checkpoint and _writes_files(self.model):
            saved = self._saved()
            if saved is not None:
                os.remove(self._path("training_metadata.json"))
                self._remove(saved)


class RemoteMonitor(Callback):
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("keras.callbacks.RemoteMonitor: tandem does not have it; LambdaCallback can send logs")


class TensorBoard(Callback):
    """Scalars of epochs, and where asked for of batches, and histograms of weights as TensorBoard's event files. Graphs are not written."""

    def __init__(self, log_dir="./logs", histogram_freq=0, write_graph=True, write_images=False, write_steps_per_second=False, update_freq="epoch", profile_batch=0, embeddings_freq=0, embeddings_metadata=None):
        super().__init__()
        if write_images or embeddings_freq:
            raise NotImplementedError("TensorBoard: write_images and embeddings_freq; scalars and histograms are written")
        self.log_dir, self.histogram_freq = os.fspath(log_dir), histogram_freq
        self._every = {"epoch": 0, "batch": 1}.get(update_freq, update_freq)
        self._profiled = _profiled_batches(profile_batch)
        self._wants_batches = bool(self._every) or self._profiled is not None
        self._batches = 0
        self._writers = {}

    def _write(self, which, write):
        from tandem import summary

        if not _writes_files(self.model):
            return
        if which not in self._writers:
            self._writers[which] = summary.create_file_writer(os.path.join(self.log_dir, which))
        with self._writers[which].as_default():
            write(summary)

    def on_train_begin(self, logs=None):
        self._batches = 0
        self._write("train", lambda summary: None)

    def on_train_batch_begin(self, batch, logs=None):
        self._batches += 1
        if self._profiled is not None and self._batches == self._profiled[0]:
            from tandem import profiler

            profiler.experimental.start(self.log_dir)

    def on_train_batch_end(self, batch, logs=None):
        if self._profiled is not None and self._batches == self._profiled[1]:
            from tandem import profiler

            profiler.experimental.stop()
        if self._every and self._batches % self._every == 0:
            for key, value in (logs or {}).items():
                self._write("train", lambda summary: summary.scalar("batch_" + key, value, step=self._batches))

    def on_epoch_end(self, epoch, logs=None):
        for key, value in (logs or {}).items():
            which = "validation" if key.startswith("val_") else "train"
            self._write(which, lambda summary: summary.scalar("epoch_" + key.removeprefix("val_"), value, step=epoch))
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            for weight in self.model.weights:
                self._write("train", lambda summary: summary.histogram(f"{weight.path}/histogram", weight, step=epoch))

    def on_train_end(self, logs=None):
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


def _profiled_batches(given):
    """The first and the last batch to profile, of a number, a pair or a text such as "10,20"; None for none."""
    if isinstance(given, str):
        given = [int(part) for part in given.split(",")]
    pair = (int(given), int(given)) if isinstance(given, (int, np.integer)) else tuple(int(g) for g in (given if len(given) > 1 else (given[0], given[0])))
    return pair if pair[0] > 0 else None


class SwapEMAWeights(Callback):
    """The averages of an optimizer with use_ema take the place of the weights while the model is tested, and with `swap_on_epoch` at the ends of epochs."""

    def __init__(self, swap_on_epoch=False):
        super().__init__()
        self.swap_on_epoch = swap_on_epoch
        self._are_averages = False

    def set_model(self, model):
        super().set_model(model)
        if not getattr(model.optimizer, "use_ema", False):
            raise ValueError("SwapEMAWeights must be used when `use_ema=True` is set on the optimizer.")

    def _swap(self, to_averages):
        averages = self.model.optimizer._averages
        if self._are_averages == to_averages or averages is None:
            return
        for variable, average in averages:
            value = np.array(variable.numpy())
            variable.assign(average.read_value())
            average.assign(value)
        self._are_averages = to_averages

    def on_epoch_begin(self, epoch, logs=None):
        self._swap(False)

    def on_epoch_end(self, epoch, logs=None):
        if self.swap_on_epoch:
            self._swap(True)

    def on_train_end(self, logs=None):
        self._swap(False)

    def on_test_begin(self, logs=None):
        self._swap(True)

    def on_test_end(self, logs=None):
        self._swap(False)

    on_predict_begin, on_predict_end = on_test_begin, on_test_end


class experimental:
    BackupAndRestore = BackupAndRestore


_missing.install(__name__, globals())
