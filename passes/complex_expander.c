/* Writes dots and convolutions of complex numbers as products of their real and imaginary parts,
 * for which there are kernels: (a + bi)(c + di) = (ac - bd) + (ad + bc)i. */
#include <string.h>

#include "passes/dot_sides.h"

/* Fewer multiplications than this cost less than arrays of parts; so do sums of so few terms. */
enum { LEAST_WORK = 4096, LEAST_TERMS = 4 };

/* ---- parts ---- */

static const struct shape *part_shape(const struct hlo_instr *of) {
    enum element_type type = element_type_real_part(of->shape->type);
    return rewrite_array(of, type, of->shape->rank, of->shape->dims);
}

struct parts {
    struct hlo_instr *re, *im;
};

static struct parts parts_of(struct hlo_instr *before, struct hlo_instr *value) {
    const struct shape *shape = part_shape(value);
    return (struct parts){rewrite_unary(before, OP_REAL, shape, value),
                          rewrite_unary(before, OP_IMAG, shape, value)};
}

static bool is_plain(const struct hlo_instr *product) {
    if (product->noperands != 2 || !element_type_is_complex(product->shape->type) ||
        shape_is_dynamic(product->shape) || instr_attr(product, ATTR_SPARSITY))
        return false;
    for (int i = 0; i < 2; i++)
        if (product->operands[i]->shape->type != product->shape->type ||
            shape_is_dynamic(product->operands[i]->shape))
            return false;
    return true;
}

/* Each element of the operands and of the result takes part: the root of the three counts is the
 * number of multiplications, but for batches. */
static bool is_small(const struct hlo_instr *product) {
    double a = (double)product->operands[0]->shape->count;
    double b = (double)product->operands[1]->shape->count, c = (double)product->shape->count;
    return a * b * c < (double)LEAST_WORK * LEAST_WORK;
}

/* ---- dots ---- */

/* Two arrays of one shape, side by side in a new dimension. */
static struct hlo_instr *stacked(struct hlo_instr *before, struct hlo_instr *a, struct hlo_instr *b,
                                 int64_t dim) {
    int64_t dims[SHAPE_MAX_RANK];
    int rank = a->shape->rank;
    enum element_type type = a->shape->type;
    for (int d = 0; d <= rank; d++)
        dims[d] = d == dim ? 1 : a->shape->dims[d - (d > dim)];
    const struct shape *shape = rewrite_array(before, type, rank + 1, dims);
    struct hlo_instr *first = rewrite_unary(before, OP_RESHAPE, shape, a);
    struct hlo_instr *second = rewrite_unary(before, OP_RESHAPE, shape, b);
    dims[dim] = 2;
    shape = rewrite_array(before, type, rank + 1, dims);
    struct hlo_instr *both = rewrite_binary(before, OP_CONCATENATE, shape, first, second);
    instr_set_ints(both, ATTR_DIMENSIONS, 1, &dim);
    return both;
}

/* The same memory as real numbers, with a last dimension of two. */
static struct hlo_instr *as_pairs(struct hlo_instr *before, struct hlo_instr *value) {
    int64_t dims[SHAPE_MAX_RANK];
    int rank = value->shape->rank;
    memcpy(dims, value->shape->dims, (size_t)rank * sizeof *dims);
    dims[rank] = 2;
    enum element_type type = element_type_real_part(value->shape->type);
    return rewrite_unary(before, OP_BITCAST, rewrite_array(before, type, rank + 1, dims), value);
}

/* One of the two numbers that the product has in its dimension `dim`. */
static struct hlo_instr *half(struct hlo_instr *product, struct hlo_instr *before, int dim,
                              int which, const struct shape *shape) {
    return rewrite_unary(before, OP_RESHAPE, shape, rewrite_slice_at(before, product, dim, which));
}

/* A dot whose two sides are as they lie in memory (the larger), and spread (the smaller). */
struct complex_dot {
    struct hlo_instr *dot, *small, *large;
    int side;                     /* which operand the smaller is */
    int64_t dims[SHAPE_MAX_RANK]; /* the real product's */
    int rank;
    int own_end[2]; /* in the dot's result: the end of each side's own dims, batch before */
};

static void read_dot(struct hlo_instr *dot, struct complex_dot *c) {
    struct hlo_instr *const *of = dot->operands;
    c->dot = dot;
    c->side = of[0]->shape->count < of[1]->shape->count ? 0 : 1;
    c->small = of[c->side];
    c->large = of[1 - c->side];
    c->rank = dot->shape->rank;
    memcpy(c->dims, dot->shape->dims, (size_t)c->rank * sizeof *c->dims);
    c->own_end[0] = of[0]->shape->rank - instr_ints(dot, dot_contracting[0]).count;
    c->own_end[1] = c->rank;
}

/* A dimension of two that is the last of a side's own. */
static int insert_pair(struct complex_dot *c, int side) {
    int at = c->own_end[side];
    memmove(c->dims + at + 1, c->dims + at, (size_t)(c->rank - at) * sizeof *c->dims);
    c->dims[at] = 2;
    c->rank++;
    for (int s = side; s < 2; s++)
        c->own_end[s]++;
    return at;
}

static struct hlo_instr *pair_product(struct complex_dot *c, struct hlo_instr *small,
                                      struct hlo_instr *large) {
    struct hlo_instr *operands[2];
    operands[c->side] = small;
    operands[1 - c->side] = large;
    const struct shape *shape = rewrite_array(c->dot, small->shape->type, c->rank, c->dims);
    return instr_clone(c->dot, c->dot->parent, c->dot, shape, operands);
}

/* An operand of the product has a new dimension `at`: those behind it have other numbers. */
static void renumber(struct hlo_instr *product, int side, int64_t at) {
    int64_t order[SHAPE_MAX_RANK];
    for (int64_t d = 0; d < SHAPE_MAX_RANK; d++)
        order[d] = d + (d >= at);
    dot_renumber(product, side, order);
}

static void sum_along(struct hlo_instr *product, int side, int64_t dim) {
    struct int_list old = instr_ints(product, dot_contracting[side]);
    int64_t dims[SHAPE_MAX_RANK];
    memcpy(dims, old.v, (size_t)old.count * sizeof *dims);
    dims[old.count] = dim;
    instr_set_ints(product, dot_contracting[side], old.count + 1, dims);
}

/* Behind the last of the smaller side's own dimensions, where the parts of the result lie best; of
 * a vector, before what is summed, which then lies side by side for each part. */
static int parts_dim(const struct complex_dot *c) {
    int at = c->small->shape->rank;
    struct int_list sums = instr_ints(c->dot, dot_contracting[c->side]);
    struct int_list batches = instr_ints(c->dot, dot_batch[c->side]);
    while (at > 0 && (int_list_has(sums, at - 1) || int_list_has(batches, at - 1)))
        at--;
    if (at == 0)
        while (int_list_has(batches, at))
            at++;
    return at;
}

/* Sums run along the pairs of the larger side: the smaller has (re, -im) and (im, re) for the two
 * parts of the result, each pair beside the numbers that the larger side has it beside. */
static struct hlo_instr *sum_pairs(struct complex_dot *c) {
    struct hlo_instr *dot = c->dot;
    struct parts s = parts_of(dot, c->small);
    const struct shape *part = part_shape(dot);
    struct int_list sums = instr_ints(dot, dot_contracting[1 - c->side]);
    int last = 0, apart = parts_dim(c);
    while (sums.v[last] != c->large->shape->rank - 1)
        last++;
    int64_t pair = instr_ints(dot, dot_contracting[c->side]).v[last] + 1;
    struct hlo_instr *minus = rewrite_unary(dot, OP_NEGATE, s.im->shape, s.im);
    struct hlo_instr *re = stacked(dot, s.re, minus, pair), *im = stacked(dot, s.im, s.re, pair);
    if (pair <= apart) apart++;
    int at = insert_pair(c, c->side);
    struct hlo_instr *spread = stacked(dot, re, im, apart), *pairs = as_pairs(dot, c->large);
    struct hlo_instr *product = pair_product(c, spread, pairs);
    renumber(product, c->side, pair);
    sum_along(product, c->side, pair);
    renumber(product, c->side, apart);
    sum_along(product, 1 - c->side, c->large->shape->rank);
    if (at == c->rank - 1) return rewrite_unary(dot, OP_BITCAST, dot->shape, product);
    struct hlo_instr *first = half(product, dot, at, 0, part);
    return rewrite_binary(dot, OP_COMPLEX, dot->shape, first, half(product, dot, at, 1, part));
}

/* The larger side's pairs are columns of their own: the products of the smaller side's parts with
 * each are put together afterwards. */
static struct hlo_instr *keep_pairs(struct complex_dot *c) {
    struct hlo_instr *dot = c->dot, *halves[2][2];
    struct parts s = parts_of(dot, c->small);
    int small_at = insert_pair(c, c->side), large_at = insert_pair(c, 1 - c->side);
    if (c->side == 1) small_at++;
    int apart = parts_dim(c);
    struct hlo_instr *spread = stacked(dot, s.re, s.im, apart), *pairs = as_pairs(dot, c->large);
    struct hlo_instr *product = pair_product(c, spread, pairs);
    renumber(product, c->side, apart);
    const struct shape *part = part_shape(dot);
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            struct hlo_instr *slice = rewrite_slice_at(dot, product, small_at, a);
            halves[a][b] = half(slice, dot, large_at, b, part);
        }
    struct hlo_instr *re = rewrite_binary(dot, OP_SUBTRACT, part, halves[0][0], halves[1][1]);
    struct hlo_instr *im = rewrite_binary(dot, OP_ADD, part, halves[0][1], halves[1][0]);
    return rewrite_binary(dot, OP_COMPLEX, dot->shape, re, im);
}

static int64_t terms_of(const struct hlo_instr *dot) {
    struct int_list sums = instr_ints(dot, dot_contracting[0]);
    int64_t terms = 1;
    for (int i = 0; i < sums.count; i++)
        terms *= dot->operands[0]->shape->dims[sums.v[i]];
    return terms;
}

static struct hlo_instr *expand_dot(struct pass_context *context, struct hlo_instr *dot) {
    struct complex_dot c;
    if (!is_plain(dot) || is_small(dot) || terms_of(dot) < LEAST_TERMS) return NULL;
    read_dot(dot, &c);
    if (c.rank + 2 > SHAPE_MAX_RANK || c.small->shape->rank + 2 > SHAPE_MAX_RANK ||
        c.large->shape->rank + 1 > SHAPE_MAX_RANK || c.large->shape->rank == 0)
        return NULL;
    MAY_REWRITE(context);
    struct int_list sums = instr_ints(dot, dot_contracting[1 - c.side]);
    return int_list_has(sums, c.large->shape->rank - 1) ? sum_pairs(&c) : keep_pairs(&c);
}

/* ---- convolutions ---- */

static struct hlo_instr *real_product(struct hlo_instr *of, struct hlo_instr *a,
                                      struct hlo_instr *b) {
    struct hlo_instr *operands[2] = {a, b};
    return instr_clone(of, of->parent, of, part_shape(of), operands);
}

static struct hlo_instr *expand_convolution(struct pass_context *context, struct hlo_instr *conv) {
    if (!is_plain(conv) || is_small(conv)) return NULL;
    MAY_REWRITE(context);
    struct parts a = parts_of(conv, conv->operands[0]), b = parts_of(conv, conv->operands[1]);
    const struct shape *shape = part_shape(conv);
    struct hlo_instr *rr = real_product(conv, a.re, b.re), *ii = real_product(conv, a.im, b.im);
    struct hlo_instr *ri = real_product(conv, a.re, b.im), *ir = real_product(conv, a.im, b.re);
    struct hlo_instr *re = rewrite_binary(conv, OP_SUBTRACT, shape, rr, ii);
    struct hlo_instr *im = rewrite_binary(conv, OP_ADD, shape, ri, ir);
    return rewrite_binary(conv, OP_COMPLEX, conv->shape, re, im);
}

static const struct rewrite rewrites[] = {{OP_DOT, expand_dot},
                                          {OP_CONVOLUTION, expand_convolution}};

bool complex_expander_run(struct pass_context *context, struct hlo_module *module) {
    return rewrites_run(context, module, rewrites, 2);
}
