/* The driver: computations instruction by instruction, with values dropped after their last use,
 * and limits on memory, work and depth. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"

static const int64_t default_max_bytes = (int64_t)8 << 30;

static eval_fn *const handlers[OPCODE_COUNT] = {
    [OP_ABS] = eval_elementwise,
    [OP_ACOS] = eval_elementwise,
    [OP_ACOSH] = eval_elementwise,
    [OP_ASIN] = eval_elementwise,
    [OP_ASINH] = eval_elementwise,
    [OP_ATANH] = eval_elementwise,
    [OP_CBRT] = eval_elementwise,
    [OP_CEIL] = eval_elementwise,
    [OP_COUNT_LEADING_ZEROS] = eval_elementwise,
    [OP_COSINE] = eval_elementwise,
    [OP_COSH] = eval_elementwise,
    [OP_ERF] = eval_elementwise,
    [OP_EXPONENTIAL] = eval_elementwise,
    [OP_EXPONENTIAL_MINUS_ONE] = eval_elementwise,
    [OP_FLOOR] = eval_elementwise,
    [OP_IMAG] = eval_elementwise,
    [OP_IS_FINITE] = eval_elementwise,
    [OP_LOG] = eval_elementwise,
    [OP_LOG_PLUS_ONE] = eval_elementwise,
    [OP_LOGISTIC] = eval_elementwise,
    [OP_NEGATE] = eval_elementwise,
    [OP_NOT] = eval_elementwise,
    [OP_POPCNT] = eval_elementwise,
    [OP_REAL] = eval_elementwise,
    [OP_ROUND_NEAREST_AFZ] = eval_elementwise,
    [OP_ROUND_NEAREST_EVEN] = eval_elementwise,
    [OP_RSQRT] = eval_elementwise,
    [OP_SIGN] = eval_elementwise,
    [OP_SINE] = eval_elementwise,
    [OP_SINH] = eval_elementwise,
    [OP_SQRT] = eval_elementwise,
    [OP_TAN] = eval_elementwise,
    [OP_TANH] = eval_elementwise,
    [OP_ADD] = eval_elementwise,
    [OP_AND] = eval_elementwise,
    [OP_MAXIMUM] = eval_elementwise,
    [OP_MINIMUM] = eval_elementwise,
    [OP_MULTIPLY] = eval_elementwise,
    [OP_OR] = eval_elementwise,
    [OP_XOR] = eval_elementwise,
    [OP_MULHI] = eval_elementwise,
    [OP_ATAN2] = eval_elementwise,
    [OP_COMPLEX] = eval_elementwise,
    [OP_DIVIDE] = eval_elementwise,
    [OP_POWER] = eval_elementwise,
    [OP_REMAINDER] = eval_elementwise,
    [OP_SHIFT_LEFT] = eval_elementwise,
    [OP_SHIFT_RIGHT_ARITHMETIC] = eval_elementwise,
    [OP_SHIFT_RIGHT_LOGICAL] = eval_elementwise,
    [OP_SUBTRACT] = eval_elementwise,
    [OP_COMPARE] = eval_elementwise,
    [OP_CLAMP] = eval_elementwise,
    [OP_SELECT] = eval_elementwise,
    [OP_CONVERT] = eval_elementwise,
    [OP_REDUCE_PRECISION] = eval_elementwise,
    [OP_BITCAST_CONVERT] = eval_bitcast_convert,
    [OP_STOCHASTIC_CONVERT] = eval_stochastic_convert,
    [OP_MAP] = eval_map,
    [OP_CONSTANT] = eval_constant,
    [OP_IOTA] = eval_iota,
    [OP_PARTITION_ID] = eval_device_id,
    [OP_REPLICA_ID] = eval_device_id,
    [OP_TUPLE] = eval_tuple,
    [OP_GET_TUPLE_ELEMENT] = eval_get_tuple_element,
    [OP_BITCAST] = eval_bitcast,
    [OP_RESHAPE] = eval_reshape,
    [OP_DYNAMIC_RESHAPE] = eval_reshape,
    [OP_BROADCAST] = eval_broadcast,
    [OP_TRANSPOSE] = eval_transpose,
    [OP_REVERSE] = eval_reverse,
    [OP_CONCATENATE] = eval_concatenate,
    [OP_PAD] = eval_pad,
    [OP_SLICE] = eval_slice,
    [OP_DYNAMIC_SLICE] = eval_dynamic_slice,
    [OP_DYNAMIC_UPDATE_SLICE] = eval_dynamic_update_slice,
    [OP_GET_DIMENSION_SIZE] = eval_get_dimension_size,
    [OP_SET_DIMENSION_SIZE] = eval_set_dimension_size,
    [OP_COPY] = eval_identity,
    [OP_COPY_START] = eval_copy_start,
    [OP_COPY_DONE] = eval_copy_done,
    [OP_GATHER] = eval_gather,
    [OP_SCATTER] = eval_scatter,
    [OP_DOT] = eval_dot,
    [OP_RAGGED_DOT] = eval_ragged_dot,
    [OP_SCALED_DOT] = eval_scaled_dot,
    [OP_CONVOLUTION] = eval_convolution,
    [OP_REDUCE] = eval_reduce,
    [OP_REDUCE_WINDOW] = eval_reduce_window,
    [OP_SELECT_AND_SCATTER] = eval_select_and_scatter,
    [OP_SCAN] = eval_scan,
    [OP_SORT] = eval_sort,
    [OP_TOPK] = eval_topk,
    [OP_FFT] = eval_fft,
    [OP_CHOLESKY] = eval_cholesky,
    [OP_TRIANGULAR_SOLVE] = eval_triangular_solve,
    [OP_BATCH_NORM_TRAINING] = eval_batch_norm_training,
    [OP_BATCH_NORM_INFERENCE] = eval_batch_norm_inference,
    [OP_BATCH_NORM_GRAD] = eval_batch_norm_grad,
    [OP_RNG] = eval_rng,
    [OP_RNG_BIT_GENERATOR] = eval_rng_bit_generator,
    [OP_RNG_GET_AND_UPDATE_STATE] = eval_rng_state,
    [OP_CALL] = eval_call,
    [OP_FUSION] = eval_call,
    [OP_WHILE] = eval_while,
    [OP_CONDITIONAL] = eval_conditional,
    [OP_CUSTOM_CALL] = eval_custom_call,
    [OP_OPT_BARRIER] = eval_identity,
    [OP_DOMAIN] = eval_identity,
    [OP_ADD_DEPENDENCY] = eval_identity,
    [OP_AFTER_ALL] = eval_token,
    [OP_ALL_REDUCE] = eval_collective,
    [OP_ALL_GATHER] = eval_collective,
    [OP_COLLECTIVE_PERMUTE] = eval_collective,
    [OP_ALL_REDUCE_START] = eval_collective,
    [OP_ALL_GATHER_START] = eval_collective_start,
    [OP_COLLECTIVE_PERMUTE_START] = eval_collective_start,
    [OP_ALL_REDUCE_DONE] = eval_identity,
    [OP_ALL_GATHER_DONE] = eval_collective_done,
    [OP_COLLECTIVE_PERMUTE_DONE] = eval_collective_done,
    [OP_ALL_TO_ALL] = eval_collective,
    [OP_RAGGED_ALL_TO_ALL] = eval_collective,
    [OP_REDUCE_SCATTER] = eval_collective,
    [OP_COLLECTIVE_BROADCAST] = eval_collective,
    [OP_ASYNC_START] = eval_async_start,
    [OP_ASYNC_UPDATE] = eval_async_pass,
    [OP_ASYNC_DONE] = eval_async_done,
};

eval_fn *eval_handler(enum hlo_opcode opcode) {
    return opcode > OPCODE_INVALID && opcode < OPCODE_COUNT ? handlers[opcode] : NULL;
}

bool opcode_has_evaluation(enum hlo_opcode opcode) {
    return opcode == OP_PARAMETER || eval_handler(opcode) != NULL;
}

/* ---- errors, limits, memory ---- */

struct literal *eval_error(struct eval *e, const struct hlo_instr *instr, const char *format, ...) {
    char text[512];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    diag_instr_error(e->diag, instr, "%s", text);
    return NULL;
}

bool eval_charge(struct eval *e, const struct hlo_instr *instr, int64_t n) {
    int64_t limit = e->options->max_steps;

    if (n < 0 || __builtin_add_overflow(e->steps, n, &e->steps)) e->steps = INT64_MAX;
    if (limit > 0 && e->steps > limit) {
        eval_error(e, instr, "evaluation takes more than %lld steps", (long long)limit);
        return false;
    }
    if (e->options->interrupt && atomic_load(e->options->interrupt)) {
        eval_error(e, instr, "interrupted");
        return false;
    }
    return true;
}

static bool account(struct eval *e, const struct hlo_instr *instr, const struct shape *shape) {
    int64_t bytes = shape_is_tuple(shape) ? 0 : shape->bytes;

    if (!eval_charge(e, instr, shape->count > 0 ? shape->count : 1)) return false;
    if (bytes > e->max_bytes - e->live_bytes) {
        eval_error(e, instr, "values alive at once would take more than %lld bytes",
                   (long long)e->max_bytes);
        return false;
    }
    e->live_bytes += bytes;
    return true;
}

