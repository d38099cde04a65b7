#!/usr/bin/env python3
"""Writes the expected output of golden tests anew, and shows what changed.

update_golden.py HLOCC FILE...

Only files with the line

    // Expected output, written by `make update-golden`; read the change before keeping it.

are touched: what follows up to the program is replaced by the output of the file's first RUN line, as
CHECK lines. The diff goes to standard output; it is for a person to read.
"""
import difflib
import re
import shlex
import subprocess
import sys

MARK = "// Expected output, written by `make update-golden`; read the change before keeping it."


def command_of(lines, hlocc, path):
    for line in lines:
        match = re.match(r"// RUN: (.*)$", line)
        if match:
            command = match.group(1).split("|")[0].replace("%hlocc", shlex.quote(hlocc))
            return command.replace("%s", shlex.quote(path))
    sys.exit(path + ": no RUN line")


def escaped(line):
    """FileCheck takes {{ and [[ as its own."""
    return line.replace("{{", "{{[{][{]}}").replace("[[", "{{\\[\\[}}")


def checks(output):
    lines, first = [], True
    for line in output.splitlines():
        word = "CHECK" if first else "CHECK-NEXT" if line else "CHECK-EMPTY"
        lines.append(("// %s: %s" % (word, escaped(line))).rstrip())
        first = False
    return lines


def update(hlocc, path):
    with open(path) as file:
        old = file.read().split("\n")
    if MARK not in old:
        return
    at = old.index(MARK)
    end = at + 1
    while end < len(old) and old[end].startswith("// CHECK"):
        end += 1
    run = subprocess.run(command_of(old, hlocc, path), shell=True, check=True, text=True,
                         stdout=subprocess.PIPE)
    new = old[: at + 1] + checks(run.stdout.rstrip("\n")) + old[end:]
    if new == old:
        return
    with open(path, "w") as file:
        file.write("\n".join(new))
    sys.stdout.writelines(line + "\n" for line in
                          difflib.unified_diff(old, new, path, path, lineterm=""))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:]:
        update(sys.argv[1], name)
