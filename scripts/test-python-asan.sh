#!/usr/bin/env bash
# Runs the Python tests over an extension and a library that were built with the address sanitizer:
#   scripts/test-python-asan.sh build-folder virtualenv [options of pytest..]
# The interpreter itself is not sanitized: the sanitizer is loaded before it, with the library of C++ exceptions, which it
# watches. What Python keeps until it ends is no leak of ours, so leaks are left to the soak. The checkers of types test
# nothing of the library.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
python=$(cd "$2" && pwd)/bin/python

preload="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)"
LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1 \
  PYTHONMALLOC=malloc PYTHONPATH=$here/python:$build/python \
  "$python" -X faulthandler -m pytest -q -p no:cacheprovider --ignore "$here/python/tests/test_types.py" \
  "${@:3}" "$here/python/tests"
