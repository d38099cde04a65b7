/* cholesky, triangular-solve and batch-norm-*: computed in complex double (cholesky,
 * triangular-solve) or double (batch-norm-*), rounded once. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval_internal.h"
#include "ir/eval_linalg.h"

double complex *eval_load_complex(struct eval *e, const struct hlo_instr *instr,
                                  const struct literal *in) {
    double complex *out = eval_scratch(e, instr, in->shape->count, sizeof *out);
    double part[2];

    for (int64_t k = 0; out && k < in->shape->count; k++) {
        literal_get_complex(in, k, part);
        out[k] = CMPLX(part[0], part[1]);
    }
    return out;
}

void eval_store_complex(struct literal *out, const double complex *in) {
    bool is_complex = element_type_is_complex(out->shape->type);

    for (int64_t k = 0; k < out->shape->count; k++) {
        if (is_complex)
            literal_set_complex(out, k, creal(in[k]), cimag(in[k]));
        else
            literal_set_double(out, k, creal(in[k]));
    }
}

/* ---- cholesky ---- */

bool eval_cholesky_one(double complex *a, int64_t n, bool lower) {
    bool good = true;

    for (int64_t i = 0; i < n; i++) /* work on the lower triangle */
        for (int64_t j = 0; j < i && !lower; j++)
            a[i * n + j] = conj(a[j * n + i]);
    for (int64_t j = 0; j < n; j++) {
        double diagonal = creal(a[j * n + j]);

        for (int64_t k = 0; k < j; k++)
            diagonal -= creal(a[j * n + k] * conj(a[j * n + k]));
        if (!(diagonal > 0.0)) good = false;
        diagonal = sqrt(diagonal);
        a[j * n + j] = diagonal;
        for (int64_t i = j + 1; i < n; i++) {
            double complex sum = a[i * n + j];

            for (int64_t k = 0; k < j; k++)
                sum -= a[i * n + k] * conj(a[j * n + k]);
            a[i * n + j] = sum / diagonal;
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            a[i * n + j] = lower ? 0.0 : conj(a[j * n + i]);
            if (!lower) a[j * n + i] = 0.0;
        }
    for (int64_t k = 0; k < n * n && !good; k++)
        a[k] = CMPLX(NAN, NAN);
    return good;
}

struct literal *eval_cholesky(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    const struct shape *shape = instr->shape;
    int64_t n = shape->rank ? shape->dims[shape->rank - 1] : 0;
    bool lower = instr_bool(instr, ATTR_LOWER, false);
    struct literal *result;
    double complex *a;

    if (shape->rank < 2 || shape->dims[shape->rank - 2] != n ||
        ops[0]->shape->count != shape->count)
        return eval_error(e, instr, "the operand is no batch of square matrices");
    a = eval_load_complex(e, instr, ops[0]);
    result = a ? eval_new(e, instr, shape) : NULL;
    for (int64_t m = 0; result && n > 0 && m < shape->count / (n * n); m++)
        eval_cholesky_one(a + m * n * n, n, lower);
    if (result) eval_store_complex(result, a);
    free(a);
    return result;
}

/* ---- triangular-solve ---- */

struct triangle {
    int64_t n;
    bool lower, unit; /* of op(a) */
    bool transpose, conjugate;
    const double complex *a;
};

static double complex entry(const struct triangle *t, int64_t i, int64_t j) {
    double complex x = t->transpose ? t->a[j * t->n + i] : t->a[i * t->n + j];

    return t->conjugate ? conj(x) : x;
}

/* Solves op(a) x = b in place, for one column with the given stride. */
static void solve_column(const struct triangle *t, double complex *b, int64_t stride) {
    for (int64_t s = 0; s < t->n; s++) {
        int64_t i = t->lower ? s : t->n - 1 - s;
        int64_t from = t->lower ? 0 : i + 1, to = t->lower ? i : t->n;
        double complex sum = b[i * stride];

        for (int64_t j = from; j < to; j++)
            sum -= entry(t, i, j) * b[j * stride];
        b[i * stride] = t->unit ? sum : sum / entry(t, i, i);
    }
}

struct literal *eval_solve(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                           struct solve_options options) {
    const struct shape *sa = ops[0]->shape, *sb = ops[1]->shape;
    int64_t rows, columns;
    struct triangle t = {0};
    double complex *a, *b;
    struct literal *result = NULL;

    if (sa->rank < 2 || sb->rank != sa->rank)
        return eval_error(e, instr, "operands are no batches of matrices");
    rows = sb->dims[sb->rank - 2];
    columns = sb->dims[sb->rank - 1];
    t.n = options.left ? rows : columns;
    if (sa->dims[sa->rank - 1] != t.n || sa->dims[sa->rank - 2] != t.n ||
        sb->count != instr->shape->count ||
        (t.n > 0 && sa->count / (t.n * t.n) * rows * columns != sb->count))
        return eval_error(e, instr, "operands differ in size");
    t.unit = options.unit;
    t.conjugate = options.conjugate;
    /* x op(a) = b is op(a)^T x^T = b^T */
    t.transpose = options.transpose == options.left;
    t.lower = options.lower != t.transpose;
    a = eval_load_complex(e, instr, ops[0]);
    b = eval_load_complex(e, instr, ops[1]);
    if (a && b && eval_charge(e, instr, sa->count)) result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && sb->count > 0 && m < sb->count / (rows * columns); m++) {
        t.a = a + m * t.n * t.n;
        for (int64_t k = 0; k < (options.left ? columns : rows); k++)
            solve_column(&t, b + m * rows * columns + (options.left ? k : k * columns),
                         options.left ? columns : 1);
    }
    if (result) eval_store_complex(result, b);
    free(a);
    free(b);
    return result;
}

struct literal *eval_triangular_solve(struct eval *e, const struct hlo_instr *instr,
                                      struct literal **ops) {
    int64_t how = instr_int(instr, ATTR_TRANSPOSE_A, ENUM_TRANSPOSE_A_NONE);
    struct solve_options options = {
        .left = instr_bool(instr, ATTR_LEFT_SIDE, false),
        .lower = instr_bool(instr, ATTR_LOWER, false),
        .unit = instr_bool(instr, ATTR_UNIT_DIAGONAL, false),
        .transpose = how != ENUM_TRANSPOSE_A_NONE,
        .conjugate = how == ENUM_TRANSPOSE_A_ADJOINT,
    };

    return eval_solve(e, instr, ops, options);
}

/* ---- batch normalisation ---- */

struct features {
    int64_t count, inner, total; /* feature of element i: i / inner % count */
};

static bool features_init(struct features *f, const struct hlo_instr *instr, struct literal **ops) {
    const struct shape *shape = ops[0]->shape;
    int64_t dim = instr_int(instr, ATTR_FEATURE_INDEX, 0);

    if (dim < 0 || dim >= shape->rank) return false;
    f->count = shape->dims[dim];
    f->total = shape->count;
    f->inner = 1;
    for (int i = (int)dim + 1; i < shape->rank; i++)
        f->inner *= shape->dims[i];
    for (int k = 1; k < instr->noperands; k++)
        if (ops[k]->shape->count != f->count &&
            !(instr->opcode == OP_BATCH_NORM_GRAD && k == 4 && ops[k]->shape->count == f->total))
            return false;
    return true;
}

static int64_t feature_at(const struct features *f, int64_t i) {
    return i / f->inner % f->count;
}

/* Means of the features of x, and of their squared distances from it. */
static void moments(const struct features *f, const struct literal *x, double *mean,
                    double *variance) {
    double n = f->count ? (double)(f->total / f->count) : 0.0;

    for (int64_t i = 0; i < f->total; i++)
        mean[feature_at(f, i)] += literal_get_double(x, i) / n;
    for (int64_t i = 0; i < f->total; i++) {
        double d = literal_get_double(x, i) - mean[feature_at(f, i)];

        variance[feature_at(f, i)] += d * d / n;
    }
}

static void normalise(const struct features *f, struct literal *const *ops, const double *mean,
                      const double *variance, double epsilon, struct literal *out) {
    for (int64_t i = 0; i < f->total; i++) {
        int64_t c = feature_at(f, i);
        double x = (literal_get_double(ops[0], i) - mean[c]) / sqrt(variance[c] + epsilon);

        literal_set_double(out, i,
                           x * literal_get_double(ops[1], c) + literal_get_double(ops[2], c));
    }
}

struct literal *eval_batch_norm_training(struct eval *e, const struct hlo_instr *instr,
                                         struct literal **ops) {
    struct features f;
    double *mean;
    struct literal *result = NULL;

    if (!features_init(&f, instr, ops) || !shape_is_tuple(instr->shape) ||
        instr->shape->ntuple != 3)
        return eval_error(e, instr, "operands do not fit the feature dimension");
    mean = eval_scratch(e, instr, 2 * f.count, sizeof *mean);
    if (mean && eval_charge(e, instr, f.total)) result = eval_new(e, instr, instr->shape);
    if (result) {
        moments(&f, ops[0], mean, mean + f.count);
        normalise(&f, ops, mean, mean + f.count, instr_float(instr, ATTR_EPSILON, 0),
                  result->elements[0]);
        for (int64_t c = 0; c < f.count; c++) {
            literal_set_double(result->elements[1], c, mean[c]);
            literal_set_double(result->elements[2], c, mean[f.count + c]);
        }
    }
    free(mean);
    return result;
}

struct literal *eval_batch_norm_inference(struct eval *e, const struct hlo_instr *instr,
                                          struct literal **ops) {
    struct features f;
    double *mean;
    struct literal *result = NULL;

    if (!features_init(&f, instr, ops))
        return eval_error(e, instr, "operands do not fit the feature dimension");
    mean = eval_scratch(e, instr, 2 * f.count, sizeof *mean);
    if (mean) result = eval_new(e, instr, instr->shape);
    if (result) {
        for (int64_t c = 0; c < f.count; c++) {
            mean[c] = literal_get_double(ops[3], c);
            mean[f.count + c] = literal_get_double(ops[4], c);
        }
        normalise(&f, ops, mean, mean + f.count, instr_float(instr, ATTR_EPSILON, 0), result);
    }
    free(mean);
    return result;
}

/* Operands: x, scale, mean, variance, gradient of the output. */
struct literal *eval_batch_norm_grad(struct eval *e, const struct hlo_instr *instr,
                                     struct literal **ops) {
    double epsilon = instr_float(instr, ATTR_EPSILON, 0), n;
    struct features f;
    double *sum, *product;
    struct literal *result = NULL;

    if (!features_init(&f, instr, ops) || !shape_is_tuple(instr->shape) ||
        instr->shape->ntuple != 3)
        return eval_error(e, instr, "operands do not fit the feature dimension");
    sum = eval_scratch(e, instr, 2 * f.count, sizeof *sum);
    if (sum && eval_charge(e, instr, f.total)) result = eval_new(e, instr, instr->shape);
    if (!result) {
        free(sum);
        return NULL;
    }
    product = sum + f.count; /* of the gradient with x's distance from the mean */
    n = f.count ? (double)(f.total / f.count) : 0.0;
    for (int64_t i = 0; i < f.total; i++) {
        int64_t c = feature_at(&f, i);
        double g = literal_get_double(ops[4], i);

        sum[c] += g;
        product[c] += g * (literal_get_double(ops[0], i) - literal_get_double(ops[2], c));
    }
    for (int64_t i = 0; i < f.total; i++) {
        int64_t c = feature_at(&f, i);
        double inverse = 1.0 / (literal_get_double(ops[3], c) + epsilon);
        double d = literal_get_double(ops[0], i) - literal_get_double(ops[2], c);
        double g = literal_get_double(ops[4], i) - sum[c] / n - d * inverse * product[c] / n;

        literal_set_double(result->elements[0], i,
                           literal_get_double(ops[1], c) * sqrt(inverse) * g);
    }
    for (int64_t c = 0; c < f.count; c++) {
        double inverse = 1.0 / (literal_get_double(ops[3], c) + epsilon);

        literal_set_double(result->elements[1], c, product[c] * sqrt(inverse));
        literal_set_double(result->elements[2], c, sum[c]);
    }
    free(sum);
    return result;
}
