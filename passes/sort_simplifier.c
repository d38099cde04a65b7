/* Sorts: of one element nothing happens; arrays that the comparison does not look at and nobody
 * reads afterwards need not be sorted along. */
#include "passes/rewrite.h"

static int64_t sorted_size(const struct hlo_instr *sort) {
    struct int_list dims = instr_ints(sort, ATTR_DIMENSIONS);
    const struct shape *shape = sort->operands[0]->shape;
    if (dims.count != 1) return shape->rank == 1 ? shape->dims[0] : -1;
    return shape->dims[dims.v[0]];
}

static struct hlo_instr *sort_of_one(struct pass_context *context, struct hlo_instr *sort) {
    if (shape_is_dynamic(sort->operands[0]->shape)) return NULL;
    int64_t size = sorted_size(sort);
    if (size != 0 && size != 1) return NULL;
    MAY_REWRITE(context);
    if (!shape_is_tuple(sort->shape)) return sort->operands[0];
    return instr_new(sort->parent, sort, OP_TUPLE, sort->shape, NULL, sort->noperands,
                     sort->operands);
}

/* ---- arrays that go along for nothing ---- */

static bool result_is_read(const struct hlo_instr *sort, int k) {
    if (sort == sort->parent->root) return true;
    for (const struct hlo_use *use = sort->users; use; use = use->next) {
        if (use->user->opcode != OP_GET_TUPLE_ELEMENT) return true;
        bool used = instr_has_users(use->user) || use->user == use->user->parent->root;
        if (used && instr_int(use->user, ATTR_INDEX, -1) == k) return true;
    }
    return false;
}

static bool is_compared(const struct hlo_instr *sort, int k) {
    const struct hlo_computation *less = sort->called[0];
    return instr_has_users(less->parameters[2 * k]) ||
           instr_has_users(less->parameters[2 * k + 1]) || less->root == less->parameters[2 * k] ||
           less->root == less->parameters[2 * k + 1];
}

/* The comparison with the parameters of the kept arrays alone. */
static struct hlo_computation *narrow(const struct hlo_instr *sort, const int *kept, int count,
                                      struct arena *arena) {
    const struct hlo_computation *less = sort->called[0];
    struct hlo_computation *with = computation_new(less->module, less->name, true);
    FOR_EACH_INSTR(instr, less) instr->data = NULL;
    for (int i = 0; i < 2 * count; i++) {
        const struct hlo_instr *old = less->parameters[2 * kept[i / 2] + i % 2];
        less->parameters[2 * kept[i / 2] + i % 2]->data =
            instr_new_parameter(with, i, old->shape, old->name);
    }
    computation_index_parameters(with);
    FOR_EACH_INSTR(instr, less) {
        if (instr->opcode == OP_PARAMETER) continue;
        struct hlo_instr **operands =
            arena_array(arena, (size_t)instr->noperands + 1, sizeof *operands);
        for (int i = 0; i < instr->noperands; i++)
            operands[i] = instr->operands[i]->data;
        instr->data = instr_clone(instr, with, NULL, NULL, operands);
    }
    computation_set_root(with, less->root->data);
    return with;
}

static void replace(struct hlo_instr *sort, const int *kept, int count) {
    struct arena *arena = arena_new();
    struct shape_table *shapes = sort->parent->module->shapes;
    size_t n = (size_t)count;
    struct hlo_instr **operands = arena_array(arena, n, sizeof *operands);
    const struct shape **elements = arena_array(arena, n, sizeof *elements);
    for (int i = 0; i < count; i++) {
        operands[i] = sort->operands[kept[i]];
        elements[i] = sort->shape->tuple[kept[i]];
    }
    const struct shape *shape = count > 1 ? shape_tuple(shapes, count, elements) : elements[0];
    struct hlo_instr *with = instr_new(sort->parent, sort, OP_SORT, shape, NULL, count, operands);
    struct hlo_computation *less = narrow(sort, kept, count, arena);
    for (int i = 0; i < sort->nattrs; i++)
        instr_set_attr(with, &sort->attrs[i]);
    instr_set_called(with, 1, &less);
    with->metadata = sort->metadata;
    for (struct hlo_use *use = sort->users; use; use = use->next) {
        struct hlo_instr *element = use->user, *new = with;
        int index = (int)instr_int(element, ATTR_INDEX, 0), at = 0;
        while (at < count && kept[at] != index)
            at++;
        if (at < count && count > 1) {
            new = instr_new(sort->parent, element, OP_GET_TUPLE_ELEMENT, elements[at], NULL, 1,
                            &with);
            instr_set_int(new, ATTR_INDEX, at);
        }
        if (at < count) instr_replace_uses(element, new);
    }
    arena_free(arena);
}

static bool drop_operands(struct pass_context *context, struct hlo_instr *sort) {
    enum { MOST = 64 };
    int kept[MOST], count = 0;
    if (!shape_is_tuple(sort->shape) || sort->noperands > MOST || sort->ncontrol ||
        sort->is_control_predecessor || sort->called[0]->nparameters != 2 * sort->noperands)
        return false;
    for (int k = 0; k < sort->noperands; k++)
        if (result_is_read(sort, k) || is_compared(sort, k)) kept[count++] = k;
    if (count == sort->noperands || count == 0 || !pass_may_rewrite(context)) return false;
    replace(sort, kept, count);
    return true;
}

static const struct rewrite rewrites[] = {{OP_SORT, sort_of_one}};

bool sort_simplifier_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = rewrites_run(context, module, rewrites, 1);
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation)
    if (instr->opcode == OP_SORT) changed |= drop_operands(context, instr);
    return changed;
}
