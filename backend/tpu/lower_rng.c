/* rng and rng-get-and-update-state: the generator of docs/numerics.md. Seed and counter are in
 * SMEM, where the program file sets them anew for each run; a kernel draws for all its places at
 * once, and then moves the counter on. */
#include "backend/tpu/lower.h"

struct draws {
    struct job job;
    const struct hlo_instr *instr;
    struct tval seed, counter;
    treg low, high; /* the counter's words, on the scalar unit */
    bool normal;
};

static treg load_word(struct kernel *k, int word) {
    treg zero = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM});
    return k_emit(k, (struct mop){.op = TPU_SLD, .a = zero, .bkind = MIR_B_IMM, .imm = word});
}

static void store_word(struct kernel *k, int word, treg value) {
    treg zero = k_emit(k, (struct mop){.op = TPU_SMOV, .bkind = MIR_B_IMM});
    k_emit(k, (struct mop){.op = TPU_SST, .d = value, .a = zero, .bkind = MIR_B_IMM, .imm = word});
}

static void read_state(struct draws *d) {
    struct kernel *k = d->job.k;
    treg seed[2] = {load_word(k, SMEM_RANDOM), load_word(k, SMEM_RANDOM + 1)};
    d->low = load_word(k, SMEM_RANDOM + 2);
    d->high = load_word(k, SMEM_RANDOM + 3);
    d->seed = (struct tval){{k_from_scalar(k, seed[0]), k_from_scalar(k, seed[1])}};
    d->counter = (struct tval){{k_from_scalar(k, d->low), k_from_scalar(k, d->high)}};
}

static void advance(struct draws *d, uint64_t by) {
    struct kernel *k = d->job.k;
    treg low = k_binary_i(k, TPU_SADD, d->low, (int32_t)by);
    treg carry = k_binary(k, TPU_SLTU, low, d->low);
    treg one = k_emit(k, (struct mop){.op = TPU_SP2S, .a = carry});
    treg high = k_binary_i(k, TPU_SADD, d->high, (int32_t)(by >> 32));
    store_word(k, SMEM_RANDOM + 2, low);
    store_word(k, SMEM_RANDOM + 3, k_binary(k, TPU_SADD, high, one));
}

/* The 64 bits of draw number `at` of this kernel, in each place. */
static struct tval draw_bits(struct draws *d, treg at) {
    struct kernel *k = d->job.k;
    treg zero = k_const(k, 0), words[4];
    random_philox(k, d->seed, random_counter(k, d->counter, at), (struct tval){{zero, zero}},
                  words);
    return (struct tval){{words[0], words[1]}};
}

/* (low, high) of the top 53 bits. */
static struct tval top_bits(struct kernel *k, struct tval bits) {
    treg low = k_binary(k, TPU_VOR, k_binary_i(k, TPU_VSHR, bits.v[0], 11),
                        k_binary_i(k, TPU_VSHL, bits.v[1], 21));
    return (struct tval){{low, k_binary_i(k, TPU_VSHR, bits.v[1], 11)}};
}

/* Of 53 bits: the number over 2^53. */
static treg fraction(struct kernel *k, struct tval top) {
    treg value = element_convert(k, top, TYPE_U64, TYPE_F32).v[0];
    return f_const_bin(k, TPU_VMULF, value, 0x1p-53f);
}

/* ln(1 - u): of 1 - u where that is small, by log1p elsewhere, so that neither loses digits. */
static treg log_of_rest(struct kernel *k, struct tval top) {
    treg low = k_binary_i(k, TPU_VRSUB, top.v[0], 0);
    treg borrow = k_select(k, k_binary_i(k, TPU_VEQ, top.v[0], 0), k_const(k, 0), k_const(k, 1));
    treg high = k_binary(k, TPU_VSUB, k_binary_i(k, TPU_VRSUB, top.v[1], 1 << 21), borrow);
    treg of_rest = f_unary(k, OP_LOG, fraction(k, (struct tval){{low, high}}));
    treg near_one = f_unary(k, OP_LOG_PLUS_ONE, f_neg(k, fraction(k, top)));
    return k_select(k, k_binary_i(k, TPU_VGES, top.v[1], 1 << 20), of_rest, near_one);
}

/* Box and Muller's cosine from draws 2 at and 2 at + 1. */
static treg normal_value(struct draws *d, treg at) {
    struct kernel *k = d->job.k;
    treg first = k_binary_i(k, TPU_VSHL, at, 1), second = k_binary_i(k, TPU_VADD, first, 1);
    struct tval u = top_bits(k, draw_bits(d, first)), v = top_bits(k, draw_bits(d, second));
    treg squared = f_const_bin(k, TPU_VMULF, log_of_rest(k, u), -2);
    treg angle = f_const_bin(k, TPU_VMULF, fraction(k, v), 6.28318530717958648f);
    return k_binary(k, TPU_VMULF, f_unary(k, OP_SQRT, squared), f_unary(k, OP_COSINE, angle));
}

