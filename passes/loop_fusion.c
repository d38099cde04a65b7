/* Loop fusion: an elementwise instruction takes in the producers that only it, or others it has
 * taken in, use. One result each, so nothing is computed twice and no order can break. */
#include "passes/dataflow.h"
#include "passes/pass.h"

enum { MOST_MEMBERS = 64, MOST_OPERANDS = 32 };

struct fusion {
    struct hlo_instr *head; /* the member whose result the fusion has */
    int count;
    struct hlo_instr *members[MOST_MEMBERS]; /* last first */
};

static bool is_plain(const struct hlo_instr *instr) {
    return shape_is_array(instr->shape) && !shape_is_dynamic(instr->shape) && !instr->ncontrol &&
           !instr->is_control_predecessor && instr->ncalled == 0;
}

static bool is_elementwise(const struct hlo_instr *instr) {
    return is_plain(instr) && (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE);
}

static bool same_order(const struct shape *a, const struct shape *b) {
    for (int i = 0; i < a->rank; i++)
        if (shape_minor_to_major(a, i) != shape_minor_to_major(b, i)) return false;
    return true;
}

/* Has one element for each of the loop's, or is a number that a broadcast spreads. */
static bool fits(const struct hlo_instr *instr, const struct hlo_instr *head) {
    if (instr->opcode == OP_CONSTANT) return is_plain(instr) && instr->shape->rank == 0;
    bool spread = instr->opcode == OP_BROADCAST || instr->opcode == OP_IOTA;
    if (!is_elementwise(instr) && !(spread && is_plain(instr))) return false;
    return shape_same_dims(instr->shape, head->shape) && same_order(instr->shape, head->shape);
}

/* data: the fusion that an instruction is in. */
static bool joins(struct hlo_instr *instr) {
    if (!instr->users || instr->parent->root == instr) return false;
    struct fusion *fusion = instr->users->user->data;
    if (!fusion || fusion->count == MOST_MEMBERS || !fits(instr, fusion->head)) return false;
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        if (use->user->data != fusion) return false;
    fusion->members[fusion->count++] = instr;
    instr->data = fusion;
    return true;
}

static int find_operands(const struct fusion *fusion, struct hlo_instr **operands) {
    int count = 0;
    for (int i = fusion->count - 1; i >= 0; i--) {
        const struct hlo_instr *member = fusion->members[i];
        for (int k = 0; k < member->noperands; k++) {
            struct hlo_instr *operand = member->operands[k];
            int at = 0;
            if (operand->data == fusion) continue;
            while (at < count && operands[at] != operand)
                at++;
            if (at < count) continue;
            if (count == MOST_OPERANDS) return -1;
            operands[count++] = operand;
        }
    }
    return count;
}

static struct hlo_instr *inner_operand(const struct fusion *fusion, struct hlo_instr *operand,
                                       struct hlo_instr *const *outer, struct hlo_computation *body,
                                       struct hlo_instr **copies) {
    if (operand->data == fusion) {
        for (int i = 0; i < fusion->count; i++)
            if (fusion->members[i] == operand) return copies[i];
    }
    int at = 0;
    while (outer[at] != operand)
        at++;
    return body->parameters[at];
}

static struct hlo_computation *build_body(const struct fusion *fusion, int noperands,
                                          struct hlo_instr *const *outer) {
    struct hlo_computation *body =
        computation_new(fusion->head->parent->module, "fused_computation", true);
    struct hlo_instr *copies[MOST_MEMBERS];
    for (int i = 0; i < noperands; i++)
        instr_new_parameter(body, i, outer[i]->shape, "param");
    computation_index_parameters(body);
    for (int i = fusion->count - 1; i >= 0; i--) {
        struct hlo_instr *operands[MOST_OPERANDS];
        const struct hlo_instr *member = fusion->members[i];
        for (int k = 0; k < member->noperands; k++)
            operands[k] = inner_operand(fusion, member->operands[k], outer, body, copies);
        copies[i] = instr_clone(member, body, NULL, NULL, operands);
    }
    computation_set_root(body, copies[0]);
    return body;
}

static bool build(struct pass_context *context, struct fusion *fusion) {
    struct hlo_instr *operands[MOST_OPERANDS], *head = fusion->head;
    if (fusion->count < 2) return false;
    int count = find_operands(fusion, operands);
    if (count < 0 || !pass_may_rewrite(context)) return false;
    struct hlo_computation *body = build_body(fusion, count, operands);
    struct hlo_instr *fused =
        instr_new(head->parent, head, OP_FUSION, head->shape, "fusion", count, operands);
    instr_set_called(fused, 1, &body);
    struct hlo_attr kind = {.key = ATTR_FUSION_KIND, .i = ENUM_FUSION_KIND_LOOP};
    instr_set_attr(fused, &kind);
    fused->metadata = head->metadata;
    instr_replace_uses(head, fused);
    for (int i = 0; i < fusion->count; i++)
        instr_remove(fusion->members[i]);
    return true;
}

static bool fuse_computation(struct pass_context *context, struct hlo_computation *computation) {
    struct arena *arena = arena_new();
    struct fusion **fusions = NULL;
    int count = 0, capacity = 0;
    bool changed = false;
    FOR_EACH_INSTR(instr, computation) instr->data = NULL;
    for (struct hlo_instr *instr = computation->last; instr; instr = instr->prev) {
        if (joins(instr) || !is_elementwise(instr)) continue;
        struct fusion *fusion = arena_alloc(arena, sizeof *fusion);
        *fusion = (struct fusion){.head = instr, .count = 1, .members = {instr}};
        instr->data = fusion;
        fusions = arena_grow(arena, fusions, &capacity, count + 1, sizeof *fusions);
        fusions[count++] = fusion;
    }
    for (int i = 0; i < count; i++)
        changed |= build(context, fusions[i]);
    arena_free(arena);
    return changed;
}

/* Only what runs by itself: a reducer or a fusion's inside is one loop's element already. */
bool loop_fusion_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    module_sort_computations(module);
    FOR_EACH_COMPUTATION(computation, module) computation->mark = computation == module->entry;
    for (struct hlo_computation *c = module->last; c; c = c->prev) {
        if (!c->mark) continue;
        FOR_EACH_INSTR(instr, c)
        for (int i = 0; instr_runs_callees(instr) && i < instr->ncalled; i++)
            instr->called[i]->mark = 1;
    }
    FOR_EACH_COMPUTATION(computation, module)
    if (computation->mark) changed |= fuse_computation(context, computation);
    return changed;
}
