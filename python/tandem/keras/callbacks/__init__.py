"""What happens at the turns of a training, keras.callbacks."""

from tandem._names import missing as _missing
from tandem.keras.callbacks.base import Callback, History, LambdaCallback
from tandem.keras.callbacks.calls import CallbackList
from tandem.keras.callbacks.control import EarlyStopping, LearningRateScheduler, ReduceLROnPlateau, SwapEMAWeights, TerminateOnNaN
from tandem.keras.callbacks.progress import ProgbarLogger, print_line
from tandem.keras.callbacks.recording import BackupAndRestore, CSVLogger, ModelCheckpoint, RemoteMonitor, TensorBoard


class experimental:
    """Names that are experimental in keras.callbacks."""

    BackupAndRestore = BackupAndRestore


_missing.install(__name__, globals())

__all__ = [  # Written by scripts/exported-names.py.
    "BackupAndRestore", "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback", "LearningRateScheduler",
    "ModelCheckpoint", "ProgbarLogger", "ReduceLROnPlateau", "RemoteMonitor", "SwapEMAWeights", "TensorBoard", "TerminateOnNaN",
    "experimental", "print_line",
]
