/* The LAPACK routines that JAX calls on CPUs: Cholesky, triangular and tridiagonal solves, LU, QR,
 * Hessenberg form, symmetric eigenproblems and singular values. Results are LAPACK's, pivots and
 * Householder vectors included; eigenvectors and singular vectors up to their signs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/custom_call.h"
#include "ir/eval_linalg.h"

static int64_t last_dim(const struct shape *shape, int from_end) {
    return shape->rank >= from_end ? shape->dims[shape->rank - from_end] : 0;
}

/* Leaves of the result, checked: the first is like the operand, the others have a number per
 * matrix that is at least `per[k]`. */
static bool results_fit(const struct hlo_instr *instr, const struct literal *a, int count,
                        int64_t matrices, const int64_t *per) {
    const struct shape *shape = instr->shape;

    if (!shape_is_tuple(shape) || shape->ntuple != count ||
        !shape_same_dims(shape->tuple[0], a->shape))
        return false;
    for (int k = 1; k < count; k++)
        if (shape->tuple[k]->count != matrices * per[k - 1]) return false;
    return true;
}

static struct literal *potrf(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    int64_t n = last_dim(ops[0]->shape, 1), one[] = {1};
    bool lower = custom_call_reads_lower(instr);
    struct literal *result;

    if (n != last_dim(ops[0]->shape, 2) || !results_fit(instr, ops[0], 2, matrices, one))
        return eval_error(e, instr, "operand and results do not fit together");
    result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && m < matrices; m++)
        if (!eval_cholesky_one(a + m * n * n, n, lower)) literal_set_int(result->elements[1], m, 1);
    if (result) eval_store_complex(result->elements[0], a);
    return result;
}

static double size_of(double complex x) {
    return fabs(creal(x)) + fabs(cimag(x));
}

/* Row exchanges count from 1; returns the first zero pivot's number, or 0. */
static int64_t factor_lu(double complex *a, int64_t rows, int64_t columns, struct literal *pivots,
                         int64_t first) {
    int64_t info = 0;

    for (int64_t k = 0; k < rows && k < columns; k++) {
        int64_t best = k;

        for (int64_t i = k + 1; i < rows; i++)
            if (size_of(a[i * columns + k]) > size_of(a[best * columns + k])) best = i;
        literal_set_int(pivots, first + k, best + 1);
        if (a[best * columns + k] == 0) {
            info = info ? info : k + 1;
            continue;
        }
        for (int64_t j = 0; j < columns && best != k; j++) {
            double complex x = a[k * columns + j];

            a[k * columns + j] = a[best * columns + j];
            a[best * columns + j] = x;
        }
        for (int64_t i = k + 1; i < rows; i++) {
            double complex factor = a[i * columns + k] /= a[k * columns + k];

            for (int64_t j = k + 1; j < columns; j++)
                a[i * columns + j] -= factor * a[k * columns + j];
        }
    }
    return info;
}

static struct literal *getrf(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    int64_t rows = last_dim(ops[0]->shape, 2), columns = last_dim(ops[0]->shape, 1);
    int64_t least = rows < columns ? rows : columns, per[] = {least, 1};
    struct literal *result;

    if (!results_fit(instr, ops[0], 3, matrices, per))
        return eval_error(e, instr, "operand and results do not fit together");
    result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && m < matrices; m++)
        literal_set_int(
            result->elements[2], m,
            factor_lu(a + m * rows * columns, rows, columns, result->elements[1], m * least));
    if (result) eval_store_complex(result->elements[0], a);
    return result;
}

/* One Householder step: column k below row k becomes the vector, its head beta. */
static double complex reflect(double complex *a, int64_t rows, int64_t columns, int64_t k) {
    double complex alpha = a[k * columns + k], tau, head;
    double rest = 0, beta;

    for (int64_t i = k + 1; i < rows; i++)
        rest = hypot(rest, cabs(a[i * columns + k]));
    if (rest == 0 && cimag(alpha) == 0) return 0;
    beta = -copysign(hypot(cabs(alpha), rest), creal(alpha));
    tau = CMPLX((beta - creal(alpha)) / beta, -cimag(alpha) / beta);
    head = alpha - beta;
    for (int64_t i = k + 1; i < rows; i++)
        a[i * columns + k] /= head;
    a[k * columns + k] = beta;
    for (int64_t j = k + 1; j < columns; j++) {
        double complex sum = a[k * columns + j];

        for (int64_t i = k + 1; i < rows; i++)
            sum += conj(a[i * columns + k]) * a[i * columns + j];
        sum *= conj(tau);
        a[k * columns + j] -= sum;
        for (int64_t i = k + 1; i < rows; i++)
            a[i * columns + j] -= sum * a[i * columns + k];
    }
    return tau;
}

static void set_element(struct literal *out, int64_t at, double complex x) {
    if (element_type_is_complex(out->shape->type))
        literal_set_complex(out, at, creal(x), cimag(x));
    else
        literal_set_double(out, at, creal(x));
}

static struct literal *geqrf(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    int64_t rows = last_dim(ops[0]->shape, 2), columns = last_dim(ops[0]->shape, 1);
    int64_t least = rows < columns ? rows : columns;
    struct literal *result;

    if (!results_fit(instr, ops[0], 2, matrices, &least))
        return eval_error(e, instr, "operand and results do not fit together");
    result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && m < matrices; m++)
        for (int64_t k = 0; k < least; k++)
            set_element(result->elements[1], m * least + k,
                        reflect(a + m * rows * columns, rows, columns, k));
    if (result) eval_store_complex(result->elements[0], a);
    return result;
}

static void swap_columns(double complex *a, int64_t rows, int64_t columns, int64_t p, int64_t q) {
    for (int64_t i = 0; i < rows && p != q; i++) {
        double complex x = a[i * columns + p];

        a[i * columns + p] = a[i * columns + q];
        a[i * columns + q] = x;
    }
}

static double column_length(const double complex *a, int64_t rows, int64_t columns, int64_t from,
                            int64_t j) {
    double length = 0;

    for (int64_t i = from; i < rows; i++)
        length = hypot(length, cabs(a[i * columns + j]));
    return length;
}

/* QR where the longest rest of a column is next; columns with a number go to the front first. */
static void factor_pivoted(double complex *a, int64_t rows, int64_t columns, int64_t *order,
                           struct literal *tau, int64_t first) {
    int64_t fixed = 0;

    for (int64_t j = 0; j < columns; j++) {
        bool front = order[j] != 0;

        order[j] = j + 1;
        if (!front) continue;
        swap_columns(a, rows, columns, j, fixed);
        order[j] = order[fixed];
        order[fixed++] = j + 1;
    }
    for (int64_t k = 0; k < rows && k < columns; k++) {
        int64_t best = k, keep = order[k];

        for (int64_t j = k + 1; j < columns && k >= fixed; j++)
            if (column_length(a, rows, columns, k, j) > column_length(a, rows, columns, k, best))
                best = j;
        swap_columns(a, rows, columns, k, best);
        order[k] = order[best];
        order[best] = keep;
        set_element(tau, first + k, reflect(a, rows, columns, k));
    }
}

static struct literal *geqp3(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    int64_t rows = last_dim(ops[0]->shape, 2), columns = last_dim(ops[0]->shape, 1);
    int64_t least = rows < columns ? rows : columns, per[] = {columns, least};
    struct literal *result = NULL;
    int64_t *order;

    if (instr->noperands != 2 || ops[1]->shape->count != matrices * columns ||
        !results_fit(instr, ops[0], 3, matrices, per))
        return eval_error(e, instr, "operands and results do not fit together");
    order = eval_scratch(e, instr, columns, sizeof *order);
    if (order) result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && m < matrices; m++) {
        for (int64_t j = 0; j < columns; j++)
            order[j] = literal_get_int(ops[1], m * columns + j);
        factor_pivoted(a + m * rows * columns, rows, columns, order, result->elements[2],
                       m * least);
        for (int64_t j = 0; j < columns; j++)
            literal_set_int(result->elements[1], m * columns + j, order[j]);
    }
    if (result) eval_store_complex(result->elements[0], a);
    free(order);
    return result;
}