static struct tval float_value(struct draws *d, struct tval a, struct tval b, treg at) {
    struct kernel *k = d->job.k;
    enum element_type type = d->instr->shape->type;
    if (d->normal) {
        treg x =
            k_binary(k, TPU_VADDF, a.v[0], k_binary(k, TPU_VMULF, b.v[0], normal_value(d, at)));
        return element_convert(k, (struct tval){{x, 0}}, TYPE_F32, type);
    }
    treg u = fraction(k, top_bits(k, draw_bits(d, at)));
    treg range = k_binary(k, TPU_VSUBF, b.v[0], a.v[0]);
    treg x = k_binary(k, TPU_VADDF, a.v[0], k_binary(k, TPU_VMULF, range, u));
    struct tval value = element_convert(k, (struct tval){{x, 0}}, TYPE_F32, type);
    /* Rounding may reach the end that is excluded. */
    treg past =
        m_and(k, k_binary(k, TPU_VGEF, value.v[0], b.v[0]), k_binary(k, TPU_VLTF, a.v[0], b.v[0]));
    return element_select(k, past, a, value);
}

static struct tval wide_op(struct kernel *k, enum hlo_opcode opcode, struct tval a, struct tval b) {
    struct shape shape = {.type = TYPE_U64};
    struct hlo_instr operand = {.shape = &shape}, *both[2] = {&operand, &operand};
    struct hlo_instr op = {.opcode = opcode, .shape = &shape, .noperands = 2, .operands = both};
    return element_value(k, &op, (struct tval[]){a, b});
}

/* low + bits mod (high - low), in 64 bits; a range of 0 leaves the bits. */
static struct tval integer_value(struct draws *d, struct tval a, struct tval b, treg at) {
    struct kernel *k = d->job.k;
    enum element_type type = d->instr->shape->type;
    enum element_type wide = element_type_is_signed(type) ? TYPE_S64 : TYPE_U64;
    a = element_convert(k, a, type, wide);
    b = element_convert(k, b, type, wide);
    struct tval rest = wide_op(k, OP_REMAINDER, draw_bits(d, at), wide_op(k, OP_SUBTRACT, b, a));
    return element_convert(k, wide_op(k, OP_ADD, a, rest), wide, type);
}

/* The counter, then the seed, then zeros. */
static struct tval state_value(struct draws *d, treg at) {
    struct kernel *k = d->job.k;
    treg zero = k_const(k, 0);
    struct tval rest =
        element_select(k, k_binary_i(k, TPU_VEQ, at, 1), d->seed, (struct tval){{zero, zero}});
    return element_select(k, k_binary_i(k, TPU_VEQ, at, 0), d->counter, rest);
}

static struct tval value_of(struct draws *d, struct tval a, struct tval b, treg at) {
    if (d->instr->opcode == OP_RNG_GET_AND_UPDATE_STATE) return state_value(d, at);
    return element_type_is_float(d->instr->shape->type) ? float_value(d, a, b, at)
                                                        : integer_value(d, a, b, at);
}

static void fill(struct draws *d, const struct tarray *result) {
    struct kernel *k = d->job.k;
    const struct hlo_instr *instr = d->instr;
    struct tval a = {{0}}, b = {{0}};
    struct tile_loops loops;
    struct ttile tile;
    if (instr->noperands == 2) {
        a = value_at(&d->job.g, instr->operands[0], 0, NULL, 0);
        b = value_at(&d->job.g, instr->operands[1], 0, NULL, 0);
    }
    tiles_begin(k, &result->layout, &loops, &tile);
    treg at = ix_reg(k, random_block(k, instr->shape, tile.index, -1));
    tile_store(&d->job.g.f, result, &tile, value_of(d, a, b, at));
    tiles_end(k, &loops);
}

bool lower_rng(struct lower *lower, const struct hlo_instr *instr) {
    struct draws d = {.instr = instr};
    struct tarray result;
    bool moves_only = instr->opcode == OP_RNG_GET_AND_UPDATE_STATE;
    d.normal = instr_int(instr, ATTR_DISTRIBUTION, 0) == ENUM_DISTRIBUTION_NORMAL &&
               element_type_is_float(instr->shape->type);
    job_open(&d.job, lower, instr);
    job_result(&d.job, 0, &result);
    job_stage(&d.job, instr, 0);
    read_state(&d);
    if (instr->shape->count) fill(&d, &result);
    advance(&d, moves_only ? (uint64_t)instr_int(instr, ATTR_DELTA, 1)
                           : (uint64_t)instr->shape->count * (d.normal ? 2 : 1));
    job_take(&d.job, 0, &result);
    return job_close(&d.job);
}
