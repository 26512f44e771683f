#!/usr/bin/env bash
# Unpacks the libraries that we link for another architecture into a folder; one that is there is left as it is.
# Debian's libdnnl-dev of two architectures cannot be installed at once: their headers differ.
# usage: scripts/make-sysroot.sh ARCHITECTURE FOLDER
set -euo pipefail

if [ $# -ne 2 ]; then
  echo "usage: $0 ARCHITECTURE FOLDER" >&2
  exit 64
fi
architecture=$1 folder=$2
[ ! -d "$folder" ] || exit 0

libraries=libdnnl-dev,libopenblas-serial-dev,libhwy-dev,libfmt-dev,libzip-dev,libleveldb-dev,zlib1g-dev,libgtest-dev
. /etc/os-release
mkdir -p "$(dirname "$folder")"
trap 'rm -rf "$folder.new"' EXIT
mmdebstrap --architectures="$architecture" --variant=extract --include="$libraries" \
  "$VERSION_CODENAME" "$folder.new" http://deb.debian.org/debian
mv "$folder.new" "$folder"
