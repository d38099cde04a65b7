#!/usr/bin/env python3
"""Counts the kernels in the entry computation of HLO programs.

count_kernels.py FILE...             one line a file: the count and the file
count_kernels.py --compare HLOCC DIR...
    Each DIR is a case (module.hlo, and optimized.hlo as XLA:CPU leaves it). Prints hlocc's count
    after its CPU pipeline beside XLA's, and fails where hlocc's is higher.

An instruction of the entry computation is a kernel unless it computes nothing (parameter, constant,
tuple, get-tuple-element, bitcast, ...). A call counts as what is in the computation it calls. A
library subgraph of XLA's (a fusion with backend_config __ynn_fusion) counts as its dots,
convolutions, reduces and reduce-windows, and as one at least.
"""
import re
import subprocess
import sys
import tempfile

FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier",
        "add-dependency", "domain", "partition-id", "replica-id"}
LIBRARY = {"dot", "convolution", "reduce", "reduce-window"}
HEADER = re.compile(r"^(ENTRY\s+)?%?([\w.\-]+)\s*(\([^=]*)?\{\s*$")
OPCODE = re.compile(r"^(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+)\s+([a-z][\w\-]*)\(")


def computations(text):
    """{name: [(opcode, line)]}, and the entry's name."""
    found, entry, name = {}, None, None
    for line in re.sub(r"/\*.*?\*/", "", text).splitlines():
        header = HEADER.match(line)
        if header and not line.startswith((" ", "\t")):
            name = header.group(2)
            found[name] = []
            entry = name if header.group(1) else entry
        elif line.startswith("}"):
            name = None
        elif name and " = " in line:
            opcode = OPCODE.match(line.split(" = ", 1)[1])
            if opcode:
                found[name].append((opcode.group(1), line))
    return found, entry or name


def called(line, word):
    match = re.search(word + r"=%?([\w.\-]+)", line)
    return match.group(1) if match else None


def count(found, name):
    total = 0
    for opcode, line in found[name]:
        if opcode in FREE:
            continue
        if opcode == "call":
            total += count(found, called(line, "to_apply"))
        elif opcode == "fusion" and "__ynn_fusion" in line:
            inside = found[called(line, "calls")]
            total += max(1, sum(op in LIBRARY for op, _ in inside))
        else:
            total += 1
    return total


def count_file(path):
    with open(path) as file:
        found, entry = computations(file.read())
    return count(found, entry)


def compare(hlocc, folders):
    above = 0
    for folder in folders:
        with tempfile.NamedTemporaryFile(suffix=".hlo") as out:
            subprocess.run([hlocc, "compile", folder + "/module.hlo", "--emit=hlo", "-o", out.name],
                           check=True)
            ours = count_file(out.name)
        theirs = count_file(folder + "/optimized.hlo")
        above += ours > theirs
        print("%5d %5d  %s%s" % (ours, theirs, folder, "  ABOVE" if ours > theirs else ""))
    return above > 0


def main(args):
    if args[:1] == ["--compare"] and len(args) > 2:
        return compare(args[1], args[2:])
    if not args or args[0].startswith("-"):
        sys.exit(__doc__)
    for path in args:
        print("%5d  %s" % (count_file(path), path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
