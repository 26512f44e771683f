"""What the programs in scripts/ compute: written down with TensorFlow, compared with tandem.

    python record.py recorded.json [name..]            with an interpreter that has TensorFlow: writes
    python record.py recorded.json --check [name..]    with one that has tandem: compares; see also test_scripts.py
"""

import json
import os
import runpy
import sys
import traceback

import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts")
CLOSE = {"rtol": 2e-3, "atol": 2e-4}


def names():
    return sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".py") and f != "common.py")


def plain(value):
    if hasattr(value, "numpy"):
        value = value.numpy()
    return np.asarray(value, dtype=np.float64).round(9).tolist()


def computed(name):
    sys.path.insert(0, HERE)
    try:
        result = runpy.run_path(os.path.join(HERE, f"{name}.py"), run_name="__main__")["result"]
    finally:
        sys.path.remove(HERE)
    return {key: plain(value) for key, value in result.items()}


def differences(got, recorded):
    """What is not as it was recorded, in words."""
    found = [f"{key} is not computed" for key in recorded.keys() - got.keys()] + [f"{key} is not recorded" for key in got.keys() - recorded.keys()]
    for key in sorted(recorded.keys() & got.keys()):
        try:
            np.testing.assert_allclose(got[key], recorded[key], **CLOSE)
        except (AssertionError, ValueError):
            found.append(f"{key}: recorded {str(recorded[key])[:200]}, computed {str(got[key])[:200]}")
    return found


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return json.load(file)


def write(path, wanted):
    """How many programs fail."""
    values, failed = read(path), 0
    for name in wanted:
        try:
            values[name] = computed(name)
        except Exception:  # noqa: BLE001
            failed += 1
            print(f"{name}: {traceback.format_exc()}", flush=True)
    with open(path, "w") as file:
        lines = [f"{json.dumps(name)}:{json.dumps(values[name], sort_keys=True, separators=(',', ':'))}" for name in sorted(values)]
        file.write("{" + ",\n".join(lines) + "}\n")
    return failed


def check(path, wanted):
    """How many programs fail or differ."""
    from tandem._names import substitute as _substitute

    _substitute.install(quiet=True)
    recorded, failed = read(path), 0
    for name in wanted:
        try:
            found = differences(computed(name), recorded[name])
        except Exception:  # noqa: BLE001
            found = [traceback.format_exc()]
        failed += bool(found)
        print(f"{name}: {'agrees' if not found else '; '.join(found)}", flush=True)
    return failed


if __name__ == "__main__":
    path, words = sys.argv[1], sys.argv[2:]
    wanted = [w for w in words if w != "--check"] or names()
    if "--check" in words:
        sys.exit(min(check(path, wanted), 1))
    sys.exit(min(write(path, wanted), 1))
