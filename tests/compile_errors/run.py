"""Checks what compilers say: run.py <compiler> <folder of headers>.

Each statement of cases.cpp with a comment "error: text" must cause one error, with that text in it and few
lines around it; the other statements none. Without C++20 there is one error in all.
"""
import pathlib
import re
import subprocess
import sys

LINES_PER_ERROR = 16


def compiled(compiler, headers, source, standard):
    """What the compiler writes."""
    command = [compiler, f"-std={standard}", "-fsyntax-only", "-fdiagnostics-color=never",
               f"-I{headers}", source]
    return subprocess.run(command, capture_output=True, text=True).stderr.splitlines()


def errors_of(lines):
    return [line for line in lines if re.search(r"^\S+:\d+:\d+: (fatal )?error: ", line)]


def check(condition, what, lines):
    if not condition:
        sys.exit("\n".join([*lines, "", what]))


def main(compiler, headers):
    source = pathlib.Path(__file__).parent / "cases.cpp"
    wanted = re.findall(r"// error: (.*)", source.read_text())
    lines = compiled(compiler, headers, source, "c++20")
    errors = errors_of(lines)
    for text in wanted:
        found = [error for error in errors if text in error]
        check(len(found) == wanted.count(text), f"{len(found)} errors say '{text}'", lines)
    check(len(errors) == len(wanted), f"{len(errors)} errors of {len(wanted)} statements", lines)
    most = LINES_PER_ERROR * len(errors)
    check(len(lines) <= most, f"{len(lines)} lines, at most {most} are wanted", lines)

    lines = compiled(compiler, headers, source, "c++17")
    errors = errors_of(lines)
    check(len(errors) == 1 and "C++20" in errors[0], "with C++17 one error is wanted", lines)


main(*sys.argv[1:])