/* a becomes Q^H a Q for Q = 1 - tau v v^H, v from column k with an implied 1 in row k + 1. */
static void turn_both_sides(double complex *a, int64_t n, int64_t k, int64_t high,
                            double complex tau) {
    for (int64_t i = 0; i < high; i++) {
        double complex sum = a[i * n + k + 1];

        for (int64_t j = k + 2; j < high; j++)
            sum += a[i * n + j] * a[j * n + k];
        a[i * n + k + 1] -= sum * tau;
        for (int64_t j = k + 2; j < high; j++)
            a[i * n + j] -= sum * tau * conj(a[j * n + k]);
    }
    for (int64_t j = k + 1; j < n; j++) {
        double complex sum = a[(k + 1) * n + j];

        for (int64_t i = k + 2; i < high; i++)
            sum += conj(a[i * n + k]) * a[i * n + j];
        a[(k + 1) * n + j] -= conj(tau) * sum;
        for (int64_t i = k + 2; i < high; i++)
            a[i * n + j] -= conj(tau) * sum * a[i * n + k];
    }
}

/* The reflection that makes column k zero below row k + 1. */
static double complex reflection_below(double complex *a, int64_t n, int64_t k, int64_t high) {
    double complex alpha = a[(k + 1) * n + k], tau;
    double rest = 0, beta;

    for (int64_t i = k + 2; i < high; i++)
        rest = hypot(rest, cabs(a[i * n + k]));
    if (rest == 0 && cimag(alpha) == 0) return 0;
    beta = -copysign(hypot(cabs(alpha), rest), creal(alpha));
    tau = CMPLX((beta - creal(alpha)) / beta, -cimag(alpha) / beta);
    for (int64_t i = k + 2; i < high; i++)
        a[i * n + k] /= alpha - beta;
    a[(k + 1) * n + k] = beta;
    return tau;
}

static struct literal *gehrd(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    int64_t n = last_dim(ops[0]->shape, 1), per[] = {n > 0 ? n - 1 : 0, 1};
    int low = custom_call_letter(instr, "low", 1), high = custom_call_letter(instr, "high", (int)n);
    struct literal *result;

    if (n != last_dim(ops[0]->shape, 2) || low < 1 || high > n ||
        !results_fit(instr, ops[0], 3, matrices, per))
        return eval_error(e, instr, "operand and results do not fit together");
    result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && m < matrices; m++)
        for (int64_t k = low - 1; k + 1 < high; k++) {
            double complex *matrix = a + m * n * n, tau = reflection_below(matrix, n, k, high);

            turn_both_sides(matrix, n, k, high, tau);
            set_element(result->elements[1], m * (n - 1) + k, tau);
        }
    if (result) eval_store_complex(result->elements[0], a);
    return result;
}

/* Q's first columns from the vectors below the diagonal, in place, last reflection first. */
static void form_q(double complex *a, const double complex *tau, int64_t rows, int64_t columns,
                   int64_t count) {
    for (int64_t j = count; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            a[i * columns + j] = i == j;
    for (int64_t k = count - 1; k >= 0; k--) {
        for (int64_t j = k + 1; j < columns; j++) {
            double complex sum = a[k * columns + j];

            for (int64_t i = k + 1; i < rows; i++)
                sum += conj(a[i * columns + k]) * a[i * columns + j];
            sum *= tau[k];
            a[k * columns + j] -= sum;
            for (int64_t i = k + 1; i < rows; i++)
                a[i * columns + j] -= sum * a[i * columns + k];
        }
        for (int64_t i = k + 1; i < rows; i++)
            a[i * columns + k] *= -tau[k];
        a[k * columns + k] = 1 - tau[k];
        for (int64_t i = 0; i < k; i++)
            a[i * columns + k] = 0;
    }
}

static struct literal *orgqr(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    int64_t rows = last_dim(ops[0]->shape, 2), columns = last_dim(ops[0]->shape, 1);
    int64_t count = instr->noperands == 2 ? last_dim(ops[1]->shape, 1) : 0;
    double complex *tau;
    struct literal *result = NULL;

    if (instr->noperands != 2 || !shape_same_dims(instr->shape, ops[0]->shape) || columns > rows ||
        count > columns || ops[1]->shape->count != matrices * count)
        return eval_error(e, instr, "operands and result do not fit together");
    tau = eval_load_complex(e, instr, ops[1]);
    if (tau) result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && m < matrices; m++)
        form_q(a + m * rows * columns, tau + m * count, rows, columns, count);
    if (result) eval_store_complex(result, a);
    free(tau);
    return result;
}

/* Makes a[p][q] zero by a rotation of rows and columns p and q. */
static void rotate_pair(double complex *a, double complex *v, int64_t n, int64_t p, int64_t q) {
    double complex apq = a[p * n + q], phase;
    double size = cabs(apq), theta, t, c, s;

    if (size == 0) return;
    phase = apq / size;
    theta = (creal(a[q * n + q]) - creal(a[p * n + p])) / (2 * size);
    t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    c = 1 / sqrt(t * t + 1);
    s = t * c;
    for (int64_t k = 0; k < n; k++) { /* columns: a U, v U */
        double complex x = a[k * n + p], y = a[k * n + q];

        a[k * n + p] = c * x - s * conj(phase) * y;
        a[k * n + q] = s * phase * x + c * y;
        x = v[k * n + p];
        y = v[k * n + q];
        v[k * n + p] = c * x - s * conj(phase) * y;
        v[k * n + q] = s * phase * x + c * y;
    }
    for (int64_t k = 0; k < n; k++) { /* rows: U^H a */
        double complex x = a[p * n + k], y = a[q * n + k];

        a[p * n + k] = c * x - s * phase * y;
        a[q * n + k] = s * conj(phase) * x + c * y;
    }
}

/* Cyclic Jacobi on a Hermitian matrix: a becomes diagonal, v collects the vectors as columns. */
static void jacobi(double complex *a, double complex *v, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            v[i * n + j] = i == j;
    for (int sweep = 0; sweep < 60; sweep++) {
        double off = 0, all = 0;

        for (int64_t i = 0; i < n * n; i++) {
            double size = creal(a[i] * conj(a[i]));

            all += size;
            off += i % (n + 1) ? size : 0;
        }
        if (!(off > 1e-30 * all)) return;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++)
                rotate_pair(a, v, n, p, q);
    }
}

/* Eigenvalues ascending; the vectors' signs are not LAPACK's. */
/* (vectors, values), and where there are three results a zero for each matrix. */
static struct literal *eigen(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices, int results) {
    int64_t n = last_dim(ops[0]->shape, 1), per[] = {n, 1};
    bool lower = custom_call_reads_lower(instr);
    struct literal *result = NULL;
    double complex *v;

    if (n != last_dim(ops[0]->shape, 2) || !results_fit(instr, ops[0], results, matrices, per))
        return eval_error(e, instr, "operand and results do not fit together");
    v = eval_scratch(e, instr, n * n, sizeof *v);
    if (v) result = eval_new(e, instr, instr->shape);
    for (int64_t m = 0; result && m < matrices; m++) {
        double complex *matrix = a + m * n * n;

        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++) {
                if (lower)
                    matrix[i * n + j] = conj(matrix[j * n + i]);
                else
                    matrix[j * n + i] = conj(matrix[i * n + j]);
            }
        jacobi(matrix, v, n);
        for (int64_t i = 0; i < n; i++) {
            int64_t rank = 0;
            double x = creal(matrix[i * n + i]);

            for (int64_t j = 0; j < n; j++) {
                double y = creal(matrix[j * n + j]);

                rank += y < x || (y == x && j < i);
            }
            literal_set_double(result->elements[1], m * n + rank, x);
            for (int64_t k = 0; k < n; k++)
                set_element(result->elements[0], (m * n + k) * n + rank, v[k * n + i]);
        }
    }
    free(v);
    return result;
}

static struct literal *syevd(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    return eigen(e, instr, ops, a, matrices, 3);
}

static struct literal *eigh(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                            double complex *a, int64_t matrices) {
    return eigen(e, instr, ops, a, matrices, 2);
}

/* Extends orthonormal columns 0 .. j - 1 of u (rows x rows) by one more: the unit vector least
 * covered by them, made orthogonal. */
static void complete_column(double complex *u, int64_t rows, int64_t j) {
    double best = -1;
    int64_t unit = 0;

    for (int64_t i = 0; i < rows; i++) {
        double left = 1;

        for (int64_t k = 0; k < j; k++)
            left -= creal(u[i * rows + k] * conj(u[i * rows + k]));
        if (left > best) {
            best = left;
            unit = i;
        }
    }
    for (int64_t i = 0; i < rows; i++)
        u[i * rows + j] = i == unit;
    for (int pass = 0; pass < 2; pass++) { /* twice is enough */
        double size = 0;

        for (int64_t k = 0; k < j; k++) {
            double complex sum = 0;

            for (int64_t i = 0; i < rows; i++)
                sum += conj(u[i * rows + k]) * u[i * rows + j];
            for (int64_t i = 0; i < rows; i++)
                u[i * rows + j] -= sum * u[i * rows + k];
        }
        for (int64_t i = 0; i < rows; i++)
            size = hypot(size, cabs(u[i * rows + j]));
        for (int64_t i = 0; i < rows; i++)
            u[i * rows + j] /= size;
    }
}

struct svd { /* b (rows x columns, rows >= columns) = u s v^H */
    int64_t rows, columns;
    double complex *b, *u, *v, *gram, *vectors;
    double *s;
};

static void sort_values(struct svd *d) {
    int64_t n = d->columns;

    for (int64_t i = 0; i < n; i++) {
        int64_t rank = 0;
        double x = creal(d->gram[i * n + i]);

        for (int64_t j = 0; j < n; j++) {
            double y = creal(d->gram[j * n + j]);

            rank += y > x || (y == x && j < i);
        }
        for (int64_t k = 0; k < n; k++)
            d->v[k * n + rank] = d->vectors[k * n + i];
    }
}

/* Through the eigenvectors of b^H b: in double, and rounded to float in the end. */
static void decompose(struct svd *d) {
    int64_t rows = d->rows, n = d->columns;

    for (int64_t i = 0; i < n * n; i++) {
        double complex sum = 0;

        for (int64_t k = 0; k < rows; k++)
            sum += conj(d->b[k * n + i / n]) * d->b[k * n + i % n];
        d->gram[i] = sum;
    }
    jacobi(d->gram, d->vectors, n);
    sort_values(d);
    for (int64_t j = 0; j < rows; j++) {
        double size = 0;

        for (int64_t i = 0; i < rows && j < n; i++) {
            double complex sum = 0;

            for (int64_t k = 0; k < n; k++)
                sum += d->b[i * n + k] * d->v[k * n + j];
            d->u[i * rows + j] = sum;
            size = hypot(size, cabs(sum));
        }
        if (j < n) d->s[j] = size;
        if (j < n && size > 1e-9 * d->s[0]) {
            for (int64_t i = 0; i < rows; i++)
                d->u[i * rows + j] /= size;
        } else {
            complete_column(d->u, rows, j);
        }
    }
}

/* (operand, s, u, v^H, info); for wide matrices the decomposition is of the adjoint. */
static void store_svd(struct literal *result, const struct svd *d, int64_t m, bool wide) {
    struct literal *u = result->elements[2], *vt = result->elements[3];
    int64_t height = wide ? d->columns : d->rows, width = wide ? d->rows : d->columns;
    int64_t u_columns = last_dim(u->shape, 1), v_rows = last_dim(vt->shape, 2);
    const double complex *left = wide ? d->v : d->u, *right = wide ? d->u : d->v;

    for (int64_t k = 0; k < d->columns; k++)
        literal_set_double(result->elements[1], m * d->columns + k, d->s[k]);
    for (int64_t i = 0; i < height; i++)
        for (int64_t j = 0; j < u_columns; j++)
            set_element(u, (m * height + i) * u_columns + j, left[i * height + j]);
    for (int64_t i = 0; i < v_rows; i++)
        for (int64_t j = 0; j < width; j++)
            set_element(vt, (m * v_rows + i) * width + j, conj(right[j * width + i]));
}

static bool svd_fits(const struct hlo_instr *instr, const struct literal *a, int64_t matrices) {
    const struct shape *shape = instr->shape;
    int64_t rows = last_dim(a->shape, 2), columns = last_dim(a->shape, 1);
    int64_t least = rows < columns ? rows : columns;

    return shape_is_tuple(shape) && shape->ntuple == 5 &&
           shape_same_dims(shape->tuple[0], a->shape) &&
           shape->tuple[1]->count == matrices * least && shape->tuple[4]->count == matrices &&
           last_dim(shape->tuple[2], 1) <= rows && last_dim(shape->tuple[3], 2) <= columns &&
           shape->tuple[2]->count == matrices * rows * last_dim(shape->tuple[2], 1) &&
           shape->tuple[3]->count == matrices * columns * last_dim(shape->tuple[3], 2);
}

/* Vectors up to their signs. */
static struct literal *gesdd(struct eval *e, const struct hlo_instr *instr, struct literal **ops,
                             double complex *a, int64_t matrices) {
    int64_t rows = last_dim(ops[0]->shape, 2), columns = last_dim(ops[0]->shape, 1);
    int64_t n = rows > columns ? rows : columns;
    bool wide = rows < columns;
    struct literal *result = NULL;
    struct svd d = {
        wide ? columns : rows, wide ? rows : columns, NULL, NULL, NULL, NULL, NULL, NULL};
    double complex *memory;

    if (!svd_fits(instr, ops[0], matrices))
        return eval_error(e, instr, "operand and results do not fit together");
    memory = eval_scratch(e, instr, 5 * n * n + n, sizeof *memory);
    if (memory) result = eval_new(e, instr, instr->shape);
    if (result) {
        d.b = memory;
        d.u = memory + n * n;
        d.v = memory + 2 * n * n;
        d.gram = memory + 3 * n * n;
        d.vectors = memory + 4 * n * n;
        d.s = (double *)(memory + 5 * n * n);
    }
    for (int64_t m = 0; result && m < matrices; m++) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                double complex x = a[(m * rows + i) * columns + j];

                d.b[wide ? j * rows + i : i * columns + j] = wide ? conj(x) : x;
            }
        decompose(&d);
        store_svd(result, &d, m, wide);
    }
    free(memory);
    return result;
}

static struct literal *trsm(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    int how = custom_call_letter(instr, "trans_x", 'N');
    struct solve_options options = {
        .left = custom_call_letter(instr, "side", 'L') == 'L',
        .lower = custom_call_letter(instr, "uplo", 'L') == 'L',
        .unit = custom_call_letter(instr, "diag", 'N') == 'U',
        .transpose = how != 'N',
        .conjugate = how == 'C',
    };

    if (instr->noperands != 2 || !shape_is_array(instr->shape))
        return eval_error(e, instr, "two matrices are expected");
    return eval_solve(e, instr, ops, options);
}

/* Column j of c (rows x columns, or its adjoint: a row) becomes (1 - tau v v^H) of it. */
static void reflect_line(double complex *line, int64_t stride, const double complex *vectors,
                         int64_t rows, int64_t count, int64_t k, double complex tau) {
    double complex sum = line[k * stride];

    for (int64_t i = k + 1; i < rows; i++)
        sum += conj(vectors[i * count + k]) * line[i * stride];
    line[k * stride] -= tau * sum;
    for (int64_t i = k + 1; i < rows; i++)
        line[i * stride] -= tau * sum * vectors[i * count + k];
}

/* (vectors, tau, c) -> Q c, Q^H c, c Q or c Q^H; the latter two by the adjoints of c's rows. */
static struct literal *ormqr(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    bool left = custom_call_flag(instr, "left", true);
    bool adjoint = custom_call_flag(instr, "transpose", false) == left;
    const struct shape *a = ops[0]->shape, *in = instr->operands[2]->shape;
    int64_t columns = last_dim(in, 1), size = last_dim(in, 2) * columns, count = last_dim(a, 1);
    int64_t rows = left ? last_dim(in, 2) : columns, matrices = size ? in->count / size : 0;
    double complex *part[3] = {0};
    struct literal *result = NULL;

    if (!shape_same_dims(instr->shape, in) || last_dim(a, 2) != rows || count > rows ||
        a->count != matrices * rows * count || ops[1]->shape->count != matrices * count)
        return eval_error(e, instr, "operands and result do not fit together");
    for (int k = 0; k < 3; k++)
        part[k] = eval_load_complex(e, instr, ops[k]);
    if (part[0] && part[1] && part[2] && eval_charge(e, instr, in->count * count))
        result = eval_new(e, instr, instr->shape);
    for (int64_t i = 0; i < in->count && !left && result; i++)
        part[2][i] = conj(part[2][i]);
    for (int64_t m = 0; result && m < matrices; m++)
        for (int64_t line = 0; line < (rows ? size / rows : 0); line++)
            for (int64_t s = 0; s < count; s++) {
                int64_t k = adjoint ? s : count - 1 - s;
                double complex tau = part[1][m * count + k];

                reflect_line(part[2] + m * size + (left ? line : line * columns),
                             left ? columns : 1, part[0] + m * rows * count, rows, count, k,
                             adjoint ? conj(tau) : tau);
            }
    for (int64_t i = 0; i < in->count && !left && result; i++)
        part[2][i] = conj(part[2][i]);
    if (result) eval_store_complex(result, part[2]);
    for (int k = 0; k < 3; k++)
        free(part[k]);
    return result;
}

/* One tridiagonal system, in place, by elimination with row exchanges: row i is (low[i], mid[i],
 * high[i]). Returns the number of a zero pivot, or 0. What comes to stand two places right of the
 * diagonal in row i is kept in low[i + 1]. */
static int64_t solve_tridiagonal(double complex *low, double complex *mid, double complex *high,
                                 double complex *b, int64_t n, int64_t columns) {
    for (int64_t i = 0; i + 1 < n; i++) {
        bool exchange = size_of(low[i + 1]) > size_of(mid[i]);
        double complex pivot = exchange ? low[i + 1] : mid[i], factor, right, far = 0;

        if (pivot == 0) return i + 1;
        factor = (exchange ? mid[i] : low[i + 1]) / pivot;
        right = exchange ? mid[i + 1] : high[i];
        if (exchange && i + 2 < n) far = high[i + 1];
        mid[i + 1] = (exchange ? high[i] : mid[i + 1]) - factor * right;
        if (exchange && i + 2 < n) high[i + 1] = -factor * far;
        mid[i] = pivot;
        high[i] = right;
        low[i + 1] = far;
        for (int64_t j = 0; j < columns; j++) {
            double complex x = b[i * columns + j], y = b[(i + 1) * columns + j];

            b[i * columns + j] = exchange ? y : x;
            b[(i + 1) * columns + j] = exchange ? x - factor * y : y - factor * x;
        }
    }
    if (n > 0 && mid[n - 1] == 0) return n;
    for (int64_t i = n - 1; i >= 0; i--)
        for (int64_t j = 0; j < columns; j++) {
            double complex sum = b[i * columns + j];

            if (i + 1 < n) sum -= high[i] * b[(i + 1) * columns + j];
            if (i + 2 < n) sum -= low[i + 1] * b[(i + 2) * columns + j];
            b[i * columns + j] = sum / mid[i];
        }
    return 0;
}

/* (below, diagonal, above, b) -> (what is left of the three, x, info) */
static struct literal *gtsv(struct eval *e, const struct hlo_instr *instr, struct literal **ops) {
    const struct shape *shape = instr->shape, *in = instr->operands[instr->noperands - 1]->shape;
    int64_t n = shape_is_array(in) ? last_dim(in, 2) : 0, columns = n ? last_dim(in, 1) : 0;
    int64_t matrices = n && columns ? in->count / n / columns : 0;
    double complex *part[4] = {0};
    struct literal *result = NULL;
    bool fits = instr->noperands == 4 && shape_is_tuple(shape) && shape->ntuple == 5;

    for (int k = 0; fits && k < 4; k++)
        fits = shape_same_dims(shape->tuple[k], ops[k]->shape) &&
               ops[k]->shape->count == matrices * n * (k < 3 ? 1 : columns);
    if (!fits || shape->tuple[4]->count < matrices)
        return eval_error(e, instr, "operands and results do not fit together");
    for (int k = 0; k < 4; k++)
        part[k] = eval_load_complex(e, instr, ops[k]);
    if (part[0] && part[1] && part[2] && part[3] && eval_charge(e, instr, in->count))
        result = eval_new(e, instr, shape);
    for (int64_t m = 0; result && m < matrices; m++)
        literal_set_int(result->elements[4], m,
                        solve_tridiagonal(part[0] + m * n, part[1] + m * n, part[2] + m * n,
                                          part[3] + m * n * columns, n, columns));
    for (int k = 0; k < 4; k++) {
        if (result) eval_store_complex(result->elements[k], part[k]);
        free(part[k]);
    }
    return result;
}

struct literal *eval_lapack(struct eval *e, const struct hlo_instr *instr, const char *name,
                            struct literal **ops, bool *known) {
    typedef struct literal *routine(struct eval *, const struct hlo_instr *, struct literal **,
                                    double complex *, int64_t);
    static const struct {
        const char *name;
        routine *run;
    } routines[] = {{"potrf_ffi", potrf}, {"getrf_ffi", getrf}, {"geqrf_ffi", geqrf},
                    {"geqp3_ffi", geqp3}, {"gehrd_ffi", gehrd}, {"orgqr_ffi", orgqr},
                    {"ungqr_ffi", orgqr}, {"syevd_ffi", syevd}, {"heevd_ffi", syevd},
                    {"eigh", eigh},       {"gesdd_ffi", gesdd}, {"gesvd_ffi", gesdd}};
    struct literal *result = NULL;
    int64_t rows, columns;
    double complex *a;

    *known = true;
    if (strcmp(name, "trsm_ffi") == 0) return trsm(e, instr, ops);
    if ((strcmp(name, "ormqr_ffi") == 0 || strcmp(name, "unmqr_ffi") == 0) &&
        instr->noperands == 3 && shape_is_array(instr->shape))
        return ormqr(e, instr, ops);
    if (strcmp(name, "gtsv_ffi") == 0 && instr->noperands > 0) return gtsv(e, instr, ops);
    for (size_t i = 0; i < sizeof routines / sizeof *routines; i++) {
        if (strcmp(name, routines[i].name)) continue;
        if (instr->noperands < 1 || !shape_is_array(ops[0]->shape) || ops[0]->shape->rank < 2)
            return eval_error(e, instr, "a batch of matrices is expected");
        rows = last_dim(ops[0]->shape, 2);
        columns = last_dim(ops[0]->shape, 1);
        a = eval_load_complex(e, instr, ops[0]);
        if (a && eval_charge(e, instr, ops[0]->shape->count))
            result = routines[i].run(e, instr, ops, a,
                                     rows && columns ? ops[0]->shape->count / rows / columns : 0);
        free(a);
        return result;
    }
    *known = false;
    return NULL;
}
