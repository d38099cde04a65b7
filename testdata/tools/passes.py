#!/usr/bin/env python3
"""What must hold of passes on whole programs. Each closes with "N passed, N failed".

passes.py again HLOCC FILE|DIR...
    The CPU pipeline once and twice: the second time the program does not grow.
passes.py dump HLOCC FILE
    --dump-dir twice: the same bytes; and each file in it parses and computes what the input does.
passes.py accepted HLOCC FILE|DIR...
    XLA's parser accepts what comes out of the pipelines, and of each pass alone. Needs jax.
A DIR stands for the *.hlo below it.
"""
import filecmp
import os
import re
import subprocess
import sys
import tempfile


def programs(paths, left_out=()):
    """The files, and the *.hlo below the folders but those with a name that is left out."""
    found = []
    for path in paths:
        if os.path.isfile(path):
            found.append(path)
        for folder, _, names in os.walk(path):
            found += [os.path.join(folder, name) for name in names
                      if name.endswith(".hlo") and name not in left_out]
    return sorted(found)


def optimise(hlocc, path, passes, *options):
    """The program after the passes as text, or None and why."""
    done = subprocess.run([hlocc, "opt", "--verify", "--passes=" + passes, *options, path],
                          capture_output=True, timeout=600)
    text = done.stdout.decode("utf-8", "replace")
    return (text, "") if done.returncode == 0 else (None, done.stderr.decode("utf-8", "replace"))


def steps(text):
    """Instructions in all computations but parameters, whose number depends on where fusions end."""
    return sum(" = " in line and not re.search(r" parameter\(\d+\)", line)
               for line in text.splitlines())


def close(passed, failed):
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def again(hlocc, *paths):
    passed = failed = 0
    for path in programs(paths):
        sizes = []
        for passes in ("cpu", "cpu,cpu"):
            text, why = optimise(hlocc, path, passes, "--short", "--no-operand-shapes")
            sizes.append(steps(text) if text is not None else None)
        good = None not in sizes and sizes[1] <= sizes[0]
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"{path}: {sizes} {why.splitlines()[:1]}")
    return close(passed, failed)


def same_results(hlocc, one, other):
    """By hlocc's own comparison: what `one` computes, as a recorded case, for the text of `other`."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([hlocc, "run", one, "--target=cpu", "--random=1", "--record=" + folder],
                              capture_output=True, timeout=600)
        if done.returncode != 0:
            return False
        with open(other) as source, open(folder + "/other.hlo", "w") as copy:
            copy.write(source.read())
        done = subprocess.run([hlocc, "test", folder, "--program=other.hlo", "--target=cpu"],
                              capture_output=True, timeout=600)
        return done.returncode == 0


def dump(hlocc, path):
    with tempfile.TemporaryDirectory() as top:
        folders = [top + "/1", top + "/2"]
        for folder in folders:
            subprocess.run([hlocc, "compile", path, "--dump-dir=" + folder, "-o", top + "/out.o"],
                           check=True)
        names = sorted(os.listdir(folders[0]))
        _, differ, missing = filecmp.cmpfiles(*folders, names, shallow=False)
        faults = [name + ": not the same bytes in two runs" for name in differ + missing]
        files = [name for name in names if name.endswith(".hlo")]
        for name in files:
            if not same_results(hlocc, path, os.path.join(folders[0], name)):
                faults.append(name + ": does not compute what the input does")
        print("\n".join(faults) if faults else ", ".join(names))
        return close(len(names) - len(faults), len(faults))


def xla_refuses(text):
    """Why XLA's parser refuses the text, or None. In a process of its own: it can abort."""
    from jaxlib import _hlo
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _hlo.hlo_module_from_text(text)
        except Exception as error:
            os.write(writer, str(error).encode()[:300])
            os._exit(1)
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    why = os.read(reader, 300).decode("utf-8", "replace")
    os.close(reader)
    return None if status == 0 else why or "aborts"


def accepted(hlocc, *paths):
    listing = subprocess.run([hlocc, "passes"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listing.splitlines() if line.strip()]
    passed = failed = 0
    for passes in ["cpu", "tpu"] + names:
        for path in programs(paths):
            text, why = optimise(hlocc, path, passes)
            why = xla_refuses(text) if text is not None else why
            passed, failed = passed + (not why), failed + bool(why)
            if why:
                print(f"{passes} {path}: {' '.join(why.split())[:300]}", flush=True)
    return close(passed, failed)


def main(args):
    commands = {"again": again, "dump": dump, "accepted": accepted}
    if len(args) < 3 or args[0] not in commands:
        sys.exit(__doc__)
    return commands[args[0]](*args[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
