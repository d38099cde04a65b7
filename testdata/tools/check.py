#!/usr/bin/env python3
"""Runs everything that must pass: unit tests, golden tests, recorded cases. Closes with one line,
"N passed, N failed", that sums all of it.

    check.py [--long] BUILD_DIR [UNIT_TEST ...]
"""
import glob
import json
import os
import platform
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOBS = os.environ.get("JOBS", "2")
# Programs with a bit of everything, for checks of each pass.
SAMPLE = ["testdata/corpus/" + case for case in
          ("seed/mixed_precision_loss_scale", "op/cond", "op/scan_grad", "op/sort", "hlo/batch_norm_grad")]
totals = {"passed": 0, "failed": 0, "skipped": 0}


def add(name, passed, failed, skipped=0):
    totals["passed"] += passed
    totals["failed"] += failed
    totals["skipped"] += skipped
    print(f"{name}: {passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""),
          flush=True)


def run(command, timeout):
    """Exit status and all output; a status of None for a command that ran out of time."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=timeout)
        return done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode("utf-8", "replace") + "\nran out of time\n"


def number(pattern, text):
    found = re.findall(pattern, text, re.M)
    return int(found[-1]) if found else 0


def unit_test(program, build):
    status, text = run([program], 600)
    passed = number(r"\[  PASSED  \] (\d+) test", text)
    failed = number(r"\[  FAILED  \] (\d+) test", text)
    if status != 0 and failed == 0:
        failed = 1
    if failed:
        print(text)
    add(os.path.relpath(program, os.path.join(build, "test")), passed, failed)


def find_lit():
    for path in sorted(glob.glob("/usr/lib/llvm-*/build/utils/lit/lit.py"), reverse=True):
        return path
    sys.exit("lit.py is missing: install llvm-19-tools")


def golden_tests(build):
    status, text = run([sys.executable, find_lit(), "-sv", "-j", JOBS, "-D", "build=" + build,
                        "testdata/golden", "testdata/bad"], 1800)
    passed = number(r"Passed\s*:\s*(\d+)", text)
    failed = sum(number(word + r"\s*:\s*(\d+)", text)
                 for word in ("Failed", "Timed Out", "Unresolved"))
    if status != 0 and failed == 0:
        failed = 1
    if failed:
        print(text)
    add("golden", passed, failed)


def count_cases(build, target, program, paths, options=()):
    """Passed, failed, skipped, and the command's words on them; what failed is printed."""
    status, text = run([os.path.join(build, "hlocc"), "test", "--target=" + target, "-j", JOBS,
                        "--program=" + program, "--timeout=300", *options] + paths, 3600)
    closing = re.search(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", text, re.M)
    passed, failed, skipped = (int(n or 0) for n in closing.groups()) if closing else (0, 1, 0)
    if status != 0 and failed == 0:
        failed = 1
    if failed:
        print(" ".join(["cases", target, *options, program]))
        print(text)
    return passed, failed, skipped, text


def cases(build, target, program, paths, options=()):
    passed, failed, skipped, text = count_cases(build, target, program, paths, options)
    if skipped and not failed:
        print("\n".join(re.findall(r"^skipped .*(?:\n  .*)*", text, re.M)))
    add(" ".join(["cases", target, *options, program]), passed, failed, skipped)


def pass_names(build):
    _, text = run([os.path.join(build, "hlocc"), "passes"], 60)
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def passes_in_turn(build, target, paths, options=()):
    """Each pass left out of the CPU pipeline, each alone, and the pipeline twice."""
    names = pass_names(build)
    choices = [["--passes=cpu", "--disable-pass=" + name] for name in names]
    choices += [["--passes=" + name] for name in names] + [["--passes=cpu,cpu"]]
    counts = [count_cases(build, target, "module.hlo", paths, choice + ["--verify", *options])[:3]
              for choice in choices]
    add(f"cases {target}, passes left out and alone in turn", *map(sum, zip(*counts)))


def pipeline_again(build, paths):
    """The pipeline a second time does not make programs larger."""
    status, text = run([sys.executable, "testdata/tools/passes.py", "again",
                        os.path.join(build, "hlocc")] + paths, 3600)
    passed, failed = number(r"^(\d+) passed, \d+ failed$", text), number(r"passed, (\d+) failed$", text)
    if status != 0:
        failed = failed or 1
        print(text)
    add("the pipeline twice", passed, failed)


def optimized_paths():
    """Cases whose optimized.hlo can run: the text has all constants, and calls nothing of XLA's own."""
    paths = []
    for path in sorted(glob.glob(os.path.join(ROOT, "testdata/corpus/*/*/optimized.hlo"))):
        with open(path) as text:
            if "constant({...})" not in text.read():
                paths.append(os.path.dirname(path))
    return paths


def random_programs(build, count, seed, name="random programs", options=""):
    """Native code, or what the options say, against the evaluator; what fails is shrunk and kept for
    a look."""
    keep = os.path.join(build, name.replace(" ", "_"))
    status, text = run([sys.executable, "testdata/tools/random_hlo.py", os.path.join(build, "hlocc"),
                        "--count=%d" % count, "--seed=%d" % seed, "--jobs=" + JOBS, "--keep=" + keep,
                        "--options=" + options], 3600)
    passed, failed = number(r"^(\d+) passed, \d+ failed$", text), number(r"passed, (\d+) failed$", text)
    if status != 0:
        failed = failed or 1
        print(text)
    add(name, passed, failed)


def tpu_script(build, name, script, *arguments):
    """A script of testdata/tools that closes with "N passed, N failed"."""
    status, text = run([sys.executable, "testdata/tools/" + script, os.path.join(build, "hlocc"),
                        *arguments], 3600)
    passed, failed = number(r"(\d+) passed", text), number(r"(\d+) failed", text)
    if status != 0:
        failed = failed or 1
        print(text)
    add(name, passed, failed)


CHIPS = ("v2", "v3", "v4", "v5e", "testdata/golden/inputs/chip.json")


def emulated(build):
    """Products as code for aarch64, where an emulator is at hand."""
    status, text = run([sys.executable, "testdata/tools/emulated.py", build], 1800)
    if status == 0 and "skipped" in text:
        print(text, end="")
        totals["skipped"] += 1
        return
    passed, failed = number(r"(\d+) passed, \d+ failed", text), number(r"\d+ passed, (\d+) failed", text)
    if failed or not passed:
        print(text, end="")
    add("products for aarch64", passed, failed if passed else failed + 1)


def tpu_tests(build, long):
    """Every case, with exact products against the records and with rounded ones against the
    evaluator; the long run does so on all chips, the short one on each a part."""
    runs = [("v2", "highest"), ("v3", "default"), ("v5e", "high")]
    if long:
        runs = [(chip, precision) for chip in CHIPS
                for precision in ("highest", "high", "default")]
    for chip, precision in runs:
        cases(build, "tpu", "module.hlo", tpu_paths(long),
              ["--chip=" + chip, "--matmul-precision=" + precision])
    seeds = [path for path in tpu_paths(False) if "/seed/" in path]
    for chip in ("v4", CHIPS[-1]):
        cases(build, "tpu", "module.hlo", seeds, ["--chip=" + chip])
    cases(build, "tpu", "module.hlo", tpu_paths(long), ["-O0", "--matmul-precision=highest"])
    programs = glob.glob(os.path.join(ROOT, "testdata/corpus/*/*/*.hlo"))
    for level in ("-O0", "-O2") if long else ("-O2",):
        tpu_script(build, "TPU check and compile agree, " + level, "tpu_verdicts.py", level,
                   *(programs if long else [p for p in programs if p.endswith("module.hlo")]))
    if long:
        cases(build, "tpu", "optimized.hlo",
              [p for p in optimized_paths() if p.split("/")[-2] in ("seed", "op", "model", "tf")],
              ["--matmul-precision=highest"])
        for chip in CHIPS:
            tpu_script(build, "TPU programs as text and back, " + chip, "tpu_round_trip.py",
                       "--chip=" + chip)


def tpu_paths(long):
    """The cases that the TPU target must run, from a list beside the corpus: those marked "long" take
    the emulator several seconds."""
    with open(os.path.join(ROOT, "testdata/corpus/tpu.txt")) as lines:
        words = [line.split() for line in lines if line.strip()]
    return ["testdata/corpus/" + w[0] for w in words if long or "long" not in w[1:]]


def levels_and_processors(build, paths):
    """Every level, processors of several years, and numbers of threads; those that this machine
    cannot run are compiled."""
    if platform.machine() != "x86_64":
        return
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        features = set(file.read().split())
    needs = {"x86-64-v2": {"sse4_2"}, "x86-64-v3": {"avx2", "fma"}, "x86-64-v4": {"avx512vl"}}
    threads = ["--threads=1", "--threads=2", "--threads=7"]
    for at, (cpu, needed) in enumerate(needs.items()):
        for level in range(4):
            options = [f"-O{level}", "--mcpu=" + cpu]
            if needed <= features:
                cases(build, "cpu", "module.hlo", paths, options + [threads[(level + at) % 3]])
            else:
                compiled(build, paths, options)


def compiled(build, paths, options):
    """Compiles the cases that are for this target."""
    failed, passed = 0, 0
    for path in paths:
        for program in sorted(glob.glob(os.path.join(ROOT, path, "**/module.hlo"), recursive=True)):
            with open(os.path.join(os.path.dirname(program), "case.json"), encoding="utf-8") as file:
                case = json.load(file)
            if "cpu" not in case.get("targets", ["cpu"]) or case.get("partitions", 1) > 1:
                continue
            status, text = run([os.path.join(build, "hlocc"), "compile", program, "-o", "-", *options],
                               300)
            passed += status == 0
            failed += status != 0
            if status != 0:
                print(program, text[:2000])
    add("compiled " + " ".join(options), passed, failed)


def main():
    arguments = sys.argv[1:]
    long = "--long" in arguments
    arguments = [a for a in arguments if a != "--long"]
    if long:
        os.environ["TPU_ROUND_TRIPS"] = "1000000"  # runtime/tpu/isa_test.c
    build = os.path.abspath(arguments[0])
    for program in arguments[1:]:
        unit_test(os.path.abspath(program), build)
    golden_tests(build)
    everything = ["testdata/corpus/" + part for part in ("seed", "op", "model", "linalg", "tf", "torch", "hlo",
                                                     "product", "spmd")]
    cases(build, "interp", "module.hlo", everything)
    cases(build, "cpu", "module.hlo", everything)
    tpu_tests(build, long)
    random_programs(build, 10000 if long else 250, 1)
    random_programs(build, 3000 if long else 150, 1, "random TPU programs",
                    "--target=tpu --matmul-precision=highest")
    if long:
        cases(build, "interp", "optimized.hlo", optimized_paths())
        cases(build, "cpu", "optimized.hlo", optimized_paths())
        emulated(build)
        levels_and_processors(build, everything)
        passes_in_turn(build, "interp", everything)
        passes_in_turn(build, "cpu", everything, ["-O1"])
        pipeline_again(build, everything + ["testdata/bench"])
    else:
        passes_in_turn(build, "cpu", SAMPLE, ["-O1"])
    print("{passed} passed, {failed} failed".format(**totals)
          + (", {} skipped".format(totals["skipped"]) if totals["skipped"] else ""))
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
