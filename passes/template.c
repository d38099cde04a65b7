#include "passes/template.h"

#include <ctype.h>
#include <string.h>

#include "ir/literal.h"
#include "ir/parse.h"

/* ---- filling in ---- */

struct text {
    struct arena *arena;
    char *data;
    int length, capacity;
};

static void append(struct text *out, const char *data, size_t length) {
    out->data = arena_grow(out->arena, out->data, &out->capacity, out->length + (int)length + 1, 1);
    memcpy(out->data + out->length, data, length);
    out->length += (int)length;
    out->data[out->length] = '\0';
}

static const struct template_word *word_at(const char *name, const struct template_word *words,
                                           int count) {
    const struct template_word *best = NULL;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(words[i].name);
        if (strncmp(name, words[i].name, length)) continue;
        if (!best || length > strlen(best->name)) best = &words[i];
    }
    return best;
}

/* Behind the bracket that closes the one at `text`; NULL where none does. */
static const char *closing(const char *text) {
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '(') - (*text == ')');
        if (depth == 0) return text + 1;
    }
    return NULL;
}

static void append_with(struct text *out, const char *text, const char *argument) {
    for (const char *at; (at = strchr(text, '%')); text = at + 1) {
        append(out, text, (size_t)(at - text));
        append(out, argument, strlen(argument));
    }
    append(out, text, strlen(text));
}

const char *template_fill(struct arena *arena, const char *text, const struct template_word *words,
                          int count) {
    struct text out = {.arena = arena};
    append(&out, "", 0);
    for (const char *at; (at = strchr(text, '$'));) {
        const struct template_word *word = word_at(at + 1, words, count);
        append(&out, text, (size_t)(at - text) + !word);
        text = at + 1;
        if (!word) continue;
        text += strlen(word->name);
        const char *end = strchr(word->text, '%') && *text == '(' ? closing(text) : NULL;
        const char *filled = template_fill(arena, word->text, words, count);
        if (!end) {
            append(&out, filled, strlen(filled));
            continue;
        }
        const char *argument = arena_strndup(arena, text + 1, (size_t)(end - text) - 2);
        append_with(&out, filled, template_fill(arena, argument, words, count));
        text = end;
    }
    append(&out, text, strlen(text));
    return out.data;
}

/* ---- importing ---- */

static const struct shape *shape_in(struct hlo_module *module, const struct shape *shape) {
    if (shape_is_tuple(shape)) {
        const struct shape **parts =
            arena_array(module->arena, (size_t)shape->ntuple + 1, sizeof *parts);
        for (int i = 0; i < shape->ntuple; i++)
            parts[i] = shape_in(module, shape->tuple[i]);
        return shape_tuple(module->shapes, shape->ntuple, parts);
    }
    if (!shape_is_array(shape)) return shape_token(module->shapes);
    return shape_array(module->shapes, shape->type, shape->rank, shape->dims);
}

static struct literal *literal_in(struct hlo_module *module, const struct literal *from) {
    struct literal *literal = literal_new(shape_in(module, from->shape));
    if (literal && from->size) memcpy(literal->data, from->data, from->size);
    return literal ? module_own_literal(module, literal) : NULL;
}

static struct hlo_instr *instr_in(struct hlo_computation *into, const struct hlo_instr *from,
                                  const struct hlo_instr *origin) {
    struct hlo_module *module = into->module;
    struct hlo_instr **operands =
        arena_array(module->arena, (size_t)from->noperands + 1, sizeof *operands);
    for (int i = 0; i < from->noperands; i++)
        operands[i] = from->operands[i]->data;
    struct hlo_instr *copy = instr_new(into, NULL, from->opcode, shape_in(module, from->shape),
                                       from->name, from->noperands, operands);
    for (int i = 0; i < from->nattrs; i++)
        instr_set_attr(copy, &from->attrs[i]);
    copy->ncalled = from->ncalled;
    copy->called = arena_array(module->arena, (size_t)from->ncalled + 1, sizeof *copy->called);
    for (int i = 0; i < from->ncalled; i++)
        copy->called[i] = from->called[i]->data;
    copy->parameter = from->parameter;
    if (from->literal) copy->literal = literal_in(module, from->literal);
    copy->metadata = origin->metadata;
    copy->loc = origin->loc;
    return copy;
}

struct hlo_computation *template_import(struct hlo_module *module, const char *text,
                                        const struct hlo_instr *origin, struct diag *diag) {
    struct diag own;
    diag_init(&own, "template", text, strlen(text));
    struct hlo_module *from = hlo_parse(&own);
    if (!from) {
        diag_instr_error(diag, origin, "what stands for this operation is no HLO: %s",
                         own.count ? own.messages[0].text : "");
        diag_clear(&own);
        return NULL;
    }
    diag_clear(&own);
    arena_keep(module->arena, from->arena); /* attributes are shared */
    struct hlo_computation *entry = NULL;
    module_sort_computations(from);
    FOR_EACH_COMPUTATION(computation, from) {
        struct hlo_computation *copy = computation_new(module, computation->name, true);
        FOR_EACH_INSTR(instr, computation) instr->data = instr_in(copy, instr, origin);
        computation_index_parameters(copy);
        computation_set_root(copy, computation->root->data);
        computation->data = copy;
        if (computation == from->entry) entry = copy;
    }
    module_free(from);
    return entry;
}

bool template_replace(struct hlo_instr *instr, const char *text, int count,
                      struct hlo_instr *const *more, struct diag *diag) {
    struct hlo_module *module = instr->parent->module;
    struct hlo_computation *body = template_import(module, text, instr, diag);
    int n = instr->noperands;
    if (!body) return false;
    struct hlo_instr **operands =
        arena_array(module->arena, (size_t)(n + count) + 1, sizeof *operands);
    if (n) memcpy(operands, instr->operands, (size_t)n * sizeof *operands);
    if (count) memcpy(operands + n, more, (size_t)count * sizeof *operands);
    struct hlo_instr *call =
        instr_new(instr->parent, instr, OP_CALL, instr->shape, NULL, n + count, operands);
    instr_set_called(call, 1, &body);
    call->metadata = instr->metadata;
    call->loc = instr->loc;
    instr_replace_uses(instr, call);
    instr_remove(instr);
    return true;
}
