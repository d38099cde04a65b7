/* From the module's schedule to code: one kernel after another. Between kernels every value is in
 * HBM, where the memory plan puts it; a kernel brings what it reads to VMEM, computes there, and
 * takes the results back. */
#ifndef BACKEND_TPU_LOWER_H
#define BACKEND_TPU_LOWER_H

#include "backend/tpu/memory.h"
#include "backend/tpu/tpu.h"
#include "backend/tpu/value.h"
#include "runtime/tpu/program.h"

/* SMEM: descriptors of fixed kinds, scalars on their way, spilled registers. */
enum {
    SMEM_IN = 0,      /* a run from HBM to VMEM, flag 0 */
    SMEM_OUT = 16,    /* a run from VMEM to HBM, flag 1 */
    SMEM_ROW = 32,    /* rows of HBM that pass through VMEM, flag 2 */
    SMEM_SCALAR = 48, /* a word from HBM to SMEM_VALUE, flag 3 */
    SMEM_VALUE = 64,
    SMEM_RANDOM = 68, /* seed and counter of rng, low words first */
    SMEM_LOAD = 80,   /* runs whose flags kernels fill in too */
    SMEM_STORE = 96,
    SMEM_SLAB_A = 112, /* of large products */
    SMEM_SLAB_B = 128,
    SMEM_CHUNK_C = 144,
    SMEM_SPILL = 160,
};
enum { FLAG_IN, FLAG_OUT, FLAG_ROW, FLAG_SCALAR };
/* Rows before and after every array in VMEM that loads may touch. */
enum { VMEM_GUARD = 136 };

struct lower {
    struct arena *arena;
    struct hlo_module *module;
    const struct tpu_compile_options *options;
    const struct tpu_memory *memory;
    struct diag *diag;
    struct mir_code code;
    int *labels; /* bundles, by label; -1: not yet known */
    int nlabels, label_capacity;
    struct tpu_constant *constants;
    int nconstants, constant_capacity;
    int64_t hbm_end; /* bytes */
    struct tpu_source *sources;
    int nsources, source_capacity;
    struct tpu_line *lines;
    int nlines, line_capacity;
};

/* A kernel in the making. */
struct job {
    struct lower *lower;
    const struct hlo_instr *instr;
    struct arena *arena; /* freed with the job */
    struct kernel *k;
    struct values g;
    int64_t row;                          /* of VMEM: the first that is free */
    int32_t descriptors[SMEM_SPILL / 16]; /* word 0 of those that job_describe wrote */
    int waiting;                          /* DMAs under way on FLAG_IN */
};

void job_open(struct job *job, struct lower *lower, const struct hlo_instr *instr);
/* Allocates, schedules and appends the kernel. False with an error in diag. */
bool job_close(struct job *job);
/* Rows of VMEM with guards around them; -1 where there are not that many. */
int64_t job_rows(struct job *job, int64_t rows);
int64_t job_rows_left(const struct job *job);
/* The array of a leaf, in HBM. False where it has none. */
bool leaf_array(struct lower *lower, const struct hlo_instr *instr, int leaf, struct tarray *array);
/* An array of that shape in VMEM that belongs to the kernel alone. False where it does not fit. */
bool job_array(struct job *job, const struct shape *shape, struct tarray *array);
/* The same in HBM. False where the shape has no layout. */
bool job_hbm(struct job *job, const struct shape *shape, struct tarray *array);
/* An array in VMEM, or in HBM where it does not fit in VMEM. False where the shape has no layout.
 */
bool job_scratch(struct job *job, const struct shape *shape, struct tarray *array);
/* A constant of the kernel's own, in HBM; the literal is copied. False where it has no layout. */
bool job_constant(struct job *job, const struct literal *literal, struct tarray *array);
/* Starts bringing the array to VMEM where it fits there; `array` says where it is then. */
void job_bring(struct job *job, struct tarray *array);
/* Starts a DMA of `length` words, HBM to VMEM (`load`) or back, on a flag; where the predicate
 * holds (0: always). Addresses in words. */
void job_run(struct job *job, bool load, struct sx flag, struct sx source, struct sx target,
             struct sx length, treg predicate);
/* Writes a descriptor at an SMEM word that is a multiple of 16; then job_start starts it, on its
 * flag + `flag`, with a source and a target in words. */
void job_describe(struct job *job, int at, int flag, struct tpu_dma *dma);
void job_start(struct job *job, int at, struct sx flag, struct sx source, struct sx target,
               treg predicate);
/* Starts any DMA (flag and core are filled in); job_wait waits for it. */
void job_move(struct job *job, struct tpu_dma *dma);
void job_wait(struct job *job); /* for all that was started */
/* Brings the arrays that the instruction reads and binds them in job->g; waits. False where some
 * stay in HBM for want of room. */
bool job_stage(struct job *job, const struct hlo_instr *instr, int64_t rows_for_results);
/* Where a result is computed: in VMEM where it fits, else straight in HBM. */
void job_result(struct job *job, int leaf, struct tarray *array);
/* Starts copying an operand's array to a result of the same shape. */
void job_copy(struct job *job, const struct hlo_instr *operand, int leaf,
              const struct tarray *result);
/* Says that the kernel does not fit, unless the array is in VMEM. */
bool job_needs_vmem(struct job *job, const struct tarray *array);
/* Takes a result that was computed in VMEM to HBM, and waits. */
void job_take(struct job *job, int leaf, const struct tarray *array);

/* The image of a constant of the memory plan. */
void lower_constant(struct lower *lower, const struct hlo_instr *instr, int64_t address);

/* A new label, and its place: before the next kernel. */
int lower_label(struct lower *lower);
void lower_place(struct lower *lower, int label);

/* All code of a computation that runs by itself. False with errors in diag. */
bool lower_computation(struct lower *lower, const struct hlo_computation *computation);
/* Kernels of one kind each (lower_*.c). False with an error in diag. */
bool lower_map(struct lower *lower, const struct hlo_instr *instr);
/* *taken: it was one of these kernels. */
bool lower_stream(struct lower *lower, const struct hlo_instr *instr, bool *taken);
bool lower_block(struct lower *lower, const struct hlo_instr *instr, bool *taken);
bool lower_transpose(struct lower *lower, const struct hlo_instr *instr, bool *taken);
bool lower_rows(struct lower *lower, const struct hlo_instr *instr, bool *taken);
bool lower_move(struct lower *lower, const struct hlo_instr *instr, bool *taken);
bool lower_update(struct lower *lower, const struct hlo_instr *instr, bool *taken);
bool lower_while(struct lower *lower, const struct hlo_instr *instr);
bool lower_conditional(struct lower *lower, const struct hlo_instr *instr);
bool lower_scatter(struct lower *lower, const struct hlo_instr *instr);
bool lower_select_and_scatter(struct lower *lower, const struct hlo_instr *instr);
/* Of windows that do not overlap. */
bool lower_pool(struct lower *lower, const struct hlo_instr *instr, bool *taken);
/* A dot or a convolution, or a fusion of one with elementwise work. */
bool lower_product(struct lower *lower, const struct hlo_instr *instr);
bool lower_fused_product(struct lower *lower, const struct hlo_instr *instr, bool *taken);
bool lower_sort(struct lower *lower, const struct hlo_instr *instr);
bool lower_cholesky(struct lower *lower, const struct hlo_instr *instr);
bool lower_triangular_solve(struct lower *lower, const struct hlo_instr *instr);
bool lower_fft(struct lower *lower, const struct hlo_instr *instr);
/* rng and rng-get-and-update-state. */
bool lower_rng(struct lower *lower, const struct hlo_instr *instr);
bool lower_halt(struct lower *lower);

#endif
