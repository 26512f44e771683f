#!/usr/bin/env python3
"""Checks that the documents speak of files and pages that exist, and that comments have their subjects.

Every name of a source that README.md or docs/*.md mention, whole or its end as in `data/ahead.cpp`, is that of a
file of the tree; every link between pages leads to a page and to a heading in it. No comment of a C++ source begins
with "Of", which leaves out whose it is. Prints file: what for each breach; exits 1 on any.
"""

import pathlib
import re
import sys

FOLDERS = "include src tests bench examples tools scripts python".split()
# Files that the pages have the reader write.
EXAMPLES = {
    "src/ops/shaping/roll.cpp",
    "src/kernels/cpu/shaping/roll.cpp",
    "tests/ops/shaping/roll_test.cpp",
    "app.cpp",
    "script.py",
}
SOURCE = re.compile(r"[\w./-]+\.(?:h|cpp|py)\b")
LINK = re.compile(r"\]\(([\w./-]*)(?:#([\w-]+))?\)")
CODE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
FRAGMENT = re.compile(r"//[/<!]* Of\b.*")


def anchors(text):
    """The names by which links reach the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def breaches(root):
    files = [file.relative_to(root).as_posix() for folder in FOLDERS for file in (root / folder).rglob("*")]
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for name in sorted(set(SOURCE.findall(text)) - EXAMPLES):
            if not any(f"/{file}".endswith(f"/{name}") for file in files):
                yield f"{page.relative_to(root)}: no source is called {name}"
        for target, anchor in LINK.findall(CODE.sub("", text)):
            other = page.parent / target if target else page
            if not other.exists():
                yield f"{page.relative_to(root)}: there is no {target}"
            elif anchor and anchor not in anchors(other.read_text(encoding="utf-8")):
                yield f"{page.relative_to(root)}: {target} has no heading #{anchor}"


def fragments(root):
    for folder in FOLDERS:
        for source in sorted([*(root / folder).rglob("*.h"), *(root / folder).rglob("*.cpp")]):
            for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
                if found := FRAGMENT.search(line):
                    yield f"{source.relative_to(root)}:{number}: a comment without its subject: {found[0]}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = [*breaches(root), *fragments(root)]
    for breach in found:
        print(breach)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
