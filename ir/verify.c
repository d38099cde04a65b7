/* The verifier: what the parser and shape inference cannot see from one instruction alone. */
#include "ir/verify.h"

#include <stdlib.h>
#include <string.h>

struct verifier {
    struct hlo_module *module;
    struct diag *diag;
    struct arena *scratch; /* shape texts of messages */
    bool good;
};

#define FAIL(v, instr, ...) ((v)->good = false, diag_instr_error((v)->diag, instr, __VA_ARGS__))

static const char *text(struct verifier *v, const struct shape *shape) {
    return shape ? shape_to_string(v->scratch, shape, false) : "no shape";
}

/* Whether either is dynamic in this dimension: bounds may be written where inference sees sizes. */
static bool loose_dim(const struct shape *a, const struct shape *b, int dim) {
    return (a->dynamic && a->dynamic[dim]) || (b->dynamic && b->dynamic[dim]);
}

static bool agrees(const struct shape *given, const struct shape *inferred) {
    if (shape_compatible(given, inferred)) return true;
    if (given->type != inferred->type || given->rank != inferred->rank ||
        given->ntuple != inferred->ntuple)
        return false;
    for (int i = 0; i < given->ntuple; i++)
        if (!agrees(given->tuple[i], inferred->tuple[i])) return false;
    for (int i = 0; i < given->rank; i++)
        if (given->dims[i] != inferred->dims[i] && !loose_dim(given, inferred, i)) return false;
    return true;
}

static bool layout_good(const struct shape *shape) {
    for (int i = 0; i < shape->ntuple; i++)
        if (!layout_good(shape->tuple[i])) return false;
    return !shape->layout || !shape_is_array(shape) || shape->layout->rank == shape->rank;
}

/* ---- signatures of called computations ---- */

static bool has_parameters(struct verifier *v, const struct hlo_instr *instr,
                           const struct hlo_computation *called, int count) {
    if (called->nparameters == count) return true;
    FAIL(v, instr, "computation '%s' takes %d parameters, expected %d", called->name,
         called->nparameters, count);
    return false;
}

static void parameter_is(struct verifier *v, const struct hlo_instr *instr,
                         const struct hlo_computation *called, int number,
                         const struct shape *shape) {
    const struct shape *given = called->parameters[number]->shape;
    if (!agrees(given, shape))
        FAIL(v, instr, "parameter %d of computation '%s' has shape %s, expected %s", number,
             called->name, text(v, given), text(v, shape));
}

static void result_is(struct verifier *v, const struct hlo_instr *instr,
                      const struct hlo_computation *called, const struct shape *shape) {
    if (!agrees(called->root->shape, shape))
        FAIL(v, instr, "computation '%s' gives %s, expected %s", called->name,
             text(v, called->root->shape), text(v, shape));
}

/* Parameters are the instruction's operands from `first` on, and the result is its own. */
static void check_direct(struct verifier *v, const struct hlo_instr *instr,
                         const struct hlo_computation *called) {
    if (!has_parameters(v, instr, called, instr->noperands)) return;
    for (int i = 0; i < instr->noperands; i++)
        parameter_is(v, instr, called, i, instr->operands[i]->shape);
    result_is(v, instr, called, instr->shape);
}

static void check_while(struct verifier *v, const struct hlo_instr *instr) {
    if (instr->ncalled != 2 || !instr->called[0] || !instr->called[1]) {
        FAIL(v, instr, "a while needs condition= and body=");
        return;
    }
    const struct shape *state = instr->operands[0]->shape;
    for (int i = 0; i < 2; i++)
        if (has_parameters(v, instr, instr->called[i], 1))
            parameter_is(v, instr, instr->called[i], 0, state);
    result_is(v, instr, instr->called[0], shape_scalar(v->module->shapes, TYPE_PRED));
    result_is(v, instr, instr->called[1], state);
}

