"""Small random HLO programs: a graph of nodes, its text, and inputs with and without edge values.

Every node knows how far two correct implementations may be apart: not at all (exact), or by `error`,
an absolute bound that grows with each rounding, or, for results of edge values, by a few units of
the result itself (relative; nothing but moves may follow). What jumps (comparisons, roundings,
sorting keys) takes exact operands only."""
import math
import random
import struct

FLOATS = {"bf16": (8, 7), "f16": (5, 10), "f32": (8, 23), "f64": (11, 52), "f8e5m2": (5, 2)}
COMPLEX = {"c64": "f32", "c128": "f64"}
INTS = {"s4": 4, "s8": 8, "s16": 16, "s32": 32, "s64": 64,
        "u4": 4, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
SIZES = {"pred": 1, "s4": 1, "u4": 1, "s8": 1, "u8": 1, "f8e5m2": 1, "s16": 2, "u16": 2, "bf16": 2,
         "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16}
WIDE = ("f32", "f64")


def real_part(kind):
    return COMPLEX.get(kind, kind)


def epsilon(kind):
    """One unit in the last place of 1."""
    return 2.0 ** -FLOATS[real_part(kind)][1] if real_part(kind) in FLOATS else 0.0


def count_of(dims):
    return math.prod(dims)


class Node:
    """One array value. `bound`: of its magnitude; None: anything, infinities and NaN included."""

    def __init__(self, op, kind, dims, operands=(), attrs="", bound=None, error=0.0, relative=False,
                 computations=(), element=None, tuple_shape=None):
        self.op, self.kind, self.dims = op, kind, tuple(dims)
        self.operands, self.attrs = list(operands), attrs
        self.bound, self.error, self.relative = bound, error, relative
        self.computations = tuple(computations)
        self.element = element          # of the tuple that operands[0] is
        self.tuple_shape = tuple_shape  # of an operation with several results: Nodes of their kinds
        self.data = None                # of a parameter

    @property
    def exact(self):
        return self.error == 0.0 and not self.relative

    def shape(self):
        if self.tuple_shape is not None:
            return "(" + ", ".join(part.shape() for part in self.tuple_shape) + ")"
        return "%s[%s]" % (self.kind, ",".join(map(str, self.dims)))


# ---- bytes of elements ----

def float_bytes(kind, value):
    if kind == "f64":
        return struct.pack("<d", value)
    if kind == "f16":
        return struct.pack("<e", max(-65504.0, min(65504.0, value)) if math.isfinite(value) else value)
    try:
        data = struct.pack("<f", value)
    except OverflowError:
        data = struct.pack("<f", math.copysign(math.inf, value))
    if kind == "f32":
        return data
    if kind == "bf16":
        return b"\xc0\x7f" if math.isnan(value) else data[2:]
    return b"\x7e" if math.isnan(value) else float_bytes("f16", value)[1:]


def decode(kind, data):
    """Numbers from the bytes of an array; complex as two floats an element."""
    if kind in COMPLEX:
        return decode(COMPLEX[kind], data)
    if kind in ("f32", "f64", "f16"):
        form = {"f32": "f", "f64": "d", "f16": "e"}[kind]
        return list(struct.unpack("<%d%s" % (len(data) // SIZES[kind], form), data))
    if kind == "bf16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    if kind == "f8e5m2":
        return [struct.unpack("<e", b"\0" + data[i:i + 1])[0] for i in range(len(data))]
    size, signed = SIZES[kind], kind.startswith("s")
    return [int.from_bytes(data[i:i + size], "little", signed=signed)
            for i in range(0, len(data), size)]


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -1.5, 2.5, 1e-40, -1e-42, 1e-38,
           3e38, -2e38, 65504.0, 1e-7, 7.0, -128.0, 1e10]


class Source:
    """Where all choices come from."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.big = self.random.random() < 0.15  # arrays that threads and tiles take part of

    def choice(self, items):
        return self.random.choice(list(items))

    def chance(self, p):
        return self.random.random() < p

    def number(self, low, high):
        return self.random.randint(low, high)

    def element(self, kind, edge):
        r = self.random
        if kind == "pred":
            return bytes([r.randint(0, 1)])
        if kind in COMPLEX:
            return self.element(COMPLEX[kind], edge) + self.element(COMPLEX[kind], edge)
        if kind in FLOATS:
            if edge and r.random() < 0.6:
                return float_bytes(kind, r.choice(SPECIAL))
            return float_bytes(kind, r.randint(-32, 32) / 8.0)
        bits, signed = INTS[kind], kind[0] == "s"
        if edge:
            value = r.choice([0, 1, -1, 1 << (bits - 1), (1 << (bits - 1)) - 1, r.getrandbits(bits)])
        else:
            value = r.randint(-8 if signed else 0, 7)
        value &= (1 << bits) - 1
        if signed and value >> (bits - 1):
            value -= 1 << bits
        return (value & ((1 << 8 * SIZES[kind]) - 1)).to_bytes(SIZES[kind], "little")

    def dims(self, most=300, least_rank=0, most_rank=4):
        sizes = (1, 2, 3, 4, 5, 7, 8, 16)
        if self.big and most >= 60:
            most, sizes = 40 * most, sizes + (31, 32, 33, 64, 100, 130)
        while True:
            dims = tuple(self.choice(sizes) if self.chance(0.9) else self.choice((0, 1, 9, 17, 33))
                         for _ in range(self.number(least_rank, most_rank)))
            if count_of(dims) <= most:
                return dims


# ---- programs ----

def reachable(roots):
    """All nodes that the roots need, operands first."""
    seen, order = set(), []

    def visit(node):
        if id(node) in seen:
            return
        seen.add(id(node))
        for operand in node.operands:
            visit(operand)
        order.append(node)

    for root in roots:
        visit(root)
    return order


def literal(node):
    """The text of a constant's values."""
    values = decode(node.kind, node.data)
    if node.kind in COMPLEX:
        words = ["(%r, %r)" % pair for pair in zip(values[::2], values[1::2])]
    elif node.kind == "pred":
        words = ["true" if v else "false" for v in values]
    else:
        words = [repr(v) for v in values]

    def nest(dims, words):
        if not dims:
            return words[0]
        step = len(words) // dims[0] if dims[0] else 0
        return "{" + ", ".join(nest(dims[1:], words[i * step:(i + 1) * step])
                               for i in range(dims[0])) + "}"
    return nest(node.dims, words)


class Program:
    def __init__(self, roots):
        self.roots = roots
        self.nodes = reachable(roots)
        self.parameters = [n for n in self.nodes if n.op == "parameter"]

    def text(self):
        names = {id(node): "v%d" % i for i, node in enumerate(self.nodes)}
        lines, computations = [], {}
        for node in self.nodes:
            for name, body in node.computations:
                computations[name] = body
        for node in self.nodes:
            name, operands = names[id(node)], ", ".join(names[id(o)] for o in node.operands)
            if node.op == "parameter":
                operands = str(self.parameters.index(node))
            if node.op == "constant":
                operands = literal(node)
            if node.element is not None:
                line = "get-tuple-element(%s), index=%d" % (operands, node.element)
            else:
                line = "%s(%s)%s" % (node.op, operands, node.attrs)
            lines.append("  %s = %s %s" % (name, node.shape(), line))
        roots = [names[id(root)] for root in self.roots]
        lines.append("  ROOT r = (%s) tuple(%s)" % (", ".join(root.shape() for root in self.roots),
                                                   ", ".join(roots)))
        return "HloModule random\n" + "".join(computations.values()) + "ENTRY main {\n" + \
            "\n".join(lines) + "\n}\n"


def npy(node):
    """The parameter as a .npy file's bytes."""
    names = {"pred": "|b1", "bf16": "|V2", "f8e5m2": "|V1", "s4": "|i1", "u4": "|u1"}
    if node.kind in names:
        descr = names[node.kind]
    else:
        letter = "c" if node.kind in COMPLEX else node.kind[0].replace("s", "i")
        descr = ("|" if SIZES[node.kind] == 1 else "<") + letter + str(SIZES[node.kind])
    dims = "(%s)" % "".join("%d," % d for d in node.dims)
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, dims)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + node.data
