#include "compiler/target_cpu.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "compiler/cache.h"
#include "compiler/functions.h"
#include "compiler/io.h"
#include "passes/buffer_assignment.h"

/* At the start of a workspace that no run uses. */
struct spare {
    struct spare *next;
};

struct cpu_session {
    struct hlo_module *module;
    struct cpu_jit *jit;
    cpu_entry *entry;
    struct function_set functions;
    size_t workspace_size;
    pthread_mutex_t lock; /* of what follows: runs may come from several threads */
    struct spare *spares; /* as many as there were runs at once */
    struct literal *last; /* the last result: its memory is used again once nobody else has it */
};

static struct cpu_options cpu_options_of(const struct target_options *options, const char *symbol,
                                         const struct function_set *functions) {
    return (struct cpu_options){.opt_level = options->opt_level,
                                .mcpu = options->mcpu,
                                .triple = options->triple,
                                .debug_directory = options->debug_directory,
                                .symbol = symbol,
                                .max_threads = options->threads,
                                .seed = options->seed,
                                .functions = functions->list,
                                .nfunctions = functions->count};
}

/* ---- what --dump-dir shows of the backend ---- */

static bool dump_bytes(const char *directory, const char *name, const void *data, size_t size,
                       struct diag *diag) {
    struct fault fault;
    char *path = text_format("%s/%s", directory, name);
    bool ok = file_write(path, data, size, &fault);
    if (!ok) diag_error(diag, (struct src_loc){0}, "%s: %s", path, fault.text);
    free(path);
    return ok;
}

static bool dump_buffers(struct hlo_module *module, const char *directory, struct diag *diag) {
    struct buffer_options options = {0};
    struct arena *arena = arena_new();
    const struct buffer_assignment *assignment = buffer_assign(arena, module, &options, diag);
    char *text = NULL;
    size_t size = 0;
    FILE *stream = assignment ? open_memstream(&text, &size) : NULL;
    if (stream) {
        buffer_assignment_print(stream, assignment);
        fclose(stream);
    }
    bool ok = stream && dump_bytes(directory, "buffer-assignment.txt", text, size, diag);
    free(text);
    arena_free(arena);
    return ok;
}

static void print_stats(const struct target_options *options, const struct cpu_code *code) {
    const struct cpu_stats *stats = &code->stats;
    if (!options->pipeline.stats) return;
    fprintf(stderr,
            "%d kernels, %d calls, %lld bytes moved\n"
            "workspace %zu bytes: arena %lld (at least %lld), scratch %lld\n",
            stats->kernels, stats->calls, (long long)stats->moved, code->workspace_size,
            (long long)stats->arena, (long long)stats->least_arena, (long long)stats->scratch);
}

/* After cpu_compile, which leaves the module as it was compiled. */
static bool dump_code(struct hlo_module *module, const struct target_options *options,
                      const struct cpu_options *cpu, struct diag *diag) {
    const char *directory = options->pipeline.dump_dir;
    struct cpu_code code;
    if (!directory) return true;
    if (!cpu_compile(module, cpu, CPU_LLVM_IR, &code, diag)) return false;
    bool ok = dump_bytes(directory, "kernels.ll", code.data, code.size, diag);
    cpu_code_free(&code);
    return ok && dump_buffers(module, directory, diag);
}

static void tell_cache(const struct target_options *options, const char *what) {
    if (options->pipeline.stats) fprintf(stderr, "cache: %s\n", what);
}

/* The passes and the compiler, unless the cache has what they would make. */
static bool make_code(struct hlo_module *module, const struct target_options *options,
                      const struct cpu_options *cpu, enum cpu_output output, struct cpu_code *code,
                      struct diag *diag) {
    struct cache_key key;
    struct fault fault;
    const char *directory = options->cache_directory;
    bool kept = directory && cache_key_of(module, options, cpu, output, &key);
    if (kept && cache_find(directory, &key, code)) {
        tell_cache(options, "the code was there");
        print_stats(options, code);
        return true;
    }
    if (!target_optimise(module, options, diag) || !cpu_compile(module, cpu, output, code, diag))
        return false;
    if (kept && !cache_store(directory, &key, code, CACHE_BYTES, &fault))
        diag_warning(diag, (struct src_loc){0}, "the code is not kept: %s", fault.text);
    if (directory) tell_cache(options, kept ? "made the code" : "the code is not kept");
    print_stats(options, code);
    if (dump_code(module, options, cpu, diag)) return true;
    cpu_code_free(code);
    return false;
}

/* NULL where memory is short. */
static void *take_workspace(struct cpu_session *session) {
    pthread_mutex_lock(&session->lock);
    struct spare *spare = session->spares;
    if (spare) session->spares = spare->next;
    pthread_mutex_unlock(&session->lock);
    if (spare) return spare;
    void *workspace = aligned_alloc(64, (session->workspace_size / 64 + 1) * 64);
    if (workspace) memory_prefer_huge_pages(workspace, session->workspace_size);
    return workspace;
}

static void give_workspace(struct cpu_session *session, void *workspace) {
    struct spare *spare = workspace;
    if (!spare) return;
    pthread_mutex_lock(&session->lock);
    spare->next = session->spares;
    session->spares = spare;
    pthread_mutex_unlock(&session->lock);
}

/* The code in memory, ready to run, and a workspace. */
static bool session_load(struct cpu_session *session, const struct target_options *options,
                         struct diag *diag) {
    struct cpu_options cpu = cpu_options_of(options, "hlocc_entry", &session->functions);
    struct cpu_code code;
    cpu.in_parts = true;
    if (!make_code(session->module, options, &cpu, CPU_OBJ, &code, diag)) return false;
    session->workspace_size = code.workspace_size;
    session->jit = cpu_jit_new_with(&code, cpu.symbol, cpu.functions, cpu.nfunctions, diag);
    cpu_code_free(&code);
    give_workspace(session, take_workspace(session)); /* so that the first run is as the next */
    if (session->jit) session->entry = cpu_jit_entry(session->jit);
    return session->jit != NULL;
}

struct cpu_session *cpu_session_new(struct hlo_module *module, const struct target_options *options,
                                    struct diag *diag) {
    struct cpu_session *session = calloc(1, sizeof *session);
    if (!session) {
        diag_error(diag, (struct src_loc){0}, "out of memory");
        return NULL;
    }
    session->module = module;
    pthread_mutex_init(&session->lock, NULL);
    if (functions_find(&session->functions, module, options, diag) &&
        session_load(session, options, diag))
        return session;
    cpu_session_free(session);
    return NULL;
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

static bool is_unshared(const struct literal *literal) {
    if (literal->refs != 1) return false;
    for (int i = 0; shape_is_tuple(literal->shape) && i < literal->shape->ntuple; i++)
        if (!is_unshared(literal->elements[i])) return false;
    return true;
}

/* A literal for the result, with a reference for the caller beside the session's own. */
static struct literal *take_result(struct cpu_session *session) {
    pthread_mutex_lock(&session->lock);
    if (!session->last || !is_unshared(session->last)) {
        literal_unref(session->last);
        session->last = literal_new(session->module->entry->root->shape);
    }
    struct literal *result = session->last ? literal_ref(session->last) : NULL;
    pthread_mutex_unlock(&session->lock);
    return result;
}

bool cpu_session_call(struct cpu_session *session, const void *const *inputs, void *const *outputs,
                      struct diag *diag) {
    const struct src_loc nowhere = {0};
    void *workspace = take_workspace(session);
    if (!workspace) {
        diag_error(diag, nowhere, "out of memory");
        return false;
    }
    int status = session->entry(inputs, outputs, workspace);
    if (status == HLOCC_STATUS_CUSTOM_CALL) {
        const char *message = workspace;
        diag_error(diag, nowhere, "a custom call failed%s%.*s", *message ? ": " : "",
                   HLOCC_MESSAGE_SIZE - 1, message);
    } else if (status) {
        diag_error(diag, nowhere, "the program could not run (status %d)", status);
    }
    give_workspace(session, workspace);
    return status == 0;
}

struct literal *cpu_session_run(struct cpu_session *session, struct literal *const *args,
                                struct diag *diag) {
    const struct hlo_computation *entry = session->module->entry;
    int count = 0, at = 0;
    for (int i = 0; i < entry->nparameters; i++)
        count += entry->parameters[i]->shape->nleaves;
    struct literal *result = take_result(session);
    void **inputs = calloc((size_t)count + 1, sizeof *inputs);
    void **outputs = calloc((size_t)entry->root->shape->nleaves + 1, sizeof *outputs);
    bool ok = false;
    if (result && inputs && outputs) {
        for (int i = 0; i < entry->nparameters; i++)
            at += gather_leaves(args[i], inputs + at);
        gather_leaves(result, outputs);
        ok = cpu_session_call(session, (const void *const *)inputs, outputs, diag);
    } else {
        diag_error(diag, (struct src_loc){0}, "out of memory");
    }
    free(inputs);
    free(outputs);
    if (ok) return result;
    literal_unref(result);
    return NULL;
}

void cpu_session_free(struct cpu_session *session) {
    if (!session) return;
    cpu_jit_free(session->jit);
    while (session->spares) {
        struct spare *next = session->spares->next;
        free(session->spares);
        session->spares = next;
    }
    pthread_mutex_destroy(&session->lock);
    functions_free(&session->functions);
    literal_unref(session->last);
    free(session);
}

bool cpu_emit(struct hlo_module *module, const struct target_options *options, enum emit_kind kind,
              const char *symbol, struct bytes *bytes, struct diag *diag) {
    struct function_set functions;
    struct cpu_code code;
    if (!functions_find(&functions, module, options, diag)) return false;
    struct cpu_options cpu = cpu_options_of(options, symbol, &functions);
    enum cpu_output output = kind == EMIT_LLVM_IR   ? CPU_LLVM_IR
                             : kind == EMIT_LLVM_BC ? CPU_LLVM_BC
                             : kind == EMIT_ASM     ? CPU_ASM
                                                    : CPU_OBJ;
    bool ok = make_code(module, options, &cpu, output, &code, diag);
    functions_free(&functions);
    if (!ok) return false;
    *bytes = (struct bytes){.data = code.data, .size = code.size};
    return true;
}
