#!/usr/bin/env python3
"""Checks that a type's name means one type.

A class, struct, union or enum of include/, src/ or tools/ has a name that no other one of them has, in whatever
namespace or file it is, anonymous namespaces included: a reader who has met `Segment` once must not meet another.
Three things tell names apart all the same:
- A nested type is called by its outer one too, `Sum::Piece` or `Dataset::Body`, so only that whole name counts.
- The modules of the public API that follow Keras (MODULES) repeat Keras's names: `losses::MeanSquaredError`,
  `metrics::MeanSquaredError`.
- Types of kernels/ are left out: there the same functor is written for each kind of numbers and for each backend.
Programs of their own (tests/, bench/, examples/) may name their types as they like, but not as the library names
one of its types at the scope of a namespace. A fixture of tests is named after what it tests, so it may be.

Types that docs/glossary.md says a word is defined by exist. Prints file:line for each breach; exits 1 on any.
"""

import collections
import pathlib
import re
import sys

LIBRARY = "include src tools".split()
PROGRAMS = "tests bench examples".split()
MODULES = set("layers losses metrics optimizers callbacks initializers schedules datasets applications".split())
GLOSSARY = "docs/glossary.md"
FIXTURES = {"testing", "FreshDevices"}  # What fixtures derive from.

TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # Remarks,
    r'|R"(\w*)\(.*?\)\1"'  # texts,
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|\[\[.*?\]\]|[A-Za-z_]\w*|::|.",  # attributes, words and the rest.
    re.S,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
WORD = re.compile(r"[A-Za-z_]\w*$")


def tokens(text):
    """(token, line) without remarks, spaces, attributes and directives."""
    text = DIRECTIVE.sub(lambda m: "\n" * m.group().count("\n"), text)
    line = 1
    for match in TOKEN.finditer(text):
        token = match.group()
        if not token.isspace() and not token.startswith(("//", "/*", "[[")):
            yield token, line
        line += token.count("\n")


def head_of_type(words, at):
    """(name, index of the brace) of the definition that the keyword at `at` begins, or None."""
    if at > 0 and words[at - 1][0] in ("<", ",", "friend", "enum"):
        return None  # A template's parameter, a friend, the class of an enum class.
    i = at + 1
    if words[at][0] == "enum" and words[i][0] in ("class", "struct"):
        i += 1
    name = ""
    while WORD.match(words[i][0]) or words[i][0] == "::":
        if words[i][0] == "alignas":
            while words[i][0] != ")":
                i += 1
        elif words[i][0] == "final":
            pass
        elif not words[i][0].startswith("TANDEM_"):
            name += words[i][0]
        i += 1
    if words[i][0] == "<":
        return None  # A specialisation, or a type that is used.
    while words[i][0] not in "{;()=":
        if words[i][0] in FIXTURES:
            name = "fixture " + name
        i += 1
    return (name, i) if name and words[i][0] == "{" else None


def types_of(path):
    """(module or "", qualified name, line) of each type that a file defines."""
    words = list(tokens(path.read_text(encoding="utf-8")))
    open_braces = []  # (kind, name) of each brace that is open: a namespace, a type, or neither.
    i = 0
    while i < len(words):
        token, line = words[i]
        if token in ("class", "struct", "union", "enum"):
            head = head_of_type(words, i)
            if head:
                name, i = head
                outer = [n for kind, n in open_braces if kind == "type"]
                inner = [n.split("::")[-1] for kind, n in open_braces if kind == "namespace" and n]
                module = inner[-1] if inner and inner[-1] in MODULES else ""
                yield module, "::".join([*outer, name]), line
                open_braces.append(("type", name))
        elif token == "namespace":
            name = ""
            while words[i + 1][0] not in "{;=":
                i += 1
                name += words[i][0]
            if words[i + 1][0] == "{":
                i += 1
                open_braces.append(("namespace", name))
        elif token == "{":
            open_braces.append(("", ""))
        elif token == "}":
            open_braces.pop()
        i += 1


def sources(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp") and "kernels" not in path.parts:
                yield path


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    breaches = []
    places = collections.defaultdict(list)
    for path in sources(root, LIBRARY):
        for module, name, line in types_of(path):
            places[module, name].append(f"{path.relative_to(root)}:{line}")
    for (_, name), where in sorted(places.items()):
        if len(where) > 1:
            breaches.append(f"{where[0]}: {name} is also defined in {', '.join(where[1:])}")

    library = {name: where[0] for (_, name), where in places.items() if "::" not in name}
    for path in sources(root, PROGRAMS):
        for _, name, line in types_of(path):
            if name in library:
                breaches.append(f"{path.relative_to(root)}:{line}: {name} is the library's, {library[name]}")

    known = {name for _, name in places}
    for number, row in enumerate((root / GLOSSARY).read_text(encoding="utf-8").splitlines(), 1):
        cells = row.split("|")
        for name in re.findall(r"`(?:[a-z_]+::)*([A-Z]\w*(?:::[A-Z]\w*)*)`", cells[3] if len(cells) > 3 else ""):
            if name not in known:
                breaches.append(f"{GLOSSARY}:{number}: there is no type {name}")

    print("\n".join(breaches) or f"{len(places)} types, each with a name of its own")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
