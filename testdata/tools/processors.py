#!/usr/bin/env python3
"""Writes backend/cpu/processor.def: the processors that LLVM has code for, by architecture. LLVM
answers an unknown name with a warning and code for something else; the table makes it an error.

    processors.py [--check] FILE      --check: fails where FILE differs from what it would write
"""
import re
import subprocess
import sys

LLC = "llc-19"
ARCHITECTURES = {"x86_64": [], "aarch64": [], "riscv64": ["-target-abi=lp64d"]}
HEAD = """/* The processors that LLVM 19 knows, by architecture: what --mcpu may name. Written by
 * testdata/tools/processors.py. PROCESSOR(architecture, name) */
"""
PROGRAM = b"define void @f() { ret void }\n"


def listed(architecture):
    text = subprocess.run([LLC, "-mtriple=" + architecture, "-mcpu=help"], stdin=subprocess.DEVNULL,
                          stderr=subprocess.STDOUT, stdout=subprocess.PIPE).stdout.decode()
    return re.findall(r"^  (\S+) +- Select the", text.split("Available features")[0], re.M)


def has_code(architecture, name):
    """Others are listed too: of 32 bits, for which LLVM aborts, or without floating point."""
    done = subprocess.run([LLC, "-mtriple=" + architecture, "-mcpu=" + name, "-o", "/dev/null"]
                          + ARCHITECTURES[architecture], input=PROGRAM, stderr=subprocess.PIPE)
    return done.returncode == 0 and not done.stderr


def main():
    path = sys.argv[-1]
    rows = [f'PROCESSOR({a.upper()}, "{name}")\n'
            for a in ARCHITECTURES for name in listed(a) if has_code(a, name)]
    text = HEAD + "".join(rows)
    if "--check" in sys.argv:
        return 0 if open(path).read() == text else sys.exit(path + " is stale: run " + sys.argv[0])
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
