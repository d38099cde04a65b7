#include "compiler/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/io.h"
#include "ir/print.h"

struct watcher {
    const struct pipeline_options *options;
    struct diag *diag;
};

static void dump(struct watcher *watcher, int number, const char *pass,
                 const struct hlo_module *module) {
    char *path = text_format("%s/%02d.%s.hlo", watcher->options->dump_dir, number, pass);
    struct print_options print = print_options_full();
    struct output output;
    struct fault fault;
    bool ok = output_open(&output, path, &fault);
    if (ok) {
        module_print(output.stream, module, &print);
        ok = output_commit(&output, &fault);
    }
    if (!ok) diag_error(watcher->diag, (struct src_loc){0}, "%s: %s", path, fault.text);
    free(path);
}

static void print_if(const char *wanted, const char *when, const char *pass,
                     const struct hlo_module *module) {
    if (!wanted) return;
    bool all = strcmp(wanted, "all") == 0;
    if (!all && pass_from_name(wanted, strlen(wanted)) != pass_from_name(pass, strlen(pass))) {
        return;
    }
    struct print_options print = print_options_short();
    fprintf(stderr, "// %s %s\n", when, pass);
    module_print(stderr, module, &print);
}

static void before_pass(void *user, const char *pass, const struct hlo_module *module) {
    struct watcher *watcher = user;
    print_if(watcher->options->print_before, "before", pass, module);
}

static void after_pass(void *user, const char *pass, int number, bool changed,
                       const struct hlo_module *module) {
    struct watcher *watcher = user;
    print_if(watcher->options->print_after, "after", pass, module);
    if (changed && watcher->options->dump_dir) dump(watcher, number, pass, module);
}

static void print_stats(const struct pass_context *context) {
    fprintf(stderr, "%-24s %5s %8s %9s %10s\n", "pass", "runs", "changed", "rewrites", "ms");
    for (int i = 0; i < PASS_COUNT; i++) {
        const struct pass_stat *stat = &context->stats[i];
        if (stat->runs == 0) continue;
        fprintf(stderr, "%-24s %5d %8d %9lld %10.3f\n", pass_info((enum pass_id)i)->name,
                stat->runs, stat->changed, (long long)stat->rewrites, stat->seconds * 1e3);
    }
}

bool pipeline_run(struct hlo_module *module, const struct pipeline_options *options,
                  enum pass_target target, int level, struct diag *diag) {
    int count;
    const enum pass_id *passes = options->passes
                                     ? pass_list_parse(module->arena, options->passes, &count, diag)
                                     : pass_pipeline(target, level, &count);
    if (!passes) return diag->errors == 0;
    struct watcher watcher = {options, diag};
    if (options->dump_dir) {
        struct fault fault;
        if (!directory_make(options->dump_dir, &fault)) {
            diag_error(diag, (struct src_loc){0}, "%s: %s", options->dump_dir, fault.text);
            return false;
        }
        dump(&watcher, 0, "input", module);
    }
    struct pass_hooks hooks = {.user = &watcher, .before = before_pass, .after = after_pass};
    struct pass_context context;
    pass_context_init(&context, diag);
    context.verify = options->verify;
    context.devices = options->devices;
    context.hooks = &hooks;
    memcpy(context.disabled, options->disabled, sizeof context.disabled);
    bool ok = pass_pipeline_run(&context, module, passes, count) && diag->errors == 0;
    if (options->stats) print_stats(&context);
    return ok;
}
