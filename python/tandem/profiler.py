"""What each thread did and when, tf.profiler: timelines that Chrome and Perfetto show."""

import contextlib
import os

import _tandem
from tandem._names import missing as _missing


class _Session:
    folder = None  # Of the profile that is being taken.


class experimental(metaclass=_missing.Namespace):
    """tf.profiler.experimental."""

    class ProfilerOptions:
        def __init__(self, host_tracer_level=2, python_tracer_level=0, device_tracer_level=1, delay_ms=None):
            pass

    @staticmethod
    def start(logdir, options=None):
        """Begins a profile, which stop() writes into the folder."""
        _tandem.profile_start()
        _Session.folder = os.fspath(logdir)

    @staticmethod
    def stop(save=True):
        """Ends it. The file is trace.json in the folder; returns what ran how long, for people."""
        folder, _Session.folder = _Session.folder, None
        if not save or folder is None:
            return _tandem.profile_stop("")
        os.makedirs(folder, exist_ok=True)
        return _tandem.profile_stop(os.path.join(folder, "trace.json"))

    class Profile:
        """A profile of what happens within."""

        def __init__(self, logdir, options=None):
            self._folder = logdir

        def __enter__(self):
            experimental.start(self._folder)
            return self

        def __exit__(self, *exception):
            experimental.stop()

    @staticmethod
    def Trace(name, **kwargs):
        """A step: ops and steps have names of their own here."""
        return contextlib.nullcontext()


_missing.install(__name__, globals())
