/* Kernels that store element by element: everything that gen_element can compose, and updates of a
 * part of an array. */
#include "backend/cpu/lowering.h"

#include <string.h>

#include "backend/cpu/emit.h"
#include "backend/cpu/stream.h"

/* Work (operations) for which larger code that runs faster pays. */
enum { LEAST_INTERLEAVED = 1 << 20, INTERLEAVE = 4 };
enum { CHUNK = 1024 }; /* elements that are computed before they are streamed */

/* ---- the results of an instruction ---- */

/* One array that a kernel stores: leaf `leaf` of `instr`, in the activation at hand. */
struct result {
    const struct hlo_instr *instr;
    int leaf;
    const struct shape *shape;
    LLVMValueRef pointer;
};

static void add_results(struct cpu_kernel *k, const struct hlo_instr *instr, struct result *results,
                        int *n) {
    if (instr->opcode == OP_TUPLE) {
        for (int i = 0; i < instr->noperands; i++)
            add_results(k, instr->operands[i], results, n);
        return;
    }
    for (int leaf = 0; leaf < instr->shape->nleaves; leaf++, (*n)++)
        results[*n] = (struct result){instr, leaf, shape_leaf(instr->shape, leaf), k->out[*n]};
}

void gen_bind_operands(struct cpu_gen *g, const struct cpu_kernel *k) {
    LLVMValueRef *at = k->in;
    for (int i = 0; i < k->instr->noperands; i++) {
        const struct hlo_instr *operand = k->instr->operands[i];
        if (!gen_leaves(g, operand)) gen_bind_leaves(g, operand, at);
        at += operand->shape->nleaves;
    }
}

const struct hlo_instr *gen_enter_kernel(struct cpu_gen *g, const struct cpu_kernel *k) {
    if (k->instr->opcode != OP_FUSION) {
        gen_bind_operands(g, k);
        return k->instr;
    }
    const struct hlo_computation *fused = k->instr->called[0];
    LLVMValueRef *at = k->in;
    for (int i = 0; i < fused->nparameters; i++) {
        gen_bind_leaves(g, fused->parameters[i], at);
        at += fused->parameters[i]->shape->nleaves;
    }
    return fused->root;
}

/* ---- loops over elements ---- */

/* Whether every element is computed from the operands' elements at the same place of row-major
 * order, so that one loop over all of them does. What has one element is the same everywhere. */
static bool keeps_place(const struct hlo_instr *instr, const struct hlo_instr *root) {
    if (instr->shape->count == 1 || instr->opcode == OP_PARAMETER) return true;
    if (instr->shape->count != root->shape->count) return false;
    if (instr->opcode == OP_BROADCAST) return instr->operands[0]->shape->count == 1;
    return (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) ||
           instr->opcode == OP_RESHAPE || instr->opcode == OP_BITCAST || instr->opcode == OP_COPY;
}

static bool is_flat(const struct hlo_instr *instr) {
    if (instr->opcode != OP_FUSION)
        return shape_is_array(instr->shape) && keeps_place(instr, instr);
    const struct hlo_computation *fused = instr->called[0];
    const struct hlo_instr *root = fused->root;
    if (root->opcode == OP_TUPLE) {
        if (root->noperands == 0) return false;
        root = root->operands[0];
    }
    if (!shape_is_array(root->shape)) return false;
    for (const struct hlo_instr *i = fused->first; i; i = i->next) {
        if (i == fused->root && i->opcode == OP_TUPLE) {
            for (int k = 0; k < i->noperands; k++)
                if (!shape_is_array(i->operands[k]->shape) ||
                    i->operands[k]->shape->count != root->shape->count)
                    return false;
        } else if (!shape_is_array(i->shape) || !keeps_place(i, root)) {
            return false;
        }
    }
    return true;
}

static bool one_shape(const struct hlo_instr *instr) {
    for (int i = 1; i < instr->shape->nleaves; i++)
        if (!shape_same_dims(shape_leaf(instr->shape, i), shape_leaf(instr->shape, 0)))
            return false;
    return true;
}

/* A row: the dims from `first` on. The loop goes along `first`; what comes after it is so short
 * that it is written out, so that vectors go along something longer. */
struct row {
    int first;
    int64_t written; /* elements in each step of the loop */
    int64_t pieces;  /* that the loop goes in, where there are few rows to share */
    int64_t period;  /* elements of a piece, where what is read begins anew with each; or 0 */
    int64_t phases;  /* elements of each step that are computed in ways of their own; or 1 */
};

/* Where a reshape joins a shorter last dimension to others, as in tiles: its size. */
static int64_t period_of(const struct hlo_instr *instr, const struct shape *shape, int dim) {
    enum { LEAST_PERIOD = 8 };
    int64_t size = shape->dims[dim], period = size;
    if (instr->opcode != OP_FUSION || dim != gen_inner_dim(shape)) return 0;
    for (const struct hlo_instr *i = instr->called[0]->first; i; i = i->next) {
        if (i->opcode != OP_RESHAPE || !shape_same_dims(i->shape, shape)) continue;
        const struct shape *from = i->operands[0]->shape;
        if (i->operands[0]->opcode == OP_PARAMETER || from->rank == 0) continue;
        int64_t inner = from->dims[gen_inner_dim(from)];
        if (inner < period && inner > 0 && period % inner == 0) period = inner;
    }
    return period < size && period >= LEAST_PERIOD ? period : 0;
}

static int64_t phases_of_one(const struct hlo_instr *instr, const struct shape *shape, int dim) {
    enum { MOST_PHASES = 8 };
    if (instr->opcode != OP_PAD || !shape_same_dims(instr->shape, shape)) return 1;
    struct padding_dim p = instr_attr(instr, ATTR_PADDING)->padding->v[dim];
    return p.low == 0 && p.interior > 0 && p.interior < MOST_PHASES ? p.interior + 1 : 1;
}

/* Every so many elements of a row, a pad has one of its operand. */
static int64_t phases_of(const struct hlo_instr *instr, const struct shape *shape, int dim) {
    if (instr->opcode != OP_FUSION) return phases_of_one(instr, shape, dim);
    int64_t phases = 1;
    for (const struct hlo_instr *i = instr->called[0]->first; i && phases == 1; i = i->next)
        phases = phases_of_one(i, shape, dim);
    return phases;
}

static struct row row_of(const struct hlo_instr *instr, const struct shape *shape) {
    enum { MOST_WRITTEN = 8, MOST_INSTRS = 480, FEW_ROWS = 16, PIECES = 32, LONG_ROW = 2048 };
    struct row row = {
        .first = shape->rank ? gen_inner_dim(shape) : 0, .written = 1, .pieces = 1, .phases = 1};
    int64_t instrs = instr->opcode == OP_FUSION ? instr->called[0]->count : 1;
    while (row.first > 0) {
        int64_t size = shape->dims[row.first], written = row.written * size;
        if (written > MOST_WRITTEN || written * instrs > MOST_INSTRS) break;
        int next = row.first - 1; /* the next that is not 1 */
        while (next > 0 && shape->dims[next] == 1)
            next--;
        if (shape->dims[next] < size) break;
        row.first = next;
        row.written = written;
    }
    if (shape->rank && row.written == 1) row.period = period_of(instr, shape, row.first);
    if (row.period) row.pieces = shape->dims[row.first] / row.period;
    if (row.period) return row;
    if (shape->rank && row.written == 1) row.phases = phases_of(instr, shape, row.first);
    int64_t rows = 1;
    for (int d = 0; d < row.first; d++)
        rows *= shape->dims[d];
    if (shape->rank && rows < FEW_ROWS && shape->dims[row.first] >= LONG_ROW) row.pieces = PIECES;
    return row;
}

static int64_t pieces_of(const struct hlo_instr *instr, const struct shape *shape) {
    struct row row = row_of(instr, shape);
    int64_t pieces = row.pieces;
    for (int d = 0; d < row.first; d++)
        pieces *= shape->dims[d];
    return pieces;
}

bool loop_kernel_writes_out(const struct hlo_instr *instr, int dim) {
    const struct shape *shape = shape_leaf(instr->shape, 0);
    return !is_flat(instr) && one_shape(instr) && dim > row_of(instr, shape).first;
}

LLVMValueRef gen_part(struct cpu_gen *g, int64_t size, int64_t parts, LLVMValueRef part) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef whole = LLVMBuildMul(b, part, gen_i64(g, size / parts), "");
    LLVMValueRef rest = LLVMBuildMul(b, part, gen_i64(g, size % parts), "");
    return LLVMBuildAdd(b, whole, LLVMBuildUDiv(b, rest, gen_i64(g, parts), ""), "");
}

/* Elements, pieces of rows, or all at once. */
int64_t loop_kernel_units(const struct hlo_instr *instr) {
    if (is_flat(instr)) return shape_leaf(instr->shape, 0)->count;
    return one_shape(instr) ? pieces_of(instr, shape_leaf(instr->shape, 0)) : 1;
}

static LLVMValueRef **index_arrays(struct cpu_gen *g, int n) {
    LLVMValueRef **index = arena_array(g->arena, (size_t)n + 1, sizeof *index);
    for (int i = 0; i < n; i++)
        index[i] = arena_array(g->arena, SHAPE_MAX_RANK, sizeof **index);
    return index;
}

/* Whether the results are large enough for stores past the caches, and no operand's memory. */
static bool may_stream(const struct cpu_gen *g, const struct cpu_kernel *k, int n,
                       const struct result *results) {
    enum { MOST = 4 };
    if (n > MOST) return false;
    for (int i = 0; i < n; i++) {
        if (!stream_pays(g, results[i].shape->bytes)) return false;
        for (int in = 0; in < k->nin; in++)
            if (k->in[in] == results[i].pointer) return false;
    }
    return true;
}

static bool widens_half(const struct hlo_instr *instr) {
    for (int i = 0; i < instr->noperands; i++)
        if ((opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) &&
            instr->operands[i]->shape->type == TYPE_F16 && instr->opcode != OP_SELECT)
            return true;
    return false;
}

/* Lanes for loops that compute with f16, where LLVM would take half of a register; or 0. */
static int half_lanes(const struct cpu_gen *g, const struct hlo_instr *instr) {
    bool widens = widens_half(instr);
    if (instr->opcode == OP_FUSION)
        for (const struct hlo_instr *i = instr->called[0]->first; i && !widens; i = i->next)
            widens = widens_half(i);
    return widens ? g->target.vector_bytes / 4 : 0;
}

/* Vectors at once in an ended loop of much work. A long body keeps the processor busy by itself,
 * and takes as long to compile as several short ones. */
static int interleave(const struct cpu_loop *loop) {
    enum { LONG_BODY = 250 };
    int n = 0;
    for (LLVMBasicBlockRef k = loop->body; k && k != loop->exit; k = LLVMGetNextBasicBlock(k))
        for (LLVMValueRef i = LLVMGetFirstInstruction(k); i; i = LLVMGetNextInstruction(i))
            n++;
    return n > LONG_BODY ? 1 : INTERLEAVE;
}

/* Elements [from, to) of all results, which have them at the same place of row-major order: element
 * i of result r is stored at targets[r][i - first]. */
static void emit_elements(struct cpu_gen *g, struct cpu_kernel *k, int n,
                          const struct result *results, LLVMValueRef from, LLVMValueRef to,
                          LLVMValueRef first, const LLVMValueRef *targets) {
    LLVMValueRef **index = index_arrays(g, n), values[GEN_MOST_LEAVES];
    struct cpu_loop loop = gen_range_begin(g, from, to);
    gen_index_bound(g, loop.i, results[0].shape->count);
    for (int i = 0; i < n; i++)
        gen_delinear(g, results[i].shape, loop.i, index[i]);
    LLVMValueRef place = LLVMBuildSub(g->b.builder, loop.i, first, "");
    /* Values first, then stores: an output may be the same memory as an operand. */
    for (int i = 0; i < n; i++)
        values[i] = gen_leaf_element(g, results[i].instr, results[i].leaf, index[i]);
    for (int i = 0; i < n; i++)
        gen_store(g,
                  shape_array(g->hlo->shapes, results[i].shape->type, 1, &results[i].shape->count),
                  targets[i], &place, values[i]);
    gen_loop_end(g, &loop);
    gen_loop_vectors(g, &loop, half_lanes(g, k->instr),
                     cpu_work_of(k->instr) >= LEAST_INTERLEAVED ? interleave(&loop) : 0);
}

/* Chunk by chunk through memory that stays in the first-level cache. What is no whole chunk, and
 * results that do not begin with a line, are stored where they belong at once. */
static void emit_streamed(struct cpu_gen *g, struct cpu_kernel *k, int n,
                          const struct result *results) {
    LLVMBuilderRef b = g->b.builder;
    LLVMValueRef buffers[GEN_MOST_LEAVES], targets[GEN_MOST_LEAVES] = {0}, places[GEN_MOST_LEAVES];
    LLVMValueRef size = gen_i64(g, CHUNK), whole = stream_is_aligned(g, results[0].pointer);
    LLVMValueRef last = LLVMBuildAdd(b, k->end, gen_i64(g, CHUNK - 1), "");
    for (int i = 0; i < n; i++) {
        buffers[i] = gen_alloca(g, cpu_memory_type(&g->b, results[i].shape->type), CHUNK);
        whole = LLVMBuildAnd(b, whole, stream_is_aligned(g, results[i].pointer), "");
    }
    struct cpu_loop chunks =
        gen_range_begin(g, LLVMBuildUDiv(b, k->begin, size, ""), LLVMBuildUDiv(b, last, size, ""));
    LLVMValueRef from = LLVMBuildMul(b, chunks.i, size, ""), to = LLVMBuildAdd(b, from, size, "");
    whole = LLVMBuildAnd(b, whole, LLVMBuildICmp(b, LLVMIntSGE, from, k->begin, ""), "");
    whole = LLVMBuildAnd(b, whole, LLVMBuildICmp(b, LLVMIntSLE, to, k->end, ""), "");
    from = emit_intrinsic(&g->b, "llvm.smax", 2, (LLVMValueRef[]){from, k->begin});
    to = emit_intrinsic(&g->b, "llvm.smin", 2, (LLVMValueRef[]){to, k->end});
    for (int i = 0; i < n; i++) {
        LLVMTypeRef type = cpu_memory_type(&g->b, results[i].shape->type);
        places[i] = LLVMBuildInBoundsGEP2(b, type, results[i].pointer, &from, 1, "");
        targets[i] = LLVMBuildSelect(b, whole, buffers[i], places[i], "");
        gen_part_of(g, targets[i], results[i].pointer);
    }
    emit_elements(g, k, n, results, from, to, from, targets);
    LLVMBasicBlockRef after = gen_guard_begin(g, whole);
    for (int i = 0; i < n; i++)
        stream_copy(g, places[i], buffers[i], CHUNK * element_type_size(results[i].shape->type));
    gen_guard_end(g, after);
    gen_loop_end(g, &chunks);
    stream_end(g);
}

static void emit_flat(struct cpu_gen *g, struct cpu_kernel *k, int n,
                      const struct result *results) {
    LLVMValueRef *targets = arena_array(g->arena, (size_t)n, sizeof *targets);
    if (may_stream(g, k, n, results)) {
        emit_streamed(g, k, n, results);
        return;
    }
    for (int i = 0; i < n; i++)
        targets[i] = results[i].pointer;
    emit_elements(g, k, n, results, k->begin, k->end, gen_i64(g, 0), targets);
}

/* All elements of a step: element e of each of the results is at index[e]. */
static void store_step(struct cpu_gen *g, int n, const struct result *results, int64_t written,
                       LLVMValueRef *const *index) {
    LLVMValueRef *values = arena_array(g->arena, (size_t)(n * written) + 1, sizeof *values);
    for (int64_t e = 0; e < written; e++)
        for (int i = 0; i < n; i++)
            values[e * n + i] = gen_leaf_element(g, results[i].instr, results[i].leaf, index[e]);
    for (int64_t e = 0; e < written; e++)
        for (int i = 0; i < n; i++)
            gen_store(g, results[i].shape, results[i].pointer, index[e], values[e * n + i]);
}

/* Places along a dimension at which a concatenation or a pad of the results' shape goes over to
 * something else: between two of them, loops need no selection. */
enum { MOST_CUTS = 6, CUT_INSTRS = 240, LANES = 8 };

static void add_cut(int64_t *cuts, int *n, int64_t at, int64_t size) {
    int i = *n;
    if (at <= 0 || at >= size || *n > MOST_CUTS) return;
    for (int k = 0; k < *n; k++)
        if (cuts[k] == at) return;
    for (; i > 0 && cuts[i - 1] > at; i--)
        cuts[i] = cuts[i - 1];
    cuts[i] = at;
    ++*n;
}

static void add_cuts(const struct hlo_instr *instr, const struct shape *shape, int dim,
                     int64_t *cuts, int *n) {
    int64_t size = shape->dims[dim], at = 0;
    if (!shape_is_array(instr->shape) || !shape_same_dims(instr->shape, shape)) return;
    if (instr->opcode == OP_CONCATENATE && instr_ints(instr, ATTR_DIMENSIONS).v[0] == dim) {
        for (int i = 0; i < instr->noperands; i++)
            add_cut(cuts, n, at += instr->operands[i]->shape->dims[dim], size);
    } else if (instr->opcode == OP_PAD) {
        struct padding_dim p = instr_attr(instr, ATTR_PADDING)->padding->v[dim];
        if (p.interior) return;
        add_cut(cuts, n, p.low, size);
        add_cut(cuts, n, p.low + instr->operands[0]->shape->dims[dim], size);
    }
}

/* Ends of the parts of the loop along row.first, the last of which is its size. */
static int parts_of(const struct hlo_instr *instr, const struct shape *shape, int dim,
                    int64_t *ends) {
    int n = 0;
    int64_t instrs = 1;
    if (instr->opcode == OP_FUSION) {
        instrs = instr->called[0]->count;
        for (const struct hlo_instr *i = instr->called[0]->first; i; i = i->next)
            add_cuts(i, shape, dim, ends, &n);
    } else {
        add_cuts(instr, shape, dim, ends, &n);
    }
    /* Of less than two vectors the first would be whole, the second masked. */
    if (n == 0 && shape->dims[dim] < 2 * LANES) add_cut(ends, &n, LANES, shape->dims[dim]);
    if (n > MOST_CUTS || (n + 1) * instrs > CUT_INSTRS) n = 0;
    ends[n++] = shape->dims[dim];
    return n;
}

/* The steps of a row from `from` to `to`, both in the part of it that begins at `start` and has
 * `size` of them. index[0] has the dims before. */
static void emit_part(struct cpu_gen *g, const struct hlo_instr *instr, const struct row *row,
                      int n, const struct result *results, LLVMValueRef **index, LLVMValueRef start,
                      int64_t size, LLVMValueRef from, LLVMValueRef to) {
    const struct shape *shape = results[0].shape;
    struct cpu_loop loop = gen_range_begin(g, from, to);
    gen_index_bound(g, loop.i, size);
    index[0][row->first] = gen_index_add(g, start, gen_index_mul(g, loop.i, row->phases));
    for (int64_t e = row->written * row->phases - 1; e >= 0; e--) {
        int64_t place = e;
        memcpy(index[e], index[0], (size_t)(row->first + 1) * sizeof *index[0]);
        for (int d = shape->rank - 1; d > row->first; d--) {
            index[e][d] = gen_i64(g, place % shape->dims[d]);
            place /= shape->dims[d];
        }
        index[e][row->first] = gen_index_add(g, index[0][row->first], gen_i64(g, place));
    }
    store_step(g, n, results, row->written * row->phases, index);
    gen_loop_end(g, &loop);
    gen_loop_vectors(g, &loop, size < LANES ? 1 : half_lanes(g, instr), 0);
}

/* What comes after whole steps, in the last piece. */
static void emit_rest(struct cpu_gen *g, const struct hlo_instr *instr, const struct row *row,
                      int n, const struct result *results, LLVMValueRef **index,
                      LLVMValueRef piece) {
    LLVMBuilderRef b = g->b.builder;
    struct row rest = *row;
    int64_t size = results[0].shape->dims[row->first], count = size % row->phases;
    if (count == 0) return;
    rest.phases = 1;
    LLVMValueRef last = LLVMBuildICmp(b, LLVMIntEQ, piece, gen_i64(g, row->pieces - 1), "");
    LLVMValueRef to = LLVMBuildSelect(b, last, gen_i64(g, count), gen_i64(g, 0), "");
    emit_part(g, instr, &rest, n, results, index, gen_i64(g, size - count), count, gen_i64(g, 0),
              to);
}

/* x - start, within 0 .. size. */
static LLVMValueRef in_part(struct cpu_gen *g, LLVMValueRef x, int64_t start, int64_t size) {
    LLVMValueRef at = LLVMBuildSub(g->b.builder, x, gen_i64(g, start), "");
    if (LLVMIsAConstantInt(at)) {
        int64_t k = LLVMConstIntGetSExtValue(at);
        return gen_i64(g, k < 0 ? 0 : k > size ? size : k);
    }
    at = emit_intrinsic(&g->b, "llvm.smax", 2, (LLVMValueRef[]){at, gen_i64(g, 0)});
    return emit_intrinsic(&g->b, "llvm.smin", 2, (LLVMValueRef[]){at, gen_i64(g, size)});
}

