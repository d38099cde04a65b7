/* The number type that a file computes with, and vectors of it, from SINGLE (1: float, 0: double)
 * and PARTS (1 for real numbers, 2 for complex ones). linalg_f32.c and its kind compile the same
 * code for one type each. */
#ifndef RUNTIME_CPU_MATRIX_NUMBER_H
#define RUNTIME_CPU_MATRIX_NUMBER_H

#include "runtime/cpu/linalg.h"

/* Between REAL_SMALL and REAL_LARGE squares and quotients keep their digits. SPECTRUM(name) is the
 * function of spectrum.h for the type of the parts. */
#if SINGLE
#define REAL float
#define PLACE int32_t
#define REAL_EPSILON ((double)FLT_EPSILON)
#define REAL_SMALL 1e-30
#define REAL_LARGE 1e30
#define SPECTRUM(name) name##_f32
#else
#define REAL double
#define PLACE int64_t
#define REAL_EPSILON DBL_EPSILON
#define REAL_SMALL 1e-200
#define REAL_LARGE 1e200
#define SPECTRUM(name) name##_f64
#endif

typedef REAL lanes __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
typedef PLACE places __attribute__((vector_size(32))); /* for shuffles */

enum {
    LANES = 32 / (int)sizeof(REAL), /* parts in a vector */
    NUMBERS = LANES / PARTS         /* numbers in a vector */
};

#if PARTS == 1
#define NUM REAL
#define MUL(a, b) ((a) * (b))
#define CONJ(x) (x)
#define RE(x) (x)
#define IM(x) ((REAL)0)
#define ABS(x) ((REAL)fabs((double)(x)))
#define ABS1(x) ABS(x)
#define MAKE(re, im) ((REAL)(re))
#define TAKE(x) ((REAL)creal(x))
#define GIVE(x) ((double complex)(x))
#else
#define NUM REAL complex
#define MUL(a, b) times(a, b)
#define CONJ(x) MAKE(RE(x), -IM(x))
#define RE(x) (__real__(x))
#define IM(x) (__imag__(x))
#define ABS(x) ((REAL)length_of((double)RE(x), (double)IM(x)))
#define ABS1(x) ((REAL)(fabs((double)RE(x)) + fabs((double)IM(x))))
#define MAKE(re, im) __builtin_complex((REAL)(re), (REAL)(im))
#define TAKE(x) MAKE(creal(x), cimag(x))
#define GIVE(x) CMPLX((double)RE(x), (double)IM(x))

INLINE NUM times(NUM a, NUM b) {
    return MAKE(RE(a) * RE(b) - IM(a) * IM(b), RE(a) * IM(b) + IM(a) * RE(b));
}
#endif

/* ---- vectors of numbers ---- */

INLINE lanes get(const NUM *from) {
    return *(const lanes *)from;
}

INLINE void put(NUM *to, lanes x) {
    *(lanes *)to = x;
}

#if PARTS == 2
/* Re and im of each number change places. */
INLINE lanes swapped(lanes x) {
#if SINGLE
    return __builtin_shuffle(x, (places){1, 0, 3, 2, 5, 4, 7, 6});
#else
    return __builtin_shuffle(x, (places){1, 0, 3, 2});
#endif
}
#endif

/* A number to multiply vectors with. */
struct factor {
    lanes re;
#if PARTS == 2
    lanes im; /* negative for the real parts of results */
#endif
};

INLINE struct factor factor_of(NUM x) {
    struct factor f = {.re = RE(x) - (lanes){0}};
#if PARTS == 2 && SINGLE
    f.im = IM(x) * (lanes){-1, 1, -1, 1, -1, 1, -1, 1};
#elif PARTS == 2
    f.im = IM(x) * (lanes){-1, 1, -1, 1};
#endif
    return f;
}

INLINE lanes scaled(lanes x, struct factor f) {
#if PARTS == 1
    return x * f.re;
#else
    return x * f.re + swapped(x) * f.im;
#endif
}

/* Sums of x conj(y), lane by lane. */
struct sum {
    lanes straight;
#if PARTS == 2
    lanes crossed;
#endif
};

INLINE void sum_add(struct sum *s, lanes x, lanes y) {
    s->straight += x * y;
#if PARTS == 2
    s->crossed += x * swapped(y);
#endif
}

/* Of x y without `conjugate`. */
INLINE NUM sum_up(const struct sum *s, bool conjugate) {
    REAL sign = conjugate ? 1 : -1, re = 0;
    (void)sign;
#if PARTS == 1
    for (int k = 0; k < LANES; k++)
        re += s->straight[k];
    return re;
#else
    REAL im = 0;
    for (int k = 0; k < LANES; k += 2) {
        re += s->straight[k] + sign * s->straight[k + 1];
        im += s->crossed[k + 1] - sign * s->crossed[k];
    }
    return MAKE(re, im);
#endif
}

INLINE struct sum sum_of_two(const struct sum *a, const struct sum *b) {
    struct sum s = *a;
    s.straight += b->straight;
#if PARTS == 2
    s.crossed += b->crossed;
#endif
    return s;
}

/* to[i] -= factor * from[i] */
INLINE void subtract(NUM *to, const NUM *from, NUM factor, int64_t count) {
    struct factor f = factor_of(factor);
    int64_t i = 0;
    for (; i + NUMBERS <= count; i += NUMBERS)
        put(to + i, get(to + i) - scaled(get(from + i), f));
    for (; i < count; i++)
        to[i] -= MUL(factor, from[i]);
}

/* sum of x[i] * conj(y[i]), or of x[i] * y[i]: several sums, which is faster and more accurate than
 * one. */
INLINE NUM any_product(const NUM *x, const NUM *y, int64_t count, bool conjugate) {
    struct sum s[2] = {0};
    NUM all = 0;
    int64_t i = 0;
    for (; i + 2 * NUMBERS <= count; i += 2 * NUMBERS)
        for (int k = 0; k < 2; k++)
            sum_add(&s[k], get(x + i + k * NUMBERS), get(y + i + k * NUMBERS));
    for (; i < count; i++)
        all += MUL(x[i], conjugate ? CONJ(y[i]) : y[i]);
    if (count < 2 * NUMBERS) return all;
    struct sum both = sum_of_two(&s[0], &s[1]);
    return all + sum_up(&both, conjugate);
}

INLINE NUM product(const NUM *x, const NUM *y, int64_t count) {
    return any_product(x, y, count, true);
}

INLINE NUM plain_product(const NUM *x, const NUM *y, int64_t count) {
    return any_product(x, y, count, false);
}

#endif
