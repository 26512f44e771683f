"""Runs the scripts and writes or compares what they compute.

With TensorFlow:  python record.py recorded.json          (writes)
With tandem:      python record.py recorded.json --check  (compares; see test_scripts.py)
"""

import json
import os
import runpy
import sys

import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts")


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


if __name__ == "__main__":
    if "--check" in sys.argv:
        with open(sys.argv[1]) as file:
            recorded = json.load(file)
        for name in sys.argv[3:] or names():
            try:
                got = computed(name)
            except Exception as error:  # noqa: BLE001
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}")
                if os.environ.get("TRACE"):
                    raise
                continue
            for key, value in recorded[name].items():
                try:
                    np.testing.assert_allclose(got[key], value, rtol=2e-3, atol=2e-4)
                except (AssertionError, KeyError, ValueError) as error:
                    print(f"{name}.{key}: recorded {str(value)[:120]} computed {str(got.get(key))[:120]} {type(error).__name__}")
            print(name, "done")
    else:
        values = {}
        if os.path.exists(sys.argv[1]):
            with open(sys.argv[1]) as file:
                values = json.load(file)
        for name in sys.argv[2:] or names():
            try:
                values[name] = computed(name)
            except Exception as error:  # noqa: BLE001
                print(name, type(error).__name__, error)
        with open(sys.argv[1], "w") as file:
            json.dump(values, file, indent=0, sort_keys=True)
