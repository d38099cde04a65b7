/tmp/rows/w3/--help/aarch64/obj/runtime/tpu/vector.o: \
 runtime/tpu/vector.c runtime/tpu/lanes.h runtime/tpu/machine.h \
 runtime/tpu/internal.h runtime/tpu/tpu.h runtime/tpu/program.h \
 runtime/tpu/chip.h runtime/tpu/chip.def runtime/tpu/isa.h \
 runtime/tpu/isa.def
runtime/tpu/lanes.h:
runtime/tpu/machine.h:
runtime/tpu/internal.h:
runtime/tpu/tpu.h:
runtime/tpu/program.h:
runtime/tpu/chip.h:
runtime/tpu/chip.def:
runtime/tpu/isa.h:
runtime/tpu/isa.def:
