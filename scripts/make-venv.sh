#!/usr/bin/env bash
# Makes the virtualenv that the Python module is built and tested in: scripts/make-venv.sh folder build-folder.
# `import tandem` there is the sources of this checkout over the extension of the build folder.
set -euo pipefail

venv=$1
build=$2
here=$(cd "$(dirname "$0")/.." && pwd)
wanted=$here/python/requirements-test.txt

[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
if ! cmp -s "$wanted" "$venv/installed.txt"; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$venv/installed.txt"
fi
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$here/python" "$(cd "$build" && pwd)/python" >"$site/tandem.pth"
