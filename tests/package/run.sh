#!/usr/bin/env bash
# Installs a built Tandem into a folder of its own, then builds and runs the consumer beside this script
# against it, once with find_package and once with pkg-config; then what the README shows; then other
# ways to have it.
# usage: tests/package/run.sh <build folder>      (CXX names the compiler)
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
tree=$here/../..
cxx=${CXX:-c++}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/installed

# Runs a command; what it prints is shown only if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }

# Of a component, so that it does not overwrite the manifest of `make install`.
install_to() { quietly cmake --install "$build" --prefix "$1" --component Unspecified; }

install_to "$work/elsewhere"
mv "$work/elsewhere" "$prefix" # an installed tree may be moved
"$prefix/bin/tandem" --version

if library=$(find "$prefix" -name libtandem.so | grep .); then
  echo "== exported symbols"
  if nm -D --defined-only "$library" | grep -E ' (cblas_|openblas_|sgemm_|dnnl_|omp_)'; then
    echo "the shared library exports symbols of its providers"
    exit 1
  fi
fi

echo "== plugins"
if [ -n "${library:-}" ] && objdump -p "$library" | grep -E 'NEEDED.*(ucp|uct|grpc|ssl|crypto)'; then
  echo "the shared library needs libraries that are its plugins'"
  exit 1
fi
if find "$prefix" -name libtandem_grpc.so | grep -q .; then
  "$prefix/bin/tandem" run --workers 2 -- sh -c 'echo rank $TANDEM_RANK' | sort
fi

echo "== find_package"
quietly cmake -S "$here" -B "$work/cmake" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$work/cmake"
"$work/cmake/consumer"

echo "== pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tandem.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs tandem)"
"$cxx" -std=c++20 "$here/main.cpp" -o "$work/consumer" "${flags[@]}"
"$work/consumer"

echo "== README"
python3 "$here/readme.py" "$tree/README.md" "$work"
"$cxx" -std=c++20 -fsyntax-only "$work/fragments.cpp" "${flags[@]}"
"$cxx" -std=c++20 "$work/program.cpp" -o "$work/program" "${flags[@]}"
"$work/program" >"$work/losses"
sed -n '1p;$p' "$work/losses"
awk '{ loss = $NF } NR == 1 { first = loss } END { exit !(loss < first / 10) }' "$work/losses" ||
  { echo "the README's program does not learn"; exit 1; }

echo "== uninstall"
install_to "$work/removed"
quietly cmake -P "$tree/cmake/Uninstall.cmake" "$build/install_manifest_Unspecified.txt"
if find "$work/removed" ! -type d -o -name tandem | grep .; then
  echo "this is left after uninstalling"
  exit 1
fi

echo "== subproject"
for all in OFF ON; do
  quietly cmake -S "$here/subproject" -B "$work/subproject-$all" -DCMAKE_CXX_COMPILER="$cxx" \
    -DTANDEM_TREE="$tree" -DALL=$all
done

echo "== vcpkg port"
quietly cmake -DTREE="$tree" -P "$here/vcpkg_port.cmake"
