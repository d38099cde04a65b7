/* Panels are ordinary arrays: P = transpose(reshape(B)), of shape [batch, panels, k, columns]. The
 * product takes P as its operand and undoes both in front of the dot, which product_view sees
 * through: what is left is a product whose B lies in panels (B_PANELS). */
#include "backend/cpu/prepack.h"

#include "backend/cpu/conv.h"
#include "ir/eval.h"
#include "ir/literal.h"
#include "passes/dataflow.h"
#include "passes/fusion_shape.h"
#include "passes/util.h"
#include "passes/while_loop.h"

enum { MOST_EVALUATED = 64 << 20 }; /* bytes of a constant */
enum { MOST_TWICE = 64 << 10 };     /* bytes of a constant that others read as it is */

/* How the operand becomes panels: where n is not whole panels, its dimension `padded` gets `more`;
 * then it is reshaped to `rank` dimensions, of which n's, n_dim, is split to panels and columns;
 * then all are transposed. */
struct panels {
    int padded, rank, n_dim, columns;
    int64_t dims[SHAPE_MAX_RANK], more;
    int64_t order[SHAPE_MAX_RANK]; /* of rank + 1 */
};

/* A product whose second operand may come in panels. */
struct candidate {
    struct hlo_instr *instr, *hero;
    int side;               /* the operand of the hero */
    struct hlo_instr *base; /* what it is made of: in the fusion, or the operand itself */
    int operand;            /* of instr: the base's value */
    struct panels panels;
};

/* ---- the form ---- */

struct digit {
    int64_t size, stride;
    int place; /* among the dimensions of the panels */
};

static bool add_digit(struct digit *digits, int *count, int64_t size, int64_t stride) {
    if (size == 1) return true;
    if (*count == SHAPE_MAX_RANK || stride <= 0) return false;
    digits[*count] = (struct digit){size, stride, *count};
    ++*count;
    return true;
}

static bool add_digits(struct digit *digits, int *count, const struct product_dims *dims) {
    for (int i = 0; i < dims->count; i++)
        if (dims->v[i].b != 0 && !add_digit(digits, count, dims->v[i].size, dims->v[i].b))
            return false;
    return true;
}

static void sort_by_stride(struct digit *digits, int count) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && digits[k - 1].stride < digits[k].stride; k--) {
            struct digit d = digits[k];
            digits[k] = digits[k - 1];
            digits[k - 1] = d;
        }
}

/* False where the dimensions of the plan are not all of the row-major operand, each once. */
static bool panels_of(const struct product_plan *plan, const struct shape *operand,
                      struct panels *p) {
    struct digit digits[SHAPE_MAX_RANK];
    const struct product_dims *n = &plan->spec.n;
    int count = 0;
    p->columns = product_panel_columns(plan);
    if (p->columns == 0 || n->count != 1) return false;
    bool fits = add_digits(digits, &count, &plan->spec.batch);
    int place = count; /* of n */
    fits = fits && add_digit(digits, &count, n->v[0].size, n->v[0].b);
    fits = fits && add_digits(digits, &count, &plan->spec.k);
    if (!fits || count == SHAPE_MAX_RANK) return false;
    p->rank = count;
    p->more = -n->v[0].size % p->columns;
    if (p->more < 0) p->more += p->columns;
    sort_by_stride(digits, count);
    int64_t stride = 1;
    for (int i = count - 1; i >= 0; i--) {
        if (digits[i].stride != stride) return false;
        stride *= digits[i].size;
        p->dims[i] = digits[i].size;
        if (digits[i].place == place) p->n_dim = i;
    }
    /* In the array that is transposed, columns stand behind their panels; afterwards, last. */
    for (int i = 0; i < count; i++)
        p->order[digits[i].place] = i + (i > p->n_dim);
    p->order[count] = p->n_dim + 1;
    return stride == operand->count;
}

/* Finds the dimension to pad; where none is to be, panels do not go over the edges of the operand's
 * own dimensions. */
static bool columns_fit(struct panels *p, const struct product_dims *n,
                        const struct shape *operand) {
    int64_t inner = 1, strides[SHAPE_MAX_RANK];
    shape_row_major(operand, strides);
    for (p->padded = 0; p->more && p->padded < operand->rank; p->padded++)
        if (operand->dims[p->padded] == p->dims[p->n_dim] && n->count == 1 &&
            strides[p->padded] == n->v[0].b)
            return true;
    if (p->more) return false;
    for (int i = n->count - 1; i >= 0 && inner < p->columns; i--) {
        inner *= n->v[i].size;
        if (inner < p->columns ? p->columns % inner != 0 : inner % p->columns != 0) return false;
    }
    return true;
}

/* ---- building ---- */

static const struct shape *array_of(const struct hlo_module *module, const struct shape *like,
                                    int rank, const int64_t *dims) {
    return shape_array(module->shapes, like->type, rank, dims);
}

static struct hlo_instr *transpose(struct hlo_instr *from, struct hlo_instr *before, int rank,
                                   const int64_t *order) {
    struct hlo_computation *computation = from->parent;
    int64_t dims[SHAPE_MAX_RANK];
    for (int d = 0; d < rank; d++)
        dims[d] = from->shape->dims[order[d]];
    struct hlo_instr *instr =
        instr_new(computation, before, OP_TRANSPOSE,
                  array_of(computation->module, from->shape, rank, dims), NULL, 1, &from);
    instr_set_ints(instr, ATTR_DIMENSIONS, rank, order);
    return instr;
}

static struct hlo_instr *reshape(struct hlo_instr *from, struct hlo_instr *before, int rank,
                                 const int64_t *dims) {
    const struct shape *shape = array_of(from->parent->module, from->shape, rank, dims);
    return instr_new(from->parent, before, OP_RESHAPE, shape, NULL, 1, &from);
}

/* The operand with whole panels of columns. */
static const struct shape *padded_shape(const struct hlo_module *module,
                                        const struct shape *operand, const struct panels *p) {
    int64_t dims[SHAPE_MAX_RANK];
    for (int d = 0; d < operand->rank; d++)
        dims[d] = operand->dims[d] + (d == p->padded ? p->more : 0);
    return array_of(module, operand, operand->rank, dims);
}

/* The columns that are there, of whole panels. */
static struct hlo_instr *slice(struct hlo_instr *from, struct hlo_instr *before,
                               const struct shape *shape) {
    struct arena *arena = from->parent->module->arena;
    struct slice_dim *dims = arena_array(arena, (size_t)shape->rank, sizeof *dims);
    for (int d = 0; d < shape->rank; d++)
        dims[d] = (struct slice_dim){0, shape->dims[d], 1};
    struct slice_list *list = arena_alloc(arena, sizeof *list);
    *list = (struct slice_list){shape->rank, dims};
    struct hlo_instr *instr = instr_new(from->parent, before, OP_SLICE, shape, NULL, 1, &from);
    struct hlo_attr attr = {.key = ATTR_SLICE, .slices = list};
    instr_set_attr(instr, &attr);
    return instr;
}

static struct hlo_instr *pad(struct hlo_instr *from, const struct panels *p) {
    if (!p->more) return from;
    struct hlo_module *module = from->parent->module;
    int rank = from->shape->rank;
    struct padding_dim *dims = arena_array(module->arena, (size_t)rank, sizeof *dims);
    for (int d = 0; d < rank; d++)
        dims[d] = (struct padding_dim){0, d == p->padded ? p->more : 0, 0};
    struct padding_config *config = arena_alloc(module->arena, sizeof *config);
    *config = (struct padding_config){rank, dims};
    struct literal *none = literal_new(shape_scalar(module->shapes, from->shape->type));
    if (!none) return NULL;
    struct hlo_instr *operands[2] = {from, instr_new_constant(from->parent, NULL, none)};
    struct hlo_instr *instr = instr_new(from->parent, NULL, OP_PAD,
                                        padded_shape(module, from->shape, p), NULL, 2, operands);
    struct hlo_attr attr = {.key = ATTR_PADDING, .padding = config};
    instr_set_attr(instr, &attr);
    return instr;
}

/* Whole panels apart from their columns. */
static struct hlo_instr *split(struct hlo_instr *from, struct hlo_instr *before,
                               const struct panels *p) {
    int64_t dims[SHAPE_MAX_RANK];
    for (int d = 0; d <= p->rank; d++)
        dims[d] = p->dims[d > p->n_dim ? d - 1 : d];
    dims[p->n_dim] = (p->dims[p->n_dim] + p->more) / p->columns;
    dims[p->n_dim + 1] = p->columns;
    return reshape(from, before, p->rank + 1, dims);
}

/* Copies what stands between base and instr, which all have one operand. */
static struct hlo_instr *copy_chain(const struct hlo_instr *instr, const struct hlo_instr *base,
                                    struct hlo_instr *with, struct hlo_computation *into) {
    if (instr == base) return with;
    struct hlo_instr *operand = copy_chain(instr->operands[0], base, with, into);
    return instr_clone(instr, into, NULL, NULL, &operand);
}

static struct hlo_instr *new_fusion(struct hlo_instr *before, struct hlo_computation *body,
                                    const char *name, int kind, int count,
                                    struct hlo_instr *const *operands) {
    struct hlo_instr *fusion =
        instr_new(before->parent, before, OP_FUSION, body->root->shape, name, count, operands);
    instr_set_called(fusion, 1, &body);
    struct hlo_attr attr = {.key = ATTR_FUSION_KIND, .i = kind};
    instr_set_attr(fusion, &attr);
    fusion->metadata = before->metadata;
    return fusion;
}

/* A computation of one parameter that makes the operand. */
static struct hlo_computation *making(const struct candidate *c, struct hlo_instr **end) {
    struct hlo_computation *body = computation_new(c->base->parent->module, "operand", true);
    struct hlo_instr *parameter = instr_new_parameter(body, 0, c->base->shape, "param");
    computation_index_parameters(body);
    *end = copy_chain(c->hero->operands[c->side], c->base, parameter, body);
    return body;
}

/* The same that makes panels of it. */
static struct hlo_computation *packing(const struct candidate *c) {
    const struct panels *p = &c->panels;
    struct hlo_instr *at;
    struct hlo_computation *body = making(c, &at);
    at = pad(at, p);
    if (!at) {
        computation_unlink(body);
        return NULL;
    }
    at = split(at, NULL, p);
    computation_set_root(body, transpose(at, NULL, p->rank + 1, p->order));
    return body;
}

/* The same of a literal. */
static struct literal *pack_literal(const struct hlo_computation *body, struct literal *literal) {
    struct eval_options options = {.max_bytes = 4 * (int64_t)MOST_EVALUATED,
                                   .max_steps = INT64_MAX};
    struct diag quiet; /* what cannot be evaluated is packed at run time */
    diag_init(&quiet, "", NULL, 0);
    struct literal *value = literal_ref(literal);
    for (const struct hlo_instr *i = body->first; i && value; i = i->next) {
        if (i->opcode == OP_PARAMETER || i->opcode == OP_CONSTANT) continue;
        struct literal *operands[2] = {value, i->noperands > 1 ? i->operands[1]->literal : NULL};
        struct literal *next = instr_evaluate(i, operands, &options, &quiet);
        literal_unref(value);
        value = next;
    }
    diag_clear(&quiet);
    return value;
}

/* ---- products ---- */

struct prepack {
    struct hlo_module *module;
    const struct cpu_target *target;
    struct arena *arena;
    struct while_loop *loops;
    int nloops, capacity;
};

static bool has_one_user(const struct hlo_instr *instr) {
    return instr_user_count(instr) == 1;
}

/* Nobody else reads what stands between the base and the hero. */
static bool is_alone(const struct candidate *c) {
    const struct hlo_instr *i = c->hero->operands[c->side];
    for (; i != c->base; i = i->operands[0])
        if (!has_one_user(i)) return false;
    return c->instr == c->hero || has_one_user(i);
}

static bool find_candidate(const struct prepack *p, struct hlo_instr *instr, struct candidate *c) {
    struct product_spec spec;
    struct product_plan plan;
    struct product_view view;
    struct hlo_instr *hero = (struct hlo_instr *)product_hero(instr);
    if (!hero || !product_spec_of(instr, hero, p->target, &spec)) return false;
    product_plan_make(&plan, p->target, &spec, product_has_epilogue(instr));
    if (!product_view_of(instr, hero, 1, &view)) return false;
    *c = (struct candidate){instr, hero, 1, (struct hlo_instr *)view.base, 1, {0}};
    if (instr != hero) c->operand = (int)c->base->parameter;
    if (view.base->shape->type != hero->operands[1]->shape->type) return false;
    if (view.base->shape->count != hero->operands[1]->shape->count) return false;
    return panels_of(&plan, hero->operands[1]->shape, &c->panels) &&
           columns_fit(&c->panels, &spec.n, hero->operands[1]->shape) && is_alone(c);
}

/* The dot or convolution as a fusion of its own. */
static void wrap(struct candidate *c) {
    struct hlo_computation *body = computation_new(c->instr->parent->module, "product", true);
    struct hlo_instr *parameters[2];
    for (int i = 0; i < 2; i++)
        parameters[i] = instr_new_parameter(body, i, c->hero->operands[i]->shape, "param");
    computation_index_parameters(body);
    struct hlo_instr *hero = instr_clone(c->hero, body, NULL, NULL, parameters);
    computation_set_root(body, hero);
    struct hlo_instr *fusion =
        new_fusion(c->instr, body, "product", ENUM_FUSION_KIND_OUTPUT, 2, c->hero->operands);
    instr_replace_uses(c->instr, fusion);
    instr_remove(c->instr);
    c->instr = fusion;
    c->hero = hero;
    c->base = parameters[1];
}

static void remove_chain(struct hlo_instr *end, const struct hlo_instr *base) {
    while (end != base && !instr_has_users(end)) {
        struct hlo_instr *before = end->operands[0];
        instr_remove(end);
        end = before;
    }
}

/* Leads the product to the panels. */
static void use_panels(struct candidate *c, struct hlo_instr *packed) {
    int64_t back[SHAPE_MAX_RANK];
    const struct shape *shape = c->hero->operands[1]->shape;
    struct hlo_instr *end = c->hero->operands[1], *base = c->base;
    base->shape = packed->shape;
    instr_set_operand(c->instr, c->operand, packed);
    const struct panels *p = &c->panels;
    for (int d = 0; d <= p->rank; d++)
        back[p->order[d]] = d;
    struct hlo_instr *after = base->next;
    struct hlo_instr *at = transpose(base, after, p->rank + 1, back);
    const struct shape *whole = padded_shape(base->parent->module, shape, p);
    at = reshape(at, after, shape->rank, p->more ? whole->dims : shape->dims);
    if (p->more) at = slice(at, after, shape);
    instr_set_operand(c->hero, 1, at);
    remove_chain(end, base);
}

/* ---- operands that no kernel reads where they are ---- */

static bool has_code(const struct hlo_instr *instr) {
    return dot_match(instr) || depthwise_match(instr) || conv_match(instr);
}

/* Makes an operand in front of the fusion. */
static bool take_out(struct hlo_instr *instr, struct hlo_instr *hero, int side) {
    struct candidate c = {.instr = instr, .hero = hero, .side = side, .base = hero->operands[side]};
    while (c.base->opcode != OP_PARAMETER)
        c.base = c.base->operands[0];
    if (c.base == hero->operands[side]) return true;
    if (!is_alone(&c)) return false;
    c.operand = (int)c.base->parameter;
    struct hlo_instr *end, *made, *old = hero->operands[side];
    struct hlo_computation *body = making(&c, &end);
    computation_set_root(body, end);
    made =
        new_fusion(instr, body, "operand", ENUM_FUSION_KIND_LOOP, 1, &instr->operands[c.operand]);
    instr_set_operand(instr, c.operand, made);
    c.base->shape = made->shape;
    instr_set_operand(hero, side, c.base);
    remove_chain(old, c.base);
    return true;
}

void product_separate_operands(struct hlo_module *module) {
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation) {
        struct hlo_instr *hero = (struct hlo_instr *)product_hero(instr);
        if (!hero || hero == instr || has_code(instr)) continue;
        if (element_type_is_complex(hero->shape->type) || hero->shape->type == TYPE_PRED) continue;
        bool separate = take_out(instr, hero, 0) && take_out(instr, hero, 1);
        if (!separate) instr_inline_called(instr);
    }
}

/* The loop in whose body the value is the same each time around; NULL. */
static struct while_loop *loop_of(const struct prepack *p, const struct hlo_instr *value) {
    while (value->opcode == OP_BITCAST)
        value = value->operands[0];
    if (value->opcode != OP_GET_TUPLE_ELEMENT) return NULL;
    for (int i = 0; i < p->nloops; i++)
        if (p->loops[i].body_parameter == value->operands[0] &&
            while_is_invariant(&p->loops[i], (int)instr_int(value, ATTR_INDEX, 0)))
            return &p->loops[i];
    return NULL;
}

/* What the value in the body is before the loop. */
static struct hlo_instr *outside(const struct while_loop *loop, const struct hlo_instr *value) {
    if (value->opcode != OP_BITCAST) return loop->init->operands[instr_int(value, ATTR_INDEX, 0)];
    struct hlo_instr *operand = outside(loop, value->operands[0]);
    return instr_clone(value, loop->loop->parent, loop->loop, NULL, &operand);
}

static bool packs_now(const struct hlo_instr *value) {
    return value->opcode == OP_CONSTANT &&
           (value->shape->bytes <= MOST_TWICE ||
            (has_one_user(value) && value->shape->bytes <= MOST_EVALUATED));
}

/* The value in panels, made as far outside as can be. */
static struct hlo_instr *pack(struct prepack *p, struct hlo_instr *value, struct hlo_instr *before,
                              struct hlo_computation *body) {
    struct while_loop *loop = loop_of(p, value);
    if (loop) {
        struct hlo_instr *packed = pack(p, outside(loop, value), loop->loop, body);
        int number = while_add(loop, 1, &packed);
        return loop->root->operands[number];
    }
    struct literal *literal = packs_now(value) ? pack_literal(body, value->literal) : NULL;
    if (literal) return instr_new_constant(before->parent, before, literal);
    return new_fusion(before, body, "pack", ENUM_FUSION_KIND_LOOP, 1, &value);
}

static bool prepack(struct prepack *p, struct hlo_instr *instr) {
    struct candidate c;
    if (!find_candidate(p, instr, &c)) return false;
    struct hlo_instr *value = instr->operands[c.operand];
    if (!packs_now(value) && !loop_of(p, value)) return false;
    struct hlo_computation *body = packing(&c);
    if (!body) return false;
    if (c.instr == c.hero) wrap(&c);
    use_panels(&c, pack(p, value, c.instr, body));
    return true;
}

void prepack_run(struct hlo_module *module, const struct cpu_target *target) {
    struct prepack p = {.module = module, .target = target, .arena = arena_new()};
    count_callers(module);
    FOR_EACH_COMPUTATION(computation, module)
    FOR_EACH_INSTR(instr, computation) {
        struct while_loop loop;
        if (!while_open(instr, &loop)) continue;
        p.loops = arena_grow(p.arena, p.loops, &p.capacity, p.nloops + 1, sizeof *p.loops);
        p.loops[p.nloops++] = loop;
    }
    mark_running_computations(module);
    FOR_EACH_COMPUTATION(computation, module) {
        if (!computation->mark) continue;
        FOR_EACH_INSTR(instr, computation) prepack(&p, instr);
    }
    arena_free(p.arena);
}
