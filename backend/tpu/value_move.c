/* Operations that move elements: an index of the result becomes an index of an operand. */
#include "backend/tpu/space.h"
#include "backend/tpu/value.h"

static struct tval operand_at(struct values *g, const struct hlo_instr *instr, int operand,
                              const struct ix *index, treg active) {
    return value_at(g, instr->operands[operand], 0, index, active);
}

static struct tval broadcast(struct values *g, const struct hlo_instr *instr,
                             const struct ix *index, treg active) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    struct ix inner[SHAPE_MAX_RANK];
    for (int d = 0; d < instr->operands[0]->shape->rank && d < dims.count; d++)
        inner[d] = index[dims.v[d]];
    return operand_at(g, instr, 0, inner, active);
}

static struct tval transpose(struct values *g, const struct hlo_instr *instr,
                             const struct ix *index, treg active) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    struct ix inner[SHAPE_MAX_RANK];
    for (int d = 0; d < dims.count; d++)
        inner[dims.v[d]] = index[d];
    return operand_at(g, instr, 0, inner, active);
}

static struct tval reverse(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                           treg active) {
    struct int_list dims = instr_ints(instr, ATTR_DIMENSIONS);
    struct ix inner[SHAPE_MAX_RANK];
    for (int d = 0; d < instr->shape->rank; d++)
        inner[d] = index[d];
    for (int i = 0; i < dims.count; i++) {
        int64_t d = dims.v[i], last = instr->shape->dims[d] - 1;
        inner[d] = ix_addi(ix_muli(g->k, index[d], -1), (int32_t)last);
    }
    return operand_at(g, instr, 0, inner, active);
}

static struct tval slice(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                         treg active) {
    const struct slice_list *slices = instr_attr(instr, ATTR_SLICE)->slices;
    struct ix inner[SHAPE_MAX_RANK];
    for (int d = 0; d < instr->shape->rank; d++)
        inner[d] = ix_addi(ix_muli(g->k, index[d], (int32_t)slices->v[d].stride),
                           (int32_t)slices->v[d].start);
    return operand_at(g, instr, 0, inner, active);
}

static struct ix place_in_group(struct kernel *k, const struct shape *to,
                                const struct reshape_group *g, const struct ix *index) {
    struct ix place = ix_const(0);
    for (int d = g->to; d < g->to_end; d++)
        place = ix_add(k, ix_muli(k, place, (int32_t)to->dims[d]), index[d]);
    return place;
}

static void divide_place(struct kernel *k, const struct shape *from, const struct reshape_group *g,
                         struct ix place, struct ix *inner) {
    for (int d = g->from_end - 1; d >= g->from; d--) {
        inner[d] = d == g->from ? place : ix_mod(k, place, (int32_t)from->dims[d]);
        place = ix_div(k, place, (int32_t)from->dims[d]);
    }
}

/* Lanes of a place that go over several rows of the operand, each of which is `*size` lanes wide.
 */
static int pieces_of(const struct shape *from, const struct reshape_group *g, struct ix place,
                     int *size) {
    enum { LEAST = 8 };
    int64_t minor = g->from_end > g->from ? from->dims[g->from_end - 1] : 1, all = 1;
    for (int d = g->from; d < g->from_end; d++)
        all *= from->dims[d];
    if (minor < LEAST || minor >= TPU_LANES || TPU_LANES % minor || minor == all ||
        !ix_is_affine(place) || place.rows || place.lanes != 1 ||
        !sx_divides(place.s, (int32_t)minor))
        return 0;
    *size = (int)minor;
    return (int)((all < TPU_LANES ? all : TPU_LANES) / minor);
}

/* Piece by piece, each from one row of the operand and to its lanes. */
static struct tval reshape_pieces(struct values *g, const struct hlo_instr *instr,
                                  const struct reshape_group *group, struct ix place, int pieces,
                                  int size, struct ix *inner, treg active) {
    struct kernel *k = g->k;
    const struct shape *from = instr->operands[0]->shape;
    struct tval result = {{0, 0}};
    for (int p = 0; p < pieces; p++) {
        struct ix row = ix_scalar(sx_addi(place.s, p * size));
        divide_place(k, from, group, row, inner);
        inner[group->from_end - 1] = ix_lanes(sx_const(-p * size));
        treg here = ix_within(k, ix_lanes(sx_const(-p * size)), 0, size - 1);
        struct tval piece = operand_at(g, instr, 0, inner, m_and(k, active, here));
        result = p ? element_select(k, here, piece, result) : piece;
    }
    return result;
}

