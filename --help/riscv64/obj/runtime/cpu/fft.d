/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/fft.o: runtime/cpu/fft.c \
 runtime/cpu/fft_cells.h runtime/cpu/kernels.h
runtime/cpu/fft_cells.h:
runtime/cpu/kernels.h:
