/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/linalg.o: \
 runtime/cpu/linalg.c runtime/cpu/kernels.h runtime/cpu/number.h \
 runtime/cpu/matrix.h runtime/cpu/linalg_kernels.h
runtime/cpu/kernels.h:
runtime/cpu/number.h:
runtime/cpu/matrix.h:
runtime/cpu/linalg_kernels.h:
