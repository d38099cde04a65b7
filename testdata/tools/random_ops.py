"""One function an operation, or family of them: each adds nodes to a graph, or gives up (None)."""
import math

from random_program import (COMPLEX, FLOATS, INTS, SIZES, WIDE, Node, count_of, epsilon, float_bytes,
                            real_part)

ALL = ("pred",) + tuple(INTS) + tuple(FLOATS) + tuple(COMPLEX)
REAL = ("bf16", "f16", "f32", "f64")


class Graph:
    def __init__(self, source):
        self.source, self.nodes = source, []

    def parameter(self, kind, dims, edge=False):
        node = Node("parameter", kind, dims)
        node.data = b"".join(self.source.element(kind, edge) for _ in range(count_of(dims)))
        floating = kind in FLOATS or kind in COMPLEX
        node.bound = None if edge and floating else 6.0 if floating else None
        if count_of(dims) in range(1, 9) and self.source.chance(0.2):
            node.op = "constant"
        self.nodes.append(node)
        return node

    def pick(self, kinds=ALL, dims=None, exact=False, bounded=False, rank=(0, 4), most=300,
             below=64.0):
        """An existing node, or a new parameter, that fits."""
        room = most * (40 if self.source.big and most >= 60 else 1)

        def fits(n):
            return (n.tuple_shape is None and n.kind in kinds and (dims is None or n.dims == dims)
                    and rank[0] <= len(n.dims) <= rank[1] and (n.exact or not exact)
                    and not (n.relative and bounded) and count_of(n.dims) <= room
                    and (not bounded or n.kind in INTS or n.kind == "pred"
                         or (n.bound is not None and n.bound <= below)))
        fitting = [n for n in self.nodes if fits(n)]
        if fitting and self.source.chance(0.75):
            return self.source.choice(fitting)
        kind = self.source.choice(kinds)
        shape = dims if dims is not None else self.source.dims(most, *rank)
        return self.parameter(kind, shape, not bounded and self.source.chance(0.4))

    def add(self, op, kind, dims, operands, attrs="", bound=None, error=0.0, relative=False,
            computations=()):
        if count_of(dims) > (40000 if self.source.big else 4000):
            return None
        node = Node(op, kind, dims, operands, attrs, bound, error, relative, computations)
        self.nodes.append(node)
        return node

    def like(self, op, operands, dims, attrs="", kind=None, computations=()):
        """A move: the worst of the operands."""
        same = [o for o in operands if o.kind == (kind or operands[0].kind)]
        bound = None if any(o.bound is None for o in same) else max(o.bound for o in same)
        return self.add(op, kind or operands[0].kind, dims, operands, attrs, bound,
                        max(o.error for o in same), any(o.relative for o in same), computations)

    def several(self, op, parts, operands, attrs="", computations=()):
        """An operation with several results; each part is a Node made for its shape."""
        whole = Node(op, None, (), operands, attrs, computations=computations, tuple_shape=parts)
        for i, part in enumerate(parts):
            part.op, part.operands, part.element = "get-tuple-element", [whole], i
            self.nodes.append(part)
        return parts


def braces(numbers):
    return "{" + ",".join(map(str, numbers)) + "}"


def binary_computation(op, kind):
    name = "%s_%s" % (op.replace("-", "_"), kind)
    return name, ("%s {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n"
                  "  ROOT c = %s[] %s(a, b)\n}\n" % (name, kind, kind, kind, op))


def rounding(kind, bound, factor=4):
    return factor * epsilon(kind) * max(bound, 1e-3)


# ---- elementwise ----

SMOOTH = {"tanh": (lambda b: 1.0, lambda b: 1.0), "logistic": (lambda b: 1.0, lambda b: 1.0),
          "sine": (lambda b: 1.0, lambda b: 1.0), "cosine": (lambda b: 1.0, lambda b: 1.0),
          "erf": (lambda b: 1.0, lambda b: 1.2), "exponential": (math.exp, math.exp),
          "exponential-minus-one": (math.exp, math.exp)}


def smooth(g):
    op = g.source.choice(SMOOTH)
    x = g.pick(REAL, bounded=True, below=6.0)
    bound, slope = (f(x.bound) for f in SMOOTH[op])
    return g.add(op, x.kind, x.dims, [x], "", bound, x.error * slope + rounding(x.kind, bound, 8))


