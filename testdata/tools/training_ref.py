#!/usr/bin/env python3
"""XLA's losses: runs a case's program over and over, results fed back as inputs, and prints one
line a step, "LOSS ACCURACY".

    training_ref.py CASE_DIR STEPS STATE        STATE: how many results are the next inputs
"""
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import numpy as np
from jax._src.interpreters import mlir as jmlir
from jax._src.lib.mlir import ir
from jaxlib import _hlo, xla_client as xc


def compile_text(text, device):
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    stablehlo = xc._xla.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
    with jmlir.make_ir_context():
        return device.client.compile_and_load(ir.Module.parse(stablehlo), xc.DeviceList((device,)),
                                              xc.CompileOptions())


def main():
    case, steps, state = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    device = jax.local_devices()[0]
    program = compile_text(open(os.path.join(case, "module.hlo")).read(), device)
    count = len([name for name in os.listdir(case) if name.startswith("in.")])
    arrays = [jax.device_put(np.load(os.path.join(case, f"in.{i}.npy")), device)
              for i in range(count)]
    for _ in range(steps):
        results = program.execute_sharded(arrays).disassemble_into_single_device_arrays()
        results = [r[0] for r in results]
        arrays[:state] = results[:state]
        print(" ".join("%.9g" % float(r) for r in results[state:]))


if __name__ == "__main__":
    main()