static struct tval reshape(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                           treg active) {
    const struct shape *to = instr->shape, *from = instr->operands[0]->shape;
    struct reshape_group group = {0}, divided = {0};
    struct ix inner[SHAPE_MAX_RANK], divided_place = ix_const(0);
    int pieces = 0, size = 0;
    while (reshape_next_group(&group, to, from)) {
        struct ix place = place_in_group(g->k, to, &group, index);
        int count = pieces_of(from, &group, place, &size);
        if (count > 1) {
            pieces = count;
            divided = group;
            divided_place = place;
        } else {
            divide_place(g->k, from, &group, place, inner);
        }
    }
    if (pieces == 0) return operand_at(g, instr, 0, inner, active);
    return reshape_pieces(g, instr, &divided, divided_place, pieces, size, inner, active);
}

static struct tval pad(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                       treg active) {
    struct kernel *k = g->k;
    const struct shape *from = instr->operands[0]->shape;
    const struct padding_config *padding = instr_attr(instr, ATTR_PADDING)->padding;
    struct ix inner[SHAPE_MAX_RANK];
    struct tval fill = operand_at(g, instr, 1, NULL, active);
    treg inside = 0;
    if (from->count == 0) return fill;
    for (int d = 0; d < from->rank; d++) {
        int32_t step = (int32_t)padding->v[d].interior + 1;
        int32_t size = (int32_t)from->dims[d];
        struct ix at = ix_addi(index[d], -(int32_t)padding->v[d].low);
        inner[d] = ix_unstride(k, at, step, (size - 1) * step, &inside);
    }
    struct tval value = operand_at(g, instr, 0, inner, m_and(k, active, inside));
    return inside ? element_select(k, inside, value, fill) : value;
}

/* Scalars decide by a branch which operand is read, vectors by selects. */
static struct tval concatenate(struct values *g, const struct hlo_instr *instr,
                               const struct ix *index, treg active) {
    struct kernel *k = g->k;
    int64_t dim = instr_ints(instr, ATTR_DIMENSIONS).v[0], start = 0;
    struct ix inner[SHAPE_MAX_RANK], at = index[dim];
    struct tval result = {{0, 0}};
    for (int d = 0; d < instr->shape->rank; d++)
        inner[d] = index[d];
    for (int i = 0; i < instr->noperands; i++) {
        int64_t size = instr->operands[i]->shape->dims[dim], first = start;
        start += size;
        if (size == 0 || at.high < first || (at.low >= start && i + 1 < instr->noperands)) continue;
        inner[dim] = ix_addi(at, -(int32_t)first);
        treg here = ix_within(k, inner[dim], 0, (int32_t)size - 1);
        if (at.low >= 0 && start == instr->shape->dims[dim] && !result.v[0]) here = 0;
        int memos = g->nmemos, branch = -1;
        if (ix_is_scalar(at) && here) {
            if (!result.v[0]) {
                result = value_variable(k, (struct tval){{k_const(k, 0), k_const(k, 0)}});
                if (element_type_size(instr->shape->type) < 8) result.v[1] = 0;
            }
            treg below = s_compare(k, TPU_SLTS, at.s, sx_const((int32_t)start));
            treg above = s_compare(k, TPU_SGES, at.s, sx_const((int32_t)first));
            branch = if_begin(k, k_binary(k, TPU_PAND, below, above), false);
        }
        struct tval value = operand_at(g, instr, i, inner, m_and(k, active, here));
        if (branch >= 0) {
            value_assign(k, result, 0, value);
            if_end(k, branch);
            g->nmemos = memos;
        } else if (!result.v[0]) {
            result = value;
        } else {
            result = element_select(k, here, value, result);
        }
    }
    return result;
}

static const struct sx *starts_of(const struct values *g, const struct hlo_instr *instr) {
    for (int i = 0; i < g->nstarts; i++)
        if (g->starts[i].instr == instr) return g->starts[i].start;
    return NULL;
}

static struct tval dynamic_slice(struct values *g, const struct hlo_instr *instr,
                                 const struct ix *index, treg active) {
    const struct sx *start = starts_of(g, instr);
    struct ix inner[SHAPE_MAX_RANK];
    if (!start) return (struct tval){{0, 0}};
    for (int d = 0; d < instr->shape->rank; d++)
        inner[d] = ix_add(g->k, index[d], ix_scalar(start[d]));
    return operand_at(g, instr, 0, inner, active);
}

