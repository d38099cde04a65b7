#!/usr/bin/env python3
"""What a program cannot be faster than: the operations of its products, and its arrays read and written once.

  limits.py HLOCC FILE.hlo ...     products' GFLOP, and MB of parameters and results
"""
import math, os, re, subprocess, sys, tempfile

BITS = {"pred": 8, "s4": 8, "u4": 8, "bf16": 16, "f16": 16, "c64": 64, "c128": 128}
INSTR = re.compile(r"^\s*(?:ROOT )?%?(\S+) = (.+?) ([a-z][\w-]*)\((.*)$")
ARRAY = re.compile(r"\b(pred|[su]\d+|bf16|f\d+\w*|c\d+)\[([\d,]*)\]")


def arrays(text):
    """(element type, sizes) of every array in a shape."""
    return [(t, [int(n) for n in d.split(",") if n]) for t, d in ARRAY.findall(text)]


def size_in_bytes(text):
    total = 0
    for kind, dims in arrays(text):
        bits = BITS.get(kind) or int(re.search(r"\d+", kind).group())
        total += math.prod(dims) * max(bits, 8) // 8
    return total


def computations(text):
    """name -> list of (name, shape, opcode, rest of the line); and the name of the entry."""
    found, entry, current = {}, None, None
    for line in text.splitlines():
        head = re.match(r"^(ENTRY )?%?(\S+) .*\{$", line)
        if head:
            current = found.setdefault(head.group(2), [])
            entry = head.group(2) if head.group(1) else entry
        elif current is not None:
            match = INSTR.match(line)
            if match:
                current.append(match.groups())
    return found, entry


def product_flops(instr, shapes):
    _, shape, opcode, rest = instr
    result = math.prod(arrays(shape)[0][1])
    names = re.findall(r"%([\w.-]+)", rest.split(")")[0])
    if opcode == "dot":
        lhs = arrays(shapes[names[0]])[0][1]
        dims = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", rest)
        return 2 * result * math.prod(lhs[int(d)] for d in dims.group(1).split(",") if d)
    kernel = arrays(shapes[names[1]])[0][1]
    label = re.search(r"dim_labels=\w+_(\w+)->", rest).group(1)
    return 2 * result * math.prod(kernel) // max(1, kernel[label.index("o")])


def trips(found, condition):
    """Of a loop that counts up to a constant; 1 where it does not show."""
    numbers = [re.match(r"(\d+)\)", rest) for _, shape, opcode, rest in found.get(condition, [])
               if opcode == "constant" and shape.startswith("s")]
    return max([int(n.group(1)) for n in numbers if n], default=1)


def flops_of(found, name, seen=()):
    total, shapes = 0, {n: shape for n, shape, _, _ in found.get(name, [])}
    for instr in found.get(name, []):
        rest = instr[3]
        if instr[2] in ("dot", "convolution"):
            total += product_flops(instr, shapes)
        body = re.search(r"\b(?:body|calls|to_apply)=%?([\w.-]+)", rest)
        if body and instr[2] in ("while", "fusion", "call") and body.group(1) not in seen:
            inside = flops_of(found, body.group(1), seen + (name,))
            condition = re.search(r"condition=%?([\w.-]+)", rest)
            total += inside * (trips(found, condition.group(1)) if condition else 1)
    return total


def limits(hlocc, path):
    """(operations of products, bytes of parameters and results)"""
    text = subprocess.run([hlocc, "opt", "--passes=cpu", path], capture_output=True, text=True,
                          check=True).stdout
    found, entry = computations(text)
    moved = sum(size_in_bytes(i[1]) for i in found[entry] if i[2] == "parameter")
    root = re.search(r"^ENTRY .*?-> (.*) \{$", text, re.M).group(1)
    return flops_of(found, entry), moved + size_in_bytes(root)


def machine(threads):
    """GFLOP/s and GB/s of so many threads at once, by bench/machine.c."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/machine.c")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "machine")
        subprocess.run(["cc", "-O3", "-march=native", source, "-o", program], check=True)
        running = [subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
                   for _ in range(threads)]
        rates = [[float(x) for x in p.communicate()[0].split()] for p in running]
    return sum(r[0] for r in rates), sum(r[1] for r in rates)


if __name__ == "__main__":
    for file in sys.argv[2:]:
        flops, moved = limits(sys.argv[1], file)
        print(f"{os.path.basename(file):40s} {flops * 1e-9:10.3f} {moved * 1e-6:10.3f}")
