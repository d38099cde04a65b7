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

LLVMValueRef math_pow(struct cpu_builder *b, LLVMValueRef x, LLVMValueRef y) {
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
    } else { /* squares of floats neither overflow nor underflow as doubles */
        LLVMValueRef dx = to_double(b, x), dy = to_double(b, y);
        size = to_float(b, f_sqrt(b, f_fma(b, dx, dx, f_mul(b, dy, dy))));
    }
    return select_of(b, infinite, fk(x, INFINITY), size);
}
