/tmp/rows/w3/--help/riscv64/obj/runtime/tpu/tpu.o: runtime/tpu/tpu.c \
 runtime/tpu/tpu.h runtime/tpu/program.h runtime/tpu/chip.h \
 runtime/tpu/chip.def runtime/tpu/isa.h runtime/tpu/isa.def \
 runtime/tpu/machine.h runtime/tpu/internal.h
runtime/tpu/tpu.h:
runtime/tpu/program.h:
runtime/tpu/chip.h:
runtime/tpu/chip.def:
runtime/tpu/isa.h:
runtime/tpu/isa.def:
runtime/tpu/machine.h:
runtime/tpu/internal.h:
