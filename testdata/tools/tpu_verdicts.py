#!/usr/bin/env python3
"""`hlocc check --target=tpu` and `hlocc compile --target=tpu` must say the same of every program: both
take it, or both refuse it with the same words. Closes with "N passed, N failed".

    tpu_verdicts.py HLOCC [-O0 ...] MODULE.hlo ...
"""
import os
import subprocess
import sys
import tempfile


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=300)
    return done.returncode, done.stderr


def has_elided(path):
    """Constants that the text leaves out are fine to check, and nothing to compile."""
    with open(path) as text:
        return "constant({...})" in text.read()


def main():
    hlocc = os.path.abspath(sys.argv[1])
    options = [word for word in sys.argv[2:] if word.startswith("-")]
    paths = [word for word in sys.argv[2:] if not word.startswith("-")]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.tpu")
        for path in paths:
            if has_elided(path):
                continue
            checked = run([hlocc, "check", "--quiet", "--target=tpu", *options, path])
            compiled = run([hlocc, "compile", "--target=tpu", *options, path, "-o", out])
            same = checked == compiled and checked[0] in (0, 1)
            passed += same
            failed += not same
            if not same:
                print("FAILED", path, checked, compiled)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
