"""Random small HLO programs, native code against the evaluator: the same numbers within rounding.

    random_hlo.py HLOCC [--count=N] [--seed=S] [--jobs=N] [--keep=DIR] [--ops=A,B] [--options=...]

Program S, S + 1, ... are made, run by both and compared. One that differs, or that either refuses or
dies of, is shrunk to a minimal one and stays in DIR (program.hlo and its inputs). Ends with
"N passed, N failed". The same seed is the same program everywhere."""
import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading

from random_ops import ELEMENTWISE, MOVES, Graph
from random_program import COMPLEX, FLOATS, SIZES, Node, Program, Source, decode, epsilon, npy, reachable
from random_structured import STRUCTURED

FAMILIES = {f.__name__: f for f in ELEMENTWISE + MOVES + STRUCTURED}
TIMEOUT = 120


def generate(seed, names):
    """The program of a seed."""
    source = Source(seed)
    graph = Graph(source)
    groups = [names] if names else [[f.__name__ for f in group]
                                    for group in (ELEMENTWISE, MOVES, STRUCTURED, STRUCTURED)]
    made, wanted = [], source.choice((1, 2, 3, 5, 8, 13))
    for _ in range(3 * wanted + 10):
        result = FAMILIES[source.choice(source.choice(groups))](graph)
        if result is not None:
            made += result if isinstance(result, list) else [result]
            wanted -= 1
        if wanted <= 0:
            break
    used = {id(o) for node in reachable(made) for o in node.operands}
    roots = [node for node in made if id(node) not in used] or made[-1:]
    return Program(roots[-4:]) if roots else None


# ---- running ----

def command(run, folder, target, extra):
    return [run.hlocc, "run", "program.hlo", "--inputs=.", "--target=" + target, "--out=" + target] + extra


