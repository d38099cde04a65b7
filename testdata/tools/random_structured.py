"""Reductions, products, sorts, linear algebra, random bits and control flow; see random_ops.py."""
import math

from random_ops import (ALL, COMPLEX, FLOATS, INTS, REAL, Node, binary_computation, braces, count_of,
                        float_bytes, rounding)

SUM_KINDS = REAL + tuple(INTS) + tuple(COMPLEX)


def bound_of(x):
    return 0.0 if x.bound is None else x.bound


def summed(x, count):
    """Bound and error of a sum of `count` elements in any order."""
    if x.kind in INTS or x.kind == "pred":
        return None, 0.0
    bound = max(count, 1) * bound_of(x)
    return bound, max(count, 1) * x.error + rounding(x.kind, bound, 4 + count // 8)


# ---- reductions ----

def reduce_sum(g):
    x = g.pick(SUM_KINDS, bounded=True, below=20.0)
    dims = [i for i in range(len(x.dims)) if g.source.chance(0.5)]
    kept = [d for i, d in enumerate(x.dims) if i not in dims]
    start = g.pick((x.kind,), (), bounded=True, below=20.0)
    bound, error = summed(x, math.prod(x.dims[i] for i in dims))
    if bound is not None:
        bound, error = bound + start.bound, error + start.error
    name, body = binary_computation("add", x.kind)
    return g.add("reduce", x.kind, kept, [x, start], ", dimensions=%s, to_apply=%s" % (
        braces(dims), name), bound, error, computations=[(name, body)])


def reduce_extremum(g):
    op = g.source.choice(["maximum", "minimum", "and", "or"])
    x = g.pick(("pred",) + tuple(INTS) if op in ("and", "or") else ("pred",) + tuple(INTS) + REAL)
    dims = [i for i in range(len(x.dims)) if g.source.chance(0.5)]
    kept = [d for i, d in enumerate(x.dims) if i not in dims]
    name, body = binary_computation(op, x.kind)
    return g.like("reduce", [x, g.pick((x.kind,), ())], kept, ", dimensions=%s, to_apply=%s" % (
        braces(dims), name), computations=[(name, body)])


ARGMAX = """argmax_{0}_{1} {{
  av = {0}[] parameter(0)
  ai = {1}[] parameter(1)
  bv = {0}[] parameter(2)
  bi = {1}[] parameter(3)
  gt = pred[] compare(av, bv), direction=GT
  eq = pred[] compare(av, bv), direction=EQ
  lo = pred[] compare(ai, bi), direction=LT
  tie = pred[] and(eq, lo)
  left = pred[] or(gt, tie)
  v = {0}[] select(left, av, bv)
  i = {1}[] select(left, ai, bi)
  ROOT r = ({0}[], {1}[]) tuple(v, i)
}}
"""


def reduce_argmax(g):
    x = g.pick(("f32", "bf16", "s32", "u8", "s64"), exact=True, bounded=True)
    y = g.pick(("s32", "u8"), x.dims, exact=True)
    dims = [i for i in range(len(x.dims)) if g.source.chance(0.5)]
    kept = [d for i, d in enumerate(x.dims) if i not in dims]
    name = "argmax_%s_%s" % (x.kind, y.kind)
    starts = [g.pick((x.kind,), (), exact=True, bounded=True), g.pick((y.kind,), (), exact=True)]
    return g.several("reduce", [Node("", x.kind, kept, bound=x.bound), Node("", y.kind, kept)],
                     [x, y] + starts, ", dimensions=%s, to_apply=%s" % (braces(dims), name),
                     [(name, ARGMAX.format(x.kind, y.kind))])


def window_of(g, dims, dilate=True):
    """A window over dims: attributes, result dims, elements of the window."""
    out, words = [], {"size": [], "stride": [], "pad": [], "lhs_dilate": [], "rhs_dilate": []}
    for d in dims:
        for _ in range(20):
            size, stride = g.source.number(1, 3), g.source.choice((1, 1, 2, 3))
            low, high = g.source.choice((0, 0, 1, 2)), g.source.choice((0, 0, 1, 2))
            base, inner = (g.source.choice((1, 1, 2)), g.source.choice((1, 1, 2))) if dilate else (1, 1)
            padded = (d - 1) * base + 1 if d > 0 else 0
            room = padded + low + high - ((size - 1) * inner + 1)
            if room >= 0:
                break
        else:
            size, stride, low, high, base, inner = 1, 1, 1, 0, 1, 1
            room = (d if d > 0 else 0) + 1 - 1
        out.append(room // stride + 1)
        for key, value in zip(words, (size, stride, "%d_%d" % (low, high), base, inner)):
            words[key].append(str(value))
    text = " ".join("%s=%s" % (key, "x".join(values)) for key, values in words.items())
    return ", window={%s}" % text, out, math.prod(map(int, words["size"]))


def reduce_window(g):
    add = g.source.chance(0.5)
    x = g.pick(SUM_KINDS if add else tuple(INTS) + REAL, bounded=add, rank=(1, 3), most=120, below=10.0)
    attrs, dims, count = window_of(g, x.dims)
    op = "add" if add else g.source.choice(["maximum", "minimum"])
    name, body = binary_computation(op, x.kind)
    start = g.pick((x.kind,), (), bounded=add, below=10.0)
    attrs += ", to_apply=" + name
    if not add:
        return g.like("reduce-window", [x, start], dims, attrs, computations=[(name, body)])
    bound, error = summed(x, count)
    if bound is not None:
        bound, error = bound + start.bound, error + start.error
    return g.add("reduce-window", x.kind, dims, [x, start], attrs, bound, error,
                 computations=[(name, body)])


def select_and_scatter(g):
    x = g.pick(("f32", "f64", "s32", "bf16"), exact=True, bounded=True, rank=(1, 3), most=120)
    attrs, dims, _ = window_of(g, x.dims, False)
    source = g.pick((x.kind,), tuple(dims), bounded=True, below=10.0)
    start = g.pick((x.kind,), (), bounded=True, below=10.0)
    ge = "ge_%s" % x.kind
    select = "%s {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n" \
             "  ROOT c = pred[] compare(a, b), direction=GE\n}\n" % (ge, x.kind, x.kind)
    add, body = binary_computation("add", x.kind)
    bound, error = summed(source, 30)
    if bound is not None:
        bound, error = bound + start.bound, error + start.error
    return g.add("select-and-scatter", x.kind, x.dims, [x, source, start],
                 attrs + ", select=%s, scatter=%s" % (ge, add), bound, error,
                 computations=[(ge, select), (add, body)])


def scatter(g):
    combine = g.source.choice(["add", "maximum", "set"])
    kinds = SUM_KINDS if combine == "add" else tuple(INTS) + REAL
    x = g.pick(kinds, rank=(1, 3), bounded=combine == "add", below=10.0)
    rank, batch = len(x.dims), g.source.dims(12, 0, 2)
    mapped = [i for i in range(rank) if g.source.chance(0.8)]
    g.source.random.shuffle(mapped)
    inserted = [i for i in range(rank) if x.dims[i] > 0 and g.source.chance(0.5)]
    window = [g.source.number(0 if d == 0 else 1, d) for i, d in enumerate(x.dims) if i not in inserted]
    vector = g.source.number(0, len(batch))
    index_dims = batch[:vector] + (len(mapped),) + batch[vector:]
    indices = g.pick((g.source.choice(("s32", "s64", "u8")),), index_dims)
    out_rank = len(window) + len(batch)
    where = sorted(g.source.random.sample(range(out_rank), len(window)))
    windows, batches = iter(window), iter(batch)
    dims = tuple(next(windows) if i in where else next(batches) for i in range(out_rank))
    updates = g.pick((x.kind,), dims, bounded=combine == "add", below=10.0)
    if combine == "set":
        name = "second_%s" % x.kind
        body = "%s {\n  a = %s[] parameter(0)\n  ROOT b = %s[] parameter(1)\n}\n" % (name, x.kind, x.kind)
    else:
        name, body = binary_computation(combine, x.kind)
    attrs = (", update_window_dims=%s, inserted_window_dims=%s, scatter_dims_to_operand_dims=%s, "
             "index_vector_dim=%d, to_apply=%s" % (braces(where), braces(inserted), braces(mapped), vector,
                                                   name))
    node = g.like("scatter", [x, indices, updates], x.dims, attrs, kind=x.kind, computations=[(name, body)])
    if node and combine == "add" and x.kind not in INTS:
        bound, error = summed(updates, count_of(dims))
        node.bound, node.error = bound + x.bound, error + x.error + rounding(x.kind, bound + x.bound)
    return node


# ---- products ----

def product_bound(x, y, count):
    """Bound and error of sums of `count` products, of complex numbers too."""
    if x.kind in INTS:
        return None, 0.0
    bound = 2 * count * x.bound * y.bound
    return bound, (2 * count * (x.error * y.bound + y.error * x.bound)
                   + rounding(x.kind, bound, 4 + count // 8))


def dot(g):
    kind = g.source.choice(("f32", "f32", "f64", "bf16", "f16", "s32", "s8", "u8", "c64"))
    contract = g.source.dims(60 if g.source.big else 40, 0, 2)
    free = 65 if g.source.big and count_of(contract) < 200 else 20
    batch, left, right = g.source.dims(6, 0, 1), g.source.dims(free, 0, 2), g.source.dims(free, 0, 2)
    sides = []
    for free in (left, right):
        tagged = [("b", i, d) for i, d in enumerate(batch)] + \
            [("c", i, d) for i, d in enumerate(contract)] + [("f", i, d) for i, d in enumerate(free)]
        keep = [t for t in tagged if t[0] == "f"]
        g.source.random.shuffle(tagged)
        tagged = [t if t[0] != "f" else None for t in tagged]
        tagged = [t if t is not None else keep.pop(0) for t in tagged]
        sides.append(tagged)
    x, y = (g.pick((kind,), tuple(t[2] for t in side), bounded=True, below=10.0) for side in sides)

    def places(side, tag):
        return braces([[(t[0], t[1]) for t in side].index((tag, i))
                       for i in range(sum(t[0] == tag for t in side))])
    attrs = ", lhs_batch_dims=%s, lhs_contracting_dims=%s, rhs_batch_dims=%s, rhs_contracting_dims=%s" % (
        places(sides[0], "b"), places(sides[0], "c"), places(sides[1], "b"), places(sides[1], "c"))
    count = count_of(contract)
    to = "s32" if kind in ("s8", "u8") and g.source.chance(0.6) else kind
    bound, error = product_bound(x, y, count)
    return g.add("dot", to, batch + left + right, [x, y], attrs, bound, error)


def ragged_dot(g):
    kind, groups = g.source.choice(("f32", "f32", "f64", "bf16", "s32")), g.source.number(1, 4)
    rows, depth, columns = (g.source.number(1, 9) for _ in range(3))
    batch = g.source.dims(4, 0, 1)
    n = len(batch)
    numbers = ", lhs_batch_dims=%s, rhs_batch_dims=%s" % (braces(range(n)), braces(range(n)))
    sizes = g.pick(("s32", "u8", "s64"), (groups,))
    contracting = g.source.chance(0.5)
    x = g.pick((kind,), batch + (rows, depth), bounded=True, below=10.0)
    y = g.pick((kind,), batch + ((depth, columns) if contracting else (groups, depth, columns)),
               bounded=True, below=10.0)
    attrs = numbers + ", lhs_contracting_dims={%d}, rhs_contracting_dims={%d}, lhs_ragged_dims={%d}" % (
        n + 1, n + (not contracting), n + contracting)
    attrs += "" if contracting else ", rhs_group_dims={%d}" % n
    dims = ((groups,) if contracting else ()) + batch + (rows, columns)
    bound, error = product_bound(x, y, depth)
    return g.add("ragged-dot", kind, dims, [x, y, sizes], attrs, bound, error)


def scaled_dot(g):
    kind, rows, columns = g.source.choice(("f8e5m2", "bf16", "f32")), g.source.number(1, 5), 3
    blocks, width = g.source.number(1, 3), g.source.number(1, 4)
    x = g.pick((kind,), (rows, blocks * width), bounded=True, below=10.0)
    y = g.pick((kind,), (blocks * width, columns), bounded=True, below=10.0)
    scales = [g.pick(("f32", "bf16"), d, bounded=True, below=10.0) for d in ((rows, blocks), (blocks, 1))]
    if g.source.chance(0.3):
        scales[1] = g.pick((scales[1].kind,), (), bounded=True, below=10.0)
    to = g.source.choice(("f32", "bf16"))
    bound = 2 * blocks * width * x.bound * y.bound * scales[0].bound * scales[1].bound
    if any(not n.exact for n in [x, y] + scales):
        return None
    return g.add("scaled-dot", to, (rows, columns), [x, y] + scales,
                 ", lhs_contracting_dims={1}, rhs_contracting_dims={0}", bound, rounding(to, bound, 8))


def convolution(g):
    kind = g.source.choice(("f32", "f32", "f64", "bf16", "s32", "c64"))
    spatial = g.source.number(0, 2)
    groups, batches = g.source.choice(((1, 1), (1, 1), (2, 1), (1, 2)))
    inputs, outputs = g.source.choice((1, 2, 3)), g.source.choice((1, 2, 4)) * groups * batches
    batch = g.source.choice((1, 2, 3)) * batches
    for _ in range(30):
        image = [g.source.choice((1, 3, 4, 5, 6)) for _ in range(spatial)]
        kernel = [g.source.number(1, 3) for _ in range(spatial)]
        stride = [g.source.choice((1, 1, 2)) for _ in range(spatial)]
        pads = [(g.source.number(-1, 2), g.source.number(0, 2)) for _ in range(spatial)]
        base = [g.source.choice((1, 1, 2)) for _ in range(spatial)]
        inner = [g.source.choice((1, 1, 2)) for _ in range(spatial)]
        room = [(d - 1) * b + 1 + p[0] + p[1] - ((k - 1) * r + 1)
                for d, b, p, k, r in zip(image, base, pads, kernel, inner)]
        if all(r >= 0 for r in room):
            break
    else:
        return None
    out = [r // s + 1 for r, s in zip(room, stride)]

    def arrange(first, second, sizes):
        marks = [first[0], second[0]] + [str(i) for i in range(spatial)]
        size = dict(zip(marks, [first[1], second[1]] + sizes))
        g.source.random.shuffle(marks)
        return "".join(marks), tuple(size[m] for m in marks)
    lhs, lhs_dims = arrange(("b", batch), ("f", inputs * groups), image)
    rhs, rhs_dims = arrange(("i", inputs), ("o", outputs), kernel)
    res, dims = arrange(("b", batch // batches), ("f", outputs), out)
    x = g.pick((kind,), lhs_dims, bounded=True, below=10.0)
    y = g.pick((kind,), rhs_dims, bounded=True, below=10.0)
    words = [("size", kernel), ("stride", stride), ("pad", ["%d_%d" % p for p in pads]),
             ("lhs_dilate", base), ("rhs_dilate", inner)]
    text = " ".join("%s=%s" % (k, "x".join(map(str, v))) for k, v in words) if spatial else ""
    attrs = (", window={%s}" % text if spatial else "") + ", dim_labels=%s_%s->%s" % (lhs, rhs, res)
    attrs += ", feature_group_count=%d" % groups if groups > 1 else ""
    attrs += ", batch_group_count=%d" % batches if batches > 1 else ""
    count = inputs * math.prod(kernel)
    bound, error = product_bound(x, y, count)
    return g.add("convolution", kind, dims, [x, y], attrs, bound, error)


# ---- order ----

def comparator(kinds, key, direction, total):
    name = "order_%s_%d_%s%s" % ("_".join(kinds), key, direction, "_total" if total else "")
    lines = ["  p%d = %s[] parameter(%d)" % (2 * j + s, kind, 2 * j + s)
             for j, kind in enumerate(kinds) for s in range(2)]
    lines.append("  ROOT c = pred[] compare(p%d, p%d), direction=%s%s" % (
        2 * key, 2 * key + 1, direction, ", type=TOTALORDER" if total else ""))
    return name, "%s {\n%s\n}\n" % (name, "\n".join(lines))


def sort(g):
    first = g.pick(tuple(k for k in ALL if k not in COMPLEX), exact=True, rank=(1, 3))
    operands = [first]
    while g.source.chance(0.5) and len(operands) < 4:
        operands.append(g.pick(ALL, first.dims, exact=True))
    keys = [j for j, o in enumerate(operands) if o.kind not in COMPLEX]
    key = g.source.choice(keys)
    floating = operands[key].kind in FLOATS
    total = floating and (operands[key].bound is None or g.source.chance(0.5))
    name, body = comparator([o.kind for o in operands], key, g.source.choice(("LT", "GT", "LE", "GE")),
                            total)
    attrs = ", dimensions={%d}, is_stable=true, to_apply=%s" % (
        g.source.number(0, len(first.dims) - 1), name)
    if len(operands) == 1:
        return g.like("sort", operands, first.dims, attrs, computations=[(name, body)])
    return g.several("sort", [Node("", o.kind, o.dims, bound=o.bound) for o in operands], operands, attrs,
                     [(name, body)])


def topk(g):
    x = g.pick(("f32", "bf16", "s32", "f64", "f16", "u8"), exact=True, rank=(1, 2))
    k = g.source.number(0, x.dims[-1])
    largest = g.source.choice(("true", "false"))
    parts = [Node("", x.kind, x.dims[:-1] + (k,), bound=x.bound), Node("", "s32", x.dims[:-1] + (k,))]
    if g.source.chance(0.3) and largest == "true":
        return g.several("custom-call", parts, [x], ', custom_call_target="TopK"')
    return g.several("topk", parts, [x], ", k=%d, largest=%s" % (k, largest))


# ---- linear algebra ----

def fft(g):
    kind = g.source.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    real = g.source.choice(("f32", "f64"))
    comp = "c64" if real == "f32" else "c128"
    axes, lead = g.source.number(1, 3), g.source.dims(4, 0, 1)
    length = [g.source.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 17, 37) if axes == 1 else (1, 2, 3, 4, 5))
              for _ in range(axes)]
    half = length[:-1] + [length[-1] // 2 + 1]
    dims = lead + tuple(half if kind == "IRFFT" else length)
    x = g.pick((real if kind == "RFFT" else comp,), dims, bounded=True, below=40.0)
    out = lead + tuple(half if kind == "RFFT" else length)
    count = 2 * math.prod(length)
    bound = 2 * count * x.bound
    return g.add("fft", real if kind == "IRFFT" else comp, out, [x],
                 ", fft_type=%s, fft_length=%s" % (kind, braces(length)), bound,
                 count * 2 * x.error + rounding(real, bound, 8))


def matrix(g, kind, lead, n, hermitian, diagonal):
    """A parameter of batches of n x n matrices that are kind to solvers."""
    node = g.parameter(kind, lead + (n, n))
    size = len(float_bytes(kind if kind not in COMPLEX else COMPLEX[kind], 0.0))
    wide = kind in COMPLEX
    step = size * (2 if wide else 1)
    data = bytearray(node.data)
    real = COMPLEX.get(kind, kind)
    for m in range(math.prod(lead)):
        for i in range(n):
            for j in range(i + 1):
                re = g.source.number(-4, 4) / 8.0 if i != j else diagonal + g.source.number(0, 3)
                im = g.source.number(-4, 4) / 8.0 if i != j else 0.0
                for r, c, sign in ((i, j, 1), (j, i, -1)):
                    at = ((m * n + r) * n + c) * step
                    if r == i or hermitian:
                        data[at:at + size] = float_bytes(real, re)
                        if wide:
                            data[at + size:at + step] = float_bytes(real, sign * im)
    node.data, node.bound = bytes(data), diagonal + 4.0
    return node


def cholesky(g):
    kind, n = g.source.choice(("f32", "f64", "c64", "c128")), g.source.number(0, 6)
    a = matrix(g, kind, g.source.dims(4, 0, 1), n, True, 6.0)
    return g.add("cholesky", kind, a.dims, [a], ", lower=" + g.source.choice(("true", "false")), 4.0,
                 rounding(kind, 400.0))


def triangular_solve(g):
    kind, n = g.source.choice(("f32", "f64", "c64", "c128")), g.source.number(0, 5)
    lead, other, left = g.source.dims(4, 0, 1), g.source.number(0, 4), g.source.chance(0.5)
    a = matrix(g, kind, lead, n, True, 3.0)
    b = g.pick((kind,), lead + ((n, other) if left else (other, n)), bounded=True, below=10.0)
    attrs = ", left_side=%s, lower=%s, unit_diagonal=%s, transpose_a=%s" % (
        str(left).lower(), g.source.choice(("true", "false")), g.source.choice(("true", "false")),
        g.source.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")))
    bound = 30.0 * b.bound
    return g.add("triangular-solve", kind, b.dims, [a, b], attrs, bound,
                 30.0 * b.error + rounding(kind, bound, 16))


def rng_bits(g):
    algorithm = g.source.choice(("rng_three_fry", "rng_philox", "rng_default"))
    state = g.pick(("u64",), (g.source.choice((2, 2, 3)) if algorithm == "rng_philox" else 2,))
    out = Node("", g.source.choice(("u8", "u16", "u32", "u64", "s32", "s8")), g.source.dims())
    return g.several("rng-bit-generator", [Node("", "u64", state.dims), out], [state],
                     ", algorithm=" + algorithm)


def batch_norm(g):
    x = g.pick(("f32", "f64"), bounded=True, exact=True, rank=(2, 4))
    feature = g.source.number(0, len(x.dims) - 1)
    if 0 in x.dims:
        return None
    vector = (x.dims[feature],)
    attrs = ", epsilon=0.25, feature_index=%d" % feature
    scale, offset = (g.pick((x.kind,), vector, bounded=True, exact=True, below=10.0) for _ in range(2))
    error = rounding(x.kind, 4000.0)
    if g.source.chance(0.5):
        parts = [Node("", x.kind, d, bound=None, error=error) for d in (x.dims, vector, vector)]
        return g.several("batch-norm-training", parts, [x, scale, offset], attrs)
    variance = g.add("abs", x.kind, vector, [g.pick((x.kind,), vector, bounded=True, exact=True)], "", 6.0)
    mean = g.pick((x.kind,), vector, bounded=True, exact=True)
    if g.source.chance(0.5):
        return g.add("batch-norm-inference", x.kind, x.dims, [x, scale, offset, mean, variance], attrs,
                     None, error)
    grad = g.pick((x.kind,), x.dims, bounded=True, exact=True)
    parts = [Node("", x.kind, d, bound=None, error=50 * error) for d in (x.dims, vector, vector)]
    return g.several("batch-norm-grad", parts, [x, scale, mean, variance, grad], attrs)


# ---- computations ----

def apply_map(g):
    op = g.source.choice(["add", "maximum", "subtract"])
    x = g.pick(tuple(INTS) + REAL, exact=True)
    y = g.pick((x.kind,), x.dims, exact=True)
    name, body = binary_computation(op, x.kind)
    bound = None if x.bound is None or y.bound is None else x.bound + y.bound
    inexact = "multiply" in (x.op, y.op)
    if inexact:
        return None
    return g.add("map", x.kind, x.dims, [x, y], ", dimensions=%s, to_apply=%s" % (
        braces(range(len(x.dims))), name), bound, computations=[(name, body)])


def unary_body(name, shape, op):
    return "%s {\n  a = %s parameter(0)\n  ROOT b = %s %s(a)\n}\n" % (name, shape, shape, op)


def shape_name(node):
    return node.kind + "_" + "_".join(map(str, node.dims))


def call(g):
    x = g.pick(tuple(INTS) + REAL)
    op = g.source.choice(("negate", "copy")) if x.kind[0] != "u" else "copy"
    name = "%s_%s" % (op, shape_name(x))
    how = g.source.choice(("call", "fusion"))
    attrs = ", to_apply=" + name if how == "call" else ", kind=kLoop, calls=" + name
    return g.like(how, [x], x.dims, attrs, computations=[(name, unary_body(name, x.shape(), op))])


def conditional(g):
    x = g.pick(tuple(k for k in INTS if k[0] == "s") + REAL)
    names = ["%s_%s" % (op, shape_name(x)) for op in ("negate", "copy", "abs")]
    bodies = [unary_body(n, x.shape(), op) for n, op in zip(names, ("negate", "copy", "abs"))]
    if g.source.chance(0.5):
        which = g.pick(("pred",), ())
        return g.like("conditional", [which, x, x], x.dims, ", true_computation=%s, false_computation=%s" % (
            names[0], names[1]), kind=x.kind, computations=list(zip(names[:2], bodies[:2])))
    which = g.pick(("s32",), ())
    return g.like("conditional", [which, x, x, x], x.dims,
                  ", branch_computations={%s}" % ", ".join(names), kind=x.kind,
                  computations=list(zip(names, bodies)))


WHILE = """cond_{2} {{
  s = (s32[], {0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({1})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body_{2} {{
  s = (s32[], {0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = {0} {3}(x)
  ROOT r = (s32[], {0}) tuple(j, y)
}}
"""


def loop(g):
    x = g.pick(tuple(k for k in INTS if k[0] == "s") + REAL)
    start = g.pick(("s32",), (), bounded=True)
    if start.data is None or abs(int.from_bytes(start.data, "little", signed=True)) > 8:
        return None
    count, op = g.source.number(-2, 5), g.source.choice(("negate", "abs", "copy"))
    name = "%s_%s_%d" % (op, shape_name(x), count + 2)
    body = WHILE.format(x.shape(), count, name, op)
    pair = Node("tuple", None, (), [start, x], tuple_shape=[start, x])
    parts = [Node("", "s32", ()), Node("", x.kind, x.dims, bound=x.bound, error=x.error,
                                       relative=x.relative)]
    return g.several("while", parts, [pair], ", condition=cond_%s, body=body_%s" % (name, name),
                     [(name, body)])


SCAN = """step_{0} {{
  x = {1} parameter(0)
  c = {1} parameter(1)
  y = {1} subtract(x, c)
  ROOT t = ({1}, {1}) tuple(y, y)
}}
"""


def scan(g):
    x = g.pick(INTS, rank=(1, 3))
    axis = g.source.number(0, len(x.dims) - 1)
    slice_dims = x.dims[:axis] + x.dims[axis + 1:]
    start = g.pick((x.kind,), slice_dims)
    name = shape_name(start)
    attrs = ", dimensions={%d}, num_carries=1, is_reverse=%s, to_apply=step_%s" % (
        axis, g.source.choice(("true", "false")), name)
    return g.several("scan", [Node("", x.kind, x.dims), Node("", x.kind, slice_dims)], [x, start], attrs,
                     [("step_" + name, SCAN.format(name, start.shape()))])


def identity(g):
    x = g.pick()
    how = g.source.choice(("copy", "opt-barrier", "custom-call", "all-reduce"))
    if how == "custom-call":
        return g.like(how, [x], x.dims, ', custom_call_target="Sharding", sharding={replicated}')
    if how == "all-reduce":
        if x.kind == "pred":
            return None
        name, body = binary_computation("add", x.kind)
        return g.like(how, [x], x.dims, ", replica_groups={}, to_apply=" + name,
                      computations=[(name, body)])
    return g.like(how, [x], x.dims)


STRUCTURED = [reduce_sum, reduce_extremum, reduce_argmax, reduce_window, select_and_scatter, scatter, dot,
              ragged_dot, scaled_dot, convolution, sort, topk, fft, cholesky, triangular_solve, rng_bits,
              batch_norm, apply_map, call, conditional, loop, scan, identity]
