/* Transposes that move the last dimension: square tiles in registers, so that both sides are read
 * and written whole vectors at a time. Where more is fused to a transpose, its tiles go through
 * scratch, and the rest reads them there in the result's order. */
#include "backend/cpu/lowering.h"

#include <string.h>

#include "backend/cpu/stream.h"
#include "passes/fusion_shape.h"

enum {
    STRIP =
        16,    /* elements of the operand's last dimension that a unit takes: a cache line of f32 */
    RUN = 512, /* elements of the result's last dimension: as many pages as translations last */
    LEAST = 4096, /* elements: below, plain loops are as good */
    MOST_TILE = 8,
    TILE_BYTES = 32 /* of a row of a tile that may stream */
};

/* The permutation without dims of size 1, and with dims that stay neighbours joined. In the
 * result's order. */
struct permutation {
    int rank;
    int64_t dims[SHAPE_MAX_RANK], from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK]; /* strides, elements */
    int strip; /* the dimension that is the operand's last one */
    int run;   /* the result's last one */
};

static struct permutation permutation_of(const struct hlo_instr *instr) {
    struct permutation p = {0};
    struct int_list order = instr_ints(instr, ATTR_DIMENSIONS);
    int64_t from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK];
    shape_row_major(instr->operands[0]->shape, from);
    shape_row_major(instr->shape, to);
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

static bool moves_last(const struct hlo_instr *instr) {
    if (instr->opcode != OP_TRANSPOSE || instr->shape->count < LEAST || !tile_of(instr))
        return false;
    struct permutation p = permutation_of(instr);
    return p.rank > 1 && p.strip != p.run && p.dims[p.strip] >= tile_of(instr) &&
           p.dims[p.run] >= tile_of(instr);
}

/* The instruction is only used at its own place in the results' order. */
static bool stays_at_place(const struct hlo_instr *instr, const struct hlo_instr *root) {
    enum { MOST = 64 };
    for (int steps = 0; steps < MOST; steps++) {
        if (instr == root) return true;
        const struct hlo_use *use = instr->users;
        if (!use || use->next) return false;
        if (use->user->opcode == OP_TUPLE) return use->user == root;
        if (!instr_keeps_index(use->user)) return false;
        instr = use->user;
    }
    return false;
}

/* The transpose of a parameter that decides the order of the loops; NULL: none. */
static const struct hlo_instr *leader(const struct hlo_instr *instr) {
    if (instr->opcode == OP_TRANSPOSE) return moves_last(instr) ? instr : NULL;
    if (instr->opcode != OP_FUSION) return NULL;
    const struct hlo_computation *fused = instr->called[0];
    for (const struct hlo_instr *i = fused->first; i; i = i->next)
        if (moves_last(i) && i->operands[0]->opcode == OP_PARAMETER &&
            i->shape->count == shape_leaf(instr->shape, 0)->count && stays_at_place(i, fused->root))
            return fusion_shape(fused) == FUSION_SHAPE_LOOP ? i : NULL;
    return NULL;
}

bool transpose_kernel_match(const struct hlo_instr *instr) {
    return leader(instr) != NULL;
}

static int64_t pieces(int64_t size, int64_t piece) {
    return (size + piece - 1) / piece;
}

/* Another transpose of a parameter in the same order, to be read through scratch too. */
static bool goes_along(const struct hlo_instr *instr, const struct hlo_instr *with) {
    struct int_list a = instr_ints(instr, ATTR_DIMENSIONS), b = instr_ints(with, ATTR_DIMENSIONS);
    return instr->opcode == OP_TRANSPOSE && instr->operands[0]->opcode == OP_PARAMETER &&
           tile_of(instr) && shape_same_dims(instr->shape, with->shape) && a.count == b.count &&
           memcmp(a.v, b.v, (size_t)a.count * sizeof *a.v) == 0 &&
           stays_at_place(instr, with->parent->root);
}

static int64_t tile_bytes(const struct hlo_instr *transpose) {
    return (int64_t)STRIP * RUN * element_type_size(transpose->shape->type);
}

int64_t transpose_kernel_scratch(const struct hlo_instr *instr) {
    int64_t bytes = 0;
    if (instr->opcode != OP_FUSION) return 0;
    for (const struct hlo_instr *i = instr->called[0]->first; i; i = i->next)
        if (goes_along(i, leader(instr))) bytes += tile_bytes(i);
    return bytes;
}

int64_t transpose_kernel_units(const struct hlo_instr *instr) {
    struct permutation p = permutation_of(leader(instr));
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

/* A piece of at most STRIP by RUN elements of the two dimensions. */
struct piece {
    LLVMValueRef run, run_end, strip, strip_end;
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

/* The tile at (run, strip): a vector of the run for each element of the strip. */
static void load_tile(struct mover *m, LLVMValueRef run, LLVMValueRef strip, LLVMValueRef *rows) {
    LLVMBuilderRef b = m->g->b.builder;
    LLVMTypeRef vector = LLVMVectorType(m->element, (unsigned)m->tile);
    LLVMValueRef next[MOST_TILE];
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
        memcpy(rows, next, (size_t)m->tile * sizeof *rows);
    }
}

static void move_tile(struct mover *m, LLVMValueRef run, LLVMValueRef strip) {
    LLVMBuilderRef b = m->g->b.builder;
    LLVMValueRef rows[MOST_TILE];
    load_tile(m, run, strip, rows);
    for (int i = 0; i < m->tile; i++) {
        LLVMValueRef at = gen_index_add(m->g, strip, gen_i64(m->g, i));
        LLVMValueRef store = LLVMBuildStore(b, rows[i], place(m, m->to, m->p.to, run, at));
        LLVMSetAlignment(store, (unsigned)m->bytes);
    }
}

/* As many tiles along the run as fill lines of the result, past the caches. */
static void stream_tiles(struct mover *m, LLVMValueRef run, LLVMValueRef strip) {
    LLVMValueRef rows[STREAM_LINE / TILE_BYTES][MOST_TILE], runs[STREAM_LINE / TILE_BYTES];
    for (int t = 0; t < STREAM_LINE / TILE_BYTES; t++) {
        runs[t] = gen_index_add(m->g, run, gen_i64(m->g, t * m->tile));
        load_tile(m, runs[t], strip, rows[t]);
    }
    for (int i = 0; i < m->tile; i++) {
        LLVMValueRef at = gen_index_add(m->g, strip, gen_i64(m->g, i));
        for (int t = 0; t < STREAM_LINE / TILE_BYTES; t++)
            stream_store(m->g, rows[t][i], place(m, m->to, m->p.to, runs[t], at));
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

static struct piece piece_at(struct cpu_gen *g, const struct permutation *p, LLVMValueRef run,
                             LLVMValueRef strip) {
    return (struct piece){
        run, lesser(g, gen_index_add(g, run, gen_i64(g, RUN)), gen_i64(g, p->dims[p->run])), strip,
        lesser(g, gen_index_add(g, strip, gen_i64(g, STRIP)), gen_i64(g, p->dims[p->strip]))};
}

static void move_piece(struct mover *m, const struct piece *piece) {
    struct cpu_gen *g = m->g;
    LLVMValueRef run_whole = whole_tiles(m, piece->run, piece->run_end);
    LLVMValueRef strip_whole = whole_tiles(m, piece->strip, piece->strip_end);
    struct cpu_loop outer = gen_loop_begin(g, tiles_in(m, piece->run, run_whole));
    LLVMValueRef i = gen_index_add(g, piece->run, gen_index_mul(g, outer.i, m->tile));
    struct cpu_loop inner = gen_loop_begin(g, tiles_in(m, piece->strip, strip_whole));
    move_tile(m, i, gen_index_add(g, piece->strip, gen_index_mul(g, inner.i, m->tile)));
    gen_loop_end(g, &inner);
    gen_loop_end(g, &outer);
    move_elements(m, run_whole, piece->run_end, piece->strip, strip_whole);
    move_elements(m, piece->run, piece->run_end, strip_whole, piece->strip_end);
}

/* Whether all lines of the result are written whole, where its memory begins with one. */
static bool fills_lines(const struct permutation *p, int64_t bytes) {
    for (int d = 0; d < p->rank; d++) {
        int64_t size = d == p->run ? p->dims[d] : p->to[d];
        if (size * bytes % STREAM_LINE != 0) return false;
    }
    return true;
}

/* Streaming pays, for the one result of this kernel. */
static bool may_stream(struct cpu_gen *g, const struct hlo_instr *instr, const struct mover *m) {
    const struct shape *shape = shape_leaf(instr->shape, 0);
    int64_t bytes = element_type_size(shape->type);
    if (instr->shape->nleaves != 1 || !stream_pays(g, shape->bytes)) return false;
    if (!fills_lines(&m->p, bytes)) return false;
    return instr->opcode == OP_FUSION ||
           (m->tile * m->bytes == TILE_BYTES && m->p.dims[m->p.strip] % m->tile == 0);
}

/* The same as move_piece, where fills_lines. */
static void stream_piece(struct mover *m, const struct piece *piece) {
    struct cpu_gen *g = m->g;
    LLVMBuilderRef b = g->b.builder;
    int64_t line = STREAM_LINE / m->bytes;
    LLVMValueRef size = LLVMBuildSub(b, piece->run_end, piece->run, "");
    LLVMValueRef runs = LLVMBuildUDiv(b, size, gen_i64(g, line), "");
    struct cpu_loop outer = gen_loop_begin(g, runs);
    LLVMValueRef run = gen_index_add(g, piece->run, gen_index_mul(g, outer.i, line));
    struct cpu_loop inner = gen_loop_begin(g, tiles_in(m, piece->strip, piece->strip_end));
    stream_tiles(m, run, gen_index_add(g, piece->strip, gen_index_mul(g, inner.i, m->tile)));
    gen_loop_end(g, &inner);
    gen_loop_end(g, &outer);
}

static LLVMValueRef element_at(struct cpu_gen *g, LLVMTypeRef type, LLVMValueRef base,
                               LLVMValueRef offset) {
    return LLVMBuildInBoundsGEP2(g->b.builder, type, base, &offset, 1, "");
}

static struct mover mover_of(struct cpu_gen *g, const struct hlo_instr *transpose,
                             const struct permutation *p) {
    struct mover m = {.g = g, .instr = transpose, .p = *p, .tile = tile_of(transpose)};
    m.bytes = element_type_size(transpose->shape->type);
    m.element = LLVMIntTypeInContext(g->b.context, (unsigned)(8 * m.bytes));
    return m;
}

/* What is fused: transposed operands that go along come from scratch. */
struct fused_tile {
    const struct hlo_instr *instr;
    LLVMValueRef scratch;
};

static int move_to_scratch(struct cpu_gen *g, struct cpu_kernel *k, const struct permutation *p,
                           LLVMValueRef from, const struct piece *piece, struct fused_tile *tiles) {
    int n = 0;
    int64_t offset = 0;
    for (const struct hlo_instr *i = k->instr->called[0]->first; i; i = i->next) {
        if (!goes_along(i, leader(k->instr))) continue;
        struct mover m = mover_of(g, i, p);
        tiles[n] = (struct fused_tile){i, gen_offset(g, k->scratch, offset)};
        gen_part_of(g, tiles[n].scratch, k->scratch);
        m.from = element_at(g, m.element, gen_leaves(g, i->operands[0])[0], from);
        /* Scratch holds the piece alone: its first element is that of run and strip. */
        m.p.to[p->run] = 1;
        m.p.to[p->strip] = RUN;
        LLVMValueRef first = gen_index_add(g, piece->run, gen_index_mul(g, piece->strip, RUN));
        m.to = element_at(g, m.element, tiles[n++].scratch, LLVMBuildNeg(g->b.builder, first, ""));
        move_piece(&m, piece);
        offset += tile_bytes(i);
    }
    return n;
}

static const struct shape *run_of(struct cpu_gen *g, const struct hlo_instr *output) {
    return shape_array(g->hlo->shapes, output->shape->type, 1, (const int64_t[]){RUN});
}

/* Where `buffer` is, a piece of whole runs of one result goes there run by run, and then past the
 * caches. */
static void store_piece(struct cpu_gen *g, struct cpu_kernel *k, const struct permutation *p,
                        LLVMValueRef to, const struct piece *piece, int ntiles,
                        const struct fused_tile *tiles, LLVMValueRef buffer) {
    LLVMValueRef index[SHAPE_MAX_RANK], out[GEN_MOST_LEAVES];
    const struct hlo_instr *root = k->instr->called[0]->root;
    struct cpu_loop strips = gen_range_begin(g, piece->strip, piece->strip_end);
    gen_index_bound(g, strips.i, p->dims[p->strip]);
    struct cpu_loop runs = gen_range_begin(g, piece->run, piece->run_end);
    gen_index_bound(g, runs.i, p->dims[p->run]);
    LLVMValueRef linear = gen_index_add(g, to, gen_index_mul(g, strips.i, p->to[p->strip]));
    linear = gen_index_add(g, linear, gen_index_mul(g, runs.i, p->to[p->run]));
    LLVMValueRef row = LLVMBuildSub(g->b.builder, strips.i, piece->strip, "");
    LLVMValueRef column = LLVMBuildSub(g->b.builder, runs.i, piece->run, "");
    for (int i = 0; i < ntiles; i++) {
        const struct shape *shape = shape_array(g->hlo->shapes, tiles[i].instr->shape->type, 2,
                                                (const int64_t[]){STRIP, RUN});
        LLVMValueRef at[2] = {row, column};
        gen_delinear(g, tiles[i].instr->shape, linear, index);
        gen_bind_element(g, tiles[i].instr, index, gen_load(g, shape, tiles[i].scratch, at));
    }
    bool tuple = root->opcode == OP_TUPLE;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < k->nout; i++) {
            const struct hlo_instr *output = tuple ? root->operands[i] : root;
            gen_delinear(g, output->shape, linear, index);
            if (pass == 0)
                out[i] = gen_element(g, output, index);
            else if (buffer)
                gen_store(g, run_of(g, output), buffer, &column, out[i]);
            else
                gen_store(g, output->shape, k->out[i], index, out[i]);
        }
    gen_loop_end(g, &runs);
    if (buffer) {
        const struct shape *shape = tuple ? root->operands[0]->shape : root->shape;
        LLVMTypeRef type = cpu_memory_type(&g->b, shape->type);
        LLVMValueRef at = gen_index_add(g, to, gen_index_mul(g, strips.i, p->to[p->strip]));
        at = gen_index_add(g, at, piece->run);
        stream_copy(g, element_at(g, type, k->out[0], at), buffer,
                    RUN * element_type_size(shape->type));
    }
    gen_loop_end(g, &strips);
}

static void store_fused(struct cpu_gen *g, struct cpu_kernel *k, const struct permutation *p,
                        LLVMValueRef to, const struct piece *piece, int ntiles,
                        const struct fused_tile *tiles, LLVMValueRef aligned) {
    LLVMBuilderRef b = g->b.builder;
    if (!aligned) {
        store_piece(g, k, p, to, piece, ntiles, tiles, NULL);
        return;
    }
    const struct shape *shape = shape_leaf(k->instr->shape, 0);
    LLVMValueRef buffer = gen_alloca(g, cpu_memory_type(&g->b, shape->type), RUN);
    LLVMValueRef size = LLVMBuildSub(b, piece->run_end, piece->run, "");
    LLVMValueRef whole = LLVMBuildICmp(b, LLVMIntEQ, size, gen_i64(g, RUN), "");
    whole = LLVMBuildAnd(b, whole, aligned, "");
    LLVMBasicBlockRef after = gen_guard_begin(g, whole);
    store_piece(g, k, p, to, piece, ntiles, tiles, buffer);
    gen_guard_end(g, after);
    after = gen_guard_begin(g, LLVMBuildNot(b, whole, ""));
    store_piece(g, k, p, to, piece, ntiles, tiles, NULL);
    gen_guard_end(g, after);
}

void transpose_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    const struct hlo_instr *transpose = leader(k->instr);
    struct permutation p = permutation_of(transpose);
    int64_t strips = pieces(p.dims[p.strip], STRIP), runs = pieces(p.dims[p.run], RUN);
    struct mover m = mover_of(g, transpose, &p);
    LLVMValueRef aligned = NULL; /* known at run time, where streaming pays */
    gen_enter_kernel(g, k);
    if (may_stream(g, k->instr, &m)) aligned = stream_is_aligned(g, k->out[0]);
    struct cpu_loop units = gen_range_begin(g, k->begin, k->end);
    gen_index_bound(g, units.i, transpose_kernel_units(k->instr));
    LLVMValueRef strip = gen_index_mul(g, gen_index_rem(g, units.i, strips), STRIP);
    LLVMValueRef rest = gen_index_div(g, units.i, strips);
    LLVMValueRef run = gen_index_mul(g, gen_index_rem(g, rest, runs), RUN);
    LLVMValueRef from = gen_i64(g, 0), to = gen_i64(g, 0);
    rest = gen_index_div(g, rest, runs);
    for (int d = p.rank - 1; d >= 0; d--) {
        if (d == p.strip || d == p.run) continue;
        LLVMValueRef at = gen_index_rem(g, rest, p.dims[d]);
        from = gen_index_add(g, from, gen_index_mul(g, at, p.from[d]));
        to = gen_index_add(g, to, gen_index_mul(g, at, p.to[d]));
        rest = gen_index_div(g, rest, p.dims[d]);
    }
    struct piece piece = piece_at(g, &p, run, strip);
    if (k->instr->opcode == OP_FUSION) {
        struct fused_tile *tiles =
            arena_array(g->arena, (size_t)k->instr->called[0]->count, sizeof *tiles);
        int n = move_to_scratch(g, k, &p, from, &piece, tiles);
        store_fused(g, k, &p, to, &piece, n, tiles, aligned);
    } else {
        m.from = element_at(g, m.element, k->in[0], from);
        m.to = element_at(g, m.element, k->out[0], to);
        if (aligned) {
            LLVMBasicBlockRef after = gen_guard_begin(g, aligned);
            stream_piece(&m, &piece);
            gen_guard_end(g, after);
            after = gen_guard_begin(g, LLVMBuildNot(g->b.builder, aligned, ""));
            move_piece(&m, &piece);
            gen_guard_end(g, after);
        } else {
            move_piece(&m, &piece);
        }
    }
    gen_loop_end(g, &units);
    if (aligned) stream_end(g);
}
