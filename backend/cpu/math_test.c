/* Compiles elementwise operations in a loop, as the backend does, and compares them with libm over
 * dense samples of every exponent, and at the corners of docs/numerics.md. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cmocka.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "backend/cpu/half.h"
#include "backend/cpu/math.h"
#include "ir/eval_internal.h"
#include "ir/number.h"

typedef void kernel_function(const void *a, const void *b, const void *c, void *out, int64_t n);

struct kernel {
    LLVMOrcLLJITRef jit;
    kernel_function *run;
};

/* An instruction on its own: what the emitter reads of one. */
struct lone_instr {
    struct shape shapes[4];
    struct hlo_instr operands[3], instr;
    struct hlo_instr *list[3];
    struct hlo_attr attrs[2];
};

static void lone_init(struct lone_instr *l, enum hlo_opcode opcode, enum element_type out, int n,
                      const enum element_type *in) {
    memset(l, 0, sizeof *l);
    for (int i = 0; i < n; i++) {
        l->shapes[i].type = in[i];
        l->operands[i].shape = &l->shapes[i];
        l->list[i] = &l->operands[i];
    }
    l->shapes[3].type = out;
    l->instr = (struct hlo_instr){.opcode = opcode,
                                  .shape = &l->shapes[3],
                                  .noperands = n,
                                  .operands = l->list,
                                  .attrs = l->attrs};
}

static void lone_attr(struct lone_instr *l, enum attr_key key, int64_t value) {
    l->attrs[l->instr.nattrs++] = (struct hlo_attr){.key = key, .i = value};
}

static LLVMValueRef element_at(struct cpu_builder *b, enum element_type type, LLVMValueRef base,
                               LLVMValueRef index) {
    return LLVMBuildGEP2(b->builder, cpu_memory_type(b, type), base, &index, 1, "");
}

/* for (i = 0; i < n; i++) out[i] = op(a[i], b[i], c[i]) */
static void emit_loop(struct cpu_builder *b, LLVMValueRef function, const struct hlo_instr *instr) {
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(b->context, function, "");
    LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(b->context, function, "loop");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(b->context, function, "done");
    LLVMTypeRef i64 = LLVMInt64TypeInContext(b->context);
    LLVMPositionBuilderAtEnd(b->builder, entry);
    LLVMBuildBr(b->builder, loop);
    LLVMPositionBuilderAtEnd(b->builder, loop);
    LLVMValueRef i = LLVMBuildPhi(b->builder, i64, ""), values[3];
    for (int k = 0; k < instr->noperands; k++) {
        enum element_type type = instr->operands[k]->shape->type;
        LLVMValueRef base = LLVMGetParam(function, (unsigned)k);
        values[k] = cpu_load(b, type, element_at(b, type, base, i), NULL);
    }
    LLVMValueRef y = cpu_emit_elementwise(b, instr, values);
    cpu_store(b, instr->shape->type, y,
              element_at(b, instr->shape->type, LLVMGetParam(function, 3), i));
    LLVMValueRef next = LLVMBuildAdd(b->builder, i, LLVMConstInt(i64, 1, false), "");
    LLVMValueRef more = LLVMBuildICmp(b->builder, LLVMIntSLT, next, LLVMGetParam(function, 4), "");
    LLVMBuildCondBr(b->builder, more, loop, done);
    LLVMAddIncoming(i, (LLVMValueRef[]){LLVMConstInt(i64, 0, false), next},
                    (LLVMBasicBlockRef[]){entry, LLVMGetInsertBlock(b->builder)}, 2);
    LLVMPositionBuilderAtEnd(b->builder, done);
    LLVMBuildRetVoid(b->builder);
}

static void optimise(LLVMModuleRef module, const char *passes) {
    char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName();
    char *features = LLVMGetHostCPUFeatures(), *why = NULL;
    LLVMTargetRef target;
    assert_int_equal(LLVMGetTargetFromTriple(triple, &target, &why), 0);
    LLVMTargetMachineRef machine =
        LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault,
                                LLVMRelocDefault, LLVMCodeModelDefault);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
    assert_null(error);
    half_widen(module);
    if (getenv("MATH_TEST_DUMP")) LLVMDumpModule(module);
    LLVMDisposePassBuilderOptions(options);
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
}

static void kernel_compile(struct kernel *kernel, const struct hlo_instr *instr,
                           const char *passes) {
    LLVMOrcThreadSafeContextRef shared = LLVMOrcCreateNewThreadSafeContext();
    LLVMContextRef context = LLVMOrcThreadSafeContextGetContext(shared);
    struct cpu_builder b = {.context = context,
                            .module = LLVMModuleCreateWithNameInContext("test", context),
                            .builder = LLVMCreateBuilderInContext(context)};
#if defined(__x86_64__)
    b.root_estimates = __builtin_cpu_supports("fma");
    b.fma = __builtin_cpu_supports("fma");
#endif
    LLVMTypeRef pointer = LLVMPointerTypeInContext(context, 0);
    LLVMTypeRef types[5] = {pointer, pointer, pointer, pointer, LLVMInt64TypeInContext(context)};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(context), types, 5, false);
    LLVMValueRef function = LLVMAddFunction(b.module, "kernel", type);
    unsigned noalias = LLVMGetEnumAttributeKindForName("noalias", 7);
    for (unsigned k = 1; k <= 4; k++)
        LLVMAddAttributeAtIndex(function, k, LLVMCreateEnumAttribute(context, noalias, 0));
    cpu_mark_function(&b, function);
    emit_loop(&b, function, instr);
    char *why = NULL;
    if (LLVMVerifyModule(b.module, LLVMReturnStatusAction, &why))
        fail_msg("%s: %s", opcode_name(instr->opcode), why);
    LLVMDisposeMessage(why);
    LLVMDisposeBuilder(b.builder);

    assert_null(LLVMOrcCreateLLJIT(&kernel->jit, NULL));
    LLVMSetDataLayout(b.module, LLVMOrcLLJITGetDataLayoutStr(kernel->jit));
    LLVMSetTarget(b.module, LLVMOrcLLJITGetTripleString(kernel->jit));
    optimise(b.module, passes);
    LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(kernel->jit);
    LLVMOrcDefinitionGeneratorRef process;
    assert_null(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
        &process, LLVMOrcLLJITGetGlobalPrefix(kernel->jit), NULL, NULL));
    LLVMOrcJITDylibAddGenerator(library, process);
    LLVMOrcThreadSafeModuleRef module = LLVMOrcCreateNewThreadSafeModule(b.module, shared);
    assert_null(LLVMOrcLLJITAddLLVMIRModule(kernel->jit, library, module));
    LLVMOrcDisposeThreadSafeContext(shared);
    LLVMOrcExecutorAddress address;
    LLVMErrorRef error = LLVMOrcLLJITLookup(kernel->jit, &address, "kernel");
    if (error) fail_msg("%s: %s", opcode_name(instr->opcode), LLVMGetErrorMessage(error));
    kernel->run = (kernel_function *)(uintptr_t)address;
}

/* Runs with subnormals flushed, as compiled programs do. */
static void kernel_run(const struct kernel *kernel, const void *a, const void *b, const void *c,
                       void *out, int64_t n) {
#if defined(__x86_64__)
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
#endif
    kernel->run(a, b, c, out, n);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
}

static void compile_and_run(struct lone_instr *l, const char *passes, const void *a, const void *b,
                            const void *c, void *out, int64_t n) {
    struct kernel kernel;
    kernel_compile(&kernel, &l->instr, passes);
    kernel_run(&kernel, a, b, c, out, n);
    LLVMOrcDisposeLLJIT(kernel.jit);
}

/* ---- accuracy ---- */

enum { PER_EXPONENT = 2000, SAMPLES = 256 * 2 * PER_EXPONENT };

/* Every exponent and both signs, the significands pseudo-random, and all corners of it. */
static void sample_floats(float *x) {
    uint32_t state = 12345, n = 0;
    for (uint32_t top = 0; top < 512; top++)
        for (int k = 0; k < PER_EXPONENT; k++) {
            state = state * 1664525 + 1013904223;
            uint32_t low = k == 0 ? 0 : k == 1 ? 0x7fffff : state >> 9;
            uint32_t bits = top << 23 | low;
            memcpy(&x[n++], &bits, 4);
        }
}

