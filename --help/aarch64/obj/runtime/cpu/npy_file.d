/tmp/rows/w3/--help/aarch64/obj/runtime/cpu/npy_file.o: \
 runtime/cpu/npy_file.c runtime/cpu/npy_file.h
runtime/cpu/npy_file.h:
