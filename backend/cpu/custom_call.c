/* Custom calls of the user's own functions (runtime/cpu/custom_call.h). They run in the entry
 * function, which they may end. */
#include "runtime/cpu/custom_call.h"

#include <ctype.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/emit.h"
#include "backend/cpu/lowering.h"
#include "ir/literal.h"

/* ---- which calls are known ---- */

bool cpu_is_symbol(const char *name) {
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return !*name;
}

void cpu_bind_custom_calls(struct hlo_module *module, const struct cpu_options *options) {
    FOR_EACH_COMPUTATION(c, module) {
        FOR_EACH_INSTR(i, c) {
            const char *target =
                i->opcode == OP_CUSTOM_CALL ? instr_text(i, ATTR_CUSTOM_CALL_TARGET) : NULL;
            i->data = NULL;
            if (!target || !cpu_is_symbol(target)) continue;
            for (int k = 0; k < options->nfunctions; k++)
                if (strcmp(options->functions[k].name, target) == 0)
                    i->data = (void *)&options->functions[k];
        }
    }
}

bool custom_call_match(const struct hlo_instr *instr) {
    return instr->opcode == OP_CUSTOM_CALL && instr->data;
}

int64_t custom_call_scratch(const struct hlo_instr *instr) {
    (void)instr;
    return HLOCC_MESSAGE_SIZE;
}

/* ---- the call ---- */

static LLVMValueRef string(struct cpu_gen *g, const char *text) {
    LLVMValueRef data = LLVMConstStringInContext2(g->b.context, text, strlen(text), false);
    LLVMValueRef global = cpu_read_only(&g->b, data, "text");
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

static void set_field(struct cpu_gen *g, LLVMTypeRef type, LLVMValueRef base, unsigned field,
                      LLVMValueRef value) {
    LLVMBuildStore(g->b.builder, value, LLVMBuildStructGEP2(g->b.builder, type, base, field, ""));
}

/* A struct hlocc_call_array in element `at` of an array of them. */
static void describe(struct cpu_gen *g, LLVMTypeRef type, LLVMValueRef array, int at,
                     const struct shape *shape, LLVMValueRef data) {
    LLVMValueRef number = gen_i64(g, at);
    LLVMValueRef to = LLVMBuildInBoundsGEP2(g->b.builder, type, array, &number, 1, "");
    set_field(g, type, to, 0, string(g, element_type_name(shape->type)));
    set_field(g, type, to, 1, gen_i64(g, shape->rank));
    set_field(g, type, to, 2, gen_numbers(g, shape->rank, shape->dims));
    set_field(g, type, to, 3, data);
}

/* Descriptions of the leaves that are arrays; returns how many. */
static int describe_leaves(struct cpu_gen *g, LLVMTypeRef type, LLVMValueRef array, int at,
                           const struct shape *shape, LLVMValueRef const *leaves) {
    for (int i = 0; i < shape->nleaves; i++)
        if (shape_is_array(shape_leaf(shape, i)))
            describe(g, type, array, at++, shape_leaf(shape, i), leaves[i]);
    return at;
}

/* Ends the program where `code` is not zero: the message goes to the start of the workspace. */
static void fail_unless_zero(struct cpu_gen *g, LLVMValueRef code, LLVMValueRef message) {
    LLVMBuilderRef b = g->b.builder;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    LLVMBasicBlockRef bad = LLVMAppendBasicBlockInContext(g->b.context, g->function, "failed");
    LLVMBasicBlockRef good = LLVMAppendBasicBlockInContext(g->b.context, g->function, "good");
    LLVMBuildCondBr(b, i_cmpk(&g->b, LLVMIntNE, code, 0), bad, good);
    LLVMPositionBuilderAtEnd(b, bad);
    LLVMBuildMemCpy(b, LLVMGetParam(g->function, 2), 1, message, 1, gen_i64(g, HLOCC_MESSAGE_SIZE));
    LLVMValueRef status = LLVMConstInt(i32, HLOCC_STATUS_CUSTOM_CALL, false);
    LLVMAddIncoming(g->status, &status, &bad, 1);
    LLVMBuildBr(b, g->fail);
    LLVMPositionBuilderAtEnd(b, good);
}

void custom_call_emit(struct cpu_gen *g, struct cpu_kernel *k) {
    LLVMBuilderRef b = g->b.builder;
    const struct hlo_instr *instr = k->instr;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(g->b.context);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    LLVMTypeRef i8 = LLVMInt8TypeInContext(g->b.context);
    LLVMTypeRef array_fields[4] = {pointer, i64, pointer, pointer};
    LLVMTypeRef call_fields[7] = {i32, i32, pointer, pointer, pointer, pointer, i64};
    LLVMTypeRef array = LLVMStructTypeInContext(g->b.context, array_fields, 4, false);
    LLVMTypeRef record = LLVMStructTypeInContext(g->b.context, call_fields, 7, false);
    LLVMValueRef in = gen_alloca(g, array, k->nin + 1), out = gen_alloca(g, array, k->nout + 1);
    LLVMValueRef call = gen_alloca(g, record, 1), message = gen_alloca(g, i8, HLOCC_MESSAGE_SIZE);
    int nin = 0, first = 0;
    for (int i = 0; i < instr->noperands; i++) {
        nin = describe_leaves(g, array, in, nin, instr->operands[i]->shape, k->in + first);
        first += instr->operands[i]->shape->nleaves;
    }
    int nout = describe_leaves(g, array, out, 0, instr->shape, k->out);
    const char *config = instr_text(instr, ATTR_BACKEND_CONFIG);
    LLVMBuildStore(b, LLVMConstInt(i8, 0, false), message);
    set_field(g, record, call, 0, LLVMConstInt(i32, (uint64_t)nin, false));
    set_field(g, record, call, 1, LLVMConstInt(i32, (uint64_t)nout, false));
    set_field(g, record, call, 2, in);
    set_field(g, record, call, 3, out);
    set_field(g, record, call, 4, string(g, config ? config : ""));
    set_field(g, record, call, 5, message);
    set_field(g, record, call, 6, gen_i64(g, HLOCC_MESSAGE_SIZE));
    const char *target = instr_text(instr, ATTR_CUSTOM_CALL_TARGET);
    LLVMTypeRef type = LLVMFunctionType(i32, &pointer, 1, false);
    LLVMValueRef function = LLVMGetNamedFunction(g->b.module, target);
    if (!function) function = LLVMAddFunction(g->b.module, target, type);
    LLVMValueRef code = LLVMBuildCall2(b, type, function, &call, 1, "");
    fail_unless_zero(g, code, message);
}
