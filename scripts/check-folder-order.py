#!/usr/bin/env python3
"""Checks that the tree is still the reading order.

A folder under src/ includes only itself and folders before it in ORDER, and of the public headers those of
folders before it: tandem/data.h and tandem/keras/model.h are of the folders data and keras, while tandem/shape.h
is for all. It does not name what is in the namespace of a later folder either. A room of a folder, such as
keras/losses, includes only rooms before it in ROOMS and files that lie in the folder itself, which may include
every room. A backend's or a transport's folder, such as kernels/cpu, is private: only its parent folder and the
same backend elsewhere include it. EXCEPTIONS lists all that is allowed besides.

Public headers include only public headers and the C++ standard library. No two headers have one name, and no
folder has more than MOST_STEMS names of files. Prints file:line for each breach; exits 1 on any.
"""

import collections
import pathlib
import re
import sys

ORDER = (
    "core profile device tensor op runtime ops kernels autograd graph collective execution function cluster data"
    " checkpoint distribute keras checks"
).split()
ROOMS = {
    "ops": "shaping elementwise reduction random loss normalization convolution attention".split(),
    "kernels/gpu": "elementwise shaping reduction random loss normalization gemm convolution attention".split(),
    "kernels/cpu": "shaping elementwise reduction random loss normalization gemm convolution attention".split(),
    "graph": "pipeline passes".split(),
    "execution": "pipeline".split(),
    "distribute": "range server".split(),
    "keras": "losses metrics layers models applications optimizers datasets training".split(),
}
PRIVATE = {"cpu", "test", "local", "gpu", "opencl", "cuda", "nccl", "ucx", "grpc"}
# What backends have in common, and what they stand on.
BASES = {"opencl": {"gpu"}, "cuda": {"gpu"}, "nccl": {"cuda", "gpu"}}
# The file, and what it names or includes.
EXCEPTIONS = {
    # Functions of single elements are written once: GPUs' kernels are printed from the CPU's.
    ("kernels/gpu/elementwise/activation.cpp", "kernels/cpu/elementwise/pointwise.h"),
    ("kernels/gpu/elementwise/function_text.cpp", "kernels/cpu/elementwise/pointwise.h"),
    ("kernels/gpu/elementwise/pointwise.cpp", "kernels/cpu/elementwise/pointwise.h"),
    # Registration is a call on first use: the registry names who has something to register.
    ("op/registry.cpp", "namespace tandem::ops"),
    ("op/registry.cpp", "namespace tandem::kernels"),
    ("op/registry.cpp", "namespace tandem::collective"),
    # The seed that users set and the numbers of their draws belong to eager execution.
    ("runtime/random_calls.cpp", "tandem/ops/random.h"),
    # What a run will allocate is told to users as executions know it.
    ("execution/execution.h", "tandem/function.h"),
}
MOST_STEMS = 25
RANK = {folder: rank for rank, folder in enumerate(ORDER)}
SOURCES = {".h", ".hpp", ".inc", ".cpp", ".cc", ".cu", ".cl"}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
NAMESPACE = re.compile(r"namespace tandem::(\w+)")

Place = collections.namedtuple("Place", "folder private room")


def place_of(path):
    """Where a file lies: kernels/cpu/gemm/gemm.h -> Place("kernels", "cpu", "gemm")."""
    folder, *inner = pathlib.PurePosixPath(path).parts[:-1]
    private = inner.pop(0) if inner and inner[0] in PRIVATE else None
    return Place(folder, private, inner[0] if inner else None)


def rooms_of(place):
    """The rooms beside the one of `place`, in their order."""
    return ROOMS.get("/".join(filter(None, place[:2])), [])


def breach_of_place(path):
    """Why the file `path` under src/ may not lie where it does, or None."""
    place = place_of(path)
    if place.folder not in RANK:
        return f"src/{place.folder} has no place in the folder order ({' '.join(ORDER)})"
    if place.room and place.room not in rooms_of(place):
        return f"{place.room} has no place among the rooms of {place.folder} ({' '.join(rooms_of(place))})"
    return None


def breach_of_public_order(place, target):
    """Why a file at `place` may not include the public header `target`, or None."""
    other = pathlib.PurePosixPath(target).with_suffix("").parts[1]
    if RANK.get(other, -1) > RANK[place.folder]:
        return f'{place.folder} may not include "{target}": {other} comes after {place.folder}'
    return None


def breach_of_order(place, target):
    """Why a file at `place` may not include "`target`" of src/, or None."""
    other = place_of(target)
    if RANK[other.folder] > RANK[place.folder]:
        return f'{place.folder} may not include "{target}": {other.folder} comes after {place.folder}'
    if other.private and other.private not in {place.private} | BASES.get(place.private, set()):
        if other.folder != place.folder:
            return f'{place.folder} may not include "{target}": {other.private} is private to {other.folder}'
        if place.private:
            return f'{place.folder}/{place.private} may not include "{target}": {other.private} is another backend'
    if place.room and other.room and other[:2] == place[:2]:
        rooms = rooms_of(place)
        if other.room in rooms and rooms.index(other.room) > rooms.index(place.room):
            return f'{place.room} may not include "{target}": the room {other.room} comes after {place.room}'
    return None


def breach_of_include(path, target, quoted):
    """Why the file `path` under src/ may not include `target`, or None."""
    first = target.split("/")[0]
    if first == "tandem":
        return breach_of_public_order(place_of(path), target)
    if first not in RANK or "/" not in target:
        return f'"{target}" should be written from src/ or include/, as in "core/shape.h"' if quoted else None
    return breach_of_order(place_of(path), target)


def breach_in_public_header(target):
    """Why a public header may not include `target`, or None."""
    if target.startswith("tandem/") or ("/" not in target and "." not in target):
        return None
    return f'a public header may not include "{target}", only tandem/ and the standard library'


def breaches_in_source(path, lines):
    """Yields (line number, breach) for the file `path` under src/."""
    if why := breach_of_place(path):
        yield 1, why
        return
    folder = place_of(path).folder
    for number, line in enumerate(lines, start=1):
        if match := INCLUDE.match(line):
            if (path, match[2]) in EXCEPTIONS:
                continue
            if why := breach_of_include(path, match[2], match[1] == '"'):
                yield number, why
        elif (match := NAMESPACE.match(line)) and (path, match[0]) not in EXCEPTIONS:
            if RANK.get(match[1], -1) > RANK[folder]:
                yield number, f"{folder} may not name what is in {match[1]}, which comes after it"


def breaches_in_header(lines):
    """Yields (line number, breach) for a public header."""
    for number, line in enumerate(lines, start=1):
        if (match := INCLUDE.match(line)) and (why := breach_in_public_header(match[2])):
            yield number, why


def breaches_of_names(files):
    """Headers of one name, and folders with too many names, among `files`, relative to the root."""
    headers = collections.defaultdict(list)
    stems = collections.defaultdict(set)
    for file in files:
        if file.suffix == ".h" and file.parts[0] in ("include", "src"):
            headers[file.name].append(file)
        stems[file.parent].add(file.stem)
    for name, places in headers.items():
        for place in places[1:]:
            yield f"{place}:1: {places[0]} has the same name"
    for folder, names in stems.items():
        if len(names) > MOST_STEMS:
            yield f"{folder}: {len(names)} names of files are too many for one folder; {MOST_STEMS} are enough"


def sources(root, *tops):
    return [file for top in tops for file in sorted((root / top).rglob("*"))
            if file.suffix in SOURCES and file.is_file()]


def breaches(root):
    for file in sources(root, "include", "src"):
        top, path = file.relative_to(root).as_posix().split("/", 1)
        lines = file.read_text(encoding="utf-8").splitlines()
        found = breaches_in_header(lines) if top == "include" else breaches_in_source(path, lines)
        for number, why in found:
            yield f"{top}/{path}:{number}: {why}"
    everything = sources(root, "include", "src", "tests", "bench", "tools", "examples")
    yield from breaches_of_names([file.relative_to(root) for file in everything])


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = list(breaches(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
