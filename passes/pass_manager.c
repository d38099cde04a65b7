#include "passes/pass.h"

#include <string.h>
#include <time.h>

#include "ir/verify.h"

enum { FOLD_MAX_BYTES = 64 * 1024, FOLD_MAX_STEPS = 1 << 20 };

static const struct pass_info pass_table[PASS_COUNT] = {
#define PASS(name, text) {#name, text, name##_run},
#include "passes/pass.def"
#undef PASS
};

/* ---- the pipelines ---- */

/* What every target wants: the same values from fewer and cheaper instructions. */
#define FOLD                                                                                       \
    PASS_constant_folding, PASS_algebraic_simplifier, PASS_logic_simplifier,                       \
        PASS_movement_simplifier, PASS_operation_mover, PASS_reduce_simplifier,                    \
        PASS_dot_canonicalizer, PASS_index_simplifier, PASS_sort_simplifier
#define SIMPLIFY                                                                                   \
    PASS_call_inliner, PASS_tuple_simplifier, PASS_dce, PASS_cse, FOLD, FOLD,                      \
        PASS_conditional_simplifier, PASS_call_inliner, PASS_tuple_simplifier, PASS_cse, PASS_dce
/* Each loop has its body to itself first; what leaves a loop is then simplified where it is, and
 * bodies that got short may be unrolled. */
#define LOOPS                                                                                      \
    PASS_flatten_call_graph, PASS_while_simplifier, PASS_while_invariant_motion,                   \
        PASS_while_simplifier, PASS_tuple_simplifier, PASS_cse, FOLD, PASS_cse, PASS_dce,          \
        PASS_while_simplifier, PASS_while_invariant_motion, PASS_while_simplifier,                 \
        PASS_tuple_simplifier, FOLD, PASS_cse, PASS_dce
/* What static memory needs, last. */
#define MEMORY PASS_flatten_call_graph, PASS_memory_scheduler, PASS_copy_insertion, PASS_dce

static const enum pass_id generic_pipeline[] = {SIMPLIFY, LOOPS};
static const enum pass_id cpu_pipeline[] = {PASS_single_device,
                                            PASS_scan_expander,
                                            PASS_dot_expander,
                                            PASS_call_inliner,
                                            PASS_fusion_inliner,
                                            PASS_layout_normalizer,
                                            PASS_batch_norm_expander,
                                            SIMPLIFY,
                                            PASS_dot_turner,
                                            PASS_dot_strength_reducer,
                                            PASS_complex_expander,
                                            LOOPS,
                                            PASS_dot_splitter,
                                            PASS_reduction_splitter,
                                            PASS_fusion,
                                            MEMORY};
static const enum pass_id tpu_pipeline[] = {
    PASS_single_device,        PASS_lapack_expander,     PASS_scan_expander, PASS_dot_expander,
    PASS_topk_expander,        PASS_fft_expander,        PASS_call_inliner,  PASS_fusion_inliner,
    PASS_layout_normalizer,    PASS_batch_norm_expander, SIMPLIFY,           LOOPS,
    PASS_reshape_mover,        PASS_movement_simplifier, PASS_cse,           PASS_dce,
    PASS_reshape_materializer, PASS_tpu_fusion,          PASS_loop_staging,  MEMORY};
/* -O0: the least that the backends take. */
static const enum pass_id plain_pipeline[] = {
    PASS_single_device, PASS_scan_expander, PASS_dot_expander, PASS_call_inliner, PASS_dce, MEMORY};

#define RETURN_PIPELINE(list) return *count = (int)(sizeof list / sizeof *list), list

const enum pass_id *pass_pipeline(enum pass_target target, int level, int *count) {
    if (target == PASS_TARGET_GENERIC) RETURN_PIPELINE(generic_pipeline);
    if (level <= 0) RETURN_PIPELINE(plain_pipeline);
    if (target == PASS_TARGET_CPU) RETURN_PIPELINE(cpu_pipeline);
    RETURN_PIPELINE(tpu_pipeline);
}

/* ---- names ---- */

const struct pass_info *pass_info(enum pass_id id) {
    return &pass_table[id];
}

static bool name_matches(const char *pass, const char *name, size_t length) {
    if (strlen(pass) != length) return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i] == '-' ? '_' : name[i];
        if (pass[i] != c) return false;
    }
    return true;
}

enum pass_id pass_from_name(const char *name, size_t length) {
    for (int i = 0; i < PASS_COUNT; i++)
        if (name_matches(pass_table[i].name, name, length)) return (enum pass_id)i;
    return PASS_COUNT;
}

/* A pipeline's passes, where `name` (of `length` bytes) is a target's. */
static const enum pass_id *pipeline_from_name(const char *name, size_t length, int *count) {
    static const struct {
        const char *name;
        enum pass_target target;
    } targets[] = {
        {"generic", PASS_TARGET_GENERIC}, {"cpu", PASS_TARGET_CPU}, {"tpu", PASS_TARGET_TPU}};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (name_matches(targets[i].name, name, length))
            return pass_pipeline(targets[i].target, 2, count);
    return NULL;
}

bool pass_list_has(const char *name, size_t length) {
    int count;
    return pass_from_name(name, length) != PASS_COUNT || pipeline_from_name(name, length, &count);
}

const enum pass_id *pass_list_parse(struct arena *arena, const char *text, int *count,
                                    struct diag *diag) {
    enum pass_id *list = arena_array(arena, 1, sizeof *list);
    int capacity = 1;
    *count = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        enum pass_id one = pass_from_name(text, length);
        int more = 1;
        const enum pass_id *add =
            one == PASS_COUNT ? pipeline_from_name(text, length, &more) : &one;
        if (!add && length > 0) {
            diag_error(diag, (struct src_loc){0, 0}, "there is no pass named '%.*s'",
                       (int)(length < 100 ? length : 100), text);
            return NULL;
        }
        if (add) {
            list = arena_grow(arena, list, &capacity, *count + more, sizeof *list);
            memcpy(list + *count, add, (size_t)more * sizeof *list);
            *count += more;
        }
        text += length;
        if (*text == ',') text++;
    }
    return list;
}

/* ---- running ---- */

void pass_context_init(struct pass_context *context, struct diag *diag) {
    memset(context, 0, sizeof *context);
    context->diag = diag;
    context->rewrite_limit = -1;
    context->fold_max_bytes = FOLD_MAX_BYTES;
    context->fold_max_steps = FOLD_MAX_STEPS;
}

bool pass_may_rewrite(struct pass_context *context) {
    if (context->rewrite_limit >= 0 && context->rewrites >= context->rewrite_limit) return false;
    context->rewrites++;
    context->stats[context->current].rewrites++;
    context->last_pass = context->current;
    context->last_run = context->run;
    return true;
}

/* Negates a number of the result, as a faulty rewrite might. */
static bool spoil(struct hlo_instr **value) {
    struct hlo_instr *instr = *value;
    if (!shape_is_array(instr->shape) || instr->shape->type == TYPE_PRED) return false;
    *value = instr_new(instr->parent, NULL, OP_NEGATE, instr->shape, NULL, 1, &instr);
    return true;
}

static void sabotage(struct hlo_module *module) {
    struct hlo_computation *entry = module->entry;
    struct hlo_instr *root = entry->root;
    if (root->opcode != OP_TUPLE) {
        if (spoil(&root)) computation_set_root(entry, root);
        return;
    }
    struct hlo_instr **elements =
        arena_array(module->arena, (size_t)root->noperands + 1, sizeof *elements);
    bool any = false;
    for (int i = 0; i < root->noperands; i++) {
        elements[i] = root->operands[i];
        any = any || spoil(&elements[i]);
    }
    if (any)
        computation_set_root(
            entry, instr_new(entry, NULL, OP_TUPLE, root->shape, NULL, root->noperands, elements));
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool run_one(struct pass_context *context, struct hlo_module *module, enum pass_id id) {
    const struct pass_hooks *hooks = context->hooks;
    const struct pass_info *info = &pass_table[id];
    struct pass_stat *stat = &context->stats[id];
    int errors = context->diag->errors;
    bool sabotages = context->sabotage_at > stat->rewrites && context->sabotaged == id;
    if (hooks && hooks->before) hooks->before(hooks->user, info->name, module);
    context->current = id;
    double start = seconds_now();
    bool changed = info->run(context, module);
    if (sabotages && context->sabotage_at <= stat->rewrites) sabotage(module);
    stat->seconds += seconds_now() - start;
    stat->runs++;
    stat->changed += changed;
    if (context->diag->errors > errors) return false;
    if (changed) {
        module_sort_computations(module);
        context->changed_runs++;
    }
    if (hooks && hooks->after)
        hooks->after(hooks->user, info->name, context->changed_runs, changed, module);
    if (changed && context->verify && !module_verify(module, context->diag)) {
        diag_error(context->diag, (struct src_loc){0, 0},
                   "the module does not verify after pass %s", info->name);
        return false;
    }
    return true;
}

bool pass_pipeline_run(struct pass_context *context, struct hlo_module *module,
                       const enum pass_id *passes, int count) {
    for (int i = 0; i < count; i++) {
        if (context->interrupt && atomic_load(context->interrupt)) {
            diag_error(context->diag, (struct src_loc){0, 0}, "interrupted");
            return false;
        }
        if (context->disabled[passes[i]]) continue;
        context->run = i;
        if (!run_one(context, module, passes[i])) return false;
    }
    return true;
}
