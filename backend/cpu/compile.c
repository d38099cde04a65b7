#include "backend/cpu/cpu.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llvm-c/Target.h>

#include "backend/cpu/codegen.h"
#include "backend/cpu/debug_info.h"
#include "backend/cpu/entry.h"
#include "backend/cpu/lowering.h"
#include "backend/cpu/prepack.h"
#include "ir/literal.h"
#include "passes/dataflow.h"
#include "passes/pass.h"

/* ---- what the backend takes ---- */

#define RUN_PASSES(module, diag, ...)                                                              \
    run_passes(module, diag, (const enum pass_id[]){__VA_ARGS__},                                  \
               (int)(sizeof((const enum pass_id[]){__VA_ARGS__}) / sizeof(enum pass_id)))
static bool run_passes(struct hlo_module *module, struct diag *diag, const enum pass_id *passes,
                       int count) {
    struct pass_context context;
    pass_context_init(&context, diag);
    return pass_pipeline_run(&context, module, passes, count);
}

/* What must hold for the rest of the backend, whatever passes ran before; and operands of products
 * packed where that is done once. */
static bool legalise(struct hlo_module *module, int opt_level, const struct cpu_target *target,
                     struct diag *diag) {
    if (!RUN_PASSES(module, diag, PASS_single_device, PASS_scan_expander, PASS_dot_expander,
                    PASS_batch_norm_expander, PASS_layout_normalizer, PASS_fusion_unpacker,
                    PASS_flatten_call_graph))
        return false;
    product_separate_operands(module);
    if (opt_level > 0) prepack_run(module, target);
    return RUN_PASSES(module, diag, PASS_flatten_call_graph, PASS_copy_insertion, PASS_dce);
}

static bool runs_by_itself(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_PARAMETER:
    case OP_CONSTANT:
    case OP_AFTER_ALL: return true;
    default: return instr_runs_callees(instr) || instr_is_alias(instr);
    }
}

static void check_computation(const struct hlo_computation *computation, struct diag *diag) {
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        const char *why = "the CPU target needs static sizes: pad to the bound";
        bool fine =
            !shape_is_dynamic(i->shape) && (runs_by_itself(i) || cpu_lowering_of(i, &why) != NULL);
        if (i->opcode == OP_CONSTANT && literal_has_elided(i->literal)) {
            why = "the text leaves the values of this constant out";
            fine = false;
        }
        const char *target = instr_text(i, ATTR_CUSTOM_CALL_TARGET);
        if (!fine && target)
            diag_instr_error(diag, i, "%s: %s", target, why);
        else if (!fine)
            diag_instr_error(diag, i, "%s", why);
    }
}

static void check_constants(struct hlo_module *module, struct diag *diag) {
    FOR_EACH_COMPUTATION(c, module)
    FOR_EACH_INSTR(i, c)
    if (i->literal && literal_has_elided(i->literal))
        diag_instr_error(diag, i, "the text leaves this constant's values out");
}

/* Everything that has no code is named, in the order of the computations. */
static bool all_supported(struct hlo_module *module, struct diag *diag) {
    int before = diag->errors;
    check_constants(module, diag);
    mark_running_computations(module);
    FOR_EACH_COMPUTATION(c, module) if (c->mark) check_computation(c, diag);
    return diag->errors == before;
}

/* Every instruction's place in its computation, in mark. */
static void number_instructions(struct hlo_module *module) {
    FOR_EACH_COMPUTATION(c, module) {
        int n = 0;
        FOR_EACH_INSTR(instr, c) instr->mark = n++;
    }
}

static void emit_global(struct cpu_gen *g, const char *symbol, const char *suffix, LLVMTypeRef type,
                        uint64_t value) {
    const char *name = arena_printf(g->arena, "%s_%s", symbol, suffix);
    LLVMValueRef global = LLVMGetNamedGlobal(g->b.module, name);
    if (!global) global = LLVMAddGlobal(g->b.module, type, name);
    LLVMSetInitializer(global, LLVMConstInt(type, value, false));
    LLVMSetGlobalConstant(global, true);
}

static bool emit_program(struct cpu_gen *g, const struct cpu_options *options, enum cpu_arch arch,
                         struct cpu_code *code) {
    const struct buffer_assignment *assignment =
        buffer_assign(g->arena, g->hlo, &(struct buffer_options){0}, g->diag);
    if (!assignment) return false;
    number_instructions(g->hlo);
    if (!entry_emit(g, assignment, options->symbol, arch, &code->stats)) return false;
    code->workspace_size = (size_t)(code->stats.arena + code->stats.scratch);
    emit_global(g, options->symbol, "workspace_size", LLVMInt64TypeInContext(g->b.context),
                code->workspace_size);
    emit_global(g, options->symbol, "max_threads", LLVMInt32TypeInContext(g->b.context),
                (uint64_t)g->threads);
    return true;
}

static bool prepare(struct cpu_gen *g, const struct cpu_options *options) {
    if (!legalise(g->hlo, options->opt_level, &g->target, g->diag)) return false;
    cpu_bind_custom_calls(g->hlo, options);
    return all_supported(g->hlo, g->diag);
}

static int cores_here(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > 256 ? 256 : (int)cores;
}

int cpu_threads(const struct cpu_options *options) {
    return options->max_threads > 0 ? options->max_threads : cores_here();
}

/* ---- LLVM ---- */

/* Of those here, the processors that this process may run on. */
static int cores_for_us(void) {
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return cores_here();
}

/* From the module, which is ready for it, to code. `crew` is NULL where it is to be one object. */
static bool generate(struct cpu_gen *g, const struct cpu_machine *machine,
                     const struct cpu_options *options, enum cpu_output output,
                     struct codegen_crew *crew, struct cpu_code *code) {
    scope_table_init(&g->seen, g->arena);
    g->b.context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(g->b.context, codegen_ignore_remark, NULL);
    g->b.module = LLVMModuleCreateWithNameInContext(g->hlo->name, g->b.context);
    g->b.builder = LLVMCreateBuilderInContext(g->b.context);
    g->b.root_estimates = machine->arch == CPU_X86_64 && g->target.fma;
    g->b.fma = g->target.fma;
    char *triple = LLVMGetTargetMachineTriple(machine->llvm);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine->llvm);
    LLVMSetTarget(g->b.module, triple);
    LLVMSetModuleDataLayout(g->b.module, layout);
    if (options->debug_directory) debug_start(g, g->diag->file, options->debug_directory);
    bool ok = emit_program(g, options, machine->arch, code);
    debug_finish(g);
    if (ok && crew)
        ok = codegen_parts(crew, g->b.module, machine->llvm, code, g->diag);
    else if (ok)
        ok = codegen_module(g->b.module, machine->llvm, options, output, code, g->diag);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
    LLVMDisposeBuilder(g->b.builder);
    LLVMDisposeModule(g->b.module);
    LLVMContextDispose(g->b.context);
    return ok;
}

bool cpu_compile(struct hlo_module *hlo, const struct cpu_options *options, enum cpu_output output,
                 struct cpu_code *code, struct diag *diag) {
    memset(code, 0, sizeof *code);
    struct cpu_machine machine;
    bool parts = options->in_parts && output == CPU_OBJ;
    struct codegen_crew *crew = parts ? codegen_crew_new(options, cores_for_us()) : NULL;
    bool ok = cpu_machine_new(options, &machine, diag);
    if (ok) {
        struct cpu_gen g = {.hlo = hlo, .arena = arena_new(), .diag = diag, .seed = options->seed};
        g.threads = cpu_threads(options);
        cpu_target_read(machine.llvm, machine.native, &g.target);
        ok = prepare(&g, options) && generate(&g, &machine, options, output, crew, code);
        LLVMDisposeTargetMachine(machine.llvm);
        arena_free(g.arena);
    }
    codegen_crew_free(crew);
    return ok;
}
