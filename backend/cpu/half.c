#include "backend/cpu/half.h"

#include <stdbool.h>
#include <string.h>

#include <llvm-c/Core.h>

#define MARK "hlocc-half"

void half_mark(LLVMBuilderRef b) {
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(b));
    LLVMAddTargetDependentFunctionAttr(function, MARK, "");
}

static LLVMTypeRef element_of(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

static bool is_half(LLVMTypeRef type) {
    return LLVMGetTypeKind(element_of(type)) == LLVMHalfTypeKind;
}

/* float, or as many of it. */
static LLVMTypeRef wide(LLVMTypeRef type) {
    LLVMTypeRef of = LLVMFloatTypeInContext(LLVMGetTypeContext(type));
    return element_of(type) == type ? of : LLVMVectorType(of, LLVMGetVectorSize(type));
}

static LLVMValueRef widened(LLVMBuilderRef b, LLVMValueRef x) {
    return LLVMBuildFPExt(b, x, wide(LLVMTypeOf(x)), "");
}

/* Intrinsics whose result is the same when it is computed in float and rounded. */
static bool is_exact(const char *name, size_t length) {
    static const char *const names[] = {"llvm.maximum.", "llvm.minimum.",   "llvm.floor.",
                                        "llvm.ceil.",    "llvm.roundeven.", "llvm.rint.",
                                        "llvm.trunc.",   "llvm.round.",     "llvm.sqrt."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (length > strlen(names[i]) && strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* What computes the same in float; NULL where the instruction may stay. */
static LLVMValueRef in_float(LLVMBuilderRef b, LLVMValueRef i) {
    enum { MOST_ARGS = 2 };
    if (LLVMIsAFCmpInst(i) && is_half(LLVMTypeOf(LLVMGetOperand(i, 0))))
        return LLVMBuildFCmp(b, LLVMGetFCmpPredicate(i), widened(b, LLVMGetOperand(i, 0)),
                             widened(b, LLVMGetOperand(i, 1)), "");
    if (!LLVMIsAIntrinsicInst(i) || !is_half(LLVMTypeOf(i))) return NULL;
    size_t length;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(i), &length);
    unsigned n = LLVMGetNumArgOperands(i);
    if (n > MOST_ARGS || !is_exact(name, length)) return NULL;
    LLVMValueRef args[MOST_ARGS];
    for (unsigned k = 0; k < n; k++)
        args[k] = widened(b, LLVMGetOperand(i, k));
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(
        LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(i))),
        LLVMGetIntrinsicID(LLVMGetCalledValue(i)), &type, 1);
    LLVMValueRef y = LLVMBuildCall2(b, LLVMGlobalGetValueType(function), function, args, n, "");
    return LLVMBuildFPTrunc(b, y, LLVMTypeOf(i), "");
}

void half_widen(LLVMModuleRef module) {
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
    LLVMValueRef f, next;
    for (f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!LLVMGetStringAttributeAtIndex(f, (unsigned)LLVMAttributeFunctionIndex, MARK,
                                           (unsigned)strlen(MARK)))
            continue;
        for (LLVMBasicBlockRef k = LLVMGetFirstBasicBlock(f); k; k = LLVMGetNextBasicBlock(k)) {
            for (LLVMValueRef i = LLVMGetFirstInstruction(k); i; i = next) {
                next = LLVMGetNextInstruction(i);
                LLVMPositionBuilderBefore(b, i);
                LLVMValueRef y = in_float(b, i);
                if (!y) continue;
                LLVMReplaceAllUsesWith(i, y);
                LLVMInstructionEraseFromParent(i);
            }
        }
    }
    LLVMDisposeBuilder(b);
}
