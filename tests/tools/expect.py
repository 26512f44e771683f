#!/usr/bin/env python3
"""Runs a program and checks how it ends, what it prints and what it leaves behind.

usage: expect.py [--fresh=FOLDER] [--leaves=FILE] <exit status> <regular expression>... -- <program> [argument]...

Each expression must be found in what the program prints, on either stream; one that starts with '!' must not. FOLDER is
removed before, FILE must be there afterwards.
"""

import pathlib
import re
import shutil
import subprocess
import sys


def split_options(words):
    """Takes the options from the front of the words."""
    options = {}
    while words[0].startswith("--"):
        name, _, value = words.pop(0).partition("=")
        options[name] = value
    return options


def main():
    split = sys.argv.index("--")
    expectations, command = sys.argv[1:split], sys.argv[split + 1 :]
    options = split_options(expectations)
    status, expressions = int(expectations[0]), expectations[1:]
    if fresh := options.get("--fresh"):
        shutil.rmtree(fresh, ignore_errors=True)
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wrong = []
    if result.returncode != status:
        wrong.append(f"it ended with {result.returncode}, not with {status}")
    for expression in expressions:
        unwanted = expression.startswith("!")
        pattern = expression[1:] if unwanted else expression
        if bool(re.search(pattern, result.stdout, re.MULTILINE)) == unwanted:
            wrong.append(f"'{pattern}' is {'' if unwanted else 'not '}in its output")
    if (left := options.get("--leaves")) and not pathlib.Path(left).exists():
        wrong.append(f"it left no {left}")
    if wrong:
        print("\n".join([*wrong, "its output:", result.stdout]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