static void check_conditional(struct verifier *v, const struct hlo_instr *instr) {
    if (instr->ncalled == 0 || instr->noperands != instr->ncalled + 1) {
        FAIL(v, instr, "%d branches for %d branch operands", instr->ncalled, instr->noperands - 1);
        return;
    }
    const struct shape *index = instr->operands[0]->shape;
    bool is_pred = index->type == TYPE_PRED;
    if (index->rank || (!is_pred && index->type != TYPE_S32) || (is_pred && instr->ncalled != 2))
        FAIL(v, instr, "the branch index is %s; pred[] chooses of two branches, s32[] of any",
             text(v, index));
    for (int i = 0; i < instr->ncalled; i++) {
        if (has_parameters(v, instr, instr->called[i], 1))
            parameter_is(v, instr, instr->called[i], 0, instr->operands[i + 1]->shape);
        result_is(v, instr, instr->called[i], instr->shape);
    }
}

static const struct shape *scalar_of(struct verifier *v, const struct shape *shape) {
    return shape_scalar(v->module->shapes, shape_is_array(shape) ? shape->type : TYPE_PRED);
}

/* 2n scalars to n: the values so far, which have the types of the results, then the new ones, which
 * may be floats of another precision. */
static void check_reducer(struct verifier *v, const struct hlo_instr *instr, int count) {
    const struct hlo_computation *called = instr->called[0];
    const struct shape *root = called->root->shape;
    bool tuple = root->type == TYPE_TUPLE;
    if (!has_parameters(v, instr, called, 2 * count)) return;
    if ((tuple ? root->ntuple : 1) != count) {
        FAIL(v, instr, "computation '%s' gives %s, expected %d values", called->name, text(v, root),
             count);
        return;
    }
    for (int i = 0; i < 2 * count; i++) {
        const struct shape *given = called->parameters[i]->shape;
        const struct shape *result = tuple ? root->tuple[i % count] : root;
        bool fits =
            shape_is_scalar(given) && shape_is_scalar(result) &&
            (given->type == result->type || (i >= count && element_type_is_float(given->type) &&
                                             element_type_is_float(result->type)));
        if (!fits)
            FAIL(v, instr, "parameter %d of computation '%s' is %s, expected a scalar of type %s",
                 i, called->name, text(v, given), text(v, result));
    }
}

static void check_sort(struct verifier *v, const struct hlo_instr *instr) {
    const struct hlo_computation *called = instr->called[0];
    if (!has_parameters(v, instr, called, 2 * instr->noperands)) return;
    for (int i = 0; i < 2 * instr->noperands; i++)
        parameter_is(v, instr, called, i, scalar_of(v, instr->operands[i / 2]->shape));
    result_is(v, instr, called, shape_scalar(v->module->shapes, TYPE_PRED));
}

static void check_map(struct verifier *v, const struct hlo_instr *instr) {
    const struct hlo_computation *called = instr->called[0];
    if (!has_parameters(v, instr, called, instr->noperands)) return;
    for (int i = 0; i < instr->noperands; i++)
        parameter_is(v, instr, called, i, scalar_of(v, instr->operands[i]->shape));
    result_is(v, instr, called, scalar_of(v, instr->shape));
}

static void check_select_and_scatter(struct verifier *v, const struct hlo_instr *instr) {
    if (instr->ncalled != 2 || !instr->called[0] || !instr->called[1]) {
        FAIL(v, instr, "select-and-scatter needs select= and scatter=");
        return;
    }
    const struct shape *element = scalar_of(v, instr->operands[0]->shape);
    for (int i = 0; i < 2; i++)
        if (has_parameters(v, instr, instr->called[i], 2))
            for (int k = 0; k < 2; k++)
                parameter_is(v, instr, instr->called[i], k, element);
    result_is(v, instr, instr->called[0], shape_scalar(v->module->shapes, TYPE_PRED));
    result_is(v, instr, instr->called[1], element);
}

static void check_called(struct verifier *v, const struct hlo_instr *instr) {
    unsigned flags = opcode_info(instr->opcode)->flags;
    for (int i = 0; i < instr->ncalled; i++)
        if (!instr->called[i] || !instr->called[i]->root) return;
    if (flags & OP_FLAG_CALLS_WHILE)
        check_while(v, instr);
    else if (flags & OP_FLAG_CALLS_BRANCHES)
        check_conditional(v, instr);
    else if (flags & OP_FLAG_CALLS_SELECT_SCATTER)
        check_select_and_scatter(v, instr);
    if (!(flags & (OP_FLAG_CALLS_ONE | OP_FLAG_CALLS_FUSION))) return;
    if (instr->ncalled != 1) {
        FAIL(v, instr, "%s needs %s=", opcode_name(instr->opcode),
             flags & OP_FLAG_CALLS_FUSION ? "calls" : "to_apply");
        return;
    }
    switch (instr->opcode) {
    case OP_CALL:
    case OP_FUSION: check_direct(v, instr, instr->called[0]); break;
    case OP_MAP: check_map(v, instr); break;
    case OP_SORT: check_sort(v, instr); break;
    case OP_REDUCE:
    case OP_REDUCE_WINDOW: check_reducer(v, instr, instr->noperands / 2); break;
    case OP_SCATTER: check_reducer(v, instr, instr->noperands / 2); break;
    case OP_ALL_REDUCE:
    case OP_ALL_REDUCE_START:
    case OP_REDUCE_SCATTER: check_reducer(v, instr, 1); break;
    default: break;
    }
}

/* ---- one computation ---- */

static void check_instr(struct verifier *v, struct hlo_instr *instr) {
    for (int i = 0; i < instr->noperands; i++) {
        const struct hlo_instr *operand = instr->operands[i];
        if (!operand) {
            FAIL(v, instr, "operand %d is missing", i);
            return;
        }
        if (operand->parent != instr->parent || operand->mark >= instr->mark) {
            FAIL(v, instr, "operand '%s' does not stand before it", operand->name);
            return;
        }
    }
    for (int i = 0; i < instr->ncontrol; i++)
        if (instr->control[i]->parent != instr->parent || instr->control[i]->mark >= instr->mark)
            FAIL(v, instr, "control predecessor '%s' does not stand before it",
                 instr->control[i]->name);
    const struct shape *inferred = instr_infer_shape(instr, v->diag);
    if (!inferred) {
        v->good = false;
        return;
    }
    if (!instr->shape) instr->shape = inferred;
    if (!agrees(instr->shape, inferred)) {
        FAIL(v, instr, "the shape is written as %s, but the operands give %s",
             text(v, instr->shape), text(v, inferred));
        return;
    }
    if (!layout_good(instr->shape))
        FAIL(v, instr, "the layout is no permutation of the dimensions of %s",
             text(v, instr->shape));
    check_called(v, instr);
}

static void check_computation(struct verifier *v, struct hlo_computation *computation) {
    if (!computation->root || !computation->first) {
        v->good = false;
        diag_error(v->diag, computation->loc, "computation '%s' has no root", computation->name);
        return;
    }
    int number = 0, parameters = 0;
    bool indexed = true;
    FOR_EACH_INSTR(instr, computation) {
        instr->mark = number++;
        if (instr->opcode != OP_PARAMETER) continue;
        parameters++;
        indexed = indexed && instr->parameter >= 0 && instr->parameter < computation->nparameters &&
                  computation->parameters[instr->parameter] == instr;
    }
    FOR_EACH_INSTR(instr, computation)
    check_instr(v, instr);
    if (computation->root->parent != computation) {
        v->good = false;
        diag_error(v->diag, computation->loc, "the root of '%s' is not in it", computation->name);
    }
    if (indexed && parameters == computation->nparameters) return;
    int before = computation->nparameters;
    if (!computation_index_parameters(computation) || computation->nparameters < before) {
        v->good = false;
        diag_error(v->diag, computation->loc,
                   "parameter numbers of computation '%s' repeat or leave gaps", computation->name);
    }
}

/* ---- the call graph: depth first with an explicit stack; meeting an open one is recursion ---- */

struct call_frame {
    struct hlo_computation *computation;
    struct hlo_instr *at;
    int next;
};

enum { UNSEEN, OPEN, DONE };

static void check_calls_from(struct verifier *v, struct hlo_computation *start,
                             struct call_frame *stack) {
    int depth = 0;
    start->mark = OPEN;
    stack[depth++] = (struct call_frame){start, start->first, 0};
    while (depth) {
        struct call_frame *top = &stack[depth - 1];
        while (top->at && top->next >= top->at->ncalled) {
            top->at = top->at->next;
            top->next = 0;
        }
        if (!top->at) {
            top->computation->mark = DONE;
            depth--;
            continue;
        }
        struct hlo_computation *callee = top->at->called[top->next++];
        if (!callee || callee->mark == DONE) continue;
        if (callee->mark == OPEN) {
            FAIL(v, top->at, "computation '%s' calls itself", callee->name);
            continue;
        }
        callee->mark = OPEN;
        stack[depth++] = (struct call_frame){callee, callee->first, 0};
    }
}

static void check_call_graph(struct verifier *v) {
    struct call_frame *stack =
        arena_array(v->scratch, (size_t)v->module->ncomputations + 1, sizeof *stack);
    FOR_EACH_COMPUTATION(computation, v->module)
    computation->mark = UNSEEN;
    FOR_EACH_COMPUTATION(computation, v->module)
    if (computation->mark == UNSEEN) check_calls_from(v, computation, stack);
}

/* ---- the module line ---- */

static void module_error(struct verifier *v, const char *what) {
    v->good = false;
    diag_error(v->diag, v->module->entry->loc, "%s", what);
}

static void check_aliases(struct verifier *v) {
    const struct hlo_computation *entry = v->module->entry;
    for (int i = 0; i < v->module->aliases.count; i++) {
        const struct alias_entry *alias = &v->module->aliases.v[i];
        const struct shape *output = hlo_index_shape(entry->root->shape, alias->output_index, NULL);
        const struct shape *input =
            alias->parameter >= 0 && alias->parameter < entry->nparameters
                ? hlo_index_shape(entry->parameters[alias->parameter]->shape,
                                  alias->parameter_index, NULL)
                : NULL;
        if (!output || !input)
            module_error(v, "input_output_alias names an output or a parameter that is not there");
        else if (!agrees(output, input))
            module_error(v, "input_output_alias joins an output and a parameter of other shape");
    }
}

static void check_entry_layout(struct verifier *v) {
    struct hlo_module *module = v->module;
    const struct hlo_computation *entry = module->entry;
    if (!module->entry_result) return;
    if (module->nentry_parameters != entry->nparameters) {
        module_error(v, "entry_computation_layout has another number of parameters than ENTRY");
        return;
    }
    for (int i = 0; i < entry->nparameters; i++)
        if (!agrees(module->entry_parameters[i], entry->parameters[i]->shape))
            module_error(v, "entry_computation_layout has a parameter of another shape than ENTRY");
    if (!agrees(module->entry_result, entry->root->shape))
        module_error(v, "entry_computation_layout has another result than ENTRY");
}

bool module_verify(struct hlo_module *module, struct diag *diag) {
    struct verifier v = {module, diag, arena_new(), true};
    if (!module->entry) {
        v.good = false;
        diag_error(diag, (struct src_loc){1, 1}, "the module has no entry computation");
    }
    FOR_EACH_COMPUTATION(computation, module)
    check_computation(&v, computation);
    if (v.good) check_call_graph(&v);
    if (v.good) check_entry_layout(&v);
    if (v.good) check_aliases(&v);
    arena_free(v.scratch);
    return v.good;
}
