/* Scatter: index vector after index vector, in order; the window of each as vectors. Threads take
 * columns of the windows, so that each element sees its updates in order. */
#include "backend/cpu/index_walk.h"
#include "backend/cpu/lowering.h"

#include "backend/cpu/emit.h"

enum { COLUMNS = 64 };

struct scatter {
    struct cpu_gen *g;
    struct cpu_kernel *k;
    int n; /* operands */
    const struct shape *update;
    struct index_walk walk;
    LLVMValueRef index[SHAPE_MAX_RANK];     /* into the updates */
    LLVMValueRef which[SHAPE_MAX_RANK + 1]; /* the index vector */
    LLVMValueRef start[SHAPE_MAX_RANK];     /* by component */
    LLVMValueRef first, end;                /* columns */
    int column;                             /* dim of the updates; -1: none */
};

static int operands_of(const struct hlo_instr *instr) {
    return (instr->noperands - 1) / 2;
}

/* The last dim of the updates, where it runs along windows. */
static int column_dim(const struct hlo_instr *instr) {
    struct index_walk walk = index_walk_of(instr);
    const struct shape *update = instr->operands[operands_of(instr) + 1]->shape;
    int last = update->rank - 1;
    return last >= 0 && index_walk_is_window(&walk, last) ? last : -1;
}

int64_t scatter_units(const struct hlo_instr *instr) {
    int column = column_dim(instr);
    const struct shape *update = instr->operands[operands_of(instr) + 1]->shape;
    return column < 0 ? 1 : (update->dims[column] + COLUMNS - 1) / COLUMNS;
}

/* The starts of the index vector at hand; whether its whole window is in range. */
static LLVMValueRef read_starts(struct scatter *s) {
    struct cpu_builder *b = &s->g->b;
    const struct shape *shape = s->k->instr->operands[0]->shape;
    int64_t sizes[SHAPE_MAX_RANK];
    LLVMValueRef inside = LLVMConstInt(LLVMInt1TypeInContext(b->context), 1, false);
    for (int d = 0, w = 0; d < shape->rank; d++)
        sizes[d] = index_walk_drops(&s->walk, d) ? 1 : s->update->dims[s->walk.window.v[w++]];
    for (int i = 0; i < s->walk.map.count; i++) {
        int64_t high = shape->dims[s->walk.map.v[i]] - sizes[s->walk.map.v[i]];
        index_walk_component(s->g, &s->walk, i, s->which);
        enum element_type type = s->walk.indices->shape->type;
        LLVMValueRef start = gen_element(s->g, s->walk.indices, s->which);
        s->start[i] = cpu_emit_convert(b, start, type, TYPE_S64);
        inside = i_and(b, inside, i_cmpk(b, LLVMIntSGE, s->start[i], 0));
        inside = i_and(b, inside, i_cmp(b, LLVMIntSLE, s->start[i], gen_i64(s->g, high)));
    }
    return inside;
}

static void apply(struct scatter *s) {
    struct cpu_gen *g = s->g;
    const struct hlo_instr *instr = s->k->instr;
    LLVMValueRef at[SHAPE_MAX_RANK], args[2 * GEN_MOST_LEAVES], out[GEN_MOST_LEAVES];
    index_walk_offset(g, &s->walk, s->index, s->which, at);
    for (int i = 0; i < s->walk.map.count; i++) {
        int64_t d = s->walk.map.v[i];
        at[d] = gen_index_add(g, at[d], s->start[i]);
    }
    for (int i = 0; i < s->n; i++) {
        args[i] = gen_load(g, instr->operands[i]->shape, s->k->out[i], at);
        args[s->n + i] = gen_element(g, instr->operands[s->n + 1 + i], s->index);
    }
    gen_scalar_call(g, instr->called[0], args, out);
    for (int i = 0; i < s->n; i++)
        gen_store(g, instr->operands[i]->shape, s->k->out[i], at, out[i]);
}

/* Loops over the dims of the updates that run along windows, or over the others. */
static void nest_begin(struct scatter *s, bool windows, struct cpu_loop *loops) {
    for (int d = 0; d < s->update->rank; d++) {
        if (index_walk_is_window(&s->walk, d) != windows) continue;
        loops[d].body = NULL;
        if (d == s->column) {
            loops[d] = gen_range_begin(s->g, s->first, s->end);
            gen_index_bound(s->g, loops[d].i, s->update->dims[d]);
            s->index[d] = loops[d].i;
        } else {
            gen_nest_begin(s->g, 1, &s->update->dims[d], &loops[d], &s->index[d]);
        }
    }
}

static void nest_end(struct scatter *s, bool windows, struct cpu_loop *loops) {
    for (int d = s->update->rank - 1; d >= 0; d--)
        if (index_walk_is_window(&s->walk, d) == windows && loops[d].body)
            gen_loop_end(s->g, &loops[d]);
}

void scatter_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    const struct hlo_instr *instr = k->instr;
    struct scatter s = {.g = g, .k = k, .n = operands_of(instr), .walk = index_walk_of(instr)};
    struct cpu_loop loops[SHAPE_MAX_RANK];
    s.update = instr->operands[s.n + 1]->shape;
    s.column = column_dim(instr);
    gen_bind_operands(g, k);
    bool in_place = true;
    for (int i = 0; i < s.n; i++) {
        in_place = in_place && k->out[i] == k->in[i];
        gen_copy(g, instr->operands[i]->shape, k->out[i], k->in[i]);
    }
    if (!in_place) s.column = -1; /* what is copied whole is not shared out */
    if (s.update->count == 0) return;
    if (s.column >= 0) {
        LLVMBuilderRef b = g->b.builder;
        LLVMValueRef size = gen_i64(g, s.update->dims[s.column]);
        s.first = gen_index_mul(g, k->begin, COLUMNS);
        s.end = gen_index_mul(g, k->end, COLUMNS);
        s.end = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, s.end, size, ""), s.end, size, "");
    }
    nest_begin(&s, false, loops);
    index_walk_vector(&s.walk, s.update->rank, s.index, s.which);
    LLVMBasicBlockRef after = gen_guard_begin(g, read_starts(&s));
    nest_begin(&s, true, loops);
    apply(&s);
    nest_end(&s, true, loops);
    gen_guard_end(g, after);
    nest_end(&s, false, loops);
}
