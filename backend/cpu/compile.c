#include "backend/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "backend/cpu/gen.h"

static const struct src_loc nowhere = {0};

static void check(const struct hlo_computation *computation, bool scalar, struct diag *diag) {
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        const char *why;
        if (!gen_supported(i, scalar, &why)) diag_instr_error(diag, i, "%s", why);
    }
}

/* Computations that are applied to single elements have code for less. */
static bool all_supported(const struct hlo_module *module, struct diag *diag) {
    int before = diag->errors;
    for (struct hlo_computation *c = module->first; c; c = c->next)
        c->mark = 0;
    for (struct hlo_computation *c = module->last; c; c = c->prev)
        for (const struct hlo_instr *i = c->first; i; i = i->next) {
            bool each = i->opcode == OP_REDUCE || i->opcode == OP_REDUCE_WINDOW ||
                        i->opcode == OP_MAP || i->opcode == OP_SCATTER || c->mark;
            for (int k = 0; each && k < i->ncalled; k++)
                i->called[k]->mark = 1;
        }
    for (const struct hlo_computation *c = module->first; c; c = c->next)
        check(c, c->mark != 0, diag);
    return diag->errors == before;
}

static void set_float_mode(struct cpu_gen *g, const char *name, LLVMValueRef slot) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(g->b.module, id, NULL, 0);
    LLVMBuildCall2(g->b.builder, LLVMGlobalGetValueType(callee), callee, &slot, 1, "");
}

static LLVMValueRef *array_of_pointers(struct cpu_gen *g, LLVMValueRef array, int count) {
    LLVMValueRef *out = arena_array(g->arena, (size_t)count + 1, sizeof *out);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    for (int i = 0; i < count; i++) {
        LLVMValueRef at = gen_i64(g, i);
        at = LLVMBuildInBoundsGEP2(g->b.builder, pointer, array, &at, 1, "");
        out[i] = LLVMBuildLoad2(g->b.builder, pointer, at, "");
    }
    return out;
}

static void emit_body(struct cpu_gen *g) {
    const struct hlo_computation *entry = g->hlo->entry;
    int inputs = 0;
    for (int i = 0; i < entry->nparameters; i++)
        inputs += entry->parameters[i]->shape->nleaves;
    LLVMValueRef *in = array_of_pointers(g, LLVMGetParam(g->function, 0), inputs);
    LLVMValueRef **args = arena_array(g->arena, (size_t)entry->nparameters + 1, sizeof *args);
    for (int i = 0; i < entry->nparameters; i++) {
        args[i] = in;
        in += entry->parameters[i]->shape->nleaves;
    }
    const struct shape *result = entry->root->shape;
    LLVMValueRef *out = array_of_pointers(g, LLVMGetParam(g->function, 1), result->nleaves);
    LLVMValueRef *values = gen_computation(g, entry, args);
    for (int i = 0; i < result->nleaves; i++)
        if (shape_leaf(result, i)->bytes > 0)
            LLVMBuildMemMove(g->b.builder, out[i], 1, values[i], 1,
                             gen_i64(g, shape_leaf(result, i)->bytes));
}

static void emit_global(struct cpu_gen *g, const char *symbol, const char *suffix, LLVMTypeRef type,
                        uint64_t value) {
    LLVMValueRef global =
        LLVMAddGlobal(g->b.module, type, arena_printf(g->arena, "%s_%s", symbol, suffix));
    LLVMSetInitializer(global, LLVMConstInt(type, value, false));
    LLVMSetGlobalConstant(global, true);
}

static void emit_entry(struct cpu_gen *g, const struct cpu_options *options, bool x86) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(g->b.context);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(g->b.context, 0);
    LLVMTypeRef type = LLVMFunctionType(i32, (LLVMTypeRef[]){pointer, pointer, pointer}, 3, false);
    LLVMBuilderRef b = g->b.builder;
    g->function = LLVMAddFunction(g->b.module, options->symbol, type);
    cpu_mark_function(&g->b, g->function);
    g->workspace = LLVMGetParam(g->function, 2);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(g->b.context, g->function, "entry"));
    LLVMValueRef saved = LLVMBuildAlloca(b, i32, ""), mode = LLVMBuildAlloca(b, i32, "");
    if (x86) {
        /* Flush subnormal results (bit 15) and operands (bit 6) until the return. */
        set_float_mode(g, "llvm.x86.sse.stmxcsr", saved);
        LLVMValueRef now = LLVMBuildLoad2(b, i32, saved, "");
        LLVMBuildStore(b, LLVMBuildOr(b, now, LLVMConstInt(i32, 0x8040, false), ""), mode);
        set_float_mode(g, "llvm.x86.sse.ldmxcsr", mode);
    }
    emit_body(g);
    if (x86) set_float_mode(g, "llvm.x86.sse.ldmxcsr", saved);
    LLVMBuildRet(b, LLVMConstInt(i32, 0, false));
    emit_global(g, options->symbol, "workspace_size", LLVMInt64TypeInContext(g->b.context),
                (uint64_t)g->workspace_size);
    emit_global(g, options->symbol, "max_threads", i32, 1);
}

static LLVMTargetMachineRef machine_new(const struct cpu_options *options, struct diag *diag) {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *why = NULL;
    char *features = LLVMGetHostCPUFeatures();
    const char *want = options->triple ? options->triple : triple;
    bool native = !options->mcpu || strcmp(options->mcpu, "native") == 0;
    LLVMTargetRef target;
    LLVMTargetMachineRef machine = NULL;
    if (LLVMGetTargetFromTriple(want, &target, &why) == 0) {
        machine = LLVMCreateTargetMachine(
            target, want, native ? cpu : options->mcpu, native ? features : "",
            (LLVMCodeGenOptLevel)options->opt_level, LLVMRelocPIC, LLVMCodeModelDefault);
    }
    if (!machine) diag_error(diag, nowhere, "no code for %s: %s", want, why ? why : "no machine");
    LLVMDisposeMessage(why);
    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    return machine;
}

static bool optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, int level,
                     struct diag *diag) {
    char *why = NULL;
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &why)) {
        diag_error(diag, nowhere, "internal error: invalid LLVM IR: %s", why);
        LLVMDisposeMessage(why);
        return false;
    }
    LLVMDisposeMessage(why);
    char passes[] = "default<O2>";
    passes[9] = (char)('0' + (level < 0 ? 0 : level > 3 ? 3 : level));
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return true;
    char *text = LLVMGetErrorMessage(error);
    diag_error(diag, nowhere, "internal error: LLVM passes: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static bool write_code(LLVMModuleRef module, LLVMTargetMachineRef machine, enum cpu_output output,
                       struct cpu_code *code, struct diag *diag) {
    LLVMMemoryBufferRef buffer = NULL;
    char *why = NULL;
    if (output == CPU_LLVM_IR) {
        char *text = LLVMPrintModuleToString(module);
        code->data = strdup(text);
        code->size = strlen(text);
        LLVMDisposeMessage(text);
    } else {
        if (output == CPU_LLVM_BC) {
            buffer = LLVMWriteBitcodeToMemoryBuffer(module);
        } else if (LLVMTargetMachineEmitToMemoryBuffer(
                       machine, module, output == CPU_ASM ? LLVMAssemblyFile : LLVMObjectFile, &why,
                       &buffer)) {
            diag_error(diag, nowhere, "internal error: code generation: %s", why);
            LLVMDisposeMessage(why);
            return false;
        }
        code->size = LLVMGetBufferSize(buffer);
        code->data = malloc(code->size + 1);
        if (code->data) {
            memcpy(code->data, LLVMGetBufferStart(buffer), code->size);
            ((char *)code->data)[code->size] = 0;
        }
        LLVMDisposeMemoryBuffer(buffer);
    }
    if (!code->data) diag_error(diag, nowhere, "out of memory");
    return code->data != NULL;
}

bool cpu_compile(struct hlo_module *hlo, const struct cpu_options *options, enum cpu_output output,
                 struct cpu_code *code, struct diag *diag) {
    memset(code, 0, sizeof *code);
    if (!all_supported(hlo, diag)) return false;
    LLVMTargetMachineRef machine = machine_new(options, diag);
    if (!machine) return false;
    struct cpu_gen g = {.hlo = hlo, .arena = arena_new()};
    g.b.context = LLVMContextCreate();
    g.b.module = LLVMModuleCreateWithNameInContext(hlo->name, g.b.context);
    g.b.builder = LLVMCreateBuilderInContext(g.b.context);
    char *triple = LLVMGetTargetMachineTriple(machine);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(g.b.module, triple);
    LLVMSetModuleDataLayout(g.b.module, layout);
    emit_entry(&g, options, strncmp(triple, "x86_64", 6) == 0);
    code->workspace_size = (size_t)g.workspace_size;
    bool ok = optimise(g.b.module, machine, options->opt_level, diag) &&
              write_code(g.b.module, machine, output, code, diag);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
    LLVMDisposeBuilder(g.b.builder);
    LLVMDisposeModule(g.b.module);
    LLVMContextDispose(g.b.context);
    LLVMDisposeTargetMachine(machine);
    arena_free(g.arena);
    return ok;
}
