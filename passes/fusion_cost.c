/* What it costs to compute a value again instead of storing and loading it. */
#include "passes/fusion_group.h"

/* Neighbours come from different places: they are computed one by one, by the place of each. */
static bool alternates(const struct hlo_instr *pad) {
    const struct padding_dim *dims = instr_attr(pad, ATTR_PADDING)->padding->v;
    int last = pad->shape->rank - 1;
    return last >= 0 && dims[last].interior > 0 && pad->shape->dims[last] > 1;
}

double fusion_operation_cost(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_DIVIDE:
    case OP_REMAINDER:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_GATHER: return 4;
    case OP_ACOS:
    case OP_ACOSH:
    case OP_ASIN:
    case OP_ASINH:
    case OP_ATANH:
    case OP_ATAN2:
    case OP_CBRT:
    case OP_COSINE:
    case OP_COSH:
    case OP_ERF:
    case OP_EXPONENTIAL:
    case OP_EXPONENTIAL_MINUS_ONE:
    case OP_LOG:
    case OP_LOG_PLUS_ONE:
    case OP_LOGISTIC:
    case OP_POWER:
    case OP_SINE:
    case OP_SINH:
    case OP_TAN:
    case OP_TANH: return 16;
    case OP_PAD: return alternates(instr) ? 8 : 1;
    case OP_MAP: return 2 + instr->called[0]->count;
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_IOTA:
    case OP_CONSTANT:
    case OP_COPY: return 0;
    case OP_CONVERT: return 0.5;
    default: return instr->shape->type == TYPE_PRED ? 0.5 : 1;
    }
}

bool instr_is_free(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_IOTA: return true;
    case OP_CONSTANT: return instr->shape->rank == 0;
    default: return false;
    }
}

double element_load_cost(enum element_type type) {
    return 0.5 + element_type_size(type) / 8.0;
}

/* Loads of scalars and of what small arrays spread are in a register or near. */
static double load_cost(const struct hlo_instr *operand) {
    while (instr_is_free(operand) && operand->noperands == 1)
        operand = operand->operands[0];
    if (operand->opcode == OP_CONSTANT || operand->opcode == OP_IOTA) return 0;
    if (!shape_is_array(operand->shape) || operand->shape->count <= 1) return 0;
    return element_load_cost(operand->shape->type);
}

double instr_element_cost(const struct fuser *fuser, const struct hlo_instr *instr) {
    double cost = fusion_operation_cost(instr) * fuser->policy->operation_cost;
    for (int i = 0; i < instr->noperands; i++)
        cost += load_cost(instr->operands[i]);
    return cost;
}

/* Elements of the dims after the last one that the operand has. */
static double inner_elements(const struct hlo_instr *broadcast) {
    struct int_list dims = instr_ints(broadcast, ATTR_DIMENSIONS);
    double inner = 1;
    for (int i = broadcast->shape->rank - 1; i >= 0; i--) {
        bool mapped = false;
        for (int k = 0; k < dims.count; k++)
            mapped = mapped || dims.v[k] == i;
        if (mapped && broadcast->shape->dims[i] != 1) break;
        inner *= (double)broadcast->shape->dims[i];
    }
    return inner;
}

/* A gather looks its indices up once for each of the trailing dims that it takes whole. */
static double gather_inner(const struct hlo_instr *gather) {
    struct int_list offsets = instr_ints(gather, ATTR_OFFSET_DIMS);
    double inner = 1;
    for (int i = gather->shape->rank - 1; i >= 0; i--) {
        bool offset = false;
        for (int k = 0; k < offsets.count; k++)
            offset = offset || offsets.v[k] == i;
        if (!offset) break;
        inner *= (double)gather->shape->dims[i];
    }
    return inner > 0 ? inner : 1;
}

/* The elements of operand `index` that `evals` evaluations of the user compute. */
static double operand_evals(const struct hlo_instr *user, int index, double evals) {
    const struct hlo_instr *operand = user->operands[index];
    double count = (double)operand->shape->count, all = (double)user->shape->count;
    if (count <= 1) return 1; /* loops leave it alone */
    switch (user->opcode) {
    case OP_BROADCAST: return evals / inner_elements(user);
    case OP_GATHER: return index == 1 ? evals / gather_inner(user) : evals;
    case OP_CONCATENATE:
    case OP_PAD: return all > count ? evals * count / all : evals;
    default: return evals;
    }
}

static struct fusion_use edge_use(struct fuser *fuser, const struct member *member, int index) {
    const struct hlo_instr *user = member->instr, *operand = user->operands[index];
    double count = (double)operand->shape->count;
    switch (user->opcode) {
    case OP_REDUCE:
        if (index < user->noperands / 2) return (struct fusion_use){0, 1, count};
        break;
    case OP_DYNAMIC_UPDATE_SLICE:
        if (index == 1) return (struct fusion_use){0, 1, count};
        break;
    case OP_DOT:
    case OP_CONVOLUTION: return (struct fusion_use){++fuser->classes, 1, count};
    default: break;
    }
    if (instr_keeps_index(user)) return member->use;
    return (struct fusion_use){++fuser->classes, member->use.copies,
                               operand_evals(user, index, member->use.evals)};
}

enum { MOST_CLASSES = 16 };

struct classes {
    int seen[MOST_CLASSES], count;
    struct fusion_use all;
};

/* Uses of one class are one; others add up to a class of its own. */
static void add_use(struct fuser *fuser, struct classes *classes, struct fusion_use one) {
    for (int i = 0; i < classes->count; i++)
        if (classes->seen[i] == one.class) return;
    if (classes->count < MOST_CLASSES) classes->seen[classes->count++] = one.class;
    classes->all.class = classes->count == 1 ? one.class : ++fuser->classes;
    classes->all.copies += one.copies;
    classes->all.evals += one.evals;
}

static bool has_many_users(const struct hlo_instr *instr, int many) {
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        if (many-- == 0) return true;
    return false;
}

/* Along the users, or the members, whichever are few. */
struct fusion_use group_use_of(struct fuser *fuser, const struct group *group,
                               const struct hlo_instr *instr) {
    struct classes classes = {.count = 0};
    if (!has_many_users(instr, group->count)) {
        for (const struct hlo_use *use = instr->users; use; use = use->next) {
            const struct member *member = group_member(group, use->user);
            if (member) add_use(fuser, &classes, edge_use(fuser, member, use->index));
        }
        return classes.all;
    }
    for (int i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        for (int k = 0; k < member->instr->noperands; k++)
            if (member->instr->operands[k] == instr)
                add_use(fuser, &classes, edge_use(fuser, member, k));
    }
    return classes.all;
}