static struct tval dynamic_update_slice(struct values *g, const struct hlo_instr *instr,
                                        const struct ix *index, treg active) {
    struct kernel *k = g->k;
    const struct sx *start = starts_of(g, instr);
    const struct shape *window = instr->operands[1]->shape;
    struct ix inner[SHAPE_MAX_RANK];
    treg inside = 0;
    if (!start) return (struct tval){{0, 0}};
    struct tval old = operand_at(g, instr, 0, index, active);
    if (window->count == 0) return old;
    for (int d = 0; d < instr->shape->rank; d++) {
        inner[d] = ix_add(k, index[d], ix_muli(k, ix_scalar(start[d]), -1));
        inside = m_and(k, inside, ix_within(k, inner[d], 0, (int32_t)window->dims[d] - 1));
    }
    struct tval new = operand_at(g, instr, 1, inner, m_and(k, active, inside));
    return inside ? element_select(k, inside, new, old) : new;
}

static int position(struct int_list list, int64_t value) {
    for (int i = 0; i < list.count; i++)
        if (list.v[i] == value) return i;
    return -1;
}

/* The place in the indices of component `component` for a result's batch place. */
static void indices_place(const struct hlo_instr *instr, const struct ix *batch, int component,
                          struct ix *place) {
    int64_t vector = instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0);
    int rank = instr->operands[1]->shape->rank;
    for (int d = 0, b = 0; d < rank; d++)
        place[d] = d == vector ? ix_const(component) : batch[b++];
}

static struct tval gather(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                          treg active) {
    struct kernel *k = g->k;
    const struct hlo_instr *indices = instr->operands[1];
    const struct shape *from = instr->operands[0]->shape;
    struct int_list offset = instr_ints(instr, ATTR_OFFSET_DIMS);
    struct int_list collapsed = instr_ints(instr, ATTR_COLLAPSED_SLICE_DIMS);
    struct int_list map = instr_ints(instr, ATTR_START_INDEX_MAP);
    struct int_list sizes = instr_ints(instr, ATTR_SLICE_SIZES);
    struct int_list batching = instr_ints(instr, ATTR_OPERAND_BATCHING_DIMS);
    struct int_list with = instr_ints(instr, ATTR_START_INDICES_BATCHING_DIMS);
    int64_t vector = instr_int(instr, ATTR_INDEX_VECTOR_DIM, 0);
    struct ix batch[SHAPE_MAX_RANK], inner[SHAPE_MAX_RANK], place[SHAPE_MAX_RANK];
    int nbatch = 0, noffset = 0;
    for (int d = 0; d < instr->shape->rank; d++)
        if (position(offset, d) < 0) batch[nbatch++] = index[d];
    for (int d = 0; d < from->rank; d++) {
        bool gone = position(collapsed, d) >= 0 || position(batching, d) >= 0;
        inner[d] = gone ? ix_const(0) : index[offset.v[noffset++]];
        int pair = position(batching, d);
        if (pair >= 0) inner[d] = batch[with.v[pair] - (with.v[pair] > vector)];
    }
    for (int i = 0; i < map.count; i++) {
        indices_place(instr, batch, i, place);
        struct tval value = value_at(g, indices, 0, place, active);
        treg number = value_index(k, value, indices->shape->type);
        int32_t most = (int32_t)(from->dims[map.v[i]] - sizes.v[map.v[i]]);
        struct ix start = ix_clamp(k, ix_vector(number, INT32_MIN, INT32_MAX), 0, most);
        inner[map.v[i]] = ix_add(k, inner[map.v[i]], start);
    }
    return operand_at(g, instr, 0, inner, active);
}

/* Bits that an element has: 4-bit types fill a byte in memory, and half of one here. */
static int bits_of(enum element_type type) {
    int bits = element_type_info(type)->bits;
    return type == TYPE_PRED ? 8 : bits;
}

static treg masked(struct kernel *k, treg word, int bits) {
    return bits >= 32 ? word : k_binary_i(k, TPU_VAND, word, (int32_t)((1u << bits) - 1));
}

/* Bits of an element as 32-bit words, the lower first. */
static struct tval element_bits(struct kernel *k, enum element_type type, struct tval value) {
    value.v[0] = masked(k, narrow_to_bits(k, type, value.v[0]), bits_of(type));
    return value;
}

