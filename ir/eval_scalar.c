/* Scalars: loading and storing elements, and straight-line computations on scalars compiled to a
 * flat program, so that a reduction does not build literals for each element. */
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"
#include "ir/number.h"

enum scalar_class scalar_class(enum element_type type) {
    switch (type) {
    case TYPE_F64: return CLASS_F64;
    case TYPE_C64: return CLASS_C64;
    case TYPE_C128: return CLASS_C128;
    default: break;
    }
    if (element_type_is_float(type)) return CLASS_F32;
    return element_type_is_integral(type) || type == TYPE_PRED ? CLASS_INT : CLASS_NONE;
}

static inline void load_one(enum element_type type, const void *data, int64_t index,
                            union scalar *out) {
    switch (type) {
    case TYPE_F32: out->f = ((const float *)data)[index]; break;
    case TYPE_F64: out->d = ((const double *)data)[index]; break;
    case TYPE_BF16: out->f = number_bf16_to_float(((const uint16_t *)data)[index]); break;
    case TYPE_F16: out->f = number_f16_to_float(((const uint16_t *)data)[index]); break;
    case TYPE_C64: memcpy(out->cf, (const float *)data + 2 * index, sizeof out->cf); break;
    case TYPE_C128: memcpy(out->cd, (const double *)data + 2 * index, sizeof out->cd); break;
    case TYPE_S1:
    case TYPE_S2:
    case TYPE_S4:
    case TYPE_S8: out->i = ((const int8_t *)data)[index]; break;
    case TYPE_S16: out->i = ((const int16_t *)data)[index]; break;
    case TYPE_S32: out->i = ((const int32_t *)data)[index]; break;
    case TYPE_S64:
    case TYPE_U64: out->i = ((const int64_t *)data)[index]; break;
    case TYPE_U16: out->i = ((const uint16_t *)data)[index]; break;
    case TYPE_U32: out->i = ((const uint32_t *)data)[index]; break;
    case TYPE_PRED:
    case TYPE_U1:
    case TYPE_U2:
    case TYPE_U4:
    case TYPE_U8: out->i = ((const uint8_t *)data)[index]; break;
    default: /* floats of 8 bits and less */
        out->f = (float)number_decode(type, ((const uint8_t *)data)[index]);
        break;
    }
}

static inline void store_one(enum element_type type, void *data, int64_t index,
                             const union scalar *value) {
    switch (type) {
    case TYPE_F32: ((float *)data)[index] = value->f; break;
    case TYPE_F64: ((double *)data)[index] = value->d; break;
    case TYPE_BF16: ((uint16_t *)data)[index] = number_float_to_bf16(value->f); break;
    case TYPE_F16: ((uint16_t *)data)[index] = number_float_to_f16(value->f); break;
    case TYPE_C64: memcpy((float *)data + 2 * index, value->cf, sizeof value->cf); break;
    case TYPE_C128: memcpy((double *)data + 2 * index, value->cd, sizeof value->cd); break;
    case TYPE_S16:
    case TYPE_U16: ((uint16_t *)data)[index] = (uint16_t)value->u; break;
    case TYPE_S32:
    case TYPE_U32: ((uint32_t *)data)[index] = (uint32_t)value->u; break;
    case TYPE_S64:
    case TYPE_U64: ((uint64_t *)data)[index] = value->u; break;
    case TYPE_PRED:
    case TYPE_S1:
    case TYPE_S2:
    case TYPE_S4:
    case TYPE_S8:
    case TYPE_U1:
    case TYPE_U2:
    case TYPE_U4:
    case TYPE_U8: ((uint8_t *)data)[index] = (uint8_t)value->u; break;
    default: ((uint8_t *)data)[index] = (uint8_t)number_encode(type, value->f); break;
    }
}

void scalar_load(enum element_type type, const void *data, int64_t start, int n,
                 union scalar *out) {
    if (type == TYPE_F32) {
        const float *in = (const float *)data + start;

        for (int k = 0; k < n; k++)
            out[k].f = in[k];
        return;
    }
    for (int k = 0; k < n; k++)
        load_one(type, data, start + k, &out[k]);
}

void scalar_store(enum element_type type, void *data, int64_t start, int n,
                  const union scalar *values) {
    if (type == TYPE_F32) {
        float *out = (float *)data + start;

        for (int k = 0; k < n; k++)
            out[k] = values[k].f;
        return;
    }
    for (int k = 0; k < n; k++)
        store_one(type, data, start + k, &values[k]);
}

void scalar_load_at(enum element_type type, const void *data, const int64_t *base, int64_t offset,
                    int n, union scalar *out) {
    if (type == TYPE_F32) {
        const float *in = (const float *)data + offset;

        for (int k = 0; k < n; k++)
            out[k].f = in[base[k]];
        return;
    }
    for (int k = 0; k < n; k++)
        load_one(type, data, base[k] + offset, &out[k]);
}

void scalar_round(enum element_type type, int n, union scalar *values) {
    uint64_t bits;

    if (scalar_class(type) != CLASS_F32 || type == TYPE_F32) return;
    for (int k = 0; k < n; k++) {
        if (type == TYPE_BF16) {
            values[k].f = number_bf16_to_float(number_float_to_bf16(values[k].f));
        } else if (type == TYPE_F16) {
            values[k].f = number_f16_to_float(number_float_to_f16(values[k].f));
        } else {
            bits = number_encode(type, values[k].f);
            values[k].f = (float)number_decode(type, bits);
        }
    }
}

/* ---- programs ---- */

struct scalar_step {
    struct scalar_op op;
    int out, a, b, c; /* slots */
};

struct slot_list { /* a value while compiling: one slot, or those of a tuple */
    int count;
    int *slots;
    bool is_tuple;
};

struct scalar_fn {
    struct eval *e;
    const struct hlo_instr *caller;
    const struct hlo_computation *computation;
    struct arena *arena;
    bool wide, straight;
    int nparams, nresults;
    enum element_type *param_types, *result_types;
    const struct shape **param_shapes;
    int nsteps, step_capacity;
    struct scalar_step *steps;
    int nslots, slot_capacity;
    const union scalar **slots; /* each EVAL_BLOCK values; parameters are borrowed for a run */
    int *results;
    union scalar *spare; /* for results that are arguments */
};

enum { PROGRAM_MAX_STEPS = 4096, PROGRAM_MAX_INLINE = 16 };

static int new_slot(struct scalar_fn *fn, bool storage) {
    fn->slots =
        arena_grow(fn->arena, fn->slots, &fn->slot_capacity, fn->nslots + 1, sizeof *fn->slots);
    fn->slots[fn->nslots] =
        storage ? arena_array(fn->arena, EVAL_BLOCK, sizeof(union scalar)) : NULL;
    return fn->nslots++;
}

static struct slot_list one_slot(struct scalar_fn *fn, int slot) {
    struct slot_list list = {1, arena_array(fn->arena, 1, sizeof(int)), false};

    list.slots[0] = slot;
    return list;
}

static bool is_identity(enum hlo_opcode opcode) {
    switch (opcode) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_COPY:
    case OP_TRANSPOSE:
    case OP_OPT_BARRIER: return true;
    default: return false;
    }
}

struct name_map { /* values of the computation being compiled, by position */
    int count;
    const struct hlo_instr **instrs;
    struct slot_list *values;
};

static const struct slot_list *find_value(const struct name_map *map, const struct hlo_instr *i) {
    for (int k = map->count - 1; k >= 0; k--)
        if (map->instrs[k] == i) return &map->values[k];
    return NULL;
}

static bool compile(struct scalar_fn *fn, const struct hlo_computation *computation,
                    const struct slot_list *args, int depth, struct slot_list *result);

static bool compile_operation(struct scalar_fn *fn, const struct hlo_instr *instr,
                              const struct name_map *map, struct slot_list *result) {
    struct scalar_step step = {0};
    const struct slot_list *a, *b = NULL, *c = NULL;

    if (!shape_is_array(instr->shape) || instr->shape->count != 1 ||
        !scalar_op_init(&step.op, instr) || fn->nsteps >= PROGRAM_MAX_STEPS)
        return false;
    for (int k = 0; k < instr->noperands; k++)
        if (instr->operands[k]->shape->count != 1) return false;
    a = find_value(map, instr->operands[0]);
    if (instr->noperands > 1) b = find_value(map, instr->operands[1]);
    if (instr->noperands > 2) c = find_value(map, instr->operands[2]);
    if (!a || (instr->noperands > 1 && !b) || (instr->noperands > 2 && !c)) return false;
    if (fn->wide && (step.op.out == TYPE_BF16 || step.op.out == TYPE_F16)) {
        if (step.op.opcode == OP_CONVERT) return false; /* explicit roundings stay */
        step.op.out = TYPE_F32;
    }
    step.a = a->slots[0];
    step.b = b ? b->slots[0] : step.a;
    step.c = c ? c->slots[0] : step.a;
    step.out = new_slot(fn, true);
    fn->steps =
        arena_grow(fn->arena, fn->steps, &fn->step_capacity, fn->nsteps + 1, sizeof *fn->steps);
    fn->steps[fn->nsteps++] = step;
    *result = one_slot(fn, step.out);
    return true;
}

static bool compile_constant(struct scalar_fn *fn, const struct hlo_instr *instr,
                             struct slot_list *result) {
    int slot;
    union scalar *values;

    if (!instr->literal || !instr->literal->data || instr->shape->count != 1) return false;
    slot = new_slot(fn, true);
    values = (union scalar *)fn->slots[slot];
    scalar_load(instr->shape->type, instr->literal->data, 0, 1, values);
    for (int k = 1; k < EVAL_BLOCK; k++)
        values[k] = values[0];
    *result = one_slot(fn, slot);
    return true;
}

static bool compile_tuple(struct scalar_fn *fn, const struct hlo_instr *instr,
                          const struct name_map *map, struct slot_list *result) {
    result->is_tuple = true;
    result->count = instr->noperands;
    result->slots = arena_array(fn->arena, (size_t)instr->noperands + 1, sizeof(int));
    for (int k = 0; k < instr->noperands; k++) {
        const struct slot_list *value = find_value(map, instr->operands[k]);

        if (!value || value->is_tuple) return false;
        result->slots[k] = value->slots[0];
    }
    return true;
}

static bool compile_call(struct scalar_fn *fn, const struct hlo_instr *instr,
                         const struct name_map *map, int depth, struct slot_list *result) {
    struct slot_list *args = arena_array(fn->arena, (size_t)instr->noperands + 1, sizeof *args);

    if (instr->ncalled != 1 || depth >= PROGRAM_MAX_INLINE) return false;
    for (int k = 0; k < instr->noperands; k++) {
        const struct slot_list *value = find_value(map, instr->operands[k]);

        if (!value) return false;
        args[k] = *value;
    }
    return instr->called[0]->nparameters == instr->noperands &&
           compile(fn, instr->called[0], args, depth + 1, result);
}

static bool compile_instr(struct scalar_fn *fn, const struct hlo_instr *instr,
                          const struct name_map *map, const struct slot_list *args, int depth,
                          struct slot_list *result) {
    const struct slot_list *value;
    int64_t index;

    switch (instr->opcode) {
    case OP_PARAMETER: *result = args[instr->parameter]; return true;
    case OP_CONSTANT: return compile_constant(fn, instr, result);
    case OP_TUPLE: return compile_tuple(fn, instr, map, result);
    case OP_GET_TUPLE_ELEMENT:
        value = find_value(map, instr->operands[0]);
        index = instr_int(instr, ATTR_INDEX, 0);
        if (!value || !value->is_tuple || index < 0 || index >= value->count) return false;
        *result = one_slot(fn, value->slots[index]);
        return true;
    case OP_CALL:
    case OP_FUSION:
    case OP_MAP:
        return (instr->opcode != OP_MAP || instr->shape->count == 1) &&
               compile_call(fn, instr, map, depth, result);
    default: break;
    }
    if (is_identity(instr->opcode)) {
        value = find_value(map, instr->operands[0]);
        if (!value || (!value->is_tuple && instr->shape->count != 1) ||
            (!value->is_tuple && instr->operands[0]->shape->count != 1) ||
            (!value->is_tuple && instr->operands[0]->shape->type != instr->shape->type))
            return false;
        *result = *value;
        return true;
    }
    return compile_operation(fn, instr, map, result);
}

/* False where it is not straight-line code on scalars. */
static bool compile(struct scalar_fn *fn, const struct hlo_computation *computation,
                    const struct slot_list *args, int depth, struct slot_list *result) {
    struct name_map map = {0};
    const struct slot_list *root;

    if (computation->count > PROGRAM_MAX_STEPS) return false;
    map.instrs = arena_array(fn->arena, (size_t)computation->count + 1, sizeof *map.instrs);
    map.values = arena_array(fn->arena, (size_t)computation->count + 1, sizeof *map.values);
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        if (!compile_instr(fn, i, &map, args, depth, &map.values[map.count])) return false;
        map.instrs[map.count++] = i;
        if (i == computation->root) break;
    }
    root = find_value(&map, computation->root);
    if (!root) return false;
    *result = *root;
    return true;
}

static bool describe(struct scalar_fn *fn) {
    const struct hlo_computation *c = fn->computation;
    const struct shape *shape = c->root->shape;

    fn->nparams = c->nparameters;
    fn->param_types = arena_array(fn->arena, (size_t)fn->nparams + 1, sizeof *fn->param_types);
    fn->param_shapes = arena_array(fn->arena, (size_t)fn->nparams + 1, sizeof *fn->param_shapes);
    for (int k = 0; k < fn->nparams; k++) {
        fn->param_types[k] = c->parameters[k]->shape->type;
        fn->param_shapes[k] = c->parameters[k]->shape;
        if (c->parameters[k]->shape->count != 1) return false;
    }
    fn->nresults = shape_is_tuple(shape) ? shape->ntuple : 1;
    fn->result_types = arena_array(fn->arena, (size_t)fn->nresults + 1, sizeof *fn->result_types);
    for (int k = 0; k < fn->nresults; k++) {
        const struct shape *leaf = shape_is_tuple(shape) ? shape->tuple[k] : shape;

        fn->result_types[k] = leaf->type;
        if (leaf->count != 1) return false;
    }
    return true;
}

struct scalar_fn *scalar_fn_new(struct eval *e, const struct hlo_instr *caller,
                                const struct hlo_computation *computation, bool wide) {
    struct arena *arena = arena_new();
    struct scalar_fn *fn = arena_alloc(arena, sizeof *fn);
    struct slot_list *args, result = {0};

    fn->e = e;
    fn->caller = caller;
    fn->computation = computation;
    fn->arena = arena;
    fn->wide = wide;
    if (!describe(fn)) {
        eval_error(e, caller, "computation %s is not one on scalars", computation->name);
        arena_free(arena);
        return NULL;
    }
    args = arena_array(arena, (size_t)fn->nparams + 1, sizeof *args);
    for (int k = 0; k < fn->nparams; k++)
        args[k] = one_slot(fn, new_slot(fn, false));
    fn->straight = compile(fn, computation, args, 0, &result) && result.count == fn->nresults;
    if (!fn->straight && wide) {
        arena_free(arena);
        return scalar_fn_new(e, caller, computation, false);
    }
    fn->results = result.slots;
    if (fn->nresults > 1)
        fn->spare = arena_array(arena, (size_t)fn->nresults, EVAL_BLOCK * sizeof(union scalar));
    return fn;
}

void scalar_fn_free(struct scalar_fn *fn) {
    if (fn) arena_free(fn->arena);
}

int scalar_fn_result_count(const struct scalar_fn *fn) {
    return fn->nresults;
}

/* One call through literals, for computations with control flow or arrays in them. */
static bool run_slowly(struct scalar_fn *fn, int k, const union scalar *const *args,
                       union scalar *const *results) {
    struct literal **values = eval_scratch(fn->e, fn->caller, fn->nparams + 1, sizeof *values);
    struct literal *result;

    if (!values) return false;
    for (int p = 0; p < fn->nparams; p++) {
        values[p] = eval_new(fn->e, fn->caller, fn->param_shapes[p]);
        if (!values[p]) {
            for (int q = 0; q < p; q++)
                eval_drop(fn->e, values[q]);
            free(values);
            return false;
        }
        scalar_store(fn->param_types[p], values[p]->data, 0, 1, &args[p][k]);
    }
    result = eval_computation(fn->e, fn->computation, fn->nparams, values);
    free(values);
    if (!result) return false;
    for (int r = 0; r < fn->nresults; r++) {
        const struct literal *leaf = result->elements ? result->elements[r] : result;

        scalar_load(fn->result_types[r], leaf->data, 0, 1, &results[r][k]);
    }
    eval_drop(fn->e, result);
    return true;
}

bool scalar_fn_run(struct scalar_fn *fn, int n, const union scalar *const *args,
                   union scalar *const *results) {
    if (!fn->straight) {
        for (int k = 0; k < n; k++)
            if (!run_slowly(fn, k, args, results)) return false;
        return true;
    }
    for (int p = 0; p < fn->nparams; p++)
        fn->slots[p] = args[p];
    for (int s = 0; s < fn->nsteps; s++) {
        const struct scalar_step *step = &fn->steps[s];

        scalar_op_run(&step->op, n, (union scalar *)fn->slots[step->out], fn->slots[step->a],
                      fn->slots[step->b], fn->slots[step->c]);
    }
    if (fn->nresults == 1) {
        memmove(results[0], fn->slots[fn->results[0]], (size_t)n * sizeof(union scalar));
        return true;
    }
    for (int r = 0; r < fn->nresults; r++) /* it may be an argument that is overwritten here */
        if (fn->results[r] < fn->nparams)
            memcpy(fn->spare + r * EVAL_BLOCK, fn->slots[fn->results[r]],
                   (size_t)n * sizeof(union scalar));
    for (int r = 0; r < fn->nresults; r++)
        memmove(results[r],
                fn->results[r] < fn->nparams ? fn->spare + r * EVAL_BLOCK
                                             : fn->slots[fn->results[r]],
                (size_t)n * sizeof(union scalar));
    return true;
}
