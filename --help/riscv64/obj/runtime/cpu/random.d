/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/random.o: \
 runtime/cpu/random.c runtime/cpu/number.h runtime/cpu/kernels.h
runtime/cpu/number.h:
runtime/cpu/kernels.h:
