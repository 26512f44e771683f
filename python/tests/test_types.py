"""Type checkers accept the examples, against what the module and its stub say of themselves."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

EXAMPLES = os.path.join(ROOT, "examples", "python")


def _module_folders():
    """Where the package is, and where the extension and its stub are."""
    import _tandem
    import tandem

    extension = os.path.dirname(_tandem.__file__)
    stub = os.path.join(extension, "_tandem.pyi")
    if not os.path.exists(stub):
        pytest.skip("the stub of the extension was not built")
    return [os.path.dirname(os.path.dirname(tandem.__file__)), extension]


def test_mypy(tmp_path):
    command = [sys.executable, "-m", "mypy", "--config-file", os.path.join(ROOT, "pyproject.toml"), "--cache-dir", str(tmp_path), EXAMPLES]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MYPYPATH": ":".join(_module_folders())}, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif("TANDEM_SOAK" not in os.environ, reason="installs basedpyright: in soaks")
def test_basedpyright(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([tmp_path / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "basedpyright", "numpy"], check=True)
    site = next((tmp_path / "venv/lib").glob("python*")) / "site-packages"  # Where checkers ask for __all__, too.
    package, extension = _module_folders()
    shutil.copytree(os.path.join(package, "tandem"), site / "tandem", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.path.join(extension, "_tandem.pyi"), site)
    settings = {"include": [EXAMPLES], "venvPath": str(tmp_path), "venv": "venv", "typeCheckingMode": "basic", "pythonVersion": "3.11"}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    done = subprocess.run([tmp_path / "venv/bin/basedpyright", "-p", tmp_path / "settings.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed():
    import tandem

    assert os.path.exists(os.path.join(os.path.dirname(tandem.__file__), "py.typed"))


def test_modules_say_which_names_they_give():
    subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "exported-names.py")], check=True)