static treg value_of_bits(struct kernel *k, enum element_type type, treg word) {
    int bits = bits_of(type);
    if (bits < 8 && element_type_is_signed(type))
        return k_binary_i(k, TPU_VSAR, k_binary_i(k, TPU_VSHL, word, 32 - bits), 32 - bits);
    return bits_to_value(k, type, word);
}

/* From wide elements: a part of one; the new minor dimension counts the parts. */
static struct tval bitcast_apart(struct values *g, const struct hlo_instr *instr,
                                 const struct ix *index, treg active) {
    struct kernel *k = g->k;
    enum element_type from = instr->operands[0]->shape->type, to = instr->shape->type;
    int bits = bits_of(to);
    struct tval whole = element_bits(k, from, operand_at(g, instr, 0, index, active));
    treg shift = ix_reg(k, ix_muli(k, index[instr->shape->rank - 1], bits)), word = whole.v[0];
    if (whole.v[1]) {
        treg upper = k_binary_i(k, TPU_VGES, shift, 32);
        word = k_select(k, upper, whole.v[1], whole.v[0]);
        shift = k_binary_i(k, TPU_VAND, shift, 31);
    }
    word = k_binary(k, TPU_VSHR, word, shift);
    return (struct tval){{value_of_bits(k, to, masked(k, word, bits)), 0}};
}

/* To wide elements: the parts along the operand's minor dimension put together. */
static struct tval bitcast_together(struct values *g, const struct hlo_instr *instr,
                                    const struct ix *index, treg active) {
    struct kernel *k = g->k;
    enum element_type from = instr->operands[0]->shape->type, to = instr->shape->type;
    int bits = bits_of(from), parts = bits_of(to) / bits;
    struct ix inner[SHAPE_MAX_RANK];
    treg words[2] = {0, 0};
    for (int d = 0; d < instr->shape->rank; d++)
        inner[d] = index[d];
    for (int p = 0; p < parts; p++) {
        inner[instr->shape->rank] = ix_const(p);
        treg part = element_bits(k, from, operand_at(g, instr, 0, inner, active)).v[0];
        int at = p * bits;
        if (at % 32) part = k_binary_i(k, TPU_VSHL, part, at % 32);
        treg *word = &words[at / 32];
        *word = *word ? k_binary(k, TPU_VOR, *word, part) : part;
    }
    return (struct tval){{value_of_bits(k, to, words[0]), words[1]}};
}

static struct tval bitcast_convert(struct values *g, const struct hlo_instr *instr,
                                   const struct ix *index, treg active) {
    int rank = instr->shape->rank, from = instr->operands[0]->shape->rank;
    if (from == rank - 1) return bitcast_apart(g, instr, index, active);
    if (from == rank + 1) return bitcast_together(g, instr, index, active);
    struct tval value = operand_at(g, instr, 0, index, active);
    return element_value(g->k, instr, &value);
}

/* The same bytes in row-major order: a reshape, and another reading of each element. */
static struct tval bitcast(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                           treg active) {
    struct tval value = reshape(g, instr, index, active);
    struct hlo_instr convert = *instr;
    convert.opcode = OP_BITCAST_CONVERT;
    if (instr->shape->type == instr->operands[0]->shape->type) return value;
    return element_value(g->k, &convert, &value);
}

struct tval value_moved(struct values *g, const struct hlo_instr *instr, const struct ix *index,
                        treg active) {
    switch (instr->opcode) {
    case OP_BROADCAST: return broadcast(g, instr, index, active);
    case OP_TRANSPOSE: return transpose(g, instr, index, active);
    case OP_RESHAPE: return reshape(g, instr, index, active);
    case OP_BITCAST: return bitcast(g, instr, index, active);
    case OP_REVERSE: return reverse(g, instr, index, active);
    case OP_SLICE: return slice(g, instr, index, active);
    case OP_PAD: return pad(g, instr, index, active);
    case OP_CONCATENATE: return concatenate(g, instr, index, active);
    case OP_DYNAMIC_SLICE: return dynamic_slice(g, instr, index, active);
    case OP_DYNAMIC_UPDATE_SLICE: return dynamic_update_slice(g, instr, index, active);
    case OP_BITCAST_CONVERT: return bitcast_convert(g, instr, index, active);
    case OP_GATHER: return gather(g, instr, index, active);
    default: return (struct tval){{0, 0}};
    }
}
