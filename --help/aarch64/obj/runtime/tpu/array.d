/tmp/rows/w3/--help/aarch64/obj/runtime/tpu/array.o: runtime/tpu/array.c \
 runtime/tpu/program.h runtime/tpu/chip.h runtime/tpu/chip.def \
 runtime/tpu/isa.h runtime/tpu/isa.def
runtime/tpu/program.h:
runtime/tpu/chip.h:
runtime/tpu/chip.def:
runtime/tpu/isa.h:
runtime/tpu/isa.def:
