#!/usr/bin/env python3
"""Runs recorded cases as objects for aarch64 under qemu-aarch64, and compares with what is recorded.

  emulated.py BUILD_DIR [CASE...]      default: the products of testdata/corpus

Says which tool is missing and does nothing where one is. Types without a number here are compared byte by byte.
"""
import ast, glob, json, math, os, shutil, struct, subprocess, sys, tempfile

CC, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
CORPUS = "testdata/corpus"
KINDS = ["op/dot*", "op/conv_*", "product/*"]
LETTERS = {"<f4": "f", "<f8": "d", "<i4": "i", "<u4": "I", "<i2": "h", "<u2": "H", "|i1": "b", "|u1": "B", "<i8": "q", "<u8": "Q",
           "<f2": "e", "|b1": "?"}


def read_npy(path):
    """The dtype, and the elements' bytes."""
    with open(path, "rb") as file:
        data = file.read()
    long = data[6] > 1
    size = struct.unpack_from("<I" if long else "<H", data, 8)[0]
    start = 12 if long else 10
    header = ast.literal_eval(data[start:start + size].decode())
    return header["descr"], data[start + size:]


def numbers(dtype, data):
    if dtype == "|V2":  # bf16
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    letter = LETTERS.get(dtype, "B")
    return list(struct.unpack("<%d%s" % (len(data) // struct.calcsize(letter), letter), data))


def differs(got, want, tolerance):
    """The worst difference, where it is more than allowed."""
    finite = [abs(w) for w in want if math.isfinite(w)]
    scale = min(1, max(finite, default=0))
    for g, w in zip(got, want):
        if math.isnan(w) != math.isnan(g) or math.isinf(w) and g != w:
            return f"got {g}, want {w}"
        if math.isfinite(w) and abs(g - w) > tolerance * max(abs(w), scale) + (0 if finite and max(finite) else 1e-6):
            return f"got {g}, want {w}"
    return None


def run_case(hlocc, runtime, folder, case):
    subprocess.run([hlocc, "compile", f"{case}/module.hlo", "--triple=aarch64", "--max-threads=2", "-o", f"{folder}/model.o"],
                   check=True)
    subprocess.run([CC, "-static", "-I" + folder, "-I.", "testdata/programs/repeat.c", f"{folder}/model.o", runtime, "-lm",
                    "-lpthread", "-o", f"{folder}/model"], check=True)
    subprocess.run([EMULATOR, f"{folder}/model", case, "1", f"{folder}/out"], check=True, timeout=300,
                   stdout=subprocess.DEVNULL)
    with open(f"{folder}/out", "rb") as file:
        made = file.read()
    at = 0
    with open(f"{case}/case.json") as file:
        told = json.load(file).get("tolerance")
    for k in range(len(glob.glob(f"{case}/out.*.npy"))):
        dtype, want = read_npy(f"{case}/out.{k}.npy")
        got, at = made[at:at + len(want)], at + len(want)
        tolerance = told if told is not None else 1e-2 if dtype in ("|V2", "<f2") else 1e-5 if dtype[1] == "f" else 0
        worst = differs(numbers(dtype, got), numbers(dtype, want), tolerance)
        if worst:
            return f"out.{k}: {worst}"
    return None if at == len(made) else "results of another size"


def main():
    build, cases = sys.argv[1], sys.argv[2:]
    for tool in (CC, EMULATOR):
        if not shutil.which(tool):
            print(f"aarch64: skipped, no {tool} here")
            return 0
    cases = cases or sorted(c for kind in KINDS for c in glob.glob(f"{CORPUS}/{kind}") if os.path.exists(f"{c}/module.hlo"))
    other = f"{build}/aarch64"
    subprocess.run(["make", "-s", f"B={other}", f"{other}/libhlocc_rt.a", f"CC={CC}", "AR=aarch64-linux-gnu-ar"], check=True,
                   stdout=subprocess.DEVNULL)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            try:
                why = run_case(f"{build}/hlocc", f"{other}/libhlocc_rt.a", folder, case)
            except (subprocess.SubprocessError, OSError) as error:
                why = str(error)
            if why:
                failed += 1
                print(f"aarch64: {case}: {why}")
    print(f"aarch64: {len(cases) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
