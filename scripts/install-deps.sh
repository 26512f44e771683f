#!/usr/bin/env bash
# Installs the Debian packages that are missing for the given sets (default: build).
# usage: scripts/install-deps.sh [build|check|interop|sanitize|peers|aarch64]...
set -euo pipefail

# The daemon that the test of ssh starts in a network namespace of its own. Where an init system runs, its package
# would start one for the whole machine: there it is left to the owner to install, and the test is skipped without it.
ssh_daemon() {
  case $(cat /proc/1/comm 2>/dev/null) in
    systemd | init | openrc-init | runit) ;;
    *) echo openssh-client openssh-server ;;
  esac
}

packages_of() {
  case $1 in
    build) echo g++ cmake ninja-build pkg-config git python3 \
      libdnnl-dev libopenblas-serial-dev libhwy-dev libfmt-dev libzip-dev libleveldb-dev zlib1g-dev libcli11-dev \
      python3-dev python3-venv opencl-c-headers nlohmann-json3-dev libucx-dev libgrpc++-dev libssl-dev \
      libgtest-dev dataset-fashion-mnist pocl-opencl-icd libclblast1 openmpi-bin iproute2 openssl $(ssh_daemon) ;;
    check) echo clang clang-format clang-tidy cppcheck python3 ;;
    interop) echo nlohmann-json3-dev ;;
    sanitize) echo libasan8 libubsan1 libtsan2 ;;
    peers) echo python3 python3-venv python3-pip libopenmpi-dev openmpi-bin ;;
    aarch64) echo g++-aarch64-linux-gnu qemu-user mmdebstrap ;;
    *)
      echo "install-deps.sh: unknown set '$1'; the sets are build, check, interop, sanitize, peers, aarch64" >&2
      return 1
      ;;
  esac
}

wanted=()
for set in "${@:-build}"; do
  names=$(packages_of "$set")
  read -ra names <<<"$names"
  wanted+=("${names[@]}")
done

if ! command -v dpkg-query >/dev/null; then
  echo "install-deps.sh: not a Debian system; needs what Debian calls: ${wanted[*]}" >&2
  exit 0
fi

installed=" $(dpkg-query -W -f '${Package}=${db:Status-Status} ' "${wanted[@]}" 2>/dev/null || true)"
missing=()
for package in "${wanted[@]}"; do
  [[ $installed == *" $package=installed "* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

install=(apt-get install -y --no-install-recommends "${missing[@]}")
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "install-deps.sh: packages are missing and there is no root to install them; run" >&2
    echo "  sudo apt-get update && sudo ${install[*]}" >&2
    exit 1
  fi
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive)

echo "installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" "${install[@]}"
