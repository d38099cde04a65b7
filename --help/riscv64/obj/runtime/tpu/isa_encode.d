/tmp/rows/w3/--help/riscv64/obj/runtime/tpu/isa_encode.o: \
 runtime/tpu/isa_encode.c runtime/tpu/isa.h runtime/tpu/isa.def
runtime/tpu/isa.h:
runtime/tpu/isa.def:
