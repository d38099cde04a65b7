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
    return (struct print_options){.layouts = true, .backend_config = true, .max_constant = 10};
}

void shape_print(FILE *out, const struct shape *shape, bool layouts) {
    struct arena *scratch = arena_new();
    fputs(shape_to_string(scratch, shape, layouts), out);
    arena_free(scratch);
}

static void print_name(FILE *out, const char *name, const struct print_options *options) {
    if (options->percent) fputc('%', out);
    fputs(name, out);
}

static void print_text_field(FILE *out, bool *first, const char *name, const char *text) {
    if (!text) return;
    fprintf(out, "%s%s=", *first ? "" : " ", name);
    print_quoted(out, text);
    *first = false;
}

static void print_int_field(FILE *out, bool *first, const char *name, int64_t value) {
    if (!value) return;
    fprintf(out, "%s%s=%" PRId64, *first ? "" : " ", name, value);
    *first = false;
}

static void print_metadata(FILE *out, const struct hlo_metadata *m) {
    bool first = true;
    fputs(", metadata={", out);
    print_text_field(out, &first, "op_type", m->op_type);
    print_text_field(out, &first, "op_name", m->op_name);
    print_text_field(out, &first, "source_file", m->source_file);
    print_int_field(out, &first, "source_line", m->source_line);
    print_int_field(out, &first, "source_end_line", m->source_end_line);
    print_int_field(out, &first, "source_column", m->source_column);
    print_int_field(out, &first, "source_end_column", m->source_end_column);
    print_int_field(out, &first, "stack_frame_id", m->stack_frame_id);
    print_text_field(out, &first, "deduplicated_name", m->deduplicated_name);
    print_text_field(out, &first, "scheduling_name", m->scheduling_name);
    if (m->rest) fprintf(out, "%s%s", first ? "" : " ", m->rest);
    fputc('}', out);
}

static void print_call(FILE *out, const char *word, const struct hlo_computation *computation,
                       const struct print_options *options) {
    fprintf(out, ", %s=", word);
    print_name(out, computation->name, options);
}

static void print_call_list(FILE *out, const char *word, const struct hlo_instr *instr,
                            const struct print_options *options) {
    fprintf(out, ", %s={", word);
    for (int i = 0; i < instr->ncalled; i++) {
        if (i) fputs(", ", out);
        print_name(out, instr->called[i]->name, options);
    }
    fputc('}', out);
}

static void print_called(FILE *out, const struct hlo_instr *instr,
                         const struct print_options *options) {
    unsigned flags = opcode_info(instr->opcode)->flags;
    if (!instr->ncalled) return;
    if (flags & OP_FLAG_CALLS_ONE) {
        print_call(out, "to_apply", instr->called[0], options);
    } else if (flags & (OP_FLAG_CALLS_FUSION | OP_FLAG_CALLS_ASYNC)) {
        print_call(out, "calls", instr->called[0], options);
    } else if (flags & OP_FLAG_CALLS_WHILE) {
        print_call(out, "condition", instr->called[0], options);
        if (instr->ncalled > 1) print_call(out, "body", instr->called[1], options);
    } else if (flags & OP_FLAG_CALLS_SELECT_SCATTER) {
        print_call(out, "select", instr->called[0], options);
        if (instr->ncalled > 1) print_call(out, "scatter", instr->called[1], options);
    } else if (flags & OP_FLAG_CALLS_BRANCHES) {
        bool two = instr->ncalled == 2 && instr->noperands &&
                   instr->operands[0]->shape->type == TYPE_PRED;
        if (two) {
            print_call(out, "true_computation", instr->called[0], options);
            print_call(out, "false_computation", instr->called[1], options);
        } else {
            print_call_list(out, "branch_computations", instr, options);
        }
    } else {
        print_call_list(out, "called_computations", instr, options);
    }
}

static void print_opcode(FILE *out, const struct hlo_instr *instr) {
    if (!instr->async_opcode) {
        fputs(opcode_name(instr->opcode), out);
        return;
    }
    const char *name = opcode_name(instr->opcode);
    fprintf(out, "%s%s", opcode_name(instr->async_opcode), strrchr(name, '-'));
}

static void print_operands(FILE *out, const struct hlo_instr *instr,
                           const struct print_options *options) {
    if (instr->opcode == OP_PARAMETER) {
        fprintf(out, "%" PRId64, instr->parameter);
    } else if (instr->opcode == OP_CONSTANT && instr->literal) {
        literal_print(out, instr->literal, options->max_constant);
    }
    for (int i = 0; i < instr->noperands; i++) {
        if (i) fputs(i % 5 == 0 ? ", /*index=" : ", ", out);
        if (i && i % 5 == 0) fprintf(out, "%d*/", i);
        if (options->operand_shapes) {
            shape_print(out, instr->operands[i]->shape, options->layouts);
            fputc(' ', out);
        }
        print_name(out, instr->operands[i]->name, options);
    }
}

void instr_print(FILE *out, const struct hlo_instr *instr, const struct print_options *options) {
    if (instr->parent->root == instr) fputs("ROOT ", out);
    print_name(out, instr->name, options);
    fputs(" = ", out);
    shape_print(out, instr->shape, options->layouts);
    fputc(' ', out);
    print_opcode(out, instr);
    fputc('(', out);
    print_operands(out, instr, options);
    fputc(')', out);
    for (int i = 0; i < instr->nattrs; i++)
        if (instr->attrs[i].key < ATTR_SHARDING) print_attr(out, &instr->attrs[i], options);
    print_called(out, instr, options);
    for (int i = 0; i < instr->nattrs; i++) {
        enum attr_key key = instr->attrs[i].key;
        if (key >= ATTR_SHARDING && key != ATTR_BACKEND_CONFIG)
            print_attr(out, &instr->attrs[i], options);
    }
    if (instr->ncontrol) {
        fputs(", control-predecessors={", out);
        for (int i = 0; i < instr->ncontrol; i++) {
            if (i) fputs(", ", out);
            print_name(out, instr->control[i]->name, options);
        }
        fputc('}', out);
    }
    if (options->metadata && instr->metadata) print_metadata(out, instr->metadata);
    const struct hlo_attr *config = instr_attr(instr, ATTR_BACKEND_CONFIG);
    if (options->backend_config && config) print_attr(out, config, options);
}

void computation_print(FILE *out, const struct hlo_computation *computation,
                       const struct print_options *options) {
    if (computation->module->entry == computation) fputs("ENTRY ", out);
    print_name(out, computation->name, options);
    fputs(" (", out);
    for (int i = 0; i < computation->nparameters; i++) {
        fprintf(out, "%s%s: ", i ? ", " : "", computation->parameters[i]->name);
        shape_print(out, computation->parameters[i]->shape, false);
    }
    fputs(") -> ", out);
    shape_print(out, computation->root->shape, false);
    fputs(" {\n", out);
    for (const struct hlo_instr *i = computation->first; i; i = i->next) {
        fputs("  ", out);
        instr_print(out, i, options);
        fputc('\n', out);
    }
    fputc('}', out);
    if (computation->execution_thread) {
        fputs(", execution_thread=", out);
        print_quoted(out, computation->execution_thread);
    }
    fputc('\n', out);
}

static void print_header(FILE *out, const struct hlo_module *module,
                         const struct print_options *options) {
    fprintf(out, "HloModule %s", module->name);
    if (module->is_scheduled) fputs(", is_scheduled=true", out);
    if (module->aliases.count) {
        fputs(", input_output_alias=", out);
        print_aliases(out, &module->aliases);
    }
    for (int i = 0; i < module->ndonors; i++) {
        fprintf(out, "%s(%" PRId64 ", ", i ? ", " : ", buffer_donor={ ",
                module->donors[i].parameter);
        print_ints(out, module->donors[i].index);
        fputs(i + 1 == module->ndonors ? ") }" : ")", out);
    }
    if (module->entry_result) {
        fputs(", entry_computation_layout={(", out);
        for (int i = 0; i < module->nentry_parameters; i++) {
            if (i) fputs(i % 5 == 0 ? ", /*index=" : ", ", out);
            if (i && i % 5 == 0) fprintf(out, "%d*/", i);
            shape_print(out, module->entry_parameters[i], options->layouts);
        }
        fputs(")->", out);
        shape_print(out, module->entry_result, options->layouts);
        fputc('}', out);
    }
    if (module->replica_count != 1) fprintf(out, ", replica_count=%" PRId64, module->replica_count);
    if (module->num_partitions != 1)
        fprintf(out, ", num_partitions=%" PRId64, module->num_partitions);
    for (int i = 0; i < module->nattrs; i++)
        fprintf(out, ", %s=%s", module->attrs[i].name, module->attrs[i].text);
    fputs("\n\n", out);
}

static void print_names(FILE *out, const char *title, int count, const char **names) {
    if (!count) return;
    fprintf(out, "%s\n", title);
    for (int i = 0; i < count; i++) {
        fprintf(out, "%d ", i + 1);
        print_quoted(out, names[i]);
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void print_tables(FILE *out, const struct stack_tables *t) {
    print_names(out, "FileNames", t->nfiles, t->files);
    print_names(out, "FunctionNames", t->nfunctions, t->functions);
    if (t->nlocations) fputs("FileLocations\n", out);
    for (int i = 0; i < t->nlocations; i++) {
        const struct file_location *l = &t->locations[i];
        fprintf(out,
                "%d {file_name_id=%" PRId64 " function_name_id=%" PRId64 " line=%" PRId64
                " end_line=%" PRId64 " column=%" PRId64 " end_column=%" PRId64 "}\n",
                i + 1, l->file, l->function, l->line, l->end_line, l->column, l->end_column);
    }
    if (t->nlocations) fputc('\n', out);
    if (t->nframes) fputs("StackFrames\n", out);
    for (int i = 0; i < t->nframes; i++)
        fprintf(out, "%d {file_location_id=%" PRId64 " parent_frame_id=%" PRId64 "}\n", i + 1,
                t->frames[i].location, t->frames[i].parent);
    if (t->nframes) fputc('\n', out);
}

void module_print(FILE *out, const struct hlo_module *module,
                  const struct print_options *options) {
    print_header(out, module, options);
    if (options->metadata && module->tables) print_tables(out, module->tables);
    for (const struct hlo_computation *c = module->first; c; c = c->next) {
        if (c != module->first) fputc('\n', out);
        computation_print(out, c, options);
    }
}

char *module_to_string(const struct hlo_module *module, const struct print_options *options) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) abort();
    module_print(out, module, options);
    fclose(out);
    return text;
}
