#!/usr/bin/env python3
"""fixed_point.py HLOCC DIR...: each *.hlo below must be accepted, and what is printed must read back
and print the same again."""
import concurrent.futures
import os
import subprocess
import sys


def printed(hlocc, path, text=None):
    done = subprocess.run([hlocc, "opt", path], input=text, capture_output=True, timeout=120)
    return done.stdout if done.returncode == 0 else None, done.stderr.decode("utf-8", "replace")


def check(hlocc, path):
    first, why = printed(hlocc, path)
    if first is None:
        return f"{path}: refused: {why.splitlines()[:1]}"
    second, why = printed(hlocc, "-", first)
    if second is None:
        return f"{path}: what was printed is refused: {why.splitlines()[:1]}"
    return None if first == second else f"{path}: printed again it differs"


def main():
    hlocc = sys.argv[1]
    paths = sorted(os.path.join(folder, name) for top in sys.argv[2:]
                   for folder, _, names in os.walk(top) for name in names if name.endswith(".hlo"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = [fault for fault in pool.map(lambda p: check(hlocc, p), paths) if fault]
    print("\n".join(faults))
    print(f"{len(paths)} programs, {len(faults)} faults")
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
