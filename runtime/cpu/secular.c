#include "runtime/cpu/secular.h"

#include <math.h>

#include "runtime/cpu/clones.h"

#pragma GCC optimize("O3")

enum { MOST_STEPS = 80, LANES = SECULAR_LANES };

typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));

/* pole j - pole o */
INLINE double between(const struct secular *s, int64_t j, int64_t o) {
    double gap = s->d[j] - s->d[o];
    return s->squares ? gap * (s->d[j] + s->d[o]) : gap;
}

INLINE lanes lanes_at(const double *at) {
    return *(const lanes *)at;
}

/* Poles j .. j + LANES - 1 less pole o. */
INLINE lanes many_between(const struct secular *s, int64_t j, int64_t o) {
    lanes gap = lanes_at(s->d + j) - s->d[o];
    if (s->squares) gap *= lanes_at(s->d + j) + s->d[o];
    return gap;
}

INLINE double total(lanes x) {
    return (x[0] + x[2]) + (x[1] + x[3]);
}

CLONES static void measure_poles(const struct secular *s, int64_t o) {
    int64_t j = 0;
    for (; j < s->count; j += LANES)
        *(lanes *)(s->pole + j) = many_between(s, j, o);
    for (int64_t i = s->count; i < j; i++)
        s->pole[i] = HUGE_VAL;
}

/* Both sums of z^2 / (pole - x), over the poles up to `split` and past it, and their slopes. */
struct parts {
    double below, above, below_slope, above_slope;
};

CLONES static struct parts evaluate(const struct secular *s, int64_t split, double x) {
    lanes value[2] = {{0}, {0}}, slope[2] = {{0}, {0}};
    int64_t middle = (split + 1) / LANES * LANES, end = s->count;
    for (int64_t j = 0; j < middle; j += LANES) {
        lanes z = lanes_at(s->z + j), t = z / (lanes_at(s->pole + j) - x);
        value[0] += z * t;
        slope[0] += t * t;
    }
    struct parts p = {total(value[0]), 0, total(slope[0]), 0};
    for (int64_t j = middle; j < end && j < middle + LANES; j++) {
        double z = s->z[j], t = z / (s->pole[j] - x);
        *(j <= split ? &p.below : &p.above) += z * t;
        *(j <= split ? &p.below_slope : &p.above_slope) += t * t;
    }
    for (int64_t j = middle + LANES; j < end; j += LANES) {
        lanes z = lanes_at(s->z + j), t = z / (lanes_at(s->pole + j) - x);
        value[1] += z * t;
        slope[1] += t * t;
    }
    p.above += total(value[1]);
    p.above_slope += total(slope[1]);
    return p;
}

/* A model of the equation with two poles: c + a / (p - x) + b / (q - x). */
struct model {
    double c, a, p, b, q;
};

/* Its root strictly between low and high, or NaN. */
static double model_root(const struct model *m, double low, double high) {
    double linear = m->c * (m->p + m->q) + m->a + m->b;
    double constant = m->c * m->p * m->q + m->a * m->q + m->b * m->p;
    double inside = linear * linear - 4 * m->c * constant;
    double sum = linear + copysign(sqrt(inside > 0 ? inside : 0), linear);
    double root = 2 * constant / sum;
    if (root > low && root < high) return root;
    root = sum / (2 * m->c);
    return root > low && root < high ? root : NAN;
}

/* A number between low and high, nearer to 0 where only orders of magnitude are known. */
static double halve(double low, double high) {
    if (low >= 0 && high > 16 * low) return low > 0 ? sqrt(low) * sqrt(high) : high / 64;
    if (high <= 0 && low < 16 * high) return high < 0 ? -sqrt(-high) * sqrt(-low) : low / 64;
    return low + (high - low) / 2;
}

/* Where root i is looked for, in distances from its origin. */
struct search {
    int64_t i, first, second; /* poles of the model: those beside the root, or the last two */
    double low, high, x;
};

/* The model that agrees with value and slope at x. The weight of the origin is its own, or, in
 * turns, each pole stands for all on its side. */
static struct model fit(const struct secular *s, const struct search *at, const struct parts *f,
                        double value, bool own) {
    struct model m = {.p = s->pole[at->first], .q = s->pole[at->second]};
    double to_p = m.p - at->x, to_q = m.q - at->x;
    bool last = at->second == at->i;
    if (own) {
        bool first = fabs(to_p) < fabs(to_q);
        double z = s->z[first ? at->first : at->second], near = first ? to_p : to_q;
        double far = first ? to_q : to_p;
        double rest = f->below_slope + f->above_slope - z / near * (z / near);
        double weight = rest * far * far;
        m.a = first ? z * z : weight;
        m.b = first ? weight : z * z;
    } else if (last) {
        double z = s->z[at->second];
        m.b = z * z;
        m.a = (f->below_slope - z / to_q * (z / to_q)) * to_p * to_p;
    } else {
        m.a = f->below_slope * to_p * to_p;
        m.b = f->above_slope * to_q * to_q;
    }
    m.c = value - m.a / to_p - m.b / to_q;
    return m;
}

/* Chooses the origin, the interval and a first x. */
static struct search begin(const struct secular *s, int64_t i) {
    int64_t k = s->count;
    bool last = i == k - 1;
    struct search at = {.i = i, .first = last ? i - 1 : i, .second = last ? i : i + 1};
    double width = 0;
    if (last)
        for (int64_t j = 0; j < k; j++)
            width += s->z[j] * s->z[j] * s->rho * (1 + 1e-14);
    else
        width = between(s, i + 1, i);
    measure_poles(s, i);
    double half = width / 2;
    struct parts f = evaluate(s, i, half);
    double value = 1 / s->rho + f.below + f.above;
    double z_first = s->z[at.first], z_second = s->z[at.second];
    struct model m = {.a = z_first * z_first, .b = z_second * z_second};
    m.c = value - m.a / (s->pole[at.first] - half) - m.b / (s->pole[at.second] - half);
    bool left = value >= 0;
    s->origin[i] = left || last ? i : i + 1;
    if (s->origin[i] != i) {
        measure_poles(s, i + 1);
        half = -half;
    }
    m.p = s->pole[at.first];
    m.q = s->pole[at.second];
    at.low = left ? 0 : half;
    at.high = left ? half : last ? width : 0;
    at.x = model_root(&m, at.low, at.high);
    if (!(at.x > at.low && at.x < at.high)) at.x = halve(at.low, at.high);
    return at;
}

static void find_root(const struct secular *s, int64_t i) {
    struct search at = begin(s, i);
    double before = HUGE_VAL;
    bool own = true;
    for (int step = 0; step < MOST_STEPS; step++) {
        struct parts f = evaluate(s, i, at.x);
        double value = 1 / s->rho + f.below + f.above;
        double size = 1 / s->rho + fabs(f.below) + fabs(f.above);
        if (!(fabs(value) > s->tolerance * size)) break;
        if (value < 0)
            at.low = at.x;
        else
            at.high = at.x;
        if (fabs(value) > before / 8) own = !own;
        before = fabs(value);
        struct model m = fit(s, &at, &f, value, own);
        double next = model_root(&m, at.low, at.high);
        if (!(next > at.low && next < at.high) || step % 16 == 15) next = halve(at.low, at.high);
        if (!(next > at.low && next < at.high) || next == at.x) break;
        at.x = next;
    }
    s->offset[i] = at.x;
}

/* fitted, from the differences of roots and poles (Loewner). */
CLONES static void fit_weights(const struct secular *s) {
    int64_t k = s->count;
    for (int64_t j = 0; j < k; j++)
        s->fitted[j] = 1;
    for (int64_t i = 0; i < k; i++) {
        double own = s->fitted[i], offset = s->offset[i];
        int64_t origin = s->origin[i];
        for (int64_t j = 0; j < k; j += LANES) {
            lanes *w = (lanes *)(s->fitted + j);
            *w *= (many_between(s, j, origin) - offset) / many_between(s, j, i);
        }
        s->fitted[i] = own * (between(s, i, origin) - offset);
    }
    for (int64_t j = 0; j < k; j++)
        s->fitted[j] = copysign(sqrt(fabs(s->fitted[j])), s->z[j]);
}

void secular_solve(struct secular *s) {
    int64_t k = s->count;
    for (int64_t j = k; j % LANES; j++)
        s->d[j] = s->z[j] = 0;
    if (k == 1) {
        s->origin[0] = 0;
        s->offset[0] = s->rho * s->z[0] * s->z[0];
        s->fitted[0] = s->z[0];
        return;
    }
    for (int64_t i = 0; i < k; i++)
        find_root(s, i);
    fit_weights(s);
}

double secular_value(const struct secular *s, int64_t i) {
    double pole = s->d[s->origin[i]], offset = s->offset[i];
    if (!s->squares) return pole + offset;
    double sum = pole + sqrt(pole * pole + offset);
    return sum > 0 ? pole + offset / sum : 0;
}

CLONES static void divide_weights(const struct secular *s, int64_t i, double *line) {
    int64_t origin = s->origin[i];
    double offset = s->offset[i];
    for (int64_t j = 0; j < s->count; j += LANES)
        *(lanes *)(line + j) = lanes_at(s->fitted + j) / (many_between(s, j, origin) - offset);
}

void secular_vector(const struct secular *s, int64_t i, double *line) {
    if (s->count == 1)
        line[0] = copysign(1, -s->z[0]); /* the pole less the root is less than 0 */
    else
        divide_weights(s, i, line);
}
