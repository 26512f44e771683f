import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PATIENCE = 600  # Seconds until a program counts as stuck, on a busy machine, too.


@pytest.fixture
def run():
    """Runs a program in a process of its own and returns what it printed, with what it complained of at the end."""

    def call(*args, **environment):
        done = subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **environment})
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout + done.stderr

    return call
