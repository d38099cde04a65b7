/* Modules and computations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo.h"

/* Names in use, and for each the next number to try behind it: unique names cost constant time
 * however many instructions share a base. */
struct name_entry {
    const char *name;
    uint32_t hash, length;
    int next;
};

struct name_table {
    struct name_entry *entries;
    size_t capacity, count;
};

static uint32_t hash_text(const char *text, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u ^ length;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ (hash >> 32));
}

/* The name's entry, or the empty one where it belongs. */
static struct name_entry *name_slot(struct name_table *names, const char *name, size_t length,
                                    uint32_t hash) {
    for (size_t at = hash & (names->capacity - 1);; at = (at + 1) & (names->capacity - 1)) {
        struct name_entry *entry = &names->entries[at];
        if (!entry->name || (entry->hash == hash && entry->length == (uint32_t)length &&
                             memcmp(entry->name, name, length) == 0))
            return entry;
    }
}

static void name_grow(struct hlo_module *module) {
    struct name_table *names = module->names;
    struct name_table old = *names;
    names->capacity *= 2;
    names->entries = arena_array(module->arena, names->capacity, sizeof *names->entries);
    for (size_t i = 0; i < old.capacity; i++) {
        const struct name_entry *entry = &old.entries[i];
        if (entry->name) *name_slot(names, entry->name, entry->length, entry->hash) = *entry;
    }
}

/* The name's entry, made where absent (*fresh): with the text itself where `borrow`, which must
 * stay alive then, otherwise with a copy. Valid until the next call. */
static struct name_entry *name_add(struct hlo_module *module, const char *name, size_t length,
                                   bool borrow, bool *fresh) {
    struct name_table *names = module->names;
    if (2 * (names->count + 1) > names->capacity) name_grow(module);
    uint32_t hash = hash_text(name, length);
    struct name_entry *entry = name_slot(names, name, length, hash);
    *fresh = entry->name == NULL;
    if (*fresh) {
        if (!borrow) name = arena_strndup(module->arena, name, length);
        *entry = (struct name_entry){name, hash, (uint32_t)length, 1};
        names->count++;
    }
    return entry;
}

void module_reserve_name(struct hlo_module *module, const char *name) {
    bool fresh;
    name_add(module, name, strlen(name), true, &fresh);
}

/* `add.3` counts on from the base `add`, so that names do not grow .1.1.1. */
static size_t stem_length(const char *base, size_t length) {
    size_t digits = 0;
    while (digits < length && base[length - digits - 1] >= '0' && base[length - digits - 1] <= '9')
        digits++;
    bool numbered = digits > 0 && digits + 1 < length && base[length - digits - 1] == '.';
    return numbered ? length - digits - 1 : length;
}

const char *module_unique_name(struct hlo_module *module, const char *base) {
    size_t length = strlen(base);
    bool fresh;
    struct name_entry *entry = name_add(module, base, length, false, &fresh);
    if (fresh) return entry->name;
    size_t stem = stem_length(base, length);
    char *name = arena_alloc(module->arena, stem + 16);
    memcpy(name, base, stem);
    entry = name_add(module, base, stem, false, &fresh);
    for (int number = entry->next;; number++) {
        int digits = snprintf(name + stem, 16, ".%d", number);
        name_add(module, name, stem + (size_t)digits, true, &fresh);
        if (!fresh) continue;
        name_add(module, base, stem, false, &fresh)->next = number + 1;
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
    module->names = arena_alloc(arena, sizeof *module->names);
    module->names->capacity = 64;
    module->names->entries = arena_array(arena, 64, sizeof *module->names->entries);
    return module;
}

void module_free(struct hlo_module *module) {
    if (!module) return;
    for (int i = 0; i < module->nliterals; i++)
        literal_unref(module->literals[i]);
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
        module_reserve_name(module, computation->name);
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
    int count = 0;
    FOR_EACH_INSTR(instr, computation)
    count += instr->opcode == OP_PARAMETER;
    computation->nparameters = count;
    computation->parameters =
        arena_array(computation->module->arena, (size_t)count, sizeof *computation->parameters);
    bool good = true;
    FOR_EACH_INSTR(instr, computation) {
        if (instr->opcode != OP_PARAMETER) continue;
        if (instr->parameter < 0 || instr->parameter >= count ||
            computation->parameters[instr->parameter])
            good = false;
        else
            computation->parameters[instr->parameter] = instr;
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
