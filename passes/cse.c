/* Common subexpressions: one walk, a hash table of what was computed so far in the computation.
 * Within a walk operands have been replaced already, so equal expressions have equal operands.
 * Called computations (reducers, comparators, loop bodies) are equal where they read the same: each
 * points to the first of its kind, in `data`. */
#include <stdlib.h>
#include <string.h>

#include "passes/pass.h"
#include "passes/util.h"

struct table {
    struct hlo_instr **slots; /* by hash, open addressing */
    uint64_t *hashes;
    size_t mask;
};

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

static uint64_t hash_instr(const struct hlo_instr *instr) {
    uint64_t hash = hash_operation(instr);
    if (is_commutative(instr))
        return mix(hash, (uint64_t)instr->operands[0]->id + (uint64_t)instr->operands[1]->id);
    for (int i = 0; i < instr->noperands; i++)
        hash = mix(hash, (uint64_t)instr->operands[i]->id);
    return hash;
}

static bool same_operands(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (is_commutative(a) && a->operands[0] == b->operands[1] && a->operands[1] == b->operands[0])
        return true;
    for (int i = 0; i < a->noperands; i++)
        if (a->operands[i] != b->operands[i]) return false;
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

static bool same_value(const struct hlo_instr *a, const struct hlo_instr *b) {
    return same_operation(a, b) && same_operands(a, b);
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

/* The earlier instruction of the same value, or NULL, and then the table has this one. */
static struct hlo_instr *find_or_add(struct table *table, struct hlo_instr *instr) {
    uint64_t hash = hash_instr(instr);
    size_t slot = hash & table->mask;
    for (; table->slots[slot]; slot = (slot + 1) & table->mask)
        if (table->hashes[slot] == hash && same_value(table->slots[slot], instr))
            return table->slots[slot];
    table->slots[slot] = instr;
    table->hashes[slot] = hash;
    return NULL;
}

static bool run_computation(struct pass_context *context, struct hlo_computation *computation) {
    size_t size = 16;
    while (size < 2 * (size_t)computation->count)
        size *= 2;
    struct table table = {calloc(size, sizeof *table.slots), calloc(size, sizeof *table.hashes),
                          size - 1};
    bool changed = false;
    if (table.slots && table.hashes) {
        FOR_EACH_INSTR(instr, computation) {
            if (!may_merge(instr)) continue;
            struct hlo_instr *earlier = find_or_add(&table, instr);
            if (!earlier || (!instr_has_users(instr) && computation->root != instr)) continue;
            if (!pass_may_rewrite(context)) break;
            instr_replace_uses(instr, earlier);
            if (!instr->users) instr_remove(instr);
            changed = true;
        }
    }
    free(table.slots);
    free(table.hashes);
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
        if (is_commutative(instr)) {
            int sum = instr->operands[0]->mark + instr->operands[1]->mark;
            hash = mix(hash, (uint64_t)sum);
            continue;
        }
        for (int i = 0; i < instr->noperands; i++)
            hash = mix(hash, (uint64_t)instr->operands[i]->mark);
    }
    return hash;
}

static bool same_marks(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (is_commutative(a) && a->operands[0]->mark == b->operands[1]->mark &&
        a->operands[1]->mark == b->operands[0]->mark)
        return true;
    for (int i = 0; i < a->noperands; i++)
        if (a->operands[i]->mark != b->operands[i]->mark) return false;
    return true;
}

static bool same_instr(const struct hlo_instr *a, const struct hlo_instr *b) {
    if (!same_operation(a, b) || a->ncontrol || b->ncontrol) return false;
    return (a->opcode != OP_PARAMETER || a->parameter == b->parameter) && same_marks(a, b);
}

static bool same_computation(const struct hlo_computation *a, const struct hlo_computation *b) {
    const struct hlo_instr *x = a->first, *y = b->first;
    if (a->count != b->count || a->nparameters != b->nparameters) return false;
    for (; x && y; x = x->next, y = y->next)
        if (!same_instr(x, y)) return false;
    return a->root->mark == b->root->mark;
}

struct kinds {
    struct hlo_computation **slots; /* the first of each kind, by hash, open addressing */
    uint64_t *hashes;
    size_t mask;
};

static void find_kind(struct kinds *kinds, struct hlo_computation *computation) {
    computation->data = NULL;
    if (computation->mark || computation->count > MOST_INSTRUCTIONS) return;
    uint64_t hash = hash_computation(computation);
    size_t slot = hash & kinds->mask;
    for (; kinds->slots[slot]; slot = (slot + 1) & kinds->mask) {
        if (kinds->hashes[slot] != hash || !same_computation(kinds->slots[slot], computation))
            continue;
        computation->data = kinds->slots[slot];
        return;
    }
    kinds->slots[slot] = computation;
    kinds->hashes[slot] = hash;
}

bool cse_run(struct pass_context *context, struct hlo_module *module) {
    bool changed = false;
    size_t size = 16, count = 0;
    module_sort_computations(module);
    mark_side_effects(module);
    FOR_EACH_COMPUTATION(computation, module) {
        computation->data = NULL;
        count++;
    }
    while (size < 2 * count)
        size *= 2;
    struct kinds kinds = {calloc(size, sizeof *kinds.slots), calloc(size, sizeof *kinds.hashes),
                          size - 1};
    FOR_EACH_COMPUTATION(computation, module) {
        changed |= run_computation(context, computation);
        if (kinds.slots && kinds.hashes) find_kind(&kinds, computation);
    }
    free(kinds.slots);
    free(kinds.hashes);
    return changed;
}
