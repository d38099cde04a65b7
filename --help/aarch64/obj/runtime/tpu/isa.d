/tmp/rows/w3/--help/aarch64/obj/runtime/tpu/isa.o: runtime/tpu/isa.c \
 runtime/tpu/isa.h runtime/tpu/isa.def
runtime/tpu/isa.h:
runtime/tpu/isa.def:
