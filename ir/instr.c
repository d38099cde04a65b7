/* Instructions: building, linking, attributes. */
#include <stdlib.h>
#include <string.h>

#include "ir/hlo.h"

/* ---- edges ---- */

static void unlink_use(struct hlo_instr *definition, struct hlo_use *use) {
    if (use->prev)
        use->prev->next = use->next;
    else
        definition->users = use->next;
    if (use->next) use->next->prev = use->prev;
    use->prev = use->next = NULL;
}

void instr_set_operand(struct hlo_instr *instr, int index, struct hlo_instr *operand) {
    struct hlo_use *use = &instr->uses[index];
    if (instr->operands[index]) unlink_use(instr->operands[index], use);
    instr->operands[index] = operand;
    use->user = instr;
    use->index = index;
    if (!operand) return;
    use->next = operand->users;
    if (use->next) use->next->prev = use;
    operand->users = use;
}

bool instr_has_users(const struct hlo_instr *instr) {
    return instr->users != NULL;
}

int instr_user_count(const struct hlo_instr *instr) {
    int count = 0;
    for (const struct hlo_use *use = instr->users; use; use = use->next)
        count++;
    return count;
}

void instr_replace_uses(struct hlo_instr *instr, struct hlo_instr *with) {
    if (instr == with) return;
    for (struct hlo_use *use = instr->users, *next; use; use = next) {
        next = use->next;
        /* `with` may be made from `instr` (a copy of it): its own edge stays, or it would be its
         * own operand. */
        if (use->user != with) instr_set_operand(use->user, use->index, with);
    }
    if (instr->parent->root == instr) instr->parent->root = with;
}

/* ---- lists ---- */

static void link_before(struct hlo_instr *instr, struct hlo_instr *before) {
    struct hlo_computation *computation = instr->parent;
    instr->next = before;
    instr->prev = before ? before->prev : computation->last;
    if (instr->prev)
        instr->prev->next = instr;
    else
        computation->first = instr;
    if (before)
        before->prev = instr;
    else
        computation->last = instr;
    computation->count++;
}

static void unlink_instr(struct hlo_instr *instr) {
    struct hlo_computation *computation = instr->parent;
    if (instr->prev)
        instr->prev->next = instr->next;
    else
        computation->first = instr->next;
    if (instr->next)
        instr->next->prev = instr->prev;
    else
        computation->last = instr->prev;
    instr->prev = instr->next = NULL;
    computation->count--;
}

/* Whoever waits for `instr` waits for what it waited for instead. */
static void pass_on_control(struct hlo_instr *instr) {
    for (struct hlo_instr *later = instr->next; later; later = later->next) {
        int kept = 0;
        for (int i = 0; i < later->ncontrol; i++)
            if (later->control[i] != instr) later->control[kept++] = later->control[i];
        if (kept == later->ncontrol) continue;
        later->ncontrol = kept;
        for (int i = 0; i < instr->ncontrol; i++)
            instr_add_control(later, instr->control[i]);
    }
}

void instr_remove(struct hlo_instr *instr) {
    for (int i = 0; i < instr->noperands; i++)
        instr_set_operand(instr, i, NULL);
    if (instr->is_control_predecessor) pass_on_control(instr);
    unlink_instr(instr);
}

void instr_move_before(struct hlo_instr *instr, struct hlo_instr *before) {
    if (instr == before) return;
    unlink_instr(instr);
    link_before(instr, before);
}

/* ---- building ---- */

static struct hlo_instr *make(struct hlo_computation *computation, struct hlo_instr *before,
                              enum hlo_opcode opcode, const struct shape *shape, const char *name,
                              int noperands) {
    struct arena *arena = computation->module->arena;
    struct hlo_instr *instr = arena_alloc(arena, sizeof *instr);
    instr->opcode = opcode;
    instr->name = name;
    instr->shape = shape;
    instr->parent = computation;
    instr->id = computation->module->next_id++;
    instr->noperands = noperands;
    if (noperands) {
        instr->operands = arena_array(arena, (size_t)noperands, sizeof *instr->operands);
        instr->uses = arena_array(arena, (size_t)noperands, sizeof *instr->uses);
    }
    link_before(instr, before);
    return instr;
}

struct hlo_instr *instr_new_raw(struct hlo_computation *computation, enum hlo_opcode opcode,
                                const struct shape *shape, const char *name, int noperands) {
    module_note_name(computation->module, name);
    return make(computation, NULL, opcode, shape, name, noperands);
}

struct hlo_instr *instr_new(struct hlo_computation *computation, struct hlo_instr *before,
                            enum hlo_opcode opcode, const struct shape *shape, const char *name,
                            int noperands, struct hlo_instr *const *operands) {
    name = module_unique_name(computation->module, name ? name : opcode_name(opcode));
    struct hlo_instr *instr = make(computation, before, opcode, shape, name, noperands);
    for (int i = 0; i < noperands; i++)
        instr_set_operand(instr, i, operands[i]);
    return instr;
}

/* Everything of `from` but operands, name, shape and place. Attribute values and metadata never
 * change once made, so copies share them. */
static void copy_payload(struct hlo_instr *to, const struct hlo_instr *from) {
    struct hlo_module *module = to->parent->module;
    to->parameter = from->parameter;
    to->metadata = from->metadata;
    to->loc = from->loc;
    if (from->literal) to->literal = module_own_literal(module, literal_ref(from->literal));
    if (from->ncalled) instr_set_called(to, from->ncalled, from->called);
    if (from->nattrs) {
        to->attrs =
            arena_copy(module->arena, from->attrs, (size_t)from->nattrs * sizeof *from->attrs);
        to->nattrs = from->nattrs;
        for (int i = 0; i < to->nattrs; i++)
            if (attr_kind(to->attrs[i].key) == ATTR_KIND_LITERAL)
                module_own_literal(module, literal_ref(to->attrs[i].literal));
    }
}

struct hlo_instr *instr_clone(const struct hlo_instr *instr, struct hlo_computation *into,
                              struct hlo_instr *before, const struct shape *shape,
                              struct hlo_instr *const *operands) {
    struct hlo_instr *clone = instr_new(into, before, instr->opcode, shape ? shape : instr->shape,
                                        instr->name, instr->noperands, operands);
    copy_payload(clone, instr);
    return clone;
}

struct hlo_instr *instr_new_constant(struct hlo_computation *computation, struct hlo_instr *before,
                                     struct literal *literal) {
    struct hlo_instr *instr =
        instr_new(computation, before, OP_CONSTANT, literal->shape, NULL, 0, NULL);
    instr->literal = module_own_literal(computation->module, literal);
    return instr;
}

struct hlo_instr *instr_new_parameter(struct hlo_computation *computation, int64_t number,
                                      const struct shape *shape, const char *name) {
    /* Behind the parameters that the computation starts with, before any possible user. */
    struct hlo_instr *before = computation->first;
    while (before && before->opcode == OP_PARAMETER)
        before = before->next;
    struct hlo_instr *instr = instr_new(computation, before, OP_PARAMETER, shape, name, 0, NULL);
    instr->parameter = number;
    return instr;
}

void instr_set_called(struct hlo_instr *instr, int count, struct hlo_computation *const *called) {
    instr->called =
        arena_copy(instr->parent->module->arena, called, (size_t)count * sizeof *called);
    instr->ncalled = count;
}

void instr_add_control(struct hlo_instr *instr, struct hlo_instr *predecessor) {
    struct arena *arena = instr->parent->module->arena;
    struct hlo_instr **control =
        arena_array(arena, (size_t)instr->ncontrol + 1, sizeof *instr->control);
    if (instr->ncontrol) memcpy(control, instr->control, (size_t)instr->ncontrol * sizeof *control);
    control[instr->ncontrol++] = predecessor;
    if (predecessor) predecessor->is_control_predecessor = true;
    instr->control = control;
}

/* ---- copies of whole computations and modules ---- */

/* Each instruction of `from` gets a copy in `into`; data points from the old one to the new. */
static void copy_instructions(const struct hlo_computation *from, struct hlo_computation *into) {
    struct hlo_module *module = into->module;
    bool keep_names = module != from->module;
    for (struct hlo_instr *i = from->first; i; i = i->next) {
        const char *name = keep_names ? i->name : module_unique_name(module, i->name);
        if (keep_names) module_note_name(module, name);
        struct hlo_instr *copy = make(into, NULL, i->opcode, i->shape, name, i->noperands);
        for (int k = 0; k < i->noperands; k++)
            instr_set_operand(copy, k, i->operands[k]->data);
        copy_payload(copy, i);
        for (int k = 0; k < i->ncontrol; k++)
            instr_add_control(copy, i->control[k]->data);
        i->data = copy;
    }
    into->root = from->root->data;
    into->loc = from->loc;
    into->execution_thread = from->execution_thread;
    computation_index_parameters(into);
}

struct hlo_computation *computation_clone(const struct hlo_computation *computation,
                                          const char *name) {
    struct hlo_computation *clone =
        computation_new(computation->module, name ? name : computation->name, true);
    copy_instructions(computation, clone);
    return clone;
}

struct hlo_module *module_clone(const struct hlo_module *from) {
    struct hlo_module *module = module_new(from->name);
    struct arena *arena = module->arena;
    *module = *from;
    module->arena = arena;
    arena_keep(arena, from->arena);
    module->names = NULL;
    module->first = module->last = module->entry = NULL;
    module->ncomputations = module->nliterals = module->literal_capacity = 0;
    module->literals = NULL;
    for (struct hlo_computation *c = from->first; c; c = c->next) {
        struct hlo_computation *copy = computation_new(module, c->name, false);
        copy_instructions(c, copy);
        c->data = copy;
        if (c == from->entry) module->entry = copy;
    }
    FOR_EACH_COMPUTATION(computation, module) {
        FOR_EACH_INSTR(instr, computation) {
            for (int i = 0; i < instr->ncalled; i++)
                instr->called[i] = instr->called[i]->data;
        }
    }
    return module;
}

/* ---- attributes ---- */

static struct hlo_attr *find_attr(const struct hlo_instr *instr, enum attr_key key) {
    for (int i = 0; i < instr->nattrs; i++)
        if (instr->attrs[i].key == key) return &instr->attrs[i];
    return NULL;
}

const struct hlo_attr *instr_attr(const struct hlo_instr *instr, enum attr_key key) {
    return find_attr(instr, key);
}

int64_t instr_int(const struct hlo_instr *instr, enum attr_key key, int64_t otherwise) {
    const struct hlo_attr *attr = find_attr(instr, key);
    return attr ? attr->i : otherwise;
}

bool instr_bool(const struct hlo_instr *instr, enum attr_key key, bool otherwise) {
    return instr_int(instr, key, otherwise) != 0;
}

double instr_float(const struct hlo_instr *instr, enum attr_key key, double otherwise) {
    const struct hlo_attr *attr = find_attr(instr, key);
    return attr ? attr->f : otherwise;
}

struct int_list instr_ints(const struct hlo_instr *instr, enum attr_key key) {
    const struct hlo_attr *attr = find_attr(instr, key);
    return attr ? *attr->ints : (struct int_list){0, NULL};
}

const char *instr_text(const struct hlo_instr *instr, enum attr_key key) {
    const struct hlo_attr *attr = find_attr(instr, key);
    return attr ? attr->text : NULL;
}

const struct window *instr_window(const struct hlo_instr *instr) {
    const struct hlo_attr *attr = find_attr(instr, ATTR_WINDOW);
    return attr ? attr->window : NULL;
}

void instr_set_attr(struct hlo_instr *instr, const struct hlo_attr *attr) {
    struct hlo_attr *old = attr->key == ATTR_UNKNOWN ? NULL : find_attr(instr, attr->key);
    if (old) {
        *old = *attr;
        return;
    }
    struct hlo_attr *attrs =
        arena_array(instr->parent->module->arena, (size_t)instr->nattrs + 1, sizeof *attrs);
    if (instr->nattrs) memcpy(attrs, instr->attrs, (size_t)instr->nattrs * sizeof *attrs);
    attrs[instr->nattrs++] = *attr;
    instr->attrs = attrs;
}

void instr_set_int(struct hlo_instr *instr, enum attr_key key, int64_t value) {
    instr_set_attr(instr, &(struct hlo_attr){.key = key, .i = value});
}

void instr_set_ints(struct hlo_instr *instr, enum attr_key key, int count, const int64_t *values) {
    struct arena *arena = instr->parent->module->arena;
    struct int_list *list = arena_alloc(arena, sizeof *list);
    list->count = count;
    list->v = arena_copy(arena, values, (size_t)count * sizeof *values);
    instr_set_attr(instr, &(struct hlo_attr){.key = key, .ints = list});
}

void instr_remove_attr(struct hlo_instr *instr, enum attr_key key) {
    struct hlo_attr *attr = find_attr(instr, key);
    if (!attr) return;
    size_t after = (size_t)(instr->attrs + instr->nattrs - attr - 1);
    memmove(attr, attr + 1, after * sizeof *attr);
    instr->nattrs--;
}

static bool ints_equal(struct int_list a, struct int_list b) {
    return a.count == b.count &&
           (a.count == 0 || memcmp(a.v, b.v, (size_t)a.count * sizeof *a.v) == 0);
}

static bool int_lists_equal(const struct int_lists *a, const struct int_lists *b) {
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++)
        if (!ints_equal(a->v[i], b->v[i])) return false;
    return true;
}

static bool windows_equal(const struct window *a, const struct window *b) {
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++) {
        const struct window_dim *x = &a->v[i], *y = &b->v[i];
        if (x->size != y->size || x->stride != y->stride || x->pad_low != y->pad_low ||
            x->pad_high != y->pad_high || x->lhs_dilate != y->lhs_dilate ||
            x->rhs_dilate != y->rhs_dilate || x->reversed != y->reversed)
            return false;
    }
    return true;
}

static bool dim_labels_equal(const struct dim_labels *a, const struct dim_labels *b) {
    if (a->spatial != b->spatial || a->input_batch != b->input_batch ||
        a->input_feature != b->input_feature || a->kernel_input != b->kernel_input ||
        a->kernel_output != b->kernel_output || a->output_batch != b->output_batch ||
        a->output_feature != b->output_feature)
        return false;
    for (int i = 0; i < a->spatial; i++)
        if (a->input_spatial[i] != b->input_spatial[i] ||
            a->kernel_spatial[i] != b->kernel_spatial[i] ||
            a->output_spatial[i] != b->output_spatial[i])
            return false;
    return true;
}

static bool iota_tiles_equal(const struct iota_tiles *a, const struct iota_tiles *b) {
    if (!ints_equal((struct int_list){a->ndims, a->dims}, (struct int_list){b->ndims, b->dims}) ||
        !ints_equal((struct int_list){a->nreshape, a->reshape},
                    (struct int_list){b->nreshape, b->reshape}) ||
        !a->transpose != !b->transpose)
        return false;
    return !a->transpose ||
           memcmp(a->transpose, b->transpose, (size_t)a->nreshape * sizeof *a->transpose) == 0;
}

static bool groups_equal(const struct replica_groups *a, const struct replica_groups *b) {
    if (a->mesh || b->mesh) return a->mesh && b->mesh && strcmp(a->mesh, b->mesh) == 0;
    return a->is_iota == b->is_iota && int_lists_equal(&a->lists, &b->lists) &&
           iota_tiles_equal(&a->iota, &b->iota);
}

static bool aliases_equal(const struct alias_list *a, const struct alias_list *b) {
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++)
        if (!ints_equal(a->v[i].output_index, b->v[i].output_index) ||
            a->v[i].parameter != b->v[i].parameter ||
            !ints_equal(a->v[i].parameter_index, b->v[i].parameter_index))
            return false;
    return true;
}

static bool shapes_equal(const struct shape_list *a, const struct shape_list *b) {
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->v, b->v, (size_t)a->count * sizeof *a->v) == 0);
}

bool attr_equal(const struct hlo_attr *a, const struct hlo_attr *b) {
    if (a->key != b->key) return false;
    switch (attr_kind(a->key)) {
    case ATTR_KIND_INT:
    case ATTR_KIND_BOOL:
    case ATTR_KIND_ENUM: return a->i == b->i;
    case ATTR_KIND_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case ATTR_KIND_INTS:
    case ATTR_KIND_BOOLS:
    case ATTR_KIND_PRECISION: return ints_equal(*a->ints, *b->ints);
    case ATTR_KIND_INT_LISTS: return int_lists_equal(a->int_lists, b->int_lists);
    case ATTR_KIND_SLICES:
        return a->slices->count == b->slices->count &&
               memcmp(a->slices->v, b->slices->v,
                      (size_t)a->slices->count * sizeof *a->slices->v) == 0;
    case ATTR_KIND_PADDING:
        return a->padding->count == b->padding->count &&
               memcmp(a->padding->v, b->padding->v,
                      (size_t)a->padding->count * sizeof *a->padding->v) == 0;
    case ATTR_KIND_WINDOW: return windows_equal(a->window, b->window);
    case ATTR_KIND_DIM_LABELS: return dim_labels_equal(a->dim_labels, b->dim_labels);
    case ATTR_KIND_REPLICA_GROUPS: return groups_equal(a->groups, b->groups);
    case ATTR_KIND_SHARDING: return strcmp(a->sharding->text, b->sharding->text) == 0;
    case ATTR_KIND_SHAPE: return a->shape == b->shape;
    case ATTR_KIND_SHAPES: return shapes_equal(a->shapes, b->shapes);
    case ATTR_KIND_ALIASING: return aliases_equal(a->aliases, b->aliases);
    case ATTR_KIND_LITERAL: return literal_equal(a->literal, b->literal);
    case ATTR_KIND_UNKNOWN: return strcmp(a->name, b->name) == 0 && strcmp(a->text, b->text) == 0;
    default: return strcmp(a->text, b->text) == 0;
    }
}

bool instr_keeps_own_data(const struct hlo_instr *instr) {
    const struct hlo_attr *attr = instr_attr(instr, ATTR_SOURCE_TARGET_PAIRS);
    for (int i = 0; attr && i < attr->int_lists->count; i++) {
        struct int_list pair = attr->int_lists->v[i];
        if (pair.count == 2 && pair.v[0] == 0 && pair.v[1] == 0) return true;
    }
    return false;
}
