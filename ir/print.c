/* Modules, computations and instructions as text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/print_internal.h"

struct print_options print_options_full(void) {
    return (struct print_options){.percent = true,
                                  .metadata = true,
                                  .backend_config = true,
                                  .layouts = true,
                                  .max_constant = -1};
}

struct print_options print_options_short(void) {
    return (struct print_options){.layouts = true, .max_constant = 16};
}

/* Whether the name is read as one without its %: no word of XLA's grammar, no type, no number. */
static bool stands_bare(const char *name) {
    static const char *const words[] = {
        "ENTRY",      "FileLocations", "FileNames", "FunctionNames", "HloModule",
        "ROOT",       "StackFrames",   "false",     "inf",           "last_tile_dim_replicate",
        "manual",     "maximal",       "nan",       "replicated",    "shard_as",
        "shard_like", "true",          "unknown",   "unreduced"};
    if (name[0] >= '0' && name[0] <= '9') return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i]) == 0) return false;
    enum element_type type = element_type_from_name(name, strlen(name));
    return type == TYPE_INVALID || type == TYPE_TUPLE || type == TYPE_BUFFER;
}

static void print_name(FILE *out, const char *name, const struct print_options *options) {
    if (options->percent || !stands_bare(name)) putc_unlocked('%', out);
    fputs(name, out);
}

static void print_called(FILE *out, const char *key, const struct hlo_computation *called,
                         const struct print_options *options) {
    fprintf(out, ", %s=", key);
    print_name(out, called->name, options);
}

static void print_called_list(FILE *out, const struct hlo_instr *instr, const char *key,
                              const struct print_options *options) {
    fprintf(out, ", %s={", key);
    for (int i = 0; i < instr->ncalled; i++) {
        if (i) fputs(", ", out);
        print_name(out, instr->called[i]->name, options);
    }
    putc_unlocked('}', out);
}

static bool predicated(const struct hlo_instr *instr) {
    return instr->ncalled == 2 && instr->noperands && instr->operands[0] &&
           instr->operands[0]->shape && instr->operands[0]->shape->type == TYPE_PRED;
}

static void print_calls(FILE *out, const struct hlo_instr *instr,
                        const struct print_options *options) {
    unsigned flags = opcode_info(instr->opcode)->flags;
    struct hlo_computation **called = instr->called;

    if (!instr->ncalled) return;
    if (flags & OP_FLAG_CALLS_WHILE && instr->ncalled == 2) {
        print_called(out, "condition", called[0], options);
        print_called(out, "body", called[1], options);
    } else if (flags & OP_FLAG_CALLS_SELECT_SCATTER && instr->ncalled == 2) {
        print_called(out, "select", called[0], options);
        print_called(out, "scatter", called[1], options);
    } else if (flags & OP_FLAG_CALLS_BRANCHES && predicated(instr)) {
        print_called(out, "true_computation", called[0], options);
        print_called(out, "false_computation", called[1], options);
    } else if (flags & OP_FLAG_CALLS_BRANCHES) {
        print_called_list(out, instr, "branch_computations", options);
    } else if (flags & OP_FLAG_CALLS_CUSTOM && instr->ncalled > 1) {
        print_called_list(out, instr, "called_computations", options);
    } else if (flags & (OP_FLAG_CALLS_FUSION | OP_FLAG_CALLS_ASYNC)) {
        print_called(out, "calls", called[0], options);
    } else {
        print_called(out, "to_apply", called[0], options);
    }
}

static void print_operands(FILE *out, const struct hlo_instr *instr,
                           const struct print_options *options) {
    if (instr->opcode == OP_PARAMETER) fprintf(out, "%" PRId64, instr->parameter);
    if (instr->opcode == OP_CONSTANT && instr->literal)
        literal_print(out, instr->literal, options->max_constant);
    for (int i = 0; i < instr->noperands; i++) {
        const struct hlo_instr *operand = instr->operands[i];

        if (i) fputs(", ", out);
        if (!operand) continue;
        if (options->operand_shapes && operand->shape) {
            shape_print(out, operand->shape, options->layouts);
            putc_unlocked(' ', out);
        }
        print_name(out, operand->name, options);
    }
}

static void print_control(FILE *out, const struct hlo_instr *instr,
                          const struct print_options *options) {
    if (!instr->ncontrol) return;
    fputs(", control-predecessors={", out);
    for (int i = 0; i < instr->ncontrol; i++) {
        if (i) fputs(", ", out);
        print_name(out, instr->control[i]->name, options);
    }
    putc_unlocked('}', out);
}

void instr_print(FILE *out, const struct hlo_instr *instr, const struct print_options *options) {
    print_name(out, instr->name, options);
    fputs(" = ", out);
    if (instr->shape) {
        shape_print(out, instr->shape, options->layouts);
        putc_unlocked(' ', out);
    }
    fputs(opcode_name(instr->opcode), out);
    putc_unlocked('(', out);
    print_operands(out, instr, options);
    putc_unlocked(')', out);
    /* XLA's order: the operation's own attributes, what it calls, then those that any may have. */
    for (int i = 0; i < instr->nattrs; i++)
        if (instr->attrs[i].key < ATTR_SHARDING) print_attr(out, &instr->attrs[i], options);
    print_calls(out, instr, options);
    for (int i = 0; i < instr->nattrs; i++)
        if (instr->attrs[i].key >= ATTR_SHARDING && instr->attrs[i].key != ATTR_BACKEND_CONFIG)
            print_attr(out, &instr->attrs[i], options);
    print_control(out, instr, options);
    if (options->metadata && instr->metadata) print_metadata(out, instr->metadata);
    if (options->backend_config && instr_attr(instr, ATTR_BACKEND_CONFIG))
        print_attr(out, instr_attr(instr, ATTR_BACKEND_CONFIG), options);
}

void computation_print(FILE *out, const struct hlo_computation *computation,
                       const struct print_options *options) {
    if (computation->module && computation->module->entry == computation) fputs("ENTRY ", out);
    print_name(out, computation->name, options);
    fputs(" (", out);
    for (int i = 0; i < computation->nparameters; i++) {
        fprintf(out, "%s%s: ", i ? ", " : "", computation->parameters[i]->name);
        shape_print(out, computation->parameters[i]->shape, false);
    }
    fputs(") -> ", out);
    if (computation->root && computation->root->shape)
        shape_print(out, computation->root->shape, false);
    fputs(" {\n", out);
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        fputs(i == computation->root ? "  ROOT " : "  ", out);
        instr_print(out, i, options);
        putc_unlocked('\n', out);
    }
    putc_unlocked('}', out);
    if (computation->execution_thread) {
        fputs(", execution_thread=", out);
        print_quoted(out, computation->execution_thread);
    }
    putc_unlocked('\n', out);
}

static void print_entry_layout(FILE *out, const struct hlo_module *module) {
    if (!module->entry_result) return;
    fputs(", entry_computation_layout={(", out);
    for (int i = 0; i < module->nentry_parameters; i++) {
        if (i) fputs(", ", out);
        shape_print(out, module->entry_parameters[i], true);
    }
    fputs(")->", out);
    shape_print(out, module->entry_result, true);
    putc_unlocked('}', out);
}

static void print_donors(FILE *out, const struct hlo_module *module) {
    if (!module->ndonors) return;
    fputs(", buffer_donor={ ", out);
    for (int i = 0; i < module->ndonors; i++) {
        fprintf(out, "%s(%" PRId64 ", ", i ? ", " : "", module->donors[i].parameter);
        print_ints(out, module->donors[i].index.count, module->donors[i].index.v);
        putc_unlocked(')', out);
    }
    fputs(" }", out);
}

static void print_header(FILE *out, const struct hlo_module *module,
                         const struct print_options *options) {
    fprintf(out, "HloModule %s", module->name);
    if (module->is_scheduled) fputs(", is_scheduled=true", out);
    if (module->aliases.count) {
        fputs(", input_output_alias=", out);
        print_aliases(out, &module->aliases);
    }
    print_donors(out, module);
    if (options->layouts) print_entry_layout(out, module);
    if (module->replica_count != 1) fprintf(out, ", replica_count=%" PRId64, module->replica_count);
    if (module->num_partitions != 1)
        fprintf(out, ", num_partitions=%" PRId64, module->num_partitions);
    for (int i = 0; i < module->nattrs; i++)
        fprintf(out, ", %s=%s", module->attrs[i].name, module->attrs[i].text);
    fputs("\n\n", out);
}

static void print_strings(FILE *out, const char *title, int count, const char **v) {
    fprintf(out, "%s\n", title);
    for (int i = 0; i < count; i++) {
        fprintf(out, "%d ", i + 1);
        print_quoted(out, v[i]);
        putc_unlocked('\n', out);
    }
    putc_unlocked('\n', out);
}

static void print_tables(FILE *out, const struct stack_tables *t) {
    print_strings(out, "FileNames", t->nfiles, t->files);
    print_strings(out, "FunctionNames", t->nfunctions, t->functions);
    fputs("FileLocations\n", out);
    for (int i = 0; i < t->nlocations; i++) {
        const struct file_location *l = &t->locations[i];

        fprintf(out,
                "%d {file_name_id=%" PRId64 " function_name_id=%" PRId64 " line=%" PRId64
                " end_line=%" PRId64 " column=%" PRId64 " end_column=%" PRId64 "}\n",
                i + 1, l->file, l->function, l->line, l->end_line, l->column, l->end_column);
    }
    fputs("\nStackFrames\n", out);
    for (int i = 0; i < t->nframes; i++)
        fprintf(out, "%d {file_location_id=%" PRId64 " parent_frame_id=%" PRId64 "}\n", i + 1,
                t->frames[i].location, t->frames[i].parent);
    fputs("\n\n", out);
}

void module_print(FILE *out, const struct hlo_module *module, const struct print_options *options) {
    print_header(out, module, options);
    if (options->metadata && module->tables) print_tables(out, module->tables);
    for (const struct hlo_computation *c = module->first; c; c = c->next) {
        computation_print(out, c, options);
        if (c->next) putc_unlocked('\n', out);
    }
}

char *module_to_string(const struct hlo_module *module, const struct print_options *options) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out) abort();
    module_print(out, module, options);
    if (fclose(out)) abort();
    return text;
}
