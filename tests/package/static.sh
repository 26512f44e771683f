#!/usr/bin/env bash
# Builds and installs Tandem as a static library, then does with it what run.sh does; then makes a Conan
# package, where there is Conan. Takes minutes.
# usage: tests/package/static.sh      (CXX names the compiler)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$here/../..

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S "$tree" -B "$work/build" -DCMAKE_CXX_COMPILER="${CXX:-c++}" -DBUILD_SHARED_LIBS=OFF \
  -DTANDEM_TESTS=OFF -DTANDEM_EXAMPLES=OFF -DTANDEM_BENCH=OFF
cmake --build "$work/build" --parallel "$(nproc)"
"$here/run.sh" "$work/build"

if command -v conan >/dev/null; then
  export CONAN_HOME=$work/conan
  conan profile detect
  conan create "$tree/packaging/conan" --test-folder "$here"
fi
