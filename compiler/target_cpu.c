#include "compiler/target_cpu.h"

#include <stdlib.h>

#include "backend/cpu/cpu.h"

struct cpu_session {
    struct hlo_module *module;
    struct cpu_jit *jit;
    cpu_entry *entry;
    void *workspace;
};

static struct cpu_options cpu_options_of(const struct target_options *options, const char *symbol) {
    return (struct cpu_options){.opt_level = options->opt_level,
                                .mcpu = options->mcpu,
                                .symbol = symbol,
                                .max_threads = options->threads};
}

struct cpu_session *cpu_session_new(struct hlo_module *module, const struct target_options *options,
                                    struct diag *diag) {
    struct cpu_options cpu = cpu_options_of(options, "hlocc_entry");
    struct cpu_code code;
    if (!cpu_compile(module, &cpu, CPU_OBJ, &code, diag)) return NULL;
    struct cpu_session *session = calloc(1, sizeof *session);
    void *workspace = aligned_alloc(64, code.workspace_size + 64);
    if (session && workspace)
        session->jit = cpu_jit_new(&code, cpu.symbol, diag);
    else
        diag_error(diag, (struct src_loc){0}, "out of memory");
    free(code.data);
    if (!session || !session->jit) {
        free(session);
        free(workspace);
        return NULL;
    }
    session->module = module;
    session->workspace = workspace;
    session->entry = cpu_jit_entry(session->jit);
    return session;
}

static int gather_leaves(const struct literal *literal, void **to) {
    if (!shape_is_tuple(literal->shape)) {
        to[0] = literal->data;
        return 1;
    }
    int n = 0;
    for (int i = 0; i < literal->shape->ntuple; i++)
        n += gather_leaves(literal->elements[i], to + n);
    return n;
}

struct literal *cpu_session_run(struct cpu_session *session, struct literal *const *args,
                                struct diag *diag) {
    const struct hlo_computation *entry = session->module->entry;
    int count = 0, at = 0;
    for (int i = 0; i < entry->nparameters; i++)
        count += entry->parameters[i]->shape->nleaves;
    struct literal *result = literal_new(entry->root->shape);
    void **inputs = calloc((size_t)count + 1, sizeof *inputs);
    void **outputs = calloc((size_t)entry->root->shape->nleaves + 1, sizeof *outputs);
    int status = 1;
    if (result && inputs && outputs) {
        for (int i = 0; i < entry->nparameters; i++)
            at += gather_leaves(args[i], inputs + at);
        gather_leaves(result, outputs);
        status = session->entry((const void *const *)inputs, outputs, session->workspace);
    }
    free(inputs);
    free(outputs);
    if (status == 0) return result;
    diag_error(diag, (struct src_loc){0}, "the program could not run (status %d)", status);
    literal_unref(result);
    return NULL;
}

void cpu_session_free(struct cpu_session *session) {
    if (!session) return;
    cpu_jit_free(session->jit);
    free(session->workspace);
    free(session);
}

bool cpu_emit(struct hlo_module *module, const struct target_options *options, enum emit_kind kind,
              const char *symbol, struct bytes *bytes, struct diag *diag) {
    struct cpu_options cpu = cpu_options_of(options, symbol);
    struct cpu_code code;
    enum cpu_output output = kind == EMIT_LLVM_IR   ? CPU_LLVM_IR
                             : kind == EMIT_LLVM_BC ? CPU_LLVM_BC
                             : kind == EMIT_ASM     ? CPU_ASM
                                                    : CPU_OBJ;
    if (!cpu_compile(module, &cpu, output, &code, diag)) return false;
    *bytes = (struct bytes){.data = code.data, .size = code.size};
    return true;
}
