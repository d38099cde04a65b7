/* Common subexpressions: one walk, a hash table of what was computed so far in the computation.
 * Within a walk operands have been replaced already, so equal expressions have equal operands.
 * Called computations (reducers, comparators, loop bodies) are equal where they read the same: each
 * points to the first of its kind, in `data`. */
#include <stdlib.h>
#include <string.h>

#include "passes/pass.h"
#include "passes/util.h"

/* ---- a table of what is first of its kind ---- */

struct table {
    void **slots; /* by hash, open addressing; NULL where there is no memory */
    uint64_t *hashes;
    size_t mask;
};

static struct table table_new(size_t most) {
    size_t size = 16;
    while (size < 2 * most)
        size *= 2;
    struct table table = {calloc(size, sizeof *table.slots), calloc(size, sizeof *table.hashes),
                          size - 1};
    if (table.slots && table.hashes) return table;
    free(table.slots);
    free(table.hashes);
    return (struct table){0};
}

static void table_free(struct table *table) {
    free(table->slots);
    free(table->hashes);
}

/* The earlier one that is the same, or NULL, and then the table has this one. */
static void *find_or_add(struct table *table, uint64_t hash, void *what,
                         bool (*same)(const void *, const void *)) {
    size_t slot = hash & table->mask;
    for (; table->slots[slot]; slot = (slot + 1) & table->mask)
        if (table->hashes[slot] == hash && same(table->slots[slot], what))
            return table->slots[slot];
    table->slots[slot] = what;
    table->hashes[slot] = hash;
    return NULL;
}

/* ---- instructions ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_bytes(uint64_t hash, const unsigned char *data, size_t size) {
    enum { MOST = 4096 }; /* equal literals are compared in full anyway */
    if (size > MOST) size = MOST;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, data + i, 8);
        hash = mix(hash, word);
    }
    for (size_t i = size & ~(size_t)7; i < size; i++)
        hash = mix(hash, data[i]);
    return hash;
}

static bool is_commutative(const struct hlo_instr *instr) {
    return instr->noperands == 2 && (opcode_info(instr->opcode)->flags & OP_FLAG_COMMUTATIVE) != 0;
}

static uint64_t hash_attrs(const struct hlo_instr *instr) {
    uint64_t sum = 0; /* attributes may stand in any order */
    for (int i = 0; i < instr->nattrs; i++) {
        const struct hlo_attr *attr = &instr->attrs[i];
        uint64_t hash = mix(1, attr->key);
        switch (attr_kind(attr->key)) {
        case ATTR_KIND_INT:
        case ATTR_KIND_ENUM:
        case ATTR_KIND_BOOL: hash = mix(hash, (uint64_t)attr->i); break;
        case ATTR_KIND_INTS:
            hash = hash_bytes(hash, (const void *)attr->ints->v,
                              (size_t)attr->ints->count * sizeof *attr->ints->v);
            break;
        case ATTR_KIND_SLICES:
            hash = hash_bytes(hash, (const void *)attr->slices->v,
                              (size_t)attr->slices->count * sizeof *attr->slices->v);
            break;
        default: break;
        }
        sum += hash;
    }
    return sum;
}

static const struct hlo_computation *first_of_kind(const struct hlo_computation *computation) {
    return computation->data ? computation->data : computation;
}

/* All but the operands. */
static uint64_t hash_operation(const struct hlo_instr *instr) {
    uint64_t hash = mix(instr->opcode, (uintptr_t)instr->shape);
    for (int i = 0; i < instr->ncalled; i++)
        hash = mix(hash, (uint64_t)first_of_kind(instr->called[i])->id);
    hash = mix(hash, hash_attrs(instr));
    if (instr->literal && instr->literal->data)
        hash = hash_bytes(hash, instr->literal->data, instr->literal->size);
    return hash;
}

/* What tells an operand from others: in its computation, or anywhere. */
static int64_t name_of(const struct hlo_instr *operand, bool by_mark) {
    return by_mark ? operand->mark : operand->id;
}

static uint64_t hash_operands(uint64_t hash, const struct hlo_instr *instr, bool by_mark) {
    if (is_commutative(instr))
        return mix(hash, (uint64_t)name_of(instr->operands[0], by_mark) +
                             (uint64_t)name_of(instr->operands[1], by_mark));
    for (int i = 0; i < instr->noperands; i++)
        hash = mix(hash, (uint64_t)name_of(instr->operands[i], by_mark));
    return hash;
}

static bool same_operand(const struct hlo_instr *a, int i, const struct hlo_instr *b, int j,
                         bool by_mark) {
    return name_of(a->operands[i], by_mark) == name_of(b->operands[j], by_mark);
}

static bool same_operands(const struct hlo_instr *a, const struct hlo_instr *b, bool by_mark) {
    if (is_commutative(a) && same_operand(a, 0, b, 1, by_mark) && same_operand(a, 1, b, 0, by_mark))
        return true;
    for (int i = 0; i < a->noperands; i++)
        if (!same_operand(a, i, b, i, by_mark)) return false;
    return true;
}

static bool same_operation(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (!instr_same_operation(a, b)) return false;
    for (int i = 0; i < a->ncalled; i++)
        if (first_of_kind(a->called[i]) != first_of_kind(b->called[i])) return false;
    if (a->opcode == OP_CONSTANT)
        return a->literal && b->literal && !literal_has_elided(a->literal) &&
               literal_equal(a->literal, b->literal);
    return true;
}

static bool same_value(const void *a, const void *b) {
    return same_operation(a, b) && same_operands(a, b, false);
}

static bool may_merge(const struct hlo_instr *instr) {
    switch (instr->opcode) {
    case OP_PARAMETER:
    case OP_OPT_BARRIER: /* there to keep things apart */
    case OP_COPY:
    case OP_AFTER_ALL: return false;
    default: return instr->ncontrol == 0 && !instr_has_side_effect(instr);
    }
}

static bool run_computation(struct pass_context *context, struct hlo_computation *computation) {
    struct table table = table_new((size_t)computation->count);
    bool changed = false;
    if (!table.slots) return false;
    FOR_EACH_INSTR(instr, computation) {
        if (!may_merge(instr)) continue;
        uint64_t hash = hash_operands(hash_operation(instr), instr, false);
        struct hlo_instr *earlier = find_or_add(&table, hash, instr, same_value);
        if (!earlier || (!instr_has_users(instr) && computation->root != instr)) continue;
        if (!pass_may_rewrite(context)) break;
        instr_replace_uses(instr, earlier);
        if (!instr->users) instr_remove(instr);
        changed = true;
    }
    table_free(&table);
    return changed;
}

/* ---- computations that are equal ---- */

enum { MOST_INSTRUCTIONS = 256 }; /* in a computation that is compared with others */

/* Numbers the instructions, in mark, as the operands of a hash or a comparison. */
static uint64_t hash_computation(struct hlo_computation *computation) {
    uint64_t hash = mix(computation->root->opcode, (uint64_t)computation->count);
    int number = 0;
    FOR_EACH_INSTR(instr, computation) {
        instr->mark = number++;
        hash = mix(hash, hash_operation(instr) + (uint64_t)instr->parameter);
        hash = hash_operands(hash, instr, true);
    }
    return hash;
}

static bool same_instr(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (!same_operation(a, b) || a->ncontrol || b->ncontrol) return false;
    return (a->opcode != OP_PARAMETER || a->parameter == b->parameter) && same_operands(a, b, true);
}

static bool same_computation(const void *one, const void *other) {
    const struct hlo_computation *a = one, *b = other;
    const struct hlo_instr *x = a->first, *y = b->first;
    if (a->count != b->count || a->nparameters != b->nparameters) return false;
    for (; x && y; x = x->next, y = y->next)
        if (!same_instr(x, y)) return false;
    return a->root->mark == b->root->mark;
}

static void find_kind(struct table *kinds, struct hlo_computation *computation) {
    if (computation->mark || computation->count > MOST_INSTRUCTIONS) return;
    uint64_t hash = hash_computation(computation);
    computation->data = find_or_add(kinds, hash, computation, same_computation);
}

bool cse_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    size_t count = 0;
    module_sort_computations(module);
    mark_side_effects(module);
    FOR_EACH_COMPUTATION(computation, module) {
        computation->data = NULL;
        count++;
    }
    struct table kinds = table_new(count);
    FOR_EACH_COMPUTATION(computation, module) {
        changed |= run_computation(context, computation);
        if (kinds.slots) find_kind(&kinds, computation);
    }
    table_free(&kinds);
    return changed;
}
