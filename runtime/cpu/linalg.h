/* What the files of linear algebra share: linalg.c chooses among the number types, linalg_f32.c and
 * its kind compile linalg_kernels.h for one of them each. */
#ifndef RUNTIME_CPU_LINALG_H
#define RUNTIME_CPU_LINALG_H

#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/number.h"

/* A batch of matrices, as its configuration says. */
struct matrix {
    int64_t type, real_type, rows, columns, flags, extra, extra2;
};

typedef void linalg_kernel(const struct matrix *m, void *const *arrays, void *memory, int64_t unit);

#define LINALG_KERNELS(X)                                                                          \
    X(cholesky)                                                                                    \
    X(solve)                                                                                       \
    X(getrf)                                                                                       \
    X(geqrf)                                                                                       \
    X(geqp3)                                                                                       \
    X(gehrd)                                                                                       \
    X(gtsv)                                                                                        \
    X(orgqr)                                                                                       \
    X(ormqr)                                                                                       \
    X(syevd)                                                                                       \
    X(gesdd)

/* The kernels of one number type, and the bytes of memory that each needs. */
struct linalg_kernels {
#define X(name)                                                                                    \
    linalg_kernel *name;                                                                           \
    int64_t (*name##_bytes)(const struct matrix *m);
    LINALG_KERNELS(X)
#undef X
};

extern const struct linalg_kernels hlocc_rt_linalg_f32, hlocc_rt_linalg_f64, hlocc_rt_linalg_c64,
    hlocc_rt_linalg_c128;

/* c -= a b: distances from row to row and from column to column of each. c's columns are
 * neighbours. Conjugates are of complex numbers only. */
struct product {
    int64_t rows, columns, depth;
    int64_t a_row, a_column, b_row, b_column, c_row;
    bool conjugate_a, conjugate_b;
};

/* Rows of all three are `a_row`, `b_row` and `c_row` apart, columns are neighbours. */
static inline struct product product_of(int64_t rows, int64_t columns, int64_t depth, int64_t a_row,
                                        int64_t b_row, int64_t c_row) {
    return (struct product){.rows = rows,
                            .columns = columns,
                            .depth = depth,
                            .a_row = a_row,
                            .a_column = 1,
                            .b_row = b_row,
                            .b_column = 1,
                            .c_row = c_row};
}

/* The same with a^H, or b^H, in place of what lies there in rows so far apart. */
static inline struct product adjoint_a(struct product p) {
    p.a_column = p.a_row;
    p.a_row = 1;
    p.conjugate_a = true;
    return p;
}

static inline struct product adjoint_b(struct product p) {
    p.b_column = p.b_row;
    p.b_row = 1;
    p.conjugate_b = true;
    return p;
}

static inline int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

/* hypot, which is slow, where the squares keep their digits. */
static inline double length_of(double a, double b) {
    double square = a * a + b * b;
    return square > 1e-280 && square < 1e280 ? sqrt(square) : hypot(a, b);
}

/* Takes pieces of a kernel's memory, each aligned to a line of the cache. With base NULL it only
 * counts: the same code says how much is needed and lays it out. */
struct room {
    char *base;
    int64_t used;
};

static inline void *take(struct room *room, int64_t count, size_t size) {
    void *at = room->base ? room->base + room->used : NULL;
    room->used += hlocc_rt_align(count * (int64_t)size);
    return at;
}

#endif
