/* The emulator's state, and the seams between its files. */
#ifndef RUNTIME_TPU_MACHINE_H
#define RUNTIME_TPU_MACHINE_H

#include "runtime/tpu/internal.h"

/* ---- vector arithmetic (vector.c, convert.c, eup.c) ---- */

typedef uint32_t tpu_vreg[TPU_REG_WORDS] __attribute__((aligned(64)));
/* d may be a or b. Without b: b is a. */
typedef void tpu_vector_fn(uint32_t *d, const uint32_t *a, const uint32_t *b);
struct tpu_vector_fns {
    tpu_vector_fn *vector, *scalar; /* b is a register; b is one word for all */
};
/* What a vector ALU or EUP instruction computes, lane by lane; NULL members for those that are no
 * function of equal lanes (moves, sublane and mask instructions of their own). */
struct tpu_vector_fns tpu_vector_fns(enum tpu_op op);
struct tpu_vector_fns tpu_convert_fns(enum tpu_op op);
tpu_vector_fn *tpu_eup_fn(enum tpu_op op);
/* What a cross-lane instruction computes; b: second register or NULL. */
void tpu_xlu_compute(enum tpu_op op, uint32_t *d, const uint32_t *a, const uint32_t *b,
                     int32_t amount);
void tpu_sublane_compute(enum tpu_op op, uint32_t *d, const uint32_t *a, uint32_t b);
/* d = old where the mask is off, value where it is on; bitwise. */
void tpu_blend(uint32_t *d, const uint32_t *old, const uint32_t *value, const uint32_t *mask);
void tpu_fill(uint32_t *d, uint32_t value);
uint32_t tpu_bf16_bits(uint32_t f32); /* nearest even; NaN becomes quiet with its sign */
uint32_t tpu_scalar_compute(enum tpu_op op, uint32_t a, uint32_t b);

/* Subnormals count as zero while a program runs; the host's mode comes back afterwards. */
unsigned tpu_float_mode_enter(void);
void tpu_float_mode_leave(unsigned mode);

/* ---- predecoded code (decode.c) ---- */

enum tpu_run_kind {
    TPU_RUN_STORE,
    TPU_RUN_PUSH,
    TPU_RUN_MISC,
    TPU_RUN_VECTOR,
    TPU_RUN_LOAD,
    TPU_RUN_POP,
    TPU_RUN_SCALAR,
};
enum tpu_source_kind { TPU_FROM_CONST, TPU_FROM_SREG, TPU_FROM_VREG };

struct tpu_step { /* one instruction, ready to run */
    struct tpu_instr in;
    uint8_t slot, run;
    uint8_t b_kind; /* enum tpu_source_kind of operand b, or of AMOUNT */
    uint8_t b_reg;
    uint32_t b_value;             /* also: branch target */
    uint8_t base_reg, stride_reg; /* sregs of an address, or 255 */
    int32_t offset, stride;
    bool late; /* writes after all others have read */
    tpu_vector_fn *fn;
    const struct tpu_op_info *info;
    struct tpu_uses uses;
};

struct tpu_code {
    uint32_t first; /* of the bundle's steps, in the order in which they run */
    uint8_t count;
    bool plain;    /* no predicates: the lists below are the whole bundle's */
    bool may_wait; /* some step may stall */
    bool has_late;
    uint8_t reads, writes;
    uint8_t read[40];
    uint8_t write[TPU_SLOTS], latency[TPU_SLOTS];
    uint32_t source; /* HLO instruction, or UINT32_MAX */
};

struct tpu_executable {
    struct tpu_program *program;
    struct tpu_code *code; /* one a bundle */
    struct tpu_step *steps;
};
int tpu_predecode(struct tpu_executable *executable, struct tpu_error *error);

/* ---- state ---- */

struct tpu_fifo {               /* results in order */
    int first, count, capacity; /* capacity + room for what one push adds: slots */
    int slots;
    uint64_t *ready;
    tpu_vreg *data; /* NULL: words only */
    uint32_t *word;
    uint64_t free; /* when the unit takes the next push */
};
/* Position of the new entry; the caller has checked that there is room. */
int tpu_fifo_add(struct tpu_fifo *fifo, uint64_t ready);
int tpu_fifo_take(struct tpu_fifo *fifo);

struct tpu_mxu {
    struct tpu_fifo out;
    float (*weights)[TPU_MXU_DIM][TPU_MXU_DIM]; /* [2][k][n] */
    int rows[2];                                /* pushed so far */
    bool transposed[2], started[2], nonfinite[2];
    uint64_t weights_ready[2], used_until[2], weights_free;
};

/* A pushed register as rows of floats, masked: 8 or 16 of them. */
int tpu_mxu_rows(enum tpu_op op, const uint32_t *v, const uint32_t *mask,
                 float (*rows)[TPU_MXU_DIM]);
bool tpu_mxu_nonfinite(const float (*rows)[TPU_MXU_DIM], int count);
/* A product of `rows` rows with weights: out[r][n] = sum over k of data[r][k] * weights[k][n]. */
void tpu_mxu_product(int rows, const float (*data)[TPU_MXU_DIM],
                     const float (*weights)[TPU_MXU_DIM], float (*out)[TPU_MXU_DIM]);

/* A set of words in one memory: runs of `length`, repeated with strides that are not negative. */
struct tpu_region {
    uint8_t space;
    uint64_t first, end; /* of all of it */
    uint64_t length, count[TPU_DMA_LEVELS], stride[TPU_DMA_LEVELS];
};
struct tpu_transfer {                /* a DMA or signal that nobody has waited for to the end */
    struct tpu_region reads, writes; /* of this core's memories; length 0: none */
    uint64_t done;                   /* cycle */
    uint32_t amount;                 /* by which its flag grows */
    uint8_t flag;
    bool counted; /* the flag has grown */
};
struct tpu_flag {
    uint64_t value;           /* now */
    uint64_t started, waited; /* in all */
};

enum { TPU_TRACE_DMAS = 64 }; /* tracks for DMAs */

struct tpu_trace;
struct tpu_machine;

struct tpu_core {
    struct tpu_machine *machine;
    int number;
    uint32_t s[TPU_SREGS];
    bool p[TPU_PREDS];
    tpu_vreg *v, *m, *late; /* late[slot] holds results of late writers */
    uint32_t *scratch;
    uint64_t ready[TPU_REGS]; /* cycle from which a register's last result may be read */
    uint32_t *smem, *vmem;
    uint8_t *hbm;
    uint32_t *vmem_readers, *vmem_writers; /* transfers under way, one count a row */
    uint32_t *smem_readers, *smem_writers; /* one a word */
    struct tpu_mxu mxu[TPU_MAX_UNITS];
    struct tpu_fifo eup, xlu, v2s;
    int transpose_rows; /* pushed so far, in 8 */
    tpu_vreg *transpose;
    struct tpu_transfer *transfers;
    int transfer_count, transfer_capacity;
    struct tpu_flag flags[TPU_FLAGS];
    uint64_t dma_free;  /* when the next DMA can be issued */
    uint64_t hbm_free;  /* when HBM is idle, in cycles * hbm_gb_per_s * 1000 */
    uint64_t chip_free; /* when the on-chip DMA path is idle, in cycles */
    uint64_t link_free;
    uint32_t *overlays; /* least recently used first */
    int overlay_count;
    uint32_t overlay_first, overlay_end; /* bundles of the overlay that runs */
    uint64_t now;
    uint32_t pc;
    int branch_in; /* bundles until the branch under way takes effect; 0: none */
    uint32_t branch_to;
    bool halted, blocked;
    struct tpu_stats stats;
    uint32_t span_source; /* for the trace: the HLO instruction that runs, and since when */
    uint64_t span_start;
    uint64_t mxu_span_start[TPU_MAX_UNITS], mxu_span_end[TPU_MAX_UNITS];
    uint32_t mxu_span_source[TPU_MAX_UNITS];
    uint64_t dma_span_end[TPU_TRACE_DMAS];
    const struct tpu_step *step; /* for messages */
};

struct tpu_machine {
    const struct tpu_executable *executable;
    const struct tpu_chip *chip;
    const struct tpu_run_options *options;
    uint64_t vmem_rows, smem_words, hbm_words; /* of the program's plan */
    struct tpu_core *cores;
    int core_count;
    struct tpu_trace *trace; /* NULL: none */
    struct tpu_error *error;
    bool failed;
};

/* Stops the machine: "bundle N (INSTRUCTION, FILE:LINE), cycle C, SLOT MNEMONIC: reason". Always
 * false. */
bool tpu_stop(struct tpu_core *core, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs bundles until the core halts, waits for another core, or the cycle `until` has passed. */
bool tpu_core_run(struct tpu_core *core, uint64_t until);

/* dma.c. The cycle at which a DMA can start, or a wait of `amount` on the flag is over; UINT64_MAX
 * where other cores decide. False: nothing can ever end it. */
uint64_t tpu_dma_accept(struct tpu_core *core);
bool tpu_flag_time(struct tpu_core *core, int flag, int32_t amount, uint64_t *time);
bool tpu_dma_start(struct tpu_core *core, uint32_t descriptor, uint32_t add_source,
                   uint32_t add_target);
void tpu_flag_take(struct tpu_core *core, int flag, uint32_t amount);
bool tpu_flag_signal(struct tpu_core *core, int flag, uint32_t to, int32_t amount);
/* HBM moves `bytes` from now on, in `least` cycles or more; the cycle at which it is done. */
uint64_t tpu_hbm_use(struct tpu_core *core, uint64_t bytes, uint64_t least);

/* units.c: matrix, EUP, XLU and V2S pushes and pops. *_time: the cycle at which the step can issue.
 */
bool tpu_push_time(struct tpu_core *core, const struct tpu_step *step, int pops, uint64_t *time);
bool tpu_pop_time(struct tpu_core *core, const struct tpu_step *step, uint64_t *time);
bool tpu_push(struct tpu_core *core, const struct tpu_step *step);
bool tpu_push_misc(struct tpu_core *core, const struct tpu_step *step, uint32_t amount);
void tpu_pop(struct tpu_core *core, const struct tpu_step *step, uint32_t *out);
struct tpu_fifo *tpu_unit_fifo(struct tpu_core *core, const struct tpu_step *step);

/* trace.c */
struct tpu_trace *tpu_trace_new(FILE *out, const struct tpu_machine *machine);
void tpu_trace_source(struct tpu_core *core, uint32_t source); /* UINT32_MAX: none follows */
void tpu_trace_mxu(struct tpu_core *core, int unit, uint64_t start, uint64_t end);
void tpu_trace_dma(struct tpu_core *core, const struct tpu_dma *dma, uint64_t done, uint64_t words);
void tpu_trace_stall(struct tpu_core *core, enum tpu_stall stall, uint64_t start, uint64_t end);
/* Ends the file; -1 where it could not be written. */
int tpu_trace_free(struct tpu_trace *trace);

#endif