def steep(g):
    """What is checked relative to its own value."""
    op = g.source.choice(list(SMOOTH) + ["log", "log-plus-one", "sqrt", "rsqrt", "cbrt", "tan", "sinh",
                                         "cosh", "asin", "acos", "asinh", "acosh", "atanh"])
    x = g.pick(REAL, exact=True)
    return g.add(op, x.kind, x.dims, [x], relative=True)


def steep_two(g):
    op = g.source.choice(["power", "atan2"])
    x = g.pick(REAL, exact=True)
    return g.add(op, x.kind, x.dims, [x, g.pick((x.kind,), x.dims, exact=True)], relative=True)


def steep_complex(g):
    op = g.source.choice(["exponential", "log", "sqrt", "tanh", "sine", "cosine", "rsqrt", "divide"])
    x = g.pick(COMPLEX, exact=True, bounded=True)
    operands = [x]
    if op == "divide":
        operands.append(g.pick((x.kind,), x.dims, exact=True, bounded=True))
    return g.add(op, x.kind, x.dims, operands, relative=True)


def sign_like(g):
    x = g.pick(tuple(INTS) + tuple(FLOATS) + tuple(COMPLEX))
    op = "negate" if x.kind in COMPLEX or x.kind[0] == "u" else g.source.choice(["abs", "negate"])
    return g.like(op, [x], x.dims)


def jump(g):
    x = g.pick(REAL, exact=True)
    op = g.source.choice(["floor", "ceil", "round-nearest-even", "round-nearest-afz", "sign",
                          "is-finite", "reduce-precision"])
    attrs = ""
    if op == "reduce-precision":
        attrs = ", exponent_bits=%d, mantissa_bits=%d" % (g.source.number(2, 8),
                                                          g.source.number(1, 10))
    kind = "pred" if op == "is-finite" else x.kind
    return g.add(op, kind, x.dims, [x], attrs, x.bound and x.bound + 1)


def bits(g):
    x = g.pick(("pred",) + tuple(INTS))
    op = g.source.choice(["not", "and", "or", "xor"] + (
        ["popcnt", "count-leading-zeros", "shift-left", "shift-right-logical",
         "shift-right-arithmetic"] if x.kind != "pred" else []))
    operands = [x] if op in ("not", "popcnt", "count-leading-zeros") else \
        [x, g.pick((x.kind,), x.dims)]
    return g.add(op, x.kind, x.dims, operands)


def integer_pair(g):
    x = g.pick(INTS)
    op = g.source.choice(["add", "subtract", "multiply", "divide", "remainder", "power", "maximum",
                          "minimum"])
    return g.add(op, x.kind, x.dims, [x, g.pick((x.kind,), x.dims)])


def float_sum(g):
    op = g.source.choice(["add", "subtract"])
    if g.source.chance(0.3):
        x = g.pick(FLOATS, exact=True)
        y = g.pick((x.kind,), x.dims, exact=True)
        return g.add(op, x.kind, x.dims, [x, y])
    x = g.pick(tuple(FLOATS) + tuple(COMPLEX), bounded=True)
    y = g.pick((x.kind,), x.dims, bounded=True)
    bound = x.bound + y.bound
    exact = x.exact and y.exact and "multiply" not in (x.op, y.op)
    return g.add(op, x.kind, x.dims, [x, y], "", bound,
                 0.0 if exact else x.error + y.error + rounding(x.kind, bound))


def float_product(g):
    x = g.pick(tuple(FLOATS) + tuple(COMPLEX), bounded=True, below=16.0)
    y = g.pick((x.kind,), x.dims, bounded=True, below=16.0)
    bound = 2 * x.bound * y.bound
    return g.add("multiply", x.kind, x.dims, [x, y], "", bound,
                 x.error * y.bound + y.error * x.bound + rounding(x.kind, bound))


def float_quotient(g):
    op = g.source.choice(["divide", "remainder", "multiply"])
    x = g.pick(FLOATS, exact=True)
    y = g.pick((x.kind,), x.dims, exact=True)
    return g.add(op, x.kind, x.dims, [x, y], relative=True)


def extremum(g):
    x = g.pick(tuple(FLOATS) + ("pred",))
    return g.like(g.source.choice(["maximum", "minimum"]), [x, g.pick((x.kind,), x.dims)], x.dims)


def clamp(g):
    x = g.pick(REAL + tuple(INTS))
    bounds = x.dims if g.source.chance(0.5) else ()
    return g.like("clamp", [g.pick((x.kind,), bounds), x, g.pick((x.kind,), bounds)], x.dims,
                  kind=x.kind)


def compare(g):
    x = g.pick(exact=True)
    ordered = x.kind not in COMPLEX
    direction = g.source.choice(["EQ", "NE"] + (["LT", "LE", "GT", "GE"] if ordered else []))
    total = ", type=TOTALORDER" if x.kind in FLOATS and g.source.chance(0.4) else ""
    return g.add("compare", "pred", x.dims, [x, g.pick((x.kind,), x.dims, exact=True)],
                 ", direction=" + direction + total)


def select(g):
    x = g.pick()
    y = g.pick((x.kind,), x.dims)
    which = g.pick(("pred",), x.dims if g.source.chance(0.8) else ())
    return g.like("select", [which, x, y], x.dims, kind=x.kind)


def convert(g):
    to = g.source.choice(ALL)
    if to in COMPLEX:
        x = g.pick(("f32", "f64") + tuple(INTS), exact=True)
        return g.add("convert", to, x.dims, [x], "", x.bound)
    if to in FLOATS:
        x = g.pick(tuple(FLOATS), bounded=True) if g.source.chance(0.5) else \
            g.pick(("pred",) + tuple(INTS) + tuple(FLOATS), exact=True)
        error = 0.0 if x.exact else x.error + rounding(to, x.bound)
        return g.add("convert", to, x.dims, [x], "", x.bound if x.kind in FLOATS else None, error)
    x = g.pick(("pred",) + tuple(INTS) + tuple(FLOATS), exact=True)
    return g.add("convert", to, x.dims, [x])


def bitcast_convert(g):
    x = g.pick(tuple(INTS) + REAL, exact=True)
    to = g.source.choice(tuple(INTS) + REAL)
    width, other = (INTS.get(k) or 8 * SIZES[k] for k in (x.kind, to))
    if width == other:
        return g.add("bitcast-convert", to, x.dims, [x])
    if width > other:
        return g.add("bitcast-convert", to, x.dims + (width // other,), [x])
    wide = g.parameter(x.kind, g.source.dims(60, 0, 3) + (other // width,), True)
    return g.add("bitcast-convert", to, wide.dims[:-1], [wide])


def parts(g):
    if g.source.chance(0.5):
        x = g.pick(WIDE)
        y = g.pick((x.kind,), x.dims)
        return g.like("complex", [x, y], x.dims, kind=None) and \
            retype(g, "c64" if x.kind == "f32" else "c128")
    x = g.pick(COMPLEX)
    if x.relative:
        return None  # to its magnitude, not to its parts
    node = g.like(g.source.choice(["real", "imag"]), [x], x.dims)
    node.kind = real_part(x.kind)
    return node


def retype(g, kind):
    node = g.nodes[-1]
    node.kind = kind
    return node


def stochastic(g):
    x = g.pick(("f32",), exact=True)
    return g.add("stochastic-convert", g.source.choice(("s8", "s32", "u8")), x.dims,
                 [x, g.pick(("u32",), x.dims)])


ELEMENTWISE = [smooth, steep, steep_two, steep_complex, sign_like, jump, bits, integer_pair, float_sum,
               float_product, float_quotient, extremum, clamp, compare, select, convert, bitcast_convert,
               parts, stochastic]


# ---- moves ----

def broadcast(g):
    x = g.pick(most=60, rank=(0, 3))
    dims, where = list(x.dims), list(range(len(x.dims)))
    for _ in range(g.source.number(1, 2)):
        at = g.source.number(0, len(dims))
        dims.insert(at, g.source.choice((1, 2, 3, 5)))
        where = [w + (w >= at) for w in where]
    return g.like("broadcast", [x], dims, ", dimensions=" + braces(where))


def reshape(g):
    x = g.pick()
    rest, dims = count_of(x.dims), []
    if rest == 0:
        dims = list(x.dims)
        g.source.random.shuffle(dims)
        return g.like("reshape", [x], dims)
    while rest > 1:
        factor = g.source.choice([f for f in range(2, rest + 1) if rest % f == 0])
        dims.append(factor)
        rest //= factor
    if g.source.chance(0.5):
        dims.insert(g.source.number(0, len(dims)), 1)
    return g.like("reshape", [x], dims)


def transpose(g):
    x = g.pick(rank=(1, 4))
    order = list(range(len(x.dims)))
    g.source.random.shuffle(order)
    return g.like("transpose", [x], [x.dims[i] for i in order], ", dimensions=" + braces(order))


def cut(g):
    x = g.pick(rank=(1, 4))
    ranges = []
    for d in x.dims:
        start = g.source.number(0, d)
        ranges.append((start, g.source.number(start, d), g.source.choice((1, 1, 2, 3))))
    return g.like("slice", [x], [-(-(b - a) // s) for a, b, s in ranges],
                  ", slice={" + ", ".join("[%d:%d:%d]" % r for r in ranges) + "}")


def pad(g):
    x = g.pick(rank=(1, 4))
    config, dims = [], []
    for d in x.dims:
        low, high, inner = g.source.number(-2, 3), g.source.number(-2, 3), g.source.choice((0, 0, 1, 2))
        size = d + max(d - 1, 0) * inner + low + high
        if size < 0:
            low, high, size = 0, 0, d + max(d - 1, 0) * inner
        config.append("%d_%d_%d" % (low, high, inner))
        dims.append(size)
    return g.like("pad", [x, g.pick((x.kind,), ())], dims, ", padding=" + "x".join(config))


def concatenate(g):
    x = g.pick(rank=(1, 4))
    axis = g.source.number(0, len(x.dims) - 1)
    pieces = [x]
    for _ in range(g.source.number(0, 3)):
        dims = list(x.dims)
        dims[axis] = g.source.choice((0, 1, 2, 3, x.dims[axis]))
        pieces.append(g.pick((x.kind,), tuple(dims)))
    dims = list(x.dims)
    dims[axis] = sum(p.dims[axis] for p in pieces)
    return g.like("concatenate", pieces, dims, ", dimensions={%d}" % axis)


def reverse(g):
    x = g.pick(rank=(1, 4))
    which = [i for i in range(len(x.dims)) if g.source.chance(0.6)]
    return g.like("reverse", [x], x.dims, ", dimensions=" + braces(which))


def iota(g):
    kind, dims = g.source.choice(tuple(INTS) + REAL + tuple(COMPLEX)), g.source.dims(300, 1, 4)
    return g.add("iota", kind, dims, [], ", iota_dimension=%d" % g.source.number(0, len(dims) - 1),
                 max(dims, default=0) if kind not in INTS else None)


def starts(g, rank):
    kind = g.source.choice(("s32", "u8", "s64", "u32"))
    return [g.pick((kind,), ()) for _ in range(rank)]


def dynamic_slice(g):
    x = g.pick(rank=(1, 3))
    sizes = [g.source.number(0, d) for d in x.dims]
    return g.like("dynamic-slice", [x] + starts(g, len(x.dims)), sizes,
                  ", dynamic_slice_sizes=" + braces(sizes), kind=x.kind)


def dynamic_update_slice(g):
    x = g.pick(rank=(1, 3))
    part = g.pick((x.kind,), tuple(g.source.number(0, d) for d in x.dims))
    return g.like("dynamic-update-slice", [x, part] + starts(g, len(x.dims)), x.dims, kind=x.kind)


def gather(g):
    x = g.pick(rank=(1, 3))
    if 0 in x.dims:
        return None
    rank, batch = len(x.dims), g.source.dims(12, 0, 2)
    sizes = [g.source.number(0 if d > 1 else 1, d) for d in x.dims]
    mapped = [i for i in range(rank) if g.source.chance(0.7)]
    g.source.random.shuffle(mapped)
    collapsed = [i for i in range(rank) if sizes[i] == 1 and g.source.chance(0.6)]
    window = [s for i, s in enumerate(sizes) if i not in collapsed]
    vector = g.source.number(0, len(batch))
    index_dims = batch[:vector] + (len(mapped),) + batch[vector:]
    indices = g.pick((g.source.choice(("s32", "u8", "s64")),), index_dims)
    out_rank = len(window) + len(batch)
    offset = sorted(g.source.random.sample(range(out_rank), len(window)))
    windows, batches = iter(window), iter(batch)
    dims = [next(windows) if i in offset else next(batches) for i in range(out_rank)]
    attrs = (", offset_dims=%s, collapsed_slice_dims=%s, start_index_map=%s, index_vector_dim=%d, "
             "slice_sizes=%s" % (braces(offset), braces(collapsed), braces(mapped), vector,
                                 braces(sizes)))
    return g.like("gather", [x, indices], dims, attrs, kind=x.kind)


MOVES = [broadcast, reshape, transpose, cut, pad, concatenate, reverse, iota, dynamic_slice,
         dynamic_update_slice, gather]