static float flushed(float x) {
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* The error in units of the last place; a large number where a special value is wrong. */
static double error_in_ulp(float got, double want) {
    float rounded = (float)want;
    if (isnan(want)) return isnan(got) ? 0 : 1e9;
    if (isinf(rounded))
        return got == rounded                                                       ? 0
               : fabsf(got) > 0x1.fffffcp127f && !signbit(got) == !signbit(rounded) ? 1
                                                                                    : 1e9;
    if (fabs(want) < FLT_MIN)
        return fabsf(got) <= FLT_MIN && !signbit(got) == !signbit(want) ? 0 : 1e9;
    if (got == 0) return fabs(want) < FLT_MIN * 1.0001 ? 0 : 1e9;
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static double rsqrt(double x) {
    return 1 / sqrt(x);
}

struct unary_case {
    enum hlo_opcode opcode;
    double (*reference)(double);
    double allowed; /* ulp of float */
};

static const struct unary_case unary_cases[] = {
    {OP_EXPONENTIAL, exp, 2},
    {OP_EXPONENTIAL_MINUS_ONE, expm1, 2},
    {OP_LOG, log, 2},
    {OP_LOG_PLUS_ONE, log1p, 2},
    {OP_TANH, tanh, 2},
    {OP_LOGISTIC, logistic, 2},
    {OP_SINE, sin, 2},
    {OP_COSINE, cos, 2},
    {OP_TAN, tan, 1},
    {OP_ASIN, asin, 1},
    {OP_ACOS, acos, 1},
    {OP_SINH, sinh, 1},
    {OP_COSH, cosh, 1},
    {OP_ASINH, asinh, 1},
    {OP_ACOSH, acosh, 1},
    {OP_ATANH, atanh, 1},
    {OP_ERF, erf, 2},
    {OP_CBRT, cbrt, 1},
    {OP_SQRT, sqrt, 1},
    {OP_RSQRT, rsqrt, 2},
    {OP_FLOOR, floor, 0},
    {OP_CEIL, ceil, 0},
    {OP_ROUND_NEAREST_AFZ, round, 0},
    {OP_ROUND_NEAREST_EVEN, nearbyint, 0},
};

static void test_unary_f32(void **state) {
    float *x = malloc(SAMPLES * sizeof *x), *y = malloc(SAMPLES * sizeof *y);
    int bad = 0;
    (void)state;
    sample_floats(x);
    for (size_t k = 0; k < sizeof unary_cases / sizeof unary_cases[0]; k++) {
        const struct unary_case *test = &unary_cases[k];
        struct lone_instr l;
        double worst = -1, at = 0, got = 0;
        lone_init(&l, test->opcode, TYPE_F32, 1, (enum element_type[]){TYPE_F32});
        compile_and_run(&l, "default<O2>", x, x, x, y, SAMPLES);
        for (int i = 0; i < SAMPLES; i++) {
            double error = error_in_ulp(y[i], test->reference(flushed(x[i])));
            if (error > worst) worst = error, at = x[i], got = y[i];
        }
        print_message("%-22s %8.3f ulp at %.9g (%.9g)\n", opcode_name(test->opcode), worst, at,
                      got);
        bad += worst > test->allowed;
    }
    free(x);
    free(y);
    assert_int_equal(bad, 0);
}

static double error_in_ulp_f64(double got, long double want) {
    int exponent;
    if (isnan(want)) return isnan(got) ? 0 : 1e9;
    if (isinf((double)want))
        return got == (double)want ? 0 : fabs(got) > 0x1.fffffffffffp1023 ? 1 : 1e9;
    if (fabsl(want) < DBL_MIN * 1.0001L)
        return fabs(got) <= DBL_MIN * 1.0001 && !signbit(got) == !signbit(want) ? 0 : 1e9;
    frexpl(want, &exponent);
    return (double)(fabsl(got - want) / ldexpl(1, exponent - 53));
}

static long double logistic_l(long double x) {
    return 1 / (1 + expl(-x));
}

static const struct {
    enum hlo_opcode opcode;
    long double (*reference)(long double);
    double allowed;
} wide_cases[] = {
    {OP_EXPONENTIAL, expl, 2}, {OP_EXPONENTIAL_MINUS_ONE, expm1l, 2},
    {OP_LOG, logl, 2},         {OP_LOG_PLUS_ONE, log1pl, 2},
    {OP_TANH, tanhl, 3},       {OP_LOGISTIC, logistic_l, 2},
    {OP_SINE, sinl, 1},        {OP_COSINE, cosl, 1},
    {OP_TAN, tanl, 2},         {OP_ASIN, asinl, 4},
    {OP_ACOS, acosl, 4},       {OP_SINH, sinhl, 4},
    {OP_COSH, coshl, 4},       {OP_ASINH, asinhl, 4},
    {OP_ACOSH, acoshl, 4},     {OP_ATANH, atanhl, 4},
    {OP_ERF, erfl, 2},         {OP_CBRT, cbrtl, 2},
};

static void test_unary_f64(void **state) {
    enum { N = 2048 * 2 * 24 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    uint64_t random = 99, bits;
    int bad = 0;
    (void)state;
    for (int i = 0; i < N; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        bits = (uint64_t)(i / 24) << 52 | (i % 24 ? random >> 12 : 0);
        /* Half of them in the exponents where functions are interesting. */
        if (i % 2) bits = (bits & 0x800fffffffffffff) | (uint64_t)(1023 - 30 + random % 42) << 52;
        memcpy(&x[i], &bits, 8);
        x[i] = fabs(x[i]) < DBL_MIN ? copysign(0, x[i]) : x[i];
    }
    for (size_t k = 0; k < sizeof wide_cases / sizeof wide_cases[0]; k++) {
        struct lone_instr l;
        double worst = -1, at = 0, got = 0;
        lone_init(&l, wide_cases[k].opcode, TYPE_F64, 1, (enum element_type[]){TYPE_F64});
        compile_and_run(&l, "default<O2>", x, x, x, y, N);
        for (int i = 0; i < N; i++) {
            double error = error_in_ulp_f64(y[i], wide_cases[k].reference(x[i]));
            if (error > worst) worst = error, at = x[i], got = y[i];
        }
        print_message("%-22s %8.3f ulp at %.17g (%.17g)\n", opcode_name(wide_cases[k].opcode),
                      worst, at, got);
        bad += worst > wide_cases[k].allowed;
    }
    free(x);
    free(y);
    assert_int_equal(bad, 0);
}

/* ---- corners: every operation and type against the evaluator ---- */

enum { CORNERS = 36, PAIRS = CORNERS * CORNERS };

/* Bit patterns: special values of the type at both ends, then pseudo-random ones. */
static void corner_values(enum element_type type, uint8_t *out) {
    static const double floats[] = {0.0,  -0.0,     1,         -1,    0.5,          -0.5,  2,   3,
                                    -3,   1.5,      -2.5,      7,     100,          -100,  448, 464,
                                    1e-3, 65504,    1e30,      -1e30, 1e-30,        1e-40, 255, 256,
                                    -129, INFINITY, -INFINITY, NAN,   2147483648.0, 1e19};
    static const int64_t ints[] = {
        0,  1,  -1,  2,    3,         -3,        7,         8,         -8,        15, 31, 32,
        63, 64, 127, -128, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 5,  6};
    size_t size = (size_t)element_type_size(type);
    enum element_type part = element_type_real_part(type);
    bool complex = element_type_is_complex(type);
    uint64_t random = 7;
    for (int i = 0; i < CORNERS; i++) {
        uint8_t *at = out + (size_t)i * size;
        for (int p = 0; p <= complex; p++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t k = complex ? (size_t)(random >> 40) % 16 : (size_t)i;
            uint64_t bits;
            if (element_type_is_float(part))
                bits = k < sizeof floats / sizeof floats[0]
                           ? number_encode(part, floats[k])
                           : number_encode(part, (double)(int64_t)random * 0x1p-61);
            else
                bits =
                    (uint64_t)number_wrap(type, i < 23 ? ints[i] : (int64_t)(random >> (i % 50)));
            if (type == TYPE_PRED) bits &= 1;
            memcpy(at + (size_t)p * size / 2, &bits, complex ? size / 2 : size);
        }
    }
}

static double part_at(enum element_type type, const uint8_t *at) {
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)element_type_size(type));
    if (element_type_is_float(type)) return number_decode(type, bits);
    return type == TYPE_PRED ? (double)bits : (double)number_wrap(type, (int64_t)bits);
}

static bool parts_agree(enum element_type type, const uint8_t *got, const uint8_t *want,
                        double scale) {
    if (!memcmp(got, want, (size_t)element_type_size(type))) return true;
    if (!element_type_is_float(type)) return false;
    double g = part_at(type, got), w = part_at(type, want);
    double step = ldexp(1, -element_type_info(type)->mantissa_bits);
    if (isnan(w) || isnan(g)) return isnan(w) && isnan(g);
    if (w == 0 && g == 0) return !signbit(w) == !signbit(g);
    if (element_type_info(type)->mantissa_bits < 4) /* one step of the code */
        return abs(*got - *want) <= 1;
    return fabs(g - w) <= 8 * step * fmax(fabs(w), scale) + ldexp(1, -133) ||
           (fabs(g) >= FLT_MAX / 2 && isinf(w) && type != TYPE_F64);
}

static bool elements_agree(enum element_type type, const uint8_t *got, const uint8_t *want) {
    if (!element_type_is_complex(type)) return parts_agree(type, got, want, 0);
    enum element_type part = element_type_real_part(type);
    size_t size = (size_t)element_type_size(part);
    double re = part_at(part, want), im = part_at(part, want + size);
    if (!isfinite(re) || !isfinite(im)) /* which part is NaN is nobody's promise */
        return true;
    double scale = hypot(re, im);
    return parts_agree(part, got, want, scale) && parts_agree(part, got + size, want + size, scale);
}

static int compare_with_evaluator(struct lone_instr *l) {
    static const int strides[3][2] = {{1, 0}, {0, 1}, {1, 1}};
    uint8_t *in[3], corner[CORNERS * 16], *got = calloc(PAIRS, 16), *want = calloc(PAIRS, 16);
    union scalar a[3], y;
    struct scalar_op op;
    int bad = 0, n = l->instr.noperands;
    enum element_type out = l->instr.shape->type;
    size_t size_out = (size_t)element_type_size(out);
    for (int k = 0; k < 3; k++) {
        enum element_type type = l->shapes[k < n ? k : 0].type;
        size_t size = (size_t)element_type_size(type);
        in[k] = calloc(PAIRS, 16);
        corner_values(type, corner);
        for (size_t i = 0; i < PAIRS; i++) {
            size_t at = (i / CORNERS * (size_t)strides[k][1] + i * (size_t)strides[k][0]) % CORNERS;
            memcpy(in[k] + i * size, corner + at * size, size);
        }
    }
    compile_and_run(l, "function(early-cse,instcombine<no-verify-fixpoint>)", in[0], in[1], in[2],
                    got, n > 1 ? PAIRS : CORNERS);
    assert_true(scalar_op_init(&op, &l->instr));
    for (int64_t i = 0; i < (n > 1 ? PAIRS : CORNERS); i++) {
        for (int k = 0; k < n; k++)
            scalar_load(l->shapes[k].type, in[k], i, 1, &a[k]);
        scalar_op_run(&op, 1, &y, &a[0], &a[n > 1 ? 1 : 0], &a[n > 2 ? 2 : 0]);
        scalar_store(out, want, i, 1, &y);
        if (elements_agree(out, got + (size_t)i * size_out, want + (size_t)i * size_out)) continue;
        if (bad++ < 3)
            print_message("%s %s -> %s: of %.9g and %.9g: %.9g, not %.9g\n",
                          opcode_name(l->instr.opcode), element_type_name(l->shapes[0].type),
                          element_type_name(out),
                          part_at(element_type_real_part(l->shapes[0].type),
                                  in[0] + (size_t)i * element_type_size(l->shapes[0].type)),
                          n > 1 ? part_at(element_type_real_part(l->shapes[1].type),
                                          in[1] + (size_t)i * element_type_size(l->shapes[1].type))
                                : 0,
                          part_at(element_type_real_part(out), got + (size_t)i * size_out),
                          part_at(element_type_real_part(out), want + (size_t)i * size_out));
    }
    for (int k = 0; k < 3; k++)
        free(in[k]);
    free(got);
    free(want);
    return bad;
}

static bool takes(enum hlo_opcode opcode, enum element_type type) {
    bool real = element_type_is_float(type), complex = element_type_is_complex(type);
    if (type == TYPE_F8E8M0FNU) /* its zero code is a subnormal float */
        return false;
    switch (opcode) {
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_NOT: return !real && !complex;
    case OP_POPCNT:
    case OP_COUNT_LEADING_ZEROS:
    case OP_MULHI:
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT_ARITHMETIC:
    case OP_SHIFT_RIGHT_LOGICAL: return element_type_is_integral(type);
    case OP_ADD:
    case OP_MULTIPLY: return true;
    case OP_NEGATE:
    case OP_SUBTRACT:
    case OP_DIVIDE:
    case OP_SIGN: return type != TYPE_PRED;
    case OP_POWER: /* of complex numbers: both lose as many digits as the angle has turns */
    case OP_REMAINDER: return type != TYPE_PRED && !complex;
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_CLAMP: return !complex;
    case OP_ABS: return type != TYPE_PRED && !complex;
    case OP_ERF:
    case OP_CEIL:
    case OP_FLOOR:
    case OP_ROUND_NEAREST_AFZ:
    case OP_ROUND_NEAREST_EVEN: return real;
    case OP_ACOS:
    case OP_ASIN:
    case OP_ATANH:
    case OP_ACOSH:
    case OP_ASINH:
    case OP_CBRT:
    case OP_ATAN2: return real;
    default: return real || complex;
    }
}

static void test_operations(void **state) {
    int bad = 0;
    (void)state;
    for (int opcode = OP_ABS; opcode <= OP_CLAMP; opcode++) {
        if (opcode == OP_COMPLEX || opcode == OP_REAL || opcode == OP_IMAG ||
            opcode == OP_COMPARE || opcode == OP_IS_FINITE)
            continue;
        for (int type = TYPE_PRED; type <= TYPE_C128; type++) {
            struct lone_instr l;
            if (!takes(opcode, type)) continue;
            lone_init(&l, opcode, type, opcode_info(opcode)->least_operands,
                      (enum element_type[]){type, type, type});
            bad += compare_with_evaluator(&l);
        }
    }
    assert_int_equal(bad, 0);
}

static void test_conversions(void **state) {
    int bad = 0;
    (void)state;
    for (int from = TYPE_PRED; from <= TYPE_C128; from++)
        for (int to = TYPE_PRED; to <= TYPE_C128; to++) {
            struct lone_instr l;
            if (from == TYPE_F8E8M0FNU || (element_type_is_complex(to) && to != from)) continue;
            lone_init(&l, OP_CONVERT, to, 1, (enum element_type[]){from});
            bad += compare_with_evaluator(&l);
        }
    assert_int_equal(bad, 0);
}

static void test_comparisons(void **state) {
    int bad = 0;
    (void)state;
    for (int type = TYPE_PRED; type <= TYPE_F64; type++)
        for (int direction = ENUM_DIRECTION_EQ; direction <= ENUM_DIRECTION_LT; direction++)
            for (int total = 0; total <= (element_type_is_float(type) ? 1 : 0); total++) {
                struct lone_instr l;
                lone_init(&l, OP_COMPARE, TYPE_PRED, 2, (enum element_type[]){type, type});
                lone_attr(&l, ATTR_DIRECTION, direction);
                if (total) lone_attr(&l, ATTR_COMPARE_TYPE, ENUM_COMPARE_TYPE_TOTALORDER);
                bad += compare_with_evaluator(&l);
            }
    assert_int_equal(bad, 0);
}

static void test_reduce_precision(void **state) {
    static const int widths[][2] = {{5, 10}, {8, 7}, {4, 3}, {5, 2}, {8, 23}, {1, 0}, {11, 52}};
    static const enum element_type types[] = {TYPE_F16, TYPE_BF16, TYPE_F32, TYPE_F64};
    int bad = 0;
    (void)state;
    for (size_t t = 0; t < 4; t++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            struct lone_instr l;
            lone_init(&l, OP_REDUCE_PRECISION, types[t], 1, &types[t]);
            lone_attr(&l, ATTR_EXPONENT_BITS, widths[w][0]);
            lone_attr(&l, ATTR_MANTISSA_BITS, widths[w][1]);
            bad += compare_with_evaluator(&l);
        }
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary_f32),   cmocka_unit_test(test_unary_f64),
        cmocka_unit_test(test_operations),  cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_comparisons), cmocka_unit_test(test_reduce_precision),
    };
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
