/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/parallel_kernel.o: \
 runtime/cpu/parallel_kernel.c runtime/cpu/parallel_kernel.h \
 runtime/cpu/thread_pool.h
runtime/cpu/parallel_kernel.h:
runtime/cpu/thread_pool.h:
