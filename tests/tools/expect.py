#!/usr/bin/env python3
"""Runs a program and checks how it ends and what it prints.

usage: expect.py <exit status> <regular expression>... -- <program> [argument]...

Each expression must be found in what the program prints, on either stream; one that starts with '!' must not.
"""

import re
import subprocess
import sys


def main():
    split = sys.argv.index("--")
    status, expressions, command = int(sys.argv[1]), sys.argv[2:split], sys.argv[split + 1 :]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    wrong = []
    if result.returncode != status:
        wrong.append(f"it ended with {result.returncode}, not with {status}")
    for expression in expressions:
        unwanted = expression.startswith("!")
        pattern = expression[1:] if unwanted else expression
        if bool(re.search(pattern, result.stdout, re.MULTILINE)) == unwanted:
            wrong.append(f"'{pattern}' is {'' if unwanted else 'not '}in its output")
    if wrong:
        print("\n".join([*wrong, "its output:", result.stdout]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
