#!/usr/bin/env python3
"""Compiles the cases of testdata/corpus/tpu.txt for the TPU, and checks that assemble(disassemble(p))
= p to the byte. Closes with "N passed, N failed".

    tpu_round_trip.py HLOCC [--chip=... ...] [MODULE.hlo ...]
"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=300).returncode == 0


def listed():
    with open(os.path.join(ROOT, "testdata/corpus/tpu.txt")) as lines:
        return [os.path.join(ROOT, "testdata/corpus", line.split()[0], "module.hlo")
                for line in lines if line.strip()]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    hlocc = os.path.abspath(sys.argv[1])
    options = [word for word in sys.argv[2:] if word.startswith("-")]
    cases = [word for word in sys.argv[2:] if not word.startswith("-")]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        one, text, two = (os.path.join(folder, name) for name in ("one.tpu", "one.s", "two.tpu"))
        for case in cases or listed():
            same = (run([hlocc, "compile", "--target=tpu", *options, case, "-o", one])
                    and run([hlocc, "disasm", one, "-o", text])
                    and run([hlocc, "asm", text, "-o", two])
                    and content(one) == content(two))
            passed += same
            failed += not same
            if not same:
                print("FAILED", case)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
