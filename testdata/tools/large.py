#!/usr/bin/env python3
"""large.py KIND N: an HLO program of about N instructions, of a kind that a pass could be slow at.
large.py --time HLOCC [N]: each kind at N/4 and N instructions (100,000) through the CPU pipeline: the
processor seconds of both, and the longest passes where that grew faster than the program."""
import random
import re
import resource
import subprocess
import sys
import tempfile

SUM = "add_ { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
V = "f32[64]"


def entry(lines, before=""):
    """Names are a letter and a number here; `f32` alone would be a type."""
    text = "HloModule large\n" + before + "ENTRY main {\n " + "\n ".join(lines) + "\n}\n"
    return re.sub(r"\b([a-z])(\d+)\b(?!\[)", r"\1_\2", text)


def chain(n):
    """Each value from the one before."""
    ops = ["tanh(v%d)", "negate(v%d)", "exponential(v%d)", "add(v%d, v0)"]
    lines = [f"v0 = {V} parameter(0)"]
    lines += [f"v{i + 1} = {V} {ops[i % 4] % i}" for i in range(n)]
    return entry(lines + [f"ROOT r = {V} negate(v{n})"])


def fan(n):
    """One value that everything uses; all results in one tuple."""
    lines = [f"x = {V} parameter(0)", "k = f32[] constant(2)", f"b = {V} broadcast(k), dimensions={{}}"]
    lines += [f"v{i} = {V} {'multiply(x, b)' if i % 2 else 'power(x, v%d)' % (i - 1) if i else 'tanh(x)'}"
              for i in range(n)]
    shape = ", ".join([V] * n)
    return entry(lines + [f"ROOT r = ({shape}) tuple({', '.join(f'v{i}' for i in range(n))})"])


def joined(n):
    """Many values of one input, summed in a chain."""
    lines = [f"x = {V} parameter(0)", f"s0 = {V} negate(x)"]
    for i in range(n // 2):
        lines += [f"v{i} = {V} {'tanh' if i % 2 else 'sine'}(s{i // 2})", f"s{i + 1} = {V} add(s{i}, v{i})"]
    return entry(lines + [f"ROOT r = {V} negate(s{n // 2})"])


def calls(n):
    """Computations that call each other, each the one before, twice."""
    depth = n // 4
    text = f"f0 {{ p = {V} parameter(0)\n ROOT r = {V} tanh(p) }}\n"
    for i in range(1, depth):
        text += f"f{i} {{ p = {V} parameter(0)\n c = {V} call(p), to_apply=f{i - 1 if i % 50 else 0}\n ROOT r = {V} negate(c) }}\n"
    lines = [f"v0 = {V} parameter(0)"]
    lines += [f"v{i + 1} = {V} call(v{i}), to_apply=f{i * 50 + 49}" for i in range(depth // 50)]
    return entry(lines + [f"ROOT r = {V} negate(v{depth // 50})"], text)


def loops(n):
    """Loops one after the other, with bodies of their own."""
    count, text, lines = n // 12, "", ["z = s32[] constant(0)", f"v0 = {V} parameter(0)"]
    for i in range(count):
        text += (f"c{i} {{ p = (s32[], {V}) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                 f" k = s32[] constant({100 + i})\n ROOT r = pred[] compare(i, k), direction=LT }}\n"
                 f"b{i} {{ p = (s32[], {V}) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                 f" x = {V} get-tuple-element(p), index=1\n o = s32[] constant(1)\n j = s32[] add(i, o)\n"
                 f" y = {V} tanh(x)\n ROOT r = (s32[], {V}) tuple(j, y) }}\n")
        lines += [f"t{i} = (s32[], {V}) tuple(z, v{i})", f"w{i} = (s32[], {V}) while(t{i}), condition=c{i}, body=b{i}",
                  f"v{i + 1} = {V} get-tuple-element(w{i}), index=1"]
    return entry(lines + [f"ROOT r = {V} negate(v{count})"], text)


def nest(n):
    """Loops in loops."""
    depth = 60
    shape, text = f"(s32[], {V})", ""
    for i in range(depth):
        inner = f" y = {V} tanh(x)\n" if i == 0 else (
            f" z = s32[] constant(0)\n t = {shape} tuple(z, x)\n w = {shape} while(t), condition=c{i - 1}, body=b{i - 1}\n"
            f" y0 = {V} get-tuple-element(w), index=1\n" + "".join(
                f" y{k + 1} = {V} sine(y{k})\n" for k in range(n // depth)) + f" y = {V} negate(y{n // depth})\n")
        text += (f"c{i} {{ p = {shape} parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                 f" k = s32[] constant(9)\n ROOT r = pred[] compare(i, k), direction=LT }}\n"
                 f"b{i} {{ p = {shape} parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
                 f" x = {V} get-tuple-element(p), index=1\n o = s32[] constant(1)\n j = s32[] add(i, o)\n"
                 f"{inner} ROOT r = {shape} tuple(j, y) }}\n")
    return entry([f"x = {V} parameter(0)", "z = s32[] constant(0)", f"t = {shape} tuple(z, x)",
                  f"w = {shape} while(t), condition=c{depth - 1}, body=b{depth - 1}",
                  f"ROOT r = {V} get-tuple-element(w), index=1"], text)


def carried(n):
    """One loop that carries many values."""
    count = n // 6
    shape = "(s32[], " + ", ".join([V] * count) + ")"
    body = [f"p = {shape} parameter(0)", "i = s32[] get-tuple-element(p), index=0", "o = s32[] constant(1)",
            "j = s32[] add(i, o)"]
    body += [f"x{k} = {V} get-tuple-element(p), index={k + 1}" for k in range(count)]
    body += [f"y{k} = {V} add(x{k}, x{(k * 7 + 1) % count})" for k in range(count)]
    body += [f"ROOT r = {shape} tuple(j, {', '.join(f'y{k}' for k in range(count))})"]
    text = (f"c {{ p = {shape} parameter(0)\n i = s32[] get-tuple-element(p), index=0\n k = s32[] constant(100)\n"
            " ROOT r = pred[] compare(i, k), direction=LT }\nb {\n " + "\n ".join(body) + " }\n")
    lines = [f"x = {V} parameter(0)", "z = s32[] constant(0)"] + [f"s{k} = {V} {'tanh' if k % 2 else 'sine'}(x)" for k in range(count)]
    lines += [f"t = {shape} tuple(z, {', '.join(f's{k}' for k in range(count))})",
              f"ROOT w = {shape} while(t), condition=c, body=b"]
    return entry(lines, text)


def equal(n):
    """The same subexpressions again and again."""
    lines = [f"x = {V} parameter(0)", f"s0 = {V} negate(x)"]
    for i in range(n // 4):
        lines += [f"a{i} = {V} tanh(x)", f"b{i} = {V} add(a{i}, x)", f"c{i} = {V} multiply(b{i}, a{i})",
                  f"s{i + 1} = {V} subtract(s{i}, c{i})"]
    return entry(lines + [f"ROOT r = {V} negate(s{n // 4})"])


def moves(n):
    """Reshapes, transposes and slices, one after the other."""
    lines = ["v0 = f32[8,16] parameter(0)"]
    for i in range(n // 4):
        a, b = ("8,16", "16,8") if i % 2 == 0 else ("16,8", "8,16")
        lines += [f"t{i} = f32[{b}] transpose(v{i}), dimensions={{1,0}}", f"f{i} = f32[128] reshape(t{i})",
                  f"g{i} = f32[128] reverse(f{i}), dimensions={{0}}", f"v{i + 1} = f32[{b}] reshape(g{i})"]
    last = "8,16" if (n // 4) % 2 == 0 else "16,8"
    return entry(lines + [f"ROOT r = f32[{last}] negate(v{n // 4})"])


def pieces(n):
    """A long concatenation of many arrays, and slices of it."""
    count = n // 4
    lines = [f"x{i} = f32[4] {'tanh' if i % 2 else 'sine'}(p)" if i % 3 else f"x{i} = f32[4] broadcast(k{i}), dimensions={{}}"
             for i in range(count)]
    lines = ["p = f32[4] parameter(0)"] + [f"k{i} = f32[] constant({i})" for i in range(0, count, 3)] + lines
    lines += [f"c = f32[{4 * count}] concatenate({', '.join(f'x{i}' for i in range(count))}), dimensions={{0}}"]
    lines += [f"s{i} = f32[3] slice(c), slice={{[{4 * i + 2}:{4 * i + 5}]}}" for i in range(count - 1)]
    return entry(lines + [f"ROOT r = ({', '.join(['f32[3]'] * (count - 1))}) tuple({', '.join(f's{i}' for i in range(count - 1))})"])


def updates(n):
    """One array updated in place again and again."""
    lines = ["v0 = f32[4096] parameter(0)", "u = f32[1] parameter(1)", "i = s32[] parameter(2)"]
    for i in range(n // 3):
        lines += [f"j{i} = s32[] add(i, {'j%d' % (i - 1) if i else 'i'})", f"w{i} = f32[1] tanh({'w%d' % (i - 1) if i else 'u'})",
                  f"v{i + 1} = f32[4096] dynamic-update-slice(v{i}, w{i}, j{i})"]
    return entry(lines + [f"ROOT r = f32[4096] negate(v{n // 3})"])


def tuples(n):
    """Tuples that are taken apart and built anew."""
    lines = [f"x = {V} parameter(0)", f"t0 = ({V}, {V}) tuple(x, x)"]
    for i in range(n // 4):
        lines += [f"a{i} = {V} get-tuple-element(t{i}), index=0", f"b{i} = {V} get-tuple-element(t{i}), index=1",
                  f"c{i} = {V} add(a{i}, b{i})", f"t{i + 1} = ({V}, {V}) tuple(b{i}, c{i})"]
    return entry(lines + [f"ROOT r = {V} get-tuple-element(t{n // 4}), index=1"])


def scalars(n):
    """Numbers: what a loop's index arithmetic looks like."""
    rng = random.Random(1)
    lines = ["v0 = s32[] parameter(0)", "v1 = s32[] constant(3)"]
    for i in range(2, n):
        op = rng.choice(["add", "multiply", "maximum", "and", "subtract"])
        lines.append(f"v{i} = s32[] {op}(v{rng.randrange(max(0, i - 40), i)}, v{rng.randrange(max(0, i - 40), i)})")
    return entry(lines + [f"ROOT r = s32[] negate(v{n - 1})"])


def layers(n):
    """Products, biases, normalisation, skips: a network's layers."""
    shape = "f32[16,64]"
    lines = [f"v0 = {shape} parameter(0)", "w = f32[64,64] parameter(1)", "z = f32[] constant(0)", "c = f32[64] parameter(2)"]
    for i in range(n // 12):
        lines += [f"d{i} = {shape} dot(v{i}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                  f"b{i} = {shape} broadcast(c), dimensions={{1}}", f"e{i} = {shape} add(d{i}, b{i})",
                  f"m{i} = f32[16] reduce(e{i}, z), dimensions={{1}}, to_apply=add_",
                  f"n{i} = {shape} broadcast(m{i}), dimensions={{0}}", f"o{i} = {shape} subtract(e{i}, n{i})",
                  f"q{i} = {shape} multiply(o{i}, o{i})", f"s{i} = f32[16] reduce(q{i}, z), dimensions={{1}}, to_apply=add_",
                  f"r{i} = f32[16] rsqrt(s{i})", f"t{i} = {shape} broadcast(r{i}), dimensions={{0}}",
                  f"u{i} = {shape} multiply(o{i}, t{i})", f"v{i + 1} = {shape} add(u{i}, v{i})"]
    return entry(lines + [f"ROOT r = {shape} negate(v{n // 12})"], SUM)


def constants(n):
    """Arithmetic that can all be done beforehand."""
    lines = [f"x = {V} parameter(0)", f"s0 = {V} negate(x)"]
    for i in range(n // 5):
        lines += [f"k{i} = f32[] constant({i + 1})", f"l{i} = f32[] constant({i + 2})", f"m{i} = f32[] multiply(k{i}, l{i})",
                  f"b{i} = {V} broadcast(m{i}), dimensions={{}}", f"s{i + 1} = {V} add(s{i}, b{i})"]
    return entry(lines + [f"ROOT r = {V} negate(s{n // 5})"])


def branches(n):
    """Conditionals one after the other."""
    text, count = "", n // 10
    lines = [f"v0 = {V} parameter(0)", "p = pred[] parameter(1)"]
    for i in range(count):
        text += f"t{i} {{ x = {V} parameter(0)\n ROOT r = {V} tanh(x) }}\nf{i} {{ x = {V} parameter(0)\n y = {V} sine(x)\n ROOT r = {V} negate(y) }}\n"
        lines += [f"v{i + 1} = {V} conditional(p, v{i}, v{i}), true_computation=t{i}, false_computation=f{i}"]
    return entry(lines + [f"ROOT r = {V} negate(v{count})"], text)


KINDS = [chain, fan, joined, calls, loops, nest, carried, equal, moves, pieces, updates, tuples, scalars, layers,
         constants, branches]


def timed(hlocc, text):
    """Processor seconds in all, and the wall seconds of each pass; or None and why."""
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(text)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        try:
            done = subprocess.run([hlocc, "opt", "--passes=cpu", "--stats", "-o", "/dev/null", file.name],
                                  timeout=300, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return None, "ran out of time"
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    found = re.findall(r"^(\w+) +\d+ +\d+ +\d+ +([\d.]+)$", done.stderr, re.M)
    passes = {name: float(ms) / 1e3 for name, ms in found}
    return (seconds, passes) if done.returncode == 0 else (None, done.stderr)


def time_all(hlocc, n):
    for kind in KINDS:
        small, why = timed(hlocc, kind(n // 4))
        large, passes = timed(hlocc, kind(n)) if small is not None else (None, why)
        if large is None:
            print(f"{kind.__name__}: {passes[:200]}", flush=True)
            continue
        longest = sorted(passes, key=passes.get)[:-4:-1]
        slow = ", ".join(f"{name} {passes[name]:.2f}" for name in longest) if large > 6 * max(small, 0.1) else ""
        print(f"{kind.__name__:10} {small:7.2f} s {large:7.2f} s  {slow}", flush=True)


def main(args):
    if args[:1] == ["--time"] and len(args) in (2, 3):
        return time_all(args[1], int(args[2]) if len(args) == 3 else 100000)
    kinds = {kind.__name__: kind for kind in KINDS}
    if len(args) != 2 or args[0] not in kinds:
        sys.exit(__doc__ + "\nKinds: " + ", ".join(kinds))
    print(kinds[args[0]](int(args[1])), end="")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
