import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


@pytest.fixture
def run():
    """Runs a program in a process of its own and returns what it printed."""

    def call(*args, **environment):
        done = subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=170, env={**os.environ, **environment})
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout + done.stderr

    return call
