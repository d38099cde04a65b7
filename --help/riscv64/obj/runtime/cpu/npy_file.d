/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/npy_file.o: \
 runtime/cpu/npy_file.c runtime/cpu/npy_file.h
runtime/cpu/npy_file.h:
