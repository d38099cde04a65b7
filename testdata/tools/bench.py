#!/usr/bin/env python3
"""docs/performance.md's tables from compare.py's figures and limits.py's.

  bench.py HLOCC BENCH_DIR OUT.md [--only SUBSTRING] [--repeat N] [--rounds N]

Runs compare.py twice (all cores, one core) with the Python that runs this script, which needs jax, measures
what the machine can do, and rewrites the part of OUT.md between the two marker lines. Everything else in the file is left alone.
"""
import argparse, datetime, json, math, os, platform, subprocess, sys, tempfile

import limits

BEGIN, END = "<!-- table: begin (make bench) -->", "<!-- table: end -->"


def measure(args, threads):
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        command = [sys.executable, os.path.join(here, "compare.py"), args.hlocc, args.bench,
                   "--only", args.only, "--repeat", str(args.repeat), "--rounds", str(args.rounds), "--json", path]
        if threads:
            command += ["--threads", str(threads)]
        subprocess.run(command, check=True)
        with open(path) as file:
            return {row["name"]: row for row in json.load(file)}


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def cell(row, key, digits=2):
    return f"{row[key]:.{digits}f}" if row and key in row else "failed"


def table(all_cores, one_core):
    lines = ["| program | XLA ms | ours ms | run x | run x, one core | XLA compile ms | ours | compile x |",
             "|---|---|---|---|---|---|---|---|"]
    for name, row in all_cores.items():
        one = one_core.get(name)
        if "run_ratio" not in row:
            lines.append(f"| {name} | | failed | | {cell(one, 'run_ratio')} | | | |")
            continue
        xla, ours = row["xla"], row["ours"]
        lines.append(f"| {name} | {xla['run_min_s'] * 1e3:.3f} | {ours['run_min_s'] * 1e3:.3f} | "
                     f"{row['run_ratio']:.2f} | {cell(one, 'run_ratio')} | {xla['compile_s'] * 1e3:.0f} | "
                     f"{ours['compile_s'] * 1e3:.0f} | {row['compile_ratio']:.2f} |")
    good = [row for row in all_cores.values() if "run_ratio" in row]
    single = [row for row in one_core.values() if "run_ratio" in row]
    lines.append(f"| geometric mean of {len(good)} | | | {mean(r['run_ratio'] for r in good):.2f} | "
                 f"{mean(r['run_ratio'] for r in single):.2f} | | | "
                 f"{mean(r['compile_ratio'] for r in good):.2f} |")
    return lines


def limit_table(args, rows, rates):
    """The time that the products' operations take at the measured peak, or the arrays at copy bandwidth."""
    lines = ["| program | GFLOP | MB | bound by | limit ms | ours ms | reached |", "|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        if "run_ratio" not in row:
            continue
        flops, moved = limits.limits(args.hlocc, os.path.join(args.bench, name + ".hlo"))
        times = {"arithmetic": flops * 1e-6 / rates[0], "memory": moved * 1e-6 / rates[1]}
        bound = max(times, key=times.get)
        ours = row["ours"]["run_min_s"] * 1e3
        lines.append(f"| {name} | {flops * 1e-9:.3f} | {moved * 1e-6:.1f} | {bound} | {times[bound]:.3f} | "
                     f"{ours:.3f} | {100 * times[bound] / ours:.0f} % |")
    return lines


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hlocc")
    parser.add_argument("bench")
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    all_cores, rates = measure(args, 0), limits.machine(os.cpu_count())
    rows = table(all_cores, measure(args, 1))
    rows += ["", f"Limits on all cores, at {rates[0]:.0f} GFLOP/s of f32 and {rates[1]:.1f} GB/s copied (reading and "
             "writing both count), measured in the same run. What stays in the caches can pass 100 %:", ""]
    rows += limit_table(args, all_cores, rates)
    head = f"Measured {datetime.date.today()} on {os.cpu_count()} cores of {processor()}; x: XLA's time over ours."
    with open(args.out) as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(args.out, "w") as file:
        file.write(before + BEGIN + "\n" + head + "\n\n" + "\n".join(rows) + "\n" + END + after)


if __name__ == "__main__":
    main()
