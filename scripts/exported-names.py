#!/usr/bin/env python3
"""Checks that the modules of the Python package say which imported names are theirs to give, in __all__: type checkers take
others for private once the package is installed. scripts/exported-names.py [--write]

A list is needed where a module imports names of the package without using them: to give them. All of its names are in it then that
do not begin with an underscore, since `import *` takes just that.
"""

import ast
import pathlib
import sys

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python" / "tandem"
WIDTH = 140
HEAD = "__all__ = [  # Written by scripts/exported-names.py.\n"


def is_public(path):
    return not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(PACKAGE).parts)


def is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Attribute) and node.test.attr == "TYPE_CHECKING"


def file_of(module):
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported_names(body):
    for node in body:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] in ("tandem", "_tandem")):
            for alias in node.names:
                if alias.name == "*":
                    yield from public_names(ast.parse(file_of(node.module).read_text()).body)
                else:
                    yield alias.asname or alias.name
        elif is_type_checking(node):
            yield from imported_names(node.body)


def defined_names(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def public_names(body):
    deleted = {target.id for node in body if isinstance(node, ast.Delete) for target in node.targets}
    names = {*imported_names(body), *defined_names(body)} - deleted
    return sorted(name for name in names if not name.startswith("_"))


def needs_list(path, tree):
    """Whether the module gives names of others, rather than only to use them."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for part in tree.body if is_type_checking(part) for node in part.body):
        return False  # It makes names that are not written there.
    imported = {name for name in imported_names(tree.body) if not name.startswith("_")}
    if path.name != "__init__.py":
        imported -= used
    return bool(imported)


def list_text(names):
    lines, line = [], "   "
    for name in names:
        if len(line) + len(name) + 4 > WIDTH:
            lines.append(line)
            line = "   "
        line += f' "{name}",'
    return HEAD + "\n".join([*lines, line]) + "\n]\n"


def without_list(text):
    start = text.find(HEAD)
    return text if start < 0 else text[:start].rstrip("\n") + "\n" + text[text.index("\n]\n", start) + 3 :]


def main():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if not is_public(path) or path.name == "__main__.py":
            continue
        tree = ast.parse(text)
        wanted = without_list(text)
        if needs_list(path, tree):
            names = public_names(tree.body)
            wanted = wanted.rstrip("\n") + "\n\n" + list_text(names)
        if wanted == text:
            continue
        wrong.append(str(path.relative_to(PACKAGE)))
        if "--write" in sys.argv:
            path.write_text(wanted)
    if wrong and "--write" not in sys.argv:
        sys.exit(f"__all__ is not what the imports say; run scripts/exported-names.py --write: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
