#!/usr/bin/env python3
"""Checks that the tree is still the reading order.

A folder under src/ includes only itself and folders before it in ORDER. A backend's folder, such as
kernels/cpu, is private: only its parent folder and the same backend elsewhere include it. Public headers
include only public headers and the C++ standard library. Prints file:line for each breach; exits 1 on any.
"""

import pathlib
import re
import sys

ORDER = (
    "core profile device tensor op runtime ops kernels autograd graph execution function collective cluster data"
    " checkpoint distribute keras checks"
).split()
RANK = {folder: rank for rank, folder in enumerate(ORDER)}
SOURCES = {".h", ".hpp", ".inc", ".cpp", ".cc", ".cu", ".cl"}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folders_of(path):
    """The folder of a file and the backend's folder inside it, if any: kernels/cpu/gemm/gemm.h -> kernels, cpu."""
    parts = pathlib.PurePosixPath(path).parts
    return parts[0], (parts[1] if len(parts) > 2 else None)


def breach_in_source(path, target, quoted):
    """Why the file `path` under src/ may not include `target`, or None."""
    folder, backend = folders_of(path)
    if folder not in RANK:
        return f"src/{folder} has no place in the folder order ({' '.join(ORDER)})"
    first = target.split("/")[0]
    if first == "tandem":
        return None
    if first not in RANK or "/" not in target:
        return f'"{target}" should be written from src/ or include/, as in "core/shape.h"' if quoted else None
    other, other_backend = folders_of(target)
    if RANK[other] > RANK[folder]:
        return f'{folder} may not include "{target}": {other} comes after {folder}'
    if other_backend is None or other_backend == backend:
        return None
    if other != folder:
        return f'{folder} may not include "{target}": {other}/{other_backend} is private to {other}'
    if backend is not None:
        return f'{folder}/{backend} may not include "{target}": {other_backend} is another backend'
    return None


def breach_in_public_header(target):
    """Why a public header may not include `target`, or None."""
    if target.startswith("tandem/") or ("/" not in target and "." not in target):
        return None
    return f'a public header may not include "{target}", only tandem/ and the standard library'


def includes(file):
    """Yields (line number, target, whether in quotes) for each include of `file`."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield number, match[2], match[1] == '"'


def breaches(root):
    for top in ("include", "src"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root / top).as_posix()
            for number, target, quoted in includes(file):
                why = breach_in_public_header(target) if top == "include" else breach_in_source(path, target, quoted)
                if why:
                    yield f"{top}/{path}:{number}: {why}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = list(breaches(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
