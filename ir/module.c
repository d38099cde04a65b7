/* Modules and computations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo.h"
#include "ir/name_table.h"

/* Names in use, and for each the next number to try behind it: unique names cost constant time
 * however many instructions share a base. Made when the first new name is asked for, since a
 * module that is only read needs none. */
static struct name_table *names_of(struct hlo_module *module) {
    if (module->names) return module->names;
    module->names = calloc(1, sizeof *module->names);
    if (!module->names) abort();
    FOR_EACH_COMPUTATION(computation, module) {
        module_note_name(module, computation->name);
        FOR_EACH_INSTR(instr, computation)
        module_note_name(module, instr->name);
    }
    return module->names;
}

static struct name_entry *add_name(struct hlo_module *module, const char *name, size_t length) {
    struct name_entry *entry = name_table_add(names_of(module), name, length);
    if (!entry->number) entry->number = 1;
    return entry;
}

void module_note_name(struct hlo_module *module, const char *name) {
    if (module->names && name) add_name(module, name, strlen(name));
}

/* `add.3` counts on from the base `add`, so that names do not grow .1.1.1. */
static size_t stem_length(const char *base, size_t length) {
    size_t digits = 0;
    while (digits < length && base[length - digits - 1] >= '0' && base[length - digits - 1] <= '9')
        digits++;
    bool numbered = digits > 0 && digits + 1 < length && base[length - digits - 1] == '.';
    return numbered ? length - digits - 1 : length;
}

/* The text's entry; a copy of the text where it is new. */
static struct name_entry *keep_name(struct hlo_module *module, const char *text, size_t length) {
    struct name_entry *entry = add_name(module, text, length);
    if (entry->name == text) entry->name = arena_strndup(module->arena, text, length);
    return entry;
}

const char *module_unique_name(struct hlo_module *module, const char *base) {
    size_t length = strlen(base);
    struct name_table *names = names_of(module);
    if (!name_table_find(names, base, length)) return keep_name(module, base, length)->name;
    size_t stem = stem_length(base, length);
    char *name = arena_alloc(module->arena, stem + 16);
    memcpy(name, base, stem);
    for (int64_t number = keep_name(module, base, stem)->number;; number++) {
        int digits = snprintf(name + stem, 16, ".%d", (int)number);
        if (name_table_find(names, name, stem + (size_t)digits)) continue;
        add_name(module, name, stem + (size_t)digits);
        name_table_find(names, base, stem)->number = number + 1;
        return name;
    }
}

struct hlo_module *module_new(const char *name) {
    struct arena *arena = arena_new();
    struct hlo_module *module = arena_alloc(arena, sizeof *module);
    module->arena = arena;
    module->shapes = shape_table_new(arena);
    module->name = arena_strdup(arena, name);
    module->replica_count = module->num_partitions = 1;
    return module;
}

void module_free(struct hlo_module *module) {
    if (!module) return;
    for (int i = 0; i < module->nliterals; i++)
        literal_unref(module->literals[i]);
    if (module->names) name_table_clear(module->names);
    free(module->names);
    arena_free(module->arena);
}

struct literal *module_own_literal(struct hlo_module *module, struct literal *literal) {
    module->literals = arena_grow(module->arena, module->literals, &module->literal_capacity,
                                  module->nliterals + 1, sizeof *module->literals);
    return module->literals[module->nliterals++] = literal;
}

int module_instruction_count(const struct hlo_module *module) {
    int count = 0;
    FOR_EACH_COMPUTATION(computation, module)
    count += computation->count;
    return count;
}

static void link_computation(struct hlo_module *module, struct hlo_computation *computation) {
    computation->next = NULL;
    computation->prev = module->last;
    if (module->last)
        module->last->next = computation;
    else
        module->first = computation;
    module->last = computation;
    module->ncomputations++;
}

struct hlo_computation *computation_new(struct hlo_module *module, const char *name, bool unique) {
    struct hlo_computation *computation = arena_alloc(module->arena, sizeof *computation);
    computation->module = module;
    computation->id = module->next_id++;
    if (unique) {
        computation->name = module_unique_name(module, name);
    } else {
        computation->name = arena_strdup(module->arena, name);
        module_note_name(module, computation->name);
    }
    link_computation(module, computation);
    return computation;
}

void computation_unlink(struct hlo_computation *computation) {
    struct hlo_module *module = computation->module;
    if (computation->prev)
        computation->prev->next = computation->next;
    else
        module->first = computation->next;
    if (computation->next)
        computation->next->prev = computation->prev;
    else
        module->last = computation->prev;
    computation->prev = computation->next = NULL;
    module->ncomputations--;
}

void computation_set_root(struct hlo_computation *computation, struct hlo_instr *root) {
    computation->root = root;
}

bool computation_index_parameters(struct hlo_computation *computation) {
    struct arena *arena = computation->module->arena;
    int count = 0, capacity = 0;
    struct hlo_instr **found = NULL;
    FOR_EACH_INSTR(instr, computation) {
        if (instr->opcode != OP_PARAMETER) continue;
        found = arena_grow(arena, found, &capacity, count + 1, sizeof *found);
        found[count++] = instr;
    }
    computation->nparameters = count;
    computation->parameters = arena_array(arena, (size_t)count, sizeof *computation->parameters);
    bool good = true;
    for (int i = 0; i < count; i++) {
        int64_t number = found[i]->parameter;
        if (number < 0 || number >= count || computation->parameters[number])
            good = false;
        else
            computation->parameters[number] = found[i];
    }
    return good;
}

/* Callees first, each once. An explicit stack: call chains may be as long as the text. Calls form
 * no cycle in a verified module; the mark makes the walk end in any other too. */
struct frame {
    struct hlo_computation *computation;
    struct hlo_instr *at;
    int called;
};

static void visit(struct hlo_module *module, struct hlo_computation *root, struct frame *stack) {
    int depth = 0;
    root->mark = 1;
    stack[depth++] = (struct frame){root, root->first, 0};
    while (depth) {
        struct frame *top = &stack[depth - 1];
        while (top->at && top->called >= top->at->ncalled) {
            top->at = top->at->next;
            top->called = 0;
        }
        if (!top->at) {
            link_computation(module, top->computation);
            depth--;
            continue;
        }
        struct hlo_computation *callee = top->at->called[top->called++];
        if (!callee || callee->mark) continue;
        callee->mark = 1;
        stack[depth++] = (struct frame){callee, callee->first, 0};
    }
}

void module_sort_computations(struct hlo_module *module) {
    if (!module->entry) return;
    struct frame *stack =
        arena_array(module->arena, (size_t)module->ncomputations + 1, sizeof *stack);
    FOR_EACH_COMPUTATION(computation, module)
    computation->mark = 0;
    module->first = module->last = NULL;
    module->ncomputations = 0;
    visit(module, module->entry, stack);
}

bool instr_source(const struct hlo_instr *instr, const char **file, int64_t *line) {
    const struct hlo_metadata *metadata = instr->metadata;
    if (!metadata) return false;
    if (metadata->source_file) {
        *file = metadata->source_file;
        *line = metadata->source_line;
        return true;
    }
    const struct stack_tables *tables = instr->parent->module->tables;
    if (!tables || metadata->stack_frame_id < 1 || metadata->stack_frame_id > tables->nframes)
        return false;
    int64_t location = tables->frames[metadata->stack_frame_id - 1].location;
    if (location < 1 || location > tables->nlocations) return false;
    const struct file_location *place = &tables->locations[location - 1];
    if (place->file < 1 || place->file > tables->nfiles) return false;
    *file = tables->files[place->file - 1];
    *line = place->line;
    return true;
}

const struct shape *hlo_index_shape(const struct shape *shape, struct int_list index,
                                    int *first_leaf) {
    int leaf = 0;
    for (int i = 0; i < index.count; i++) {
        if (!shape_is_tuple(shape) || index.v[i] < 0 || index.v[i] >= shape->ntuple) return NULL;
        leaf += shape_tuple_first_leaf(shape, (int)index.v[i]);
        shape = shape->tuple[index.v[i]];
    }
    if (first_leaf) *first_leaf = leaf;
    return shape;
}

int hlo_index_leaf(const struct shape *shape, struct int_list index) {
    int leaf;
    const struct shape *named = hlo_index_shape(shape, index, &leaf);
    return named && !shape_is_tuple(named) ? leaf : -1;
}
