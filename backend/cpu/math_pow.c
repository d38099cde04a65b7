/* Powers, roots, remainder and hypotenuse. */
#include <math.h>

#include "backend/cpu/emit.h"

/* x^y of floats, in double, where log and exp are far more exact than the result needs. */
static LLVMValueRef power_float(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef dx = to_double(b, x), dy = to_double(b, y), a = f_abs(b, dx);
    LLVMValueRef one = f_cmpk(b, LLVMRealOEQ, a, 1),
                 inf_y = f_cmpk(b, LLVMRealOEQ, f_abs(b, dy), INFINITY);
    LLVMValueRef product = f_mul(b, dy, math_log(b, a));
    /* (+-1)^(+-inf) is 1: the product 0 * inf is not asked. */
    product = select_of(b, i_and(b, one, inf_y), fk(dx, 0), product);
    LLVMValueRef p = math_exp(b, product);
    LLVMValueRef half = f_mulk(b, dy, 0.5);
    LLVMValueRef whole = f_cmp(b, LLVMRealOEQ, dy, emit_intrinsic(b, "llvm.trunc", 1, &dy));
    LLVMValueRef odd = f_cmp(b, LLVMRealONE, half, emit_intrinsic(b, "llvm.trunc", 1, &half));
    odd = i_and(b, odd, whole);
    LLVMValueRef signed_p = select_of(b, odd, f_copysign(b, p, dx), p);
    /* A finite negative base has powers at integers only. */
    LLVMValueRef negative =
        i_and(b, f_cmpk(b, LLVMRealOLT, dx, 0), f_cmpk(b, LLVMRealONE, dx, -INFINITY));
    LLVMValueRef undefined =
        i_and(b, negative, f_cmp(b, LLVMRealUNE, dy, emit_intrinsic(b, "llvm.trunc", 1, &dy)));
    p = select_of(b, undefined, fk(dx, NAN), signed_p);
    LLVMValueRef always_one = i_or(b, f_cmpk(b, LLVMRealOEQ, dx, 1), f_cmpk(b, LLVMRealOEQ, dy, 0));
    return to_float(b, select_of(b, always_one, fk(dx, 1), p));
}

/* x^(halves / 2), halves > 0, by products. Where halves is odd, NaN below 0 but for -inf. */
static LLVMValueRef power_of_halves(struct cpu_builder *b, LLVMValueRef x, int halves) {
    LLVMValueRef y = NULL, factor = x;
    for (int n = halves / 2; n > 0; n /= 2) {
        if (n % 2) y = y ? f_mul(b, y, factor) : factor;
        if (n > 1) factor = f_mul(b, factor, factor);
    }
    if (halves % 2 == 0) return y;
    /* The root of -0 is -0, its power 0. */
    LLVMValueRef root = f_addk(b, f_sqrt(b, x), 0), infinity = fk(x, INFINITY);
    if (y) root = f_mul(b, root, y);
    return select_of(b, f_cmpk(b, LLVMRealOEQ, x, -INFINITY), infinity, root);
}

/* x^y for a constant y that is half of a small integer; NULL: y is not. */
static LLVMValueRef power_of_constant(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    enum { MOST_HALVES = 16, FEW_HALVES = 7 };
    LLVMBool lost;
    if (!LLVMIsAConstantFP(y)) return NULL;
    double halves = 2 * LLVMConstRealGetDouble(y, &lost);
    if (halves != rint(halves) || halves == 0) return NULL;
    /* Few products round seldom, and what goes out of range on the way is so at the end. */
    if (halves > 0 && halves <= FEW_HALVES) return power_of_halves(b, x, (int)halves);
    if (is_double(x) || fabs(halves) > MOST_HALVES) return NULL;
    LLVMValueRef p = power_of_halves(b, to_double(b, x), (int)fabs(halves));
    return to_float(b, halves < 0 ? f_div(b, fk(p, 1), p) : p);
}

LLVMValueRef math_pow(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef p = power_of_constant(b, x, y);
    if (p) return p;
    if (is_double(x)) return emit_libm(b, "pow", 2, (LLVMValueRef[]){x, y});
    return power_float(b, x, y);
}

/* A third of the exponent's bits, then two or three of Halley's steps, each cubing the error. */
LLVMValueRef math_cbrt(struct cpu_builder *b, LLVMValueRef x) {
    int steps = is_double(x) ? 3 : 2;
    LLVMValueRef d = to_double(b, x), a = f_abs(b, d);
    LLVMValueRef top =
        LLVMBuildTrunc(b->builder, i_lshrk(b, bits_of(b, a), 32), int_type(b, 32), "");
    top = i_addk(b, LLVMBuildUDiv(b->builder, top, ik(top, 3), ""), 715094163);
    LLVMValueRef t =
        float_of(b, i_shlk(b, LLVMBuildZExt(b->builder, top, int_type(b, 64), ""), 32));
    for (int i = 0; i < steps; i++) {
        LLVMValueRef r = f_div(b, a, f_mul(b, t, t));
        LLVMValueRef change = f_div(b, f_sub(b, r, t), f_add(b, f_add(b, t, t), r));
        t = f_fma(b, t, change, t);
    }
    LLVMValueRef plain = i_or(b, f_cmpk(b, LLVMRealUEQ, a, 0), f_cmpk(b, LLVMRealUEQ, a, INFINITY));
    LLVMValueRef y = select_of(b, plain, f_flush(b, d), f_copysign(b, t, d));
    return is_double(x) ? y : to_float(b, y);
}

LLVMValueRef math_rem(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    /* libm's keeps subnormals, whatever the machine's mode. */
    return f_flush(b, LLVMBuildFRem(b->builder, f_flush(b, x), f_flush(b, y), ""));
}

LLVMValueRef math_hypot(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef ax = f_abs(b, x), ay = f_abs(b, y);
    LLVMValueRef infinite =
        i_or(b, f_cmpk(b, LLVMRealOEQ, ax, INFINITY), f_cmpk(b, LLVMRealOEQ, ay, INFINITY));
    LLVMValueRef size;
    if (is_double(x)) {
        LLVMValueRef swap = f_cmp(b, LLVMRealOGT, ay, ax);
        LLVMValueRef big = select_of(b, swap, ay, ax), small = select_of(b, swap, ax, ay);
        LLVMValueRef q = f_div(b, small, big);
        size = f_mul(b, big, f_sqrt(b, f_fma(b, q, q, fk(q, 1))));
        size = select_of(b, f_cmpk(b, LLVMRealOEQ, big, 0), f_add(b, big, small), size);
    } else { /* scaled where squares could leave the range */
        LLVMValueRef big = emit_intrinsic(b, "llvm.maxnum", 2, (LLVMValueRef[]){ax, ay});
        LLVMValueRef high = f_cmpk(b, LLVMRealOGT, big, 0x1p60);
        LLVMValueRef low = f_cmpk(b, LLVMRealOLT, big, 0x1p-40);
        LLVMValueRef down = select_of(b, high, fk(x, 0x1p-80), fk(x, 1));
        LLVMValueRef scale = select_of(b, low, fk(x, 0x1p80), down);
        LLVMValueRef up = select_of(b, high, fk(x, 0x1p80), fk(x, 1));
        up = select_of(b, low, fk(x, 0x1p-80), up);
        ax = f_mul(b, ax, scale);
        ay = f_mul(b, ay, scale);
        size = f_mul(b, f_sqrt(b, f_fma(b, ax, ax, f_mul(b, ay, ay))), up);
    }
    return select_of(b, infinite, fk(x, INFINITY), size);
}
