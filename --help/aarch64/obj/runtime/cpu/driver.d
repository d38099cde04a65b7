/tmp/rows/w3/--help/aarch64/obj/runtime/cpu/driver.o: \
 runtime/cpu/driver.c runtime/cpu/driver.h runtime/cpu/custom_call.h \
 runtime/cpu/npy_file.h
runtime/cpu/driver.h:
runtime/cpu/custom_call.h:
runtime/cpu/npy_file.h:
