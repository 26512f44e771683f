#!/usr/bin/env bash
# Installs a built Tandem into a folder of its own, then builds and runs the consumer beside this script
# against it, once with find_package and once with pkg-config; then what the README shows.
# usage: tests/package/run.sh <build folder>      (CXX names the compiler)
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
cxx=${CXX:-c++}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/installed

cmake --install "$build" --prefix "$work/elsewhere" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/elsewhere" "$prefix" # an installed tree may be moved

echo "== exported symbols"
library=$(find "$prefix" -name libtandem.so)
if nm -D --defined-only "$library" | grep -E ' (cblas_|openblas_|sgemm_|dnnl_|omp_)'; then
  echo "the shared library exports symbols of its providers"
  exit 1
fi

echo "== find_package"
cmake -S "$here" -B "$work/cmake" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" \
  >"$work/log" 2>&1 && cmake --build "$work/cmake" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/cmake/consumer"

echo "== pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tandem.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs tandem)"
"$cxx" -std=c++20 "$here/main.cpp" -o "$work/consumer" "${flags[@]}"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tandem)
export LD_LIBRARY_PATH
"$work/consumer"

echo "== README"
python3 "$here/readme.py" "$here/../../README.md" "$work"
"$cxx" -std=c++20 -fsyntax-only "$work/fragments.cpp" "${flags[@]}"
"$cxx" -std=c++20 "$work/program.cpp" -o "$work/program" "${flags[@]}"
"$work/program" | tail -n 1
