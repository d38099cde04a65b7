/tmp/rows/w3/--help/riscv64/obj/runtime/tpu/isa.o: runtime/tpu/isa.c \
 runtime/tpu/isa.h runtime/tpu/isa.def
runtime/tpu/isa.h:
runtime/tpu/isa.def:
