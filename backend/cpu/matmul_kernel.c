#include "backend/cpu/matmul_kernel.h"

#include <stdio.h>
#include <string.h>

#include "backend/cpu/codegen.h"
#include "backend/cpu/pack.h"

/* ---- which tile ---- */

/* What a tile takes a step of k, in units of one multiply-add: the multiply-adds, or the loads, or
 * the latency of a chain where there are too few chains to fill it; and a little for the loads
 * beside them and for what comes before and after the loop. */
static double tile_cost(int rows, int vectors) {
    double cost = rows * vectors, loads = rows + vectors, chains = 8;
    if (cost < loads) cost = loads;
    if (cost < chains) cost = chains;
    return cost + 0.05 * rows + 0.15 * vectors + 0.5;
}

static double product_cost(const struct matmul_tile *tile, int64_t m, int64_t n) {
    int64_t columns = matmul_tile_columns(tile);
    double tiles =
        (double)((m + tile->rows - 1) / tile->rows) * (double)((n + columns - 1) / columns);
    return tiles * tile_cost(tile->rows, tile->vectors);
}

bool matmul_tile_fits(const struct cpu_target *target, const struct matmul_tile *tile) {
    return tile->rows * tile->vectors + tile->vectors + 1 <= target->vector_registers;
}

/* The best for m by n; tile is what to beat by a margin, since few shapes of tiles are few
 * functions. */
static struct matmul_tile best_tile(const struct cpu_target *target, struct matmul_tile best,
                                    int64_t m, int64_t n, double margin) {
    double least = margin * product_cost(&best, m, n);
    struct matmul_tile tile = best;
    for (tile.rows = 1; tile.rows <= MATMUL_MOST_ROWS && tile.rows <= m; tile.rows++) {
        for (tile.vectors = 1; tile.vectors <= MATMUL_MOST_VECTORS; tile.vectors++) {
            if (!matmul_tile_fits(target, &tile)) break;
            if (tile.vectors > 1 && (tile.vectors - 1) * tile.lanes >= n) break;
            double cost = product_cost(&tile, m, n);
            if (cost >= least) continue;
            least = cost;
            best = tile;
        }
    }
    return best;
}

struct matmul_tile matmul_tile_choose(const struct cpu_target *target, enum element_type type,
                                      int64_t m, int64_t n) {
    enum { LARGE = 27720 }; /* a multiple of every tile's rows and columns, nearly */
    struct matmul_tile tile = {.type = type, .rows = 1, .vectors = 1};
    tile.lanes = target->vector_bytes / element_type_size(type);
    tile = best_tile(target, tile, LARGE, (int64_t)LARGE * 16, 1);
    return best_tile(target, tile, m, n, 0.97);
}

int64_t matmul_low_tiles(const struct matmul_tile *tile, int64_t last, int64_t m, int *low_rows) {
    double whole = tile_cost(tile->rows, tile->vectors), gain = 0.015;
    int64_t tiles = (last + tile->rows - 1) / tile->rows, best = 0;
    double least =
        (double)tiles * whole - gain * whole * (double)((m + tile->rows - 1) / tile->rows);
    for (int rows = tile->rows - 1; rows > 1; rows--) {
        double low = tile_cost(rows, tile->vectors);
        for (int64_t count = 1; count < tile->rows && count * rows < last; count++) {
            int64_t rest = last - count * rows;
            double cost = (double)(rest / tile->rows) * whole + (double)count * low;
            if (rest % tile->rows || cost >= least) continue;
            least = cost;
            best = count;
            *low_rows = rows;
        }
    }
    return best;
}

/* ---- small parts ---- */

LLVMTypeRef matmul_vector_type(struct cpu_builder *b, enum element_type type, int lanes) {
    return LLVMVectorType(cpu_value_type(b, type), (unsigned)lanes);
}

LLVMValueRef matmul_splat(struct cpu_builder *b, LLVMValueRef x, int lanes) {
    LLVMTypeRef i32 = int_type(b, 32);
    LLVMValueRef none = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), (unsigned)lanes));
    x = LLVMBuildInsertElement(b->builder, none, x, LLVMConstInt(i32, 0, false), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(i32, (unsigned)lanes));
    return LLVMBuildShuffleVector(b->builder, x, none, zeros, "");
}

LLVMValueRef matmul_multiply_add(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y,
                                 LLVMValueRef sum) {
    LLVMTypeRef type = LLVMTypeOf(x);
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) type = LLVMGetElementType(type);
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind) return i_add(b, sum, i_mul(b, x, y));
    return f_fma(b, x, y, sum);
}

void matmul_mark_wide(struct cpu_builder *b, const struct cpu_target *target,
                      LLVMValueRef function) {
    char bits[16];
    /* Narrower ones are used anyway; and each set of attributes makes LLVM set up the target anew.
     */
    if (target->vector_bytes <= 32) return;
    snprintf(bits, sizeof bits, "%d", 8 * target->vector_bytes);
    ir_function_attribute(b, function, "min-legal-vector-width", bits);
    ir_function_attribute(b, function, "prefer-vector-width", bits);
}

/* ---- the kernel ---- */

struct kernel {
    struct cpu_builder *b;
    struct matmul_tile tile;
    enum matmul_extras extras;
    int align;                         /* of elements of A and B */
    int size, vector_bytes, row_bytes; /* of an element, a vector, a row of the panel */
    LLVMTypeRef scalar, vector;        /* of sums */
    LLVMTypeRef element, panel;        /* of A and B */
    LLVMValueRef row[MATMUL_MOST_ROWS], step, b_row, next_step;
};

static bool asks_ahead(const struct kernel *k) {
    return (k->extras & MATMUL_AHEAD) != 0;
}

static bool packs(const struct kernel *k) {
    return (k->extras & ~MATMUL_AHEAD) != 0;
}

/* What changes from one step of k to the next. */
struct state {
    LLVMValueRef x;    /* offset of A's column */
    LLVMValueRef b;    /* row of the panel */
    LLVMValueRef next; /* NULL where nothing is asked for */
    LLVMValueRef to;   /* row of the panel that is packed; NULL where none is */
    LLVMValueRef sums[MATMUL_MOST_ROWS * MATMUL_MOST_VECTORS];
};

/* Even and odd elements of a vector of pairs, widened. */
static LLVMValueRef half(struct kernel *k, LLVMValueRef pairs, bool odd) {
    struct cpu_builder *b = k->b;
    LLVMTypeRef i32 = int_type(b, 32), wide = LLVMVectorType(i32, (unsigned)k->tile.lanes);
    LLVMValueRef x = LLVMBuildBitCast(b->builder, pairs, wide, "");
    LLVMValueRef by = matmul_splat(b, LLVMConstInt(i32, 16, false), k->tile.lanes);
    bool real = k->tile.pair == TYPE_BF16;
    if (!odd) x = i_shl(b, x, by);
    if (odd && real) x = i_shl(b, i_lshr(b, x, by), by);
    if (!real) x = i_ashr(b, x, by);
    return real ? LLVMBuildBitCast(b->builder, x, k->vector, "") : x;
}

static LLVMValueRef call_intrinsic(struct cpu_builder *b, const char *name, int count,
                                   LLVMValueRef *arguments) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(b->module, id, NULL, 0);
    return LLVMBuildCall2(b->builder, LLVMGlobalGetValueType(callee), callee, arguments,
                          (unsigned)count, "");
}

/* sum + the products of both elements of each pair. The integers' sum fits or wraps as s32 does. */
static LLVMValueRef pair_multiply_add(struct kernel *k, LLVMValueRef x, LLVMValueRef y,
                                      LLVMValueRef sum) {
    static const struct {
        int bytes;
        const char *s16, *bf16;
    } names[] = {{16, "llvm.x86.sse2.pmadd.wd", "llvm.x86.avx512bf16.dpbf16ps.128"},
                 {32, "llvm.x86.avx2.pmadd.wd", "llvm.x86.avx512bf16.dpbf16ps.256"},
                 {64, "llvm.x86.avx512.pmaddw.d.512", "llvm.x86.avx512bf16.dpbf16ps.512"}};
    struct cpu_builder *b = k->b;
    bool real = k->tile.pair == TYPE_BF16;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (k->tile.how_pairs != PAIRS_INSTRUCTION || names[i].bytes != k->vector_bytes) continue;
        if (real) return call_intrinsic(b, names[i].bf16, 3, (LLVMValueRef[]){sum, x, y});
        return i_add(b, sum, call_intrinsic(b, names[i].s16, 2, (LLVMValueRef[]){x, y}));
    }
    for (int odd = 1; odd >= 0; odd--)
        sum = matmul_multiply_add(b, half(k, x, odd), half(k, y, odd), sum);
    return sum;
}

/* A vector of a row of B. */
static LLVMValueRef load_panel(struct kernel *k, LLVMValueRef row, int vector) {
    struct cpu_builder *b = k->b;
    enum element_type from = matmul_packs_from(k->extras, &k->tile);
    if (from == k->tile.type)
        return ir_load(b, k->panel, ir_atk(b, row, vector * k->vector_bytes), k->align);
    int size = element_type_size(from);
    LLVMTypeRef type = LLVMVectorType(cpu_memory_type(b, from), (unsigned)k->tile.lanes);
    LLVMValueRef at = ir_atk(b, row, (int64_t)vector * k->tile.lanes * size);
    return pack_convert_vector(b, ir_load(b, type, at, size), from, k->tile.type);
}

static void one_step(struct kernel *k, struct state *s) {
    struct cpu_builder *b = k->b;
    LLVMValueRef panel[MATMUL_MOST_VECTORS];
    int vectors = k->tile.vectors;
    for (int v = 0; v < vectors; v++) {
        panel[v] = load_panel(k, s->b, v);
        if (packs(k)) ir_store(b, panel[v], ir_atk(b, s->to, v * k->vector_bytes), k->align);
    }
    for (int i = 0; i < k->tile.rows; i++) {
        LLVMValueRef a = ir_load(b, k->element, ir_at(b, k->row[i], s->x), k->align);
        a = LLVMBuildBitCast(b->builder, matmul_splat(b, a, k->tile.lanes), k->panel, "");
        for (int v = 0; v < vectors; v++) {
            LLVMValueRef *sum = &s->sums[i * vectors + v];
            *sum = k->tile.pair == TYPE_INVALID ? matmul_multiply_add(b, a, panel[v], *sum)
                                                : pair_multiply_add(k, a, panel[v], *sum);
        }
    }
    s->x = ir_add(b, s->x, k->step);
    s->b = ir_at(b, s->b, k->b_row);
    if (packs(k)) s->to = ir_atk(b, s->to, k->row_bytes);
}

/* Phis for a state, coming from `from` with the values of `start`. */
static struct state state_phis(struct kernel *k, const struct state *start,
                               LLVMBasicBlockRef from) {
    LLVMBuilderRef l = k->b->builder;
    struct state s;
    s.x = LLVMBuildPhi(l, ir_i64(k->b), "");
    s.b = LLVMBuildPhi(l, ir_pointer(k->b), "");
    s.next = asks_ahead(k) ? LLVMBuildPhi(l, ir_pointer(k->b), "") : NULL;
    if (s.next) LLVMAddIncoming(s.next, (LLVMValueRef *)&start->next, &from, 1);
    s.to = packs(k) ? LLVMBuildPhi(l, ir_pointer(k->b), "") : NULL;
    if (s.to) LLVMAddIncoming(s.to, (LLVMValueRef *)&start->to, &from, 1);
    LLVMAddIncoming(s.x, (LLVMValueRef *)&start->x, &from, 1);
    LLVMAddIncoming(s.b, (LLVMValueRef *)&start->b, &from, 1);
    for (int i = 0; i < k->tile.rows * k->tile.vectors; i++) {
        s.sums[i] = LLVMBuildPhi(l, k->vector, "");
        LLVMAddIncoming(s.sums[i], (LLVMValueRef *)&start->sums[i], &from, 1);
    }
    return s;
}

static void state_incoming(struct kernel *k, struct state *phis, struct state *values,
                           LLVMBasicBlockRef from) {
    LLVMAddIncoming(phis->x, &values->x, &from, 1);
    LLVMAddIncoming(phis->b, &values->b, &from, 1);
    if (phis->next) LLVMAddIncoming(phis->next, &values->next, &from, 1);
    if (phis->to) LLVMAddIncoming(phis->to, &values->to, &from, 1);
    for (int i = 0; i < k->tile.rows * k->tile.vectors; i++)
        LLVMAddIncoming(phis->sums[i], &values->sums[i], &from, 1);
}

void matmul_prefetch(struct cpu_builder *b, LLVMValueRef at, bool to_write, enum matmul_near near) {
    enum { DATA = 1 };
    LLVMTypeRef i32 = int_type(b, 32), pointer = ir_pointer(b);
    unsigned id = LLVMLookupIntrinsicID("llvm.prefetch", 13);
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(b->module, id, &pointer, 1);
    LLVMValueRef arguments[] = {at, LLVMConstInt(i32, to_write, false),
                                LLVMConstInt(i32, near, false), LLVMConstInt(i32, DATA, false)};
    ir_call(b, callee, 4, arguments);
}

/* A loop over some number of steps, several at a time or not. */
struct step_loop {
    LLVMBasicBlockRef body, after;
    LLVMValueRef left; /* steps, this turn's with them */
    struct state phis;
};

static struct step_loop step_loop_begin(struct kernel *k, struct state *s, LLVMValueRef count,
                                        const char *name) {
    struct cpu_builder *b = k->b;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b->builder);
    struct step_loop loop = {.body = ir_block(b, name), .after = ir_block(b, name)};
    LLVMBuildBr(b->builder, loop.body);
    LLVMPositionBuilderAtEnd(b->builder, loop.body);
    loop.left = LLVMBuildPhi(b->builder, ir_i64(b), "");
    LLVMAddIncoming(loop.left, &count, &before, 1);
    loop.phis = state_phis(k, s, before);
    *s = loop.phis;
    return loop;
}

static void step_loop_end(struct kernel *k, struct state *s, struct step_loop *loop,
                          LLVMValueRef rest) {
    struct cpu_builder *b = k->b;
    LLVMBasicBlockRef last = LLVMGetInsertBlock(b->builder);
    LLVMAddIncoming(loop->left, &rest, &last, 1);
    state_incoming(k, &loop->phis, s, last);
    LLVMBuildCondBr(b->builder, i_cmpk(b, LLVMIntNE, rest, 0), loop->body, loop->after);
    LLVMPositionBuilderAtEnd(b->builder, loop->after);
}

/* `count` steps. A loop of one step takes no longer than an unrolled one, and is quick to
 * compile. */
static void steps(struct kernel *k, struct state *s, LLVMValueRef count) {
    struct step_loop loop = step_loop_begin(k, s, count, "k");
    one_step(k, s);
    step_loop_end(k, s, &loop, ir_addk(k->b, loop.left, -1));
}

/* The same, a few steps at a time; between them a line is asked for that will be packed next. */
static void steps_asking(struct kernel *k, struct state *s, LLVMValueRef run) {
    struct cpu_builder *b = k->b;
    struct step_loop loop = step_loop_begin(k, s, run, "steps");
    LLVMTypeRef byte = LLVMInt8TypeInContext(b->context);
    for (int i = 0; i < MATMUL_KERNEL_LINES; i++) {
        matmul_prefetch(b, s->next, false, MATMUL_NEAR_L2);
        s->next = LLVMBuildGEP2(b->builder, byte, s->next, &k->next_step, 1, "");
    }
    LLVMValueRef count = ir_min(b, loop.left, ir_k(b, MATMUL_KERNEL_STEPS));
    steps(k, s, count);
    step_loop_end(k, s, &loop, LLVMBuildNSWSub(b->builder, loop.left, count, ""));
}

/* c = from + sums. Sums start from +0 and so are never -0: adding zeros to them is exact. */
static void store_tile(struct kernel *k, struct state *s, LLVMValueRef function) {
    struct cpu_builder *b = k->b;
    LLVMValueRef c = LLVMGetParam(function, 8), c_row = LLVMGetParam(function, 9);
    LLVMValueRef from = LLVMGetParam(function, 10), from_row = LLVMGetParam(function, 11);
    for (int i = 0; i < k->tile.rows; i++) {
        for (int v = 0; v < k->tile.vectors; v++) {
            LLVMValueRef sum = s->sums[i * k->tile.vectors + v];
            LLVMValueRef old = ir_load(b, k->vector, ir_atk(b, from, v * k->vector_bytes), k->size);
            sum = element_type_is_float(k->tile.type) ? f_add(b, old, sum) : i_add(b, old, sum);
            ir_store(b, sum, ir_atk(b, c, v * k->vector_bytes), k->size);
        }
        if (i + 1 == k->tile.rows) break;
        c = ir_at(b, c, c_row);
        from = ir_at(b, from, from_row);
    }
}

/* Asks for the tile of C, which is needed when the sums are done. */
static void prefetch_tile(struct kernel *k, LLVMValueRef c, LLVMValueRef c_row) {
    struct cpu_builder *b = k->b;
    for (int i = 0; i < k->tile.rows; i++) {
        for (int at = 0; at < k->row_bytes; at += MATMUL_LINE)
            matmul_prefetch(b, ir_atk(b, c, at), true, MATMUL_NEAR_L1);
        if (i + 1 < k->tile.rows) c = ir_at(b, c, c_row);
    }
}

static void kernel_body(struct kernel *k, LLVMValueRef function) {
    struct cpu_builder *b = k->b;
    LLVMValueRef rows = LLVMGetParam(function, 0), a = LLVMGetParam(function, 1);
    LLVMValueRef tap_table = LLVMGetParam(function, 3);
    k->step = LLVMGetParam(function, 2);
    k->b_row = LLVMGetParam(function, 7);
    for (int i = 0; i < k->tile.rows; i++) {
        LLVMValueRef offset = ir_load(b, ir_i64(b), ir_atk(b, rows, 8 * i), 8);
        k->row[i] = ir_at(b, a, offset);
    }
    prefetch_tile(k, LLVMGetParam(function, 8), LLVMGetParam(function, 9));
    struct state start = {ir_k(b, 0),
                          LLVMGetParam(function, 6),
                          LLVMGetParam(function, 12),
                          LLVMGetParam(function, 14),
                          {NULL}};
    k->next_step = LLVMGetParam(function, 13);
    for (int i = 0; i < k->tile.rows * k->tile.vectors; i++)
        start.sums[i] = LLVMConstNull(k->vector);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b->builder);
    struct ir_loop taps = ir_loop_begin(b, ir_k(b, 0), LLVMGetParam(function, 4), 1, false);
    struct state s = state_phis(k, &start, before), phis = s;
    s.x = ir_load(b, ir_i64(b), ir_at(b, tap_table, ir_mulk(b, taps.i, 8)), 8);
    LLVMValueRef run = LLVMGetParam(function, 5);
    if (asks_ahead(k))
        steps_asking(k, &s, run);
    else
        steps(k, &s, run);
    state_incoming(k, &phis, &s, LLVMGetInsertBlock(b->builder));
    ir_loop_end(b, &taps);
    store_tile(k, &s, function);
}

LLVMValueRef matmul_kernel_emit(struct cpu_builder *b, const struct cpu_target *target,
                                const struct matmul_tile *tile, enum matmul_extras extras) {
    char name[64];
    bool pairs = tile->pair != TYPE_INVALID;
    bool packs = (extras & ~MATMUL_AHEAD) != 0;
    snprintf(name, sizeof name, "product.%s%s%s.%dx%d%s%s%s", element_type_name(tile->type),
             pairs ? "." : "", pairs ? element_type_name(tile->pair) : "", tile->rows,
             matmul_tile_columns(tile), extras & MATMUL_AHEAD ? ".ahead" : "",
             packs ? ".pack." : "",
             packs ? element_type_name(matmul_packs_from(extras, tile)) : "");
    LLVMValueRef function = LLVMGetNamedFunction(b->module, name);
    if (function) return function;
    LLVMTypeRef i64 = ir_i64(b), p = ir_pointer(b);
    LLVMTypeRef types[MATMUL_KERNEL_ARGUMENTS] = {p, p,   i64, p,   i64, i64, p, i64,
                                                  p, i64, p,   i64, p,   i64, p};
    LLVMBasicBlockRef back;
    function = ir_function_begin(b, name, MATMUL_KERNEL_ARGUMENTS, types, &back);
    matmul_mark_wide(b, target, function);
    ir_function_attribute(b, function, CODEGEN_FINAL, "");
    int size = element_type_size(tile->type);
    struct kernel k = {
        .b = b, .tile = *tile, .extras = extras, .size = size, .vector_bytes = size * tile->lanes};
    k.row_bytes = k.vector_bytes * tile->vectors;
    k.scalar = cpu_value_type(b, tile->type);
    k.vector = LLVMVectorType(k.scalar, (unsigned)tile->lanes);
    k.element = pairs ? int_type(b, 32) : k.scalar;
    k.panel = k.vector;
    k.align = pairs ? size / 2 : size;
    if (pairs) {
        LLVMTypeRef one =
            tile->pair == TYPE_BF16 ? LLVMBFloatTypeInContext(b->context) : int_type(b, 16);
        k.panel = LLVMVectorType(one, 2 * (unsigned)tile->lanes);
    }
    kernel_body(&k, function);
    ir_function_end(b, back);
    return function;
}

LLVMValueRef matmul_kernel(struct cpu_builder *b, const struct cpu_target *target,
                           const struct matmul_tile *tile, enum matmul_extras extras) {
    bool there = target->kernels && tile->type == TYPE_F32 && tile->pair == TYPE_INVALID &&
                 4 * tile->lanes == target->vector_bytes && matmul_tile_fits(target, tile);
    if (!there) return matmul_kernel_emit(b, target, tile, extras);
    LLVMValueRef table = LLVMGetNamedGlobal(b->module, target->kernels);
    if (!table) {
        LLVMTypeRef type = LLVMArrayType2(ir_pointer(b), MATMUL_KERNELS);
        table = LLVMAddGlobal(b->module, type, target->kernels);
        LLVMSetGlobalConstant(table, true);
    }
    int64_t place = matmul_kernel_number(tile, extras) * (int64_t)sizeof(void *);
    return ir_load(b, ir_pointer(b), ir_atk(b, table, place), sizeof(void *));
}