static void emit_rows(struct cpu_gen *g, const struct hlo_instr *instr, LLVMValueRef begin,
                      LLVMValueRef end, int n, const struct result *results) {
    const struct shape *shape = results[0].shape;
    LLVMValueRef **index, from, to;
    if (shape->count == 0) return;
    struct row row = row_of(instr, shape);
    index = index_arrays(g, (int)(row.written * row.phases));
    if (shape->rank == 0) {
        struct cpu_loop once = gen_range_begin(g, begin, end);
        store_step(g, n, results, 1, index);
        gen_loop_end(g, &once);
        return;
    }
    struct cpu_loop outer = gen_range_begin(g, begin, end);
    LLVMValueRef rest = outer.i;
    gen_index_bound(g, rest, pieces_of(instr, shape));
    LLVMValueRef piece = gen_index_rem(g, rest, row.pieces);
    rest = gen_index_div(g, rest, row.pieces);
    for (int d = row.first - 1; d >= 0; d--) {
        index[0][d] = gen_index_rem(g, rest, shape->dims[d]);
        rest = gen_index_div(g, rest, shape->dims[d]);
    }
    if (row.period) {
        emit_part(g, instr, &row, n, results, index, gen_index_mul(g, piece, row.period),
                  row.period, gen_i64(g, 0), gen_i64(g, row.period));
        gen_loop_end(g, &outer);
        return;
    }
    int64_t size = shape->dims[row.first] / row.phases, ends[MOST_CUTS + 2], start = 0;
    from = gen_part(g, size, row.pieces, piece);
    to = gen_part(g, size, row.pieces, LLVMBuildAdd(g->b.builder, piece, gen_i64(g, 1), ""));
    int parts = row.phases == 1 ? parts_of(instr, shape, row.first, ends) : 1;
    if (row.phases > 1) ends[0] = size;
    for (int i = 0; i < parts; start = ends[i++]) {
        int64_t length = ends[i] - start;
        emit_part(g, instr, &row, n, results, index, gen_i64(g, start), length,
                  parts > 1 ? in_part(g, from, start, length) : from,
                  parts > 1 ? in_part(g, to, start, length) : to);
    }
    if (row.phases > 1) emit_rest(g, instr, &row, n, results, index, piece);
    gen_loop_end(g, &outer);
}

void loop_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    struct result *results = arena_array(g->arena, (size_t)k->nout + 1, sizeof *results);
    int n = 0;
    add_results(k, gen_enter_kernel(g, k), results, &n);
    if (n == 0) return;
    if (is_flat(k->instr)) {
        emit_flat(g, k, n, results);
    } else if (one_shape(k->instr)) {
        emit_rows(g, k->instr, k->begin, k->end, n, results);
    } else {
        for (int i = 0; i < n; i++)
            emit_rows(g, k->instr, gen_i64(g, 0), gen_i64(g, pieces_of(k->instr, results[i].shape)),
                      1, &results[i]);
    }
}

/* ---- updates of a part ---- */

/* Copies leaf by leaf what is not there already. */
void gen_copy(struct cpu_gen *g, const struct shape *shape, LLVMValueRef to, LLVMValueRef from) {
    if (to == from || shape->bytes <= 0) return;
    LLVMBuildMemCpy(g->b.builder, to, 1, from, 1, gen_i64(g, shape->bytes));
}

static void emit_update(struct cpu_gen *g, const struct hlo_instr *update, LLVMValueRef to) {
    const struct shape *shape = update->shape, *part = update->operands[1]->shape;
    LLVMValueRef *from = gen_leaves(g, update->operands[0]);
    gen_copy(g, shape, to, from[0]);
    if (part->count == 0) return;
    struct cpu_loop loops[SHAPE_MAX_RANK];
    LLVMValueRef index[SHAPE_MAX_RANK], at[SHAPE_MAX_RANK], start[SHAPE_MAX_RANK];
    for (int d = 0; d < shape->rank; d++)
        start[d] =
            gen_start_index(g, update->operands[2 + d], NULL, shape->dims[d] - part->dims[d]);
    gen_nest_begin(g, part->rank, part->dims, loops, index);
    for (int d = 0; d < part->rank; d++)
        at[d] = gen_index_add(g, index[d], start[d]);
    gen_store(g, shape, to, at, gen_element(g, update->operands[1], index));
    gen_nest_end(g, part->rank, loops);
}

void update_kernel_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    const struct hlo_instr *root = gen_enter_kernel(g, k);
    bool tuple = root->opcode == OP_TUPLE;
    for (int i = 0; i < k->nout; i++)
        emit_update(g, tuple ? root->operands[i] : root, k->out[i]);
}