def execute(run, program, folder):
    """Why the two differ: a line of text, or None."""
    with open(os.path.join(folder, "program.hlo"), "w") as out:
        out.write(program.text())
    for k, node in enumerate(program.parameters):
        with open(os.path.join(folder, "in.%d.npy" % k), "wb") as out:
            out.write(npy(node))
    for target, extra in (("interp", []), ("cpu", run.options)):
        try:
            done = subprocess.run(command(run, folder, target, extra), cwd=folder, timeout=TIMEOUT,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return target + ": no end"
        if done.returncode:
            said = done.stdout.decode("utf-8", "replace").strip().splitlines() or ["nothing said"]
            if "--target=tpu" in extra and "not supported on TPU" in said[0]:
                return None  # f64 and c128 are refused by name
            return "%s: status %d: %s" % (target, done.returncode, said[0])
    for k, root in enumerate(program.roots):
        why = differ(root, payload(folder, "interp", k), payload(folder, "cpu", k))
        if why:
            return "output %d: %s" % (k, why)
    return None


def payload(folder, target, k):
    with open(os.path.join(folder, target, "out.%d.npy" % k), "rb") as data:
        text = data.read()
    start = 10 + int.from_bytes(text[8:10], "little")
    return text[start:]


def close(want, got, allowed, unit):
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if math.isinf(want) or math.isinf(got):
        return want == got
    return abs(want - got) <= allowed + unit * abs(want)


def differ(node, want, got):
    """What of an output is further apart than its node allows."""
    if len(want) != len(got):
        return "%d bytes, not %d" % (len(got), len(want))
    if node.exact and node.kind not in FLOATS and node.kind not in COMPLEX:
        at = next((i for i in range(len(want)) if want[i] != got[i]), None)
        return None if at is None else "byte %d differs" % at
    wide = node.kind in FLOATS and epsilon(node.kind) < 1e-10 or node.kind == "c128"
    unit = 64 * epsilon(node.kind) if node.relative else 0.0
    # Subnormals are zero to arithmetic, and stay where a simplification took the arithmetic away.
    allowed = node.error + (2.0 ** -1022 if wide else 2.0 ** -126)
    a, b = decode(node.kind, want), decode(node.kind, got)
    step = 2 if node.kind in COMPLEX else 1
    for i in range(0, len(a), step):
        size = max((abs(x) for x in a[i:i + step] if math.isfinite(x)), default=0.0)
        for x, y in zip(a[i:i + step], b[i:i + step]):
            if not close(x, y, allowed + unit * size, unit):
                return "element %d: got %r, want %r (allowed %g, relative %g)" % (
                    i // step, y, x, allowed, unit)
            if node.exact and x == 0 and y == 0 and math.copysign(1, x) != math.copysign(1, y):
                return "element %d: got %r, want %r" % (i // step, y, x)
    return None


# ---- shrinking ----

def rebuilt(roots, replace):
    """The graph with some nodes exchanged; what is untouched stays the same objects."""
    memo = {}

    def build(node):
        if id(node) in memo:
            return memo[id(node)]
        if id(node) in replace:
            copy = replace[id(node)]
        else:
            operands = [build(o) for o in node.operands]
            copy = node
            if any(a is not b for a, b in zip(operands, node.operands)):
                copy = Node(node.op, node.kind, node.dims, operands, node.attrs, node.bound, node.error,
                            node.relative, node.computations, node.element, node.tuple_shape)
        memo[id(node)] = copy
        return copy
    return Program([build(root) for root in roots])


def smaller(program, seed):
    """Candidates, the boldest first."""
    arrays = [n for n in program.nodes if n.tuple_shape is None]
    for root in program.roots:
        if len(program.roots) > 1:
            yield Program([root])
    for node in arrays:
        if node.data is None and node not in program.roots:
            yield Program([node])
    graph = Graph(Source(seed))
    for node in reversed(arrays):
        if node.data is None and node not in program.roots:
            cut = graph.parameter(node.kind, node.dims)
            cut.op = "parameter"
            yield rebuilt(program.roots, {id(node): cut})
    for node in arrays:
        for operand in node.operands:
            if operand.tuple_shape is None and (operand.kind, operand.dims) == (node.kind, node.dims) \
                    and node.element is None:
                yield rebuilt(program.roots, {id(node): operand})
    for node in arrays:
        if node.data and node.data.strip(b"\0"):
            plain = Node(node.op, node.kind, node.dims, bound=node.bound)
            plain.data = bytes(len(node.data))
            yield rebuilt(program.roots, {id(node): plain})


def shrink(run, program, why, folder, seed):
    """The smallest program found that fails in the same way: first words equal."""
    budget, kind = 400, why.split(":")[0].split()[0]
    progress = True
    while progress and budget > 0:
        progress = False
        for candidate in smaller(program, seed):
            budget -= 1
            if budget <= 0:
                break
            again = execute(run, candidate, folder)
            if again and again.split(":")[0].split()[0] == kind:
                program, why, progress = candidate, again, True
                break
    return program, execute(run, program, folder) or why


# ---- all of them ----

def report(run, seed, program, why, folder):
    program, why = shrink(run, program, why, folder, seed)
    kept = os.path.join(run.keep, str(seed))
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(kept)
    execute(run, program, kept)
    with run.lock:
        print("FAILED seed %d: %s\n  %s" % (seed, why, os.path.join(kept, "program.hlo")))
        print(program.text(), flush=True)


def worker(run, folder):
    while True:
        with run.lock:
            if run.next >= run.seed + run.count or run.failed >= 20:
                return
            seed, run.next = run.next, run.next + 1
        program = generate(seed, run.ops)
        why = execute(run, program, folder) if program else None
        with run.lock:
            run.passed += why is None
            run.failed += why is not None
        if why:
            report(run, seed, program, why, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hlocc")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", default=os.path.join(tempfile.gettempdir(), "random_hlo"))
    parser.add_argument("--ops", type=lambda text: text.split(","), default=[])
    parser.add_argument("--options", type=str.split, default=[], help="more options for the CPU run")
    parser.add_argument("--show", action="store_true", help="print the programs and run nothing")
    run = parser.parse_args()
    run.hlocc = os.path.abspath(run.hlocc)
    run.next, run.passed, run.failed, run.lock = run.seed, 0, 0, threading.Lock()
    if run.show:
        for seed in range(run.seed, run.seed + run.count):
            print("// seed %d" % seed)
            print(generate(seed, run.ops).text())
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        threads = []
        for j in range(run.jobs):
            folder = os.path.join(scratch, str(j))
            os.mkdir(folder)
            threads.append(threading.Thread(target=worker, args=(run, folder)))
            threads[-1].start()
        for thread in threads:
            thread.join()
    print("%d passed, %d failed" % (run.passed, run.failed))
    return 1 if run.failed or run.passed < run.count else 0  # a worker may have died


if __name__ == "__main__":
    sys.exit(main())
