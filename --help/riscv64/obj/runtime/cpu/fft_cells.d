/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/fft_cells.o: \
 runtime/cpu/fft_cells.c runtime/cpu/fft_cells.h
runtime/cpu/fft_cells.h:
