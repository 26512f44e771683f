"""The bar that fit shows: in place on terminals and in notebooks, as lines elsewhere."""

import shutil
import sys
import time

import numpy as np

from tandem.keras.callbacks.base import Callback


def _formatted(logs):
    parts = []
    for key, value in logs.items():
        if isinstance(value, np.ndarray):
            value = float(value.mean())
        parts.append(f" - {key}: {value:.4f}" if abs(value) > 1e-3 else f" - {key}: {value:.4e}")
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


def _line(steps, seconds, logs, verbose):
    taken = _time_text(seconds, steps or 1)
    start = f"{_bar_text(steps, steps)} {taken}" if verbose == 1 else f"{steps}/{steps} - {taken.replace(' ', ' - ')}"
    return f"{start}{_formatted(logs)}"


def print_line(steps, seconds, logs, verbose=1):
    """Prints one line of progress."""
    _told(_line(steps, seconds, logs, verbose))


def _told(text, end="\n"):
    """Prints, or tells the logger, as keras.config says."""
    from tandem.keras import config

    if config.is_interactive_logging_enabled():
        print(text, end=end, flush=True)
    elif text.strip():
        import logging

        logging.getLogger("absl").info(text.strip())


class ProgbarLogger(Callback):
    """One bar that updates in place on a terminal, plain lines elsewhere."""

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch_started = self._last = time.time()
        self._live = self.params["verbose"] == 1 and (sys.stdout.isatty() or "ipykernel" in sys.modules)
        self._steps = self.params["steps"]
        self._seen = self._shown = 0
        if self.params["epochs"] > 1 and self.params["verbose"]:
            _told(f"Epoch {epoch + 1}/{self.params['epochs']}")

    def progress(self, step, logs, model):
        self._seen = step + 1
        if not self._live or time.time() - self._last < 0.1:
            return
        self._last = time.time()
        numbers = model._numbers(logs, model._from_metrics("train", live=True))
        text = f"{_bar_text(step + 1, self._steps)} {_time_text(self._last - self._epoch_started, step + 1)}{_formatted(numbers)}"
        if sys.stdout.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]  # A line that wraps cannot be written over.
        self._write_over(text, end="")

    def _write_over(self, text, end="\n"):
        """In the place of the line that is shown; notebooks know no sequence that clears it."""
        start = "\r" if self._shown else ""
        _told(f"{start}{text:<{self._shown}}", end)
        self._shown = len(text)

    def on_epoch_end(self, epoch, logs=None):
        steps = self._seen
        seconds = time.time() - self._epoch_started
        self._write_over(_line(steps, seconds, logs or {}, self.params["verbose"]))
