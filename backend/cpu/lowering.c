/* Which code an instruction gets, and what has none. */
#include "backend/cpu/lowering.h"

#include "backend/cpu/conv.h"
#include "backend/cpu/library.h"
#include "passes/fusion_shape.h"

static const char no_code[] = "the CPU target has no code for this operation";
static const char static_sizes[] = "the CPU target needs static sizes: pad to the bound";
static const char too_many[] = "the CPU target has no code for this many operands or results";

/* ---- what can be computed element by element ---- */

static bool gen_is_scalar_call(const struct hlo_instr *instr, const char **why) {
    for (int i = 0; i < instr->ncalled; i++)
        if (!gen_is_scalar_computation(instr->called[i], why)) return false;
    return true;
}

bool gen_is_elemental(const struct hlo_instr *instr, const char **why) {
    *why = no_code;
    if (instr->noperands >= GEN_MOST_LEAVES || instr->shape->nleaves >= GEN_MOST_LEAVES) {
        *why = too_many;
        return false;
    }
    if (opcode_info(instr->opcode)->flags & OP_FLAG_ELEMENTWISE) return true;
    switch (instr->opcode) {
    case OP_BITCAST_CONVERT:
    case OP_CONSTANT:
    case OP_PARAMETER:
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_COPY:
    case OP_IOTA:
    case OP_TRANSPOSE:
    case OP_REVERSE:
    case OP_CONCATENATE:
    case OP_PAD:
    case OP_SLICE:
    case OP_GATHER:
    case OP_CONVOLUTION:
    case OP_OPT_BARRIER:
    case OP_DOMAIN:
    case OP_ADD_DEPENDENCY: return true;
    case OP_DYNAMIC_SLICE: return instr->noperands == 1 + instr->shape->rank;
    case OP_DYNAMIC_UPDATE_SLICE: return instr->noperands == 2 + instr->shape->rank;
    case OP_DOT: return !instr_attr(instr, ATTR_SPARSITY);
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_MAP: return gen_is_scalar_call(instr, why);
    case OP_CALL:
    case OP_FUSION:
        for (const struct hlo_instr *i = instr->called[0]->first; i; i = i->next)
            if (!gen_is_elemental(i, why)) return false;
        return true;
    default: return false;
    }
}

static bool is_scalar_only(const struct shape *shape) {
    for (int i = 0; i < shape->nleaves; i++) {
        const struct shape *leaf = shape_leaf(shape, i);
        if (!shape_is_array(leaf) || leaf->rank > 0) return false;
    }
    return true;
}

bool gen_is_scalar_computation(const struct hlo_computation *computation, const char **why) {
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        if (!gen_is_elemental(i, why)) return false;
        if (!is_scalar_only(i->shape)) {
            *why = "the CPU target has no code for computations of scalars that use arrays";
            return false;
        }
    }
    return true;
}

/* ---- the table ---- */

static bool is_scatter(const struct hlo_instr *instr) {
    const char *why;
    return instr->opcode == OP_SCATTER && gen_is_scalar_call(instr, &why);
}

static bool is_update(const struct hlo_instr *instr) {
    if (instr->opcode == OP_FUSION) return fusion_shape(instr->called[0]) == FUSION_SHAPE_UPDATE;
    return instr->opcode == OP_DYNAMIC_UPDATE_SLICE && instr->noperands == 2 + instr->shape->rank;
}

static bool is_rows(const struct hlo_instr *instr) {
    const char *why;
    if (instr->opcode == OP_REDUCE)
        return gen_is_elemental(instr, &why) && shape_leaf(instr->shape, 0)->count > 0 &&
               instr->operands[0]->shape->count > 0;
    if (instr->opcode != OP_FUSION || !gen_is_elemental(instr, &why)) return false;
    enum fusion_shape shape = fusion_shape(instr->called[0]);
    return shape == FUSION_SHAPE_REDUCE || shape == FUSION_SHAPE_ROWS;
}

static bool is_loop(const struct hlo_instr *instr) {
    const char *why;
    return gen_is_elemental(instr, &why);
}

/* The first that matches counts. */
static const struct cpu_lowering lowerings[] = {
    {.name = "custom call",
     .match = custom_call_match,
     .scratch = custom_call_scratch,
     .emit = custom_call_emit,
     .in_entry = true},
    {.name = "rng", .match = rng_match, .emit = rng_emit, .in_entry = true},
    {.name = "library",
     .match = library_match,
     .phases = library_phases,
     .plan_phase = library_plan,
     .emit = library_emit},
    {.name = "select and scatter",
     .match = select_scatter_match,
     .units = select_scatter_units,
     .emit = select_scatter_emit},
    {.name = "scatter",
     .match = is_scatter,
     .units = scatter_units,
     .emit = scatter_emit,
     .splits_in_place = true},
    {.name = "update", .match = is_update, .emit = update_kernel_emit},
    {.name = "dot", .match = dot_match, .emit = dot_emit, .plan = dot_plan},
    {.name = "depthwise",
     .match = depthwise_match,
     .units = depthwise_units,
     .scratch = depthwise_scratch,
     .emit = depthwise_emit},
    {.name = "convolution", .match = conv_match, .emit = conv_emit, .plan = conv_plan},
    {.name = "rows",
     .match = is_rows,
     .units = row_kernel_units,
     .scratch = row_kernel_scratch,
     .emit = row_kernel_emit},
    {.name = "window rows",
     .match = window_rows_match,
     .units = window_rows_units,
     .emit = window_rows_emit},
    {.name = "window",
     .match = window_kernel_match,
     .units = window_kernel_units,
     .emit = window_kernel_emit},
    {.name = "concatenate",
     .match = concat_kernel_match,
     .units = concat_kernel_units,
     .emit = concat_kernel_emit},
    {.name = "transpose",
     .match = transpose_kernel_match,
     .units = transpose_kernel_units,
     .scratch = transpose_kernel_scratch,
     .emit = transpose_kernel_emit},
    {.name = "loop", .match = is_loop, .units = loop_kernel_units, .emit = loop_kernel_emit},
};

/* What the user can do about an operation without code. */
static const char *reason_of(const struct hlo_instr *instr, const char *otherwise) {
    switch (instr->opcode) {
    case OP_CUSTOM_CALL:
        return "the CPU target has neither code nor a registered C function for this target";
    case OP_INFEED:
    case OP_OUTFEED:
    case OP_SEND:
    case OP_SEND_DONE:
    case OP_RECV:
    case OP_RECV_DONE: return "the CPU target moves no data while a program runs";
    case OP_SET_DIMENSION_SIZE:
    case OP_GET_DIMENSION_SIZE: return static_sizes;
    default: break;
    }
    if (opcode_info(instr->opcode)->flags & OP_FLAG_COLLECTIVE ||
        instr->opcode == OP_PARTITION_ID || instr->opcode == OP_REPLICA_ID)
        return "the CPU target runs one partition alone";
    return otherwise;
}

const struct cpu_lowering *cpu_lowering_of(const struct hlo_instr *instr, const char **why) {
    *why = no_code;
    if (shape_is_dynamic(instr->shape)) {
        *why = static_sizes;
        return NULL;
    }
    for (size_t i = 0; i < sizeof lowerings / sizeof *lowerings; i++)
        if (lowerings[i].match(instr)) return &lowerings[i];
    if (!gen_is_elemental(instr, why)) *why = reason_of(instr, *why);
    return NULL;
}

/* ---- work ---- */

/* Products run at the processor's best: several multiply-adds in the time of another operation. */
enum { PRODUCT_LANES = 8 };

static int64_t saturating(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX / 4 : product;
}

static int64_t elements_of(const struct shape *shape) {
    int64_t count = 0;
    for (int i = 0; i < shape->nleaves; i++)
        if (shape_is_array(shape_leaf(shape, i))) count += shape_leaf(shape, i)->count;
    return count;
}

/* A product of few rows waits for its operands: each element is read once at least. */
static int64_t product_work(const struct hlo_instr *product, int64_t multiplications) {
    int64_t work = multiplications / PRODUCT_LANES, read = 0;
    for (int i = 0; i < product->noperands; i++)
        read += elements_of(product->operands[i]->shape);
    return work > read ? work : read;
}

static int64_t own_work(const struct hlo_instr *instr) {
    int64_t count = elements_of(instr->shape);
    switch (instr->opcode) {
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_BITCAST:
    case OP_RESHAPE: return 0;
    case OP_EXPONENTIAL:
    case OP_LOG:
    case OP_TANH:
    case OP_LOGISTIC:
    case OP_ERF:
    case OP_SINE:
    case OP_COSINE: return saturating(count, 12);
    case OP_POWER: return saturating(count, 30);
    case OP_REDUCE: return elements_of(instr->operands[0]->shape);
    case OP_SORT:
    case OP_TOPK:
    case OP_FFT: return saturating(elements_of(instr->operands[0]->shape), 20);
    case OP_RNG_BIT_GENERATOR: return saturating(count, 20);
    case OP_CHOLESKY:
    case OP_TRIANGULAR_SOLVE:
    case OP_CUSTOM_CALL: { /* matrices: their elements times their sides */
        const struct shape *matrix = instr->noperands ? instr->operands[0]->shape : instr->shape;
        int64_t side = matrix->rank ? matrix->dims[matrix->rank - 1] : 1;
        return saturating(count, side);
    }
    case OP_SELECT_AND_SCATTER: {
        const struct window *window = instr_window(instr);
        count = elements_of(instr->operands[1]->shape);
        for (int d = 0; window && d < window->count; d++)
            count = saturating(count, window->v[d].size);
        return saturating(count, 4);
    }
    case OP_REDUCE_WINDOW: {
        const struct window *window = instr_window(instr);
        for (int d = 0; window && d < window->count; d++)
            count = saturating(count, window->v[d].size);
        return count;
    }
    case OP_DOT: {
        struct int_list dims = instr_ints(instr, ATTR_LHS_CONTRACTING_DIMS);
        for (int i = 0; i < dims.count; i++)
            count = saturating(count, instr->operands[0]->shape->dims[dims.v[i]]);
        return product_work(instr, count);
    }
    case OP_CONVOLUTION: {
        const struct dim_labels *labels = instr_attr(instr, ATTR_DIM_LABELS)->dim_labels;
        const struct shape *kernel = instr->operands[1]->shape;
        int64_t outputs = kernel->dims[labels->kernel_output];
        return product_work(instr, saturating(count, outputs ? kernel->count / outputs : 0));
    }
    default: return count;
    }
}

int64_t cpu_work_of(const struct hlo_instr *instr) {
    int64_t work = own_work(instr);
    if (instr->opcode != OP_FUSION) return work;
    for (const struct hlo_instr *i = instr->called[0]->first; i; i = i->next) {
        work += own_work(i);
        if (work > INT64_MAX / 4) return INT64_MAX / 4;
    }
    return work;
}
