/tmp/rows/w3/--help/aarch64/obj/runtime/tpu/program_file.o: \
 runtime/tpu/program_file.c runtime/tpu/internal.h runtime/tpu/tpu.h \
 runtime/tpu/program.h runtime/tpu/chip.h runtime/tpu/chip.def \
 runtime/tpu/isa.h runtime/tpu/isa.def
runtime/tpu/internal.h:
runtime/tpu/tpu.h:
runtime/tpu/program.h:
runtime/tpu/chip.h:
runtime/tpu/chip.def:
runtime/tpu/isa.h:
runtime/tpu/isa.def:
