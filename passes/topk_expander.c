/* topk(x) is the first k of a stable sort of (x, places) in descending (ascending, where the
 * largest are not wanted) total order. */
#include "passes/rewrite.h"

static struct hlo_computation *make_comparator(struct hlo_module *module, const struct shape *value,
                                               const struct shape *place, bool largest) {
    struct hlo_computation *body = computation_new(module, "topk_comparator", true);
    const struct shape *shapes[] = {value, value, place, place};
    struct hlo_instr *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = instr_new_parameter(body, i, shapes[i], "p");
    computation_index_parameters(body);
    const struct shape *pred = shape_scalar(module->shapes, TYPE_PRED);
    struct hlo_instr *root = instr_new(body, NULL, OP_COMPARE, pred, NULL, 2, p);
    struct hlo_attr direction = {.key = ATTR_DIRECTION,
                                 .i = largest ? ENUM_DIRECTION_GT : ENUM_DIRECTION_LT};
    instr_set_attr(root, &direction);
    if (element_type_is_float(value->type)) {
        struct hlo_attr order = {.key = ATTR_COMPARE_TYPE, .i = ENUM_COMPARE_TYPE_TOTALORDER};
        instr_set_attr(root, &order);
    }
    computation_set_root(body, root);
    return body;
}

static struct hlo_instr *first_of(struct hlo_instr *before, struct hlo_instr *sorted, int element,
                                  const struct shape *whole, const struct shape *part) {
    struct hlo_instr *all =
        instr_new(before->parent, before, OP_GET_TUPLE_ELEMENT, whole, NULL, 1, &sorted);
    instr_set_int(all, ATTR_INDEX, element);
    struct slice_dim dims[SHAPE_MAX_RANK];
    for (int d = 0; d < part->rank; d++)
        dims[d] = (struct slice_dim){0, part->dims[d], 1};
    return rewrite_slice(before, part, all, dims);
}

static void expand(struct hlo_instr *topk) {
    struct hlo_module *module = topk->parent->module;
    struct hlo_instr *x = topk->operands[0];
    const struct shape *values = topk->shape->tuple[0], *places = topk->shape->tuple[1];
    int64_t last = x->shape->rank - 1;
    const struct shape *place =
        shape_array(module->shapes, places->type, x->shape->rank, x->shape->dims);
    const struct shape *whole =
        shape_array(module->shapes, x->shape->type, x->shape->rank, x->shape->dims);
    struct hlo_instr *iota = instr_new(topk->parent, topk, OP_IOTA, place, NULL, 0, NULL);
    instr_set_int(iota, ATTR_IOTA_DIMENSION, last);
    const struct shape *pair =
        shape_tuple(module->shapes, 2, (const struct shape *[]){whole, place});
    struct hlo_instr *sort =
        instr_new(topk->parent, topk, OP_SORT, pair, NULL, 2, (struct hlo_instr *[]){x, iota});
    instr_set_ints(sort, ATTR_DIMENSIONS, 1, &last);
    instr_set_int(sort, ATTR_IS_STABLE, 1);
    struct hlo_computation *comparator = make_comparator(
        module, shape_scalar(module->shapes, x->shape->type),
        shape_scalar(module->shapes, places->type), instr_bool(topk, ATTR_LARGEST, true));
    instr_set_called(sort, 1, &comparator);
    sort->metadata = topk->metadata;
    sort->loc = topk->loc;
    struct hlo_instr *parts[] = {first_of(topk, sort, 0, whole, values),
                                 first_of(topk, sort, 1, place, places)};
    struct hlo_instr *result = instr_new(topk->parent, topk, OP_TUPLE, topk->shape, NULL, 2, parts);
    instr_replace_uses(topk, result);
    instr_remove(topk);
}

bool topk_expander_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            if (instr->opcode != OP_TOPK || shape_is_dynamic(instr->shape)) continue;
            if (instr->operands[0]->shape->rank == 0 || !pass_may_rewrite(context)) continue;
            expand(instr);
            changed = true;
        }
    }
    return changed;
}
