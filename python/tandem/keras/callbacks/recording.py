"""Callbacks that write files: weights, logs, backups, events for TensorBoard."""

import csv
import json
import os
import warnings

import numpy as np

from tandem.keras.callbacks.base import Callback, _writes_files
from tandem.keras.callbacks.control import _is_better


class ModelCheckpoint(Callback):
    """Saves the model or its weights each epoch or so many steps, or only when a value improved."""

    def __init__(self, filepath, monitor="val_loss", verbose=0, save_best_only=False, save_weights_only=False, mode="auto", save_freq="epoch", initial_value_threshold=None, period=1):
        super().__init__()
        self._period, self._epochs = int(period), 0  # Keras 2 saved every so many epochs.
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
        if self.save_freq != "epoch":
            return
        self._epochs += 1
        if self._epochs % self._period == 0:
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
                before = None if self.best is None else f"{self.best:.5f}"
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
        if verbose > 0:
            print(f"\nEpoch {epoch + 1}: finished saving model to {path}")


class CSVLogger(Callback):
    """Writes the results of each epoch as a line of a CSV file."""

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
            if not any(k.startswith("val_") for k in self._keys):
                self._keys += [f"val_{k}" for k in self._keys]  # As in Keras: epochs may be validated later.
            self._writer = csv.DictWriter(self._file, ["epoch"] + self._keys, delimiter=self.sep)
            if self._header:
                self._writer.writeheader()
        self._writer.writerow({"epoch": epoch, **{k: logs.get(k, "NA") for k in self._keys}})
        self._file.flush()

    def on_train_end(self, logs=None):
        self._file.close()


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
    """Sends the results of each epoch to a server by HTTP."""

    def __init__(self, root="http://localhost:9000", path="/publish/epoch/end/", field="data", headers=None, send_as_json=False):
        super().__init__()
        self.root, self.path, self.field, self.headers, self.send_as_json = root, path, field, headers, send_as_json

    def on_epoch_end(self, epoch, logs=None):
        import urllib.error
        import urllib.parse
        import urllib.request

        sent = {"epoch": epoch, **{k: np.asarray(v).item() if np.ndim(v) == 0 else v for k, v in (logs or {}).items()}}
        if self.send_as_json:
            body, kind = json.dumps(sent).encode(), "application/json"
        else:
            body, kind = urllib.parse.urlencode({self.field: json.dumps(sent)}).encode(), "application/x-www-form-urlencoded"
        request = urllib.request.Request(self.root + self.path, body, {"Content-Type": kind, **(self.headers or {})})
        try:
            urllib.request.urlopen(request, timeout=60).close()
        except (urllib.error.URLError, TimeoutError) as error:
            warnings.warn(f"Could not reach RemoteMonitor root server at {self.root}: {error}", stacklevel=2)


class TensorBoard(Callback):
    """Scalars of epochs, and where asked for of batches, and histograms of weights as TensorBoard's event files. Graphs are not written."""

    def __init__(self, log_dir="./logs", histogram_freq=0, write_graph=True, write_images=False, write_steps_per_second=False, update_freq="epoch", profile_batch=0, embeddings_freq=0, embeddings_metadata=None):
        super().__init__()
        if embeddings_freq:
            raise NotImplementedError("TensorBoard: embeddings_freq; scalars and histograms are written")
        if write_images and histogram_freq:
            warnings.warn("TensorBoard: weights are written as histograms, and not as images", stacklevel=2)
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
