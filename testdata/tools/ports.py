#!/usr/bin/env python3
"""What a machine's ports allow: cycles an element of each vector loop of a program, by llvm-mca.

  ports.py HLOCC FILE.hlo... [--mcpu=znver3]

A loop's own limit is the time of its instructions on the busiest port, all data in the first-level cache.  Elements
are what the loop counts up by; loops that count otherwise are left out.
"""
import argparse, re, subprocess

ap = argparse.ArgumentParser()
ap.add_argument("hlocc")
ap.add_argument("files", nargs="+")
ap.add_argument("--mcpu", default="znver3")
ap.add_argument("--mca", default="llvm-mca-19")
a = ap.parse_args()
LABEL, JUMP = re.compile(r"(\.L\w+):"), re.compile(r"\s+j\w+\s+(\.L\w+)")
# Steps are multiples of a vector, pointers may count in bytes: the least is the elements'.
STEP = re.compile(r"\s+addq\s+\$(\d+), %r")
NOISE = re.compile(r"\s*(\.(?!L)|#)")


def loops(text):
    """Innermost loops of one block with vectors in them, as (function, lines)."""
    lines = [line for line in text.splitlines() if not NOISE.match(line)]
    at, function = {}, ""
    for i, line in enumerate(lines):
        if re.match(r"[A-Za-z_\"]", line): function = line.split(":")[0]
        if label := LABEL.match(line): at[label.group(1)] = i
        jump = JUMP.match(line)
        if not jump or jump.group(1) not in at: continue
        body = lines[at[jump.group(1)] + 1:i + 1]
        if any(LABEL.match(line) for line in body) or not any("ymm" in line for line in body): continue
        yield function, body


def cycles(body):
    """Of one iteration: what the busiest port needs."""
    text = "\n".join(line for line in body if not JUMP.match(line))
    done = subprocess.run([a.mca, "-mcpu=" + a.mcpu, "-mtriple=x86_64-linux-gnu", "-iterations=100"], input=text,
                          capture_output=True, text=True, check=True)
    return float(re.search(r"Block RThroughput:\s*([\d.]+)", done.stdout).group(1))


for path in a.files:
    print(path)
    asm = subprocess.run([a.hlocc, "compile", path, "--emit=asm", "-o", "-", "--mcpu=x86-64-v3"], capture_output=True,
                         text=True, check=True).stdout
    for function, body in loops(asm):
        steps = [int(m.group(1)) for line in body if (m := STEP.match(line))]
        if not steps: continue
        need = cycles(body)
        print(f"  {function:40s} {len(body):4d} instructions {min(steps):4d} elements {need:7.1f} cycles"
              f" {need / min(steps):6.3f} an element")
