#include "backend/tpu/fft_pass.h"

#include <math.h>

#include "backend/tpu/element.h"

enum { MOST_UNROLLED = 13 }; /* larger radices are loops */

struct cx {
    treg re, im;
};

int fft_radices(int64_t n, int64_t radices[FFT_MOST_FACTORS]) {
    int count = 0;
    for (; n % 4 == 0; n /= 4)
        radices[count++] = 4;
    for (int64_t p = 2; n > 1 && p <= FFT_LARGEST_PRIME; p++)
        for (; n % p == 0; n /= p)
            radices[count++] = p;
    return n == 1 ? count : 0;
}

/* Where a register's 8 numbers are: sublanes are places p (or q, `by_q`) from `first` on. */
struct place {
    struct sx p, q;
    bool by_q;
    treg mask; /* of the sublanes that there are; 0: all */
};

static struct cx load(struct kernel *k, const struct fft_rows *rows, struct sx row,
                      struct sx stride) {
    struct cx x;
    enum mir_stride kind = !sx_is_const(stride) ? MIR_STRIDE_REG
                           : stride.c == 0      ? MIR_STRIDE_0
                           : stride.c == 1      ? MIR_STRIDE_1
                                                : MIR_STRIDE_IMM;
    x.re = k_load(k, sx_addi(row, (int32_t)rows->row[0]), kind, stride, rows->tag);
    x.im = k_load(k, sx_addi(row, (int32_t)rows->row[1]), kind, stride, rows->tag);
    return x;
}

static void store(struct kernel *k, const struct fft_rows *rows, struct sx row, int32_t stride,
                  treg mask, struct cx value) {
    for (int p = 0; p < 2; p++) {
        struct sx at = sx_addi(row, (int32_t)rows->row[p]);
        struct mop op = {.op = TPU_VST,
                         .d = p ? value.im : value.re,
                         .base = at.r,
                         .offset = at.c,
                         .mask = mask,
                         .stride_kind = stride == 1 ? MIR_STRIDE_1 : MIR_STRIDE_IMM,
                         .stride = stride,
                         .tag = rows->tag};
        k_emit(k, op);
    }
}

static struct cx load_input(struct kernel *k, const struct fft_pass *f, const struct place *at,
                            struct sx j) {
    struct sx row = sx_add(k, at->p, sx_muli(k, j, (int32_t)f->m));
    row = sx_add(k, sx_muli(k, row, (int32_t)f->s), at->q);
    return load(k, &f->from, row, sx_const(at->by_q ? 1 : (int32_t)f->s));
}

static struct cx load_twiddle(struct kernel *k, const struct fft_pass *f, const struct place *at,
                              struct sx number) {
    struct sx step = sx_muli(k, number, (int32_t)f->s);
    return load(k, &f->table, sx_mul(k, at->p, step), at->by_q ? sx_const(0) : step);
}

static void store_output(struct kernel *k, const struct fft_pass *f, const struct place *at,
                         struct sx number, struct cx value) {
    struct sx row = sx_add(k, sx_muli(k, at->p, (int32_t)f->r), number);
    row = sx_add(k, sx_muli(k, row, (int32_t)f->s), at->q);
    store(k, &f->to, row, at->by_q ? 1 : (int32_t)(f->s * f->r), at->mask, value);
}

/* ---- arithmetic ---- */

static struct cx add(struct kernel *k, struct cx a, struct cx b) {
    return (struct cx){k_binary(k, TPU_VADDF, a.re, b.re), k_binary(k, TPU_VADDF, a.im, b.im)};
}

static struct cx sub(struct kernel *k, struct cx a, struct cx b) {
    return (struct cx){k_binary(k, TPU_VSUBF, a.re, b.re), k_binary(k, TPU_VSUBF, a.im, b.im)};
}

static struct cx mul(struct kernel *k, struct cx a, struct cx b) {
    treg re = k_binary(k, TPU_VSUBF, k_binary(k, TPU_VMULF, a.re, b.re),
                       k_binary(k, TPU_VMULF, a.im, b.im));
    treg im = k_binary(k, TPU_VADDF, k_binary(k, TPU_VMULF, a.re, b.im),
                       k_binary(k, TPU_VMULF, a.im, b.re));
    return (struct cx){re, im};
}

/* a - i b, and a + i b where `plus`. */
static struct cx with_turned(struct kernel *k, struct cx a, struct cx b, bool plus) {
    return (struct cx){k_binary(k, plus ? TPU_VSUBF : TPU_VADDF, a.re, b.im),
                       k_binary(k, plus ? TPU_VADDF : TPU_VSUBF, a.im, b.re)};
}

static struct cx plus_scaled(struct kernel *k, struct cx a, struct cx b, float by) {
    return add(
        k, a,
        (struct cx){f_const_bin(k, TPU_VMULF, b.re, by), f_const_bin(k, TPU_VMULF, b.im, by)});
}

static void butterfly_4(struct kernel *k, struct cx *x, bool inverse) {
    struct cx even = add(k, x[0], x[2]), odd = sub(k, x[0], x[2]);
    struct cx sum = add(k, x[1], x[3]), difference = sub(k, x[1], x[3]);
    x[0] = add(k, even, sum);
    x[1] = with_turned(k, odd, difference, inverse);
    x[2] = sub(k, even, sum);
    x[3] = with_turned(k, odd, difference, !inverse);
}

/* An odd length: sums and differences of x[j] and x[r - j] take the cosines and the sines. */
static void butterfly_odd(struct kernel *k, struct cx *x, int r, bool inverse) {
    struct cx sums[MOST_UNROLLED], differences[MOST_UNROLLED], y[MOST_UNROLLED];
    int half = r / 2;
    y[0] = x[0];
    for (int j = 1; j <= half; j++) {
        sums[j] = add(k, x[j], x[r - j]);
        differences[j] = sub(k, x[j], x[r - j]);
        y[0] = add(k, y[0], sums[j]);
    }
    for (int i = 1; i <= half; i++) {
        struct cx even = x[0], odd = {0};
        for (int j = 1; j <= half; j++) {
            double angle = 2 * acos(-1.0) * (j * i % r) / r;
            even = plus_scaled(k, even, sums[j], (float)cos(angle));
            if (j == 1)
                odd = (struct cx){f_const_bin(k, TPU_VMULF, differences[j].re, (float)sin(angle)),
                                  f_const_bin(k, TPU_VMULF, differences[j].im, (float)sin(angle))};
            else
                odd = plus_scaled(k, odd, differences[j], (float)sin(angle));
        }
        y[i] = with_turned(k, even, odd, inverse);
        y[r - i] = with_turned(k, even, odd, !inverse);
    }
    for (int i = 0; i < r; i++)
        x[i] = y[i];
}

/* ---- a register's work ---- */

static void step_unrolled(struct kernel *k, const struct fft_pass *f, const struct place *at,
                          const struct cx *twiddles) {
    struct cx x[MOST_UNROLLED];
    int r = (int)f->r;
    for (int j = 0; j < r; j++)
        x[j] = load_input(k, f, at, sx_const(j));
    if (r == 2) {
        struct cx sum = add(k, x[0], x[1]);
        x[1] = sub(k, x[0], x[1]);
        x[0] = sum;
    } else if (r == 4) {
        butterfly_4(k, x, f->inverse);
    } else {
        butterfly_odd(k, x, r, f->inverse);
    }
    for (int i = 0; i < r; i++) {
        if (i && f->m > 1)
            x[i] = mul(k, x[i], twiddles ? twiddles[i] : load_twiddle(k, f, at, sx_const(i)));
        store_output(k, f, at, sx_const(i), x[i]);
    }
}

/* Any radix: the sum by a loop, with j k mod r counted along. */
static void step_loop(struct kernel *k, const struct fft_pass *f, const struct place *at) {
    struct loop numbers, terms;
    struct sx number = loop_begin(k, &numbers, f->r);
    treg power = mir_reg(k->mir, MIR_S);
    k_move_s(k, power, sx_reg(k, sx_const(0)));
    struct cx sum = {k_copy(k, k_const(k, 0)), k_copy(k, k_const(k, 0))};
    struct sx j = loop_begin(k, &terms, f->r);
    struct sx exponent = sx_of(power, 0, f->r - 1);
    struct sx row = sx_muli(k, exponent, (int32_t)(f->n / f->r));
    struct cx term = mul(k, load_input(k, f, at, j), load(k, &f->table, row, sx_const(0)));
    k_move(k, sum.re, 0, k_binary(k, TPU_VADDF, sum.re, term.re));
    k_move(k, sum.im, 0, k_binary(k, TPU_VADDF, sum.im, term.im));
    /* power = (power + number) mod r, without a branch: the smaller one, unsigned. */
    struct sx next = sx_add(k, exponent, number);
    treg above = k_binary_i(k, TPU_SSUB, sx_reg(k, next), (int32_t)f->r);
    k_move_s(k, power, k_binary(k, TPU_SMINU, sx_reg(k, next), above));
    loop_end(k, &terms, 0);
    struct cx value = f->m > 1 ? mul(k, sum, load_twiddle(k, f, at, number)) : sum;
    store_output(k, f, at, number, value);
    loop_end(k, &numbers, 0);
}

static void step(struct kernel *k, const struct fft_pass *f, const struct place *at,
                 const struct cx *twiddles) {
    if (f->r <= MOST_UNROLLED)
        step_unrolled(k, f, at, twiddles);
    else
        step_loop(k, f, at);
}

/* The first of group `number` of 8 out of `count` places: the last group may overlap the one
 * before, whose work it repeats. */
static struct sx group_start(struct kernel *k, struct sx number, int64_t count) {
    struct sx first = sx_muli(k, number, TPU_SUBLANES);
    if (count % TPU_SUBLANES == 0) return first;
    if (count < TPU_SUBLANES) return sx_const(0);
    return sx_clamp(k, first, 0, (int32_t)(count - TPU_SUBLANES));
}

static treg group_mask(struct kernel *k, int64_t count) {
    return count < TPU_SUBLANES ? k_binary_i(k, TPU_VLTS, k_sublane(k), (int32_t)count) : 0;
}

void fft_emit_pass(struct kernel *k, const struct fft_pass *f) {
    int64_t p_groups = (f->m + TPU_SUBLANES - 1) / TPU_SUBLANES;
    int64_t q_groups = (f->s + TPU_SUBLANES - 1) / TPU_SUBLANES;
    struct place at = {.by_q = f->m * q_groups < f->s * p_groups};
    struct loop outer, inner;
    if (at.by_q) {
        struct cx twiddles[MOST_UNROLLED];
        bool ready = f->m > 1 && f->r <= 5;
        at.mask = group_mask(k, f->s);
        at.p = loop_begin(k, &outer, f->m);
        for (int i = 1; i < f->r && ready; i++)
            twiddles[i] = load_twiddle(k, f, &at, sx_const(i));
        at.q = group_start(k, loop_begin(k, &inner, q_groups), f->s);
        step(k, f, &at, ready ? twiddles : NULL);
    } else {
        at.mask = group_mask(k, f->m);
        at.q = loop_begin(k, &outer, f->s);
        at.p = group_start(k, loop_begin(k, &inner, p_groups), f->m);
        step(k, f, &at, NULL);
    }
    loop_end(k, &inner, 0);
    loop_end(k, &outer, 0);
}
