#!/usr/bin/env python3
"""docs/coverage.md: what each target runs, found by asking it: one small program for each operation
of `hlocc ops`, and one for each element type.

    coverage.py HLOCC FILE            writes FILE
    coverage.py --check HLOCC FILE    fails where FILE differs from what it would write
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

TARGETS = ["interp", "cpu", "tpu"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SUM = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
GE = "ge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction=GE\n}\n"
NEG = "neg {\n  a = f32[8] parameter(0)\n  ROOT b = f32[8] negate(a)\n}\n"
STEP = ("step {\n  a = f32[4] parameter(0)\n  c = f32[4] parameter(1)\n  s = f32[4] add(a, c)\n"
        "  ROOT t = (f32[4], f32[4]) tuple(s, s)\n}\n")
TEST = "test {\n  a = s32[] parameter(0)\n  k = s32[] constant(3)\n  ROOT b = pred[] compare(a, k), direction=LT\n}\n"
NEXT = "next {\n  a = s32[] parameter(0)\n  k = s32[] constant(1)\n  ROOT b = s32[] add(a, k)\n}\n"

INTEGER = "and or xor not popcnt count-leading-zeros shift-left shift-right-arithmetic shift-right-logical mulhi".split()


def entry(parameters, body, before=""):
    """Parameters: "name type" lines; the last line of the body is the root."""
    lines = [f"  {p.split()[0]} = {p.split()[1]} parameter({i})"
             for i, p in enumerate(parameters.split("\n")) if p]
    lines += ["  " + line for line in body.split("\n")]
    lines[-1] = "  ROOT" + lines[-1][1:]
    return "HloModule m\n\n" + before + "ENTRY main {\n" + "\n".join(lines) + "\n}\n"


def elementwise(name, operands):
    kind = "s32" if name in INTEGER else "c64" if name in ("real", "imag") else "f32"
    result = {"real": "f32", "imag": "f32", "complex": "c64", "is-finite": "pred"}.get(name, kind)
    return entry("\n".join(f"{n} {kind}[8]" for n in "xyz"[:operands]),
                 f"r = {result}[8] {name}({', '.join('xyz'[:operands])})")


SPECIAL = {
    "compare": entry("x f32[8]\ny f32[8]", "r = pred[8] compare(x, y), direction=LT"),
    "select": entry("p pred[8]\nx f32[8]\ny f32[8]", "r = f32[8] select(p, x, y)"),
    "convert": entry("x f32[8]", "r = s32[8] convert(x)"),
    "bitcast-convert": entry("x f32[8]", "r = s32[8] bitcast-convert(x)"),
    "stochastic-convert": entry("x f32[8]\ny u32[8]", "r = s32[8] stochastic-convert(x, y)"),
    "reduce-precision": entry("x f32[8]", "r = f32[8] reduce-precision(x), exponent_bits=5, mantissa_bits=10"),
    "map": entry("x f32[8]\ny f32[8]", "r = f32[8] map(x, y), dimensions={0}, to_apply=sum", SUM),
    "parameter": entry("x f32[8]", "r = f32[8] copy(x)"),
    "constant": entry("x f32[3]", "k = f32[3] constant({1, 2, 3})\nr = f32[3] add(x, k)"),
    "iota": entry("", "r = s32[8] iota(), iota_dimension=0"),
    "partition-id": entry("", "r = u32[] partition-id()"),
    "replica-id": entry("", "r = u32[] replica-id()"),
    "tuple": entry("x f32[8]\ny s32[]", "r = (f32[8], s32[]) tuple(x, y)"),
    "get-tuple-element": entry("x (f32[8],s32[])", "r = f32[8] get-tuple-element(x), index=0"),
    "bitcast": entry("x f32[2,4]", "r = f32[8] bitcast(x)"),
    "reshape": entry("x f32[2,4]", "r = f32[8] reshape(x)"),
    "dynamic-reshape": entry("x f32[8]\nn s32[]", "r = f32[<=8] dynamic-reshape(x, n)"),
    "broadcast": entry("x f32[4]", "r = f32[2,4] broadcast(x), dimensions={1}"),
    "transpose": entry("x f32[2,4]", "r = f32[4,2] transpose(x), dimensions={1,0}"),
    "reverse": entry("x f32[2,4]", "r = f32[2,4] reverse(x), dimensions={1}"),
    "concatenate": entry("x f32[8]\ny f32[2]", "r = f32[10] concatenate(x, y), dimensions={0}"),
    "pad": entry("x f32[8]\ny f32[]", "r = f32[12] pad(x, y), padding=1_3_0"),
    "slice": entry("x f32[8]", "r = f32[3] slice(x), slice={[1:7:2]}"),
    "dynamic-slice": entry("x f32[8]\ni s32[]", "r = f32[3] dynamic-slice(x, i), dynamic_slice_sizes={3}"),
    "dynamic-update-slice": entry("x f32[8]\ny f32[3]\ni s32[]", "r = f32[8] dynamic-update-slice(x, y, i)"),
    "get-dimension-size": entry("x f32[8]", "r = s32[] get-dimension-size(x), dimensions={0}"),
    "set-dimension-size": entry("x f32[8]\nn s32[]", "r = f32[<=8] set-dimension-size(x, n), dimensions={0}"),
    "copy": entry("x f32[8]", "r = f32[8] copy(x)"),
    "copy-start": entry("x f32[8]", "s = (f32[8], f32[8], u32[]) copy-start(x)\nr = f32[8] copy-done(s)"),
    "gather": entry("x f32[8,4]\ni s32[3,1]", "r = f32[3,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"),
    "scatter": entry("x f32[8,4]\ni s32[3,1]\nu f32[3,4]", "r = f32[8,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum", SUM),
    "dot": entry("x f32[8,4]\ny f32[4,8]", "r = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "ragged-dot": entry("x f32[8,4]\ny f32[2,4,8]\ng s32[2]", "r = f32[8,8] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
    "scaled-dot": entry("x f8e4m3fn[8,32]\ny f8e4m3fn[32,8]\na f8e8m0fnu[8,1]\nb f8e8m0fnu[1,8]", "r = f32[8,8] scaled-dot(x, y, a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "convolution": entry("x f32[1,8,8,2]\nw f32[3,3,2,4]", "r = f32[1,8,8,4] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    "reduce": entry("x f32[8,4]\nz f32[]", "r = f32[8] reduce(x, z), dimensions={1}, to_apply=sum", SUM),
    "reduce-window": entry("x f32[8]\nz f32[]", "r = f32[4] reduce-window(x, z), window={size=2 stride=2}, to_apply=sum", SUM),
    "select-and-scatter": entry("x f32[8]\ny f32[4]\nz f32[]", "r = f32[8] select-and-scatter(x, y, z), window={size=2 stride=2}, select=ge, scatter=sum", GE + SUM),
    "sort": entry("x f32[8]", "r = f32[8] sort(x), dimensions={0}, to_apply=ge", GE),
    "topk": entry("x f32[8]", "r = (f32[2], s32[2]) topk(x), k=2, largest=true"),
    "fft": entry("x c64[8]", "r = c64[8] fft(x), fft_type=FFT, fft_length={8}"),
    "cholesky": entry("x f32[4,4]", "r = f32[4,4] cholesky(x), lower=true"),
    "triangular-solve": entry("a f32[4,4]\nb f32[4,2]", "r = f32[4,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"),
    "batch-norm-training": entry("x f32[8,4]\ns f32[4]\no f32[4]", "r = (f32[8,4], f32[4], f32[4]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1"),
    "batch-norm-inference": entry("x f32[8,4]\ns f32[4]\no f32[4]\nm f32[4]\nv f32[4]", "r = f32[8,4] batch-norm-inference(x, s, o, m, v), epsilon=0.001, feature_index=1"),
    "batch-norm-grad": entry("x f32[8,4]\ns f32[4]\nm f32[4]\nv f32[4]\ng f32[8,4]", "r = (f32[8,4], f32[4], f32[4]) batch-norm-grad(x, s, m, v, g), epsilon=0.001, feature_index=1"),
    "rng": entry("a f32[]\nb f32[]", "r = f32[8] rng(a, b), distribution=rng_uniform"),
    "rng-bit-generator": entry("s u64[2]", "r = (u64[2], u32[8]) rng-bit-generator(s), algorithm=rng_three_fry"),
    "rng-get-and-update-state": entry("", "r = u64[2] rng-get-and-update-state(), delta=1"),
    "call": entry("x f32[8]", "r = f32[8] call(x), to_apply=neg", NEG),
    "fusion": entry("x f32[8]", "r = f32[8] fusion(x), kind=kLoop, calls=neg", NEG),
    "while": entry("i s32[]", "r = s32[] while(i), condition=test, body=next", TEST + NEXT),
    "conditional": entry("i s32[]\nx f32[8]", "r = f32[8] conditional(i, x, x), branch_computations={neg, neg}", NEG),
    "custom-call": entry("x f32[8]", 'r = f32[8] custom-call(x), custom_call_target="Sharding"'),
    "opt-barrier": entry("x f32[8]", "r = f32[8] opt-barrier(x)"),
    "domain": entry("x f32[8]", "r = f32[8] domain(x), domain={kind=\"sharding\", entry={replicated}, exit={replicated}}"),
    "add-dependency": entry("x f32[8]", "t = token[] after-all()\nr = f32[8] add-dependency(x, t)"),
    "after-all": entry("x f32[8]", "t = token[] after-all()\nr = f32[8] add-dependency(x, t)"),
    "all-reduce": entry("x f32[8]", "r = f32[8] all-reduce(x), replica_groups={}, to_apply=sum", SUM),
    "all-gather": entry("x f32[8]", "r = f32[8] all-gather(x), dimensions={0}, replica_groups={}"),
    "all-to-all": entry("x f32[8]", "r = f32[8] all-to-all(x), dimensions={0}, replica_groups={}"),
    "collective-permute": entry("x f32[8]", "r = f32[8] collective-permute(x), source_target_pairs={{0,0}}"),
    "collective-broadcast": entry("x f32[8]", "r = f32[8] collective-broadcast(x), replica_groups={{0}}"),
    "reduce-scatter": entry("x f32[8]", "r = f32[8] reduce-scatter(x), dimensions={0}, replica_groups={}, to_apply=sum", SUM),
    "ragged-all-to-all": entry("x f32[8]\no f32[8]", "a = s32[1] constant({0})\nb = s32[1] constant({2})\nr = f32[8] ragged-all-to-all(x, o, a, b, a, b), replica_groups={{0}}"),
    "all-reduce-start": entry("x f32[8]", "s = f32[8] all-reduce-start(x), replica_groups={}, to_apply=sum\nr = f32[8] all-reduce-done(s)", SUM),
    "all-gather-start": entry("x f32[8]", "s = (f32[8], f32[8]) all-gather-start(x), dimensions={0}, replica_groups={}\nr = f32[8] all-gather-done(s)"),
    "collective-permute-start": entry("x f32[8]", "s = (f32[8], f32[8]) collective-permute-start(x), source_target_pairs={{0,0}}\nr = f32[8] collective-permute-done(s)"),
    "send": entry("x f32[8]", "t = token[] after-all()\ns = (f32[8], u32[], token[]) send(x, t), channel_id=1\nr = token[] send-done(s), channel_id=1"),
    "recv": entry("", "t = token[] after-all()\ns = (f32[8], u32[], token[]) recv(t), channel_id=1\nr = (f32[8], token[]) recv-done(s), channel_id=1"),
    "infeed": entry("", "t = token[] after-all()\nr = (f32[8], token[]) infeed(t)"),
    "outfeed": entry("x f32[8]", "t = token[] after-all()\nr = token[] outfeed(x, t), outfeed_shape=f32[8]"),
    "async-start": entry("x f32[8]", "s = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg\nu = ((f32[8]), f32[8], s32[]) async-update(s)\nr = f32[8] async-done(u)", NEG),
    "scan": entry("x f32[8,4]\nz f32[4]", "r = (f32[8,4], f32[4]) scan(x, z), dimensions={0}, num_carries=1, to_apply=step", STEP),
}
SAME = {"copy-done": "copy-start", "all-reduce-done": "all-reduce-start",
        "all-gather-done": "all-gather-start", "collective-permute-done": "collective-permute-start",
        "send-done": "send", "recv-done": "recv", "async-update": "async-start",
        "async-done": "async-start"}


def operations(hlocc):
    """(name, operands) of every operation, in the table's order."""
    text = subprocess.run([hlocc, "ops"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return re.findall(r"^(\S+) +(\S+)", text, re.M)


def element_types():
    with open(os.path.join(ROOT, "ir/element_type.def")) as rows:
        return re.findall(r'^X\(\w+, "(\w+)", \d+, KIND_(?!OTHER)', rows.read(), re.M)


def program_of(name, arity):
    name = SAME.get(name, name)
    return SPECIAL[name] if name in SPECIAL else elementwise(name, int(arity))


def ask(hlocc, directory, target, name, text):
    """None where the target runs the program, else why not."""
    path = os.path.join(directory, f"{name}.{target}.hlo")
    with open(path, "w") as out:
        out.write(text)
    done = subprocess.run([hlocc, "run", path, "--target=" + target, "--random=1"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode == 0:
        return None
    said = done.stdout.decode("utf-8", "replace")
    found = re.search(r": error: (?:\S+ \(\S+\): )?(.*)", said)
    if done.returncode != 1 or not found:
        sys.exit(f"{name} on {target}: status {done.returncode}\n{text}\n{said}")
    return found.group(1)


def ask_all(hlocc, programs):
    """{(name, target): why not, or None}"""
    with tempfile.TemporaryDirectory() as directory, \
            concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        jobs = {(name, target): pool.submit(ask, hlocc, directory, target, name, text)
                for name, text in programs for target in TARGETS}
        return {key: job.result() for key, job in jobs.items()}


def table(names, answers):
    lines = ["| | " + " | ".join(TARGETS) + " |", "|---|" + "---|" * len(TARGETS)]
    for name in names:
        said = [answers[name, target] for target in TARGETS]
        lines.append(f"| {name} | " + " | ".join(w and "no: " + w or "yes" for w in said) + " |")
    return "\n".join(lines) + "\n"


def document(hlocc):
    named = operations(hlocc)
    programs = [(name, program_of(name, arity)) for name, arity in named]
    kinds = [(kind, entry(f"x {kind}[8]\ny {kind}[8]", f"p = pred[8] compare(x, y), direction=EQ\n"
                          f"r = {kind}[8] select(p, x, y)")) for kind in element_types()]
    answers = ask_all(hlocc, programs + kinds)
    text = """# Coverage
Written by testdata/tools/coverage.py, which asks each target to run one small program for each
operation and each element type; `make check` fails where this page differs from the answers. The
evaluator, `interp`, runs collectives on several devices too (`run --partitions=N`). What a target
cannot run, `hlocc` names with its line before it does anything else.

## Operations
"""
    text += table([name for name, _ in programs], answers)
    text += "\n## Element types\n" + table([kind for kind, _ in kinds], answers)
    return text


def main():
    check = sys.argv[1] == "--check"
    hlocc, path = sys.argv[-2:]
    text = document(hlocc)
    if check:
        if open(path).read() != text:
            sys.exit(f"{path} is stale: `make docs` writes it anew")
        return
    with open(path, "w") as out:
        out.write(text)


if __name__ == "__main__":
    main()
