/* Machine code of one kernel before it is packed: instructions of the machine's table (isa.def) on
 * virtual registers, in blocks. A kernel is what is allocated and scheduled at once; no register
 * lives from one kernel to the next. Registers may be written several times. */
#ifndef BACKEND_TPU_MIR_H
#define BACKEND_TPU_MIR_H

#include "ir/arena.h"
#include "runtime/tpu/isa.h"

enum mir_class { MIR_NONE, MIR_S, MIR_V, MIR_M, MIR_P, MIR_CLASSES };

/* A virtual register; 0: none (the always-on mask or predicate, no operand). After mir_allocate,
 * the physical register's number plus one. */
typedef int treg;

enum mir_b { MIR_B_NONE, MIR_B_REG, MIR_B_SCALAR, MIR_B_IMM };
enum mir_stride { MIR_STRIDE_1, MIR_STRIDE_0, MIR_STRIDE_IMM, MIR_STRIDE_REG };

struct mop {
    uint8_t op;          /* enum tpu_op */
    uint8_t bkind;       /* enum mir_b; MIR_B_SCALAR: a scalar broadcast into a vector slot */
    uint8_t stride_kind; /* enum mir_stride: loads and stores */
    bool unless;         /* the predicate is negated */
    uint8_t unit, flags; /* matrix units */
    treg d, a, b;
    treg mask, pred;
    treg base, stride_reg; /* loads, stores: scalars; base 0: address 0 */
    treg amount;           /* AMOUNT given by a scalar; else imm */
    int32_t imm;           /* b where MIR_B_IMM; AMOUNT */
    int32_t offset;        /* loads, stores: rows */
    int32_t stride;        /* MIR_STRIDE_IMM */
    int literal;           /* a flag (F), a count (N) */
    int target;            /* branches: a block; or -1 - label, a place in the program */
    int tag;   /* memory that a load or store touches; others with other tags are disjoint, and
                  tag 0 may be any */
    int cycle; /* in a block whose schedule is settled */
};

struct mblock {
    struct mop *ops;
    int count, capacity;
    int depth;   /* of loops around it */
    int address; /* first bundle, relative to the kernel, once scheduled */
    /* A loop that is this block alone and runs `trips` times (0: it is none): it ends with the
     * counter's increment, which starts from 0, a comparison and a branch. */
    int64_t trips;
    treg counter;
    /* Every op has its cycle, of `length`, and what is under way may arrive in the next block of
     * the same group (> 0; the blocks of a group follow each other). */
    bool settled;
    int length, group;
};

/* Units behind FIFOs: the matrix units, then the others. */
enum {
    MIR_EUP = TPU_MAX_UNITS,
    MIR_XLU,
    MIR_V2S,
    MIR_UNITS,
};
/* From a push to its result, and results that may be under way. */
struct mir_unit {
    int latency, fifo;
};

struct mir {
    struct arena *arena;
    uint8_t *classes; /* by virtual register: enum mir_class */
    int nregs, reg_capacity;
    struct mblock *blocks; /* in the order in which they lie in memory */
    int nblocks, block_capacity;
    int depth;
    /* Results that a block may have pushed and not popped: of a matrix unit, of the other units. */
    int mxu_depth, unit_depth;
    struct mir_unit units[MIR_UNITS];
    int transpose_latency; /* from the last push of a transpose to its first result */
    /* Where spilled registers go: rows of VMEM and words of SMEM, and how many there are. */
    int64_t spill_row, spill_word;
    int spill_rows, spill_words;
    int spilled; /* registers that were */
};

struct mir *mir_new(struct arena *arena);
treg mir_reg(struct mir *mir, enum mir_class class);
/* Appends to the last block. The address is good until the next call. */
struct mop *mir_add(struct mir *mir, const struct mop *op);
/* Starts a new block and returns its number. */
int mir_block(struct mir *mir);

/* What an instruction reads and writes; `kinds` of registers as virtual ones. At most
 * MIR_MOST_READS reads. */
enum { MIR_MOST_READS = 10 };
struct mir_ref {
    treg *reg;
    enum mir_class class;
};
/* References into `op`; *write is NULL where it writes none. A dest that is read too (masked or
 * predicated writes, read-modify-write) is in both. */
int mir_refs(struct mop *op, struct mir_ref reads[MIR_MOST_READS], struct mir_ref *write);

/* The unit (MIR_EUP, ..., a matrix unit's number) that the instruction pushes to or pops from, -1:
 * none; and how many results a push makes. */
int mir_unit_of(const struct mop *op, bool *push, int *results);
/* Slots of a class in a bundle. */
extern const int mir_slots[TPU_CLASSES];
/* Registers of a class that values can have, and those of them that are set aside where some are
 * in memory. */
extern const int mir_registers[MIR_CLASSES], mir_spare[MIR_CLASSES];
/* Cycles from a push to its result `number`, from 0. */
int mir_result_latency(const struct mir *mir, const struct mop *op, int number);
/* Results of each unit under way where blocks begin, MIR_UNITS a block; -1: not known. */
int *mir_unit_levels(const struct mir *mir, struct arena *arena);
/* Ends a block: a branch, or the program's end. */
bool mir_is_branch(const struct mop *op);
/* Where a load or store finds its address: SMEM or VMEM. */
bool mir_is_smem(const struct mop *op);
/* Blocks that may follow: the next one, and where branches go; their number. */
int mir_successors(const struct mir *mir, int block, int next[4]);

/* Which virtual registers hold something that is still read, where a block begins. */
struct mir_liveness {
    size_t words; /* of 64 registers, a block */
    uint64_t *in; /* by block */
};
void mir_liveness(const struct mir *mir, struct arena *arena, struct mir_liveness *live);
bool mir_live_in(const struct mir_liveness *live, int block, treg reg);

/* Software pipelining: loops of one block become a settled prologue, kernel and epilogue where that
 * takes fewer cycles; their group is the loop's block + 1. Before registers are allocated. By
 * block: `refused`, the loop stays as it is; `tight`, a set of classes of which it spares the
 * registers that spilling needs. */
void mir_pipeline(struct mir *mir, const bool *refused, const unsigned *tight);

/* Leaves out what only computes results that nobody reads (mir_dead.c). */
void mir_remove_dead(struct mir *mir);
/* Gives every virtual register a physical one, or memory. NULL, or why that cannot be. *group: 0,
 * or a settled group that needs more registers than there are, of *classes (a set); no code has
 * changed then. */
const char *mir_allocate(struct mir *mir, int *group, unsigned *classes);

/* A branch whose target is still to be filled in: pair 0 of a bundle. */
struct mir_fixup {
    int bundle;
    int target; /* as mop.target: a bundle of the kernel where a block was named */
};

struct mir_code {
    struct arena *arena;
    struct tpu_bundle *bundles;
    int count, capacity;
    struct mir_fixup *fixups;
    int nfixups, fixup_capacity;
};

/* Schedules and packs allocated code, appending to `code`; sets the blocks' addresses. Fixups name
 * bundles of `code` for blocks, and labels. NULL, or what is wrong with it. *group: 0, or a settled
 * group that cannot be packed; nothing is appended then. */
const char *mir_schedule(struct mir *mir, struct mir_code *code, int *group);

/* All of it: pipelined loops, registers, bundles. */
const char *mir_finish(struct mir *mir, struct mir_code *code);

#endif
