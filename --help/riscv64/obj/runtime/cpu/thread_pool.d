/tmp/rows/w3/--help/riscv64/obj/runtime/cpu/thread_pool.o: \
 runtime/cpu/thread_pool.c runtime/cpu/thread_pool.h
runtime/cpu/thread_pool.h:
