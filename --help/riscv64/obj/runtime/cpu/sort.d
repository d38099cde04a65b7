/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/sort.o: runtime/cpu/sort.c \
 runtime/cpu/kernels.h
runtime/cpu/kernels.h:
