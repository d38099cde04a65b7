/* Instructions that become calls of the runtime library (runtime/cpu/kernels.h). */
#ifndef BACKEND_CPU_LIBRARY_H
#define BACKEND_CPU_LIBRARY_H

#include "backend/cpu/lowering.h"
#include "runtime/cpu/kernels.h"

struct cpu_library_call {
    const char *name;   /* of the function; takes results, then operands, as arrays */
    int64_t units;      /* independent parts, at least 1 */
    int64_t scratch;    /* bytes for one thread */
    int count;          /* numbers in config */
    int64_t config[80]; /* see the function */
    int phases;         /* steps; 0: one. units, scratch and config are of this one: */
    int phase;
    int64_t tables; /* bytes that follow the numbers, at the next multiple of 64; written by fill */
    void (*fill)(const int64_t *config, void *tables, void *scratch);
    int64_t fill_scratch;
};

/* The call for a phase of an instruction; false where there is none. */
bool cpu_library_call(const struct hlo_instr *instr, int phase, struct cpu_library_call *call);
/* The same as a lowering. */
bool library_match(const struct hlo_instr *instr);
int library_phases(const struct hlo_instr *instr);
void library_plan(const struct hlo_instr *instr, int phase, int64_t *units, int64_t *scratch);
void library_emit(struct cpu_gen *g, struct cpu_kernel *k);

/* The builders of calls, one an operation: false where the library does not do this one. */
typedef bool cpu_library_builder(const struct hlo_instr *instr, struct cpu_library_call *call);
cpu_library_builder cpu_fft_call, cpu_cholesky_call, cpu_triangular_solve_call, cpu_random_call,
    cpu_lapack_call, cpu_sort_call, cpu_topk_call;

/* Functions that sort and topk hand to the runtime: NULL in place of what there is none of. */
LLVMValueRef gen_sort_comparator(struct cpu_gen *g, const struct hlo_instr *instr);
LLVMValueRef gen_sort_keys(struct cpu_gen *g, const struct hlo_instr *instr);
/* Bits of the keys of a sort, or 0 where its comparator has none. */
int cpu_sort_key_bits(const struct hlo_instr *instr);

#endif
