/tmp/rows/w3/--help/aarch64/obj/runtime/cpu/fft.o: runtime/cpu/fft.c \
 runtime/cpu/fft_cells.h runtime/cpu/kernels.h
runtime/cpu/fft_cells.h:
runtime/cpu/kernels.h:
