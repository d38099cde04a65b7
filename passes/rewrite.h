/* Tables of rewrites by opcode, and what their rules share. A rule returns what stands for the
 * instruction (which may be new, and then stands before it) or NULL, and asks MAY_REWRITE once it
 * is sure. None may change NaN, infinity or the sign of zero. */
#ifndef PASSES_REWRITE_H
#define PASSES_REWRITE_H

#include "passes/pass.h"
#include "passes/util.h"

#define MAY_REWRITE(context)                                                                       \
    do {                                                                                           \
        if (!pass_may_rewrite(context)) return NULL;                                               \
    } while (0)

typedef struct hlo_instr *rewrite_rule(struct pass_context *context, struct hlo_instr *instr);

struct rewrite {
    enum hlo_opcode opcode;
    rewrite_rule *apply;
};

/* Applies the rules to every instruction that is used, and again to what they return. */
bool rewrites_run(struct pass_context *context, struct hlo_module *module,
                  const struct rewrite *rewrites, int count);

/* The same dims, type and layout. */
bool same_array(const struct hlo_instr *a, const struct hlo_instr *b);
/* An array with the default layout, in the module of `near`. */
const struct shape *rewrite_array(const struct hlo_instr *near, enum element_type type, int rank,
                                  const int64_t *dims);
/* New instructions before `before`, with its metadata. */
struct hlo_instr *rewrite_unary(struct hlo_instr *before, enum hlo_opcode opcode,
                                const struct shape *shape, struct hlo_instr *operand);
struct hlo_instr *rewrite_binary(struct hlo_instr *before, enum hlo_opcode opcode,
                                 const struct shape *shape, struct hlo_instr *a,
                                 struct hlo_instr *b);
struct hlo_instr *rewrite_broadcast(struct hlo_instr *before, const struct shape *shape,
                                    struct hlo_instr *operand, int count, const int64_t *dims);
/* dims: start, limit and stride in each dimension of the operand; they are copied. */
struct hlo_instr *rewrite_slice(struct hlo_instr *before, const struct shape *shape,
                                struct hlo_instr *operand, const struct slice_dim *dims);
/* The slice whose size in `dim` is 1: what the operand has at `place` there. */
struct hlo_instr *rewrite_slice_at(struct hlo_instr *before, struct hlo_instr *operand, int dim,
                                   int64_t place);
/* Adds up one dimension. */
struct hlo_instr *rewrite_sum(struct hlo_instr *before, struct hlo_instr *value, int64_t dim,
                              const struct shape *shape);
bool is_scalar_broadcast(const struct hlo_instr *instr);

bool is_real_float(const struct hlo_instr *instr);
bool is_integer(const struct hlo_instr *instr); /* s*, u*; not pred */
bool is_pred(const struct hlo_instr *instr);
/* Of two operands the one that is not a splat of `value`, where the other is; or NULL. */
struct hlo_instr *operand_beside(const struct hlo_instr *instr, double value);
/* The integer that a scalar constant is, spread out or not; u64 as its bits. */
bool splat_integer(const struct hlo_instr *instr, int64_t *value);
/* Integers that are 0 or more by the way they are made; looks a few operands deep. */
bool instr_is_non_negative(const struct hlo_instr *instr);
/* op(op(x, c), d) is op(x, op(c, d)): a rule for associative operations. Floats: extremes only. */
rewrite_rule rewrite_merge_constants;

#endif
