/* What the files of the evaluator share. A handler computes one instruction from its operands'
 * literals and returns a new reference, or NULL with an error in the diag. */
#ifndef IR_EVAL_INTERNAL_H
#define IR_EVAL_INTERNAL_H

#include "ir/eval.h"

enum {
    EVAL_BLOCK = 128,     /* scalars that one step of a scalar program handles at once */
    EVAL_MAX_DEPTH = 200, /* of nested calls */
};

struct eval_plan;
struct eval_mesh;

struct eval {
    struct diag *diag;
    const struct eval_options *options;
    int64_t live_bytes, max_bytes;
    int64_t steps;
    int depth;
    int plan_count, plan_capacity; /* open-addressed table by computation */
    struct eval_plan **plans;
    uint64_t rng_state[2];
    struct eval_mesh *mesh; /* NULL: one device alone */
    int device;             /* which of the mesh this is */
};

/* `ops` are borrowed, but where ops[k]->refs is 1 nobody else sees that literal: the handler may
 * change it in place and return a reference to it. It may also take a reference over, leaving
 * NULL in its place. */
typedef struct literal *eval_fn(struct eval *e, const struct hlo_instr *instr,
                                struct literal **ops);

/* ---- eval.c ---- */

/* A literal counted against the limits; NULL with an error where they are exceeded. */
struct literal *eval_new(struct eval *e, const struct hlo_instr *instr, const struct shape *shape);
struct literal *eval_new_uninit(struct eval *e, const struct hlo_instr *instr,
                                const struct shape *shape);
/* Takes over the elements' references, also on failure. */
struct literal *eval_new_tuple(struct eval *e, const struct hlo_instr *instr,
                               const struct shape *shape, struct literal **elements);
/* literal_unref that keeps the count of live bytes. */
void eval_drop(struct eval *e, struct literal *literal);
/* Counts `n` steps; false with an error over the limit or when interrupted. */
bool eval_charge(struct eval *e, const struct hlo_instr *instr, int64_t n);
struct literal *eval_error(struct eval *e, const struct hlo_instr *instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Zeroed memory that does not count as a literal; NULL with an error. Free with free(). */
void *eval_scratch(struct eval *e, const struct hlo_instr *instr, int64_t count, size_t size);
/* Takes over the references of the arguments, leaving NULL in their places. */
struct literal *eval_computation(struct eval *e, const struct hlo_computation *computation,
                                 int nargs, struct literal **args);
/* The entry computation on one device of a mesh (NULL: alone). */
struct literal *eval_entry(const struct hlo_computation *entry, struct literal *const *args,
                           const struct eval_options *options, struct diag *diag,
                           struct eval_mesh *mesh, int device);
/* The instruction's handler, or NULL. */
eval_fn *eval_handler(enum hlo_opcode opcode);

/* ---- scalars (eval_scalar.c) ---- */

/* One value of any element type: integers and pred sign- or zero-extended, f32 and narrower floats
 * as float, complex as (real, imaginary). */
union scalar {
    int64_t i;
    uint64_t u;
    float f;
    double d;
    float cf[2];
    double cd[2];
};

enum scalar_class { CLASS_INT, CLASS_F32, CLASS_F64, CLASS_C64, CLASS_C128, CLASS_NONE };

enum scalar_class scalar_class(enum element_type type);
/* Elements start .. start + n - 1. */
void scalar_load(enum element_type type, const void *data, int64_t start, int n, union scalar *out);
void scalar_store(enum element_type type, void *data, int64_t start, int n,
                  const union scalar *values);
/* Elements base[k] + offset. */
void scalar_load_at(enum element_type type, const void *data, const int64_t *base, int64_t offset,
                    int n, union scalar *out);
/* Rounds CLASS_F32 values to a narrower type; no effect on others. */
void scalar_round(enum element_type type, int n, union scalar *values);

static inline int64_t scalar_wrap(int64_t value, int bits, bool is_signed) {
    int shift = 64 - bits;

    return is_signed ? (int64_t)((uint64_t)value << shift) >> shift
                     : (int64_t)((uint64_t)value << shift >> shift);
}

/* An elementwise operation with its types and attributes resolved. */
struct scalar_op {
    enum hlo_opcode opcode;
    enum element_type in; /* of the data operands (select: of the branches) */
    enum element_type out;
    int direction; /* compare: ENUM_DIRECTION_* */
    bool total_order;
    int exponent_bits, mantissa_bits; /* reduce-precision */
};

/* False where the instruction is none. */
bool scalar_op_init(struct scalar_op *op, const struct hlo_instr *instr);
/* out may be a, b or c. */
void scalar_op_run(const struct scalar_op *op, int n, union scalar *out, const union scalar *a,
                   const union scalar *b, const union scalar *c);
void scalar_convert(enum element_type from, enum element_type to, int n, union scalar *out,
                    const union scalar *in);

/* A computation on scalars, compiled once where it is straight-line code; other computations are
 * evaluated call by call. */
struct scalar_fn;

/* `wide`: values of f16 and bf16 are not rounded between operations. NULL with an error. */
struct scalar_fn *scalar_fn_new(struct eval *e, const struct hlo_instr *caller,
                                const struct hlo_computation *computation, bool wide);
void scalar_fn_free(struct scalar_fn *fn);
/* Applies it to n (at most EVAL_BLOCK) argument tuples at once; results may be arguments. */
bool scalar_fn_run(struct scalar_fn *fn, int n, const union scalar *const *args,
                   union scalar *const *results);
int scalar_fn_result_count(const struct scalar_fn *fn);

/* ---- index arithmetic (eval_structure.c) ---- */

/* Row-major strides of a shape. */
void row_strides(const struct shape *shape, int64_t *strides);
/* Steps a row-major counter over dims; false after the last. */
static inline bool index_next(int rank, const int64_t *dims, int64_t *index) {
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < dims[i]) return true;
        index[i] = 0;
    }
    return false;
}
/* result[k] = operand at start + sum index[i] * strides[i], for index over dims in row-major order:
 * what slices, transposes, broadcasts and reversals are. */
void strided_copy(void *out, const void *in, int size, int rank, const int64_t *dims, int64_t start,
                  const int64_t *strides);

/* Live size of a dimension. */
static inline int64_t live_size(const struct literal *literal, int dim) {
    return literal->dynamic_sizes ? literal->dynamic_sizes[dim] : literal->shape->dims[dim];
}

static inline int64_t clamp_int(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* ---- products (eval_dot.c) ---- */

/* acc[j] += *x * w[j] */
typedef void product_row_fn(void *acc, const void *x, const void *w, int64_t n);

/* What a product is computed in. */
struct product_kind {
    enum element_type type;
    int size;
    product_row_fn *row;
};

enum product_parts { PRODUCT_EXACT, PRODUCT_BF16, PRODUCT_SPLIT };

struct product_kind product_kind(enum element_type a, enum element_type b, enum element_type out);
enum product_parts product_parts(const struct eval *e, const struct hlo_instr *instr,
                                 struct literal **ops);
/* An operand converted, its dimensions in the given order. Free with free(). */
void *product_pack(struct eval *e, const struct hlo_instr *instr, const struct literal *in,
                   struct product_kind kind, const int *order);
/* Writes sums in row-major order to the result. */
void product_store(struct literal *out, struct product_kind kind, const void *in);
/* Splits f32 values into a bf16 part, in place, and the bf16 rest (NULL: dropped). */
void product_split(float *values, float *rest, int64_t count);

/* ---- handlers ---- */

eval_fn eval_elementwise, eval_bitcast_convert;
eval_fn eval_parameter, eval_constant, eval_iota, eval_tuple, eval_get_tuple_element, eval_bitcast,
    eval_reshape, eval_broadcast, eval_transpose, eval_reverse, eval_concatenate, eval_pad,
    eval_slice, eval_dynamic_slice, eval_dynamic_update_slice, eval_get_dimension_size,
    eval_set_dimension_size, eval_identity, eval_token, eval_gather, eval_scatter;
eval_fn eval_dot, eval_ragged_dot, eval_scaled_dot, eval_convolution;
eval_fn eval_reduce, eval_reduce_window, eval_select_and_scatter, eval_map, eval_sort, eval_topk,
    eval_scan;
eval_fn eval_call, eval_while, eval_conditional, eval_async_start, eval_async_pass, eval_async_done,
    eval_copy_start, eval_copy_done, eval_custom_call;
eval_fn eval_fft, eval_cholesky, eval_triangular_solve, eval_batch_norm_training,
    eval_batch_norm_inference, eval_batch_norm_grad;
eval_fn eval_rng, eval_rng_bit_generator, eval_rng_state, eval_stochastic_convert;
eval_fn eval_collective, eval_collective_start, eval_collective_done, eval_device_id;

#endif
