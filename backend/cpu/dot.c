#include "backend/cpu/conv.h"

#include "backend/cpu/lowering.h"
#include "backend/cpu/matmul_ir.h"
#include "passes/fusion_shape.h"

/* Fewer multiply-adds than this are left to plain loops. */
enum { LEAST_WORK = 64 };

/* ---- the dot's dimensions ---- */

static int64_t sizes_of(const struct shape *shape, struct int_list dims) {
    int64_t size = 1;
    for (int i = 0; i < dims.count; i++)
        size *= shape->dims[dims.v[i]];
    return size;
}

static bool dot_spec(const struct hlo_instr *hero, struct product_spec *spec,
                     const struct product_view *a, const struct product_view *b) {
    const struct hlo_instr *lhs = hero->operands[0], *rhs = hero->operands[1];
    struct int_list lb = instr_ints(hero, ATTR_LHS_BATCH_DIMS);
    struct int_list rb = instr_ints(hero, ATTR_RHS_BATCH_DIMS);
    struct int_list lc = instr_ints(hero, ATTR_LHS_CONTRACTING_DIMS);
    struct int_list rc = instr_ints(hero, ATTR_RHS_CONTRACTING_DIMS);
    int64_t c[SHAPE_MAX_RANK];
    int at = 0;
    bool fits = true;
    shape_row_major(hero->shape, c);
    *spec = (struct product_spec){.a_type = a->base->shape->type,
                                  .b_type = b->base->shape->type,
                                  .c_type = hero->shape->type,
                                  .a_offset = a->offset,
                                  .b_offset = b->offset};
    for (int i = 0; i < lb.count && fits; i++)
        fits = product_add_dims(&spec->batch, a, (int)lb.v[i], b, (int)rb.v[i], c[at++]);
    for (int d = 0; d < lhs->shape->rank && fits; d++)
        if (!int_list_has(lb, d) && !int_list_has(lc, d))
            fits = product_add_dims(&spec->m, a, d, NULL, 0, c[at++]);
    for (int d = 0; d < rhs->shape->rank && fits; d++)
        if (!int_list_has(rb, d) && !int_list_has(rc, d))
            fits = product_add_dims(&spec->n, NULL, 0, b, d, c[at++]);
    for (int i = 0; i < lc.count && fits; i++)
        fits = product_add_dims(&spec->k, a, (int)lc.v[i], b, (int)rc.v[i], 0);
    /* Only the one dimension of n may be cut. */
    if (b->cut_dim >= 0) {
        spec->n_cut = b->cut;
        fits = fits && !int_list_has(rb, b->cut_dim) && !int_list_has(rc, b->cut_dim) &&
               rhs->shape->count == rhs->shape->dims[b->cut_dim] * sizes_of(rhs->shape, rb) *
                                        sizes_of(rhs->shape, rc);
    }
    return fits && a->cut_dim < 0;
}

static bool dot_read(const struct hlo_instr *instr, const struct hlo_instr **hero,
                     struct product_spec *spec, struct product_view *a, struct product_view *b) {
    *hero = product_hero(instr);
    if (!*hero || (*hero)->opcode != OP_DOT) return false;
    if (!product_view_of(instr, *hero, 0, a)) return false;
    if (!product_view_of(instr, *hero, 1, b)) return false;
    if (!product_reads_alike(a, (*hero)->operands[0])) return false;
    if (!product_reads_alike(b, (*hero)->operands[1])) return false;
    return dot_spec(*hero, spec, a, b);
}

bool product_spec_of(const struct hlo_instr *instr, const struct hlo_instr *hero,
                     const struct cpu_target *target, struct product_spec *spec) {
    struct product_view a, b;
    if (hero->opcode == OP_CONVOLUTION) return conv_spec_of(instr, target, spec);
    if (hero->opcode != OP_DOT || !dot_match(instr)) return false;
    return product_view_of(instr, hero, 0, &a) && product_view_of(hero, hero, 1, &b) &&
           dot_spec(hero, spec, &a, &b);
}

bool product_has_epilogue(const struct hlo_instr *instr) {
    return instr->opcode == OP_FUSION && !instr_is_product(instr->called[0]->root);
}

bool dot_match(const struct hlo_instr *instr) {
    const struct hlo_instr *hero;
    struct product_spec spec;
    struct product_view a, b;
    if (!dot_read(instr, &hero, &spec, &a, &b)) return false;
    return product_spec_has_code(&spec) && cpu_work_of(hero) >= LEAST_WORK;
}

static bool make_plan(struct cpu_gen *g, const struct hlo_instr *instr,
                      const struct hlo_instr **hero, struct product_plan *plan,
                      struct product_view *a, struct product_view *b) {
    struct product_spec spec;
    if (!dot_read(instr, hero, &spec, a, b)) return false;
    product_plan_make(plan, &g->target, &spec, product_has_epilogue(instr));
    return true;
}

void dot_plan(struct cpu_gen *g, const struct hlo_instr *instr, int64_t *units, int64_t *scratch) {
    const struct hlo_instr *hero;
    struct product_plan plan;
    struct product_view a, b;
    if (!make_plan(g, instr, &hero, &plan, &a, &b)) return;
    *units = plan.units;
    *scratch = plan.scratch;
}

/* ---- what is done with the sums ---- */

static void bind_sum(struct product_epilogue *e, const LLVMValueRef *index, LLVMValueRef sum) {
    struct cpu_gen *g = e->g;
    LLVMValueRef value = cpu_emit_convert(&g->b, sum, e->type, e->hero->shape->type);
    gen_bind_element(g, e->hero, index, value);
    /* A conversion back to the type of the sums keeps what rounding would take. */
    for (const struct hlo_use *use = e->hero->users; use && e->k->instr != e->hero; use = use->next)
        if (use->user->opcode == OP_CONVERT && use->user->shape->type == e->type)
            gen_bind_element(g, use->user, index, sum);
}

/* Outputs may have other dims than the hero: the linear index is the same. */
void product_epilogue_store(struct product_epilogue *e, LLVMValueRef sum,
                            const LLVMValueRef *index) {
    struct cpu_gen *g = e->g;
    const struct hlo_instr *root =
        e->k->instr->opcode == OP_FUSION ? e->k->instr->called[0]->root : e->hero;
    bool tuple = root->opcode == OP_TUPLE;
    LLVMValueRef values[GEN_MOST_LEAVES], at[SHAPE_MAX_RANK];
    scope_push(&g->seen);
    LLVMValueRef linear = gen_linear(g, e->hero->shape, index);
    bind_sum(e, index, sum);
    gen_delinear(g, e->hero->shape, linear, at);
    bind_sum(e, at, sum);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < e->k->nout; i++) {
            const struct hlo_instr *out = tuple ? root->operands[i] : root;
            gen_delinear(g, out->shape, linear, at);
            if (pass == 0)
                values[i] = gen_element(g, out, at);
            else
                gen_store(g, out->shape, e->k->out[i], at, values[i]);
        }
    scope_pop(&g->seen);
}

static void touch(const struct product_epilogue *e, const struct shape *shape, LLVMValueRef base,
                  struct product_code *code) {
    const struct shape *hero = e->hero->shape;
    if (!shape_is_array(shape) || shape->count != hero->count) return;
    if (element_type_size(shape->type) != element_type_size(hero->type)) return;
    for (int i = 0; i < code->ntouched; i++)
        if (code->touched[i] == base) return;
    if (code->ntouched < PRODUCT_MOST_TOUCHED) code->touched[code->ntouched++] = base;
}

void product_epilogue_touch(const struct product_epilogue *e, const struct product_view *a,
                            const struct product_view *b, struct product_code *code) {
    const struct hlo_instr *instr = e->k->instr;
    for (int i = 0; i < e->k->nout; i++)
        touch(e, shape_leaf(instr->shape, i), e->k->out[i], code);
    for (const struct hlo_instr *i = instr->called[0]->first; i; i = i->next)
        if (i->opcode == OP_PARAMETER && i != a->base && i != b->base)
            touch(e, i->shape, gen_leaves(e->g, i)[0], code);
}

/* The index of the hero's element from the numbers of its batch, m and n. */
static void finish_dot(void *data, LLVMValueRef sum, LLVMValueRef batch, LLVMValueRef m,
                       LLVMValueRef n) {
    struct product_epilogue *e = data;
    struct cpu_gen *g = e->g;
    const struct shape *shape = e->hero->shape;
    const struct shape *lhs = e->hero->operands[0]->shape;
    int nbatch = instr_ints(e->hero, ATTR_LHS_BATCH_DIMS).count;
    int nm = lhs->rank - nbatch - instr_ints(e->hero, ATTR_LHS_CONTRACTING_DIMS).count;
    LLVMValueRef parts[3] = {batch, m, n}, index[SHAPE_MAX_RANK];
    int ends[3] = {nbatch, nbatch + nm, shape->rank}, start = 0;
    scope_push(&g->seen);
    for (int i = 0; i < 3; start = ends[i++]) {
        int64_t size = 1;
        for (int d = start; d < ends[i]; d++)
            size *= shape->dims[d];
        gen_index_bound(g, parts[i], size);
        LLVMValueRef rest = parts[i];
        for (int d = ends[i] - 1; d >= start; d--) {
            index[d] = d == start ? rest : gen_index_rem(g, rest, shape->dims[d]);
            rest = gen_index_div(g, rest, shape->dims[d]);
        }
    }
    product_epilogue_store(e, sum, index);
    scope_pop(&g->seen);
}

void dot_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    const struct hlo_instr *hero;
    struct product_plan plan;
    struct product_view a, b;
    if (!make_plan(g, k->instr, &hero, &plan, &a, &b)) return;
    gen_enter_kernel(g, k);
    struct product_epilogue epilogue = {g, k, hero, plan.type};
    struct product_code code = {.a = gen_leaves(g, a.base)[0],
                                .b = gen_leaves(g, b.base)[0],
                                .c = k->out[0],
                                .scratch = k->scratch,
                                .begin = k->begin,
                                .end = k->end};
    if (plan.finishes) {
        code.finish = finish_dot;
        code.data = &epilogue;
        if (product_has_epilogue(k->instr)) product_epilogue_touch(&epilogue, &a, &b, &code);
    }
    product_emit(&g->b, &g->target, &plan, &code);
}
