#!/usr/bin/env python3
"""Does what a README says, in the current folder: a block after a line that names a file in
backticks last, before a colon, is written to that file; the commands of console blocks are run,
and must print what stands below them.

    readme.py README.md
"""
import re
import subprocess
import sys


def run_console(text):
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append([line[2:], ""])
        else:
            steps[-1][1] += line + "\n"
    for command, expected in steps:
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        if done.stdout != expected:
            sys.exit(f"$ {command}\nprints\n{done.stdout}not\n{expected}")
        print("as written:", command)


def main():
    with open(sys.argv[1]) as readme:
        text = readme.read()
    blocks = 0
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        before = text[:match.start()].rstrip().splitlines()[-1]
        name = re.findall(r"`([\w.]+)`", before)
        if match[1] == "console":
            run_console(match[2])
            blocks += 1
        elif name and before.endswith(":"):
            with open(name[-1], "w") as out:
                out.write(match[2])
    if not blocks:
        sys.exit("no console block")


main()
