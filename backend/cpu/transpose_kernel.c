/* Transposes that move the last dimension: square tiles in registers, so that both sides are read
 * and written whole vectors at a time. */
#include "backend/cpu/lowering.h"

#include <string.h>

enum {
    STRIP =
        16,    /* elements of the operand's last dimension that a unit takes: a cache line of f32 */
    RUN = 512, /* elements of the result's last dimension: as many pages as translations last */
    LEAST = 4096 /* elements: below, plain loops are as good */
};

/* The permutation without dims of size 1, and with dims that stay neighbours joined. In the
 * result's order. */
struct permutation {
    int rank;
    int64_t dims[SHAPE_MAX_RANK], from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK]; /* strides, elements */
    int strip; /* the dimension that is the operand's last one */
    int run;   /* the result's last one */
};

static void row_major(const struct shape *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape->dims[d];
    }
}

static struct permutation permutation_of(const struct hlo_instr *instr) {
    struct permutation p = {0};
    struct int_list order = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK];
    row_major(instr->operands[0]->shape, from);
    row_major(instr->shape, to);
    for (int d = 0; d < instr->shape->rank; d++) {
        int64_t size = instr->shape->dims[d];
        if (size == 1) continue;
        if (p.rank > 0 && p.from[p.rank - 1] == size * from[order.v[d]]) {
            p.rank--;
            size *= p.dims[p.rank];
        }
        p.dims[p.rank] = size;
        p.from[p.rank] = from[order.v[d]];
        p.to[p.rank++] = to[d];
    }
    p.run = p.rank - 1;
    for (int d = 0; d < p.rank; d++)
        if (p.from[d] == 1) p.strip = d;
    return p;
}

static int tile_of(const struct hlo_instr *instr) {
    int size = element_type_size(instr->shape->type);
    return size <= 4 ? 8 : size == 8 ? 4 : 0;
}

bool transpose_kernel_match(const struct hlo_instr *instr) {
    if (instr->opcode != OP_TRANSPOSE || instr->shape->count < LEAST || !tile_of(instr))
        return false;
    struct permutation p = permutation_of(instr);
    return p.rank > 1 && p.strip != p.run && p.dims[p.strip] >= tile_of(instr) &&
           p.dims[p.run] >= tile_of(instr);
}

static int64_t pieces(int64_t size, int64_t piece) {
    return (size + piece - 1) / piece;
}

int64_t transpose_kernel_units(const struct hlo_instr *instr) {
    struct permutation p = permutation_of(instr);
    int64_t units = pieces(p.dims[p.strip], STRIP) * pieces(p.dims[p.run], RUN);
    for (int d = 0; d < p.rank; d++)
        if (d != p.strip && d != p.run) units *= p.dims[d];
    return units;
}

struct mover {
    struct cpu_gen *g;
    const struct hlo_instr *instr;
    struct permutation p;
    LLVMTypeRef element;
    int tile, bytes;
    LLVMValueRef from, to; /* base pointers of the unit */
};

static LLVMValueRef place(struct mover *m, LLVMValueRef base, const int64_t *strides,
                          LLVMValueRef run, LLVMValueRef strip) {
    LLVMValueRef at = gen_index_add(m->g, gen_index_mul(m->g, run, strides[m->p.run]),
                                    gen_index_mul(m->g, strip, strides[m->p.strip]));
    return LLVMBuildInBoundsGEP2(m->g->b.builder, m->element, base, &at, 1, "");
}

/* Lanes of a and b in turn: the first half of them, or the second. */
static LLVMValueRef interleaved(struct mover *m, LLVMValueRef a, LLVMValueRef b, bool second) {
    LLVMValueRef lanes[16];
    LLVMTypeRef i32 = LLVMInt32TypeInContext(m->g->b.context);
    int start = second ? m->tile / 2 : 0;
    for (int i = 0; i < m->tile / 2; i++) {
        lanes[2 * i] = LLVMConstInt(i32, (uint64_t)(start + i), false);
        lanes[2 * i + 1] = LLVMConstInt(i32, (uint64_t)(start + i + m->tile), false);
    }
    return LLVMBuildShuffleVector(m->g->b.builder, a, b, LLVMConstVector(lanes, (unsigned)m->tile),
                                  "");
}

static void move_tile(struct mover *m, LLVMValueRef run, LLVMValueRef strip) {
    LLVMBuilderRef b = m->g->b.builder;
    LLVMTypeRef vector = LLVMVectorType(m->element, (unsigned)m->tile);
    LLVMValueRef rows[16], next[16];
    for (int i = 0; i < m->tile; i++) {
        LLVMValueRef at = gen_index_add(m->g, run, gen_i64(m->g, i));
        rows[i] = LLVMBuildLoad2(b, vector, place(m, m->from, m->p.from, at, strip), "");
        LLVMSetAlignment(rows[i], (unsigned)m->bytes);
    }
    for (int step = 1; step < m->tile; step *= 2) {
        for (int i = 0; i < m->tile / 2; i++) {
            next[2 * i] = interleaved(m, rows[i], rows[i + m->tile / 2], false);
            next[2 * i + 1] = interleaved(m, rows[i], rows[i + m->tile / 2], true);
        }
        memcpy(rows, next, sizeof rows);
    }
    for (int i = 0; i < m->tile; i++) {
        LLVMValueRef at = gen_index_add(m->g, strip, gen_i64(m->g, i));
        LLVMValueRef store = LLVMBuildStore(b, rows[i], place(m, m->to, m->p.to, run, at));
        LLVMSetAlignment(store, (unsigned)m->bytes);
    }
}

static void move_elements(struct mover *m, LLVMValueRef run, LLVMValueRef run_end,
                          LLVMValueRef strip, LLVMValueRef strip_end) {
    LLVMBuilderRef b = m->g->b.builder;
    struct cpu_loop outer = gen_range_begin(m->g, strip, strip_end);
    struct cpu_loop inner = gen_range_begin(m->g, run, run_end);
    LLVMValueRef value =
        LLVMBuildLoad2(b, m->element, place(m, m->from, m->p.from, inner.i, outer.i), "");
    LLVMBuildStore(b, value, place(m, m->to, m->p.to, inner.i, outer.i));
    gen_loop_end(m->g, &inner);
    gen_loop_end(m->g, &outer);
}

static LLVMValueRef lesser(struct cpu_gen *g, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef l = g->b.builder;
    return LLVMBuildSelect(l, LLVMBuildICmp(l, LLVMIntSLT, a, b, ""), a, b, "");
}

/* [begin, end) without what does not fill a tile. */
static LLVMValueRef whole_tiles(struct mover *m, LLVMValueRef begin, LLVMValueRef end) {
    LLVMBuilderRef b = m->g->b.builder;
    LLVMValueRef size = LLVMBuildSub(b, end, begin, "");
    size = LLVMBuildAnd(b, size, gen_i64(m->g, -(int64_t)m->tile), "");
    return LLVMBuildAdd(b, begin, size, "");
}

static LLVMValueRef tiles_in(struct mover *m, LLVMValueRef begin, LLVMValueRef end) {
    LLVMBuilderRef b = m->g->b.builder;
    return LLVMBuildSDiv(b, LLVMBuildSub(b, end, begin, ""), gen_i64(m->g, m->tile), "");
}

static void move_piece(struct mover *m, LLVMValueRef run, LLVMValueRef strip) {
    struct cpu_gen *g = m->g;
    const struct permutation *p = &m->p;
    LLVMValueRef run_end =
        lesser(g, gen_index_add(g, run, gen_i64(g, RUN)), gen_i64(g, p->dims[p->run]));
    LLVMValueRef strip_end =
        lesser(g, gen_index_add(g, strip, gen_i64(g, STRIP)), gen_i64(g, p->dims[p->strip]));
    LLVMValueRef run_whole = whole_tiles(m, run, run_end);
    LLVMValueRef strip_whole = whole_tiles(m, strip, strip_end);
    struct cpu_loop outer = gen_loop_begin(g, tiles_in(m, run, run_whole));
    LLVMValueRef i = gen_index_add(g, run, gen_index_mul(g, outer.i, m->tile));
    struct cpu_loop inner = gen_loop_begin(g, tiles_in(m, strip, strip_whole));
    move_tile(m, i, gen_index_add(g, strip, gen_index_mul(g, inner.i, m->tile)));
    gen_loop_end(g, &inner);
    gen_loop_end(g, &outer);
    move_elements(m, run_whole, run_end, strip, strip_whole);
    move_elements(m, run, run_end, strip_whole, strip_end);
}

void transpose_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    struct mover m = {.g = g, .instr = k->instr, .p = permutation_of(k->instr)};
    m.tile = tile_of(k->instr);
    m.bytes = element_type_size(k->instr->shape->type);
    m.element = LLVMIntTypeInContext(g->b.context, (unsigned)(8 * m.bytes));
    int64_t strips = pieces(m.p.dims[m.p.strip], STRIP), runs = pieces(m.p.dims[m.p.run], RUN);
    struct cpu_loop units = gen_range_begin(g, k->begin, k->end);
    gen_index_bound(g, units.i, transpose_kernel_units(k->instr));
    LLVMValueRef strip = gen_index_mul(g, gen_index_rem(g, units.i, strips), STRIP);
    LLVMValueRef rest = gen_index_div(g, units.i, strips);
    LLVMValueRef run = gen_index_mul(g, gen_index_rem(g, rest, runs), RUN);
    LLVMValueRef from = gen_i64(g, 0), to = gen_i64(g, 0);
    rest = gen_index_div(g, rest, runs);
    for (int d = m.p.rank - 1; d >= 0; d--) {
        if (d == m.p.strip || d == m.p.run) continue;
        LLVMValueRef at = gen_index_rem(g, rest, m.p.dims[d]);
        from = gen_index_add(g, from, gen_index_mul(g, at, m.p.from[d]));
        to = gen_index_add(g, to, gen_index_mul(g, at, m.p.to[d]));
        rest = gen_index_div(g, rest, m.p.dims[d]);
    }
    m.from = LLVMBuildInBoundsGEP2(g->b.builder, m.element, k->in[0], &from, 1, "");
    m.to = LLVMBuildInBoundsGEP2(g->b.builder, m.element, k->out[0], &to, 1, "");
    move_piece(&m, run, strip);
    gen_loop_end(g, &units);
}