static struct literal *check_memory(struct eval *e, const struct hlo_instr *instr,
                                    const struct shape *shape, struct literal *literal) {
    if (literal) return literal;
    e->live_bytes -= shape_is_tuple(shape) ? 0 : shape->bytes;
    return eval_error(e, instr, "out of memory for a value of %lld bytes", (long long)shape->bytes);
}

static bool is_concrete(struct eval *e, const struct hlo_instr *instr, const struct shape *shape) {
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 0) {
            eval_error(e, instr, "a dimension of unbounded size cannot be evaluated");
            return false;
        }
    return true;
}

struct literal *eval_new(struct eval *e, const struct hlo_instr *instr, const struct shape *shape) {
    struct literal *literal;
    const struct shape *leaf;

    if (!shape_is_tuple(shape)) {
        if (!is_concrete(e, instr, shape) || !account(e, instr, shape)) return NULL;
        return check_memory(e, instr, shape, literal_new(shape));
    }
    for (int i = 0; i < shape->nleaves; i++) {
        leaf = shape_leaf(shape, i);
        if (!is_concrete(e, instr, leaf)) return NULL;
    }
    if (shape->bytes > e->max_bytes - e->live_bytes)
        return eval_error(e, instr, "values alive at once would take more than %lld bytes",
                          (long long)e->max_bytes);
    literal = literal_new(shape);
    if (!literal) return eval_error(e, instr, "out of memory");
    e->live_bytes += shape->bytes;
    return literal;
}

struct literal *eval_new_uninit(struct eval *e, const struct hlo_instr *instr,
                                const struct shape *shape) {
    if (!is_concrete(e, instr, shape) || !account(e, instr, shape)) return NULL;
    return check_memory(e, instr, shape, literal_new_uninit(shape));
}

struct literal *eval_new_tuple(struct eval *e, const struct hlo_instr *instr,
                               const struct shape *shape, struct literal **elements) {
    struct literal *literal = NULL;

    if (eval_charge(e, instr, 1)) {
        literal = literal_new_tuple(shape, elements);
        if (!literal) eval_error(e, instr, "out of memory");
    }
    if (!literal)
        for (int i = 0; i < shape->ntuple; i++)
            eval_drop(e, elements[i]);
    return literal;
}

static void uncount(struct eval *e, const struct literal *literal) {
    if (!literal || literal->refs != 1) return;
    if (!literal->elements) {
        e->live_bytes -= (int64_t)literal->size;
        return;
    }
    for (int i = 0; i < literal->shape->ntuple; i++)
        uncount(e, literal->elements[i]);
}

void eval_drop(struct eval *e, struct literal *literal) {
    uncount(e, literal);
    literal_unref(literal);
}

void *eval_scratch(struct eval *e, const struct hlo_instr *instr, int64_t count, size_t size) {
    int64_t bytes;
    void *memory = NULL;

    if (count >= 0 && !__builtin_mul_overflow(count, (int64_t)size, &bytes) &&
        bytes <= e->max_bytes)
        memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory) eval_error(e, instr, "out of memory for intermediate values");
    return memory;
}

/* ---- plans ---- */

struct plan_step {
    const struct hlo_instr *instr;
    int first_operand; /* in plan->operands */
};

/* A computation's live instructions with operands as positions, made once an evaluation. */
struct eval_plan {
    const struct hlo_computation *computation;
    int nsteps, root;
    struct plan_step *steps;
    int *operands;
    int *uses; /* of each step's value, the root's use as the result included */
};

static void plan_free(struct eval_plan *plan) {
    if (!plan) return;
    free(plan->steps);
    free(plan->operands);
    free(plan->uses);
    free(plan);
}

struct position { /* open-addressed, by instruction */
    const struct hlo_instr *instr;
    int index;
};

static size_t hash_pointer(const void *pointer) {
    uint64_t x = (uint64_t)(uintptr_t)pointer * 0x9e3779b97f4a7c15ull;

    return (size_t)(x ^ x >> 29);
}

static struct position *find_position(struct position *table, size_t mask,
                                      const struct hlo_instr *instr) {
    size_t at = hash_pointer(instr) & mask;

    while (table[at].instr && table[at].instr != instr)
        at = (at + 1) & mask;
    return &table[at];
}

static void mark_live(struct eval_plan *plan) {
    plan->uses[plan->root]++;
    for (int s = plan->nsteps - 1; s >= 0; s--) {
        const struct plan_step *step = &plan->steps[s];

        if (!plan->uses[s]) continue;
        for (int k = 0; k < step->instr->noperands; k++)
            plan->uses[plan->operands[step->first_operand + k]]++;
    }
}

/* False where an operand does not stand before its user. */
static bool fill_plan(struct eval_plan *plan, struct position *table, size_t mask) {
    int s = 0, o = 0;

    plan->root = -1;
    for (const struct hlo_instr *i = plan->computation->first; i; i = i->next, s++) {
        struct position *position;

        plan->steps[s] = (struct plan_step){i, o};
        for (int k = 0; k < i->noperands; k++) {
            position = find_position(table, mask, i->operands[k]);
            if (!position->instr) return false;
            plan->operands[o++] = position->index;
        }
        *find_position(table, mask, i) = (struct position){i, s};
        if (i == plan->computation->root) plan->root = s;
    }
    return plan->root >= 0;
}

static struct eval_plan *plan_new(const struct hlo_computation *computation) {
    struct eval_plan *plan = calloc(1, sizeof *plan);
    struct position *table = NULL;
    size_t noperands = 0, size = 16;
    bool good = false;

    if (!plan) return NULL;
    plan->computation = computation;
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        plan->nsteps++;
        noperands += (size_t)i->noperands;
    }
    while (size < (size_t)plan->nsteps * 2)
        size *= 2;
    table = calloc(size, sizeof *table);
    plan->steps = calloc((size_t)plan->nsteps + 1, sizeof *plan->steps);
    plan->operands = calloc(noperands + 1, sizeof *plan->operands);
    plan->uses = calloc((size_t)plan->nsteps + 1, sizeof *plan->uses);
    if (table && plan->steps && plan->operands && plan->uses)
        good = fill_plan(plan, table, size - 1);
    free(table);
    if (!good) {
        plan_free(plan);
        return NULL;
    }
    mark_live(plan);
    return plan;
}

static bool grow_plans(struct eval *e) {
    int capacity = e->plan_capacity ? e->plan_capacity * 2 : 32;
    struct eval_plan **plans = calloc((size_t)capacity, sizeof(struct eval_plan *));

    if (!plans) return false;
    for (int i = 0; i < e->plan_capacity; i++) {
        size_t at;

        if (!e->plans[i]) continue;
        at = hash_pointer(e->plans[i]->computation) & (size_t)(capacity - 1);
        while (plans[at])
            at = (at + 1) & (size_t)(capacity - 1);
        plans[at] = e->plans[i];
    }
    free(e->plans);
    e->plans = plans;
    e->plan_capacity = capacity;
    return true;
}

static struct eval_plan *find_plan(struct eval *e, const struct hlo_computation *computation) {
    size_t at;

    if (2 * (e->plan_count + 1) > e->plan_capacity && !grow_plans(e)) return NULL;
    at = hash_pointer(computation) & (size_t)(e->plan_capacity - 1);
    while (e->plans[at] && e->plans[at]->computation != computation)
        at = (at + 1) & (size_t)(e->plan_capacity - 1);
    if (!e->plans[at]) {
        e->plans[at] = plan_new(computation);
        if (!e->plans[at]) return NULL;
        e->plan_count++;
    }
    return e->plans[at];
}

/* ---- running ---- */

/* Live sizes go through operations that keep every dimension. */
static bool pass_dynamic_sizes(const struct hlo_instr *instr, struct literal **ops,
                               struct literal *result) {
    size_t size = (size_t)instr->shape->rank * sizeof(int64_t);

    if (!(opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) || result->dynamic_sizes)
        return true;
    for (int k = 0; k < instr->noperands; k++) {
        if (!ops[k]->dynamic_sizes || ops[k]->shape->rank != instr->shape->rank) continue;
        result->dynamic_sizes = malloc(size + 1);
        if (!result->dynamic_sizes) return false;
        memcpy(result->dynamic_sizes, ops[k]->dynamic_sizes, size);
        return true;
    }
    return true;
}

static struct literal *run_instr(struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops) {
    eval_fn *handler = eval_handler(instr->opcode);
    struct literal *result;

    if (!handler) return eval_error(e, instr, "this operation has no evaluation on one device");
    for (int k = 0; k < instr->noperands; k++)
        if (ops[k]->elided) return eval_error(e, instr, "operand %d is an elided constant", k);
    result = handler(e, instr, ops);
    if (result && !pass_dynamic_sizes(instr, ops, result)) {
        eval_drop(e, result);
        return eval_error(e, instr, "out of memory");
    }
    return result;
}

/* Evaluates step s into values[s]; operands whose last use this is are handed over. */
static bool run_step(struct eval *e, const struct eval_plan *plan, int s, struct literal **values,
                     int *left, struct literal **ops) {
    const struct plan_step *step = &plan->steps[s];
    const struct hlo_instr *instr = step->instr;

    for (int k = 0; k < instr->noperands; k++) {
        int at = plan->operands[step->first_operand + k];

        ops[k] = values[at];
        if (--left[at] == 0)
            values[at] = NULL;
        else
            literal_ref(ops[k]);
    }
    values[s] = run_instr(e, instr, ops);
    for (int k = 0; k < instr->noperands; k++)
        eval_drop(e, ops[k]);
    return values[s] != NULL;
}

static struct literal *run_plan(struct eval *e, const struct eval_plan *plan, int nargs,
                                struct literal **args, struct literal **values, int *left) {
    struct literal **ops;
    struct literal *result = NULL;
    int most = 0, s;

    for (s = 0; s < plan->nsteps; s++)
        if (plan->steps[s].instr->noperands > most) most = plan->steps[s].instr->noperands;
    ops = calloc((size_t)most + 1, sizeof(struct literal *));
    if (!ops) return NULL;
    memcpy(left, plan->uses, (size_t)plan->nsteps * sizeof *left);
    for (s = 0; s < plan->nsteps; s++) {
        const struct hlo_instr *instr = plan->steps[s].instr;

        if (instr->opcode == OP_PARAMETER) {
            if (instr->parameter < 0 || instr->parameter >= nargs || !args[instr->parameter]) {
                eval_error(e, instr, "no value for this parameter");
                break;
            }
            if (left[s] > 0) {
                values[s] = args[instr->parameter];
                args[instr->parameter] = NULL;
            } else { /* dropped early, so that its elements may be changed in place */
                eval_drop(e, args[instr->parameter]);
                args[instr->parameter] = NULL;
            }
        } else if (left[s] > 0 && !run_step(e, plan, s, values, left, ops)) {
            break;
        }
    }
    free(ops);
    if (s == plan->nsteps) {
        result = values[plan->root];
        values[plan->root] = NULL;
    }
    return result;
}

struct literal *eval_computation(struct eval *e, const struct hlo_computation *computation,
                                 int nargs, struct literal **args) {
    const struct eval_plan *plan = NULL;
    struct literal *result = NULL, **values = NULL;
    int *left = NULL;

    if (e->depth >= EVAL_MAX_DEPTH) {
        eval_error(e, computation->root, "calls are nested more than %d deep", EVAL_MAX_DEPTH);
    } else if (!(plan = find_plan(e, computation))) {
        eval_error(e, computation->root, "computation %s cannot be ordered", computation->name);
    } else {
        values = calloc((size_t)plan->nsteps + 1, sizeof(struct literal *));
        left = calloc((size_t)plan->nsteps + 1, sizeof *left);
        e->depth++;
        if (values && left) result = run_plan(e, plan, nargs, args, values, left);
        e->depth--;
        if (!result && !e->diag->errors) eval_error(e, computation->root, "out of memory");
    }
    for (int s = 0; values && s < plan->nsteps; s++)
        eval_drop(e, values[s]);
    for (int k = 0; k < nargs; k++) {
        eval_drop(e, args[k]);
        args[k] = NULL;
    }
    free(values);
    free(left);
    return result;
}

/* ---- entry points ---- */

static void eval_init(struct eval *e, const struct eval_options *options,
                      const struct eval_options *standard, struct diag *diag) {
    memset(e, 0, sizeof *e);
    e->options = options ? options : standard;
    e->diag = diag;
    e->max_bytes = e->options->max_bytes > 0 ? e->options->max_bytes : default_max_bytes;
    e->rng_state[0] = e->options->seed;
}

static void eval_finish(struct eval *e) {
    for (int i = 0; i < e->plan_capacity; i++)
        plan_free(e->plans[i]);
    free(e->plans);
}

struct literal *eval_entry(const struct hlo_computation *computation, struct literal *const *args,
                           const struct eval_options *options, struct diag *diag,
                           struct eval_mesh *mesh, int device) {
    struct eval_options standard = {0};
    struct eval e;
    struct literal *result = NULL, **taken;

    eval_init(&e, options, &standard, diag);
    e.mesh = mesh;
    e.device = device;
    taken = eval_scratch(&e, computation->root, computation->nparameters, sizeof *taken);
    if (taken) {
        for (int k = 0; k < computation->nparameters; k++)
            taken[k] = literal_ref(args[k]);
        result = eval_computation(&e, computation, computation->nparameters, taken);
    }
    free(taken);
    eval_finish(&e);
    return result;
}

struct literal *computation_evaluate(const struct hlo_computation *computation,
                                     struct literal *const *args,
                                     const struct eval_options *options, struct diag *diag) {
    return eval_entry(computation, args, options, diag, NULL, 0);
}

struct literal *module_evaluate(const struct hlo_module *module, struct literal *const *args,
                                const struct eval_options *options, struct diag *diag) {
    return computation_evaluate(module->entry, args, options, diag);
}

struct literal *instr_evaluate(const struct hlo_instr *instr, struct literal *const *operands,
                               const struct eval_options *options, struct diag *diag) {
    struct eval_options standard = {0};
    struct eval e;
    struct literal *result = NULL, **ops;

    eval_init(&e, options, &standard, diag);
    ops = eval_scratch(&e, instr, instr->noperands, sizeof *ops);
    if (ops) {
        for (int k = 0; k < instr->noperands; k++)
            ops[k] = literal_ref(operands[k]);
        result = run_instr(&e, instr, ops);
        for (int k = 0; k < instr->noperands; k++)
            literal_unref(ops[k]);
    }
    free(ops);
    eval_finish(&e);
    return result;
}
