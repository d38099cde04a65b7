/tmp/rows/w3/--help/riscv64/obj/runtime/tpu/chip.o: runtime/tpu/chip.c \
 runtime/tpu/chip.h runtime/tpu/chip.def
runtime/tpu/chip.h:
runtime/tpu/chip.def:
