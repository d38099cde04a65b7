/* The TPU machine's instruction set: one table (isa.def) and what is derived from it. Shared by the
 * backend, which packs bundles, and the runtime, which executes them; depends on nothing else.
 *
 * A bundle is 322 bits: nine slots, three ports that carry scalar registers to the vector side, and
 * six 16-bit immediates. Slots and operand sources are published facts about TPU v2 and v3 (Jouppi
 * et al., CACM 63(7), 2020; Norrie et al., IEEE Micro 41(2), 2021); every field is our choice.
 *
 * Rules that whoever packs bundles must keep (the emulator stops where one is broken):
 *   1. All slots of a bundle read registers, predicates and masks as they are before the bundle. A
 *      register may be read and written in one bundle: the reader gets the old value.
 *   2. A result may be read `latency` cycles after the issue of the bundle that wrote it, no
 * sooner. Until then no other instruction may write that register either. Both hold across
 * branches. Stalls only add cycles, so distances in bundles are enough. Two writers of one register
 * in one bundle are an error.
 *   3. A write through a mask other than m0 (MERGE) reads its old dest: rule 2 holds for that too.
 *   4. An instruction whose predicate is off does nothing at all: no read, write, push or pop.
 *   5. Branches (BR, CALL, JR, BDNZ) take effect after TPU_BRANCH_DELAY further bundles, which
 *      always execute; none of them may hold a branch or HALT. CALL returns to the bundle after
 *      them.
 *   6. VMEM and SMEM: a store is seen from the next bundle on. A load and a store of one VMEM row
 *      in one bundle are an error, and so are two SMEM stores to one word in one bundle.
 *   7. FIFOs (a matrix unit, EUP, XLU, V2S) deliver in the order of pushes. Pops act before pushes
 *      of the same bundle. A pop waits (stall) for the oldest result; a pop with none under way is
 *      an error; a push that finds its FIFO full is an error; a push to a busy unit stalls.
 *   8. Matrix units: the weights of a set are 128 rows, row k for the k-th lane of the data. A
 *      weight push with TPU_FLAG_START begins row 0; 128 rows must follow before a data push uses
 *      the set, which then waits for them. A weight push to a set that data still streams through
 *      waits for that, so two sets in turn need no drain. TPU_FLAG_TRANSPOSE: pushed row k is
 *      column k of the weights; one tile is all transposed or not at all.
 *      A result's lane n is the sum over k = 0..127 in that order of data[k] * weights[k][n] in
 *      f32, each step rounded once (fused). TPU_FLAG_CROSS: what is not finite counts as 0.
 *   9. DMA: the 16-word descriptor (struct tpu_dma) is copied from SMEM at issue. Its flag grows by
 *      one when it is done. DMAs have no order among themselves. What one reads must not be
 *      written, and what it writes must not be touched, by the core or by another DMA, until a WAIT
 *      has brought the sum of all that was waited for on its flag to the number of DMAs started
 *      on it.
 *  10. Before HALT every DMA must have been waited for and every FIFO be empty. */
#ifndef RUNTIME_TPU_ISA_H
#define RUNTIME_TPU_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TPU_SREGS = 32,
    TPU_VREGS = 32,
    TPU_MASKS = 8, /* m0 is constant: all on */
    TPU_PREDS = 4, /* p0 is constant: true */
    TPU_FLAGS = 32,
    TPU_SUBLANES = 8,
    TPU_LANES = 128,
    TPU_REG_WORDS = 1024, /* of a vector register */
    TPU_ROW_WORDS = 128,  /* of a VMEM row */
    TPU_ROW_BYTES = 512,
    TPU_IMMS = 6,
    TPU_PORTS = 3,
    TPU_BUNDLE_BITS = 322,
    TPU_BUNDLE_BYTES = 41, /* as stored, little-endian; the last 6 bits 0 */
    TPU_BRANCH_DELAY = 2,  /* bundles after a branch that still execute */
    TPU_MXU_DIM = 128,
    TPU_MAX_UNITS = 8,
    TPU_TRANSPOSE_MAX = 16, /* pushes of one transpose */
};

enum tpu_slot { /* positions in a bundle */
                TPU_S0,
                TPU_S1,
                TPU_V0,
                TPU_V1,
                TPU_LD,
                TPU_ST,
                TPU_PUSH,
                TPU_POP,
                TPU_MISC,
                TPU_SLOTS
};

enum tpu_slot_class {
    TPU_CLASS_SCALAR,
    TPU_CLASS_VECTOR,
    TPU_CLASS_LOAD,
    TPU_CLASS_STORE,
    TPU_CLASS_PUSH,
    TPU_CLASS_POP,
    TPU_CLASS_MISC,
    TPU_CLASSES
};

enum tpu_op {
    TPU_EMPTY, /* an empty slot */
#define X(name, mnemonic, slot, code, dest, a, b, mask, imm, latency, effect, text) TPU_##name,
#include "runtime/tpu/isa.def"
#undef X
    TPU_OPS
};

/* What the table's columns say; see isa.def. */
enum tpu_kind {
    TPU_KIND__,
    TPU_KIND_WS,
    TPU_KIND_WP,
    TPU_KIND_WV,
    TPU_KIND_WM,
    TPU_KIND_RS,
    TPU_KIND_RV,
    TPU_KIND_RWS,
    TPU_KIND_S,
    TPU_KIND_P,
    TPU_KIND_V,
    TPU_KIND_M,
    TPU_KIND_O,
    TPU_KIND_F,
    TPU_KIND_N,
};
enum tpu_mask_use {
    TPU_MASK__,
    TPU_MASK_MERGE,
    TPU_MASK_SEL,
    TPU_MASK_AND,
    TPU_MASK_ZERO,
    TPU_MASK_OFF,
};
enum tpu_imm_use { TPU_IMM__, TPU_IMM_AMOUNT, TPU_IMM_TARGET };

/* Instructions with the same effect other than NONE keep their order, except that reads of one
 * memory may pass each other. */
enum tpu_effect {
    TPU_EFFECT_NONE,
    TPU_EFFECT_SMEM_READ,
    TPU_EFFECT_SMEM_WRITE,
    TPU_EFFECT_VMEM_READ,
    TPU_EFFECT_VMEM_WRITE,
    TPU_EFFECT_MXU_PUSH,
    TPU_EFFECT_MXU_WEIGHT,
    TPU_EFFECT_MXU_POP,
    TPU_EFFECT_EUP_PUSH,
    TPU_EFFECT_EUP_POP,
    TPU_EFFECT_XLU_PUSH,
    TPU_EFFECT_XLU_POP,
    TPU_EFFECT_V2S_PUSH,
    TPU_EFFECT_V2S_POP,
    TPU_EFFECT_DMA,  /* reads its descriptor in SMEM too */
    TPU_EFFECT_SYNC, /* orders memory: nothing that it guards may move across it */
    TPU_EFFECT_CONTROL,
};

struct tpu_op_info {
    const char *name;
    enum tpu_slot_class slot;
    uint8_t code;
    enum tpu_kind dest, a, b;
    enum tpu_mask_use mask;
    enum tpu_imm_use imm;
    uint8_t latency;
    enum tpu_effect effect;
    const char *text; /* what it computes */
};

/* `op` may be TPU_EMPTY: a row of no operands, with name "". */
const struct tpu_op_info *tpu_op_info(enum tpu_op op);
/* TPU_EMPTY where there is no such mnemonic. */
enum tpu_op tpu_op_from_name(const char *name, size_t length);
/* The instruction with this number in the slot class, or TPU_EMPTY. */
enum tpu_op tpu_op_from_code(enum tpu_slot_class slot, unsigned code);
enum tpu_slot_class tpu_slot_class(enum tpu_slot slot);
const char *tpu_slot_name(enum tpu_slot slot); /* "s0", "s1", "v0", "v1", "ld", "st", ... */

/* Predicate field: never (an empty slot), p1-p3, always, not p1-p3. */
enum { TPU_NEVER = 0, TPU_IF_P1 = 1, TPU_ALWAYS = 4, TPU_UNLESS_P1 = 5 };

/* Operand codes (b of scalar and vector ALU slots): registers are codes 0-31. */
enum {
    TPU_OPERAND_IMM = 32,   /* + i: immediate i, sign-extended */
    TPU_OPERAND_HIGH = 38,  /* + i: immediate i << 16 */
    TPU_OPERAND_PAIR = 44,  /* + i: immediates 2i (low half) and 2i + 1 (high half) */
    TPU_OPERAND_PORT = 47,  /* + i: the scalar register of port i */
    TPU_OPERAND_CONST = 50, /* + i: tpu_constants[i] */
    TPU_CONSTS = 14,
};
extern const uint32_t tpu_constants[TPU_CONSTS];
/* The operand code of a constant, or -1. */
int tpu_constant_code(uint32_t value);

/* Base of loads and stores: 0, or the scalar in port base - 1. Offset: immediate i sign-extended,
 * nothing, or pair 0. Stride: 1, 0 (loads only: one row in all sublanes), immediate 5
 * sign-extended, or the scalar in port 2. Rows are counted in 512 bytes, sums wrap to 32 bits; a
 * stride of 0 that a store reads is an error. */
enum { TPU_BASE_ZERO = 0, TPU_BASE_PORT = 1 };
enum { TPU_OFFSET_IMM = 0, TPU_OFFSET_ZERO = 6, TPU_OFFSET_PAIR = 7 };
enum { TPU_STRIDE_1, TPU_STRIDE_0, TPU_STRIDE_IMM5, TPU_STRIDE_PORT2 };
/* AMOUNT: immediate i sign-extended, or the scalar in port 1 or 2. TARGET: immediate i
 * zero-extended, or pair 0 or 1: the absolute number of a bundle. */
enum { TPU_AMOUNT_IMM = 0, TPU_AMOUNT_PORT1 = 6, TPU_AMOUNT_PORT2 = 7 };
enum { TPU_TARGET_IMM = 0, TPU_TARGET_PAIR0 = 6, TPU_TARGET_PAIR1 = 7 };
/* Flags of the push slot. Bit 0: which of two weight sets. */
enum {
    TPU_FLAG_SET = 1,
    TPU_FLAG_CROSS = 2,     /* data pushes */
    TPU_FLAG_START = 2,     /* weight pushes */
    TPU_FLAG_TRANSPOSE = 4, /* weight pushes */
};

/* Fields that the instruction does not use are 0. */
struct tpu_instr {
    uint8_t op;   /* enum tpu_op */
    uint8_t pred; /* TPU_NEVER exactly where op is TPU_EMPTY */
    uint8_t dest, a, b, mask;
    uint8_t imm;                  /* MISC: how AMOUNT or TARGET is given */
    uint8_t base, offset, stride; /* LOAD, STORE */
    uint8_t unit, flags;          /* PUSH, POP (matrix units) */
};

struct tpu_bundle {
    struct tpu_instr slot[TPU_SLOTS];
    uint8_t port[TPU_PORTS]; /* scalar registers; 0 where no instruction uses the port */
    uint16_t imm[TPU_IMMS];  /* 0 where no instruction uses it */
};

/* Registers as one numbering, for dependences. m0 and p0 are no registers. */
enum {
    TPU_REG_S = 0,
    TPU_REG_V = TPU_REG_S + TPU_SREGS,
    TPU_REG_M = TPU_REG_V + TPU_VREGS,
    TPU_REG_P = TPU_REG_M + TPU_MASKS,
    TPU_REGS = TPU_REG_P + TPU_PREDS,
};
enum { TPU_MAX_READS = 10 };
struct tpu_uses {
    int reads; /* count; a register may occur twice */
    uint8_t read[TPU_MAX_READS];
    int write;     /* register, or -1 */
    int latency;   /* of the write */
    uint8_t imms;  /* bit i: immediate i is used */
    uint8_t ports; /* bit i: port i is used */
};
/* What one slot of a valid bundle reads and writes, its predicate included. */
void tpu_slot_uses(const struct tpu_bundle *bundle, enum tpu_slot slot, struct tpu_uses *uses);

/* Where a branch with a TARGET goes. */
uint32_t tpu_branch_target(const struct tpu_bundle *bundle, const struct tpu_instr *instr);
/* Both halves of a pair of immediates as one number. */
uint32_t tpu_bundle_pair(const struct tpu_bundle *bundle, int pair);

/* Why the bundle is not valid, a static string, and in *slot where; NULL where it is. */
const char *tpu_bundle_check(const struct tpu_bundle *bundle, enum tpu_slot *slot);

/* The bundle must be valid. */
void tpu_encode(const struct tpu_bundle *bundle, uint8_t bytes[TPU_BUNDLE_BYTES]);
/* NULL, or why the bytes are no valid bundle (a static string); decode(encode(b)) equals b, and
 * encode(decode(bytes)) equals the bytes. */
const char *tpu_decode(const uint8_t bytes[TPU_BUNDLE_BYTES], struct tpu_bundle *bundle);

/* One field of a bundle, for documents: "v0 opcode", first bit, width. */
struct tpu_field {
    const char *slot, *name;
    int bit, width;
};
int tpu_field_count(void);
struct tpu_field tpu_field(int index); /* in order of bits */

/* ---- DMA descriptors: 16 words in SMEM ---- */

enum tpu_space { TPU_HBM, TPU_VMEM, TPU_SMEM, TPU_SPACES };
enum { TPU_DMA_WORDS = 16, TPU_DMA_LEVELS = 3 };
/* Word 0: bits 0-1 source space, 2-3 destination space, 4-8 flag, 16-23 core whose memory is the
 * destination, and whose flag grows too (TPU_DMA_LOCAL: this core only); other bits 0. Words 1, 2:
 * addresses; word 3: length of a run; words 4 + 3i ...: count, source stride, destination stride of
 * level i (a count of 0 is an error; unused levels have count 1); words 13-15: 0. All in 4-byte
 * words of the memory; strides are signed. */
enum { TPU_DMA_LOCAL = 255 };
struct tpu_dma {
    uint8_t from, to; /* enum tpu_space */
    uint8_t flag, core;
    uint32_t source, target; /* addresses */
    uint32_t length;
    uint32_t count[TPU_DMA_LEVELS];
    int32_t source_stride[TPU_DMA_LEVELS], target_stride[TPU_DMA_LEVELS];
};
void tpu_dma_encode(const struct tpu_dma *dma, uint32_t words[TPU_DMA_WORDS]);
/* NULL, or why the words are no descriptor; bounds are not checked here. */
const char *tpu_dma_decode(const uint32_t words[TPU_DMA_WORDS], struct tpu_dma *dma);

#ifdef __cplusplus
}
#endif
#endif
