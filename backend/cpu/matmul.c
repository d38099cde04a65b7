#include "backend/cpu/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/matmul_internal.h"
#include "backend/cpu/pack.h"

static int64_t stride_bytes(const struct product *q, const struct product_dim *dim,
                            enum product_operand operand) {
    int64_t size = operand == PRODUCT_A ? q->a_unit : operand == PRODUCT_B ? q->b_size : q->c_size;
    return product_stride(dim, operand) * size;
}

/* Byte offset in an operand of place `at` of dims. */
LLVMValueRef product_offset(struct product *q, const struct product_dims *dims,
                            enum product_operand operand, LLVMValueRef at) {
    struct cpu_builder *b = q->b;
    LLVMValueRef sum = ir_k(b, 0);
    for (int i = dims->count - 1; i >= 0; i--) {
        LLVMValueRef digit = at;
        if (i > 0) {
            digit = ir_modk(b, at, dims->v[i].size);
            at = ir_divk(b, at, dims->v[i].size);
        }
        int64_t stride = stride_bytes(q, &dims->v[i], operand);
        if (stride) sum = ir_add(b, sum, ir_mulk(b, digit, stride));
    }
    return sum;
}

/* A constant table of the offsets of the outer dimensions of k. */
static LLVMValueRef tap_table(struct product *q, enum product_operand operand) {
    const struct product_dims *k = &q->p->spec.k;
    int64_t *offsets = calloc((size_t)q->p->taps, sizeof *offsets);
    for (int64_t t = 0; offsets && t < q->p->taps; t++) {
        int64_t at = t;
        for (int i = k->count - 2; i >= 0; i--) {
            offsets[t] += at % k->v[i].size * stride_bytes(q, &k->v[i], operand);
            at /= k->v[i].size;
        }
    }
    LLVMValueRef table = ir_table(q->b, offsets, offsets ? q->p->taps : 0);
    free(offsets);
    return table;
}

/* table[i] = offset of place start + i of dims, past the end that of the last, for i < count */
static void fill_table(struct product *q, LLVMValueRef table, const struct product_dims *dims,
                       enum product_operand operand, LLVMValueRef start, int64_t most,
                       int64_t count) {
    struct cpu_builder *b = q->b;
    int64_t config[1 + 2 * PRODUCT_MAX_DIMS] = {dims->count};
    _Static_assert((int)PRODUCT_MAX_DIMS <= (int)OFFSETS_MOST_DIMS,
                   "the runtime counts in so many digits");
    for (int i = 0; i < dims->count; i++) {
        const struct product_dim *d = &dims->v[dims->count - 1 - i];
        config[1 + 2 * i] = d->size;
        config[2 + 2 * i] = stride_bytes(q, d, operand);
    }
    LLVMValueRef arguments[] = {ir_table(b, config, 1 + 2 * dims->count), start, ir_k(b, most),
                                ir_k(b, count), table};
    ir_runtime_call(b, "hlocc_rt_offsets", 5, arguments);
}

/* ---- packing ---- */

static const struct product_dim *inner_k(const struct product *q) {
    static const struct product_dim none = {1, 0, 0, 0};
    const struct product_dims *k = &q->p->spec.k;
    return k->count ? &k->v[k->count - 1] : &none;
}

static bool has_pairs(const struct product *q) {
    return q->p->pair != TYPE_INVALID;
}

/* Bytes from one step of k to the next, a pair of elements where k counts pairs. */
static int64_t k_step(const struct product *q, enum product_operand operand) {
    return stride_bytes(q, inner_k(q), operand) * (has_pairs(q) ? 2 : 1);
}

struct k_range {
    LLVMValueRef first, taps, run; /* first of runs (where there is one tap) or taps */
    LLVMValueRef rows;             /* taps * run */
};

/* Rows of B before the range, all taps in order. */
static LLVMValueRef first_row(struct product *q, const struct k_range *range) {
    return ir_mulk(q->b, range->first, q->p->taps > 1 ? q->p->run : 1);
}

/* Elements of k in a range of pairs. */
static LLVMValueRef elements_in(struct product *q, const struct k_range *range) {
    struct cpu_builder *b = q->b;
    LLVMValueRef count = ir_mulk(b, range->run, 2);
    if (!q->p->odd) return count;
    LLVMValueRef all = ir_k(b, 2 * q->p->k - 1);
    return ir_min(b, count, LLVMBuildNSWSub(b->builder, all, ir_mulk(b, range->first, 2), ""));
}

/* What packing both operands has in common. */
static struct pack pack_of(struct product *q, const struct k_range *range,
                           enum product_operand operand) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    bool a = operand == PRODUCT_A, one = p->taps == 1;
    LLVMValueRef tap_table = a ? q->a_taps : q->b_taps, from = a ? q->a : q->bb;
    struct pack pack = {.from_type = a ? p->spec.a_type : p->spec.b_type,
                        .to_type = has_pairs(q) ? p->pair : p->type,
                        .step = stride_bytes(q, inner_k(q), operand),
                        .pairs = has_pairs(q),
                        .ntaps = range->taps,
                        .run = has_pairs(q) ? elements_in(q, range) : range->run};
    pack.taps = one ? q->one_tap : ir_at(b, tap_table, ir_mulk(b, range->first, 8));
    pack.from = one ? ir_at(b, from, ir_mulk(b, range->first, k_step(q, operand))) : from;
    return pack;
}

/* The unit's columns of B, all rows in range. */
static void pack_b(struct product *q, const struct k_range *range, LLVMValueRef row0,
                   int64_t depth) {
    struct cpu_builder *b = q->b;
    const struct product_dims *n = &q->p->spec.n;
    const struct product_plan *p = q->p;
    if (p->packs_first && p->n % q->columns == 0) return;
    bool contiguous = n->count <= 1 && (n->count == 0 || n->v[0].b == 1);
    int64_t row_bytes = q->columns * q->size;
    struct pack pack = pack_of(q, range, PRODUCT_B);
    pack.mode = contiguous ? PACK_ROWS : inner_k(q)->b == 1 ? PACK_TRANSPOSE : PACK_GATHER;
    pack.width = q->columns;
    pack.places = q->cols;
    pack.to = ir_at(b, q->b_pack, ir_mulk(b, row0, row_bytes));
    pack.n = q->n_left;
    pack.to_step = depth * row_bytes;
    if (!p->packs_first) {
        pack_emit(b, &pack);
        return;
    }
    /* Whole panels are packed by the first kernels that read them. */
    LLVMValueRef panels = LLVMBuildSDiv(b->builder, pack.n, ir_k(b, q->columns), "");
    LLVMValueRef whole = ir_mulk(b, panels, q->columns);
    pack.places = ir_at(b, pack.places, ir_mulk(b, whole, 8));
    pack.to = ir_at(b, pack.to, ir_mulk(b, panels, pack.to_step));
    pack.n = LLVMBuildNSWSub(b->builder, pack.n, whole, "");
    struct ir_if rest = ir_if_begin(b, i_cmpk(b, LLVMIntSGT, pack.n, 0), false);
    pack_emit(b, &pack);
    ir_if_end(b, &rest);
}

/* All of k of each column by itself. */
static void pack_columns(struct product *q, const struct k_range *all) {
    struct cpu_builder *b = q->b;
    struct pack pack = pack_of(q, all, PRODUCT_B);
    pack.places = q->cols;
    pack.to = q->b_pack;
    pack.n = ir_k(b, q->p->n);
    pack.to_step = q->p->k * q->size;
    pack_emit_rows(b, &pack);
}

/* `count` rows from i0 on: k runs along a row, whatever it does in A, or in panels. */
static void pack_a(struct product *q, const struct k_range *range, LLVMValueRef i0,
                   LLVMValueRef count) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    const struct product_dims *m = &p->spec.m;
    bool contiguous = m->count <= 1 && (m->count == 0 || m->v[0].a == 1);
    struct pack pack = pack_of(q, range, PRODUCT_A);
    pack.mode = contiguous ? PACK_ROWS : PACK_GATHER;
    pack.places = ir_at(b, q->rows, ir_mulk(b, i0, 8));
    pack.to = q->a_pack;
    pack.n = count;
    pack.to_step = product_a_row(p) * q->size;
    if (p->a_mode == A_PANELS) {
        pack.width = p->rows;
        pack.to_step *= p->rows;
        pack_emit(b, &pack);
    } else {
        pack.pairs = p->odd;
        pack_emit_rows(b, &pack);
    }
}

struct tile_place {
    LLVMValueRef i, j;    /* in the unit */
    LLVMValueRef height;  /* rows of the tile */
    LLVMValueRef is_low;  /* whether that is plan->low_rows; NULL: never */
    LLVMValueRef number;  /* of the tile among those above each other */
    LLVMValueRef rows, a; /* for the kernel */
    LLVMValueRef panel;
    LLVMValueRef k_block; /* its number */
};

/* ---- finished tiles ---- */

void product_finish_element(struct product *q, LLVMValueRef from, LLVMValueRef add, LLVMValueRef m,
                            LLVMValueRef n) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    LLVMValueRef sum = ir_load(b, cpu_value_type(b, p->type), from, (int)q->size);
    if (q->code->finish) {
        q->code->finish(q->code->data, sum, q->batch, p->swapped ? n : m, p->swapped ? m : n);
        return;
    }
    LLVMValueRef to = ir_at(b, q->c, product_offset(q, &p->spec.m, PRODUCT_C, m));
    to = ir_at(b, to, product_offset(q, &p->spec.n, PRODUCT_C, n));
    if (add) {
        LLVMValueRef old = ir_load(b, cpu_value_type(b, p->type), to, (int)q->size);
        LLVMValueRef total =
            element_type_is_float(p->type) ? f_add(b, old, sum) : i_add(b, old, sum);
        sum = select_of(b, add, total, sum);
    }
    cpu_store(b, p->spec.c_type, cpu_emit_convert(b, sum, p->type, p->spec.c_type), to);
}

/* A number that LLVM does not look through: what is known of where it comes from helps no loop that
 * counts from it, and looking for that is most of what vectorising such a loop costs. */
static LLVMValueRef opaque(struct product *q, LLVMValueRef x) {
    return LLVMIsConstant(x) ? x : LLVMBuildFreeze(q->b->builder, x, "");
}

/* rows x columns sums at `from`; their place in C starts at (i, j) of the unit. */
static void finish_block(struct product *q, LLVMValueRef from, int64_t row_bytes, LLVMValueRef i,
                         LLVMValueRef j, LLVMValueRef rows, LLVMValueRef columns,
                         LLVMValueRef add) {
    struct cpu_builder *b = q->b;
    bool by_rows = q->c_n == 1 || q->c_m != 1;
    LLVMValueRef m = opaque(q, ir_add(b, q->m0, i)), n = opaque(q, ir_add(b, q->n0, j));
    struct ir_loop outer = ir_loop_begin(b, ir_k(b, 0), by_rows ? rows : columns, 1, false);
    LLVMValueRef line = opaque(q, ir_mulk(b, outer.i, by_rows ? row_bytes : q->size));
    LLVMValueRef *moves = by_rows ? &m : &n, *steps = by_rows ? &n : &m;
    *moves = opaque(q, ir_add(b, *moves, outer.i));
    struct ir_loop inner = ir_loop_begin(b, ir_k(b, 0), by_rows ? columns : rows, 1, false);
    LLVMValueRef at = ir_add(b, line, ir_mulk(b, inner.i, by_rows ? q->size : row_bytes));
    *steps = ir_add(b, *steps, inner.i);
    product_finish_element(q, ir_at(b, from, at), add, m, n);
    ir_loop_end_parallel(b, &inner, by_rows ? q->tile.lanes : 0);
    ir_loop_end(b, &outer);
}

static void finish_tile(struct product *q, const struct tile_place *place, LLVMValueRef from,
                        int64_t row_bytes, LLVMValueRef add) {
    struct cpu_builder *b = q->b;
    LLVMValueRef i = place->i, j = place->j;
    LLVMValueRef rows =
        ir_min(b, ir_add(b, q->m_left, LLVMBuildNeg(b->builder, i, "")), place->height);
    LLVMValueRef left = ir_add(b, q->n_left, LLVMBuildNeg(b->builder, j, ""));
    LLVMValueRef all = ir_k(b, q->columns);
    if (q->p->n % q->columns == 0) {
        finish_block(q, from, row_bytes, i, j, rows, all, add);
    } else if (q->p->n < q->columns) {
        finish_block(q, from, row_bytes, i, j, rows, ir_k(b, q->p->n), add);
    } else {
        struct ir_if full = ir_if_begin(b, i_cmp(b, LLVMIntSGE, left, all), true);
        finish_block(q, from, row_bytes, i, j, rows, all, add);
        ir_if_else(b, &full);
        finish_block(q, from, row_bytes, i, j, rows, left, add);
        ir_if_end(b, &full);
    }
}

/* ---- tiles ---- */

/* What the kernel asks for while it computes this tile: its part, by the tile's number, of what
 * will be packed next for the same panel. */
struct ahead {
    enum matmul_extras extra; /* MATMUL_AHEAD, or nothing */
    LLVMValueRef at, step;
};

/* Bytes from what is packed now to what is packed next, where that is the same panel of the next
 * columns or, where there are none, of the next matrix; 0: neither. */
static int64_t next_panel(const struct product *q, int64_t n_step) {
    const struct product_plan *p = q->p;
    const struct product_dims *batch = &p->spec.batch;
    if (p->n > p->n_block) return p->n_block * n_step * q->b_size;
    return batch->count == 1 && !p->n_outermost ? batch->v[0].b * q->b_size : 0;
}

static struct ahead look_ahead(struct product *q, const struct k_range *range,
                               const struct tile_place *place) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    enum { LEAST_STEPS = 8 * MATMUL_KERNEL_STEPS }; /* fewer hide nothing */
    int64_t k_step = stride_bytes(q, inner_k(q), PRODUCT_B), n_step;
    struct ahead nothing = {0, LLVMGetUndef(ir_pointer(b)), LLVMGetUndef(ir_i64(b))};
    bool linear = product_dims_linear(&p->spec.n, PRODUCT_B, &n_step);
    bool by_rows = n_step == 1, by_columns = inner_k(q)->b == 1;
    if (p->b_mode != B_PACKED || has_pairs(q) || p->run < MATMUL_KERNEL_STEPS) return nothing;
    if (p->spec.stage.when == STAGE_BLOCK || !linear || by_rows == by_columns) return nothing;
    int64_t row;
    if (!product_dims_linear(&p->spec.k, PRODUCT_B, &row)) return nothing;
    int64_t next = next_panel(q, n_step);
    /* Panel after panel, each with all tiles: the next one's turn to be packed comes first. */
    bool in_turn = p->packs_first && p->a_mode != A_IN_PLACE && p->n_block > q->columns;
    if (next == 0 && (p->shares_b || p->k_blocks == 1) && !in_turn) return nothing;
    if (product_k_rows(p) < LEAST_STEPS) return nothing;
    /* The next block of k, and after the last one, or where all of k is packed at once, the next
     * columns. */
    LLVMValueRef first = first_row(q, range), offset = ir_k(b, next);
    LLVMValueRef column = ir_add(b, q->n0, place->j);
    LLVMValueRef there = i_cmp(b, LLVMIntSLT, ir_addk(b, column, p->n_block), ir_k(b, p->n));
    if (p->n <= p->n_block) there = LLVMConstInt(int_type(b, 1), next != 0, false);
    if (!p->shares_b && p->k_blocks > 1) {
        LLVMValueRef more = i_cmpk(b, LLVMIntNE, place->k_block, (uint64_t)p->k_blocks - 1);
        first = select_of(b, more, ir_add(b, first, range->rows), ir_k(b, 0));
        offset = select_of(b, more, ir_k(b, 0), offset);
        there = i_or(b, there, more);
    }
    if (in_turn) {
        LLVMValueRef panel = ir_addk(b, place->j, q->columns);
        LLVMValueRef follows = i_cmp(b, LLVMIntSLE, ir_addk(b, panel, q->columns), q->n_left);
        first = select_of(b, follows, first_row(q, range), first);
        offset = select_of(b, follows, ir_k(b, 0), offset);
        column = ir_add(b, q->n0, select_of(b, follows, panel, ir_k(b, 0)));
        there = i_or(b, there, follows);
    }
    LLVMValueRef tile = place->number;
    int64_t steps = (product_k_rows(p) + MATMUL_KERNEL_STEPS - 1) / MATMUL_KERNEL_STEPS;
    steps *= MATMUL_KERNEL_LINES;
    if (by_rows) {
        tile = ir_mulk(b, tile, steps);
        there = i_and(b, there, i_cmp(b, LLVMIntSLT, tile, range->rows));
        first = ir_add(b, first, tile);
    } else {
        there = i_and(b, there, i_cmp(b, LLVMIntSLT, tile, ir_k(b, q->columns)));
        column = ir_add(b, column, tile);
    }
    offset = ir_add(b, offset, ir_mulk(b, first, k_step));
    offset = ir_add(b, offset, ir_mulk(b, column, n_step * q->b_size));
    int64_t step = by_rows ? k_step : MATMUL_KERNEL_STEPS / MATMUL_KERNEL_LINES * q->b_size;
    return (struct ahead){MATMUL_AHEAD, select_of(b, there, ir_at(b, q->bb, offset), place->a),
                          select_of(b, there, ir_k(b, step), ir_k(b, 0))};
}

/* Whether this tile is the first that reads the panel, which then is whole and not packed yet. */
static LLVMValueRef packs_panel(struct product *q, const struct tile_place *place) {
    struct cpu_builder *b = q->b;
    LLVMValueRef packs = i_cmpk(b, LLVMIntEQ, place->i, 0);
    if (q->p->shares_b) packs = i_and(b, packs, q->fresh_b);
    if (q->p->n % q->columns == 0) return packs;
    LLVMValueRef end = ir_addk(b, place->j, q->columns);
    return i_and(b, packs, i_cmp(b, LLVMIntSLE, end, q->n_left));
}

/* What a kernel is told that depends on the tile. */
struct kernel_call {
    LLVMValueRef kernel, b, b_row; /* where the panel is read */
};

/* One call stands for all kernels of a product: they are chosen by value, since calls of so many
 * arguments are most of what LLVM has to compile of a product. */
static struct kernel_call choose_kernel(struct product *q, const struct k_range *range,
                                        const struct tile_place *place, int extras) {
    struct cpu_builder *b = q->b;
    struct kernel_call call = {matmul_kernel(b, q->target, &q->tile, extras), place->panel,
                               ir_k(b, q->b_row)};
    if (place->is_low) {
        struct matmul_tile tile = q->tile;
        tile.rows = q->p->low_rows;
        call.kernel =
            select_of(b, place->is_low, matmul_kernel(b, q->target, &tile, extras), call.kernel);
    }
    if (q->p->packs_first) {
        LLVMValueRef packs = packs_panel(q, place);
        int64_t row = stride_bytes(q, inner_k(q), PRODUCT_B);
        LLVMValueRef columns = ir_mulk(b, ir_add(b, q->n0, place->j), q->b_size);
        LLVMValueRef from = ir_mulk(b, first_row(q, range), row);
        from = ir_at(b, q->bb, ir_add(b, from, columns));
        extras |= q->p->spec.b_type == TYPE_BF16  ? MATMUL_PACKS_BF16
                  : q->p->spec.b_type == TYPE_F16 ? MATMUL_PACKS_F16
                                                  : MATMUL_PACKS;
        LLVMValueRef packer = matmul_kernel(b, q->target, &q->tile, extras);
        call.kernel = select_of(b, packs, packer, call.kernel);
        call.b = select_of(b, packs, from, call.b);
        call.b_row = select_of(b, packs, ir_k(b, row), call.b_row);
    }
    return call;
}

/* Where the sums of a tile go; `adds` (or NULL: never) to what is there. */
struct tile_sums {
    LLVMValueRef at, row_bytes, adds;
};

static void call_kernel(struct product *q, const struct k_range *range,
                        const struct tile_place *place, const struct tile_sums *to) {
    struct cpu_builder *b = q->b;
    struct ahead ahead = look_ahead(q, range, place);
    struct kernel_call call = choose_kernel(q, range, place, ahead.extra);
    bool packed = q->p->a_mode != A_IN_PLACE;
    int64_t step = q->p->a_mode == A_IN_PLACE ? k_step(q, PRODUCT_A)
                   : q->p->a_mode == A_ROWS   ? q->size
                                              : q->size * q->p->rows;
    LLVMValueRef taps = q->one_tap, ntaps = ir_k(b, 1), run = range->rows;
    if (!packed && q->p->taps > 1) {
        taps = ir_at(b, q->a_taps, ir_mulk(b, range->first, 8));
        ntaps = range->taps;
        run = range->run;
    }
    LLVMValueRef from = q->zeros, from_row = ir_k(b, 0);
    if (to->adds && q->p->k_blocks > 1) {
        LLVMValueRef later = i_cmpk(b, LLVMIntSGT, place->k_block, 0);
        later = i_and(b, later, to->adds);
        from = select_of(b, later, to->at, from);
        from_row = select_of(b, later, to->row_bytes, from_row);
    }
    LLVMValueRef arguments[MATMUL_KERNEL_ARGUMENTS] = {
        place->rows, place->a, ir_k(b, step), taps,       ntaps,
        run,         call.b,   call.b_row,    to->at,     to->row_bytes,
        from,        from_row, ahead.at,      ahead.step, place->panel};
    ir_call(b, call.kernel, MATMUL_KERNEL_ARGUMENTS, arguments);
}

static LLVMValueRef always(struct product *q) {
    return LLVMConstInt(int_type(q->b, 1), 1, false);
}

static void tile_to_sums(struct product *q, const struct k_range *range,
                         const struct tile_place *place) {
    struct cpu_builder *b = q->b;
    int64_t row_bytes = q->p->n_block * q->size;
    LLVMValueRef at = ir_at(b, q->sums, ir_mulk(b, place->i, row_bytes));
    at = ir_at(b, at, ir_mulk(b, place->j, q->size));
    call_kernel(q, range, place, &(struct tile_sums){at, ir_k(b, row_bytes), always(q)});
    struct ir_if last =
        ir_if_begin(b, i_cmpk(b, LLVMIntEQ, place->k_block, (uint64_t)q->p->k_blocks - 1), false);
    finish_tile(q, place, at, row_bytes, NULL);
    ir_if_end(b, &last);
}

static struct tile_sums temporary_sums(struct product *q) {
    return (struct tile_sums){q->temp, ir_k(q->b, q->columns * q->size), NULL};
}

static void finish_temporary(struct product *q, const struct tile_place *place) {
    struct cpu_builder *b = q->b;
    LLVMValueRef add = q->p->k_blocks > 1 ? i_cmpk(b, LLVMIntSGT, place->k_block, 0) : NULL;
    finish_tile(q, place, q->temp, q->columns * q->size, add);
}

/* Where the tile is in C itself. */
static struct tile_sums direct_sums(struct product *q, const struct tile_place *place) {
    struct cpu_builder *b = q->b;
    int64_t row_bytes = q->c_m * q->c_size;
    LLVMValueRef to = ir_at(b, q->c, ir_mulk(b, ir_add(b, q->m0, place->i), row_bytes));
    to = ir_at(b, to, ir_mulk(b, ir_add(b, q->n0, place->j), q->c_size));
    return (struct tile_sums){to, ir_k(b, row_bytes), always(q)};
}

static void emit_tile(struct product *q, const struct k_range *range,
                      const struct tile_place *place) {
    struct cpu_builder *b = q->b;
    struct tile_sums temporary = temporary_sums(q), direct;
    if (q->p->keeps_sums) {
        tile_to_sums(q, range, place);
        return;
    }
    if (!q->direct) {
        call_kernel(q, range, place, &temporary);
        finish_temporary(q, place);
        return;
    }
    direct = direct_sums(q, place);
    if ((q->p->m % q->p->rows == 0 || q->p->low_tiles) && q->p->n % q->columns == 0) {
        call_kernel(q, range, place, &direct);
    } else {
        LLVMValueRef i_end = ir_add(b, place->i, place->height);
        LLVMValueRef j_end = ir_addk(b, place->j, q->columns);
        LLVMValueRef whole = i_and(b, i_cmp(b, LLVMIntSLE, i_end, q->m_left),
                                   i_cmp(b, LLVMIntSLE, j_end, q->n_left));
        direct.at = select_of(b, whole, direct.at, temporary.at);
        direct.row_bytes = select_of(b, whole, direct.row_bytes, temporary.row_bytes);
        direct.adds = whole;
        call_kernel(q, range, place, &direct);
        struct ir_if part = ir_if_begin(b, LLVMBuildNot(b->builder, whole, ""), false);
        finish_temporary(q, place);
        ir_if_end(b, &part);
    }
}

/* The tile of this number among those above each other in the unit: the last ones may be lower. */
static void place_tile(struct product *q, struct tile_place *place, LLVMValueRef number) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    place->number = number;
    place->i = ir_mulk(b, number, p->rows);
    place->height = ir_k(b, p->rows);
    if (!p->low_tiles) return;
    int64_t last_rows = product_last_rows(p);
    LLVMValueRef above = ir_k(b, (last_rows - p->low_tiles * p->low_rows) / p->rows);
    LLVMValueRef is_last = i_cmpk(b, LLVMIntEQ, q->m_left, (uint64_t)last_rows);
    LLVMValueRef beyond = LLVMBuildNSWSub(b->builder, number, above, "");
    place->is_low = i_and(b, is_last, i_cmpk(b, LLVMIntSGE, beyond, 0));
    LLVMValueRef less = ir_mulk(b, beyond, p->rows - p->low_rows);
    less = select_of(b, place->is_low, less, ir_k(b, 0));
    place->i = LLVMBuildNSWSub(b->builder, place->i, less, "");
    place->height = select_of(b, place->is_low, ir_k(b, p->low_rows), place->height);
}

/* How many tiles above each other `count` rows are. */
static LLVMValueRef tiles_of(struct product *q, LLVMValueRef count) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    LLVMValueRef tiles =
        LLVMBuildSDiv(b->builder, ir_addk(b, count, p->rows - 1), ir_k(b, p->rows), "");
    if (!p->low_tiles) return tiles;
    int64_t last_rows = product_last_rows(p);
    int64_t above = (last_rows - p->low_tiles * p->low_rows) / p->rows;
    return select_of(b, i_cmpk(b, LLVMIntEQ, count, (uint64_t)last_rows),
                     ir_k(b, above + p->low_tiles), tiles);
}

/* Rows i0 to i0 + count of the unit with all of its columns. */
static void emit_chunk(struct product *q, const struct k_range *range, LLVMValueRef k_block,
                       LLVMValueRef i0, LLVMValueRef count, LLVMValueRef b_row, int64_t depth) {
    struct cpu_builder *b = q->b;
    if (q->p->a_mode != A_IN_PLACE) pack_a(q, range, i0, count);
    /* A tile of A in place stays in the first-level cache while the panels of B pass; where a chunk
     * of A was packed it is the other way round. */
    bool a_stays = q->p->a_mode == A_IN_PLACE;
    LLVMValueRef tiles = tiles_of(q, count), zero = ir_k(b, 0);
    struct ir_loop outer =
        ir_loop_begin(b, zero, a_stays ? tiles : q->n_left, a_stays ? 1 : q->columns, false);
    struct ir_loop inner =
        ir_loop_begin(b, zero, a_stays ? q->n_left : tiles, a_stays ? q->columns : 1, false);
    LLVMValueRef number = a_stays ? outer.i : inner.i, panel = a_stays ? inner.i : outer.i;
    struct tile_place place = {.j = panel, .k_block = k_block};
    place_tile(q, &place, number);
    LLVMValueRef tile = place.i;
    place.i = ir_add(b, i0, tile);
    int64_t to_column = q->p->one_panel ? 0 : q->p->b_mode == B_ROWS ? q->size : depth * q->size;
    place.panel = ir_at(b, q->b_pack, ir_mulk(b, panel, to_column));
    place.panel = ir_at(b, place.panel, ir_mulk(b, b_row, q->b_row));
    place.rows = ir_at(b, q->rows, ir_mulk(b, place.i, 8));
    place.a = q->a;
    if (q->p->a_mode != A_IN_PLACE) {
        place.rows = q->a_table;
        place.a = ir_at(b, q->a_pack, ir_mulk(b, tile, product_a_row(q->p) * q->size));
    } else if (q->p->taps == 1) {
        int64_t step = k_step(q, PRODUCT_A);
        place.a = ir_at(b, q->a, ir_mulk(b, range->first, step));
    }
    emit_tile(q, range, &place);
    ir_loop_end(b, &inner);
    ir_loop_end(b, &outer);
}

static struct k_range range_of(struct product *q, LLVMValueRef k_block) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    struct k_range range;
    range.first = ir_mulk(b, k_block, p->k_block);
    int64_t count = p->taps > 1 ? p->taps : p->run;
    LLVMValueRef left = LLVMBuildNSWSub(b->builder, ir_k(b, count), range.first, "");
    LLVMValueRef here = ir_min(b, left, ir_k(b, p->k_block));
    if (p->spec.stage.when == STAGE_BLOCK) {
        /* The rows of the window in this band; k is outermost those rows. */
        const struct product_stage *s = &p->spec.stage;
        LLVMValueRef band = ir_modk(b, k_block, product_stage_bands(s));
        left = LLVMBuildNSWSub(b->builder, ir_k(b, s->count), ir_mulk(b, band, s->band), "");
        here = ir_mulk(b, ir_min(b, left, ir_k(b, s->band)), count / s->band);
        range.first = ir_k(b, 0);
    }
    range.taps = p->taps > 1 ? here : ir_k(b, 1);
    range.run = p->taps > 1 ? ir_k(b, p->run) : here;
    range.rows = p->taps > 1 ? ir_mulk(b, here, p->run) : here;
    return range;
}

/* Copies what a block of k needs of A, and says where its part of B is. */
static void stage_block(struct product *q, LLVMValueRef k_block, LLVMValueRef a, LLVMValueRef bb) {
    struct cpu_builder *b = q->b;
    const struct product_stage *s = &q->p->spec.stage;
    LLVMValueRef image = ir_divk(b, k_block, product_stage_bands(s));
    LLVMValueRef band = ir_modk(b, k_block, product_stage_bands(s));
    product_emit_stage(q, ir_at(b, a, ir_mulk(b, image, s->image_a * q->a_size)), band);
    bb = ir_at(b, bb, ir_mulk(b, image, s->image_b * q->b_size));
    q->bb = ir_at(b, bb, ir_mulk(b, band, s->band * s->row_b * q->b_size));
    q->a = q->stage;
}

/* ---- units ---- */

static void emit_unit(struct product *q, LLVMValueRef m_block) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    enum stage_when when = p->spec.stage.when;
    LLVMValueRef a = q->a, bb = q->bb;
    if (when == STAGE_UNIT) {
        product_emit_stage(q, a, m_block);
        q->a = q->stage;
    }
    if (p->method == PRODUCT_FEW) {
        product_emit_few(q, p->taps > 1 ? q->a_taps : q->one_tap);
        return;
    }
    struct ir_loop blocks = ir_loop_count(b, p->k_blocks, 1);
    if (when == STAGE_BLOCK) stage_block(q, blocks.i, a, bb);
    struct k_range range = range_of(q, blocks.i);
    LLVMValueRef row0 = ir_k(b, 0);
    if (p->shares_b || p->b_mode != B_PACKED) {
        row0 = first_row(q, &range);
    } else {
        pack_b(q, &range, row0, q->depth);
    }
    bool one = p->m_chunk >= p->m_block;
    struct ir_loop chunks =
        ir_loop_begin(b, ir_k(b, 0), one ? ir_k(b, 1) : q->m_left, p->m_chunk, false);
    LLVMValueRef left = LLVMBuildNSWSub(b->builder, q->m_left, chunks.i, "");
    LLVMValueRef count = one ? q->m_left : ir_min(b, left, ir_k(b, p->m_chunk));
    emit_chunk(q, &range, blocks.i, chunks.i, count, row0, q->depth);
    ir_loop_end(b, &chunks);
    ir_loop_end(b, &blocks);
}

void product_place_unit(struct product *q, LLVMValueRef unit, LLVMValueRef *m_block) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    *m_block = ir_modk(b, unit, q->m_blocks);
    LLVMValueRef rest = ir_divk(b, unit, q->m_blocks), n_block;
    if (p->n_outermost) {
        q->batch = ir_modk(b, rest, p->batch);
        n_block = ir_divk(b, rest, p->batch);
        q->fresh_b = i_and(b, i_cmpk(b, LLVMIntEQ, q->batch, 0), i_cmpk(b, LLVMIntEQ, *m_block, 0));
    } else {
        n_block = ir_modk(b, rest, q->n_blocks);
        q->batch = ir_divk(b, rest, q->n_blocks);
        q->fresh_b = i_cmpk(b, LLVMIntEQ, *m_block, 0);
    }
    q->m0 = ir_mulk(b, *m_block, p->m_block);
    q->n0 = ir_mulk(b, n_block, p->n_block);
    q->m_left =
        ir_min(b, LLVMBuildNSWSub(b->builder, ir_k(b, p->m), q->m0, ""), ir_k(b, p->m_block));
    q->n_left =
        ir_min(b, LLVMBuildNSWSub(b->builder, ir_k(b, p->n), q->n0, ""), ir_k(b, p->n_block));
    q->a_unit = q->a_size;
    q->a = ir_at(b, ir_atk(b, q->code->a, p->spec.a_offset * q->a_size),
                 product_offset(q, &p->spec.batch, PRODUCT_A, q->batch));
    q->a_unit = p->spec.stage.when == STAGE_NEVER ? q->a_size : q->size;
    q->bb = ir_at(b, ir_atk(b, q->code->b, p->spec.b_offset * q->b_size),
                  product_offset(q, &p->spec.batch, PRODUCT_B, q->batch));
    if (p->b_mode != B_PACKED && p->method == PRODUCT_TILES)
        q->b_pack = ir_at(b, q->bb, ir_mulk(b, q->n0, (p->b_mode == B_ROWS ? 1 : p->k) * q->size));
    if (q->code->c)
        q->c = ir_at(b, q->code->c, product_offset(q, &p->spec.batch, PRODUCT_C, q->batch));
}

static struct k_range whole_k(struct product *q) {
    struct cpu_builder *b = q->b;
    return (struct k_range){ir_k(b, 0), ir_k(b, q->p->taps), ir_k(b, q->p->run), ir_k(b, q->p->k)};
}

static void emit_units(struct product *q) {
    struct cpu_builder *b = q->b;
    const struct product_plan *p = q->p;
    LLVMValueRef m_block;
    struct ir_loop units = ir_loop_begin(b, q->code->begin, q->code->end, 1, false);
    product_place_unit(q, units.i, &m_block);
    LLVMValueRef first = i_cmp(b, LLVMIntEQ, units.i, q->code->begin);
    LLVMValueRef fresh = i_or(b, first, q->fresh_b);
    q->fresh_b = fresh;
    if (p->b_mode == B_PACKED) {
        struct ir_if columns = ir_if_begin(b, fresh, false);
        fill_table(q, q->cols, &p->spec.n, PRODUCT_B, q->n0, p->n, p->n_block);
        if (p->shares_b) {
            struct k_range all = whole_k(q);
            if (p->method == PRODUCT_FEW)
                pack_columns(q, &all);
            else
                pack_b(q, &all, ir_k(b, 0), q->depth);
        }
        ir_if_end(b, &columns);
    }
    bool staged = p->spec.stage.when == STAGE_UNIT, moves = q->m_blocks > 1 && !staged;
    struct ir_if rows =
        ir_if_begin(b, moves ? LLVMConstInt(int_type(b, 1), 1, false) : first, false);
    fill_table(q, q->rows, &p->spec.m, PRODUCT_A, staged ? ir_k(b, 0) : q->m0,
               staged ? p->m_block : p->m, product_m_rows(p));
    ir_if_end(b, &rows);
    emit_unit(q, m_block);
    ir_loop_end(b, &units);
}

static void make_tables(struct product *q) {
    const struct product_plan *p = q->p;
    int64_t table[64] = {0};
    q->one_tap = ir_table(q->b, table, 1);
    q->zeros = ir_table(q->b, table, (q->columns * q->size + 7) / 8);
    if (p->taps > 1) {
        q->a_taps = tap_table(q, PRODUCT_A);
        q->b_taps = tap_table(q, PRODUCT_B);
    }
    if (p->a_mode == A_IN_PLACE) return;
    for (int i = 0; i < p->rows; i++)
        table[i] = i * q->size * (p->a_mode == A_ROWS ? product_a_row(p) : 1);
    q->a_table = ir_table(q->b, table, p->rows);
}

void product_emit(struct cpu_builder *b, const struct cpu_target *target,
                  const struct product_plan *p, const struct product_code *given) {
    struct product_code code_here = *given, *code = &code_here;
    if (p->swapped) {
        code->a = given->b;
        code->b = given->a;
    }
    struct product q = {.b = b, .target = target, .p = p, .code = code};
    q.tile = (struct matmul_tile){p->type, p->rows, p->vectors, p->lanes, p->pair, p->how_pairs};
    q.columns = p->vectors * p->lanes;
    q.size = element_type_size(p->type);
    q.a_size = element_type_size(p->spec.a_type);
    q.a_unit = p->spec.stage.when == STAGE_NEVER ? q.a_size : q.size;
    q.b_size = element_type_size(p->spec.b_type);
    q.c_size = element_type_size(p->spec.c_type);
    q.n_blocks = product_n_blocks(p);
    q.m_blocks = product_m_blocks(p);
    if (p->method == PRODUCT_SUMS || p->method == PRODUCT_DOTS) {
        product_emit_vector(&q);
        return;
    }
    q.depth = p->shares_b || p->b_mode == B_PANELS ? p->k : product_k_rows(p);
    q.b_row = p->b_mode == B_ROWS ? stride_bytes(&q, inner_k(&q), PRODUCT_B) : q.columns * q.size;
    q.c_linear = product_dims_linear(&p->spec.m, PRODUCT_C, &q.c_m);
    q.c_linear = product_dims_linear(&p->spec.n, PRODUCT_C, &q.c_n) && q.c_linear;
    q.direct = q.c_linear && (q.c_n == 1 || p->n == 1) && !code->finish && q.c_size == q.size;
    if (p->method == PRODUCT_SMALL) {
        q.temp = ir_slot(b, cpu_value_type(b, p->type), p->n, 64);
        product_emit_small(&q);
        return;
    }
    struct product_scratch layout;
    product_layout(p, &layout);
    q.b_pack = ir_atk(b, code->scratch, layout.b);
    q.a_pack = ir_atk(b, code->scratch, layout.a);
    q.sums = ir_atk(b, code->scratch, layout.sums);
    q.rows = ir_atk(b, code->scratch, layout.rows);
    q.stage = ir_atk(b, code->scratch, layout.stage);
    q.cols = ir_atk(b, code->scratch, layout.columns);
    q.temp = ir_slot(b, cpu_value_type(b, p->type), (int64_t)p->rows * q.columns, 64);
    make_tables(&q);
    emit_units(&q);
}
