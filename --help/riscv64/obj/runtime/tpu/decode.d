/tmp/rows/w3/--help/riscv64/obj/runtime/tpu/decode.o: \
 runtime/tpu/decode.c runtime/tpu/machine.h runtime/tpu/internal.h \
 runtime/tpu/tpu.h runtime/tpu/program.h runtime/tpu/chip.h \
 runtime/tpu/chip.def runtime/tpu/isa.h runtime/tpu/isa.def
runtime/tpu/machine.h:
runtime/tpu/internal.h:
runtime/tpu/tpu.h:
runtime/tpu/program.h:
runtime/tpu/chip.h:
runtime/tpu/chip.def:
runtime/tpu/isa.h:
runtime/tpu/isa.def:
