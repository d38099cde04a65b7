#!/usr/bin/env python3
"""memory.py HLOCC FILE|DIR...: the memory that programs take beside inputs and results, by hlocc and by
XLA:CPU (needs jax). One line a program: hlocc's temp bytes, the lower bound for its schedule, its scratch
(what kernels need for themselves), XLA's temp bytes, and a remark where a bound is not kept:
    above the lower bound by more than 5 %;
    above XLA's, where XLA uses no library subgraph (__ynn_fusion: those keep memory of their own, which
    is in none of its figures); more than 1.25 times XLA's, where that is over 1 MB.
A DIR stands for the *.hlo below it, but optimized.hlo. Exit status 1 where there was a remark."""
import json
import os
import subprocess
import sys

from passes import programs


def ours(hlocc, path):
    done = subprocess.run([hlocc, "report", path, "--memory", "--json", "--threads=2"],
                          capture_output=True, text=True, timeout=600)
    return json.loads(done.stdout) if done.returncode == 0 else None


class Xla:
    def __init__(self):
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        jax.config.update("jax_enable_x64", True)
        self.device = jax.local_devices()[0]

    def compile(self, path):
        """Temp bytes, and whether a library subgraph is among the kernels."""
        from jax._src.interpreters import mlir
        from jax._src.lib.mlir import ir
        from jaxlib import _hlo, xla_client
        with open(path) as file:
            module = _hlo.hlo_module_from_text(file.read())
        computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
        text = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
        with mlir.make_ir_context():
            done = self.device.client.compile_and_load(
                ir.Module.parse(text), xla_client.DeviceList((self.device,)), xla_client.CompileOptions())
        temp = done.get_compiled_memory_stats().temp_size_in_bytes
        return temp, any("__ynn_fusion" in m.to_string() for m in done.hlo_modules())


def remark(mine, theirs, library):
    temp = mine["temp_bytes"]
    if temp > 1.05 * mine["lower_bound_bytes"]:
        return "ABOVE THE LOWER BOUND"
    if not library and temp > theirs:
        return "ABOVE XLA"
    if theirs > 1e6 and temp > 1.25 * theirs:
        return "ABOVE 1.25 XLA"
    return ""


def main(args):
    if len(args) < 2:
        sys.exit(__doc__)
    xla, remarks = Xla(), 0
    print("%12s %12s %12s %12s" % ("temp", "lower bound", "scratch", "XLA temp"))
    for path in programs(args[1:], left_out=("optimized.hlo",)):
        mine = ours(args[0], path)
        try:
            theirs, library = xla.compile(path)
        except Exception as error:
            print(f"{path}: XLA: {str(error).splitlines()[0][:100]}")
            continue
        if mine is None:
            print(f"{path}: hlocc refuses it")
            continue
        what = remark(mine, theirs, library)
        remarks += bool(what)
        print("%12d %12d %12d %12d  %s%s  %s" % (mine["temp_bytes"], mine["lower_bound_bytes"],
                                              mine["scratch_bytes"], theirs, path,
                                              " (library)" if library else "", what), flush=True)
    return 1 if remarks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
